#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The soak of sessions in containers, short: containers.py beside it has the long one. Environment: SOAK_MINUTES (0.5),
SOAK_SESSIONS (20), SANITIZER (memory is not measured under one)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import containers
from tap import main

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.5"))
SESSIONS = int(os.environ.get("SOAK_SESSIONS", "20"))
SANITIZED = os.environ.get("SANITIZER", "none") != "none"


def run(kind):
    with containers.engines.own(kind) as engine:
        wrong = containers.soak(engine, SESSIONS, MINUTES, sanitized=SANITIZED)
    assert not wrong, "\n".join(wrong[:20])


def test_docker():
    run("docker")


def test_podman():
    run("podman")


if __name__ == "__main__":
    main()
