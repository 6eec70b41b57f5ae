# SPDX-License-Identifier: Apache-2.0
"""The parts of a portable state: how they are gathered, counted, sent, and read again.

A part is a list of pieces of bytes that follow each other. Pieces are never joined: a large array goes to the host from
where it lies in memory. Part 0 is the index, one JSON object, that says what the others are.
"""

import itertools
from _blake2 import blake2b
from errno import EBADMSG, EFBIG
from os import strerror

from . import frames, jsontext

COUNT_MAX = 4000  # the host takes 4096
OWN_SIZE = 256 << 10  # what is as large as this is a part of its own, which the host need not keep twice
_DIGEST = 16
_LARGE = 1 << 20
_FRAME = 1 << 20
_READ = 1 << 20


def _fast_hash():
    """Four times as fast where the processor helps; OpenSSL is loaded for those alone who need it."""
    try:
        from _hashlib import openssl_sha256
    except ImportError:
        return blake2b(digest_size=_DIGEST)
    return openssl_sha256()


def digest_of(pieces):
    """Of the bytes of the pieces, whatever their borders."""
    size = sum(piece.size if type(piece) is FilePiece else memoryview(piece).nbytes for piece in pieces)
    found = _fast_hash() if size >= _LARGE else blake2b(digest_size=_DIGEST)
    for view in _views(pieces):
        found.update(view)
    return found.digest()[:_DIGEST]


class TooLarge(OSError):
    """More than a state may be."""

    def __init__(self, text):
        super().__init__(EFBIG, text)


class FilePiece:
    """Bytes that are read from a file when they are sent: exactly so many, whatever becomes of the file meanwhile."""

    __slots__ = ("open", "size")

    def __init__(self, opener, size):
        self.open = opener  # a file to read from
        self.size = size

    def chunks(self):
        """The bytes; zeros where the file has become shorter."""
        left = self.size
        with self.open() as file:
            while left > 0:
                chunk = file.read(min(left, _READ)) or bytes(min(left, _READ))
                left -= len(chunk)
                yield chunk


class Parts:
    """What is to be sent. EFBIG when it becomes more than ``max_bytes``."""

    def __init__(self, max_bytes):
        self.parts = [([], b"")]  # [(pieces, digest)]; the index comes last, into the first place
        self.size = 0
        self._max = max_bytes

    def charge(self, size):
        """So many bytes are going to be in a part."""
        self.size += size
        if self.size > self._max:
            raise TooLarge(f"The session holds more than the {self._max} bytes that a state may have")

    def left(self):
        """How many more bytes there may be."""
        return self._max - self.size

    def add(self, pieces, digest=None):
        """The number of a new part, whose bytes have been charged. ``digest``: of its content, where that is known."""
        self.parts.append((pieces, digest or digest_of(pieces)))
        return len(self.parts) - 1

    def has_room(self):
        """May there be more parts? What is beyond goes into parts with other things."""
        return len(self.parts) < COUNT_MAX

    def set_index(self, text):
        """Part 0."""
        self.charge(len(text))
        self.parts[0] = ([text], b"")

    def digest(self, text):
        """Of all parts and ``text``, in place of the index."""
        found = blake2b(text, digest_size=_DIGEST)
        for _pieces, digest in self.parts:
            found.update(digest)
        return found.hexdigest()

    def send(self, channel):
        """All of them, in frames."""
        for number, (pieces, _digest) in enumerate(self.parts):
            _send_part(channel, number, pieces)


def _views(pieces):
    for piece in pieces:
        if isinstance(piece, FilePiece):
            for chunk in piece.chunks():
                yield memoryview(chunk)
        else:
            yield memoryview(piece).cast("B")


def _send_part(channel, number, pieces):
    batch, have = [], 0
    for piece in _views(pieces):
        view = piece
        while have + len(view) > _FRAME:
            room = _FRAME - have
            batch.append(view[:room])
            channel.send_pieces(frames.STATE, _head(number, False), batch, _FRAME)
            view, batch, have = view[room:], [], 0
        if len(view) > 0:
            batch.append(view)
            have += len(view)
    channel.send_pieces(frames.STATE, _head(number, True), batch, have)


