#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks of the real program over standard input and output: what is left of them when the server is killed, and when
several servers of one user run side by side. The tools are those of the fixture plugin. Prints TAP."""
import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import mcp_http  # noqa: E402
from tap import main  # noqa: E402

TIMEOUT_S = 60
META = {"io.modelcontextprotocol/protocolVersion": mcp_http.MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {},
                                                       "extensions": {"io.modelcontextprotocol/tasks": {}}}}


class Server:
    """`mcp-serve` in a home that outlives it."""

    def __init__(self, home):
        project = home / "project"
        project.mkdir(mode=0o700, exist_ok=True)
        (project / ".git").mkdir(exist_ok=True)
        config = project / "test.cfg"
        config.write_text("plugins = ( %s );\n" % mcp_http.fixtures_entry(), encoding="utf-8")
        config.chmod(0o600)
        self.process = subprocess.Popen([mcp_http.PROGRAM, "mcp-serve", "--config", str(config)], cwd=project,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=mcp_http.environment(home))
        self.lines = queue.Queue()
        self.next_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(TIMEOUT_S)
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def request(self, method, **params):
        """The whole answer."""
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": {**params, "_meta": META}}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            answer = self.lines.get(timeout=TIMEOUT_S)
            if answer.get("id") == self.next_id:
                return answer

    def call(self, tool, **arguments):
        result = self.request("tools/call", name=tool, arguments=arguments)["result"]
        assert result["resultType"] == "task", result
        return result["taskId"]

    def get(self, task):
        return self.request("tasks/get", taskId=task)

    def wait(self, task, status):
        deadline = time.monotonic() + TIMEOUT_S
        while (got := self.get(task)["result"])["status"] != status:
            assert time.monotonic() < deadline, got
            time.sleep(0.02)
        return got


@contextlib.contextmanager
def a_home():
    with tempfile.TemporaryDirectory(prefix="sbx-tasks-") as directory:
        yield pathlib.Path(directory)


def test_killed():
    """A server that is killed leaves what had ended; what it worked on has failed."""
    with a_home() as home:
        with Server(home) as server:
            ended, working = server.call("failing_job"), server.call("slow_compute", seconds=300, label="x")
            asking = server.call("confirm_delete", filename="x")
            before = server.wait(ended, "completed")
            server.wait(asking, "input_required")
            server.kill()
        with Server(home) as server:
            after = server.get(ended)["result"]
            assert after["result"] == before["result"], (before, after)
            for task in (working, asking):
                result = server.get(task)["result"]
                assert result["status"] == "failed", result
                assert result["error"]["code"] == -32603, result
                assert "inputRequests" not in result, result


def test_ended_by_its_client():
    """The same when the client closes the server's input."""
    with a_home() as home:
        with Server(home) as server:
            working = server.call("slow_compute", seconds=300, label="x")
        assert server.process.returncode == 0, server.process.returncode
        with Server(home) as server:
            assert server.get(working)["result"]["status"] == "failed"


def test_side_by_side():
    """Clients start a server each: none takes another's tasks for abandoned."""
    with a_home() as home, Server(home) as first, Server(home) as second:
        task = first.call("slow_compute", seconds=300, label="x")
        assert second.get(task)["result"]["status"] == "working"
        other = second.call("slow_compute", seconds=300, label="y")
        assert first.get(other)["result"]["status"] == "working"
        assert "error" in second.request("tasks/cancel", taskId=task)
        assert first.request("tasks/cancel", taskId=task)["result"]["resultType"] == "complete"
        assert second.get(task)["result"]["status"] == "cancelled"


def test_hostile_records():
    """Whatever lies in the directory, the server begins and answers."""
    with a_home() as home:
        with Server(home) as server:
            task = server.call("slow_compute", seconds=300, label="x")
        records = next(home.rglob("mcp-tasks"))
        (records / f"{task}.json").write_bytes(b"[" * 1000000)
        names = ["%032x.json" % i for i in range(5)]
        os.mkfifo(records / names[0])
        os.symlink("/etc/passwd", records / names[1])
        (records / names[2]).mkdir()
        (records / names[3]).write_bytes(b"")
        (records / names[4]).write_bytes(b"{}\n{}\n")
        with Server(home) as server:
            for name in [f"{task}.json", *names]:
                answer = server.get(name.removesuffix(".json"))
                assert answer["error"]["code"] == -32602, answer
            server.wait(server.call("slow_compute", seconds=0.1, label="y"), "completed")
        assert pathlib.Path("/etc/passwd").stat().st_size > 0
        assert sorted(path.name for path in records.iterdir() if path.name in names) == [names[2]]


if __name__ == "__main__":
    main()
