#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that last, from the command line: `exec --session`, `repl --session`, `sessions ...`, and the tools of a server
beside them."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mcp_client import Server  # noqa: E402
from tap import main  # noqa: E402
from cli_case import PROGRAM, Case, Sandboxed, Terminal, environment  # noqa: E402

GENERATOR = "rows = (n for n in range(10)); next(rows)"


class SessionCase(Sandboxed):
    def execute(self, session, code, *args, **kwargs):
        """The JSON of one execution in a session, by a program of its own."""
        return json.loads(self.ok("exec", "--json", "--session", session, "-c", code, *args, **kwargs).stdout)

    def value(self, session, expression):
        return self.execute(session, expression)["value"]

    def told(self, *args):
        return json.loads(self.ok("sessions", args[0], "--json", *args[1:]).stdout)

    def serve(self, *settings):
        arguments = [PROGRAM, "mcp-serve"]
        for setting in settings:
            arguments += ["--set", setting]
        server = Server(arguments, timeout=60, env=environment(self.home), cwd=self.project, stderr=subprocess.PIPE)
        server.__enter__()
        self.addCleanup(server.process.stderr.close)
        self.addCleanup(server.__exit__, None, None, None)
        server.initialize()
        return server

    def call(self, server, tool, **arguments):
        result = server.call(tool, arguments)
        self.assertFalse(result.get("isError"), result)
        return result


def text(result):
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


class Exec(SessionCase):
    def test_variables_are_there_the_next_time(self):
        first = self.execute("work", "import math\nx = [1]\ndef f(n): return n + len(x)\nx.append(x)")
        self.assertEqual((first["notice"], first["notice_kind"]), (None, None))
        self.assertTrue(first["checkpoint"]["durable"], first)
        self.assertEqual(first["checkpoint"]["unsaved"], [])
        second = self.execute("work", "(f(40), x[1] is x, math.tau > 6)")
        self.assertEqual((second["value"], second["notice_kind"]), ("(42, True, True)", "resumed"))
        self.assertTrue(second["notice"])
        self.assertIn("note: ", self.ok("exec", "--session", "work", "-c", "x").stderr)
        self.assertEqual(self.ok("exec", "-q", "--session", "work", "-c", "print(f(1))").stderr, "")

    def test_files_are_there_too(self):
        self.execute("files", "import os; os.makedirs('d'); open('d/a.txt', 'w').write('kept')")
        self.assertEqual(self.value("files", "open('d/a.txt').read()"), "'kept'")

    def test_sessions_without_a_name_end(self):
        self.ok("exec", "-c", "x = 1")
        done = self.run_cli("exec", "-c", "x")
        self.assertEqual(done.returncode, 1)
        self.execute("default", "x = 1")
        result = self.run_cli("exec", "--session", "default", "-c", "x")
        self.assertEqual(result.returncode, 1)
        self.assertIn("NameError", result.stderr)
        self.assertEqual(self.told("list"), [])

    def test_what_is_not_saved_is_named(self):
        done = self.ok("exec", "--session", "work", "-c", GENERATOR, "-c", "y = 2")
        self.assertEqual(done.stderr.count("note: rows (generator) is not saved"), 1, done.stderr)  # once, not each time
        unsaved = self.execute("work", "y")
        self.assertEqual(unsaved["value"], "2")
        self.assertIn("rows", unsaved["notice"])
        self.assertIn("generator", unsaved["notice"])
        self.assertEqual(self.run_cli("exec", "--session", "work", "-c", "rows").returncode, 1)

    def test_after_an_exception_and_after_a_killed_interpreter(self):
        self.execute("work", "x = 1")
        self.assertEqual(self.run_cli("exec", "--session", "work", "-c", "x = 2; 1 / 0").returncode, 1)
        self.assertEqual(self.value("work", "x"), "2")
        self.assertEqual(self.run_cli("exec", "--session", "work", "-c", "x = 3; import os; os._exit(1)").returncode, 6)
        self.assertEqual(self.value("work", "x"), "2")

    def test_one_language_for_ever(self):
        self.execute("work", "x = 1")
        self.fails(2, "exec", "--session", "work", "--language", "bash", "-c", "true", says="work")
        self.assertEqual(self.value("work", "x"), "1")

    def test_another_project_has_others(self):
        self.execute("work", "x = 1")
        self.project = self.project.parent / "other"
        self.project.mkdir(mode=0o700)
        self.project.joinpath(".git").mkdir()
        self.assertEqual(self.run_cli("exec", "--session", "work", "-c", "x").returncode, 1)
        self.assertEqual([session["id"] for session in self.told("list")], ["work"])

    def test_without_a_store(self):
        done = self.ok("exec", "--json", "--set", "store=", "--session", "work", "-c", "x = 1")
        self.assertFalse((json.loads(done.stdout)["checkpoint"] or {}).get("durable"))
        self.assertEqual(self.run_cli("exec", "--set", "store=", "--session", "work", "-c", "x").returncode, 1)
        self.fails(2, "sessions", "list", "--set", "store=", says="store")

    def test_a_store_that_can_not_be_had(self):
        """Code runs, and nothing is silent about it."""
        self.write("not-a-directory", "")
        done = self.ok("exec", "--json", "--set", f"store.directory={self.project}/not-a-directory", "--session", "work", "-c",
                       "x = 1")
        checkpoint = json.loads(done.stdout)["checkpoint"]
        self.assertFalse(checkpoint["durable"])
        self.assertTrue(checkpoint["reason"])
        self.assertIn("warning: ", done.stderr)

    def test_repl(self):
        self.execute("work", "x = 41")
        terminal = Terminal(self, "repl", "--session", "work")
        terminal.expect("work >>> ", 60)
        terminal.send("x += 1; x\n")
        terminal.expect(r"\n42\r\n")
        terminal.expect("work >>> ")
        terminal.send("\x04")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertEqual(self.value("work", "x"), "42")


