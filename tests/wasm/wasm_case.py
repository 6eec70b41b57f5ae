# SPDX-License-Identifier: Apache-2.0
"""What tests of backend-wasm share: a server with sessions, its processes, and the hands of an attacker."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, ".."), os.path.join(HERE, "../guests")]

import drive  # noqa: E402
import with_guest  # noqa: E402
from tap import skip  # noqa: E402

with open(os.path.join(HERE, "../escape/guest_wasm.py"), encoding="utf-8") as _f:
    HANDS = _f.read()  # forges objects: reads and writes all of a session's linear memory


def server(*settings):
    """A driver of the backend; skips where there is no guest to run."""
    reason = with_guest.missing()
    if reason is not None:
        skip(reason)
    return drive.Driver("wasm", ["wasm.pool=0", *settings])


def ends_of(result):
    return result["end"], result["error"]


def sessions_of(driver):
    """Processes below the server that run guests: children of the zygote."""
    return set(driver.processes())


def started(driver, **members):
    """(guest, its process): the one that was not there before."""
    before = sessions_of(driver)
    guest = driver.start(**members)
    return guest, _new_one(driver, before)


def copied(driver, make):
    before = sessions_of(driver)
    guest = make()
    return guest, _new_one(driver, before)


def _new_one(driver, before):
    now = sessions_of(driver)
    # The first guest may bring the zygote with it, which has children.
    parents = {_parent(pid) for pid in now}
    sessions = [pid for pid in now - before if pid not in parents]
    assert len(sessions) == 1, "new processes: %s of %s" % (sessions, now - before)
    return sessions[0]


def _parent(pid):
    with open("/proc/%d/stat" % pid, encoding="latin-1") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def memory_has(pid, needles):
    """{needle: places} of what is anywhere in a process's memory, by /proc/PID/mem; and how many bytes were read."""
    found, seen = {}, 0
    with open("/proc/%d/maps" % pid, encoding="utf-8") as maps, open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for line in maps.read().splitlines():
            fields = line.split()
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if "r" not in fields[1] or fields[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            seen += _search(memory, start, end, needles, found)
    return found, seen


def _search(memory, start, end, needles, found):
    at, tail, seen = start, b"", 0
    while at < end:
        try:
            memory.seek(at)
            block = memory.read(min(1 << 22, end - at))
        except OSError:
            return seen
        if not block:
            return seen
        for needle in needles:
            hit = (tail + block).find(needle)
            if hit >= 0:
                found.setdefault(needle, []).append(hex(at - len(tail) + hit))
        tail = block[-64:]
        at += len(block)
        seen += len(block)
    return seen
