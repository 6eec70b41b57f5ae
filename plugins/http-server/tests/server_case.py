# SPDX-License-Identifier: Apache-2.0
"""Starts http-server-host and speaks to it in bytes, for the tests of this directory."""
import os
import socket
import subprocess
import tempfile
import time

HOST = os.environ["HTTP_SERVER_HOST"]
WAIT = 30  # seconds that nothing should take; how long it takes is never tested


class Server:
    """A server with the given settings ("name=value"); `with Server(...) as server`."""

    def __init__(self, *settings, metadata=False, descriptors=None):
        self.log_file = tempfile.TemporaryFile()
        command = ["prlimit", "--nofile=%d" % descriptors, HOST] if descriptors else [HOST]
        self.process = subprocess.Popen([*command, *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log_file, text=True)
        self.metadata = self.process.stdout.readline().strip() if metadata else None
        self.url = self.process.stdout.readline().strip()
        if self.url.startswith("http"):
            self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        code = self.process.wait(WAIT)
        self.process.stdout.close()
        self.log_file.close()
        assert code == 0 or not self.url.startswith("http"), "the host ended with %d" % code

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def counts(self, command="counts"):
        self.command(command)
        line = self.process.stdout.readline()
        return {name: int(value) for name, value in (part.split("=") for part in line.split())}

    def wait_for(self, condition):
        """Until the counts are so."""
        end = time.monotonic() + WAIT
        while True:
            counts = self.counts()
            if condition(counts):
                return counts
            assert time.monotonic() < end, counts
            time.sleep(0.01)

    def connect(self, address="127.0.0.1"):
        connection = socket.create_connection((address, self.port), WAIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def raw(self, request):
        """Sends the bytes and reads until the server closes, or one response is whole."""
        with self.connect() as connection:
            try:
                connection.sendall(request)
            except OSError:
                pass  # it may close before it has all
            return read_response(connection)

    def get(self, path="/echo", method="GET", headers=(), body=b"", host=None):
        return self.raw(request(path, method, headers, body, host or "127.0.0.1:%d" % self.port))


class Response:
    def __init__(self, status, headers, body, rest=b"", closed=False):
        self.status, self.headers, self.body, self.rest, self.closed = status, headers, body, rest, closed

    def __repr__(self):
        return "%d %r %r" % (self.status, self.headers, self.body)


def request(path="/echo", method="GET", headers=(), body=b"", host="127.0.0.1"):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + host, *headers]
    if body or method in ("POST", "PUT"):
        lines.append("Content-Length: %d" % len(body))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def read_more(connection, data):
    try:
        piece = connection.recv(65536)
    except ConnectionError:
        piece = b""
    return data + piece, not piece


def read_response(connection, data=b""):
    """None when the connection ends without one."""
    closed = False
    while b"\r\n\r\n" not in data and not closed:
        data, closed = read_more(connection, data)
    if b"\r\n\r\n" not in data:
        assert not data, data
        return None
    head, data = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    version, status = lines[0].split(" ", 2)[:2]
    assert version == "HTTP/1.1", lines[0]
    headers = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    if status == "100":
        return read_response(connection, data)
    if "content-length" in headers:
        length = int(headers["content-length"])
        while len(data) < length and not closed:
            data, closed = read_more(connection, data)
        assert len(data) >= length, (headers, data)
        return Response(int(status), headers, data[:length], data[length:], closed)
    if headers.get("transfer-encoding") == "chunked":
        while not data.endswith(b"0\r\n\r\n") and not closed:
            data, closed = read_more(connection, data)
        return Response(int(status), headers, unchunk(data), b"", closed)
    if status == "204":
        return Response(int(status), headers, b"", data, closed)
    while not closed:
        data, closed = read_more(connection, data)
    return Response(int(status), headers, data, b"", True)


def unchunk(data):
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if not size or int(size, 16) == 0:
            return body
        body += data[:int(size, 16)]
        data = data[int(size, 16) + 2:]


def is_closed(connection):
    """Waits until the server closes."""
    data, closed = b"", False
    while not closed:
        data, closed = read_more(connection, data)
    return data
