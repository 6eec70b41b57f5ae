# SPDX-License-Identifier: Apache-2.0
"""The worker as a plain process, driven over the guest protocol."""

import os
import struct
import subprocess
import tempfile
import time
import unittest

from harness import (
    CLEAR,
    DISPLAY,
    EXEC,
    FILE_LIST,
    FILE_READ,
    FILE_WRITE,
    GET,
    HELLO,
    READY,
    SET,
    TOOL_CALL,
    TOOL_RESULT,
    Guest,
    Lost,
)

MIB = 1 << 20


class GuestTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.guest = Guest(**self.options)
        self.addCleanup(self.guest.close)

    def run_ok(self, code, **header):
        result = self.guest.run(code, **header)
        self.assertEqual(result["end"], "ok", result)
        return result

    def run_error(self, code, kind, **header):
        result = self.guest.run(code, **header)
        self.assertEqual((result["end"], result["error"]["type"]), ("error", kind), result)
        return result["error"]


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


class StreamTest(GuestTest):
    def test_replaced_and_closed_streams_come_back(self):
        self.assertEqual(self.run_ok("import sys, io\nsys.stdout = io.StringIO()\nprint('lost')")["stdout"], "")
        self.assertEqual(self.run_ok("print('seen')")["stdout"], "seen\n")
        for code in ("sys.stdout.close()", "sys.stdout.detach()", "sys.stdout.buffer.close()", "del sys.stdout",
                     "sys.stdout = None", "import os; os.close(1)", "sys.stderr.close(); sys.stdin.close()"):
            self.guest.run("import sys\n" + code)
            self.assertEqual(self.run_ok("print('seen')")["stdout"], "seen\n", code)

    def test_redirected_descriptors_come_back(self):
        self.run_ok("import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)\nprint('lost')")
        self.assertEqual(self.run_ok("os.write(1, b'seen')")["stdout"], "seen")

    def test_wrapped_stream_is_flushed(self):
        code = (
            "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, write_through=False)\n"
            "sys.stdout.write('seen')"
        )
        self.assertEqual(self.run_ok(code)["stdout"], "seen")
        code = (
            "class S:\n    def write(self, t): pass\n    def flush(self): raise OSError\nimport sys\n"
            "sys.stdout = S()\nprint(1)"
        )
        self.run_ok(code)

    def test_order_with_subprocesses(self):
        code = "import subprocess\nprint(1)\nsubprocess.run(['echo', '2'])\nprint(3)"
        self.assertEqual(self.run_ok(code)["stdout"], "1\n2\n3\n")

    def test_flood(self):
        result = self.run_ok("import sys\nfor i in range(200): sys.stdout.write('x' * (1 << 20))")
        self.assertEqual(len(result["stdout"]), 200 << 20)

    def test_native_output(self):
        code = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'native')\nlibc.fflush(None)"
        self.assertEqual(self.run_ok(code)["stdout"], "native\n")

    def test_closing_every_descriptor_ends_the_worker(self):
        with self.assertRaises((Lost, TimeoutError)):
            self.guest.run("import os\nos.closerange(0, 65536)", seconds=5)


class FramedTest(GuestTest):
    options = {"framed": True}

    def test_output_comes_in_frames(self):
        code = "import sys, subprocess\nprint('out')\nprint('err', file=sys.stderr)\nsubprocess.run(['echo', 'child'])"
        result = self.run_ok(code)
        self.assertEqual((result["stdout"], result["stderr"]), ("out\nchild\n", "err\n"))
        self.assertEqual(bytes(self.guest.pipes[self.guest.out]), b"")

    def test_flood(self):
        self.assertEqual(len(self.run_ok(
            "import sys\nfor i in range(50): sys.stdout.write('x' * (1 << 20))"
        )["stdout"]), 50 << 20)

    def test_interrupts_do_not_tear_frames(self):
        for _ in range(5):
            result = self.guest.run_interrupted("while True: print('x' * 1000)", after=0.05, every=0.05)
            self.assertEqual(result["end"], "interrupted")
        self.assertEqual(self.run_ok("print('seen')")["stdout"][-5:], "seen\n")


