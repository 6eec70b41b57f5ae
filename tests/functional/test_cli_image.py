#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`image list`, `image build`, `image prune`, and a repository's own tests in an image that was prepared for it: by real
engines. Environment: KIND is "docker" or "podman"."""
import contextlib
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "engines")]
import engines  # noqa: E402
from tap import main, note  # noqa: E402
from cli_case import PROGRAM, Case, Terminal, environment  # noqa: E402
from mcp_client import Server  # noqa: E402

KIND = os.environ.get("KIND", "docker")
PREPARED = r"snipara-sandbox-workspace:[0-9a-f]{32}"

stack = contextlib.ExitStack()
engine = None


def setUpModule():
    global engine
    engine = stack.enter_context(engines.shared(KIND))


def tearDownModule():
    stack.close()


class Images(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_images)

    def remove_images(self):
        """What was prepared for this test's project."""
        self.run_cli("image", "prune", *self.settings())

    def settings(self, **more):
        values = {"docker.engine": engine.address, "docker_image": engine.image, "docker.pool": 0, **more}
        return [word for item in values.items() for word in ("--set", "%s=%s" % item)]

    def prepared(self, rows):
        return [row for row in rows if row["prepared"]]

    def test_list(self):
        text = self.ok("image", "list", *self.settings()).stdout
        self.assertRegex(text, r"(?m)^IMAGE +RUNTIMES +SIZE +CREATED +STATE$")
        self.assertRegex(text, r"(?m)^%s +python, bash +\d+ MB +20\d\d-\d\d-\d\d +here" % re.escape(engine.image))
        self.assertRegex(text, r"(?m)^python:3\.10-slim +python3\.10 +- +- +not here yet$")
        rows = json.loads(self.ok("image", "list", "--env", "docker", "--json", *self.settings()).stdout)
        self.assertEqual({row["runtime"] for row in rows} & {"python", "bash", "node"}, {"python", "bash", "node"})
        for row in rows:
            self.assertEqual(set(row), {"id", "name", "runtime", "size", "created", "prepared", "in_use"})
        note(text)

    def test_why_a_backend_is_refused(self):
        """Its options are wrong: that is what has to be said, not that there is none."""
        for words in ((), ("--env", "docker")):
            done = self.run_cli("image", "build", *words, *self.settings(docker_workspace_install_extras="x;rm -rf /"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn('workspace_install_extras: "x;rm -rf /" is no requirement', done.stderr)

    def test_build_and_prune(self):
        setup = self.settings(docker_workspace_setup="tests-only")
        rows = json.loads(self.ok("image", "build", "--json", *setup).stdout)
        self.assertEqual(len(self.prepared(rows)), 1)
        self.assertTrue(self.prepared(rows)[0]["in_use"])
        done = self.ok("image", "build", "--verbose", *setup)  # it is there
        self.assertNotIn("preparing", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^%s +python +\d+ MB +\S+ +prepared for this project$" % PREPARED)
        self.assertNotIn("not here yet", done.stdout)
        note(done.stdout)
        self.assertEqual(self.ok("image", "prune", *setup).stdout, "nothing to remove\n")
        done = self.ok("image", "list", *self.settings())
        self.assertIn("prepared, no longer needed", done.stdout)
        done = self.ok("image", "prune", *self.settings())
        self.assertRegex(done.stdout, r"^removed %s\n1 image, \d+ MB" % PREPARED)
        answer = json.loads(self.ok("image", "prune", "--json", *self.settings()).stdout)
        self.assertEqual(answer, {"removed": [], "bytes": 0})

    def test_progress_on_a_terminal(self):
        terminal = Terminal(self, "image", "build", *self.settings(docker_workspace_install_command="echo; sleep 1"))
        self.assertEqual(terminal.exit_code(120), 0, terminal.text)
        self.assertIn("preparing an image for the project", terminal.text)
        self.assertIn("\r\033[K", terminal.text)  # the line goes away
        self.assertIn("prepared for this project", terminal.text)

    def test_failures(self):
        done = self.fails(3, "image", "build", *self.settings(docker_workspace_install_command="echo the reason; exit 1"),
                          says=["could not be prepared", "the reason", "hint: "])
        note(done.stderr)
        self.fails(2, "image", "list", *self.settings(**{"docker.engine": "unix:///nonexistent.sock"}), says="hint: ")
        self.fails(2, "image", "list", "--env", "local", *self.settings(), says="the backend local has no images")
        self.fails(2, "image", "list", "--env", "nothing", *self.settings(), says="nothing")
        self.fails(2, "image", "list", "word", *self.settings())
        self.fails(2, "image", says="image needs a second word")

    def test_tests_of_a_repository(self):
        """They run in the project's own directory, to be read and not written, with pytest from the image."""
        self.project.chmod(0o755)  # code in the container is somebody else
        self.project.joinpath("calc").mkdir()
        self.project.joinpath("tests").mkdir()
        self.write("calc/__init__.py", "def add(a, b):\n    return a + b\n\n\nasync def later(value):\n    return value\n")
        self.write("tests/test_calc.py", """import os

import pytest

import calc


def test_add():
    assert calc.add(1, 2) == 3


@pytest.mark.asyncio
async def test_later():
    assert await calc.later("x") == "x"


def test_nobody_writes_the_project():
    with pytest.raises(OSError):
        open("/workspace/new", "w")
    assert os.getuid() != 0


@pytest.mark.parametrize("number", range(3))
def test_wrong(number):
    assert calc.add(number, 1) != 2
""")
        code = ("import subprocess, sys\n"
                "done = subprocess.run([sys.executable, '-m', 'pytest', '-v', '/workspace'], capture_output=True, text=True)\n"
                "print(done.stdout, done.stderr)\n"
                "result = done.returncode")
        done = self.ok("exec", "--env", "docker", "--json", "-c", code,
                       *self.settings(docker_workspace_setup="tests-only"))
        result = json.loads(done.stdout)
        output = result["stdout"] if "stdout" in result else done.stdout
        self.assertIn("5 passed", output)
        self.assertIn("1 failed", output)
        self.assertIn("test_calc.py::test_wrong[1] FAILED", output)
        self.assertNotIn("could not create cache", output)
        self.assertEqual(sorted(path.name for path in self.project.rglob("*")),
                         [".git", "__init__.py", "calc", "test_calc.py", "tests"])
        note(output)

    def test_image_that_goes_away(self):
        """A server that knew it finds out when it makes the next container, and prepares it again."""
        settings = self.settings(docker_workspace_setup="tests-only", docker_mount_workspace="false")
        with Server([PROGRAM, "mcp-serve", *settings, "--set", "environment=docker"], timeout=120, cwd=self.project,
                    env=environment(self.home)) as server:
            server.initialize()

            def call(name, **arguments):
                answer = server.ask("tools/call", {"name": name, "arguments": arguments})
                self.assertFalse(answer["result"].get("isError"), answer)
                return answer["result"]["content"][0]["text"]

            code = "import pytest; print('it is here')"
            self.assertIn("it is here", call("execute_python", code=code, session_id="first"))
            call("destroy_session", session_id="first")
            end = time.monotonic() + 60
            while "removed " not in self.ok("image", "prune", *self.settings()).stdout:
                self.assertLess(time.monotonic(), end, "the first session's container keeps the image in use")
            self.assertIn("it is here", call("execute_python", code=code, session_id="second"))


if __name__ == "__main__":
    main()
