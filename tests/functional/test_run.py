#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`run` from the command line to the answer: a mock server for the model, everything else real."""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import Terminal  # noqa: E402
from run_case import KEY, RunCase  # noqa: E402

ISSUES = ["orders.csv: id 2 appears 2 times", "orders.csv: row 3 has no amount", "customers.csv: row 1 has no name"]


class Survey(RunCase):
    """The example of the README."""

    def setUp(self):
        super().setUp()
        self.project.joinpath("data").mkdir()
        self.write("data/orders.csv", "id,amount\n1,10\n2,20\n2,\n")
        self.write("data/customers.csv", "id,name\n1,\n2,Ada\n")
        self.model("survey")

    def test_finds_the_issues(self):
        done = self.command("run", "Find the data quality issues in ./data and validate the findings")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "Found 3 issues:")
        self.assertEqual(set(done.stdout.splitlines()[1:]), set(ISSUES))
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.files_with_key(), [])

    def test_json(self):
        result = self.result("run", "Find the data quality issues in ./data")
        for key in ("response", "trajectory_id", "total_calls", "total_tokens", "total_tool_calls", "duration_ms",
                    "total_input_tokens", "total_output_tokens", "total_cost_usd", "error", "success", "events"):
            self.assertIn(key, result)
        self.assertEqual((result["success"], result["end"], result["total_calls"], result["total_tool_calls"]),
                         (True, "ok", 3, 2))
        self.assertGreater(result["total_cost_usd"], 0)
        self.assertEqual(result["total_tokens"], result["total_input_tokens"] + result["total_output_tokens"])

    def test_trajectory(self):
        result = self.result("run", "Find the data quality issues in ./data")
        lines = self.trajectory(result["trajectory_id"])
        self.assertEqual([lines[0]["_type"], lines[-1]["_type"]], ["trajectory_metadata"] * 2)
        by_event = {}
        for line in lines:
            by_event.setdefault(line.get("event"), []).append(line)
        self.assertEqual(len(by_event["completion"]), 3)
        execution, = by_event["execution"]
        self.assertIn("csv.DictReader", execution["prompt"])
        self.assertEqual(execution["end"], "ok")
        self.assertIn(execution["parent_call_id"], [line["call_id"] for line in by_event["completion"]])
        reads = [line for line in by_event["tool_call"] if line["tool_calls"][0]["name"] == "file_read"]
        self.assertEqual(len(reads), 2)
        self.assertEqual({line["parent_call_id"] for line in reads}, {execution["call_id"]})
        self.assertEqual(sum(line["input_tokens"] + line["output_tokens"] for line in by_event["completion"]),
                         result["total_tokens"])
        self.assertEqual(lines[-1]["total_tokens"], result["total_tokens"])

    def test_logs(self):
        run_id = self.result("run", "Find the data quality issues in ./data")["trajectory_id"]
        listed = json.loads(self.ok("logs", "--json").stdout)
        self.assertEqual([entry["id"] for entry in listed], [run_id])
        tree = self.ok("logs", run_id[:8]).stdout
        for part in ("execute_python", "list_files", "file_read", "Found 3 issues"):
            self.assertIn(part, tree)
        self.ok("logs", "verify", run_id[:8])
        self.ok("logs", "replay", run_id[:8])

    def test_what_the_model_is_told(self):
        self.result("run", "--system", "Answer in French.", "Find the issues")
        first = self.requests()[0]["body"]
        system = "\n".join(message["content"] for message in first["messages"] if message["role"] == "system")
        self.assertIn("Answer in French.", system)
        for name in ("llm_query", "FINAL", "tools."):
            self.assertIn(name, system)
        names = {tool["function"]["name"] for tool in first["tools"]}
        self.assertLessEqual({"execute_python", "file_read", "file_list", "snipara_sub_complete"}, names)
        self.assertTrue(names.isdisjoint({"destroy_session", "rollback_session", "fork_session", "snipara_agent_run", "execute",
                                          "upload_file"}), names)

    def test_anthropic(self):
        """The same over Anthropic's Messages API."""
        result = self.result("run", "--model", "anthropic/claude-3-5-haiku-latest", "Find the data quality issues in ./data")
        self.assertEqual(set(result["response"].splitlines()[1:]), set(ISSUES))
        self.assertEqual({entry["path"] for entry in self.server.requests()}, {"/v1/messages"})
        self.assertGreater(result["total_cost_usd"], 0)

    def test_no_secret_in_a_request(self):
        """Neither code nor files bring a key into what the model reads."""
        self.write(".env", f"OPENAI_API_KEY={KEY}\nSNIPARA_API_KEY=snp-{KEY}\n")
        self.write("spy.mjs", """
const code = `import os
print(dict(os.environ))
for name in (".env", "data/../.env", "/proc/self/environ"):
    try:
        print(tools.file_read(path=name))
    except Exception as error:
        print(type(error).__name__)`;
export const answer = (request, { turn }) => (turn === 0 ? { toolCalls: [
  { name: "execute_python", arguments: { code } }, { name: "file_read", arguments: { path: ".env" } },
  { name: "list_files", arguments: { path: ".", recursive: true } } ] } : { content: "done" });
""")
        self.model(self.project / "spy.mjs")
        self.result("run", "go")
        bodies = json.dumps([entry["body"] for entry in self.requests()])
        self.assertIn("ToolError", bodies)
        self.assertNotIn(KEY, bodies)

    def test_no_sub_calls(self):
        self.result("run", "--no-sub-calls", "Find the issues")
        names = {tool["function"]["name"] for tool in self.requests()[0]["body"]["tools"]}
        self.assertTrue(names.isdisjoint({"snipara_sub_complete", "snipara_batch_complete"}), names)

    def test_model_tools(self):
        result = self.result("run", "--set", "model_tools=execute_python", "Find the issues")
        names = [tool["function"]["name"] for tool in self.requests()[0]["body"]["tools"]]
        self.assertEqual(names, ["execute_python", "FINAL", "FINAL_VAR"])  # the answer is no matter of permission
        turn = next(line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "completion")
        self.assertTrue(turn["tool_results"][0]["is_error"])

    def test_model_tools_without_code(self):
        result = self.result("run", "--set", "model_tools=file_read", "Find the issues")
        names = [tool["function"]["name"] for tool in self.requests()[0]["body"]["tools"]]
        self.assertEqual(names, ["file_read", "FINAL", "FINAL_VAR"])
        turn = next(line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "completion")
        self.assertTrue(all(line["is_error"] for line in turn["tool_results"]), turn)
        self.assertEqual([line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "execution"],
                         [])

    def test_code_tools(self):
        result = self.result("run", "--set", "code_tools=snipara_*", "Find the issues")
        execution = next(line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "execution")
        self.assertEqual(execution["end"], "error")
        self.assertIn("file_read", execution["response"])

    def test_code_mode_off(self):
        result = self.result("run", "--set", "code_mode=off", "Find the issues")
        execution = next(line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "execution")
        self.assertEqual(execution["end"], "error")

    def test_terminal(self):
        terminal = Terminal(self, "run", "Find the data quality issues in ./data", **self.variables)
        terminal.expect("Let me see what is there")
        terminal.expect("✓.*list_files")
        terminal.expect("✓.*execute_python")
        terminal.expect("Found 3 issues")
        terminal.expect(r"model calls\S* +3")
        terminal.expect(r"\$0\.\d+")
        self.assertEqual(terminal.exit_code(), 0)

    def test_validated(self):
        check = "assert len(answer.splitlines()) == 4, 'there must be three issues'"
        self.assertIs(self.result("run", "--check", check, "Find the issues")["validated"], True)

    def test_not_validated(self):
        result = self.result("run", "--check", "assert False, 'never good enough'", "Find the issues", code=1)
        self.assertEqual((result["validated"], result["success"]), (False, False))
        self.assertIn("Found 3 issues", result["response"])
        self.assertTrue(any("never good enough" in json.dumps(entry["body"]["messages"])
                            for entry in self.requests()))