class InterruptTest(GuestTest):
    def test_loops_and_sleeps(self):
        for code in ("while True: pass", "import time\ntime.sleep(1e6)", "import asyncio\nawait asyncio.sleep(1e6)",
                     "import threading\nthreading.Event().wait()",
                     "import subprocess\nsubprocess.run(['sleep', '1000'])",
                     "sum(x for x in iter(int, 1))"):
            result = self.guest.run_interrupted("x = 1\n" + code, after=0.3)
            self.assertEqual((result["end"], result["error"]["type"]), ("interrupted", "KeyboardInterrupt"), code)
            self.assertIn("File", result["error"]["traceback"])
            self.assertEqual(self.run_ok("x")["value"], "1")

    def test_swallowed_interrupts(self):
        code = (
            "import time\nn = 0\nwhile n < 3:\n    try:\n        time.sleep(100)\n"
            "    except KeyboardInterrupt:\n        n += 1\n'done'"
        )
        result = self.guest.run_interrupted(code)
        self.assertEqual((result["end"], result["value"]), ("ok", "'done'"))

    def test_own_keyboard_interrupt_is_an_error(self):
        self.run_error("raise KeyboardInterrupt('mine')", "KeyboardInterrupt")

    def test_between_executions_it_is_ignored(self):
        for _ in range(200):
            self.guest.interrupt()
            self.assertEqual(self.run_ok("x = 1\nx")["value"], "1")
            self.guest.interrupt()

    def test_handler_is_restored(self):
        self.run_ok(
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"
        )
        self.assertEqual(self.guest.run_interrupted("while True: pass")["end"], "interrupted")

    def test_storm(self):
        """Interrupts at any moment neither kill the worker nor leak into another execution."""
        code = (
            "import os, signal, sys, time\n"
            "pid = int(sys.argv[1])\n"
            "end = time.time() + 6\n"
            "while time.time() < end:\n"
            "    os.kill(pid, signal.SIGINT)\n"
            "    time.sleep(0.0007)\n"
        )
        self.run_ok(
            "class C:\n    def _repr_html_(self): return '<b>x</b>'\n"
            "    def __repr__(self): return 'C' * 100\n"
        )
        storm = subprocess.Popen(["python3", "-c", code, str(self.guest.worker_pid())])
        ends = {}
        while storm.poll() is None:
            result = self.guest.run("for i in range(300):\n    display(C())\nprint('x')\nC()")
            self.assertIn(result["end"], ("ok", "interrupted"), result)
            ends[result["end"]] = ends.get(result["end"], 0) + 1
        self.assertGreater(ends.get("interrupted", 0), 10)
        for _ in range(100):
            self.run_ok("x = 1")

    def test_background_tasks_are_cancelled(self):
        code = (
            "import asyncio\nasync def f():\n    try:\n        await asyncio.sleep(1e6)\n    finally:\n"
            "        print('cancelled')\nt = asyncio.ensure_future(f())\nawait asyncio.sleep(1e6)"
        )
        result = self.guest.run_interrupted(code, after=3)  # asyncio is imported, and the task runs
        self.assertEqual((result["end"], result["stdout"], result["stderr"]), ("interrupted", "cancelled\n", ""))
        code = (
            "async def g():\n    while True:\n        try:\n            await asyncio.sleep(1e6)\n"
            "        except asyncio.CancelledError: pass\nawait g()"
        )
        self.assertEqual(self.guest.run_interrupted(code)["end"], "interrupted")
        self.assertEqual(self.run_ok("await asyncio.sleep(0.01, 'alive')")["value"], "'alive'")


