# SPDX-License-Identifier: Apache-2.0
"""Drives a provider plugin for tests: see tests/provider/drive.c for what a command may hold.

    with Provider("litellm", "litellm.max_retries=0", environment={"OPENAI_API_KEY": "..."}) as provider:
        answer = provider.ask("openai/gpt-4o-mini", "hello", stream=True)
        assert answer["code"] == "OK"

PROVIDER_DRIVE names the program. The process gets no environment but what is passed (and what finds the build tree), and
an empty project directory, so that nothing of the machine counts.
"""
import json
import os
import subprocess
import tempfile

KEEP = ("PATH", "SNIPARA_SANDBOX_BUILD_ROOT", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")


class Provider:
    def __init__(self, instance, *settings, environment=None):
        self.home = tempfile.TemporaryDirectory(prefix="sbx-provider-")
        env = {name: os.environ[name] for name in KEEP if name in os.environ}
        env.update({"HOME": self.home.name, "XDG_CONFIG_HOME": self.home.name,
                    "SNIPARA_SANDBOX_STATE_DIR": self.home.name})
        env.update(environment or {})
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([os.environ["PROVIDER_DRIVE"], instance, *settings], env=env,
                                        cwd=self.home.name,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait()
        words = self.log()
        self.errors.close()
        self.home.cleanup()
        if kind is None and (code != 0 or rest):
            raise AssertionError("provider-drive ended with %d: %s" % (code, words))

    def log(self):
        """What the process wrote to standard error so far."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def command(self, **command):
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("provider-drive died: " + self.log())
        return json.loads(line)

    def ask(self, model, text="hello", **more):
        """One completion. Members of the request go into `request`, the rest to the driver."""
        request = {"model": model, "messages": [{"role": "user", "content": text}]}
        request.update(more.pop("request", {}))
        return self.command(request=request, **more)


def message(answer):
    return answer["response"]["choices"][0]["message"]


def finish(answer):
    return answer["response"]["choices"][0]["finish_reason"]


def streamed_text(answer):
    """The content that the deltas of a streamed answer make together."""
    choices = [choice for chunk in answer["chunks"] for choice in chunk["choices"]]
    return "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)


def streamed_calls(answer):
    """The tool calls that they make, as [(id, name, arguments)]."""
    calls = {}
    for chunk in answer["chunks"]:
        for choice in chunk["choices"]:
            for part in (choice.get("delta") or {}).get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"id": None, "name": None, "arguments": ""})
                call["id"] = call["id"] or part.get("id")
                call["name"] = call["name"] or part["function"].get("name")
                call["arguments"] += part["function"].get("arguments") or ""
    return [(call["id"], call["name"], call["arguments"]) for _, call in sorted(calls.items())]


def check_shape(answer):
    """What provider.h promises of a response, whatever the provider."""
    assert answer["code"] == "OK", answer
    response = answer["response"]
    assert isinstance(response["model"], str) and response["model"], response
    assert len(response["choices"]) == 1, response
    said = message(answer)
    assert said["role"] == "assistant", said
    assert said["content"] is None or isinstance(said["content"], str), said
    for call in said.get("tool_calls", []):
        assert call["type"] == "function" and isinstance(call["id"], str) and call["id"], call
        assert isinstance(call["function"]["name"], str) and isinstance(call["function"]["arguments"], str), call
    assert finish(answer) in ("stop", "length", "tool_calls", "content_filter"), answer
    assert (finish(answer) == "tool_calls") <= bool(said.get("tool_calls")), answer
    usage = response["usage"]
    assert usage["prompt_tokens"] >= 0 and usage["completion_tokens"] >= 0, usage
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], usage
    assert usage.get("cost_usd") is None or usage["cost_usd"] >= 0, usage


def check_conformance(provider, model, text):
    """What every provider must do; `text` is a prompt that `provider` answers with text, as often as it is asked."""
    whole = provider.ask(model, text)
    check_shape(whole)
    assert not whole["chunks"], "deltas though none were asked for"
    streamed = provider.ask(model, text, stream=True)
    check_shape(streamed)
    assert message(streamed)["content"] == message(whole)["content"], (streamed, whole)
    assert streamed["chunks"] and streamed_text(streamed) == message(streamed)["content"], streamed
    assert all(chunk.get("object") == "chat.completion.chunk" for chunk in streamed["chunks"]), streamed
    for raw in ("", "[]", "{", '{"model": 1}', '{"model": "x/y", "messages": 3}'):
        answer = provider.command(raw=raw)
        assert answer["code"] not in ("OK",) and answer["message"], (raw, answer)
        assert answer["output_bytes"] == 0, "a failure leaves the output untouched: %r" % answer
    cancelled = provider.ask(model, text, cancel_after_chunks=0)
    assert cancelled["code"] == "ECANCELED" and cancelled["output_bytes"] == 0, cancelled
    together = provider.ask(model, text, parallel=8)
    for answer in together["answers"]:
        check_shape(answer)
        assert message(answer)["content"] == message(whole)["content"], answer
    before = provider.ask(model, text)["fds"]
    for _ in range(5):
        assert provider.ask(model, text)["fds"] <= before, "descriptors leak"
