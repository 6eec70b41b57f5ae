#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose code has the interpreter in its hands: it forges objects, calls functions by any number with any
arguments, and overwrites its memory. Each ends alone, or goes mad alone: its neighbours and the next session notice nothing."""
import hashlib
import os

import wasm_case
from tap import main, note

ENDS = ("ok", "error", "killed", "lost", "timeout", "memory")
# Numbers of functions: all of the first, then some of every hundred, and those that are none.
NUMBERS = [*range(0, 64), *range(64, 12000, 61), 65535, 65536, 1 << 20, 0x7fffffff, 0x80000000, 0xffffffff]
SLOTS = {"tp_repr": 44, "tp_call": 64, "tp_getattro": 72}
ACTS = {"tp_repr": "repr(thing)", "tp_call": "thing(1, 2)", "tp_getattro": "thing.name"}

CALL = """
kind = bytearray(bytes(memory_from(0)[id(bytearray):id(bytearray) + 256]))
kind[{slot}:{slot} + 4] = struct.pack("<I", {number})
kind = bytes(kind)
thing = forge(struct.pack("<IIIIIIII", 1 << 20, content_of(kind), 0x41414141, 0xffffffff, 0x7fffffff, 0, 1, 2))
{act}
"""


class Neighbours:
    """Sessions that must notice nothing."""

    def __init__(self, driver):
        self.driver, self.witness = driver, driver.start(label="witness")
        self.witness.run("seen = [hash(str(i)) for i in range(10000)]\ntotal = sum(seen)")

    def unharmed(self):
        assert self.witness.run("print(sum(seen) == total)") == "True\n"
        fresh = self.driver.start(label="fresh")
        assert fresh.run("import json\nprint(json.dumps({'a': [1, 2.5]}))") == '{"a": [1, 2.5]}\n'
        fresh.end()


def test_functions_of_every_number():
    with wasm_case.server() as driver:
        neighbours, ends = Neighbours(driver), {}
        base = driver.start(label="base")
        base.run(wasm_case.HANDS + "check_hands()")
        for name, slot in SLOTS.items():
            for number in NUMBERS:
                guest = base.fork()
                result = guest.execute(CALL.format(slot=slot, number=number, act=ACTS[name]), timeout_ms=3000)
                assert result["end"] in ENDS, result
                ends[result["end"]] = ends.get(result["end"], 0) + 1
                guest.end()
            neighbours.unharmed()
        note("%d calls: %s" % (len(NUMBERS) * len(SLOTS), ends))
        assert ends.get("killed", 0) > len(NUMBERS), "most functions are of another type, and must trap: %s" % ends


OVERWRITE = """
check_hands()
memory, block = memory_from(0), bytes([{byte}]) * 4096
for address in range({start}, 1 << 31, 4096):
    memory[address:address + 4096] = block
"""


def image_files(driver):
    """What sessions map of files: {path: SHA-256 of the content as it is now}, by the first session's table."""
    found = {}
    for pid in driver.processes():
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
                lines = f.readlines()
        except OSError:
            continue  # a session that was killed, and is buried only now
        for line in lines:
            fields = line.split(None, 5)
            link = "/proc/%d/map_files/%s" % (pid, fields[0])
            if len(fields) == 6 and fields[5].strip().startswith(("/", "memfd")) and fields[5].strip() not in found:
                try:
                    with open(link, "rb") as mapped:
                        found[fields[5].strip()] = hashlib.sha256(mapped.read()).hexdigest()
                except OSError:
                    continue
    return found


def test_memory_that_is_overwritten():
    with wasm_case.server() as driver:
        neighbours, ends = Neighbours(driver), {}
        before = image_files(driver)
        base = driver.start(label="base")
        base.run(wasm_case.HANDS)
        for byte in (0, 0xff, 0x41):
            for start in (0, 4096, 1 << 20, 8 << 20, 9 << 20, 12 << 20, 16 << 20):
                guest = base.fork()
                result = guest.execute(OVERWRITE.format(byte=byte, start=start), timeout_ms=5000)
                assert result["end"] in ("killed", "lost", "timeout"), result
                ends[result["end"]] = ends.get(result["end"], 0) + 1
                guest.end()
        note("%s; mapped files: %d" % (ends, len(before)))
        neighbours.unharmed()
        after = image_files(driver)
        changed = [path for path, digest in before.items() if after.get(path, digest) != digest]
        assert not changed, "files behind the image changed: %s" % changed
        if os.geteuid() == 0:
            assert before, "nothing that is mapped could be read"


RANDOM = """
import random
chance = random.Random({seed})
memory = memory_from(0)
while True:
    memory[chance.randrange(1 << 20, 17 << 20)] = chance.randrange(256)
"""


def test_memory_that_is_scribbled_on():
    with wasm_case.server() as driver:
        neighbours, ends = Neighbours(driver), {}
        base = driver.start(label="base")
        base.run(wasm_case.HANDS)
        for seed in range(100):
            guest = base.fork()
            result = guest.execute(RANDOM.format(seed=seed), timeout_ms=1000)
            assert result["end"] in ENDS, result
            ends[result["end"]] = ends.get(result["end"], 0) + 1
            guest.end()
        note(str(ends))
        neighbours.unharmed()


if __name__ == "__main__":
    main()
