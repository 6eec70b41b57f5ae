# SPDX-License-Identifier: Apache-2.0
"""Many clients at once over HTTP, a third of which leave in the middle of things: every answer goes to who asked, and
nothing is left behind: no process, descriptor or thread of the server, no memory that grows.

Environment: SOAK_SECONDS (60), SOAK_CLIENTS (200), SANITIZER (memory is not measured under one).
"""
import asyncio
import collections
import json
import os
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import mcp_http
from clients import Client
from mcp_client import process_tree
from tap import main, note

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
CLIENTS = int(os.environ.get("SOAK_CLIENTS", "200"))
SANITIZED = os.environ.get("SANITIZER", "none") != "none"
GROWTH_MAX_KIB = 8 << 10  # of the server's resident memory, over the run that follows a warm-up of the same kind
STILL_S = 13              # longer than the server keeps a thread that has nothing to do
QUIET_S = 90              # within which it stands still
CALL_TIMEOUT_S = 120

# A guest that gets no turn on a busy machine is not to be killed for it.
CONFIG = f"""
interrupt_grace = "1m";
max_sessions = {CLIENTS + 16};
plugins = ( {{ name = "mcp"; plugin = "transport-mcp"; http = {{
        max_connections = {2 * CLIENTS + 64}; max_sessions = {CLIENTS + 16};
        max_sessions_per_principal = {CLIENTS + 16}; }}; }} );
"""


def footprint(pid):
    """What the server holds: its processes, its own descriptors and threads, its resident memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {"processes": len(process_tree(pid)), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(status["Threads"]), "rss_kib": int(status["VmRSS"].split()[0])}


def descriptors(pid):
    """What the descriptors are, as the kernel calls it, and how many of each."""
    names = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            names[os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0]] += 1
        except OSError:
            pass  # closed meanwhile
    return names


def quiet(pid):
    """The footprint once it stands still, and idle threads have ended."""
    last, since, deadline = None, time.monotonic(), time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        now = footprint(pid)
        held = {key: now[key] for key in ("processes", "descriptors", "threads")}
        if held != last:
            last, since = held, time.monotonic()
        elif time.monotonic() - since > STILL_S:
            return now
        time.sleep(0.1)
    return footprint(pid)


async def crowd(address, seconds, counters):
    loop = asyncio.get_running_loop()
    clients = [Client(number, address, counters) for number in range(CLIENTS)]
    until = loop.time() + seconds

    async def life(client):
        try:
            await client.live(until)
        finally:
            await asyncio.wait_for(client.end(), CALL_TIMEOUT_S)

    done = await asyncio.wait_for(asyncio.gather(*map(life, clients), return_exceptions=True),
                                  seconds + 2 * CALL_TIMEOUT_S)
    return [error for error in done if error is not None]


def run(server, seconds, counters):
    parts = urllib.parse.urlsplit(server.url)
    wrong = asyncio.run(crowd((parts.hostname, parts.port, parts.path), seconds, counters))
    for error in wrong[:10]:
        note(f"{type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {CLIENTS} clients got what they should not"


def test_a_crowd_leaves_nothing_behind():
    with mcp_http.Server(config=CONFIG) as server:
        run(server, max(2, SECONDS / 4), collections.Counter())  # pools and arenas get their size
        before, open_before = quiet(server.pid), descriptors(server.pid)
        counters = collections.Counter()
        run(server, SECONDS, counters)
        after = quiet(server.pid)
        note(json.dumps({"clients": CLIENTS, "seconds": SECONDS, **counters, "before": before, "after": after}))
        note(f"descriptors more than before: {dict(descriptors(server.pid) - open_before)}")
        for kind in ("processes", "descriptors", "threads"):
            assert after[kind] == before[kind], f"{kind}: {before[kind]} before, {after[kind]} after"
        if not SANITIZED:
            growth = after["rss_kib"] - before["rss_kib"]
            assert growth <= GROWTH_MAX_KIB, f"it grew by {growth} KiB"
        with mcp_http.Client(server.url) as client:
            text = json.dumps(client.call("list_sessions")["content"])
            assert "soak-" not in text, text
        assert counters["answers"] >= 3 * CLIENTS, counters
        if CLIENTS >= 30:
            assert all(counters[kind] for kind in ("left in a call", "left in a request", "left in an answer")), counters
        children = process_tree(server.pid)[1:]
        assert server.stop() == 0
        deadline = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}") for pid in children) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = [pid for pid in children if os.path.exists(f"/proc/{pid}")]
        assert not left, f"processes outlived the server: {left}"


if __name__ == "__main__":
    main()
