# SPDX-License-Identifier: Apache-2.0
"""A small registry of images on the loopback, as much of https://github.com/opencontainers/distribution-spec as a pull
needs. It can ask for a password, wait in the middle of a layer, and hand out layers that are not what they should be."""
import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import platform
import re
import tarfile
import threading

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
WAIT_SECONDS = 60


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """`images`: "team/name:tag" -> manifest. `blobs`: digest -> bytes."""

    def __init__(self):
        self.images, self.blobs, self.requests = {}, {}, []
        self.login = None  # (user, password) that everybody must have
        self.gate = threading.Event()  # layers stop in the middle until it is set
        self.gate.set()
        self.damaged = False  # layers have other bytes than their digest says
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": self}))
        self.server.daemon_threads = True
        self.place = "127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def reset(self):
        self.login, self.damaged = None, False
        self.gate.set()
        self.requests.clear()

    def count(self, pattern):
        return sum(re.search(pattern, request) is not None for request in list(self.requests))

    def add(self, name, size=1 << 20):
        """An image of one layer with a file of `size` random bytes. Returns its whole name."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("file")
            entry.size = size
            tar.addfile(entry, io.BytesIO(os.urandom(size)))
        layer = gzip.compress(packed.getvalue(), 1)
        config = json.dumps({"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux",
                             "config": {"Cmd": ["/bin/true"]}, "history": [{"created_by": "test"}],
                             "rootfs": {"type": "layers", "diff_ids": [digest(packed.getvalue())]}}).encode()
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST,
                               "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
                               "layers": [{"mediaType": LAYER, "size": len(layer), "digest": digest(layer)}]}).encode()
        self.blobs.update({digest(layer): layer, digest(config): config})
        self.images[name] = manifest
        return "%s/%s" % (self.place, name)


class _Handler(http.server.BaseHTTPRequestHandler):
    registry = None
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, kind="application/json", body=b"", **more):
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "HEAD":
            return
        registry, half = self.registry, len(body) // 2
        if len(body) > 100000 and not registry.gate.is_set():
            self.wfile.write(body[:half])
            registry.gate.wait(WAIT_SECONDS)
            body = body[half:]
        self.wfile.write(body)

    def error(self, status, code, **more):
        self.answer(status, body=json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode(), **more)

    def is_allowed(self):
        login = self.registry.login
        return login is None or self.headers.get("Authorization") == \
            "Basic " + base64.b64encode(":".join(login).encode()).decode()

    def do_GET(self):
        registry = self.registry
        registry.requests.append("%s %s" % (self.command, self.path))
        with contextlib.suppress(ConnectionError):
            if not self.is_allowed():
                self.error(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="test"')
            elif self.path == "/v2/":
                self.answer(200, body=b"{}")
            else:
                self.item()

    do_HEAD = do_GET

    def item(self):
        registry = self.registry
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", self.path)
        name, kind, reference = found.groups() if found else ("", "", "")
        if kind == "blobs" and reference in registry.blobs:
            blob = registry.blobs[reference]
            if registry.damaged and len(blob) > 100000:
                blob = blob[:-1] + bytes([blob[-1] ^ 1])
            self.answer(200, "application/octet-stream", blob, Docker_Content_Digest=reference)
            return
        manifest = registry.images.get("%s:%s" % (name, reference)) or next(
            (one for image, one in registry.images.items()
             if image.startswith(name + ":") and digest(one) == reference), None)
        if kind == "manifests" and manifest is not None:
            self.answer(200, MANIFEST, manifest, Docker_Content_Digest=digest(manifest))
        else:
            self.error(404, "MANIFEST_UNKNOWN")
