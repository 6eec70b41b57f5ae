# SPDX-License-Identifier: Apache-2.0
"""The transport over real pipes, with tools that need no sandbox. Usage: test_stdio.py HOST PLUGIN [PATTERN...]"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
from mcp_client import REVISIONS, Closed, Server, text_of
from tap import main

COMMAND = [sys.argv.pop(1), sys.argv.pop(1), "max_message=1m"] if len(sys.argv) > 2 else []
MESSAGE_MAX = 1 << 20  # of the option above


def start(**popen):
    return Server(COMMAND, **popen)


def initialized(revision=REVISIONS[-1], **popen):
    server = start(**popen)
    server.initialize(revision)
    return server


def error_of(response, code, request_id=None):
    assert response["jsonrpc"] == "2.0" and "result" not in response, response
    assert response["id"] == request_id and response["error"]["code"] == code, response
    return response["error"]["message"]


def test_every_revision():
    for revision in REVISIONS:
        with start() as server:
            result = server.initialize(revision)
            assert result["protocolVersion"] == revision
            assert result["serverInfo"]["name"] == "SniparaSandbox"
            tools = server.ask("tools/list")["result"]["tools"]
            assert [tool["name"] for tool in tools] == ["echo"]
            assert text_of(server.call("echo", {})) == "echo"


VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
META = {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def test_both_eras_in_any_order():
    with start() as server:
        assert server.ask("server/discover", {"_meta": META})["result"]["supportedVersions"] == ["2026-07-28"]
        result = server.ask("tools/call", {"name": "echo", "_meta": META})["result"]
        assert result["resultType"] == "complete" and text_of(result) == "echo"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "SniparaSandbox"
        error_of(server.ask("tools/call", {"name": "echo"}), -32600, server.next_id)  # not initialized
        server.initialize("2025-11-25")
        assert "resultType" not in server.call("echo", {})
        assert server.ask("tools/call", {"name": "echo", "_meta": META})["result"]["resultType"] == "complete"
        error_of(server.ask("ping", {"_meta": META}), -32601, server.next_id)
        assert server.ask("ping")["result"] == {}


def test_results_of_any_size_are_wrapped():
    with start() as server:
        for size in (0, 1, 70000, 3000000):
            result = server.ask("tools/call", {"name": "big", "arguments": {"size": size}, "_meta": META})["result"]
            assert result["resultType"] == "complete" and len(text_of(result)) == size


def test_modern_cancel():
    with start() as server:
        server.request("tools/call", {"name": "sleep", "arguments": {"ms": 60000}, "_meta": META}, request_id="slow")
        server.notify("notifications/cancelled", {"requestId": "slow", "_meta": META})
        server.request("tools/call", {"name": "sleep", "arguments": {"ms": 0}, "_meta": META}, request_id="slow")
        assert text_of(server.message()["result"]) == "done"  # the id is free; the first one has no answer
        assert server.silent()


def listen(server, request_id):
    server.request("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}}, request_id)
    ack = server.message()
    assert ack == {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                   "params": {"_meta": {SUBSCRIPTION: request_id}, "notifications": {"toolsListChanged": True}}}, ack


def test_listening_ends_with_a_word():
    with start() as server:
        for request_id in ("a", 7, "b"):
            listen(server, request_id)
        server.notify("notifications/cancelled", {"requestId": "b"})
        assert server.ask("tools/list", {"_meta": META})["result"]["tools"]
        server.terminate()
        ends = [server.message(), server.message()]
        assert {end["id"] for end in ends} == {"a", 7}, ends
        assert all(end["result"]["_meta"][SUBSCRIPTION] == end["id"] for end in ends), ends
        assert server.rest() == b"" and server.wait() == 0


def test_listening_does_not_keep_the_server():
    with start() as server:
        listen(server, 1)
        server.close_input()
        assert server.wait() == 0


def test_malformed_lines():
    with start() as server:
        for line in (b"rubbish", b"{", b"\xff\xfe", b"[", b"\0", b'{"jsonrpc":"2.0",}'):
            server.send(line)
            error_of(server.message(), -32700)
        server.send(b'{"jsonrpc":"2.0","id":5}')
        error_of(server.message(), -32600, 5)
        server.send(b"\n  \t\r\n")  # blank lines are nothing
        assert server.ask("ping")["result"] == {}


def test_ten_thousand_malformed_messages():
    with initialized() as server:
        server.write(b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\nx\n' * 5000)
        for _ in range(5000):
            error_of(server.message(), -32600)
            error_of(server.message(), -32700)
        assert server.ask("ping")["result"] == {}


def test_line_beyond_the_maximum():
    with initialized() as server:
        ping = b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":"%s"}}'
        room = MESSAGE_MAX - len(ping) + 2
        server.send(ping % (b"x" * room))  # exactly the maximum
        assert server.message()["result"] == {}
        server.send(ping % (b"x" * (room + 1)))
        assert "1048576" in error_of(server.message(), -32600)
        server.send(ping % (b"x" * (64 << 20)))
        assert "1048576" in error_of(server.message(), -32600)
        assert server.ask("ping")["result"] == {}


def test_calls_run_side_by_side():
    with initialized() as server:
        slow = server.start_call("sleep", {"ms": 600})
        other = server.start_call("sleep", {"ms": 300})
        assert server.ask("ping")["result"] == {}
        assert server.message()["id"] == other
        assert server.message()["id"] == slow


def test_cancel():
    with initialized() as server:
        request = server.start_call("sleep", {"ms": 60000})
        server.notify("notifications/cancelled", {"requestId": request, "reason": "enough"})
        server.notify("notifications/cancelled", {"requestId": "unknown"})
        assert server.silent()
        assert server.ask("ping")["result"] == {}


def test_cancel_races():
    with initialized() as server:
        for i in range(200):
            request = server.start_call("sleep", {"ms": i % 3})
            server.notify("notifications/cancelled", {"requestId": request})
        end = server.request("ping")
        seen = []
        while True:
            response = server.message()
            if response["id"] == end:
                break
            seen.append(response["id"])
        assert len(seen) == len(set(seen)), seen  # no request is answered twice


def test_progress():
    with initialized() as server:
        request = server.start_call("progress", {"steps": 3}, _meta={"progressToken": "t"})
        for step in (1, 2, 3):
            message = server.message()
            assert message["method"] == "notifications/progress", message
            assert message["params"] == {"progressToken": "t", "progress": step, "total": 3, "message": "step"}
        assert server.message()["id"] == request
        assert server.silent()


def test_batch():
    with initialized("2025-03-26") as server:
        calls = [{"jsonrpc": "2.0", "id": i, "method": "tools/call",
                  "params": {"name": "sleep", "arguments": {"ms": 300 - 100 * i}}} for i in range(3)]
        server.send(calls + [{"jsonrpc": "2.0", "id": "p", "method": "ping"}])
        assert sorted(str(answer["id"]) for answer in server.message()) == ["0", "1", "2", "p"]
    with initialized("2025-06-18") as server:
        server.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        error_of(server.message(), -32600)


def test_end_of_input_cancels():
    for calls in (0, 1, 20):
        with initialized() as server:
            for _ in range(calls):
                server.start_call("sleep", {"ms": 60000})
            server.close_input()
            assert server.rest() == b""
            assert server.wait() == 0


def test_last_line_without_newline():
    with start() as server:
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        server.close_input()
        assert json.loads(server.rest())["result"] == {}
        assert server.wait() == 0


def test_answers_reach_a_client_that_closed_its_side():
    with initialized() as server:
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 20000)
        server.close_input()
        assert server.rest().count(b"\n") <= 20000
        assert server.wait() == 0
    done = subprocess.run(COMMAND, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 20000, capture_output=True,
                          timeout=30, check=True)
    assert done.stdout.count(b"\n") == 20000


def test_terminate():
    with initialized() as server:
        server.start_call("sleep", {"ms": 60000})
        assert server.silent()
        server.terminate()
        assert server.wait() == 0


def test_reader_gone():
    with initialized() as server:
        server.start_call("sleep", {"ms": 60000})
        server.process.stdout.close()
        assert server.wait() == 0


def test_output_that_fails():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(COMMAND, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', stdout=full,
                              stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.returncode == 1 and b"standard output" in done.stderr, done


def test_output_to_a_file():
    with tempfile.TemporaryFile() as file:
        subprocess.run(COMMAND, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 1000, stdout=file, timeout=30,
                       check=True)
        file.seek(0)
        assert len(file.readlines()) == 1000


def peak_kib(server):
    status = pathlib.Path("/proc/%d/status" % server.process.pid).read_text()
    return int([line for line in status.splitlines() if line.startswith("VmHWM")][0].split()[1])


def test_client_that_does_not_read():
    """Results wait, progress is dropped, and memory stays bounded, however much the client asks for."""
    with initialized() as server:
        for _ in range(40):
            server.start_call("big", {"size": 1000000}, _meta={"progressToken": 1})
        server.start_call("progress", {"steps": 1000}, _meta={"progressToken": "dropped"})
        time.sleep(1)
        messages = [server.message() for _ in range(41)]
        while messages[-1].get("method"):
            messages.append(server.message())
        progress = [message for message in messages if message.get("method")]
        assert len(progress) < 40, len(progress)
        while sum("result" in message for message in messages) < 41:
            message = server.message()
            messages.append(message)
        assert server.ask("ping")["result"] == {}
        if os.environ.get("SANITIZER", "none") == "none":  # a sanitizer takes several times as much
            assert peak_kib(server) < 200000, peak_kib(server)


def test_client_that_does_not_read_and_goes():
    for close in ("input", "output", "terminate"):
        server = initialized()
        for _ in range(30):
            server.start_call("big", {"size": 1000000})
        time.sleep(0.3)
        if close == "input":
            server.close_input()
        elif close == "output":
            server.process.stdout.close()
        else:
            server.terminate()
        assert server.wait() == 0
        with server:
            pass


def test_requests_wait_while_the_client_does_not_read():
    """Pings beyond what the queue holds are read later, not dropped."""
    with initialized() as server:
        total = 200000
        line = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        os.set_blocking(server.process.stdin.fileno(), True)  # the feeder shares it
        feeder = subprocess.Popen([sys.executable, "-c", "import sys\nfor _ in range(%d): sys.stdout.buffer.write(%r * 1000)"
                                   % (total // 1000, line)], stdout=server.process.stdin)
        time.sleep(1)
        for _ in range(total):
            assert server.line().startswith(b'{"jsonrpc":"2.0","id":1,"result"')
        assert feeder.wait(10) == 0


def test_sockets():
    """Node gives its children sockets where others give pipes."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.settimeout(20)
        with ours.makefile("rwb") as stream:
            for i in range(100):
                stream.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % i)
            stream.flush()
            for i in range(100):
                assert json.loads(stream.readline())["id"] == i
            ours.shutdown(socket.SHUT_WR)
            assert stream.read() == b""
        ours.close()
        assert process.wait(10) == 0


def test_nothing_else_on_the_stream():
    with initialized() as server:
        for i in range(50):
            server.start_call("progress", {"steps": 5, "ms": 1}, _meta={"progressToken": i})
            server.start_call("big", {"size": 20000})
        results = 0
        while results < 100:
            message = server.message()
            assert message["jsonrpc"] == "2.0"
            results += "id" in message


def test_server_that_ends_is_seen():
    with initialized() as server:
        server.terminate()
        try:
            server.line()
        except Closed:
            return
        raise AssertionError("a line after the end")


if __name__ == "__main__":
    main()
