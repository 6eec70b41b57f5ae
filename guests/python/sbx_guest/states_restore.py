# SPDX-License-Identifier: Apache-2.0
"""Variables of a portable state, made anew; one that can't be takes no other with it."""

import _pickle

from . import states_build as build
from .states_parts import Parts, Rope
from .states_values import Values
from .text import class_name, safe_str

_REASON_MAX = 300
_FRESH_STARTS = 8  # each takes as long as there are objects


def reason_of(error):
    """Why something could not be restored."""
    return f"{class_name(type(error))}: {safe_str(error, _REASON_MAX)}"


class Unpickler(_pickle.Unpickler):
    """Takes a class that is not here for one that is lost, and goes on. ``objects`` are known to it from the beginning:
    they get the numbers from 0."""

    lost = None  # what could not be had since this was last set to None

    def __init__(self, rope, objects, buffers):
        super().__init__(rope, buffers=buffers)
        self._objects = objects
        learn = b"".join(b"J%bQ\x940" % number.to_bytes(4, "little") for number in range(len(objects)))
        rope.insert(b"\x80\x05" + learn + b"N.")
        self.load()

    def persistent_load(self, number):
        """Part of pickle's protocol."""
        return self._objects[number]

    def find_class(self, module, name):
        """Part of pickle's protocol."""
        try:
            return super().find_class(module, name)
        except Exception as error:  # noqa: BLE001 - whatever a module raises when it is imported
            self.lost = reason_of(error)
            return build.Lost


class Buffers:
    """What is not in the stream: parts by their numbers, in the order in which it is needed."""

    def __init__(self, given, numbers):
        self._given, self._numbers = given, numbers
        self._gone = 0

    def since(self, first):
        """Those from a position on."""
        return map(self._given.content, self._numbers[first:])

    def forget(self, end):
        """Those before a position are not needed any more."""
        for number in self._numbers[self._gone : end]:
            self._given.pieces(number)
        self._gone = max(self._gone, end)


class Restored:
    """The variables, and which of them are missing. ``told`` has of each variable its name, the number of its first
    object, its bytes in the stream, the number of its first buffer, its type."""

    def __init__(self, session, known, budget, buffers):
        self.values, self.problems = {}, []
        self._session, self._known, self._budget = session, known, budget
        self._buffers = buffers
        self._broken = {}  # objects by id whose making failed half-way
        self._careful = None
        self._starts = 0

    def load(self, told, pieces):
        """All variables of the stream."""
        rope = Rope(pieces)
        unpickler = Unpickler(rope, self._known, self._buffers.since(0))
        for name, first, _size, buffer, kind in told:
            unpickler.lost = None
            rope.mark()
            self._buffers.forget(buffer)
            try:
                value = unpickler.load()[0]
            except BaseException as error:  # noqa: BLE001 - whatever the methods of the user's classes raise
                self._budget.judge(error)
                careful = self._load_carefully(rope, unpickler, first, buffer)
                self._lose(name, kind, careful.lost or reason_of(error))
                unpickler = self._go_on(rope, careful)
                continue
            if unpickler.lost is not None:
                self._lose(name, kind, unpickler.lost)
            else:
                self.values[name] = value
        if self.problems:
            self._check_others()

    def _load_carefully(self, rope, unpickler, first, buffer):
        """The variable once more, by an unpickler that goes on where something fails: others share what does not."""
        from .states_careful import CarefulUnpickler

        memo = unpickler.memo if type(unpickler) is CarefulUnpickler else unpickler.memo.copy()
        rope.rewind()
        careful = CarefulUnpickler(rope, {number: memo[number] for number in range(first)}, self._buffers.since(buffer))
        careful.broken = self._broken
        careful.load()
        return careful

    def _go_on(self, rope, careful):
        self._starts += 1
        if self._starts > _FRESH_STARTS:
            return careful  # slow, but it need not learn everything anew
        memo = careful.memo
        return Unpickler(rope, [memo[number] for number in range(len(memo))], careful.buffers)

    def _lose(self, name, kind, reason):
        self.problems.append({"name": name, "type": kind, "reason": reason})

    def _check_others(self):
        """What shares a lost object with a variable that is lost is not whole."""
        values = Values(self._session.namespace, self._known, Parts(1 << 62), self._budget, self._broken)
        self.values = dict(values.sort_out(list(self.values.items())))
        self.problems += [problem.tell() for problem in values.problems]
