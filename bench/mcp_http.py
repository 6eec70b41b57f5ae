#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast tools are over HTTP, with a real client on loopback (http_load, of this directory), beside what is aimed for
and beside a server of the official SDK whose tool does nothing, measured in the same run. And how long `mcp-serve` takes
over standard input to its first answer. The program is $SNIPARA_SANDBOX, its build tree $SNIPARA_SANDBOX_BUILD_ROOT.

    python3 bench/mcp_http.py [--seconds N] [--starts N] [--json]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import mcp_http  # noqa: E402

NODE = ROOT / "tests/clients/node_modules/node/bin/node"
LOAD = pathlib.Path(mcp_http.BUILD_ROOT or ROOT / "build/bench", "bench/http_load")
CLIENTS = 64
RATE = 3000  # executions a second that 64 clients ask for together
CODE = {"code": "x = 41 + 1\nprint(x)"}

# What is measured: name, figure of http_load or start-up, target, unit.
TARGETS = (
    ("execute_python, 1 client", "median_us", 400, "µs, median"),
    (f"execute_python, {CLIENTS} clients, {RATE}/s", "p99_us", 10000, "µs, p99"),
    (f"execute_python, {CLIENTS} clients", "p99_us", 10000, "µs, p99"),
    (f"execute_python, {CLIENTS} clients", "per_second", 3000, "a second"),
    ("tools/list, 1 client", "median_us", 200, "µs, median"),
)
START_TARGET_MS = 60


def request(method, params, modern):
    if modern:
        params = {**params, "_meta": {"io.modelcontextprotocol/protocolVersion": mcp_http.MODERN,
                                      "io.modelcontextprotocol/clientCapabilities": {}}}
    return json.dumps({"jsonrpc": "2.0", "id": "@@", "method": method, "params": params})


def headers(method, params, session):
    if session is not None:
        return [f"Mcp-Session-Id: {session}", f"MCP-Protocol-Version: {mcp_http.LEGACY}"]
    return [f"MCP-Protocol-Version: {mcp_http.MODERN}", f"Mcp-Method: {method}",
            *([f"Mcp-Name: {params['name']}"] if "name" in params else [])]


def load(url, session, method, params, expect, clients, seconds, rate=0):
    """One run of http_load; `session` None: modern requests."""
    parts = urllib.parse.urlsplit(url)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as body:
        body.write(request(method, params, session is None))
        body.flush()
        argv = [LOAD, "--address", parts.netloc, "--path", parts.path, "--connections", str(clients), "--seconds",
                str(seconds), "--body", body.name, "--expect", expect, "--rate", str(rate)]
        for header in headers(method, params, session):
            argv += ["--header", header]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"http_load failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(url, session, seconds):
    call = {"name": "execute_python", "arguments": {**CODE, "session_id": "bench-@@"}}
    return {
        "execute_python, 1 client": load(url, session, "tools/call", call, "42", 1, seconds),
        f"execute_python, {CLIENTS} clients": load(url, session, "tools/call", call, "42", CLIENTS, seconds),
        f"execute_python, {CLIENTS} clients, {RATE}/s": load(url, session, "tools/call", call, "42", CLIENTS, seconds,
                                                             RATE),
        "tools/list, 1 client": load(url, session, "tools/list", {}, "execute_python", 1, seconds),
    }


def measure_program(seconds):
    config = f"max_sessions = {2 * CLIENTS};\n"
    with mcp_http.Server(config=config) as server, mcp_http.Client(server.url) as client:
        client.initialize()
        client.call("execute_python", {**CODE, "session_id": "bench-00"})
        return {"legacy": measure(server.url, client.session, seconds), "modern": measure(server.url, None, seconds)}


def measure_peer(seconds):
    """None: there is no SDK to compare with."""
    if not NODE.exists():
        return None
    with subprocess.Popen([NODE, ROOT / "bench/mcp_peer.mjs"], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            with mcp_http.Client(url) as client:
                client.initialize()
                return measure(url, client.session, seconds)
        finally:
            process.terminate()


def start_once(directory):
    """Milliseconds from the start of `mcp-serve` to its first answer."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": mcp_http.LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}) + "\n"
    begun = time.perf_counter()
    with subprocess.Popen([mcp_http.PROGRAM, "mcp-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                          cwd=directory, env=mcp_http.environment(directory)) as process:
        process.stdin.write(line.encode())
        answer = json.loads(process.stdout.readline())
        took = time.perf_counter() - begun
        process.stdin.close()
        process.wait(30)
    if "result" not in answer:
        sys.exit(f"initialize failed: {answer}")
    return took * 1000


def measure_starts(count):
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as directory:
        pathlib.Path(directory, ".git").mkdir()
        start_once(directory)  # the files are in memory from here on
        times = sorted(start_once(directory) for _ in range(count))
    return {"median_ms": statistics.median(times), "max_ms": times[-1]}


def show(figures):
    """The table."""
    print(f"{'over HTTP, ' + str(os.cpu_count()) + ' CPUs':<46}{'target':>9}{'legacy':>9}{'modern':>9}{'SDK peer':>9}")
    for name, figure, target, unit in TARGETS:
        row = [figures[era][name][figure] for era in ("legacy", "modern")]
        met = all(value >= target if figure == "per_second" else value <= target for value in row)
        peer = figures["peer"][name][figure] if figures["peer"] else None
        print(f"{name + ', ' + unit:<46}{target:>9}" + "".join(f"{value:>9.0f}" for value in row)
              + (f"{peer:>9.0f}" if peer is not None else f"{'absent':>9}") + ("" if met else "   missed"))
    start = figures["start"]["median_ms"]
    print(f"{'start over stdio to the first answer, ms, median':<46}{START_TARGET_MS:>7}{start:>9.1f}"
          + ("" if start <= START_TARGET_MS else "   missed"))


def flat(figures):
    """For bench/run: one row for each figure."""
    rows = {f"{era} {name}": {"median_us": row["median_us"], "p99_us": row["p99_us"]}
            for era in ("legacy", "modern", "peer") if figures[era] for name, row in figures[era].items()}
    for era in ("legacy", "modern", "peer"):
        if figures[era]:
            rows[f"{era} executions a second"] = figures[era][f"execute_python, {CLIENTS} clients"]["per_second"]
    return {**rows, "start over stdio, ms": figures["start"]["median_ms"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (%(default)s)")
    parser.add_argument("--starts", type=int, default=21, help="starts of the server (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not LOAD.exists():
        sys.exit(f"error: {LOAD} is not there\nhint: meson setup build/bench --buildtype release && ninja -C build/bench")
    figures = {"start": measure_starts(options.starts), **measure_program(options.seconds),
               "peer": measure_peer(options.seconds)}
    if options.json:
        print(json.dumps(flat(figures)))
    else:
        show(figures)


if __name__ == "__main__":
    main()
