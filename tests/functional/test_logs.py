#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`logs`, `logs verify` and `logs replay` on files made by hand: those of this program and those of 2.2.7."""
import fcntl
import json
import os
import random
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main  # noqa: E402
from cli_case import Case, Sandboxed, Terminal  # noqa: E402
from logs_case import Run, dumps, sha256, write_old  # noqa: E402


def survey():
    """A run with two executions, the second of which asks the model."""
    run = Run()
    turn, execution, call = run.new_id(), run.new_id(), run.new_id()
    run.execution("x = [1, 2, 3]\nprint(sum(x))", "6\n", turn)
    run.completion("Positive", None, call, sub_call_type="llm_query", depth=1)
    run.tool_call("llm_query", {"prompt": "how?"}, '{"response":"Positive","tokens_used":30,"cost":0.001}', execution,
                  call_id=call)
    run.execution("print(llm_query('how?'))", "Positive\n", turn, execution)
    run.completion("I look at it.", turn, finish_reason="tool_calls",
                   tool_calls=[{"id": "a", "name": "execute_python", "arguments": {"code": "x"}},
                               {"id": "b", "name": "execute_python", "arguments": {"code": "y"}}],
                   tool_results=[{"tool_call_id": "a", "content": "6\n", "is_error": False},
                                 {"tool_call_id": "b", "content": "Positive\n", "is_error": False}])
    run.completion("There is a table.")
    return run.end()


