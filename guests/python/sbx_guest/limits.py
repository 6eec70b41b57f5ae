# SPDX-License-Identifier: Apache-2.0
"""Limits that the worker sets: memory, as MemoryError in the code instead of the end of the guest; core dumps."""

from resource import RLIM_INFINITY, RLIMIT_CORE, RLIMIT_DATA, getrlimit, setrlimit


def forbid_core_dumps():
    """Of this process and all that it starts. One byte, and not none: that keeps a crash handler of the host away, too."""
    try:
        setrlimit(RLIMIT_CORE, (1, 1))
    except (OSError, ValueError):
        return  # it is lower, and stays


class MemoryLimit:
    """The limit in force; 0 for none."""

    __slots__ = ("_current", "_hard", "_wanted")

    def __init__(self):
        soft, self._hard = getrlimit(RLIMIT_DATA)
        self._current = self._wanted = 0 if soft == self._hard else soft

    def lift(self):
        """Until the next apply()."""
        self._set(0)

    def renew(self):
        """The limit of the last apply() again."""
        self._set(self._wanted)

    def apply(self, memory_bytes):
        """Sets the soft limit, never above the hard one; 0 lifts it."""
        self._wanted = memory_bytes
        self._set(memory_bytes)

    def moved(self):
        """In another process, whose limits are what the host gave it."""
        soft, self._hard = getrlimit(RLIMIT_DATA)
        self._current = 0 if soft == self._hard else soft

    def _set(self, memory_bytes):
        if memory_bytes == self._current:
            return
        soft = self._hard
        if memory_bytes > 0 and (self._hard == RLIM_INFINITY or memory_bytes < self._hard):
            soft = memory_bytes
        try:
            setrlimit(RLIMIT_DATA, (soft, self._hard))
        except (ValueError, OSError):  # the user's code lowered the hard limit
            self._hard = getrlimit(RLIMIT_DATA)[1]
            setrlimit(RLIMIT_DATA, (min(soft, self._hard) if self._hard != RLIM_INFINITY else soft, self._hard))
        self._current = memory_bytes