def _head(number, last):
    return b'{"part":%d,"last":%b}' % (number, b"true" if last else b"false")


class Given:
    """Parts of a state as the host gives them back."""

    def __init__(self):
        self._parts = []  # lists of pieces
        self._open = False  # the last one goes on

    def take(self, payload):
        """A `state` frame."""
        header, blob = frames.split(payload)
        header = jsontext.loads(header)
        number = len(self._parts) - self._open
        if header["part"] != number:
            raise frames.ProtocolError(f"part {header['part']} of a state where {number} should come")
        if not self._open:
            self._parts.append([])
        self._parts[-1].append(memoryview(blob))
        self._open = header["last"] is not True

    def count(self):
        """Of the whole parts."""
        return len(self._parts) - self._open

    def index(self):
        """The JSON object of part 0. EBADMSG when it is none."""
        if self._open or not self._parts:
            raise damaged("it has no index")
        try:
            return jsontext.loads(self.content(0))
        except (ValueError, MemoryError, RecursionError):
            raise damaged("its index is not JSON") from None

    def pieces(self, number, keep=False):
        """The pieces of a part, which is forgotten: whoever asked may let them go one by one."""
        if type(number) is not int or not 0 < number < len(self._parts) or self._parts[number] is None:
            raise damaged(f"it has no part {number!r}")
        pieces = self._parts[number]
        if not keep:
            self._parts[number] = None
        return pieces

    def content(self, number):
        """A part, which is kept, in one piece that can be written to. The host lets it begin at a multiple of 16."""
        pieces = self._parts[0] if number == 0 else self.pieces(number, True)
        return pieces[0] if len(pieces) == 1 else memoryview(bytearray(b"").join(pieces))


def damaged(why):
    """The error of a state that is none."""
    return OSError(EBADMSG, f"{strerror(EBADMSG)}: this is no state of a session: {why}")


class Rope:
    """Reads pieces one after the other as if they were a file, and lets go of what was read."""

    def __init__(self, pieces):
        self._pieces = pieces  # iterator
        self._view = memoryview(b"")
        self._kept = []

    def insert(self, piece):
        """Comes next."""
        self._pieces = itertools.chain([self._view], self._pieces)
        self._view = memoryview(piece)

    def mark(self):
        """The place that rewind() returns to. What is read from here on is kept until the next mark."""
        self._kept = [self._view]

    def rewind(self):
        """Goes back to the mark."""
        self._pieces = itertools.chain(self._kept, self._pieces)
        self._view, self._kept = memoryview(b""), []

    def _next(self):
        for piece in self._pieces:
            if len(piece) > 0:
                self._view = piece
                self._kept.append(piece)
                return True
        self._view = memoryview(b"")
        return False

    def readinto(self, buffer):
        """Fills as much of the buffer as there is."""
        target = memoryview(buffer).cast("B")
        done = 0
        while done < len(target) and (len(self._view) > 0 or self._next()):
            count = min(len(self._view), len(target) - done)
            target[done : done + count] = self._view[:count]
            self._view = self._view[count:]
            done += count
        return done

    def read(self, size=-1):
        """So many bytes, or fewer at the end."""
        if size < 0:
            raise ValueError("a size is needed")
        if size <= len(self._view):
            data = bytes(self._view[:size])
            self._view = self._view[size:]
            return data
        data = bytearray(min(size, 1 << 20))
        have = 0
        while have < size:  # grows with what is there, whatever a damaged state says that there is
            if have == len(data):
                data.extend(bytes(min(size - have, len(data))))
            count = self.readinto(memoryview(data)[have:])
            if count == 0:
                break
            have += count
        return bytes(memoryview(data)[:have])

    def readline(self):
        """Up to a newline; for the protocols of pickle that are made of text."""
        line = bytearray()
        while not line.endswith(b"\n"):
            byte = self.read(1)
            if not byte:
                break
            line += byte
        return bytes(line)