class Listing(Case):
    def test_nothing(self):
        self.assertIn("No trajectories found", self.ok("logs").stdout)
        self.assertEqual(self.ok("logs", "--json").stdout, "[]\n")
        self.project.joinpath("logs").mkdir()
        self.project.joinpath("logs/notes.txt").write_text("x")
        self.project.joinpath("logs/empty.jsonl").write_text("")
        self.project.joinpath("logs/text.jsonl").write_text("not JSON\n")
        self.project.joinpath("logs/other.jsonl").write_text('{"a": 1}\n')
        self.assertEqual(self.ok("logs", "--json").stdout, "[]\n")

    def test_members(self):
        logs = self.project / "logs"
        run = survey()
        run.write(logs)
        old = write_old(logs, calls=3)
        listed = {entry["id"]: entry for entry in json.loads(self.ok("logs", "--json").stdout)}
        self.assertEqual(set(listed), {run.id, old})
        entry = listed[run.id]
        self.assertEqual({key: entry[key] for key in ("timestamp", "calls", "tokens", "duration_ms", "kind", "prompt",
                                                      "model", "tool_calls", "cost_usd", "state", "end", "error")},
                         {"timestamp": "2026-01-02T03:04:05.678Z", "calls": 2, "tokens": 240, "duration_ms": 3210,
                          "kind": "completion", "prompt": "What is in it?", "model": "openai/gpt-4o-mini",
                          "tool_calls": 1, "cost_usd": 0.0024, "state": "ended", "end": "ok", "error": None})
        self.assertTrue(os.path.samefile(entry["path"], logs / f"{run.id}.jsonl"))
        entry = listed[old]
        self.assertEqual((entry["calls"], entry["tokens"], entry["duration_ms"], entry["prompt"], entry["state"]),
                         (3, 90, 300, "old prompt 0", "ended"))
        self.assertEqual((entry["kind"], entry["end"], entry["cost_usd"]), (None, None, None))

    def test_table(self):
        logs = self.project / "logs"
        run = survey()
        run.write(logs)
        table = self.ok("logs", env={"TZ": "UTC"}).stdout
        row = next(line for line in table.splitlines() if line.startswith(run.id[:8]))
        self.assertEqual(row.split(), [run.id[:8], "2026-01-02", "03:04:05", "completion", "What", "is", "in", "it?",
                                       "2", "240", "$0.0024", "3.2", "s", "ok"])
        row = next(line for line in self.ok("logs", env={"TZ": "XYZ-2"}).stdout.splitlines() if run.id[:8] in line)
        self.assertIn("05:04:05", row)

    def test_newest_first(self):
        logs = self.project / "logs"
        ids = []
        for number in range(15):
            path = Run().end().write(logs)
            os.utime(path, ns=(0, 10**18 + number))
            ids.insert(0, path.stem)
        self.assertEqual([entry["id"] for entry in json.loads(self.ok("logs", "--json").stdout)], ids[:10])
        self.assertEqual([entry["id"] for entry in json.loads(self.ok("logs", "-n", "3", "--json").stdout)], ids[:3])
        self.assertEqual([entry["id"] for entry in json.loads(self.ok("logs", "--tail=0", "--json").stdout)], ids)
        self.fails(2, "logs", "--tail", "-1", says="--tail")
        self.fails(2, "logs", "--tail", "many", says="--tail")

    def test_ids_that_begin_alike(self):
        logs = self.project / "logs"
        one = Run("01234567-89ab-4cde-8f01-23456789abcd").end()
        two = Run("01234567-89ab-4cde-8f01-23456789abce").end()
        one.write(logs)
        two.write(logs)
        self.assertIn(one.id, self.ok("logs").stdout)  # eight characters would not tell them apart
        self.fails(2, "logs", "0123", says=("2 trajectories", one.id, two.id))
        self.fails(2, "logs", "012", says="2 trajectories")
        os.remove(logs / f"{two.id}.jsonl")
        self.fails(2, "logs", "012", says="too short")
        self.ok("logs", "0123")

    def test_unfinished(self):
        logs = self.project / "logs"
        run = Run()
        run.completion("Hm.")
        path = run.write(logs)
        self.assertEqual(json.loads(self.ok("logs", "--json").stdout)[0]["state"], "stopped")
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            entry = json.loads(self.ok("logs", "--json").stdout)[0]
            self.assertEqual((entry["state"], entry["calls"], entry["end"]), ("running", None, None))
            self.assertIn("running", self.ok("logs").stdout)
            file.write(b'{"trajectory_id": "half a li')
        self.assertEqual(json.loads(self.ok("logs", "--json").stdout)[0]["state"], "stopped")
        self.assertIn("not ended", self.ok("logs", run.id).stdout)

    def test_long_first_and_last_lines(self):
        logs = self.project / "logs"
        run = Run(prompt="word " * 500_000)
        run.completion("x")
        run.end(response="y\n" * 1_000_000, end="token_budget")
        run.write(logs)
        entry = json.loads(self.ok("logs", "--json").stdout)[0]
        self.assertEqual((entry["end"], entry["tokens"]), ("token_budget", 240))
        self.assertEqual(entry["prompt"], ("word " * 100))

    def test_other_directories(self):
        run = survey()
        run.write(self.project / "elsewhere")
        for words in (("--dir", "elsewhere"), ("-d", "elsewhere"), ("--set", "log_dir=elsewhere"),
                      ("--set", "jsonl.directory=elsewhere")):
            self.assertIn(run.id[:8], self.ok("logs", *words).stdout, words)
        self.write("snipara-sandbox.cfg", 'log_dir = "elsewhere";\n')
        self.assertIn(run.id[:8], self.ok("logs").stdout)
        self.write("file", "")
        self.fails(2, "logs", "--dir", "file", says="can't open")

    def test_links_and_strange_names(self):
        logs = self.project / "logs"
        path = survey().write(self.project / "elsewhere")
        logs.mkdir()
        (logs / path.name).symlink_to(path)
        os.mkfifo(logs / "fifo.jsonl")
        (logs / "a b.jsonl").write_bytes(path.read_bytes())
        (logs / ("x" * 70 + ".jsonl")).write_bytes(path.read_bytes())
        self.assertEqual(self.ok("logs", "--json").stdout, "[]\n")
        self.fails(1, "logs", path.stem, says="not found")
        self.fails(2, "logs", "../elsewhere/" + path.stem, says="no id")


