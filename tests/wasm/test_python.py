# SPDX-License-Identifier: Apache-2.0
"""What Python code meets in WebAssembly alone: things that are not there, two stacks, memory that is used up, an event loop
without sockets, copies that draw random numbers of their own."""
import unittest

import wasm_case
from tap import main

ABSENT = "not in the WebAssembly sandbox; use the local or docker backend"
MISSING = (
    ("import socket\nsocket.socket()", "OSError"),
    ("import socket\nsocket.socketpair()", "AttributeError"),
    ("import urllib.request\nurllib.request.urlopen('http://localhost/')", "urllib.error.URLError"),
    ("import urllib.request\nurllib.request.urlopen('https://localhost/')", "OSError"),
    ("import asyncio\nawait asyncio.open_connection('localhost', 1)", "OSError"),
    ("import asyncio\nawait asyncio.create_subprocess_exec('true')", "OSError"),
    ("import subprocess\nsubprocess.run(['true'])", "OSError"),
    ("import os\nos.popen('true')", "OSError"),
    ("import os\nos.fork()", "AttributeError"),
    ("import os\nos.system('true')", "AttributeError"),
    ("import os\nos.execvp('true', ['true'])", "AttributeError"),
    ("import signal\nsignal.alarm(1)", "AttributeError"),
    ("import threading\nthreading.Thread(target=print).start()", "RuntimeError"),
    ("import concurrent.futures as f\nf.ThreadPoolExecutor(1).submit(print)", "RuntimeError"),
    ("import multiprocessing\nmultiprocessing.Process(target=print).start()", "AttributeError"),
    ("import multiprocessing\nmultiprocessing.Pool(1)", "ModuleNotFoundError"),
    ("import ctypes", "ModuleNotFoundError"),
    ("import ssl", "ModuleNotFoundError"),
    ("import nowhere_to_be_found", "ModuleNotFoundError"),
    ("import os\nos.mkdir('n')\nopen('n/__init__.py', 'w').write('from . import _core')\n"
     "open('n/_core.cpython-311-x86_64-linux-gnu.so', 'w').close()\nimport n", "ImportError"),
)
RECURSION = (
    "def f(n):\n    return f(n + 1)\nf(0)",  # takes memory, and none of the native stack
    "class A:\n    def __getattr__(self, name):\n        return getattr(self, name + 'x')\nA().b",
    "def f():\n    x = []\n    for _ in range(200_000):\n        x = [x]\n    return repr(x)\nf()",
    "def f(x):\n    return sorted([1, 2], key=lambda _: f(x))\nf(1)",
)


class PythonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = wasm_case.server("wasm.memory=192m")
        cls.addClassCleanup(cls.driver.close)

    def setUp(self):
        self.guest = self.driver.start()
        self.addCleanup(self.guest.end)

    def told(self, code):
        """How it ended, and all that was told of it."""
        result = self.guest.execute(code)
        return result["end"], str(result["traceback"])

    def test_what_is_not_there_says_so(self):
        for code, kind in MISSING:
            with self.subTest(code=code):
                end, text = self.told(code)
                self.assertEqual(end, "error", text)
                self.assertIn(f"\n{kind}: ", text)
                self.assertIn(ABSENT, text)

    def test_who_asks_before_takes_another_way(self):
        self.assertEqual(self.guest.run(
            "import importlib.util, os, socket\nprint(hasattr(os, 'fork'), hasattr(socket, 'socketpair'), "
            "importlib.util.find_spec('numpy'))"), "False False None\n")

    def test_recursion_ends_before_the_stack(self):
        self.guest.run("import sys\nsys.setrecursionlimit(300_000)")
        for code in RECURSION:
            with self.subTest(code=code):
                end, text = self.told(code)
                self.assertEqual(end, "error", text)
                self.assertIn("\nRecursionError: ", text)
        self.assertEqual(self.guest.run("print(1 + 1)"), "2\n")

    def test_all_memory_taken_again_and_again(self):
        for code in ("x = []\nwhile True: x.append(bytes(100_000))", "y = []\nwhile True: y.append(object())",
                     "while True: y.append(str(len(y)))"):
            self.assertEqual(self.told(code)[0], "memory", code)
            self.assertEqual(self.guest.run("print(len(x) > 100)"), "True\n")
        self.guest.run("x = y = None")
        self.assertEqual(self.guest.run("print(len(bytes(64 << 20)) >> 20)"), "64\n")

    def test_event_loop(self):
        self.assertEqual(self.guest.run(
            "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.01 * n)\n    return n\n"
            "print(await asyncio.gather(f(2), f(1), asyncio.to_thread(len, 'abc')))"), "[2, 1, 3]\n")
        end, text = self.told("await asyncio.Event().wait()")
        self.assertEqual(end, "error")
        self.assertIn("\nRuntimeError: this would wait for ever", text)
        self.assertEqual(self.guest.run("print(await f(0))"), "0\n")

    def test_every_session_draws_its_own_numbers(self):
        code = "import random, uuid\nprint(random.random(), uuid.uuid4())"
        other = self.driver.start()
        self.addCleanup(other.end)
        drawn = [self.guest.run(code), other.run(code)]
        copies = [self.guest.fork() for _ in range(3)]
        drawn += [guest.run(code) for guest in [self.guest, *copies]]
        for guest in copies:
            guest.end()
        self.assertEqual(len(set(drawn)), len(drawn))

    def test_standard_library_stands_in_files(self):
        self.assertEqual(self.guest.run(
            "import inspect, os, pathlib, time\npathlib.Path('a').touch()\n"
            "print(os.__file__, len(inspect.getsource(os)) > 1000, oct(os.stat('a').st_mode), "
            "abs(time.time() - os.stat('a').st_mtime) < 3600)"), "/usr/lib/python3.11/os.py True 0o100644 True\n")


if __name__ == "__main__":
    main()
