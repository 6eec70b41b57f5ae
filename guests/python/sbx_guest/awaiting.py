# SPDX-License-Identifier: Apache-2.0
"""Top-level await: one event loop for the whole session, so that what belongs to it lives on between executions."""

import asyncio

_ROUNDS = 5  # of the loop, for cancelled tasks to clean up


class Stuck(RuntimeError):
    """Raised by an event loop that waits for nothing that could happen."""


class Loop:
    """Runs coroutines of the user's code."""

    def __init__(self):
        self._loop = None

    def idle(self):
        """The event loop, if there is one to be used again."""
        loop = self._loop
        return None if loop is None or loop.is_closed() or loop.is_running() else loop

    def run(self, coroutine):
        """The coroutine's value. An interrupt cancels every task of the loop, and so does waiting in vain."""
        loop = self._loop
        if loop is None or loop.is_closed() or loop.is_running():
            loop = self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(loop.create_task(coroutine))
        except (KeyboardInterrupt, Stuck):
            self._abandon(loop)
            raise

    @staticmethod
    def _abandon(loop):
        for _round in range(_ROUNDS):
            tasks = asyncio.all_tasks(loop)
            if not tasks or loop.is_closed():
                return
            for task in tasks:
                task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # noqa: SLF001 - it was told to end and would not
