# SPDX-License-Identifier: Apache-2.0
"""What events become: the tree of spans, their names, kinds, times and attributes, and what is left out."""
import json
import unittest
import uuid

import tap
from collector import Collector, Sink

RUN = "0193d7b2-4c5a-7e11-8a01-0123456789ab"
TRACE = RUN.replace("-", "")
SECRET = "the prompt that nobody else may read"


def call_id(number):
    return str(uuid.UUID(int=(0xABCDEF00 + number) << 96 | 8 << 76 | 2 << 62 | number))


def span_id(number):
    return call_id(number).replace("-", "")[:16]


def event(name, number=None, /, **members):
    made = {"trajectory_id": RUN, "event": name, "timestamp": "2026-11-21T03:00:10.250Z", "sequence": 1}
    if number is not None:
        made.update(call_id=call_id(number), parent_call_id=None, depth=0, prompt="", response=None, tool_calls=[],
                    tool_results=[], repl_results=[], input_tokens=0, output_tokens=0, duration_ms=0, error=None,
                    estimated_cost_usd=None)
    made.update(members)
    return made


def started(**members):
    return event("run_started", timestamp="2026-11-21T03:00:00Z", kind="agent", prompt=SECRET,
                 system="be brief " + SECRET, model="openai/gpt-4o-mini", provider="litellm", environment="local",
                 limits={}, version="2.2.7", **members)


def ended(**members):
    made = dict(end="ok", error=None, response=SECRET, total_calls=2, total_tokens=130, total_input_tokens=100,
                total_output_tokens=30, total_tool_calls=2, duration_ms=12000, total_cost_usd=0.0125, validated=True,
                iterations=1, timestamp="2026-11-21T03:00:12Z")
    made.update(members)
    return event("run_ended", **made)


def a_run():
    """A turn with an execution and a file_read; the execution's code called a tool, and asked a model."""
    yield started()
    yield event("tool_call", 3, parent_call_id=call_id(2), tool_calls=[{"id": "c0", "name": "file_read",
                                                                        "arguments": {"path": SECRET}}],
                tool_results=[{"tool_call_id": "c0", "content": SECRET, "is_error": False}], key="1.1.t0.c0",
                duration_ms=3)
    yield event("completion", 5, parent_call_id=call_id(4), depth=1, prompt=SECRET, response=SECRET,
                model="gpt-4o-mini", input_tokens=40, output_tokens=10, sub_call_type="llm_query", finish_reason="stop",
                key="1.1.t0.c1.q0.1.model", duration_ms=100, estimated_cost_usd=0.001)
    yield event("tool_call", 4, parent_call_id=call_id(2), tool_calls=[{"id": "c1", "name": "llm_query",
                                                                        "arguments": {"prompt": SECRET}}],
                tool_results=[{"tool_call_id": "c1", "content": SECRET, "is_error": False}], key="1.1.t0.c1",
                duration_ms=110)
    yield event("execution", 2, parent_call_id=call_id(1), prompt=f"print('{SECRET}')", response=SECRET,
                repl_results=[{"output": SECRET, "error": None, "execution_time_ms": 200, "truncated": False,
                               "memory_peak_bytes": 2 ** 40, "cpu_time_ms": 12}],
                session_id="default", end="ok", state="kept", isolation="full", profile="default", key="1.1.t0",
                output_sha256="0" * 64, duration_ms=200)
    yield event("completion", 1, prompt=SECRET, response=None, model="gpt-4o-mini", finish_reason="tool_calls",
                tool_calls=[{"id": "t0", "name": "execute_python", "arguments": {"code": SECRET}},
                            {"id": "t1", "name": "file_read", "arguments": {"path": SECRET}},
                            {"id": "t2", "name": "list_files", "arguments": {}}],
                tool_results=[{"tool_call_id": "t0", "content": SECRET, "is_error": False},
                              {"tool_call_id": "t1", "content": SECRET, "is_error": True}],
                input_tokens=60, output_tokens=20, duration_ms=1500, key="1.1.model", estimated_cost_usd=0.0115)
    yield event("check", 6, prompt=SECRET, response=SECRET, passed=True, end="ok", duration_ms=40, key="1.check",
                repl_results=[{"output": SECRET, "error": None, "execution_time_ms": 40, "truncated": False,
                               "memory_peak_bytes": None, "cpu_time_ms": None}])
    yield ended()


