# SPDX-License-Identifier: Apache-2.0
"""Pickles the session's values. What can't be told is refused with the reason."""

import _pickle
import os
import sys
import types

from .states_files import place_of
from .states_reduce import LATER, REDUCERS, by_name, reduce_class, reduce_member, reduce_module
from .states_refuse import REFUSED, Unsaved, refuse_always

INLINE_MAX = 64 << 10  # larger buffers stay out of the stream


def refusal(value):
    """Why an object of this very type can't be told, if that is known without looking further into it; else None."""
    reduce = REDUCERS.get(type(value))
    if reduce is None or not hasattr(reduce, "always"):
        return None
    try:
        return reduce(None, value)
    except Unsaved as error:
        return error


def _ordinary(_pickler, _value):
    return NotImplemented


def _reducer_of(kind):
    """How objects of a class are told that was not met before."""
    if issubclass(kind, type):
        return reduce_class
    names = [f"{one.__module__}.{one.__qualname__}" for one in kind.__mro__]
    if names[0] in LATER:
        return LATER[names[0]]
    for name in names:
        reason = REFUSED.get(name)
        if reason is not None:
            return refuse_always(reason)
    if issubclass(kind, types.ModuleType):
        return reduce_module
    enum = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum) and not by_name(kind.__module__, kind.__qualname__, kind):
        return reduce_member
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
        """Of a file: where to look for it in another session."""
        return place_of(os.path.realpath(os.fsdecode(path)), self.directories)

    def reducer_override(self, value):
        """Part of pickle's protocol: how to tell this object."""
        kind = type(value)
        reduce = REDUCERS.get(kind) or self._kinds.get(kind)
        if reduce is None:
            reduce = self._kinds[kind] = _reducer_of(kind)
        return reduce(self, value)