class Tree(Case):
    def test_tree(self):
        run = survey()
        run.write(self.project / "logs")
        lines = self.ok("logs", run.id[:6]).stdout.splitlines()
        self.assertEqual(lines[0], run.id)
        body = lines[lines.index("") + 1:]
        self.assertEqual([(len(line) - len(line.lstrip()), line.split()[0]) for line in body if line][:12],
                         [(0, "completion"), (2, "I"), (2, "execution"), (4, "|"), (4, "|"), (4, ">"),
                          (2, "execution"), (4, "|"), (4, ">"), (4, "call"), (6, '{"response":"Positive","tokens_used":30,"cost":0.001}'),
                          (6, "completion")])
        self.assertIn("completion  openai/gpt-4o-mini  100 in, 20 out  $0.0012  850 ms", body)
        self.assertIn("ok  2 model calls  1 tool call  240 tokens (200 in, 40 out)  $0.0024  3.2 s", body)
        self.assertEqual(body[-1], "answer: There is a table.")

    def test_texts_are_cut_and_whole(self):
        run = Run(system="Be brief.")
        run.completion("\n".join(f"line {number}" for number in range(30)) + "\n" + "é" * 1000)
        run.end().write(self.project / "logs")
        short = self.ok("logs", run.id).stdout
        self.assertIn("... 27 more lines", short)
        self.assertNotIn("line 4\n", short)
        whole = self.ok("logs", run.id, "--full").stdout
        self.assertIn("line 29\n", whole)
        self.assertIn("é" * 1000, whole)
        self.assertIn("system: Be brief.", whole)

    def test_failures_show(self):
        run = Run(kind="agent")
        turn = run.new_id()
        run.execution("1/0", "Error: ZeroDivisionError: division by zero\n", turn, end="error", state="lost")
        run.completion("", turn, error="the provider is overloaded", tool_results=[
            {"tool_call_id": "a", "content": "no such file", "is_error": True}], tool_calls=[
            {"id": "a", "name": "file_read", "arguments": {"path": "x"}}])
        run.add("check", prompt="assert answer", response="Error: AssertionError", end="error", passed=False)
        run.events.append({"_type": "trajectory_metadata", "trajectory_id": run.id, "event": "events_lost", "count": 3})
        run.end("cost_limit", error="the cost limit is reached", answer="so far", validated=False).write(self.project / "logs")
        text = self.ok("logs", run.id).stdout
        for part in ("execution  default  error  variables lost", "error: the provider is overloaded",
                     '-> file_read({"path":"x"})  failed', "no such file", "check  failed", "cost_limit", "not validated",
                     "error: the cost limit is reached", "answer: so far", "note: events_lost  3"):
            self.assertIn(part, text)

    def test_json_is_what_2_2_7_prints(self):
        run = survey()
        run.write(self.project / "logs")
        events = json.loads(self.ok("logs", run.id, "--json").stdout)
        self.assertEqual(len(events), 6)
        for event in events:
            self.assertLessEqual({"trajectory_id", "call_id", "parent_call_id", "depth", "prompt", "response",
                                  "tool_calls", "tool_results", "repl_results", "input_tokens", "output_tokens",
                                  "duration_ms", "error", "timestamp", "estimated_cost_usd"}, set(event))
        everything = json.loads(self.ok("logs", run.id, "--json", "--full").stdout)
        self.assertEqual((len(everything), everything[0]["event"], everything[-1]["event"]),
                         (8, "run_started", "run_ended"))

    def test_a_file_of_2_2_7(self):
        old = write_old(self.project / "logs")
        text = self.ok("logs", old[:8]).stdout
        for part in (old, "prompt: old prompt 1", "old answer 1", 'execute_code({"code":"print(1)"})', "20 in, 40 out"):
            self.assertIn(part, text)
        self.assertEqual(len(json.loads(self.ok("logs", old, "--json").stdout)), 2)

    def test_hostile_texts(self):
        """What is in a file can't command the terminal, nor draw lines of its own over the tree's."""
        run = Run(prompt="\x1b]0;title\x07", model="m\x1b[2J")
        run.completion("a\rcompletion  forged\x1b[1A\x08\x7f\u009b2J")
        run.end().write(self.project / "logs")
        text = self.ok("logs", run.id).stdout
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\r", text)
        terminal = Terminal(self, "logs", run.id, NO_COLOR="1")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertNotRegex(terminal.text, "\x1b|\u009b|\x07|\x08")
        terminal = Terminal(self, "logs", NO_COLOR="1")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertNotRegex(terminal.text, "\x1b\\]|\x07")

    def test_circles_and_depth(self):
        run = Run()
        ids = [str(uuid.uuid4()) for _ in range(300)]
        for number, call_id in enumerate(ids):  # the first is below the last
            run.completion(f"answer {number}.", call_id, ids[number - 1])
        run.completion("mine", "self", "self")
        run.completion("twice", ids[5])
        run.end().write(self.project / "logs")
        text = self.ok("logs", run.id, "--full").stdout
        for number in range(300):
            self.assertIn(f"answer {number}.", text)
        self.assertIn("mine", text)
        self.assertIn("twice", text)

    def test_lines_that_can_not_be_read(self):
        path = survey().write(self.project / "logs")
        with open(path, "ab") as file:
            file.write(b"[1, 2]\n\xff\xfe\n" + b"[" * 100 + b"\n{\"half\": ")
        done = self.ok("logs", path.stem)
        self.assertIn("4 lines of the file can't be read", done.stderr)
        self.assertIn("There is a table.", done.stdout)

    def test_usage(self):
        self.fails(1, "logs", "abcd", says="Trajectory not found")
        self.fails(2, "logs", "a/b", says="no id")
        self.fails(2, "logs", "abcd", "efgh", says="efgh")
        self.fails(2, "logs", "verify", says="id")
        self.fails(2, "logs", "replay", says="id")


