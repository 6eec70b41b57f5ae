# SPDX-License-Identifier: Apache-2.0
"""Limits, clients that are slow or go away, and how a server ends."""
import os
import shutil
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_case import Server, is_closed, read_more, read_response, request  # noqa: E402
from tap import main, skip  # noqa: E402


def head(text):
    return text.replace("\n", "\r\n").encode("latin-1")


def test_bodies_have_a_limit():
    with Server("body_max=1000") as server:
        assert server.get("/echo", "POST", body=b"x" * 1000).status == 200
        assert server.get("/echo", "POST", body=b"x" * 1001).status == 413
        # By its length, before any of it is read.
        response = server.raw(head("POST /echo HTTP/1.1\nHost: localhost\nContent-Length: 1001\n\n"))
        assert response.status == 413 and response.headers["connection"] == "close", response
        response = server.raw(head("POST /echo HTTP/1.1\nHost: localhost\nContent-Length: 99999999999999999999\n\n"))
        assert response.status == 413, response
        # While it comes in chunks.
        chunks = head("POST /echo HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n")
        response = server.raw(chunks + b"1f4\r\n" + b"x" * 500 + b"\r\n1f4\r\n" + b"x" * 500 + b"\r\n0\r\n\r\n")
        assert response.status == 200, response
        response = server.raw(chunks + b"1f4\r\n" + b"x" * 500 + b"\r\n1f5\r\n" + b"x" * 501 + b"\r\n0\r\n\r\n")
        assert response.status == 413, response
        response = server.raw(chunks + b"ffffffffff\r\n" + b"x" * 1001)
        assert response.status == 413, response
        assert server.counts()["body"] == 5, server.counts()


def test_a_refusal_gets_through():
    """To clients that send all before they read, as most do."""
    body = b"x" * 3000000
    with Server("body_max=2000000") as server:
        for sent in (request("/echo", "POST", body=body), request("/nothing", "POST", body=body),
                     request("/echo", "POST", body=body, host="evil.example"),
                     head("POST /echo HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n2dc6c0\n") + body[:2500000],
                     b"GET /" + b"a" * 100000, request("/echo", headers=["X-Test: " + "a" * 100000])):
            with server.connect() as connection:
                for i in range(0, len(sent), 50000):
                    connection.sendall(sent[i:i + 50000])
                assert read_response(connection).status in (403, 404, 413, 414, 431)
        server.wait_for(lambda counts: counts["open"] == 0)
        # One that never ends is not waited for.
        with server.connect() as connection:
            connection.sendall(head("POST /echo HTTP/1.1\nHost: localhost\nContent-Length: 99999999999\n\n"))
            try:
                while True:
                    connection.sendall(body)
            except ConnectionError:
                pass


def test_bodies_together_have_a_limit():
    """Eight times that of one: many connections are no way round it."""
    with Server("body_max=200000") as server:
        connections = []
        for _ in range(12):
            connection = server.connect()
            connection.sendall(request("/echo", "POST", body=b"x" * 200000)[:-1])
            connections.append(connection)
        server.wait_for(lambda counts: counts["body"] >= 4)
        statuses = []
        for connection in connections:
            try:
                connection.sendall(b"x")
                response = read_response(connection)
            except ConnectionError:
                response = None
            statuses.append(response.status if response is not None else None)
            connection.close()
        assert statuses.count(200) == 8, statuses
        assert server.get("/echo", "POST", body=b"x" * 200000).status == 200


def test_heads_have_a_limit():
    with Server("header_max=4096") as server:
        assert server.get(headers=["X-Test: " + "a" * 3900]).status == 200
        assert server.get(headers=["X-Test: " + "a" * 4096]).status == 431
        assert server.get(headers=["X-%d: a" % i for i in range(120)]).status == 200
        assert server.get(headers=["X-%d: a" % i for i in range(200)]).status == 431
        assert server.get("/echo?" + "a" * 5000).status in (414, 431)
        assert server.get(headers=["X-Test: " + "a" * 200000]).status == 431
        assert server.raw(b"GET /" + b"a" * 200000).status in (414, 431)
        assert server.counts()["header"] == 5, server.counts()


