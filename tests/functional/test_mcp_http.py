#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snipara-sandbox mcp-serve --http` by bare requests, with real sandboxed code behind it. The program is
$SNIPARA_SANDBOX."""
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mcp_client import process_tree, text_of, wait_until_dead
from mcp_http import LEGACY, MODERN, PROGRAM, Client, Server, environment, events
from tap import main, skip

TIMEOUT = 120
ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"


def python(client, code, **arguments):
    result = client.call("execute_python", {"code": code, **arguments})
    assert not result.get("isError"), text_of(result)
    return text_of(result)


def token_file(directory):
    """One token as it is, and one that is known by its hash."""
    path = pathlib.Path(directory, "tokens")
    path.write_text("# who may come in\nalice %s\nbob sha256:%s\n" % (ALICE, hashlib.sha256(BOB.encode()).hexdigest()))
    path.chmod(0o600)
    return path


def bearer(token):
    return {"Authorization": "Bearer " + token}


def bare(server, method, path, headers=None, body=None):
    """(status, headers, body)"""
    connection = http.client.HTTPConnection(*address(server), timeout=TIMEOUT)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def address(server):
    host, port = server.url.split("/")[2].rsplit(":", 1)
    return host, int(port)


def post_call(server, tool, arguments, headers=None, token=None):
    """The socket of a modern call whose answer was not read."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    if token is not None:
        meta["progressToken"] = token
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": {"name": tool, "arguments": arguments, "_meta": meta}}).encode()
    lines = {"Host": "%s:%d" % address(server), "Content-Type": "application/json", "MCP-Protocol-Version": MODERN,
             "Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call", "Mcp-Name": tool,
             "Content-Length": str(len(body)), **(headers or {})}
    sock = socket.create_connection(address(server), TIMEOUT)
    sock.sendall(b"POST /mcp HTTP/1.1\r\n" + "".join("%s: %s\r\n" % line for line in lines.items()).encode() +
                 b"\r\n" + body)
    return sock


