# SPDX-License-Identifier: Apache-2.0
"""Other processes of the session, where the worker is the init process of the guest's own pid namespace."""

import os
import sys
from time import monotonic, sleep

_KILL_SECONDS = 2.0
SIGKILL = 9


_FROZEN = b"(sbx-frozen"  # what a copy of the session's process is called that waits


def _others():
    """Numbers of the other processes, but for process 1, what it is burying, and copies of this one that wait."""
    own = os.getpid()
    with os.scandir("/proc") as entries:  # as it goes: whoever was started meanwhile comes later in it
        for entry in entries:
            if not entry.name.isdecimal() or int(entry.name) in (1, own):
                continue
            try:
                fd = os.open(f"/proc/{entry.name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    name, _end, rest = os.read(fd, 512).rpartition(b")")
                finally:
                    os.close(fd)
            except OSError:
                continue  # gone
            if not name.endswith(_FROZEN) and not rest.startswith(b" Z 1 "):
                yield int(entry.name)


def has_others(is_init, forked):
    """Has the session's code left processes behind, dead or alive? ``forked``: some that are its own to wait for."""
    if is_init and not forked:
        reap_orphans()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    except ChildProcessError:
        return not is_init and next(_others(), None) is not None


def kill_others():
    """As kill_all, where process 1 is another, and copies of this one wait: these live on."""
    deadline = monotonic() + _KILL_SECONDS
    found = True
    while found and monotonic() < deadline:
        found = False
        for pid in _others():
            found = True
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass


def kill_all():
    """Ends every other process, after an interrupt: fork bombs too. Only for pid 1 of a pid namespace."""
    deadline = monotonic() + _KILL_SECONDS
    while monotonic() < deadline:
        try:
            os.kill(-1, SIGKILL)
        except ProcessLookupError:
            pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        sleep(0.001)


def _owned():
    """Process ids that an object of the user's code still waits for."""
    import gc

    kinds = []
    for name in ("subprocess", "multiprocessing.popen_fork"):
        kind = getattr(sys.modules.get(name), "Popen", None)
        if isinstance(kind, type):
            kinds.append(kind)
    kinds = tuple(kinds)
    return {item.__dict__.get("pid") for item in gc.get_objects() if kinds and issubclass(type(item), kinds)}


def _is_zombie(pid):
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False  # not a child of ours
    return found is not None


def reap_orphans():
    """Buries dead processes whose parents died before them. Exit codes that live objects may ask for are left alone.

    To be called only when the user's code never called os.fork itself: such children are known to nobody but it.
    """
    try:
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        names = os.listdir("/proc")
    except OSError:
        return  # no children at all, or no /proc
    own = os.getpid()
    zombies = [pid for pid in map(int, filter(str.isdecimal, names)) if pid != own and _is_zombie(pid)]
    if not zombies:
        return
    owned = _owned()
    for pid in zombies:
        if pid not in owned:
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass
