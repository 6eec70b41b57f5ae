#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose server is killed go on in another server, in another project's directory, from the same store: what is there,
what is not and who says so. Each test prints what was said, as a transcript.

Environment: see durable_case.py; sessions in containers are tested where there is an engine."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
from tap import main, note  # noqa: E402

BEGIN = """
import json, collections
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def norm(self): return (self.x ** 2 + self.y ** 2) ** 0.5
def area(width, height=2): return width * height
def squares():
    at = 0
    while True:
        yield at * at
        at += 1
numbers = squares()
first = [next(numbers) for _ in range(5)]
shared = [1, 2]
table = collections.OrderedDict(left=shared, right=shared)
point = Point(3, 4)
open("notes.txt", "w").write("kept in the workspace")
"""
LOOK = """
table["left"].append(3)
print(first, shared, table["left"] is table["right"], point.norm(), area(21), json.dumps("x"), open("notes.txt").read())
"""
SEEN = '[0, 1, 4, 9, 16] [1, 2, 3] True 5.0 42 "x" kept in the workspace'


def said(who, text):
    for line in text.strip().splitlines():
        note("%-8s %s" % (who, line))


def run(server, session, code, who):
    said(who, ">>> " + code.strip().replace("\n", "\n... "))
    told = server.execute(session, code)
    said(who, told.text)
    return told


def _begin(machine, kind):
    server = machine.serve(machine.project("first"))
    told = run(server, "work", BEGIN, "server 1")
    assert told.end == "ok" and told.id and told.checkpoint["durable"] is True, str(told) + machine.logged()
    if kind != "wasm":
        unsaved = told.checkpoint["unsaved"]
        assert [(one["name"], one["type"]) for one in unsaved] == [("numbers", "generator")], unsaved
        assert "numbers" in told.text, "the text does not name what was not saved"
    said("shell", "kill -9 %d" % server.pid)
    server.kill()
    return told


def _go_on(machine, kind, before):
    second = machine.serve(machine.project("second"))
    told = run(second, "work", LOOK, "server 2")
    assert told.end == "ok" and told.text.strip().splitlines()[-1] == SEEN, str(told) + machine.logged()
    assert told.notice_kind == "resumed" and "work" in told.notice, told
    again = run(second, "work", "print(next(numbers))", "server 2")
    assert again.notice_kind is None, again
    if kind == "wasm":
        assert (again.end, again.text.strip()) == ("ok", "25"), again
        assert told.checkpoint["mechanism"] == before.checkpoint["mechanism"] == "byte-exact", told
    else:
        assert again.end == "error" and "NameError" in again.text, again
        assert "numbers" in told.notice and "generator" in told.notice, told.notice
        assert told.checkpoint["mechanism"] == before.checkpoint["mechanism"] == "portable", told
    return second


def transcript(kind):
    with case.Machine(kind) as machine:
        before = _begin(machine, kind)
        second = _go_on(machine, kind, before)
        listed = second.call("list_sessions")
        assert "work" in json.dumps(listed["sessions"]), listed
        second.stop()


def test_wasm():
    transcript("wasm")


def test_local():
    transcript("local")


def test_docker():
    transcript("docker")


def test_the_programs_exec_keeps_variables():
    with case.Machine("local") as machine:
        one, two = machine.project("first"), machine.project("second")
        done = machine.run("exec", "--session", "shell", "-c", "total = 40\nprint('set')", config=one)
        assert (done.returncode, done.stdout) == (0, "set\n"), done
        done = machine.run("exec", "--session", "shell", "-c", "total += 2\nprint(total)", config=two)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "42"), done
        server = machine.serve(two)
        assert run(server, "shell", "print(total)", "server").text.strip().endswith("42")
        server.stop()
        done = machine.run("exec", "--session", "shell", "--json", "-c", "print(total)", config=one)
        told = json.loads(done.stdout)
        assert (told["end"], told["stdout"], told["notice_kind"]) == ("ok", "42\n", "resumed"), told


def test_default_sessions_belong_to_their_server():
    with case.Machine("local") as machine:
        first, second = machine.serve(machine.project("one")), machine.serve(machine.project("one"))
        for server in (first, second):
            for session in ("default", "default-bash-like"):
                told = server.run(session, "print('secret' in globals())\nsecret = %d" % server.pid)
                assert told.text.strip().endswith("False") and told.notice_kind is None, told
        first.kill()
        third = machine.serve(machine.project("one"))
        told = third.run("default", "print('secret' in globals())")
        assert told.text.strip().endswith("False") and told.notice_kind is None, told
        assert second.run("default", "print(secret)").text.strip().endswith(str(second.pid))
        names = [one["id"] for one in third.call("list_sessions")["stored"]]
        assert names == [], names


def test_an_idle_session_goes_on():
    """Its interpreter is ended; nobody is told that it expired."""
    with case.Machine("local", 'session_ttl = "1s";\n') as machine:
        server = machine.serve()
        server.run("idle", "kept = [1]\nalias = kept\n")
        assert case.wait_for(lambda: "idle" in [one["id"] for one in server.call("list_sessions")["stored"]]), \
            "it does not expire" + machine.logged()
        told = server.run("idle", "alias.append(2)\nprint(kept)")
        assert told.text.strip().endswith("[1, 2]") and told.notice_kind == "resumed", told
        server.stop()


def test_a_destroyed_session_does_not_come_back():
    with case.Machine("local") as machine:
        server = machine.serve()
        server.run("gone", "word = 'secret-word-of-this-session' * 1000")
        server.call("checkpoint_session", session_id="gone", label="here")
        server.call("destroy_session", session_id="gone")
        server.kill()
        server = machine.serve()
        told = server.run("gone", "print('word' in globals())")
        assert told.text.strip() == "False" and told.notice_kind is None, told
        # One that only the store knows is destroyed as well.
        server.run("other", "word = 1")
        server.kill()
        server = machine.serve()
        server.call("destroy_session", session_id="other")
        assert "other" not in json.dumps(server.call("list_sessions")["stored"])
        assert server.run("other", "print('word' in globals())").text.strip() == "False"
        server.stop()


if __name__ == "__main__":
    main()
