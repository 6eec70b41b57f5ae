# SPDX-License-Identifier: Apache-2.0
"""plugins/http against servers that answer any bytes: codes, bounds, headers, connections, and what errors tell."""
import os
import subprocess
import threading

from raw_server import RawServer
from tap import main

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: Text/Plain; charset=utf-8\r\n\r\nhi"
SECRET = "hunter2hunter2"


def ask(*arguments, environment=None, pass_fds=()):
    """The client's lines, each as a dictionary."""
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env.update(environment or {})
    done = subprocess.run([os.environ["HTTP_TEST_CLIENT"], *arguments], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, pass_fds=pass_fds, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace"))
    assert SECRET.encode() not in done.stdout + done.stderr, done.stdout
    lines = []
    for line in done.stdout.decode(errors="replace").split("\n")[:-1]:
        names = ("code", "status", "sent", "size", "streamed", "type", "id", "kept", "retry_after", "fds", "body",
                 "error", "hint")
        found, rest = {}, line
        for name, following in zip(names, names[1:] + (None,)):
            rest = rest[len(name) + 1:]
            found[name], _, rest = (rest, "", "") if following is None else rest.partition(" " + following + "=")
            rest = following + "=" + rest if following else ""
        lines.append(found)
    return lines


def serve(answer):
    """A server that answers each request of a connection with the bytes that `answer(request)` gives."""
    def loop(connection):
        while True:
            request = connection.request()
            if request is None:
                return
            connection.send(answer(request))
    return RawServer(loop)


def test_an_answer():
    with serve(lambda request: OK) as server:
        found, = ask("--header", "X-Secret: " + SECRET, "--method", "POST", "--body", "body", server.url + "/path")
        assert (found["code"], found["status"], found["sent"], found["body"], found["type"]) == ("0", "200", "1", "hi",
                                                                                                 "text/plain")
        request = server.requests[0]
        assert request["line"] == "POST /path HTTP/1.1" and request["body"] == b"body", request
        assert request["headers"]["x-secret"] == SECRET and request["headers"]["user-agent"] == "test/1", request
        assert "expect" not in request["headers"] and "cookie" not in request["headers"], request


def test_methods():
    with serve(lambda request: OK) as server:
        ask("--method", "GET", server.url, "--method", "PUT", "--body", "x", server.url, "--method", "DELETE",
            server.url)
        assert [request["line"].split()[0] for request in server.requests] == ["GET", "PUT", "DELETE"]


def test_headers_of_the_answer():
    def answer(request):
        return (b"HTTP/1.1 100 Continue\r\nx-request-id: interim\r\nRetry-After: 9\r\n\r\n"
                b"HTTP/1.1 503 Busy\r\nX-Request-Id: req_1\r\nX-Kept:  a value \r\nretry-after: 7\r\nContent-Length: 2\r\n\r\nno")
    with serve(answer) as server:
        found, = ask(server.url)
        assert (found["code"], found["status"], found["id"], found["kept"], found["body"]) == ("0", "503", "req_1",
                                                                                               "a value", "no")
        assert found["retry_after"] == "7000", found


def test_retry_after_in_all_its_forms():
    for text, low, high in (("retry-after-ms: 250\r\nRetry-After: 9", 250, 250), ("Retry-After: 2.5", 2000, 2000),
                            ("Retry-After: Fri, 31 Dec 2049 23:59:59 GMT", 10 ** 9, 10 ** 12),
                            ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", 0, 0), ("Retry-After: soon", 0, 0),
                            ("Retry-After: -5", 0, 0), ("Retry-After: 99999999999999999999", 10 ** 12, 10 ** 12)):
        with serve(lambda request: ("HTTP/1.1 429 X\r\n%s\r\nContent-Length: 0\r\n\r\n" % text).encode()) as server:
            found, = ask(server.url)
            assert low <= int(found["retry_after"]) <= high, (text, found)


def test_values_that_are_not_text():
    with serve(lambda request: b"HTTP/1.1 200 OK\r\nX-Request-Id: a\x1b[31m\r\nContent-Type: " + b"x" * 500 +
               b"\r\nX-Kept: \xff\r\nContent-Length: 0\r\n\r\n") as server:
        found, = ask(server.url)
        assert (found["code"], found["id"], found["type"], found["kept"]) == ("0", "", "", ""), found


def test_maximum_of_a_body():
    body = b"x" * 5000
    for head in (b"Content-Length: 5000\r\n", b"Connection: close\r\n"):
        def answer(connection):
            connection.request()
            connection.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)
        with RawServer(answer) as server:
            for stream in ([], ["--stream"]):
                over, = ask("--max", "4999", *stream, server.url)
                assert over["code"] == "EFBIG" and over["size"] == "0" and "4999" in over["error"], over
                fits, = ask("--max", "5000", *stream, server.url)
                assert fits["code"] == "0" and fits["streamed" if stream else "size"] == "5000", fits


