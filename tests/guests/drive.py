# SPDX-License-Identifier: Apache-2.0
"""Guests of a backend, driven through the program drive-guests: Driver is the program, Guest one guest of it."""
import json
import os
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mcp_client import process_tree  # noqa: E402


class Failed(Exception):
    """A command that could not be carried out; `name` is its errno: "ENOENT"."""

    def __init__(self, answer):
        super().__init__("%(errno)s: %(message)s %(hint)s" % answer)
        self.name = answer["errno"]


class Gone(Exception):
    """The program ended."""


class Driver:
    """One server with one instance of a backend. A context manager: afterwards nothing of it lives."""

    def __init__(self, instance, settings=(), build=None, stderr=None, **popen):
        build = build or os.environ["SNIPARA_SANDBOX_BUILD_ROOT"]
        environment = dict(popen.pop("env", os.environ), SNIPARA_SANDBOX_BUILD_ROOT=build)
        self.process = subprocess.Popen([os.path.join(build, "tests/guests/drive-guests"), instance, *settings],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                        encoding="utf-8", env=environment, **popen)
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Gone("drive-guests ended with %d" % self.process.wait(60))
        answer = json.loads(line)
        if "errno" in answer:
            raise Failed(answer)
        return answer

    def ask(self, command, **members):
        self.process.stdin.write(json.dumps({"do": command, **members}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def start(self, **members):
        return Guest(self, self.ask("start", **members))

    def restore(self, path, **members):
        return Guest(self, self.ask("restore", **{"from": path}, **members))

    def processes(self):
        """Those below the program: the backend's and its guests'."""
        return process_tree(self.process.pid)[1:]

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Guest:
    def __init__(self, driver, answer):
        self.driver, self.number, self.report = driver, answer["guest"], answer.get("report")

    def _ask(self, command, **members):
        return self.driver.ask(command, guest=self.number, **members)

    def execute(self, code, **members):
        """What came of it, as a dictionary: "end", "state", "stdout", "stderr", "error", ..."""
        return self._ask("execute", code=code, **members)

    def run(self, code, **members):
        """What it printed; fails unless it ended well."""
        result = self.execute(code, **members)
        if result["end"] != "ok":
            raise AssertionError("%s: %s\n%s" % (result["end"], result["error"], result["traceback"]))
        return result["stdout"]

    def write(self, path, source):
        return self._ask("write", path=path, **{"from": source})["size"]

    def read(self, path, target):
        return self._ask("read", path=path, to=target)["size"]

    def fork(self, **members):
        return Guest(self.driver, self._ask("fork", **members))

    def save(self, path):
        return self._ask("save", to=path)["size"]

    def limit(self, memory_bytes):
        self._ask("limit", memory_bytes=memory_bytes)

    def usage(self):
        return self._ask("usage")

    def end(self):
        self._ask("end")