class Case(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def export(self, events, *options):
        sink = Sink(f"--endpoint={self.collector.url}", *options)
        self.addCleanup(sink.close)
        for one in events:
            sink.done(one)
        sink.done("flush")
        self.assertEqual(sink.close(), "")
        return self.collector.spans

    def one(self, name):
        found = self.collector.named(name)
        self.assertEqual(len(found), 1, (name, [span["name"] for span in self.collector.spans]))
        return found[0]


class Tree(Case):
    def test_a_run_is_a_tree(self):
        spans = self.export(a_run())
        self.assertEqual({span["traceId"] for span in spans}, {TRACE})
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))
        root = self.one("invoke_agent snipara-sandbox")
        self.assertNotIn("parentSpanId", root)
        by_id = {span["spanId"]: span for span in spans}
        self.assertEqual({name: (by_id[parent]["name"] if parent else None) for name, parent in
                          ((span["name"] + str(span["attributes"].get("snipara_sandbox.depth", "")),
                            span.get("parentSpanId")) for span in spans if span["name"] != "execute_tool file_read")},
                         {"invoke_agent snipara-sandbox": None, "chat gpt-4o-mini0": "invoke_agent snipara-sandbox",
                          "execute_tool execute_python0": "chat gpt-4o-mini", "execute_tool llm_query0":
                          "execute_tool execute_python", "chat gpt-4o-mini1": "execute_tool llm_query",
                          "check0": "invoke_agent snipara-sandbox"})
        # One file_read of the code, one of the model.
        self.assertEqual(sorted(by_id[span["parentSpanId"]]["name"] for span in
                                self.collector.named("execute_tool file_read")),
                         ["chat gpt-4o-mini", "execute_tool execute_python"])
        # What has a call_id has its first digits: a trajectory's line leads to its span.
        self.assertEqual(self.one("execute_tool execute_python")["spanId"], span_id(2))
        # What was not run has no span.
        self.assertEqual(self.collector.named("execute_tool list_files"), [])

    def test_attributes(self):
        self.export(a_run())
        root = self.one("invoke_agent snipara-sandbox")
        self.assertEqual(root["kind"], 1)
        self.assertEqual(root["attributes"], {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "snipara-sandbox",
            "gen_ai.agent.version": "2.2.7", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.conversation.id": RUN, "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 30,
            "snipara_sandbox.run.kind": "agent", "snipara_sandbox.run.end": "ok", "snipara_sandbox.run.model_calls": 2,
            "snipara_sandbox.run.tool_calls": 2, "snipara_sandbox.run.iterations": 1,
            "snipara_sandbox.run.validated": True, "snipara_sandbox.environment": "local",
            "snipara_sandbox.cost_usd": 0.0125})
        chat = next(span for span in self.collector.named("chat gpt-4o-mini") if span["spanId"] == span_id(1))
        self.assertEqual(chat["kind"], 3)
        self.assertEqual(chat["attributes"], {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.model": "gpt-4o-mini", "gen_ai.conversation.id": RUN, "gen_ai.usage.input_tokens": 60,
            "gen_ai.usage.output_tokens": 20, "gen_ai.response.finish_reasons": ["tool_calls"],
            "snipara_sandbox.depth": 0, "snipara_sandbox.key": "1.1.model", "snipara_sandbox.cost_usd": 0.0115})
        execution = self.one("execute_tool execute_python")
        self.assertEqual(execution["kind"], 1)
        self.assertEqual(execution["attributes"], {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "execute_python",
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": RUN, "snipara_sandbox.depth": 0, "snipara_sandbox.key": "1.1.t0",
            "snipara_sandbox.execution.end": "ok", "snipara_sandbox.execution.state": "kept",
            "snipara_sandbox.session.id": "default", "snipara_sandbox.isolation": "full",
            "snipara_sandbox.profile": "default", "snipara_sandbox.execution.memory_peak_bytes": 2 ** 40,
            "snipara_sandbox.execution.cpu_time_ms": 12.0, "snipara_sandbox.execution.truncated": False})
        self.assertEqual(self.one("check")["attributes"]["snipara_sandbox.check.passed"], True)
        read = next(span for span in self.collector.named("execute_tool file_read")
                    if span["parentSpanId"] == span_id(1))
        self.assertEqual(read["attributes"]["gen_ai.tool.call.id"], "t1")
        self.assertEqual(read["status"], {"code": 2})
        self.assertEqual(read["attributes"]["error.type"], "tool_error")
        self.assertTrue(read["attributes"]["snipara_sandbox.duration_unknown"])

    def test_times(self):
        self.export(a_run())
        second = 1795230000  # 2026-11-21T03:00:00Z
        root = self.one("invoke_agent snipara-sandbox")
        self.assertEqual((root["startTimeUnixNano"], root["endTimeUnixNano"]),
                         (f"{second}000000000", f"{second + 12}000000000"))
        execution = self.one("execute_tool execute_python")
        self.assertEqual((execution["startTimeUnixNano"], execution["endTimeUnixNano"]),
                         (f"{second + 10}250000000", f"{second + 10}450000000"))
        call = self.one("execute_tool llm_query")
        self.assertEqual((call["startTimeUnixNano"], call["endTimeUnixNano"]),
                         (f"{second + 10}250000000", f"{second + 10}360000000"))

    def test_a_run_whose_beginning_was_not_seen(self):
        self.export([ended()])
        root = self.one("invoke_agent snipara-sandbox")
        self.assertEqual(int(root["endTimeUnixNano"]) - int(root["startTimeUnixNano"]), 12 * 10 ** 9)
        self.assertEqual(root["spanId"], self.root_of(started(), ended()))

    def root_of(self, *events):
        collector = Collector()
        try:
            sink = Sink(f"--endpoint={collector.url}")
            for one in events:
                sink.done(one)
            sink.close()
            return collector.named("invoke_agent snipara-sandbox")[0]["spanId"]
        finally:
            collector.close()

    def test_what_a_resumed_run_tells_again_is_sent_once(self):
        first = self.export(list(a_run()) + list(a_run()))
        self.assertEqual(len(first), 8)
        self.assertEqual(len({span["spanId"] for span in first}), 8)

    def test_two_runs_side_by_side(self):
        other = "00000000-0000-4000-8000-00000000000a"
        mixed = [started(), dict(started(), trajectory_id=other, model="claude-sonnet-4-5",
                                 timestamp="2026-11-21T03:00:05Z"),
                 ended(), dict(ended(), trajectory_id=other)]
        self.export(mixed)
        roots = {span["traceId"]: span for span in self.collector.spans}
        self.assertEqual(roots[TRACE]["attributes"]["gen_ai.request.model"], "gpt-4o-mini")
        self.assertEqual(roots[other.replace("-", "")]["attributes"]["gen_ai.provider.name"], "anthropic")


