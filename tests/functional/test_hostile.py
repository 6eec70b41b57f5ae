#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that crash, flood, hang and lie: each must end with the right reason, and the server must live on.

Every program runs twice: in `exec --json`, where all is told of its end, and over MCP, all of them in one server, whose
next execution in the same session must work. The program under test is $SNIPARA_SANDBOX."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mcp_client import Server, process_tree, text_of, wait_until_dead
from tap import main

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
SLOW = float(os.environ.get("TEST_SLOWNESS", "1"))
MIB = 1 << 20


class Hostile:
    """`ends`: the reasons that are right. `state`: what must be said of the session's variables, None for either.
    `judge(result)`: more that must hold of it, by assertions."""

    def __init__(self, code, ends, state=None, judge=None, timeout=10):
        self.code, self.ends, self.state, self.judge, self.timeout = code, ends, state, judge, timeout


def error_is(kind, *parts):
    def judge(result):
        assert result["error"]["type"] == kind, result["error"]
        for part in parts:
            assert part in result["error"]["message"], result["error"]["message"]
    return judge


def output_is(text):
    def judge(result):
        assert result["stdout"] == text, result["stdout"]
    return judge


def flooded(result):
    """Output beyond its cap is dropped and counted."""
    assert 0 < len(result["stdout"]) <= 4 * MIB, len(result["stdout"])
    total = len(result["stdout"].encode()) + result["stdout_dropped_bytes"]
    assert total >= 1 << 30, total


def bounded_error(result):
    assert len(json.dumps(result["error"])) < 2 * MIB, len(json.dumps(result["error"]))


def quick(result):
    assert result["duration_ms"] < 8000 * SLOW, result["duration_ms"]


SWALLOW = """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""

FORK_BOMB = """
import os
while True:
    os.fork()
"""

FORK_BOMB_THAT_HIDES = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except BaseException:
        pass
"""

ALLOCATE = "data = bytearray(4 << 30)\ndata[::4096] = b'1' * (1 << 20)"
ALLOCATE_SLOWLY = "data = []\nwhile True:\n    data.append(b'x' * (1 << 20))"
ALLOCATE_NATIVE = """
import mmap
blocks = []
while True:
    m = mmap.mmap(-1, 16 << 20)
    for i in range(0, 16 << 20, 4096):
        m[i] = 1
    blocks.append(m)
"""

ONE_LINE = """
import sys
chunk = "x" * (1 << 20)
for _ in range(1024):
    sys.stdout.write(chunk)
"""

MANY_LINES = """
import sys
chunk = ("y" * 63 + "\\n") * (1 << 14)
for _ in range(1024):
    sys.stdout.write(chunk)
"""

LONG_TRACEBACK = 'raise ValueError("a line\\n" * 10**6)'
DEEP_TRACEBACK = """
import sys
sys.setrecursionlimit(200000)
import threading
def dive(n):
    if n == 0:
        raise ValueError("bottom")
    dive(n - 1)
dive(20000)
"""

CLOSE_ALL = "import os\nos.closerange(0, 65536)"

RUBBISH = """
import os, stat
for fd in range(3, 4096):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.write(fd, bytes(range(256)) * 64)
    except OSError:
        pass
"""

# A frame that is well formed and says what was not asked: it can lie about its own session, and must not do more.
FORGED = """
import os, stat, struct
body = b'{"id": 999999, "end": "ok"}'
payload = struct.pack("<I", len(body)) + body
frame = struct.pack("<IB", len(payload), 0x86) + payload
huge = struct.pack("<IB", 0xFFFFFFFF, 0x86)
for fd in range(3, 4096):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            for _ in range(64):
                os.write(fd, frame)
            os.write(fd, huge)
    except OSError:
        pass
"""

REPLACE_STDOUT = """
import sys
class Mute:
    def write(self, text): raise RuntimeError("mute")
    def flush(self): raise RuntimeError("mute")
kept = sys.stdout
sys.stdout = sys.stderr = Mute()
x = 1
"""

SURROGATES = "print('a\\ud800b')\nprint('\\udcff' * 3)\nresult = {'\\ud800': '\\udfff'}"
NULS = "print('a\\0b')"
INVALID = "import os\nos.write(1, b'\\xff\\xfe\\x80 tail')"

FOREVER_THREADS = """
import threading, time
def forever():
    while True:
        time.sleep(0.01)
for _ in range(8):
    threading.Thread(target=forever).start()
print("started")
"""

OUTLIVE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(100000)"], start_new_session=True)
print("child", child.pid > 0)
"""

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
print("gone into the background")
"""

NATIVE_DEEP = """
import sys
sys.setrecursionlimit(10**9)
def dive():
    return [dive()]
dive()
"""

HOSTILE_REPR = """
class Loud:
    def __repr__(self): return "z" * (1 << 28)
Loud()
"""

REPR_EXITS = """
import os
class Exits:
    def __repr__(self): os._exit(9)
Exits()
"""

