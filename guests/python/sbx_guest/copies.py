# SPDX-License-Identifier: Apache-2.0
"""Copies of the session's process, which the backend asks for while the session is idle.

A copy shares the memory with its original, copy on write, and nothing else: it keeps what the session's directories
hold, lets go of every open file, and waits. With its first request it puts all of that back, and is the session.
"""

import gc
import os
import sys
from _signal import ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, getitimer
from _socket import AF_UNIX, CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

from . import jsontext
from .descriptors import Busy, Descriptors, check_memory
from .frames import move_high
from .kept_files import KeptFiles, TooMuch
from .processes import has_others
from .session import reseed

ORIGINAL, COPY, MOVED = 0, 1, 2  # what the maker of copies answers, in which process
_DONE, _SAME, _BUSY, _FAILED, _THAWED = b"d", b"s", b"b", b"f", b"t"
_CONTROL, _STDOUT, _STDERR, _COPIES, _DEATHS = range(5)
_IMAGE = _DEATHS  # what the last one is, when an image is asked for
_FDS = 5
_TEXT_MAX = 500


class _IdleLoop:
    """The session's event loop: what it has open is its own in each copy."""

    def __init__(self, session):
        self._loop = None
        self.numbers = ()
        found = session.loop and session.loop.idle()
        if found is None:
            return
        kind = sys.modules["asyncio"].SelectorEventLoop
        if type(found) is not kind or found._signal_handlers:  # noqa: SLF001
            raise Busy("an event loop of another kind, or one that handles signals")
        self._loop = found
        self.numbers = (found._selector.fileno(), found._ssock.fileno(), found._csock.fileno())  # noqa: SLF001

    def detach(self):
        """In the copy. The loop in the original does not hear of it."""
        loop = self._loop
        if loop is None:
            return
        loop._selector.close()  # noqa: SLF001 - first: nothing may be taken out of what the original still waits for
        loop._ssock.close()  # noqa: SLF001
        loop._csock.close()  # noqa: SLF001
        loop._ssock = loop._csock = None  # noqa: SLF001
        loop._internal_fds -= 1  # noqa: SLF001

    def renew(self):
        from selectors import DefaultSelector

        if self._loop is not None:
            self._loop._selector = DefaultSelector()  # noqa: SLF001
            self._loop._make_self_pipe()  # noqa: SLF001


class _Frozen:
    """What a copy takes up again when it becomes the session."""

    def __init__(self, loop, descriptors, files, directory):
        self.descriptors = descriptors
        self.files = files
        self._loop = loop
        self._directory = directory

    def detach(self):
        self._loop.detach()
        self.descriptors.detach()

    def take_up(self):
        self.files.put_back()
        os.chdir(self._directory)
        self.descriptors.reopen()
        self._loop.renew()


