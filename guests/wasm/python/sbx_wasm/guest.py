# SPDX-License-Identifier: Apache-2.0
"""What guest.c calls: `prepare` at the end of each bake, `request` and `resume` in sessions."""

import functools
import gc
import os
import posix
import sys
import time

from sbx_guest import frames
from sbx_guest.hooks import Watcher
from sbx_guest.interrupts import Interrupts
from sbx_guest.output import Streams
from sbx_guest.session import reseed

from . import absent, loop, warm
from .memory import Reserve
from .session import WasmSession
from .worker import WasmWorker

CONTROL_FD = 4
PRELOAD = "/usr/lib/sbx/preload"
WORKSPACE = "/work"
STDLIB = "/usr/lib/python3.11"
_LATER = ("sbx_guest.awaiting", "sbx_guest.codemode", "sbx_guest.states_python", "sbx_guest.tracebacks")

_worker = None


def prepare():
    """Imports what the image's list names, runs the worker's own code warm, and settles the heap."""
    global _worker
    sys.path_importer_cache.clear()  # there may be packages where there were none
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Watcher)]  # of an earlier bake
    _locate_frozen()
    _give_the_present_time()
    absent.install()
    loop.install()
    for name in (*_LATER, *_preload()):
        __import__(name)
    os.chdir(WORKSPACE)
    warm.run(new_worker)
    interrupts = Interrupts()
    _worker = new_worker(frames.Channel(CONTROL_FD, CONTROL_FD, interrupts), interrupts, Streams())
    _worker.session.begin()
    gc.collect()
    gc.freeze()


def new_worker(channel, interrupts, streams):
    """A worker for a session that has not begun."""
    return WasmWorker(WasmSession(channel, interrupts, streams, Reserve()))


def _locate_frozen():
    """Modules that are frozen into the interpreter stand in files, too: `os.__file__`, `inspect.getsource(os)`."""
    sys._stdlib_dir = STDLIB  # noqa: SLF001 - for those that are imported from now on
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.origin != "frozen" or hasattr(module, "__file__"):
            continue
        path = f"{STDLIB}/{spec.loader_state.origname.replace('.', '/')}"
        path += "/__init__.py" if spec.submodule_search_locations is not None else ".py"
        spec.loader_state.filename = path  # compared when importlib is imported once more
        if os.path.isfile(path):
            module.__file__ = path


def _give_the_present_time():
    """os.utime() without times: the C library here can't say "now"."""
    original = os.utime
    if hasattr(original, "__wrapped__"):  # done, in the image that this one is made of
        return

    @functools.wraps(original)
    def utime(path, times=None, **rest):
        if times is None and "ns" not in rest:
            rest["ns"] = (time.time_ns(),) * 2
        return original(path, times, **rest)

    os.utime = posix.utime = utime
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if original in known:
            known.add(utime)


def _preload():
    with open(PRELOAD, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def request():
    """Answers what the host has sent. False: the host closed the stream, or nothing more can be answered."""
    try:
        while _worker.step():
            if not _worker.session.channel.has_more():
                return True
    except BaseException as error:  # noqa: BLE001
        from sbx_guest.tracebacks import describe

        os.write(2, describe(error, None, {})["traceback"].encode("utf-8", "replace"))
    return False


def resume(_how):
    """The state was forked or restored. It must not draw the random numbers that others with this state draw."""
    reseed()
