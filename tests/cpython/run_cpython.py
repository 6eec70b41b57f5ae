#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CPython's own tests in sessions of a backend, one session for each file, and prints what came of them.

    run_cpython.py --source DIR [--backend wasm] [--set NAME=VALUE ...] [FILE ...]

DIR is CPython's source (of the version that the backend runs) or its Lib/. FILE: "test_json" or a pattern, by default all.
--backend native runs the same in python3.11 of this machine, to compare: --native FILE takes what such a run left with
--json, and what fails there, too, is told as such. A test that ends its session is left out of another run of its file.

--table prints a Markdown table, --json FILE writes everything, --read FILE takes that as what other files gave: without a
FILE of tests nothing is run. The exit code is 1 where a failure is not explained
(explained.py), or a file of --green failed in any way. As a test (--tap): each file is one; without sources it is skipped."""
import argparse
import collections
import concurrent.futures
import fnmatch
import glob
import io
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../guests")]

import drive  # noqa: E402
import explained  # noqa: E402

# Must have no failure at all.
GREEN = ("test_decimal test_json test_re test_random test_datetime test_collections test_dict test_float test_long "
         "test_struct test_zlib test_hashlib test_generators test_coroutines").split()
# Not of the language or its library: tests of the test runner, of C compilers and of other programs.
LEFT_OUT = {"test_regrtest": "tests CPython's test runner", "test_cppext": "compiles C++",
            "test_check_c_globals": "reads CPython's C sources", "test_clinic": "reads CPython's tools",
            "test_tools": "reads CPython's tools", "test_peg_generator": "compiles C", "test_gdb": "runs gdb",
            "test_dtrace": "runs dtrace", "test_idle": "of a program that is not in the image",
            "test_lib2to3": "of a program that is not in the image", "test_xxtestfuzz": "of a module for fuzzing alone"}
RESOURCES = ["cpu", "decimal"]
RUNS_MAX = 6  # of one file, each without those tests that ended the run before
OUTPUT_MAX = 64 << 20
SKIPS_SHOWN = 25
LIBRARY, ARCHIVE = "/tmp/library", "tests.tar"
# The tests themselves are 26 MB, as an archive and unpacked.
ROOM = {"wasm": ["wasm.pool=0", "wasm.files=256m"],
        "local": ["local.pool=0", "local.tmp_size=128m", "local.workspace_size=64m"]}


def library_of(source):
    for place in (source, os.path.join(source, "Lib")):
        if os.path.exists(os.path.join(place, "test", "support", "__init__.py")):
            return place
    raise SystemExit("%s has no Lib/test: give the directory of CPython's source, as `apt-get source python3.11` unpacks "
                     "it" % source)


def modules_of(library, patterns):
    found = set()
    for path in glob.glob(os.path.join(library, "test", "test_*")):
        name = os.path.basename(path).removesuffix(".py")
        if path.endswith(".py") or os.path.exists(os.path.join(path, "__init__.py")):
            found.add(name)
    chosen = sorted(name for name in found if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns))
    if not chosen:
        raise SystemExit("no test file is called %s" % " ".join(patterns))
    return chosen


def pack(library, path):
    """The package `test` as an archive; the same for all sessions."""
    def keep(info):
        return None if "__pycache__" in info.name or info.name.endswith(".pyc") else info
    with tarfile.open(path, "w") as archive:
        archive.add(os.path.join(library, "test"), "test", filter=keep)


def program(job):
    with open(os.path.join(HERE, "inside.py"), encoding="utf-8") as f:
        return "JOB = %r\n%s" % (job, f.read())


# ---- where it runs

class Session:
    """Sessions of a backend, each for one file of tests."""

    def __init__(self, options, archive):
        self.options, self.archive, self.driver = options, archive, None

    def run(self, module, skip):
        """(output, how it ended or None)."""
        if self.driver is None:
            self.driver = drive.Driver(self.options.backend, ROOM.get(self.options.backend, []) + self.options.set)
        guest = self.driver.start(label=module)
        try:
            guest.write(ARCHIVE, self.archive)
            job = {"module": module, "skip": skip, "resources": RESOURCES, "archive": ARCHIVE, "library": LIBRARY}
            result = guest.execute(program(job), timeout_ms=self.options.timeout * 1000, output_max_bytes=OUTPUT_MAX)
        finally:
            guest.end()
        ended = None if result["end"] == "ok" else "%s: %s" % (result["end"], result["error"])
        return result["stdout"], ended

    def close(self):
        if self.driver is not None:
            self.driver.close()


class Native:
    """A python3.11 of this machine, in a directory of its own."""

    def __init__(self, options, archive):
        self.options, self.archive = options, archive

    def run(self, module, skip):
        with tempfile.TemporaryDirectory(prefix="cpython-tests-") as place:
            with tarfile.open(self.archive) as archive:
                archive.extractall(place)
            job = {"module": module, "skip": skip, "resources": RESOURCES, "archive": None, "library": place}
            try:
                done = subprocess.run([self.options.python, "-c", program(job)], cwd=place, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=self.options.timeout,
                                      env=dict(os.environ, TMPDIR=place, LC_ALL="C.UTF-8"), check=False)
                out, ended = done.stdout, None if done.returncode == 0 else "exit code %d" % done.returncode
            except subprocess.TimeoutExpired as late:
                out, ended = late.stdout or b"", "timeout"
        return out.decode(errors="replace"), ended

    def close(self):
        pass


# ---- what came of it

def parse(output):
    """(outcomes by test, the test that was under way at the end or None, whether the file came to its end)."""
    outcomes, under_way, whole = {}, None, False
    for part in output.split("\x1e")[1:]:
        try:
            facts = json.loads(part.partition("\n")[0])
        except ValueError:
            continue
        if "begins" in facts:
            under_way = facts["begins"]
        elif "end" in facts:
            whole, under_way = True, None
        else:
            name = facts.get("test") or facts["module"]
            outcomes[name] = (facts["outcome"], facts["why"])
            under_way = None if under_way == name else under_way
    return outcomes, under_way, whole


def run_module(place, module):
    """All outcomes of a file's tests, and seconds."""
    began, skip, outcomes = time.monotonic(), [], {}
    for _ in range(RUNS_MAX):
        output, ended = place.run(module, skip)
        found, under_way, whole = parse(output)
        for name, outcome in found.items():
            outcomes.setdefault(name, outcome)
        if whole:
            break
        name = under_way or module
        outcomes[name] = ("failed", "it ended the session: %s" % ended)
        if under_way is None:
            break
        skip.append(under_way)
    else:
        outcomes[module] = ("failed", "more tests than %d end the session" % RUNS_MAX)
    return outcomes, time.monotonic() - began


