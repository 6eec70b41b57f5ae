# SPDX-License-Identifier: Apache-2.0
"""asyncio without sockets: an event loop that sleeps until its next timer, since nothing else can wake it."""

import asyncio
from asyncio import base_events, unix_events
from time import sleep

from sbx_guest.awaiting import Stuck

from .absent import text


class _Clock:
    """Stands where other loops have a selector."""

    @staticmethod
    def select(timeout):
        """Waits for a timer; there are no events of descriptors."""
        if timeout is None:
            raise Stuck(
                "this would wait for ever: no task can go on, no timer runs, and in the WebAssembly sandbox there is "
                "neither a socket nor a thread that could wake one"
            )
        if timeout > 0:
            sleep(timeout)
        return ()


class Loop(base_events.BaseEventLoop):
    """Tasks, futures and timers. What goes to an executor runs at once, in the one thread that there is."""

    def __init__(self):
        super().__init__()
        self._selector = _Clock()

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


def _refuse(what):
    async def refused(*_arguments, **_options):
        raise OSError(58, text(what))

    return refused


for _name in ("create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection",
              "create_unix_server", "getaddrinfo", "getnameinfo"):
    setattr(Loop, _name, _refuse("sockets"))
for _name in ("subprocess_exec", "subprocess_shell"):
    setattr(Loop, _name, _refuse("processes"))

unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop  # noqa: SLF001 - of asyncio.run and new_event_loop
asyncio.SelectorEventLoop = unix_events.SelectorEventLoop = Loop
