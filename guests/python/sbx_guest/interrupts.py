# SPDX-License-Identifier: Apache-2.0
"""SIGINT becomes KeyboardInterrupt in the user's code and nowhere else.

The handler looks at the frame that it stopped: the worker's own frames that must not be torn apart (``guard`` and the
writing of frames) only take note, everything called by ``guard`` is interrupted. So no interrupt hits the worker
between two executions or leaks into the next one, and no half-written frame is left behind.
"""

from _signal import SIGINT, signal
from _thread import get_ident
from sys import setprofile, settrace

try:
    from _signal import SIG_UNBLOCK, pthread_sigmask
except ImportError:  # WASI, where no signal can be blocked
    pthread_sigmask = None


class Interrupts:
    """Where the main thread stands towards SIGINT. One for each process."""

    __slots__ = ("_main", "armed", "deferred", "fired", "protected")

    def __init__(self):
        self.armed = False  # the user's code may be running
        self.deferred = False  # SIGINT came while a protected frame was on top
        self.fired = False  # KeyboardInterrupt was raised since the last reset()
        self._main = get_ident()
        self.protected = {Interrupts.guard.__code__, Interrupts.handle.__code__}

    def protect(self, function):
        """From now on SIGINT is deferred while ``function`` itself (not what it calls) is running."""
        self.protected.add(function.__code__)

    def reset(self):
        """Takes the signal back from whatever the user's code did to it."""
        self.fired = self.deferred = False
        signal(SIGINT, self.handle)
        if pthread_sigmask is not None:
            pthread_sigmask(SIG_UNBLOCK, (SIGINT,))

    def handle(self, _signum, frame):
        """The signal handler; Python calls it in the main thread."""
        if not self.armed:
            return
        if frame is not None and frame.f_code in self.protected:
            self.deferred = True
            return
        self.fired = True
        raise KeyboardInterrupt

    def deliver(self):
        """To be called after a protected part, by any thread: raises in the main one what was deferred there."""
        if self.deferred and self.armed and get_ident() == self._main:
            self.deferred = False
            self.fired = True
            raise KeyboardInterrupt

    def guard(self, function, *arguments):
        """Calls ``function``, which may run the user's code, with interrupts on: (value, None) or (None, exception)."""
        value = error = None
        try:
            self.armed = True
            value = function(*arguments)
        except BaseException as caught:  # noqa: BLE001 - whatever the user's code raises is a result
            error = caught
        self.armed = False
        try:
            setprofile(None)
        except BaseException:  # noqa: BLE001, S110 - raised by the profiler itself, which is gone by that
            pass
        settrace(None)
        try:
            return value, error
        finally:  # this frame is in the error's traceback: what its code held would stay until cycles are looked for
            value = error = None
