#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP of both eras, with tools that need no sandbox. Usage: test_http.py HOST PLUGIN [PATTERN...]"""
import base64
import json
import pathlib
import random
import tempfile

from http_case import (BOTH, LEGACY, MODERN, Host, Session, Stream, VERSION_KEY, call, dumps, error_code, meta, modern,
                       modern_body, modern_headers)
from tap import main, skip


def base64_header(text):
    return "=?base64?%s?=" % base64.b64encode(text.encode()).decode()


# ---- what is common to both eras


def test_paths():
    with Host() as host:
        body, headers = dumps(modern_body("tools/list")), modern_headers("tools/list")
        assert host.request("POST", body, headers, "/mcp")[0] == 200
        assert host.request("POST", body, headers, "/mcp/")[0] == 200
        assert host.request("POST", body, headers, "/other")[0] == 404
        assert host.request("PUT", body, headers)[0] == 405


def test_another_path():
    with Host("http.path=/a/b") as host:
        assert host.url.endswith("/a/b")
        assert modern(host, "tools/list")[0] == 200
        assert host.get("/mcp")[0] == 404


def test_content_type():
    with Host() as host:
        for kind in ("text/plain", "application/jsonp", "application/json; charset=latin-1", "", None):
            status, _, body = host.request("POST", dumps(modern_body("tools/list")),
                                           modern_headers("tools/list", Content_Type=kind))
            assert (status, error_code(body)) == (415, -32600), (kind, status)
        for kind in ("application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\"", "application/json ;x=y"):
            assert modern(host, "tools/list", Content_Type=kind)[0] == 200, kind


