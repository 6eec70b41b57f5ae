# SPDX-License-Identifier: Apache-2.0
"""What directories hold, in this process's own memory, to be put back when somebody has changed it."""

import os
import stat

_REST = 0o700  # of the rights that are needed to work in a directory


class TooMuch(Exception):
    """More than was to be kept; or it can't be read. The message says what."""


class _Entry:
    """A file, a directory, a link, a named pipe; ``data`` is content or target."""

    __slots__ = ("data", "kind", "mode", "mtime_ns", "same")

    def __init__(self, found, data, same):
        self.kind = stat.S_IFMT(found.st_mode)
        self.mode = stat.S_IMODE(found.st_mode)
        self.mtime_ns = found.st_mtime_ns
        self.data = data
        self.same = same  # path of another name of this file, that comes first


def _walk(top):
    """(path, lstat) of everything below a directory that is in the same mount, parents first."""
    device = os.lstat(top).st_dev
    pending = [top]
    while pending:
        directory = pending.pop()
        with os.scandir(directory) as entries:
            names = [entry.path for entry in entries]
        for path in names:
            found = os.lstat(path)
            if found.st_dev != device:
                continue  # something that was mounted there
            yield path, found
            if stat.S_ISDIR(found.st_mode):
                pending.append(path)


def read_whole(fd, size):
    """What a file holds, wherever its offset is."""
    parts, offset = [], 0
    while offset < size:
        part = os.pread(fd, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read(path, size):
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return read_whole(fd, size)
    finally:
        os.close(fd)


def write_whole(fd, data):
    """All of it, at the file's offset."""
    view = memoryview(data)
    while len(view) > 0:
        view = view[os.write(fd, view) :]


class KeptFiles:
    """The content of some directories at one moment."""

    def __init__(self, directories, max_bytes, max_files):
        self._tops = [os.fsencode(path) for path in directories]
        self._modes = {top: stat.S_IMODE(os.lstat(top).st_mode) for top in self._tops}
        self._entries = {}
        self._first = {}  # (device, inode): path
        self.left = max_bytes
        self._max_bytes = max_bytes
        for top in self._tops:
            for path, found in _walk(top):
                if len(self._entries) >= max_files:
                    raise TooMuch(f"more than {max_files} files")
                self._keep(path, found)

    @property
    def bytes(self):
        """So much of the maximum is taken."""
        return self._max_bytes - self.left

    def take(self, size):
        """Counts ``size`` bytes against the maximum."""
        if size > self.left:
            raise TooMuch(f"more than {self._max_bytes >> 20} MiB in files")
        self.left -= size

    def _keep(self, path, found):
        data = same = None
        if stat.S_ISREG(found.st_mode):
            same = self._first.setdefault((found.st_dev, found.st_ino), path)
            if same is path:
                same = None
                self.take(found.st_size)
                try:
                    data = _read(path, found.st_size)
                except PermissionError:
                    raise TooMuch(f"a file that may not be read: {os.fsdecode(path)}") from None
        elif stat.S_ISLNK(found.st_mode):
            data = os.readlink(path)
        elif not (stat.S_ISDIR(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
            raise TooMuch(f"a socket or device among the files: {os.fsdecode(path)}")
        self._entries[path] = _Entry(found, data, same)

    # ---- putting back ----

    def put_back(self):
        """Makes the directories hold what they held."""
        for top, mode in self._modes.items():
            os.chmod(top, mode)
            self._remove_others(top)
        for path, entry in self._entries.items():
            self._make(path, entry)
        for path, entry in reversed(self._entries.items()):
            if entry.kind == stat.S_IFDIR:
                _settle(path, entry)

    def _remove_others(self, top):
        doomed = []
        for path, found in _walk_open(top):
            entry = self._entries.get(path)
            if entry is None or not self._is_same(path, found, entry):
                doomed.append((path, stat.S_ISDIR(found.st_mode)))
        for path, is_directory in reversed(doomed):
            try:
                os.rmdir(path) if is_directory else os.unlink(path)
            except OSError as error:
                if not is_directory or not os.path.isdir(path):  # what is mounted below it keeps a directory
                    raise error

    @staticmethod
    def _is_same(path, found, entry):
        if stat.S_IFMT(found.st_mode) != entry.kind:
            return False
        if entry.kind == stat.S_IFLNK:
            return os.readlink(path) == entry.data
        if entry.kind != stat.S_IFREG:
            return True
        # Names of one file are made anew, so that they are names of one file again.
        if entry.same is not None or found.st_nlink > 1 or found.st_size != len(entry.data):
            return False
        os.chmod(path, entry.mode | stat.S_IRUSR)
        return _read(path, found.st_size) == entry.data

    def _make(self, path, entry):
        exists = os.path.lexists(path)
        if entry.kind == stat.S_IFDIR:
            if not exists:
                os.mkdir(path, _REST)
            return
        if entry.same is not None:
            os.link(entry.same, path)
            return
        if not exists:
            self._create(path, entry)
        _settle(path, entry)

    @staticmethod
    def _create(path, entry):
        if entry.kind == stat.S_IFLNK:
            os.symlink(entry.data, path)
        elif entry.kind == stat.S_IFIFO:
            os.mkfifo(path)
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                write_whole(fd, entry.data)
            finally:
                os.close(fd)


def _settle(path, entry):
    if entry.kind != stat.S_IFLNK:
        os.chmod(path, entry.mode & ~0o6000)  # no set-id bits: the jail refuses them
    os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)


def _walk_open(top):
    """As _walk, of directories that somebody may have closed to us."""
    pending = [top]
    device = os.lstat(top).st_dev
    while pending:
        directory = pending.pop()
        for path in [entry.path for entry in os.scandir(directory)]:
            found = os.lstat(path)
            if found.st_dev != device:
                continue
            if stat.S_ISDIR(found.st_mode):
                os.chmod(path, _REST)
                pending.append(path)
            yield path, found
