# SPDX-License-Identifier: Apache-2.0
"""A store in a temporary directory, for each test its own, and the process that uses it."""
import os
import shutil
import sys
import tempfile

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests")
sys.path[:0] = [TESTS, os.path.join(TESTS, "store")]

from store_process import Store  # noqa: E402


class Place:
    """with Place() as place: place.path is where a store may be."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="sbx-store-dir-")
        self.path = os.path.join(self.top, "store")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)

    def open(self, **options):
        chosen = dict(self.options, **options)
        return Store("--directory=" + self.path, *["--%s=%s" % item for item in chosen.items()])

    def refused(self, code, line="put a/b x", **options):
        """The store can't be used: its process ends with the error, or tells it at the first operation."""
        with_error = self.open(**options)
        try:
            with_error.send(line)
        except BrokenPipeError:
            pass
        answer = with_error.receive()
        try:
            with_error.process.stdin.close()
        except BrokenPipeError:
            pass
        with_error.process.wait(60)
        with_error.process.stdout.close()
        assert answer is not None and answer.startswith("error %s " % code), "%s instead of %s" % (answer, code)
        return answer

    def file(self, *parts):
        return os.path.join(self.path, *parts)

    def read(self, *parts):
        with open(self.file(*parts), "rb") as file:
            return file.read()

    def write(self, data, *parts, mode=0o600):
        """In place of what is there, as an attacker or a bad disk would."""
        path = self.file(*parts)
        if os.path.lexists(path):
            os.unlink(path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            file.write(data)

    def objects(self, directory):
        return sorted(name for name in os.listdir(self.file("names", directory)) if len(name) == 64)

    def key(self, name="key", content=None, mode=0o600):
        path = os.path.join(self.top, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(os.urandom(32) if content is None else content)
        os.chmod(path, mode)
        return path


def flip(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
