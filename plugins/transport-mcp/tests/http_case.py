# SPDX-License-Identifier: Apache-2.0
"""The plugin over HTTP in a small host with made-up tools, and bare HTTP requests to it; standard library only."""
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))

LEGACY, MODERN = "2025-11-25", "2026-07-28"
BOTH = "application/json, text/event-stream"
TIMEOUT = 60
COMMAND = [sys.argv.pop(1), sys.argv.pop(1)] if len(sys.argv) > 2 else []
VERSION_KEY, CAPABILITIES_KEY = ("io.modelcontextprotocol/" + name for name in ("protocolVersion",
                                                                                "clientCapabilities"))


class Host:
    """A process that serves; `settings` are options of the plugin, with _ for the dots behind "http"."""

    def __init__(self, *settings):
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*COMMAND, *settings, "http.listen=127.0.0.1:0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.stderr)
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
                raise AssertionError("no address")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                raise AssertionError("it ended with %d: %s" % (self.process.wait(TIMEOUT), self.errors()))
            line += more
        self.url = line.decode().strip()
        self.path = "/" + self.url.split("/", 3)[3]
        self.port = int(self.url.split("/")[2].rsplit(":", 1)[1])

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read().decode("utf-8", "replace")

    def await_errors(self, text, count=1):
        """Until the host's standard error has the text so often."""
        deadline = time.monotonic() + TIMEOUT
        while self.errors().count(text) < count:
            if time.monotonic() > deadline:
                raise AssertionError("%r does not come: %s" % (text, self.errors()))
            time.sleep(0.01)

    def await_unanswered(self, count):
        """Until so many requests are under way."""
        line, deadline = b"snipara_sandbox_mcp_http_unanswered %d\n" % count, time.monotonic() + TIMEOUT
        while line not in self.get("/metrics")[2]:
            assert time.monotonic() < deadline, line
            time.sleep(0.01)

    def tell(self, change):
        self.process.stdin.write(change.encode() + b"\n")
        self.process.stdin.flush()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        """Its exit code, after SIGTERM."""
        if self.process.poll() is None:
            self.terminate()
        code = self.process.wait(TIMEOUT)
        self.process.stdin.close()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            code = self.end()
            assert code == 0, (code, self.errors())
        elif self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            sys.stderr.write(self.errors())
        self.stderr.close()

    # ---- requests

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def request(self, method, body=None, headers=None, path=None):
        """(status, headers, body) of one request, whole."""
        connection = self.connect()
        try:
            connection.request(method, path or self.path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", None, headers, path)


def dumps(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def modern_headers(method, name=None, **more):
    headers = {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": MODERN,
               "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    headers.update({key.replace("_", "-"): value for key, value in more.items()})
    return {key: value for key, value in headers.items() if value is not None}


def meta(**more):
    return {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, **more}


def modern_body(method, params=None, request_id=1, **more):
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta(**more)}}


def modern(host, method, params=None, **headers):
    """(status, message) of one modern request that is answered whole."""
    name = (params or {}).get("name") or (params or {}).get("uri")
    status, got, body = host.request("POST", dumps(modern_body(method, params)), modern_headers(method, name, **headers))
    assert got["Content-Type"] == "application/json", (status, got, body)
    return status, json.loads(body)


def call(host, tool, arguments=None, **headers):
    return modern(host, "tools/call", {"name": tool, "arguments": arguments or {}}, **headers)


def error_code(answer):
    return json.loads(answer)["error"]["code"] if isinstance(answer, bytes) else answer["error"]["code"]


class Session:
    """A legacy client."""

    def __init__(self, host, revision=LEGACY, headers=None, capabilities=None):
        self.host, self.revision, self.more = host, revision, headers or {}
        status, got, body = self.post("initialize", {"protocolVersion": revision, "capabilities": capabilities or {},
                                                     "clientInfo": {"name": "http_case.py", "version": "1"}})
        assert status == 200, (status, body)
        self.id = got["Mcp-Session-Id"]
        self.result = json.loads(body)["result"]
        self.revision = self.result["protocolVersion"]
        status, _, body = self.post("notifications/initialized", request_id=None)
        assert (status, body) == (202, b""), (status, body)

    id = None

    def headers(self, **more):
        headers = {"Content-Type": "application/json", "Accept": BOTH, **self.more}
        if self.id is not None:
            headers.update({"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.revision})
        headers.update({key.replace("_", "-"): value for key, value in more.items()})
        return {key: value for key, value in headers.items() if value is not None}

    def body(self, method, params=None, request_id=1):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if request_id is not None:
            message["id"] = request_id
        return dumps(message)

    def post(self, method, params=None, request_id=1, **headers):
        return self.host.request("POST", self.body(method, params, request_id), self.headers(**headers))

    def call(self, tool, arguments=None, request_id=1, token=None):
        """(status, headers, body)"""
        params = {"name": tool, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.post("tools/call", params, request_id)

    def begin_call(self, tool, arguments=None, request_id=1, token=None):
        """A Stream whose head has come, or is to come."""
        params = {"name": tool, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return Stream(self.host, "POST", self.body("tools/call", params, request_id), self.headers())

    def listen(self, last=None, **headers):
        return Stream(self.host, "GET", None, self.headers(Accept="text/event-stream", Content_Type=None,
                                                           Last_Event_ID=last, **headers))

    def delete(self):
        return self.host.request("DELETE", None, self.headers(Content_Type=None))[0]


class Event:
    def __init__(self, block):
        self.id, self.retry, self.data, self.comment = None, None, None, True
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name == "":
                continue
            self.comment = False
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                self.data = value if self.data is None else self.data + "\n" + value
            elif name == "id":
                self.id = value
            elif name == "retry":
                self.retry = int(value)

    @property
    def message(self):
        return json.loads(self.data)


class Stream:
    """One response that is read piece by piece."""

    def __init__(self, host, method, body, headers):
        self.connection = host.connect()
        self.connection.request(method, host.path, body, headers)
        self.socket = self.connection.sock
        self.response = None
        self.pending = b""

    def head(self):
        if self.response is None:
            self.response = self.connection.getresponse()
        return self.response

    @property
    def status(self):
        return self.head().status

    def event(self, comments=False):
        """The next event; None at the end of the stream."""
        self.head()
        while True:
            block, found, rest = self.pending.partition(b"\n\n")
            if found:
                self.pending = rest
                event = Event(block.decode())
                if event.comment and not comments:
                    continue
                return event
            more = self.response.read1(65536)
            if not more:
                assert self.pending == b"", self.pending
                return None
            self.pending += more

    def events(self):
        found = []
        while True:
            event = self.event()
            if event is None:
                return found
            found.append(event)

    def messages(self):
        return [event.message for event in self.events() if event.data]

    def close(self):
        """Goes away as a client that was killed."""
        if self.response is not None:
            self.response.close()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
