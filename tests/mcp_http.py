# SPDX-License-Identifier: Apache-2.0
"""The program as an HTTP server, and bare requests to it, for tests; standard library only.

Environment: SNIPARA_SANDBOX is the program; SNIPARA_SANDBOX_BUILD_ROOT the build tree, for a program that is not
installed.
"""
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

PROGRAM = os.environ.get("SNIPARA_SANDBOX") or shutil.which("snipara-sandbox") or "snipara-sandbox"
BUILD_ROOT = os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT")
LEGACY = "2025-11-25"
MODERN = "2026-07-28"


def fixtures_entry():
    """The `plugins` entry of the conformance fixtures, from the build tree."""
    path = pathlib.Path(BUILD_ROOT or "", "tests/conformance/context-conformance.so").resolve()
    return '{ name = "conformance"; path = "%s"; critical = true; }' % path


def environment(home):
    """What the program may see of the tests' own environment, with directories of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SNIPARA_", "RLM_", "XDG_"))}
    if BUILD_ROOT:
        kept["SNIPARA_SANDBOX_BUILD_ROOT"] = BUILD_ROOT
    kept.update(HOME=str(home), XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state",
                XDG_RUNTIME_DIR=f"{home}/run", LC_ALL="C.UTF-8")
    return kept


class Server:
    """`mcp-serve --http` on a port of its own, in a project and a home of its own. `config` is the text of its
    configuration file; `flags` come after the subcommand."""

    def __init__(self, *flags, config="", timeout=60, stderr=None):
        self.directory = tempfile.TemporaryDirectory(prefix="sbx-http-")
        home, project = (pathlib.Path(self.directory.name, name) for name in ("home", "project"))
        for path in (home, project, project / ".git"):  # the search for .env ends at .git
            path.mkdir(mode=0o700)
        file = project / "test.cfg"
        file.write_text(config, encoding="utf-8")
        file.chmod(0o600)
        self.process = subprocess.Popen(
            [PROGRAM, "mcp-serve", "--config", str(file), "--http", "--listen", "127.0.0.1:0", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, cwd=project, env=environment(home))
        try:
            self.url = self._address(timeout)
        except BaseException:
            self.kill()
            raise

    def _address(self, timeout):
        line, deadline = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("the server does not say where it listens")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                raise AssertionError("the server ended with code %d before it listened" % self.process.wait(timeout))
            line += more
        return line.decode().strip()

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, timeout=60):
        """Ends it as an operator would; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError("the server does not end when asked to") from None
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.directory.cleanup()


def events(body):
    """The messages of a text/event-stream."""
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"\n".join(line[5:].lstrip(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
        if data.strip():
            yield json.loads(data)


class Client:
    """One connection, one message at a time. Legacy after `initialize()`; modern requests need nothing before them."""

    def __init__(self, url, timeout=60, headers=None):
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self.path = parts.path
        self.headers = dict(headers or {})
        self.session = None
        self.next_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def post(self, message, headers=None):
        """(status, headers, messages) of one POST."""
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers,
                **(headers or {})}
        if self.session is not None:
            sent.setdefault("Mcp-Session-Id", self.session)
            sent.setdefault("MCP-Protocol-Version", LEGACY)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.connection.request("POST", self.path, body, sent)
        response = self.connection.getresponse()
        data = response.read()
        kind = response.headers.get("Content-Type", "")
        if kind.startswith("text/event-stream"):
            return response.status, response.headers, list(events(data))
        return response.status, response.headers, [json.loads(data)] if kind.startswith("application/json") else []

    def initialize(self, capabilities=None):
        status, headers, messages = self.post({
            "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
                "protocolVersion": LEGACY, "capabilities": capabilities or {},
                "clientInfo": {"name": "mcp_http.py", "version": "1"}}})
        if status != 200:
            raise AssertionError("initialize: %d %r" % (status, messages))
        self.session = headers["Mcp-Session-Id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return messages[-1]["result"]

    def request(self, method, params=None, capabilities=None):
        """The response to a request: a legacy one in a session, else a modern one."""
        self.next_id += 1
        params, headers = dict(params or {}), {}
        if self.session is None:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": MODERN,
                               "io.modelcontextprotocol/clientCapabilities": capabilities or {},
                               "io.modelcontextprotocol/clientInfo": {"name": "mcp_http.py", "version": "1"},
                               **params.get("_meta", {})}
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            name = params.get("taskId") or params.get("uri") or params.get("name")
            if name is not None:
                headers["Mcp-Name"] = name
        _, _, messages = self.post({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}, headers)
        for message in messages:
            if message.get("id") == self.next_id and "method" not in message:
                return message
        raise AssertionError("%s: no response among %r" % (method, messages))

    def result(self, method, params=None, capabilities=None):
        response = self.request(method, params, capabilities)
        if "result" not in response:
            raise AssertionError("%s: %r" % (method, response))
        return response["result"]

    def call(self, tool, arguments=None):
        return self.result("tools/call", {"name": tool, "arguments": arguments or {}})
