# SPDX-License-Identifier: Apache-2.0
"""The worker's entry points and its loop: one request after another until the host closes the stream."""

import gc
import os
import sys
from time import monotonic

from . import execute as execution
from . import frames, jsontext, variables
from .interrupts import Interrupts
from .limits import forbid_core_dumps
from .requests import Requests, told_error
from .session import Session, reseed
from .text import bounded_repr, cap

PROTOCOL = 1
_REAP_SECONDS = 1.0
_LATER = ("awaiting", "codemode", "processes", "tracebacks")  # modules of ours that not every session needs


def prepare(preload=()):
    """Imports what sessions will need and settles the heap, in a process that sessions are cloned from.

    No code of a user has run, and none runs here. ImportError when a module of ``preload`` can't be had.
    """
    for name in preload:
        __import__(name)
    if preload:
        for name in _LATER:
            __import__(f"{__package__}.{name}")
        gc.collect()
    gc.freeze()


def serve(control_fd, before_ready=None):
    """Serves a session over ``control_fd``, which it takes over: a descriptor, or one to read and one to write.

    Waits for `hello`, then calls ``before_ready``; returns when the host closed the stream.
    """
    read_fd, write_fd = control_fd if isinstance(control_fd, tuple) else (control_fd, control_fd)
    interrupts = Interrupts()
    interrupts.reset()
    channel = frames.Channel(read_fd, write_fd, interrupts)
    frame = channel.receive()
    if frame is None:
        return
    if frame[0] != frames.HELLO:
        raise frames.ProtocolError("the first frame is not `hello`")
    hello = jsontext.loads(frame[1])
    if before_ready is not None:
        before_ready()
    reseed()
    worker = Worker(Session(channel, interrupts))
    if hello.get("framed_output") is True:
        worker.session.streams.frame_output(channel)
    channel.send(frames.READY, jsontext.dumps(_introduction()))
    worker.loop()


def _introduction():
    return {
        "protocol": PROTOCOL,
        "runtime": "python",
        "version": "{}.{}.{}".format(*sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "features": ["display", "files", "tools"],
    }


class Worker(Requests):
    """Answers requests about one session."""

    def __init__(self, session):
        self.session = session
        self._next_reap = 0.0
        self._handlers = {
            frames.EXEC: self._exec,
            frames.GET: self._get,
            frames.SET: self._set,
            frames.CLEAR: self._clear,
            **self.file_handlers(),
        }

    def _greeted_again(self):
        """This is the copy of a session: it has what the session had, and random numbers of its own."""
        reseed()
        told = {**_introduction(), **self._names()}
        self.session.channel.send(frames.READY, jsontext.dumps(told))

    def _between(self):
        """While the host has the answer already."""
        session = self.session
        if not session.is_init or session.forked:
            return
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except OSError:
            return  # no children
        now = monotonic()
        if now >= self._next_reap:
            from .processes import reap_orphans

            self._next_reap = now + _REAP_SECONDS
            reap_orphans()

    def _exec(self, payload):
        header, source = frames.split(payload)
        return execution.execute(self.session, jsontext.loads(header), source)

    def _guarded(self, request, function, *arguments):
        """Runs a request other than `exec`: what the function returns is the rest of the answer, and the blob."""
        session = self.session
        session.begin()
        told, error = session.guard(function, *arguments)
        session.streams.flush()
        answer = {"id": request["id"], "end": "ok"}
        if error is None:
            rest, blob = told
            answer.update(rest)
            return answer, blob
        if isinstance(error, KeyboardInterrupt) and session.interrupts.fired:
            answer["end"] = "interrupted"
        else:
            answer["end"] = "memory" if isinstance(error, MemoryError) else "error"
        answer["error"] = told_error(error)
        return answer, b""

    def _get(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._read_variables, request.get("names"))

    def _read_variables(self, wanted):
        told, omitted = variables.get(self.session.namespace, wanted)
        return ({"variables": told, "omitted": omitted} if omitted else {"variables": told}), b""

    def _set(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._set_variable, request["name"], request["value"])

    def _set_variable(self, name, value):
        self.session.context[name] = value
        return {"repr": cap(jsontext.clean(bounded_repr(value)), 64 << 10), **self._names()}, b""

    def _clear(self, payload):
        return self._guarded(jsontext.loads(payload), self._drop_variables, self.session.clear())

    def _drop_variables(self, old):
        old.clear()
        gc.collect()
        return self._names(), b""

    def _names(self):
        session = self.session
        session.names = variables.names(session.namespace)
        return {"names": session.names}


def main(serve=serve):
    """A worker in a process of its own. SBX_CONTROL_FD: "3", or "0,1" for a stream that is two descriptors."""
    numbers = [int(text) for text in os.environ.pop("SBX_CONTROL_FD").split(",")]
    forbid_core_dumps()
    prepare()
    control = (numbers[0], numbers[-1])
    if 0 in control or 1 in control:
        from .output import silence_standard_streams

        control = tuple(os.dup(fd) for fd in control)
        silence_standard_streams()
    code = 1
    try:
        serve(control if control[0] != control[1] else control[0])
        code = 0
    except BaseException as error:  # noqa: BLE001
        from .tracebacks import describe

        os.write(2, describe(error, None, {})["traceback"].encode("utf-8", "replace"))
    finally:
        os._exit(code)  # not the ordinary way, which waits for the threads of the user's code


if __name__ == "__main__":
    main()
