# SPDX-License-Identifier: Apache-2.0
"""What the tests of owners share: servers of one home, killed at will, and what they leave in an engine."""
import atexit
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, ".."), os.path.join(HERE, "../engines")]
import engines  # noqa: E402
from mcp_client import Server, text_of  # noqa: E402

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
PATIENCE = 300  # seconds that anything may take on a busy machine
FACTS = "snipara-sandbox/execution"
LABEL = "org.snipara.sandbox."

_open = contextlib.ExitStack()
_found = {}
atexit.register(_open.close)


def engine(kind):
    """The shared one, started at most once. Skips where there can be none."""
    if kind not in _found:
        try:
            _found[kind] = _open.enter_context(engines.shared(kind))
        except engines.Unavailable as reason:
            _found[kind] = reason
    if isinstance(_found[kind], Exception):
        raise _found[kind]
    return _found[kind]


def children(pid, name):
    """Processes of that name whose parent is `pid`."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
                if int(text.rpartition(")")[2].split()[1]) == pid and text.split("(", 1)[1].startswith(name[:15] + ")"):
                    found.append(int(entry))
    return found


def is_alive(pid):
    """Whether it runs: a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_for(condition, seconds=PATIENCE):
    """Whether it comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Case(unittest.TestCase):
    """A home and a project; servers of it are one owner's after another."""

    kind = None  # "docker", "podman"

    def setUp(self):
        if self.kind is None:
            self.skipTest("the cases of an engine")
        self.engine = engine(self.kind)
        directory = tempfile.TemporaryDirectory(prefix="sbx-o-")
        self.addCleanup(directory.cleanup)
        self.home = os.path.join(directory.name, "home")
        self.project = pathlib.Path(directory.name, "project")
        for path in (self.home, os.path.join(self.home, "run"), self.project, self.project / ".git"):
            os.mkdir(path, 0o700)
        self.addCleanup(self.remove_all)
        self.log = os.path.join(directory.name, "log")

    # ---- programs

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SNIPARA_", "RLM_", "XDG_", "DOCKER_", "CONTAINER"))}
        if "SNIPARA_SANDBOX_BUILD_ROOT" in os.environ:
            kept["SNIPARA_SANDBOX_BUILD_ROOT"] = os.environ["SNIPARA_SANDBOX_BUILD_ROOT"]
        kept.update(HOME=self.home, XDG_CONFIG_HOME=f"{self.home}/config", XDG_STATE_HOME=f"{self.home}/state",
                    XDG_RUNTIME_DIR=f"{self.home}/run", LC_ALL="C.UTF-8")
        return kept

    def config_text(self, pool=0, grace="2s", **options):
        settings = {"engine": self.engine.address, "image": self.engine.image, "pull": "never", "workspace": "none"}
        settings.update(options)
        lines = ["%s = %s;" % (name.replace("__", "."), json.dumps(value)) for name, value in settings.items()]
        return ('environment = "docker";\nstore = "";\ninterrupt_grace = "%s";\n'
                'plugins = ( { name = "docker"; plugin = "backend-docker"; pool = %d; %s } );\n'
                % (grace, pool, " ".join(lines)))

    def config(self, **options):
        path = self.project / "test.cfg"
        path.write_text(self.config_text(**options), encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    def popen(self, *arguments, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        return subprocess.Popen([PROGRAM, *arguments], cwd=self.project, env=self.environment(), **more)

    def execute(self, code="print(6 * 7)", **config):
        return subprocess.run([PROGRAM, "exec", "--config", self.config(**config), "-c", code], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, cwd=self.project, env=self.environment(), timeout=PATIENCE,
                              check=False)

    def works(self, **config):
        done = self.execute(**config)
        self.assertEqual((done.stdout, done.returncode), ("42\n", 0), done.stderr)

    def serve(self, **config):
        """A server, greeted; the caller ends it."""
        with open(self.log, "ab") as log:
            server = Server([PROGRAM, "mcp-serve", "--config", self.config(**config)], timeout=PATIENCE, stderr=log,
                            cwd=self.project, env=self.environment())
        self.addCleanup(self.end, server)
        server.initialize()
        return server

    def call(self, server, code, **arguments):
        """(end, state, text) of an execution; end is None where none could be begun."""
        result = server.call("execute_python", {"code": code, **arguments})
        facts = result.get("_meta", {}).get(FACTS, {})
        return facts.get("end"), facts.get("state"), text_of(result)

    def says(self, server, code, expected, **arguments):
        end, _, text = self.call(server, code, **arguments)
        self.assertEqual((end, text.strip()), ("ok", expected), text + self.logged())

    def logged(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "\n" + file.read()[-3000:]

    def end(self, server):
        """As a client does."""
        if server.process.poll() is None and not server.process.stdin.closed:
            server.close_input()
            self.assertEqual(server.wait(PATIENCE), 0, self.logged())
        self.close(server)

    def close(self, server):
        for stream in (server.process.stdin, server.process.stdout):
            if not stream.closed:
                stream.close()

    def kill(self, server, with_reaper=False):
        """As the machine does when memory is short: no word of farewell."""
        for reaper in children(server.process.pid, "sbx-docker-reaper") if with_reaper else ():
            os.kill(reaper, signal.SIGKILL)
        server.process.kill()
        server.process.wait()
        self.close(server)

    # ---- the engine

    def host(self):
        """The host label of this home's servers; None as long as there was none."""
        top = pathlib.Path(self.home, "state/snipara-sandbox/docker")
        found = [path.name for path in top.glob("*") if path.is_dir()] if top.is_dir() else []
        return found[0] if found else None

    def containers(self, *states):
        """Those of this home's servers."""
        host = self.host()
        found = [container for container in self.engine.ask("GET", "/containers/json?all=1")
                 if host is not None and (container["Labels"] or {}).get(LABEL + "host") == host]
        return [container for container in found if not states or container["State"] in states]

    def lock_files(self):
        host = self.host()
        return sorted(pathlib.Path(self.home, "state/snipara-sandbox/docker", host).glob("*.lock")) if host else []

    def nothing_left(self):
        left = wait_for(lambda: not self.containers())
        names = [(container["Names"], container["State"]) for container in self.containers()]
        self.assertTrue(left, f"containers that nobody removes: {names}{self.logged() if os.path.exists(self.log) else ''}")

    def remove_all(self):
        for container in self.containers():
            with contextlib.suppress(Exception):
                self.engine.ask("DELETE", "/containers/%s?force=1&v=1" % container["Id"])

    def foreign(self, labels):
        """A container of somebody else's, not started."""
        made = self.engine.ask("POST", "/containers/create", {
            "Image": self.engine.image, "Cmd": ["true"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}})
        self.addCleanup(self.engine.ask, "DELETE", "/containers/%s?force=1&v=1" % made["Id"])
        return made["Id"]

    def exists(self, container_id):
        return any(container["Id"] == container_id for container in self.engine.ask("GET", "/containers/json?all=1"))


def on_each_engine(namespace, *cases):
    """Makes a class for each engine of each of the classes of cases, and takes those away."""
    for case in cases:
        for kind in ("docker", "podman"):
            name = "%s_%s" % (kind, case.__name__)
            namespace[name] = type(name, (case,), {"kind": kind, "__module__": namespace["__name__"]})
        del namespace[case.__name__]
