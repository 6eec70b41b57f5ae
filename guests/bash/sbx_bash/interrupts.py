# SPDX-License-Identifier: Apache-2.0
"""SIGINT, for a driver that must never be torn out of what it does: the signal is noted, and wakes whoever waits."""

import os
import signal

from sbx_guest.interrupts import Interrupts

from .shell import pipe


class Noted(Interrupts):
    """``fired``: it came while ``armed``."""

    def __init__(self):
        super().__init__()
        self.wakeup_fd, writer = pipe()
        os.set_blocking(self.wakeup_fd, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def handle(self, _signum, _frame):
        """The signal handler."""
        if self.armed:
            self.fired = True

    def drain(self):
        """Takes what woke us."""
        try:
            os.read(self.wakeup_fd, 4096)
        except BlockingIOError:
            return
