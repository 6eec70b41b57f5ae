# SPDX-License-Identifier: Apache-2.0
"""llm-litellm against servers that misbehave: a clear outcome each, nothing leaked, nothing hung, no key told."""
import json

from provider_case import Provider, check_shape, finish, message, streamed_text
from raw_server import RawServer
from tap import main

KEY = "sk-proj-0123456789abcdefghijklmnop"
OPENAI, ANTHROPIC = "openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-20241022"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
WHOLE = {"id": "x", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"},
                                             "finish_reason": "stop"}]}
QUICK = ("litellm.retry_delay=1ms",)


def chunk(delta, finish_reason=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps(dict({"object": "chat.completion.chunk", "choices": [choice]},
                                       **more)).encode() + b"\n\n"


def event(name, **more):
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.dumps(dict({"type": name}, **more)).encode())


class Against:
    """The plugin, with a server that answers each request of a connection with `answer(connection, request)`."""

    def __init__(self, answer, *settings, key=KEY):
        def serve(connection):
            while True:
                request = connection.request()
                if request is None or answer(connection, request) is None:
                    return
        self.server = RawServer(serve)
        self.provider = Provider("litellm", *QUICK, *settings, environment={
            "OPENAI_BASE_URL": self.server.url + "/v1", "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.server.url, "ANTHROPIC_API_KEY": key})

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        try:
            if kind is None:
                assert KEY not in self.provider.log(), "the key is in the log"
            self.provider.__exit__(kind, *rest)
        finally:
            self.server.__exit__()

    def ask(self, model=OPENAI, **more):
        answer = self.provider.ask(model, **more)
        for part in (KEY, KEY[4:16], KEY[-9:]):
            assert part not in json.dumps(answer), (part, answer)
        if answer["code"] != "OK":
            assert answer["message"] and answer["output_bytes"] == 0, answer
        return answer

    def expect(self, code, *words, **more):
        """For both APIs, whole and streamed, twice each: code, words, and no more descriptors the second time."""
        models, streams = more.pop("models", (OPENAI, ANTHROPIC)), more.pop("streams", (False, True))
        for model in models:
            for stream in streams:
                first, second = (self.ask(model, stream=stream, **more) for _ in range(2))
                for answer in (first, second):
                    assert answer["code"] == code, (model, stream, answer)
                    for word in words:
                        assert word in answer["message"] + " " + answer["hint"], (word, answer)
                assert second["fds"] <= first["fds"], "descriptors leak: %d, then %d" % (first["fds"], second["fds"])


def test_it_never_answers():
    with Against(lambda connection, request: connection.hang()) as case:
        case.expect("ETIMEDOUT", "gpt-4o-mini", timeout_ms=200, models=(OPENAI,))
        case.expect("ETIMEDOUT", "claude", timeout_ms=200, models=(ANTHROPIC,))


def test_it_is_silent_for_too_long():
    with Against(lambda connection, request: connection.hang(), "litellm.idle_timeout=200ms") as case:
        case.expect("ETIMEDOUT", "sent nothing")


def test_it_drips_a_byte_at_a_time():
    def answer(connection, request):
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        connection.send(STREAM if b'"stream"' in request["body"] else whole)
        connection.drip(b": keep waiting, more is to come\n" * 10000, 0.05)
    with Against(answer, "litellm.idle_timeout=30s") as case:
        case.expect("ETIMEDOUT", timeout_ms=700)


def test_it_drips_headers():
    headers = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10000
    with Against(lambda connection, request: connection.drip(headers, 0.05)) as case:
        case.expect("ETIMEDOUT", timeout_ms=500, models=(OPENAI,))


def test_cancel_while_it_is_silent():
    with Against(lambda connection, request: connection.hang()) as case:
        case.expect("ECANCELED", cancel_after_ms=100)


def test_cancel_while_waiting_to_ask_again():
    def answer(connection, request):
        connection.respond("{}", "429 Too Many Requests", headers=["Retry-After: 30"])
        return True
    with Against(answer) as case:
        case.expect("ECANCELED", cancel_after_ms=200)


def test_a_wait_that_the_deadline_does_not_allow():
    def answer(connection, request):
        connection.respond('{"error": {"message": "later"}}', "429 Too Many Requests", headers=["Retry-After: 3000"])
        return True
    with Against(answer) as case:
        case.expect("EAGAIN", "too many requests", "later")
        assert len(case.server.requests) == 8, "asked once each: there is no time for another"


def test_it_closes_without_an_answer():
    with Against(lambda connection, request: None) as case:
        case.expect("ECONNRESET", "broke off", models=(OPENAI,), streams=(False,))
        assert len(case.server.requests) >= 6, "asked again twice, each time"
    with Against(lambda connection, request: connection.reset()) as case:
        case.expect("ECONNRESET", "broke off")


def test_it_closes_within_a_stream():
    for data, model in ((chunk({"content": "half"}), OPENAI),
                        (event("message_start", message={"id": "m"}) +
                         event("content_block_start", index=0, content_block={"type": "text", "text": ""}) +
                         event("content_block_delta", index=0, delta={"type": "text_delta", "text": "half"}),
                         ANTHROPIC)):
        with Against(lambda connection, request: connection.send(STREAM + data)) as case:
            answer = case.ask(model, stream=True)
            assert answer["code"] == "ECONNRESET" and streamed_text(answer) == "half", answer
            assert "breaks off" in answer["message"], answer
            assert len(case.server.requests) == 1, "what was told already is not asked for again"


def test_it_resets_after_the_last_word():
    def answer(connection, request):
        body = chunk({"content": "whole"}) + chunk({}, "stop")
        connection.send(STREAM.replace(b"Connection: close", b"Content-Length: 100000") + body)
    with Against(answer) as case:
        said = case.ask(stream=True)
        assert said["code"] == "OK" and message(said)["content"] == "whole", said


def test_it_closes_within_a_body():
    with Against(lambda connection, request: connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"id\": ")) as case:
        case.expect("ECONNRESET")


def test_100_megabytes():
    def answer(connection, request):
        body = b"x" * (1 << 20)
        whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        connection.send(STREAM if b'"stream"' in request["body"] else whole)
        for _ in range(100):
            connection.send(b"data: " + body)
    with Against(answer) as case:
        case.expect("EFBIG")


def test_100_megabytes_announced():
    headers = b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n{"
    with Against(lambda connection, request: connection.send(headers)) as case:
        case.expect("EFBIG", "larger")


def test_a_flood_of_headers():
    def answer(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\n")
        for number in range(200000):
            connection.send(b"X-%d: %s\r\n" % (number, b"y" * 100))
    with Against(answer) as case:
        case.expect("EFBIG", "headers")
    with Against(lambda connection, request: connection.send(b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 20))) as case:
        for model in (OPENAI, ANTHROPIC):
            assert case.ask(model)["code"] in ("EFBIG", "EPROTO", "ECONNRESET", "ENOMEM"), "one endless header"


def test_not_http():
    for garbage in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\x01\x02\xff" * 1000, b"HTTP/9.9 banana\r\n\r\n"):
        with Against(lambda connection, request: connection.send(garbage)) as case:
            for model in (OPENAI, ANTHROPIC):
                answer = case.ask(model)
                assert answer["code"] in ("EPROTO", "ECONNRESET", "EBADMSG"), answer


def test_chunked_garbage():
    def answer(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(b"zzzz\r\n{\"id\"\r\nfffffffffffffffffffff\r\n")
    with Against(answer) as case:
        for model in (OPENAI, ANTHROPIC):
            for stream in (False, True):
                assert case.ask(model, stream=stream)["code"] in ("ECONNRESET", "EPROTO"), "not an answer"


def test_what_is_not_json():
    for body in (b"", b"null", b"[]", b"\"text\"", b"{", b"{}", b"not json at all", b"{\"choices\": []}",
                 b"{\"choices\": 3}",
                 b"{\"choices\": [{\"message\": null}]}", b"[" * 100000, b"{\"a\": " * 100000, b"[" + b"{}," * 2000000,
                 b"{\"choices\": 1, \"choices\": 2}", b"\xff\xfe\x00{"):
        def answer(connection, request):
            connection.respond(body)
            return True
        with Against(answer) as case:
            case.expect("EBADMSG", "can't be read")


def test_a_stream_of_what_is_not_json():
    for body in (b"data: {\n\n", b"data: []\n\n", b"data: nonsense\n\n", b"data: " + b"[" * 100000 + b"\n\n",
                 b"data: [DONE]\n\n"):
        with Against(lambda connection, request: connection.send(STREAM + body)) as case:
            assert case.ask(OPENAI, stream=True)["code"] == "EBADMSG", body[:50]
    with Against(lambda connection, request: connection.send(STREAM + b"data: {}\n\n")) as case:
        assert case.ask(ANTHROPIC, stream=True)["code"] == "EBADMSG"


def test_an_endless_event():
    def answer(connection, request):
        connection.send(STREAM + b"data: ")
        for _ in range(32):
            connection.send(b"x" * (1 << 20))
    with Against(answer, "litellm.max_response=64m") as case:
        assert case.ask(OPENAI, stream=True)["code"] == "EFBIG"


def test_web_pages():
    page = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>" + b"<p>welcome</p>" * 100 + b"</body></html>"
    for status, code in (("200 OK", "EBADMSG"), ("404 Not Found", "ENOENT"), ("502 Bad Gateway", "EREMOTEIO"),
                         ("401 Unauthorized", "EACCES")):
        for content_type in ("text/html; charset=utf-8", "application/json"):
            def answer(connection, request):
                connection.respond(page, status, content_type)
                return True
            with Against(answer) as case:
                case.expect(code, "web page", "api_base")


def test_redirects_are_not_followed():
    with RawServer(lambda connection: connection.request()) as other:
        def answer(connection, request):
            connection.respond(b"", "307 Temporary Redirect",
                               headers=["Location: " + other.url + "/v1/chat/completions"])
            return True
        with Against(answer) as case:
            case.expect("EBADMSG", "redirect")
        assert other.connections == 0, "the key would have gone along"


def test_invalid_utf8_is_repaired():
    whole = json.dumps(WHOLE).encode().replace(b"fine", b"a\xff\xc3(b\xed\xa0\x80\\ud800c")
    streamed = chunk({"content": "@"}).replace(b"@", b"a\xffb\\udc00") + chunk({}, "stop") + b"data: [DONE]\n\n"

    def answer(connection, request):
        if b'"stream"' not in request["body"]:
            connection.respond(whole)
            return True
        connection.send(STREAM + streamed)
    with Against(answer) as case:
        said = case.ask()
        check_shape(said)
        assert message(said)["content"].startswith("a\ufffd") and message(said)["content"].endswith("c"), said
        said = case.ask(stream=True)
        assert message(said)["content"] == streamed_text(said) == "a\ufffdb\ufffd", said


def test_tool_calls_go_on_as_they_are():
    calls = [{"id": "same", "type": "function", "function": {"name": "no such tool", "arguments": "{\"broken\": "}},
             {"id": "same", "type": "function", "function": {"name": "execute_python", "arguments": "null"}},
             {"type": "function", "function": {"name": "nameless id"}}]
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]})
    pieces = b"".join(chunk({"tool_calls": [dict(call, index=index)]}) for index, call in enumerate(calls))

    def answer(connection, request):
        if b'"stream"' not in request["body"]:
            connection.respond(body)
            return True
        connection.send(STREAM + pieces + chunk({}, "tool_calls") + b"data: [DONE]\n\n")
    with Against(answer) as case:
        for stream in (False, True):
            said = case.ask(stream=stream)
            check_shape(said)
            found = [(call["id"], call["function"]["name"], call["function"]["arguments"])
                     for call in message(said)["tool_calls"]]
            assert found[:2] == [("same", "no such tool", "{\"broken\": "), ("same", "execute_python", "null")], found
            assert found[2][1:] == ("nameless id", "{}"), found
            assert finish(said) == "tool_calls", said


