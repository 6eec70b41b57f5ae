#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`agent`: iterations, FINAL, checks, forced endings, and runs that go on after a kill."""
import collections
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, note  # noqa: E402
from run_case import RunCase  # noqa: E402

STEPS = 6
SUM = sum(n + n * n for n in range(1, STEPS))
KILLS = 50
MEMORY = ["--set", "memory_enabled=true"]


class Agent(RunCase):
    def test_final_var(self):
        self.model("steps", STEPS)
        result = self.result("agent", *MEMORY, "Add it up")
        for key in ("answer", "answer_source", "iterations", "total_tokens", "total_cost", "duration_ms",
                    "forced_termination", "run_id", "success", "iteration_summaries"):
            self.assertIn(key, result)
        self.assertEqual((result["answer"], result["answer_source"], result["iterations"], result["success"]),
                         (str(SUM), "final_var", STEPS, True))
        self.assertEqual(len(result["iteration_summaries"]), STEPS)
        self.assertEqual(self.files_with_key(), [])

    def test_people_see(self):
        self.model("steps", 3)
        done = self.command("agent", *MEMORY, "-v", "--set", "log_level=warning", "Add it up")
        self.assertEqual((done.returncode, done.stdout), (0, "8\n"))
        self.assertIn("Iteration 2 of 10", done.stderr)
        self.assertIn("execute_python", done.stderr)

    def test_the_last_actions_are_carried_on(self):
        self.model("steps", 8)
        self.result("agent", *MEMORY, "Add it up")
        prompts = [entry["body"]["messages"][1]["content"] for entry in self.requests() if entry["body"].get("tools")]
        self.assertIn("execute_python", prompts[-1])
        self.assertNotIn("Step 1 is done", prompts[-1])
        self.assertIn("Step 7 is done", prompts[-1])

    def test_forced(self):
        self.model("steps", STEPS)
        result = self.result("agent", *MEMORY, "--max-iterations", "2", "Add it up", code=1)
        self.assertEqual((result["answer_source"], result["forced_termination"], result["end"], result["iterations"]),
                         ("forced", True, "max_iterations", 2))
        self.assertIn("Step 2 is done", result["answer"])

    def test_check(self):
        self.model("corrected")
        result = self.result("agent", "--check", "assert int(answer) < 100, f'{answer} is not below 100'",
                             "How many primes are below 100?")
        self.assertEqual((result["answer"], result["validated"], result["iterations"]), ("25", True, 2))
        checks = [line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "check"]
        self.assertEqual([line["passed"] for line in checks], [False, True])

    def test_never_validated(self):
        self.model("corrected")
        result = self.result("agent", "--max-iterations", "3", "--check", "assert False, 'no'", "x", code=1)
        self.assertEqual((result["validated"], result["success"]), (False, False))
        self.assertTrue(result["answer"])

    def test_resume_of_an_ended_run(self):
        self.model("steps", 2)
        first = self.result("agent", *MEMORY, "Add it up")
        count = len(self.requests())
        again = self.result("agent", "--resume", first["run_id"][:8])
        self.assertEqual((again["answer"], again["total_tokens"]), (first["answer"], first["total_tokens"]))
        self.assertEqual(len(self.requests()), count)


class Mcp(RunCase):
    """The agent tools over MCP."""

    def ask(self, process, number, method, params):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
        raise AssertionError("the server ended")

    def test_run_status_cancel(self):
        self.model("steps", 3)
        env = dict(self.variables, SNIPARA_SANDBOX_MEMORY_ENABLED="true")
        process = self.start("mcp-serve", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(process, 1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                            "clientInfo": {"name": "t", "version": "1"}})
        process.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        names = {tool["name"] for tool in self.ask(process, 2, "tools/list", {})["tools"]}
        self.assertLessEqual({"snipara_agent_run", "snipara_agent_status", "snipara_agent_cancel"}, names)
        self.assertTrue(names.isdisjoint({"file_read", "file_list", "FINAL", "snipara_sub_complete"}), names)

        def call(number, name, **arguments):
            result = self.ask(process, number, "tools/call", {"name": name, "arguments": arguments})
            return result["isError"], json.loads(result["content"][0]["text"]) if not result["isError"] else result

        error, started = call(3, "rlm_agent_run", task="Add it up")
        self.assertFalse(error, started)
        self.assertEqual(started["status"], "running")
        number, status = 4, started
        while status["status"] == "running":
            error, status = call(number, "snipara_agent_status", run_id=started["run_id"])
            number += 1
            time.sleep(0.02)
        self.assertEqual((status["status"], status.get("result", status).get("answer")), ("completed", "8"), status)
        error, _ = call(number, "snipara_agent_status", run_id="00000000")
        self.assertTrue(error)


