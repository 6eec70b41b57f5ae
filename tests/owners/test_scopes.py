# SPDX-License-Identifier: Apache-2.0
"""Containers that several sessions share: found again, left to themselves when nobody needs them, and every session in
them can be interrupted and ended by itself."""
import os
import pathlib
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from owner_case import FACTS, LABEL, PATIENCE, Case, on_each_engine, wait_for  # noqa: E402
from mcp_client import text_of  # noqa: E402
from mcp_http import Client, Server as HttpServer  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main  # noqa: E402

# Command lines of what runs in the container, but for the process that asks.
PROCESSES = """
import glob
def arguments(path):
    try:
        return open(path, "rb").read().split(bytes(1))
    except OSError:
        return []
print(sum(b"%d" in arguments(path) for path in glob.glob("/proc/[0-9]*/cmdline")))
"""


TOKENS = {"alice": "alice-0123456789abcdef", "bob": "bob-0123456789abcdef"}

GRACE = "20s"  # an interrupt is a program that the engine starts: on a busy machine that takes its time


class Scopes(Case):
    scope = "agent"

    def shared_container(self):
        """The only one there is."""
        containers = self.containers("running")
        self.assertEqual([container["Labels"][LABEL + "scope"] for container in containers], [self.scope])
        return containers[0]["Id"]

    def options(self, **more):
        return {"scope": self.scope, "ttl": "10m", **more}

    def test_sessions_share_files_and_not_variables(self):
        server = self.serve(**self.options())
        self.says(server, "x = 1\nopen('/tmp/note', 'w').write('of a')\nprint(x)", "1", session_id="a")
        container = self.shared_container()
        self.says(server, "print('x' in globals(), open('/tmp/note').read())", "False of a", session_id="b")
        self.says(server, "print(x)", "1", session_id="a")
        self.assertEqual(self.shared_container(), container)
        self.end(server)
        self.assertEqual(self.shared_container(), container)

    def test_found_again(self):
        """After an orderly end, and after a kill: what a session installed is still there."""
        server = self.serve(**self.options())
        self.says(server, "open('/tmp/note', 'w').write('42')\nprint('written')", "written")
        container = self.shared_container()
        self.end(server)
        server = self.serve(**self.options())
        self.says(server, "print(open('/tmp/note').read())", "42")
        self.assertEqual(self.shared_container(), container)
        self.kill(server)
        server = self.serve(**self.options())
        self.says(server, "print(open('/tmp/note').read())", "42")
        self.assertEqual(self.shared_container(), container)
        self.end(server)

    def test_other_configuration_is_another_container(self):
        server = self.serve(**self.options())
        self.says(server, "print(1)", "1")
        container = self.shared_container()
        self.end(server)
        server = self.serve(**self.options(memory="300m"))
        self.says(server, "print(2)", "2")
        self.assertEqual(len(self.containers("running")), 2)
        self.assertIn(container, [one["Id"] for one in self.containers("running")])
        self.end(server)

    def test_ends_itself(self):
        """When no session was there for `ttl`, and not before: with its server, and without."""
        server = self.serve(**self.options(ttl="3s"))
        self.says(server, "x = 1\nprint(x)", "1")
        container = self.shared_container()
        self.says(server, "import time\ntime.sleep(5)\nprint(x)", "1")
        self.assertEqual(self.shared_container(), container)
        self.kill(server, with_reaper=True)
        self.assertTrue(wait_for(lambda: not self.containers()))

    def test_background_processes_end_with_their_session(self):
        server = self.serve(**self.options())
        start = ("import subprocess\n"
                 "subprocess.Popen('(setsid sleep %d &)', shell=True).wait()\n"
                 "subprocess.Popen('(env -i setsid sleep %d &)', shell=True).wait()\n"
                 "subprocess.Popen(['sleep', '%d'])\nprint('up')")
        self.says(server, start % (70001, 70001, 70001), "up", session_id="a")
        self.says(server, start % (80001, 80001, 80001), "up", session_id="b")
        self.says(server, PROCESSES % 70001, self.at_least_two(server, 70001), session_id="c")
        server.call("destroy_session", {"session_id": "a"})
        self.assertTrue(wait_for(lambda: self.call(server, PROCESSES % 70001, session_id="c")[2].strip() == "0"),
                        self.logged())
        self.assertNotEqual(self.call(server, PROCESSES % 80001, session_id="c")[2].strip(), "0")
        self.says(server, "print(6 * 7)", "42", session_id="b")
        self.end(server)

    def at_least_two(self, server, number):
        """Those that were left alone: one with another environment may be gone already."""
        text = self.call(server, PROCESSES % number, session_id="c")[2].strip()
        self.assertIn(text, ("2", "3"))
        return text

    def test_timeout_keeps_state(self):
        server = self.serve(**self.options(), grace=GRACE)
        self.says(server, "x = 5\nprint(x)", "5", session_id="a")
        self.says(server, "y = 6\nprint(y)", "6", session_id="b")
        end, state, text = self.call(server, "while True: pass", session_id="a", timeout=1)
        self.assertEqual((end, state), ("timeout", "kept"), text + self.logged())
        self.says(server, "print(x)", "5", session_id="a")
        self.says(server, "print(y)", "6", session_id="b")
        self.end(server)

    def test_one_that_does_not_stop_is_ended_alone(self):
        server = self.serve(**self.options())
        self.says(server, "y = 6\nprint(y)", "6", session_id="b")
        container = self.shared_container()
        stubborn = "import signal, time\nwhile True:\n    try:\n        while True: time.sleep(1)\n    except BaseException: pass"
        end, state, text = self.call(server, stubborn, session_id="a", timeout=1)
        self.assertEqual((end, state), ("timeout", "lost"), text + self.logged())
        self.says(server, "print(y)", "6", session_id="b")
        self.assertEqual(self.shared_container(), container)
        end, _, text = self.call(server, "print(1)", session_id="a")
        self.assertEqual((end, text.split()[-1]), ("ok", "1"), text)  # after a word on what happened
        self.end(server)

    def test_workers_of_a_killed_server_end(self):
        """Also one that is busy, and does not see that nobody listens any more."""
        server = self.serve(**self.options())
        self.says(server, "print(1)", "1")
        container = self.shared_container()
        server.start_call("execute_python", {"code": "open('/tmp/on', 'w')\nn = 90001\nwhile True: pass", "timeout": 300})
        other = self.serve(**self.options())
        workers = "import glob\nprint(sum(open(p).read().rpartition(')')[2].split()[1] == '0' for p in glob.glob('/proc/[0-9]*/stat')))"
        self.assertTrue(wait_for(lambda: self.call(other, "import os\nprint(os.path.exists('/tmp/on'))")[2].strip() == "True"))
        self.says(other, workers, "3")  # process 1, and a worker of each
        self.kill(server)
        self.assertTrue(wait_for(lambda: self.call(other, workers)[2].strip() == "2"), self.logged())
        self.assertEqual(self.shared_container(), container)
        self.end(other)

    def test_many_sessions_leave_nothing(self):
        server = self.serve(**self.options())
        alive = "import glob\nprint(len(glob.glob('/proc/[0-9]*')))"

        def counts():
            pid = server.process.pid
            return len(os.listdir(f"/proc/{pid}/fd")), self.call(server, alive)[2].strip()

        def session(number):
            self.says(server, "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nprint(1)", "1",
                      session_id="s%d" % number)
            server.call("destroy_session", {"session_id": "s%d" % number})

        session(0)
        self.assertTrue(wait_for(lambda: self.call(server, alive)[2].strip() == "2"))
        before = counts()
        for number in range(1, 16):
            session(number)
        # Connections to the engine come and go; one descriptor for each session would be 15.
        self.assertTrue(wait_for(lambda: counts()[0] < before[0] + 8), (before, counts()))
        self.assertTrue(wait_for(lambda: counts()[1] == before[1]), (before, counts()))
        self.end(server)

    def test_owners(self):
        """Each principal's sessions in a container of its own, or all in one."""
        tokens = pathlib.Path(self.home, "tokens")
        tokens.write_text("".join("%s %s\n" % item for item in TOKENS.items()), encoding="utf-8")
        tokens.chmod(0o600)
        with HttpServer("--token-file", str(tokens), config=self.config_text(**self.options()), timeout=PATIENCE) as server:
            self.home = os.path.join(server.directory.name, "home")
            seen = {}
            for name, token in TOKENS.items():
                with Client(server.url, timeout=PATIENCE, headers={"Authorization": "Bearer " + token}) as client:
                    for session in ("a", "b"):
                        code = "import os\nopen('/tmp/%s', 'w')\nprint(sorted(os.listdir('/tmp')))" % name
                        result = client.call("execute_python", {"code": code, "session_id": session})
                        seen[name] = text_of(result).strip()
            both = self.scope == "shared"
            self.assertEqual(seen["alice"], "['alice']")
            self.assertEqual(seen["bob"], "['alice', 'bob']" if both else "['bob']")
            self.assertEqual(len(self.containers("running")), 1 if both else 2)
            self.assertNotRegex(str(self.containers()), "alice|bob")
            self.remove_all()

    HOSTILE = """
import glob, os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            parent, pid = open(path).read().rpartition(')')[2].split()[1], int(path.split('/')[2])
            if parent == '0' and pid not in (1, os.getpid()):
                os.kill(pid, 9)
        except OSError:
            pass
"""

    def test_one_that_ends_whoever_comes_to_end_it(self):
        """The engine knows that it still runs: then the container goes, for it alone was in it."""
        server = self.serve(**self.options())
        self.says(server, "print(1)", "1")
        container = self.shared_container()
        end, state, text = self.call(server, self.HOSTILE, timeout=1)
        self.assertEqual((end, state), ("timeout", "lost"), text + self.logged())
        self.assertFalse(self.exists(container))
        self.assertEqual(self.call(server, "print(2)")[0], "ok")
        server.start_call("execute_python", {"code": "open('/tmp/on', 'w')\n" + self.HOSTILE, "timeout": 300})
        time.sleep(1)
        self.assertTrue(self.containers("running"))
        self.kill(server)
        self.nothing_left()

    def test_process_one_does_not_yield(self):
        server = self.serve(**self.options())
        self.says(server, "import os, signal\nfor n in (1, 2, 9, 15):\n    os.kill(1, n)\nprint('sent')", "sent")
        container = self.shared_container()
        self.says(server, "import time\ntime.sleep(1.5)\nprint(open('/proc/1/comm').read().strip())", "python3")
        self.assertEqual(self.shared_container(), container)
        self.end(server)


    def test_other_languages(self):
        """Keeper and killer in what the image has: a timeout keeps state, the end of one session leaves the other."""
        for language, first, second, forever in (
                ("javascript", "globalThis.x = 5; console.log(x)", "console.log(x + 1)", "for (;;) {}"),
                ("bash", "x=5; echo $x", "echo $((x + 1))", "while :; do :; done")):
            with self.subTest(language):
                server = self.serve(**self.options(runtimes=["node:node=" + self.engine.image]), grace=GRACE)
                self.runs(server, language, first, "5", session_id="a")
                self.runs(server, language, first, "5", session_id="b")
                facts, text = self.run_code(server, language, forever, session_id="a", timeout=1)
                self.assertEqual((facts.get("end"), facts.get("state")), ("timeout", "kept"), text + self.logged())
                self.runs(server, language, second, "6", session_id="a")
                server.call("destroy_session", {"session_id": "a"})
                self.runs(server, language, second, "6", session_id="b")
                self.kill(server)
                server = self.serve(**self.options(runtimes=["node:node=" + self.engine.image]))
                self.runs(server, language, first, "5")
                self.end(server)
                self.assertEqual(len(self.containers("running")), 1, language)
                self.remove_all()

    def run_code(self, server, language, code, **arguments):
        result = server.call("execute_code", {"language": language, "code": code, **arguments})
        return result.get("_meta", {}).get(FACTS, {}), text_of(result)

    def runs(self, server, language, code, expected, **arguments):
        facts, text = self.run_code(server, language, code, **arguments)
        self.assertEqual((facts.get("end"), text.strip()), ("ok", expected), text + self.logged())


class SharedScope(Scopes):
    scope = "shared"


on_each_engine(globals(), Scopes, SharedScope)

if __name__ == "__main__":
    main()
