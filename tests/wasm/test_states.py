#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""States outlive the server: saved, the server killed, restored by another one; and made-up ones hurt nobody."""
import os
import random
import signal
import struct
import tempfile

import wasm_case  # first: it finds the others
import drive
from mcp_client import wait_until_dead
from tap import main, note

SEED = int(os.environ.get("SEED", "1"))
ATTEMPTS = int(os.environ.get("ATTEMPTS", "150"))
BEGIN = """
import collections, itertools
def squares():
    for i in itertools.count():
        yield i * i
half = squares()
print([next(half) for _ in range(5)])
book = open("book", "w+")
book.write("first line\\nsecond line\\n")
book.seek(0)
book.readline()
def counter():
    n = 0
    def more():
        nonlocal n
        n += 1
        return n
    return more
more = counter()
more()
ordered = collections.OrderedDict((str(i), i) for i in range(1000))
async def later():
    return sum(ordered.values())
"""
GO_ON = """
print([next(half) for _ in range(3)], book.readline().strip(), more(), len(ordered), await later())
"""
WENT_ON = "[25, 36, 49] second line 2 1000 499500\n"


def test_a_half_consumed_generator_goes_on_after_the_server_was_killed():
    with tempfile.TemporaryDirectory() as directory:
        state = os.path.join(directory, "state")
        first = wasm_case.server()
        guest = first.start()
        assert guest.run(BEGIN) == "[0, 1, 4, 9, 16]\n"
        note("%d bytes" % guest.save(state))
        processes = first.processes()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        first.process.stdin.close()
        first.process.stdout.close()
        left = wait_until_dead(processes, 30)
        assert not left, "the server was killed, but %s live on" % left
        with wasm_case.server() as second:
            restored = second.restore(state)
            assert restored.run(GO_ON) == WENT_ON
            again = second.restore(state)
            assert again.run(GO_ON) == WENT_ON
            assert restored.run("print(next(half))") == "64\n"


def test_what_was_not_running_when_it_was_saved_runs_when_restored():
    """Time-outs, output and memory limits of a restored session are those of any other."""
    with tempfile.TemporaryDirectory() as directory, wasm_case.server() as driver:
        state = os.path.join(directory, "state")
        driver.start().save(state)
        guest = driver.restore(state)
        result = guest.execute("while True: pass", timeout_ms=300)
        assert (result["end"], result["state"]) == ("timeout", "kept"), result
        result = guest.execute("hoard = []\nwhile True: hoard.append(bytearray(1 << 20))")
        assert (result["end"], result["state"]) == ("memory", "kept"), result
        assert guest.run("hoard = None\nprint('fine')") == "fine\n"


def altered(data, chance):
    """A state that somebody changed on purpose: numbers of its head, bytes of its body, its length."""
    data = bytearray(data)
    kind = chance.randrange(5)
    if kind == 0:
        struct.pack_into("<I", data, 4 * chance.randrange(32), chance.choice((0, 1, 0x7fffffff, 0xffffffff, 65536)))
    elif kind == 1:
        struct.pack_into("<Q", data, 8 * chance.randrange(16), chance.choice((0, 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)))
    elif kind == 2:
        for _ in range(chance.randrange(1, 20)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == 3:
        del data[chance.randrange(len(data)):]
    else:
        at, size = chance.randrange(len(data)), chance.randrange(1, 5000)
        data[at:at + size] = data[-size:]
    return bytes(data)


def test_states_that_were_altered_hurt_nobody():
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as directory, wasm_case.server() as driver:
        state, crafted = os.path.join(directory, "state"), os.path.join(directory, "crafted")
        witness = driver.start()
        witness.run("seen = 'unharmed'")
        guest = driver.start()
        guest.run(BEGIN)
        guest.save(state)
        with open(state, "rb") as f:
            data = f.read()
        refused = {}
        for number in range(ATTEMPTS):
            with open(crafted, "wb") as f:
                f.write(altered(data, chance))
            try:
                strange = driver.restore(crafted)
            except drive.Failed as reason:
                assert str(reason), "refused without a word"
                refused[reason.name] = refused.get(reason.name, 0) + 1
                continue
            strange.execute("print(next(half))", timeout_ms=5000)
            strange.end()
            if number % 20 == 0:
                assert witness.run("print(seen)") == "unharmed\n"
        note("of %d states: refused %s (seed %d)" % (ATTEMPTS, refused, SEED))
        assert witness.run("print(seen)") == "unharmed\n"
        assert driver.restore(state).run(GO_ON) == WENT_ON
        assert driver.start().run("print(6 * 7)") == "42\n"


if __name__ == "__main__":
    main()
