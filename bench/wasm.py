#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sessions in WebAssembly beside Pyodide and the native interpreter, in turn in the same rounds, and prints
tables with ratios.

    bench/wasm.py [--build DIR] [--pyodide DIR] [--node PROGRAM] [--python PROGRAM] [--rounds N] [--sessions N,N]
                  [--only latency,states,cpu,memory] [--json FILE]

    latency   a session to its first result: from the pool, from the zygote (pool = 0), with no zygote running; the next
              execution; Pyodide to its first result (the package is loaded, Node runs), the native interpreter's process
    states    a fork, saving a session with 1 MB of changed state, restoring it
    cpu       the programs of bench/programs/, each in all three interpreters, one after another
    memory    private memory of sessions that are alive together and all answer: 1, 100, 5,000

On a machine that does other things as well, `chrt -r 1` before the command keeps these out of the figures.

--pyodide is the directory of the npm package (npm install pyodide@314; node_modules/pyodide). Quote ratios: machines drift,
and both sides of a ratio drift with them. Nothing here is a test.
"""
import argparse
import json
import math
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = pathlib.Path(__file__).resolve().parent / "wasm"
sys.path.insert(1, str(ROOT / "tests/guests"))
import drive  # noqa: E402

PARTS = ("latency", "states", "cpu", "memory")
PRINT = {"python": "print(1)", "javascript": "console.log(1)"}
TIMED = "import time\nbegin = time.perf_counter()\nvalue = run()\nanswer = (time.perf_counter() - begin, value)"
DESCRIPTORS = 20000
MIB = float(1 << 20)


def stop(message, hint):
    sys.exit(f"error: {message}\nhint: {hint}")


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def summary(seconds):
    ordered = sorted(seconds)
    return {"median_ms": statistics.median(ordered) * 1e3, "min_ms": ordered[0] * 1e3,
            "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3, "runs": len(ordered)}


# ---- processes that are measured ----

class Sessions:
    """A process that executes at the embedding API and says how long it took (bench_session)."""

    def __init__(self, args, directory, pool):
        config = pathlib.Path(directory, f"pool-{pool}.cfg")
        config.write_text(f'environment = "wasm";\nplugins = ( {{ name = "wasm"; plugin = "backend-wasm"; critical = true; '
                          f"pool = {pool}; }} );\n", encoding="utf-8")
        config.chmod(0o600)
        self.process = subprocess.Popen([args.build / "bench/bench_session", config], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env=args.env, cwd=directory)

    def execute(self, runtime, session="-", count=1):
        """Seconds of each execution."""
        self.process.stdin.write(f"{count} {session} {runtime} {PRINT[runtime]}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line or "error:" in line:
            raise RuntimeError(line.strip() or "bench_session ended")
        return [int(word) / 1e9 for word in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


class Interpreter:
    """A process that answers a line of code with a line."""

    def __init__(self, argv, env):
        begin = time.perf_counter()
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.about = self.answer()
        self.whole_seconds = time.perf_counter() - begin

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended with {self.process.wait(60)}")
        return json.loads(line)

    def run(self, code):
        """The repr of what the code leaves in `answer`."""
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


class Guest:
    """A session's guest, without the sessions above it, as such an interpreter."""

    def __init__(self, args):
        self.driver = new_driver(args)
        self.guest = self.driver.start()

    def run(self, code):
        return self.guest.run(code + "\nprint(repr(answer), end='')" if "answer" in code else code)

    def close(self):
        self.guest.end()
        self.driver.close()


def allow_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def new_driver(args):
    return drive.Driver("wasm", ["wasm.pool=0"], build=str(args.build), env=args.env, preexec_fn=allow_descriptors)


def new_pyodide(args):
    return Interpreter([args.node, HERE / "pyodide.mjs", args.pyodide], dict(os.environ))