class Failures(Case):
    def test_ends(self):
        for end, failed in (("ok", False), ("timeout", True), ("cost_limit", True), ("cancelled", True)):
            with self.subTest(end):
                self.collector.spans.clear()
                self.export([started(), ended(end=end, error=None if end == "ok" else "what happened: " + SECRET)])
                root = self.one("invoke_agent snipara-sandbox")
                self.assertEqual(root.get("status"), {"code": 2} if failed else None)
                self.assertEqual(root["attributes"].get("error.type"), end if failed else None)

    def test_a_failed_call_and_a_failed_execution(self):
        self.export([event("completion", 1, error="no answer: " + SECRET, model="openai/gpt-4o"),
                     event("execution", 2, end="memory", error=SECRET),
                     event("execution", 3, repl_results=[{"output": "", "error": "ValueError: " + SECRET}])])
        self.assertEqual(self.one("chat gpt-4o")["attributes"]["error.type"], "_OTHER")
        failed = self.collector.named("execute_tool execute_python")
        self.assertEqual([span["attributes"]["error.type"] for span in failed], ["memory", "_OTHER"])
        self.assertTrue(all(span["status"] == {"code": 2} for span in self.collector.spans))
        self.assertNotIn(SECRET, json.dumps(self.collector.spans))


class Content(Case):
    def test_nothing_by_default(self):
        self.export(a_run())
        self.assertEqual(len(self.collector.spans), 8)
        for _, _, body in self.collector.requests:
            self.assertNotIn(SECRET, body.decode())

    def test_when_it_is_asked_for(self):
        self.export(a_run(), "--content=on")
        root = self.one("invoke_agent snipara-sandbox")["attributes"]
        self.assertEqual(json.loads(root["gen_ai.input.messages"]),
                         [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}])
        self.assertEqual(json.loads(root["gen_ai.system_instructions"]),
                         [{"type": "text", "content": "be brief " + SECRET}])
        self.assertEqual(json.loads(root["gen_ai.output.messages"]),
                         [{"role": "assistant", "parts": [{"type": "text", "content": SECRET}]}])
        chat = next(span for span in self.collector.named("chat gpt-4o-mini") if span["spanId"] == span_id(1))
        answer = json.loads(chat["attributes"]["gen_ai.output.messages"])[0]
        self.assertEqual(answer["finish_reason"], "tool_calls")
        self.assertEqual(answer["parts"][0], {"type": "tool_call", "id": "t0", "name": "execute_python",
                                              "arguments": {"code": SECRET}})
        execution = self.one("execute_tool execute_python")["attributes"]
        self.assertEqual(execution["gen_ai.tool.call.arguments"], f"print('{SECRET}')")
        self.assertEqual(execution["gen_ai.tool.call.result"], SECRET)

    def test_long_texts_are_cut_at_a_character(self):
        self.export([event("execution", 1, prompt="ä" * 5000, response="x" * 5000, end="ok"),
                     event("completion", 2, prompt="é\u0000" * 5000, response="r" * 5000, model="m",
                           tool_calls=[{"id": str(i), "name": "t", "arguments": {"a": "ü" * 5000}} for i in range(9)])],
                    "--content=on", "--content_max=1k")
        attributes = self.one("execute_tool execute_python")["attributes"]
        self.assertEqual(attributes["gen_ai.tool.call.arguments"], "ä" * 510 + "…")
        self.assertEqual(attributes["gen_ai.tool.call.result"], "x" * 1021 + "…")
        attributes = self.one("chat m")["attributes"]
        self.assertLess(sum(len(str(value).encode()) for value in attributes.values()), 16 * 1024)
        self.assertEqual(len(json.loads(attributes["gen_ai.output.messages"])[0]["parts"]), 10)


