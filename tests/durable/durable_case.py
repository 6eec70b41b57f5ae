# SPDX-License-Identifier: Apache-2.0
"""What the tests of durable sessions share: a machine with a store, projects and servers one after another, that are
ended in every way; what a client was told; which process is what.

Environment: SNIPARA_SANDBOX is the program; SNIPARA_SANDBOX_BUILD_ROOT the build tree; STORE where sessions are kept, "dir"
or "postgres", which gets a server of the test's own."""
import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, place) for place in ("..", "../engines", "../wasm", "../../plugins/store-postgres/tests")]
import engines  # noqa: E402
import mcp_client  # noqa: E402
import model  # noqa: E402
import postgres_server  # noqa: E402
import with_guest  # noqa: E402
from tap import skip  # noqa: E402

PROGRAM = os.environ.get("SNIPARA_SANDBOX") or shutil.which("snipara-sandbox") or "snipara-sandbox"
PATIENCE = 300  # seconds that anything may take on a busy machine
FACTS = "snipara-sandbox/execution"
STORE = os.environ.get("STORE", "dir")
MIB = 1 << 20

_open = contextlib.ExitStack()
atexit.register(_open.close)
_engines = {}


def engine(kind="docker"):
    """The engine that containers are made by, started at most once; skips where there can be none."""
    if kind not in _engines:
        try:
            _engines[kind] = _open.enter_context(engines.shared(kind))
        except engines.Unavailable as reason:
            _engines[kind] = reason
    if isinstance(_engines[kind], Exception):
        raise _engines[kind]
    return _engines[kind]


