# SPDX-License-Identifier: Apache-2.0
"""What the worker does for each request about a session."""

import gc
import os
import sys
from time import monotonic

from . import execute as execution
from . import frames, jsontext, variables
from .requests import Requests, told_error
from .session import reseed
from .states_requests import StateRequests
from .text import bounded_repr, cap

PROTOCOL = 1
HAS_STATES = sys.implementation.name == "cpython"  # they need its pickler, which is in C, and byte code
_REAP_SECONDS = 1.0


def introduction():
    """What `ready` says."""
    return {
        "protocol": PROTOCOL,
        "runtime": "python",
        "version": "{}.{}.{}".format(*sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "features": ["display", "files", "tools", *(["states"] if HAS_STATES else [])],
    }


class Worker(StateRequests, Requests):
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
            **(self.state_handlers() if HAS_STATES else {}),
        }

    def new_states(self):
        """The states of this session, whose code is loaded when the first one is asked for."""
        from .states_python import PythonStates

        return PythonStates(self.session)

    def _greeted_again(self, _payload):
        """This is the copy of a session: it has what the session had, and random numbers of its own."""
        reseed()
        told = {**introduction(), **self._names()}
        self.session.channel.send(frames.READY, jsontext.dumps(told))

    def _copy(self, payload):
        session = self.session
        if session.copy_maker is None:
            super()._copy(payload)
        if session.copies is None:
            from .copies import Copies

            session.copies = Copies(session, session.copy_maker)
        session.copies.make(payload, self.served)
        self.waits = session.copies.frozen is not None

    def _wake(self):
        self.waits = False
        self.session.copies.thaw()

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
        error = None  # its frames lead to this one
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
