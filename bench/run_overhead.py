#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the loop of `run` costs by itself: the same requests are sent to the same mock server by a plain HTTP client, and the
difference is the loop's: a model call, a tool call with an execution in a warm session, journal and trajectory for each
turn. A short run is subtracted from a long one, so that starting the program and the session does not count. Then many sub-calls at once, against the slowest of them. Prints one JSON object.

    SNIPARA_SANDBOX=PROGRAM python3 bench/run_overhead.py [--turns N] [--parallel N] [--rounds N]
"""
import argparse
import http.client
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
sys.path.insert(0, str(ROOT / "tests" / "functional"))
from model_server import ModelServer  # noqa: E402


def start(scenario, argument):
    return ModelServer(ROOT / "tests" / "clients" / "models" / scenario, argument)


def run(model, *options):
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, HOME=directory, **model.environment())
        program = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")
        done = subprocess.run([program, "run", "--json", "--max-calls", "5000", "--token-budget", "100000000", "--timeout",
                               "10m", "--set", "tool_budget=5000", *options, "go"], cwd=directory, env=environment,
                              stdout=subprocess.PIPE, check=False)
        result = json.loads(done.stdout)
        if not result["success"]:
            sys.exit("the run failed: %s" % result)
        return result


def replay(model, bodies):
    """Milliseconds that a plain client takes for the same requests, on one connection."""
    place = urllib.parse.urlsplit(model.url)
    encoded = [json.dumps({key: value for key, value in body.items() if not key.startswith("_")}).encode() for body in bodies]
    connection = http.client.HTTPConnection(place.hostname, place.port)
    begin = time.perf_counter()
    for body in encoded:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    took = (time.perf_counter() - begin) * 1000
    connection.close()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--parallel", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    whole, plain = [], []
    few = options.turns // 4
    for _ in range(options.rounds):
        took = {}
        for turns in (few, options.turns):
            model = start("turns.mjs", turns)
            run(model)  # the mock warms up as well
            model.forget()
            took[turns] = run(model)["duration_ms"], replay(model, [entry["body"] for entry in model.requests()])
            model.stop()
        for kind, list_of_ms in enumerate((whole, plain)):
            list_of_ms.append((took[options.turns][kind] - took[few][kind]) / (options.turns - few))
    model = start("parallel.mjs", options.parallel)
    seconds = float(run(model, "--max-sub-calls", "5000", "--set", "max_parallel=256")["response"])
    model.stop()
    slowest = (options.parallel - 1) * 0.005
    print(json.dumps({
        "turn_ms": round(statistics.median(whole), 3),
        "plain_client_ms": round(statistics.median(plain), 3),
        "overhead_ms_per_turn": round(statistics.median(a - b for a, b in zip(whole, plain)), 3),
        "sub_calls": options.parallel,
        "slowest_sub_call_s": slowest,
        "all_sub_calls_s": round(seconds, 3),
        "ratio": round(seconds / slowest, 2),
    }, indent=2))


if __name__ == "__main__":
    main()
