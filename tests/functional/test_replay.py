#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run against llm-replay: from a trajectory made by hand, and again from the one that it left; and its spans."""
import collections
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from cli_case import ROOT, Sandboxed  # noqa: E402

sys.path.insert(0, str(ROOT / "plugins/sink-otlp/tests"))
from collector import Collector  # noqa: E402

RUN = "0193d7b2-4c5a-7e11-8a01-0123456789ab"
KEY = "secret-key-0123456789"


def call_id(number):
    return f"{number:08x}-0000-4000-8000-000000000001"


def call(number, key, prompt, response, tool_calls=(), parent=None):
    return {"trajectory_id": RUN, "call_id": call_id(number), "parent_call_id": call_id(parent) if parent else None,
            "depth": 1 if parent else 0, "prompt": prompt, "response": response, "tool_calls": list(tool_calls),
            "tool_results": [],
            "repl_results": [], "input_tokens": 10, "output_tokens": 5, "duration_ms": 1, "error": None,
            "timestamp": "2026-11-21T03:00:00Z", "estimated_cost_usd": 0.001, "event": "completion", "key": key,
            "model": "gpt-4o-mini", "finish_reason": "tool_calls" if tool_calls else "stop"}


RECORDING = [
    {"_type": "trajectory_metadata", "trajectory_id": RUN, "timestamp": "2026-11-21T03:00:00Z", "event_count": 0,
     "total_tokens": 0, "total_duration_ms": 0},
    call(2, "1.1.t0.c0.q0.1.model", "say hi", "hi one", parent=1),
    call(3, "1.1.t0.c1.q0.1.model", "say hi", "hi two", parent=1),
    call(1, "1.1.model", "What is 6 times 7?", "Let me compute.", [
        {"id": "call_1", "name": "execute_python",
         "arguments": {"code": "print(llm_query('say hi'))\nprint(llm_query('say hi'))\nprint(6 * 7)"}}]),
    call(4, "1.2.model", "hi one\nhi two\n42\n", "It is 42."),
]


class Replay(Sandboxed):
    def setUp(self):
        super().setUp()
        self.write("recorded.jsonl", "".join(json.dumps(line) + "\n" for line in RECORDING))
        self.configure('file = "recorded.jsonl"')

    def configure(self, recording, more=""):
        self.write("snipara-sandbox.cfg", f"""backend = "replay";
plugins = ( {{ name = "replay"; plugin = "llm-replay"; {recording}; }}{more} );
""")

    def trajectories(self):
        return sorted((self.project / "logs").glob("*.jsonl"), key=os.path.getmtime)

    def answers(self, path):
        events = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
        return [(event["prompt"], event["response"], event["estimated_cost_usd"]) for event in events
                if event.get("event") == "completion"]

    def test_a_run_and_the_same_again_from_what_it_left(self):
        first = self.ok("run", "What is 6 times 7?")
        self.assertIn("It is 42.", first.stdout)
        recorded = self.trajectories()[-1]
        self.configure(f'trajectory = "{recorded.stem}"')
        second = self.ok("run", "What is 6 times 7?")
        self.assertEqual(first.stdout, second.stdout)
        self.assertEqual(len(self.trajectories()), 2)
        self.assertEqual(len(self.answers(recorded)), 4)
        self.assertEqual(self.answers(self.trajectories()[-1]), self.answers(recorded))

    def test_another_prompt(self):
        done = self.run_cli("run", "What is 6 times 8?")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('has no answer to "What is 6 times 8?"; next it has "What is 6 times 7?"', done.stderr)
        self.configure('file = "recorded.jsonl"; match = "order"')
        self.assertIn("It is 42.", self.ok("run", "What is 6 times 8?").stdout)

    def check_spans(self, events):
        collector = Collector()
        self.addCleanup(collector.close)
        self.configure('file = "recorded.jsonl"', f""",
  {{ name = "otlp"; plugin = "sink-otlp"; events = "{events}"; headers = [ "Authorization: Bearer {KEY}" ]; }}""")
        done = self.ok("run", "What is 6 times 7?", env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        self.assertNotIn(KEY, done.stdout + done.stderr)
        self.assertEqual({request[1]["Authorization"] for request in collector.requests}, {f"Bearer {KEY}"})
        by_id = {span["spanId"]: span["name"] for span in collector.spans}
        edges = collections.Counter((span["name"], by_id.get(span.get("parentSpanId"))) for span in collector.spans)
        self.assertEqual(edges, {
            ("invoke_agent snipara-sandbox", None): 1, ("chat gpt-4o-mini", "invoke_agent snipara-sandbox"): 2,
            ("execute_tool execute_python", "chat gpt-4o-mini"): 1,
            ("execute_tool llm_query", "execute_tool execute_python"): 2,
            ("chat gpt-4o-mini", "execute_tool llm_query"): 2})
        for _, _, body in collector.requests:
            self.assertNotIn("say hi", body.decode())
        run = self.trajectories()[-1].stem
        self.assertEqual({span["traceId"] for span in collector.spans}, {run.replace("-", "")})

    def test_its_spans(self):
        self.check_spans("runs")

    def test_no_span_twice_for_a_sink_of_all_events(self):
        self.check_spans("all")


tap.main(__name__)
