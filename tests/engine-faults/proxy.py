# SPDX-License-Identifier: Apache-2.0
"""A Unix socket that looks like a container engine, passes everything on to a real one, and misbehaves where told to.

    with EngineProxy("/run/docker.sock", "/tmp/x/proxy.sock") as proxy:
        proxy.on("POST /containers/create", status(500, "boom"), times=1)   # rules are tried in order, newest first
        ...                                                                 # unix:///tmp/x/proxy.sock is the engine
        proxy.count("DELETE /containers/")                                  # requests that came
        proxy.streams()                                                     # hijacked connections that are open
        proxy.freeze(); proxy.thaw()                                        # nothing moves, nothing closes
        proxy.down(); proxy.up()                                            # nobody listens, all connections are cut

A rule's pattern (re.match) is held against "METHOD /path?query" without the path's version. What a rule does is a function
of one Exchange; those below make them. Each connection has a thread of its own, a hijacked one has two.
"""
import os
import re
import select
import socket
import struct
import threading

VERSION = re.compile(r"^/v\d+\.\d+(?=/)")
HIJACKED = ("application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream")
PIECE = 1 << 16


class Gone(OSError):
    """One of the two sides closed."""


class Wire:
    """A socket that is read by heads, lines and counts."""

    def __init__(self, sock):
        self.sock, self.pending = sock, b""

    def _more(self):
        piece = self.sock.recv(PIECE)
        if not piece:
            raise Gone("closed")
        self.pending += piece

    def until(self, mark):
        while mark not in self.pending:
            self._more()
        end = self.pending.index(mark) + len(mark)
        found, self.pending = self.pending[:end], self.pending[end:]
        return found

    def some(self, most=PIECE):
        """What there is, b"" at the end."""
        if self.pending:
            found, self.pending = self.pending[:most], self.pending[most:]
            return found
        return self.sock.recv(min(most, PIECE))

    def send(self, data):
        self.sock.sendall(data)

    def hung_up(self):
        """Whether the other side closed, rather than being done with writing alone."""
        poll = select.poll()
        try:
            poll.register(self.sock, 0)
        except ValueError:  # it was closed here
            return True
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def close(self):
        for how in (lambda: self.sock.shutdown(socket.SHUT_RDWR), self.sock.close):
            try:
                how()
            except OSError:
                pass


class Message:
    """The head of a request or an answer, and the pieces of its body as they are on the wire."""

    def __init__(self, wire, bodiless=False):
        self.wire = wire
        self.head = wire.until(b"\r\n\r\n")
        first, *lines = self.head.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.first = first.split(" ", 2)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.bodiless = bodiless

    def pieces(self, to_the_end=True):
        """The body, framing included. `to_the_end`: without a length it goes on until the other side closes."""
        if self.bodiless:
            return
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                line = self.wire.until(b"\r\n")
                yield line
                size = int(line.split(b";")[0], 16) + 2
                while size:
                    piece = self.wire.some(size)
                    if not piece:
                        raise Gone("closed in a chunk")
                    size -= len(piece)
                    yield piece
                if line.split(b";")[0].strip(b"0\r\n ") == b"":
                    return
        elif "content-length" in self.headers:
            size = int(self.headers["content-length"])
            while size:
                piece = self.wire.some(size)
                if not piece:
                    raise Gone("closed in a body")
                size -= len(piece)
                yield piece
        elif to_the_end:
            while True:
                piece = self.wire.some()
                if not piece:
                    return
                yield piece

    def body(self):
        """All of it, without the framing of chunks."""
        pieces = list(self.pieces())
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return b"".join(pieces)
        data, found = b"".join(pieces), b""
        while True:
            line, _, data = data.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if not size:
                return found
            found, data = found + data[:size], data[size + 2:]


