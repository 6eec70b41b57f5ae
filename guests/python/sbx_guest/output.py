# SPDX-License-Identifier: Apache-2.0
"""Standard streams: put back before each execution, flushed after it."""

import sys
from _io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper

from .frames import move_high

try:
    from os import dup, dup2
except ImportError:  # WASI, where descriptors can't be copied, and the host keeps these three open
    dup = dup2 = None


def _reader(fd):
    return TextIOWrapper(BufferedReader(FileIO(fd, "rb", closefd=False)), encoding="utf-8", errors="surrogateescape")


def _usable(stream):
    try:
        return not stream.closed
    except ValueError:  # detached
        return False


def _copies():
    """[(fd, a copy of it)] of the standard streams."""
    found = []
    for fd in (0, 1, 2):
        try:
            found.append((fd, move_high(dup(fd))))
        except OSError:
            continue  # the guest was started without it
    return found


class Streams:
    """The streams that every execution begins with."""

    __slots__ = ("_err", "_in", "_out", "_saved", "pump")

    def __init__(self):
        self._saved = [] if dup is None else _copies()
        self._in = self._out = self._err = None
        self.pump = None
        self.restore()

    def frame_output(self, channel):
        """From now on, what is written to fds 1 and 2 goes to the host in frames."""
        from .pump import Pump

        self.pump = Pump(channel, channel.interrupts)
        self._saved = [pair for pair in self._saved if pair[0] == 0] + self.pump.writers
        self._out = self._err = None
        self.restore()

    def _writer(self, fd):
        # Lines go out as they are printed: they are seen while the code runs, stand in order with what subprocesses
        # print, and are not lost when the guest is killed.
        if self.pump is None:
            raw = FileIO(fd, "wb", closefd=False)
            return TextIOWrapper(BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
        return self.pump.writer(fd, self)

    def saved(self):
        """[(fd, a copy of it that nobody replaces)]."""
        return list(self._saved)

    def restore(self):
        """Undoes closed, replaced or redirected standard streams."""
        for fd, saved in self._saved:
            dup2(saved, fd)
        if self._out is None or not _usable(self._out):
            self._out = self._writer(1)
        if self._err is None or not _usable(self._err):
            self._err = self._writer(2)
        if self._in is None or not _usable(self._in):
            try:
                self._in = _reader(0)
            except OSError:
                self._in = None
        sys.stdin = sys.__stdin__ = self._in
        sys.stdout = sys.__stdout__ = self._out
        sys.stderr = sys.__stderr__ = self._err

    def replaced(self):
        """Streams that the user's code put in our place: flushing them runs its code."""
        found = []
        for name, own in (("stdout", self._out), ("stderr", self._err)):
            stream = getattr(sys, name, None)
            if stream is not own and stream is not None:
                found.append(stream)
        return found

    def flush(self):
        """All that was written is in the pipes (or in frames) when this returns."""
        for stream in (self._out, self._err):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # closed by the user's code: nothing is left to flush
        if self.pump is not None:
            self.pump.drain()


def silence_standard_streams():
    """fds 0 and 1 were the control stream: programs must not find it there."""
    from os import O_RDWR, close, open as open_fd

    fd = open_fd("/dev/null", O_RDWR)
    dup2(fd, 0)
    dup2(fd, 1)
    if fd > 2:
        close(fd)
