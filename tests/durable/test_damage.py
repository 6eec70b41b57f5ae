#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a store may do to sessions: its disk is full, files of it are cut, altered, exchanged or made up. A session goes on from
a state that its client was told of, older ones work on, or the call is refused with a message; nothing is half read.

Environment: KIND is the backend (local); DAMAGES how many files are damaged (12); SEED."""
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
import model  # noqa: E402
from tap import main, note, skip  # noqa: E402

KIND = os.environ.get("KIND", "local")
DAMAGES = int(os.environ.get("DAMAGES", "12"))
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
# What does not compress, so that it takes room; too large to lie beside the manifest.
BULK = "import random\n%s = random.Random(%d).randbytes(%d)\n"


@contextlib.contextmanager
def small_disk(path, size):
    os.mkdir(path, 0o700)
    if os.geteuid() != 0:
        skip("only root can make a small disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d,mode=0700" % size, "tmpfs", path], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        skip("there can be no small disk here: " + done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def full_store(machine, server):
    """Sessions on a store that takes some megabytes and no more."""
    server.run("one", "small = ['kept', 1]\n" + BULK % ("block", 1, case.MIB))
    kept = server.call("checkpoint_session", session_id="one", label="before")
    told = server.execute("one", BULK % ("more", 2, 12 * case.MIB) + "small.append(2)\nprint(len(more))")
    # The code ran, and its values are there; that they are not stored is said.
    assert (told.end, told.state, told.text.strip().splitlines()[0]) == ("ok", "kept", str(12 * case.MIB)), told
    assert told.id is None and told.checkpoint["reason"], told
    assert told.checkpoint["reason"] in told.text, told
    note(told.checkpoint["reason"])
    try:
        server.call("checkpoint_session", session_id="one", label="too much")
    except case.Refused as reason:
        note(str(reason))
    else:
        raise AssertionError("12 MiB were kept on a smaller disk")
    assert "before" in [one["label"] for one in server.checkpoints("one")]
    assert server.run("one", "print(len(more), small)").text.strip().endswith("['kept', 1, 2]")
    # Once there is less, it is kept again.
    told = server.run("one", "del more")
    assert told.id, str(told) + machine.logged()
    server.run("one", BULK % ("more", 2, 12 * case.MIB) + "small.append('lost')")
    server.kill()
    return kept


def after_full_store(machine, kept):
    server = machine.serve()
    told = server.run("one", "print('more' in globals(), small)")
    assert told.text.strip().endswith("False ['kept', 1, 2]") and told.notice_kind == "resumed", told
    server.call("rollback_session", session_id="one", checkpoint=kept["id"])
    assert server.run("one", "print(len(block), small)").text.strip().endswith("%d ['kept', 1]" % case.MIB)
    server.stop()


def test_a_full_disk():
    with case.Machine(KIND) as machine, small_disk(machine.store, 8 * case.MIB):
        after_full_store(machine, full_store(machine, machine.serve()))


def test_a_full_quota():
    with case.Machine(KIND) as machine:
        machine.project(store={"quota": "8m"})
        server = machine.serve(machine.project(store={"quota": "8m"}))
        kept = full_store(machine, server)
        after_full_store(machine, kept)


# ---- damage ----

class Story:
    """A session with a few checkpoints, in a store that is copied for each damage."""

    def __init__(self, machine, models):
        self.machine, self.models, self.paths = machine, models, {}
        programs, path = model.Programs(SEED, exact=KIND == "wasm"), []
        server = machine.serve()
        for number in range(4):
            for _ in range(3):
                path = path + [programs.next()]
                told = server.execute("one", path[-1])
                self.paths[told.id] = path
            path = path + [BULK % ("bulk%d" % number, number, 40000)]
            self.paths[server.run("one", path[-1]).id] = path
        self.newest = path
        server.stop()
        self.saved = machine.store + "-saved"
        os.rename(machine.store, self.saved)

    def files(self):
        """Those of the store, by their paths in it."""
        return sorted(os.path.relpath(os.path.join(top, name), self.saved)
                      for top, _, names in os.walk(self.saved) for name in names)

    @contextlib.contextmanager
    def copy(self):
        subprocess.run(["cp", "-a", self.saved, self.machine.store], check=True)  # with its hard links
        try:
            yield self.machine.store
        finally:
            shutil.rmtree(self.machine.store)


def damage(chance, path, others):
    """Does something to a file, and tells what."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    kinds = ["empty", "gone", "longer", "foreign", "random"]
    if data:
        kinds += ["bit", "bit", "cut", "zeros", "version"]
    kind = chance.choice(kinds)
    if kind == "gone":
        os.unlink(path)
        return kind
    if kind == "bit":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[chance.randrange(len(data)):]
    elif kind == "zeros":
        at = chance.randrange(len(data))
        data[at:at + 512] = bytes(len(data[at:at + 512]))
    elif kind == "version":
        at = chance.randrange(min(16, len(data)))
        data[at] = (data[at] + 1) % 256
    elif kind == "empty":
        data.clear()
    elif kind == "longer":
        data += chance.randbytes(100)
    elif kind == "foreign":
        with open(chance.choice(others), "rb") as file:
            data = file.read()
    else:
        data = chance.randbytes(len(data) + 1)
    with open(path, "wb") as file:
        file.write(data)
    return kind


