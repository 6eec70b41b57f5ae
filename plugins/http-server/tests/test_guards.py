# SPDX-License-Identifier: Apache-2.0
"""Host, Origin, CORS, addresses to listen on, TLS."""
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_case import Server, read_response, request  # noqa: E402
from tap import main, skip  # noqa: E402


def test_hosts():
    with Server("host=mcp.example", "host=10.9.8.7") as server:
        good = ("localhost", "LOCALHOST", "localhost:1", "localhost:", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]",
                "[::1]:8000", "mcp.example", "MCP.example:443", "10.9.8.7")
        forbidden = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost", "xmcp.example",
                     "mcp.example.evil", "10.9.8.70", "0.0.0.0", "[::]", "[::2]", "2130706433", "127.1", "0x7f.0.0.1",
                     "localhost.", "192.168.0.1")
        malformed = ("localhost:x", "localhost:1:2", "localhost:123456", "[::1", "::1", "[localhost]", "a b", "localhost,",
                     "http://localhost", "localhost/", "user@localhost", "localhost#", "lo\xe7alhost", ":80", "[::1]x")
        for host in good:
            assert server.get(host=host).status == 200, host
        for host in forbidden:
            response = server.get(host=host)
            assert response.status == 403 and b"Host" in response.body, (host, response)
        for host in malformed:
            assert server.get(host=host).status == 400, host
        assert server.counts()["host"] == len(forbidden)
        # Alone: no Origin takes part in it, and an Origin that is allowed does not help.
        assert server.get(host="evil.example", headers=["Origin: http://localhost"]).status == 403


ALLOWED_ORIGINS = ("http://localhost", "https://localhost:8443", "http://127.0.0.1:3000", "http://[::1]:3000",
                   "HTTP://LOCALHOST:1", "https://app.example", "moz-extension://abc")
FORBIDDEN_ORIGINS = ("null", "http://evil.example", "http://localhost.evil.com", "http://127.0.0.1.evil",
                     "http://localhost@evil.com", "http://evil.com@localhost", "http://user:pass@localhost",
                     "http://localhost:80@evil.com", "http://localhost/", "http://localhost#evil", "http://localhost?x",
                     "http://localhost\\.evil.com", "https://app.example.evil", "https://app.example:444",
                     "http://app.example", "ftp://localhost", "file://", "localhost", "//localhost", "http:localhost",
                     "http:///localhost", "http://", "", "http://[::1", "http://0x7f000001", "http://127.1",
                     "http://localhost:99999999", "http://localhost http://evil.com", "http://localhost,http://evil.com",
                     "http://l\xf6calhost", "javascript://localhost", "http://localhost:80:80", "http://0.0.0.0")


def test_origins():
    with Server("origin=https://app.example", "origin=moz-extension://abc") as server:
        assert server.get().status == 200
        for origin in ALLOWED_ORIGINS:
            response = server.get(headers=["Origin: " + origin])
            assert response.status == 200, (origin, response)
            assert response.headers["access-control-allow-origin"] == origin, response
            assert "Origin" in response.headers["vary"], response
            exposed = response.headers["access-control-expose-headers"].lower()
            for name in ("mcp-session-id", "mcp-protocol-version", "www-authenticate"):
                assert name in exposed, response
        for origin in FORBIDDEN_ORIGINS:
            response = server.get(headers=["Origin: " + origin])
            assert response.status == 403 and b"Origin" in response.body, (origin, response)
            assert "access-control-allow-origin" not in response.headers, response
            assert b"method=" not in response.body
        assert server.counts()["origin"] == len(FORBIDDEN_ORIGINS)
        assert "access-control-allow-origin" not in server.get().headers


def test_preflight():
    with Server("origin=https://app.example") as server:
        response = server.get("/later", "OPTIONS", ["Origin: https://app.example", "Access-Control-Request-Method: POST",
                                                    "Access-Control-Request-Headers: authorization, mcp-param-x",
                                                    "Access-Control-Request-Private-Network: true"])
        assert response.status == 204 and response.body == b"", response
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert response.headers["access-control-allow-methods"] == "GET, POST"
        assert response.headers["access-control-allow-headers"] == "authorization, mcp-param-x"
        assert response.headers["access-control-allow-private-network"] == "true"
        assert "Origin" in response.headers["vary"]
        response = server.get("/later", "OPTIONS", ["Origin: http://evil.example", "Access-Control-Request-Method: POST"])
        assert response.status == 403 and "access-control-allow-methods" not in response.headers, response
        response = server.get("/later", "OPTIONS", ["Origin: https://app.example", "Access-Control-Request-Method: POST",
                                                    "Access-Control-Request-Headers: a b; c"])
        assert "access-control-allow-headers" not in response.headers, response
        assert server.get("/nothing", "OPTIONS", ["Origin: https://app.example"]).status == 404


def test_a_page_can_read_why_it_was_refused():
    with Server("rate=1", "burst=1") as server:
        for path, status in (("/nothing", 404), ("/echo", 200), ("/echo", 429)):
            response = server.get(path, headers=["Origin: http://localhost:5173"])
            if response.status == status:
                assert response.headers["access-control-allow-origin"] == "http://localhost:5173", response


