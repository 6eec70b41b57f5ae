# SPDX-License-Identifier: Apache-2.0
"""A host for tests: starts the worker as a plain process and speaks the guest protocol with it."""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

PYTHON = os.environ.get("SBX_TEST_PYTHON", sys.executable)
WAIT_SECONDS = 60

HELLO, EXEC, GET, SET, CLEAR, FILE_READ, FILE_WRITE, FILE_LIST = range(1, 9)
TOOL_RESULT = 0x0B
READY, STDOUT, STDERR, DISPLAY, TOOL_CALL, RESULT = range(0x81, 0x87)
STATE = 0x87
JB_TYPES = (DISPLAY, TOOL_CALL, RESULT, STATE)
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from sbx_guest import worker; worker.main()"


class Lost(Exception):
    """The worker ended."""


class Guest:
    """A worker and the host's end of it."""

    code, roots = _CODE, (ROOT,)  # of the worker: another one's tests have others

    def __init__(self, framed=False, cwd=None, env=None, options=("-I", "-S"), greet=True, prefix=()):
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        environment = {"PATH": "/usr/bin:/bin", "SBX_CONTROL_FD": str(theirs.fileno()), **(env or {})}
        self.process = subprocess.Popen(
            [*prefix, *self.command(options)],
            stdin=subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            pass_fds=(theirs.fileno(),),
            cwd=cwd or "/tmp",
            env=environment,
        )
        for fd in (out_write, err_write):
            os.close(fd)
        theirs.close()
        self.socket = ours
        self.socket.setblocking(False)
        self.pipes = {out_read: bytearray(), err_read: bytearray()}
        self.out, self.err = out_read, err_read
        for fd in self.pipes:
            os.set_blocking(fd, False)
        self.input = bytearray()
        self.frames = []
        self.serial = 0
        self.nested = bool(prefix)
        if greet:
            self.send(HELLO, {"protocol": 1, "session": "test", "framed_output": framed})
            kind, self.ready, _blob = self.wait()
            assert kind == READY, kind

    def command(self, options):
        """What is started; workers in other languages have their own."""
        return [PYTHON, *options, "-c", self.code, *self.roots]

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.close()

    def close(self):
        self.socket.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = {}

    def send(self, kind, header, blob=None):
        text = json.dumps(header).encode()
        payload = text if blob is None else struct.pack("<I", len(text)) + text + blob
        self.send_raw(struct.pack("<IB", len(payload), kind) + payload)

    def send_raw(self, data):
        view = memoryview(data)
        while view:
            _readable, writable, _bad = select.select([], [self.socket], [], WAIT_SECONDS)
            assert writable, "the worker does not read"
            try:
                view = view[self.socket.send(view) :]
            except (BrokenPipeError, ConnectionResetError):
                raise Lost(self.read_pipes()) from None

    def read_pipes(self):
        for fd, data in self.pipes.items():
            while True:
                try:
                    chunk = os.read(fd, 1 << 20)
                except BlockingIOError:
                    break
                if not chunk:
                    break
                data += chunk
        return bytes(self.pipes[self.err])

    def _decode(self):
        if len(self.input) < 5:
            return None
        size, kind = struct.unpack_from("<IB", self.input)
        if len(self.input) < 5 + size:
            return None
        payload = bytes(self.input[5 : 5 + size])
        del self.input[: 5 + size]
        if kind in (STDOUT, STDERR):
            return kind, None, payload
        if kind in JB_TYPES:
            (length,) = struct.unpack_from("<I", payload)
            return kind, json.loads(payload[4 : 4 + length].decode("ascii")), payload[4 + length :]
        return kind, json.loads(payload.decode("ascii")), b""

    def wait(self, seconds=WAIT_SECONDS):
        """The next frame."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            frame = self._decode() if left > 0 else None
            if frame is not None:
                return frame
            if left <= 0:
                raise TimeoutError(self.read_pipes().decode("utf-8", "replace")[-2000:])
            select.select([self.socket, *self.pipes], [], [], left)
            self.read_pipes()
            try:
                chunk = self.socket.recv(1 << 20)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise Lost(self.read_pipes().decode("utf-8", "replace")[-2000:])
            self.input += chunk

    def request(self, kind, header, blob=None, seconds=WAIT_SECONDS):
        """(result, blob); other frames that come before it are in `frames`."""
        self.serial += 1
        self.frames = []
        self.send(kind, {"id": self.serial, **header}, blob)
        return self.result(seconds)

    def result(self, seconds=WAIT_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            frame = self.wait(deadline - time.monotonic())
            if frame[0] == RESULT:
                assert frame[1]["id"] == self.serial, frame
                self.read_pipes()
                return frame[1], frame[2]
            self.frames.append(frame)

    def start(self, code, **header):
        self.serial += 1
        self.frames = []
        if isinstance(code, str):
            code = code.encode("utf-8", "surrogatepass")
        request = {"id": self.serial, "filename": "<execution>", "memory_bytes": 0, "tools": False, **header}
        self.send(EXEC, request, code)

    def run(self, code, seconds=WAIT_SECONDS, **header):
        """The result of an execution, with "stdout", "stderr" and "displays" added."""
        self.start(code, **header)
        result, blob = self.result(seconds)
        return self.complete(result, blob)

    def complete(self, result, blob):
        result = dict(result)
        for name, fd, kind in (("stdout", self.out, STDOUT), ("stderr", self.err, STDERR)):
            data = bytes(self.pipes[fd]) + b"".join(frame[2] for frame in self.frames if frame[0] == kind)
            self.pipes[fd].clear()
            result[name] = data.decode("utf-8", "replace")
        result["displays"] = [(frame[1]["mime"], frame[2]) for frame in self.frames if frame[0] == DISPLAY]
        if result.get("result_json"):
            result["json"] = json.loads(blob)
        return result

    def run_answering(self, code, answer, seconds=WAIT_SECONDS, **header):
        """Runs code whose calls are answered by ``answer(name, arguments)``: a value, or an exception for a failure."""
        self.start(code, **{"tools": True, **header})
        deadline = time.monotonic() + seconds
        while True:
            frame = self.wait(deadline - time.monotonic())
            if frame[0] == RESULT:
                assert frame[1]["id"] == self.serial, frame
                self.read_pipes()
                return self.complete(frame[1], frame[2])
            if frame[0] != TOOL_CALL:
                self.frames.append(frame)
                continue
            try:
                value, good = answer(frame[1]["name"], json.loads(frame[2])), True
            except Exception as error:
                value, good = str(error), False
            self.answer(frame[1]["call"], value, good)

    def answer(self, call, value, good=True):
        self.send(TOOL_RESULT, {"call": call, "ok": good}, json.dumps(value).encode())

    def interrupt(self):
        os.kill(self.worker_pid(), signal.SIGINT)

    def worker_pid(self):
        pid = self.process.pid
        if self.nested:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pid = int(file.read().split()[0])
        return pid

    def has_printed(self, wanted, seconds):
        """Whether standard output of what runs has ``wanted`` in it within ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read_pipes()
            if wanted in bytes(self.pipes[self.out]) + b"".join(f[2] for f in self.frames if f[0] == STDOUT):
                return True
            try:
                self.frames.append(self.wait(0.02))
            except TimeoutError:
                pass
        return False

    def run_interrupted(self, code, after=0.5, every=0.2, seconds=WAIT_SECONDS, begun=None, **header):
        """Runs code, interrupts it after a while, or once it has printed ``begun``, and again until it ends."""
        self.start(code, **header)
        deadline = time.monotonic() + seconds
        wait = after
        if begun is not None:
            assert self.has_printed(begun, seconds), self.frames
            wait = 0
        while time.monotonic() < deadline:
            try:
                result, blob = self.result(wait)
                return self.complete(result, blob)
            except TimeoutError:
                self.interrupt()
                wait = every
        raise TimeoutError("not interrupted")