def test_malformed_bodies():
    with Host() as host:
        for headers in (modern_headers("tools/list"), {"Content-Type": "application/json", "Accept": BOTH}):
            for body in (b"", b" \r\n\t", b"{", b"nonsense", b"\xff\xfe{}", b'"\xc3"', b"{}garbage", b'{"a":"\xed\xa0\x80"}',
                         b"[" * 5000, b"42", b"null"):
                status, got, answer = host.request("POST", body, headers)
                assert status == 400 and got["Content-Type"] == "application/json", (body, status, answer)
                assert error_code(answer) in (-32700, -32600) and json.loads(answer)["id"] is None, (body, answer)
            for message in ({"jsonrpc": "2.0", "id": 7}, {"jsonrpc": "1.0", "id": 7, "method": "ping"},
                            {"id": 7, "method": "ping"}, {"jsonrpc": "2.0", "id": 7, "method": 5}):
                status, _, answer = host.request("POST", dumps(message), headers)
                assert (status, error_code(answer)) == (400, -32600), (message, status, answer)
            status, _, answer = host.request("POST", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', headers)
            assert status == 400 and error_code(answer) in (-32600, -32700)


def test_too_large():
    with Host("max_message=64k") as host:
        assert host.request("POST", b" " * 70000, modern_headers("tools/list"))[0] == 413


def test_foreign_host_and_origin():
    with Host() as host:
        body = dumps(modern_body("tools/list"))
        assert host.request("POST", body, modern_headers("tools/list", Host="evil.example"))[0] in (403, 421)
        assert host.request("POST", body, modern_headers("tools/list", Origin="http://evil.example"))[0] == 403
        local = "http://127.0.0.1:%d" % host.port
        assert host.request("POST", body, modern_headers("tools/list", Origin=local))[0] == 200


def mutated(chance, body):
    """The body with a few bytes changed, cut, repeated or put in the place of others."""
    body = bytearray(body)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(body) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            del body[at:at + chance.randrange(1, 9)]
        elif kind == 1:
            body[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
        elif kind == 2:
            body[at:at + 1] = chance.choice([b"{", b"}", b"[", b'"', b",", b"\\", b"null", b"1e999", b"-0", b"\0"])
        elif kind == 3:
            body[at:at] = body[:chance.randrange(40)]
        else:
            body[at:at] = b"[" * chance.randrange(100)
    return bytes(body)


def test_thousands_of_malformed_messages():
    chance = random.Random(20261121)  # the same ones each time
    texts = [dumps(modern_body("tools/list")), dumps(modern_body("tools/call", {"name": "nothing", "arguments": {}})),
             dumps(modern_body("server/discover", {}, request_id="x")), dumps([modern_body("ping")]),
             dumps({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": LEGACY}})]
    versions = (MODERN, LEGACY, "", "x" * 300, "2026-07-28 ", None)
    with Host("http.max_sessions=8") as host:
        connection = host.connect()
        for _ in range(2500):
            method = chance.choice(["tools/list", "tools/call", "server/discover", "initialize", "", "\t", "a" * 500])
            headers = modern_headers(method, chance.choice(["nothing", "=?base64?!?=", "=?base64??=", None]),
                                     MCP_Protocol_Version=chance.choice(versions),
                                     Mcp_Session_Id=chance.choice(["0" * 32, "x", None]))
            connection.request("POST", "/mcp", mutated(chance, chance.choice(texts)), headers)
            response = connection.getresponse()
            body = response.read()
            assert response.status in (200, 202, 400, 404, 406, 503), (response.status, body)
            if body and response.headers["Content-Type"] == "application/json":
                json.loads(body)
        connection.close()
        assert modern(host, "tools/list")[0] == 200


# ---- modern


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


# ---- legacy


def test_legacy_session():
    with Host() as host:
        session = Session(host)
        assert len(session.id) == 32 and session.result["protocolVersion"] == LEGACY
        status, headers, body = session.call("echo")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body)["result"]["content"][0]["text"] == "echo"
        assert session.post("no/such")[0] == 200 and error_code(session.post("no/such")[2]) == -32601
        status, _, body = session.post("notifications/anything", request_id=None)
        assert (status, body) == (202, b"")
        assert session.delete() == 200
        assert session.delete() == 404
        for status, _, body in (session.post("ping"), session.post("notifications/x", request_id=None)):
            assert (status, error_code(body)) == (404, -32600)


def test_legacy_needs_a_session():
    with Host() as host:
        session = Session(host)
        status, _, body = session.post("ping", Mcp_Session_Id=None)
        assert (status, error_code(body), json.loads(body)["id"]) == (400, -32600, 1)
        for other in ("x", "0" * 32, session.id[:-1], session.id + "0", session.id.upper() + "x"):
            assert session.post("ping", Mcp_Session_Id=other)[0] == 404, other
        assert session.post("ping")[0] == 200


def test_legacy_versions():
    with Host() as host:
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY):
            session = Session(host, revision)
            assert session.result["protocolVersion"] == revision
            assert session.post("ping", MCP_Protocol_Version=None)[0] == 200
        assert Session(host, "1999-01-01").result["protocolVersion"] == LEGACY
        for version in ("1999-01-01", "nonsense", ""):
            status, _, body = session.post("ping", MCP_Protocol_Version=version)
            assert (status, error_code(body)) == (400, -32600), version  # and no code of the modern revisions


def test_legacy_accept():
    with Host() as host:
        session = Session(host)
        for accept in ("application/json", "text/event-stream", "text/html", "", None):
            assert session.post("ping", Accept=accept)[0] == 406, accept
        for accept in ("*/*", "text/event-stream,application/json", "application/*, text/*"):
            assert session.post("ping", Accept=accept)[0] == 200, accept
        for accept in ("application/json", None):
            assert host.request("GET", None, session.headers(Accept=accept, Content_Type=None))[0] == 406


def test_legacy_batches():
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
             {"jsonrpc": "2.0", "id": 2, "method": "ping"}]
    with Host() as host:
        session = Session(host, "2025-03-26")
        status, _, body = host.request("POST", dumps(batch), session.headers())
        assert status == 200 and sorted(answer["id"] for answer in json.loads(body)) == [1, 2]
        assert host.request("POST", dumps(batch[1:2]), session.headers())[0] == 202
        status, _, body = host.request("POST", dumps(batch), Session(host).headers())
        assert (status, error_code(body)) == (400, -32600)
        status, _, body = host.request("POST", dumps([{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]),
                                       session.headers())
        assert (status, error_code(body)) == (400, -32600)


def test_legacy_stream_has_ids():
    with Host() as host:
        session = Session(host)
        with session.begin_call("steps", {"steps": 2}, token="t") as stream:
            events = stream.events()
        first = events[0]
        assert first.id and first.data == "" and first.retry is not None
        answers = [event.message for event in events if event.data]
        assert answers[-1]["result"]["content"][0]["text"] == "done"
        kept = [event for event in events if event.data and event.message.get("method") != "notifications/progress"]
        ids = [event.id for event in kept]
        assert all(ids) and len(set(ids)) == len(ids) and first.id not in ids


def test_no_priming_before_2025_11_25():
    with Host() as host:
        with Session(host, "2025-06-18").begin_call("steps", {"steps": 2}, token="t") as stream:
            assert all(event.data for event in stream.events())


def test_legacy_disconnect_and_resume():
    with Host() as host:
        session = Session(host)
        stream = session.begin_call("steps", {"steps": 3, "ms": 100}, request_id=9, token="t")
        first = stream.event().id
        stream.close()
        with session.listen(first) as again:
            assert again.status == 200
            messages = again.messages()
            assert messages[-1]["id"] == 9 and messages[-1]["result"]["content"][0]["text"] == "done", messages
            assert not any("method" in message for message in messages[-1:])
        with session.listen(first) as again:  # as often as it likes
            events = again.events()
            assert events[-1].message["id"] == 9
        assert "cancelled" not in host.errors()
        with session.listen(events[-1].id) as again:
            assert again.status == 400  # there is nothing more, and the client is not to ask again and again


def test_resume_is_scoped():
    with Host() as host:
        one, two = Session(host), Session(host)
        with one.begin_call("steps", {"steps": 2, "ms": 1}, token="t") as stream:
            first = stream.events()[0].id
        for wrong in (first + "0", first.rsplit("-", 1)[0] + "-99", "nonsense", "-", "--", first + "-1",
                      first.replace(first[0], "z", 1), "9" * 300):
            with one.listen(wrong) as again:
                assert again.status == 400, wrong
        with two.listen(first) as again:
            assert again.status == 400
        with two.begin_call("steps", {"steps": 1}, request_id="two", token="t") as stream:
            stream.events()
        with one.listen(first) as again:
            assert {message.get("id") for message in again.messages()} <= {None, 1}


def test_what_is_no_longer_kept():
    with Host() as host:
        session = Session(host)
        with session.begin_call("big", {"size": 5 << 20, "stream": 1}) as stream:
            events = stream.events()  # the first of them had to go for the last, which is larger than all may be
        assert len(events) == 3 and len(events[2].data) > 5 << 20
        with session.listen(events[0].id) as again:
            assert again.status == 400  # better than a hole in the middle
        with session.listen(events[1].id) as again:
            assert again.event().data == events[2].data


def test_one_message_never_on_two_streams():
    with Host() as host:
        session = Session(host)
        with session.listen() as unasked:
            assert unasked.event().id
            with session.begin_call("steps", {"steps": 3}, token="t") as stream:
                assert len(stream.events()) > 3
            host.tell("tools")
            event = unasked.event()
            assert event.message["method"] == "notifications/tools/list_changed", event.data


def test_resuming_takes_over():
    with Host() as host:
        session = Session(host)
        with session.begin_call("sleep", {"ms": 3000}, token="t") as stream:
            first = stream.event().id
            with session.listen(first) as again:
                assert again.status == 200
                assert stream.event() is None  # ended: the message goes one way
                assert again.messages()[-1]["result"]["content"][0]["text"] == "done"


def test_close_stream_and_polling():
    with Host() as host:
        session = Session(host)
        with session.begin_call("poll", {"ms": 100}, request_id=5) as stream:
            events = stream.events()
        assert events and all(event.data == "" for event in events) and events[-1].id
        assert events[-1].retry == 20
        with session.listen(events[-1].id) as again:
            assert again.messages()[-1]["id"] == 5
        # A client that could not come back keeps its stream.
        status, _, body = Session(host, "2025-06-18").call("poll", {"ms": 1})
        assert status == 200 and json.loads(body)["result"]["content"][0]["text"] == "done"


def test_unasked_stream():
    with Host() as host:
        session = Session(host)
        with session.listen() as stream:
            first = stream.event()
            assert stream.status == 200 and first.id and first.retry
            with session.listen() as second:
                assert second.status == 409
            host.tell("tools")
            assert stream.event().message["method"] == "notifications/tools/list_changed"
        host.tell("prompts")
        with session.listen(first.id) as again:
            assert [again.event().message["method"] for _ in range(2)] == [
                "notifications/tools/list_changed", "notifications/prompts/list_changed"]


def test_legacy_question():
    with Host() as host:
        session = Session(host, capabilities={"elicitation": {}})
        with session.begin_call("ask", request_id="a") as stream:
            event = stream.event()
            while not event.data:
                event = stream.event()
            assert event.message["method"] == "elicitation/create"
            answer = {"jsonrpc": "2.0", "id": event.message["id"],
                      "result": {"action": "accept", "content": {}}}
            status, _, body = host.request("POST", dumps(answer), session.headers())
            assert (status, body) == (202, b"")
            assert stream.messages()[-1]["result"]["content"][0]["text"] == "answered"


def test_legacy_cancel():
    with Host() as host:
        session = Session(host)
        stream = session.begin_call("sleep", {"ms": 60000}, request_id="c")
        while session.post("notifications/cancelled", {"requestId": "c"}, request_id=None)[0] == 202:
            if "cancelled" in host.errors():
                break
        assert stream.status == 202 and stream.head().read() == b""  # nothing is said of it
        stream.close()
        with session.begin_call("sleep", {"ms": 60000}, request_id="d", token="t") as stream:
            first = stream.event().id
            assert session.post("notifications/cancelled", {"requestId": "d"}, request_id=None)[0] == 202
            assert stream.event() is None
        with session.listen(first) as again:
            assert again.status == 400


def test_delete_ends_what_is_under_way():
    with Host() as host:
        session = Session(host)
        with session.begin_call("sleep", {"ms": 60000}, request_id="c") as waiting, session.listen() as unasked:
            unasked.event()
            with session.begin_call("sleep", {"ms": 60000}, request_id="d", token="t") as streaming:
                streaming.event()
                host.await_unanswered(2)
                assert session.delete() == 200
                assert streaming.event() is None
            assert unasked.event() is None
            assert waiting.status == 404
        host.await_errors("cancelled", 2)


def test_progress_token_streams_at_once():
    with Host() as host:
        with Session(host).begin_call("sleep", {"ms": 200}, token=5) as stream:
            assert stream.head().headers["Content-Type"] == "text/event-stream"
            assert stream.event().data == ""


def test_keep_alive():
    with Host("http.keep_alive=100ms") as host:
        with Session(host).listen() as stream:
            stream.event()
            assert stream.event(comments=True).comment
            assert stream.event(comments=True).comment


def test_session_ends_when_nobody_uses_it():
    with Host("http.session_ttl=1s", "http.keep_alive=100ms") as host:
        session, used = Session(host), Session(host)
        with used.listen() as stream:  # as long as somebody listens it is in use
            stream.event()
            for _ in range(40):
                stream.event(comments=True)
            assert session.post("ping")[0] == 404
            assert used.post("ping")[0] == 200


def test_most_sessions():
    with Host("http.max_sessions=3", "http.max_sessions_per_principal=1") as host:
        sessions = [Session(host) for _ in range(3)]  # nobody has a token: one may have all
        assert sessions[1].post("ping")[0] == sessions[0].post("ping")[0] == 200
        sessions.append(Session(host))  # the one that nobody has used for longest goes
        assert [session.post("ping")[0] for session in sessions] == [200, 200, 404, 200]
        streams = [sessions[index].listen() for index in (0, 1, 3)]
        assert [stream.event().data for stream in streams] == ["", "", ""]
        status, _, body = sessions[2].host.request("POST", sessions[2].body("initialize", {
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
            {"Content-Type": "application/json", "Accept": BOTH})
        assert (status, error_code(body)) == (503, -32603), body
        for stream in streams:
            stream.close()


def test_refused_initialize_makes_no_session():
    with Host() as host:
        status, headers, body = host.request("POST", dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                                                            "params": {"protocolVersion": 5}}),
                                             {"Content-Type": "application/json", "Accept": BOTH})
        assert "Mcp-Session-Id" not in headers and error_code(body) == -32602, body
        assert b"snipara_sandbox_mcp_http_sessions 0\n" in host.get("/metrics")[2]


# ---- operators, and the end


def test_health_and_figures():
    with Host() as host:
        assert host.get("/healthz")[::2] == (200, b"ok\n")
        assert host.get("/readyz")[::2] == (200, b"ready\n")
        Session(host).call("echo")
        call(host, "echo")
        host.request("POST", b"", modern_headers("x", Host="evil.example"))
        status, headers, body = host.get("/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = body.decode().splitlines()
        assert "fake 1" in lines  # of the core
        for line in ('snipara_sandbox_mcp_requests_total{era="legacy"} 3', 'snipara_sandbox_mcp_requests_total{era="modern"} 1',
                     'snipara_sandbox_http_refused_total{reason="host"} 1', "snipara_sandbox_mcp_http_sessions 1",
                     'snipara_sandbox_mcp_request_duration_seconds_count{method="tools/call"} 2'):
            assert line in lines, (line, lines)
        names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(names) == len(set(names))
        assert host.get("/.well-known/oauth-protected-resource")[0] == 404  # there is no issuer


def test_where_tokens_come_from():
    with tempfile.TemporaryDirectory() as directory:
        keys = pathlib.Path(directory, "keys.json")
        keys.write_text(json.dumps({"keys": [{  # the public key of RFC 7517, appendix A.1
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1",
            "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}))
        try:
            host = Host("http.issuer=https://login.example", "http.audience=https://sandbox.example/mcp",
                        "http.jwks=%s" % keys)
        except AssertionError as error:
            if "built without" in str(error) or "left out" in str(error):
                skip("JSON Web Tokens were left out of the build")
            raise
        with host:
            for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
                status, headers, body = host.get(path)
                assert (status, headers["Content-Type"]) == (200, "application/json")
                document = json.loads(body)
                assert document["resource"] == "https://sandbox.example/mcp"
                assert document["authorization_servers"] == ["https://login.example"]
            status, headers, _ = host.request("POST", b"{}", modern_headers("x"))
            assert status == 401
            assert "https://sandbox.example/.well-known/oauth-protected-resource/mcp" in headers["WWW-Authenticate"]
            assert host.get("/metrics")[0] == 401 and host.get("/healthz")[0] == 200


def test_shutdown_lets_requests_end():
    with Host() as host:
        body = dumps(modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 4000}}))
        with Stream(host, "POST", body, modern_headers("tools/call", "sleep")) as stream, \
                Session(host).listen() as unasked:
            unasked.event()
            host.await_unanswered(1)
            host.terminate()
            assert stream.status == 200
            assert json.loads(stream.head().read())["result"]["content"][0]["text"] == "done"
            assert unasked.event() is None
        assert host.end() == 0 and "cancelled" not in host.errors()


def test_shutdown_cancels_what_takes_too_long():
    with Host("http.shutdown=100ms") as host:
        session = Session(host)
        body = dumps(modern_body("tools/call", {"name": "sleep", "arguments": {"ms": 60000}}))
        with Stream(host, "POST", body, modern_headers("tools/call", "sleep")) as one, \
                session.begin_call("sleep", {"ms": 60000}) as two, \
                session.begin_call("sleep", {"ms": 60000}, request_id=2, token="t") as three:
            three.event()
            host.await_unanswered(3)
            host.terminate()
            assert one.status == 503 and two.status == 503 and three.event() is None
        assert host.end() == 0
        assert host.errors().count("cancelled") == 3


def test_settings_that_can_not_be():
    for setting, word in (("http.path=mcp", "http.path"), ("http.path=/metrics", "http.path"),
                          ("http.listen=nonsense", "nonsense"), ("http.issuer=https://x.example", "http.audience"),
                          ("http.token_file=/no/such/file", "/no/such/file")):
        try:
            Host(setting).end()
            raise AssertionError("%s was taken" % setting)
        except AssertionError as error:
            assert "ended with 1" in str(error) and word in str(error), error


if __name__ == "__main__":
    main()
