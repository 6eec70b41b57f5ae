# SPDX-License-Identifier: Apache-2.0
"""What the tests of `run` and `agent` share: a model that answers as a scenario of tests/clients/models says, and a project
whose environment leads to it."""
import json
import pathlib
import subprocess

from cli_case import PROGRAM, ROOT, Sandboxed, environment
from model_server import ModelServer

KEY = "sk-test-0123456789abcdef-not-a-real-key"


class RunCase(Sandboxed):
    """A project with a model."""

    def model(self, scenario, argument=""):
        """Starts the mock, which answers as tests/clients/models/SCENARIO.mjs, or the given file, says."""
        path = scenario if isinstance(scenario, pathlib.Path) else ROOT / "tests" / "clients" / "models" / f"{scenario}.mjs"
        self.server = ModelServer(path, argument)
        self.addCleanup(self.server.stop)
        self.variables = dict(self.server.environment(), OPENAI_API_KEY=KEY)
        return self.server

    def requests(self):
        """The chat-completions requests so far, oldest first."""
        return [entry for entry in self.server.requests() if (entry.get("body") or {}).get("messages")]

    def command(self, *args, **kwargs):
        """The program with the model's address and key in its environment."""
        env = dict(getattr(self, "variables", {}), **kwargs.pop("env", {}))
        done = self.run_cli(*args, env=env, **kwargs)
        self.assertNotIn(KEY, done.stdout + done.stderr)
        return done

    def result(self, *args, code=0, **kwargs):
        """The JSON object that the command prints."""
        done = self.command(args[0], "--json", *args[1:], **kwargs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def popen(self, *args, **kwargs):
        env = environment(self.home, **self.variables)
        return subprocess.Popen([PROGRAM, *args], cwd=self.project, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)

    def trajectory(self, run_id):
        """The lines of a run's trajectory file."""
        path = self.project / "logs" / f"{run_id}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def files_with_key(self):
        """Files of the project and the home that hold the key: there must be none."""
        found = []
        for top in (self.project, pathlib.Path(self.home)):
            for path in top.rglob("*"):
                if path.is_file() and KEY.encode() in path.read_bytes():
                    found.append(str(path))
        return found
