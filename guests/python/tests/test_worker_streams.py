# SPDX-License-Identifier: Apache-2.0
"""The worker over the guest protocol: what code prints and shows."""

import unittest

from guest_case import GuestTest
from harness import DISPLAY, Lost


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


if __name__ == "__main__":
    unittest.main()