def try_session(story, what):
    """What a new server makes of the store: how it went on."""
    server = story.machine.serve()
    try:
        try:
            told = server.look("one")
        except case.Refused as reason:
            text = str(reason)
            assert "one" in text and len(text) > 20, "%s: refused without a word: %r" % (what, text)
            assert server.alive(), what
            server.run("other", "print(1)")
            return "refused"
        fitting = [name for name, path in story.paths.items()
                   if not model.difference(told.account, story.models.look(path))]
        assert fitting, "%s: a state that nobody was told of: %s" % (what, told)
        newest = not model.difference(told.account, story.models.look(story.newest))
        assert told.notice_kind == "resumed", "%s: %s" % (what, told)
        # Going on from an older one is never silent.
        assert newest or "damaged" in told.notice or "missing" in told.notice, "%s: %s" % (what, told)
        try_older(story, server, what)
        return "newest" if newest else "older"
    finally:
        server.kill()


def try_older(story, server, what):
    """Each is what it was, or refused."""
    good = 0
    for one in server.checkpoints("one"):
        if one["id"] not in story.paths:
            continue
        try:
            server.call("rollback_session", session_id="one", checkpoint=one["id"])
        except case.Refused as reason:
            assert one["id"] in str(reason), "%s: %s" % (what, reason)
            continue
        wrong = model.difference(server.look("one").account, story.models.look(story.paths[one["id"]]))
        assert not wrong, "%s: %s is another state: %s" % (what, one["id"], wrong)
        good += 1
    assert good > 0, what + ": none of the checkpoints works"


def test_damaged_files():
    chance, outcomes = random.Random(SEED), {}
    with case.Machine(KIND, "checkpoints_max = 16;\n") as machine, model.Model() as models:
        story = Story(machine, models)
        names = story.files()
        for _ in range(DAMAGES):
            with story.copy() as store:
                name = chance.choice(names)
                others = [os.path.join(store, other) for other in names if other != name]
                kind = damage(chance, os.path.join(store, name), others)
                what = "seed %d, %s: %s" % (SEED, name, kind)
                outcome = try_session(story, what)
                outcomes[kind, outcome] = outcomes.get((kind, outcome), 0) + 1
    for (kind, outcome), count in sorted(outcomes.items()):
        note("%-10s %-10s %d" % (kind, outcome, count))
    note("%d files, seed %d" % (len(names), SEED))


def spoil(store, names):
    for name in names:
        path = os.path.join(store, name)
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(b"\xff" * size)


def test_a_session_that_can_not_be_read_can_be_given_up():
    with case.Machine(KIND) as machine, model.Model() as models:
        story = Story(machine, models)
        names = [name for name in story.files() if name.startswith(("names/", "objects/"))]
        with story.copy() as store:
            spoil(store, names)
            server = machine.serve()
            try:
                told = server.execute("one", "print(1)")
            except case.Refused as reason:
                note(str(reason))
                assert "damaged" in str(reason), reason
            else:
                raise AssertionError("nothing of it can be read, and it goes on: %s" % told)
            server.run("other", "print(1)")
            give_up(server, store)
            told = server.run("one", "print('bulk1' in globals())")
            assert told.text.strip() == "False" and told.id, told
            server.kill()


def give_up(server, store):
    """Destroys the session; where even that takes what can't be read, the error says what to remove, and that helps."""
    try:
        server.call("destroy_session", session_id="one")
    except case.Refused as reason:
        path = re.search("rm -r '([^']+)'", str(reason)).group(1)
        assert os.path.commonpath([path, store]) == store != path, path
        shutil.rmtree(path)


def test_a_store_that_is_none_keeps_nothing_and_says_so():
    with case.Machine(KIND) as machine, model.Model() as models:
        story = Story(machine, models)
        with story.copy() as store:
            spoil(store, ["store", "store.copy"])
            server = machine.serve()
            told = server.run("one", "print('bulk1' in globals())")
            assert told.checkpoint["durable"] is False and told.id is None and "damaged" in told.checkpoint["reason"], told
            assert told.checkpoint["reason"] in told.text, told
            note(told.text)
            assert server.run("one", "print(1)").text.strip() == "1"  # it is said once
            server.stop()


if __name__ == "__main__":
    main()
