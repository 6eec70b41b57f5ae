# SPDX-License-Identifier: Apache-2.0
"""Requests that are well-formed, and many that are not, over raw sockets."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_case import Server, is_closed, read_response, request  # noqa: E402
from tap import main  # noqa: E402


def lines(*parts):
    return b"\r\n".join(part if isinstance(part, bytes) else part.encode("latin-1") for part in parts)


HOST = "Host: localhost"

# Each is answered 400 (or what is said) and the connection closed; nothing of it reaches a handler.
MALFORMED = {
    "Content-Length and Transfer-Encoding": lines("POST /echo HTTP/1.1", HOST, "Content-Length: 5",
                                                  "Transfer-Encoding: chunked", "", "0\r\n\r\n"),
    "Transfer-Encoding and Content-Length": lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: chunked",
                                                  "Content-Length: 5", "", "0\r\n\r\n"),
    "two lengths": lines("POST /echo HTTP/1.1", HOST, "Content-Length: 5", "Content-Length: 6", "", "helloo"),
    "the same length twice": lines("POST /echo HTTP/1.1", HOST, "Content-Length: 5", "Content-Length: 5", "", "hello"),
    "a list of lengths": lines("POST /echo HTTP/1.1", HOST, "Content-Length: 5, 5", "", "hello"),
    "a signed length": lines("POST /echo HTTP/1.1", HOST, "Content-Length: +5", "", "hello"),
    "a negative length": lines("POST /echo HTTP/1.1", HOST, "Content-Length: -5", "", "hello"),
    "a hexadecimal length": lines("POST /echo HTTP/1.1", HOST, "Content-Length: 0x5", "", "hello"),
    "an empty length": lines("POST /echo HTTP/1.1", HOST, "Content-Length:", "", "hello"),
    "another coding": lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: gzip", "", "0\r\n\r\n"),
    "two codings": lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: gzip, chunked", "", "0\r\n\r\n"),
    "nearly chunked": lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: xchunked", "", "0\r\n\r\n"),
    "coding twice": lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "",
                          "0\r\n\r\n"),
    "chunked in HTTP/1.0": lines("POST /echo HTTP/1.0", HOST, "Transfer-Encoding: chunked", "", "0\r\n\r\n"),
    "a folded line": lines("GET /echo HTTP/1.1", HOST, "X-Test: a", " b", "", ""),
    "a folded Content-Length": lines("POST /echo HTTP/1.1", HOST, "Content-Length:", " 5", "", "hello"),
    "a folded Host": lines("GET /echo HTTP/1.1", "Host: localhost", "\tevil", "", ""),
    "a bare LF after the first line": b"GET /echo HTTP/1.1\nHost: localhost\r\n\r\n",
    "a bare LF between fields": b"GET /echo HTTP/1.1\r\nX-Test: a\nHost: localhost\r\n\r\n",
    "bare LFs only": b"GET /echo HTTP/1.1\nHost: localhost\n\n",
    "a bare LF at the end": b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\n",
    "a bare LF before the end": b"GET /echo HTTP/1.1\r\nHost: localhost\n\r\n",
    "a CR in a value": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\rb\r\n\r\n",
    "a CR before the end of a line": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\r\r\n\r\n",
    "a NUL in a value": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\0b\r\n\r\n",
    "a NUL at the end of a value": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\0\r\n\r\n",
    "a NUL in a name": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-\0Test: a\r\n\r\n",
    "a NUL in the target": b"GET /ec\0ho HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a NUL after the target": b"GET /echo\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a NUL in the method": b"GET\0 /echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a field after a NUL line": b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\0\r\nX-Test: a\r\n\r\n",
    "a control character": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\x01\r\n\r\n",
    "DEL": b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Test: a\x7f\r\n\r\n",
    "a blank before the colon": lines("GET /echo HTTP/1.1", HOST, "X-Test : a", "", ""),
    "a blank in a name": lines("GET /echo HTTP/1.1", HOST, "X Test: a", "", ""),
    "no name": lines("GET /echo HTTP/1.1", HOST, ": a", "", ""),
    "no colon": lines("GET /echo HTTP/1.1", HOST, "X-Test", "", ""),
    "a first field that is folded": lines("GET /echo HTTP/1.1", " X-Test: a", HOST, "", ""),
    "two Hosts": lines("GET /echo HTTP/1.1", HOST, HOST, "", ""),
    "no Host": lines("GET /echo HTTP/1.1", "", ""),
    "an empty Host": lines("GET /echo HTTP/1.1", "Host:", "", ""),
    "a Host with a path": lines("GET /echo HTTP/1.1", "Host: localhost/x", "", ""),
    "a Host with a user": lines("GET /echo HTTP/1.1", "Host: user@localhost", "", ""),
    "two Origins": lines("GET /echo HTTP/1.1", HOST, "Origin: http://localhost", "Origin: http://evil", "", ""),
    "two Authorizations": lines("GET /echo HTTP/1.1", HOST, "Authorization: Bearer a", "Authorization: Bearer b", "",
                                ""),
    "a method in lower case": lines("get /echo HTTP/1.1", HOST, "", ""),
    "a method with signs": lines("G=T /echo HTTP/1.1", HOST, "", ""),
    "a long method": lines("A" * 17 + " /echo HTTP/1.1", HOST, "", ""),
    "an absolute target": lines("GET http://localhost/echo HTTP/1.1", HOST, "", ""),
    "an authority": lines("CONNECT localhost:80 HTTP/1.1", HOST, "", ""),
    "an asterisk": lines("OPTIONS * HTTP/1.1", HOST, "", ""),
    "no slash": lines("GET echo HTTP/1.1", HOST, "", ""),
    "two blanks before the target": lines("GET  /echo HTTP/1.1", HOST, "", ""),
    "two blanks after the target": lines("GET /echo  HTTP/1.1", HOST, "", ""),
    "a blank after the version": lines("GET /echo HTTP/1.1 ", HOST, "", ""),
    "a blank in the target": lines("GET /echo x HTTP/1.1", HOST, "", ""),
    "a tab before the target": lines("GET\t/echo HTTP/1.1", HOST, "", ""),
    "encoded dots": lines("GET /%2e%2e/echo HTTP/1.1", HOST, "", ""),
    "an encoded dot": lines("GET /x/%2E/echo HTTP/1.1", HOST, "", ""),
    "dots": lines("GET /x/../echo HTTP/1.1", HOST, "", ""),
    "a dot": lines("GET /./echo HTTP/1.1", HOST, "", ""),
    "dots at the end": lines("GET /echo/.. HTTP/1.1", HOST, "", ""),
    "an encoded slash": lines("GET /x%2fecho HTTP/1.1", HOST, "", ""),
    "an encoded backslash": lines("GET /x%5cecho HTTP/1.1", HOST, "", ""),
    "a backslash": lines("GET /x\\echo HTTP/1.1", HOST, "", ""),
    "an encoded NUL": lines("GET /echo%00 HTTP/1.1", HOST, "", ""),
    "an encoded percent": lines("GET /%252e HTTP/1.1", HOST, "", ""),
    "an encoded line end": lines("GET /echo%0d%0aX HTTP/1.1", HOST, "", ""),
    "a broken encoding": lines("GET /echo%4 HTTP/1.1", HOST, "", ""),
    "no encoding": lines("GET /echo%zz HTTP/1.1", HOST, "", ""),
    "two slashes": lines("GET //echo HTTP/1.1", HOST, "", ""),
    "two slashes at the end": lines("GET /echo// HTTP/1.1", HOST, "", ""),
    "a fragment": lines("GET /echo#x HTTP/1.1", HOST, "", ""),
    "a byte above ASCII": lines("GET /\xe9 HTTP/1.1", HOST, "", ""),
    "an encoded NUL in a query": lines("GET /echo?q=%00 HTTP/1.1", HOST, "", ""),
    "too many parameters": lines("GET /echo?" + "a=1&" * 40 + " HTTP/1.1", HOST, "", ""),
    "HTTP/1.2": lines("GET /echo HTTP/1.2", HOST, "", ""),
    "http/1.1": lines("GET /echo http/1.1", HOST, "", ""),
    "no version": lines("GET /echo", HOST, "", ""),
}
# Not HTTP at all: the connection is closed without a word.
NONSENSE = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"hello\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n")
OTHER = {
    "HTTP/2.0": (505, lines("GET /echo HTTP/2.0", HOST, "", "")),
    "HTTP/0.9": (505, lines("GET /echo HTTP/0.9", HOST, "", "")),
    "a length beyond numbers": (413, lines("POST /echo HTTP/1.1", HOST, "Content-Length: " + "9" * 30, "", "x")),
}
CHUNKS = {
    "a size that is none": b"zz\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "an empty size": b"\r\nhello\r\n0\r\n\r\n",
    "a size in C": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with a blank": b"5 \r\nhello\r\n0\r\n\r\n",
    "no line end behind a chunk": b"5\r\nhelloX\r\n0\r\n\r\n",
}


def check_refused(server, name, sent, status):
    with server.connect() as connection:
        connection.sendall(sent)
        response = read_response(connection)
        assert response is not None, "%s: no answer" % name
        assert response.status == status, "%s: %r" % (name, response)
        assert b"method=" not in response.body, "%s: %r" % (name, response)
        assert response.headers.get("connection") == "close", "%s: %r" % (name, response)
        is_closed(connection)


def test_malformed_requests_are_refused():
    with Server() as server:
        for name, sent in MALFORMED.items():
            before = server.counts()
            check_refused(server, name, sent, 400)
            after = server.counts()
            assert after["malformed"] >= before["malformed"] + 1, (name, before, after)
        for name, (status, sent) in OTHER.items():
            check_refused(server, name, sent, status)
        for sent in NONSENSE:
            with server.connect() as connection:
                connection.sendall(sent)
                assert is_closed(connection) == b"", sent
        assert server.get().status == 200


def test_malformed_requests_are_refused_whatever_the_pieces():
    with Server() as server:
        for name in ("two lengths", "a folded line", "a bare LF between fields", "a NUL at the end of a value"):
            with server.connect() as connection:
                try:
                    for i in range(len(MALFORMED[name])):
                        connection.sendall(MALFORMED[name][i:i + 1])
                except OSError:
                    pass
                response = read_response(connection)
                assert response is None or response.status == 400, (name, response)


def test_malformed_chunks_are_refused():
    with Server() as server:
        for name, chunks in CHUNKS.items():
            head = lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: chunked", "", "")
            check_refused(server, name, head + chunks, 400)


def test_nothing_is_read_behind_a_refused_request():
    smuggled = request("/echo?q=smuggled")
    with Server() as server:
        for name, sent in MALFORMED.items():
            with server.connect() as connection:
                connection.sendall(sent + smuggled)
                assert b"smuggled" not in is_closed(connection), name


def test_nothing_is_read_behind_a_chunked_request():
    """So that no difference in the reading of chunks can hide a request in another."""
    smuggled = request("/echo?q=smuggled")
    with Server() as server:
        for chunks in (b"5\r\nhello\r\n0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n",
                       b"5\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\n"):
            with server.connect() as connection:
                connection.sendall(lines("POST /echo HTTP/1.1", HOST, "Transfer-Encoding: chunked", "", "") + chunks +
                                   smuggled)
                data = is_closed(connection)
                assert data.count(b"HTTP/1.1 ") == 1 and b"smuggled" not in data, data
                if b"200 OK" in data:
                    assert data.endswith(b"body=hello"), data


def test_what_a_handler_sees():
    with Server() as server:
        response = server.get("/echo?q=a%20b+c&q=second", "POST", ["X-TEST:  padded \t"], b"\0\xff body")
        assert response.status == 200, response
        for expected in (b"method=POST\n", b"path=/echo\n", b"q=a b c\n", b"X-Test=[padded]\n", b"address=127.0.0.1\n",
                         b"principal=\n", b"body=\0\xff body"):
            assert expected in response.body, (expected, response)
        assert b"path=/echo\n" in server.get("/echo/").body
        assert b"path=/echo\n" in server.get("/%65cho").body
        assert b"X-Test=[]\n" in server.get(headers=["X-Test: a", "X-Test: b"]).body
        assert b"X-Test=[a]\n" in server.get(headers=["X-Test: a", "X-Test: a"]).body


def test_one_connection_serves_many_requests():
    with Server() as server, server.connect() as connection:
        for i in range(50):
            connection.sendall(request("/later?q=%d" % i if i % 2 else "/echo?q=%d" % i, "POST", body=b"x" * i))
            response = read_response(connection)
            assert response.status == 200 and b"q=%d\n" % i in response.body, response
        # A refusal does not end it, as long as what follows can be trusted.
        connection.sendall(request("/nothing", "POST", body=b"x" * 1000))
        assert read_response(connection).status == 404
        connection.sendall(request("/echo", "PATCH"))
        assert read_response(connection).status == 405
        connection.sendall(request("/echo"))
        assert read_response(connection).status == 200
        assert server.counts()["accepted"] == 1


def test_requests_may_be_sent_ahead():
    with Server() as server, server.connect() as connection:
        connection.sendall(b"".join(request("/later?q=%d" % i, "POST", body=b"b%d" % i) for i in range(20)))
        data = b""
        for i in range(20):
            response = read_response(connection, data)
            assert b"q=%d\n" % i in response.body and response.body.endswith(b"body=b%d" % i), response
            data = response.rest


def test_one_byte_at_a_time():
    sent = request("/later?q=slow", "POST", ["X-Test: a b"], b"hello")
    with Server() as server, server.connect() as connection:
        for i in range(len(sent)):
            connection.sendall(sent[i:i + 1])
        response = read_response(connection)
        assert b"q=slow\n" in response.body and response.body.endswith(b"body=hello"), response


def test_chunked_bodies_are_put_together():
    with Server() as server:
        response = server.raw(lines("POST /later HTTP/1.1", HOST, "Transfer-Encoding: Chunked", "", "") +
                              b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        assert response.status == 200 and response.body.endswith(b"body=hello world"), response


def test_http_1_0():
    with Server() as server:
        assert server.raw(b"GET /echo HTTP/1.0\r\n\r\n").status == 200
        data = b""
        with server.connect() as connection:
            connection.sendall(b"GET /stream?count=2 HTTP/1.0\r\nHost: localhost\r\n\r\n")
            data = is_closed(connection)
        assert data.endswith(b"data: 0 \n\ndata: 1 \n\n"), data


def test_expect_continue():
    with Server("body_max=1000") as server, server.connect() as connection:
        connection.sendall(request("/echo", "POST", ["Expect: 100-continue", "Content-Length: 5"]).replace(
            b"Content-Length: 0\r\n", b""))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"hello")
        assert read_response(connection).body.endswith(b"body=hello")
        connection.sendall(request("/echo", "POST", ["Expect: 100-continue", "Content-Length: 5000"]).replace(
            b"Content-Length: 0\r\n", b""))
        assert read_response(connection).status == 413


def test_no_answer_is_an_answer():
    with Server() as server:
        response = server.get("/forget")
        assert response.status == 500 and b'"error"' in response.body, response


def test_methods_and_paths():
    with Server() as server:
        response = server.get("/later", "DELETE")
        assert response.status == 405 and response.headers["allow"] == "GET, POST", response
        with server.connect() as connection:
            connection.sendall(request("/later", "HEAD", ["Connection: close"]))
            assert is_closed(connection).startswith(b"HTTP/1.1 405 ")
        assert server.get("/later", "TRACE").status == 405
        assert server.get("/nothing").status == 404
        assert server.get("/").status == 404
        assert server.get("/ECHO").status == 404
        assert server.get("/echo/x").status == 404
        response = server.get("/later", "OPTIONS")
        assert response.status == 204 and response.headers["allow"] == "GET, POST", response


def test_many_clients_at_once():
    failures = []

    def run(server, client):
        with server.connect() as connection:
            for i in range(100):
                name = "c%dr%d" % (client, i)
                connection.sendall(request("/later?q=" + name, "POST", body=name.encode()))
                response = read_response(connection)
                if response.status != 200 or not response.body.endswith(b"body=" + name.encode()):
                    failures.append(response)

    with Server() as server:
        threads = [threading.Thread(target=run, args=(server, i)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[:3]
        assert server.counts()["requests"] == 1600


if __name__ == "__main__":
    main()
