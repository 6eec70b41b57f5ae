# SPDX-License-Identifier: Apache-2.0
"""The engine's client against a real dockerd and a real podman service: requests, streams to containers, TLS, and engines
that stop."""
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

import engines
from engine_server import make_certificates
from tap import main

CLIENT = os.environ["ENGINE_TEST_CLIENT"]
CAT = {"Cmd": ["cat"], "OpenStdin": True, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
       "NetworkDisabled": True, "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none"}}}
def run(address, *arguments, **environment):
    env = dict(os.environ, DOCKER_HOST=address, TEST_OPTION_TIMEOUT_MS="120000", **environment)
    env.pop("TEST_ENGINE", None)
    done = subprocess.run([CLIENT, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=300)
    assert done.returncode in (0, 1), (done.returncode, done.stderr.decode(errors="replace"))
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def attach(identity):
    return "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1" % identity


def both(test):
    """The test for each engine. (A decorator would hide it from the runner.)"""
    def docker():
        with engines.shared("docker") as engine:
            test(engine)

    def podman():
        with engines.shared("podman") as engine:
            test(engine)
    module = sys.modules[__name__]
    for function in (docker, podman):
        function.__name__ = "test_%s_%s" % (function.__name__, test.__name__)
        setattr(module, function.__name__, function)
    return test


@both
def says_what_it_is(engine):
    info, = run(engine.address, "info")
    version = engine.ask("GET", "/version")
    assert info["name"] == engine.kind and info["version"] == version["Version"], (info, version)
    assert info["api_version"] == "1.41" and info["local"] and info["os"] == "linux" and info["found_by"] == "DOCKER_HOST"
    about = engine.ask("GET", "/info")
    assert info["storage_driver"] == about["Driver"] and info["default_runtime"] == about["DefaultRuntime"], info
    assert str(info["cgroup_version"]) == about["CgroupVersion"] and info["pids"] == about["PidsLimit"], (info, about)


@both
def is_asked(engine):
    name = "engine-test-%d" % os.getpid()
    create = json.dumps(dict(CAT, Image=engine.image))
    try:
        made, state, = run(engine.address, "ask", "POST", "/containers/create?name=" + name, create, "then", "ask", "GET",
                           "/containers/%s/json" % name)
        assert state["answer"]["Id"] == made["answer"]["Id"], (made, state)
        start = ("ask", "POST", "/containers/%s/start" % name)
        assert run(engine.address, *start, "then", *start) == [{"answer": None}] * 2, "the second is 304"
        clash, = run(engine.address, "ask", "POST", "/containers/create?name=" + name, create)
        assert clash["code"] in (errno.EBUSY, errno.EIO) and clash["hint"], clash
        killed, = run(engine.address, "ask", "POST", "/containers/%s/kill?signal=SIGKILL" % name)
        assert killed == {"answer": None}, killed
    finally:
        assert run(engine.address, "ask", "DELETE", "/containers/%s?force=1" % name) == [{"answer": None}]
    gone, bad, = run(engine.address, "ask", "GET", "/containers/%s/json" % name, "then", "stream", "POST", attach(name), "null",
                     "1")
    assert gone["code"] == errno.ENOENT and bad["code"] == errno.ENOENT and gone["hint"], (gone, bad)


@both
def is_asked_by_many_threads(engine):
    assert run(engine.address, "parallel", "GET", "/containers/json?all=1") == [{"parallel": 0}]


@both
def gives_streams(engine):
    before = len(engine.containers())
    for size in (0, 1, 3000000):
        drained, line = run(engine.address, "cat", engine.image, str(size))
        assert drained["end"] == 0 and line == {"echo": 0, "size": size}, (drained, line)
    assert len(engine.containers()) <= before + 2, "others may be at work here"


def _holding(engine, address, *then, **environment):
    """A client with a stream to a container, and what it says later."""
    client = subprocess.Popen([CLIENT, "hold", engine.image, "1000", *then], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              env=dict(os.environ, DOCKER_HOST=address, **environment))
    line = json.loads(client.stdout.readline())
    assert "holding" in line, line

    def rest():
        out, _ = client.communicate(timeout=200)
        return [json.loads(text) for text in out.decode().splitlines()]
    return rest


def _goes_away(kind, end):
    with engines.own(kind) as engine:
        rest = _holding(engine, engine.address, "then", "ask", "GET", "/info")
        end(engine)
        drained, echoed, asked = rest()
        # A stream that ended may be seen as its end, or as a reset.
        assert drained["end"] in (0, errno.ECONNRESET) and echoed["echo"] == 0, (drained, echoed)
        # One that is stopped ends containers first, and answers meanwhile.
        if "answer" not in asked or end is engines.Engine.kill:
            assert asked["code"] in (errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET), asked
            assert "DOCKER_HOST: " in asked["message"] and asked["hint"], asked
        line, = run(engine.address, "info")
        assert line["code"] in (errno.ENOENT, errno.ECONNREFUSED) and "systemctl" in line["hint"], line
        engine.start()
        assert run(engine.address, "info")[0]["name"] == kind


def test_docker_that_is_killed():
    _goes_away("docker", engines.Engine.kill)


def test_docker_that_is_stopped():
    _goes_away("docker", engines.Engine.stop)


def test_an_engine_that_stands_still():
    with engines.own("podman") as engine:
        engine.signal(signal.SIGSTOP)
        try:
            for command in (("info",), ("places",)):
                line, = run(engine.address, *command, TEST_DEADLINE_MS="1500")
                line = line[0] if isinstance(line, list) else line
                assert line["code"] == errno.ETIMEDOUT and "hangs" in line["hint"], line
        finally:
            engine.signal(signal.SIGCONT)
        assert run(engine.address, "info")[0]["name"] == "podman"


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_docker_over_tls():
    with tempfile.TemporaryDirectory() as directory:
        good = make_certificates(os.path.join(directory, "good"))
        bad = make_certificates(os.path.join(directory, "bad"))
        address = "tcp://127.0.0.1:%d" % _free_port()
        options = ("-H", address, "--tlsverify", "--tlscacert", good + "/ca.pem", "--tlscert", good + "/server-cert.pem",
                   "--tlskey", good + "/server-key.pem")
        with engines.own("docker", options=options) as engine:
            info, listed = run(address, "info", "then", "ask", "GET", "/containers/json?all=1", DOCKER_CERT_PATH=good)
            assert info["tls"] and not info["local"] and listed == {"answer": []}, (info, listed)
            assert run(address, "parallel", "GET", "/info", DOCKER_CERT_PATH=good) == [{"parallel": 0}]
            drained, line = run(address, "cat", engine.image, "4000000", DOCKER_CERT_PATH=good)
            assert drained["end"] == 0 and line == {"echo": 0, "size": 4000000}, (drained, line)
            for environment in ({"DOCKER_CERT_PATH": bad}, {"TEST_TLS_CA": good + "/ca.pem"},
                                {"TEST_TLS_CA": good + "/ca.pem", "TEST_TLS_CERTIFICATE": bad + "/cert.pem",
                                 "TEST_TLS_KEY": bad + "/key.pem"}):
                line, = run(address, "info", **environment)
                assert line["code"] in (errno.EPROTO, errno.ECONNRESET) and "tls.ca" in line["hint"], line
            line, = run(address, "info")
            assert line["code"] == errno.EINVAL and "wants TLS" in line["hint"], line
            # By the socket as well, at the same time.
            assert run(engine.address, "info")[0]["local"]
            rest = _holding(engine, address, DOCKER_CERT_PATH=good)
            engine.kill()
            drained, _ = rest()
            assert drained["end"] in (0, errno.ECONNRESET), drained


if __name__ == "__main__":
    main()
