#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snipara-sandbox mcp-serve` by raw lines: what it answers to good and bad messages, in every order, with real sandboxed
code behind it. The program is $SNIPARA_SANDBOX."""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mcp_client import REVISIONS, Server, process_tree, text_of, wait_until_dead
from tap import main

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
MESSAGE_MAX = 32 << 20  # the default of max_message
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
META = {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SLOW = float(os.environ.get("TEST_SLOWNESS", "1"))  # sanitizers take their time


def start(**popen):
    return Server([PROGRAM, "mcp-serve"], timeout=60 * SLOW, **popen)


def initialized(revision=REVISIONS[-1], **popen):
    server = start(**popen)
    server.initialize(revision)
    return server


def error_of(response, code, request_id=None):
    assert response["jsonrpc"] == "2.0" and "result" not in response, response
    assert response["id"] == request_id and response["error"]["code"] == code, response
    assert response["error"]["message"]
    return response["error"]["message"]


def python(server, code, **arguments):
    """Runs code, which must succeed; returns what it printed."""
    result = server.call("execute_python", dict(arguments, code=code))
    assert not result.get("isError"), text_of(result)
    return text_of(result)


def warm_up(server, *sessions):
    for session in sessions or ("default",):
        python(server, "warm = True", session_id=session)


# ---- handshake


def test_every_revision():
    for revision in REVISIONS:
        with start() as server:
            result = server.initialize(revision)
            assert result["protocolVersion"] == revision
            assert result["serverInfo"]["name"] == "SniparaSandbox"
            expected = {"tools", "prompts", "resources", "logging"}
            assert set(result["capabilities"]) == expected | ({"completions"} if revision > REVISIONS[0] else set())
            assert server.ask("tools/list")["result"]["tools"]


def test_unknown_revisions_get_the_newest():
    for revision in ("2024-10-07", "2026-07-28", "3", ""):
        with start() as server:
            assert server.initialize(revision)["protocolVersion"] == "2025-11-25"


def test_probe_of_a_newer_client():
    """A client that speaks both eras asks first with the modern method, then may go on either way, on the same pipe."""
    with start() as server:
        error_of(server.ask("server/discover", {"_meta": {VERSION_KEY: "2026-07-28"}}), -32602, 1)
        discovered = server.ask("server/discover", {"_meta": META})["result"]
        assert discovered["supportedVersions"] == ["2026-07-28"] and discovered["resultType"] == "complete"
        server.initialize()
        assert python(server, "x = 6 * 7\nprint(x)").strip() == "42"
        response = server.ask("tools/call", {"name": "execute_python", "arguments": {"code": "print(x)"}, "_meta": META})
        assert text_of(response["result"]).strip() == "42" and response["result"]["resultType"] == "complete", response
        assert "resultType" not in server.call("execute_python", {"code": "x"})


def test_modern_only():
    """A client that never initializes."""
    with start() as server:
        tools = server.ask("tools/list", {"_meta": META})["result"]
        assert tools["tools"] and tools["ttlMs"] >= 0 and tools["cacheScope"] in ("public", "private")
        assert tools["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "SniparaSandbox"
        result = server.ask("tools/call", {"name": "execute_python", "arguments": {"code": "1 / 0"}, "_meta": META})
        assert result["result"]["isError"] is True and "ZeroDivisionError" in text_of(result["result"])
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"):
            error_of(server.ask(method, {"_meta": META}), -32601, server.next_id)
        old = dict(META, **{VERSION_KEY: "2025-11-25"})
        response = server.ask("tools/list", {"_meta": old})
        error_of(response, -32022, server.next_id)
        assert response["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        missing = server.ask("resources/read", {"uri": "repl://nobody/files/x", "_meta": META})
        error_of(missing, -32602, server.next_id)
        assert missing["error"]["data"]["uri"] == "repl://nobody/files/x"
        error_of(server.ask("prompts/list", {"_meta": META, "cursor": "made-up"}), -32602, server.next_id)


def test_listening():
    with start() as server:
        listening = server.request("subscriptions/listen", {"_meta": META, "notifications": {
            "toolsListChanged": True, "resourceSubscriptions": ["repl://s/files/x.txt"]}})
        ack = server.message()
        assert ack["method"] == "notifications/subscriptions/acknowledged", ack
        tag = {"io.modelcontextprotocol/subscriptionId": listening}
        assert ack["params"] == {"_meta": tag, "notifications": {
            "toolsListChanged": True, "resourceSubscriptions": ["repl://s/files/x.txt"]}}
        writing = server.request("tools/call", {"name": "execute_python", "_meta": META, "arguments": {
            "session_id": "s", "code": "open('x.txt', 'w').write('new')"}})
        messages = [server.message(), server.message()]
        assert {message.get("id") for message in messages} == {None, writing}, messages
        news = [message for message in messages if "id" not in message][0]
        assert news["method"] == "notifications/resources/updated", news
        assert news["params"] == {"_meta": tag, "uri": "repl://s/files/x.txt"}, news
        server.terminate()
        end = server.message()
        assert end["id"] == listening and end["result"]["_meta"].items() >= tag.items(), end


def test_methods_before_initialize():
    with start() as server:
        assert server.ask("ping")["result"] == {}
        error_of(server.ask("tools/list"), -32600, 2)
        error_of(server.ask("tools/call", {"name": "execute_python", "arguments": {"code": "1"}}), -32600, 3)
        server.initialize()
        error_of(server.ask("initialize", {"protocolVersion": REVISIONS[0]}), -32600, server.next_id)
        assert server.ask("tools/list")["result"]["tools"]


def test_initialized_notification_is_not_needed():
    with start() as server:
        server.ask("initialize", {"protocolVersion": REVISIONS[0]})
        assert server.ask("tools/list")["result"]["tools"]


# ---- tools


def test_tools_are_sound():
    with initialized() as server:
        tools = server.ask("tools/list")["result"]["tools"]
        names = [tool["name"] for tool in tools]
        for name in ("execute_python", "get_repl_context", "set_repl_context", "clear_repl_context", "list_sessions",
                     "destroy_session", "execute"):
            assert name in names, names
        for tool in tools:
            schema = tool["inputSchema"]
            assert schema["type"] == "object" and not {"oneOf", "anyOf", "allOf"} & set(schema), tool
            assert 0 < len(tool["description"].encode()) < 2048
            assert "outputSchema" not in tool
            assert "annotations" in tool
        with initialized() as other:
            assert other.ask("tools/list")["result"]["tools"] == tools
        error_of(server.ask("tools/list", {"cursor": "made-up"}), -32602, server.next_id)
        result = server.call(names[0], {})  # an error of the tool, not of the protocol
        assert result["isError"] is True


def test_variables_stay():
    with initialized() as server:
        python(server, "import math\nx = [1, 2]")
        assert python(server, "x.append(3)\nprint(sum(x), math.floor(2.5))").split() == ["6", "2"]


def test_arguments_may_be_missing():
    with initialized() as server:
        assert not server.call("list_sessions").get("isError")


def test_bad_calls():
    cases = [
        (None, "params.name"), ({}, "params.name"), ({"name": 7}, "params.name"), ({"name": None}, "params.name"),
        ({"name": "nothing_like_it"}, "nothing_like_it"),
        ({"name": "execute_python", "arguments": []}, "arguments"),
        ({"name": "execute_python", "arguments": "code"}, "arguments"),
        ({"name": "execute_python", "arguments": None}, "arguments"),
        ({"name": "execute_python", "arguments": {"code": "1"}, "_meta": 7}, "_meta"),
        ({"name": "execute_python", "arguments": {"code": "1"}, "_meta": {"progressToken": 0.5}}, "progressToken"),
    ]
    with initialized() as server:
        for params, words in cases:
            response = server.ask("tools/call", params)
            assert words in error_of(response, -32602, server.next_id), response


def test_bad_arguments():
    cases = [({}, "code"), ({"code": 7}, "code"), ({"code": None}, "code"), ({"code": "1", "timeout": 0}, "timeout"),
             ({"code": "1", "timeout": 10000}, "timeout"), ({"code": "1", "timeout": "5"}, "timeout"),
             ({"code": "1", "profile": "giant"}, "profile"), ({"code": "1", "nonsense": 1}, "nonsense"),
             ({"code": "1", "session_id": 3}, "session_id")]
    with initialized() as server:
        for arguments, words in cases:
            result = server.call("execute_python", arguments)
            assert result["isError"] is True and words in text_of(result), (arguments, result)


def test_unknown_tool_suggests():
    with initialized() as server:
        response = server.ask("tools/call", {"name": "execute_pyton", "arguments": {"code": "1"}})
        assert "execute_python" in error_of(response, -32602, server.next_id)


# ---- messages that are wrong


def test_invalid_messages():
    cases = [
        (b"rubbish", -32700, None), (b"{", -32700, None), (b"\xff", -32700, None), (b"\0", -32700, None),
        (b'"ping"', -32700, None), (b"7", -32700, None),
        (b"{}", -32600, None), (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"id":7,"method":"ping"}', -32600, 7), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"a","method":7}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":7}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"a","id":"b","method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","method":"ping"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":' + b"[" * 70 + b"]" * 70 + b"}}", -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\\ud800"}}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}', -32602, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"no/such"}', -32601, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"resources/read"}', -32602, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"logging/setLevel","params":{"level":"loud"}}', -32602, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":"server/discover"}', -32602, "a"),
        (b'[{"jsonrpc":"2.0","id":"a","method":"ping"}]', -32600, None), (b"[]", -32600, None),
    ]
    with initialized() as server:
        for line, code, request_id in cases:
            server.send(line)
            error_of(server.message(), code, request_id)
        assert server.ask("ping")["result"] == {}


def test_ids_come_back_exactly():
    ids = [0, -1, 9007199254740993, 9223372036854775807, -9223372036854775808, "", "7", "\u00e9\n\"\\\0\U0001f600"]
    with initialized() as server:
        for request_id in ids:
            server.request("ping", request_id=request_id)
            response = server.message()
            assert response["id"] == request_id and type(response["id"]) is type(request_id), response


def test_what_is_never_answered():
    with initialized() as server:
        for line in ({"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "no/such"},
                     {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "list_sessions"}},
                     {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown"}},
                     {"jsonrpc": "2.0", "method": "notifications/cancelled"},
                     {"jsonrpc": "2.0", "id": 5, "result": {}}, {"jsonrpc": "2.0", "id": 5, "error": {"code": 1}}):
            server.send(line)
        server.send(b"")
        server.send(b"  \r")
        assert server.ask("ping")["result"] == {}


def test_ten_thousand_malformed_messages():
    kinds = [b"rubbish\n", b"{\n", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', b"[" * 1000 + b"\n",
             b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}\n']
    with initialized() as server:
        python(server, "kept = 1")
        server.write(b"".join(kinds) * 2000)
        for _ in range(10000):
            assert "error" in server.message()
        assert python(server, "print(kept)").strip() == "1"


def test_message_at_and_beyond_the_maximum():
    with initialized() as server:
        empty = b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":""}}'
        room = MESSAGE_MAX - len(empty)
        server.send(empty[:-3] + b"x" * room + empty[-3:])
        assert server.message()["result"] == {}
        server.send(empty[:-3] + b"x" * (room + 1) + empty[-3:])
        assert str(MESSAGE_MAX) in error_of(server.message(), -32600)
        assert server.ask("ping")["result"] == {}


def test_ten_megabytes_of_source():
    with initialized() as server:
        code = "text = '%s'\nprint(len(text))" % ("x" * (10 << 20))
        assert python(server, code).strip() == str(10 << 20)


def test_strings_of_every_kind():
    with initialized() as server:
        text = "\u00e9\u20ac\U0001f600 \x7f \" \\ "
        assert python(server, "print(%r)" % text).strip("\n") == text.strip("\n")
        shown = python(server, r"print('\ud800', '\0', '\x1b[0m')")  # a lone surrogate does not reach the client
        shown.encode()
        result = server.call("execute_python", {"code": "x = '\0'"})
        assert result["isError"] is True


# ---- concurrency and cancelling


def test_calls_of_two_sessions_overlap():
    """By the clock that the sessions share: each begins before the other ends."""
    code = "import time; begin = time.monotonic(); time.sleep(%s); print(begin, time.monotonic())"
    with initialized() as server:
        warm_up(server, "a", "b")
        slow = server.start_call("execute_python", {"code": code % 3, "session_id": "a"})
        fast = server.start_call("execute_python", {"code": code % 1, "session_id": "b"})
        assert server.ask("ping")["result"] == {}
        times = {}
        for _ in range(2):
            message = server.message()
            times[message["id"]] = [float(word) for word in message["result"]["content"][0]["text"].split()]
        assert list(times) == [fast, slow]
        assert times[slow][0] < times[fast][1] and times[fast][0] < times[slow][1], times


def test_calls_of_one_session_keep_their_order():
    with initialized() as server:
        python(server, "seen = []")
        ids = [server.start_call("execute_python", {"code": "seen.append(%d)" % i}) for i in range(30)]
        assert [server.message()["id"] for _ in ids] == ids
        assert json.loads(python(server, "print(seen)")) == list(range(30))


def test_interleaved_sessions():
    """Results go to the request that asked, however the sessions mix."""
    sessions = ["s%d" % i for i in range(6)]
    with initialized() as server:
        for session in sessions:
            python(server, "me = %r\nn = 0" % session, session_id=session)
        expected = {}
        for i in range(20):
            for session in sessions:
                request = server.start_call("execute_python", {"code": "n += 1\nprint(me, n)", "session_id": session})
                expected[request] = "%s %d" % (session, i + 1)
            if i % 5 == 4:
                for _ in range(5 * len(sessions)):
                    response = server.message()
                    assert text_of(response["result"]).strip() == expected.pop(response["id"])
        assert not expected


def test_cancel_keeps_the_variables():
    with initialized() as server:
        python(server, "kept = 41")
        request = server.start_call("execute_python", {"code": "lost = 1\nwhile True: pass"})
        time.sleep(0.3)
        server.notify("notifications/cancelled", {"requestId": request, "reason": "enough"})
        begun = time.monotonic()
        assert python(server, "print(kept + 1)").strip() == "42"  # and no answer to the cancelled one before it
        assert time.monotonic() - begun < 10 * SLOW  # not at the end of the time-out


def test_cancel_in_every_order():
    with initialized() as server:
        python(server, "n = 0")
        # Before the request: there is nothing to cancel yet.
        server.notify("notifications/cancelled", {"requestId": "early"})
        server.start_call("execute_python", {"code": "print('ran')"}, "early")
        response = server.message()
        assert response["id"] == "early" and "ran" in text_of(response["result"])
        # After the answer.
        server.notify("notifications/cancelled", {"requestId": "early"})
        # Twice; and of another type, which is another id.
        server.start_call("execute_python", {"code": "while True: pass"}, 77)
        server.notify("notifications/cancelled", {"requestId": "77"})
        assert server.silent(0.3)
        server.notify("notifications/cancelled", {"requestId": 77})
        server.notify("notifications/cancelled", {"requestId": 77})
        # One that waits behind another of its session never runs.
        first = server.start_call("execute_python", {"code": "import time; time.sleep(0.5); n += 1"})
        second = server.start_call("execute_python", {"code": "n += 100"})
        server.notify("notifications/cancelled", {"requestId": second})
        assert server.message()["id"] == first
        assert python(server, "print(n)").strip() == "1"


def test_cancel_races():
    """Cancelled at every moment of its life, a call is answered once or never, and the session goes on."""
    with initialized() as server:
        python(server, "n = 0")
        for i in range(60):
            request = server.start_call("execute_python", {"code": "n += 1"})
            if i % 3:
                time.sleep(i * 5e-6)
            server.notify("notifications/cancelled", {"requestId": request})
        last = server.start_call("execute_python", {"code": "print('n is', n)"})
        seen = []
        while not seen or seen[-1]["id"] != last:
            seen.append(server.message())
        ids = [response["id"] for response in seen]
        assert len(ids) == len(set(ids))
        for response in seen:
            assert not response["result"].get("isError"), response


def test_an_id_in_use():
    with initialized() as server:
        server.start_call("execute_python", {"code": "import time; time.sleep(0.5)"}, "same")
        server.start_call("execute_python", {"code": "1"}, "same")
        error_of(server.message(), -32600, "same")
        assert "result" in server.message()
        server.start_call("execute_python", {"code": "1"}, "same")
        assert "result" in server.message()


def test_too_many_calls():
    with initialized() as server:
        warm_up(server)
        running = [server.start_call("execute_python", {"code": "import time; time.sleep(1)"}) for _ in range(64)]
        one_more = server.start_call("list_sessions")
        assert "64" in error_of(server.message(), -32010, one_more)
        for request in running:
            server.notify("notifications/cancelled", {"requestId": request})
        assert python(server, "print('free')").strip() == "free"


def test_progress():
    code = "import time\nfor i in range(4):\n    print('line', i, flush=True)\n    time.sleep(0.7)"
    for token in ("token", 7):
        with initialized() as server:
            request = server.start_call("execute_python", {"code": code}, _meta={"progressToken": token})
            last, count = -1, 0
            while True:
                message = server.message()
                if message.get("id") == request:
                    break
                assert message["method"] == "notifications/progress", message
                assert message["params"]["progressToken"] == token
                assert message["params"]["progress"] > last
                last, count = message["params"]["progress"], count + 1
            assert count >= 2, count
            assert server.silent()
    with initialized() as server:  # no token, no progress
        request = server.start_call("execute_python", {"code": code})
        assert server.message()["id"] == request


def test_batches():
    with initialized("2025-03-26") as server:
        server.send([
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
             "params": {"name": "execute_python", "arguments": {"code": "print('in a batch')"}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
            7,
        ])
        answers = {answer["id"]: answer for answer in server.message()}
        assert set(answers) == {"p", 1, 2, None}
        assert "in a batch" in text_of(answers[1]["result"])
        error_of(answers[2], -32601, 2)
        error_of(answers[None], -32600)
        server.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        server.send([])
        error_of(server.message(), -32600)
        # A batch with a cancelled call is answered without it.
        server.send([{"jsonrpc": "2.0", "id": "loop", "method": "tools/call",
                      "params": {"name": "execute_python", "arguments": {"code": "while True: pass"}}},
                     {"jsonrpc": "2.0", "id": "p", "method": "ping"}])
        time.sleep(0.3)
        server.notify("notifications/cancelled", {"requestId": "loop"})
        assert [answer["id"] for answer in server.message()] == ["p"]
    for revision in ("2024-11-05", "2025-06-18", "2025-11-25"):
        with initialized(revision) as server:
            server.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
            error_of(server.message(), -32600)


# ---- the stream, and the end


def test_code_can_not_write_into_the_stream():
    forged = '{"jsonrpc":"2.0","id":1,"result":{"forged":true}}\\n'
    code = "import os, sys\nfor fd in range(1, 3):\n    os.write(fd, b'%s')\nprint('%s')\nsys.__stdout__.write('%s')" % (
        forged, forged, forged)
    with initialized() as server:
        for _ in range(5):
            request = server.start_call("execute_python", {"code": code})
            response = server.message()
            assert response["id"] == request and "forged" not in response["result"]
            assert "forged" in text_of(response["result"])
        result = server.call("execute_python", {"code": "import os\nos.system('echo from a child')"})
        assert "from a child" in text_of(result)


def test_client_that_does_not_read():
    with initialized() as server:
        warm_up(server)
        code = "print('x' * 25000)"
        requests = [server.start_call("execute_python", {"code": code}) for _ in range(60)]
        time.sleep(1)
        assert [server.message()["id"] for _ in requests] == requests


def check_end(end, busy):
    """It ends while the client still waits, long before the time-out of what it runs."""
    with initialized() as server:
        warm_up(server, "a", "b")
        if busy:
            server.start_call("execute_python", {"code": busy, "session_id": "a"})
            time.sleep(0.3)
        pids = process_tree(server.process.pid)
        assert len(pids) > 1
        if end == "input":
            server.close_input()
        elif end == "output":
            server.process.stdout.close()
        else:
            server.process.send_signal(end)
        status = server.wait(10 * SLOW)
        if end != signal.SIGKILL:
            assert status == 0, status
        left = wait_until_dead(pids)
        assert not left, [pathlib.Path("/proc/%d/cmdline" % pid).read_bytes() for pid in left]


def test_end_of_input_while_idle():
    check_end("input", None)


def test_end_of_input_while_running():
    check_end("input", "while True: pass")


def test_end_of_input_while_code_refuses_to_stop():
    check_end("input", "while True:\n    try:\n        while True: pass\n    except BaseException: pass")


def test_end_of_output_while_running():
    check_end("output", "while True: pass")


def test_terminate_while_running():
    check_end(signal.SIGTERM, "while True: pass")


def test_kill_while_running():
    check_end(signal.SIGKILL, "import subprocess\nsubprocess.Popen(['/bin/sleep', '1000'])\nwhile True: pass")


def test_last_line_without_newline():
    with initialized() as server:
        server.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
        server.close_input()
        assert json.loads(server.rest())["id"] == "last"
        assert server.wait() == 0


def test_two_servers_side_by_side():
    """Clients start servers as probes, so several run at once and share nothing."""
    with initialized() as left, initialized() as right:
        python(left, "x = 'left'")
        python(right, "x = 'right'")
        assert python(left, "print(x)").strip() == "left"
        assert python(right, "print(x)").strip() == "right"


if __name__ == "__main__":
    main()
