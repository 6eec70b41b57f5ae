# SPDX-License-Identifier: Apache-2.0
"""Tokens of a file, and JSON Web Tokens that an issuer signed, or somebody else did."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_case import WAIT, Server, read_response, request  # noqa: E402
from tap import main, skip  # noqa: E402

SIGN = os.environ.get("HTTP_SERVER_SIGN")  # not there: built without JWT
ISSUER, AUDIENCE = "https://issuer.example/", "https://mcp.example/mcp"
TOKEN, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


class TokenFile:
    def __init__(self, text, mode=0o600):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "tokens")
        self.write(text, mode)

    def write(self, text, mode=0o600):
        new = self.path + ".new"
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(new, mode)
        os.rename(new, self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.cleanup()


def ask(server, token=None, path="/echo", scheme="Bearer", headers=()):
    return server.get(path, headers=[*headers, *(["Authorization: %s %s" % (scheme, token)] if token else [])])


def wait_for_status(server, token, status):
    end = time.monotonic() + WAIT
    while ask(server, token).status != status:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_tokens_of_a_file():
    text = "# who may\n\nalice %s\n  bob\tsha256:%s  # his\n" % (TOKEN, hashlib.sha256(OTHER.encode()).hexdigest())
    with TokenFile(text) as file, Server("token_file=" + file.path) as server:
        assert b"principal=token:alice\n" in ask(server, TOKEN).body
        assert b"principal=token:bob\n" in ask(server, OTHER).body
        assert b"principal=token:alice\n" in ask(server, TOKEN, scheme="bearer").body
        missing = ask(server)
        assert missing.status == 401 and b"token is required" in missing.body, missing
        assert missing.headers["www-authenticate"].startswith("Bearer "), missing
        assert "error" not in missing.headers["www-authenticate"], missing
        wrong = (TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 32, "x" * 9000, "a b", '"' + TOKEN + '"',
                 TOKEN + "," + OTHER, "sha256:" + hashlib.sha256(TOKEN.encode()).hexdigest(),
                 hashlib.sha256(TOKEN.encode()).hexdigest())
        for token in wrong:
            response = ask(server, token)
            assert response.status == 401, (token, response)
            assert 'error="invalid_token"' in response.headers["www-authenticate"], response
            assert b"principal" not in response.body
        for scheme in ("Basic", "Token", "BearerX"):
            assert ask(server, TOKEN, scheme=scheme).status == 401
        # Never from anywhere else.
        assert server.get("/echo?access_token=" + TOKEN).status == 401
        assert server.get("/echo?token=" + TOKEN).status == 401
        assert server.get(headers=["X-Api-Key: " + TOKEN, "Cookie: token=" + TOKEN]).status == 401
        assert ask(server, None, "/public").status == 200
        assert b"principal=\n" in ask(server, TOKEN, "/public").body
        assert server.counts()["token"] == len(wrong) + 3 + 3 + 1
        for secret in (TOKEN, OTHER):
            assert secret not in server.log()


def test_a_body_behind_a_missing_token():
    with TokenFile("alice " + TOKEN) as file, Server("token_file=" + file.path) as server:
        with server.connect() as connection:
            connection.sendall(request("/echo", "POST", body=b"x" * 5000))
            assert read_response(connection).status == 401
            connection.sendall(request("/echo", "POST", ["Authorization: Bearer " + TOKEN], b"hello"))
            assert read_response(connection).status == 200
            # A large one is not waited for.
            connection.sendall(request("/echo", "POST", body=b"x" * 100000)[:1000])
            response = read_response(connection)
            assert response.status == 401 and response.headers["connection"] == "close", response


def test_token_files_are_read_again():
    with TokenFile("alice " + TOKEN) as file, Server("token_file=" + file.path) as server:
        assert ask(server, TOKEN).status == 200 and ask(server, OTHER).status == 401
        file.write("bob " + OTHER)
        wait_for_status(server, OTHER, 200)
        assert ask(server, TOKEN).status == 401
        # One that is broken, open to others, or gone leaves things as they were.
        for text, mode in (("bob", 0o600), ("bob " + TOKEN, 0o644), ("bob short", 0o600)):
            file.write(text, mode)
            time.sleep(0.3)
            assert ask(server, OTHER).status == 200 and ask(server, TOKEN).status == 401, (text, mode)
        os.unlink(file.path)
        time.sleep(0.3)
        assert ask(server, OTHER).status == 200
        assert "is malformed" in server.log() and "open to other users" in server.log(), server.log()
        assert TOKEN not in server.log() and OTHER not in server.log()
        file.write("carol " + TOKEN)
        wait_for_status(server, TOKEN, 200)
        assert ask(server, OTHER).status == 401


def test_token_files_that_are_refused():
    wrong = {
        "alice": "has no token", "alice short": "fewer than 16", "a/b " + TOKEN: "its name", "a" * 65 + " " + TOKEN: "its name",
        "alice sha256:12": "64 hexadecimal digits", "alice sha256:" + "g" * 64: "64 hexadecimal digits",
        "alice %s\nalice %s" % (TOKEN, OTHER): "twice", "alice t\xf6ken0123456789abcdef": "can't carry",
        "": "has no token", "# nothing\n": "has no token",
    }
    for text, why in wrong.items():
        with TokenFile(text) as file, Server("token_file=" + file.path) as server:
            assert server.url.startswith("error Invalid argument") and why in server.url, (text, server.url)
            assert TOKEN not in server.url
    with TokenFile("alice " + TOKEN, 0o640) as file, Server("token_file=" + file.path) as server:
        assert server.url.startswith("error Permission denied") and "chmod 600" in server.url, server.url
    with Server("token_file=/nonexistent/tokens") as server:
        assert server.url.startswith("error No such file"), server.url


def test_failed_attempts_have_a_rate():
    with TokenFile("alice " + TOKEN) as file, Server("token_file=" + file.path, "rate=1", "burst=3") as server:
        statuses = [ask(server, "x" * 32).status for _ in range(8)]
        assert statuses[:3] == [401] * 3 and 429 in statuses, statuses


def need_jwt():
    if SIGN is None:
        skip("built without JSON Web Tokens")


def make_keys(kind="EC", bits=256, kid="k1"):
    out = subprocess.run([SIGN, "keys", kind, str(bits), kid], check=True, capture_output=True, text=True, timeout=60)
    private, public = out.stdout.splitlines()
    return private, json.loads(public)


def b64(data):
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**changes):
    now = int(time.time())
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "somebody", "exp": now + 600, "nbf": now - 10, "iat": now - 10,
              "scope": "mcp:read mcp:tools"}
    values.update(changes)
    return {name: value for name, value in values.items() if value is not None}


def sign(private, algorithm="ES256", header=None, **changes):
    header = {"typ": "at+jwt", "kid": "k1", **(header or {})}
    header = {name: value for name, value in header.items() if value is not None}
    out = subprocess.run([SIGN, "token", algorithm, private, json.dumps(header), json.dumps(claims(**changes))], check=True,
                         capture_output=True, text=True, timeout=60)
    return out.stdout.strip()


class KeyFile(TokenFile):
    def __init__(self, *keys):
        super().__init__(json.dumps({"keys": keys}), 0o644)


def jwt_server(jwks, *settings, **options):
    return Server("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=" + jwks, *settings, **options)


def test_algorithms():
    need_jwt()
    for kind, bits, algorithms in (("RSA", 2048, ("RS256", "PS256")), ("EC", 256, ("ES256",)), ("OKP", 256, ("EdDSA",))):
        private, public = make_keys(kind, bits)
        with KeyFile(public) as file, jwt_server(file.path) as server:
            for algorithm in algorithms:
                response = ask(server, sign(private, algorithm))
                assert response.status == 200, (algorithm, response)
                expected = hashlib.sha256((ISSUER + "\nsomebody").encode()).hexdigest()[:32]
                assert b"principal=jwt:" + expected.encode() + b"\n" in response.body, response
    # Others, with keys that would do.
    for kind, bits, algorithm in (("RSA", 2048, "RS384"), ("RSA", 2048, "RS512"), ("EC", 384, "ES384"), ("RSA", 1024, "RS256")):
        private, public = make_keys(kind, bits)
        _, good = make_keys(kid="other")
        with KeyFile(public, good) as file, jwt_server(file.path) as server:
            response = ask(server, sign(private, algorithm))
            assert response.status in (401, 503), (algorithm, response)


def refused(server, token, what, status=401):
    response = ask(server, token)
    assert response.status == status, (what, response)
    assert b"principal" not in response.body, what
    if status == 401:
        assert 'error="invalid_token"' in response.headers["www-authenticate"], (what, response)


def test_claims():
    need_jwt()
    private, public = make_keys()
    now = int(time.time())
    good = {
        "plain": {}, "a list of audiences": {"aud": ["https://a.example", AUDIENCE]}, "late, within the leeway": {"exp": now - 30},
        "early, within the leeway": {"nbf": now + 30}, "no nbf": {"nbf": None}, "fractions": {"exp": now + 60.5},
        "no scope": {"scope": None},
    }
    bad = {
        "expired": {"exp": now - 120}, "no exp": {"exp": None}, "exp in words": {"exp": str(now + 600)},
        "exp too large": {"exp": 1e300}, "exp negative": {"exp": -1}, "future": {"nbf": now + 600},
        "nbf in words": {"nbf": "0"}, "another issuer": {"iss": "https://evil.example/"}, "no issuer": {"iss": None},
        "issuer without slash": {"iss": ISSUER[:-1]}, "a list of issuers": {"iss": [ISSUER]},
        "another audience": {"aud": "https://other.example/mcp"}, "no audience": {"aud": None},
        "an audience that begins so": {"aud": AUDIENCE + "/x"}, "a list without it": {"aud": ["a", "b"]},
        "a list in a list": {"aud": [[AUDIENCE]]}, "an object": {"aud": {AUDIENCE: 1}}, "an empty list": {"aud": []},
        "no subject": {"sub": None}, "an empty subject": {"sub": ""}, "a long subject": {"sub": "x" * 2000},
        "a number": {"sub": 1}, "a NUL in the subject": {"sub": "some\0body"},
    }
    with KeyFile(public) as file, jwt_server(file.path) as server:
        for what, changes in good.items():
            assert ask(server, sign(private, **changes)).status == 200, what
        for what, changes in bad.items():
            refused(server, sign(private, **changes), what)
        for type_, status in (("JWT", 200), ("at+JWT", 200), ("application/at+jwt", 200), (None, 200), ("id+jwt", 401), (1, 401)):
            assert ask(server, sign(private, header={"typ": type_})).status == status, type_
        for header in ({"crit": ["exp"]}, {"zip": "DEF"}, {"b64": False}, {"enc": "A128GCM"}):
            refused(server, sign(private, header=header), header)
        # Without kid the only key that fits is it.
        nameless = json.dumps({name: value for name, value in json.loads(private).items() if name != "kid"})
        token = sign(nameless, header={"kid": None})
        assert "kid" not in json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
        assert ask(server, token).status == 200
        assert "somebody" not in server.log()


def test_signatures():
    need_jwt()
    private, public = make_keys("RSA", 2048)
    other, other_public = make_keys("RSA", 2048)
    good = sign(private, "RS256")
    head, payload, signature = good.split(".")
    header = {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    later = b64(claims(sub="admin"))
    with KeyFile(public) as file, jwt_server(file.path) as server:
        assert ask(server, good).status == 200
        bad = {
            "another's signature": sign(other, "RS256"),
            "other claims": ".".join((head, later, signature)),
            "another header": ".".join((b64({**header, "x": 1}), payload, signature)),
            "half a signature": ".".join((head, payload, signature[:100])),
            "one bit": ".".join((head, payload, ("B" if signature[0] == "A" else "A") + signature[1:])),
            "no signature": head + "." + payload + ".",
            "two parts": head + "." + payload,
            "four parts": good + ".x",
            "five parts": good + ".x.x",
            "an empty header": "." + payload + "." + signature,
            "padding": ".".join((head + "=", payload, signature)),
            "none": b64({"alg": "none", "typ": "JWT"}) + "." + later + ".",
            "None": b64({"alg": "None", "typ": "JWT"}) + "." + later + ".x",
            "none with a signature": b64({"alg": "none", "kid": "k1"}) + "." + later + "." + signature,
            "no alg": b64({"typ": "JWT", "kid": "k1"}) + "." + payload + "." + signature,
            "alg as a list": b64({"alg": ["RS256"], "kid": "k1"}) + "." + payload + "." + signature,
            "two algs": b64(b'{"alg":"RS256","alg":"none","kid":"k1"}') + "." + payload + "." + signature,
            "kid as a number": b64({**header, "kid": 1}) + "." + payload + "." + signature,
            "not JSON": b64(b"hello") + "." + b64(b"hello") + "." + signature,
            "not an object": b64(b'["RS256"]') + "." + payload + "." + signature,
            "deep": b64(b'{"alg":"RS256","x":' + b"[" * 3000 + b"]" * 3000 + b"}")[:4000] + "." + payload + "." + signature,
            "a key of its own": sign(other, "RS256", {"jwk": other_public}),
            "a key of its own, elsewhere": sign(other, "RS256", {"jku": "http://127.0.0.1:1/keys"}),
            "a certificate of its own": sign(other, "RS256", {"x5u": "http://127.0.0.1:1/cert"}),
            "oversized": sign(private, "RS256", x="y" * 8000),
        }
        # HMAC with the public key as the secret, in the forms that it may have.
        for secret in (json.dumps(public).encode(), public["n"].encode(), base64.urlsafe_b64decode(public["n"] + "==")):
            part = b64({"alg": "HS256", "typ": "JWT", "kid": "k1"}) + "." + later
            bad["HS256"] = part + "." + b64(hmac.new(secret, part.encode(), hashlib.sha256).digest())
            refused(server, bad["HS256"], "HS256")
        for what, token in bad.items():
            refused(server, token, what)
        assert ask(server, good).status == 200
        for part in (head, payload, signature):
            assert part not in server.log()


def test_scopes():
    need_jwt()
    private, public = make_keys()
    url = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
    with KeyFile(public) as file, jwt_server(file.path, "scope=mcp:read", "scope=mcp:tools", "metadata_url=" + url) as server:
        assert ask(server, sign(private)).status == 200
        for scope in ("mcp:read", "mcp:readmcp:tools", "mcp:tools mcp:rea", "", None, "mcp:read,mcp:tools"):
            response = ask(server, sign(private, scope=scope))
            assert response.status == 403, (scope, response)
            challenge = response.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in challenge and 'scope="mcp:read mcp:tools"' in challenge, challenge
            assert 'resource_metadata="%s"' % url in challenge, challenge
        assert server.counts()["scope"] == 6
        assert 'resource_metadata="%s"' % url in ask(server).headers["www-authenticate"]


def test_metadata():
    need_jwt()
    _, public = make_keys()
    with KeyFile(public) as file, jwt_server(file.path, "scope=mcp:read", "metadata=1", metadata=True) as server:
        assert json.loads(server.metadata) == {
            "resource": AUDIENCE, "authorization_servers": [ISSUER], "scopes_supported": ["mcp:read"],
            "bearer_methods_supported": ["header"]}, server.metadata


def test_keys_that_are_passed_over():
    need_jwt()
    private, public = make_keys()
    _, unfit = make_keys(kid="k2")
    for changes in ({"use": "enc"}, {"alg": "RS256"}, {"kid": "x"}):
        with KeyFile({**public, **changes}, unfit) as file, jwt_server(file.path) as server:
            assert ask(server, sign(private)).status in (401, 503), changes
    # Two that would do, and nothing says which.
    with KeyFile(public, {**unfit, "kid": "k1"}) as file, jwt_server(file.path) as server:
        assert ask(server, sign(private)).status in (401, 503)
    with KeyFile({"kty": "oct", "k": "AAAA", "kid": "k1"}, {"kty": "?"}, "nonsense", public) as file:
        with jwt_server(file.path) as server:
            assert ask(server, sign(private)).status == 200
    for text in ("", "[]", "{}", '{"keys": {}}', '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AAAA"}]}', "x" * 300000):
        with TokenFile(text, 0o644) as file, jwt_server(file.path) as server:
            assert server.url.startswith("error "), (text[:20], server.url)


def test_settings():
    need_jwt()
    wrong = (("issuer=" + ISSUER,), ("issuer=" + ISSUER, "audience=" + AUDIENCE),
             ("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=http://issuer.example/keys"),
             ("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=http://127.0.0.1.evil.example/keys"),
             ("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=http://localhost@evil.example/keys"),
             ("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=https://user@evil.example/keys"),
             ("issuer=issuer", "audience=" + AUDIENCE, "jwks=/etc/hostname"),
             ("issuer=" + ISSUER, "audience=" + AUDIENCE, "jwks=/nonexistent"))
    for settings in wrong:
        with Server(*settings) as server:
            assert server.url.startswith("error "), (settings, server.url)


class Issuer:
    """Publishes keys on loopback: `answer(handler)` says how."""

    def __init__(self, answer):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.requests += 1
                issuer.answer(self)

            def log_message(self, *_):
                pass

        self.requests, self.answer, self.released = 0, answer, threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/keys" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def wait_for(self, requests):
        end = time.monotonic() + WAIT
        while self.requests < requests:
            assert time.monotonic() < end
            time.sleep(0.01)


def publish(*keys):
    def answer(handler):
        body = json.dumps({"keys": keys}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return answer


def test_keys_are_fetched():
    need_jwt()
    private, public = make_keys()
    unknown, _ = make_keys(kid="k9")
    with Issuer(publish(public)) as issuer, jwt_server(issuer.url) as server:
        wait_for_status(server, sign(private), 200)
        assert issuer.requests == 1
        # A key that nobody knows makes it look once a minute, however often it is asked.
        for _ in range(20):
            response = ask(server, sign(unknown, header={"kid": "k9"}))
            assert response.status == 401, response
        assert issuer.requests == 1, issuer.requests


def test_an_issuer_that_is_down():
    need_jwt()
    private, _ = make_keys()
    with jwt_server("http://127.0.0.1:1/keys") as server:
        for _ in range(3):
            response = ask(server, sign(private))
            assert response.status == 503 and "www-authenticate" in response.headers, response
            assert response.headers["retry-after"] == "1", response
        assert ask(server, "nonsense").status == 401
        assert ask(server).status == 401


def test_an_issuer_that_is_slow():
    need_jwt()
    private, public = make_keys()

    with Issuer(None) as issuer:
        def slow(handler):
            issuer.released.wait(WAIT)
            publish(public)(handler)
        issuer.answer = slow
        with jwt_server(issuer.url) as server:
            issuer.wait_for(1)
            # Nobody waits for it.
            assert ask(server, sign(private)).status == 503
            assert ask(server, None, "/public").status == 200
            issuer.released.set()
            wait_for_status(server, sign(private), 200)
    # The server ends though it never answers.
    with Issuer(lambda handler: issuer.released.wait(WAIT)) as issuer, jwt_server(issuer.url) as server:
        issuer.wait_for(1)
        assert ask(server, sign(private)).status == 503


def test_an_issuer_that_answers_nonsense():
    need_jwt()
    private, public = make_keys()

    def huge(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b" " * 100000)
        except OSError:
            pass

    def refuse(handler):
        handler.send_error(500)

    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", issuer.url + "x")
        handler.end_headers()

    def nonsense(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"<html>")

    for answer in (huge, refuse, redirect, nonsense):
        with Issuer(answer) as issuer, jwt_server(issuer.url) as server:
            issuer.wait_for(1)
            assert ask(server, sign(private)).status == 503, answer
            assert issuer.requests == 1
            end = time.monotonic() + WAIT
            while "log " not in server.log():
                assert time.monotonic() < end
                time.sleep(0.01)


def test_tokens_of_both_kinds():
    need_jwt()
    private, public = make_keys()
    with KeyFile(public) as keys, TokenFile("alice " + TOKEN) as file:
        with jwt_server(keys.path, "token_file=" + file.path) as server:
            assert b"principal=token:alice\n" in ask(server, TOKEN).body
            assert b"principal=jwt:" in ask(server, sign(private)).body
            assert ask(server, OTHER).status == 401


if __name__ == "__main__":
    main()
