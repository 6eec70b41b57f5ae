# SPDX-License-Identifier: Apache-2.0
"""Portable states of Python: variables, the sources of what they are made of, imports, paths and the environment."""

import builtins
import gc
import os
import sys

from . import variables
from .states import States, change_environment, environment_changes
from .states_build import Context, Lost
from .states_files import path_of, place_of
from .states_parts import OWN_SIZE
from .states_pickler import refusal
from .states_restore import Buffers, Restored
from .states_values import Problem, Values

_STANDARD = ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__", "__warningregistry__")
_SUBMODULES_MAX = 2000
_DEPTH_MAX = 0 if sys.platform == "wasi" else 10_000  # takes 3 of the 8 MiB that a stack usually has


class _Deeper:
    """Lets pickle follow links deeper than Python's functions may call each other: three steps for each object."""

    def __enter__(self):
        self._limit = sys.getrecursionlimit()
        if _DEPTH_MAX > self._limit:
            sys.setrecursionlimit(_DEPTH_MAX)

    def __exit__(self, *_exception):
        sys.setrecursionlimit(self._limit)


class PythonStates(States):
    """One for each session."""

    language = "python"

    def __init__(self, session):
        super().__init__(session)
        self._sizes = {}  # of variables in the last state
        self._bad = {}  # those that were not in it

    # ---- saving ----

    def gather(self, index, parts, unsaved, budget):
        """Pickles the variables, and adds what they need."""
        self.session.memory.renew()  # it is lifted after an end for want of memory
        namespace = self.session.namespace
        known = self._known()
        values = Values(namespace, list(known.values()), parts, budget)
        values.directories = self.directories(unsaved)
        items = [pair for pair in list(namespace.items()) if type(pair[0]) is str and pair[0] not in _STANDARD]
        order = [name for name, _value in items]
        with _Deeper():
            values.tell(self._sort(items, values))
        unsaved += [problem.tell() for problem in values.problems]
        index["known"] = list(known)
        index["stream"], index["buffers"] = values.add_parts()
        index["variables"] = values.told
        told = {item[0] for item in values.told}
        index["order"] = [name for name in order if name in told]
        index["sources"] = self._sources(values.pickler.sources)
        index["modules"] = _submodules(values.pickler.packages)
        self._tell_surroundings(index)
        self._sizes = values.sizes
        bad = {problem.name for problem in values.problems}
        self._bad = {name: id(namespace.get(name)) for name in bad}
        return sum(variables.is_variable(name, namespace.get(name)) for name in told)

    def _sort(self, items, values):
        """Large ones first, not to be moved by what changes; those that could not be told last time are tried alone."""
        good, doubtful = [], []
        for name, value in items:
            reason = refusal(value)
            if reason is not None:
                values.problems.append(Problem(name, value, reason))
            elif self._bad.get(name) == id(value):
                doubtful.append((name, value))
            else:
                good.append((name, value))
        if doubtful:
            good += values.sort_out(doubtful)
        if self._sizes:
            good.sort(key=lambda item: self._sizes.get(item[0], 0) < OWN_SIZE)
        return good

    def _known(self):
        """Objects that every session has, by the names that states have for them."""
        session = self.session
        found = {
            "lost": Lost,
            "namespace": session.namespace,
            "module": session.module,
            "builtins": builtins.__dict__,
            "context": session.context,
            "environ": os.environ,
            "modules": sys.modules,
            "path": sys.path,
            "stdin": sys.stdin,
            "stdout": sys.stdout,
            "stderr": sys.stderr,
            "display": builtins.__dict__.get("display"),
            **{f"builtins.{name}": value for name, value in session.tools.builtins.items()},
        }
        once = {id(value): name for name, value in reversed(found.items()) if value is not None}
        return {name: value for name, value in found.items() if once.get(id(value)) == name}

    def _sources(self, filenames):
        lines = self.session.sources.lines
        return {name: "".join(lines[name]) for name in sorted(filenames) if name in lines}

    def _tell_surroundings(self, index):
        session = self.session
        index["environment"] = environment_changes(session.environment)
        index["path"] = None if sys.path == session.path else [list(session.path), [str(one) for one in sys.path]]
        try:
            here = os.getcwd()
        except OSError:  # it was removed
            here = session.workspace
        own = self.directories([])
        index["directory"] = None if here == session.workspace else place_of(os.path.realpath(here), own)

    # ---- restoring ----

    def is_fresh(self):
        """Are there no variables?"""
        return all(name in _STANDARD for name in self.session.namespace)

    def apply(self, index, given, missing, budget):
        """Makes the variables anew. Nothing of the session's cells is run for it."""
        session = self.session
        self._restore_surroundings(index)
        for name, text in index["sources"].items():
            session.sources.put_back(name, text)
        for name in index["modules"]:
            if name not in sys.modules:
                try:
                    __import__(name)
                except Exception:  # noqa: BLE001, S110 - a variable that needs it is told as missing
                    pass
        here = self._known()
        known = [here.get(name, Lost()) for name in index["known"]]
        Context.begin(session.namespace, index["sources"], self.directories([]))
        try:
            restored = Restored(session, known, budget, Buffers(given, index["buffers"]))
            pieces = (piece for number in index["stream"] for piece in _draining(given.pieces(number)))
            gc.disable()  # it would look again and again at what grows
            restored.load(index["variables"], pieces)
        finally:
            gc.enable()
            Context.end()
        for name in index["order"]:
            if name in restored.values:
                session.namespace[name] = restored.values[name]
        missing += restored.problems
        return sum(variables.is_variable(*pair) for pair in restored.values.items())

    def _restore_surroundings(self, index):
        session = self.session
        change_environment(index["environment"])
        if index["path"] is not None:
            old, new = index["path"]
            kept = [one for one in new if one not in old or one in session.path]
            sys.path[:] = kept + [one for one in session.path if one not in old and one not in kept]
        if index["directory"] is not None:
            try:
                os.chdir(path_of(index["directory"], self.directories([])))
            except OSError:
                pass  # it was not in a directory that is saved

    def names(self):
        """The names of variables, as in any result."""
        session = self.session
        session.names = variables.names(session.namespace)
        return session.names


def _draining(pieces):
    """The pieces, each let go once the next one is asked for."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()


def _submodules(names):
    """Modules of the packages that are loaded: `import a.b` binds `a` alone."""
    tops = tuple(sorted({f"{name}." for name in names if hasattr(sys.modules.get(name), "__path__")}))
    if not tops:
        return []
    found = sorted(name for name in list(sys.modules) if type(name) is str and name.startswith(tops))
    return found[:_SUBMODULES_MAX]
