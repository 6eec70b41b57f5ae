#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sessions in WebAssembly, one after another and beside each other, that keep variables, print, fail, run into time-outs
and memory limits, and end in every way; and states that are forked, saved and restored all the time. Nothing may be left: no
process, descriptor or thread, no memory that grows, in the server and in the zygote.

Environment: SOAK_SECONDS (60), SOAK_SESSIONS (40: how many at once), SEED, SANITIZER (memory is not measured under one)."""
import collections
import json
import os
import random
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, ".."), os.path.join(HERE, "../wasm")]
import mcp_http  # noqa: E402
import test_soak  # noqa: E402
import wasm_case  # noqa: E402
from mcp_client import process_tree, text_of, wait_until_dead  # noqa: E402
from tap import main, note  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
TOGETHER = int(os.environ.get("SOAK_SESSIONS", "40"))
SEED = int(os.environ.get("SEED", "1"))
SANITIZED = os.environ.get("SANITIZER", "none") != "none"
GROWTH_MAX_KIB = 8 << 10
PATIENCE_S = 600  # that one call may take on a busy machine
FACTS = "snipara-sandbox/execution"
CONFIG = f"""
environment = "wasm";
store = "";
interrupt_grace = "1m";
max_sessions = {TOGETHER + 16};
plugins = ( {{ name = "wasm"; plugin = "backend-wasm"; critical = true; pool = 2; memory = "128m"; }},
            {{ name = "mcp"; plugin = "transport-mcp"; http = {{ max_connections = {2 * TOGETHER + 64};
               max_sessions = {TOGETHER + 16}; max_sessions_per_principal = {TOGETHER + 16}; }}; }} );
"""
# What a session does, and how that may end.
ACTS = {
    "noise": ("print('x' * {number})", ("ok",)),
    "error": ("1/0", ("error",)),
    "loop": ("while True: pass", ("timeout",)),
    "sleep": ("import time\ntime.sleep(1000)", ("timeout",)),
    "memory": ("hoard = []\nwhile True: hoard.append(bytearray(1 << 20))", ("memory",)),
    "files": ("for i in range(50): open('/tmp/f%d' % i, 'w').write('y' * {number})", ("ok", "error")),
    "garbage": ("hoard = [[i] for i in range({number})]\nhoard = None", ("ok", "memory", "error")),
    "recursion": ("def f(): return f()\nf()", ("error",)),
    "exit": ("import os\nos._exit(3)", ("lost", "killed")),
    "abort": ("import os\nos.abort()", ("lost", "killed")),
}


class Life:
    """One session from its beginning to its end; nobody else knows its secret."""

    def __init__(self, url, number, counters):
        self.client = mcp_http.Client(url, timeout=PATIENCE_S)
        self.random = random.Random(SEED * 1000003 + number)
        self.name, self.counters = "soak-%d" % number, counters
        self.count, self.rolled_back = None, False
        self.secret = "%x" % self.random.getrandbits(64)

    def call(self, code, **arguments):
        result = self.client.call("execute_python", {"code": code, "session_id": self.name, **arguments})
        self.counters["calls"] += 1
        facts = result.get("_meta", {}).get(FACTS)
        assert facts is not None, "%s: %s" % (self.name, text_of(result))
        if facts["state"] == "lost":
            self.count = None
        self.rolled_back = self.rolled_back or facts["state"] == "rolled_back"
        return facts, text_of(result)

    def look_back(self):
        """It goes on from an earlier moment of its own, which may be before it had anything."""
        facts, text = self.call("print(globals().get('secret'), globals().get('count'))")
        assert facts["end"] == "ok", text
        secret, count = text.split()[-2:]  # after a line that tells of the loss
        assert secret in (self.secret, "None"), "%s has %r" % (self.name, text)
        self.rolled_back, self.count = False, None if count == "None" else int(count)

    def step(self):
        """Its variables are there and nobody else's; after a loss, it begins anew."""
        if self.rolled_back:
            self.look_back()
        if self.count is None:
            facts, text = self.call("secret, count = %r, 0" % self.secret)
            assert facts["end"] == "ok", text
            self.count = 0
        self.count += 1
        facts, text = self.call("hoard = None\ncount += 1\nprint(secret, count)")
        assert facts["end"] == "ok" and text.split()[-2:] == [self.secret, str(self.count)], \
            "%s: %s %r, not %s %d" % (self.name, facts["end"], text[:300], self.secret, self.count)

    def act(self):
        what = self.random.choice(list(ACTS))
        code, ends = ACTS[what]
        self.counters[what] += 1
        facts, text = self.call(code.replace("{number}", str(self.random.randrange(1, 100000))),
                                timeout=1 if ends == ("timeout",) else 120)
        assert facts["end"] in ends, "%s: %s ended as %s: %s" % (self.name, what, facts["end"], text[:500])

    def live(self, until):
        try:
            self.step()
            for _ in range(self.random.randrange(1, 8)):
                if time.monotonic() > until:
                    break
                self.act()
                self.step()
        finally:
            self.client.call("destroy_session", {"session_id": self.name})
            self.client.connection.close()


