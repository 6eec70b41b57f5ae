# SPDX-License-Identifier: Apache-2.0
"""Files of a portable state: what the session's own directories hold, with modes, times and links."""

import os
import stat
from time import time_ns

from .states_parts import OWN_SIZE, FilePiece, TooLarge, damaged, digest_of

COUNT_MAX = 10_000
_DEPTH_MAX = 64
_PACK_SIZE = 4 << 20
_RACY_NS = 100_000_000  # a file that changed so lately may change again within the same tick of its clock
_MOUNTS = "/proc/self/mountinfo"  # none in WebAssembly, where all files are the session's own
_IN_MEMORY = ("tmpfs", "ramfs", "overlay")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def own_directories(session):
    """[(name, path)] of directories that are this session's alone, and go with it; and of those that go with others'.

    What is the host's, like a project that is mounted, stays where it is, and is in neither.
    """
    own, shared = [], []
    scratch = getattr(session, "environment", os.environ).get("TMPDIR")  # as the backend has set it
    alone = session.is_init or getattr(session, "has_init", False)
    for name, path in (("tmp", scratch or "/tmp"), ("workspace", session.workspace)):
        path = os.path.realpath(path)
        if any(path == known or path.startswith(known + "/") for _name, known in own) or not os.path.isdir(path):
            continue
        if (name == "tmp" and scratch is not None) or not os.path.isfile(_MOUNTS):
            own.append((name, path))
        elif _is_in_memory(path):
            (own if alone else shared).append((name, path))
    return own, shared


def _is_in_memory(path):
    """And not the host's?"""
    best, kind = "", None
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split()
            point = fields[4].replace("\\040", " ")
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, fields[fields.index("-") + 1]
    return kind in _IN_MEMORY


def place_of(path, directories):
    """[name of a directory that every session has, what is below it] for a path; [None, the path] elsewhere."""
    for name, directory in directories:
        if path == directory or path.startswith(directory + "/"):
            return [name, path[len(directory) + 1 :]]
    return [None, path]


def path_of(place, directories):
    """The path of a place in this session."""
    name, path = place
    return path if name is None else os.path.join(dict(directories)[name], path)


class Files:
    """What the last state knew of the files, so that those that did not change are not read again to be named."""

    def __init__(self):
        self._known = {}  # path: (what the kernel says of it, digest)

    def gather(self, directories, parts, unsaved, check):
        """(entries for the index, how many files, their bytes). Adds parts with what the files hold.

        ``check`` is called once for each file, and may raise.
        """
        gathering = _Gathering(self._known, parts, unsaved, check)
        out = {}
        for name, path in directories:
            gathering.entries = out[name] = []
            gathering.walk(path, "", 0)
        gathering.close_pack()
        self._known = gathering.known
        return out, gathering.count, gathering.bytes