class AwaitTest(GuestTest):
    def test_top_level_await(self):
        self.assertEqual(self.run_ok("import asyncio\nx = await asyncio.sleep(0, 5)\nx")["value"], "5")
        result = self.run_ok("await asyncio.gather(*[asyncio.sleep(0, i) for i in range(3)])")
        self.assertEqual(result["value"], "[0, 1, 2]")
        self.assertEqual(self.run_ok(
            "async def g():\n    yield 1\n    yield 2\n[x async for x in g()]"
        )["value"], "[1, 2]")
        self.assertEqual(self.run_ok("result = await asyncio.sleep(0, 7)")["json"], 7)

    def test_tasks_live_on_between_executions(self):
        self.run_ok(
            "import asyncio\nasync def f():\n    await asyncio.sleep(0.05)\n    return 'task'\n"
            "task = asyncio.ensure_future(f())\nawait asyncio.sleep(0)"
        )
        self.assertEqual(self.run_ok("await task")["value"], "'task'")

    def test_asyncio_run_works_beside_it(self):
        self.run_ok("import asyncio\nawait asyncio.sleep(0)")
        result = self.run_ok("async def f(): return 1\nasyncio.run(f())")
        self.assertEqual((result["value"], result["stderr"]), ("1", ""))
        self.assertEqual(self.run_ok("await asyncio.sleep(0, 2)")["value"], "2")

    def test_no_junk_at_the_end(self):
        self.run_ok("import asyncio\nt = asyncio.ensure_future(asyncio.sleep(100))\nawait asyncio.sleep(0)")
        self.guest.socket.shutdown(2)
        self.guest.process.wait(10)
        self.assertEqual(self.guest.read_pipes(), b"")

    def test_await_in_a_function_is_still_an_error(self):
        self.run_error("def f():\n    await x", "SyntaxError")


class ProcessTest(GuestTest):
    def test_fork_without_exit(self):
        result = self.run_ok(
            "import os, sys\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n"
            "    print(os.waitpid(pid, 0)[1])"
        )
        self.assertEqual(sorted(result["stdout"].split()), ["0", "child"])
        self.assertEqual(self.run_ok("1")["value"], "1")

    def test_failing_child(self):
        code = (
            "import os\npid = os.fork()\nif pid == 0:\n    raise ValueError('in the child')\n"
            "os.waitpid(pid, 0)[1] >> 8"
        )
        result = self.run_ok(code)
        self.assertEqual(result["value"], "1")
        self.assertIn("ValueError: in the child", result["stderr"])
        code = "import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8"
        self.assertEqual(self.run_ok(code)["value"], "7")

    def test_child_can_not_speak_for_the_session(self):
        code = (
            "import os\npid = os.fork()\nif pid == 0:\n    class C:\n"
            "        def _repr_html_(self): return 'x'\n    display(C())\nos.waitpid(pid, 0)[1] >> 8"
        )
        result = self.run_ok(code)
        self.assertEqual((result["value"], result["displays"]), ("1", []))
        self.assertIn("can't speak", result["stderr"])

    def test_multiprocessing(self):
        code = (
            "import multiprocessing\ndef f(x): return x * x\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool:\n    r = pool.map(f, range(5))\n"
            "r"
        )
        self.assertEqual(self.run_ok(code)["value"], "[0, 1, 4, 9, 16]")

    def test_child_that_outlives_the_execution(self):
        code = "import subprocess\np = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo late'])"
        self.assertEqual(self.run_ok(code)["stdout"], "")
        time.sleep(0.6)
        result = self.run_ok("p.wait()")
        self.assertEqual((result["value"], result["stdout"]), ("0", "late\n"))

    def test_os_exit(self):
        with self.assertRaises(Lost):
            self.guest.run("import os\nos._exit(3)")
        self.assertEqual(self.guest.process.wait(5), 3)

    def test_native_crash(self):
        with self.assertRaises(Lost):
            self.guest.run("import ctypes\nctypes.string_at(0)")

    def test_threads_that_never_end(self):
        self.run_ok(
            "import threading, time\ndef f():\n    while True: time.sleep(0.01)\n"
            "for i in range(5): threading.Thread(target=f).start()"
        )
        self.assertEqual(self.run_ok("threading.active_count()")["value"], "6")
        self.assertEqual(self.guest.run_interrupted("while True: pass")["end"], "interrupted")
        self.guest.socket.shutdown(2)
        self.assertEqual(self.guest.process.wait(10), 0)

    def test_threads_that_show_things(self):
        code = (
            "import threading\nclass C:\n    def _repr_html_(self): return 'x' * 5000\n"
            "def f():\n    for i in range(200): display(C())\n"
            "ts = [threading.Thread(target=f) for i in range(4)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nNone"
        )
        self.assertEqual(len(self.run_ok(code)["displays"]), 800)

    def test_descriptors_are_not_inherited(self):
        code = (
            "import subprocess\n"
            "subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True).stdout.split()"
        )
        self.assertEqual(self.run_ok(code)["value"], "['0', '1', '2', '3']")
        code = (
            "import subprocess\n"
            "subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout.split()"
        )
        self.assertEqual(self.run_ok(code)["value"], "['0', '1', '2', '3']")

    def test_tracing_does_not_reach_the_worker(self):
        self.guest.run("import sys\nsys.settrace(lambda *a: 1/0)\nx = 1")
        self.guest.run("import sys\nsys.setprofile(lambda *a: 1/0)\nx = 1")
        self.run_ok("x = 2")