class Limits(RunCase):
    """Each ends the run with its name, and with what was reached."""

    def check(self, end, *args, code=1):
        result = self.result("run", *args, "go", code=code)
        self.assertEqual((result["end"], result["success"]), (end, False), result)
        self.assertTrue(result["response"], result)
        self.assertTrue(result["error"], result)
        return result

    def test_calls(self):
        self.model("turns", 50)
        self.assertEqual(self.check("max_subcalls", "--max-calls", "3")["total_calls"], 3)

    def test_tokens(self):
        self.model("turns", 50)
        self.check("token_budget", "--max-calls", "1000", "--token-budget", "6000")

    def test_tools(self):
        self.model("turns", 50)
        result = self.check("tool_budget", "--max-calls", "1000", "--token-budget", "1000000", "--tool-budget", "4")
        self.assertEqual(result["total_tool_calls"], 4)

    def test_cost(self):
        self.model("turns", 50)
        result = self.check("cost_limit", "--max-calls", "1000", "--token-budget", "1000000", "--set", "tool_budget=1000",
                            "--cost-limit", "0.0015", "--model", "openai/gpt-4o")
        self.assertLess(result["total_cost_usd"], 0.1)

    def test_time(self):
        self.write("slow.mjs", "export async function answer() { await new Promise(() => {}); }\n")
        self.model(self.project / "slow.mjs")
        result = self.result("run", "--timeout", "500ms", "go", code=4)
        self.assertEqual(result["end"], "timeout")

    def test_hard_limits(self):
        self.model("turns", 0)
        done = self.command("run", "--timeout", "2h", "--cost-limit", "1000", "--max-depth", "50", "go")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall("hard limit", done.stderr)), 3, done.stderr)
        self.fails(2, "run", "--set", "cost_limit=100", "go", says="cost_limit")

    def test_unknown_price(self):
        self.model("turns", 1)
        result = self.result("run", "--model", "openai/no-such-model-1", "go")
        self.assertIsNone(result["total_cost_usd"])