def new_native(args):
    return Interpreter([args.python, "-I", "-S", HERE / "native.py"], {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"})


# ---- latency ----

def measure_cold(args, directory):
    """The first session of a process that has just begun: helper started, image mapped, jail made."""
    sessions = Sessions(args, directory, 0)
    try:
        return sessions.execute("python")[0]
    finally:
        sessions.close()


def measure_latency(args, directory):
    pooled, unpooled = Sessions(args, directory, 8), Sessions(args, directory, 0)
    rows = {name: [] for name in ("pool", "zygote", "cold", "next", "javascript", "javascript_next", "native", "pyodide",
                                  "pyodide_node")}
    code = {"PATH": "/usr/bin:/bin"}
    try:
        for sessions in (pooled, unpooled):
            sessions.execute("python", count=8)
        unpooled.execute("python", "kept", 200)
        for number in range(args.rounds):
            progress(f"latency: round {number + 1}/{args.rounds}")
            time.sleep(args.pause)  # the pool fills
            rows["pool"] += pooled.execute("python", count=4)
            rows["zygote"] += unpooled.execute("python", count=20)
            rows["next"] += unpooled.execute("python", "kept", 200)
            rows["cold"] += [measure_cold(args, directory) for _ in range(3)]
            if args.javascript:
                unpooled.execute("javascript", "kept-javascript", 20)
                rows["javascript"] += unpooled.execute("javascript", count=20)
                rows["javascript_next"] += unpooled.execute("javascript", "kept-javascript", 200)
            begin = time.perf_counter()
            subprocess.run([args.python, "-I", "-S", "-c", PRINT["python"]], stdout=subprocess.DEVNULL, check=True, env=code)
            rows["native"].append(time.perf_counter() - begin)
            if args.pyodide and number < args.pyodide_rounds:
                pyodide = new_pyodide(args)
                pyodide.close()
                rows["pyodide"].append((pyodide.about["load_ms"] + pyodide.about["first_ms"]) / 1e3)
                rows["pyodide_node"].append(pyodide.whole_seconds)
    finally:
        pooled.close()
        unpooled.close()
    return {name: summary(seconds) for name, seconds in rows.items() if seconds}


# ---- states ----

# 1 MB that zstd can't make small, and that was not there before.
STATE = "import random\nblocks = [random.Random(number).randbytes(4096) for number in range(256)]\n" \
        "def numbers():\n    yield from range(10)\nhalf = numbers()\nnext(half)"


def measure_states(args, directory):
    rows = {name: [] for name in ("fork", "fork_first", "save", "restore", "restore_first")}
    path, size = os.path.join(directory, "state"), 0
    with new_driver(args) as driver:
        guest = driver.start()
        guest.run(STATE)
        for number in range(args.rounds * 2 + 2):
            progress(f"states: {number + 1}/{args.rounds * 2 + 2}")
            steps = {}
            answer = driver.ask("fork", guest=guest.number)
            steps["fork"] = answer["took_ns"]
            copy = drive.Guest(driver, answer)
            steps["fork_first"] = steps["fork"] + copy.execute("1")["took_ns"]
            copy.end()
            answer = driver.ask("save", guest=guest.number, to=path)
            steps["save"], size = answer["took_ns"], answer["size"]
            answer = driver.ask("restore", **{"from": path})
            steps["restore"] = answer["took_ns"]
            copy = drive.Guest(driver, answer)
            result = copy.execute("print(next(half), len(blocks))")
            if result["stdout"] != "1 256\n":
                raise RuntimeError(f"the restored session says {result}")
            steps["restore_first"] = steps["restore"] + result["took_ns"]
            copy.end()
            if number >= 2:
                for name, took in steps.items():
                    rows[name].append(took / 1e9)
        guest.end()
    return {"state_bytes": size, **{name: summary(seconds) for name, seconds in rows.items()}}


# ---- processor ----

def measure_cpu(args):
    programs = {path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE.parent / "programs").glob("*.py"))}
    places = {"wasm": Guest(args), "native": new_native(args)}
    if args.pyodide:
        places["pyodide"] = new_pyodide(args)
    seconds = {name: {place: [] for place in places} for name in programs}
    try:
        for name, source in programs.items():
            for number in range(args.rounds + 2):
                progress(f"cpu: {name} {number + 1}/{args.rounds + 2}")
                values = {}
                order = list(places)
                random.shuffle(order)
                for place in order:
                    if number == 0:
                        places[place].run(source)
                    took, values[place] = eval(places[place].run(TIMED), {"__builtins__": {}})  # a tuple of our own program
                    if number >= 2:
                        seconds[name][place].append(took)
                if len({repr(value) for value in values.values()}) != 1:
                    raise RuntimeError(f"{name}: the interpreters do not agree: {values}")
    finally:
        about = {place: getattr(interpreter, "about", {}) for place, interpreter in places.items()}
        for interpreter in places.values():
            interpreter.close()
    rows = {name: {place: summary(values) for place, values in row.items()} for name, row in seconds.items()}
    return {"programs": rows, "about": about,
            **{f"wasm_to_{place}": mean_ratio(rows, place, "median_ms") for place in places if place != "wasm"},
            **{f"wasm_to_{place}_best": mean_ratio(rows, place, "min_ms") for place in places if place != "wasm"}}


def mean_ratio(rows, place, figure):
    """The geometric mean over the programs."""
    logs = [math.log(row["wasm"][figure] / row[place][figure]) for row in rows.values()]
    return math.exp(sum(logs) / len(logs))


# ---- memory ----

