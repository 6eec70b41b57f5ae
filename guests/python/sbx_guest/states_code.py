# SPDX-License-Identifier: Apache-2.0
"""Code objects in a portable state: as byte code for the same Python, else found again in the source of its cell.

The source is compiled then, and never run.
"""

import marshal
import sys

_TOP_LEVEL_AWAIT = 0x2000  # PyCF_ALLOW_TOP_LEVEL_AWAIT
_KINDS = 0x2AC  # CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_MARSHAL = 2  # the newest format whose bytes do not depend on who else refers to the constants


def python():
    """What must be the same for byte code to be of use."""
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    return f"{sys.implementation.cache_tag} {magic.hex()}"


def describe(code):
    """What a code object of another Python is recognised by."""
    count = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_filename,
        code.co_name,
        code.co_firstlineno,
        code.co_flags & _KINDS,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        code.co_varnames[:count],
        code.co_freevars,
    )


def dumps(code):
    """Its byte code."""
    try:
        return marshal.dumps(code, _MARSHAL)
    except ValueError:  # constants of a kind that came later
        return marshal.dumps(code)


class Finder:
    """Finds code by its description in sources, by their file names."""

    def __init__(self, sources):
        self._sources = sources
        self._compiled = {}

    def find(self, described):
        """The code object. LookupError when there is none, or more than one."""
        filename = described[0]
        if filename not in self._compiled:
            self._compiled[filename] = self._compile(filename)
        found = self._compiled[filename].get(described, [])
        if len(found) != 1:
            raise LookupError(f"{described[1]} is not to be found in the source {filename}, line {described[2]}")
        return found[0]

    def _compile(self, filename):
        text = self._sources.get(filename)
        if text is None:
            raise LookupError(f"its byte code is of another Python, and the source {filename} was not kept")
        pending = [compile(text, filename, "exec", _TOP_LEVEL_AWAIT, True)]
        kind = type(pending[0])
        found = {}
        while pending:
            code = pending.pop()
            found.setdefault(describe(code), []).append(code)
            pending.extend(constant for constant in code.co_consts if type(constant) is kind)
        return found
