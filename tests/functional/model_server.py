# SPDX-License-Identifier: Apache-2.0
"""A model provider for tests: the third-party mock server @copilotkit/aimock, on a free port of loopback.

    from model_server import ModelServer

    with ModelServer([{"match": {"userMessage": "hello"}, "response": {"content": "Hi!"}}]) as server:
        subprocess.run([program, "run", "hello"], env=dict(os.environ, **server.environment()))
        assert server.count() == 1
        assert server.requests()[0]["body"]["model"] == "gpt-4o-mini"

`fixtures` is a list of aimock's fixtures (the first that matches answers), the path of a fixture file, or the path of a
scenario (tests/clients/models/*.mjs, see tests/clients/model_server.mjs), with its argument. For fixtures: a request that
matches none is answered with status 503, and none is sent on. The parts that tests use most:

    match:     {"userMessage": TEXT}            TEXT is in the last user message (tool results do not count)
               {"toolCallId": ID}               the last message is the result of that tool call
               {"toolResultContains": TEXT}     the last message is a tool result with TEXT in it
               {"hasToolResult": BOOL}          the last user message is followed by a tool result
               {"systemMessage": TEXT}, {"model": NAME}, {"toolName": NAME}, {"sequenceIndex": N}; {} matches all
    response:  {"content": TEXT}, {"toolCalls": [{"id": ID, "name": NAME, "arguments": {...}}, ...]}, or both; and beside
               them "usage": {"prompt_tokens": N, "completion_tokens": N}, "finishReason": "length", "model": NAME;
               {"error": {"message": TEXT, "type": TYPE}, "status": 429, "retryAfter": SECONDS}
    beside:    "chunkSize": CHARACTERS of a streamed piece, "truncateAfterChunks": N, "disconnectAfterMs": N, "latency": MS
               between pieces, "chaos": {"latencyMs": N}

    server.url              "http://127.0.0.1:PORT"; OpenAI's API is below /v1, Anthropic's is /v1/messages
    server.environment()    variables that lead providers here: OPENAI_BASE_URL, ANTHROPIC_BASE_URL and made-up keys
    server.count()          requests so far; count(path="/v1/messages") those of one path
    server.requests()       them, oldest first: {"method", "path", "headers", "body", "response", ...}
    server.forget()         empties the record
    server.stop()           ends it; leaving the `with` block does that too

Raises unittest.SkipTest, which says what to do, when node or the package is missing (`npm ci` in tests/clients brings it).
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

CLIENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "clients")
START_SECONDS = 120
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy


def find_node():
    """The Node of tests/clients, which is recent enough whatever the system has; else the system's."""
    own = os.path.join(CLIENTS, "node_modules", "node", "bin", "node")
    return own if os.path.exists(own) else shutil.which("node")


class ModelServer:
    def __init__(self, fixtures, argument=""):
        self.process = None
        self.file = None
        self.path = self._write(fixtures) if isinstance(fixtures, list) else str(fixtures)
        self.argument = str(argument)
        try:
            self.url = self._start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _write(self, fixtures):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json", prefix="sbx-fixtures-", encoding="utf-8")
        json.dump({"fixtures": fixtures}, self.file)
        self.file.flush()
        return self.file.name

    def _start(self):
        node = find_node()
        if node is None:
            raise unittest.SkipTest("node is missing: the mock of model providers runs on it")
        if not os.path.isdir(os.path.join(CLIENTS, "node_modules", "@copilotkit", "aimock")):
            raise unittest.SkipTest("@copilotkit/aimock is missing: run `npm ci` in tests/clients")
        self.process = subprocess.Popen([node, os.path.join(CLIENTS, "model_server.mjs"), self.path, self.argument],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            version = subprocess.run([node, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
            if int(version.lstrip("v").split(".")[0]) < 20:
                raise unittest.SkipTest("node %s is too old for @copilotkit/aimock, which needs 20.15" % version)
            raise AssertionError("the mock of model providers did not start: see its words above")
        return json.loads(line)["url"]

    def environment(self):
        return {
            "OPENAI_BASE_URL": self.url + "/v1",
            "OPENAI_API_KEY": "sk-test-openai-key",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-test-anthropic-key",
        }

    def requests(self, **query):
        """The requests so far, oldest first; `query` selects some: path, method, status."""
        url = self.url + "/__aimock/journal?" + urllib.parse.urlencode(query)
        with OPENER.open(url, timeout=START_SECONDS) as answer:
            found = json.load(answer)
        return found if isinstance(found, list) else found["entries"]

    def count(self, **query):
        return len(self.requests(**query))

    def forget(self):
        request = urllib.request.Request(self.url + "/__aimock/reset/journal", data=b"", method="POST")
        with OPENER.open(request, timeout=START_SECONDS):
            pass

    def stop(self):
        process, self.process = self.process, None
        if process is not None:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self.file is not None:
            self.file.close()
            self.file = None