class Tree(SessionCase):
    def test_checkpoint_rollback_fork(self):
        self.execute("work", "x = 'first'")
        kept = self.told("checkpoint", "work", "--label", "before it all")
        self.assertEqual((kept["label"], kept["automatic"], kept["unsaved"]), ("before it all", False, []))
        self.execute("work", "x = 'second'")
        forked = self.told("fork", "work", "attempt", "--checkpoint", kept["id"])
        self.assertEqual(forked["session_id"], "attempt")
        self.assertEqual(self.value("attempt", "x"), "'first'")
        self.execute("attempt", "x = 'elsewhere'")
        self.assertEqual(self.value("work", "x"), "'second'")
        self.assertEqual(self.told("rollback", "work", "before it all")["id"], kept["id"])
        self.assertEqual(self.value("work", "x"), "'first'")
        self.assertEqual(self.value("attempt", "x"), "'elsewhere'")
        now = self.told("fork", "work")["session_id"]
        self.assertEqual(self.value(now, "x"), "'first'")
        self.assertEqual({session["id"] for session in self.told("list")}, {"work", "attempt", now})

    def test_show(self):
        self.execute("work", "x = 1")
        kept = self.told("checkpoint", "work", "--label", "one")
        self.execute("work", "x = 2")
        self.told("rollback", "work", "one")
        self.execute("work", f"x = 3; {GENERATOR}")
        shown = self.told("show", "work")
        self.assertEqual((shown["id"], shown["environment"], shown["server"]), ("work", "local", None))
        by_id = {checkpoint["id"]: checkpoint for checkpoint in shown["tree"]}
        heads = [checkpoint for checkpoint in shown["tree"] if checkpoint["head"]]
        self.assertEqual(len(heads), 1)
        self.assertEqual(heads[0]["parent"], kept["id"])
        self.assertIn("x", heads[0]["holds"]["names"])
        self.assertEqual([entry["name"] for entry in heads[0]["holds"]["unsaved"]], ["rows"])
        self.assertEqual(sum(checkpoint["parent"] == kept["id"] for checkpoint in by_id.values()), 2)
        done = self.ok("sessions", "show", "work")
        self.assertRegex(done.stdout, r"(?m)^CHECKPOINT +LABEL")
        self.assertIn(f"{heads[0]['id']} *", done.stdout)
        self.assertRegex(done.stderr, r"rows +generator")

    def test_list_for_people(self):
        self.assertEqual(self.ok("sessions", "list").stdout, "no session is stored\n")
        self.execute("work", "x = 1")
        self.assertRegex(self.ok("sessions", "list").stdout, r"(?m)^work +local +python")
        session, = self.told("list")
        self.assertEqual((session["id"], session["environment"], session["running"]), ("work", "local", False))

    def test_what_is_not_there(self):
        self.execute("work", "x = 1")
        for words in (["show", "nothing"], ["rollback", "nothing", "c1"], ["rollback", "work", "c99"],
                      ["rollback", "work", "no such label"], ["fork", "nothing"], ["checkpoint", "nothing"],
                      ["export", "nothing", "file"], ["delete", "work", "nothing"]):
            self.fails(2, "sessions", *words)
        self.assertEqual(self.value("work", "x"), "1")  # one of the names to delete was wrong: none is deleted
        self.fails(2, "sessions", "rollback", "work", says="usage:")
        self.fails(2, "sessions", "show", "work", "more", says="more")
        self.fails(2, "sessions", "fork", "work", "work", says="work")
        self.fails(2, "sessions", "checkpoint", "work", "--label", "x" * 201)
        self.assertFalse((self.project / "file").exists())

    def test_delete_and_gc(self):
        for name in ("one", "two"):
            self.execute(name, "x = bytes(100_000)")
        self.assertEqual(self.ok("sessions", "delete", "one").stdout, "deleted one\n")
        self.assertEqual([session["id"] for session in self.told("list")], ["two"])
        self.assertEqual(self.run_cli("exec", "--session", "one", "-c", "x").returncode, 1)
        told = self.told("gc")
        self.assertEqual((told["removed"], told["store"]["damaged"]), ([], []))
        self.assertRegex(self.ok("sessions", "gc").stdout, "the store has")
        self.fails(2, "sessions", "gc", "--idle", "soon", says="soon")
        self.assertIn("two", self.told("gc", "--idle", "1ms")["removed"])


    def test_a_damaged_session_is_told_and_can_be_deleted(self):
        self.execute("work", "x = 1")
        self.execute("other", "x = 2")
        key = hashlib.sha256(b"\0work").hexdigest()[:40]
        files = [path for path in pathlib.Path(self.home, "state").rglob("*") if path.is_file() and key in str(path.parent)]
        self.assertTrue(files)
        for path in files:
            path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        self.assertIn("damaged", self.ok("sessions", "list").stdout)
        self.assertEqual(self.value("other", "x"), "2")
        self.ok("sessions", "delete", "work")
        self.assertEqual([session["id"] for session in self.told("list")], ["other"])