class Failures(RunCase):
    def test_no_key(self):
        done = self.run_cli("run", "go", env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        for part in ("OPENAI_API_KEY", "mcp-serve"):
            self.assertIn(part, done.stderr)

    def test_no_key_json(self):
        done = self.run_cli("run", "--json", "go", env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
        result = json.loads(done.stdout)
        self.assertIs(result["success"], False)
        self.assertIn("OPENAI_API_KEY", result["error"] + result.get("hint", ""))

    def test_server_error(self):
        self.write("broken.mjs", "export const answer = () => ({ error: { message: 'out of order' }, status: 400 });\n")
        self.model(self.project / "broken.mjs")
        result = self.result("run", "go", code=1)
        self.assertEqual(result["end"], "error")
        self.assertIn("out of order", result["error"])

    def test_usage(self):
        self.fails(2, "run", says="no prompt")
        self.fails(2, "run", "a", "b", says="too many")
        self.fails(2, "run", "--max-depth", "0", "go", says="--max-depth")
        self.fails(2, "run", "--var", "x", "go", says="--var")
        self.fails(2, "run", "--var", "x=/no/such/file", "go", says="/no/such/file")
        self.fails(2, "run", "--check", "nosuch.py", "go", says="nosuch.py")
        self.fails(2, "run", "--resume", "ffffffff", says="ffffffff")
        self.fails(2, "run", "--env", "nosuch", "go", says="nosuch")
        self.fails(2, "run", "--backend", "nosuch", "go", says="nosuch")
        self.fails(2, "run", "   ", says="empty")

    def test_show_config(self):
        done = self.ok("run", "--show-config", "--model", "anthropic/claude-x")
        self.assertRegex(done.stdout, r"model +anthropic/claude-x +command line")
        self.assertRegex(done.stdout, r"token_budget +8000 +default")

    def test_hostile_answers(self):
        """Tool calls that make no sense get an error each, and the run goes on."""
        self.write("hostile.mjs", """
const calls = [
  { name: "no_such_tool", arguments: "{}" }, { name: "execute_python", arguments: "{not json" },
  { name: "execute_python", arguments: "[1]" }, { name: "execute_python", arguments: "{}" },
  { name: "execute_python", arguments: '{"code": "print(1)", "id": 1}' }, { name: "", arguments: "{}" },
  { name: "snipara_agent_run", arguments: '{"task": "x"}' },
  { name: "execute_python", arguments: '{"code": "print(41 + 1)"}' },
].map((call) => ({ ...call, id: "same" }));
export const answer = (request, { turn }) => (turn === 0 ? { toolCalls: calls } : { content: "done" });
""")
        self.model(self.project / "hostile.mjs")
        result = self.result("run", "go")
        turn = next(line for line in self.trajectory(result["trajectory_id"]) if line.get("event") == "completion")
        self.assertEqual([item["is_error"] for item in turn["tool_results"]], [True] * 7 + [False])
        self.assertIn("42", turn["tool_results"][-1]["content"])
        messages = self.requests()[-1]["body"]["messages"]
        ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        self.assertEqual(len(ids), len(set(ids)))

    def test_interrupt(self):
        asked = self.project / "asked"
        self.write("slow.mjs", "import { writeFileSync } from 'node:fs';\nexport async function answer(request, { argument }) {"
                   " writeFileSync(argument, ''); await new Promise(() => {}); }\n")
        self.model(self.project / "slow.mjs", asked)
        process = self.popen("run", "go")
        self.addCleanup(process.kill)
        while not asked.exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(output, "")
        self.assertRegex(errors, "--resume [0-9a-f]{8}")

    def test_interrupt_during_code(self):
        code = "open('/workspace/here', 'w').close()\\nwhile True: pass"
        self.write("loop.mjs", "export const answer = () => ({ toolCalls: [{ name: 'execute_python', arguments: "
                   f"{{ code: \"{code}\" }} }}] }});\n")
        self.model(self.project / "loop.mjs")
        process = self.popen("run", "--events", "go")
        self.addCleanup(process.kill)
        for line in process.stderr:
            if json.loads(line).get("event") == "tool_begin":
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)


class Resume(RunCase):
    def start_and_wait(self, signal_number):
        """Stops a run while it waits for its third answer, and returns its id."""
        waits = self.project / "waits"
        waits.touch()
        self.write("waits.mjs", """
import { existsSync, rmSync } from "node:fs";
export async function answer(request, { turn, argument }) {
  if (turn === 2 && existsSync(argument)) { rmSync(argument); await new Promise(() => {}); }
  return turn < 4 ? { toolCalls: [{ name: "execute_python", arguments: {
    code: `total = globals().get("total", 0) + ${turn + 1}; total` } }] } : { content: "the answer" };
}
""")
        self.model(self.project / "waits.mjs", waits)
        process = self.popen("run", "--events", "--var", "text=waits.mjs", "go")
        self.addCleanup(process.kill)
        run_id = json.loads(process.stderr.readline())["trajectory_id"]
        while waits.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal_number)
        process.communicate(timeout=60)
        self.assertEqual(len(self.requests()), 2)
        return run_id

    def need_store(self):
        done = self.run_cli("sessions", "list")
        if "does not exist" in done.stderr:
            skip(f"no store here: {done.stderr.strip()}")

    def check(self, signal_number):
        run_id = self.start_and_wait(signal_number)
        result = self.result("run", "--resume", run_id[:8])
        self.assertEqual((result["trajectory_id"], result["response"], result["total_calls"], result["total_tool_calls"]),
                         (run_id, "the answer", 5, 4))
        self.assertEqual(len(self.requests()), 5)  # the two answers before the stop were not asked for again
        self.assertIn("10", self.requests()[-1]["body"]["messages"][-1]["content"])  # 1 + 2 + 3 + 4: variables were there
        self.assertTrue(result["notices"])
        self.ok("logs", "verify", run_id)
        done = self.command("run", "--resume", run_id)
        self.assertEqual((done.returncode, done.stdout), (0, "the answer\n"))
        self.assertIn("ended", done.stderr)

    def test_after_a_kill(self):
        self.check(signal.SIGKILL)

    def test_after_ctrl_c(self):
        self.check(signal.SIGINT)

    def test_variables_come_from_the_store(self):
        """What was drawn at random in the first life is there in the second: no code ran again."""
        self.need_store()
        waits = self.project / "waits"
        waits.touch()
        self.write("waits.mjs", """
import { existsSync, rmSync } from "node:fs";
export async function answer(request, { turn, argument }) {
  if (turn === 2 && existsSync(argument)) { rmSync(argument); await new Promise(() => {}); }
  const code = ["import secrets; token = secrets.token_hex(8); token", "times = globals().get('times', 0) + 1; token",
                "print(token, times)"][turn];
  return turn < 3 ? { toolCalls: [{ name: "execute_python", arguments: { code } }] } : { content: "the answer" };
}
""")
        for number in (signal.SIGKILL, signal.SIGINT):
            waits.touch()
            self.model(self.project / "waits.mjs", waits)
            process = self.popen("run", "--events", "go")
            self.addCleanup(process.kill)
            run_id = json.loads(process.stderr.readline())["trajectory_id"]
            while waits.exists() and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(number)
            process.communicate(timeout=60)
            token = self.requests()[-1]["body"]["messages"][-1]["content"].strip("'")
            self.assertRegex(token, "^[0-9a-f]{16}$")
            stored = json.loads(self.ok("sessions", "list", "--json", "--principal", f"run:{run_id}").stdout)
            self.assertEqual([session["id"] for session in stored], ["default"])
            result = self.result("run", "--resume", run_id)
            self.assertEqual(result["response"], "the answer")
            last = self.requests()[-1]["body"]["messages"][-1]["content"]
            self.assertEqual(last.splitlines()[-1], f"{token} 1")
            self.assertTrue(any("goes on from what was stored" in notice for notice in result["notices"]), result["notices"])
            self.assertFalse(any("executions again" in notice for notice in result["notices"]), result["notices"])
            stored = json.loads(self.ok("sessions", "list", "--json", "--all").stdout)
            self.assertEqual(stored, [])  # the run has its answer

    def test_without_what_was_stored(self):
        """Then its code runs again, and the result says so."""
        self.need_store()
        run_id = self.start_and_wait(signal.SIGKILL)
        self.ok("sessions", "delete", "--principal", f"run:{run_id}", "default")
        result = self.result("run", "--resume", run_id)
        self.assertIn("10", self.requests()[-1]["body"]["messages"][-1]["content"])
        self.assertTrue(any("no state of session 'default'" in notice for notice in result["notices"]), result["notices"])
        self.assertTrue(any("executions again" in notice for notice in result["notices"]), result["notices"])

    def test_a_run_that_goes_on_is_not_resumed_twice(self):
        waits = self.project / "asked"
        self.write("slow.mjs", "import { writeFileSync } from 'node:fs';\nexport async function answer(request, { argument }) {"
                   " writeFileSync(argument, ''); await new Promise(() => {}); }\n")
        self.model(self.project / "slow.mjs", waits)
        process = self.popen("run", "--events", "go")
        self.addCleanup(process.kill)
        run_id = json.loads(process.stderr.readline())["trajectory_id"]
        self.fails(2, "run", "--resume", run_id, says="another process", env=self.variables)
        process.kill()
        process.communicate()


