# SPDX-License-Identifier: Apache-2.0
"""Attempts that need two sessions of one server: nothing of one is to be seen from the other. Over MCP, as clients do."""
import json
import os
import subprocess

import harness
import mcp_client

PROMISE = "no other session can be seen, signalled, traced or read"

# What the first session leaves for the second to find; the secret is made up there.
VICTIM = """
import ctypes, os, socket, subprocess, sys
secret = "@SECRET@"
places = [os.path.join(d, "sbx-secret") for d in ("/tmp", "/dev/shm", "/workspace", os.getcwd())]
written = []
for place in places:
    try:
        with open(place, "w") as f:
            f.write(secret)
        os.chmod(place, 0o777)
        written.append(place)
    except OSError:
        pass
try:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0sbx-session-@SECRET@")
    listener.listen(4)
except OSError:
    pass  # without a file tree of its own it may have no named socket
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"])
context_secret = secret
print("PIDS", os.getpid(), child.pid, "WRITTEN", len(written))
"""

READ_TMP = """
found = []
for base in ("/tmp", "/dev/shm", "/workspace", os.getcwd()):
    for directory, _, names in os.walk(base):
        for name in names:
            try:
                with open(os.path.join(directory, name), errors="replace") as f:
                    if "@SECRET@" in f.read(4096):
                        found.append(os.path.join(directory, name))
            except OSError:
                pass
escaped(found) if found else held("not a file")
"""

ABSTRACT = """
import socket
def reach():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0sbx-session-@SECRET@")
        return "connected"
must_fail("abstract socket of the other session", reach)
"""

# The session's own: copies of its process, which wait to take its place, and process 1 above them.
OWN = """
def own_pids():
    found = {os.getpid()} | {int(thread) for thread in os.listdir("/proc/self/task")}
    if not @FAMILY@ or os.getpid() == 1:
        return found
    for pid in visible_pids():
        try:
            with open("/proc/%d/comm" % pid) as f:
                if f.read() == "sbx-frozen\\n":
                    found.add(pid)
        except OSError:
            pass
    return found | {1}
"""

SEE = OWN + """
found = sorted(set(visible_pids()) - own_pids())
escaped(found) if found else held("alone")
"""

# Every number but those of the session itself; in a pid namespace of its own there is nothing else.
SIGNAL = OWN + """
import signal
reached = []
mine = own_pids()
for pid in range(1, 70000):
    if pid in mine:
        continue
    try:
        os.kill(pid, 0)
        reached.append(pid)
    except OSError:
        pass
escaped(reached[:10]) if reached else held("70000 pids")
"""

VARIABLES = """
import gc
needle = "".join(reversed("@REVERSED@"))
found = [n for n, v in globals().items() if v == needle and n != "needle"]
found += [type(o) for o in gc.get_objects() if isinstance(o, (list, dict)) and len(o) < 50 and needle in repr(o)
          and o is not globals()] if "context_secret" in globals() else []
escaped(found) if found else held("no variable")
"""

SHARED_MEMORY = """
import platform
libc.shmget.restype = ctypes.c_int
found = []
for identity in range(0, 64):
    if libc.shmctl(identity, 13, ctypes.create_string_buffer(256)) >= 0:  # SHM_STAT
        found.append(identity)
escaped(found) if found else held("none")
"""

COPIED = "a session that was copied has no more rights than before"

RIGHTS = """
with open("/proc/self/status") as f:
    status = dict(line.rstrip("\\n").split(":\\t", 1) for line in f)
wanted = {"NoNewPrivs": "1", "Seccomp": "2", **{"Cap" + s: "0" * 16 for s in ("Inh", "Prm", "Eff", "Bnd", "Amb")}}
wrong = {name: status.get(name) for name, value in wanted.items() if status.get(name, "").strip() != value}
escaped(wrong) if wrong else held("status")
for what, function, arguments in (("unshare", libc.unshare, (0x10000000,)), ("setns", libc.setns, (0, 0)),
                                  ("ptrace", libc.ptrace, (16, 1, 0, 0)), ("chroot", libc.chroot, (b"/tmp",))):
    ctypes.set_errno(0)
    result = function(*arguments)
    if result == -1 and ctypes.get_errno() in REFUSED:
        held(what)
    else:
        escaped("%s: %d, %s" % (what, result, name_of(ctypes.get_errno())))
if os.getpid() == 1:
    escaped("it was not copied, so that this shows nothing")
"""

DESCRIPTORS = """
import socket, stat
kinds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        found, target = os.fstat(int(name)), os.readlink("/proc/self/fd/" + name)
    except OSError:
        continue
    if stat.S_ISSOCK(found.st_mode):
        with socket.socket(fileno=os.dup(int(name))) as s:
            kinds.setdefault("socket %d" % s.type, set()).add(found.st_ino)
            if s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) != socket.AF_UNIX or s.getsockname():
                escaped("a socket with a name")
    else:
        kinds.setdefault("pipe" if stat.S_ISFIFO(found.st_mode) else target, set()).add(found.st_ino)
told = {kind: len(inodes) for kind, inodes in kinds.items()}
known = {"socket %d" % socket.SOCK_STREAM: 1, "socket %d" % socket.SOCK_SEQPACKET: 1, "pipe": 2, "/dev/null": 1}
strange = {kind: count for kind, count in told.items() if count > known.get(kind, 0)}
escaped(strange) if strange else held(told)
"""

