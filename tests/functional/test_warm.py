#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The warm-up of a server: nobody waits for it who needs no guest, whoever does finds one, and the end of the server is its
end."""
import ctypes
import errno
import os
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mcp_client import Server, alive, process_tree, text_of, wait_until_dead  # noqa: E402
from tap import main, note  # noqa: E402

PROGRAM = os.environ["SNIPARA_SANDBOX"]
HANGING = os.environ["SBX_HANGING_PYTHON"]
ROUNDS = 100
PR_SET_CHILD_SUBREAPER = 36


class Directory(tempfile.TemporaryDirectory):
    """A project and a home of a test's own."""

    def __enter__(self):
        return self

    def environment(self):
        env = {name: value for name, value in os.environ.items() if name.startswith(("SNIPARA_SANDBOX", "PATH", "LD_", "ASAN",
                                                                                     "UBSAN", "LSAN", "TSAN"))}
        return dict(env, HOME=self.name, XDG_STATE_HOME=os.path.join(self.name, "state"))

    def server(self, *arguments):
        return Server([PROGRAM, "mcp-serve", *arguments], env=self.environment(), cwd=self.name)


def hanging():
    """Settings with which the backend never comes up."""
    return ["--set", "local.isolation=none", "--set", "local.python=" + HANGING]


def answer_to(server, request_id):
    """The response; what comes beside it is passed over."""
    while True:
        message = server.message()
        if message.get("id") == request_id and "method" not in message:
            return message


def test_nobody_waits_who_needs_no_guest():
    with Directory() as directory, directory.server(*hanging()) as server:
        assert server.initialize()["serverInfo"]["name"]
        tools = answer_to(server, server.request("tools/list"))["result"]["tools"]
        assert "execute_python" in [tool["name"] for tool in tools]
        assert answer_to(server, server.request("prompts/list"))["result"]["prompts"]
        assert not answer_to(server, server.start_call("list_sessions"))["result"].get("isError")
        waiting = server.start_call("execute_python", {"code": "1"})
        assert answer_to(server, server.request("ping"))["result"] == {}
        server.notify("notifications/cancelled", {"requestId": waiting})
        assert answer_to(server, server.request("ping"))["result"] == {}


def test_it_ends_while_it_hangs():
    for how in ("end of file", "SIGTERM", "SIGINT"):
        with Directory() as directory, directory.server(*hanging()) as server:
            server.initialize()
            server.start_call("execute_python", {"code": "1"})
            answer_to(server, server.request("ping"))
            tree = process_tree(server.process.pid)
            if how == "end of file":
                server.close_input()
            else:
                server.process.send_signal(getattr(signal, how))
            server.wait(20)
            assert wait_until_dead(tree) == [], how


def test_whoever_needs_a_guest_finds_one():
    """Beside the warm-up, and when the pool is refilled again and again."""
    with Directory() as directory, directory.server() as server:
        server.initialize()
        assert text_of(answer_to(server, server.start_call("execute_python", {"code": "6 * 7"}))["result"]).startswith("42")
        for number in range(20):
            result = answer_to(server, server.start_call("execute_python", {"code": "1", "session_id": f"s{number}"}))["result"]
            assert not result.get("isError"), result


def reap():
    """Waits for every process that was left to us; how many there were."""
    count = 0
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except OSError as error:
            assert error.errno == errno.ECHILD
            return count
        if pid == 0:
            time.sleep(0.005)
        else:
            count += 1
    raise AssertionError("processes of the server are still there: %r" % alive(process_tree(os.getpid())[1:]))


def test_starts_and_stops():
    """At any moment of the warm-up: it ends at once, as it should, and nothing is left. Orphans become ours."""
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    dice = random.Random(4)
    codes = set()
    with Directory() as directory:
        for number in range(ROUNDS):
            with directory.server() as server:
                if number % 4 != 0:
                    server.initialize()
                if number % 4 == 2:
                    server.start_call("execute_python", {"code": "1"})
                time.sleep(dice.uniform(0, 0.08))
                if number % 3 == 0:
                    server.terminate()
                else:
                    server.close_input()
                codes.add(server.wait(30))
            reap()
    note("exit codes: %r" % sorted(codes))
    assert codes <= {0, -signal.SIGTERM}, codes  # a signal may come before it is listened to


def test_descriptors_do_not_grow():
    """Two servers, with a hundred sessions between the first look and the last."""
    with Directory() as directory, directory.server("--set", "max_sessions=8") as server:
        server.initialize()

        def sessions(names):
            for name in names:
                result = answer_to(server, server.start_call("execute_python", {"code": "1", "session_id": name}))["result"]
                assert not result.get("isError"), result
                answer_to(server, server.start_call("destroy_session", {"session_id": name}))

        def descriptors():
            """When the reaper has swept up and the pool is full again: the least of some looks."""
            counts = []
            for _ in range(40):
                counts.append(len(os.listdir("/proc/%d/fd" % server.process.pid)))
                time.sleep(0.02)
            return min(counts)

        sessions("first%d" % number for number in range(10))
        before = descriptors()
        sessions("more%d" % number for number in range(100))
        after = descriptors()
        note("descriptors: %d, then %d" % (before, after))
        assert after <= before + 16, (before, after)  # two guests of the pool have some


if __name__ == "__main__":
    main()
