# SPDX-License-Identifier: Apache-2.0
"""The session's other processes: what the shell started, and what came to the worker when its parent died."""

import os
from signal import SIGKILL
from time import monotonic, sleep

_KILL_SECONDS = 1.0


def _parents():
    """{process: its parent}, of all that can be seen."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # gone meanwhile
        if fields[0] not in (b"Z", b"X"):
            found[int(name)] = int(fields[1])
    return found


def others(shell):
    """Processes that descend from the worker, but for the shell itself."""
    parents = _parents()
    children = {}
    for process, parent in parents.items():
        children.setdefault(parent, []).append(process)
    found, pending = [], [os.getpid()]
    while pending:
        for process in children.get(pending.pop(), ()):
            pending.append(process)
            if process != shell:
                found.append(process)
    return found


def send(processes, number):
    """A signal to each that is still there."""
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def kill_others(shell):
    """Ends them all: those of a fork bomb take each other's places, so it goes on until none is left."""
    deadline = monotonic() + _KILL_SECONDS
    while monotonic() < deadline:
        found = others(shell)
        if not found:
            return
        send(found, SIGKILL)
        bury(shell)
        sleep(0.001)


def bury(shell):
    """Buries the dead but for the shell, which is waited for elsewhere. Children of the shell are not ours to bury."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            return  # no children
        if found is None or found.si_pid == shell:
            return
        os.waitpid(found.si_pid, os.WNOHANG)
