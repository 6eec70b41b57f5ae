#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents over MCP: with the client's own model (sampling), within a call and as a task, in both eras; and what one client
may see of another's."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from cli_case import PROGRAM, Sandboxed, environment, finish  # noqa: E402
from mcp_client import Server  # noqa: E402
from tap import main  # noqa: E402

META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
CODE = "I compute.\n```python\nprint(6 * 7)\n```\n"
PATIENCE = 60  # seconds; only reached when something is wrong


def answer(text):
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "their-model", "stopReason": "endTurn"}


def modern(**capabilities):
    return {META + "protocolVersion": "2026-07-28", META + "clientInfo": {"name": "test", "version": "1"},
            META + "clientCapabilities": capabilities}


class AgentCase(Sandboxed):
    def environment(self):
        """Without the key of any provider."""
        kept = environment(self.home)
        return {name: value for name, value in kept.items() if not re.search(r"API_KEY|API_BASE|_BASE_URL|TOKEN", name)}

    def server(self, *arguments):
        server = Server([PROGRAM, "mcp-serve", *arguments], env=self.environment(), cwd=self.project)
        self.addCleanup(server.__exit__)
        return server

    def legacy(self, capabilities):
        server = self.server()
        server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                  "clientInfo": {"name": "test", "version": "1"}})
        server.notify("notifications/initialized")
        return server

    def response(self, server, request_id, answers=(), seen=None):
        """The response to a request; what the server asks meanwhile is answered from `answers`."""
        answers = list(answers)
        while True:
            message = server.message()
            if seen is not None:
                seen.append(message)
            if message.get("method") == "sampling/createMessage":
                said = answers.pop(0)
                server.send({"jsonrpc": "2.0", "id": message["id"],
                             **(said if isinstance(said, dict) else {"result": answer(said)})})
            elif message.get("id") == request_id and "method" not in message:
                return message

    def completed(self, result, text="42"):
        """The result of a run that ended well."""
        self.assertFalse(result.get("isError"), result)
        facts = result["structuredContent"]
        self.assertEqual(json.loads(result["content"][0]["text"]), facts)
        self.assertEqual((facts["status"], facts["result"]["answer"], facts["result"]["provider"], facts["result"]["model"]),
                         ("completed", text, "sampling", "their-model"))
        self.assertIsNone(facts["result"]["total_cost_usd"])
        self.assertEqual(result["_meta"]["run_id"], facts["run_id"])
        return facts


