# SPDX-License-Identifier: Apache-2.0
"""llm-litellm against a mock server that others wrote: OpenAI's and Anthropic's wire formats, whole and streamed."""
import json

from model_server import ModelServer
from provider_case import (Provider, check_conformance, check_shape, finish, message, streamed_calls, streamed_text)
from tap import main

KEY = "sk-proj-0123456789abcdefghijklmnop"
TEXT = "The quick brown fox — jumps \U0001f98a over\nthe \"lazy\" dog, twice over and back again."
SCHEMA = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": {
    "type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}}}
CALLS = [{"id": "call_1", "name": "execute_python", "arguments": {"code": "print(1)"}},
         {"id": "call_2", "name": "list_files", "arguments": {"path": "."}}]
TOOLS = [{"type": "function",
          "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
         for name in ("execute_python", "list_files")]
FIXTURES = [
    {"match": {"toolCallId": "call_2"}, "response": {"content": "done with both"}},
    {"match": {"userMessage": "verdict"},
     "response": {"toolCalls": [{"name": "answer_in_json", "arguments": {"good": True}}]}},
    {"match": {"userMessage": "two tools"}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "talk and call"}, "response": {"content": "I will look.", "toolCalls": CALLS[:1]}},
    {"match": {"userMessage": "cut short"}, "response": {"content": "half of", "finishReason": "length"}},
    {"match": {"userMessage": "counted"},
     "response": {"content": "x", "usage": {"prompt_tokens": 1000, "completion_tokens": 500}}},
    {"match": {"userMessage": "wrong key"},
     "response": {"error": {"message": "Incorrect API key provided: " + KEY, "code": "invalid_api_key"},
                  "status": 401}},
    {"match": {"userMessage": "no model"},
     "response": {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}, "status": 404}},
    {"match": {"userMessage": "too long"}, "response": {
        "error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"},
        "status": 400}},
    {"match": {"userMessage": "no credit"}, "response": {
        "error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
                  "code": "insufficient_quota"},
        "status": 429}},
    {"match": {"userMessage": "slow down"}, "response": {
        "error": {"message": "Rate limit reached", "type": "rate_limit_error"}, "status": 429}},
    {"match": {"userMessage": "broken"},
     "response": {"error": {"message": "boom", "type": "api_error"}, "status": 500}},
    {"match": {"userMessage": "overloaded"}, "response": {
        "error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "refused"}, "response": {
        "error": {"message": "tools[0] is odd", "type": "invalid_request_error"}, "status": 400}},
    {"match": {"userMessage": "second time", "sequenceIndex": 0}, "response": {
        "error": {"message": "busy", "type": "rate_limit_error"}, "status": 503}},
    {"match": {"userMessage": "second time"}, "response": {"content": "at last"}},
    {"match": {"userMessage": "truncated"}, "response": {"content": TEXT * 20}, "latency": 20,
     "truncateAfterChunks": 8},
    {"match": {"userMessage": "hello"}, "response": {"content": TEXT}, "chunkSize": 3},
]
MODELS = ("openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-20241022")
QUICK = ("litellm.retry_delay=1ms",)


def environment(server):
    return {"OPENAI_BASE_URL": server.url + "/v1", "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}


class Both:
    """The server and the plugin, for one test."""

    def __enter__(self):
        self.server = ModelServer(FIXTURES)
        try:
            self.provider = Provider("litellm", *QUICK, environment=environment(self.server))
        except BaseException:
            self.server.stop()
            raise
        return self.server, self.provider

    def __exit__(self, *error):
        try:
            self.provider.__exit__(*error)
        finally:
            self.server.stop()


def test_conformance():
    with Both() as (_, provider):
        for model in MODELS:
            check_conformance(provider, model, "hello")


def test_text_is_the_same_whole_and_streamed():
    with Both() as (server, provider):
        for model in MODELS:
            whole, streamed = provider.ask(model), provider.ask(model, stream=True)
            assert message(whole)["content"] == TEXT, whole
            assert message(streamed)["content"] == streamed_text(streamed) == TEXT, streamed
            assert len(streamed["chunks"]) > 10, "it came in small pieces"
            assert finish(whole) == finish(streamed) == "stop"
        assert server.requests()[1]["body"]["stream_options"] == {"include_usage": True}, server.requests()[1]


def test_parallel_tool_calls_and_their_results():
    wanted = [(call["id"], call["name"], json.dumps(call["arguments"], separators=(",", ":"))) for call in CALLS]
    with Both() as (_, provider):
        for model in MODELS:
            for stream in (False, True):
                answer = provider.ask(model, "two tools", stream=stream, request={"tools": TOOLS})
                check_shape(answer)
                calls = message(answer)["tool_calls"]
                found = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]
                assert found == wanted and finish(answer) == "tool_calls", answer
                if stream:
                    assert streamed_calls(answer) == wanted, answer
                messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "two tools"},
                            message(answer)]
                messages += [{"role": "tool", "tool_call_id": call["id"],
                              "content": "result of " + call["id"]} for call in calls]
                after = provider.ask(model, stream=stream, request={"messages": messages, "tools": TOOLS})
                assert message(after)["content"] == "done with both", after


