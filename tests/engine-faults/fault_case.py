# SPDX-License-Identifier: Apache-2.0
"""What the tests of a misbehaving engine share: a proxy before each engine, the program as a command and as a server, and
a look at what is left in the engine.

Every test runs once for each engine. What a test made in the engine is known by the names in the requests that went
through its proxy, so that engines may be shared.
"""
import atexit
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, ".."), os.path.join(HERE, "../engines")]
import engines  # noqa: E402
from mcp_client import Server, text_of  # noqa: E402
from proxy import EngineProxy  # noqa: E402

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
PATIENCE = 300  # seconds that anything may take on a busy machine; what hangs, hangs for ever
FACTS = "snipara-sandbox/execution"


def environment(home, **more):
    """What the program may see of the tests' own environment, with directories of its own."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("SNIPARA_", "RLM_", "XDG_", "DOCKER_", "CONTAINER"))}
    if "SNIPARA_SANDBOX_BUILD_ROOT" in os.environ:
        kept["SNIPARA_SANDBOX_BUILD_ROOT"] = os.environ["SNIPARA_SANDBOX_BUILD_ROOT"]
    kept.update(HOME=home, XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state",
                XDG_RUNTIME_DIR=f"{home}/run", LC_ALL="C.UTF-8", **more)
    return kept


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


class Case(unittest.TestCase):
    """A project, a home, and a proxy of its own before an engine."""

    kind = None  # "docker", "podman"
    keeps = True  # containers live on when the engine goes away

    def setUp(self):
        if self.kind is None:
            self.skipTest("the cases of an engine")
        self.engine = self.find_engine()
        directory = tempfile.TemporaryDirectory(prefix="sbx-f-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.home = os.path.join(directory.name, "home")
        self.project = pathlib.Path(directory.name, "project")
        for path in (self.home, os.path.join(self.home, "run"), self.project, self.project / ".git"):
            os.mkdir(path, 0o700)
        self.proxy = EngineProxy(self.engine.socket, os.path.join(directory.name, "engine.sock"))
        self.addCleanup(self.proxy.__exit__)

    def find_engine(self):
        return engine(self.kind)

    # ---- the program

    def config(self, pool=0, more="", **options):
        """The path of a configuration whose environment is a container; `options` are of the plugin, None leaves out."""
        settings = {"engine": self.proxy.address, "image": self.engine.image, "pull": "never", "workspace": "none"}
        settings.update(options)
        lines = ["%s = %s;" % (name.replace("__", "."), json.dumps(value)) for name, value in settings.items()
                 if value is not None]
        path = self.project / "test.cfg"
        path.write_text('environment = "docker";\nstore = "";\n%s\nplugins = ( { name = "docker"; plugin = "backend-docker"; pool = %d; %s } );\n'
                        % (more, pool, " ".join(lines)), encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    def execute(self, code="print(6 * 7)", *flags, **config):
        """`exec` as a command."""
        return self.run_program("exec", "--config", self.config(**config), *flags, "-c", code)

    def run_program(self, *arguments, **popen):
        return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.project, env=environment(self.home), timeout=PATIENCE, check=False, **popen)

    def refused(self, done, *says):
        """Nothing ran: an error that says each of `says` (regular expressions), and what to do."""
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, "(?m)^error: ")
        self.assertRegex(done.stderr, "(?m)^hint: .")
        for pattern in says:
            self.assertRegex(done.stderr, pattern)
        self.assertIn(done.returncode, (2, 3), done.stderr)  # of the configuration, or of the sandbox

    @contextlib.contextmanager
    def server(self, **config):
        """`mcp-serve`, greeted. When it has ended nothing of it is left in the engine."""
        log = open(os.path.join(self.directory, "log"), "w+", encoding="utf-8", errors="replace")
        self.addCleanup(log.close)
        try:
            with Server([PROGRAM, "mcp-serve", "--config", self.config(**config)], timeout=PATIENCE, stderr=log,
                        cwd=self.project, env=environment(self.home)) as server:
                server.log = log.name
                server.initialize()
                yield server
                self.proxy.thaw()
                server.close_input()
                self.assertEqual(server.wait(PATIENCE), 0)
        finally:
            log.seek(0)
            print(log.read()[-4000:])
        self.nothing_left()

    def call(self, server, code, **arguments):
        """(end, state, text) of an execution; end is None where none could be begun."""
        result = server.call("execute_python", {"code": code, **arguments})
        facts = result.get("_meta", {}).get(FACTS, {})
        return facts.get("end"), facts.get("state"), text_of(result)

    def works(self, server, **arguments):
        """Maybe with a notice that the session began anew."""
        end, _, text = self.call(server, "print(6 * 7)", **arguments)
        self.assertEqual((end, text.strip().split("\n")[-1]), ("ok", "42"), text)

    def kept(self, execution, expected):
        """The session goes on where it was, if its container lives; else the caller is told, once."""
        end, state, text = execution
        if self.keeps:
            self.assertEqual((end, state, text.strip()), ("ok", "kept", expected), text)
        elif text.strip() != expected:
            self.assertRegex(text, "(?i)lost|restarted")

    # ---- the engine

    def names(self):
        """Names of the containers that were asked for through the proxy."""
        with self.proxy.lock:
            requests = list(self.proxy.requests)
        found = set()
        for request in requests:
            if request.startswith("POST /containers/create"):
                query = urllib.parse.urlsplit(request.split(" ", 1)[1]).query
                found.update(urllib.parse.parse_qs(query).get("name", ()))
        return found

    def containers(self):
        """Those of them that are there."""
        names = self.names()
        return [container for container in self.engine.ask("GET", "/containers/json?all=1")
                if names & {name.lstrip("/") for name in container["Names"]}]

    def nothing_left(self):
        """Also without the server: whatever removes containers that nobody could answer for does it soon."""
        left = wait_for(lambda: not self.containers())
        names = [container["Names"] for container in self.containers()]
        self.assertTrue(left, f"containers that nobody removes: {names}")

    def log_says(self, server, pattern):
        with open(server.log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.assertTrue(re.search(pattern, text), f"{pattern!r} is not in the log:\n{text}")


def wait_for(condition, seconds=90):
    """Whether it comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def on_each_engine(namespace, *cases, kinds=engines.KINDS):
    """Makes a class for each engine of each of the classes of cases, and takes those away."""
    for case in cases:
        for kind in kinds:
            name = "%s_%s" % (kind, case.__name__)
            namespace[name] = type(name, (case,), {"kind": kind, "__module__": namespace["__name__"]})
        del namespace[case.__name__]
