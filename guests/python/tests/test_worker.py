# SPDX-License-Identifier: Apache-2.0
"""The worker as a plain process, driven over the guest protocol: executions, tracebacks, starts."""

import os
import struct
import subprocess
import tempfile
import time
import unittest

from guest_case import MIB, GuestTest
from harness import EXEC, HELLO, READY, TOOL_RESULT, Guest, Lost


class ExecutionTest(GuestTest):
    def test_ready(self):
        self.assertEqual(self.guest.ready["protocol"], 1)
        self.assertEqual(self.guest.ready["runtime"], "python")
        self.assertIn("display", self.guest.ready["features"])

    def test_state_values_and_output(self):
        self.assertEqual(self.run_ok("import sys\nx = 1\nprint('out')\nprint('err', file=sys.stderr)"),
                         {"id": 1, "end": "ok", "names": ["x"], "stdout": "out\n", "stderr": "err\n", "displays": []})
        result = self.run_ok("x + 1")
        self.assertEqual(result["value"], "2")
        self.assertNotIn("names", result)

    def test_result(self):
        result = self.run_ok("result = {'a': [1, 2.5, None]}")
        self.assertEqual((result["result"], result["json"]), ("{'a': [1, 2.5, None]}", {"a": [1, 2.5, None]}))
        self.assertNotIn("result", self.run_ok("x = 5"))
        self.assertNotIn("result", self.run_ok("result"))
        self.assertEqual(self.run_ok("result = result")["json"], {"a": [1, 2.5, None]})
        result = self.run_ok("result = object")
        self.assertEqual(result["result"], "<class 'object'>")
        self.assertNotIn("json", result)

    def test_last_value_is_bounded(self):
        self.assertLess(len(self.run_ok("list(range(10 ** 7))")["value"]), 70000)
        self.assertLess(len(self.run_ok("'x' * 10 ** 8")["value"]), 140000)
        self.assertIn("raised ValueError", self.run_ok("class C:\n def __repr__(self): raise ValueError\nC()")["value"])

    def test_empty_code(self):
        for code in ("", "\n\n", "# comment", "pass", "\ufeff"):
            self.run_ok(code)

    def test_bad_source(self):
        self.assertIn("NUL", self.run_error("x = 1\0", "SyntaxError")["message"])
        self.assertIn("UTF-8", self.run_error(b"x = '\xff'", "SyntaxError")["message"])
        self.run_error("x = (", "SyntaxError")
        self.assertIn("^", self.run_error("x = = 1", "SyntaxError")["traceback"])
        for source in ("-" * 100000 + "1", "(" * 5000, "x" + ".y" * 100000, "[" * 150 + "]" * 150):
            self.assertIn(self.guest.run(source)["end"], ("ok", "error", "memory"), source[:10])
        self.run_error(b"x = '\xed\xa0\x80'", "SyntaxError")  # a surrogate
        self.run_ok("1")

    def test_surrogates_and_nul_in_output(self):
        result = self.run_ok("print('a\\ud800b\\0c')\n'\\ud800\\0'")
        self.assertEqual(result["stdout"], "a\\ud800b\0c\n")
        self.assertEqual(result["value"], "'\\ud800\\x00'")
        self.assertEqual(self.run_error("raise ValueError('\\ud800')", "ValueError")["message"], "\ufffd")

    def test_large_sources(self):
        lines = 10 * MIB // 20
        result = self.run_ok("x = 'aaaaaaaaaaaaa'\n" * lines + "len(x)")
        self.assertEqual(result["value"], "13")
        self.assertEqual(self.run_ok("x = '" + "a" * 10 * MIB + "'\nlen(x)")["value"], str(10 * MIB))

    def test_exit(self):
        self.run_ok("x = 1\nimport sys\nsys.exit()")
        self.run_ok("raise SystemExit(0)")
        self.run_ok("exit()")
        self.assertIn("exit code 3", self.run_error("import sys\nsys.exit(3)", "SystemExit")["message"])
        self.assertEqual(self.run_error("import sys\nsys.exit('why')", "SystemExit")["message"], "why")
        self.assertEqual(self.run_ok("x")["value"], "1")

    def test_input(self):
        error = self.run_error("input('name? ')", "EOFError")
        self.assertIn("Pass data as variables", error["message"])
        self.assertNotIn("session.py", error["traceback"])
        self.assertEqual(self.run_ok("import sys\nsys.stdin.read()")["value"], "''")

    def test_main_module(self):
        self.run_ok(
            "import pickle, dataclasses, typing\n@dataclasses.dataclass\nclass P:\n    x: int\n"
            "    y: 'typing.List[int]'\n"
        )
        result = self.run_ok("pickle.loads(pickle.dumps(P(1, [2]))), typing.get_type_hints(P)['x'], __name__")
        self.assertEqual(result["value"], "(P(x=1, y=[2]), <class 'int'>, '__main__')")
        self.assertEqual(self.run_ok("import __main__\n__main__.P is P")["value"], "True")

    def test_inspect_and_traceback_see_sources(self):
        self.run_ok("def f():\n    return 1 / 0\n")
        result = self.run_ok("import inspect\ninspect.getsource(f)")
        self.assertEqual(result["value"], repr("def f():\n    return 1 / 0\n"))
        self.assertIn("return 1 / 0", self.run_ok(
            "import traceback\ntry:\n    f()\nexcept Exception:\n    traceback.print_exc()"
        )["stderr"])
        error = self.run_error("f()", "ZeroDivisionError")
        self.assertIn('File "<execution>", line 2, in f\n    return 1 / 0', error["traceback"])
        self.assertIn('File "<execution 4>", line 1, in <module>\n    f()', error["traceback"])

    def test_warnings_show_their_line(self):
        self.assertIn("warnings.warn('careful')", self.run_ok("import warnings\nwarnings.warn('careful')")["stderr"])

    def test_workspace_modules_can_be_imported(self):
        with tempfile.TemporaryDirectory() as directory, Guest(cwd=directory) as guest:
            guest.run("open('helper.py', 'w').write('x = 42')")
            self.assertEqual(guest.run("import helper\nhelper.x")["value"], "42")
            self.assertEqual(os.listdir(directory), ["helper.py"])

    def test_recursion(self):
        self.assertLess(len(self.run_error("def f(): f()\nf()", "RecursionError")["traceback"]), 10000)
        self.run_ok("import sys\nsys.setrecursionlimit(60)")
        self.run_ok("x = 1\nx")
        self.run_ok("'[' * 150 + ']' * 150\nimport json, asyncio")

    def test_what_failed_code_held_is_let_go_at_once(self):
        self.run_ok("import gc, weakref\ngc.disable()\nclass Hoard: pass\nalive = []")
        self.run_error("def f():\n    held = Hoard()\n    alive.append(weakref.ref(held))\n    1 / 0\nf()", "ZeroDivisionError")
        self.run_error("def g():\n    held = [Hoard()]\n    try: f()\n    finally: held.x\ng()", "AttributeError")
        self.assertEqual(self.run_ok("[one() for one in alive]")["value"], "[None, None]")
        self.run_ok("gc.enable()")

    def test_memory_error(self):
        result = self.guest.run("x = 'keep'\ny = bytearray(1 << 40)")
        self.assertEqual((result["end"], result["error"]["type"]), ("memory", "MemoryError"))
        result = self.guest.run("z = [bytes(1 << 20) for i in range(1000)]", memory_bytes=300 * MIB)
        self.assertEqual(result["end"], "memory", result)
        self.assertEqual(self.run_ok("x")["value"], "'keep'")
        result = self.guest.run("z = []\nwhile True: z.append(list(range(1000)))", memory_bytes=200 * MIB)
        self.assertEqual(result["end"], "memory", result)
        self.run_ok("del z\nx")
        self.assertEqual(self.run_ok("len(bytes(400 << 20))")["value"], str(400 << 20))

    def test_names(self):
        self.assertEqual(self.run_ok("import os\na = 1\n_b = 2\ndef f(): pass")["names"], ["a", "_b", "f"])
        self.assertEqual(self.run_ok("del a")["names"], ["_b", "f"])

    def test_call_counts_are_not_confused_by_stale_tool_results(self):
        self.guest.send(TOOL_RESULT, {"call": 1, "ok": True}, b"1")
        self.run_ok("1")

    def test_requests_that_break_the_protocol_end_the_worker(self):
        self.guest.send_raw(struct.pack("<IB", 100 * MIB, EXEC))
        with self.assertRaises(Lost):
            self.guest.wait()


