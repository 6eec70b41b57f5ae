#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills at any moment: guest, zygote, helper or server, or memory that runs out, while programs made at random run in two
sessions. Afterwards each session goes on from a state that its client was told of, or from the one that was on its way to it,
whole: all values are compared with a model's. Prints a table of what was killed and how sessions went on.

Environment: KIND is the backend (wasm); KILLS how many (12); VICTIMS of which kinds (all); SEED. A failure names the seed: it makes the same programs and
draws the same moments, which a machine meets as well as it can."""
import collections
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
import model  # noqa: E402
from tap import main, note  # noqa: E402

KIND = os.environ.get("KIND", "wasm")
KILLS = int(os.environ.get("KILLS", "12"))
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
TOGETHER = 2         # sessions of the server
ROUNDS_OF_ONE = 12   # then another session takes its place: models run all that led to a state
MOMENT_MAX_S = 2.0
# "memory" is code that takes all there is; the rest are processes.
VICTIMS = {"wasm": ("guest", "zygote", "helper", "server", "server", "memory"),
           "local": ("guest", "guest", "zygote", "helper", "server", "server", "memory"),
           "docker": ("guest", "guest", "helper", "server", "server", "memory")}[KIND]
VICTIMS = tuple(os.environ["VICTIMS"].split(",")) if "VICTIMS" in os.environ else VICTIMS
# What the interpreter allocates it may be refused, and goes on; what is mapped or in files, the kernel gives until it ends
# the guest. Nothing is left where it is refused.
HOARD = "def _hoard():\n    held = []\n    while True:\n        held.append(bytearray(1 << 20))\n_hoard()\n"
HOARD_MAPS = ("def _hoard():\n    import mmap\n    held = []\n    while True:\n        one = mmap.mmap(-1, 16 << 20)\n"
              "        one.write(b'x' * (16 << 20))\n        held.append(one)\n_hoard()\n")
HOARD_FILE = ("def _hoard():\n    import os\n    with open('hoard', 'wb') as file:\n        os.unlink('hoard')\n"
              "        while True:\n            file.write(b'x' * (1 << 20))\n_hoard()\n")
BUSY = "_n = 0\nwhile _n < %d:\n    _n += 1\ndel _n\n"  # between two programs: one without the other is in no model
HOARDS = {"wasm": (HOARD,), "local": (HOARD, HOARD_FILE), "docker": (HOARD, HOARD_MAPS)}[KIND]
SETTINGS = 'interrupt_grace = "1m";\nstore_wait = "1m";\ncheckpoints_max = 16;\n'


class Life:
    """A session as its client knows it."""

    def __init__(self, number, seed, models):
        self.name, self.models = "life-%d" % number, models
        self.programs = model.Programs(seed * 1000003 + number, exact=KIND == "wasm")
        self.path, self.told, self.possible = [], {}, [[]]
        self.rounds = 0

    def heard(self, told, path):
        """The result of what makes this path of the one before."""
        if told.state != "kept":  # ended in the middle: it is undone
            self.possible = [self.path]
        elif told.id is None:
            self.possible += [path]
            self.path = path
        else:
            if told.id in self.told:
                same = model.difference(self.models.look(path), self.models.look(self.told[told.id]))
                assert not same, "%s is told again, of another state:\n%s" % (told.id, same)
            self.told[told.id], self.path, self.possible = path, path, [path]

    def unheard(self, path):
        """The call has no answer: it was carried out, or not."""
        self.possible = self.possible + [path]

    def found(self, told):
        """Which of the possible states the session has; it goes on from there."""
        wanted = {}
        for index, path in enumerate(self.possible):
            wanted[index] = model.difference(told.account, self.models.look(path))
            if not wanted[index]:
                break
        else:
            raise AssertionError("%s is in no state that was possible: %s\n%s" % (
                self.name, told, "\n-- beside this one:\n".join(wanted.values())))
        self.path = self.possible[index]
        if told.id is not None:
            self.told[told.id] = self.path
        self.possible = [self.path]
        return index


class Table:
    """What was killed, and what became of it."""

    def __init__(self):
        self.rows = {victim: collections.Counter() for victim in dict.fromkeys(VICTIMS)}

    def show(self):
        columns = ("kills", "answered", "cut off", "unanswered", "as told", "in flight", "rolled_back", "resumed", "restarted")
        note("%-10s%s" % (KIND, "".join("%13s" % column for column in columns)))
        for victim, row in self.rows.items():
            note("%-10s%s" % (victim, "".join("%13d" % row[column] for column in columns)))


class World:
    """A machine, its server, and the lives on it."""

    def __init__(self, machine, models):
        self.machine, self.models, self.chance = machine, models, random.Random(SEED)
        self.table, self.lives, self.number = Table(), [], 0
        self.took_s = collections.deque([0.05], maxlen=20)
        self.dying = []  # what goes with those that were killed, a moment later
        self.server = machine.serve(machine.project("project-0"))

    def fill(self):
        """Lives that have gone on for long end, and others begin."""
        for life in [life for life in self.lives if life.rounds >= ROUNDS_OF_ONE]:
            self.server.call("destroy_session", session_id=life.name)
            told = self.server.look(life.name)
            assert not told.account["variables"] and told.notice_kind is None, told
            self.server.call("destroy_session", session_id=life.name)
            self.lives.remove(life)
        while len(self.lives) < TOGETHER:
            self.number += 1
            self.lives.append(Life(self.number, SEED, self.models))

    def quiet(self, life):
        """A program that nobody disturbs."""
        program = life.programs.next()
        began = time.monotonic()
        told = self.server.execute(life.name, program)
        self.took_s.append(time.monotonic() - began)
        assert told.end in ("ok", "error") and told.state == "kept" and told.notice_kind is None, told
        assert told.id, "nothing was kept: %s%s" % (told, self.machine.logged())
        life.heard(told, life.path + [program])

    def begin(self, life, hoards):
        """A call that is to be disturbed: (request, path that it leads to)."""
        if hoards:
            return self.server.begin("execute_python", {"session_id": life.name, "code": self.chance.choice(HOARDS),
                                                        "timeout": 120}), life.path
        kind = self.chance.randrange(5)
        if kind == 0:
            return self.server.begin("checkpoint_session", {"session_id": life.name, "label": "mine"}), life.path
        if kind == 1 and life.told:
            checkpoint = self.chance.choice(list(life.told))
            return self.server.begin("rollback_session", {"session_id": life.name, "checkpoint": checkpoint}), \
                life.told[checkpoint]
        first, second = life.programs.next(), life.programs.next()
        code = first + (BUSY % self.chance.randrange(1000000) if kind > 2 else "") + second
        return self.server.begin("execute_python", {"session_id": life.name, "code": code}), life.path + [first + second]

    def strike(self, victim):
        time.sleep(min(MOMENT_MAX_S, self.chance.random() * 2 * sorted(self.took_s)[len(self.took_s) // 2]))
        if victim == "server":
            case.kill(self.server.pid)  # what it has answered can be read all the same
            self.server.raw.process.wait()
        elif victim != "memory":
            found = self.server.processes(victim)
            if found and self.chance.randrange(2):
                found = [self.chance.choice(found)]
            self.dying = [below for pid in found for below in case.mcp_client.process_tree(pid)]
            return any([case.kill(pid) for pid in found])
        return True

    def hear(self, life, request, path, row):
        """What the client learns of a call that was disturbed."""
        try:
            result = self.server.finish(request)
        except case.Ended:
            row["unanswered"] += 1
            life.unheard(path)
            return
        if case.FACTS not in result.get("_meta", {}):
            self._hear_tool(life, result, path, row)
            return
        told = case.Told(result)
        row["answered" if told.state == "kept" else "cut off"] += 1
        life.heard(told, path)

    def _hear_tool(self, life, result, path, row):
        """Of checkpoint_session and rollback_session, which name a state, or of a call that could not begin."""
        if result.get("isError"):
            row["cut off"] += 1
            life.unheard(path)
            return
        row["answered"] += 1
        content = result["structuredContent"]
        life.told[content["id"]] = life.path = path
        life.possible = [path]

    def look(self, life):
        """An engine tells of a container's end a moment later: then the session goes on once more."""
        told = self.server.execute(life.name, model.looking())
        if told.state != "kept" and KIND == "docker":
            told = self.server.execute(life.name, model.looking())
        assert told.end == "ok", "%s%s" % (told, self.machine.logged())
        return told

    def check(self, life, row):
        """It goes on, and tells how."""
        began = len(life.possible)
        told = self.look(life)
        index = life.found(told)
        row["in flight" if index == began - 1 and began > 1 else "as told"] += 1
        if told.notice_kind:
            row[told.notice_kind] += 1
        # Variables are gone only where nothing was ever told of.
        assert told.notice_kind != "restarted" or not life.path, told
        life.rounds += 1

    def round(self):
        self.fill()
        for life in self.lives:
            for _ in range(self.chance.randrange(3)):
                self.quiet(life)
        victim = self.chance.choice(VICTIMS)
        row = self.table.rows[victim]
        hoarder = self.chance.choice(self.lives) if victim == "memory" else None
        calls = [(life, *self.begin(life, life is hoarder)) for life in self.lives]
        if self.strike(victim):
            row["kills"] += 1
        for life, request, path in calls:
            self.hear(life, request, path, row)
        left = case.mcp_client.wait_until_dead(self.dying, case.PATIENCE)
        assert not left, "%s was killed, but %s live on" % (victim, left)
        if not self.server.alive():
            self.server.kill()
            # One time in three another project's directory: the store is the same.
            self.server = self.machine.serve(self.machine.project("project-%d" % self.chance.randrange(3)))
        for life in self.lives:
            self.check(life, row)


def test_kills_at_any_moment():
    note("seed %d" % SEED)
    with case.Machine(KIND, SETTINGS, memory="128m", memory_max="128m") as machine, model.Model() as models:
        world = World(machine, models)
        try:
            while sum(row["kills"] for row in world.table.rows.values()) < KILLS:
                world.round()
        except case.Refused as reason:
            raise AssertionError("%s%s" % (reason, machine.logged())) from reason
        finally:
            world.table.show()
            note("%d sessions, %d states compared one by one, seed %d" % (world.number, len(models.known), SEED))
        world.server.stop()


if __name__ == "__main__":
    main()
