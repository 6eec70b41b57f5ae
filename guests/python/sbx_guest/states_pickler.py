# SPDX-License-Identifier: Apache-2.0
"""Pickles the session's values: what pickle takes only by name, functions and classes of the session among them, is told
by what it consists of; what can't be told is refused with the reason."""

import _pickle
import _thread
import gc
import io
import os
import sys
import types
from _weakref import ReferenceType

from . import states_build as build
from . import states_code

INLINE_MAX = 64 << 10  # larger buffers stay out of the stream
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PLAIN_TYPES = (type(None), type(NotImplemented), type(Ellipsis))
_SLOT_TYPES = (types.GetSetDescriptorType, types.MemberDescriptorType)
_MISSING = object()
_RUNNING = "it is code in the middle of its work"
# Whose objects are more than what they say of themselves: by module and name, subclasses as well.
_REFUSED = {
    "subprocess.Popen": "it is a process",
    "threading.Thread": "it is a thread",
    "threading.local": "it belongs to threads",
    "multiprocessing.process.BaseProcess": "it is a process",
    "multiprocessing.pool.Pool": "it is made of processes",
    "concurrent.futures._base.Executor": "it is made of threads or processes",
    "asyncio.events.AbstractEventLoop": "it is an event loop with what waits in it",
    "_asyncio.Future": "it belongs to an event loop",
    "_asyncio.Task": _RUNNING,
    "socket.socket": "it is a connection",
    "_socket.socket": "it is a connection",
    "ssl.SSLSocket": "it is a connection",
    "selectors._BaseSelectorImpl": "it waits for descriptors",
    "mmap.mmap": "it is a mapped file",
    "sqlite3.Connection": "it is an open database",
    "sbx_guest.frames.Channel": "it belongs to the session's worker",
    "sbx_guest.session.Session": "it belongs to the session's worker",
}


class Unsaved(Exception):
    """A value that can't be told."""

    def __init__(self, value, reason):
        super().__init__(reason)
        self.kind, self.reason = type(value), reason


def _refuse(reason):
    def refused(_pickler, value):
        raise Unsaved(value, reason)

    refused.always = True
    return refused


def refusal(value):
    """Why an object of this very type can't be told, if that is known without looking further into it; else None."""
    reduce = REDUCERS.get(type(value))
    if reduce is None or not hasattr(reduce, "always"):
        return None
    try:
        return reduce(None, value)
    except Unsaved as error:
        return error


# ---- functions and what they are made of ----


def _code(_pickler, code):
    _pickler.saw_source(code.co_filename)
    return build.code, (states_code.python(), states_code.dumps(code), states_code.describe(code))


def _cell(_pickler, cell):
    try:
        content = cell.cell_contents
    except ValueError:  # empty
        return build.make_cell, ()
    return build.make_cell, (), (content,), None, None, build.set_cell


def _by_name(module, name, value):
    """Is ``value`` what this name leads to, and will another session find it so?"""
    if type(module) is not str or module == "__main__" or type(name) is not str:
        return False
    found = sys.modules.get(module)
    if found is None:
        return False
    for part in name.split("."):
        found = getattr(found, part, _MISSING)
    return found is value


def _function(pickler, function):
    if _by_name(function.__module__, function.__qualname__, function):
        return NotImplemented
    space = function.__globals__
    where = None
    if space is not pickler.namespace:
        name = space.get("__name__")
        module = sys.modules.get(name) if type(name) is str else None
        where = name if module is not None and module.__dict__ is space else (space,)
    state = {}
    if function.__defaults__:
        state["defaults"] = function.__defaults__
    if function.__kwdefaults__:
        state["kwdefaults"] = function.__kwdefaults__
    try:
        if function.__annotations__:
            state["annotations"] = function.__annotations__
    except Exception:  # noqa: BLE001, S110 - evaluated late, by code that may fail
        pass
    if function.__dict__:
        state["dict"] = function.__dict__
    code = function.__code__
    if function.__doc__ is not None:
        state["doc"] = function.__doc__
    if function.__module__ != space.get("__name__"):
        state["module"] = function.__module__
    if function.__qualname__ != function.__name__:
        state["qualname"] = function.__qualname__
    if getattr(function, "__type_params__", ()):
        state["type_params"] = function.__type_params__
    return build.function, (code, where, function.__name__, function.__closure__), state, None, None, build.set_function


def _method(_pickler, method):
    return types.MethodType, (method.__func__, method.__self__)


def _property(_pickler, value):
    return property, (value.fget, value.fset, value.fdel, value.__doc__)


def _wrapped(_pickler, value):
    return type(value), (value.__func__,)


def _mapping_proxy(_pickler, value):
    return types.MappingProxyType, (dict(value),)


def _module(pickler, module):
    name = module.__dict__.get("__name__")
    if type(name) is str and sys.modules.get(name) is module and name != "__main__":
        if getattr(module, "__spec__", None) is not None:
            pickler.packages.add(name)
            return build.import_module, (name,)
    content = {key: value for key, value in module.__dict__.items() if key != "__builtins__"}
    return build.make_module, (str(name),), content, None, None, build.set_module