BIG_SOURCE = "# %s\n" % ("z" * 96) * 50000 + 'x = """\n' + ("y" * 99 + "\n") * 55000 + '"""\n'
STATE = ("kept", "lost")

PROGRAMS = {
    "endless loop": Hostile("while True: pass", ("timeout",), "kept", quick, timeout=1),
    "endless loop that swallows BaseException": Hostile(SWALLOW, ("timeout",), "lost", quick, timeout=1),
    "sleep for ever": Hostile("import time\ntime.sleep(1e9)", ("timeout",), "kept", quick, timeout=1),
    "wait for a lock for ever": Hostile("import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()",
                                        ("timeout",), "kept", quick, timeout=1),
    "native call that never comes back": Hostile("import ctypes\nctypes.CDLL(None).pause()", ("timeout",), None, quick,
                                                 timeout=1),
    "ignored SIGINT": Hostile("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                              ("timeout",), None, quick, timeout=1),
    "native crash": Hostile("import ctypes\nctypes.string_at(0)", ("killed",), "lost"),
    "abort": Hostile("import os\nos.abort()", ("killed",), "lost"),
    "kill itself": Hostile("import os\nos.kill(os.getpid(), 9)", ("killed", "ok"), None),
    "os._exit(3)": Hostile("import os\nos._exit(3)", ("lost",), "lost"),
    "sys.exit()": Hostile("import sys\nsys.exit()", ("ok",), "kept"),
    "sys.exit(3)": Hostile("import sys\nsys.exit(3)", ("error",), "kept", error_is("SystemExit", "3")),
    "fork bomb": Hostile(FORK_BOMB, ("error", "timeout", "killed", "lost"), None, quick, timeout=2),
    "fork bomb that swallows errors": Hostile(FORK_BOMB_THAT_HIDES, ("timeout", "killed", "lost", "error"), None, quick,
                                              timeout=2),
    "4 GB at once": Hostile(ALLOCATE, ("memory",)),
    "memory bit by bit": Hostile(ALLOCATE_SLOWLY, ("memory",), timeout=20),
    "memory outside Python's heap": Hostile(ALLOCATE_NATIVE, ("memory", "error"), timeout=20),
    "1 GB of output in one line": Hostile(ONE_LINE, ("ok",), "kept", flooded, timeout=60),
    "1 GB of output in many lines": Hostile(MANY_LINES, ("ok",), "kept", flooded, timeout=60),
    "message of a million lines": Hostile(LONG_TRACEBACK, ("error",), "kept", bounded_error),
    "traceback of twenty thousand frames": Hostile(DEEP_TRACEBACK, ("error", "killed"), None, bounded_error),
    "every descriptor closed": Hostile(CLOSE_ALL, ("lost",), "lost"),
    "rubbish on the protocol's descriptor": Hostile(RUBBISH, ("lost", "killed"), "lost"),
    "forged frames": Hostile(FORGED, ("lost", "killed"), "lost"),
    "sys.stdout replaced": Hostile(REPLACE_STDOUT, ("ok", "error"), "kept"),
    "lone surrogates": Hostile(SURROGATES, ("ok",), "kept"),
    "NUL in the output": Hostile(NULS, ("ok",), "kept", output_is("a\0b\n")),
    "output that is not UTF-8": Hostile(INVALID, ("ok",), "kept", output_is("\ufffd\ufffd\ufffd tail")),
    "10 MB of source": Hostile(BIG_SOURCE, ("ok",), "kept", timeout=60),
    "empty code": Hostile("", ("ok",), "kept", output_is("")),
    "only blanks and comments": Hostile("\n  \n# nothing\n", ("ok",), "kept"),
    "code that is no Python": Hostile("def (:", ("error",), "kept", error_is("SyntaxError")),
    "NUL in the source": Hostile("x = '\0'", ("error",), "kept"),
    "deep recursion": Hostile("def f(): f()\nf()", ("error",), "kept", error_is("RecursionError")),
    "recursion beyond the stack": Hostile(NATIVE_DEEP, ("killed", "error", "memory", "timeout"), None, timeout=20),
    "threads that never end": Hostile(FOREVER_THREADS, ("ok",), "kept", output_is("started\n")),
    "a child that outlives the execution": Hostile(OUTLIVE, ("ok",), "kept", output_is("child True\n")),
    "a daemon": Hostile(DAEMON, ("ok",), "kept", output_is("gone into the background\n")),
    "input()": Hostile("name = input('? ')", ("error",), "kept"),
    "read of standard input": Hostile("import sys\nprint(repr(sys.stdin.read() if sys.stdin else ''))", ("ok", "error"),
                                      "kept"),
    "a huge repr": Hostile(HOSTILE_REPR, ("ok", "memory", "error"), None),
    "a repr that exits": Hostile(REPR_EXITS, ("lost",), "lost"),
    "builtins broken": Hostile("import builtins\nbuiltins.print = builtins.compile = builtins.exec = None", ("ok", "error"),
                               None),
    "globals cleared": Hostile("globals().clear()", ("ok", "error"), None),
    "sys.modules cleared": Hostile("import sys\nsys.modules.clear()", ("ok", "error"), None),
    "exec in a deleted directory": Hostile("import os\nos.mkdir('d'); os.chdir('d'); os.rmdir('../d')", ("ok", "error"),
                                           None),
}


def run_exec(directory, *codes, timeout=10):
    """Results of `exec --json` with several pieces of code in one session, all from files."""
    paths = []
    for i, code in enumerate(codes):
        paths.append(os.path.join(directory, "code%d.py" % i))
        with open(paths[-1], "w", encoding="utf-8", errors="surrogatepass", newline="") as f:
            f.write(code)
    done = subprocess.run([PROGRAM, "exec", "--json", "--timeout", str(timeout * SLOW), *paths],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
                          timeout=180 * SLOW, check=False)
    lines = done.stdout.decode("utf-8").splitlines()  # strictly: what comes out is always UTF-8
    results = [json.loads(line) for line in lines]
    assert len(results) == len(codes), "exit code %d\n%s" % (done.returncode, done.stderr.decode(errors="replace"))
    return results


def check(name):
    """One program by `exec`: its end, and what is said of it."""
    hostile = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as directory:
        before, result = run_exec(directory, "kept = 41", hostile.code, timeout=hostile.timeout)
    assert before["end"] == "ok", before
    shown = dict(result, stdout=result["stdout"][:500], stderr=result["stderr"][:500])
    assert result["end"] in hostile.ends, shown
    if hostile.state is not None:
        assert result["state"] == hostile.state, shown
    if result["end"] != "ok":
        assert result["error"]["message"], shown
    if hostile.judge is not None:
        hostile.judge(result)


def define(name):
    def test():
        check(name)
    test.__name__ = test.__qualname__ = "test_" + "".join(c if c.isalnum() else "_" for c in name)
    globals()[test.__name__] = test


for _name in PROGRAMS:
    define(_name)


# Programs that leave a session in which nothing can be expected to work; that it answers is all.
RUINED = ("sys.stdout replaced", "builtins broken", "sys.modules cleared", "globals cleared", "kill itself")


def in_one_server(server, name, hostile):
    """One program in a session of its own, then an innocent one in the same session."""
    session = "s-" + "".join(c if c.isalnum() else "-" for c in name)[:40]
    result = server.call("execute_python", {"code": hostile.code, "timeout": max(1, hostile.timeout),
                                            "session_id": session})
    if not hostile.code:  # this tool's own answer, which costs no session
        assert "No code" in text_of(result), text_of(result)
        return
    facts = result["_meta"]["snipara-sandbox/execution"]
    assert facts["end"] in hostile.ends, (name, facts, text_of(result)[:500])
    after = server.call("execute_python", {"code": "print('alive')", "session_id": session})
    assert name in RUINED or "alive" in text_of(after), (name, text_of(after)[:500])
    if facts["state"] == "lost":
        assert "variables are gone" in text_of(after), "nobody is told that the state was lost: " + text_of(after)[:500]
    server.call("destroy_session", {"session_id": session})
    assert server.ask("ping")["result"] == {}, name


def test_all_in_one_server():
    """The same programs over MCP, in one server that answers as ever afterwards."""
    with Server([PROGRAM, "mcp-serve"], timeout=240 * SLOW) as server:
        server.initialize()
        for name, hostile in PROGRAMS.items():
            in_one_server(server, name, hostile)
        assert "42" in text_of(server.call("execute_python", {"code": "print(6 * 7)", "session_id": "after"}))


def test_nothing_survives_a_session():
    """Children, daemons and threads of a session are dead when it is destroyed, and when the server goes."""
    with Server([PROGRAM, "mcp-serve", "--set", "local.pool=0"], timeout=60 * SLOW) as server:
        server.initialize()
        server.call("execute", {"code": "x = 1"})  # what sessions begin from is there, and no session that is copied
        for name in ("a child that outlives the execution", "a daemon", "threads that never end"):
            before = set(process_tree(server.process.pid))
            server.call("execute_python", {"code": PROGRAMS[name].code, "session_id": "brood"})
            born = set(process_tree(server.process.pid)) - before
            assert born, name
            server.call("destroy_session", {"session_id": "brood"})
            survivors = wait_until_dead(born)
            assert not survivors, (name, [command_line(pid) for pid in survivors])
        everything = process_tree(server.process.pid)
    assert not wait_until_dead(everything), "processes outlive their server"


def command_line(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


if __name__ == "__main__":
    # Inherited by all: should the sandbox fail to stop a fork bomb, the machine lives on to tell.
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (4000 if hard == resource.RLIM_INFINITY else min(hard, 4000), hard))
    main()