def test_a_flood_of_tool_calls():
    flood = b"".join(chunk({"tool_calls": [{"index": index, "id": str(index),
                                            "function": {"name": "f", "arguments": ""}}]})
                     for index in range(5000))
    with Against(lambda connection, request: connection.send(STREAM + flood)) as case:
        assert case.ask(stream=True)["code"] == "EBADMSG"
    odd = chunk({"tool_calls": [{"index": -5, "function": {"arguments": "x"}}, {"index": 1 << 62}, 3, None, {}]})
    with Against(lambda connection, request: connection.send(STREAM + odd + b"data: [DONE]\n\n")) as case:
        assert case.ask(stream=True)["code"] in ("OK", "EBADMSG")


def test_an_error_within_a_stream():
    for data, model, code in (
            (b'data: {"error": {"message": "upstream is gone", "code": 502}}\n\n', OPENAI, "EREMOTEIO"),
            (b'data: {"error": {"message": "slow", "type": "rate_limit_exceeded"}}\n\n', OPENAI, "EAGAIN"),
            (event("error", error={"type": "overloaded_error", "message": "Overloaded"}), ANTHROPIC, "EREMOTEIO"),
            (event("error", error={"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}), ANTHROPIC,
             "E2BIG")):
        with Against(lambda connection, request: connection.send(STREAM + data)) as case:
            answer = case.ask(model, stream=True)
            assert answer["code"] == code, answer
            assert len(case.server.requests) == (3 if code in ("EAGAIN", "EREMOTEIO") else 1), "asked again"
        if model == OPENAI:
            with Against(lambda connection, request: connection.send(STREAM + chunk({"content": "a"}) + data)) as case:
                answer = case.ask(model, stream=True)
                assert answer["code"] == code and len(case.server.requests) == 1, answer


def test_an_error_with_status_200():
    def answer(connection, request):
        connection.respond('{"error": {"message": "Provider returned error", "code": 429}}')
        return True
    with Against(answer) as case:
        assert case.ask()["code"] == "EAGAIN"


def test_a_server_that_does_not_stream():
    def answer(connection, request):
        connection.respond(json.dumps(WHOLE))
        return True
    with Against(answer) as case:
        said = case.ask(stream=True)
        assert message(said)["content"] == "fine", said


def test_usage_is_estimated_when_it_is_missing():
    def answer(connection, request):
        connection.respond(json.dumps(WHOLE))
        return True
    with Against(answer) as case:
        usage = case.ask()["response"]["usage"]
        assert usage["estimated"] is True and usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0, usage


def test_cost_in_a_proxys_header():
    def answer(connection, request):
        connection.respond(json.dumps(WHOLE), headers=["x-litellm-response-cost: 1.25e-05"])
        return True
    with Against(answer) as case:
        assert abs(case.ask()["response"]["usage"]["cost_usd"] - 1.25e-05) < 1e-12


def test_a_server_that_echoes_the_key():
    def answer(connection, request):
        said = request["headers"].get("authorization", request["headers"].get("x-api-key"))
        sly = "\x1b[31m%s\x07 %s %s %s" % (said, said[3:], said[:-4], said[-10:])
        body = json.dumps({"error": {"message": sly, "type": said, "code": said}})
        connection.respond(body, "400 Bad Request", headers=["x-request-id: " + said])
        return True
    with Against(answer) as case:
        case.expect("EINVAL", "****")
        for stream in (False, True):
            assert "\x1b" not in case.ask(stream=stream)["message"]

    def echo(connection, request):
        connection.respond(json.dumps(dict(WHOLE, id=KEY, model=KEY)).replace("fine", "your key is " + KEY))
        return True
    with Against(echo) as case:
        for stream in (False, True):
            assert case.ask(stream=stream)["code"] == "OK"


def test_models_that_want_it_otherwise():
    def answer(connection, request):
        body = json.loads(request["body"])
        if "max_tokens" in body and "temperature" in body:
            connection.respond('{"error": {"message": "Use \'max_completion_tokens\' instead."}}', "400 Bad Request")
        elif "temperature" in body:
            connection.respond('{"error": {"message": "Unsupported value: temperature"}}', "400 Bad Request")
        else:
            connection.respond(json.dumps(WHOLE))
        return True
    with Against(answer) as case:
        assert case.ask(request={"max_tokens": 5})["code"] == "OK"
        assert [sorted(set(json.loads(found["body"])) & {"max_tokens", "max_completion_tokens", "temperature"})
                for found in case.server.requests] == [["max_tokens", "temperature"],
                                                       ["max_completion_tokens", "temperature"],
                                                       ["max_completion_tokens"]]


def test_nobody_listens():
    with RawServer(lambda connection: None) as server:
        url = server.url
    with Provider("litellm", *QUICK, environment={"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}) as provider:
        answer = provider.ask(OPENAI)
        assert answer["code"] == "ECONNREFUSED" and OPENAI in answer["message"], answer


def test_connections_are_used_again():
    def answer(connection, request):
        connection.respond(json.dumps(WHOLE))
        return True
    with Against(answer) as case:
        for _ in range(10):
            assert case.ask()["code"] == "OK"
        assert case.server.connections == 1, case.server.connections


def test_keys():
    with Provider("litellm") as provider:
        for model, variable in ((OPENAI, "OPENAI_API_KEY"), (ANTHROPIC, "ANTHROPIC_API_KEY"),
                                ("groq/x", "GROQ_API_KEY"),
                                ("claude-3-opus", "ANTHROPIC_API_KEY"), ("gpt-4o", "OPENAI_API_KEY")):
            answer = provider.ask(model)
            assert answer["code"] == "EACCES" and variable in answer["hint"] and "MCP" in answer["hint"], answer
        assert provider.ask("nobody-knows-this")["code"] == "EINVAL"
        assert provider.ask("nobody/knows-this")["code"] == "EINVAL"
        probe = provider.command(probe=True)
        assert probe["code"] == "OK" and probe["reports"][0]["status"] == 1 and probe["reports"][0]["remedy"], probe
    with Provider("litellm",
                  environment={"OPENAI_BASE_URL": "http://models.example.org/v1", "OPENAI_API_KEY": KEY}) as provider:
        answer = provider.ask(OPENAI)
        assert answer["code"] == "EINVAL" and "plain HTTP" in answer["message"] and KEY not in json.dumps(answer), answer
    with Provider("litellm", environment={"OPENAI_API_KEY": KEY + "\r\nX-Evil: 1"}) as provider:
        answer = provider.ask(OPENAI)
        assert answer["code"] == "EACCES" and KEY not in json.dumps(answer), answer


def test_who_gets_which_key():
    seen = []

    def answer(connection, request):
        seen.append((request["line"].split()[1], request["headers"].get("authorization")))
        connection.respond(json.dumps(WHOLE))
        return True
    with Against(answer) as case:
        with Provider("litellm", "api_base=%s/v1" % case.server.url,
                      environment={"OPENAI_API_KEY": KEY, "GROQ_API_KEY": "gsk-another-key-altogether"}) as provider:
            for model in (OPENAI, "groq/llama", "meta-llama/Llama-3", "a-model-of-ours"):
                assert provider.ask(model)["code"] == "OK", model
    assert seen == [("/v1/chat/completions", "Bearer " + KEY),
                    ("/v1/chat/completions", "Bearer gsk-another-key-altogether"),
                    ("/v1/chat/completions", None), ("/v1/chat/completions", None)], seen


if __name__ == "__main__":
    main()
