#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what `meson test` logged: one line for each suite, what was skipped and why, and last what failed.

    totals.py BUILD/results/SUITE...           each SUITE.json; again/SUITE.json has those of its tests that ran once more
    totals.py --failed BUILD/results/SUITE.json   the tests that did
"""
import json
import pathlib
import re
import sys

LINE = re.compile(r"^\s*(not ok|ok)\b\s*\d*\s*-?\s*(.*?)(?:\s*#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)
MANY = 5  # tests that fail beside others and pass alone: more of them are no accident


def cases(test):
    """The single checks of one test program: those of its TAP output, or the program itself."""
    found = [LINE.match(line) for line in test.get("stdout", "").splitlines()]
    found = [match for match in found if match]
    failed = test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")
    if not found:
        state = "failed" if failed else "skipped" if test["result"] == "SKIP" else "passed"
        yield state, test["name"], ""
        return
    for match in found:
        status, name, directive, reason = match.groups()
        if directive and directive.upper() == "SKIP":
            yield "skipped", f"{test['name']}: {name}", reason
        else:
            yield "passed" if status.lower() == "ok" else "failed", f"{test['name']}: {name}", ""
    if failed and not any(match.group(1).lower() == "not ok" for match in found):
        yield "failed", f"{test['name']}: {test['result'].lower()}, exit {test.get('returncode')}", ""


def read(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def has_failed(test):
    return any(state == "failed" for state, _name, _reason in cases(test))


def print_failed(path):
    """The tests of a log that failed, as `meson test` takes them: at most MANY, no more are worth another try."""
    failed = [test["name"] for test in read(path) if has_failed(test)]
    for name in failed if len(failed) <= MANY else []:
        project, _, rest = name.partition(":")
        print(f"{project}:{rest.partition(' / ')[2]}")


def passed_again(path):
    """Names of the tests that failed beside others, and passed alone: see run_again in ./run-tests."""
    again = path.parent / "again" / path.name
    return {test["name"] for test in read(again) if not has_failed(test)} if again.exists() else set()


def main():
    if sys.argv[1] == "--failed":
        print_failed(pathlib.Path(sys.argv[2]))
        return 0
    totals = {"passed": 0, "failed": 0, "unsteady": 0, "skipped": 0}
    seen_skips, unsteady_tests = set(), set()
    skips, failures = [], []
    for path in (pathlib.Path(f"{argument}.json") for argument in sys.argv[1:]):
        counts = dict.fromkeys(totals, 0)
        again = passed_again(path)
        for test in read(path):
            for state, name, reason in cases(test):
                if state == "failed" and test["name"] in again:
                    state = "unsteady"
                    unsteady_tests.add(test["name"])
                counts[state] += 1
                if state == "failed":
                    failures.append(f"FAILED   {path.stem}: {name}")
                elif state == "unsteady":
                    failures.append(f"UNSTEADY {path.stem}: {name}: it failed beside other tests, and passed alone")
                elif state == "skipped" and (name, reason) not in seen_skips:
                    seen_skips.add((name, reason))
                    skips.append(f"skipped  {path.stem}: {name}{': ' + reason if reason else ''}")
        print(f"{path.stem:<13}" + "".join(f"{counts[key]:>7} {key}" for key in totals))
        for key in totals:
            totals[key] += counts[key]
    for note in skips + failures:
        print(note)
    if not sum(totals.values()):
        print("no test ran")
        return 1
    print(", ".join(f"{totals[key]} {key}" for key in totals))
    return 1 if totals["failed"] or len(unsteady_tests) > MANY else 0


if __name__ == "__main__":
    sys.exit(main())
