#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the conformance suite said of each backend, side by side: table.py TESTLOG.json..., as `meson test` wrote them."""
import json
import re
import sys

LINE = re.compile(r"^(not ok|ok) \d+ - (\S+)(?: # SKIP (.*))?")


def outcomes(text):
    """{test: "passed", "FAILED" or "skipped: why"} of one run."""
    found = {}
    for match in filter(None, map(LINE.match, text.splitlines())):
        state, name, reason = match.groups()
        found[name] = "skipped: " + reason if reason else "passed" if state == "ok" else "FAILED"
    return found


def read(path):
    """{backend: its outcomes}, or a text where none ran."""
    backends = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            test = json.loads(line)
            name = test["name"].rpartition("/")[2].rpartition(":")[2].strip()
            if re.match(r"conformance (local|docker|podman|wasm)\b", name):
                found = outcomes(test.get("stdout", ""))
                whole = re.search(r"# SKIP (.*)", test.get("stdout", ""))
                if found or whole:
                    backends[name.partition(" ")[2]] = found or whole.group(1)
    return backends


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: table.py TESTLOG.json...")
    backends = {}
    for path in sys.argv[1:]:
        backends.update(read(path))
    names = list(dict.fromkeys(name for found in backends.values() if isinstance(found, dict) for name in found))
    if not names:
        sys.exit("no conformance suite ran")
    width, notes = max(map(len, names)), []
    rows = [["conformance", *backends]]
    for name in names:
        row = [name]
        for found in backends.values():
            outcome = found.get(name, "-") if isinstance(found, dict) else "not run"
            if outcome.startswith("skipped: "):
                if outcome[9:] not in notes:
                    notes.append(outcome[9:])
                outcome = "skipped (%d)" % (notes.index(outcome[9:]) + 1)
            row.append(outcome)
        rows.append(row)
    for first, *rest in rows:
        print("  ".join([first.ljust(width)] + [text.ljust(16) for text in rest]).rstrip())
    for number, note in enumerate(notes, 1):
        print("(%d) %s" % (number, note))
    for backend, found in backends.items():
        if not isinstance(found, dict):
            print("%s did not run: %s" % (backend, found))


if __name__ == "__main__":
    main()
