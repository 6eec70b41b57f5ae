# SPDX-License-Identifier: Apache-2.0
"""What workers in Python have in common, whatever language they serve: their loop, files, errors of requests."""

from errno import errorcode

from . import files, frames, jsontext
from .text import class_name, safe_str

_FILE_MAX = 64 << 20
_READING = frozenset((frames.GET, frames.SAVE, frames.FILE_READ, frames.FILE_LIST))


def told_error(error):
    """`error` of a result, for a request that failed with this exception."""
    message = _os_message(error) if isinstance(error, OSError) else safe_str(error, 4096)
    told = {"type": class_name(type(error)), "message": jsontext.clean(message), "traceback": None}
    if isinstance(error, OSError) and type(error.errno) is int and error.errno in errorcode:
        told["errno"] = errorcode[error.errno]
    return told


def _os_message(error):
    """Text of an OSError with the path, which strerror alone lacks."""
    if error.strerror is None:
        return safe_str(error, 4096)
    return f"{error.strerror}: {error.filename!r}" if error.filename is not None else error.strerror


class Requests:
    """A worker with a session that has a channel and a workspace.

    It has ``_handlers`` by the type of frame, ``_guarded``, which runs a request, and ``_between``, which is called
    while the host has the answer already; and ``_greeted_again``, if its sessions can be forked or restored.
    """

    served = 0  # requests that were to change the session
    waits = False  # it is a copy of another process, which nobody asked for anything yet

    def loop(self):
        """Until the host closes the stream."""
        while self.step():
            pass

    def step(self):
        """Takes a frame and answers it. False: the host closed the stream."""
        channel = self.session.channel
        frame = channel.receive()
        if frame is None:
            return False
        kind, payload = frame
        if kind == frames.TOOL_RESULT:
            return True  # nobody waits for it
        if kind == frames.HELLO:
            self._greeted_again(payload)
            return True
        if kind == frames.COPY:
            self._copy(payload)
            return True
        if self.waits:
            self._wake()
        self.served += kind not in _READING
        answer, blob = self._handlers[kind](payload)
        frame = payload = None
        if answer is None:
            return True  # what it belongs to is still to come
        channel.send(frames.RESULT, jsontext.dumps(answer), blob)
        answer = blob = None
        self._between()
        return True

    def _greeted_again(self, _payload):
        raise frames.ProtocolError("a second `hello`, and this worker's sessions are no copies")

    def _copy(self, _payload):
        raise frames.ProtocolError("this worker makes no copies of itself")

    def file_handlers(self):
        """By the type of frame."""
        return {
            frames.FILE_READ: self._file_read,
            frames.FILE_WRITE: self._file_write,
            frames.FILE_LIST: self._file_list,
        }

    def _file_read(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._read_file, request["path"], min(request["max_bytes"], _FILE_MAX))

    def _read_file(self, path, max_bytes):
        content = files.read(self.session.workspace, path, max_bytes)
        return {"size": len(content)}, content

    def _file_write(self, payload):
        header, content = frames.split(payload)
        request = jsontext.loads(header)
        return self._guarded(request, self._write_file, request["path"], content)

    def _write_file(self, path, content):
        files.write(self.session.workspace, path, content)
        return {"size": len(content)}, b""

    def _file_list(self, payload):
        request = jsontext.loads(payload)
        return self._guarded(request, self._list_files, request["path"])

    def _list_files(self, path):
        found, truncated = files.listing(self.session.workspace, path)
        return {"files": found, "truncated": truncated}, b""
