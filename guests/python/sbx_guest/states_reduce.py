# SPDX-License-Identifier: Apache-2.0
"""How a portable state tells objects that pickle takes only by name, or not at all: by what they consist of."""

import _pickle
import _thread
import gc
import io
import sys
import types
from _weakref import ReferenceType

from . import states_build as build
from . import states_code
from .states_open_files import reduce_file
from .states_refuse import RUNNING, Unsaved, refuse_always

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PLAIN_TYPES = (type(None), type(NotImplemented), type(Ellipsis))
_SLOT_TYPES = (types.GetSetDescriptorType, types.MemberDescriptorType)
_MISSING = object()


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


def by_name(module, name, value):
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
    if by_name(function.__module__, function.__qualname__, function):
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


def reduce_module(pickler, module):
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
    if type(view.obj) not in (bytes, bytearray) or view.nbytes != len(view.obj) or view.format != "B":
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


def reduce_class(pickler, cls):
    get = type.__dict__["__module__"].__get__
    try:
        module, name = get(cls), type.__dict__["__qualname__"].__get__(cls)
    except AttributeError:
        module = name = None
    if cls in _PLAIN_TYPES or by_name(module, name, cls):
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


def reduce_member(pickler, member):
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
    types.ModuleType: reduce_module,
    types.MethodType: _method,
    property: _property,
    classmethod: _wrapped,
    staticmethod: _wrapped,
    types.MappingProxyType: _mapping_proxy,
    types.GeneratorType: refuse_always(RUNNING),
    types.CoroutineType: refuse_always(RUNNING),
    types.AsyncGeneratorType: refuse_always(RUNNING),
    types.FrameType: refuse_always(RUNNING),
    types.TracebackType: refuse_always("it holds the frames of code that ran"),
    memoryview: _memory_view,
    type({}.keys()): _dict_view("keys"),
    type({}.values()): _dict_view("values"),
    type({}.items()): _dict_view("items"),
    _thread.LockType: _lock,
    _thread.RLock: _lock,
    ReferenceType: _reference,
    io.TextIOWrapper: reduce_file,
    io.BufferedReader: reduce_file,
    io.BufferedWriter: reduce_file,
    io.BufferedRandom: reduce_file,
    io.FileIO: reduce_file,
}
# The same, for classes of modules that not every session imports.
LATER = {
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
