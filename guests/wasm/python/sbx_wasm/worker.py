# SPDX-License-Identifier: Apache-2.0
"""Requests to a session that was made before anybody asked for it."""

from sbx_guest import frames, jsontext
from sbx_guest.handlers import Worker, introduction
from sbx_guest.session import reseed


class WasmWorker(Worker):
    """Waits for `hello`, then answers requests. A copy of the session, or one that was restored, is greeted again."""

    def __init__(self, session):
        super().__init__(session)
        self._greeted = False

    def step(self):
        """Takes a frame and answers it. False: the host closed the stream."""
        if self._greeted:
            return super().step()
        frame = self.session.channel.receive()
        if frame is None:
            return False
        if frame[0] != frames.HELLO:
            raise frames.ProtocolError("the first frame is not `hello`")
        self._greet(frame[1], {})
        self._greeted = True
        return True

    def _greeted_again(self, payload):
        self._greet(payload, self._names())

    def _greet(self, payload, more):
        jsontext.loads(payload)  # nothing in it matters here: where output has to be framed, the engine does that
        reseed()
        self.session.channel.send(frames.READY, jsontext.dumps({**introduction(), **more}))
