# SPDX-License-Identifier: Apache-2.0
"""A TCP server on a free port of loopback that answers HTTP requests with whatever bytes a test likes.

    def answer(connection):
        connection.request()                        # reads one: {"line", "headers", "body"}; None: the client went away
        connection.send(b"HTTP/1.1 200 OK\\r\\n...")
        connection.drip(b"abc", seconds=0.1)        # a byte at a time, until the client goes away
        connection.hang()                           # until the client goes away
        connection.reset()                          # ends it with RST

    with RawServer(answer) as server:
        server.url, server.port; server.connections (count); server.requests (those read, oldest first)

Each connection has a thread; `answer` returns to close it. What it raises because the client is gone does not matter.
"""
import socket
import struct
import threading

PATIENCE = 300  # seconds, of one read or write


class Connection:
    def __init__(self, server, sock, number):
        self.server, self.sock, self.number = server, sock, number
        self.pending = b""

    def request(self):
        while b"\r\n\r\n" not in self.pending:
            piece = self.sock.recv(65536)
            if not piece:
                return None
            self.pending += piece
        head, _, rest = self.pending.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
        size = int(headers.get("content-length", 0))
        while len(rest) < size:
            piece = self.sock.recv(1 << 20)
            if not piece:
                return None
            rest += piece
        self.pending = rest[size:]
        found = {"line": line, "headers": headers, "body": rest[:size]}
        with self.server.lock:
            self.server.requests.append(found)
        return found

    def send(self, data):
        self.sock.sendall(data)

    def respond(self, body, status="200 OK", content_type="application/json", headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        lines = ["HTTP/1.1 " + status, "Content-Type: " + content_type, "Content-Length: %d" % len(body), *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def drip(self, data, seconds):
        stop = threading.Event()
        for byte in data:
            self.send(bytes([byte]))
            stop.wait(seconds)

    def hang(self):
        while self.sock.recv(65536):
            pass

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class RawServer:
    def __init__(self, answer):
        self.answer = answer
        self.lock = threading.Lock()
        self.requests = []
        self.connections = 0
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for sock in self.open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                number = self.connections
                self.connections += 1
                self.open.add(sock)
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _serve(self, sock, number):
        try:
            self.answer(Connection(self, sock, number))
        except OSError:
            pass  # the client is gone
        finally:
            with self.lock:
                self.open.discard(sock)
            sock.close()
