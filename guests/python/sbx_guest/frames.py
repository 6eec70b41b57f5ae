# SPDX-License-Identifier: Apache-2.0
"""Frames on the control descriptor: u32 length, u8 type, payload. See docs/guest-protocol.md."""

from _thread import allocate_lock
from os import close, fstat, read, readv, write, writev

try:
    from os import dup2
except ImportError:  # WASI, where nothing can be moved, and no program can be started that would stumble
    dup2 = None

HELLO = 0x01
EXEC = 0x02
GET = 0x03
SET = 0x04
CLEAR = 0x05
FILE_READ = 0x06
FILE_WRITE = 0x07
FILE_LIST = 0x08
SAVE = 0x09
RESTORE = 0x0A
TOOL_RESULT = 0x0B
GIVE_STATE = 0x0C
COPY = 0x0D
READY = 0x81
STDOUT = 0x82
STDERR = 0x83
DISPLAY = 0x84
TOOL_CALL = 0x85
RESULT = 0x86
STATE = 0x87

HEADER_SIZE = 5
_CHUNK = 65536
_VECTOR_MAX = 512  # of the 1024 that writev() takes
_MIB = 1 << 20
# The largest payload of each type that the host may send.
CAPS = {
    HELLO: 64 << 10,
    EXEC: 17 * _MIB,
    GET: 64 << 10,
    SET: 17 * _MIB,
    CLEAR: 4 << 10,
    FILE_READ: 64 << 10,
    FILE_WRITE: 65 * _MIB,
    FILE_LIST: 64 << 10,
    SAVE: 64 << 10,
    RESTORE: 64 << 10,
    TOOL_RESULT: 17 * _MIB,
    GIVE_STATE: 17 * _MIB,
    COPY: 4 << 10,
}


class ProtocolError(Exception):
    """The host sent what the protocol does not know."""


def move_high(fd):
    """A close-on-exec duplicate of ``fd`` at a number that programs do not stumble on; ``fd`` itself is closed."""
    if dup2 is None:
        return fd
    for target in (1000, 1001, 1002, 1003, 1004, 1005, 200, 201, 202, 203, 60, 61, 62, 63):
        try:
            fstat(target)
        except OSError:
            try:
                dup2(fd, target, False)
            except OSError:
                continue  # beyond the limit of open files
            close(fd)
            return target
    return fd


def split(payload):
    """The JSON part and the blob of a JB payload."""
    size = int.from_bytes(payload[:4], "little")
    if size > len(payload) - 4:
        raise ProtocolError("JSON part longer than its frame")
    return payload[4 : 4 + size], payload[4 + size :]


class Channel:
    """Both directions of the control stream. Any thread may send; the main thread alone receives."""

    __slots__ = ("_lock", "_rest", "interrupts", "read_fd", "write_fd")

    def __init__(self, read_fd, write_fd, interrupts):
        self.read_fd = move_high(read_fd)
        self.write_fd = self.read_fd if write_fd == read_fd else move_high(write_fd)
        self._rest = b""  # what came after the last frame
        self._lock = allocate_lock()
        self.interrupts = interrupts
        interrupts.protect(Channel.send)
        interrupts.protect(Channel.send_pieces)
        interrupts.protect(Channel.receive)
        interrupts.protect(Channel._fill)

    def close(self):
        """In a forked child: it must never speak for the session."""
        for fd in {self.read_fd, self.write_fd} - {-1}:
            try:
                close(fd)
            except OSError:
                pass
        self.read_fd = self.write_fd = -1

    def has_more(self):
        """Were bytes of another frame read already?"""
        return len(self._rest) > 0

    def _fill(self, size):
        """``size`` bytes that follow ``_rest``, or None at the end of the stream."""
        data = bytearray(size)
        view = memoryview(data)
        have = len(self._rest)
        view[:have] = self._rest
        self._rest = b""
        while have < size:
            count = readv(self.read_fd, [view[have:]])
            if count == 0:
                return None
            have += count
        return data

    def receive(self):
        """(type, payload) of the next frame; None when the host closed its end."""
        data = self._rest
        while len(data) < HEADER_SIZE:
            chunk = read(self.read_fd, _CHUNK)
            if not chunk:
                return None
            data = self._rest = data + chunk if data else chunk
        size = int.from_bytes(data[:4], "little")
        kind = data[4]
        if size > CAPS.get(kind, -1):
            raise ProtocolError(f"frame of type {kind:#x} and {size} bytes")
        size += HEADER_SIZE
        if len(data) == size:
            self._rest = b""
            return kind, data[HEADER_SIZE:]
        if len(data) > size:
            self._rest = data[size:]
            return kind, data[HEADER_SIZE:size]
        data = self._fill(size)
        return None if data is None else (kind, memoryview(data)[HEADER_SIZE:])

    def _chunk(self, most):
        """Up to ``most`` of the bytes that come next; none at the end of the stream."""
        data = self._rest or read(self.read_fd, _CHUNK)
        self._rest = data[most:]
        return data[:most]

    def skip(self):
        """Takes the next frame without keeping it, whatever its size."""
        header = b""
        while len(header) < HEADER_SIZE:
            data = self._chunk(HEADER_SIZE - len(header))
            if not data:
                return  # as the next receive() will find
            header += data
        left = int.from_bytes(header[:4], "little")
        while left > 0:
            data = self._chunk(left)
            if not data:
                return
            left -= len(data)

    def send(self, kind, text, blob=None):
        """Sends a frame: J when ``blob`` is None, B when ``text`` is None, else JB. Interrupts wait until it is out."""
        rest = None
        if blob is None:
            frame = b"%b%c%b" % (len(text).to_bytes(4, "little"), kind, text)
        elif text is None:
            frame = b"%b%c%b" % (len(blob).to_bytes(4, "little"), kind, blob)
        else:
            size = (4 + len(text) + len(blob)).to_bytes(4, "little")
            if len(blob) > _CHUNK:  # a copy of it may be more than the session's memory has room for
                frame = b"%b%c%b%b" % (size, kind, len(text).to_bytes(4, "little"), text)
                rest = blob
            else:
                frame = b"%b%c%b%b%b" % (size, kind, len(text).to_bytes(4, "little"), text, blob)
        lock = self._lock
        lock.acquire()
        try:
            if self.write_fd < 0:
                raise OSError("a forked process can't speak to the host of its session")
            sent = write(self.write_fd, frame)
            while sent < len(frame) or rest is not None:
                if sent < len(frame):
                    frame = memoryview(frame)[sent:]
                else:
                    frame, rest = memoryview(rest), None
                sent = write(self.write_fd, frame)
        finally:
            lock.release()
        self.interrupts.deliver()

    def send_pieces(self, kind, text, pieces, size):
        """Sends a JB frame whose blob is in pieces, of ``size`` bytes in all, which are not copied."""
        length = len(text)
        head = b"%b%c%b%b" % ((4 + length + size).to_bytes(4, "little"), kind, length.to_bytes(4, "little"), text)
        views = [memoryview(head), *pieces]
        lock = self._lock
        lock.acquire()
        try:
            if self.write_fd < 0:
                raise OSError("a forked process can't speak to the host of its session")
            first = 0
            while first < len(views):
                sent = writev(self.write_fd, views[first : first + _VECTOR_MAX])
                while first < len(views) and sent >= len(views[first]):
                    sent -= len(views[first])
                    first += 1
                if sent > 0:
                    views[first] = views[first][sent:]
        finally:
            lock.release()
        self.interrupts.deliver()