def _reference(_pickler, reference):
    target = reference()
    return (build.dead_reference, ()) if target is None else (build.reference, (target,))


# ---- data ----


def _array(_pickler, value):
    empty = type(value)(value.typecode)
    machine_format = empty.__reduce_ex__(3)[1][2]
    content = _pickle.PickleBuffer(value)
    return build.make_array, (value.typecode, value.itemsize, sys.byteorder, machine_format, content)


def _memory_view(_pickler, view):
    if view.obj is None or type(view.obj) not in (bytes, bytearray) or view.nbytes != len(view.obj) or view.format != "B":
        raise Unsaved(view, "it is a part of something else's memory")
    return memoryview, (view.obj,)


def _dict_view(kind):
    def reduce(_pickler, view):
        holder = next((one for one in gc.get_referents(view) if isinstance(one, dict)), None)
        if holder is None:
            raise Unsaved(view, "what it is a view of can't be told")
        return build.dict_view, (holder, kind)

    return reduce


def _match(_pickler, match):
    again = match.re.match(match.string, match.start(), match.endpos)
    if again is None or again.regs != match.regs:
        raise Unsaved(match, "it depends on where the search began")
    return build.make_match, (match.re, match.string, match.start(), match.endpos)


def _lock(_pickler, lock):
    kind = type(lock).__name__
    held = lock.locked() if hasattr(lock, "locked") else "count=0" not in repr(lock)
    if held:
        raise Unsaved(lock, "it is held by somebody")
    return build.make_lock, (kind,)


def _cached_function(_pickler, function):
    return build.make_cache, (function.__wrapped__, function.cache_parameters())


def _cached_property(_pickler, value):
    return build.make_cached_property, (value.func, value.attrname, value.__doc__)


def _type_variable(_pickler, variable):
    options = {"covariant": variable.__covariant__, "contravariant": variable.__contravariant__}
    if variable.__bound__ is not None:
        options["bound"] = variable.__bound__
    return build.make_type_variable, (variable.__name__, variable.__constraints__, options)


def _new_type(_pickler, value):
    return build.make_new_type, (value.__name__, value.__supertype__, value.__module__)


def _weak_mapping(_pickler, mapping):
    return type(mapping), (dict(mapping.items()),)


def _weak_set(_pickler, value):
    return type(value), (list(value),)


# ---- files ----


def _file_options(file):
    """Those of open(), beside the mode."""
    if isinstance(file, io.TextIOWrapper):
        options = {"encoding": file.encoding, "errors": file.errors}
        newline = getattr(file, "_newline", None)
        return options if newline is None else {**options, "newline": newline}
    return {"buffering": 0} if isinstance(file, io.FileIO) else {}


def _file_mode(file):
    mode = str(file.mode)
    return mode if isinstance(file, io.TextIOWrapper) or "b" in mode else f"{mode}b"


def _closed_file(file):
    try:
        name = file.name
        if not isinstance(name, (str, bytes)):
            raise Unsaved(file, "it has no name")
        return build.closed_file, (name, _file_mode(file), _file_options(file))
    except (ValueError, AttributeError) as error:
        raise Unsaved(file, f"it is closed: {error}") from None


def _file(pickler, file):
    if file.closed:
        return _closed_file(file)
    try:
        name, status = file.name, os.fstat(file.fileno())
        if not isinstance(name, (str, bytes)) or not os.path.samestat(status, os.stat(name)):
            raise Unsaved(file, "it has no name that it could be opened by again")
        if not os.path.isfile(name):
            raise Unsaved(file, "it is no regular file")
        if getattr(file, "writable", bool)():
            file.flush()
        offset = file.tell() if file.seekable() else None
    except (OSError, ValueError, AttributeError) as error:
        raise Unsaved(file, f"it can't be opened again: {error}") from None
    return build.open_file, (pickler.place(name), _file_mode(file), offset, _file_options(file))


# ---- classes ----

_DROPPED = ("__dict__", "__weakref__", "_abc_impl", "__doc__", "__slotnames__")


def _slots(cls):
    """Names of the slots that the class itself has; the descriptors are made anew with it."""
    slots = cls.__dict__.get("__slots__")
    return {} if slots is None else {"__slots__": slots}


def _registered(cls):
    abc = sys.modules.get("abc")
    if abc is None or not isinstance(cls, abc.ABCMeta):
        return ()
    import _abc

    found = (reference() for reference in _abc._get_dump(cls)[0])  # noqa: SLF001
    return sorted((one for one in found if one is not None), key=lambda one: one.__qualname__)


