# SPDX-License-Identifier: Apache-2.0
"""Unpickles what can't be unpickled as a whole: what fails is lost, and the rest is made nevertheless."""

import pickle

from . import states_build as build
from .states_restore import reason_of


class CarefulUnpickler(pickle._Unpickler):  # noqa: SLF001 - in Python, so that one can step in
    """``memo``: objects that it knows already, by their numbers."""

    def __init__(self, rope, memo, buffers):
        self.buffers = iter(buffers)
        super().__init__(rope, buffers=self.buffers)
        self.memo = memo
        self.lost = None  # why the first of what was lost is lost
        self.broken = {}

    def _fail(self, error):
        if not isinstance(error, Exception):
            raise error
        if self.lost is None:
            self.lost = reason_of(error)

    def find_class(self, module, name):
        """Part of pickle's protocol."""
        try:
            return super().find_class(module, name)
        except BaseException as error:  # noqa: BLE001
            self._fail(error)
            return build.Lost

    def call(self, function, *arguments, **named):
        """Its value, or something lost."""
        try:
            return function(*arguments, **named)
        except BaseException as error:  # noqa: BLE001
            self._fail(error)
            return build.Lost()


def _reduce(self):
    arguments = self.stack.pop()
    self.stack[-1] = self.call(self.stack[-1], *arguments)


def _new(self):
    arguments = self.stack.pop()
    cls = self.stack[-1]
    self.stack[-1] = self.call(getattr(cls, "__new__", cls), cls, *arguments)


def _new_with_names(self):
    named = self.stack.pop()
    arguments = self.stack.pop()
    cls = self.stack[-1]
    self.stack[-1] = self.call(getattr(cls, "__new__", cls), cls, *arguments, **named)


def _filled(original):
    """For what changes the object below on the stack: an object that it fails for is broken."""

    def fill(self):
        try:
            original(self)
        except BaseException as error:  # noqa: BLE001
            self._fail(error)  # noqa: SLF001
            self.broken[id(self.stack[-1])] = self.stack[-1]

    return fill


CarefulUnpickler.dispatch = dict(pickle._Unpickler.dispatch)  # noqa: SLF001
CarefulUnpickler.dispatch[pickle.REDUCE[0]] = _reduce
CarefulUnpickler.dispatch[pickle.NEWOBJ[0]] = _new
CarefulUnpickler.dispatch[pickle.NEWOBJ_EX[0]] = _new_with_names
for _operation in (pickle.BUILD, pickle.APPEND, pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS, pickle.ADDITEMS):
    CarefulUnpickler.dispatch[_operation[0]] = _filled(CarefulUnpickler.dispatch[_operation[0]])