class TracebackTest(GuestTest):
    def test_only_frames_of_the_user(self):
        trace = self.run_error("def f():\n    raise ValueError('x')\nf()", "ValueError")["traceback"]
        self.assertEqual(trace.count("File "), 2)
        self.assertNotIn("sbx_guest", trace)
        trace = self.run_error(
            "import asyncio\nasync def g():\n    await asyncio.sleep(0)\n    1/0\nawait g()",
            "ZeroDivisionError")
        self.assertEqual(trace["traceback"].count("File "), 2, trace["traceback"])

    def test_a_million_lines_are_cut(self):
        start = time.monotonic()
        error = self.run_error("raise ValueError('\\n' * 1000000)", "ValueError")
        self.assertLess(len(error["message"]) + len(error["traceback"]), 100000)
        code = "e = None\nfor i in range(300000):\n    n = ValueError(i)\n    n.__context__ = e\n    e = n\nraise e"
        self.assertLess(len(self.run_error(code, "ValueError")["traceback"]), 10000)
        self.assertLess(time.monotonic() - start, 20)

    def test_str_that_never_ends_can_be_interrupted(self):
        code = "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E"
        result = self.guest.run_interrupted(code)
        self.assertEqual(result["end"], "error")
        self.assertEqual(result["error"]["type"], "E")
        self.run_ok("1")

    def test_repr_that_never_ends_can_be_interrupted(self):
        result = self.guest.run_interrupted("class C:\n    def __repr__(self):\n        while True: pass\nC()")
        self.assertEqual(result["end"], "interrupted")


