#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP: what both eras have in common, with tools that need no sandbox.

Usage: test_http.py HOST PLUGIN [PATTERN...]"""
import json
import pathlib
import random
import tempfile

from http_case import (BOTH, LEGACY, MODERN, Host, Session, Stream, call, dumps, error_code, modern, modern_body,
                       modern_headers)
from tap import main, skip


def mutated(chance, body):
    """The body with a few bytes changed, cut, repeated or put in the place of others."""
    body = bytearray(body)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(body) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            del body[at:at + chance.randrange(1, 9)]
        elif kind == 1:
            body[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
        elif kind == 2:
            body[at:at + 1] = chance.choice([b"{", b"}", b"[", b'"', b",", b"\\", b"null", b"1e999", b"-0", b"\0"])
        elif kind == 3:
            body[at:at] = body[:chance.randrange(40)]
        else:
            body[at:at] = b"[" * chance.randrange(100)
    return bytes(body)


def test_paths():
    with Host() as host:
        body, headers = dumps(modern_body("tools/list")), modern_headers("tools/list")
        assert host.request("POST", body, headers, "/mcp")[0] == 200
        assert host.request("POST", body, headers, "/mcp/")[0] == 200
        assert host.request("POST", body, headers, "/other")[0] == 404
        assert host.request("PUT", body, headers)[0] == 405


def test_another_path():
    with Host("http.path=/a/b") as host:
        assert host.url.endswith("/a/b")
        assert modern(host, "tools/list")[0] == 200
        assert host.get("/mcp")[0] == 404


def test_content_type():
    with Host() as host:
        for kind in ("text/plain", "application/jsonp", "application/json; charset=latin-1", "", None):
            status, _, body = host.request("POST", dumps(modern_body("tools/list")),
                                           modern_headers("tools/list", Content_Type=kind))
            assert (status, error_code(body)) == (415, -32600), (kind, status)
        for kind in ("application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\"", "application/json ;x=y"):
            assert modern(host, "tools/list", Content_Type=kind)[0] == 200, kind


def test_malformed_bodies():
    with Host() as host:
        for headers in (modern_headers("tools/list"), {"Content-Type": "application/json", "Accept": BOTH}):
            for body in (b"", b" \r\n\t", b"{", b"nonsense", b"\xff\xfe{}", b'"\xc3"', b"{}garbage", b'{"a":"\xed\xa0\x80"}',
                         b"[" * 5000, b"42", b"null"):
                status, got, answer = host.request("POST", body, headers)
                assert status == 400 and got["Content-Type"] == "application/json", (body, status, answer)
                assert error_code(answer) in (-32700, -32600) and json.loads(answer)["id"] is None, (body, answer)
            for message in ({"jsonrpc": "2.0", "id": 7}, {"jsonrpc": "1.0", "id": 7, "method": "ping"},
                            {"id": 7, "method": "ping"}, {"jsonrpc": "2.0", "id": 7, "method": 5}):
                status, _, answer = host.request("POST", dumps(message), headers)
                assert (status, error_code(answer)) == (400, -32600), (message, status, answer)
            status, _, answer = host.request("POST", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', headers)
            assert status == 400 and error_code(answer) in (-32600, -32700)


def test_too_large():
    with Host("max_message=64k") as host:
        assert host.request("POST", b" " * 70000, modern_headers("tools/list"))[0] == 413


def test_foreign_host_and_origin():
    with Host() as host:
        body = dumps(modern_body("tools/list"))
        assert host.request("POST", body, modern_headers("tools/list", Host="evil.example"))[0] in (403, 421)
        assert host.request("POST", body, modern_headers("tools/list", Origin="http://evil.example"))[0] == 403
        local = "http://127.0.0.1:%d" % host.port
        assert host.request("POST", body, modern_headers("tools/list", Origin=local))[0] == 200


def test_thousands_of_malformed_messages():
    chance = random.Random(20261121)  # the same ones each time
    texts = [dumps(modern_body("tools/list")), dumps(modern_body("tools/call", {"name": "nothing", "arguments": {}})),
             dumps(modern_body("server/discover", {}, request_id="x")), dumps([modern_body("ping")]),
             dumps({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": LEGACY}})]
    versions = (MODERN, LEGACY, "", "x" * 300, "2026-07-28 ", None)
    with Host("http.max_sessions=8") as host:
        connection = host.connect()
        for _ in range(2500):
            method = chance.choice(["tools/list", "tools/call", "server/discover", "initialize", "", "\t", "a" * 500])
            headers = modern_headers(method, chance.choice(["nothing", "=?base64?!?=", "=?base64??=", None]),
                                     MCP_Protocol_Version=chance.choice(versions),
                                     Mcp_Session_Id=chance.choice(["0" * 32, "x", None]))
            connection.request("POST", "/mcp", mutated(chance, chance.choice(texts)), headers)
            response = connection.getresponse()
            body = response.read()
            assert response.status in (200, 202, 400, 404, 406, 503), (response.status, body)
            if body and response.headers["Content-Type"] == "application/json":
                json.loads(body)
        connection.close()
        assert modern(host, "tools/list")[0] == 200


def test_health_and_figures():
    with Host() as host:
        assert host.get("/healthz")[::2] == (200, b"ok\n")
        assert host.get("/readyz")[::2] == (200, b"ready\n")
        Session(host).call("echo")
        call(host, "echo")
        host.request("POST", b"", modern_headers("x", Host="evil.example"))
        status, headers, body = host.get("/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = body.decode().splitlines()
        assert "fake 1" in lines  # of the core
        for line in ('snipara_sandbox_mcp_requests_total{era="legacy"} 3', 'snipara_sandbox_mcp_requests_total{era="modern"} 1',
                     'snipara_sandbox_http_refused_total{reason="host"} 1', "snipara_sandbox_mcp_http_sessions 1",
                     'snipara_sandbox_mcp_request_duration_seconds_count{method="tools/call"} 2'):
            assert line in lines, (line, lines)
        names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(names) == len(set(names))
        assert host.get("/.well-known/oauth-protected-resource")[0] == 404  # there is no issuer


def test_where_tokens_come_from():
    with tempfile.TemporaryDirectory() as directory:
        keys = pathlib.Path(directory, "keys.json")
        keys.write_text(json.dumps({"keys": [{  # the public key of RFC 7517, appendix A.1
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1",
            "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}))
        try:
            host = Host("http.issuer=https://login.example", "http.audience=https://sandbox.example/mcp",
                        "http.jwks=%s" % keys)
        except AssertionError as error:
            if "built without" in str(error) or "left out" in str(error):
                skip("JSON Web Tokens were left out of the build")
            raise
        with host:
            for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
                status, headers, body = host.get(path)
                assert (status, headers["Content-Type"]) == (200, "application/json")
                document = json.loads(body)
                assert document["resource"] == "https://sandbox.example/mcp"
                assert document["authorization_servers"] == ["https://login.example"]
            status, headers, _ = host.request("POST", b"{}", modern_headers("x"))
            assert status == 401
            assert "https://sandbox.example/.well-known/oauth-protected-resource/mcp" in headers["WWW-Authenticate"]
            assert host.get("/metrics")[0] == 401 and host.get("/healthz")[0] == 200


def test_shutdown_lets_requests_end():
    with Host() as host:
        body = dumps(modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 4000}}))
        with Stream(host, "POST", body, modern_headers("tools/call", "sleep")) as stream, \
                Session(host).listen() as unasked:
            unasked.event()
            host.await_unanswered(1)
            host.terminate()
            assert stream.status == 200
            assert json.loads(stream.head().read())["result"]["content"][0]["text"] == "done"
            assert unasked.event() is None
        assert host.end() == 0 and "cancelled" not in host.errors()


def test_shutdown_cancels_what_takes_too_long():
    with Host("http.shutdown=100ms") as host:
        session = Session(host)
        body = dumps(modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 60000}}))
        with Stream(host, "POST", body, modern_headers("tools/call", "sleep")) as one, \
                session.begin_call("sleep", {"ms": 60000}) as two, \
                session.begin_call("sleep", {"ms": 60000}, request_id=2, token="t") as three:
            three.event()
            host.await_unanswered(3)
            host.terminate()
            assert one.status == 503 and two.status == 503 and three.event() is None
        assert host.end() == 0
        assert host.errors().count("cancelled") == 3


def test_settings_that_can_not_be():
    for setting, word in (("http.path=mcp", "http.path"), ("http.path=/metrics", "http.path"),
                          ("http.listen=nonsense", "nonsense"), ("http.issuer=https://x.example", "http.audience"),
                          ("http.token_file=/no/such/file", "/no/such/file")):
        try:
            Host(setting).end()
            raise AssertionError("%s was taken" % setting)
        except AssertionError as error:
            assert "ended with 1" in str(error) and word in str(error), error


if __name__ == "__main__":
    main()
