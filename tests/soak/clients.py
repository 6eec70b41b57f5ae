# SPDX-License-Identifier: Apache-2.0
"""Clients of the soak test: HTTP over asyncio's streams, and what each kind of client does in a round."""
import asyncio
import json
import random

LEGACY, MODERN = "2025-11-25", "2026-07-28"


class Wrong(Exception):
    """An answer that nobody should have got."""


class Http:
    """One connection that is kept; made anew when it is gone."""

    def __init__(self, host, port, path):
        self.host, self.port, self.path = host, port, path
        self.reader = self.writer = None

    async def open(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    def drop(self):
        """Gone at once, as a client that crashed."""
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None

    async def close(self):
        if self.writer is not None:
            self.writer.close()
            try:
                await self.writer.wait_closed()
            except OSError:
                pass
        self.reader = self.writer = None

    def encode(self, method, headers, body):
        lines = [f"{method} {self.path} HTTP/1.1", f"Host: {self.host}:{self.port}",
                 "Accept: application/json, text/event-stream", f"Content-Length: {len(body)}"]
        if body:
            lines.append("Content-Type: application/json")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def send(self, method, headers, body=b""):
        await self.open()
        self.writer.write(self.encode(method, headers, body))
        await self.writer.drain()

    async def receive(self):
        """(status, headers, body)."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return int(head[0].split(" ")[1]), headers, body

    async def _chunks(self):
        body = b""
        while True:
            size = int((await self.reader.readline()).split(b";")[0], 16)
            chunk = await self.reader.readexactly(size + 2)
            if size == 0:
                return body
            body += chunk[:-2]

    async def exchange(self, method, headers, body=b""):
        await self.send(method, headers, body)
        return await self.receive()


def messages(headers, body):
    if headers.get("content-type", "").startswith("text/event-stream"):
        return [json.loads(line[5:]) for line in body.decode().splitlines() if line.startswith("data:") and line[5:].strip()]
    return [json.loads(body)] if body else []


class Client:
    """A client with a sandbox session of its own, in which a variable is set that only it knows."""

    def __init__(self, number, address, counters):
        self.number = number
        self.session = f"soak-{number}"
        self.http = Http(*address)
        self.counters = counters
        self.random = random.Random(number)
        self.secret = f"secret-{number}-{self.random.getrandbits(64):x}"
        self.mcp_session = None
        self.next_id = number * 1000000
        self.legacy = number % 2 == 1

    # ---- requests

    def frame(self, method, params):
        """(headers, body) of a request; its id is next_id."""
        self.next_id += 1
        if self.legacy:
            headers = {"MCP-Protocol-Version": LEGACY}
            if self.mcp_session is not None:
                headers["Mcp-Session-Id"] = self.mcp_session
        else:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
            params = {**params, "_meta": {"io.modelcontextprotocol/protocolVersion": MODERN,
                                          "io.modelcontextprotocol/clientCapabilities": {}}}
        return headers, json.dumps({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}).encode()

    async def request(self, method, params):
        status, headers, body = await self.http.exchange("POST", *self.frame(method, params))
        if status != 200:
            raise Wrong(f"{method}: HTTP {status} {body[:500]!r}")
        for message in messages(headers, body):
            if "method" not in message:
                if message["id"] != self.next_id:
                    raise Wrong(f"{method}: asked as {self.next_id}, answered as {message['id']}")
                if "result" not in message:
                    raise Wrong(f"{method}: {message}")
                self.counters["answers"] += 1
                return message["result"]
        raise Wrong(f"{method}: no answer in {body[:500]!r}")

    @staticmethod
    def call_params(tool, arguments):
        return {"name": tool, "arguments": arguments}

    async def python(self, code):
        """What it printed."""
        result = await self.request("tools/call", self.call_params(
            "execute_python", {"code": code, "session_id": self.session}))
        text = "\n".join(block.get("text", "") for block in result["content"])
        if result.get("isError"):
            raise Wrong(f"{self.session}: {text}")
        return text

    # ---- a life

    async def begin(self):
        if self.legacy:
            status, headers, body = await self.http.exchange("POST", *self.frame("initialize", {
                "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}))
            if status != 200 or "mcp-session-id" not in headers:
                raise Wrong(f"initialize: HTTP {status} {body[:500]!r}")
            self.mcp_session = headers["mcp-session-id"]
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
            status, _, _ = await self.http.exchange("POST", {"MCP-Protocol-Version": LEGACY,
                                                             "Mcp-Session-Id": self.mcp_session}, note)
            if status != 202:
                raise Wrong(f"notifications/initialized: HTTP {status}")
        await self.python(f"secret = {self.secret!r}; count = 0")
        self.count = 0

    async def check(self):
        """Nobody but this client has touched its session, and nobody else's answer comes."""
        text = await self.python("print(secret, count)")
        if text.split()[:2] != [self.secret, str(self.count)]:
            raise Wrong(f"{self.session}: {text!r}, not {self.secret} {self.count}")

    async def work(self):
        self.count += 1
        text = await self.python(f"count += 1\nprint('x' * {self.random.randrange(1, 5000)}, secret)")
        if text.split()[-1] != self.secret or set(text.split()[0]) != {"x"}:
            raise Wrong(f"{self.session}: {text[:200]!r}")

    async def look(self):
        names = {tool["name"] for tool in (await self.request("tools/list", {}))["tools"]}
        if "execute_python" not in names:
            raise Wrong(f"tools/list: {names}")

    async def leave_in_a_call(self):
        """Goes while its code runs. A modern client's loop ends with it; a legacy one's call goes on, so it is short."""
        code = "import time; time.sleep(0.2)" if self.legacy else "while True: pass"
        await self.http.send("POST", *self.frame("tools/call", self.call_params(
            "execute_python", {"code": code, "session_id": self.session})))
        await asyncio.sleep(self.random.uniform(0, 0.3))
        self.http.drop()
        self.counters["left in a call"] += 1

    async def leave_in_a_request(self):
        headers, body = self.frame("tools/list", {})
        await self.http.open()
        data = self.http.encode("POST", headers, body)
        self.http.writer.write(data[:self.random.randrange(1, len(data))])
        await self.http.writer.drain()
        self.http.drop()
        self.counters["left in a request"] += 1

    async def leave_in_an_answer(self):
        await self.http.send("POST", *self.frame("tools/call", self.call_params(
            "execute_python", {"code": "print('y' * 20000)", "session_id": self.session})))
        await self.http.reader.read(1)
        self.http.drop()
        self.counters["left in an answer"] += 1

    async def live(self, until):
        loop = asyncio.get_running_loop()
        await self.begin()
        disconnects = self.number % 3 == 0
        while loop.time() < until:
            await self.work()
            if self.random.random() < 0.2:
                await self.look()
            if disconnects:
                await self.random.choice((self.leave_in_a_call, self.leave_in_a_request, self.leave_in_an_answer))()
            await self.check()

    async def end(self):
        await self.request("tools/call", self.call_params("destroy_session", {"session_id": self.session}))
        if self.legacy:
            status, _, _ = await self.http.exchange("DELETE", {"Mcp-Session-Id": self.mcp_session,
                                                               "MCP-Protocol-Version": LEGACY})
            if status not in (200, 204):
                raise Wrong(f"DELETE: HTTP {status}")
        await self.http.close()
