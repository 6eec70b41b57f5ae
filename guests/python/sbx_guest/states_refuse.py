# SPDX-License-Identifier: Apache-2.0
"""What a portable state can't hold, and why."""

RUNNING = "it is code in the middle of its work"
# Whose objects are more than what they say of themselves: by module and name, subclasses as well.
REFUSED = {
    "subprocess.Popen": "it is a process",
    "threading.Thread": "it is a thread",
    "threading.local": "it belongs to threads",
    "multiprocessing.process.BaseProcess": "it is a process",
    "multiprocessing.pool.Pool": "it is made of processes",
    "concurrent.futures._base.Executor": "it is made of threads or processes",
    "asyncio.events.AbstractEventLoop": "it is an event loop with what waits in it",
    "_asyncio.Future": "it belongs to an event loop",
    "_asyncio.Task": RUNNING,
    "socket.socket": "it is a connection",
    "_socket.socket": "it is a connection",
    "ssl.SSLSocket": "it is a connection",
    "selectors._BaseSelectorImpl": "it waits for descriptors",
    "mmap.mmap": "it is a mapped file",
    "sqlite3.Connection": "it is an open database",
    "sbx_guest.frames.Channel": "it belongs to the session's worker",
    "sbx_guest.session.Session": "it belongs to the session's worker",
}


class Unsaved(Exception):
    """A value that can't be told."""

    def __init__(self, value, reason):
        super().__init__(reason)
        self.kind, self.reason = type(value), reason


def refuse_always(reason):
    """How objects are told that never can be."""

    def refused(_pickler, value):
        raise Unsaved(value, reason)

    refused.always = True
    return refused
