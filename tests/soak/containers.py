#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sessions in containers, one after another and beside each other, that do what sessions do: keep variables, print,
fail, run into time-outs and memory limits, crash, leave processes behind. Before and after: what the engine has and what the
server and the engine hold. Nothing may be left.

    python3 tests/soak/containers.py [--minutes 10] [--sessions 100] [--engine docker] [--seed N]

Environment: SNIPARA_SANDBOX, SNIPARA_SANDBOX_BUILD_ROOT. The engine is one of the tests' own.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, ".."), os.path.join(HERE, "../engines")]
import engines  # noqa: E402
import mcp_http  # noqa: E402
from mcp_client import process_tree, text_of  # noqa: E402

PATIENCE = 600   # seconds that one call may take on a busy machine
QUIET_S = 120    # within which everything stands still
STILL_S = 13     # longer than the server keeps a thread that has nothing to do
TOGETHER = 8     # sessions that live at the same time, at most
IDLE_CONNECTIONS = 32  # to the engine that the server keeps for the next requests, at most
# The engine's own descriptors may vary by what its event loops keep for a while.
ENGINE_SLACK = 8
FACTS = "snipara-sandbox/execution"

CONFIG = """
environment = "docker";
store = "";
max_sessions = {sessions};
interrupt_grace = "1m";
plugins = ( {{ name = "docker"; plugin = "backend-docker"; critical = true; engine = "{address}"; image = "{image}";
        runtimes = [ "node={image}" ]; pull = "never"; workspace = "none"; pool = 2; memory = "128m"; memory_max = "128m"; pids = 64; }},
        {{ name = "mcp"; plugin = "transport-mcp"; http = {{ max_connections = 256; max_sessions = {sessions};
        max_sessions_per_principal = {sessions}; }}; }} );
"""


class Wrong(Exception):
    """What no session may see."""


class Life:
    """One session from its beginning to its end."""

    def __init__(self, url, number, seed, runtimes, counters):
        self.client = mcp_http.Client(url, timeout=PATIENCE)
        self.name = "soak-%d" % number
        self.random = random.Random(seed * 1000003 + number)
        self.runtime = runtimes[number % len(runtimes)]
        self.secret = "%x" % self.random.getrandbits(64)
        self.counters = counters
        self.count = None
        self.ran_out = False  # of memory: what kills it with the same signal later can't be told from that

    def call(self, code, **arguments):
        result = self.client.call("execute_code", {"language": self.runtime, "code": code, "session_id": self.name,
                                                   **arguments})
        self.counters["calls"] += 1
        facts = result.get("_meta", {}).get(FACTS)
        if facts is None:
            raise Wrong("%s: %s" % (self.name, text_of(result)))
        if facts["state"] == "lost":
            self.count = None
        return facts, text_of(result)

    def ok(self, code, **arguments):
        facts, text = self.call(code, **arguments)
        if facts["end"] != "ok":
            raise Wrong("%s: %s: %s" % (self.name, facts["end"], text))
        return text

    CODE = {
        "python": {"begin": "secret = {0!r}; count = 0", "step": "count += 1\nprint(secret, count)",
                   "noise": "print('x' * {1})", "error": "1/0", "loop": "while True: pass",
                   "crash": "import os\nos._exit(3)", "memory": "x = bytearray(400 << 20)",
                   "litter": "import subprocess\np = subprocess.Popen(['sleep', '10000'])",
                   "file": "open('/tmp/f%d' % count, 'w').write('y' * 100000)"},
        "bash": {"begin": "secret={0}; count=0", "step": "count=$((count + 1)); echo $secret $count",
                 "noise": "head -c {1} /dev/zero | tr '\\0' x", "error": "false", "loop": "while :; do :; done",
                 "crash": "kill -9 $$", "memory": "head -c 400M /dev/zero | tail | wc -c", "litter": "sleep 10000 &",
                 "file": "head -c 100000 /dev/zero > /tmp/f$count"},
        "node": {"begin": "var secret = '{0}', count = 0", "step": "count += 1; console.log(secret, count)",
                 "noise": "console.log('x'.repeat({1}))", "error": "throw new Error('x')", "loop": "for (;;) ;",
                 "crash": "process.kill(process.pid, 'SIGKILL')", "memory": "var b = Buffer.alloc(400 << 20, 1)",
                 "litter": "require('child_process').spawn('sleep', ['10000']).unref()",
                 "file": "require('fs').writeFileSync('/tmp/f' + count, 'y'.repeat(100000))"}}

    def code(self, what):
        return self.CODE[self.runtime][what].replace("{0!r}", repr(self.secret)).replace("{0}", self.secret).replace(
            "{1}", str(self.random.randrange(1, 200000)))

    def step(self):
        """Its variables are there and nobody else's."""
        if self.count is None:
            self.ok(self.code("begin"))
            self.count = 0
        self.count += 1
        text = self.ok(self.code("step"))
        if text.split()[:2] != [self.secret, str(self.count)]:
            raise Wrong("%s: %r, not %s %d" % (self.name, text[:200], self.secret, self.count))

    def act(self):
        what = self.random.choice(("noise", "noise", "error", "litter", "file", "loop", "memory", "crash"))
        self.counters[what] += 1
        facts, text = self.call(self.code(what), **({"timeout": 1} if what == "loop" else {"timeout": 120}))
        wanted = {"noise": ("ok",), "error": ("error",), "litter": ("ok",), "file": ("ok",), "loop": ("timeout",),
                  "memory": ("memory", "error", "ok", "killed"),
                  "crash": ("lost", "killed") + (("memory",) if self.ran_out else ())}[what]
        self.ran_out = self.ran_out or what == "memory"
        if facts["end"] not in wanted:
            raise Wrong("%s: %s ended as %s: %s" % (self.name, what, facts["end"], text[:500]))

    def live(self, seconds):
        try:
            self.spend(seconds)
            if self.random.random() < 0.5:  # else its processes end with it
                self.call(self.code("crash"))
        finally:
            self.client.call("destroy_session", {"session_id": self.name})
            self.client.connection.close()

    def spend(self, seconds):
        until = time.monotonic() + seconds
        self.step()
        while True:
            self.act()
            self.step()
            left = until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, self.random.uniform(0, 2)))


