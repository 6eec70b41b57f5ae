# SPDX-License-Identifier: Apache-2.0
"""Standard streams: put back before each execution, flushed after it, framed where the host can't read fds 1 and 2."""

import sys
from _io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from _thread import allocate_lock, start_new_thread
from os import close, dup, dup2, pipe, read, set_blocking

from .frames import STDERR, STDOUT, move_high

_CHUNK = 65536


def _reader(fd):
    return TextIOWrapper(BufferedReader(FileIO(fd, "rb", closefd=False)), encoding="utf-8", errors="surrogateescape")


def _usable(stream):
    try:
        return not stream.closed
    except ValueError:  # detached
        return False


class _Framed(FileIO):
    """Of a stream that goes out in frames: whoever prints sends them, so that they are not lost with the process."""

    def __init__(self, fd, streams):
        super().__init__(fd, "wb", closefd=False)
        self._streams = streams

    def write(self, data):
        count = super().write(data)
        pump = self._streams.pump  # a forked process has none
        if pump is not None:
            pump.drain_within()
        return count


class _FramedText(TextIOWrapper):
    """Whose prints end with the interrupt that waited for them to be out."""

    interrupts = None

    def write(self, text):
        count = super().write(text)
        if self.interrupts.deferred:
            self.interrupts.deliver()
        return count


class Streams:
    """The streams that every execution begins with."""

    __slots__ = ("_err", "_in", "_out", "_saved", "pump")

    def __init__(self):
        self._saved = []
        for fd in (0, 1, 2):
            try:
                self._saved.append((fd, move_high(dup(fd))))
            except OSError:
                continue  # the guest was started without it
        self._in = self._out = self._err = None
        self.pump = None
        self.restore()

    def frame_output(self, channel):
        """From now on, what is written to fds 1 and 2 goes to the host in frames."""
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
        raw = BufferedWriter(_Framed(fd, self))
        stream = _FramedText(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        stream.interrupts = self.pump.interrupts
        return stream

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


class Pump:
    """Turns what is written to two pipes into frames. A thread does it while the code runs."""

    __slots__ = ("_channel", "_lock", "_readers", "interrupts", "writers")

    def __init__(self, channel, interrupts):
        self._channel = channel
        self.interrupts = interrupts
        # What a print wrote must not be sent twice, nor be lost between the pipe and the frame.
        for function in (_Framed.write, Pump.drain_within, Pump.drain, Pump._forward):
            interrupts.protect(function)
        self._lock = allocate_lock()
        self._readers = []
        self.writers = []
        for fd, kind in ((1, STDOUT), (2, STDERR)):
            reader, writer = pipe()
            set_blocking(reader, False)
            self._readers.append((move_high(reader), kind))
            self.writers.append((fd, move_high(writer)))
        start_new_thread(self._run, ())

    def _forward(self):
        """One chunk of each pipe. False when there was none."""
        found = False
        for fd, kind in self._readers:
            try:
                data = read(fd, _CHUNK)
            except BlockingIOError:
                continue
            if data:
                self._channel.send(kind, None, data)
                found = True
        return found

    def _run(self):
        from select import POLLIN, poll

        waiter = poll()
        for fd, _kind in self._readers:
            waiter.register(fd, POLLIN)
        try:
            while True:
                waiter.poll()
                with self._lock:
                    self._forward()
        except (OSError, ValueError):
            return  # the user's code closed our descriptors: its output ends here

    def drain_within(self):
        """As drain(), in the middle of a print: an interrupt waits until it is out."""
        try:
            self.drain()
        except KeyboardInterrupt:
            self.interrupts.deferred = True

    def drain(self):
        """Sends what is in the pipes now."""
        rounds = 32  # more than the pipes hold: a thread that goes on printing must not keep us here
        with self._lock:
            try:
                while rounds > 0 and self._forward():
                    rounds -= 1
            except OSError:
                return


def silence_standard_streams():
    """fds 0 and 1 were the control stream: programs must not find it there."""
    from os import O_RDWR, open as open_fd

    fd = open_fd("/dev/null", O_RDWR)
    dup2(fd, 0)
    dup2(fd, 1)
    if fd > 2:
        close(fd)