class _Gathering:
    def __init__(self, known, parts, unsaved, check):
        self._old = known
        self._parts = parts
        self._check = check
        self._unsaved = unsaved
        self._pack, self._pack_size = [], 0
        self._waiting = []  # entries that are in the pack, which has no number yet
        self._now = time_ns()
        self.known, self.entries = {}, None
        self.count = self.bytes = 0

    def walk(self, directory, shown, depth):
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            self._add(entry, f"{shown}/{entry.name}" if shown else entry.name, depth)

    def _add(self, entry, shown, depth):
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return  # gone meanwhile
        self._check()
        self.count += 1
        if self.count > COUNT_MAX or depth > _DEPTH_MAX:
            raise TooLarge(f"The session has more than {COUNT_MAX} files, or {_DEPTH_MAX} levels of directories")
        kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
        try:
            if kind == stat.S_IFDIR:
                self.entries.append(["d", shown, mode, status.st_mtime_ns])
                self.walk(entry.path, shown, depth + 1)
            elif kind == stat.S_IFLNK:
                self.entries.append(["l", shown, os.readlink(entry.path)])
            elif kind == stat.S_IFREG:
                self._add_file(entry.path, shown, mode, status)
            else:
                self._refuse(entry.path, "special file", "it is no regular file")
        except TooLarge:
            raise
        except OSError as error:
            self._refuse(entry.path, "file", error.strerror or "it can't be read")

    def _refuse(self, path, kind, reason):
        self._unsaved.append({"name": path, "type": kind, "reason": reason})

    def _add_file(self, path, shown, mode, status):
        size = status.st_size
        self._parts.charge(size)
        entry = ["f", shown, mode, status.st_mtime_ns, size]
        if size >= OWN_SIZE and self._parts.has_room():
            piece = FilePiece(lambda: open(path, "rb", buffering=0), size)
            entry += [self._parts.add([piece], self._digest(path, status, piece)), 0]
        elif size > 0:
            content = b"".join(FilePiece(lambda: open(path, "rb", buffering=0), size).chunks())
            if self._pack_size + size > _PACK_SIZE and self._parts.has_room():
                self.close_pack()
            entry += [0, self._pack_size]
            self._waiting.append(entry)
            self._pack.append(content)
            self._pack_size += size
        self.entries.append(entry)
        self.bytes += size

    def _digest(self, path, status, piece):
        key = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        old = self._old.get(path)
        if old is not None and old[0] == key:
            digest = old[1]
        else:
            digest = digest_of([piece])
        if self._now - max(status.st_mtime_ns, status.st_ctime_ns) > _RACY_NS:
            self.known[path] = (key, digest)
        return digest

    def close_pack(self):
        if not self._pack:
            return
        number = self._parts.add(self._pack)
        for entry in self._waiting:
            entry[5] = number
        self._pack, self._pack_size, self._waiting = [], 0, []


def restore(directories, told, given, missing):
    """Puts files back into the directories of these names."""
    known = dict(directories)
    packs = _Packs(given)
    for name, entries in told.items():
        root = known.get(name)
        if root is None:
            if entries:
                reason = "this session has no such directory of its own"
                missing.append({"name": f"files in {name}", "type": "directory", "reason": reason})
            continue
        _restore_directory(root, entries, packs, missing)


class _Packs:
    """Content of files, from parts that hold one or many."""

    def __init__(self, given):
        self._given = given
        self._packs = {}

    def pieces(self, entry):
        """The bytes of a file, in pieces."""
        size = entry[4]
        if size == 0:
            return ()
        number, offset = entry[5], entry[6]
        if number not in self._packs:
            pieces = self._given.pieces(number)
            if offset == 0 and sum(map(len, pieces)) == size:
                return pieces
            self._packs[number] = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        content = self._packs[number]
        if offset < 0 or offset + size > len(content):
            raise damaged("a file is longer than its part")
        return (content[offset : offset + size],)


def _restore_directory(root, entries, packs, missing):
    directories = []
    for entry in entries:
        path = os.path.join(root, _inside(entry[1]))
        try:
            if entry[0] == "d":
                os.makedirs(path, exist_ok=True)
                directories.append((path, entry))
            elif entry[0] == "l":
                _remove(path)
                os.symlink(entry[2], path)
            elif entry[0] == "f":
                _restore_file(path, entry, packs.pieces(entry))
        except OSError as error:
            if error.filename is None:
                raise
            missing.append({"name": path, "type": "file", "reason": error.strerror or "it can't be written"})
    for path, entry in reversed(directories):  # writing into them has changed their times
        os.chmod(path, entry[2])
        os.utime(path, ns=(entry[3], entry[3]))


def _inside(name):
    if name.startswith("/") or ".." in name.split("/"):
        raise damaged("a file is outside of the session's directories")
    return name


def _remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _restore_file(path, entry, pieces):
    _remove(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", buffering=0) as file:
        for view in pieces:
            while len(view) > 0:
                view = view[file.write(view) :]
    os.chmod(path, entry[2])
    os.utime(path, ns=(entry[3], entry[3]))
