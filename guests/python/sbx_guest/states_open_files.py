# SPDX-License-Identifier: Apache-2.0
"""Files that the session's code has opened, in a portable state: how they are opened again."""

import io
import os

from . import states_build as build
from .states_refuse import Unsaved

def _file_options(file):
    """Those of open(), beside the mode."""
    if isinstance(file, io.TextIOWrapper):
        options = {"encoding": file.encoding, "errors": file.errors}
        newline = getattr(file, "_newline", None)
        return options if newline is None else {**options, "newline": newline}
    return {"buffering": 0} if isinstance(file, io.FileIO) else {}


def _file_mode(file):
    mode = str(file.mode)
    return mode if isinstance(file, io.TextIOWrapper) or "b" in mode else f"{mode}b"


def _closed_file(file):
    try:
        name = file.name
        if not isinstance(name, (str, bytes)):
            raise Unsaved(file, "it has no name")
        return build.closed_file, (name, _file_mode(file), _file_options(file))
    except (ValueError, AttributeError) as error:
        raise Unsaved(file, f"it is closed: {error}") from None


def reduce_file(pickler, file):
    if file.closed:
        return _closed_file(file)
    try:
        name, status = file.name, os.fstat(file.fileno())
        if not isinstance(name, (str, bytes)) or not os.path.samestat(status, os.stat(name)):
            raise Unsaved(file, "it has no name that it could be opened by again")
        if not os.path.isfile(name):
            raise Unsaved(file, "it is no regular file")
        if getattr(file, "writable", bool)():
            file.flush()
        offset = file.tell() if file.seekable() else None
    except (OSError, ValueError, AttributeError) as error:
        raise Unsaved(file, f"it can't be opened again: {error}") from None
    return build.open_file, (pickler.place(name), _file_mode(file), offset, _file_options(file))
