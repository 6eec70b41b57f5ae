#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite and passes its output on: tap_skips.py COMMAND [ARGUMENT ...].

cmocka writes "not ok 7 # SKIP name" for what was skipped, which readers of TAP take for a failure; it becomes
"ok 7 - name # SKIP reason", with the reason that the line before gave.
"""
import re
import subprocess
import sys

REASON = re.compile(r"^# skipped \S+: (.*)")
SKIPPED = re.compile(r"^not ok (\d+) # SKIP (\S+)$")


def mended(lines):
    """The lines as they should be."""
    reason = None
    for line in lines:
        told, skipped = REASON.match(line), SKIPPED.match(line)
        if told:
            reason = told.group(1)
        elif skipped:
            yield "ok %s - %s # SKIP %s" % (*skipped.groups(), reason or "it does not say why")
            reason = None
        else:
            yield line.rstrip("\n")


def main():
    with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in mended(process.stdout):
            print(line, flush=True)
    return process.returncode if process.returncode >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
