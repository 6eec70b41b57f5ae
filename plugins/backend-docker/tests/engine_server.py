# SPDX-License-Identifier: Apache-2.0
"""A server for the tests of the engine's client, on a Unix socket, or on loopback with or without TLS; certificates."""
import json
import os
import socket
import ssl
import subprocess
import threading

from raw_server import Connection, RawServer

VERSION = {"Components": [{"Name": "Engine", "Version": "20.10.24"}, {"Name": "docker-init", "Version": "0.19.0"}],
           "Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64"}
INFO = {"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]], "DefaultRuntime": "runc",
        "CgroupVersion": "2", "SwapLimit": True, "PidsLimit": True, "InitBinary": "docker-init",
        "SecurityOptions": ["name=seccomp,profile=default"]}


class EngineServer(RawServer):
    """`answer(connection, request)` for what is neither /version nor /info; it returns to close the connection, or True to
    wait for the next request. `path`: of a Unix socket; `tls`: an ssl.SSLContext."""

    def __init__(self, answer=None, path=None, tls=None, version=None, info=None):
        self.reply, self.path, self.tls = answer, path, tls
        self.version = VERSION if version is None else version
        self.info = INFO if info is None else info
        self.answer = self._requests
        self.lock = threading.Lock()
        self.requests, self.connections, self.open = [], 0, set()
        if path is not None:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen(64)
            self.address = "unix://" + path
        else:
            self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            self.port = self.listener.getsockname()[1]
            self.address = "tcp://127.0.0.1:%d" % self.port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(300)
            with self.lock:
                number = self.connections
                self.connections += 1
                self.open.add(sock)
            threading.Thread(target=self._serve_one, args=(sock, number), daemon=True).start()

    def _serve_one(self, sock, number):
        plain = sock
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            self.answer(Connection(self, sock, number))
        except OSError:
            pass  # the client is gone, or is nobody we trust
        finally:
            with self.lock:
                self.open.discard(plain)
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _requests(self, connection):
        while True:
            request = connection.request()
            if request is None:
                return
            target = request["line"].split(" ")[1]
            if target == "/version" or target.endswith("/version"):
                said = self.version
            elif target.endswith("/info"):
                said = self.info
            elif not self.reply(connection, request):
                return
            else:
                continue
            if isinstance(said, bytes):
                connection.send(said)
                return
            connection.respond(json.dumps(said))


def echo(connection, head=b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"):
    connection.send(head)
    while True:
        data = connection.pending or connection.sock.recv(65536)
        connection.pending = b""
        if not data:
            return
        connection.send(data)


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)


def make_certificates(directory, host="IP:127.0.0.1"):
    """ca.pem, server-cert.pem, server-key.pem (for `host`), cert.pem, key.pem (a client's), as dockerd wants them."""
    path = lambda name: os.path.join(directory, name)  # noqa: E731
    os.makedirs(directory, exist_ok=True)
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test ca", "-keyout",
             path("ca-key.pem"), "-out", path("ca.pem"))
    for kind, subject, usage in (("server-", "/CN=engine", "subjectAltName=%s\nextendedKeyUsage=serverAuth\n" % host),
                                 ("", "/CN=client", "extendedKeyUsage=clientAuth\n")):
        with open(path("extensions"), "w", encoding="utf-8") as f:
            f.write(usage)
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", path(kind + "key.pem"), "-out",
                 path(kind + "request.pem"))
        _openssl("x509", "-req", "-days", "2", "-in", path(kind + "request.pem"), "-CA", path("ca.pem"), "-CAkey",
                 path("ca-key.pem"), "-CAcreateserial", "-extfile", path("extensions"), "-out", path(kind + "cert.pem"))
    return directory


def server_context(directory):
    """Wants a certificate of the same authority from who connects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "server-cert.pem"), os.path.join(directory, "server-key.pem"))
    context.load_verify_locations(os.path.join(directory, "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
