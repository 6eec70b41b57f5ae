#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long `logs` takes for a directory of trajectories of 100 MB, beside what reading that directory takes.

    bench/logs_listing.py --build DIR [--rounds N] [--json FILE]

The directory is made in three forms: a thousand runs of 100 KB, twenty of 5 MB, and ten thousand of 10 KB. `wc -l`, which
reads every byte, and `ls -l`, which reads none, run in the same rounds: quote ratios.
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "functional"))
from logs_case import Run  # noqa: E402

TOTAL = 100_000_000
SHAPES = {"1,000 runs of 100 KB": 1_000, "20 runs of 5 MB": 20, "10,000 runs of 10 KB": 10_000}


def fill(directory, count):
    """One run is made as a whole and then written again and again under other ids: only the listing is measured."""
    run = Run()
    size = TOTAL // count - 2_000  # first and last line
    while size > 0:
        step = min(size, 20_000)
        run.execution("print('x')", "x" * max(0, step - 700))
        size -= step
    run.end()
    lines = b"".join(line + b"\n" for line in run.lines())
    for number in range(count):
        other = "%08x%s" % (number, run.id[8:])
        (directory / f"{other}.jsonl").write_bytes(lines.replace(run.id.encode(), other.encode()))


def timed(argv, env):
    begin = time.perf_counter()
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return (time.perf_counter() - begin) * 1000, done.stdout


def measure(program, directory, count, rounds, env):
    names = sorted(str(path) for path in directory.iterdir())
    commands = {
        "logs": [program, "logs", "--dir", str(directory)],
        "logs --tail 0": [program, "logs", "--dir", str(directory), "--tail", "0", "--json"],
        "ls -l": ["ls", "-l", str(directory)],
        "wc -l": ["wc", "-l", *names],
    }
    figures = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            ms, output = timed(argv, env)
            figures[name].append(ms)
            if name == "logs" and len(output.splitlines()) != min(10, count) + 1:
                sys.exit(f"{name} lists {len(output.splitlines())} lines")
            if name == "logs --tail 0" and len(json.loads(output)) != count:
                sys.exit(f"{name} lists {len(json.loads(output))} runs")
    return {name: {"median_ms": statistics.median(values), "worst_ms": max(values)} for name, values in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    program = str(build / "core/cli/snipara-sandbox")
    figures = {}
    for shape, count in SHAPES.items():
        with tempfile.TemporaryDirectory() as top:
            directory = pathlib.Path(top, "logs")
            directory.mkdir()
            env = {"PATH": os.environ["PATH"], "HOME": top, "SNIPARA_SANDBOX_BUILD_ROOT": str(build)}
            fill(directory, count)
            figures[shape] = measure(program, directory, count, args.rounds, env)
        print(shape)
        for name, figure in figures[shape].items():
            print(f"  {name:16} {figure['median_ms']:8.1f} ms  (worst {figure['worst_ms']:.1f})")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