class Stream:
    """A hijacked connection: what a test may do to it."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.running = threading.Event()
        self.running.set()
        self.sent_down = self.sent_up = 0

    @property
    def name(self):
        return self.exchange.name

    def cut(self):
        """Both sides see the end of it."""
        self.exchange.client.close()
        self.exchange.upstream.close()

    def freeze(self):
        self.running.clear()

    def thaw(self):
        self.running.set()

    def inject(self, data):
        """Bytes as if the engine had sent them."""
        self.exchange.client.send(data)


class Exchange:
    """One request on its way to the engine, and its answer on the way back."""

    def __init__(self, proxy, client, request):
        self.proxy, self.client, self.request = proxy, client, request
        self.method, target = request.first[0], request.first[1]
        self.path = VERSION.sub("", target)
        self.name = "%s %s" % (self.method, self.path)
        self.upstream = None
        self.alive = True  # the connection takes another request

    # ---- parts of the ordinary way

    def forward(self):
        """Sends the request on and returns the engine's answer, its body still to be read."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(self.proxy.engine)
        except OSError:
            sock.close()
            raise
        self.upstream = Wire(sock)
        self.proxy.keep(self.upstream)
        head = self.request.head
        if "expect" in self.request.headers:
            self.client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", head)
        self.upstream.send(head)
        for piece in self.request.pieces(to_the_end=False):
            self.upstream.send(piece)
        while True:
            answer = Message(self.upstream)
            code = answer.first[1]
            if code == "101" or not code.startswith("1"):
                answer.bodiless = code in ("204", "304") or self.method == "HEAD"
                return answer

    def hijacked(self, answer):
        return answer.first[1] == "101" or answer.headers.get("content-type", "") in HIJACKED and \
            "content-length" not in answer.headers

    def relay(self, answer):
        self.proxy.wait()
        self.client.send(answer.head)
        if self.hijacked(answer):
            self.stream()
            return
        for piece in answer.pieces():
            self.proxy.wait()
            self.client.send(piece)
        framed = answer.bodiless or "content-length" in answer.headers or "transfer-encoding" in answer.headers
        self.alive = framed and answer.headers.get("connection", "").lower() != "close"

    def stream(self, filter_down=None):
        """Both ways until both are done. `filter_down(stream, data)` returns what the client gets; None cuts."""
        stream = Stream(self)
        self.alive = False
        with self.proxy.lock:
            self.proxy.open_streams.append(stream)
        up = threading.Thread(target=self._pump_up, args=(stream,), daemon=True)
        up.start()
        try:
            while True:
                data = self.upstream.some()
                stream.running.wait()
                self.proxy.wait()
                if data and filter_down:
                    data = filter_down(stream, data)
                if not data:
                    break
                stream.sent_down += len(data)  # before: who has got an answer finds it counted
                self.client.send(data)
        except OSError:
            pass
        stream.cut()
        up.join()
        with self.proxy.lock:
            self.proxy.open_streams.remove(stream)

    def _pump_up(self, stream):
        try:
            while True:
                data = self.client.some()
                stream.running.wait()
                self.proxy.wait()
                if not data:
                    # Closed, or done with writing alone? The engine must see the same.
                    if self.client.hung_up():
                        stream.cut()
                    else:
                        self.upstream.sock.shutdown(socket.SHUT_WR)
                    return
                stream.sent_up += len(data)
                self.upstream.send(data)
        except OSError:
            stream.cut()

    # ---- what an action may want

    def drain(self):
        """Takes the request's body, for an answer that the engine has no part in."""
        for _ in self.request.pieces(to_the_end=False):
            pass

    def hang(self):
        """Until the client goes away."""
        self.alive = False
        while self.client.sock.recv(PIECE):
            pass

    def reset(self):
        self.alive = False
        self.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.sock.close()


class Rule:
    def __init__(self, pattern, action, times, skip):
        self.pattern, self.action = re.compile(pattern), action
        self.left, self.skip, self.hits = times, skip, 0

    def take(self, name):
        """Whether this request is this rule's."""
        if self.left == 0 or not self.pattern.match(name):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        self.hits += 1
        return True


class EngineProxy:
    def __init__(self, engine, path):
        self.engine, self.path = engine, path
        self.address = "unix://" + path
        self.lock = threading.Lock()
        self.rules, self.requests, self.open_streams, self.wires = [], [], [], set()
        self.moving = threading.Event()
        self.moving.set()
        self.listener = None
        self.up()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.thaw()
        self.down()

    # ---- for tests

    def on(self, pattern, action, times=None, skip=0):
        """From now on: the first `skip` requests that match pass, the next `times` (None: all) are `action`'s."""
        rule = Rule(pattern, action, times, skip)
        with self.lock:
            self.rules.insert(0, rule)
        return rule

    def clear(self):
        with self.lock:
            self.rules.clear()

    def count(self, pattern):
        with self.lock:
            return sum(1 for name in self.requests if re.match(pattern, name))

    def streams(self):
        with self.lock:
            return list(self.open_streams)

    def freeze(self):
        self.moving.clear()

    def thaw(self):
        self.moving.set()

    def down(self):
        """As an engine that was stopped: no socket, no connection."""
        with self.lock:
            listener, self.listener = self.listener, None
            wires = list(self.wires)
        if listener is None:
            return
        os.unlink(self.path)
        try:
            listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        listener.close()
        for wire in wires:
            wire.close()

    def up(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(256)
        self.listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    # ---- inside

    def wait(self):
        self.moving.wait()

    def keep(self, wire):
        with self.lock:
            self.wires.add(wire)

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(Wire(sock),), daemon=True).start()

    def _serve(self, client):
        self.keep(client)
        alive = True
        try:
            while alive:
                alive = self._exchange(client)
        except OSError:
            pass  # one of the sides went away: so does the other
        finally:
            client.close()
            with self.lock:
                self.wires.discard(client)

    def _exchange(self, client):
        exchange = Exchange(self, client, Message(client))
        with self.lock:
            self.requests.append(exchange.name)
            rule = next((rule for rule in self.rules if rule.take(exchange.name)), None)
        try:
            self.wait()
            if rule is not None:
                rule.action(exchange)
            else:
                exchange.relay(exchange.forward())
        finally:
            if exchange.upstream is not None:
                exchange.upstream.close()
                with self.lock:
                    self.wires.discard(exchange.upstream)
        return exchange.alive
