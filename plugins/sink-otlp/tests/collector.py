# SPDX-License-Identifier: Apache-2.0
"""A collector for tests: takes OTLP/HTTP with JSON, checks every request against the specification, keeps the spans,
and answers as a test tells it to. And the program that drives the plugin."""
import http.server
import json
import os
import re
import subprocess
import threading

HEX16, HEX32 = re.compile(r"[0-9a-f]{16}\Z"), re.compile(r"[0-9a-f]{32}\Z")
DIGITS = re.compile(r"-?\d+\Z")
UINT64_MAX = 2 ** 64 - 1


def expect(condition, what):
    if not condition:
        raise ValueError(what)


def members(value, required, optional, what):
    expect(isinstance(value, dict), f"{what} is no object")
    expect(set(required) <= set(value), f"{what} lacks {set(required) - set(value)}")
    expect(set(value) <= set(required) | set(optional), f"{what} has {set(value) - set(required) - set(optional)}")


def check_value(value, what):
    """AnyValue of common.proto, as the JSON mapping has it."""
    expect(isinstance(value, dict) and len(value) == 1, f"{what} is not one value")
    kind, inner = next(iter(value.items()))
    if kind == "stringValue":
        expect(isinstance(inner, str), what)
        return inner
    if kind == "intValue":
        expect(isinstance(inner, str) and DIGITS.match(inner) and -2 ** 63 <= int(inner) < 2 ** 63, what)
        return int(inner)
    if kind == "doubleValue":
        expect(isinstance(inner, (int, float)) and not isinstance(inner, bool), what)
        return float(inner)
    if kind == "boolValue":
        expect(isinstance(inner, bool), what)
        return inner
    expect(kind == "arrayValue", f"{what} is a {kind}")
    members(inner, ["values"], [], what)
    return [check_value(item, what) for item in inner["values"]]


def check_attributes(attributes, what):
    """A list of KeyValue; each key once. Returned as a dictionary of Python values."""
    expect(isinstance(attributes, list), f"{what} is no list")
    found = {}
    for pair in attributes:
        members(pair, ["key", "value"], [], what)
        expect(isinstance(pair["key"], str) and pair["key"] and pair["key"] not in found, f"{what}: {pair['key']}")
        found[pair["key"]] = check_value(pair["value"], f"{what}.{pair['key']}")
    return found


def check_span(span):
    members(span, ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes"],
            ["parentSpanId", "status"], "span")
    expect(HEX32.match(span["traceId"]) and set(span["traceId"]) != {"0"}, "traceId")
    for member in ("spanId", "parentSpanId"):
        if member in span:
            expect(HEX16.match(span[member]) and set(span[member]) != {"0"}, member)
    expect(isinstance(span["name"], str) and span["name"], "name")
    expect(isinstance(span["kind"], int) and not isinstance(span["kind"], bool) and 1 <= span["kind"] <= 5, "kind")
    for member in ("startTimeUnixNano", "endTimeUnixNano"):
        expect(isinstance(span[member], str) and span[member].isdigit() and int(span[member]) <= UINT64_MAX, member)
    expect(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), "it ends before it starts")
    if "status" in span:
        members(span["status"], ["code"], ["message"], "status")
        expect(span["status"]["code"] in (0, 1, 2), "status.code")
    return dict(span, attributes=check_attributes(span["attributes"], "span.attributes"))


def check_request(body):
    """ExportTraceServiceRequest. Returns the resources' attributes, and the spans."""
    request = json.loads(body)
    members(request, ["resourceSpans"], [], "request")
    resources, spans = [], []
    for group in request["resourceSpans"]:
        members(group, ["resource", "scopeSpans"], ["schemaUrl"], "resourceSpans")
        members(group["resource"], ["attributes"], [], "resource")
        resources.append(check_attributes(group["resource"]["attributes"], "resource.attributes"))
        for scope in group["scopeSpans"]:
            members(scope, ["scope", "spans"], ["schemaUrl"], "scopeSpans")
            members(scope["scope"], ["name"], ["version"], "scope")
            spans += [check_span(span) for span in scope["spans"]]
    return resources, spans


class Collector:
    """Answers with what `plan` holds, in order, then with 200. An entry is (status, headers, body) or a callable that
    gets the handler and answers itself. Spans are those of requests that were answered with 200."""

    def __init__(self, *plan):
        self.plan, self.requests, self.problems, self.spans, self.resources = list(plan), [], [], [], []
        self.lock = threading.Condition()
        self.release = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                collector.serve(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass  # a client that went away

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        try:
            expect(handler.headers["Content-Type"] == "application/json", "Content-Type")
            resources, spans = check_request(body)
        except (ValueError, KeyError, TypeError) as problem:
            with self.lock:
                self.problems.append(f"{problem}: {body[:2000]!r}")
            resources, spans = [], []
        with self.lock:
            step = self.plan.pop(0) if self.plan else (200, {}, b"{}")
            self.requests.append((handler.path, dict(handler.headers), body))
            if isinstance(step, tuple) and step[0] == 200:
                self.spans += spans
                self.resources += resources
            self.lock.notify_all()
        if callable(step):
            step(self, handler)
            return
        status, headers, answer = step
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(answer)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer)

    def wait_for(self, condition, seconds=60):
        with self.lock:
            if not self.lock.wait_for(lambda: condition(self), seconds):
                raise AssertionError(f"the collector waited in vain; it got {len(self.requests)} requests")

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        if self.problems:
            raise AssertionError("\n".join(self.problems))


def hang(collector, handler):
    """Answers nothing until the test is over."""
    handler.close_connection = True
    collector.release.wait(60)


def drop(collector, handler):
    """Closes the connection instead of an answer."""
    handler.close_connection = True
    handler.connection.close()


class Sink:
    """The plugin in its host. `options` as the host's command line has them."""

    def __init__(self, *options, start=True):
        self.process = subprocess.Popen([os.environ["HOST"], os.environ["PLUGIN"], *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.log = ""
        self.opened = self.read()
        if start and self.opened[0] == 0:
            self.done("start")

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the host ended: {self.process.stderr.read()}")
        result, message, hint = line.rstrip("\n").split("\t")
        return int(result), message, hint

    def send(self, command):
        self.process.stdin.write(command if isinstance(command, str) else json.dumps(command, ensure_ascii=False))
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read()

    def done(self, command):
        result = self.send(command)
        if result[0] != 0:
            raise AssertionError(f"{command}: {result}")

    def close(self):
        """Ends it as a program does; returns what it logged."""
        if self.process.returncode is None:
            _, self.log = self.process.communicate(timeout=120)
            if self.process.returncode != 0:
                raise AssertionError(f"exit {self.process.returncode}: {self.log}")
        return self.log
