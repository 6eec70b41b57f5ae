#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The proxy of the fault tests, before an engine that is a few lines: what it passes on is as it was, and each fault is what
it says. A proxy that did nothing would let every fault test pass."""
import http.client
import http.server
import json
import os
import socket
import socketserver
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import faults
from proxy import EngineProxy
from tap import main


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def address_string(self):
        return ""

    def send(self, body, *headers):
        self.send_response(200)
        for name, value in headers or (("Content-Length", str(len(body))), ("Content-Type", "application/json")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.seen.append(self.path)
        if self.path.endswith("/chunks"):
            self.send(b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n", ("Transfer-Encoding", "chunked"))
        else:
            self.send(json.dumps({"path": self.path}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(self.path)
        if self.headers.get("Upgrade"):
            self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            self.wfile.flush()
            while data := self.connection.recv(65536):
                self.connection.sendall(data)
            self.close_connection = True
        else:
            self.send(json.dumps({"size": len(body)}).encode())


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


class Proxy(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sbx-p-")
        self.addCleanup(directory.cleanup)
        self.engine = Engine(os.path.join(directory.name, "real"), Answer)
        self.engine.seen = []
        threading.Thread(target=self.engine.serve_forever, daemon=True).start()
        self.addCleanup(self.engine.server_close)
        self.addCleanup(self.engine.shutdown)
        self.proxy = EngineProxy(os.path.join(directory.name, "real"), os.path.join(directory.name, "proxy"))
        self.addCleanup(self.proxy.__exit__)
        self.connection = Connection(self.proxy.path)
        self.addCleanup(self.connection.close)

    def ask(self, method="GET", path="/v1.41/x", body=None):
        self.connection.request(method, path, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def fails(self, *arguments):
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask(*arguments)
        self.connection.close()

    def hijack(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(self.proxy.path)
        self.addCleanup(sock.close)
        sock.sendall(b"POST /v1.41/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "))
        return sock

    def test_it_passes_on(self):
        for _ in range(2):  # on one connection
            self.assertEqual(self.ask(), (200, b'{"path": "/v1.41/x"}'))
            self.assertEqual(self.ask(path="/chunks"), (200, b"[1,2]"))
            self.assertEqual(self.ask("POST", body=b"y" * 300000), (200, b'{"size": 300000}'))
        self.assertEqual((self.proxy.count("GET /x$"), self.proxy.count("POST /x")), (2, 2))

    def test_rules_count(self):
        rule = self.proxy.on("GET /x", faults.status(500, "boom"), times=2, skip=1)
        self.assertEqual([self.ask()[0] for _ in range(5)], [200, 500, 500, 200, 200])
        self.assertEqual(rule.hits, 2)
        self.assertEqual(len(self.engine.seen), 3)

    def test_faults(self):
        self.proxy.on("GET /status", faults.status(404, "none"))
        self.assertEqual(self.ask(path="/status"), (404, b'{"message": "none"}'))
        self.proxy.on("GET /rewrite", faults.rewrite_json(lambda value: {**value, "more": 1}))
        self.assertEqual(json.loads(self.ask(path="/rewrite")[1]), {"path": "/rewrite", "more": 1})
        for name, action in {"close": faults.close(), "reset": faults.reset(), "raw": faults.raw(b"?\r\n\r\n"),
                             "lose": faults.lose_answer(), "cut": faults.cut_answer(5)}.items():
            self.proxy.on("GET /" + name, action)
            self.fails("GET", "/" + name)
        self.assertEqual(self.engine.seen, ["/rewrite", "/lose", "/cut"])

    def test_hanging_and_floods(self):
        self.proxy.on("GET /hang", faults.hang())
        self.proxy.on("GET /flood", faults.flood())
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.proxy.path)
            sock.sendall(b"GET /hang HTTP/1.1\r\n\r\n")
            sock.settimeout(0.2)
            self.assertRaises(socket.timeout, sock.recv, 1)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.proxy.path)
            sock.sendall(b"GET /flood HTTP/1.1\r\n\r\n")
            size = 0
            while size < 10000000:
                size += len(sock.recv(1 << 20))

    def test_down_and_up(self):
        self.assertEqual(self.ask()[0], 200)
        stream = self.hijack()
        self.proxy.down()
        self.assertEqual(stream.recv(1), b"")
        self.fails()
        self.proxy.up()
        self.assertEqual(self.ask()[0], 200)

    def test_streams(self):
        sock = self.hijack()
        sock.sendall(b"hello")
        self.assertEqual(sock.recv(100), b"hello")
        stream, = self.proxy.streams()
        stream.inject(b"lie")
        self.assertEqual(sock.recv(100), b"lie")
        stream.freeze()
        sock.sendall(b"late")
        sock.settimeout(0.2)
        self.assertRaises(socket.timeout, sock.recv, 1)
        stream.thaw()
        sock.settimeout(60)
        self.assertEqual(sock.recv(100), b"late")
        stream.cut()
        self.assertEqual(sock.recv(100), b"")

    def test_streams_of_rules(self):
        for action, sent, wanted in ((faults.stream_cut(3), b"hello", b"hel"),
                                     (faults.stream_garbage(b"?", 0), b"hello", b"?"), (faults.stream_drip(), b"abc", b"abc")):
            self.proxy.clear()
            self.proxy.on("POST /attach", action)
            sock = self.hijack()
            sock.sendall(sent)
            got = b""
            while len(got) < len(wanted):
                got += sock.recv(100)
            self.assertEqual(got, wanted)


if __name__ == "__main__":
    main()
