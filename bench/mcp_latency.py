#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a tool call takes over MCP stdio, seen from a client process that does little else: plain pipes, one JSON line
each way. Prints one JSON object. The program is $SNIPARA_SANDBOX.

    python3 bench/mcp_latency.py [--calls N] [--fresh N]
"""
import argparse
import json
import os
import subprocess
import sys
import time


class Client:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "mcp-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.ask(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "mcp_latency.py", "version": "1"}}}).encode() + b"\n")
        os.write(self.into, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, line):
        os.write(self.into, line)
        answer = os.read(self.out, 65536)
        while not answer.endswith(b"\n"):
            more = os.read(self.out, 65536)
            if not more:
                sys.exit("the server ended: %r" % answer)
            answer += more
        return answer

    def timed_call(self, tool, number):
        """Nanoseconds of one call."""
        line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"code":"x=1"}}}\n' % (
            number, tool)
        begun = time.perf_counter_ns()
        answer = self.ask(line)
        took = time.perf_counter_ns() - begun
        result = json.loads(answer)
        if result["id"] != number or result.get("result", {}).get("isError", "error" in result):
            sys.exit("the call failed: %s" % answer.decode())
        return took

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=2000, help="warm executions in one session (%(default)s)")
    parser.add_argument("--fresh", type=int, default=500, help="executions in a fresh session each (%(default)s)")
    options = parser.parse_args()

    client = Client(os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox"))
    for i in range(200):
        client.timed_call(b"execute_python", i)
    times = sorted(client.timed_call(b"execute_python", i) for i in range(options.calls))
    for i in range(20):
        client.timed_call(b"execute", i)
    begun = time.perf_counter()
    fresh = sorted(client.timed_call(b"execute", i) for i in range(options.fresh))
    seconds = time.perf_counter() - begun
    client.close()
    print(json.dumps({
        "client": "python", "warm_calls": options.calls,
        "warm_median_us": round(times[len(times) // 2] / 1000, 1),
        "warm_p99_us": round(times[len(times) * 99 // 100] / 1000, 1),
        "fresh_calls": options.fresh, "fresh_median_us": round(fresh[len(fresh) // 2] / 1000, 1),
        "fresh_calls_per_s": round(options.fresh / seconds),
    }))


if __name__ == "__main__":
    main()