PROCESS_1 = """
import signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGINT):
    os.kill(1, number)
must_fail("write into process 1", open, "/proc/1/mem", "r+b")
with open("/proc/1/status") as f:
    state = [line for line in f if line.startswith("State")][0]
held(state) if "S (sleeping)" in state else escaped(state)
try:
    numbers = os.listdir("/proc/1/fd")
    held(numbers) if len(numbers) <= 1 else escaped(numbers)
except PermissionError:
    held("its descriptors can't be seen")
"""

FORGED = """
import array, socket, struct
found = None
for name in os.listdir("/proc/self/fd"):
    try:
        s = socket.socket(fileno=os.dup(int(name)))
        found = s if s.type == socket.SOCK_SEQPACKET else found
    except OSError:
        pass
if found is None:
    escaped("there is no socket to try it on")
for what, ids in (("the server's pid", (@SERVER@, os.getuid(), os.getgid())), ("root", (os.getpid(), 0, 0)),
                  ("process 1", (1, os.getuid(), os.getgid()))):
    sender = [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", *ids))]
    must_fail("a message in the name of " + what, found.sendmsg, [b"d" + bytes(12)], sender)
"""

COPIED_TABLE = (
    ("copied-session-rights", RIGHTS),
    ("copied-session-descriptors", DESCRIPTORS),
    ("copied-session-process-1", PROCESS_1),
    ("copied-session-forged-sender", FORGED),
)

TABLE = (
    ("other-session-files", READ_TMP, ("namespaces", "landlock", "container")),
    ("other-session-abstract-socket", ABSTRACT, ("namespaces", "container")),
    ("other-session-processes", SEE, ("namespaces", "container")),
    ("other-session-signals", SIGNAL, ("namespaces", "landlock", "container")),
    ("other-session-variables", VARIABLES, ("namespaces", "landlock", "container")),
    ("other-session-shared-memory", SHARED_MEMORY, ("namespaces", "landlock", "container")),
)


def execute(server, session, code):
    """All that the answer of execute_python says, as one text."""
    return json.dumps(server.call("execute_python", {"code": code, "session_id": session}))


def attempts(host, only):
    """Yields (name, promise, problem or None, what was said)."""
    chosen = [row for row in TABLE if only in row[0] and host.isolation in row[2]]
    if not chosen and (host.isolation != "namespaces" or not any(only in name for name, _ in COPIED_TABLE)):
        return
    arguments = [os.path.join(host.build, harness.PROGRAM), "mcp-serve", "--config", host.configuration]
    with mcp_client.Server(arguments, timeout=60, env=host.environment, cwd=host.project, stderr=subprocess.DEVNULL,
                           **host.identity()) as server:
        host.server_pids.append(server.process.pid)
        server.initialize()
        secret = "s" + host.token[:12]
        said = execute(server, "first", VICTIM.replace("@SECRET@", secret))
        if "PIDS" not in said:
            yield "other-session", PROMISE, "the first session did not come up", said
            return
        for name, code, _ in chosen:
            text = code.replace("@SECRET@", secret).replace("@REVERSED@", secret[::-1])
            text = host.guest + text.replace("@FAMILY@", str(host.isolation == "namespaces"))
            said = execute(server, "second", text)
            problem = "it escaped" if "ESCAPED" in said else None if "HELD" in said else "it did not say what held it"
            yield name, PROMISE, problem, said
        alive = execute(server, "first", "print(child.poll(), context_secret)")
        problem = None if "None " + secret in alive else "the first session is not as it was"
        yield "other-session-unharmed", PROMISE, problem, alive
        if host.isolation == "namespaces":
            yield from copied_attempts(host, server, only)


def copied_attempts(host, server, only):
    """In a session whose process was copied, and that goes on beside its copies."""
    execute(server, "copied", "kept = 'as it was'")
    said = json.dumps(server.call("checkpoint_session", {"session_id": "copied", "label": "before"}))
    for name, code in COPIED_TABLE:
        if only in name:
            said = execute(server, "copied", host.guest + code.replace("@SERVER@", str(server.process.pid)))
            problem = "it escaped" if "ESCAPED" in said else None if "HELD" in said else "it did not say what held it"
            yield name, COPIED, problem, said
    execute(server, "copied", "kept = 'otherwise'")
    said = json.dumps(server.call("rollback_session", {"session_id": "copied", "checkpoint": "before"}))
    said += execute(server, "copied", "print(kept, 'by', __import__('os').getppid())")
    problem = None if "as it was by 1" in said else "it could not go back to its copy"
    yield "copied-session-goes-back", COPIED, problem, said