def run_all(options, archive, modules):
    """Yields (module, outcomes, seconds) in the order of their ends."""
    kind = Native if options.backend == "native" else Session
    places = queue.SimpleQueue()
    made = [kind(options, archive) for _ in range(options.jobs)]
    for place in made:
        places.put(place)

    def one(module):
        place = places.get()
        try:
            return (module, *run_module(place, module))
        except (drive.Failed, drive.Gone, OSError) as error:
            if isinstance(error, (drive.Gone, OSError)):
                place.driver = None
            return module, {module: ("failed", "%s: %s" % (type(error).__name__, error))}, 0
        finally:
            places.put(place)

    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in concurrent.futures.as_completed([pool.submit(one, module) for module in modules]):
                yield future.result()
    finally:
        for place in made:
            place.close()


class Report:
    """Counts, and what each failure is explained by."""

    def __init__(self, native):
        self.native, self.modules, self.unexplained = native, {}, []
        self.skips = collections.Counter()

    def add(self, module, outcomes, seconds):
        counts, reasons = collections.Counter(), collections.Counter()
        for name, (outcome, why) in sorted(outcomes.items()):
            counts[outcome] += 1
            if outcome == "skipped":
                self.skips[why.splitlines()[0] if why else "it does not say why"] += 1
            if outcome != "failed":
                continue
            reason = explained.reason(name, why)
            if reason is None and self.native.get(module, {}).get(name, ("",))[0] == "failed":
                reason = "fails in a native python3.11 run this way, too"
            if reason is None:
                self.unexplained.append((name, why))
            reasons[reason or "NOT EXPLAINED"] += 1
        if set(outcomes) == {module} and counts["skipped"]:
            reasons[outcomes[module][1]] += 1
        self.modules[module] = {"counts": counts, "reasons": reasons, "seconds": round(seconds, 1)}
        return counts, reasons

    def totals(self):
        total = collections.Counter()
        for facts in self.modules.values():
            total.update(facts["counts"])
        return total

    def table(self):
        out = io.StringIO()
        print("| file | passed | failed | skipped | why |\n|---|---|---|---|---|", file=out)
        for module, facts in sorted(self.modules.items()):
            counts = facts["counts"]
            why = "; ".join("%s%s" % (reason.replace("|", "\\|"), " (%d)" % n if n > 1 else "")
                            for reason, n in facts["reasons"].most_common())
            print("| %s | %d | %d | %d | %s |" % (module, counts["passed"], counts["failed"], counts["skipped"], why),
                  file=out)
        total = self.totals()
        print("| **%d files** | **%d** | **%d** | **%d** | |" % (len(self.modules), total["passed"], total["failed"],
                                                                 total["skipped"]), file=out)
        print("\nThe %d most frequent reasons of tests that skip themselves:\n" % SKIPS_SHOWN, file=out)
        for why, count in self.skips.most_common(SKIPS_SHOWN):
            print("- %d: %s" % (count, why), file=out)
        return out.getvalue()


