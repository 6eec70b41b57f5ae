# SPDX-License-Identifier: Apache-2.0
"""What a portable state calls to make its objects anew. The names here are part of the format: they stay.

Nothing in here runs code of the session's cells: functions and classes are made of what they consist of.
"""

import sys
from types import CellType, FunctionType

from .states_code import Finder, python

_Module = type(sys)


class Context:
    """The restore that is under way, for the functions below: pickle gives them nothing but their arguments."""

    namespace = None  # of the session
    finder = None
    directories = ()  # [(name, path)] of those that every session has

    @classmethod
    def begin(cls, namespace, sources, directories):
        """Before the first object is made."""
        cls.namespace, cls.finder, cls.directories = namespace, Finder(sources), directories

    @classmethod
    def end(cls):
        """After the last one."""
        cls.namespace = cls.finder = None


class Lost:
    """Stands where something is that could not be had; the variables that lead to it are not restored."""

    why = "something in it could not be restored"

    def __new__(cls, *_arguments, **_named):
        return object.__new__(cls)

    def __init__(self, *_arguments, **_named):
        pass

    def __setstate__(self, _state):
        pass

    def __setitem__(self, _key, _value):
        pass

    def __call__(self, *_arguments, **_named):
        return Lost()

    append = extend = add = update = __setstate__

    def __reduce__(self):
        raise TypeError(self.why)


def import_module(name):
    """A module, by its name."""
    __import__(name)
    return sys.modules[name]


def make_module(name):
    """One that the session made itself."""
    return _Module(name)


def set_module(module, state):
    """Its content."""
    module.__dict__.update(state)


def code(version, data, described):
    """A code object."""
    if version == python():
        import marshal

        return marshal.loads(data)  # noqa: S302 - of this session's own state, inside its guest
    return Context.finder.find(described)


def make_cell():
    """An empty one."""
    return CellType()


def set_cell(cell, state):
    """What it holds."""
    (cell.cell_contents,) = state


def function(code, where, name, cells):
    """A function without its attributes. ``where`` are its globals: None for the session's, a module's name, a dict."""
    if where is None:
        space = Context.namespace
    elif type(where) is str:
        space = import_module(where).__dict__
    else:
        (space,) = where
    return FunctionType(code, space, name, None, cells)


_ATTRIBUTES = {
    "defaults": "__defaults__",
    "kwdefaults": "__kwdefaults__",
    "annotations": "__annotations__",
    "doc": "__doc__",
    "module": "__module__",
    "qualname": "__qualname__",
    "type_params": "__type_params__",
}


def set_function(made, state):
    """Its attributes."""
    for name, value in state.items():
        if name == "dict":
            made.__dict__.update(value)
        elif hasattr(made, _ATTRIBUTES[name]):  # not every Python has all
            setattr(made, _ATTRIBUTES[name], value)


class _Quiet:
    """Keeps ``__init_subclass__`` of the bases from running: it has run when the class was made first."""

    def __init__(self, bases):
        self._found = []
        for base in {one for top in bases for one in top.__mro__ if one is not object}:
            method = base.__dict__.get("__init_subclass__")
            if method is not None:
                self._found.append((base, method))

    def __enter__(self):
        quiet = classmethod(lambda cls, **_named: None)
        for base, _method in list(self._found):
            try:
                type.__setattr__(base, "__init_subclass__", quiet)
            except TypeError:  # a class of the interpreter's own
                self._found.remove((base, _method))

    def __exit__(self, *_exception):
        for base, method in self._found:
            type.__setattr__(base, "__init_subclass__", method)


def make_class(metaclass, name, bases, first):
    """A class with what it must have from the beginning; not by its metaclass, which may be the session's code."""
    with _Quiet(bases):
        return type.__new__(metaclass, name, bases, dict(first))


def set_class(made, state):
    """The rest of it."""
    attributes, registered = state
    for name, value in attributes.items():
        type.__setattr__(made, name, value)
    abc = sys.modules.get("abc")
    if abc is not None and isinstance(made, abc.ABCMeta):
        import _abc

        _abc._abc_init(made)  # noqa: SLF001 - what ABCMeta.__new__ does
        for other in registered:
            abc.ABCMeta.register(made, other)


def make_member(cls, kind, arguments):
    """A member of an enumeration."""
    return kind.__new__(cls, *arguments)


def make_array(typecode, itemsize, byteorder, machine_format, content):
    """An array; of another machine's format if need be."""
    from array import _array_reconstructor, array

    made = array(typecode)
    if made.itemsize == itemsize and sys.byteorder == byteorder:
        made.frombytes(content)
        return made
    return _array_reconstructor(array, typecode, machine_format, bytes(content))


def attribute(holder, name):
    """Something that is found by its name."""
    return getattr(holder, name)


def make_lock(kind):
    """An open lock."""
    import _thread

    return _thread.RLock() if kind == "RLock" else _thread.allocate_lock()


def reference(target):
    """A weak reference; without what was to be called when its target goes."""
    import weakref

    return weakref.ref(target)


def dead_reference():
    """A weak reference to something that is gone."""
    import weakref

    return weakref.ref(Lost())


def make_match(pattern, text, start, end):
    """A match, found again where it was."""
    return pattern.match(text, start, end)


def dict_view(mapping, kind):
    """Of keys, values or items."""
    return getattr(dict, kind)(mapping)


def make_cache(function, parameters):
    """A function behind functools.lru_cache, which remembers nothing."""
    import functools

    return functools.lru_cache(**parameters)(function)


def make_cached_property(function, name, doc):
    """functools.cached_property with its name, which a class gives it."""
    import functools

    made = functools.cached_property(function)
    made.attrname, made.__doc__ = name, doc
    return made


def make_type_variable(name, constraints, options):
    """A TypeVar."""
    import typing

    return typing.TypeVar(name, *constraints, **options)


def make_new_type(name, supertype, module):
    """A typing.NewType."""
    import typing

    made = typing.NewType(name, supertype)
    made.__module__ = module
    return made


def open_file(place, mode, offset, options):
    """A file of the session, opened again where it was; nothing of it is cut off."""
    import os

    from .states_files import path_of

    path = path_of(place, Context.directories)

    def opener(path, flags):
        return os.open(path, flags & ~(os.O_TRUNC | os.O_EXCL), 0o666)

    file = open(path, mode, opener=opener, **options)
    if offset is not None:
        file.seek(offset)
    return file


def closed_file(name, mode, options):
    """A file that was closed, and knows its name still."""
    import os

    file = open(name, mode, opener=lambda _path, _flags: os.open(os.devnull, os.O_RDWR), **options)
    file.close()
    return file