def await_figure(server, name, wanted, headers=None):
    """Until a figure of /metrics is what is wanted."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        lines = bare(server, "GET", "/metrics", headers)[2].decode().splitlines()
        value = next((line.rsplit(" ", 1)[1] for line in lines if line.rsplit(" ", 1)[0] == name), None)
        if value is not None and float(value) == wanted:
            return
        assert time.monotonic() < deadline, (name, value)
        time.sleep(0.02)


# ---- both eras, real code


def test_both_eras_share_sessions_of_the_sandbox():
    with Server() as server, Client(server.url) as modern, Client(server.url) as legacy:
        legacy.initialize()
        python(modern, "x = 41")
        assert "42" in python(legacy, "print(x + 1)")
        assert "41" in python(modern, "print(x)")


def test_sessions_run_side_by_side():
    with Server() as server, Client(server.url) as client:
        sock = post_call(server, "execute_python", {"code": "while True: pass", "session_id": "a", "timeout": 100})
        await_figure(server, "snipara_sandbox_mcp_http_unanswered", 1)
        assert "b" in python(client, "print('b')", session_id="b")
        await_figure(server, "snipara_sandbox_mcp_http_unanswered", 1)
        sock.close()


def test_disconnect_interrupts_and_keeps_the_session():
    with Server() as server, Client(server.url) as client:
        python(client, "kept = 'still here'")
        sock = post_call(server, "execute_python", {"code": "while True: pass"})
        await_figure(server, "snipara_sandbox_mcp_http_unanswered", 1)
        sock.close()
        await_figure(server, "snipara_sandbox_mcp_http_clients_lost_total", 1)
        assert "still here" in python(client, "print(kept)")


def test_legacy_disconnect_lets_the_call_end():
    with Server() as server, Client(server.url) as client:
        client.initialize()
        python(client, "done = False")
        body = json.dumps({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {
            "name": "execute_python", "arguments": {"code": "import time\ntime.sleep(1)\ndone = True\nprint('over')"},
            "_meta": {"progressToken": 1}}})
        connection = http.client.HTTPConnection(*address(server), timeout=TIMEOUT)
        connection.request("POST", "/mcp", body, {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Mcp-Session-Id": client.session, "MCP-Protocol-Version": LEGACY})
        response = connection.getresponse()
        first = response.readline().decode()
        assert first.startswith("id: "), first
        response.close()
        connection.close()
        status, headers, body = bare(server, "GET", "/mcp", {
            "Accept": "text/event-stream", "Mcp-Session-Id": client.session, "MCP-Protocol-Version": LEGACY,
            "Last-Event-ID": first[4:].strip()})
        assert status == 200 and headers["Content-Type"] == "text/event-stream"
        last = list(events(body))[-1]
        assert last["id"] == "long" and "over" in text_of(last["result"]), last
        assert "True" in python(client, "print(done)")


def test_progress_of_output():
    with Server() as server:
        with post_call(server, "execute_python", {"code": "import time\nfor i in range(3):\n print(i, flush=True); "
                                                          "time.sleep(1)"}, token="t") as sock:
            response = http.client.HTTPResponse(sock)
            response.begin()
            body = response.read()
        messages = list(events(body))
        assert messages[-1]["id"] == 1 and "result" in messages[-1]
        progress = [message["params"]["progress"] for message in messages[:-1]
                    if message["method"] == "notifications/progress"]
        assert progress == sorted(set(progress)), progress


# ---- who may come in


def test_tokens():
    with tempfile.TemporaryDirectory() as directory:
        with Server("--token-file", str(token_file(directory))) as server:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            for more, path in (({}, "/mcp"), (bearer("wrong"), "/mcp"), (bearer(ALICE + "x"), "/mcp"),
                               ({"Authorization": "Basic " + ALICE}, "/mcp"), ({}, "/mcp?access_token=" + ALICE)):
                status, got, _ = bare(server, "POST", path, {**headers, **more}, body)
                assert status == 401 and got["WWW-Authenticate"].startswith("Bearer"), (more, path, status)
            assert bare(server, "GET", "/healthz")[0] == 200
            assert bare(server, "GET", "/metrics")[0] == 401
            assert bare(server, "GET", "/metrics", bearer(BOB))[0] == 200
            text = bare(server, "GET", "/metrics", bearer(BOB))[2].decode()
            assert ALICE not in text and BOB not in text and "alice" not in text


def test_principals_know_nothing_of_each_other():
    with tempfile.TemporaryDirectory() as directory:
        with Server("--token-file", str(token_file(directory))) as server:
            with Client(server.url, headers=bearer(ALICE)) as alice, Client(server.url, headers=bearer(BOB)) as bob:
                alice.initialize()
                python(alice, "secret = 'of alice'", session_id="shared")
                assert "NameError" in text_of(bob.call("execute_python", {"code": "print(secret)",
                                                                         "session_id": "shared"}))
                assert "shared" in text_of(alice.call("list_sessions"))
                python(bob, "mine = 1", session_id="of-bob")
                assert "of-bob" not in text_of(alice.call("list_sessions"))
                # Another's HTTP session is answered as one that does not exist.
                bob.session = alice.session
                status, _, messages = bob.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
                assert status == 404, messages
                headers = {"Mcp-Session-Id": alice.session, "MCP-Protocol-Version": LEGACY, **bearer(BOB)}
                assert bare(server, "DELETE", "/mcp", headers)[0] == 404
                assert bare(server, "GET", "/mcp", {**headers, "Accept": "text/event-stream"})[0] == 404
                assert "of alice" in python(alice, "print(secret)", session_id="shared")


def certificate(directory):
    if not shutil.which("openssl"):
        skip("openssl is not installed")
    key, cert = pathlib.Path(directory, "key.pem"), pathlib.Path(directory, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key


def test_tls():
    with tempfile.TemporaryDirectory() as directory:
        cert, key = certificate(directory)
        with Server("--tls-certificate", str(cert), "--tls-key", str(key)) as server:
            assert server.url.startswith("https://"), server.url
            context = ssl.create_default_context(cafile=str(cert))
            connection = http.client.HTTPSConnection(*address(server), timeout=TIMEOUT, context=context)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            connection.close()
            client = Client(server.url)
            client.connection = http.client.HTTPSConnection(*address(server), timeout=TIMEOUT, context=context)
            assert "3" in python(client, "print(1 + 2)")
            client.connection.close()
            # Whoever speaks no TLS there is not served.
            try:
                assert bare(server, "GET", "/healthz")[0] >= 400
            except (http.client.HTTPException, OSError):
                pass


# ---- the program


def refused(*flags):
    """Exit code and standard error of a command line that can't be served."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([PROGRAM, "mcp-serve", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=home, env=environment(home), timeout=TIMEOUT, check=False)
    return done.returncode, done.stderr


