#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand messages that are wrong, over standard input, to `snipara-sandbox mcp-serve`: what must be answered is, with
an error and the right id; nothing else is; and the server goes on as if nothing had been. The program is $SNIPARA_SANDBOX.

Each seed gives the same messages each time; MALFORMED_SEED=N sends those of one alone."""
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mcp_client import Server, text_of
from tap import main

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
SLOW = float(os.environ.get("TEST_SLOWNESS", "1"))
SEEDS = [int(os.environ["MALFORMED_SEED"])] if "MALFORMED_SEED" in os.environ else range(20)
MESSAGES = 500  # of each seed
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
METHODS = ("tools/call", "tools/list", "prompts/get", "prompts/list", "resources/read", "resources/list",
           "resources/templates/list", "resources/subscribe", "resources/unsubscribe", "completion/complete",
           "logging/setLevel", "initialize", "server/discover", "subscriptions/listen", "tasks/get", "tasks/update",
           "tasks/cancel", "ping", "notifications/cancelled", "no/such")
VALUES = (None, True, False, 0, -1, 1.5, 1e308, 2**63 - 1, "", "x", "\0", "\u00e9" * 300, "a" * 70000, [], {}, [[]],
          {"a": {"b": []}}, [1, "x", None], {"": ""}, {"__proto__": {}}, {"type": "ref/prompt", "name": 7})
KEYS = ("name", "arguments", "uri", "cursor", "_meta", "ref", "argument", "context", "level", "protocolVersion",
        "capabilities", "clientInfo", "notifications", "taskId", "inputResponses", "requestState", "requestId", "task")

# Each function makes one line. What it is answered with is judged by `answer_of` from the line alone.


def bad_json(rand, number):
    whole = encode(request(rand, number))
    choice = rand.randrange(6)
    if choice == 0:  # half of a frame
        return whole[:rand.randrange(1, len(whole))]
    if choice == 1:  # a byte that is no UTF-8
        at = rand.randrange(len(whole))
        return whole[:at] + bytes([rand.randrange(0x80, 0x100)]) + whole[at:]
    if choice == 2:  # something behind it
        return whole + rand.choice([b"}", b"]", b",", b"x", whole])
    if choice == 3:  # not JSON at all
        return bytes(byte for byte in rand.randbytes(rand.randrange(1, 200)) if byte != 10)
    if choice == 4:
        return rand.choice([b"nul", b"'single'", b"{id:1}", b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":NaN}', b"\x00",
                            b'{"a":"\t"}', b"\xef\xbb\xbf" + whole, b"[1,]", b"Content-Length: 12\r"])
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"%s"}}' % (
        number, rand.choice([b"\\ud800", b"\\x", b"\\u12", b"\xed\xa0\x80", b"\xc0\xaf"]))


def wrong_types(rand, number):
    message = request(rand, number)
    for key in rand.sample(["jsonrpc", "id", "method", "params"], rand.randrange(1, 3)):
        message[key] = rand.choice(VALUES)
    return encode(message)


def wrong_params(rand, number):
    message = request(rand, number)
    message["params"] = {key: rand.choice(VALUES) for key in rand.sample(KEYS, rand.randrange(0, 6))}
    if rand.random() < 0.5:
        message["params"]["_meta"] = dict(META, **{rand.choice(list(META) + ["progressToken"]): rand.choice(VALUES)})
    return encode(message)


def huge_ids(rand, number):
    bad = rand.choice([b"9" * rand.randrange(20, 5000), b'"%s"' % (b"i" * rand.randrange(1025, 100000)), b"1e400", b"1.0",
                       b"-9223372036854775809", b"[%d]" % number, b"{}", b"null", b"true"])
    return b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":{}}' % (bad, rand.choice(METHODS).encode())


def deep(rand, number):
    depth = rand.choice([65, 100, 3000, 200000])
    opened, closed = rand.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inside = opened * depth + (b"1" if closed == b"}" else b"") + closed * rand.choice([depth, depth, depth - 1, 0])
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_python","arguments":%s}}' % (number,
                                                                                                             inside)


def duplicates(rand, number):
    line = encode(request(rand, number))
    key = rand.choice([b'"jsonrpc":"2.0"', b'"id":%d' % number, b'"method":"ping"', b'"params":{}', b'"params":{"a":1,"a":2}'])
    return b"{%s,%s,%s" % (key, key, line[1:])


def batches(rand, number):
    parts = [rand.choice([bad_params, wrong_types])(rand, number) for _ in range(rand.randrange(0, 4))]
    return b"[%s]" % b",".join(parts)


def bad_params(rand, number):
    return encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": rand.choice(VALUES[:15])})


def encode(message):
    return json.dumps(message, ensure_ascii=False).encode()


def request(rand, number):
    params = {"_meta": META} if rand.random() < 0.4 else {}
    return {"jsonrpc": "2.0", "id": number, "method": rand.choice(METHODS), "params": params}


KINDS = (bad_json, wrong_types, wrong_params, huge_ids, deep, duplicates, batches, bad_params)


def lines_of(seed):
    rand = random.Random(seed)
    return [rand.choice(KINDS)(rand, 1000 + number) for number in range(MESSAGES)]


def begin():
    server = Server([PROGRAM, "mcp-serve"], timeout=120 * SLOW)
    server.initialize()
    return server


def check_answers(server):
    """Everything up to the answer of the last ping: each line one message that is sound."""
    seen = 0
    while True:
        message = server.message()
        assert message["jsonrpc"] == "2.0" and ("method" in message or ("result" in message) != ("error" in message)), message
        if message.get("id") == "the last":
            assert message["result"] == {}, message
            return seen
        if "error" in message:
            seen += 1
            assert isinstance(message["error"]["code"], int) and message["error"]["message"], message
            assert message["error"]["code"] != -32603, message  # whatever it was, it was not the server's fault


def check_alive(server):
    assert server.process.poll() is None
    code = "kept = globals().get('kept', 0) + 1\nprint(kept)"
    request_id = server.start_call("execute_python", {"code": code}, request_id="alive")
    message = server.message()
    while message.get("id") != request_id:  # a request among the wrong ones that was sound takes its time, too
        message = server.message()
    result = message["result"]
    assert not result.get("isError"), text_of(result)
    return int(text_of(result).split()[0])


def send_seed(server, seed):
    """Sends a seed's lines, and reads until they are all dealt with; returns how many were refused."""
    for line in lines_of(seed):
        assert b"\n" not in line
        server.send(line)
    server.request("ping", request_id="the last")
    return check_answers(server)


def test_ten_thousand_messages_that_are_wrong():
    refused = 0
    with begin() as server:
        for round_, seed in enumerate(SEEDS):
            refused += send_seed(server, seed)
            assert check_alive(server) == round_ + 1  # the session is as it was, and answers
    assert refused > len(SEEDS) * MESSAGES / 2, refused


def test_frames_that_come_in_pieces():
    """The same lines in pieces of any size: where a read ends makes no difference."""
    rand = random.Random("pieces")
    with begin() as server:
        data = b"".join(line + b"\n" for line in lines_of(0)[:100] if len(line) < 4096)
        while data:
            size = rand.choice([1, 2, 3, 7, 100, 4096])
            server.write(data[:size])
            data = data[size:]
        server.request("ping", request_id="the last")
        check_answers(server)
        assert check_alive(server) == 1


def test_frame_that_never_ends():
    """Half a frame at the end of the input is refused like a whole one that is wrong, and the server ends."""
    with begin() as server:
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_python","argu')
        server.close_input()
        last = [json.loads(line) for line in server.rest().splitlines()]
        assert [message["error"]["code"] for message in last] == [-32700], last
        assert server.wait() == 0


if __name__ == "__main__":
    main()
