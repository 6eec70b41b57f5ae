# SPDX-License-Identifier: Apache-2.0
"""What the tests of llm-replay share: recordings, and the plugin in its host."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import uuid

RUN = "0193d7b2-4c5a-7e11-8a01-0123456789ab"


def call_id(number):
    return str(uuid.UUID(int=number << 96 | 8 << 76 | 2 << 62 | number))


def metadata():
    return {"_type": "trajectory_metadata", "trajectory_id": RUN, "timestamp": "2026-11-21T03:00:00Z", "event_count": 0,
            "total_tokens": 0, "total_duration_ms": 0}


def event(number, prompt, response=None, calls=(), parent=None, name="completion", **members):
    made = {"trajectory_id": RUN, "call_id": call_id(number), "parent_call_id": call_id(parent) if parent else None,
            "depth": 0, "prompt": prompt, "response": response,
            "tool_calls": [{"id": one, "name": tool, "arguments": arguments} for one, tool, arguments in calls],
            "tool_results": [], "repl_results": [], "input_tokens": 10 * number, "output_tokens": number,
            "duration_ms": 5, "error": None, "timestamp": "2026-11-21T03:00:01Z", "estimated_cost_usd": None}
    if name:
        made["event"] = name
    made.update(members)
    return made


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sbx-replay-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def record(self, *lines, name="run.jsonl"):
        path = self.directory / name
        path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
                                  for line in lines))
        return path

    def replay(self, *lines, options=()):
        return self.open(f"--file={self.record(*lines)}", *options)

    def open(self, *options, start=True):
        replay = Replay(*options)
        self.addCleanup(replay.close)
        if start:
            result, message, hint, _ = replay.send("start")
            self.assertEqual(result, 0, (message, hint))
        return replay


class Conversation:
    """Says what a run would say: the prompt, then the answer, then the results of its tools."""

    def __init__(self, replay, prompt, system="be helpful"):
        self.replay = replay
        self.messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]

    def ask(self):
        message = self.replay.answer(self.messages)["choices"][0]["message"]
        self.messages.append(message)
        return message

    def result(self, text, call=0):
        last = [message for message in self.messages if message["role"] == "assistant"][-1]
        self.messages.append({"role": "tool", "tool_call_id": last["tool_calls"][call]["id"], "content": text})


class Replay:
    def __init__(self, *options):
        self.process = subprocess.Popen([os.environ["HOST"], os.environ["PLUGIN"], *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                                        errors="strict")
        self.deltas = []
        self.opened = self.read()

    def read(self):
        self.deltas = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"the host ended: {self.process.stderr.read()}")
            if line.startswith("delta\t"):
                self.deltas.append(json.loads(line[6:]))
                continue
            result, message, hint, response = line.rstrip("\n").split("\t")
            return int(result), message, hint, response

    def send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def request(self, messages, how="", **members):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.send(how + json.dumps(dict({"model": "openai/gpt-4o-mini", "messages": messages}, **members)))

    def answer(self, messages, how=""):
        result, message, hint, response = self.request(messages, how)
        if result != 0:
            raise AssertionError(f"{result}: {message} {hint}")
        return json.loads(response)

    def text(self, messages):
        return self.answer(messages)["choices"][0]["message"]["content"]

    def close(self):
        if self.process.returncode is None:
            _, log = self.process.communicate(timeout=120)
            if self.process.returncode != 0:
                raise AssertionError(f"exit {self.process.returncode}: {log}")
