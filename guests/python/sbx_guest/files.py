# SPDX-License-Identifier: Apache-2.0
"""Files of the session's workspace, read and written for the host, which never resolves a path of a guest itself."""

import os
import stat
from errno import EFBIG, EINVAL, EISDIR, ENAMETOOLONG
from itertools import islice

from . import jsontext

LIST_MAX = 10_000
_LIST_BYTES_MAX = 3 << 20
_PATH_MAX = 4096
_DEPTH_MAX = 64
_CHUNK = 256 << 10
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def _resolve(workspace, path):
    if not isinstance(path, str) or "\0" in path:
        raise ValueError("path: a string without NUL is needed")
    if len(path) > _PATH_MAX:
        raise OSError(ENAMETOOLONG, os.strerror(ENAMETOOLONG))
    return os.path.join(workspace, path)


def _open_regular(path, flags):
    """(descriptor, status). O_NONBLOCK: a FIFO that nobody has open must not keep us waiting."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o644)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(EISDIR, os.strerror(EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(EINVAL, "Not a regular file", path)
    except BaseException:
        os.close(fd)
        raise
    return fd, status


def _too_large(path, max_bytes):
    return OSError(EFBIG, f"Larger than {max_bytes} bytes", path)


def read(workspace, path, max_bytes):
    """The content of a file, in one piece of memory: a session may have little of it."""
    target = _resolve(workspace, path)
    fd, status = _open_regular(target, os.O_RDONLY)
    with open(fd, "rb", buffering=0) as file:
        if status.st_size > max_bytes:
            raise _too_large(target, max_bytes)
        content = bytearray(status.st_size + 1)  # one more shows whether there is more
        have = 0
        while True:
            count = file.readinto(memoryview(content)[have:])
            if not count:
                break
            have += count
            if have > max_bytes:
                raise _too_large(target, max_bytes)
            if have == len(content):  # it grew, or is one of those that tell no size
                content.extend(bytes(min(_CHUNK, max_bytes + 1 - have)))
    del content[have:]
    return content


def write(workspace, path, content):
    """Replaces or creates a file, and the directories that lead to it."""
    target = _resolve(workspace, path)
    parent = os.path.dirname(target)
    if parent:
        os.makedirs(parent, exist_ok=True)
    fd, _status = _open_regular(target, os.O_WRONLY | os.O_CREAT)
    with open(fd, "wb", buffering=0) as file:
        file.truncate(0)
        view = memoryview(content)
        while len(view) > 0:
            view = view[file.write(view) :]


def _tell(path, status):
    return {
        "path": path,
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "mtime_ms": status.st_mtime_ns // 1_000_000,
        "type": _TYPES.get(stat.S_IFMT(status.st_mode), "other"),
    }


def listing(workspace, path):
    """(files below ``path``, sorted within each directory; was something left out?). Links are not followed.

    What has a name that is not UTF-8 is told as "other": nobody can ask for it by that name.
    """
    top = _resolve(workspace, path)
    status = os.lstat(top)
    if not stat.S_ISDIR(status.st_mode):
        return [_tell(jsontext.clean(path), status)], False
    out, size, pending = [], 0, [(top, path.rstrip("/"), 0)]
    while pending:
        directory, shown, depth = pending.pop(0)
        try:
            with os.scandir(directory) as entries:
                found = list(islice(entries, LIST_MAX + 1))
        except OSError:
            if depth == 0:
                raise
            continue
        found.sort(key=lambda entry: entry.name)
        for entry in found:
            path = f"{shown}/{entry.name}" if shown not in ("", ".") else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            name = jsontext.clean(path)
            size += 12 * len(name) + 100
            if len(out) == LIST_MAX or size > _LIST_BYTES_MAX:
                return out, True
            out.append(_tell(name, status))
            if name != path:
                out[-1]["type"] = "other"
            if stat.S_ISDIR(status.st_mode):
                if depth == _DEPTH_MAX:
                    return out, True
                pending.append((entry.path, path, depth + 1))
    return out, False
