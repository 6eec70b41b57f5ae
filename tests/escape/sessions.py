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

SEE = """
found = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        found.append(name)
escaped(found) if found else held("alone")
"""

# Every number but those of the session itself; in a pid namespace of its own there is nothing else.
SIGNAL = """
import signal
reached = []
mine = {os.getpid()} | {int(thread) for thread in os.listdir("/proc/self/task")}
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
    if not chosen:
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
            text = host.guest + code.replace("@SECRET@", secret).replace("@REVERSED@", secret[::-1])
            said = execute(server, "second", text)
            problem = "it escaped" if "ESCAPED" in said else None if "HELD" in said else "it did not say what held it"
            yield name, PROMISE, problem, said
        alive = execute(server, "first", "print(child.poll(), context_secret)")
        problem = None if "None " + secret in alive else "the first session is not as it was"
        yield "other-session-unharmed", PROMISE, problem, alive
