# SPDX-License-Identifier: Apache-2.0
"""As much of an engine's HTTP API as tests need to look at it from outside: requests over its Unix socket."""
import http.client
import json
import socket

VERSION = "/v1.40"


class Failed(Exception):
    def __init__(self, what, status, body):
        super().__init__("%s: %d %s" % (what, status, body[:500].decode(errors="replace")))
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None, timeout=120):
    """The answer's JSON: one value, or a list where the engine sends several; None for nothing. `body` is JSON, or an open
    file that is sent as it is. Raises Failed for what is not 2xx or 304."""
    headers = {}
    if body is not None and not hasattr(body, "read"):
        body = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    elif body is not None:
        headers["Content-Type"] = "application/x-tar"
    connection = _Connection(path, timeout)
    try:
        connection.request(method, VERSION + target, body, headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if not 200 <= answer.status < 300 and answer.status != 304:
        raise Failed("%s %s" % (method, target), answer.status, text)
    if not answer.getheader("Content-Type", "").startswith("application/json") or not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
