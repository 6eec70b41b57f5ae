# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program share: a project and a home of its own for each test, runs, terminals.

Environment: SNIPARA_SANDBOX is the program; SNIPARA_SANDBOX_BUILD_ROOT the build tree, for a program that is not
installed.
"""
import contextlib
import functools
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tap import skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SNIPARA_SANDBOX") or shutil.which("snipara-sandbox") or "snipara-sandbox"
TIMEOUT = 120


def environment(home, **more):
    """What the program may see of the tests' own environment, with directories of its own."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("SNIPARA_", "RLM_", "XDG_")) and name != "NO_COLOR"}
    if "SNIPARA_SANDBOX_BUILD_ROOT" in os.environ:
        kept["SNIPARA_SANDBOX_BUILD_ROOT"] = os.environ["SNIPARA_SANDBOX_BUILD_ROOT"]
    kept.update(HOME=home, XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state",
                XDG_RUNTIME_DIR=f"{home}/run", TERM="xterm", LC_ALL="C.UTF-8")
    kept.update(more)
    return kept


class Case(unittest.TestCase):
    """A test in a project directory of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sbx-cli-")
        self.addCleanup(directory.cleanup)
        self.home = os.path.join(directory.name, "home")
        self.project = pathlib.Path(directory.name, "project")
        os.mkdir(self.home, 0o700)
        self.project.mkdir(mode=0o700)
        self.project.joinpath(".git").mkdir()  # the search for .env ends here

    def run_cli(self, *args, stdin="", env=None, binary=False, program=PROGRAM):
        done = subprocess.run([program, *map(str, args)], input=stdin.encode(), capture_output=True, cwd=self.project,
                              env=environment(self.home, **(env or {})), timeout=TIMEOUT, check=False)
        if not binary:
            done.stdout = done.stdout.decode("utf-8")
            done.stderr = done.stderr.decode("utf-8")
        return done

    def start(self, *args, **popen):
        env = environment(self.home, **popen.pop("env", {}))
        # What `nohup` made this run ignore, the program would go on ignoring.
        process = subprocess.Popen([PROGRAM, *args], cwd=self.project, env=env, **popen,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        self.addCleanup(finish, process)
        return process

    def ok(self, *args, **kwargs):
        done = self.run_cli(*args, **kwargs)
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def fails(self, code, *args, says=(), **kwargs):
        """It ends with `code`, prints nothing on standard output, and an error with each of `says` and a hint."""
        done = self.run_cli(*args, **kwargs)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, "(?m)^error: ")
        for text in (says,) if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)
        return done

    def write(self, name, text):
        path = self.project / name
        path.write_text(text, encoding="utf-8")
        return path


def finish(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


@functools.lru_cache(maxsize=None)
def sandbox_problem():
    """Why there can be no sandbox here: the program's own words; None when there can."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([PROGRAM, "exec", "-c", "print(6 * 7)"], capture_output=True, text=True, cwd=home,
                              env=environment(home), timeout=TIMEOUT, check=False)
    # Whatever else goes wrong is for the tests to find, not a reason to skip them.
    return done.stderr.strip() if done.returncode == 3 else None


class Sandboxed(Case):
    """A test that runs code; skipped where the program says that there can be no sandbox."""

    def setUp(self):
        problem = sandbox_problem()
        if problem:
            skip(f"the sandbox does not work here: {problem}")
        super().setUp()


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, case, *args, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(case.project)
                os.execve(PROGRAM, [PROGRAM, *args], environment(case.home, **env))
            finally:
                os._exit(127)
        self.text = ""
        self.seen = 0
        case.addCleanup(self.close)

    def read(self, seconds):
        if not select.select([self.fd], [], [], max(0, seconds))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.text += data.decode("utf-8", "backslashreplace")
        return bool(data)

    def expect(self, pattern, seconds=30):
        """Waits for the pattern behind what was found before; returns the match."""
        deadline = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.text[self.seen:])
            if found:
                self.seen += found.end()
                return found
            left = deadline - time.monotonic()
            if left <= 0 or not self.read(left) and not re.search(pattern, self.text[self.seen:]):
                raise AssertionError(f"{pattern!r} was expected in {self.text[self.seen:]!r}, "
                                     f"after {self.text[:self.seen]!r}")

    def send(self, text):
        os.write(self.fd, text.encode())

    def exit_code(self, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                while self.read(0.05):
                    pass
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end: {self.text!r}")

    def close(self):
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@functools.lru_cache(maxsize=None)
def commands():
    done = subprocess.run([PROGRAM, "help", "--json"], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    return json.loads(done.stdout)["commands"]