def environment(home):
    """What programs may see of the tests' own environment, with directories of `home`."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("SNIPARA_", "RLM_", "XDG_", "DOCKER_", "CONTAINER"))}
    if "SNIPARA_SANDBOX_BUILD_ROOT" in os.environ:
        kept["SNIPARA_SANDBOX_BUILD_ROOT"] = os.environ["SNIPARA_SANDBOX_BUILD_ROOT"]
    kept.update(HOME=home, XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state", LC_ALL="C.UTF-8",
                XDG_RUNTIME_DIR=f"{home}/run")
    return kept


def _setting(value):
    return json.dumps(value, ensure_ascii=False)


class Ended(Exception):
    """The server is gone, and the call with it."""


class Refused(Exception):
    """A tool said no; the text is what it said."""


class Told:
    """What a client was told of one execution."""

    def __init__(self, result):
        self.text = mcp_client.text_of(result)
        facts = result.get("_meta", {}).get(FACTS)
        if facts is None:
            raise Refused(self.text)
        self.end, self.state = facts["end"], facts["state"]
        self.notice, self.notice_kind = facts.get("notice") or "", facts.get("notice_kind")
        self.checkpoint = facts.get("checkpoint") or {}
        self.account = model.told_in(self.text)

    id = property(lambda self: self.checkpoint.get("id"))

    def __str__(self):
        return "%s, state %s, notice %s, checkpoint %s: %s" % (self.end, self.state, self.notice_kind, self.checkpoint,
                                                               self.text[:1500])


class Machine:
    """A home, a store and projects; a context manager, after which nothing of it runs."""

    def __init__(self, backend, settings="", **entry):
        """`entry`: options of the backend's plugin entry; `settings`: lines of the configuration."""
        self.backend, self.settings, self.entry = backend, settings, {"pool": 1, **entry}
        if backend == "wasm" and (reason := with_guest.missing()):
            skip(reason)
        if backend == "docker":
            self.engine = engine()
            self.entry = {"engine": self.engine.address, "image": self.engine.image, "pull": "never",
                          "workspace": "none", "memory": "128m", "memory_max": "128m", **self.entry}
        if STORE == "postgres" and postgres_server.find_program("initdb") is None:
            skip("no PostgreSQL server on this machine: apt-get install postgresql")
        self.servers, self.postgres = [], None

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="sbx-d-")
        os.chmod(self.directory, 0o755)
        self.home, self.store = os.path.join(self.directory, "home"), os.path.join(self.directory, "store")
        self.log = os.path.join(self.directory, "log")
        for path in (self.home, os.path.join(self.home, "run")):
            os.mkdir(path, 0o700)
        if STORE == "postgres":
            self.postgres = postgres_server.Server()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
        self._remove_containers()
        if self.postgres:
            self.postgres.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def containers(self):
        """Those of this home's servers; the engine may have others'."""
        top = os.path.join(self.home, "state/snipara-sandbox/docker")
        hosts = set(os.listdir(top)) if os.path.isdir(top) else set()
        return [one["Id"] for one in self.engine.ask("GET", "/containers/json?all=1")
                if (one["Labels"] or {}).get("org.snipara.sandbox.host") in hosts]

    def _remove_containers(self):
        for one in self.containers() if self.backend == "docker" else ():
            with contextlib.suppress(Exception):
                self.engine.ask("DELETE", "/containers/%s?force=1&v=1" % one)

    def project(self, name="project", **more):
        """The path of a configuration in a project of that name."""
        directory = os.path.join(self.directory, name)
        os.makedirs(os.path.join(directory, ".git"), mode=0o700, exist_ok=True)
        where = {"conninfo": self.postgres.conninfo} if self.postgres else {"directory": self.store}
        entries = [{"name": self.backend, "plugin": "backend-" + self.backend, **self.entry, **more.pop("entry", {})},
                   {"name": "store", "plugin": "store-" + STORE, **where, **more.pop("store", {})}]
        text = 'environment = "%s";\n%s%s\nplugins = ( %s );\n' % (
            self.backend, self.settings, "".join("%s = %s;\n" % (key, _setting(value)) for key, value in more.items()),
            ", ".join("{ %s }" % " ".join("%s = %s;" % (key, _setting(value)) for key, value in entry.items())
                      for entry in entries))
        path = os.path.join(directory, "test.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def serve(self, config=None, **popen):
        """A server, greeted."""
        server = Server(self, config or self.project(), **popen)
        self.servers.append(server)
        return server

    def run(self, *arguments, config=None, **more):
        """The program, once."""
        config = config or self.project()
        return subprocess.run([PROGRAM, *arguments, "--config", config], cwd=os.path.dirname(config), text=True,
                              env=environment(self.home), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE, check=False, **more)

    def logged(self):
        """The end of what servers wrote, for people."""
        with contextlib.suppress(FileNotFoundError), open(self.log, encoding="utf-8", errors="replace") as file:
            return "\n" + file.read()[-2000:]
        return ""


class Server:
    """One mcp-serve. Calls may overlap; one that the server did not live to answer raises Ended."""

    def __init__(self, machine, config, **popen):
        self.machine = machine
        with open(machine.log, "ab") as log:
            self.raw = mcp_client.Server([PROGRAM, "mcp-serve", "--config", config], timeout=PATIENCE, stderr=log,
                                         cwd=os.path.dirname(config), env=environment(machine.home), **popen)
        self.answers = {}
        self.raw.initialize()

    pid = property(lambda self: self.raw.process.pid)

    # ---- calls

    def begin(self, tool, arguments):
        try:
            return self.raw.start_call(tool, arguments)
        except (mcp_client.Closed, OSError) as error:
            raise Ended() from error

    def finish(self, request):
        """The tool's result."""
        while request not in self.answers:
            try:
                message = self.raw.response()
            except (mcp_client.Closed, OSError) as error:
                raise Ended() from error
            self.answers[message.get("id")] = message
        answer = self.answers.pop(request)
        if "result" not in answer:
            raise Refused(json.dumps(answer))
        return answer["result"]

    def call(self, tool, **arguments):
        """The structured content of a tool that must not fail."""
        result = self.finish(self.begin(tool, arguments))
        if result.get("isError"):
            raise Refused(mcp_client.text_of(result))
        return result.get("structuredContent")

    def execute(self, session, code, **arguments):
        return Told(self.finish(self.begin("execute_python", {"session_id": session, "code": code, **arguments})))

    def run(self, session, code, **arguments):
        """An execution that must end well."""
        told = self.execute(session, code, **arguments)
        assert told.end == "ok", "%s%s" % (told, self.machine.logged())
        return told

    def look(self, session):
        """The session's own account of itself."""
        return self.run(session, model.looking())

    def checkpoints(self, session):
        """As list_checkpoints tells them, oldest first."""
        return self.call("list_checkpoints", session_id=session)["checkpoints"]

    # ---- ends

    def kill(self):
        """As the machine does when memory is short: no word of farewell. Waits until all below it is gone, too."""
        if not self.raw.process.stdin.closed:
            below = mcp_client.process_tree(self.pid)[1:]
            self.raw.process.kill()
            self.raw.process.wait()
            left = mcp_client.wait_until_dead(below, PATIENCE)
            assert not left, "the server was killed, but %s live on" % left
        self._close()

    def stop(self):
        """As a client does that goes."""
        if not self.raw.process.stdin.closed:
            self.raw.close_input()
        code = self.raw.wait(PATIENCE)
        self._close()
        assert code == 0, "exit code %d%s" % (code, self.machine.logged())

    def alive(self):
        return self.raw.process.poll() is None

    def _close(self):
        for stream in (self.raw.process.stdin, self.raw.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()

    # ---- processes

    def processes(self, kind):
        """Ids of those that are "server", "helper" (between the server and its guests), "zygote", or "guest"."""
        if kind == "server":
            return [self.pid]
        if self.machine.backend == "docker":
            return self._containers() if kind == "guest" else \
                [pid for pid in mcp_client.process_tree(self.pid)[1:] if kind == "helper"]
        helpers = children(self.pid)
        zygotes = [child for pid in helpers for child in children(pid)]
        if kind != "guest":
            return helpers if kind == "helper" else zygotes
        return [below for pid in zygotes for below in mcp_client.process_tree(pid)[1:]]

    def _containers(self):
        """Process 1 of each, as this machine sees it."""
        found = []
        for one in self.machine.containers():
            with contextlib.suppress(Exception):  # gone since it was listed
                found.append(self.machine.engine.ask("GET", "/containers/%s/json" % one)["State"]["Pid"])
        return [pid for pid in found if pid > 0]


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open("/proc/%s/stat" % name, encoding="latin-1") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state not in "ZX":
                    found.append(int(name))
    return found


def kill(pid):
    """Whether it was there to be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def wait_for(condition, seconds=PATIENCE):
    """Whether it comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
