# SPDX-License-Identifier: Apache-2.0
"""Standard streams where there are neither pipes nor threads: output in frames is sent by whoever prints."""

from _io import BufferedWriter, FileIO, TextIOWrapper

from sbx_guest import output
from sbx_guest.frames import STDERR, STDOUT

_FRAME_MAX = 1 << 20


class Streams(output.Streams):
    """The streams that every execution begins with."""

    __slots__ = ()

    def new_pump(self, channel):
        """What turns output into frames."""
        return Frames(channel)


class _Framed(FileIO):
    """A stream whose writes are frames."""

    def __init__(self, fd, kind, channel):
        super().__init__(fd, "wb", closefd=False)
        self._kind = kind
        self._channel = channel

    def write(self, data):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        data = bytes(memoryview(data)[:_FRAME_MAX])
        try:
            self._channel.send(self._kind, None, data)
        except KeyboardInterrupt:
            self._channel.interrupts.deferred = True  # the frame is out: nobody may print it again
        return len(data)


class _FramedText(TextIOWrapper):
    """Whose prints end with the interrupt that waited for them to be out."""

    interrupts = None

    def write(self, text):
        count = super().write(text)
        if self.interrupts.deferred:
            self.interrupts.deliver()
        return count


class Frames:
    """Makes streams of frames; stands where a process has its Pump."""

    __slots__ = ("_channel", "writers")

    def __init__(self, channel):
        self._channel = channel
        self.writers = []
        channel.interrupts.protect(_Framed.write)

    def writer(self, fd, _streams):
        """A stream for what is printed to fd 1 or 2."""
        raw = _Framed(fd, STDOUT if fd == 1 else STDERR, self._channel)
        stream = _FramedText(BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
        stream.interrupts = self._channel.interrupts
        return stream

    def drain(self):
        """All that was written is out already."""