def test_addresses():
    wrong = {
        "listen=127.0.0.1": "no address to listen on", "listen=:80": "no address to listen on",
        "listen=127.0.0.1:65536": "no address to listen on", "listen=127.0.0.1:8x": "no address to listen on",
        "listen=example.org:80": "no address to listen on", "listen=::1:80": "no address to listen on",
        "listen=[127.0.0.1]:80": "no address to listen on", "listen=[::1]": "no address to listen on",
        "listen=0.0.0.0:0": "no token would be required", "listen=[::]:0": "no token would be required",
        "listen=192.0.2.1:0": "no token would be required",
    }
    for setting, text in wrong.items():
        with Server(setting) as server:
            assert server.url.startswith("error Invalid argument: ") and text in server.url, (setting, server.url)
    with Server() as server, Server("listen=127.0.0.1:%d" % server.port) as second:
        assert second.url.startswith("error Address already in use"), second.url
    with Server("listen=localhost:0") as server:
        assert server.url == "http://127.0.0.1:%d" % server.port and server.get().status == 200
    for setting in ("host=a/b", "host=a:80", "origin=app.example", "origin=https://a/b", "origin=null", "origin="):
        with Server(setting) as server:
            assert server.url.startswith("error Invalid argument"), (setting, server.url)


def test_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        skip("this machine has no IPv6 loopback")
    with Server("listen=[::1]:0") as server:
        assert server.url == "http://[::1]:%d" % server.port
        with server.connect("::1") as connection:
            connection.sendall(request(host="[::1]:%d" % server.port))
            assert b"address=::1\n" in read_response(connection).body


def run(*command):
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        skip("%s is not installed" % command[0])


def make_certificate(directory, name, *options):
    key, certificate = os.path.join(directory, name + ".key"), os.path.join(directory, name + ".pem")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
        "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        *(options or ("-days", "365")))
    os.chmod(key, 0o600)
    return certificate, key


def test_tls():
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = make_certificate(directory, "server")
        with Server("certificate=" + certificate, "key=" + key) as server:
            assert server.url.startswith("https://127.0.0.1:"), server.url
            context = ssl.create_default_context(cafile=certificate)
            with context.wrap_socket(server.connect(), server_hostname="localhost") as connection:
                assert connection.version() in ("TLSv1.2", "TLSv1.3")
                for i in range(5):
                    connection.sendall(request("/later?q=%d" % i, "POST", body=b"x" * 100000))
                    response = read_response(connection)
                    assert response.status == 200 and response.body.endswith(b"x" * 100000), response.status
                connection.sendall(request("/stream?count=20&size=10000"))
                assert len(read_response(connection).body) > 200000
                connection.sendall(request("/hold"))
                server.wait_for(lambda counts: counts["held"] == 1)
            server.wait_for(lambda counts: counts["gone"] == 1)
            check_versions(server, certificate)
            # Not TLS at all, and one that never says anything: neither is in the way of others.
            with server.connect() as plain, server.connect():
                plain.sendall(request())
                with context.wrap_socket(server.connect(), server_hostname="localhost") as connection:
                    connection.sendall(request())
                    assert read_response(connection).status == 200


def check_versions(server, certificate):
    for version, works in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True),
                           (ssl.TLSVersion.TLSv1_1, False)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(certificate)
        try:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = context.maximum_version = version
            with context.wrap_socket(server.connect(), server_hostname="localhost") as connection:
                connection.sendall(request())
                assert read_response(connection).status == 200
                assert works, version
        except (ssl.SSLError, ConnectionError):
            assert not works, version


def test_tls_files_are_checked():
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = make_certificate(directory, "server")
        other_certificate, other_key = make_certificate(directory, "other")
        old, old_key = make_certificate(directory, "old", "-days", "1")
        nonsense = os.path.join(directory, "nonsense")
        with open(nonsense, "w", encoding="ascii") as file:
            file.write("nonsense\n")
        os.chmod(nonsense, 0o600)
        readable = os.path.join(directory, "readable")
        with open(key, encoding="ascii") as source, open(readable, "w", encoding="ascii") as file:
            file.write(source.read())
        os.chmod(readable, 0o644)
        missing = os.path.join(directory, "missing")
        wrong = {
            (missing, key): ("No such file", "can't be opened"),
            (certificate, missing): ("No such file", "can't be opened"),
            (certificate, other_key): ("Bad message", "does not belong to the certificate"),
            (other_certificate, key): ("Bad message", "does not belong to the certificate"),
            (nonsense, key): ("Bad message", "can't be understood"),
            (certificate, nonsense): ("Bad message", "can't be understood"),
            (certificate, readable): ("Permission denied", "open to other users"),
            (directory, key): ("Is a directory", "is not a file"),
        }
        for (certificate_file, key_file), (code, text) in wrong.items():
            with Server("certificate=" + certificate_file, "key=" + key_file) as server:
                assert server.url.startswith("error " + code) and text in server.url, (certificate_file, server.url)
        with Server("certificate=" + certificate) as server:
            assert "the key is missing" in server.url, server.url
        with Server("certificate=" + old, "key=" + old_key) as server:
            assert "expires in 2" in server.log(), server.log()


def test_expired_certificates_are_refused():
    with tempfile.TemporaryDirectory() as directory:
        key = os.path.join(directory, "key")
        certificate = os.path.join(directory, "certificate")
        template = os.path.join(directory, "template")
        with open(template, "w", encoding="ascii") as file:
            file.write('cn = "localhost"\nactivation_date = "2020-01-01 00:00:00"\nexpiration_date = "2020-02-01 00:00:00"\n')
        run("certtool", "--generate-privkey", "--key-type", "ecdsa", "--outfile", key)
        run("certtool", "--generate-self-signed", "--load-privkey", key, "--template", template, "--outfile", certificate)
        os.chmod(key, 0o600)
        with Server("certificate=" + certificate, "key=" + key) as server:
            assert server.url.startswith("error Bad message") and "has expired" in server.url, server.url


if __name__ == "__main__":
    main()
