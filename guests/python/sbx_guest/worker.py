# SPDX-License-Identifier: Apache-2.0
"""The worker as a process: its entry points, and what it does before the first request."""

import gc
import os

from . import frames, jsontext
from .handlers import Worker, introduction
from .interrupts import Interrupts
from .limits import MemoryLimit, forbid_core_dumps
from .output import Streams
from .session import Session, reseed

_LATER = ("awaiting", "codemode", "processes", "states_python", "tracebacks")  # of ours; not every session needs them


def prepare(preload=()):
    """Imports what sessions will need and settles the heap, in a process that sessions are cloned from.

    No code of a user has run, and none runs here. ImportError when a module of ``preload`` can't be had.
    """
    for name in preload:
        __import__(name)
    if preload:
        for name in _LATER:
            __import__(f"{__package__}.{name}")
        gc.collect()
    gc.freeze()


def serve(control_fd, before_ready=None, copy_maker=None):
    """Serves a session over ``control_fd``, which it takes over: a descriptor, or one to read and one to write.

    Waits for `hello`, then calls ``before_ready``; returns when the host closed the stream. ``copy_maker``: see copies.
    """
    read_fd, write_fd = control_fd if isinstance(control_fd, tuple) else (control_fd, control_fd)
    interrupts = Interrupts()
    interrupts.reset()
    channel = frames.Channel(read_fd, write_fd, interrupts)
    frame = channel.receive()
    if frame is None:
        return
    if frame[0] != frames.HELLO:
        raise frames.ProtocolError("the first frame is not `hello`")
    hello = jsontext.loads(frame[1])
    if before_ready is not None:
        before_ready()
    reseed()
    worker = Worker(Session(channel, interrupts, Streams(), MemoryLimit()))
    if copy_maker is not None:
        copy_maker.fd = frames.move_high(copy_maker.fd)
        worker.session.copy_maker = copy_maker
    if hello.get("framed_output") is True:
        worker.session.streams.frame_output(channel)
    channel.send(frames.READY, jsontext.dumps(introduction()))
    worker.loop()


def main(serve=serve):
    """A worker in a process of its own. SBX_CONTROL_FD: "3", or "0,1" for a stream that is two descriptors."""
    numbers = [int(text) for text in os.environ.pop("SBX_CONTROL_FD").split(",")]
    forbid_core_dumps()
    prepare()
    control = (numbers[0], numbers[-1])
    if 0 in control or 1 in control:
        from .output import silence_standard_streams

        control = tuple(os.dup(fd) for fd in control)
        silence_standard_streams()
    code = 1
    try:
        serve(control if control[0] != control[1] else control[0])
        code = 0
    except BaseException as error:  # noqa: BLE001
        from .tracebacks import describe

        os.write(2, describe(error, None, {})["traceback"].encode("utf-8", "replace"))
    finally:
        os._exit(code)  # not the ordinary way, which waits for the threads of the user's code


if __name__ == "__main__":
    main()