class Always(RunCase):
    """code_mode = "always": code of plain executions calls back, within the budget of one completion."""

    def test_exec(self):
        self.model("steps", 1)
        code = "print(llm_query('square 7'), 'file_read' in dir(tools))"
        done = self.command("exec", "--set", "code_mode=always", "-c", code)
        self.assertEqual((done.returncode, done.stdout), (0, "49 True\n"), done.stderr)
        done = self.command("exec", "-c", code)
        self.assertEqual(done.returncode, 1)
        self.assertIn("code_mode", done.stderr)

    def test_budget(self):
        self.model("steps", 1)
        code = "for n in range(100): llm_query(f'square {n}')"
        done = self.command("exec", "--set", "code_mode=always", "-c", code)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(self.requests()), 5)

    def test_final_is_for_runs(self):
        done = self.command("exec", "--set", "code_mode=always", "-c", "FINAL('x')")
        self.assertEqual(done.returncode, 1)


class Recursive(RunCase):
    def test_document_of_10_megabytes(self):
        """examples/recursive: the document stays out of the model's context."""
        maker = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "recursive", "make-document.py")
        wanted = subprocess.run([sys.executable, maker, "report.txt"], cwd=self.project, capture_output=True, text=True,
                                check=True).stdout.split()
        self.assertGreaterEqual((self.project / "report.txt").stat().st_size, 10_000_000)
        self.model("recursive")
        result = self.result("run", "--var", "document=report.txt", "--max-calls", "80", "--max-sub-calls", "80",
                             "--token-budget", "8000000", "--timeout", "5m",
                             "Which contracts in the text in the variable document are of more than 1,000,000 EUR?")
        self.assertEqual(result["response"].split(), wanted)
        # The mock's record cuts bodies of more than 64 KB: those are the pieces, and none of the run's own.
        own = self.requests()
        pieces = [entry for entry in self.server.requests() if entry["body"].get("__aimock_truncated")]
        self.assertGreater(len(pieces), 40)
        self.assertTrue(all(entry["body"].get("tools") for entry in own))
        lines = self.trajectory(result["trajectory_id"])
        execution, = [line for line in lines if line.get("event") == "execution"]
        call, final = [line for line in lines if line.get("event") == "tool_call"]
        self.assertEqual((call["prompt"], final["prompt"]), ("llm_batch", "FINAL"))
        self.assertEqual(call["parent_call_id"], execution["call_id"])
        queries = [line for line in lines if line.get("sub_call_type") == "llm_batch"]
        self.assertEqual({line["parent_call_id"] for line in queries}, {call["call_id"]})
        self.assertEqual(len(queries), len(pieces))
        self.assertEqual(result["total_calls"], len(own) + len(pieces))

    def test_a_flood_of_calls_is_stopped(self):
        code = ("n = 0\\nwhile True:\\n    try:\\n        llm_query('again')\\n        n += 1\\n    except Exception as e:\\n"
                "        if n > 1000: break\\n")
        self.write("flood.mjs", "export const answer = (request, { prompt, turn }) => (prompt === 'again' ? { content: 'x' } : "
                   f"turn === 0 ? {{ toolCalls: [{{ name: 'execute_python', arguments: {{ code: \"{code}\" }} }}] }} : "
                   "{ content: 'done' });\n")
        self.model(self.project / "flood.mjs")
        result = json.loads(self.command("run", "--json", "--timeout", "60s", "go").stdout)
        self.assertLessEqual(len([entry for entry in self.requests() if not entry["body"].get("tools")]), 5)
        self.assertLessEqual(result["total_calls"], 12)


if __name__ == "__main__":
    main()
