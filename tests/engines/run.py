#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with container engines of the tests beside it.

    run.py image                              makes the image that containers are made of, if it is not there
    run.py all -- COMMAND...                  starts a dockerd and a podman service, and stops them when COMMAND has ended;
                                              its environment has their addresses: SBX_TEST_DOCKER, SBX_TEST_PODMAN. Where
                                              one can't be had, they have the reason, and tests that need it are skipped
    run.py docker|podman -- COMMAND...        the same with one engine; @ADDRESS@ and @IMAGE@ in an argument are replaced.
                                              Without the engine it prints a skipped TAP test and does not run COMMAND
"""
import contextlib
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import engines  # noqa: E402
import image  # noqa: E402


def run(command, environment):
    """Its exit code. What would end this program ends the command first, and then the engines."""
    process = subprocess.Popen(command, env=environment)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait()
    return 128 - code if code < 0 else code


def with_all(command):
    environment = dict(os.environ, SBX_TEST_IMAGE=image.NAME)
    with contextlib.ExitStack() as stack:
        for kind in engines.KINDS:
            name = "SBX_TEST_" + kind.upper()
            try:
                engine = stack.enter_context(engines.shared(kind))
                environment[name] = engine.address
            except engines.Unavailable as reason:
                environment[name] = " ".join(str(reason).split())
                print("no %s for the tests: %s" % (kind, environment[name]), file=sys.stderr)
        return run(command, environment)


def with_one(kind, command):
    try:
        with engines.shared(kind) as engine:
            values = {"@ADDRESS@": engine.address, "@IMAGE@": engine.image}
            for key, value in values.items():
                command = [argument.replace(key, value) for argument in command]
            environment = dict(os.environ, SBX_TEST_IMAGE=engine.image)
            environment["SBX_TEST_" + kind.upper()] = engine.address
            return run(command, environment)
    except engines.Unavailable as reason:
        print("TAP version 13\n1..0 # SKIP %s" % " ".join(str(reason).split()))
        return 0


def main():
    if sys.argv[1:] == ["image"]:
        try:
            print(engines.cached_image())
            return 0
        except engines.Unavailable as reason:
            print("no image: %s" % reason, file=sys.stderr)
            return 77
    if len(sys.argv) > 3 and sys.argv[2] == "--" and sys.argv[1] in ("all", *engines.KINDS):
        return with_all(sys.argv[3:]) if sys.argv[1] == "all" else with_one(sys.argv[1], sys.argv[3:])
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
