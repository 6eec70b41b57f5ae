# SPDX-License-Identifier: Apache-2.0
"""Output in frames, where the host can't read fds 1 and 2: what is written to them goes through pipes to the worker."""

from _io import BufferedWriter, FileIO, TextIOWrapper
from _thread import allocate_lock, start_new_thread
from os import pipe, read, set_blocking

from .frames import STDERR, STDOUT, move_high

_CHUNK = 65536


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

    def writer(self, fd, streams):
        """A stream for what is printed to fd 1 or 2."""
        stream = _FramedText(
            BufferedWriter(_Framed(fd, streams)), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        stream.interrupts = self.interrupts
        return stream

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