class Files(SessionCase):
    def test_export_and_import(self):
        self.execute("work", "x = 'kept'")
        self.told("checkpoint", "work", "--label", "here")
        self.execute("work", "x = 'later'")
        self.ok("sessions", "export", "work", "work.session")
        self.assertEqual((self.project / "work.session").stat().st_mode & 0o777, 0o600)
        self.fails(2, "sessions", "export", "work", "work.session", says="--force")
        self.ok("sessions", "export", "--force", "work", "work.session")
        self.assertEqual(sorted(path.name for path in self.project.iterdir()), [".git", "work.session"])
        self.ok("sessions", "import", "again", "work.session")
        self.assertEqual(self.value("again", "x"), "'later'")
        self.told("rollback", "again", "here")
        self.assertEqual(self.value("again", "x"), "'kept'")
        self.fails(2, "sessions", "import", "again", "work.session", says="again")

    def test_through_a_pipe(self):
        self.execute("work", "x = 'kept'")
        self.told("checkpoint", "work", "--label", "here")
        self.execute("work", "x = 'later'")
        done = self.run_cli("sessions", "export", "work", "-", "--checkpoint", "here", binary=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        process = self.start("sessions", "import", "other", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.communicate(done.stdout)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.value("other", "x"), "'kept'")

    def test_a_file_that_is_not_whole_is_refused(self):
        self.execute("work", "x = list(range(1000))")
        self.ok("sessions", "export", "work", "whole")
        whole = (self.project / "whole").read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for name, content in (("empty", b""), ("cut", whole[:-1]), ("half", whole[:len(whole) // 2]), ("more", whole + b"x"),
                              ("flipped", bytes(flipped)), ("other", b"not a session\n")):
            (self.project / name).write_bytes(content)
            done = self.run_cli("sessions", "import", "copy", name)
            self.assertNotEqual(done.returncode, 0, name)
            self.assertRegex(done.stderr, "(?m)^error: ", name)
        self.assertEqual([session["id"] for session in self.told("list")], ["work"])


class Servers(SessionCase):
    def test_one_server_after_another(self):
        first = self.serve()
        self.call(first, "execute_python", code="x = 41", session_id="work")
        self.call(first, "execute_python", code="x = 'its own'")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second = self.serve()
        result = self.call(second, "execute_python", code="x + 1", session_id="work")
        facts = result["_meta"]["snipara-sandbox/execution"]
        self.assertEqual(facts["notice_kind"], "resumed")
        self.assertEqual(result["content"][0]["text"].splitlines()[-1], "42")
        self.assertTrue(result["content"][0]["text"].startswith("["))
        self.assertTrue(second.call("execute_python", {"code": "x"})["isError"])  # default was the first one's

    def test_a_session_has_one_server(self):
        server = self.serve()
        self.call(server, "execute_python", code="x = 1", session_id="work")
        for command in (["exec", "--session", "work", "-c", "x = 2"], ["sessions", "rollback", "work", "c1"],
                        ["sessions", "delete", "work"]):
            done = self.fails(2, *command, "--set", "store_wait=0s")
            self.assertIn("work", done.stderr)
            self.assertIn(str(server.process.pid), done.stderr)  # who has it
        self.assertIn("in use by", self.ok("sessions", "list").stdout)
        self.assertIn("c1 *", self.ok("sessions", "show", "work").stdout)  # who only looks may, at once
        self.assertEqual(text(self.call(server, "execute_python", code="x", session_id="work")), "1")

    def test_tools(self):
        server = self.serve()
        self.call(server, "execute_python", code="x = 1", session_id="work")
        kept = self.call(server, "checkpoint_session", session_id="work", label="one")
        self.assertEqual(kept["structuredContent"]["label"], "one")
        self.assertIn(kept["structuredContent"]["id"], text(kept))
        result = self.call(server, "execute_python", code=f"x = 2\n{GENERATOR}", session_id="work")
        if result["_meta"]["snipara-sandbox/execution"]["checkpoint"]["mechanism"] == "portable":
            self.assertIn("rows (generator", text(result))
            self.assertNotIn("rows (generator", text(self.call(server, "execute_python", code="x", session_id="work")))
        listed = self.call(server, "list_checkpoints", session_id="work")
        facts = listed["structuredContent"]
        self.assertEqual(facts["session_id"], "work")
        self.assertIn("one", [checkpoint["label"] for checkpoint in facts["checkpoints"]])
        self.assertIn(facts["head"], [checkpoint["id"] for checkpoint in facts["checkpoints"]])
        self.assertIn("'one'", text(listed))
        forked = self.call(server, "fork_session", session_id="work", new_session_id="branch")
        self.assertEqual(forked["structuredContent"]["session_id"], "branch")
        back = self.call(server, "rollback_session", session_id="work", checkpoint="one")
        self.assertEqual(back["structuredContent"]["id"], kept["structuredContent"]["id"])
        self.assertEqual(text(self.call(server, "execute_python", code="x", session_id="work")).splitlines()[-1], "1")
        self.assertEqual(text(self.call(server, "execute_python", code="x", session_id="branch")).splitlines()[-1], "2")

    def test_tools_refuse(self):
        server = self.serve()
        self.call(server, "execute_python", code="x = 1", session_id="work")
        for tool, arguments, says in (
                ("checkpoint_session", {}, "session_id"), ("list_checkpoints", {"session_id": ""}, "session_id"),
                ("rollback_session", {"session_id": "work"}, "checkpoint"),
                ("rollback_session", {"session_id": "work", "checkpoint": "c99"}, "c99"),
                ("rollback_session", {"session_id": "none", "checkpoint": "c1"}, "none"),
                ("fork_session", {"session_id": "work", "new_session_id": "work"}, "work"),
                ("fork_session", {"session_id": "work", "new_session_id": "a/b"}, "character 2"),
                ("checkpoint_session", {"session_id": "work", "label": "two\nlines"}, "label")):
            result = server.call(tool, arguments)
            self.assertTrue(result["isError"], (tool, arguments))
            self.assertIn(says, text(result))

    def test_stored_sessions_are_listed(self):
        self.execute("old", "x = 1")
        server = self.serve()
        self.call(server, "execute_python", code="y = 1", session_id="new")
        listed = self.call(server, "list_sessions")
        facts = listed["structuredContent"]
        self.assertEqual([session["id"] for session in facts["stored"]], ["old"])
        self.assertEqual([session["id"] for session in facts["sessions"]], ["default", "new"])
        self.assertIn("\n  - old: ", text(listed))
        self.call(server, "destroy_session", session_id="old")
        self.assertEqual(self.call(server, "list_sessions")["structuredContent"]["stored"], [])
        self.assertTrue(server.call("destroy_session", {"session_id": "old"})["isError"])

    def test_an_idle_session_goes_on(self):
        server = self.serve("session_ttl=200ms")
        self.call(server, "execute_python", code="x = 1", session_id="work")
        while "work" in [session["id"] for session in
                         self.call(server, "list_sessions")["structuredContent"]["sessions"]]:
            pass
        # It has been given back: another program can have it, and then this server again.
        self.assertEqual(self.value("work", "x"), "1")
        self.execute("work", "x = 2")
        result = self.call(server, "execute_python", code="x", session_id="work")
        self.assertEqual(result["_meta"]["snipara-sandbox/execution"]["notice_kind"], "resumed")
        self.assertEqual(text(result).splitlines()[-1], "2")


class Doctor(Case):
    def check(self, *args):
        done = self.run_cli("doctor", "--json", *args)
        return [check for check in json.loads(done.stdout)["checks"] if check["area"] == "sessions"]

    def test_store(self):
        check, = self.check()
        self.assertEqual(check["status"], "ok", check)
        self.assertIn("store-dir", check["detail"])

    def test_no_store(self):
        check, = self.check("--set", "store=")
        self.assertEqual(check["status"], "warning")
        self.assertIn("store", check["remedy"])

    def test_a_store_that_is_none(self):
        check, = self.check("--set", "store=local")
        self.assertEqual(check["status"], "failed", check)


if __name__ == "__main__":
    main()