def test_text_beside_a_tool_call():
    with Both() as (_, provider):
        for model in MODELS:
            for stream in (False, True):
                answer = provider.ask(model, "talk and call", stream=stream, request={"tools": TOOLS})
                assert message(answer)["content"] == "I will look.", answer
                assert [call["id"] for call in message(answer)["tool_calls"]] == ["call_1"], answer
                assert finish(answer) == "tool_calls", answer


def test_what_goes_over_the_wire():
    with Both() as (server, provider):
        request = {"temperature": 0.5, "max_tokens": 77, "stop": ["END"], "tools": TOOLS, "tool_choice": "required",
                   "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]}
        for model in MODELS:
            assert provider.ask(model, request=request)["code"] == "OK"
        openai, anthropic = server.requests()
        assert openai["path"] == "/v1/chat/completions" and anthropic["path"] == "/v1/messages"
        assert openai["headers"]["user-agent"].startswith("snipara-sandbox/"), openai
        assert anthropic["headers"]["anthropic-version"] == "2023-06-01", anthropic
        body = openai["body"]
        assert body["model"] == "gpt-4o-mini" and body["max_tokens"] == 77 and body["stop"] == ["END"], body
        assert body["temperature"] == 0.5 and body["tool_choice"] == "required" and len(body["tools"]) == 2, body
        assert "stream" not in body, body


def test_usage_and_cost():
    with Both() as (_, provider):
        for model, dollars in ((MODELS[0], 1000 * .15e-6 + 500 * .6e-6), (MODELS[1], 1000 * .8e-6 + 500 * 4e-6)):
            for stream in (False, True):
                usage = provider.ask(model, "counted", stream=stream)["response"]["usage"]
                assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (1000, 500,
                                                                                                       1500), usage
                assert abs(usage["cost_usd"] - dollars) < 1e-9 and "estimated" not in usage, usage
        unknown = provider.ask("openai/some-model-of-ours", "counted")["response"]["usage"]
        assert unknown["cost_usd"] is None, "what is not known is not 0: %r" % unknown


def test_an_answer_that_was_cut():
    with Both() as (_, provider):
        for model in MODELS:
            assert finish(provider.ask(model, "cut short")) == "length"
            assert finish(provider.ask(model, "cut short", stream=True)) == "length"


def test_json_schema_over_anthropic():
    with Both() as (server, provider):
        for stream in (False, True):
            answer = provider.ask(MODELS[1], "verdict", stream=stream, request={"response_format": SCHEMA})
            assert json.loads(message(answer)["content"]) == {"good": True}, answer
            assert finish(answer) == "stop" and "tool_calls" not in message(answer), answer
            if stream:
                assert json.loads(streamed_text(answer)) == {"good": True}, answer


def test_errors():
    cases = [("wrong key", "EACCES", "_API_KEY"), ("no model", "ENOENT", "name of the model"),
             ("too long", "E2BIG", "context"),
             ("no credit", "EDQUOT", "balance"), ("slow down", "EAGAIN", "max_retries"),
             ("broken", "EREMOTEIO", "later"),
             ("overloaded", "EREMOTEIO", "later"), ("refused", "EINVAL", "request")]
    with Both() as (server, provider):
        for model in MODELS:
            for text, code, hint in cases:
                for stream in (False, True):
                    server.forget()
                    answer = provider.ask(model, text, stream=stream)
                    assert answer["code"] == code, (text, answer)
                    assert hint in answer["hint"], answer
                    assert model in answer["message"] and "status" in answer["message"], answer
                    assert KEY not in json.dumps(answer) and KEY[:8] not in json.dumps(answer), answer
                    assert server.count() == (3 if code in ("EAGAIN", "EREMOTEIO") else 1), (text, server.count())
        assert KEY not in provider.log()


def test_a_retry_that_helps():
    with Both() as (server, provider):
        for model in MODELS:
            server_before = server.count()
            answer = provider.ask(model, "second time %s" % model)
            assert answer["code"] == "OK" and message(answer)["content"] == "at last", answer
            assert server.count() > server_before


def test_a_stream_that_breaks_off():
    with Both() as (server, provider):
        for model in MODELS:
            server.forget()
            answer = provider.ask(model, "truncated", stream=True)
            assert answer["code"] == "ECONNRESET" and answer["chunks"] and "response" not in answer, answer
            assert server.count() == 1, "deltas were out already: asking again would say them twice"


def test_cancel_within_a_stream():
    with Both() as (_, provider):
        for model in MODELS:
            answer = provider.ask(model, stream=True, cancel_after_chunks=3)
            # What had arrived in the same piece may still be told; the whole answer may have been among it.
            assert answer["code"] in ("ECANCELED", "OK") and len(answer["chunks"]) >= 3, answer


def test_200_at_once():
    with Both() as (server, provider):
        answers = provider.ask(MODELS[0], parallel=200)["answers"]
        assert [answer["code"] for answer in answers] == ["OK"] * 200, {answer["message"] for answer in answers}
        assert server.count() == 200


def test_probe():
    with Both() as (server, provider):
        found = provider.command(probe=True)
        assert found["code"] == "OK" and [report["subject"] for report in found["reports"]][:2] == ["route",
                                                                                                    "provider"], found
        assert KEY not in json.dumps(found)
        assert all(request["method"] == "GET" for request in server.requests()), "nothing that costs"


if __name__ == "__main__":
    main()