def read_outcomes(path):
    if path is None:
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)["outcomes"]


def tap_line(number, module, problem, counts):
    print("%s %d - %s (%d passed, %d failed, %d skipped)" % ("not ok" if problem else "ok", number, module,
                                                             counts["passed"], counts["failed"], counts["skipped"]))
    for line in (problem or "").splitlines():
        print("# " + line)
    sys.stdout.flush()


def problem_of(module, outcomes, reasons, green):
    """None, or what is wrong with a file as a whole."""
    counts = collections.Counter(outcome for outcome, _ in outcomes.values())
    if module in green and (counts["failed"] or not counts["passed"]):
        failed = ["%s: %s" % (name, why) for name, (outcome, why) in outcomes.items() if outcome != "passed"]
        return "it must have no failure:\n" + "\n".join(failed)[:4000]
    if reasons["NOT EXPLAINED"]:
        return "\n".join("%s: %s" % (name, why) for name, (outcome, why) in outcomes.items()
                         if outcome == "failed" and explained.reason(name, why) is None)[:4000]
    return None


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--source", default=os.environ.get("SBX_CPYTHON_SOURCE"))
    parser.add_argument("--backend", default="wasm")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--python", default="/usr/bin/python3.11", help="for --backend native")
    parser.add_argument("--native", metavar="FILE")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one run of a file")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--green", action="store_true", help="the files that must have no failure, alone")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--read", metavar="FILE")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--tap", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = options_of(None)
    if not options.source and options.tap:
        print("TAP version 13\n1..0 # SKIP CPython's source is needed: SBX_CPYTHON_SOURCE=DIR, as `apt-get source "
              "python3.11` unpacks it")
        return 0
    if not options.source:
        sys.exit("--source DIR is needed: CPython's source, as `apt-get source python3.11` unpacks it")
    library = library_of(options.source)
    modules = [m for m in modules_of(library, GREEN if options.green else options.files) if m not in LEFT_OUT]
    report, everything, problems = Report(read_outcomes(options.native)), read_outcomes(options.read), 0
    if options.read and not options.files:
        modules = []
    for module, outcomes in everything.items():
        if module not in modules:
            report.add(module, outcomes, 0)
    with tempfile.TemporaryDirectory(prefix="cpython-tests-") as directory:
        archive = os.path.join(directory, ARCHIVE)
        pack(library, archive)
        if options.tap:
            print("TAP version 13\n1..%d" % len(modules), flush=True)
        for number, (module, outcomes, seconds) in enumerate(run_all(options, archive, modules), 1):
            everything[module] = outcomes
            counts, reasons = report.add(module, outcomes, seconds)
            problem = problem_of(module, outcomes, reasons, GREEN)
            problems += problem is not None
            if options.tap:
                tap_line(number, module, problem, counts)
            else:
                print("%3d/%d %s: %s, %.1f s" % (number, len(modules), module, dict(counts), seconds), file=sys.stderr)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"modules": report.modules, "outcomes": everything}, f, indent=1)
    if options.table:
        print(report.table())
    if not options.tap:
        for name, why in report.unexplained:
            print("NOT EXPLAINED %s\n    %s" % (name, why.strip().replace("\n", "\n    ")[-600:]), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