def private_bytes(pid):
    """Memory that is this process's alone, or None when it has gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    own = ("Private_Clean:", "Private_Dirty:")
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(own)) << 10


def available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable")


def measure_alive(args, count):
    with new_driver(args) as driver:
        driver.start().run("print(1)")  # starts the zygote
        before = available_bytes()
        settled = set(driver.processes())
        began = time.perf_counter()
        guests = []
        for number in range(count):
            if number % 100 == 0:
                progress(f"memory: session {number} of {count}")
            guests.append(driver.start())
            if guests[-1].run(f"name = 'session {number}'; print(1)") != "1\n":
                raise RuntimeError("a session has another result")
        started = time.perf_counter() - began
        progress(f"memory: {count} sessions are asked again")
        began = time.perf_counter()
        for number, guest in enumerate(guests):
            if guest.run("print(name)") != f"session {number}\n":
                raise RuntimeError("a session has another one's state")
        answered = time.perf_counter() - began
        after = available_bytes()
        own = [size for size in map(private_bytes, set(driver.processes()) - settled) if size is not None]
        return {"sessions": count, "processes": len(own), "private_bytes": statistics.median(own),
                "private_max_bytes": max(own), "private_total_bytes": sum(own), "system_bytes": before - after, "start_seconds": started,
                "answer_seconds": answered}


def pyodide_memory(args):
    pyodide = new_pyodide(args)
    try:
        return private_bytes(pyodide.process.pid)
    finally:
        pyodide.close()


def measure_memory(args):
    found = {"alive": [measure_alive(args, count) for count in args.sessions]}
    if args.pyodide:
        found["pyodide_bytes"] = pyodide_memory(args)
    return found


# ---- what comes of it ----

def aims(report):
    """(text, figure, held) of each aim whose part was measured."""
    found = []

    def add(text, value, limit, unit=""):
        found.append((text, f"{value:.3g}{unit}", value <= limit))

    latency, states, cpu = (report.get(part) for part in ("latency", "states", "cpu"))
    if latency:
        add("a fresh session to its first result: at most 0.8 ms", latency["zygote"]["median_ms"], 0.8, " ms")
        add("the same with no zygote: at most 5 ms", latency["cold"]["median_ms"], 5, " ms")
        add("next execution: at most 0.1 ms", latency["next"]["median_ms"], 0.1, " ms")
        if "pyodide" in latency:
            times = latency["pyodide"]["median_ms"] / latency["zygote"]["median_ms"]
            found.append(("a first result 1,000 times faster than Pyodide", f"{times:.0f} times", times >= 1000))
    if states:
        add("a fork: at most 0.5 ms", states["fork"]["median_ms"], 0.5, " ms")
        add("saving 1 MB of changed state: at most 10 ms", states["save"]["median_ms"], 10, " ms")
        add("restoring it: at most 5 ms", states["restore"]["median_ms"], 5, " ms")
    if cpu:
        add("processor time at most 2.0 times native", cpu["wasm_to_native"], 2.0, " times")
        if "wasm_to_pyodide" in cpu:
            add("processor time at most 0.8 times Pyodide's", cpu["wasm_to_pyodide"], 0.8, " times")
    for row in report.get("memory", {}).get("alive", []):
        add(f"{row['sessions']:,} alive: at most 1 MiB of private memory each", row["private_bytes"] / MIB, 1, " MiB")
        if row["sessions"] >= 5000:
            add(f"{row['sessions']:,} sessions: under 6 GB in all", row["system_bytes"] / 1e9, 6, " GB")
    return found


LATENCY = (("pool", "session from the pool, first result"), ("zygote", "session from the zygote, first result"),
           ("cold", "no zygote: first result"), ("next", "next execution"), ("javascript", "JavaScript: from the zygote"),
           ("javascript_next", "JavaScript: next execution"), ("native", "python3.11 -I -S -c, whole process"),
           ("pyodide", "Pyodide, first result (in a Node that runs)"), ("pyodide_node", "Pyodide with the start of Node"))
STATES = (("fork", "fork"), ("fork_first", "fork and first result"), ("save", "save"), ("restore", "restore"),
          ("restore_first", "restore and first result"))


def show_rows(rows, names, base):
    print(f"{'':<46}{'median':>12}{'best':>12}{'p99':>12}{'ratio':>10}")
    for name, text in names:
        if name in rows:
            row = rows[name]
            print(f"{text:<46}{row['median_ms']:>9.3f} ms{row['min_ms']:>9.3f} ms{row['p99_ms']:>9.3f} ms"
                  f"{row['median_ms'] / base:>10.3g}")
    print()


def show_cpu(cpu):
    places = [place for place in ("native", "pyodide") if f"wasm_to_{place}" in cpu]
    print(f"{'run() of bench/programs/, median':<34}{'this':>12}" + "".join(f"{place:>12}{'ratio':>8}" for place in places))
    for name, row in cpu["programs"].items():
        mine = row["wasm"]["median_ms"]
        print(f"{name:<34}{mine:>9.2f} ms" + "".join(
            f"{row[place]['median_ms']:>9.2f} ms{mine / row[place]['median_ms']:>8.2f}" for place in places))
    for text, ending in (("geometric mean", ""), ("geometric mean of the best times", "_best")):
        print(f"{text:<46}" + "".join(f"{'':>12}{cpu[f'wasm_to_{place}{ending}']:>8.2f}" for place in places))
    print()


def show(report):
    print(f"{report['cpus']} CPUs, kernel {report['kernel']}\n")
    if "latency" in report:
        show_rows(report["latency"], LATENCY, report["latency"]["zygote"]["median_ms"])
    if "states" in report:
        print(f"a session with 1 MB of changed state: {report['states']['state_bytes']:,} bytes saved")
        show_rows(report["states"], STATES, report["states"]["fork"]["median_ms"])
    if "cpu" in report:
        show_cpu(report["cpu"])
    if "memory" in report:
        print(f"{'sessions alive':<20}{'private, each':>16}{'most':>12}{'system, each':>16}{'system':>12}"
              f"{'all answer in':>16}")
        for row in report["memory"]["alive"]:
            print(f"{row['sessions']:<20,}{row['private_bytes'] / MIB:>12.3f} MiB{row['private_max_bytes'] / MIB:>8.3f} MiB"
                  f"{row['system_bytes'] / row['sessions'] / MIB:>12.3f} MiB{row['system_bytes'] / 1e9:>9.2f} GB"
                  f"{row['answer_seconds']:>14.2f} s")
        if "pyodide_bytes" in report["memory"]:
            print(f"{'Pyodide in Node':<20}{report['memory']['pyodide_bytes'] / MIB:>12.1f} MiB")
        print()
    for text, value, held in aims(report):
        print(f"{'held  ' if held else 'MISSED'}  {text:<64}{value:>14}")
    for reason in report["absent"]:
        print(f"absent: {reason}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--pyodide", type=pathlib.Path, help="node_modules/pyodide")
    parser.add_argument("--node", default=shutil.which("node"))
    parser.add_argument("--python", default="/usr/bin/python3.11")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pyodide-rounds", type=int, default=5, help="starts of Pyodide, seconds each (%(default)s)")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds for the pool to fill (%(default)s)")
    parser.add_argument("--sessions", default="1,100,5000", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--only", default=",".join(PARTS), type=lambda text: text.split(","))
    parser.add_argument("--json", type=pathlib.Path)
    return parser


def check(args):
    """What is missing is said at once; returns the reasons of peers that are absent."""
    args.build = args.build.resolve()
    for program in ("bench/bench_session", "tests/guests/drive-guests", "guests/wasm/python.sbximg"):
        if not (args.build / program).exists():
            stop(f"{args.build}/{program} is not there",
                 f"meson setup {args.build} --buildtype release -Dwasm-guest=DIRECTORY (made by guests/wasm/build.py) && "
                 f"ninja -C {args.build}")
    args.javascript = (args.build / "guests/wasm/javascript.sbximg").exists()
    absent = [] if args.javascript else ["JavaScript: its guest was not built"]
    args.pyodide = args.pyodide and args.pyodide.resolve()
    if args.pyodide and not (args.pyodide / "pyodide.mjs").exists():
        stop(f"{args.pyodide} is not the npm package", "npm install pyodide@314, then --pyodide node_modules/pyodide")
    if not args.pyodide or not args.node:
        absent.append("Pyodide: give --pyodide DIRECTORY (npm install pyodide@314), and have Node")
        args.pyodide = None
    unknown = set(args.only) - set(PARTS)
    if unknown:
        stop(f"--only: no {', '.join(unknown)}", f"the parts are {', '.join(PARTS)}")
    return absent


def main():
    args = arguments().parse_args()
    absent = check(args)
    with tempfile.TemporaryDirectory(prefix="snipara-bench-") as directory:
        args.env = dict(os.environ, SNIPARA_SANDBOX_BUILD_ROOT=str(args.build), HOME=directory, XDG_STATE_HOME=directory,
                        XDG_CACHE_HOME=directory)
        os.chdir(directory)
        report = {"cpus": os.cpu_count(), "kernel": os.uname().release, "absent": absent}
        parts = {"latency": lambda: measure_latency(args, directory), "states": lambda: measure_states(args, directory),
                 "cpu": lambda: measure_cpu(args), "memory": lambda: measure_memory(args)}
        for part in PARTS:
            if part in args.only:
                report[part] = parts[part]()
    progress("")
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