class Kills(RunCase):
    """kill -9 at any moment, then --resume: the answer and the bill are as without the kills."""

    def memories(self):
        found = collections.Counter()
        for path in pathlib.Path(self.home).rglob("context-files/*.db"):
            with sqlite3.connect(path) as database:
                for table, in database.execute("select name from sqlite_master where type = 'table' and name like '%memor%'"):
                    columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
                    if "content" in columns and not table.endswith(("_content", "_data", "_idx", "_docsize", "_config")):
                        found.update(row[0] for row in database.execute(f"select content from {table}"))
        return found

    def killed_run(self, chance, events):
        """Starts a run, kills it after a random number of events; its id, or None when it had ended by then."""
        process = self.popen("agent", "--json", "--events", *MEMORY, "Add it up")
        kill_at, seen, run_id = chance.randrange(events), 0, None
        for line in process.stderr:
            if line.startswith("{"):
                event = json.loads(line)
                run_id = run_id or event.get("trajectory_id")
                seen += 1
                if seen > kill_at and run_id:
                    # Not always right behind an event: somewhere in what comes after it.
                    timer = threading.Timer(chance.random() * 0.02, process.send_signal, [signal.SIGKILL])
                    timer.start()
                    process.stderr.read()
                    timer.join()
                    break
        process.communicate()
        return run_id, process.returncode

    def test_kill_and_resume(self):
        seed = os.environ.get("SBX_TEST_SEED") or str(random.randrange(1 << 32))
        note(f"SBX_TEST_SEED={seed} repeats it")
        chance = random.Random(int(seed))
        self.model("steps", STEPS)
        process = self.popen("agent", "--json", "--events", *MEMORY, "Add it up")
        output, errors = process.communicate(timeout=120)
        whole = json.loads(output)
        self.assertEqual(whole["answer"], str(SUM))
        events = sum(line.startswith("{") for line in errors.splitlines())
        killed = uncertain = tries = 0
        while killed < KILLS and tries < 10 * KILLS:  # some end before they are killed: those don't count
            tries += 1
            before = self.memories()
            run_id, code = self.killed_run(chance, events)
            killed += code == -signal.SIGKILL
            result = self.result("agent", "--resume", run_id, *MEMORY)
            bill = [result[key] for key in ("answer", "total_tokens", "total_cost", "iterations", "success")]
            self.assertEqual(bill, [whole[key] for key in ("answer", "total_tokens", "total_cost", "iterations", "success")],
                             result)
            made = self.memories() - before
            repeated = {text: count for text, count in made.items() if count > 1}
            missing = {f"step {n} of the sum" for n in range(1, STEPS)} - set(made)
            # What was under way at the kill may have happened or not; then the result says so, and never twice in silence.
            if repeated or missing:
                uncertain += 1
                self.assertTrue(result["notices"], (repeated, missing))
            self.assertLessEqual(len(repeated) + len(missing), 1)
            verify = self.run_cli("logs", "verify", run_id)
            self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
            lines = self.trajectory(run_id)
            ids = [line["call_id"] for line in lines if line.get("call_id")]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual(lines[-1].get("total_tokens"), whole["total_tokens"])
        note(f"{killed} of {tries} runs were killed before their end; {uncertain} said that a call may have happened")
        self.assertEqual(killed, KILLS)


if __name__ == "__main__":
    main()