def test_connections_have_a_limit():
    with Server("connections_max=4") as server:
        held = [server.connect() for _ in range(4)]
        for connection in held:
            connection.sendall(request("/hold"))
        server.wait_for(lambda counts: counts["held"] == 4)
        response = read_response(server.connect())
        assert response.status == 503 and b"too many connections" in response.body, response
        assert response.headers["connection"] == "close", response
        held.pop().close()
        server.wait_for(lambda counts: counts["open"] < 4)
        assert server.get().status == 200
        assert server.counts()["connections"] == 1
        for connection in held:
            connection.close()


def test_idle_connections_make_room():
    """Who keeps them open does not keep others out; the one that was idle for longest goes."""
    with Server("connections_max=3") as server:
        held = [server.connect() for _ in range(3)]
        for connection in (held[1], held[0], held[2]):
            connection.sendall(request())
            assert read_response(connection).status == 200
            time.sleep(0.01)
        assert server.get().status == 200
        assert is_closed(held[1]) == b""
        for connection in (held[0], held[2]):
            connection.sendall(request())
            assert read_response(connection).status == 200
        assert server.counts()["connections"] == 0
        for connection in held:
            connection.close()


def test_connections_of_one_address_have_a_limit():
    with Server("connections_max=100", "per_address_max=2", "listen=127.0.0.1:0") as server:
        held = [server.connect() for _ in range(2)]
        for connection in held:
            connection.sendall(request())
            assert read_response(connection).status == 200
        assert read_response(server.connect()).status == 503
        # Another address is not concerned.
        other = socket.create_connection(("127.0.0.1", server.port), 30, source_address=("127.0.0.2", 0))
        other.sendall(request())
        assert b"address=127.0.0.2\n" in read_response(other).body
        for connection in (*held, other):
            connection.close()


def test_a_process_without_descriptors_recovers():
    if shutil.which("prlimit") is None:
        skip("prlimit is not installed")
    with Server(descriptors=64) as server:
        held = [server.connect() for _ in range(100)]  # the kernel takes them
        held[0].sendall(request())
        assert read_response(held[0]).status == 200
        time.sleep(0.5)
        for connection in held:
            connection.close()
        assert server.get().status == 200
        assert server.log().count("for want of descriptors") >= 1, server.log()
        server.wait_for(lambda counts: counts["open"] == 0)


def test_requests_have_a_rate():
    with Server("rate=1", "burst=5") as server:
        with server.connect() as connection:
            statuses = []
            for _ in range(12):
                connection.sendall(request())
                response = read_response(connection)
                statuses.append(response.status)
                if response.status == 429:
                    assert int(response.headers["retry-after"]) >= 1, response
        assert statuses[:5] == [200] * 5 and 429 in statuses, statuses
        assert server.counts()["rate"] == statuses.count(429)
        # Another address has a rate of its own.
        other = socket.create_connection(("127.0.0.1", server.port), 30, source_address=("127.0.0.3", 0))
        other.sendall(request())
        assert read_response(other).status == 200
        other.close()


def drip(connection, sent, stop):
    """A byte at a time, until the server has had enough."""
    try:
        for i in range(len(sent)):
            connection.sendall(sent[i:i + 1])
            if stop.wait(0.02):
                return
    except OSError:
        pass


