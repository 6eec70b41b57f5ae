# SPDX-License-Identifier: Apache-2.0
"""What is open in this process, for a copy of it that must share none of that."""

import os
import stat

from .kept_files import read_whole, write_whole

_REOPEN = ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW | os.O_TMPFILE)
_PRIVATE = ("/tmp", "/dev/shm")  # where a file without a name can be made  # noqa: S108


class Busy(Exception):
    """This process can't be copied as it is; the message says why."""


class _File:
    """A regular file, a directory or a device, as it is open."""

    __slots__ = ("content", "fd", "flags", "inheritable", "mode", "offset", "path")

    def __init__(self, fd, path, found):
        self.fd = fd
        self.path = path  # None: it has no name any more
        self.flags = _flags(fd)
        self.offset = os.lseek(fd, 0, os.SEEK_CUR)
        self.inheritable = os.get_inheritable(fd)
        self.mode = stat.S_IMODE(found.st_mode)
        self.content = None

    def keep(self, files):
        """What has no name can't be opened again: its content is kept."""
        if self.path is not None:
            return
        size = os.fstat(self.fd).st_size
        files.take(size)
        fd = os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)  # it may be open for writing alone
        try:
            self.content = read_whole(fd, size)
        finally:
            os.close(fd)

    def reopen(self):
        """In the copy, when the files are back."""
        if self.path is None:
            fd = self._make()
        else:
            fd = os.open(self.path, (self.flags & _REOPEN) | os.O_CLOEXEC)
        os.lseek(fd, self.offset, os.SEEK_SET)
        os.dup2(fd, self.fd, self.inheritable)
        os.close(fd)

    def _make(self):
        """A new file without a name."""
        writer = os.open(_PRIVATE[0], os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        try:
            write_whole(writer, self.content)
            os.fchmod(writer, self.mode & ~0o6000)
            return os.open(f"/proc/self/fd/{writer}", (self.flags & _REOPEN) | os.O_CLOEXEC)
        finally:
            os.close(writer)
            self.content = None


def _read_proc(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = []
    try:
        while not parts or parts[-1]:
            parts.append(os.read(fd, 65536))
    finally:
        os.close(fd)
    return b"".join(parts)


def _flags(fd):
    """As fcntl's F_GETFL tells, which needs no module this way."""
    for line in _read_proc(f"/proc/self/fdinfo/{fd}").splitlines():
        if line.startswith(b"flags:"):
            return int(line[6:], 8) & ~os.O_CLOEXEC
    raise Busy(f"descriptor {fd}, of which the kernel tells no flags")


def _identity(fd):
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _open_numbers():
    """Of what is open, but for the descriptor that looks."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((int(name), os.fstat(int(name))))
        except OSError:
            continue
    return found


class Descriptors:
    """What is open now. Busy: there is something that can't be in two processes."""

    def __init__(self, streams, ignored, directories):
        """``streams``: of the session's own, in order; ``ignored``: what the caller sees to."""
        self._streams = []  # [(fd, index of the stream, inheritable)]
        self._files = []
        own = {_identity(fd): index for index, fd in enumerate(streams)}
        for fd, found in _open_numbers():
            index = own.get((found.st_dev, found.st_ino))
            if index is not None:
                self._streams.append((fd, index, os.get_inheritable(fd)))
            # Standard input is /dev/null wherever a copy is; other devices it has to open again.
            elif fd not in ignored and (fd > 0 or not stat.S_ISCHR(found.st_mode)):
                self._add(fd, found, directories)

    def _add(self, fd, found, directories):
        target = os.readlink(f"/proc/self/fd/{fd}")
        if stat.S_ISSOCK(found.st_mode):
            raise Busy(f"an open socket (descriptor {fd})")
        if stat.S_ISFIFO(found.st_mode):
            raise Busy(f"an open pipe (descriptor {fd})")
        if target.startswith("/memfd:"):
            raise Busy(f"an open memfd (descriptor {fd})")
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISCHR(found.st_mode)):
            raise Busy(f"an open {target.partition(':')[2].strip('[]') or 'descriptor'} (descriptor {fd})")
        path = target
        try:
            there = os.stat(path)
            if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
                path = None
        except OSError:
            path = None
        if path is None and (stat.S_ISDIR(found.st_mode) or not target.startswith(tuple(directories))):
            raise Busy(f"an open file that was removed: {target}")
        try:  # as the copy will have to
            file = _File(fd, path, found)
            os.close(os.open(f"/proc/self/fd/{fd}", file.flags & _REOPEN | os.O_CLOEXEC))
        except OSError as error:
            raise Busy(f"an open file that can't be opened again ({error.strerror}): {target}") from None
        self._files.append(file)

    def keep(self, files):
        for file in self._files:
            file.keep(files)

    def replace_streams(self, new_streams):
        """In the copy: its own instead of those of the original."""
        for fd, index, inheritable in self._streams:
            os.dup2(new_streams[index], fd, inheritable)

    def detach(self):
        """In the copy: shares no file, not even a lock of one."""
        if not self._files:
            return
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for file in self._files:
            os.dup2(null, file.fd, False)
        os.close(null)

    def reopen(self):
        for file in self._files:
            file.reopen()


def check_memory(directories):
    """Busy: this process shares memory with others, or with a file that changes."""
    text = _read_proc("/proc/self/maps")
    at = text.find(b"s ")
    while at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        line = text[start : text.find(b"\n", at)].split(None, 5)
        if len(line[1]) == 4 and line[1].endswith(b"s"):
            name = os.fsdecode(line[5]) if len(line) > 5 else "anonymous"
            if b"w" in line[1] or name.startswith(tuple(directories)):
                raise Busy(f"memory that is shared: {name}")
        at = text.find(b"s ", at + 1)