class Verify(Case):
    def verify(self, run_id, *words):
        done = self.run_cli("logs", "verify", run_id, "--json", *words)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(done.returncode == 0, found["ok"], found)
        return found

    def write_lines(self, run, lines):
        path = self.project / "logs" / f"{run.id}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def problems(self, run, lines):
        self.write_lines(run, lines)
        return [(problem["line"], problem["kind"]) for problem in self.verify(run.id)["problems"]]

    def test_whole(self):
        run = survey()
        path = run.write(self.project / "logs")
        found = self.verify(run.id)
        self.assertEqual((found["ok"], found["chained"], found["ended"], found["lines"], found["events"]),
                         (True, True, True, 8, 6))
        self.assertEqual(found["final_hash"], sha256(run.lines()[-1]))
        self.assertIn(found["final_hash"], self.ok("logs", "verify", run.id).stdout)
        self.assertTrue(os.path.samefile(found["path"], path))

    def test_every_byte_counts(self):
        """Whatever byte of a line is changed, that line is named, and no other."""
        run = survey()
        lines = run.lines()
        chance = random.Random(1)
        for number in range(len(lines)):
            last = len(lines[number]) - 1
            for at in {0, 1, last, last - 1, last - 2, last - 30, last - 70, last - 80, last - 120, last - 160,
                       *(chance.randrange(last) for _ in range(4))}:
                changed = bytearray(lines[number])
                changed[at] ^= 1
                if changed[at] == ord("\n"):
                    continue
                edited = [*lines[:number], bytes(changed), *lines[number + 1:]]
                self.assertEqual(self.problems(run, edited), [(number + 1, "changed")], (number, at, bytes(changed)))

    def test_removed(self):
        run = survey()
        lines = run.lines()
        for number in range(1, len(lines) - 1):
            self.assertEqual(self.problems(run, lines[:number] + lines[number + 1:]), [(number + 1, "removed")])
        self.assertEqual(self.problems(run, lines[:2] + lines[5:]), [(3, "removed")])
        self.assertEqual(self.problems(run, lines[1:]), [(1, "removed")])
        self.write_lines(run, lines[:2] + lines[5:])
        self.fails(1, "logs", "verify", run.id, says="before line 3, 3 lines were removed")

    def test_removed_at_the_end(self):
        """The chain can't tell; that the run has not ended, and a hash that was kept, do."""
        run = survey()
        lines = run.lines()
        self.write_lines(run, lines[:-1])
        found = self.verify(run.id)
        self.assertEqual((found["ok"], found["ended"]), (True, False))
        self.assertIn("lines at the end", self.ok("logs", "verify", run.id).stderr)
        found = self.verify(run.id, "--expect", sha256(lines[-1]))
        self.assertEqual([problem["kind"] for problem in found["problems"]], ["unexpected"])

    def test_put_in(self):
        run = survey()
        lines = run.lines()
        self.assertEqual(self.problems(run, lines[:4] + [lines[2]] + lines[4:])[0], (5, "inserted"))
        body = lines[4].rsplit(b',"line"', 1)[0] + f',"line":5,"prev":"{sha256(lines[3])}"'.encode()
        forged = body.replace(b"how?", b"who?") + f',"sum":"{sha256(body.replace(b"how?", b"who?"))}"}}'.encode()
        self.assertEqual(self.problems(run, lines[:4] + [forged] + lines[4:])[0], (5, "inserted"))
        foreign = dumps({"trajectory_id": run.id, "call_id": "x", "prompt": ""}).encode()
        self.assertEqual(self.problems(run, lines[:4] + [foreign] + lines[4:])[0], (5, "changed"))

    def test_moved(self):
        run = survey()
        lines = run.lines()
        found = self.problems(run, lines[:3] + [lines[4], lines[3]] + lines[5:])
        self.assertTrue(found)
        self.assertIn(found[0][0], (3, 4, 5))

    def test_replaced_with_sums_made_again(self):
        """Someone who makes a line's own hash again is found by the next line."""
        run = survey()
        lines = run.lines()
        body = lines[3].rsplit(b',"sum"', 1)[0].replace(b"Positive", b"Negative")
        forged = body + f',"sum":"{sha256(body)}"}}'.encode()
        self.assertNotEqual(forged, lines[3])
        self.assertEqual(self.problems(run, lines[:3] + [forged] + lines[4:]), [(4, "replaced")])

    def test_torn(self):
        run = survey()
        path = run.write(self.project / "logs")
        os.truncate(path, path.stat().st_size - 20)
        found = self.verify(run.id)
        self.assertEqual([(problem["line"], problem["kind"]) for problem in found["problems"]], [(8, "torn")])

    def test_expect(self):
        run = survey()
        lines = run.lines()
        self.write_lines(run, lines)
        self.ok("logs", "verify", run.id, "--expect", sha256(lines[-1]))
        found = self.verify(run.id, "--expect", sha256(lines[4]))
        self.assertEqual([(problem["line"], problem["kind"]) for problem in found["problems"]], [(5, "extended")])
        forged = survey()
        forged.id = run.id
        for event in forged.events:
            event["trajectory_id"] = run.id
        forged.write(self.project / "logs")  # a whole chain, of another run
        self.ok("logs", "verify", run.id)
        self.fails(1, "logs", "verify", run.id, "--expect", sha256(lines[-1]), says="expected hash")
        self.fails(2, "logs", "verify", run.id, "--expect", "abc", says="64 digits")

    def test_another_runs_file(self):
        run, other = survey(), survey()
        self.write_lines(run, other.lines())
        self.assertFalse(self.verify(run.id)["ok"])

    def test_not_chained(self):
        old = write_old(self.project / "logs")
        self.fails(1, "logs", "verify", old, says="not chained")
        self.assertEqual((self.verify(old)["chained"], self.verify(old)["ok"]), (False, False))

    def test_empty(self):
        run = Run()
        self.write_lines(run, [])
        self.assertFalse(self.verify(run.id)["ok"])


