# SPDX-License-Identifier: Apache-2.0
"""What a rule of EngineProxy may do to an exchange: each function here returns such an action."""
import json
import struct
import threading


def hang():
    """The request is taken and never answered."""
    return lambda exchange: exchange.hang()


def close():
    def act(exchange):
        exchange.alive = False
    return act


def reset():
    return lambda exchange: exchange.reset()


def raw(data):
    """These bytes instead of an answer, then the end."""
    def act(exchange):
        exchange.drain()
        exchange.client.send(data)
        exchange.alive = False
    return act


def answer(code, body, headers=()):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()

    def act(exchange):
        exchange.drain()
        lines = ["HTTP/1.1 %d Fault" % code, "Content-Type: application/json", "Content-Length: %d" % len(body), *headers]
        exchange.client.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return act


def status(code, message):
    """An error as engines tell one."""
    return answer(code, {"message": message})


def lose_answer():
    """The engine does it, and nobody is told."""
    def act(exchange):
        reply = exchange.forward()
        if not exchange.hijacked(reply):
            for _ in reply.pieces():
                pass
        exchange.alive = False
    return act


def cut_answer(size):
    """The engine does it; of its answer's body comes so much."""
    def act(exchange):
        reply = exchange.forward()
        data = b"".join(reply.pieces())
        exchange.client.send(reply.head + data[:size])
        exchange.alive = False
    return act


def flood(head=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", piece=b'"x",' * 4096):
    """An answer without an end, until the client has enough."""
    def act(exchange):
        exchange.alive = False
        exchange.drain()
        exchange.client.send(head)
        while True:
            exchange.client.send(piece)
    return act


def flood_headers():
    return flood(head=b"HTTP/1.1 200 OK\r\n", piece=b"X-Flood: " + b"y" * 4000 + b"\r\n")


def rewrite(change):
    """The engine's own answer with its body, and maybe its headers (a dict with lower-case names), changed."""
    def act(exchange):
        reply = exchange.forward()
        headers = {name: value for name, value in reply.headers.items()
                   if name not in ("content-length", "transfer-encoding")}
        body = change(headers, b"" if exchange.method == "HEAD" else reply.body())
        headers["content-length"] = str(len(body))
        lines = [" ".join(reply.first), *("%s: %s" % item for item in headers.items())]
        exchange.client.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if exchange.method == "HEAD" else body))
    return act


def rewrite_json(change):
    """The same for JSON: `change(value)` returns the value that comes instead."""
    return rewrite(lambda _headers, body: json.dumps(change(json.loads(body))).encode())


def delayed(event):
    """The request waits until the test sets the event."""
    def act(exchange):
        event.wait()
        exchange.relay(exchange.forward())
    return act


def passing():
    return lambda exchange: exchange.relay(exchange.forward())


def in_turn(*actions):
    """The actions one after another, one for each request; the last one for all that follow."""
    lock, left = threading.Lock(), list(actions)

    def act(exchange):
        with lock:
            action = left.pop(0) if len(left) > 1 else left[0]
        action(exchange)
    return act


# ---- hijacked streams

def stream_cut(size):
    """The engine's side ends after so many bytes."""
    def narrow(stream, data):
        room = size - stream.sent_down
        return data[:room] if room > 0 else None
    return _stream(narrow)


def stream_garbage(data, at=0):
    """Once so many bytes came from the engine, these come instead of the next."""
    def spoil(stream, real):
        if stream.sent_down < at:
            return real
        return data
    return _stream(spoil)


def stream_drip():
    """A byte at a time: whoever reads headers in one piece fails."""
    def drip(stream, data):
        for index in range(len(data)):
            stream.exchange.client.send(data[index:index + 1])
            stream.sent_down += 1
        return b""
    return _stream(drip, ends_on_nothing=False)


def stream_stderr_flood(size):
    """Standard error that nobody asked for, before what the engine sends."""
    def add(stream, data):
        if stream.sent_down:
            return data
        line = b"noise\n" * 1000
        noise = frame(2, line) * (size // len(line) + 1)
        return noise + data
    return _stream(add)


def frame(number, payload):
    """One frame of the engine's multiplexing."""
    return struct.pack(">BxxxI", number, len(payload)) + payload


def _stream(change, ends_on_nothing=True):
    def act(exchange):
        reply = exchange.forward()
        if not exchange.hijacked(reply):
            exchange.relay(reply)
            return
        exchange.client.send(reply.head)
        if ends_on_nothing:
            exchange.stream(change)
        else:
            exchange.stream(lambda stream, data: change(stream, data) or SILENCE)
    return act


class _Silence(bytes):
    """Nothing to send, and not the end."""

    def __bool__(self):
        return True


SILENCE = _Silence()
