#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official conformance suites against the real program, with the fixture plugin. Prints TAP, one line for each
scenario of each run. A failed check fails it, and so do a warning and a check that was skipped without a reason that is
written down here; scenarios that the suite runs without scoring them count as any other.

    run_suites.py [RUN-PATTERN [SCENARIO]]
"""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import mcp_http  # noqa: E402

PACKAGES = HERE.parent / "clients/node_modules"
NODE = PACKAGES / "node/bin/node"
OLD, NEW = "conformance-0.1", "conformance-0.2"
TIMEOUT_S = 900

# Name, package, options.
RUNS = (
    ("0.1 all", OLD, ("--suite", "all")),
    ("0.2 requirements 2025-11-25", NEW, ("--requirements", "2025-11-25")),
    ("0.2 requirements 2026-07-28", NEW, ("--requirements", "2026-07-28")),
    ("0.2 all 2025-11-25", NEW, ("--suite", "all", "--spec-version", "2025-11-25")),
    ("0.2 all 2026-07-28", NEW, ("--suite", "all", "--spec-version", "2026-07-28")),
)

# Checks that may be skipped: pattern of RUN/SCENARIO/CHECK, and why it can't be tried on this server.
SKIPS = (
    ("*/tasks-status-notifications/tasks-status-notifications",
     "the suite itself has no check yet: it says that its harness is to be rewritten"),
)


def skip_reason(run, scenario, check):
    path = f"{run}/{scenario}/{check}"
    return next((reason for pattern, reason in SKIPS if fnmatch.fnmatchcase(path, pattern)), None)


class Tap:
    def __init__(self):
        self.count = self.failed = 0
        print("TAP version 13", flush=True)

    def line(self, name, problems=(), skip=None):
        self.count += 1
        self.failed += bool(problems)
        print("%s %d - %s%s" % ("not ok" if problems else "ok", self.count, name, f" # SKIP {skip}" if skip else ""))
        for problem in problems:
            for text in problem.splitlines():
                print(f"# {text}")
        sys.stdout.flush()

    def finish(self):
        print(f"1..{self.count}\n# {self.count} run, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


def judge(run, scenario, checks):
    """(problems, skips) of one scenario."""
    problems, skips = [], []
    for check in checks:
        status, text = check["status"], f"{check['id']}: {check.get('errorMessage') or check.get('description')}"
        if status in ("FAILURE", "WARNING"):
            problems.append(f"{status} {text}\n{json.dumps(check.get('details'))[:2000]}")
        elif status == "SKIPPED":
            reason = skip_reason(run, scenario, check["id"])
            if reason is None:
                problems.append(f"SKIPPED {text}")
            else:
                skips.append(f"{check['id']}: {reason}")
        elif status not in ("SUCCESS", "INFO"):
            problems.append(f"unknown status {status}: {text}")
    if not problems and not any(check["status"] == "SUCCESS" for check in checks) and not skips:
        problems.append("nothing was checked")
    return problems, skips


def scenario_name(directory):
    """`server-NAME-TIMESTAMP`."""
    return re.sub(r"-\d{4}-\d{2}-\d{2}T[\d-]+Z$", "", directory.name).removeprefix("server-")


def report(tap, run, output):
    """The scenarios of one run, from what the suite wrote."""
    seen = 0
    for file in sorted(output.glob("*/checks.json")):
        scenario = scenario_name(file.parent)
        problems, skips = judge(run, scenario, json.loads(file.read_text(encoding="utf-8")))
        tap.line(f"{run}: {scenario}", problems, None if problems else "; ".join(skips) or None)
        seen += 1
    return seen


def run_suite(tap, run, package, options, scenario):
    """One run, on a server of its own."""
    chosen = ("--scenario", scenario) + tuple(options[2:]) if scenario else options
    with tempfile.TemporaryDirectory(prefix="sbx-suite-") as directory:
        with mcp_http.Server(config="plugins = ( %s );\n" % mcp_http.fixtures_entry()) as server:
            done = subprocess.run(
                [NODE, PACKAGES / package / "dist/index.js", "server", "--url", server.url, *chosen, "-o", directory],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                encoding="utf-8", errors="replace", timeout=TIMEOUT_S, check=False,
                env={**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}", "NO_COLOR": "1"})
            alive = server.process.poll() is None
        seen = report(tap, run, pathlib.Path(directory))
    announced = re.search(r"\((\d+) scenarios\)", done.stdout)
    problems = [] if alive else ["the server did not live to the end"]
    if not seen or (announced and int(announced.group(1)) != seen):
        problems.append(f"{seen} scenarios left results, {announced.group(1) if announced else 'none'} were announced")
    if done.returncode != 0:
        problems.append(f"the suite ended with code {done.returncode}")
    total = re.findall(r"(?m)^Total: .*$", done.stdout)
    print(f"# {run}: {total[-1] if total else 'no summary'}")
    tap.line(f"{run}: the suite's own verdict", [*problems, *done.stdout.splitlines()[-60:]] if problems else ())


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    scenario = sys.argv[2] if len(sys.argv) > 2 else None
    if not NODE.exists() or not all((PACKAGES / package).is_dir() for package in (OLD, NEW)):
        print("TAP version 13\n1..0 # SKIP the conformance suites are not installed: npm ci in tests/clients")
        return 0
    tap = Tap()
    for run, package, options in RUNS:
        if pattern in run:
            run_suite(tap, run, package, options, scenario)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
