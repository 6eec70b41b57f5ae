# SPDX-License-Identifier: Apache-2.0
"""asyncio without sockets: an event loop that sleeps until its next timer, since nothing else can wake it."""

import asyncio
from asyncio import base_events, unix_events
from time import sleep

from .absent import refuse

_IN_VAIN = (
    "this would wait for ever: no task can go on and no timer runs, and in the WebAssembly sandbox there is neither a "
    "socket nor a thread that could wake one"
)


class _Clock:
    """Stands where other loops have a selector."""

    def __init__(self, loop):
        self._loop = loop

    def select(self, timeout):
        """Waits for a timer; there are no events of descriptors."""
        if timeout is None:
            self._fail_all()
        elif timeout > 0:
            sleep(timeout)
        return ()

    def _fail_all(self):
        """Nothing will ever happen: whoever waits is told so, where it waits."""
        found = False
        for task in asyncio.all_tasks(self._loop):
            future = task._fut_waiter  # noqa: SLF001
            if future is not None and not future.done() and not isinstance(future, asyncio.Task):
                future.set_exception(RuntimeError(_IN_VAIN))
                found = True
        if not found:
            raise RuntimeError(_IN_VAIN)


class Loop(base_events.BaseEventLoop):
    """Tasks, futures and timers. What goes to an executor runs at once, in the one thread that there is."""

    def __init__(self):
        super().__init__()
        self._selector = _Clock(self)

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass  # to wake a loop that waits: there is no thread that could call this then

    def run_in_executor(self, executor, func, *args):
        """Calls ``func`` here and now; an executor that was passed may do otherwise."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - goes to whoever awaits it
            future.set_exception(error)
        return future


def _refuse_later(what):
    refused = refuse(what)

    async def refused_later(*_arguments, **_options):
        refused()

    return refused_later


def install():
    """Makes it the loop of asyncio.run and new_event_loop, whatever policy is set later."""
    sockets = _refuse_later("sockets are")
    for name in ("create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection",
                 "create_unix_server", "getaddrinfo", "getnameinfo"):
        setattr(Loop, name, sockets)
    Loop.subprocess_exec = Loop.subprocess_shell = _refuse_later("processes are")
    unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop  # noqa: SLF001
    asyncio.SelectorEventLoop = unix_events.SelectorEventLoop = Loop
