# SPDX-License-Identifier: Apache-2.0
"""The session's other processes: what the shell started, and what came to the worker when its parent died."""

import os
from itertools import chain
from signal import SIGKILL
from time import monotonic, sleep

_KILL_SECONDS = 1.0
_SAME_MAX = 50
_PID_MAX = 1 << 22  # of Linux


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


def _tree(shell):
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


def _session(shell):
    """Those that belong to the shell's session, which it is the leader of: all but what made a session of its own."""
    try:
        newest = os.fork()
    except OSError:
        newest = _PID_MAX
    if newest == 0:
        os._exit(0)
    if newest < _PID_MAX:
        os.waitpid(newest, 0)
    numbers = range(shell + 1, newest) if newest > shell else chain(range(shell + 1, _PID_MAX), range(2, newest))
    found, deadline = [], monotonic() + _KILL_SECONDS
    for process in numbers:
        if process & 0xFFF == 0 and monotonic() > deadline:
            break
        try:
            if os.getsid(process) == shell:
                found.append(process)
        except OSError:
            continue  # there is none
    return found


def others(shell):
    """Processes of the session's, but for the shell itself: what descends from the worker."""
    try:
        return _tree(shell)
    except PermissionError:  # where the machine's own /proc is, and closed (Landlock)
        return _session(shell) if shell is not None else []


def send(processes, number):
    """A signal to each that is still there."""
    for process in processes:
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            continue  # it is gone, or became somebody else's


def kill_others(shell):
    """Ends them all: those of a fork bomb take each other's places, so it goes on until none is left."""
    deadline = monotonic() + _KILL_SECONDS
    before, same = None, 0
    while monotonic() < deadline:
        found = others(shell)
        same = same + 1 if found == before else 0
        if not found or same == _SAME_MAX:  # dead, and not buried yet by the shell
            return
        before = found
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