class DisplayTest(GuestTest):
    def test_representations(self):
        self.run_ok(
            "class H:\n    def _repr_html_(self): return '<b>\u20ac\\ud800</b>'\n"
            "    def _repr_png_(self): return b'\\x89PNG'\n"
            "class M:\n"
            "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'text/plain': 'x', 'application/json': {'a': 1}, 'text/latex': '$x$'}, {}\n"
            "class B:\n    def _repr_jpeg_(self): return 'AAEC'\n"
            "    def _repr_markdown_(self): return '# x', {'isolated': True}\n"
        )
        result = self.run_ok("H()")
        self.assertEqual(result["displays"], [("image/png", b"\x89PNG"), ("text/html", "<b>\u20ac\ufffd</b>".encode())])
        self.assertIn("H object", result["value"])
        result = self.run_ok("display(M())")
        self.assertEqual(result["displays"], [("application/json", b'{"a":1}'), ("text/latex", b"$x$")])
        self.assertEqual(self.run_ok("B()")["displays"], [("image/jpeg", b"\0\1\2"), ("text/markdown", b"# x")])
        metadata = [frame[1]["metadata"] for frame in self.guest.frames if frame[0] == DISPLAY]
        self.assertEqual(metadata, [{}, {"isolated": True}])

    def test_plain_objects(self):
        result = self.run_ok("display('text', [1, 2], {'a': 1})")
        self.assertEqual((result["stdout"], result["displays"]), ("text\n[1, 2]\n{'a': 1}\n", []))

    def test_failing_and_odd_representations(self):
        result = self.run_ok("class C:\n    def _repr_html_(self): 1/0\nC()")
        self.assertIn("_repr_html_ raised ZeroDivisionError", result["stderr"])
        self.assertEqual(self.run_ok("class C:\n    def _repr_html_(self): return 5\nC()")["displays"], [])
        self.assertEqual(self.run_ok(
            "class C:\n"
            "    def _repr_mimebundle_(self): return {5: 1, 'bad mime': 2, 'text/x': object()}\nC()"
        )["displays"], [])
        self.assertEqual(self.run_ok("C")["displays"], [])
        self.assertEqual(self.run_ok("import unittest.mock\nunittest.mock.Mock()")["displays"], [])

    def test_too_large(self):
        result = self.run_ok("class C:\n    def _repr_html_(self): return 'x' * (20 << 20)\nC()")
        self.assertEqual(result["displays"], [])
        self.assertIn("left out", result["stderr"])

    def test_figures(self):
        """With a module that looks like pyplot, as far as the worker looks."""
        code = (
            "import sys, types\n"
            "class Figure:\n    def __init__(self, n): self.n = n\n"
            "    def savefig(self, out, **kw): out.write(b'PNG%d' % self.n)\n"
            "p = types.ModuleType('matplotlib.pyplot'); p.open = {}\n"
            "p.get_fignums = lambda: sorted(p.open)\n"
            "p.figure = lambda n=None: p.open.setdefault(n or len(p.open) + 1, Figure(n or len(p.open) + 1))\n"
            "p.close = lambda which: p.open.clear()\n"
            "sys.modules['matplotlib.pyplot'] = p\n"
            "p.figure(); p.figure()"
        )
        self.assertEqual(self.run_ok(code)["displays"], [("image/png", b"PNG1"), ("image/png", b"PNG2")])
        self.assertEqual(self.run_ok("1")["displays"], [])
        result = self.guest.run("p.figure()\n1/0")
        self.assertEqual((result["end"], result["displays"]), ("error", [("image/png", b"PNG1")]))
        result = self.guest.run_interrupted("p.figure()\nwhile True: pass")
        self.assertEqual((result["end"], result["displays"]), ("interrupted", []))
        self.assertEqual(self.run_ok("1")["displays"], [])


