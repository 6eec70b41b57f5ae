#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What forks, rolled back and resumed sessions must not share: random numbers, identities, clocks that stand still, files.

Environment: KIND is the backend (wasm)."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
from tap import main, note, skip  # noqa: E402

KIND = os.environ.get("KIND", "wasm")
BEGIN = """
import os, random, secrets, time, uuid
random.seed()
before = [random.random() for _ in range(1000)]
fixed = random.Random(7)
fixed.random()
began = time.time(), time.monotonic()
open("note.txt", "w").write("of the original")
"""
DRAW = """
import json, os, random, secrets, sys, tempfile, uuid
name = tempfile.mkdtemp()
os.rmdir(name)
print(json.dumps({"random": random.random(), "bits": random.getrandbits(128), "uuid4": str(uuid.uuid4()),
                  "uuid1": str(uuid.uuid1()), "token": secrets.token_hex(16), "choice": secrets.randbelow(1 << 64),
                  "urandom": os.urandom(16).hex(), "system": random.SystemRandom().random(), "temporary": name}))
"""
HASH = "print(hash('a string of some length'))"


def drawn(server, session):
    return json.loads(server.run(session, DRAW).text.strip().splitlines()[-1])


def branch(server, session, **arguments):
    return server.call("fork_session", session_id=session, **arguments)["session_id"]


def all_differ(draws):
    for name in draws[0]:
        values = [draw[name] for draw in draws]
        assert len(set(values)) == len(values), "%s: %s" % (name, values)


def test_random_numbers_are_each_ones_own():
    with case.Machine(KIND) as machine:
        server = machine.serve()
        server.run("one", BEGIN)
        checkpoint = server.call("checkpoint_session", session_id="one")["id"]
        names = [branch(server, "one") for _ in range(2)] + [branch(server, "one", checkpoint=checkpoint) for _ in range(2)]
        draws = [drawn(server, name) for name in ["one"] + names]
        for _ in range(2):  # going back to one state twice is two futures
            server.call("rollback_session", session_id="one", checkpoint=checkpoint)
            draws.append(drawn(server, "one"))
        server.kill()
        server = machine.serve()
        draws += [drawn(server, name) for name in ["one"] + names]
        all_differ(draws)
        note("%d draws of %s" % (len(draws), ", ".join(draws[0])))
        # A generator that the session seeded itself is a value like any other.
        assert len({server.run(name, "print(fixed.random())").text for name in names}) == 1
        server.stop()


def test_hash_seeds():
    """A state that is given to another interpreter finds another seed; dictionaries and sets of strings go on."""
    if KIND == "wasm":
        skip("states of WebAssembly are of one image, and have its seed: plugins/backend-wasm/README.md")
    with case.Machine(KIND) as machine:
        server = machine.serve()
        server.run("one", "words = {'w%d' % n for n in range(200)}\ntable = {word: len(word) for word in words}\n")
        seeds = {server.run("one", HASH).text.strip()}
        server.kill()
        server = machine.serve()
        seeds.add(server.run("one", HASH).text.strip().splitlines()[-1])
        assert len(seeds) == 2, seeds
        told = server.run("one", "print(all('w%d' % n in words and table['w%d' % n] for n in range(200)), len(words))")
        assert told.text.strip() == "True 200", told
        server.stop()


def test_clocks_move_on():
    with case.Machine(KIND) as machine:
        server = machine.serve()
        server.run("one", BEGIN)
        checkpoint = server.call("checkpoint_session", session_id="one")["id"]
        earlier = server.run("one", "print(time.time())")
        time.sleep(1.1)
        fork = branch(server, "one", checkpoint=checkpoint)
        server.call("rollback_session", session_id="one", checkpoint=checkpoint)
        for name in (fork, "one"):
            passed = float(server.run(name, "print(time.time() - began[0])").text.strip().splitlines()[-1])
            assert 1.0 <= passed < 3600, passed
            assert abs(float(server.run(name, "print(time.time())").text) - time.time()) < 600
        server.kill()
        server = machine.serve()
        passed = float(server.run(fork, "print(time.time() - began[0])").text.strip().splitlines()[-1])
        assert passed >= 1.1, passed
        told = server.run(fork, "now = time.monotonic()\ntime.sleep(0.01)\nprint(time.monotonic() > now)")
        assert told.text.strip() == "True", (told, earlier)
        server.stop()


def test_files_are_each_ones_own():
    read = "print(open('note.txt').read())"
    with case.Machine(KIND) as machine:
        server = machine.serve()
        server.run("one", BEGIN)
        checkpoint = server.call("checkpoint_session", session_id="one")["id"]
        fork = branch(server, "one")
        assert server.run(fork, read).text.strip().endswith("of the original")
        server.run(fork, "open('note.txt', 'w').write('of the fork')\nopen('secret.txt', 'w').write('s')")
        server.run("one", "open('note.txt', 'a').write(', later')")
        assert server.run("one", read).text.strip() == "of the original, later"
        assert server.run("one", "print(os.path.exists('secret.txt'))").text.strip() == "False"
        server.call("rollback_session", session_id="one", checkpoint=checkpoint)
        assert server.run("one", read).text.strip().endswith("of the original")
        server.run("stranger", "print(1)")
        server.kill()
        server = machine.serve()
        for name, wanted in (("one", "of the original"), (fork, "of the fork")):
            assert server.run(name, read).text.strip().splitlines()[-1] == wanted
        told = server.run("stranger", "import os\nprint(os.listdir('.'), [n for n in globals() if n[0] != '_'])")
        assert told.text.strip().splitlines()[-1] == "[] ['os']", told
        server.stop()


if __name__ == "__main__":
    main()
