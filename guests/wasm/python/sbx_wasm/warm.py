# SPDX-License-Identifier: Apache-2.0
"""Runs a worker on made-up requests before the image is taken.

CPython writes to code objects when they run for the first times (caches of its specialising interpreter), to modules when
they are first used, and to its free lists. What is written now is in the image; what is not is written in every session,
to pages of its own.
"""

import linecache
import os
import sys
import tempfile

from sbx_guest import frames, jsontext
from sbx_guest.interrupts import Interrupts
from sbx_guest.output import Streams

_ROUNDS = 12  # more than CPython needs to specialise code
_EXECUTIONS = (
    "x = 1\ndef f(a, b=2):\n    return [i * a for i in range(b)]\nprint(f(3), x)\nf(2)",
    "x += 1\nprint(x)\nx",
    "class A:\n    def __init__(self, v):\n        self.v = v\na = A(1)\nresult = {'a': [a.v, 2.5, 'x', None, True]}",
    "import json, math\njson.loads(json.dumps({'a': [1, 2.5, 'x']}))",
    "def g():\n    return 1 / 0\ng()",
    "import nowhere_to_be_found",
    "1 +",
    "import sys\nprint('x', file=sys.stderr)\n[str(i) for i in range(20)]",
    "import asyncio\nawait asyncio.sleep(0)\n5",
)


def _frame(kind, header, blob=None):
    told = jsontext.dumps(header)
    payload = told if blob is None else len(told).to_bytes(4, "little") + told + blob
    return len(payload).to_bytes(4, "little") + bytes((kind,)) + payload


def _requests():
    yield _frame(frames.HELLO, {"protocol": 1, "session": "warm"})
    serial = 0
    for _round in range(_ROUNDS):
        for source in _EXECUTIONS:
            serial += 1
            header = {"id": serial, "filename": "<execution>", "memory_bytes": 0, "tools": False}
            yield _frame(frames.EXEC, header, source.encode())
        serial += 4
        yield _frame(frames.SET, {"id": serial - 3, "name": "y", "value": [1, {"a": 2.5}]})
        yield _frame(frames.GET, {"id": serial - 2, "names": None})
        yield _frame(frames.FILE_LIST, {"id": serial - 1, "path": ""})
        yield _frame(frames.CLEAR, {"id": serial})


class _Aside(Streams):
    """Streams whose output nobody reads."""

    __slots__ = ("_fd",)

    def __init__(self, fd):
        self._fd = fd
        super().__init__()

    def _writer(self, _fd):
        return super()._writer(self._fd)


def run(new_worker):
    """Serves a session that is thrown away, with all that it did to the interpreter."""
    finders = sys.meta_path[:]
    with tempfile.TemporaryFile() as requests, tempfile.TemporaryFile() as answers:
        for frame in _requests():
            requests.write(frame)
        requests.flush()
        os.lseek(requests.fileno(), 0, os.SEEK_SET)
        interrupts = Interrupts()
        channel = frames.Channel(requests.fileno(), answers.fileno(), interrupts)
        worker = new_worker(channel, interrupts, _Aside(answers.fileno()))
        while worker.step():
            pass
        worker.session.clear().clear()
    sys.meta_path[:] = finders
    linecache.clearcache()