class Replay(Sandboxed):
    def replay(self, run, *words, code=0):
        run.write(self.project / "logs")
        done = self.run_cli("logs", "replay", run.id, "--json", *words)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_the_same(self):
        found = self.replay(survey())
        self.assertEqual([entry["outcome"] for entry in found["executions"]], ["same", "same"])
        self.assertEqual((found["ok"], found["same"]), (True, 2))

    def test_other_output(self):
        run = Run()
        run.execution("print('a')\nprint('b')\nprint('c')", "a\nB\nc\n")
        run.execution("1/0", "Error: nothing\n", end="error")
        run.execution("2", "Error: x", end="error")
        found = self.replay(run, code=1)
        self.assertEqual([entry["outcome"] for entry in found["executions"]], ["different"] * 3)
        self.assertEqual((found["executions"][0]["recorded_output"], found["executions"][0]["output"]),
                         ("a\nB\nc\n", "a\nb\nc\n"))
        done = self.run_cli("logs", "replay", run.id)
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs from line 2 on:\n    - B\n    + b\n", done.stdout)
        self.assertIn("ended ok, and error in the recorded run", done.stdout)

    def test_sessions_are_as_they_were(self):
        run = Run()
        run.execution("x = 1", "(no output)", session_id="one")
        run.execution("x = 2", "(no output)", session_id="two")
        run.execution("print(x)", "1\n", session_id="one")
        run.execution("print(x)", "2\n", session_id="two")
        sub = f"run:{run.id}/1.1.t0.c0.q0"
        run.execution("print('x' in globals())", "False\n", session_id="one", principal=sub)
        self.replay(run)

    def test_the_tool_and_the_profile_are_as_they_were(self):
        run = Run()
        run.execution("import time\ntime.sleep(60)", "Error: Timeout: the time limit of 1 s was reached\n", end="timeout",
                      timeout=1, tool="execute_python")
        run.execution("print(1)", "1\n", tool="execute", session_id="whatever")
        found = self.replay(run, code=1)["executions"]
        self.assertEqual((found[0]["end"], found[1]["outcome"]), ("timeout", "same"))

    def test_variables_that_tools_set(self):
        run = Run()
        turn = run.new_id()
        run.execution("print(a)", "5\n", turn)
        run.completion("", turn, tool_calls=[
            {"id": "1", "name": "set_repl_context", "arguments": {"key": "a", "value": "5"}},
            {"id": "2", "name": "execute_python", "arguments": {"code": "print(a)"}}])
        self.replay(run)

    def test_calls(self):
        run = Run()
        execution = run.new_id()
        run.tool_call("llm_batch", {"queries": [{"query": "a"}, {"query": "b"}]},
                      dumps({"results": [{"response": "A"}, {"response": "B"}]}), execution)
        run.tool_call("lookup", {"word": "x"}, "found", execution)
        run.tool_call("lookup", {"word": "y"}, "Error: no such word", execution, is_error=True)
        run.tool_call("count", {}, "", execution, result={"content": [], "isError": False,
                                                          "structuredContent": {"n": 3}})
        run.tool_call("FINAL", {"answer": "done"}, "{}", execution)
        run.execution("print(llm_batch(['a', 'b']))\nprint(tools.lookup(word='x'))\n"
                      "try:\n    tools.lookup(word='y')\nexcept Exception as e:\n    print(type(e).__name__)\n"
                      "print(tools.count())\nFINAL('done')",
                      "['A', 'B']\nfound\nToolError\n{'n': 3}\n", call_id=execution)
        self.replay(run)

    def test_calls_that_differ(self):
        run = Run()
        first, second, third, fourth = (run.new_id() for _ in range(4))
        answer = dumps({"response": "A", "tokens_used": 1, "cost": None})
        code = "try:\n    print(llm_query('a'))\nexcept Exception:\n    print('A')"
        run.execution(code, "A\n", call_id=first)  # none was recorded
        run.tool_call("lookup", {}, "A", second)
        run.execution(code, "A\n", call_id=second)
        run.tool_call("llm_query", {"prompt": "b"}, answer, third)
        run.execution(code, "A\n", call_id=third)
        run.tool_call("llm_query", {"prompt": "a"}, answer, fourth)
        run.tool_call("llm_query", {"prompt": "a"}, answer, fourth)
        run.execution(code, "A\n", call_id=fourth)
        found = self.replay(run, code=1)["executions"]
        for entry, says in zip(found, ("not made", "was of lookup", "other arguments", "more in the recorded run")):
            self.assertEqual(entry["outcome"], "different")
            self.assertEqual(entry["output"], "A\n")
            self.assertIn(says, entry["calls_differ"])

    def test_checks(self):
        run = Run()
        run.execution("limit = 3", "(no output)")
        run.execution("assert len(answer) > limit\nprint(answer)", "long\n", event="check", passed=True, answer="long")
        run.execution("assert answer", "x", event="check", passed=True)
        found = self.replay(run, code=1)["executions"]
        self.assertEqual([(entry["kind"], entry["outcome"]) for entry in found],
                         [("execution", "same"), ("check", "same"), ("check", "not_repeated")])

    def test_what_can_not_be_repeated(self):
        run = Run()
        run.execution("x", "", prompt=None, too_large=True)
        run.execution("print(1)", "", end="cancelled")
        run.execution("print(1)", "1\n")
        found = self.replay(run, code=1)
        self.assertEqual([entry["outcome"] for entry in found["executions"]], ["not_repeated", "not_repeated", "same"])
        self.assertIn("too large", self.run_cli("logs", "replay", run.id).stdout)

    def test_variables(self):
        text = "line with ünïcode\n" * 1000
        self.write("document.txt", text)
        run = Run(variables=[{"name": "document", "bytes": len(text.encode()), "characters": len(text),
                              "sha256": sha256(text)}])
        run.execution("print(len(document), document[:4])", f"{len(text)} line\n")
        run.write(self.project / "logs")
        self.fails(2, "logs", "replay", run.id, says=("document", "--var"))
        self.replay(run, "--var", "document=document.txt")
        self.write("other.txt", "x")
        done = self.run_cli("logs", "replay", run.id, "--var", "document=other.txt")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not the text", done.stderr)
        self.fails(2, "logs", "replay", run.id, "--var", "document=missing.txt", says="missing.txt")
        self.fails(2, "logs", "replay", run.id, "--var", "document=document.txt", "--var", "a-b=other.txt", says="a-b")

    def test_a_large_variable(self):
        text = "\x01\x02\x03" * 2_000_000  # each escaped to six bytes: it does not fit into one frame
        self.write("document.txt", text)
        run = Run()
        run.execution("import hashlib\nprint(hashlib.sha256(document.encode()).hexdigest())", sha256(text) + "\n")
        self.replay(run, "--var", "document=document.txt")

    def test_nothing_to_repeat(self):
        run = Run()
        run.completion("x")
        run.end().write(self.project / "logs")
        self.fails(1, "logs", "replay", run.id, says="no executions")
        old = write_old(self.project / "logs")
        self.fails(1, "logs", "replay", old, says="no executions")

    def test_leaves_no_trajectory(self):
        self.replay(survey())
        self.assertEqual(len(list(self.project.joinpath("logs").iterdir())), 1)

    def test_an_environment_that_is_not_there(self):
        run = Run(environment="nowhere")
        run.execution("print(1)", "1\n")
        run.write(self.project / "logs")
        done = self.run_cli("logs", "replay", run.id)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere", done.stderr)
        self.ok("logs", "replay", run.id, "--env", "local")