class FigureTest(GuestTest):
    """With a stand-in for matplotlib whose images have as many bytes as the figure has dots."""

    FAKE = (
        "import sys, types\n"
        "class Figure:\n"
        "    def __init__(self, size, dpi=100): self.size, self.dpi, self.drawn = size, dpi, []\n"
        "    def savefig(self, out, format, bbox_inches, dpi=None):\n"
        "        dpi = dpi or self.dpi\n"
        "        self.drawn.append(round(dpi))\n"
        "        out.write(b'P' * int(self.size * dpi * dpi / 10_000))\n"
        "m = types.ModuleType('matplotlib'); m.rcParams = {'savefig.dpi': 'figure'}\n"
        "f = types.ModuleType('matplotlib.figure'); f.Figure = Figure\n"
        "sys.modules['matplotlib'], sys.modules['matplotlib.figure'] = m, f\n"
    )

    def test_a_large_figure_is_drawn_smaller(self):
        self.run_ok(self.FAKE)
        result = self.run_ok("big = Figure(2_000_000)\nbig")
        self.assertLessEqual(len(result["displays"][0][1]), 500_000)
        self.assertGreater(len(result["displays"][0][1]), 250_000)
        self.assertIn("instead of 100 dpi", result["stderr"])
        self.assertEqual(len(self.run_ok("Figure(400_000)")["displays"][0][1]), 400_000)
        self.assertEqual(self.run_ok("big.drawn")["value"], "[100, 45]")

    def test_one_that_stays_large(self):
        self.run_ok(self.FAKE)
        self.run_ok("class Stubborn(Figure):\n    def savefig(self, out, **k):\n"
                    "        self.drawn.append(1)\n        out.write(b'P' * 900_000)")
        self.assertEqual(len(self.run_ok("s = Stubborn(1)\ns")["displays"][0][1]), 900_000)
        self.assertEqual(self.run_ok("len(s.drawn) <= 5")["value"], "True")


class VariableTest(GuestTest):
    def test_set_get_clear(self):
        guest = self.guest
        result, _ = guest.request(SET, {"name": "x", "value": {"a": [1]}})
        self.assertEqual((result["end"], result["repr"], result["names"]), ("ok", "{'a': [1]}", ["x"]))
        guest.request(SET, {"name": "odd name", "value": None})
        self.assertEqual(self.run_ok(
            "x['a'].append(2)\ncontext['new'] = 1.5\n"
            "context['odd name'] is None, 'x' in context, len(context)"
        )["value"],
                         "(True, True, 3)")
        result, _ = guest.request(GET, {"names": None})
        self.assertEqual(result["variables"], {
            "x": {"type": "dict", "repr": "{'a': [1, 2]}", "json": {"a": [1, 2]}},
            "odd name": {"type": "NoneType", "repr": "None", "json": None},
            "new": {"type": "float", "repr": "1.5", "json": 1.5},
        })
        result, _ = guest.request(GET, {"names": ["new", "missing"]})
        self.assertEqual(list(result["variables"]), ["new"])
        result, _ = guest.request(CLEAR, {})
        self.assertEqual((result["end"], result["names"]), ("ok", []))
        self.run_error("x", "NameError")
        self.assertEqual(self.run_ok("__name__, list(context)")["value"], "('__main__', [])")
        self.assertEqual(guest.request(GET, {"names": None})[0]["variables"], {})

    def test_reserved_names(self):
        result, _ = self.guest.request(SET, {"name": "__builtins__", "value": 1})
        self.assertEqual((result["end"], result["error"]["type"]), ("error", "KeyError"))

    def test_hostile_values(self):
        self.run_ok(
            "class C:\n    def __repr__(self): raise ValueError\nc = C()\nn = 1 << 70\n"
            "f = float('nan')\nd = {1: 2}\nk = {'\\0': 1}"
        )
        told = self.guest.request(GET, {"names": None})[0]["variables"]
        self.assertIn("raised ValueError", told["c"]["repr"])
        for name in "nfdk":
            self.assertNotIn("json", told[name])
        self.run_ok("class L:\n    def __repr__(self):\n        while True: pass\nl = L()")
        self.guest.serial += 1
        self.guest.send(GET, {"id": self.guest.serial, "names": None})
        time.sleep(0.3)
        self.guest.interrupt()
        self.assertEqual(self.guest.result()[0]["end"], "interrupted")
        self.run_ok("del l")

    def test_clear_with_hostile_finalizer(self):
        self.run_ok("class D:\n    def __del__(self): 1/0\nd = D()")
        self.assertEqual(self.guest.request(CLEAR, {})[0]["end"], "ok")


