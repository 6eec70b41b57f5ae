#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test that needs a guest in WebAssembly: with_guest.py COMMAND [ARGUMENT ...]. Without one in the build tree the
test is skipped, and says how to get one; whatever else is wrong there is a failure."""
import os
import sys

HOW = ("there is no guests/wasm/%s in the build directory: give one with `meson configure -Dwasm-guest=DIR`, or build it; "
       "guests/wasm/README.md tells how")


def missing():
    """None, or why no guest can run in the build tree."""
    build = os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT")
    if not build:
        return "SNIPARA_SANDBOX_BUILD_ROOT is not set: run it by `meson test`"
    for name in ("python.so", "python.sbximg"):
        if not os.path.exists(os.path.join(build, "guests/wasm", name)):
            return HOW % name
    return None


def main():
    reason = missing()
    if reason is not None:
        print("TAP version 13\n1..0 # SKIP " + reason)
        return 0
    os.execvp(sys.argv[1], sys.argv[1:])
    return 1


if __name__ == "__main__":
    sys.exit(main())
