#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs that sessions last: forks, rollbacks, checkpoints, going on in another server; prints tables with
ratios and says which aims are held.

    bench/sessions.py [--build DIR] [--backends local,wasm] [--only copies,forks,automatic,portable,branches] [--rounds N]
                      [--sizes 1,10,20,50,100] [--branches 200] [--branch-size 20] [--directory DIR] [--json FILE]

    copies     a copy of a live session's guest that is kept to go back to, and its first result in the place of the original,
               by megabytes of state: medians, and the slope; at the backend, without the sessions above it
    forks      the same of fork_session and rollback_session. "server" is what the tool says that it took, "client" what a
               client process waits for the answer, "again" a second fork of a session that has not changed since
    automatic  an execution in a session with small state, with checkpoints after each against without (`checkpoint`), in turn
    portable   a dictionary of 10 MB and an array of 50 MB (local): checkpoint_session, and the first call of a new server,
               beside pickle in the same interpreter and writing as much to the same disk
    branches   many forks of one session with 20 MB beside as many fresh sessions that rebuild it: time, memory

--directory is where stores are made: the disk that is measured (the current directory). Quote ratios: machines drift, and both
sides of a ratio drift with them. Nothing here is a test.
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
PARTS = ("copies", "forks", "automatic", "portable", "branches")
MIB = 1 << 20
# What changes something, so that there is a state to keep; bench_session wants "1" printed.
SMALL = "count = globals().get('count', 0) + 1; print(1)"
BLOCKS = "import random\nblocks = [random.randbytes(65536) for _ in range(16 * %d)]\ntouched = 0\nprint(len(blocks))"