class Copies:
    """``maker``: `fd`, the socket that requests and answers go over; `copy(deaths_fd)`, `image(fd, streams)`, `thaw()`."""

    def __init__(self, session, maker):
        self._session = session
        self._maker = maker
        self._socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, maker.fd)
        self.frozen = None
        self._image = None  # (number of the last image, what had been served then)

    def close(self):
        """In a process that the session's code forked."""
        self._socket.close()

    def make(self, payload, served):
        """Answers the frame `copy`. ``served``: how many requests could have changed this process."""
        request = jsontext.loads(payload)
        fds = self._receive()
        collects = gc.isenabled()
        gc.disable()  # destructors of the session's code have nothing to do here
        try:
            if len(fds) == _FDS and "image" in request:
                self._write_image(request, fds, served)
            elif len(fds) == _FDS:
                self._make(request, fds)
        except (Busy, TooMuch) as error:
            self._tell(_BUSY, str(error))
        except (OSError, MemoryError) as error:  # a directory that may not be read, no more processes, no memory
            self._tell(_BUSY, f"{type(error).__name__}: {error}")
        finally:
            for fd in fds:
                os.close(fd)
            if collects:
                gc.enable()

    def _receive(self):
        _data, parts, _flags, _address = self._socket.recvmsg(1, CMSG_SPACE(4 * _FDS), MSG_CMSG_CLOEXEC)
        fds = []
        for level, kind, data in parts:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                fds += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
        return fds

    def _tell(self, kind, text="", size=0):
        message = kind + os.getpid().to_bytes(4, "little") + size.to_bytes(8, "little")
        self._socket.send(message + text.encode("utf-8", "replace")[:_TEXT_MAX])

    def _make(self, request, fds):
        waiting = self.frozen or self._look(request, fds)
        role = self._maker.copy(fds[_DEATHS])
        if role < 0:
            raise OSError(-role, os.strerror(-role))
        if role == COPY:
            self._become_copy(fds, waiting)
            return
        if role == MOVED:
            self._session.moved()
        self._tell(_DONE)

    def _write_image(self, request, fds, served):
        """Writes this process down, for another guest to go on as. In that one it is what a copy is."""
        if self._image == (request["image"], served):
            self._tell(_SAME)
            return
        waiting = self.frozen or self._look(request, fds)
        number = request["next"]
        self._image = number, served
        done = self._maker.image(fds[_IMAGE], fds[:_IMAGE])
        if done == COPY:
            self._image = None
            self._session.memory.moved()
            self._become_copy(fds, waiting)
            return
        if done < 0:
            self._image = None
            raise OSError(-done, os.strerror(-done))
        self._tell(_DONE, size=done)

    def _look(self, request, fds):
        """What a copy takes up again. Busy, TooMuch: there can be none."""
        session = self._session
        directories = request["directories"]
        if session.channel.has_more():
            raise Busy("a request is under way")
        if os.stat("/proc/self/task").st_nlink > 3:
            raise Busy("it has threads")
        if any(getitimer(kind)[0] for kind in (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)):
            raise Busy("a timer of it runs (signal.setitimer, signal.alarm)")
        if has_others(session.is_init, session.forked):
            raise Busy("it has other processes")
        check_memory(directories)
        loop = _IdleLoop(session)
        session.streams.flush()
        ignored = {self._socket.fileno(), *fds, *loop.numbers}
        streams = (session.channel.read_fd, 1, 2)
        descriptors = Descriptors(self._standard(streams), ignored, directories)
        files = KeptFiles(directories, request["max_bytes"], request["max_files"])
        descriptors.keep(files)
        return _Frozen(loop, descriptors, files, os.getcwd())

    def _standard(self, streams):
        """The control stream, and the pipes behind fds 1 and 2 whatever the session's code made of these."""
        saved = dict(self._session.streams.saved())
        return tuple(saved.get(fd, fd) for fd in streams)

    def _become_copy(self, fds, waiting):
        """In the copy: from here on nothing of the original is touched. It does not come back on a failure."""
        original, self._socket = self._socket, socket(AF_UNIX, SOCK_SEQPACKET, 0, move_high(os.dup(fds[_COPIES])))
        original.close()
        try:
            self._session.moved()
            waiting.descriptors.replace_streams(fds)
            if self.frozen is None:
                waiting.detach()
            self.frozen = waiting
        except BaseException as error:  # noqa: BLE001 - it must not pass for the session
            try:
                self._tell(_FAILED, f"{type(error).__name__}: {error}")
            finally:
                os._exit(1)
        self._tell(_DONE, size=waiting.files.bytes)

    def thaw(self):
        """The first request of a copy came: it is the session from here on."""
        frozen, self.frozen = self.frozen, None
        self._maker.thaw()
        try:
            self._tell(_THAWED)
            frozen.take_up()
        except BaseException as error:  # noqa: BLE001 - it is no whole session, and must not pass for one
            os.write(2, f"the copy of the session can't go on: {error!r}\n".encode("utf-8", "replace"))
            os._exit(1)
        self._session.guard(reseed)