class Sink(Sandboxed):
    """sink-jsonl in the program. What it writes of runs is tested with `run` and `agent`."""

    def test_nothing_outside_of_runs(self):
        self.ok("exec", "-c", "print(1)")
        self.assertFalse(self.project.joinpath("logs").exists())

    def test_all_events(self):
        self.ok("exec", "--set", "jsonl.events=all", "-c", "secret = 'hunter2'", "-c", "print(1)")
        path, = self.project.joinpath("logs").iterdir()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual([line["event"] for line in lines], ["log_started", "execution", "execution"])
        self.assertEqual({line["trajectory_id"] for line in lines}, {path.stem})
        self.assertNotIn("hunter2", path.read_text())
        self.assertEqual((path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777), (0o600, 0o700))
        entry, = json.loads(self.ok("logs", "--json").stdout)
        self.assertEqual((entry["kind"], entry["calls"]), ("events", None))
        self.assertIn("ok: 3 lines", self.ok("logs", "verify", path.stem).stdout)
        self.assertIn("note: execution", self.ok("logs", path.stem).stdout)

    def test_a_directory_that_can_not_be_made(self):
        done = self.ok("exec", "--set", "jsonl.events=all", "--set", "log_dir=/dev/null/logs", "-c", "print(1)")
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("trajectory sink 'jsonl' fails", done.stderr)
        self.assertIn("log_dir", done.stderr)


if __name__ == "__main__":
    main()