def _class(pickler, cls):
    get = type.__dict__["__module__"].__get__
    try:
        module, name = get(cls), type.__dict__["__qualname__"].__get__(cls)
    except AttributeError:
        module = name = None
    if cls in _PLAIN_TYPES or _by_name(module, name, cls):
        return NotImplemented
    if not cls.__flags__ & _HEAP_TYPE:
        found = next((key for key, value in vars(types).items() if value is cls), None)
        if found is None:
            raise Unsaved(cls, f"the class {module}.{name} has no name that it could be found by")
        return build.attribute, (types, found)
    first = {"__module__": module, "__qualname__": name, "__doc__": cls.__dict__.get("__doc__"), **_slots(cls)}
    attributes = {
        key: value
        for key, value in cls.__dict__.items()
        if key not in first
        and key not in _DROPPED
        and not (type(value) in _SLOT_TYPES and value.__objclass__ is cls)
    }
    arguments = (type(cls), cls.__name__, cls.__bases__, first)
    return build.make_class, arguments, (attributes, list(_registered(cls))), None, None, build.set_class


def _member(pickler, member):
    """Of an enumeration of the session's: its class holds it, and does not find it before it is whole."""
    cls = type(member)
    told = object.__reduce_ex__(member, 4)
    kind = cls._member_type_  # noqa: SLF001
    return build.make_member, (cls, kind, told[1][1:]), dict(member.__dict__)


def _sentinel(_pickler, value):
    """What a module of the library compares with by `is`."""
    module = sys.modules[type(value).__module__]
    name = next((key for key, known in vars(module).items() if known is value), None)
    return NotImplemented if name is None else (build.attribute, (module, name))


REDUCERS = {
    types.FunctionType: _function,
    types.CodeType: _code,
    types.CellType: _cell,
    types.ModuleType: _module,
    types.MethodType: _method,
    property: _property,
    classmethod: _wrapped,
    staticmethod: _wrapped,
    types.MappingProxyType: _mapping_proxy,
    types.GeneratorType: _refuse(_RUNNING),
    types.CoroutineType: _refuse(_RUNNING),
    types.AsyncGeneratorType: _refuse(_RUNNING),
    types.FrameType: _refuse(_RUNNING),
    types.TracebackType: _refuse("it holds the frames of code that ran"),
    memoryview: _memory_view,
    type({}.keys()): _dict_view("keys"),
    type({}.values()): _dict_view("values"),
    type({}.items()): _dict_view("items"),
    _thread.LockType: _lock,
    _thread.RLock: _lock,
    ReferenceType: _reference,
    io.TextIOWrapper: _file,
    io.BufferedReader: _file,
    io.BufferedWriter: _file,
    io.BufferedRandom: _file,
    io.FileIO: _file,
}
# The same, for classes of modules that not every session imports.
_LATER = {
    "array.array": _array,
    "re.Match": _match,
    "functools._lru_cache_wrapper": _cached_function,
    "functools.cached_property": _cached_property,
    "typing.NewType": _new_type,
    "typing.TypeVar": _type_variable,
    "weakref.WeakKeyDictionary": _weak_mapping,
    "weakref.WeakSet": _weak_set,
    "weakref.WeakValueDictionary": _weak_mapping,
    "_weakrefset.WeakSet": _weak_set,
    "dataclasses._MISSING_TYPE": _sentinel,
    "dataclasses._FIELD_BASE": _sentinel,
    "dataclasses._KW_ONLY_TYPE": _sentinel,
    "inspect._empty": _sentinel,
}


def _ordinary(_pickler, _value):
    return NotImplemented


def _reducer_of(kind):
    """How objects of a class are told that was not met before."""
    if issubclass(kind, type):
        return _class
    names = [f"{one.__module__}.{one.__qualname__}" for one in kind.__mro__]
    if names[0] in _LATER:
        return _LATER[names[0]]
    for name in names:
        reason = _REFUSED.get(name)
        if reason is not None:
            return _refuse(reason)
    if issubclass(kind, types.ModuleType):
        return _module
    enum = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum) and not _by_name(kind.__module__, kind.__qualname__, kind):
        return _member
    return _ordinary


class Pickler(_pickle.Pickler):
    """``known`` are objects that any session has, in the order in which unpicklers know them; ``broken``, by their ids,
    objects that are not to be told."""

    def __init__(self, file, namespace, known, on_buffer, broken=None):
        super().__init__(file, 5, buffer_callback=on_buffer)
        self.memo = {id(value): (position, value) for position, value in enumerate(known)}
        self.namespace = namespace
        self.packages = set()  # names of modules that were told by name
        self.sources = set()  # file names of code
        self.saw_source = self.sources.add
        self._kinds = {}
        self.directories = ()  # [(name, path)] that are elsewhere in another session
        self._broken = broken or {}
        if broken:
            self.reducer_override = self._check

    def _check(self, value):
        if id(value) in self._broken:
            raise Unsaved(value, "something in it could not be restored")
        return Pickler.reducer_override(self, value)

    def place(self, path):
        """(name of a directory that a session has, what is below it) for a path; (None, the path) elsewhere."""
        path = os.path.realpath(os.fsdecode(path))
        for name, directory in self.directories:
            if path.startswith(directory + "/"):
                return name, path[len(directory) + 1 :]
        return None, path

    def reducer_override(self, value):
        """Part of pickle's protocol: how to tell this object."""
        kind = type(value)
        reduce = REDUCERS.get(kind) or self._kinds.get(kind)
        if reduce is None:
            reduce = self._kinds[kind] = _reducer_of(kind)
        return reduce(self, value)
