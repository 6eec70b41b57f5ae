# SPDX-License-Identifier: Apache-2.0
"""What lasts between the executions of a session: its shell, its streams, and what the host knows of it."""

import os
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit, prlimit

from sbx_guest.output import Streams

from . import variables
from .calls import Calls
from .shell import Shell


class Session:
    """One for each guest."""

    def __init__(self, channel, interrupts, framed_output):
        self.channel = channel
        self.interrupts = interrupts
        self.streams = Streams()
        if framed_output:
            self.streams.frame_output(channel)
        self.workspace = os.getcwd()
        self.is_init = os.getpid() == 1
        self.fresh = True  # no code has run
        self.calls = Calls(channel, interrupts)
        self._begin()

    def _begin(self):
        self.shell = Shell(self.interrupts, self.calls)
        self.names = None  # as the host last heard of them
        self.result = b""  # what the shell last said of the variable `result`
        self._hard = getrlimit(RLIMIT_DATA)[1]
        self._memory = None

    def restart(self):
        """A shell that knows nothing of the one before."""
        self.shell.close()
        self._begin()

    def interruptible(self, function, *arguments):
        """Calls what waits for the shell."""
        self.interrupts.reset()
        self.interrupts.armed = True
        try:
            return function(*arguments)
        finally:
            self.interrupts.armed = False

    def limit_memory(self, memory_bytes):
        """The soft limit of the shell, which its programs inherit; never above the hard one. 0 lifts it."""
        if memory_bytes == self._memory:
            return
        soft = self._hard
        if memory_bytes > 0 and (self._hard == RLIM_INFINITY or memory_bytes < self._hard):
            soft = memory_bytes
        try:
            prlimit(self.shell.pid, RLIMIT_DATA, (soft, self._hard))
        except (ValueError, OSError):  # the code lowered the hard limit
            self._hard = prlimit(self.shell.pid, RLIMIT_DATA)[1]
        else:
            self._memory = memory_bytes

    def note_names(self, record, answer):
        """Tells the names of variables, if they are others than before."""
        known = variables.user_names(record.names, self.shell.known)[: variables.NAMES_MAX]
        if known != self.names:
            answer["names"] = self.names = known

    def write_error(self, data):
        """To the standard error of the execution."""
        view = memoryview(data)
        while len(view) > 0:
            view = view[os.write(2, view) :]