# ---- what there is

def engine_has(engine):
    volumes = engine.ask("GET", "/volumes")["Volumes"] or []
    return {"containers": sorted(entry["Id"][:12] for entry in engine.containers()),
            "images": sorted(entry["Id"].removeprefix("sha256:")[:12] for entry in engine.ask("GET", "/images/json?all=1")),
            "volumes": sorted(entry["Name"] for entry in volumes),
            "networks": sorted(entry["Name"] for entry in engine.ask("GET", "/networks"))}


def descriptors(pid):
    """How many of each kind there are."""
    kinds = collections.Counter()
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            path = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            continue  # closed meanwhile
        kinds["files of control groups" if path.startswith("/sys/fs/cgroup/") else path.split(":[")[0]
              if path.startswith(("socket", "pipe")) else path if path.startswith("anon") else "files"] += 1
    return kinds


def process_has(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {"processes": len(process_tree(pid)), "descriptors": len(os.listdir("/proc/%d/fd" % pid)),
            "threads": int(status["Threads"]), "rss_kib": int(status["VmRSS"].split()[0]), "kinds": descriptors(pid)}


def helpers(engine):
    """Processes that an engine starts for each container, wherever they hang in the tree."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    line = file.read()
                if re.match(rb"\S*(containerd-shim|conmon)", line) and engine.runtime.encode() in line:
                    count += 1
        except OSError:
            pass
    return count


def look(engine, server):
    """Everything that must be the same before and after."""
    found = engine_has(engine)
    found["server"] = process_has(server.pid)
    if engine.process is not None:
        found["engine"] = process_has(engine.process.pid)
        found["helpers"] = helpers(engine)
    return found


def quiet(engine, server, pool):
    """What there is once it stands still with the pool full."""
    def state():
        found = look(engine, server)
        return {"containers": len(found["containers"]), "processes": found["server"]["processes"],
                "descriptors": found["server"]["descriptors"], "threads": found["server"]["threads"]}
    last, since, deadline = None, time.monotonic(), time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        now = state()
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > STILL_S and now["containers"] == pool:
            break
        time.sleep(0.25)
    return look(engine, server)


def show_ps(engine, title):
    """`docker ps -a` where there is such a command; the same from the API where not."""
    print("%s: docker ps -a" % title)
    if shutil.which("docker"):
        done = subprocess.run(["docker", "-H", engine.address, "ps", "-a"], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False)
        print(done.stdout + done.stderr)
    else:
        for entry in engine.containers():
            print("%s  %s  %s  %s" % (entry["Id"][:12], entry["Image"], entry["Status"], entry["Names"]))


# ---- the run

def crowd(server, sessions, minutes, seed, runtimes, counters):
    """Starts sessions evenly over the time; each lives for as long as TOGETHER allow."""
    wrong, threads = [], []
    slots = threading.BoundedSemaphore(TOGETHER)
    between = minutes * 60 / sessions

    def life(number):
        try:
            Life(server.url, number, seed, runtimes, counters).live(between * (TOGETHER - 2))
        except Exception as error:  # pylint: disable=broad-except
            wrong.append("%s: %s" % (type(error).__name__, error))
        finally:
            slots.release()

    begin = time.monotonic()
    for number in range(sessions):
        time.sleep(max(0, begin + number * between - time.monotonic()))
        slots.acquire()  # pylint: disable=consider-using-with
        threads.append(threading.Thread(target=life, args=(number,), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive():
            wrong.append("a session does not end")
            break
    return wrong


def more_descriptors(before, after):
    """Idle connections to the engine, at most so many, come and go: each has a socket, an epoll and an eventfd."""
    def count(kinds):
        polls = kinds["anon_inode:[eventpoll]"]
        return {"sockets": kinds["socket"], "eventfds beyond those of epolls": kinds["anon_inode:[eventfd]"] - polls,
                "epolls": polls, "others": sum(kinds.values()) - kinds["socket"] - kinds["anon_inode:[eventfd]"] - polls}
    before, after = count(before), count(after)
    slack = {"sockets": IDLE_CONNECTIONS, "epolls": IDLE_CONNECTIONS}
    return ["the server's %s: %d before, %d after" % (kind, before[kind], after[kind]) for kind in before
            if after[kind] > before[kind] + slack.get(kind, 0)]


def differences(before, after, sanitized):
    found = []
    for kind in ("images", "volumes", "networks"):
        if before[kind] != after[kind]:
            found.append("%s: %s before, %s after" % (kind, before[kind], after[kind]))
    if len(before["containers"]) != len(after["containers"]):
        found.append("containers: %d before, %d after" % (len(before["containers"]), len(after["containers"])))
    for kind in ("processes", "threads"):
        if before["server"][kind] != after["server"][kind]:
            found.append("the server's %s: %d before, %d after" % (kind, before["server"][kind], after["server"][kind]))
    found += more_descriptors(before["server"]["kinds"], after["server"]["kinds"])
    if not sanitized and after["server"]["rss_kib"] - before["server"]["rss_kib"] > 8 << 10:
        found.append("the server grew by %d KiB" % (after["server"]["rss_kib"] - before["server"]["rss_kib"]))
    if "engine" in before:
        if after["engine"]["descriptors"] > before["engine"]["descriptors"] + ENGINE_SLACK:
            found.append("the engine's descriptors: %d before, %d after" % (before["engine"]["descriptors"],
                                                                             after["engine"]["descriptors"]))
        if before["helpers"] != after["helpers"]:
            found.append("the engine's helpers: %d before, %d after" % (before["helpers"], after["helpers"]))
    return found


def runtimes_of(server):
    """The languages that the image has."""
    with mcp_http.Client(server.url, timeout=PATIENCE) as client:
        found = []
        for runtime, code in (("python", "print(1)"), ("bash", "echo 1"), ("node", "console.log(1)")):
            result = client.call("execute_code", {"language": runtime, "code": code, "session_id": "try-" + runtime})
            if not result.get("isError"):
                found.append(runtime)
                client.call("destroy_session", {"session_id": "try-" + runtime})
            else:
                print("without %s: %s" % (runtime, text_of(result).split("\n")[0]))
        return found


def soak(engine, sessions, minutes, seed=1, sanitized=False):
    """Runs it; returns what is wrong, as lines."""
    config = CONFIG.format(address=engine.address, image=engine.image, sessions=sessions + 16)
    bare = engine_has(engine)
    with mcp_http.Server(config=config) as server:
        runtimes = runtimes_of(server)
        counters = collections.Counter()
        wrong = crowd(server, min(sessions, TOGETHER), 0.05, seed + 1, runtimes, collections.Counter())  # to their size
        before = quiet(engine, server, 2)
        show_ps(engine, "before")
        begin = time.monotonic()
        wrong += crowd(server, sessions, minutes, seed, runtimes, counters)
        seconds = time.monotonic() - begin
        after = quiet(engine, server, 2)
        show_ps(engine, "after")
        print(json.dumps({"engine": engine.kind, "sessions": sessions, "seconds": round(seconds), "runtimes": runtimes,
                          **counters}))
        for name, found in (("before", before), ("after", after)):
            print(json.dumps({name: {**found, "containers": len(found["containers"]), "images": len(found["images"])}}))
        wrong += differences(before, after, sanitized)
        if server.stop(PATIENCE) != 0:
            wrong.append("the server did not end well")
    deadline = time.monotonic() + QUIET_S
    while engine_has(engine) != bare and time.monotonic() < deadline:
        time.sleep(0.25)
    left = engine_has(engine)
    if left != bare:
        wrong.append("before the server began: %s; after it ended: %s" % (bare, left))
    show_ps(engine, "after the server has ended")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=engines.KINDS, default="docker")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        with engines.own(args.engine) as engine:
            wrong = soak(engine, args.sessions, args.minutes, args.seed)
    except engines.Unavailable as reason:
        print("there is no %s: %s" % (args.engine, reason), file=sys.stderr)
        return 77
    for line in wrong[:20]:
        print("WRONG: %s" % line)
    print("nothing is left" if not wrong else "%d things are wrong" % len(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
