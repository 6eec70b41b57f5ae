#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP: sessions and streams of the older versions, with tools that need no sandbox.

Usage: test_http_legacy.py HOST PLUGIN [PATTERN...]"""
import json

from http_case import BOTH, LEGACY, Host, Session, dumps, error_code
from tap import main


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


if __name__ == "__main__":
    main()