def test_slow_requests_are_dropped():
    """Whatever is slow of them: activity does not help."""
    slow = {
        "first line": b"GET /echo?q=" + b"x" * 10000,
        "head": request(headers=["X-Test: " + "x" * 10000]),
        "body": request(method="POST", body=b"x" * 10000),
        "chunks": head("POST /echo HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n") + b"1\r\nx\r\n" * 9999,
    }
    with Server("request=1500", "idle=60000") as server:
        stop = threading.Event()
        for name, sent in slow.items():
            with server.connect() as connection:
                before = server.counts()["slow"]
                thread = threading.Thread(target=drip, args=(connection, sent, stop))
                thread.start()
                response = read_response(connection)
                assert response is None or response.status == 408, (name, response)
                thread.join()
                assert server.counts()["slow"] == before + 1, name
        # Nothing at all, and the beginning of a second request.
        with server.connect() as connection:
            assert is_closed(connection).startswith(b"HTTP/1.1 408 ")
        with server.connect() as connection:
            connection.sendall(request())
            assert read_response(connection).status == 200
            connection.sendall(b"GET")
            is_closed(connection)
        server.wait_for(lambda counts: counts["open"] == 0)


def test_idle_connections_are_closed():
    with Server("idle=300", "request=60000") as server:
        with server.connect() as connection:
            connection.sendall(request())
            assert read_response(connection).status == 200
            assert is_closed(connection) == b""
        assert server.counts()["slow"] == 0


def test_a_connection_that_waits_for_its_answer_is_not_idle():
    with Server("idle=1000", "request=1000", "write=1000") as server:
        with server.connect() as connection:
            connection.sendall(request("/stream?count=3&pause=1500"))
            response = read_response(connection)
            assert response.body == b"data: 0 \n\ndata: 1 \n\ndata: 2 \n\n", response