def crowd(url, seconds, counters):
    """TOGETHER threads, each with one session after another."""
    until, wrong, numbers = time.monotonic() + seconds, [], iter(range(10 ** 9))

    def lives():
        try:
            while time.monotonic() < until and not wrong:
                Life(url, next(numbers), counters).live(until)
                counters["sessions"] += 1
        except Exception as error:  # pylint: disable=broad-except
            wrong.append("%s: %s" % (type(error).__name__, error))

    threads = [threading.Thread(target=lives, daemon=True) for _ in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 2 * PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "a session does not end"
    assert not wrong, "\n".join(wrong[:10])


def helpers_of(pid):
    """Descriptors and memory of the processes that stay: the zygote, and what waits for it."""
    held = []
    for child in process_tree(pid)[1:]:
        try:
            found = test_soak.footprint(child)
        except OSError:
            continue  # ended meanwhile
        if found["processes"] > 1:
            held.append({"descriptors": found["descriptors"], "rss_kib": found["rss_kib"]})
    return held


def compare(before, after, helpers_before, helpers_after):
    for kind in ("processes", "descriptors", "threads"):
        assert after[kind] == before[kind], f"{kind}: {before[kind]} before, {after[kind]} after"
    assert helpers_before and len(helpers_before) == len(helpers_after), (helpers_before, helpers_after)
    for one, other in zip(helpers_before, helpers_after):
        assert one["descriptors"] == other["descriptors"], (helpers_before, helpers_after)
    if not SANITIZED:
        growth = after["rss_kib"] - before["rss_kib"]
        assert growth <= GROWTH_MAX_KIB, f"the server grew by {growth} KiB"
        growth = sum(one["rss_kib"] for one in helpers_after) - sum(one["rss_kib"] for one in helpers_before)
        assert growth <= GROWTH_MAX_KIB, f"the zygotes grew by {growth} KiB"


def test_sessions_leave_nothing_behind():
    with mcp_http.Server(config=CONFIG) as server:
        crowd(server.url, max(5, SECONDS / 4), collections.Counter())  # pools and arenas get their size
        before, helpers = test_soak.quiet(server.pid), helpers_of(server.pid)
        counters = collections.Counter()
        crowd(server.url, SECONDS, counters)
        after = test_soak.quiet(server.pid)
        note(json.dumps({"together": TOGETHER, "seconds": SECONDS, **counters, "before": before, "after": after}))
        compare(before, after, helpers, helpers_of(server.pid))
        assert counters["sessions"] >= TOGETHER, counters
        below = process_tree(server.pid)[1:]
        assert server.stop() == 0
        left = wait_until_dead(below, 10)
        assert not left, f"processes outlived the server: {left}"


def generation(driver, directory, chance):
    """A session, its copies, and what is restored of them; each knows its own number."""
    guests, path = [driver.start()], os.path.join(directory, "state")
    guests[0].run("import itertools\nhalf = itertools.count()\nmine = [next(half)]")
    for _ in range(12):
        parent, kind = chance.choice(guests), chance.randrange(3)
        told = int(parent.run("mine.append(next(half))\nprint(mine[-1])"))
        if kind == 0:
            guests.append(parent.fork())
        elif kind == 1:
            parent.save(path)
            guests.append(driver.restore(path))
        else:
            continue
        assert guests[-1].run("print(mine == list(range(len(mine))), mine[-1])") == "True %d\n" % told
    chance.shuffle(guests)
    for guest in guests:
        if chance.random() < 0.3:
            guest.execute("import os\nos._exit(1)")
        guest.end()
    return len(guests)


def test_states_leave_nothing_behind():
    chance, count = random.Random(SEED), 0
    with tempfile.TemporaryDirectory() as directory, wasm_case.server() as driver:
        for _ in range(3):
            generation(driver, directory, chance)
        pid = driver.process.pid
        before, helpers = test_soak.quiet(pid), helpers_of_one(pid)
        until = time.monotonic() + SECONDS / 2
        while time.monotonic() < until:
            count += generation(driver, directory, chance)
        after = test_soak.quiet(pid)
        note(json.dumps({"guests": count, "before": before, "after": after}))
        compare(before, after, helpers, helpers_of_one(pid))
        assert count >= 20


def helpers_of_one(pid):
    """The same, where no session lives."""
    found = [test_soak.footprint(child) for child in process_tree(pid)[1:]]
    return [{"descriptors": one["descriptors"], "rss_kib": one["rss_kib"]} for one in found]


if __name__ == "__main__":
    main()
