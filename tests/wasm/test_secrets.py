#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two sessions never share a byte: secrets are left in one in every way that code has, and looked for in all memory of the
others and of the zygote, by root, through /proc/PID/mem; and in what is saved of the others."""
import os
import secrets
import tempfile

import wasm_case
from tap import main, note, skip

WAYS = ("variable", "file", "deleted", "environment", "printed", "name", "exception", "set", "written", "argument", "hidden")

# `{x}` is the secret's second half, put together with its first by the session.
LEAVE = """
import os
def whole(half): return {first!r} + half
variable = whole({variable!r})
open("file-of-mine", "w").write(whole({file!r}) * 100)
open("deleted", "w").write(whole({deleted!r}))
os.unlink("deleted")
os.environ["MINE"] = whole({environment!r})
print(whole({printed!r}))
globals()[whole({name!r})] = 1
os.mkdir(whole({name!r}))
raise KeyError(whole({exception!r}))
"""


class Secrets:
    """One of each way, and what finds it."""

    def __init__(self):
        self.first = secrets.token_hex(8)
        self.halves = {way: secrets.token_hex(8) for way in WAYS}

    def __getitem__(self, way):
        return self.first + self.halves[way]

    def all(self):
        return {self[way].encode(): way for way in WAYS}


def leave(guest, mine):
    result = guest.execute(LEAVE.format(first=mine.first, **mine.halves))
    assert result["error_type"] == "KeyError", result
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(mine["written"])
        f.flush()
        guest.write("written", f.name)
    guest.execute("hidden = bytearray(x ^ 0 for x in %r)\ndel hidden" % mine["hidden"].encode())
    guest.execute("def f(argument): return len(argument)\nf(%r)\nset_by_host = %r" % (mine["argument"], mine["set"]))


def must_be_readable(pid):
    try:
        with open("/proc/%d/mem" % pid, "rb"):
            pass
    except OSError as reason:
        skip("the memory of a session can't be read by this user: %s" % reason)


def told(found, mine):
    return {mine.all()[needle]: places for needle, places in found.items()}


def test_nothing_of_one_session_is_in_another():
    with wasm_case.server() as driver:
        old, old_pid = wasm_case.started(driver, label="old")
        old.run("x = 1")
        first, first_pid = wasm_case.started(driver, label="first")
        must_be_readable(first_pid)
        mine = Secrets()
        leave(first, mine)
        second, second_pid = wasm_case.started(driver, label="second")
        second.run("y = [str(i) for i in range(100000)]\nopen('file-of-mine', 'w').write('other')")
        found, seen = wasm_case.memory_has(first_pid, mine.all())
        note("in the session itself: %s, of %d MiB" % (sorted(told(found, mine)), seen >> 20))
        missing = set(WAYS) - set(told(found, mine))
        # What was deleted may have been overwritten; the rest is there, or the search would prove nothing.
        assert missing <= {"deleted", "hidden", "argument", "printed", "written"}, missing
        others = {pid: "process %d" % pid for pid in driver.processes() if pid != first_pid}
        assert second_pid in others and old_pid in others and len(others) >= 3, others
        for pid, name in others.items():
            found, seen = wasm_case.memory_has(pid, mine.all())
            note("%s: %d MiB" % (name, seen >> 20))
            assert seen > 1 << 20, "only %d bytes of %s could be read" % (seen, name)
            assert not found, "%s has %s" % (name, told(found, mine))


def test_a_session_that_ended_leaves_nothing_for_the_next():
    with wasm_case.server() as driver:
        first = driver.start()
        mine = Secrets()
        leave(first, mine)
        first.end()
        for _ in range(5):
            guest, pid = wasm_case.started(driver)
            must_be_readable(pid)
            guest.run("data = bytearray(8 << 20)")
            found, _seen = wasm_case.memory_has(pid, mine.all())
            assert not found, told(found, mine)
            # New memory is zeroes, as the session itself sees it.
            assert guest.run("print(data.count(0) == len(data))") == "True\n"


def test_what_a_copy_learns_stays_with_it():
    with wasm_case.server() as driver:
        first, first_pid = wasm_case.started(driver)
        must_be_readable(first_pid)
        first.run("x = 1")
        copy, copy_pid = wasm_case.copied(driver, first.fork)
        mine, others = Secrets(), Secrets()
        leave(copy, mine)
        leave(first, others)
        found, _seen = wasm_case.memory_has(first_pid, mine.all())
        assert not found, "the original has %s" % told(found, mine)
        found, _seen = wasm_case.memory_has(copy_pid, others.all())
        assert not found, "the copy has %s" % told(found, others)


def test_a_saved_state_holds_its_own_session_alone():
    with tempfile.TemporaryDirectory() as directory, wasm_case.server() as driver:
        mine = Secrets()
        leave(driver.start(), mine)
        innocent = driver.start()
        innocent.run("x = 1")
        state = os.path.join(directory, "state")
        innocent.save(state)
        restored, pid = wasm_case.copied(driver, lambda: driver.restore(state))
        must_be_readable(pid)
        restored.run("print(x)")
        found, _seen = wasm_case.memory_has(pid, mine.all())
        assert not found, told(found, mine)


if __name__ == "__main__":
    main()