class InitTest(unittest.TestCase):
    """With the worker as process 1 of a pid namespace."""

    prefix = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")

    def setUp(self):
        try:
            subprocess.run([*self.prefix, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no pid namespace can be had here: {error}")
        self.guest = Guest(prefix=self.prefix)
        self.addCleanup(self.guest.close)

    def processes(self):
        return eval(self.guest.run(
            "import os\n[int(p) for p in os.listdir('/proc') if p.isdigit()]"
        )["value"])  # noqa: S307

    def test_interrupt_ends_all_processes(self):
        self.guest.run("import subprocess\nfor i in range(5): subprocess.Popen(['sleep', '1000'])")
        self.assertEqual(len(self.processes()), 6)
        self.assertEqual(self.guest.run_interrupted("while True: pass")["end"], "interrupted")
        self.assertEqual(self.processes(), [1])

    def test_offspring_that_never_ends(self):
        """A fork bomb without its fuse: nothing here limits the number of processes."""
        code = "import os, time\nfor i in range(5): os.fork()\nwhile True: time.sleep(0.01)"
        self.assertEqual(self.guest.run_interrupted(code, after=1)["end"], "interrupted")
        self.assertEqual(self.processes(), [1])

    def test_failing_fork_ends_the_offspring(self):
        code = (
            "import os, time, errno\n"
            "for i in range(4):\n    os.fork()\n"
            "if os.getpid() != 1:\n    time.sleep(1000)\n"
            "raise BlockingIOError(errno.EAGAIN, 'what fork says at the limit')"
        )
        self.assertEqual(self.guest.run(code)["end"], "error")
        self.assertEqual(self.processes(), [1])

    def test_orphans_are_buried_and_exit_codes_kept(self):
        self.guest.run(
            "import subprocess, time\n"
            "subprocess.run(['sh', '-c', '(sleep 0.1; exit 1) & (sleep 0.1) &'])\n"
            "p = subprocess.Popen(['sh', '-c', 'exit 5'])\ntime.sleep(0.5)"
        )
        time.sleep(0.3)
        self.guest.run("1")
        self.assertEqual(len(self.processes()), 2)  # this one, and the zombie that p asks for
        self.assertEqual(self.guest.run("p.wait()")["value"], "5")


class StartTest(unittest.TestCase):
    def test_waits_for_hello(self):
        with Guest(greet=False) as guest:
            with self.assertRaises(TimeoutError):
                guest.wait(0.3)
            guest.send(HELLO, {"protocol": 1, "session": "x"})
            self.assertEqual(guest.wait()[0], READY)

    def test_greeted_again(self):
        """As the copy of a session is: it has the variables, and other random numbers than where it comes from."""
        with Guest() as guest:
            guest.run("import random\nrandom.seed(1)\nx = 5")
            guest.send(HELLO, {"protocol": 1, "session": "copy"})
            kind, ready, _blob = guest.wait()
            self.assertEqual((kind, ready["runtime"], ready["names"]), (READY, "python", ["x"]))
            told = guest.run("(x, random.random() == random.Random(1).random())")
            self.assertEqual(told["value"], "(5, False)")

    def test_end_of_stream_ends_it(self):
        with Guest(greet=False) as guest:
            guest.socket.shutdown(2)
            self.assertEqual(guest.process.wait(10), 0)

    def test_other_first_frames_are_refused(self):
        with Guest(greet=False) as guest:
            guest.send(EXEC, {"id": 1}, b"x")
            with self.assertRaises(Lost):
                guest.wait()
            self.assertIn(b"not `hello`", guest.read_pipes())

    def test_works_with_site(self):
        with Guest(options=()) as guest:
            self.assertEqual(guest.run("1 + 1")["value"], "2")
