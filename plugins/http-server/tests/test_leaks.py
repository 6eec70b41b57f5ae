# SPDX-License-Identifier: Apache-2.0
"""Thousands of bad connections of every kind leave nothing behind: no descriptor, no thread, no memory."""
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_case import Server, read_response, request  # noqa: E402
from tap import main, note  # noqa: E402

COUNT = int(os.environ.get("HTTP_SERVER_LEAK_COUNT", "10000"))  # connections of each kind
WARM_UP = max(COUNT // 10, 200)
CLIENTS = 4
GROWTH_MAX = 8 << 20  # bytes, of what the allocator may keep; one exchange for each would be 200 MiB

CHUNKED = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
# What is sent; whether an answer is waited for.
KINDS = {
    "nothing": (b"", False),
    "half a line": (b"GET /ec", False),
    "half a head": (b"GET /echo HTTP/1.1\r\nHost: local", False),
    "half a body": (request("/echo", "POST", body=b"x" * 30000)[:20000], False),
    "half a chunk": (CHUNKED + b"1000\r\nxxxx", False),
    "malformed": (b"GET /echo HTTP/1.1\nHost: localhost\r\n\r\n", True),
    "nonsense": (b"\x16\x03\x01\r\n\r\n", True),
    "malformed chunks": (CHUNKED + b"zz\r\n", True),
    "a head that is too large": (b"GET /echo HTTP/1.1\r\nX: " + b"x" * 70000, True),
    "a body that is too large": (request("/echo", "POST", body=b"x" * 200000)[:1000], True),
    "chunks that are too large": (CHUNKED + b"fffff\r\n" + b"x" * 120000, True),
    "a Host that is not allowed": (request(host="evil.example"), True),
    "an Origin that is not allowed": (request(headers=["Origin: http://evil.example"]), True),
    "no path": (request("/nothing", "POST", body=b"x" * 100), True),
    "no method": (request("/later", "DELETE"), True),
    "nobody answers": (request("/forget"), True),
    "gone before the answer": (request("/later", "POST", body=b"x" * 1000), False),
    "gone while it waits": (request("/hold"), False),
    "gone while it streams": (request("/hold?stream=1"), False),
    "gone in the middle of a stream": (request("/stream?count=100&size=2000"), False),
    "gone with others behind it": (request("/hold") + request("/echo") * 5, False),
    "gone before a large answer": (request("/large?size=1000000"), False),
}


def run(server, kind, count, client, failures):
    sent, wait = KINDS[kind]
    try:
        for i in range(count):
            with socket.socket() as connection:
                connection.settimeout(60)
                connection.bind(("127.0.%d.%d" % (client + 1, i % 250 + 1), 0))
                # Closing resets it: no port waits on this side.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.connect(("127.0.0.1", server.port))
                try:
                    connection.sendall(sent)
                    if wait:
                        read_response(connection)
                except ConnectionError:
                    pass
    except Exception as error:  # told by the main thread
        failures.append((kind, error))


def flood(server, kind, count):
    failures = []
    threads = [threading.Thread(target=run, args=(server, kind, count // CLIENTS, client, failures))
               for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def settle(server, descriptors):
    """A connection is counted as closed a moment before its descriptor is."""
    server.wait_for(lambda counts: counts["open"] == 0 and counts["held"] == 0)
    server.wait_for(lambda counts: measure(server)["descriptors"] <= descriptors)


def measure(server):
    proc = "/proc/%d" % server.process.pid
    with open(proc + "/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {"descriptors": len(os.listdir(proc + "/fd")), "threads": int(status["Threads"]),
            "bytes": int(status["RssAnon"].split()[0]) * 1024}


def test_nothing_is_left_behind():
    with Server("body_max=100000", "header_max=32768", "connections_max=4096") as server:
        descriptors = measure(server)["descriptors"]
        for kind in KINDS:
            flood(server, kind, WARM_UP)
        settle(server, descriptors)
        before = measure(server)
        for kind in KINDS:
            flood(server, kind, COUNT)
        settle(server, descriptors)
        after = measure(server)
        note("%d connections: before %r, after %r" % (server.counts()["accepted"], before, after))
        assert after["descriptors"] == descriptors, (descriptors, after)
        assert after["threads"] == before["threads"], (before, after)
        if "HTTP_SERVER_SANITIZED" not in os.environ:
            assert after["bytes"] <= before["bytes"] + GROWTH_MAX, (before, after)
        assert server.get().status == 200


if __name__ == "__main__":
    main()
