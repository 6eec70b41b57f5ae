# SPDX-License-Identifier: Apache-2.0
"""The client of container engines against servers that answer anything: versions, failures, streams, TLS, places."""
import contextlib
import errno
import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

from engine_server import INFO, VERSION, EngineServer, echo, make_certificates, server_context
from tap import main, skip

CLIENT = os.environ["ENGINE_TEST_CLIENT"]
SECRET = "X-Registry-Auth: hunter2hunter2"


def run(*arguments, environment=None, pass_fds=(), **more):
    """The client's lines, and what it logged."""
    env = {"PATH": os.environ.get("PATH", ""), **(environment or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    done = subprocess.run([CLIENT, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, pass_fds=pass_fds, check=False, timeout=300, **more)
    assert done.returncode in (0, 1), (done.returncode, done.stderr.decode(errors="replace"))
    assert SECRET.split()[1].encode() not in done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.decode().splitlines()], done.stderr.decode()


def ask(server, *arguments, environment=None, **more):
    lines, _ = run(*arguments, environment=dict({"TEST_ENGINE": server.address}, **(environment or {})), **more)
    return lines


def failed(line, code, *words):
    assert line["code"] == code, (errno.errorcode.get(line["code"]), line)
    assert line["hint"], line
    for word in words:
        assert word in line["message"] + " " + line["hint"], (word, line)


@contextlib.contextmanager
def place():
    # The path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as directory:
        yield os.path.join(directory, "s")


@contextlib.contextmanager
def unix(answer=None, **more):
    with place() as path, EngineServer(answer, path=path, **more) as server:
        yield server


def reply(body, **more):
    def answer(connection, request):
        connection.respond(body, **more)
        return True
    return answer


def raw(data):
    def answer(connection, request):
        connection.send(data)
    return answer


# ---- what an engine says of itself

def test_what_an_engine_says():
    with unix() as server:
        info, = ask(server, "info")
        assert info["name"] == "docker" and info["version"] == "20.10.24" and info["api_version"] == "1.41", info
        assert info["local"] and info["init"] and info["memory_swap"] and info["pids"] and info["cgroup_version"] == 2
        assert not info["disk_quota"] and not info["rootless"] and not info["userns"] and not info["tls"], info
        assert info["seccomp"] == "default" and info["storage_driver"] == "overlay2", info
    podman = dict(VERSION, Components=[{"Name": "Podman Engine", "Version": "4.3.1"}], Version="4.3.1")
    more = dict(INFO, Driver="overlay", DriverStatus=[["Backing Filesystem", "xfs"]], CgroupVersion="1", SwapLimit=False,
                PidsLimit=False, SecurityOptions=["name=apparmor", "name=rootless", "name=userns"])
    with unix(version=podman, info=more) as server:
        info, = ask(server, "info")
        assert info["name"] == "podman" and info["rootless"] and info["userns"] and info["disk_quota"], info
        assert info["seccomp"] == "" and info["cgroup_version"] == 1 and not info["memory_swap"] and not info["pids"]


def test_the_version_that_is_spoken():
    for newest, oldest, spoken in (("1.41", "1.12", "1.41"), ("1.40", "1.12", "1.40"), ("1.47", "1.24", "1.41"),
                                   ("1.52", "1.44", "1.44"), ("1.41", None, "1.41")):
        with unix(reply("[]"), version=dict(VERSION, ApiVersion=newest, MinAPIVersion=oldest)) as server:
            info, answer = ask(server, "info", "then", "ask", "GET", "/containers/json")
            assert info["api_version"] == spoken and answer == {"answer": []}, (newest, oldest, info)
            assert server.requests[-1]["line"] == "GET /v%s/containers/json HTTP/1.1" % spoken, server.requests[-1]


def test_engines_that_are_too_old_or_too_new():
    for newest, words in (("1.39", "too old"), ("1.24", "too old"), ("0.9", "too old")):
        with unix(version=dict(VERSION, ApiVersion=newest)) as server:
            failed(ask(server, "info")[0], errno.EPROTO, words, "Docker 20.10", "Podman 4", newest)
    with unix(version=dict(VERSION, ApiVersion="1.99", MinAPIVersion="1.90")) as server:
        failed(ask(server, "info")[0], errno.EPROTO, "too new", "newer snipara-sandbox")
    with unix(version=dict(VERSION, Os="windows")) as server:
        failed(ask(server, "info")[0], errno.ENOTSUP, "windows", "Linux containers")


def test_what_is_no_engine():
    http = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
    for said in ({}, {"ApiVersion": 41}, {"ApiVersion": "1.41\x1b[2J"}, {"ApiVersion": "1.4.1"}, {"ApiVersion": "x"},
                 {"ApiVersion": "9999.1"}, [], "text", http % (5, b"<html"), http % (0, b""), b"SSH-2.0-x\r\n", b"\0\xff\n",
                 http % (27, b'{"ApiVersion":"1.41","a":1}'[:27].replace(b'"a"', b'"\xff"'))):
        with unix(version=said) as server:
            failed(ask(server, "info")[0], errno.EPROTO)
    for said in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"):
        with unix(version=said) as server:
            failed(ask(server, "info")[0], errno.ECONNRESET)
    with unix(info=[]) as server:
        failed(ask(server, "info")[0], errno.EPROTO, "no container engine")


# ---- requests

def test_a_request():
    with unix(reply('{"Id": "x"}', status="201 Created")) as server:
        line, = ask(server, "ask", "POST", "/containers/create?name=a", '{"Image": "i"}', environment={
            "TEST_HEADER": SECRET})
        request = server.requests[-1]
        assert line == {"answer": {"Id": "x"}} and request["body"] == b'{"Image":"i"}', (line, request)
        assert request["headers"]["content-type"] == "application/json", request
        assert request["headers"]["x-registry-auth"] == SECRET.split()[1], request


def test_answers_without_content():
    for status in ("204 No Content", "304 Not Modified", "200 OK"):
        with unix(raw(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status.encode())) as server:
            assert ask(server, "ask", "POST", "/containers/x/start") == [{"answer": None}], status


def test_refusals():
    for status, code, word in (("400 Bad Request", errno.EINVAL, "plugins info backend-docker"),
                               ("401 Unauthorized", errno.EACCES, "docker login"),
                               ("403 Forbidden", errno.EACCES, "docker login"),
                               ("404 Not Found", errno.ENOENT, "doctor"), ("409 Conflict", errno.EBUSY, "again"),
                               ("500 Internal Server Error", errno.EIO, "journalctl"),
                               ("503 Service Unavailable", errno.EIO, "journalctl"), ("418 Teapot", errno.EPROTO, ""),
                               ("302 Found", errno.EPROTO, "")):
        with unix(reply('{"message": "the reason"}', status=status)) as server:
            for command in (("ask", "POST", "/x/y?secret=1"), ("stream", "POST", "/x/y?secret=1", "null", "1"),
                            ("items", "POST", "/x/y?secret=1")):
                line = ask(server, *command, environment={"TEST_HEADER": SECRET})[0]
                failed(line, code, word, "docker answered " + status[:3] + " to POST /x/y: the reason")
                assert "secret" not in line["message"], line


def test_the_engines_words_are_repaired():
    for body, shown in ((b"plain text\n", "plain text"), (b'{"message": "a\\u001b[31m\\nb"}', "a [31m b"), (b"", "no reason"),
                        (b"\xff\xfe bytes", "\ufffd\ufffd bytes"), (b'{"message": 5}', '{"message": 5}'),
                        (b"x" * 5000, "x" * 600)):
        with unix(reply(body, status="500 No")) as server:
            line, = ask(server, "ask", "GET", "/x")
            failed(line, errno.EIO, shown)
            assert len(line["message"]) < 1024 and "\x1b" not in line["message"], line


def test_ids_are_shown_short():
    name = "0123456789ab" + "c" * 52
    for path, shown in (("/containers/%s/json" % name, "/containers/0123456789ab/json: no"), ("/x/" + name, "/x/0123456789ab: no"),
                        ("/x/" + name + "d", "/x/" + name + "d: no"), ("/x/" + "y" * 300, "/x/" + "y" * 156 + ": no")):
        with unix(reply('{"message": "no"}', status="404 Not Found")) as server:
            failed(ask(server, "ask", "GET", path)[0], errno.ENOENT, shown)


def test_a_full_disk_says_what_to_do():
    with unix(reply('{"message": "write /x: no space left on device"}', status="500 No")) as server:
        failed(ask(server, "ask", "POST", "/x")[0], errno.EIO, "docker system prune")


def test_answers_are_bounded():
    def endless(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n[")
        with contextlib.suppress(OSError):
            while True:
                connection.send(b" " * 65536)
    with unix(endless) as server:
        failed(ask(server, "ask", "GET", "/x")[0], errno.EFBIG)
        failed(ask(server, "ask", "GET", "/x", environment={"TEST_ANSWER_MAX": "100"})[0], errno.EFBIG, "100 bytes")
    with unix(reply("[" * 100000)) as server:
        failed(ask(server, "ask", "GET", "/x")[0], errno.EPROTO, "not JSON")
    for body in (b'{"a": 1, "a": 2}', b"{", b'"\xff"', b"[1] [2]", b"nonsense"):
        with unix(reply(body)) as server:
            failed(ask(server, "ask", "GET", "/x")[0], errno.EPROTO, "not JSON")


def test_an_engine_that_hangs():
    def hang(connection, request):
        connection.hang()
    with unix(hang) as server:
        failed(ask(server, "ask", "GET", "/x", environment={"TEST_TIMEOUT_MS": "200"})[0], errno.ETIMEDOUT, "hangs")
        failed(ask(server, "ask", "GET", "/x", environment={"TEST_TIMEOUT_MS": "18446744073709551615",
                                                            "TEST_DEADLINE_MS": "1000"})[0], errno.ETIMEDOUT)
        failed(ask(server, "stream", "POST", "/x", "null", "1", environment={"TEST_OPTION_TIMEOUT_MS": "1000"})[0],
               errno.ETIMEDOUT)


def test_a_call_that_is_cancelled():
    asked = threading.Event()

    def hang(connection, request):
        asked.set()
        connection.hang()
    for command in (("ask", "GET", "/x"), ("stream", "POST", "/x", "null", "1")):
        asked.clear()
        reader, writer = os.pipe()
        with unix(hang) as server:
            threading.Thread(target=lambda: asked.wait(60) and os.write(writer, b"x")).start()
            failed(ask(server, *command, environment={"TEST_CANCEL_FD": str(reader)}, pass_fds=(reader,))[0],
                   errno.ECANCELED)
        os.close(reader)
        os.close(writer)


def test_connections_that_break():
    def reset(connection, request):
        connection.reset()
    with unix(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")) as server:
        failed(ask(server, "ask", "GET", "/x")[0], errno.ECONNRESET)
    with unix(reset) as server:
        failed(ask(server, "ask", "GET", "/x")[0], errno.ECONNRESET)


def test_idle_connections_that_the_engine_closed_do_not_matter():
    def once(connection, request):
        connection.respond("1")  # and closes, without a word of it
    with unix(once) as server:
        assert ask(server, *["ask", "POST", "/x", "{}", "then"] * 9, "ask", "POST", "/x") == [{"answer": 1}] * 10


def test_threads():
    with unix(reply("{}")) as server:
        assert ask(server, "parallel", "GET", "/x") == [{"parallel": 0}]
        assert server.connections <= 10, server.connections
        assert len([r for r in server.requests if "/x" in r["line"]]) == 160


def test_no_child_gets_a_connection():
    with unix(reply("{}")) as server:
        line, = ask(server, "inherited")
        assert line["open"] >= 1 and line["inherited"] == 0, line


# ---- streams of JSON

def chunks(*pieces):
    return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
            b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n")


def test_items():
    text = b'{"status":"a}\\"{"}\r\n{"progress":{"n":[1,{}]}}{"e":"\xc3\xa9"}\n'
    for size in (1, 2, 3, 7, len(text)):
        with unix(raw(chunks(*(text[i:i + size] for i in range(0, len(text), size))))) as server:
            assert ask(server, "items", "POST", "/images/create") == [
                {"status": 'a}"{'}, {"progress": {"n": [1, {}]}}, {"e": "\u00e9"}, {"answer": None}], size


def test_items_that_are_none():
    for text in (b'{"a":', b"text", b'{"a":1}]', b'{"a":1,"a":2}', b'{"a"]', b"[1]", b'{"a":1} x'):
        with unix(raw(chunks(text))) as server:
            failed(ask(server, "items", "POST", "/build")[-1], errno.EPROTO)
    with unix(raw(chunks(b'{"a":"' + b"x" * (2 << 20) + b'"}'))) as server:
        failed(ask(server, "items", "POST", "/build")[-1], errno.EFBIG)


def test_whoever_asks_may_stop():
    with unix(raw(chunks(*[b'{"n":1}'] * 100))) as server:
        lines = ask(server, "items", "POST", "/build", environment={"TEST_STOP_AFTER": "3"})
        assert len(lines) == 4, lines
        failed(lines[-1], errno.EXDEV)


# ---- streams of bytes

def test_a_stream():
    heads = (b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n"
             b"Upgrade: tcp\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
             b"HTTP/1.1 101\r\n\r\n")
    for head in heads:
        with unix(lambda connection, request, head=head: echo(connection, head)) as server:
            assert ask(server, "stream", "POST", "/exec/x/start", '{"Tty":false}', "3000000") == [
                {"echo": 0, "size": 3000000}], head
            request = server.requests[-1]
            assert request["line"] == "POST /v1.41/exec/x/start HTTP/1.1", request
            assert request["body"] == b'{"Tty":false}' and request["headers"]["upgrade"] == "tcp", request
            assert request["headers"]["connection"] == "Upgrade" and request["headers"]["host"] == "engine", request


def test_bytes_that_come_with_the_head():
    head = b"HTTP/1.1 101 UPGRADED\r\n\r\n"
    with unix(raw(head + b"early")) as server:
        assert ask(server, "stream", "POST", "/x", "null", "0")[0] == {"drained": "early", "end": 0}
    with unix(raw(head + b"early" * 700)) as server:
        assert ask(server, "stream", "POST", "/x", "null", "0")[0] == {"drained": "early" * 700, "end": 0}

    def dripped(connection, request):
        connection.drip(head + b"late", 0.001)
    with unix(dripped) as server:
        assert ask(server, "stream", "POST", "/x", "null", "0")[0] == {"drained": "late", "end": 0}


def test_a_stream_that_breaks():
    def reset(connection, request):
        connection.send(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
        connection.sock.recv(1)  # what is unread when a Unix socket closes is a reset for the other side
    with unix(reset) as server:
        assert ask(server, "stream", "POST", "/x", "null", "100000")[0]["echo"] in (errno.ECONNRESET, errno.EPIPE)


def test_refused_streams():
    said = b"No such container: x\r\n"
    with unix(raw(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n" + said)) as server:
        failed(ask(server, "stream", "POST", "/x", "null", "1")[0], errno.ENOENT, "No such container: x")

    def keeps_open(data):
        def answer(connection, request):
            connection.send(data)
            connection.hang()
        return answer
    body = b'{"message":"in chunks"}'
    for data in (b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
                 b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n%s\r\n%X\r\n%s\r\n0\r\n\r\n" %
                 (body[:5], len(body) - 5, body[5:]), b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n"):
        with unix(keeps_open(data)) as server:
            failed(ask(server, "stream", "POST", "/x", "null", "1")[0], errno.EBUSY,
                   "in chunks" if body[:5] in data else "no reason")
    with unix(raw(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * (1 << 20))) as server:
        failed(ask(server, "stream", "POST", "/x", "null", "1")[0], errno.EIO, "xxx")


def test_heads_that_are_none():
    for data in (b"HTTP/1.1 101 OK\r\nX: " + b"x" * 70000, b"HTTP/2 101\r\n\r\n", b"garbage\r\n\r\n", b"HTTP/1.1 99 x\r\n\r\n",
                 b"HTTP/1.1 409 x\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 409 x\r\nContent-Length: 1x\r\n\r\n",
                 b"HTTP/1.1 409 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"\0" * 100000,
                 b"HTTP/1.1 409 x\r\nContent-Length: 99999999999999999999999999\r\n\r\n"):
        with unix(raw(data)) as server:
            failed(ask(server, "stream", "POST", "/x", "null", "1")[0], errno.EPROTO)
    for data in (b"", b"HTTP/1.1 101 UPGR"):
        with unix(raw(data)) as server:
            failed(ask(server, "stream", "POST", "/x", "null", "1")[0], errno.ECONNRESET)


# ---- places

def places(**environment):
    lines, _ = run("places", environment=environment)
    return lines[0]


def test_places_that_are_looked_at():
    with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as directory:
        names = ["docker.sock", ".docker/run/docker.sock", ".docker/desktop/docker.sock", "podman/podman.sock"]
        found = places(HOME=directory, XDG_RUNTIME_DIR=directory)
        assert [p["address"] for p in found] == [
            "unix:///var/run/docker.sock", *("unix://%s/%s" % (directory, name) for name in names[:3]),
            "unix:///run/podman/podman.sock", "unix://%s/%s" % (directory, names[3])], found
        mine = [p for p in found if directory in p["address"]]
        assert all(p["code"] == errno.ENOENT for p in mine), found
        path = os.path.join(directory, names[3])
        os.makedirs(os.path.dirname(path))
        with EngineServer(path=path):
            found = places(HOME=directory, XDG_RUNTIME_DIR=directory)
            assert found[-1]["code"] == 0 and found[-1]["found_by"] == "rootless Podman", found
            info = run("info", environment={"HOME": directory, "XDG_RUNTIME_DIR": directory})[0][0]
            if all(p["code"] for p in found[:-1]):  # no engine of this machine comes before it
                assert info["address"] == "unix://" + path, info
            assert places(HOME=directory, XDG_RUNTIME_DIR=directory, TEST_ENGINE="auto", DOCKER_HOST="tcp://x:1")[
                -1]["code"] == 0
        assert places(HOME=directory, XDG_RUNTIME_DIR=directory)[-1]["code"] == errno.ECONNREFUSED
        os.unlink(path)
        with open(path, "w", encoding="utf-8"):
            pass
        assert places(HOME=directory, XDG_RUNTIME_DIR=directory)[-1]["code"] == errno.ENOTSOCK
        assert len(places(HOME="/" + "x" * 200, XDG_RUNTIME_DIR="/" + "y" * 200)) == 2


def test_no_engine_at_all():
    with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as directory:
        environment = {"HOME": directory, "XDG_RUNTIME_DIR": directory}
        if any(p["code"] != errno.ENOENT for p in places(**environment)):
            skip("this machine has an engine in its usual place")
        failed(run("info", environment=environment)[0][0], errno.ENOENT, "no container engine was found", "apt install podman",
               "/var/run/docker.sock", directory + "/podman/podman.sock")


def test_the_socket_of_another_user_is_not_taken_by_itself():
    if os.geteuid() != 0:
        skip("needs root, to give a socket to somebody else")
    with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as directory:
        path = os.path.join(directory, "docker.sock")
        with EngineServer(path=path) as server:
            os.chown(path, 65534, 65534)
            line = [p for p in places(HOME=directory, XDG_RUNTIME_DIR=directory) if path in p["address"]][0]
            failed(line, errno.EPERM, "another user", "65534", "option engine")
            assert ask(server, "info")[0]["name"] == "docker"


def test_a_socket_that_is_forbidden():
    if os.geteuid() != 0:
        skip("needs root, to become somebody else")
    with unix() as server:
        os.chmod(os.path.dirname(server.path), 0o755)
        os.chmod(server.path, 0o600)
        failed(ask(server, "info", user=65534)[0], errno.EACCES, "no permission", "usermod -aG docker")
        os.chmod(os.path.dirname(server.path), 0o700)
        failed(ask(server, "info", user=65534)[0], errno.EACCES, "no permission", "usermod -aG docker")


def test_chosen_places():
    found = places(DOCKER_HOST="unix:///no/d.sock", CONTAINER_HOST="unix:///no/c.sock")
    assert [p["address"] for p in found] == ["unix:///no/d.sock"] and found[0]["found_by"] == "DOCKER_HOST", found
    failed(found[0], errno.ENOENT, "DOCKER_HOST: there is no unix:///no/d.sock", "systemctl")
    assert places(CONTAINER_HOST="unix:///no/c.sock")[0]["found_by"] == "CONTAINER_HOST"
    assert places(DOCKER_HOST="unix:///a", TEST_ENGINE="unix:///b")[0]["address"] == "unix:///b"
    # No port, with and without TLS; nobody listens there, or nobody who is an engine.
    for more, port, tls in (({}, 2375, False), ({"DOCKER_TLS_VERIFY": "1", "HOME": "/nowhere"}, 2376, True)):
        found, = places(DOCKER_HOST="tcp://127.0.0.1", **more)
        assert found["address"] == "tcp://127.0.0.1:%d" % port and found["tls"] == tls, found
    assert places(DOCKER_HOST="tcp://[::1]:1/")[0]["address"] == "tcp://[::1]:1"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    failed(places(DOCKER_HOST="tcp://127.0.0.1:%d" % port)[0], errno.ECONNREFUSED, "dockerd -H tcp://")
    failed(places(DOCKER_HOST="tcp://nobody.invalid:2375")[0], errno.EHOSTUNREACH, "nobody.invalid", "Check the name")


def test_addresses_that_are_none():
    for address, code in (("ssh://me@host", errno.ENOTSUP), ("http://host", errno.ENOTSUP), ("npipe:////./x", errno.ENOTSUP),
                          ("fd://", errno.ENOTSUP), ("nonsense", errno.ENOTSUP), ("unix://relative", errno.EINVAL),
                          ("unix://", errno.EINVAL), ("unix:///" + "x" * 120, errno.EINVAL), ("tcp://", errno.EINVAL),
                          ("tcp://host:0", errno.EINVAL), ("tcp://host:65536", errno.EINVAL), ("tcp://host:1x", errno.EINVAL),
                          ("tcp://host:", errno.EINVAL), ("tcp://user@host:1", errno.EINVAL), ("tcp://h/path", errno.EINVAL),
                          ("tcp://a b:1", errno.EINVAL), ("tcp://x" + "x" * 300, errno.EINVAL), ("tcp://[::1:1", errno.EINVAL),
                          ("tcp://h\r\nX:1", errno.EINVAL), ("tcp://[]:1", errno.EINVAL)):
        line, = run("info", environment={"DOCKER_HOST": address})[0]
        failed(line, code, "DOCKER_HOST")


def test_plain_tcp_is_told_of():
    with EngineServer(reply("{}")) as server:
        lines, log = run("ask", "GET", "/x", environment={"DOCKER_HOST": server.address})
        assert lines == [{"answer": {}}] and "without TLS" in log, (lines, log)
        # What listens there need not be reached by way of a proxy.
        lines, _ = run("ask", "GET", "/x", environment={"DOCKER_HOST": server.address, "http_proxy": "http://127.0.0.1:1",
                                                        "ALL_PROXY": "http://127.0.0.1:1"})
        assert lines == [{"answer": {}}], lines
    with EngineServer(lambda connection, request: echo(connection)) as server:
        lines, _ = run("stream", "POST", "/x", "null", "200000", environment={"DOCKER_HOST": server.address})
        assert lines == [{"echo": 0, "size": 200000}], lines
        assert server.requests[-1]["headers"]["host"] == "127.0.0.1:%d" % server.port


# ---- TLS

class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="tls")
        root = cls.directory.name
        cls.good = make_certificates(os.path.join(root, "good"))
        cls.other = make_certificates(os.path.join(root, "other"))
        cls.elsewhere = make_certificates(os.path.join(root, "elsewhere"), "DNS:elsewhere.example")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def serve(self, answer=None, directory=None):
        return EngineServer(answer or reply("{}"), tls=server_context(directory or self.good))

    def ask(self, server, *command, **environment):
        return run(*command, environment=dict({"DOCKER_HOST": server.address}, **environment))[0]

    def test_requests(self):
        with self.serve() as server:
            for environment in ({"DOCKER_CERT_PATH": self.good}, {"DOCKER_CERT_PATH": self.good, "DOCKER_TLS_VERIFY": "1"},
                                {"TEST_TLS_CA": self.good + "/ca.pem", "TEST_TLS_CERTIFICATE": self.good + "/cert.pem",
                                 "TEST_TLS_KEY": self.good + "/key.pem"}):
                info, answer = self.ask(server, "info", "then", "ask", "GET", "/x", **environment)
                assert info["tls"] and not info["local"] and answer == {"answer": {}}, (info, answer)

    def test_certificates_in_the_home_directory(self):
        home = os.path.join(self.directory.name, "home")
        os.makedirs(home)
        os.symlink(self.good, os.path.join(home, ".docker"))
        with self.serve() as server:
            assert self.ask(server, "info", HOME=home, DOCKER_TLS_VERIFY="1")[0]["tls"]

    def test_streams(self):
        with self.serve(lambda connection, request: echo(connection)) as server:
            assert self.ask(server, "stream", "POST", "/x", "null", "5000000", DOCKER_CERT_PATH=self.good) == [
                {"echo": 0, "size": 5000000}]
        with self.serve(raw(b"HTTP/1.1 101 OK\r\n\r\n" + b"early")) as server:
            assert self.ask(server, "stream", "POST", "/x", "null", "0", DOCKER_CERT_PATH=self.good)[0]["drained"] == "early"

    def test_a_reader_that_is_slow(self):
        """Bytes that TLS could not send at once are the same when they are sent again."""
        def slow(connection, request):
            connection.send(b"HTTP/1.1 101 OK\r\n\r\n")
            taken, stop = bytearray(), threading.Event()
            while len(taken) < 4000000:
                data = connection.pending or connection.sock.recv(50000)
                connection.pending = b""
                if not data:
                    return
                taken += data
                stop.wait(0.002)
            connection.send(taken)
            connection.hang()
        with self.serve(slow) as server:
            assert self.ask(server, "stream", "POST", "/x", "null", "4000000", DOCKER_CERT_PATH=self.good) == [
                {"echo": 0, "size": 4000000}]

    def test_servers_that_are_not_who_they_should_be(self):
        with self.serve(directory=self.other) as server:
            failed(self.ask(server, "info", DOCKER_CERT_PATH=self.good)[0], errno.EPROTO, "not to be trusted", "tls.ca")
        with self.serve(directory=self.elsewhere) as server:
            failed(self.ask(server, "info", DOCKER_CERT_PATH=self.elsewhere)[0], errno.EPROTO, "not to be trusted")
        # DOCKER_TLS_VERIFY="" and a directory is "TLS, unchecked" to Docker's own client; here it is always checked.
        with self.serve(directory=self.other) as server:
            failed(self.ask(server, "info", DOCKER_CERT_PATH=self.good, DOCKER_TLS_VERIFY="")[0], errno.EPROTO)

    def test_clients_that_are_not_let_in(self):
        with self.serve() as server:
            line, = self.ask(server, "info", TEST_TLS_CA=self.good + "/ca.pem")
            assert line["code"] in (errno.ECONNRESET, errno.EPROTO) and "tls.certificate" in line["hint"], line
            line, = self.ask(server, "info", TEST_TLS_CA=self.good + "/ca.pem", TEST_TLS_CERTIFICATE=self.other + "/cert.pem",
                             TEST_TLS_KEY=self.other + "/key.pem")
            assert line["code"] in (errno.ECONNRESET, errno.EPROTO) and "tls.certificate" in line["hint"], line

    def test_files_that_are_wrong(self):
        with self.serve() as server:
            failed(self.ask(server, "info", TEST_TLS_CA="/nowhere/ca.pem")[0], errno.ENOENT, "tls.ca", "/nowhere/ca.pem")
            failed(self.ask(server, "info", TEST_TLS_CA=self.good + "/ca.pem", TEST_TLS_KEY=self.good + "/key.pem")[0],
                   errno.EINVAL, "tls.certificate")
            failed(self.ask(server, "info", TEST_TLS_CA=self.good + "/ca.pem", TEST_TLS_CERTIFICATE=self.good + "/cert.pem",
                            TEST_TLS_KEY=self.other + "/key.pem")[0], errno.EPROTO, "can't be used")
            failed(self.ask(server, "info", TEST_TLS_CA=self.good + "/extensions")[0], errno.EPROTO)

    def test_the_wrong_protocol(self):
        def plain(connection):
            connection.request()
            connection.respond("Client sent an HTTP request to an HTTPS server.\n", status="400 Bad Request")
        with EngineServer() as server:
            server.answer = plain
            failed(self.ask(server, "info")[0], errno.EINVAL, "wants TLS", "DOCKER_CERT_PATH")
        with EngineServer() as server:
            server.answer = lambda connection: connection.respond("no", status="400 Bad Request")
            failed(self.ask(server, "info", DOCKER_CERT_PATH=self.good)[0], errno.EPROTO, "tls.ca")


if __name__ == "__main__":
    main()
