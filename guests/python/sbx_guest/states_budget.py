# SPDX-License-Identifier: Apache-2.0
"""The time that a portable state may take, and what ends it: methods of the user's objects run meanwhile."""

import os
import signal
from errno import ENOMEM, ETIMEDOUT
from time import monotonic

from .states_parts import TooLarge

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SLICE = 4  # code of the user's may have this part of the time for one variable


class Overdue(BaseException):
    """The time is up: that of one variable, or all."""


class Budget:
    """Limits the time of what runs within it, where there are timers; ``max_ms`` of 0: not at all."""

    def __init__(self, interrupts, max_ms):
        self._interrupts = interrupts
        self._seconds = max_ms / 1000
        self._end = monotonic() + self._seconds if max_ms else None
        self._began = 0.0
        self._old = None
        interrupts.protect(Budget.__enter__)  # nothing must come between a timer and what handles it
        interrupts.protect(Budget.__exit__)

    def __enter__(self):
        if self._end is not None and hasattr(signal, "setitimer"):
            handler = signal.getsignal(signal.SIGALRM)
            if handler is not None:  # else one that Python can't put back
                period = self._seconds / _SLICE
                signal.signal(signal.SIGALRM, self._tick)
                timer = signal.setitimer(signal.ITIMER_REAL, period, period)
                self._old = (handler, timer, monotonic())
        return self

    def __exit__(self, *_exception):
        if self._old is None:
            return
        (handler, (left, interval), since), self._old = self._old, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left > 0:
            signal.setitimer(signal.ITIMER_REAL, max(left - (monotonic() - since), 1e-6), interval)

    def _tick(self, _signal, frame):
        if self._old is None:
            return  # it came too late
        now = monotonic()
        if now >= self._end:
            raise Overdue
        users = frame is not None and not frame.f_code.co_filename.startswith(_OWN)
        if users and now - self._began >= self._seconds / _SLICE:
            raise Overdue

    def begin(self):
        """Of something that code of the user's may have to do with."""
        if self._end is not None:
            self._began = now = monotonic()
            if now >= self._end:
                raise Overdue

    def judge(self, error):
        """Raises what ends the whole state, and not one variable of it."""
        if isinstance(error, TooLarge):
            raise error
        if isinstance(error, MemoryError):
            raise OSError(ENOMEM, "The session has too little memory left to tell what it holds") from None
        if isinstance(error, KeyboardInterrupt) and self._interrupts.fired:
            raise error
        if isinstance(error, Overdue) and monotonic() >= self._end:
            raise error


def overdue():
    """The error of a state that took too long."""
    return OSError(ETIMEDOUT, "Telling what the session holds took longer than it may")
