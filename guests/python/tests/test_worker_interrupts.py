# SPDX-License-Identifier: Apache-2.0
"""The worker over the guest protocol: interrupts, top-level await, processes of the code."""

import subprocess
import time
import unittest

from guest_case import GuestTest
from harness import Lost


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


if __name__ == "__main__":
    unittest.main()
