# SPDX-License-Identifier: Apache-2.0
"""Trajectory files for tests, made as sink-jsonl and snipara-sandbox 2.2.7 make them."""
import hashlib
import json
import uuid

START = "0" * 64


def sha256(text):
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def dumps(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def chained(events):
    """Lines as bytes, without newlines."""
    lines, prev = [], START
    for number, event in enumerate(events, 1):
        body = dumps(event)[:-1] + f',"line":{number},"prev":"{prev}"'
        line = f'{body},"sum":"{sha256(body)}"}}'.encode()
        prev = sha256(line)
        lines.append(line)
    return lines


class Run:
    """The events of a run, as core/agent makes them."""

    def __init__(self, run_id=None, **header):
        self.id = run_id or str(uuid.uuid4())
        self.count = 0
        self.events = [dict({"_type": "trajectory_metadata", "trajectory_id": self.id, "event": "run_started",
                             "timestamp": "2026-01-02T03:04:05.678Z", "kind": "completion", "prompt": "What is in it?",
                             "model": "openai/gpt-4o-mini", "environment": "local", "event_count": 0,
                             "total_tokens": 0, "total_duration_ms": 0}, **header)]

    def new_id(self):
        self.count += 1
        return str(uuid.uuid5(uuid.UUID(self.id), str(self.count)))

    def add(self, event, parent=None, call_id=None, **members):
        call_id = call_id or self.new_id()
        self.events.append(dict({
            "trajectory_id": self.id, "event": event, "call_id": call_id, "parent_call_id": parent, "depth": 0,
            "prompt": "", "response": None, "tool_calls": [], "tool_results": [], "repl_results": [],
            "input_tokens": 0, "output_tokens": 0, "duration_ms": 0, "error": None,
            "timestamp": "2026-01-02T03:04:06.000Z", "estimated_cost_usd": None}, **members))
        return call_id

    def completion(self, response="", call_id=None, parent=None, **members):
        members = dict({"input_tokens": 100, "output_tokens": 20, "duration_ms": 850, "estimated_cost_usd": 0.0012,
                        "model": "openai/gpt-4o-mini", "finish_reason": "stop"}, **members)
        return self.add("completion", parent, call_id, response=response, **members)

    def execution(self, code, output, parent=None, call_id=None, end="ok", event="execution", **members):
        members = dict({"prompt": code, "session_id": "default", "state": "kept", "isolation": "namespaces", "profile": "default",
                        "output_sha256": sha256(output), "duration_ms": 3,
                        "repl_results": [{"output": output, "error": None, "execution_time_ms": 2}]}, **members)
        return self.add(event, parent, call_id, response=output, end=end, **members)

    def tool_call(self, name, arguments, content, parent, is_error=False, call_id=None, **members):
        call_id = call_id or self.new_id()
        return self.add("tool_call", parent, call_id, prompt=name, response=content,
                        tool_calls=[{"id": call_id, "name": name, "arguments": arguments}],
                        tool_results=[{"tool_call_id": call_id, "content": content, "is_error": is_error}], **members)

    def end(self, end="ok", **members):
        self.events.append(dict({
            "_type": "trajectory_metadata", "trajectory_id": self.id, "event": "run_ended", "end": end, "error": None,
            "timestamp": "2026-01-02T03:04:09.000Z", "response": "There is a table.", "total_calls": 2,
            "total_tokens": 240, "total_input_tokens": 200, "total_output_tokens": 40, "total_tool_calls": 1,
            "duration_ms": 3210, "total_cost_usd": 0.0024, "event_count": self.count, "total_duration_ms": 3210},
            **members))
        return self

    def lines(self):
        return chained(self.events)

    def write(self, directory):
        directory.mkdir(exist_ok=True)
        path = directory / f"{self.id}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in self.lines()))
        return path


def write_old(directory, run_id=None, calls=2):
    """A file as snipara-sandbox 2.2.7 leaves it: totals in the first line, no chain, Python's spaces and timestamps."""
    run_id = run_id or str(uuid.uuid4())
    header = {"_type": "trajectory_metadata", "trajectory_id": run_id, "timestamp": "2025-05-06T07:08:09.123456+00:00",
              "event_count": calls, "total_tokens": 30 * calls, "total_duration_ms": 100 * calls}
    events = [{"trajectory_id": run_id, "call_id": str(uuid.uuid4()), "parent_call_id": None, "depth": 0,
               "prompt": f"old prompt {number}", "response": f"old answer {number}",
               "tool_calls": [{"id": "t1", "name": "execute_code", "arguments": {"code": "print(1)"}}],
               "tool_results": [{"tool_call_id": "t1", "content": "1", "is_error": False}], "repl_results": [],
               "input_tokens": 10, "output_tokens": 20, "duration_ms": 100, "error": None,
               "timestamp": "2025-05-06T07:08:10.000001+00:00", "estimated_cost_usd": None} for number in range(calls)]
    directory.mkdir(exist_ok=True)
    path = directory / f"{run_id}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [header, *events]))
    return run_id
