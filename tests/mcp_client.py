# SPDX-License-Identifier: Apache-2.0
"""A bare MCP client over a child's pipes, for tests that must see every line; standard library only."""
import json
import os
import select
import signal
import subprocess
import tempfile
import time

# Sessions that are stored are this test's own, and those of its last run are not there.
STATE = tempfile.TemporaryDirectory(prefix="sbx-state-")
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class Closed(Exception):
    """The server closed its output."""


class Server:
    """A server process. Lines come out of `line()`, messages out of `message()`; both fail after `timeout` seconds."""

    def __init__(self, argv, timeout=30, **popen):
        self.timeout = timeout
        popen["env"] = {"XDG_STATE_HOME": STATE.name, **(popen.get("env") or os.environ)}
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **popen)
        self.pending = b""
        self.next_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for stream in (self.process.stdin, self.process.stdout):
            if not stream.closed:
                stream.close()
        if self.process.poll() is None:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the server did not end when its client went") from None

    # ---- bytes

    def write(self, data):
        """Writes bytes, while reading what comes, so that neither side can block the other for ever."""
        view = memoryview(data)
        out, into = self.process.stdout.fileno(), self.process.stdin.fileno()
        os.set_blocking(into, False)
        deadline = time.monotonic() + self.timeout
        while view:
            readable, writable, _ = select.select([out], [into], [], max(0, deadline - time.monotonic()))
            if not readable and not writable:
                raise AssertionError("the server takes no input")
            if readable:
                self._fill()
            if writable:
                view = view[os.write(into, view[:65536]):]

    def _fill(self):
        chunk = os.read(self.process.stdout.fileno(), 1 << 20)
        if not chunk:
            raise Closed()
        self.pending += chunk

    def line(self, timeout=None):
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        searched = 0
        while True:
            end = self.pending.find(b"\n", searched)
            if end >= 0:
                line, self.pending = self.pending[:end], self.pending[end + 1:]
                return line
            searched = len(self.pending)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError("no line came in time")
            self._fill()

    def silent(self, seconds=0.2):
        """Whether nothing comes for so long."""
        return not self.pending and not select.select([self.process.stdout], [], [], seconds)[0]

    def rest(self):
        """Everything up to the end of the output."""
        try:
            while True:
                if not select.select([self.process.stdout], [], [], self.timeout)[0]:
                    raise AssertionError("the output does not end")
                self._fill()
        except Closed:
            rest, self.pending = self.pending, b""
            return rest

    # ---- messages

    def send(self, message):
        if not isinstance(message, bytes):
            message = json.dumps(message).encode()
        self.write(message + b"\n")

    def message(self, timeout=None):
        return json.loads(self.line(timeout))

    def request(self, method, params=None, request_id=None):
        """Sends a request and returns its id."""
        if request_id is None:
            self.next_id += 1
            request_id = self.next_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return request_id

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def response(self):
        """The next message but for news of lists and resources, which may come at any time."""
        while True:
            message = self.message()
            method = message.get("method", "")
            if not method.endswith("/list_changed") and method != "notifications/resources/updated":
                return message

    def ask(self, method, params=None):
        """Sends a request and returns the response, which must be the next one."""
        request_id = self.request(method, params)
        response = self.response()
        if response.get("id") != request_id:
            raise AssertionError("another message came first: %r" % response)
        return response

    def initialize(self, revision=REVISIONS[-1]):
        response = self.ask("initialize", {"protocolVersion": revision, "capabilities": {},
                                           "clientInfo": {"name": "mcp_client.py", "version": "1"}})
        self.notify("notifications/initialized")
        return response["result"]

    def start_call(self, tool, arguments=None, request_id=None, **params):
        params["name"] = tool
        if arguments is not None:
            params["arguments"] = arguments
        return self.request("tools/call", params, request_id)

    def call(self, tool, arguments=None, **params):
        """Calls a tool; returns its result, or raises with the error of the protocol."""
        request_id = self.start_call(tool, arguments, **params)
        response = self.response()
        if response.get("id") != request_id or "result" not in response:
            raise AssertionError("no result: %r" % response)
        return response["result"]

    # ---- the end

    def close_input(self):
        self.process.stdin.close()

    def wait(self, timeout=10):
        return self.process.wait(timeout)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)


def text_of(result):
    """The text blocks of a tool result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def process_tree(root):
    """Ids of a process and of everything below it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="latin-1") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, ()))
    return tree


def alive(pids):
    """Those that run; a zombie does not."""
    running = []
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid, encoding="latin-1") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    running.append(pid)
        except OSError:
            pass
    return running


def wait_until_dead(pids, seconds=5):
    """Those that are still alive after so long."""
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return alive(pids)