def narrow(server):
    """A connection that takes little before it is full."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    return connection


def test_who_does_not_read_is_dropped():
    with Server("write=500") as server:
        for path in ("/large?size=30000000", "/stream?count=1000&size=100000"):
            with narrow(server) as connection:
                connection.sendall(request(path))
                server.wait_for(lambda counts: counts["open"] == 1)
                server.wait_for(lambda counts: counts["open"] == 0)


def test_who_reads_slowly_is_served():
    with Server("write=2000") as server, narrow(server) as connection:
        connection.sendall(request("/large?size=2000000"))
        data, closed = b"", False
        while b"\r\n\r\n" not in data:
            data, closed = read_more(connection, data)
        left = 2000000 - len(data.split(b"\r\n\r\n", 1)[1])
        pauses = 0
        while left > 0 and not closed:
            piece, closed = read_more(connection, b"")
            left -= len(piece)
            if pauses < 9 and left < 2000000 - 200000 * (pauses + 1):
                pauses += 1
                time.sleep(0.5)
        assert left == 0 and pauses == 9, (left, pauses, server.counts())


def test_a_stream_keeps_so_much_and_no_more():
    with Server("stream_max=100000", "write=60000") as server, narrow(server) as connection:
        connection.sendall(request("/stream?count=100000&size=1000"))
        data = b""
        while b"\r\n\r\n" not in data:
            data, _ = read_more(connection, data)
        time.sleep(0.2)
        # The writer was told, and gave up; what was taken before arrives whole and in order.
        body = read_response(connection, data).body
        pieces = body.split(b"\n\n")[:-1]
        assert 50 < len(pieces) < 100000, len(pieces)
        for i, piece in enumerate(pieces):
            assert piece == b"data: %d " % i + b"x" * 1000, (i, piece)


def test_gone_is_told():
    with Server() as server:
        for path in ("/hold", "/hold?stream=1"):
            before = server.counts()["gone"]
            # Closed; half closed; reset.
            for leave in (lambda c: c.close(), lambda c: c.shutdown(socket.SHUT_WR), reset):
                connection = server.connect()
                connection.sendall(request(path, "POST", body=b"x"))
                server.wait_for(lambda counts: counts["held"] == 1)
                leave(connection)
                before += 1
                server.wait_for(lambda counts, n=before: counts["gone"] == n and counts["held"] == 0)
                connection.close()
            # Before it could be known: the request, and its end, in one.
            connection = server.connect()
            connection.sendall(request(path, "POST", body=b"x"))
            connection.close()
            before += 1
            server.wait_for(lambda counts, n=before: counts["gone"] == n)
        server.wait_for(lambda counts: counts["open"] == 0)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_gone_is_told_behind_requests_that_were_sent_ahead():
    with Server() as server:
        connection = server.connect()
        connection.sendall(request("/hold") + request("/echo"))
        server.wait_for(lambda counts: counts["held"] == 1)
        connection.close()
        server.wait_for(lambda counts: counts["gone"] == 1 and counts["open"] == 0)


def test_gone_is_not_told_to_who_does_not_want_to_know():
    with Server() as server:
        for _ in range(50):
            connection = server.connect()
            connection.sendall(request("/unhold"))
            connection.close()
        server.wait_for(lambda counts: counts["requests"] == 50 and counts["open"] == 0)
        assert server.get().status == 200


def test_half_closed_clients_get_their_answer():
    with Server() as server, server.connect() as connection:
        connection.sendall(request("/later?q=half"))
        connection.shutdown(socket.SHUT_WR)
        assert b"q=half\n" in read_response(connection).body


def test_streams():
    with Server() as server, server.connect() as connection:
        for count, size in ((0, 0), (1, 0), (3, 10), (200, 5000)):
            connection.sendall(request("/stream?count=%d&size=%d" % (count, size)))
            response = read_response(connection)
            expected = b"".join(b"data: %d " % i + b"x" * size + b"\n\n" for i in range(count))
            assert response.status == 200 and response.body == expected, (count, size, len(response.body))
            assert response.headers["content-type"] == "text/event-stream"
        connection.sendall(request("/stream?count=1&abandon=1"))
        assert read_response(connection).body == b"data: 0 \n\n"


def test_pieces_arrive_at_once():
    """Not only when the next one comes, or the end."""
    with Server() as server, server.connect() as connection:
        connection.sendall(request("/hold?stream=1"))
        data = b""
        while b"\r\n\r\n" not in data:
            data, closed = read_more(connection, data)
            assert not closed


def test_draining():
    with Server() as server, server.connect() as busy, server.connect() as idle:
        idle.sendall(request())
        assert read_response(idle).status == 200
        busy.sendall(request("/stream?count=2&pause=1000"))
        server.wait_for(lambda counts: counts["requests"] == 2)
        server.command("drain")
        server.counts()  # commands are done one after another
        idle.sendall(request())
        response = read_response(idle)
        assert response.status == 503 and response.headers["connection"] == "close", response
        assert server.get().status == 503
        assert read_response(busy).body == b"data: 0 \n\ndata: 1 \n\n"


def test_stopping_lets_answers_end():
    with Server() as server, server.connect() as busy:
        busy.sendall(request("/stream?count=2&pause=500"))
        server.wait_for(lambda counts: counts["requests"] == 1)
        counts = server.counts("stop 20000")
        assert counts["open"] == 0, counts
        assert read_response(busy).body == b"data: 0 \n\ndata: 1 \n\n"


def test_stopping_does_not_wait_longer_than_it_may():
    with Server() as server:
        held = []
        for path in ("/hold", "/hold?stream=1", "/hold") * 5:
            connection = server.connect()
            connection.sendall(request(path))
            held.append(connection)
        held.append(server.connect())  # says nothing
        held.append(server.connect())
        held[-1].sendall(b"GET /ec")
        server.wait_for(lambda counts: counts["held"] == 15 and counts["open"] == 17)
        counts = server.counts("stop 100")
        assert counts["gone"] == 15 and counts["held"] == 0 and counts["open"] == 0, counts
        for connection in held:
            is_closed(connection)
            connection.close()
        try:
            server.connect()
            raise AssertionError("it still listens")
        except ConnectionRefusedError:
            pass


def test_stopping_while_answers_come():
    """Whatever is under way when it stops, it ends."""
    for _ in range(10):
        with Server() as server:
            connections = []
            for i in range(20):
                connection = server.connect()
                connection.sendall(request(("/later", "/stream?count=50&size=1000", "/unhold", "/hold")[i % 4]))
                connections.append(connection)
            assert server.counts("stop 0")["open"] == 0
            for connection in connections:
                connection.close()


if __name__ == "__main__":
    main()
