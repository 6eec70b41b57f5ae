# SPDX-License-Identifier: Apache-2.0
"""Tools of the host, called by the user's code where the execution allows it."""

from _thread import get_ident

from . import frames, jsontext

_ARGUMENTS_MAX = 16 << 20


class ToolError(Exception):
    """A tool of the host failed; the message is what it said."""


class Tools:
    """One call at a time, from the main thread, which is the one that reads the control stream."""

    def __init__(self, channel):
        self._channel = channel
        self._calls = 0
        self._main = get_ident()
        self.enabled = False

    def call_tool(self, name, **arguments):
        """Calls a tool of the host and returns its result."""
        if not self.enabled:
            raise ToolError("no tools can be called from this execution")
        if get_ident() != self._main:
            raise ToolError("tools can be called from the main thread only")
        text = jsontext.dumps_value(arguments, _ARGUMENTS_MAX)
        if text is None:
            raise TypeError("arguments of a tool must be plain JSON values")
        if not isinstance(name, str) or len(name) > 128:
            raise TypeError("the name of a tool is a string of at most 128 characters")
        self._calls += 1
        header = jsontext.dumps({"call": self._calls, "name": jsontext.clean(name)})
        self._channel.send(frames.TOOL_CALL, header, text.encode("ascii"))
        return self._answer(self._calls)

    def _answer(self, call):
        import json
        from select import POLLIN, poll

        waiter = poll()
        waiter.register(self._channel.read_fd, POLLIN)
        while True:
            if not self._channel.has_more():
                waiter.poll()  # here an interrupt may end the waiting; the rest of a frame follows at once
            frame = self._channel.receive()
            if frame is None:
                raise SystemExit(1)  # the host is gone
            if frame[0] != frames.TOOL_RESULT:
                raise frames.ProtocolError("a request came while a tool call was under way")
            header, blob = frames.split(frame[1])
            header = jsontext.loads(header)
            if header.get("call") != call:
                continue  # of a call that was interrupted
            value = json.loads(bytes(blob)) if len(blob) > 0 else None
            if header.get("ok") is not True:
                raise ToolError(value if isinstance(value, str) else str(value))
            return value
