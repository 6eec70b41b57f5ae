# SPDX-License-Identifier: Apache-2.0
"""Files of the session's workspace, read and written for the host, which never resolves a path of a guest itself."""

import os
import stat

from . import jsontext

LIST_MAX = 10_000
_LIST_BYTES_MAX = 2 << 20
_PATH_MAX = 4096
_DEPTH_MAX = 64
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def _resolve(workspace, path):
    if not isinstance(path, str) or "\0" in path or len(path) > _PATH_MAX:
        raise ValueError("path: a string of at most 4096 characters without NUL is needed")
    return os.path.join(workspace, path)


def _open_regular(path, flags):
    # O_NONBLOCK: a FIFO that nobody has open must not keep us waiting.
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path}: not a regular file")
    return fd


def read(workspace, path, max_bytes):
    """The content of a file."""
    fd = _open_regular(_resolve(workspace, path), os.O_RDONLY)
    with open(fd, "rb", buffering=0) as file:
        content = file.read(max_bytes + 1) or b""
        while 0 < len(content) <= max_bytes:
            more = file.read(max_bytes + 1 - len(content))
            if not more:
                break
            content += more
    if len(content) > max_bytes:
        raise OSError(f"{path}: larger than {max_bytes} bytes")
    return content


def write(workspace, path, content):
    """Replaces or creates a file, and the directories that lead to it."""
    target = _resolve(workspace, path)
    parent = os.path.dirname(target)
    if parent:
        os.makedirs(parent, exist_ok=True)
    fd = _open_regular(target, os.O_WRONLY | os.O_CREAT)
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
    """(files below ``path``, sorted within each directory; was something left out?). Links are not followed."""
    top = _resolve(workspace, path)
    status = os.lstat(top)
    if not stat.S_ISDIR(status.st_mode):
        return [_tell(jsontext.clean(path), status)], False
    out, size, pending = [], 0, [(top, path.rstrip("/"), 0)]
    while pending:
        directory, shown, depth = pending.pop(0)
        try:
            with os.scandir(directory) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            if depth == 0:
                raise
            continue
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
            if stat.S_ISDIR(status.st_mode):
                if depth == _DEPTH_MAX:
                    return out, True
                pending.append((entry.path, path, depth + 1))
    return out, False