class Others(Case):
    def test_calls_outside_of_runs_are_traces_of_their_own(self):
        lone = {"trajectory_id": "5" * 32, "event": "tool_call", "timestamp": "2026-11-21T03:00:10.250Z",
                "tool": "execute_python", "principal": "", "session_id": "s", "arguments_sha256": "0" * 64,
                "arguments_bytes": 9, "is_error": True, "call_ms": 12.5, "end": "timeout", "cpu_ms": 3.25,
                "memory_peak_bytes": 4096}
        self.export([dict(lone, sequence=1), dict(lone, sequence=2), dict(lone, sequence=3, event="events_dropped")])
        spans = self.collector.named("execute_tool execute_python")
        self.assertEqual(len(self.collector.spans), 2)
        self.assertEqual(len({span["traceId"] for span in spans}), 2)
        self.assertNotIn("parentSpanId", spans[0])
        self.assertEqual(int(spans[0]["endTimeUnixNano"]) - int(spans[0]["startTimeUnixNano"]), 12500000)
        self.assertEqual(spans[0]["attributes"]["error.type"], "timeout")
        self.assertEqual(spans[0]["attributes"]["snipara_sandbox.execution.cpu_time_ms"], 3.25)

    def test_providers(self):
        names = {"openai/gpt-4o": ("openai", "gpt-4o"), "gpt-4o": ("openai", "gpt-4o"),
                 "xai/grok-4": ("x_ai", "grok-4"),
                 "anthropic/claude-sonnet-4-5": ("anthropic", "claude-sonnet-4-5"),
                 "azure/mine": ("azure.ai.openai", "mine"), "gemini/gemini-2.5-pro": ("gcp.gemini", "gemini-2.5-pro"),
                 "openrouter/meta/llama": ("openrouter", "meta/llama"), "my-model": ("_OTHER", "my-model"),
                 "p" * 80 + "/m": ("_OTHER", "p" * 80 + "/m")}
        self.export([event("completion", number, model=name) for number, name in enumerate(names, 1)])
        self.assertEqual([(span["attributes"]["gen_ai.provider.name"], span["attributes"]["gen_ai.request.model"])
                          for span in self.collector.spans], list(names.values()))

    def test_events_of_any_quality(self):
        sink = Sink(f"--endpoint={self.collector.url}")
        self.addCleanup(sink.close)
        for broken in ("{}", '{"trajectory_id": 7}', '{"trajectory_id": ""}', '{"a": 1',
                       '{"trajectory_id": "a", "event"}',
                       '{"trajectory_id": "a", "trajectory_id": "b"}', "{" + "[" * 5000):
            self.assertEqual(sink.send(broken)[0], -74, broken)  # EBADMSG
        for odd in ({"event": "completion"}, {"event": 7}, {"event": "future_kind", "call_id": "x"}, {},
                    {"event": "completion", "call_id": "x", "model": 5, "tool_calls": "no", "duration_ms": "long",
                     "timestamp": "yesterday", "prompt": [], "parent_call_id": 9, "input_tokens": "many"},
                    {"event": "execution", "call_id": "", "repl_results": [7], "end": [], "duration_ms": -5},
                    {"event": "tool_call", "call_id": "y", "tool_calls": [[]], "tool_results": {}, "key": ".t"},
                    {"event": "completion", "call_id": "z", "duration_ms": 1e300, "timestamp": "2026-02-31T00:00:00Z",
                     "tool_calls": [5, {"id": "q"}], "tool_results": [5, {"tool_call_id": "q", "content": []}]},
                    {"event": "run_started", "model": "/", "provider": "x" * 500},
                    {"event": "run_ended", "end": "ü" * 5000, "total_calls": 1.5, "validated": None}):
            sink.done(dict(odd, trajectory_id="not a uuid"))
        sink.done("flush")
        self.assertEqual(sink.close(), "")
        self.assertGreaterEqual(len(self.collector.spans), 6)
        self.assertEqual(len({span["traceId"] for span in self.collector.spans}), 1)

    def test_more_runs_and_spans_than_are_remembered(self):
        def many():
            for number in range(600):
                yield dict(started(), trajectory_id=str(uuid.UUID(int=number + 1)))
            for number in range(599, -1, -1):
                yield dict(ended(), trajectory_id=str(uuid.UUID(int=number + 1)))
        self.export(many(), "--queue_size=4096")
        self.assertEqual(len(self.collector.spans), 600)
        known = [span for span in self.collector.spans if "gen_ai.request.model" in span["attributes"]]
        self.assertEqual(len(known), 256)


if __name__ == "__main__":
    tap.main(__name__)
