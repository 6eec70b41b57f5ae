# SPDX-License-Identifier: Apache-2.0
"""The session's variables: what the code sees as `context`, and what the host may read, set and clear."""

from _collections_abc import MutableMapping
from itertools import islice

from . import jsontext
from .text import bounded_repr, class_name

NAMES_MAX = 200
_NAMES_SCAN_MAX = 2 * NAMES_MAX + 20
_NAME_MAX = 200  # characters
_TOTAL_MAX = 1 << 20
_JSON_MAX = 64 << 10
_REPR_MAX = 64 << 10
_SCAN_MAX = 100_000
_Module = type(jsontext)


def is_variable(name, value):
    """Dunder names and imported modules are not variables."""
    if type(name) is not str or type(value) is _Module:
        return False
    return not (name.startswith("__") and name.endswith("__"))


def names(namespace):
    """The first names of variables, in the order in which they came to be."""
    for _attempt in range(3):
        try:
            found = [
                name
                for name, value in islice(namespace.items(), _NAMES_SCAN_MAX)
                if type(value) is not _Module and type(name) is str and not (name[:2] == "__" and name[-2:] == "__")
            ]
            break
        except RuntimeError:  # a thread of the user's changed it meanwhile
            continue
    else:
        return []
    if len("".join(found)) > _NAME_MAX or not "".join(found).isidentifier():
        found = [jsontext.clean(name) for name in found if len(name) <= _NAME_MAX and "\0" not in name]
    return found[:NAMES_MAX]


def tell(value):
    """{"type", "repr", "json"} of one variable; "json" only if the value has a JSON form of moderate size."""
    told = {"type": class_name(type(value)), "repr": jsontext.clean(bounded_repr(value, _REPR_MAX))}
    if jsontext.dumps_value(value, _JSON_MAX) is not None:
        told["json"] = value
    return told


def get(namespace, wanted):
    """({name: what tell() says}, how many did not fit)."""
    if wanted is None:
        items = [pair for pair in islice(list(namespace.items()), _SCAN_MAX) if is_variable(*pair)]
    else:
        items = [(name, namespace[name]) for name in wanted if type(name) is str and name in namespace]
    out, left = {}, _TOTAL_MAX
    for position, (name, value) in enumerate(items):
        if "\0" in name or len(name) > _NAME_MAX or jsontext.clean(name) != name:
            continue  # no name that JSON objects of every reader can hold
        told = tell(value)
        left -= len(jsontext.dumps(told)) + 6 * len(name) + 8
        if left < 0:
            return out, len(items) - position
        out[name] = told
    return out, 0


class Context(MutableMapping):
    """The session's variables as a mapping: `context["name"]`, also for names that are no identifiers."""

    def __init__(self, namespace):
        self._namespace = namespace

    def __getitem__(self, name):
        value = self._namespace[name]
        if not is_variable(name, value):
            raise KeyError(name)
        return value

    def __setitem__(self, name, value):
        if not isinstance(name, str):
            raise TypeError(f"names of variables are strings, not {type(name).__name__}")
        if name.startswith("__") and name.endswith("__"):
            raise KeyError(f"{name!r}: names with two underscores at both ends are not variables")
        self._namespace[name] = value

    def __delitem__(self, name):
        self[name]
        del self._namespace[name]

    def __iter__(self):
        return iter([name for name, value in list(self._namespace.items()) if is_variable(name, value)])

    def __len__(self):
        return sum(1 for _name in self)

    def __repr__(self):
        return f"context({bounded_repr(dict(self))})"
