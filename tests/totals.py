#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what `meson test` logged (testlog.json files): one line for each suite, what failed or was skipped, and why."""
import json
import pathlib
import re
import sys

LINE = re.compile(r"^\s*(not ok|ok)\b\s*\d*\s*-?\s*(.*?)(?:\s*#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)


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


def main():
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    seen_skips = set()
    notes = []
    for path in map(pathlib.Path, sys.argv[1:]):
        counts = dict.fromkeys(totals, 0)
        for line in path.read_text(encoding="utf-8").splitlines():
            for state, name, reason in cases(json.loads(line)):
                counts[state] += 1
                if state == "failed":
                    notes.append(f"FAILED  {path.stem}: {name}")
                elif state == "skipped" and (name, reason) not in seen_skips:
                    seen_skips.add((name, reason))
                    notes.append(f"skipped {path.stem}: {name}{': ' + reason if reason else ''}")
        print(f"{path.stem:<8}" + "".join(f"{counts[key]:>7} {key}" for key in totals))
        for key in totals:
            totals[key] += counts[key]
    print("\n".join(notes))
    if not sum(totals.values()):
        print("no test ran")
        return 1
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
