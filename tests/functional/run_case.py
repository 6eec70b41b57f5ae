# SPDX-License-Identifier: Apache-2.0
"""What the tests of `run` and `agent` share: a model that answers as a scenario of tests/clients/models says, and a project
whose environment leads to it."""
import json
import pathlib
import subprocess
import urllib.request

from cli_case import PROGRAM, ROOT, TIMEOUT, Sandboxed, environment
from tap import skip

CLIENTS = ROOT / "tests" / "clients"
KEY = "sk-test-0123456789abcdef-not-a-real-key"


def node():
    """The Node of tests/clients, which is recent enough for the mock server."""
    own = CLIENTS / "node_modules" / "node" / "bin" / "node"
    return str(own) if own.exists() else "node"


class Model:
    """The mock server, answering as tests/clients/models/NAME.mjs says."""

    def __init__(self, case, scenario, argument=""):
        if not (CLIENTS / "node_modules" / "@copilotkit" / "aimock").is_dir():
            skip("the mock server is not there: run npm ci in tests/clients")
        path = scenario if isinstance(scenario, pathlib.Path) else CLIENTS / "models" / f"{scenario}.mjs"
        self.process = subprocess.Popen([node(), str(CLIENTS / "model.mjs"), str(path), str(argument)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        case.addCleanup(self.close)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def requests(self):
        """Every chat-completions request so far, oldest first."""
        with urllib.request.urlopen(self.url + "/__aimock/journal?limit=100000", timeout=TIMEOUT) as answer:
            entries = json.load(answer)
        return [entry for entry in entries if (entry.get("body") or {}).get("messages")]

    def close(self):
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait(TIMEOUT)
            self.process.stdin = None


class RunCase(Sandboxed):
    """A project with a model."""

    def model(self, scenario, argument=""):
        self.server = Model(self, scenario, argument)
        self.variables = {"OPENAI_BASE_URL": self.server.url + "/v1", "OPENAI_API_KEY": KEY}
        return self.server

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
