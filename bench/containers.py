#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sessions in containers beside `docker run --rm` of the same image on the same engine, in turn in the same
rounds, and prints a table with ratios.

    bench/containers.py [--build DIR] [--engine unix:///PATH] [--image IMAGE] [--node IMAGE] [--bash IMAGE]
                        [--rounds N] [--executions N] [--json FILE]

For each runtime whose image there is (Python: --image; Node and Bash: images given, or the same one if it has them):

    pool      a fresh session to its first result, when the pool has a container ready (Python; others are cold here too)
    cold      the same with pool = 0: container made, started, worker sent, greeted
    exec      `snipara-sandbox exec --env docker -c ...` as a whole process with pool = 0
    run       `docker run --rm` with the same limits, as a whole process
    warm      an execution in a session that is there
    session   a session of --executions executions, from its start to its end, against as many `run`

The command that is compared is `docker`, or `podman --remote` for a socket of Podman; --run-with names one. Quote ratios:
machines drift, and both sides of a ratio drift with them. Nothing here is a test.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = {"python": "print(1)", "node": "console.log(1)", "bash": "echo 1"}
COMMAND = {"python": ["python3", "-I", "-S", "-c"], "node": ["node", "-e"], "bash": ["bash", "-c"]}
MEMORY, CPUS, PIDS = "512m", "1", "128"


def ratio(row, name):
    return row[name]["median_ms"] / row["run"]["median_ms"]


AIMS = (("pool", "median at most 10 ms", lambda row: row["pool"]["median_ms"] <= 10),
        ("cold", "at most 1.3 x run --rm", lambda row: ratio(row, "cold") <= 1.3),
        ("exec", "at most 1.3 x run --rm", lambda row: ratio(row, "exec") <= 1.3),
        ("warm", "median at most 0.5 ms", lambda row: row["warm"]["median_ms"] <= 0.5),
        ("session", "at least 50 times faster", lambda row: row["session_times_faster"] >= 50))


def stop(message, hint):
    sys.exit(f"error: {message}\nhint: {hint}")


class Sessions:
    """A process that executes at the embedding API and says how long it took."""

    def __init__(self, args, directory, pool):
        self.config = configuration(args, directory, pool)
        self.process = subprocess.Popen([args.build / "bench/bench_session", self.config], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=args.env, cwd=directory)

    def execute(self, runtime, session="-", count=1):
        """Seconds of each execution."""
        self.process.stdin.write(f"{count} {session} {runtime} {CODE[runtime]}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line or "error:" in line:
            raise RuntimeError(line.strip() or "bench_session ended")
        return [int(word) / 1e9 for word in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)


def configuration(args, directory, pool):
    path = pathlib.Path(directory, f"pool-{pool}.cfg")
    runtimes = ", ".join(f'"{name}={args.images[name]}"' for name in args.images if name != "python")
    path.write_text(f"""environment = "docker";
plugins = ( {{ name = "docker"; plugin = "backend-docker"; critical = true; engine = "{args.engine}"; pull = "never";
        image = "{args.image}"; pool = {pool}; workspace = "none"; memory = "{MEMORY}"; cpus = {float(CPUS)}; pids = {PIDS};
        runtimes = [ {runtimes} ]; }} );
""", encoding="utf-8")
    path.chmod(0o600)
    return path


def run_command(args, runtime):
    """`docker run --rm` with what backend-docker asks for."""
    base = [args.run_with, "-H", args.engine] if os.path.basename(args.run_with) == "docker" else \
        [args.run_with, "--remote", "--url", args.engine]
    return [*base, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt",
            "no-new-privileges", "--memory", MEMORY, "--memory-swap", MEMORY, "--cpus", CPUS, "--pids-limit", PIDS,
            "--tmpfs", "/tmp", "--user", "65534:65534", args.images[runtime], *COMMAND[runtime], CODE[runtime]]


def whole_process(args, argv, cwd):
    begin = time.perf_counter()
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, capture_output=True, env=args.env,
                          cwd=cwd, check=False)
    took = time.perf_counter() - begin
    if done.returncode != 0 or done.stdout.strip() != b"1":
        raise RuntimeError(f"{argv[0]}: exit {done.returncode}: "
                           f"{(done.stderr or done.stdout).decode(errors='replace').strip()[-300:]}")
    return took


def summary(seconds):
    ordered = sorted(seconds)
    return {"median_ms": statistics.median(ordered) * 1e3, "min_ms": ordered[0] * 1e3,
            "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3, "runs": len(ordered)}


def measure(args, runtime, pooled, unpooled, directory):
    program = args.build / "core/cli/snipara-sandbox"
    execute = [program, "exec", "--config", unpooled.config, "--env", "docker", "--language", runtime, "-c", CODE[runtime]]
    row = {"pool": [], "cold": [], "exec": [], "run": []}
    for number in range(args.rounds + 1):  # the first round warms caches, and fills the pool
        took = {"cold": unpooled.execute(runtime)[0], "exec": whole_process(args, execute, directory),
                "run": whole_process(args, run_command(args, runtime), directory)}
        time.sleep(args.pause)  # what the others left behind is gone, the pool is full
        took["pool"] = pooled.execute(runtime)[0]
        time.sleep(args.pause)
        for name, seconds in took.items():
            if number:
                row[name].append(seconds)
        progress(f"{runtime} round {number}/{args.rounds}")
    pooled.execute(runtime, f"warm-{runtime}", 20)
    row["warm"] = pooled.execute(runtime, f"warm-{runtime}", args.warm)
    row = {name: summary(seconds) for name, seconds in row.items()}
    row.update(measure_session(args, runtime, unpooled, directory))
    return row


def measure_session(args, runtime, unpooled, directory):
    """A cold session of many executions, and as many containers of one."""
    begin = time.perf_counter()
    unpooled.execute(runtime, f"long-{runtime}", args.executions)
    session = time.perf_counter() - begin
    runs = 0.0
    for number in range(args.executions):
        runs += whole_process(args, run_command(args, runtime), directory)
        progress(f"{runtime} run {number + 1}/{args.executions}")
    return {"session_s": session, "runs_s": runs, "session_times_faster": runs / session}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def show(report):
    print(f"{report['engine']}, `{report['run_with']} run --rm` beside it, {report['cpus']} CPUs, kernel {report['kernel']}")
    for runtime, row in report["runtimes"].items():
        print(f"\n{runtime + ': ' + row.get('image', ''):<44}{'median':>12}{'min':>12}{'p99':>12}{'x run':>8}")
        if "absent" in row:
            print(f"  absent: {row['absent']}")
            continue
        for name, what in (("pool", "fresh session, from the pool"), ("cold", "fresh session, cold"),
                           ("exec", "exec --env docker, whole process, cold"), ("run", "run --rm, whole process"),
                           ("warm", "warm execution")):
            part = row[name]
            print(f"{what:<44}{part['median_ms']:>9.3f} ms{part['min_ms']:>9.3f} ms{part['p99_ms']:>9.3f} ms"
                  f"{ratio(row, name):>8.3f}")
        print(f"{report['executions']} executions in one session{row['session_s']:>29.3f} s; in a container each "
              f"{row['runs_s']:.1f} s: {row['session_times_faster']:.0f} times faster")
        for name, aim, met in AIMS:
            if name == "pool" and runtime != "python":
                continue  # a pool holds what sessions begin as unless they are told: those of others are cold
            print(f"  {'met   ' if met(row) else 'MISSED'} {name}: {aim}")


def run_with(engine):
    """The engine's own command, else the other one, which speaks the same API."""
    names = ("podman", "docker") if "podman" in engine else ("docker", "podman")
    return next(filter(None, map(shutil.which, names)), None)


def images(args):
    """Which image each runtime is measured with, and why others are not: {runtime: image}, {runtime: reason}."""
    found, absent = {}, {}
    for runtime, image in (("python", args.image), ("node", args.node or args.image), ("bash", args.bash or args.image)):
        args.images = {runtime: image}
        try:
            whole_process(args, run_command(args, runtime), "/")
            found[runtime] = image
        except RuntimeError as error:
            absent[runtime] = str(error)
    return found, absent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--engine", default="unix:///var/run/docker.sock")
    parser.add_argument("--image", default="python:3.11-slim")
    parser.add_argument("--node")
    parser.add_argument("--bash")
    parser.add_argument("--run-with", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--warm", type=int, default=2000)
    parser.add_argument("--executions", type=int, default=100)
    parser.add_argument("--pause", type=float, default=1.5, help="seconds for the pool to fill, twice a round (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    if not (args.build / "bench/bench_session").exists():
        stop(f"{args.build}/bench/bench_session is not there",
             f"meson setup {args.build} --buildtype release && ninja -C {args.build}")
    args.run_with = args.run_with or run_with(args.engine)
    if args.run_with is None:
        stop("neither docker nor podman is installed", "apt-get install docker.io, or give --run-with PROGRAM")
    with tempfile.TemporaryDirectory(prefix="snipara-bench-") as directory:
        args.env = dict(os.environ, SNIPARA_SANDBOX_BUILD_ROOT=str(args.build), HOME=directory, DOCKER_CONFIG=directory,
                        XDG_STATE_HOME=directory)
        args.images, absent = images(args)
        if "python" in absent:
            stop(f"{args.image} does not run: {absent['python']}", "give --engine and --image")
        report = {"engine": args.engine, "run_with": os.path.basename(args.run_with), "cpus": os.cpu_count(),
                  "kernel": os.uname().release, "executions": args.executions,
                  "runtimes": {name: {"absent": reason} for name, reason in absent.items()}}
        pooled, unpooled = Sessions(args, directory, 4), Sessions(args, directory, 0)
        try:
            for runtime, image in args.images.items():
                row = {"image": image}
                row.update(measure(args, runtime, pooled, unpooled, directory))
                report["runtimes"][runtime] = row
        finally:
            pooled.close()
            unpooled.close()
    progress("")
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the engine's containers go with the sessions
    sys.exit(main())
