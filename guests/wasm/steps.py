# SPDX-License-Identifier: Apache-2.0
"""Steps of a build that are done once: each has a stamp with the hash of all that it depends on.

A build that was interrupted goes on at the step where it stopped; one whose inputs have changed does again what they
reach. What commands print goes to a log, of which the end is shown if one fails.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time


# Of the environment; the rest makes no difference to what is built.
KEPT = ("HOME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class BuildError(Exception):
    """The build can't go on; the text says why and what helps."""


def hash_file(path):
    """SHA-256 of a file, in hex."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def hash_tree(directory):
    """SHA-256 over names and contents of a directory's files, byte code left out."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(directory).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(directory)}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def describe(value):
    """What of an input makes a difference: a path's content, or the value."""
    if isinstance(value, pathlib.Path):
        return hash_tree(value) if value.is_dir() else hash_file(value)
    if isinstance(value, dict):
        return {key: describe(item) for key, item in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    return value


class Steps:
    """Runs steps in `directory`, and remembers them."""

    def __init__(self, directory, jobs):
        self.directory = pathlib.Path(directory).resolve()
        self.jobs = jobs
        self.current = "build"
        self.environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.environment |= {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        for name in ("stamps", "logs"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    def say(self, text):
        """A line of progress."""
        print(f"[{self.current}] {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def step(self, name, inputs, outputs=()):
        """`with steps.step(...) as wanted: if wanted: ...`; stamped when the block has ended without an exception."""
        stamp = self.directory / "stamps" / name
        key = hashlib.sha256(json.dumps(describe(inputs)).encode()).hexdigest()
        self.current = name
        done = stamp.is_file() and stamp.read_text() == key and all(pathlib.Path(path).exists() for path in outputs)
        if done:
            yield False
            return
        stamp.unlink(missing_ok=True)
        self.say("starts")
        (self.directory / "logs" / name).unlink(missing_ok=True)
        start = time.monotonic()
        yield True
        missing = [str(path) for path in outputs if not pathlib.Path(path).exists()]
        if missing:
            raise BuildError(f"{name}: nothing has made {', '.join(missing)}")
        stamp.write_text(key)
        self.say(f"done in {time.monotonic() - start:.0f} s")

    def run(self, command, cwd=None, environment=None, log=True):
        """Runs a command; BuildError with the end of its output if it fails. With `log` False, returns its output."""
        path = self.directory / "logs" / self.current
        with open(path, "ab") as file:
            file.write(("+ " + " ".join(map(str, command)) + "\n").encode())
            file.flush()
            try:
                done = subprocess.run([str(word) for word in command], cwd=cwd or self.directory, check=False,
                                      stdin=subprocess.DEVNULL, stdout=file if log else subprocess.PIPE, stderr=file,
                                      env=self.environment | (environment or {}))
            except OSError as error:
                raise BuildError(f"{self.current}: can't run {command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            end = path.read_text(errors="replace").splitlines()[-20:]
            raise BuildError(f"{self.current}: {pathlib.Path(command[0]).name} failed; the end of {path}:\n  "
                             + "\n  ".join(end))
        return None if log else done.stdout.decode()
