# SPDX-License-Identifier: Apache-2.0
"""That the engines which tests rely on come up, run a container of the image, come back after a kill, and leave nothing."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import engines  # noqa: E402
from tap import main  # noqa: E402

PROGRAMS = "python3 -c 'import pytest, pytest_asyncio, pip, asyncio' && node --version && bash -c 'echo $BASH_VERSION' && exit 7"


def run(engine, command):
    """The exit code of a container without network."""
    made = engine.ask("POST", "/containers/create", {
        "Image": engine.image, "Cmd": ["sh", "-c", command], "User": "65534:65534", "NetworkDisabled": True,
        "HostConfig": {"NetworkMode": "none", "ReadonlyRootfs": True, "LogConfig": {"Type": "none"}}})
    try:
        engine.ask("POST", "/containers/%s/start" % made["Id"])
        return engine.ask("POST", "/containers/%s/wait" % made["Id"])["StatusCode"]
    finally:
        engine.ask("DELETE", "/containers/%s?force=1" % made["Id"])


def shared_runs(kind):
    with engines.shared(kind) as engine:
        assert run(engine, PROGRAMS) == 7


def own_comes_and_goes(kind):
    with engines.own(kind, with_image=False) as engine:
        runtime, directory, first = engine.runtime, engine.directory, engine.process.pid
        assert engine.containers() == [] and engine.ask("GET", "/images/json") == []
        engine.kill()
        assert not engine.answers()
        engine.start()
        assert engine.answers() and engine.process.pid != first
        engine.stop()
        assert not engine.answers()
        engine.start()
    assert not os.path.exists(runtime) and not os.path.exists(directory)
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        assert runtime not in f.read()
    engine.runtime = runtime
    assert list(engine._left()) == []


def test_shared_docker():
    shared_runs("docker")


def test_shared_podman():
    shared_runs("podman")


def test_own_docker():
    own_comes_and_goes("docker")


def test_own_podman():
    own_comes_and_goes("podman")


if __name__ == "__main__":
    main()