def test_flags_need_http():
    for flag in ("--listen", "--path", "--token-file", "--tls-certificate", "--tls-key"):
        code, text = refused(flag, "x")
        assert code == 2 and flag in text and "--http" in text, text


def test_refused_settings():
    for flags, word in ((("--listen", "0.0.0.0:0"), "token"), (("--listen", "nonsense"), "nonsense"),
                        (("--path", "mcp"), "http.path"), (("--token-file", "/no/such"), "/no/such"),
                        (("--tls-key", "/no/such"), "certificate"),
                        (("--set", "mcp.http.liste=x"), "http.listen")):
        code, text = refused("--http", *flags)
        assert code != 0 and word in text and "hint: " in text, (flags, code, text)


def test_flags_are_settings():
    with Server(config='plugins = ({ name = "mcp"; plugin = "transport-mcp"; http = { path = "/from/file"; }; });') \
            as server:
        assert server.url.endswith("/from/file")
    with Server("--path", "/from/flag", config='plugins = ({ name = "mcp"; plugin = "transport-mcp"; '
                                               'http = { path = "/from/file"; }; });') as server:
        assert server.url.endswith("/from/flag")


def test_what_the_user_sees():
    with tempfile.TemporaryFile() as errors:
        with Server(stderr=errors) as server:
            Client(server.url).request("tools/list")
        errors.seek(0)
        text = errors.read().decode()
        assert "Listening on %s\n" % server.url in text and "claude mcp add --transport http" in text, text
        assert "\033" not in text  # no terminal, no colours


def test_end_takes_everything_with_it():
    with Server() as server, Client(server.url) as client:
        python(client, "import subprocess; subprocess.Popen(['sleep', '1000'])", session_id="a")
        sock = post_call(server, "execute_python", {"code": "while True: pass", "timeout": 100})
        await_figure(server, "snipara_sandbox_mcp_http_unanswered", 1)
        tree = process_tree(server.pid)
        assert len(tree) > 1, tree
        server.process.send_signal(signal.SIGTERM)
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert response.status == 503  # after http.shutdown
        sock.close()
        assert server.process.wait(TIMEOUT) == 0
        wait_until_dead(tree)


def test_refused_while_it_ends():
    with Server("--set", "mcp.http.shutdown=60s") as server, Client(server.url) as client:
        python(client, "pass")
        sock = post_call(server, "execute_python", {"code": "import time; time.sleep(5); print('end')"})
        await_figure(server, "snipara_sandbox_mcp_http_unanswered", 1)
        server.process.send_signal(signal.SIGTERM)
        seen = None
        while seen != 503:  # on a connection that was there before
            try:
                seen = client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})[0]
            except (http.client.HTTPException, OSError):
                break
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert "end" in response.read().decode()
        sock.close()
        assert server.process.wait(TIMEOUT) == 0


if __name__ == "__main__":
    main()