def stop(message, hint):
    sys.exit(f"error: {message}\nhint: {hint}")


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def summary(milliseconds):
    ordered = sorted(milliseconds)
    return {"median_ms": statistics.median(ordered), "min_ms": ordered[0],
            "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], "runs": len(ordered)}


def slope(rows, column):
    """Milliseconds for each megabyte more: least squares over the medians."""
    sizes, times = [row["mb"] for row in rows], [row[column]["median_ms"] for row in rows]
    middle = statistics.mean(sizes)
    spread = sum((size - middle) ** 2 for size in sizes)
    return sum((size - middle) * t for size, t in zip(sizes, times)) / spread if spread else float("nan")


def machine(args, backend, settings="", **entry):
    """A home and a store on the disk that is measured."""
    tempfile.tempdir = str(args.directory)
    return args.case.Machine(backend, settings + "max_sessions = 1024;\n", **{"memory": "1g", "memory_max": "2g", **entry})


def timed(call, *arguments, **named):
    """(milliseconds, what it returned)"""
    begin = time.perf_counter()
    value = call(*arguments, **named)
    return (time.perf_counter() - begin) * 1e3, value


# ---- copies of guests ----

def copy_once(guest):
    """(the copy, in the place of its original; figures)"""
    answer = guest.driver.ask("fork", guest=guest.number, frozen=True)
    copy = type(guest)(guest.driver, answer)
    began = time.perf_counter()
    guest.end()
    result = copy.execute("touched += 1; print(touched)")
    taken = (time.perf_counter() - began) * 1e3
    if result["end"] != "ok":
        raise RuntimeError(f"the copy says {result}")
    return copy, {"copy": answer["took_ns"] / 1e6, "take_over": taken}


def measure_copies(args, backend):
    rows = []
    settings = [f"{backend}.pool=0", f"{backend}.memory=1g", f"{backend}.memory_max=2g"]
    with args.drive.Driver(backend, settings, build=str(args.build)) as driver:
        for size in args.sizes:
            guest, figures = driver.start(memory_bytes=1 << 30), {"copy": [], "take_over": []}
            guest.run(BLOCKS % size)
            for number in range(args.rounds * 2 + 2):
                progress(f"copies: {size} MB {number + 1}/{args.rounds * 2 + 2}")
                guest, steps = copy_once(guest)
                for name, took in steps.items() if number >= 2 else ():
                    figures[name].append(took)
            guest.end()
            rows.append({"mb": size, **{name: summary(values) for name, values in figures.items()}})
    return {"sizes": rows, **{f"{name}_slope_ms": slope(rows, name) for name in ("copy", "take_over")}}


# ---- forks and rollbacks ----

def said_last(answer, wanted):
    if answer.text.strip().splitlines()[-1] != wanted:
        raise RuntimeError(f"{wanted} was expected: {answer}")


def fork_once(args, server, name, size):
    took, told = timed(server.call, "fork_session", session_id=name)
    first, answer = timed(server.run, told["session_id"], "print(len(blocks), touched)")
    said_last(answer, f"{16 * size} 0")
    server.call("destroy_session", session_id=told["session_id"])
    again = server.call("fork_session", session_id=name)  # of a session that has not changed since
    server.call("destroy_session", session_id=again["session_id"])
    return {"fork": told["took_ms"], "fork_client": took, "fork_first": took + first, "fork_again": again["took_ms"]}


def roll_back_once(args, server, name, size):
    """A checkpoint, something that is tried, and back."""
    checkpoint = server.call("checkpoint_session", session_id=name)["id"]
    server.run(name, "touched += 1")
    time.sleep(args.pause)
    took, told = timed(server.call, "rollback_session", session_id=name, checkpoint=checkpoint)
    first, answer = timed(server.run, name, "print(len(blocks), touched)")
    said_last(answer, f"{16 * size} 0")
    return {"rollback": told["took_ms"], "rollback_client": took, "rollback_first": took + first}, told["mechanism"]


def measure_size(args, server, size):
    row, figures = {"mb": size}, {}
    name = f"size-{size}"
    server.run(name, BLOCKS % size)
    for number in range(args.rounds + 2):
        progress(f"forks: {size} MB {number + 1}/{args.rounds + 2}")
        time.sleep(args.pause)  # what goes on behind the calls ends
        steps = fork_once(args, server, name, size)
        time.sleep(args.pause)
        more, row["mechanism"] = roll_back_once(args, server, name, size)
        for key, value in {**steps, **more}.items() if number >= 2 else ():
            figures.setdefault(key, []).append(value)
    server.call("destroy_session", session_id=name)
    return {**row, **{key: summary(values) for key, values in figures.items()}}


def measure_forks(args, backend):
    with machine(args, backend) as place:
        server = place.serve()
        rows = [measure_size(args, server, size) for size in args.sizes]
        server.stop()
    return {"sizes": rows, **{f"{name}_slope_ms": slope(rows, name) for name in ("fork", "fork_again", "rollback")}}


# ---- automatic checkpoints ----

class Executions:
    """A process that executes at the embedding API and says how long it took (bench_session)."""

    def __init__(self, args, place, policy):
        config = place.project(f"policy-{policy}", entry={"checkpoint": policy})
        env = args.case.environment(place.home)
        self.process = subprocess.Popen([args.build / "bench/bench_session", config], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env=env, cwd=os.path.dirname(config))
        self.session, self.milliseconds = f"small-{policy}", []

    def execute(self, count):
        self.process.stdin.write(f"{count} {self.session} python {SMALL}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line or "error:" in line:
            raise RuntimeError(line.strip() or "bench_session ended")
        return [int(word) / 1e6 for word in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


def measure_automatic(args, backend):
    with machine(args, backend) as place:
        policies = {policy: Executions(args, place, policy) for policy in ("always", "changed", "off")}
        try:
            for executions in policies.values():
                executions.execute(20)
            for number in range(args.rounds * 2):
                progress(f"automatic: {number + 1}/{args.rounds * 2}")
                for executions in policies.values():
                    executions.milliseconds += executions.execute(20)
        finally:
            for executions in policies.values():
                executions.close()
        rows = {policy: summary(executions.milliseconds) for policy, executions in policies.items()}
    return {**rows, "cost_ms": rows["always"]["median_ms"] - rows["off"]["median_ms"]}


# ---- portable states ----

LARGE = """
import array, random
table = {"key %d %d" % (number, random.randrange(1000)): [number, number * 0.5, "text %d" % number] for number in range(220000)}
numbers = array.array("Q", random.randbytes(50_000_000))
print("made")
"""
PICKLE = """
import pickle, time
def _measure():
    used = time.process_time()
    begin = time.perf_counter()
    data = pickle.dumps({"table": table, "numbers": numbers}, 5)
    used = time.process_time() - used
    middle = time.perf_counter()
    pickle.loads(data)
    return (middle - begin) * 1e3, (time.perf_counter() - middle) * 1e3, used * 1e3, len(data), len(pickle.dumps(table, 5))
print(*_measure())
"""


def disk_ms(directory, size):
    """(writing as much and having it on the disk, reading it from there)"""
    path, data = os.path.join(directory, "measured"), os.urandom(size)

    def write():
        with open(path, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view[:MIB]):]
            os.fsync(file.fileno())

    def read():
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            while os.read(fd, MIB):
                pass
        finally:
            os.close(fd)
    times = timed(write)[0], timed(read)[0]
    os.unlink(path)
    return times


def processor_ms(args, server):
    """(of the server, of all below it): what they have used so far, by process."""
    used = {}
    for pid in args.case.mcp_client.process_tree(server.pid):
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            used[pid] = sum(int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
                            for thread in threads) / 1e6
        except OSError:
            continue
    return used.pop(server.pid), used


def measure_portable(args):
    figures = {name: [] for name in ("save", "dumps", "write", "resume", "fresh", "loads", "read", "save_processor",
                                     "dumps_processor", "server_processor")}
    with machine(args, "local", checkpoint="off") as place:
        for number in range(args.portable_rounds):
            progress(f"portable: {number + 1}/{args.portable_rounds}")
            server = place.serve()
            server.run("large", LARGE)
            dumps, loads, used, size, table = map(float, server.run("large", PICKLE).text.split()[-5:])
            write, read = disk_ms(place.directory, int(size))
            server_before, below_before = processor_ms(args, server)
            saved, told = timed(server.call, "checkpoint_session", session_id="large")
            server_after, below_after = processor_ms(args, server)
            below = sum(value - below_before[pid] for pid, value in below_after.items() if pid in below_before)
            server.stop()
            server = place.serve()
            server.run("first", "print(1)")  # starts what all sessions need
            fresh, _ = timed(server.run, "fresh", "print(1)")
            resume, answer = timed(server.run, "large", "print(len(table), len(numbers))")
            if answer.text.split()[-1] != "6250000" or answer.notice_kind != "resumed":
                raise RuntimeError(f"the session that was resumed says {answer}")
            server.call("destroy_session", session_id="large")
            server.stop()
            for key, value in (("save", saved), ("dumps", dumps), ("write", write), ("resume", resume), ("fresh", fresh),
                               ("loads", loads), ("read", read), ("save_processor", below), ("dumps_processor", used),
                               ("server_processor", server_after - server_before)):
                figures[key].append(value)
    rows = {key: summary(values) for key, values in figures.items()}
    middle = {key: row["median_ms"] for key, row in rows.items()}
    return {"bytes": size, "table_bytes": table, "state_bytes": told["bytes"], "mechanism": told["mechanism"], **rows,
            "save_ratio": middle["save"] / (middle["dumps"] + middle["write"]),
            "save_processor_ratio": middle["save_processor"] / middle["dumps_processor"],
            "save_less_disk_ratio": (middle["save"] - middle["write"]) / middle["dumps"],
            "resume_ratio": (middle["resume"] - middle["fresh"]) / (middle["loads"] + middle["read"])}


# ---- branches ----

def memory_bytes(args, server):
    """Memory of the server and all below it, what is shared counted once."""
    total = 0
    for pid in args.case.mcp_client.process_tree(server.pid):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def measure_branches(args, backend):
    """Each branch looks at the state and changes something of it; all live at the same time."""
    found = {}
    step = "blocks[touched] = b'%d'; touched = %d; print(len(blocks))"
    for kind in ("forks", "fresh"):
        with machine(args, backend, checkpoint="off") as place:
            server = place.serve()
            server.run("origin", BLOCKS % args.branch_size)
            before, took = memory_bytes(args, server), 0
            for number in range(args.branches):
                progress(f"branches: {kind} {number + 1}/{args.branches}")
                name = f"branch-{number}"
                begin = time.perf_counter()
                if kind == "forks":
                    server.call("fork_session", session_id="origin", new_session_id=name)
                else:
                    server.run(name, BLOCKS % args.branch_size)
                answer = server.run(name, step % (number, number + 1))
                took += time.perf_counter() - begin
                if answer.text.strip().splitlines()[-1] != str(16 * args.branch_size):
                    raise RuntimeError(f"{name} says {answer}")
            found[kind] = {"seconds": took, "memory_bytes": memory_bytes(args, server) - before}
            server.stop()
    return {**found, "count": args.branches, "mb": args.branch_size,
            "times_faster": found["fresh"]["seconds"] / found["forks"]["seconds"],
            "times_less_memory": found["fresh"]["memory_bytes"] / max(1, found["forks"]["memory_bytes"])}


# ---- what comes of it ----

def aims(report):
    """(text, figure, held) of each aim whose part was measured. The published figures are those of DeltaBox
    (arXiv 2605.22781): 14 ms for a checkpoint, 5 ms for a rollback."""
    found = []

    def add(text, value, limit, unit, best=None):
        found.append((text, f"{value:.3g} {unit}" + (f", best {best:.3g}" if best else ""), value <= limit))

    def add_row(text, row, limit):
        add(text, row["median_ms"], limit, "ms", row["min_ms"])

    for backend, figures in report.get("copies", {}).items():
        for row in figures["sizes"]:
            if row["mb"] == 20:
                add_row(f"{backend}: a copy of a guest with 20 MB: at most 3 ms", row["copy"], 3)
                add_row(f"{backend}: it takes the guest's place: at most 5 ms", row["take_over"], 5)
        add(f"{backend}: a copy, for each MB more: at most 0.03 ms", figures["copy_slope_ms"], 0.03, "ms/MB")
    for backend, figures in report.get("forks", {}).items():
        for row in figures["sizes"]:
            if row["mb"] == 20:
                add_row(f"{backend}: a fork with 20 MB: at most 3 ms", row["fork"], 3)
                add_row(f"{backend}: a fork with 20 MB that has not changed since the last: at most 3 ms", row["fork_again"], 3)
                add_row(f"{backend}: a rollback with 20 MB: at most 5 ms", row["rollback"], 5)
        add(f"{backend}: a fork, for each MB more: at most 0.03 ms", figures["fork_slope_ms"], 0.03, "ms/MB")
        add(f"{backend}: a fork of one that has not changed, for each MB more: at most 0.03 ms", figures["fork_again_slope_ms"],
            0.03, "ms/MB")
    for backend, figures in report.get("automatic", {}).items():
        add(f"{backend}: an automatic checkpoint: at most 1 ms", figures["cost_ms"], 1, "ms",
            figures["always"]["min_ms"] - figures["off"]["min_ms"])
    if "portable" in report:
        add("a portable save: at most 1.3 times pickle, and the disk", report["portable"]["save_less_disk_ratio"], 1.3, "times")
        add("the session's processor time of it: at most 1.3 times", report["portable"]["save_processor_ratio"], 1.3, "times")
        add("resuming: at most 1.3 times pickle and the disk", report["portable"]["resume_ratio"], 1.3, "times")
    return found


def show_copies(backend, figures):
    print(f"{backend}, at the backend: medians in ms")
    print(f"{'state':>10}{'copy':>18}{'takes the place':>18}")
    for row in figures["sizes"]:
        print(f"{row['mb']:>7} MB{row['copy']['median_ms']:>18.2f}{row['take_over']['median_ms']:>18.2f}")
    print(f"{'per MB':>10}{figures['copy_slope_ms']:>18.4f}{figures['take_over_slope_ms']:>18.4f}\n")


def show_forks(backend, figures):
    print(f"{backend}, {figures['sizes'][0]['mechanism']}: medians in ms")
    columns = ("fork", "fork_client", "fork_first", "fork_again", "rollback", "rollback_client", "rollback_first")
    titles = ("fork, server", "client", "+ first result", "again, server", "rollback, server", "client", "+ first result")
    print(f"{'state':>10}" + "".join(f"{title:>18}" for title in titles))
    for row in figures["sizes"]:
        print(f"{row['mb']:>7} MB" + "".join(f"{row[column]['median_ms']:>18.2f}" for column in columns))
    print(f"{'per MB':>10}{figures['fork_slope_ms']:>18.4f}{'':>36}{figures['fork_again_slope_ms']:>18.4f}{figures['rollback_slope_ms']:>18.4f}\n")


def show(report):
    print(f"{report['cpus']} CPUs, kernel {report['kernel']}, stores on {report['disk']}\n")
    for backend, figures in report.get("copies", {}).items():
        show_copies(backend, figures)
    for backend, figures in report.get("forks", {}).items():
        show_forks(backend, figures)
    if "automatic" in report:
        print(f"{'an execution, small state, median':<36}{'always':>12}{'changed':>12}{'off':>12}{'cost':>12}")
        for backend, figures in report["automatic"].items():
            print(f"{backend:<36}" + "".join(f"{figures[policy]['median_ms']:>9.3f} ms" for policy in
                                             ("always", "changed", "off")) + f"{figures['cost_ms']:>9.3f} ms")
        print()
    if "portable" in report:
        row = report["portable"]
        print(f"a dictionary of {row['table_bytes'] / 1e6:.1f} MB and an array, {row['bytes'] / 1e6:.1f} MB pickled, "
              f"{row['state_bytes'] / 1e6:.1f} MB as {row['mechanism']} state; medians")
        for name, text in (("save", "checkpoint_session"), ("dumps", "pickle.dumps in the session"),
                           ("write", "as much written, on the disk"), ("resume", "first call in a new server"),
                           ("fresh", "the same of a fresh session"), ("loads", "pickle.loads in the session"),
                           ("read", "as much read"), ("save_processor", "processor: the session saves"),
                           ("dumps_processor", "processor: pickle.dumps"), ("server_processor", "processor: the server keeps it")):
            print(f"{text:<36}{row[name]['median_ms']:>9.1f} ms")
        print(f"save / (dumps + write) {row['save_ratio']:.2f}, (save - write) / dumps {row['save_less_disk_ratio']:.2f}, "
              f"(resume - fresh) / (loads + read) {row['resume_ratio']:.2f}, of processor time {row['save_processor_ratio']:.2f}\n")
    for backend, row in report.get("branches", {}).items():
        print(f"{backend}: {row['count']} branches of a session with {row['mb']} MB, alive together, each with a result")
        for kind, text in (("forks", "forks"), ("fresh", "fresh sessions that rebuild it")):
            print(f"{text:<36}{row[kind]['seconds']:>9.2f} s {row[kind]['memory_bytes'] / MIB:>9.0f} MiB")
        print(f"{'':<36}{row['times_faster']:>9.1f} times faster, {row['times_less_memory']:.1f} times less memory\n")
    for text, value, held in aims(report):
        print(f"{'held  ' if held else 'MISSED'}  {text:<62}{value:>24}")
    for reason in report["absent"]:
        print(f"absent: {reason}")


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--backends", default="local,wasm", type=lambda text: text.split(","))
    parser.add_argument("--only", default=",".join(PARTS), type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--portable-rounds", type=int, default=5, help="of portable, seconds each (%(default)s)")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds before a fork (%(default)s)")
    parser.add_argument("--sizes", default=[1, 10, 20, 50, 100], type=numbers, help="megabytes of state (1,10,20,50,100)")
    parser.add_argument("--branches", type=int, default=200)
    parser.add_argument("--branch-size", type=int, default=20, help="megabytes (%(default)s)")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path.cwd())
    parser.add_argument("--json", type=pathlib.Path)
    return parser


def check(args):
    """What is missing is said at once; returns the reasons of backends that are absent."""
    args.build, args.directory = args.build.resolve(), args.directory.resolve()
    for program in ("core/cli/snipara-sandbox", "bench/bench_session", "tests/guests/drive-guests"):
        if not (args.build / program).exists():
            stop(f"{args.build}/{program} is not there",
                 f"meson setup {args.build} --buildtype release && ninja -C {args.build}")
    unknown = set(args.only) - set(PARTS)
    if unknown:
        stop(f"--only: no {', '.join(unknown)}", f"the parts are {', '.join(PARTS)}")
    os.environ.update(SNIPARA_SANDBOX=str(args.build / "core/cli/snipara-sandbox"), SNIPARA_SANDBOX_BUILD_ROOT=str(args.build))
    sys.path[1:1] = [str(ROOT / "tests"), str(ROOT / "tests/durable"), str(ROOT / "tests/guests")]
    import drive
    import durable_case
    args.case, args.drive = durable_case, drive
    if "wasm" in args.backends and (reason := durable_case.with_guest.missing()):
        args.backends.remove("wasm")
        return ["wasm: " + reason]
    return []


def main():
    args = arguments().parse_args()
    report = {"absent": check(args), "cpus": os.cpu_count(), "kernel": os.uname().release, "disk": str(args.directory)}
    parts = {"copies": measure_copies, "forks": measure_forks, "automatic": measure_automatic, "branches": measure_branches}
    for part in PARTS:
        if part not in args.only:
            continue
        if part != "portable":
            report[part] = {backend: parts[part](args, backend) for backend in args.backends}
        elif "local" in args.backends:
            report[part] = measure_portable(args)
    progress("")
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
