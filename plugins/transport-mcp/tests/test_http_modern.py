#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP: requests without sessions (2026-07-28), with tools that need no sandbox.

Usage: test_http_modern.py HOST PLUGIN [PATTERN...]"""
import base64
import json

from http_case import (LEGACY, MODERN, Host, Stream, VERSION_KEY, call, dumps, error_code, meta, modern, modern_body,
                       modern_headers)
from tap import main


def base64_header(text):
    return "=?base64?%s?=" % base64.b64encode(text.encode()).decode()


def test_modern_answers_whole():
    with Host() as host:
        status, answer = call(host, "echo")
        assert status == 200 and answer["result"]["content"][0]["text"] == "echo"
        assert answer["result"]["resultType"] == "complete"
        status, got, body = host.request("POST", dumps({"jsonrpc": "2.0", "method": "notifications/x"}),
                                         modern_headers("notifications/x"))
        assert (status, body) == (202, b"") and "Mcp-Session-Id" not in got


def test_modern_ignores_sessions():
    with Host() as host:
        assert modern(host, "tools/list", Mcp_Session_Id="nonsense")[0] == 200


def test_modern_status_of_errors():
    with Host() as host:
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"):
            status, answer = modern(host, method)
            assert (status, answer["error"]["code"], answer["id"]) == (404, -32601, 1), (method, answer)
        status, answer = call(host, "nothing")
        assert (status, answer["error"]["code"]) == (200, -32602), answer
        status, answer = modern(host, "resources/read", {"uri": "repl://x/files/y"})
        assert (status, answer["error"]["code"]) == (200, -32602), answer


def test_modern_meta():
    with Host() as host:
        for params in ({}, {"_meta": {}}, {"_meta": {VERSION_KEY: MODERN}}, {"_meta": {VERSION_KEY: 5}},
                       {"_meta": {key: value for key, value in meta().items() if key != VERSION_KEY}}):
            message = {"jsonrpc": "2.0", "id": "q", "method": "tools/list", "params": params}
            status, _, body = host.request("POST", dumps(message), modern_headers("tools/list"))
            assert (status, error_code(body), json.loads(body)["id"]) == (400, -32602, "q"), (params, body)


def test_modern_versions():
    with Host() as host:
        body = modern_body("tools/list")
        body["params"]["_meta"][VERSION_KEY] = "v999"
        status, _, answer = host.request("POST", dumps(body), modern_headers("tools/list",
                                                                            MCP_Protocol_Version="v999"))
        error = json.loads(answer)["error"]
        assert (status, error["code"], error["data"]["requested"]) == (400, -32022, "v999"), answer
        assert MODERN in error["data"]["supported"]
        status, _, answer = host.request("POST", dumps(body), modern_headers("tools/list"))
        assert (status, error_code(answer)) == (400, -32020), answer  # what a proxy saw was another revision
        status, answer = modern(host, "tools/list", MCP_Protocol_Version=None)
        assert (status, answer["error"]["code"]) == (400, -32020)
        status, answer = modern(host, "tools/list", MCP_Protocol_Version=LEGACY)
        assert (status, answer["error"]["code"]) == (400, -32020)


def test_modern_batches():
    with Host() as host:
        status, _, body = host.request("POST", dumps([modern_body("tools/list")]), modern_headers("tools/list"))
        assert (status, error_code(body)) == (400, -32600)
        status, _, body = host.request("POST", dumps({"jsonrpc": "2.0", "id": 1, "result": {}}), modern_headers("x"))
        assert (status, error_code(body)) == (400, -32600)


def test_modern_knows_post_alone():
    with Host() as host:
        for method in ("GET", "DELETE"):
            status, headers, _ = host.request(method, None, modern_headers("x", Accept="text/event-stream"))
            assert (status, headers["Allow"]) == (405, "POST")


def test_method_header():
    with Host() as host:
        for value in ("prompts/list", "TOOLS/LIST", "tools/list x", "", None):
            status, answer = modern(host, "tools/list", Mcp_Method=value)
            assert (status, answer["error"]["code"], answer["id"]) == (400, -32020, 1), (value, answer)
        assert modern(host, "tools/list", Mcp_Method="  tools/list\t ")[0] == 200
        headers = {name.upper(): value for name, value in modern_headers("tools/list").items()}
        assert host.request("POST", dumps(modern_body("tools/list")), headers)[0] == 200
        status, _, body = host.request("POST", dumps({"jsonrpc": "2.0", "method": "notifications/x"}),
                                       modern_headers("notifications/y"))
        assert (status, error_code(body)) == (400, -32020)


def test_name_header():
    with Host() as host:
        body = dumps(modern_body("tools/call", {"name": "echo"}))
        for value in ("wrong", "Echo", "", base64_header("wrong"), "=?base64?ZWNobw?=", "=?base64?ZW!obw==?=",
                      "=?base64?ZWNobx==?=", "=?base64?/w==?=", None):
            status, _, answer = host.request("POST", body, modern_headers("tools/call", value))
            assert (status, error_code(answer)) == (400, -32020), (value, answer)
        for value in ("echo", "  echo  ", base64_header("echo")):
            assert host.request("POST", body, modern_headers("tools/call", value))[0] == 200, value
        for method, key in (("resources/read", "uri"), ("prompts/get", "name"), ("tasks/get", "taskId"),
                            ("tasks/update", "taskId"), ("tasks/cancel", "taskId")):
            body = dumps(modern_body(method, {key: "x:1"}))
            for name, refused in (("x:1", False), ("x:2", True), (None, True)):
                status, _, answer = host.request("POST", body, modern_headers(method, name))
                assert (json.loads(answer).get("error", {}).get("code") == -32020) == refused, (method, name, answer)
                assert not refused or status == 400


def test_parameter_headers():
    with Host() as host:
        def route(arguments, **headers):
            headers = {"Mcp_Param_" + name: value for name, value in headers.items()}
            status, answer = call(host, "route", arguments, **headers)
            if status == 200:
                assert answer["result"]["content"][0]["text"] == "route"
            else:
                assert (status, answer["error"]["code"]) == (400, -32020), answer
            return status == 200

        assert route({})
        assert route({}, Region="left over")
        assert route({"region": None})
        assert route({"region": "eu"}, Region="eu")
        assert route({"region": "eu"}, region="eu")
        assert not route({"region": "eu"})
        assert not route({"region": "eu"}, Region="EU")
        assert route({"region": "Hello"}, Region="=?base64?SGVsbG8=?=")
        assert not route({"region": "Hello"}, Region="=?base64?SGVsbG8?=")
        assert not route({"region": "Hello"}, Region="=?base64?SGVs!!!bG8=?=")
        assert route({"region": "SGVsbG8="}, Region="SGVsbG8=")
        assert route({"region": "=?base64?SGVsbG8="}, Region="=?base64?SGVsbG8=")
        assert route({"region": "é"}, Region=base64_header("é"))
        assert route({"count": 42}, Count="42") and route({"count": 42}, Count="42.0")
        assert not route({"count": 42}, Count="43") and not route({"count": 42}, Count="0x2a")
        assert not route({"count": 42}, Count=" 4 2")
        assert route({"fast": True}, Fast="true") and not route({"fast": True}, Fast="True")
        assert route({"where": {"zone": "a"}}, Zone="a") and not route({"where": {"zone": "a"}}, Zone="b")


def test_parameter_headers_after_a_change():
    with Host() as host:
        assert call(host, "route", {"region": "eu"})[0] == 400
        host.tell("tools")
        assert call(host, "route", {"region": "eu"})[0] == 400


def test_repeated_headers_that_differ():
    with Host() as host:
        connection = host.connect()
        body = dumps(modern_body("tools/list"))
        connection.putrequest("POST", "/mcp")
        for name, value in [*modern_headers("tools/list").items(), ("Mcp-Method", "tools/call"),
                            ("Content-Length", str(len(body)))]:
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        assert response.status == 400, response.status
        connection.close()


def test_modern_streams_when_something_comes_first():
    with Host() as host:
        body = modern_body("tools/call", {"name": "steps", "arguments": {"steps": 2}}, progressToken="t")
        with Stream(host, "POST", dumps(body), modern_headers("tools/call", "steps")) as stream:
            assert stream.status == 200
            assert stream.head().headers["Content-Type"] == "text/event-stream"
            assert stream.head().headers["X-Accel-Buffering"] == "no"
            assert "no-cache" in stream.head().headers["Cache-Control"]
            events = stream.events()
        assert [event.id for event in events] == [None] * len(events)  # nothing to come back to
        messages = [event.message for event in events]
        assert [message["params"]["progress"] for message in messages[:-1]] == [1, 2]
        assert messages[-1]["result"]["content"][0]["text"] == "done"


def test_modern_accepts():
    with Host() as host:
        body = modern_body("tools/call", {"name": "steps", "arguments": {"steps": 2}}, progressToken="t")
        for accept in ("application/json", "application/*", "text/event-stream;q=0, */*"):
            status, got, answer = host.request("POST", dumps(body), modern_headers("tools/call", "steps", Accept=accept))
            assert (status, got["Content-Type"]) == (200, "application/json"), (accept, answer)
            assert json.loads(answer)["result"]["content"][0]["text"] == "done"
        status, got, answer = host.request("POST", dumps(modern_body("tools/list")),
                                           modern_headers("tools/list", Accept="text/event-stream"))
        assert (status, got["Content-Type"]) == (200, "text/event-stream") and b"tools" in answer
        assert modern(host, "tools/list", Accept=None)[0] == 200


def test_modern_disconnect_cancels():
    with Host() as host:
        body = modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 60000}})
        stream = Stream(host, "POST", dumps(body), modern_headers("tools/call", "sleep"))
        stream.socket.settimeout(0.2)
        try:
            stream.head()
            raise AssertionError("an answer came")
        except TimeoutError:
            pass
        stream.close()
        host.await_errors("cancelled")
        body = modern_body("tools/call", {"name": "steps", "arguments": {"ms": 60000}}, progressToken=1)
        with Stream(host, "POST", dumps(body), modern_headers("tools/call", "steps")) as stream:
            assert stream.event().message["params"]["progress"] == 1
        host.await_errors("cancelled", 2)


def test_modern_silence_becomes_a_stream():
    with Host("http.keep_alive=100ms") as host:
        body = modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 3000}})
        with Stream(host, "POST", dumps(body), modern_headers("tools/call", "sleep")) as stream:
            assert stream.head().headers["Content-Type"] == "text/event-stream"
            assert stream.event(comments=True).comment
            assert stream.event(comments=True).comment
            assert stream.messages()[-1]["result"]["content"][0]["text"] == "done"


def test_modern_listening():
    with Host() as host:
        body = modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, request_id="s")
        with Stream(host, "POST", dumps(body), modern_headers("subscriptions/listen")) as stream:
            assert stream.event().message["method"] == "notifications/subscriptions/acknowledged"
            host.tell("prompts")
            host.tell("tools")
            assert stream.event().message["method"] == "notifications/tools/list_changed"
            host.terminate()
            last = stream.messages()[-1]
            assert last["id"] == "s" and "result" in last, last


def test_modern_result_of_many_megabytes():
    with Host() as host:
        for stream in (0, 1):
            body = modern_body("tools/call", {"name": "big", "arguments": {"size": 8 << 20, "stream": stream}},
                               **{"io.modelcontextprotocol/logLevel": "debug"})
            with Stream(host, "POST", dumps(body), modern_headers("tools/call", "big")) as got:
                kind = got.head().headers["Content-Type"]
                assert kind == ("text/event-stream" if stream else "application/json")
                message = got.messages()[-1] if stream else json.loads(got.head().read())
                assert len(message["result"]["content"][0]["text"]) == 8 << 20


if __name__ == "__main__":
    main()
