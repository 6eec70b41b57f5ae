# SPDX-License-Identifier: Apache-2.0
"""The session's variables in a portable state: pickled together, so that what they share stays shared, and yet so that
one that can't be told takes no other with it."""

from errno import EAGAIN

from .states_budget import Overdue
from .states_parts import OWN_SIZE, TooLarge
from .states_pickler import INLINE_MAX, Pickler
from .states_refuse import Unsaved
from .text import class_name, safe_str

_name_of = type.__dict__["__name__"].__get__
_ATTEMPTS = 4  # values may change while they are told, if threads of the session's run
_OVERDUE = "telling it took longer than the time that a state may take"
_REASON_MAX = 300


class Problem:
    """Why a variable is not in the state."""

    __slots__ = ("name", "reason", "type")

    def __init__(self, name, value, error):
        self.name, self.type = name, class_name(type(value))
        if isinstance(error, Unsaved):
            own = error.kind is type(value)
            self.reason = error.reason if own else f"it leads to {class_name(error.kind)}: {error.reason}"
        elif isinstance(error, Overdue):
            self.reason = _OVERDUE
        elif isinstance(error, RecursionError):
            self.reason = "it is nested too deeply"
        else:
            self.reason = f"{class_name(type(error))}: {safe_str(error, _REASON_MAX)}"

    def tell(self):
        """As the host gets it."""
        return {"name": self.name, "type": self.type, "reason": self.reason}


class _Sink:
    """Where a pickler writes. Large pieces are kept as they come, without a copy."""

    def __init__(self, charge):
        self._charge = charge
        self.pieces = []

    def write(self, data):
        """Part of a file's protocol."""
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
        self._charge(len(data))
        self.pieces.append(data)
        return len(data)


class _Nowhere:
    """For a trial: counts alone."""

    def __init__(self, most):
        self._left = most

    def write(self, data):
        """Part of a file's protocol."""
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise TooLarge("The session holds more than a state may have")


class Values:
    """Pickles variables for one state."""

    def __init__(self, namespace, known, parts, budget, broken=None):
        self._namespace, self._known = namespace, known
        self._parts, self._budget = parts, budget
        self._broken = broken
        self.directories = ()
        self.problems = []
        self.buffers = []
        self.pickler = None
        self.stream = []  # pieces of each variable
        self.told = []  # [(name, number of its first object, bytes in the stream, number of its first buffer, type)]
        self.sizes = {}

    # ---- which of them can be told ----

    def sort_out(self, items):
        """Those of the items that can be told, each tried by itself; the others become problems."""
        good = []
        pickler = None
        for name, value in items:
            if pickler is None:
                pickler = Pickler(_Nowhere(self._parts.left()), self._namespace, self._known, _drop, self._broken)
            self._budget.begin()
            try:
                pickler.dump(value)
            except BaseException as error:  # noqa: BLE001 - whatever the methods of the user's objects raise
                self._note(name, value, error)
                pickler = None  # it knows objects that were told by half
            else:
                good.append((name, value))
        return good

    def _note(self, name, value, error):
        self._budget.judge(error)
        self.problems.append(Problem(name, value, error))

    # ---- telling them ----

    def tell(self, items):
        """Pickles all that can be pickled. The stream and the buffers are there afterwards."""
        before = self._parts.size
        for _attempt in range(_ATTEMPTS):
            position = self._try(items)
            if position is None:
                return
            self._parts.size = before
            items = items[:position] + self.sort_out(items[position + 1 :])
        raise OSError(EAGAIN, "The session's variables change while they are told")

    def _try(self, items):
        """The position of the first that can't be told, or None: all are in the stream."""
        self.buffers, self.told, self.stream = [], [], []
        sink = _Sink(self._parts.charge)
        pickler = self.pickler = Pickler(sink, self._namespace, self._known, self._on_buffer)
        pickler.directories = self.directories
        first = len(self._known)
        for position, (name, value) in enumerate(items):
            self._budget.begin()
            mark, buffers = [], len(self.buffers)
            try:
                pickler.dump((value, mark, mark))  # the end of it says how many objects the pickler knows
            except BaseException as error:  # noqa: BLE001
                self._note(name, value, error)
                return position
            self.told.append((name, first, sum(map(len, sink.pieces)), buffers, _name_of(type(value))))
            self.stream.append(sink.pieces)
            first = _count_objects(sink.pieces[-1], pickler)
            sink.pieces = []
        return None

    def _on_buffer(self, buffer):
        try:
            raw = buffer.raw()
        except BufferError:  # not in one piece
            return True
        if raw.nbytes < INLINE_MAX or not self._parts.has_room():
            return True
        self._parts.charge(raw.nbytes)
        self.buffers.append(raw)
        return False

    def add_parts(self):
        """Makes parts of the stream and the buffers: the numbers of both."""
        stream = _Stream(self._parts)
        for (name, *_rest), pieces in zip(self.told, self.stream):
            self.sizes[name] = stream.add(pieces)
        stream.close()
        return stream.numbers, [self._parts.add([raw]) for raw in self.buffers]


def _drop(_buffer):
    return False


def _count_objects(data, pickler):
    """That the pickler knows, by how a dump of a triple ends: EMPTY_LIST, MEMOIZE, BINGET or LONG_BINGET with its
    number, TUPLE3, MEMOIZE, STOP. The list and the triple are the newest objects."""
    short, long = data[-7:-4] == b"]\x94h", data[-10:-7] == b"]\x94j"
    if short and not long:
        return data[-4] + 2
    if long and not short:
        return int.from_bytes(data[-7:-3], "little") + 2
    return len(pickler.memo.copy())  # its end is in two frames: rare, and this takes longer


class _Stream:
    """Puts the pickles of variables into parts, so that a large one that did not change is in a part that did not."""

    def __init__(self, parts):
        self._parts = parts
        self._pieces, self._size = [], 0
        self.numbers = []

    def close(self):
        """Ends a part."""
        if self._pieces:
            self.numbers.append(self._parts.add(self._pieces))
            self._pieces, self._size = [], 0

    def add(self, pieces):
        """The pickle of a variable; its size without what is large enough for a part of its own."""
        size = sum(len(piece) for piece in pieces if len(piece) < OWN_SIZE)
        if size >= OWN_SIZE and self._parts.has_room():
            self.close()
        for piece in pieces:
            if len(piece) >= OWN_SIZE and self._parts.has_room():
                self.close()
                self.numbers.append(self._parts.add([piece]))
            else:
                self._pieces.append(piece)
                self._size += len(piece)
        if self._size >= OWN_SIZE and self._parts.has_room():
            self.close()
        return size