def test_pieces_are_of_good_answers_alone():
    with serve(lambda request: b"HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\nbad") as server:
        found, = ask("--stream", server.url)
        assert (found["streamed"], found["body"]) == ("0", "bad"), found
    with serve(lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood") as server:
        found, = ask("--stream", server.url)
        assert (found["streamed"], found["body"]) == ("4", ""), found
        stopped, = ask("--stream", "--stop-after", "2", server.url)
        assert stopped["code"] == "EBADMSG" and stopped["error"], stopped


def test_deadline_and_silence():
    def answer(connection):
        connection.request()
        connection.hang()
    with RawServer(answer) as server:
        late, = ask("--timeout", "150", server.url)
        assert late["code"] == "ETIMEDOUT" and late["sent"] == "1" and "in the time that was left" in late["error"], late
        silent, = ask("--idle", "150", server.url)
        assert silent["code"] == "ETIMEDOUT" and "sent nothing" in silent["error"], silent


def test_bytes_end_the_silence():
    def answer(connection):
        connection.request()
        connection.drip(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0.05)
        connection.hang()
    with RawServer(answer) as server:
        found, = ask("--idle", "10000", server.url)
        assert found["code"] == "0" and found["body"] == "hi", found


def test_cancel():
    reached = threading.Event()

    def answer(connection):
        connection.request()
        reached.set()
        connection.hang()
    ends = os.pipe()
    with RawServer(answer) as server:
        def cancel():
            reached.wait()
            os.close(ends[1])  # hung up is cancelled, too
        threading.Thread(target=cancel).start()
        found, = ask("--timeout", "0", "--cancel-fd", str(ends[0]), server.url, pass_fds=[ends[0]])
        assert found["code"] == "ECANCELED" and found["sent"] == "1", found
        before, = ask("--cancel-fd", str(ends[0]), server.url, pass_fds=[ends[0]])
        assert before["code"] == "ECANCELED" and before["sent"] == "0" and server.connections == 1, before
    os.close(ends[0])


def test_breaks():
    def nothing(connection):
        connection.request()

    def half(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    def reset(connection):
        connection.request()
        connection.reset()
    for answer, status in ((nothing, "0"), (half, "200"), (reset, "0")):
        with RawServer(answer) as server:
            found, = ask(server.url)
            assert found["code"] == "ECONNRESET" and found["status"] == status and found["sent"] == "1", found
            assert found["size"] == "0", "no half answers"
    refused, = ask(server.url)
    assert refused["code"] == "ECONNREFUSED" and refused["sent"] == "0", refused


def test_what_is_not_http():
    for garbage in (b"220 mail ESMTP\r\n", b"\x16\x03\x01\x00\x05hello", b"HTTP/1.1 abc\r\n\r\n"):
        with RawServer(lambda connection: connection.request() and connection.send(garbage)) as server:
            found, = ask(server.url)
            assert found["code"] in ("EPROTO", "ECONNRESET"), found


def test_addresses():
    for url in ("ftp://127.0.0.1/", "file:///etc/passwd", "gopher://x/", "http://", "", "://", "/etc/passwd",
                "http:// x/"):
        found, = ask(url) if url else ask("")
        assert found["code"] == "EINVAL" and found["sent"] == "0", (url, found)
    unknown, = ask("http://nowhere.invalid/" + SECRET)
    assert unknown["code"] == "EHOSTUNREACH" and "http://nowhere.invalid:80" in unknown["error"], unknown


def test_headers_cannot_be_split():
    with serve(lambda request: OK) as server:
        found, = ask("--header", "X-Key: %s\r\nX-Evil: 1" % SECRET, server.url)
        assert found["code"] == "EINVAL" and server.connections == 0, found


def test_redirects_are_handed_out():
    with serve(lambda request: OK) as other:
        with serve(lambda request: ("HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % other.url).encode()) as server:
            found, = ask("--header", "X-Secret: " + SECRET, server.url)
            assert found["code"] == "0" and found["status"] == "302" and other.connections == 0, found


def test_connections_are_kept():
    with serve(lambda request: OK) as server:
        lines = ask("--repeat", "20", server.url)
        assert [line["code"] for line in lines] == ["0"] * 20 and server.connections == 1, server.connections
        assert lines[-1]["fds"] == lines[0]["fds"], "descriptors leak"


def test_failures_leak_nothing():
    def answer(connection):
        connection.request()
    with RawServer(answer) as server:
        lines = ask("--repeat", "20", server.url)
        assert [line["code"] for line in lines] == ["ECONNRESET"] * 20
        assert lines[-1]["fds"] == lines[0]["fds"], "descriptors leak"


def test_many_threads():
    barrier = threading.Barrier(50)

    def answer(connection):
        while connection.request() is not None:
            barrier.wait(300)  # answers none before all have asked
            connection.send(OK)
    with RawServer(answer) as server:
        lines = ask("--parallel", "50", "--repeat", "3", server.url)
        assert [line["code"] for line in lines] == ["0"] * 150, {line["error"] for line in lines}
        assert len(server.requests) == 150


def test_proxy_of_the_environment():
    with serve(lambda request: OK) as proxy:
        found, = ask("http://models.example.org/x", environment={"http_proxy": proxy.url})
        assert found["code"] == "0" and proxy.requests[0]["line"] == "GET http://models.example.org/x HTTP/1.1", found


if __name__ == "__main__":
    main()
