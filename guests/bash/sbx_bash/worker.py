# SPDX-License-Identifier: Apache-2.0
"""The worker's entry points and its loop: one request after another until the host closes the stream."""

import os

from sbx_guest import frames, jsontext
from sbx_guest import worker as python_worker
from sbx_guest.requests import Requests, told_error
from sbx_guest.states_requests import StateRequests
from sbx_guest.text import safe_str

from . import execute as execution
from . import processes, variables
from .interrupts import Noted
from .session import Session
from .shell import Gone, Unusable

PROTOCOL = 1
_UNUSABLE = 78  # EX_CONFIG of sysexits.h


def serve(control_fd, before_ready=None):
    """Serves a session over ``control_fd``, which it takes over: a descriptor, or one to read and one to write.

    Waits for `hello`, then calls ``before_ready``; returns when the host closed the stream, and does not return when
    there is no bash, or when it ended.
    """
    read_fd, write_fd = control_fd if isinstance(control_fd, tuple) else (control_fd, control_fd)
    interrupts = Noted()
    interrupts.reset()
    channel = frames.Channel(read_fd, write_fd, interrupts)
    frame = channel.receive()
    if frame is None:
        return
    if frame[0] != frames.HELLO:
        raise frames.ProtocolError("the first frame is not `hello`")
    if before_ready is not None:
        before_ready()
    try:
        session = Session(channel, interrupts, jsontext.loads(frame[1]).get("framed_output") is True)
    except (Unusable, Gone) as error:
        text = str(error) if isinstance(error, Unusable) else f"bash ended with code {error.code} when it was started"
        os.write(2, text.encode("utf-8", "replace"))
        os._exit(_UNUSABLE)
    worker = Worker(session)
    channel.send(frames.READY, jsontext.dumps(_introduction(session)))
    try:
        worker.loop()
        session.shell.close()
    except Gone as error:
        session.write_error(
            b"bash: the shell of this session ended with code %d (exec, or a signal), and its variables with it\n"
            % error.code
        )
        session.streams.flush()
        os._exit(error.code & 0xFF)


def _introduction(session):
    return {
        "protocol": PROTOCOL,
        "runtime": "bash",
        "version": session.shell.version,
        "implementation": "bash",
        "features": ["files", "tools", "states"],
    }


class Worker(StateRequests, Requests):
    """Answers requests about one session."""

    def __init__(self, session):
        self.session = session
        self._handlers = {
            frames.EXEC: self._exec,
            frames.GET: self._get,
            frames.SET: self._set,
            frames.CLEAR: self._clear,
            **self.file_handlers(),
            **self.state_handlers(),
        }

    def new_states(self):
        from .states import BashStates

        return BashStates(self.session)

    def _between(self):
        session = self.session
        if session.interrupts.fired:
            # A bash that was stopped while it started something may bury nobody until it waits for a child.
            session.interrupts.reset()
            session.shell.run_own(b"( \\builtin : )\n")
        processes.bury(session.shell.pid)

    def _exec(self, payload):
        header, source = frames.split(payload)
        self.session.fresh = False
        return execution.execute(self.session, jsontext.loads(header), source)

    def _guarded(self, request, function, *arguments):
        """Runs a request other than `exec`: what the function returns is the rest of the answer, and the blob."""
        answer = {"id": request["id"], "end": "ok"}
        try:
            rest, blob = self.session.interruptible(function, *arguments)
        except (OSError, ValueError, MemoryError) as error:
            answer["end"] = "memory" if isinstance(error, MemoryError) else "error"
            answer["error"] = told_error(error)
            return answer, b""
        answer.update(rest)
        return answer, blob

    def _get(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._read_variables, request.get("names"))

    def _read_variables(self, wanted):
        shell = self.session.shell
        there = shell.run_own().names
        if wanted is None:
            names = variables.user_names(there, shell.known)
        else:
            names = [name for name in wanted if variables.is_name(name) and name in there]
        told, omitted = variables.describe_all(shell.show(names) if names else [])
        return ({"variables": told, "omitted": omitted} if omitted else {"variables": told}), b""

    def _set(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._set_variable, request["name"], request["value"])

    def _set_variable(self, name, value):
        if not variables.is_name(name) or (name.startswith("__") and name.endswith("__")) or name.startswith("__sbx_"):
            raise ValueError(f"{safe_str(name, 200)!r} is not a name that a variable of bash can have")
        code, shown = variables.assignment(name, value)
        session = self.session
        # What is no array on either side keeps its attributes: a variable of the environment stays one.
        is_list = isinstance(value, (list, dict)) or session.shell.is_array(name)
        code = f"builtin unset -v {name} && {code}" if is_list else code
        record = session.shell.run_own(code.encode("utf-8"))
        if record.line != "1":
            raise ValueError(f"{name} can't be set: {bytes(session.shell.errors).decode('utf-8', 'replace').strip()}")
        answer = {"repr": variables.cap(jsontext.clean(shown), 64 << 10)}
        session.note_names(record, answer)
        return answer, b""

    def _clear(self, payload):
        return self._guarded(jsontext.loads(payload), self._start_again)

    def _start_again(self):
        session = self.session
        session.restart()
        answer = {}
        session.note_names(session.shell.run_own(), answer)
        return answer, b""


def main():
    """A worker in a process of its own; SBX_CONTROL_FD as for the Python worker."""
    python_worker.main(serve)


if __name__ == "__main__":
    main()