class Legacy(AgentCase):
    def test_sampling(self):
        server, seen = self.legacy({"sampling": {}}), []
        request_id = server.request("tools/call", {"name": "snipara_agent_run", "_meta": {"progressToken": "p"},
                                                   "arguments": {"task": "What is 6 * 7?", "max_iterations": 3}})
        facts = self.completed(self.response(server, request_id, [CODE, "FINAL: 42"], seen)["result"])
        asked = [message["params"] for message in seen if message.get("method") == "sampling/createMessage"]
        self.assertEqual(len(asked), 2)
        self.assertNotIn("tools", asked[0])
        self.assertIn("```python", asked[0]["systemPrompt"])
        self.assertEqual(asked[1]["messages"][-1]["content"]["text"], "What came of it:\n42\n")
        told = [message["params"] for message in seen if message.get("method") == "notifications/progress"]
        counted = [progress["progress"] for progress in told]
        self.assertEqual(counted, sorted(set(counted)))
        self.assertTrue(all(progress["message"].startswith("iteration 1 of 3: ") for progress in told), told)
        status = server.call("snipara_agent_status", {"run_id": facts["run_id"]})["structuredContent"]
        self.assertEqual(status["result"]["answer"], "42")
        # It has a journal, as every run has.
        server.close_input()
        server.wait()
        done = subprocess.run([PROGRAM, "logs", "--json"], cwd=self.project, env=self.environment(), capture_output=True,
                              check=False)
        self.assertIn(facts["run_id"].encode(), done.stdout)

    def test_refused(self):
        server = self.legacy({"sampling": {}})
        request_id = server.start_call("snipara_agent_run", {"task": "What is 6 * 7?"})
        result = self.response(server, request_id,
                               [{"error": {"code": -1, "message": "User rejected sampling request"}}])["result"]
        self.assertTrue(result["isError"])
        self.assertIn("User rejected sampling request", result["structuredContent"]["error"])

    def test_junk(self):
        server = self.legacy({"sampling": {}})
        request_id = server.start_call("snipara_agent_run", {"task": "What is 6 * 7?"})
        result = self.response(server, request_id, ["Hello.", "42", "It is 42, final."])["result"]
        self.assertTrue(result["isError"])
        self.assertIn("does not keep to the form", result["structuredContent"]["error"])

    def test_strange_answers(self):
        for strange in ({"result": {}}, {"result": {"content": 7}}, {"result": []}, {"result": "FINAL: 42"},
                        {"result": {"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}}):
            server = self.legacy({"sampling": {}})
            request_id = server.start_call("snipara_agent_run", {"task": "What is 6 * 7?"})
            response = self.response(server, request_id, [strange])
            self.assertTrue(response["result"]["isError"], response)
            self.assertEqual(server.ask("ping")["result"], {})

    def test_without_a_model(self):
        server = self.legacy({})
        result = self.response(server, server.start_call("snipara_agent_run", {"task": "What is 6 * 7?"}))["result"]
        self.assertTrue(result["isError"])
        self.assertIn("API key", result["content"][0]["text"])

    def test_cancelled(self):
        server, seen = self.legacy({"sampling": {}}), []
        request_id = server.start_call("snipara_agent_run", {"task": "What is 6 * 7?"})
        while server.message().get("method") != "sampling/createMessage":
            pass
        server.notify("notifications/cancelled", {"requestId": request_id})
        ping = server.request("ping")
        self.response(server, ping, seen=seen)
        server.close_input()
        self.assertEqual(server.wait(), 0)
        self.assertNotIn(request_id, [message.get("id") for message in seen])


class Modern(AgentCase):
    def test_sampling(self):
        server = self.server()
        params = {"name": "snipara_agent_run", "arguments": {"task": "What is 6 * 7?"}, "_meta": modern(sampling={})}
        for number, text in enumerate([CODE, "FINAL: 42"], 1):
            result = self.response(server, server.request("tools/call", params))["result"]
            self.assertEqual((result["resultType"], list(result["inputRequests"])),
                             ("input_required", ["completion-%d" % number]))
            params = dict(params, requestState=result["requestState"],
                          inputResponses={"completion-%d" % number: answer(text)})
        self.completed(self.response(server, server.request("tools/call", params))["result"])

    def begin(self, server, meta):
        result = self.response(server, server.request("tools/call", {
            "name": "snipara_agent_run", "arguments": {"task": "What is 6 * 7?"}, "_meta": meta}))["result"]
        self.assertEqual(result["resultType"], "task", result)
        return result["taskId"]

    def state(self, server, meta, task, *states):
        """The task, once it is in one of the states."""
        deadline = time.monotonic() + PATIENCE
        while True:
            result = self.response(server, server.request("tasks/get", {"taskId": task, "_meta": meta}))["result"]
            if result["status"] in states:
                return result
            self.assertLess(time.monotonic(), deadline, result)
            time.sleep(0.01)

    def test_task(self):
        server, meta = self.server(), modern(sampling={}, extensions={TASKS: {}})
        task = self.begin(server, meta)
        for number, text in enumerate([CODE, "FINAL: 42"], 1):
            key = "completion-%d" % number
            while key not in self.state(server, meta, task, "input_required").get("inputRequests", {}):
                pass
            self.response(server, server.request("tasks/update", {"taskId": task, "_meta": meta,
                                                                  "inputResponses": {key: answer(text)}}))
        done = self.state(server, meta, task, "completed")
        self.completed(done["result"])
        self.assertTrue(done["statusMessage"].startswith("iteration 1 of 10: "), done["statusMessage"])

    def test_cancelled_task(self):
        server, meta = self.server(), modern(sampling={}, extensions={TASKS: {}})
        task = self.begin(server, meta)
        self.state(server, meta, task, "input_required")
        self.response(server, server.request("tasks/cancel", {"taskId": task, "_meta": meta}))
        self.state(server, meta, task, "cancelled")


class Principals(AgentCase):
    """Two clients with tokens of their own, at one server."""

    def setUp(self):
        super().setUp()
        self.project.joinpath("tokens").write_text("one secret-of-one-0123456789abcdef\ntwo secret-of-two-0123456789abcdef\n",
                                                   encoding="utf-8")
        self.project.joinpath("tokens").chmod(0o600)
        self.process = subprocess.Popen(
            [PROGRAM, "mcp-serve", "--http", "--listen", "127.0.0.1:0", "--token-file", str(self.project / "tokens"),
             "--set", "max_sessions_per_principal=2"],
            cwd=self.project, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(finish, self.process)
        self.address = self.process.stdout.readline().strip()
        self.assertRegex(self.address, r"^http://127\.0\.0\.1:\d+/mcp$")
        self.number = 0

    def http(self, path, principal=None, body=None, headers=None):
        url = self.address if path is None else self.address[:-len("/mcp")] + path
        given = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **(headers or {})}
        if principal:
            given["Authorization"] = "Bearer secret-of-%s-0123456789abcdef" % principal
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=given), timeout=PATIENCE) as reply:
            return reply.headers.get_content_type(), reply.read().decode()

    def ask(self, principal, method, params=None, **capabilities):
        self.number += 1
        params = dict(params or {}, _meta=modern(**capabilities))
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        for name in ("name", "uri", "taskId"):
            if name in params:
                headers["Mcp-Name"] = params[name]
        try:
            kind, text = self.http(None, principal, {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params},
                                   headers)
        except urllib.error.HTTPError as error:
            kind, text = error.headers.get_content_type(), error.read().decode()
        if kind == "text/event-stream":
            text = [line[len("data:"):] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
        return json.loads(text)

    def call(self, principal, tool, **arguments):
        return self.ask(principal, "tools/call", {"name": tool, "arguments": arguments})["result"]

    def text(self, result):
        return "\n".join(block.get("text", "") for block in result["content"])

    def test_sessions(self):
        self.assertIn("7", self.text(self.call("one", "execute_python", code="x = 7\nx", session_id="mine")))
        self.assertNotIn("mine", self.text(self.call("two", "list_sessions")))
        self.assertIn("mine", self.text(self.call("one", "list_sessions")))
        self.assertTrue(self.call("two", "destroy_session", session_id="mine")["isError"])
        self.assertEqual(self.text(self.call("two", "destroy_session", session_id="mine")),
                         self.text(self.call("two", "destroy_session", session_id="none")).replace("none", "mine"))
        self.assertIn("NameError", self.text(self.call("two", "execute_python", code="x", session_id="mine")))
        self.assertNotIn("'x'", self.text(self.call("two", "get_repl_context", session_id="mine")))
        self.call("two", "clear_repl_context", session_id="mine")
        self.assertFalse(self.call("two", "destroy_session", session_id="mine").get("isError"))  # its own of that name
        self.assertIn("7", self.text(self.call("one", "execute_python", code="x", session_id="mine")))

    def test_files_and_resources(self):
        self.assertFalse(self.call("one", "upload_file", path="a.txt", content="secret", session_id="mine").get("isError"))
        self.assertTrue(self.call("two", "download_file", path="a.txt", session_id="mine")["isError"])
        self.assertNotIn("a.txt", self.text(self.call("two", "list_files", path="", session_id="mine")))
        self.assertIn("secret", self.text(self.call("one", "download_file", path="a.txt", session_id="mine")))
        uri = "repl://mine/files/a.txt"
        self.call("two", "destroy_session", session_id="mine")
        others, none = (self.ask("two", "resources/read", {"uri": address}) for address in (uri, uri.replace("mine", "none")))
        self.assertEqual(json.dumps(others["error"]).replace("mine", "none"), json.dumps(none["error"]))
        self.assertNotIn("mine", json.dumps(self.ask("two", "resources/list")["result"]))
        self.assertIn("secret", json.dumps(self.ask("one", "resources/read", {"uri": uri})["result"]))

    def test_a_limit_for_each(self):
        for name in ("a", "b"):
            self.assertFalse(self.call("one", "execute_python", code="1", session_id=name).get("isError"))
        refused = self.call("one", "execute_python", code="1", session_id="c")
        self.assertTrue(refused["isError"])
        self.assertIn("max_sessions_per_principal", self.text(refused))
        self.assertIn("destroy_session", self.text(refused))
        self.assertFalse(self.call("two", "execute_python", code="1", session_id="c").get("isError"))

    def test_runs(self):
        """A run of one, with its client's model: for another there is no such run, and no such question."""
        def run(principal, **more):
            return self.ask(principal, "tools/call", dict(more, name="snipara_agent_run", arguments={"task": "Say so."}),
                            sampling={})

        question = run("one")["result"]
        self.assertEqual(question["resultType"], "input_required")
        given = {"requestState": question["requestState"], "inputResponses": {"completion-1": answer("FINAL: so")}}
        self.assertEqual(run("two", **given)["error"]["code"], -32602)
        facts = self.completed_run(run("one", **given))
        self.assertEqual(run("one", **given)["error"]["code"], -32602)  # nor twice
        for tool in ("snipara_agent_status", "snipara_agent_cancel"):
            for run_id in (facts["run_id"], facts["run_id"][:8], "00000000-0000-4000-8000-000000000000", ""):
                result = self.call("two", tool, run_id=run_id)
                self.assertTrue(result["isError"], run_id)
            self.assertEqual(self.text(self.call("two", tool, run_id=facts["run_id"])).replace(facts["run_id"], "none"),
                             self.text(self.call("two", tool, run_id="none")))
        self.assertEqual(self.call("one", "snipara_agent_status", run_id=facts["run_id"])["structuredContent"]["status"],
                         "completed")

    def completed_run(self, response):
        facts = response["result"]["structuredContent"]
        self.assertEqual((facts["status"], facts["result"]["answer"]), ("completed", "so"))
        return facts

    def test_tasks(self):
        """A task of one: for another there is none."""
        extensions = {TASKS: {}}
        begun = self.ask("one", "tools/call", {"name": "snipara_agent_run", "arguments": {"task": "Say so."}}, sampling={},
                         extensions=extensions)["result"]
        self.assertEqual(begun["resultType"], "task")
        task = begun["taskId"]
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}),
                             ("tasks/update", {"inputResponses": {"completion-1": answer("FINAL: stolen")}})):
            refused = [self.ask("two", method, dict(more, taskId=name), extensions=extensions)["error"]
                       for name in (task, "0" * len(task))]
            self.assertEqual(json.dumps(refused[0]).replace(task, "0" * len(task)), json.dumps(refused[1]))
        self.assertIn(self.ask("one", "tasks/get", {"taskId": task}, extensions=extensions)["result"]["status"],
                      ("working", "input_required"))
        self.ask("one", "tasks/cancel", {"taskId": task}, extensions=extensions)

    def test_metrics(self):
        for code in ("1", "1/0", "print('x' * 100)"):
            self.call("one", "execute_python", code=code, session_id="m")
        self.ask("one", "tools/call", {"name": "no_such_tool"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.http("/metrics")
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        kind, text = self.http("/metrics", "two")
        self.assertEqual(kind, "text/plain")
        samples = parse_metrics(text)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        self.assertEqual(samples['snipara_sandbox_executions_total{end="ok"}'], 2)
        self.assertEqual(samples['snipara_sandbox_executions_total{end="error"}'], 1)
        self.assertEqual(samples["snipara_sandbox_execution_duration_seconds_count"], 3)
        self.assertEqual(samples["snipara_sandbox_sessions"], 1)
        self.assertEqual(samples["snipara_sandbox_principals"], 1)
        self.assertGreaterEqual(samples["snipara_sandbox_output_bytes_total"], 101)
        self.assertGreaterEqual(samples["snipara_sandbox_tool_refusals_total"], 1)
        self.assertEqual(samples["snipara_sandbox_pool_hits_total"] + samples["snipara_sandbox_pool_misses_total"], 1)
        for secret in ("secret-of", "token:", "print(", '"m"', "one"):
            self.assertNotIn(secret, re.sub("# .*", "", text))
        documented = (os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "metrics.md"))
        with open(documented, encoding="utf-8") as file:
            names = set(re.findall(r"^\| `(snipara_\w+)`", file.read(), re.M))
        self.assertEqual({name for name in re.findall(r"^# TYPE (\w+)", text, re.M)}, names)


def check_histogram(name, samples):
    """For each set of other labels: bounds and values rise, and the last is the count."""
    series = {}
    for key, value in samples.items():
        if key.startswith(name + "_bucket{"):
            bound = re.search(r',?le="([^"]+)"', key)
            labels = (key[:bound.start()] + key[bound.end():])[len(name + "_bucket"):]
            series.setdefault("" if labels == "{}" else labels, []).append((float(bound.group(1)), value))
    for labels, buckets in series.items():
        bounds, values = zip(*buckets)
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == float("inf"), (name, labels)
        assert list(values) == sorted(values) and values[-1] == samples[name + "_count" + labels], (name, labels)
        assert name + "_sum" + labels in samples, (name, labels)


def parse_metrics(text):
    """The samples of Prometheus' text format 0.0.4, as strict as a scraper may be; {sample: value}."""
    assert text.endswith("\n"), "the last line has no end"
    types, samples, family = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types and len(line.split(" ", 3)[3]) > 3, line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in ("counter", "gauge", "histogram"), line
            assert re.fullmatch(r"snipara_[a-z_]+", name) and (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
        else:
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})? ([0-9]+(?:\.[0-9]+)?)', line)
            assert match, line
            name = match.group(1)
            base = re.sub("_(bucket|sum|count)$", "", name) if types.get(family) == "histogram" else name
            assert base == family, line
            key = name + (match.group(2) or "")
            assert key not in samples, line
            samples[key] = float(match.group(3))
    for name in (name for name, kind in types.items() if kind == "histogram"):
        check_histogram(name, samples)
    return samples


if __name__ == "__main__":
    main()