class FileTest(GuestTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.options = {"cwd": holder.name}
        super().setUp()

    def test_write_read_list(self):
        content = bytes(range(256)) * 40000
        self.assertEqual(self.guest.request(FILE_WRITE, {"path": "d/x.bin"}, content)[0]["size"], len(content))
        result, blob = self.guest.request(FILE_READ, {"path": "d/x.bin", "max_bytes": len(content)})
        self.assertEqual((result["size"], blob), (len(content), content))
        self.assertEqual(self.run_ok("import os\nos.chdir('/')\nos.path.exists('x')")["value"], "False")
        result, _ = self.guest.request(FILE_LIST, {"path": "."})
        self.assertEqual([file["path"] for file in result["files"]], ["d", "d/x.bin"])
        self.assertEqual(self.guest.request(FILE_READ, {"path": "d/x.bin", "max_bytes": 5})[0]["end"], "error")
        error = self.guest.request(FILE_READ, {"path": "missing", "max_bytes": 5})[0]["error"]
        self.assertEqual(error["type"], "FileNotFoundError")
        self.assertIn("missing", error["message"])
        self.assertEqual(error["errno"], "ENOENT")

    def fails(self, kind, path, blob=None, **more):
        result = self.guest.request(kind, {"path": path, **more}, *(() if blob is None else (blob,)))[0]
        self.assertEqual(result["end"], "error", path)
        return result["error"].get("errno")

    def test_what_is_no_file(self):
        self.run_ok("import os, socket\nos.mkfifo('pipe')\nos.mkdir('d')\nos.symlink('loop', 'loop')\n"
                    "s = socket.socket(socket.AF_UNIX)\ns.bind('sock')\nopen('f', 'w').close()")
        self.assertEqual(self.fails(FILE_READ, "pipe", max_bytes=5), "EINVAL")
        self.assertEqual(self.fails(FILE_WRITE, "pipe", b"x"), "ENXIO")  # nobody reads it, and we do not wait
        self.assertEqual(self.fails(FILE_READ, "d", max_bytes=5), "EISDIR")
        self.assertEqual(self.fails(FILE_WRITE, "d", b"x"), "EISDIR")
        self.assertEqual(self.fails(FILE_READ, "/dev/null", max_bytes=5), "EINVAL")
        self.assertEqual(self.fails(FILE_WRITE, "/dev/null", b"x"), "EINVAL")
        self.assertEqual(self.fails(FILE_READ, "sock", max_bytes=5), "ENXIO")
        self.assertEqual(self.fails(FILE_READ, "loop", max_bytes=5), "ELOOP")
        self.assertEqual(self.fails(FILE_WRITE, "f/x", b"x"), "EEXIST")
        self.assertEqual(self.fails(FILE_READ, "f/x", max_bytes=5), "ENOTDIR")
        self.assertEqual(self.fails(FILE_READ, "n" * 300, max_bytes=5), "ENAMETOOLONG")
        self.assertEqual(self.fails(FILE_READ, "n/" * 3000, max_bytes=5), "ENAMETOOLONG")
        self.assertIsNone(self.fails(FILE_READ, "a\0b", max_bytes=5))
        files = self.guest.request(FILE_LIST, {"path": ""})[0]["files"]
        self.assertEqual([(file["path"], file["type"]) for file in files],
                         [("d", "directory"), ("f", "file"), ("loop", "link"), ("pipe", "other"), ("sock", "other")])

    def test_sizes(self):
        content = b"0123456789" * 100_000
        self.guest.request(FILE_WRITE, {"path": "a/b/c/x"}, content)
        self.assertEqual(self.fails(FILE_READ, "a/b/c/x", max_bytes=len(content) - 1), "EFBIG")
        self.assertEqual(self.guest.request(FILE_READ, {"path": "a/b/c/x", "max_bytes": len(content)})[1], content)
        self.guest.request(FILE_WRITE, {"path": "a/b/c/x"}, b"short")
        self.assertEqual(self.guest.request(FILE_READ, {"path": "a/b/c/x", "max_bytes": 5})[1], b"short")
        self.guest.request(FILE_WRITE, {"path": "empty"}, b"")
        self.assertEqual(self.guest.request(FILE_READ, {"path": "empty", "max_bytes": 0})[1], b"")
        own = self.guest.request(FILE_READ, {"path": "/proc/self/status", "max_bytes": 1 << 20})[1]
        self.assertIn(b"VmRSS", own)  # it tells no size
        self.assertEqual(self.fails(FILE_READ, "/proc/self/status", max_bytes=10), "EFBIG")

    def test_a_name_that_is_not_utf_8(self):
        self.run_ok("open(b'caf\\xe9', 'w').close()\nopen('café', 'w').close()")
        files = self.guest.request(FILE_LIST, {"path": ""})[0]["files"]
        self.assertEqual(sorted((file["path"], file["type"]) for file in files),
                         [("café", "file"), ("caf\ufffd", "other")])

    def test_a_huge_directory(self):
        self.run_ok("import os\nos.mkdir('many')\nfor i in range(10_050): os.mknod(f'many/{i:05}')")
        result = self.guest.request(FILE_LIST, {"path": "many"})[0]
        self.assertEqual((len(result["files"]), result["truncated"]), (10_000, True))
        self.assertEqual(self.guest.request(FILE_LIST, {"path": "many/00007"})[0]["files"][0]["type"], "file")


class ToolTest(GuestTest):
    def test_tools_are_off_by_default(self):
        self.run_error("call_tool('x')", "ToolError")

    def test_calls(self):
        self.guest.start("call_tool('add', a=1, b=[2])", tools=True)
        kind, header, blob = self.guest.wait()
        self.assertEqual((kind, header, blob), (TOOL_CALL, {"call": 1, "name": "add"}, b'{"a":1,"b":[2]}'))
        self.guest.send(TOOL_RESULT, {"call": 1, "ok": True}, b'{"sum":3}')
        self.assertEqual(self.guest.result()[0]["value"], "{'sum': 3}")
        self.guest.start("call_tool('add')", tools=True)
        self.guest.wait()
        self.guest.send(TOOL_RESULT, {"call": 2, "ok": False}, b'"went wrong"')
        self.assertEqual(self.guest.result()[0]["error"]["message"], "went wrong")

    def test_interrupted_call(self):
        self.guest.start("call_tool('slow')", tools=True)
        self.assertEqual(self.guest.wait()[0], TOOL_CALL)
        self.guest.interrupt()
        self.guest.send(TOOL_RESULT, {"call": 1, "ok": False}, b'"the execution is being stopped"')
        self.assertEqual(self.guest.result()[0]["end"], "interrupted")
        self.guest.start("call_tool('next')", tools=True)
        self.guest.wait()
        self.guest.send(TOOL_RESULT, {"call": 2, "ok": True}, b"2")
        self.assertEqual(self.guest.result()[0]["value"], "2")


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


if __name__ == "__main__":
    unittest.main()
