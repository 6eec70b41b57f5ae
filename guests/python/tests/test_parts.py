# SPDX-License-Identifier: Apache-2.0
"""Parts of the worker that need no process: text, JSON, sources, tracebacks, files, variables."""

import linecache
import os
import sys
import tempfile
import types
import unittest

import harness  # noqa: F401 - sets the path
from sbx_guest import files, hooks, jsontext, sources, text, tracebacks, variables


class Hostile:
    def __repr__(self):
        raise ValueError("no")

    __str__ = __repr__


class TextTest(unittest.TestCase):
    def test_cap_keeps_head_and_tail(self):
        capped = text.cap("a" * 1000 + "b" * 1000, 100)
        self.assertTrue(capped.startswith("a" * 50))
        self.assertTrue(capped.endswith("b" * 50))
        self.assertIn("1900 characters omitted", capped)
        self.assertEqual(text.cap("short", 100), "short")

    def test_cap_of_a_str_subclass_runs_none_of_its_methods(self):
        class Text(str):
            def __getitem__(self, key):
                raise AssertionError

            __len__ = __str__ = __getitem__

        self.assertIs(type(text.cap(Text("x" * 500), 100)), str)
        self.assertIs(type(text.cap(Text("x"), 100)), str)

    def test_repr_equals_repr_for_ordinary_objects(self):
        recursive = [1]
        recursive.append(recursive)
        nested = [1, [2, (3,)], {"a": {4}}]
        for value in (1, 1.5, "x'y", b"z", nested, (), (1,), set(), frozenset({1}), {}, None, recursive):
            self.assertEqual(text.bounded_repr(value), repr(value))

    def test_large_containers_are_cut(self):
        for value in (list(range(10**6)), set(range(10**6)), {i: i for i in range(10**5)}, [[0] * 1000] * 1000):
            told = text.bounded_repr(value, 1000)
            self.assertLess(len(told), 1200)
            self.assertIn("more", told)

    def test_medium_containers_are_told_as_by_repr(self):
        for value in (list(range(3000)), {str(i): [i] for i in range(500)}, tuple(range(2500)), frozenset(range(2500))):
            self.assertEqual(text.bounded_repr(value), repr(value))

    def test_large_strings_are_cut(self):
        self.assertLess(len(text.bounded_repr("x" * 10**7)), 140000)
        self.assertLess(len(text.bounded_repr(b"\0" * 10**7)), 140000)

    def test_failing_methods(self):
        self.assertIn("repr() raised ValueError", text.bounded_repr(Hostile()))
        self.assertIn("str() raised ValueError", text.safe_str(Hostile(), 100))
        self.assertIn("repr() raised", text.bounded_repr([Hostile()]))

    def test_class_name_ignores_metaclasses(self):
        class Meta(type):
            def __getattribute__(cls, name):
                raise AssertionError

        self.assertIn("Odd", text.class_name(Meta("Odd", (), {})))


class JsonTest(unittest.TestCase):
    def test_round_trip(self):
        value = {"a": [1, 2.5, None, True, "\u20ac\U0001f600"]}
        self.assertEqual(jsontext.loads(jsontext.dumps(value)), value)

    def test_ascii_without_lone_surrogates(self):
        self.assertEqual(jsontext.clean("a\ud800b"), "a\ufffdb")
        self.assertEqual(jsontext.clean("\ud83d\ude00"), "\U0001f600")
        self.assertTrue(jsontext.dumps({"x": "\u20ac"}).isascii())

    def test_refuses_what_is_no_object(self):
        for bad in (b"", b"1", b"[1]", b"{", b'{"a":1}x', b'{"a":1} ', b"\xff"):
            with self.assertRaises(ValueError):
                jsontext.loads(bad)

    def test_values_that_have_no_json_form(self):
        cycle = []
        cycle.append(cycle)
        deep = []
        for _ in range(100):
            deep = [deep]
        numbers = (float("nan"), float("inf"), 1 << 63)
        bad = (*numbers, {1: 2}, {"\0": 1}, {"\ud800": 1}, "\ud800", object(), b"x", {1}, cycle, deep)
        for value in bad:
            self.assertIsNone(jsontext.dumps_value(value, 1000), repr(value)[:50])
            self.assertIsNone(jsontext.dumps_value([value], 1000))
        self.assertEqual(jsontext.dumps_value([1, (2, "x\0")], 1000), '[1,[2,"x\\u0000"]]')
        self.assertEqual(jsontext.dumps_value(-(1 << 63), 1000), str(-(1 << 63)))
        self.assertIsNone(jsontext.dumps_value("x" * 1001, 1000))
        self.assertIsNone(jsontext.dumps_value(list(range(10**6)), 1 << 30))


class SourcesTest(unittest.TestCase):
    def run_source(self, source, namespace=None):
        namespace = {} if namespace is None else namespace
        code, marked = sources.compile_source(source, "<test>")
        exec(code, namespace)  # noqa: S102
        return namespace.get(sources.VALUE), namespace.pop(sources.ASSIGNED, None) is not None if marked else None

    def test_value_of_the_last_expression(self):
        self.assertEqual(self.run_source("x = 1\nx + 1")[0], 2)
        self.assertEqual(self.run_source("'text'")[0], "text")
        self.assertEqual(self.run_source("1,\\\n2")[0], (1, 2))
        self.assertIsNone(self.run_source("x = 1")[0])
        self.assertIsNone(self.run_source("")[0])
        self.assertIsNone(self.run_source("# only a comment")[0])
        self.assertIsNone(self.run_source("if True:\n    5")[0])

    def test_value_in_a_large_source(self):
        filler = "x = 1\n" * 20000
        self.assertEqual(self.run_source(filler + "x + 1")[0], 2)
        self.assertEqual(self.run_source(filler + "x, 3 # pair\n\n")[0], (1, 3))
        self.assertIsNone(self.run_source(filler + "y = '''\nx\n'''")[0])
        self.assertIsNone(self.run_source(filler + "if x:\n    x")[0])
        self.assertIsNone(self.run_source(filler + "y = x + \\\nx")[0])
        with self.assertRaises(SyntaxError):
            self.run_source(filler + "x +")

    def test_result_assigned_by_this_code(self):
        yes = (
            "result = 1", "result: int = 1", "result, b = 1, 2", "(result := 5)", "if True:\n  result = 1",
            "for result in [1]: pass", "import os as result", "def result(): pass", "class result: pass",
            "x = result = 1",
            "[result, *x] = [1]", "result = 0\nresult += 1", "if (result := 1): pass", "print(result := 2)",
            "try:\n  1/0\nexcept Exception:\n  result = 1", "while True:\n  result = 1\n  break",
            "with open('/dev/null') as result: pass", "if (result := 0): pass",
        )
        no = (
            "x = 1", "if False:\n  result = 1", "def f():\n  result = 1\nf()", "[result for result in [1]]",
            "x = 'result'", "lambda result: 1", "class C:\n  result = 1", "result_2 = 1", "for result in []: pass",
            "print(end='')\nx = result", "result: int",
        )
        for source in yes:
            self.assertTrue(self.run_source(source, {"result": 0})[1], source)
        for source in no:
            self.assertFalse(self.run_source(source, {"result": 0})[1], source)

    @unittest.skipIf(sys.version_info < (3, 10), "match is of 3.10")
    def test_result_bound_by_a_pattern(self):
        self.assertTrue(self.run_source("match 1:\n  case result: pass")[1])
        self.assertTrue(self.run_source("match [1, 2]:\n  case [1, *result]: pass")[1])
        self.assertTrue(self.run_source("match 1:\n  case 1: result = 2")[1])
        self.assertFalse(self.run_source("match 1:\n  case 2: result = 2")[1])

    def test_decode(self):
        with self.assertRaisesRegex(SyntaxError, "not valid UTF-8: byte 0xff at offset 2"):
            sources.decode(b"a\n\xff", "<test>")
        with self.assertRaisesRegex(SyntaxError, "NUL character at offset 1"):
            sources.decode(b"a\0", "<test>")
        self.assertEqual(sources.decode(b"\xef\xbb\xbfx", "<test>"), "x")

    def test_names_are_unique(self):
        kept = sources.Sources()
        names = [kept.name("<execution>") for _ in range(3)]
        self.assertEqual(names, ["<execution>", "<execution 2>", "<execution 3>"])
        self.assertEqual([kept.name("a.py") for _ in range(2)], ["a.py", "a.py"])

    def test_kept_sources_are_bounded(self):
        kept = sources.Sources()
        kept.attach(linecache)
        for number in range(2000):
            kept.keep(f"<bounded {number}>", "x" * 10000)
        self.assertLess(len(kept.lines), 500)
        self.assertNotIn("<bounded 0>", linecache.cache)
        self.assertEqual(linecache.getline("<bounded 1999>", 1), "x" * 10000)
        kept.keep("<large>", "y" * (10 << 20))
        self.assertEqual(list(kept.lines), ["<large>"])
        kept.drop("<large>")
        self.assertNotIn("<large>", linecache.cache)


class TracebackTest(unittest.TestCase):
    def fail(self, source, **names):
        namespace = dict(names)
        code = compile(source, "<user>", "exec")
        try:
            exec(code, namespace)  # noqa: S102
        except BaseException as error:  # noqa: BLE001
            return tracebacks.describe(error, namespace, {"<user>": source.splitlines(True)})
        raise AssertionError("nothing was raised")

    def test_frames_of_the_user_with_lines(self):
        told = self.fail("def f():\n    return 1 / 0\nf()")
        self.assertEqual((told["type"], told["message"]), ("ZeroDivisionError", "division by zero"))
        self.assertIn('File "<user>", line 3, in <module>\n    f()', told["traceback"])
        self.assertIn("    return 1 / 0\n", told["traceback"])
        self.assertNotIn("test_parts", told["traceback"])

    @unittest.skipIf(sys.version_info < (3, 11), "positions are of 3.11")
    def test_carets(self):
        self.assertIn("    x = 1 + (1 / 0)\n             ^^^^^\n", self.fail("x = 1 + (1 / 0)")["traceback"])

    def test_library_frames_stay(self):
        told = self.fail("import json\njson.loads('x')")
        self.assertEqual(told["type"], "json.decoder.JSONDecodeError")
        self.assertIn("json/decoder.py", told["traceback"])

    def test_deep_recursion(self):
        limit = sys.getrecursionlimit()
        told = self.fail("import sys\nsys.setrecursionlimit(3000)\ndef f(n):\n    f(n + 1)\nf(0)")
        sys.setrecursionlimit(limit)
        self.assertEqual(told["type"], "RecursionError")
        self.assertLess(len(told["traceback"]), 5000)
        self.assertRegex(told["traceback"], r"\[\.\.\. 29\d\d frames omitted \.\.\.\]")

    def test_chains(self):
        told = self.fail("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e")["traceback"]
        self.assertIn("direct cause", told)
        self.assertLess(told.index("ZeroDivisionError"), told.index("KeyError"))
        told = self.fail("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k')")["traceback"]
        self.assertIn("During handling", told)
        told = self.fail("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from None")["traceback"]
        self.assertNotIn("ZeroDivisionError", told)

    def test_long_and_cyclic_chains(self):
        source = (
            "e = None\nfor i in range(100000):\n    n = ValueError(str(i))\n    n.__cause__ = e\n    e = n\nraise e\n"
        )
        told = self.fail(source)["traceback"]
        self.assertLess(len(told), 3000)
        self.assertIn("too far back", told)
        source = (
            "e = None\nfor i in range(100):\n    n = ValueError(f'number {i}')\n    n.__cause__ = e\n"
            "    e = n\nraise e\n"
        )
        told = self.fail(source)["traceback"]
        self.assertIn("92 exceptions in between omitted", told)
        positions = [told.index(f"number {number}") for number in (0, 2, 95, 99)]
        self.assertEqual(positions, sorted(positions))
        told = self.fail(
            "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
        )["traceback"]
        self.assertLess(len(told), 2000)

    def test_a_million_lines(self):
        told = self.fail("raise ValueError('line\\n' * 1000000)")
        self.assertLess(len(told["message"]), 20000)
        self.assertLess(len(told["traceback"]), 70000)

    def test_hostile_exceptions(self):
        told = self.fail("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E")
        self.assertIn("str() raised RuntimeError", told["message"])
        told = self.fail("class E(Exception):\n    def __str__(self): return 5\nraise E")
        self.assertIn("str() raised TypeError", told["message"])
        told = self.fail(
            "class E(Exception):\n"
            "    __cause__ = __context__ = __traceback__ = property(lambda s: 1/0)\nraise E('x')"
        )
        self.assertEqual(told["message"], "x")
        told = self.fail(
            "class E(Exception):\n    @property\n    def __notes__(self): raise RuntimeError\n"
            "raise E('x')"
        )
        self.assertEqual(told["message"], "x")
        told = self.fail("e = ValueError('x')\ne.__notes__ = ['n'] * 100000\nraise e")
        self.assertIn("99990 notes omitted", told["traceback"])
        told = self.fail("e = ValueError('x')\ne.__notes__ = 5\nraise e")
        self.assertEqual(told["message"], "x")

    def test_syntax_errors(self):
        told = self.fail("exec(compile('x = = 1', '<inner>', 'exec'))")
        self.assertEqual(told["type"], "SyntaxError")
        self.assertIn('File "<inner>", line 1\n    x = = 1\n        ^\n', told["traceback"])
        told = self.fail("e = SyntaxError('m', ('f', 10**30, -5, 'text', 1, 2)[:4])\nraise e")
        self.assertIn("SyntaxError: m", told["traceback"])

    @unittest.skipIf(sys.version_info < (3, 11), "exception groups are of 3.11")
    def test_groups(self):
        told = self.fail("raise ExceptionGroup('many', [ValueError(str(i)) for i in range(1000)])")["traceback"]
        self.assertIn("ExceptionGroup: many (1000 sub-exceptions)", told)
        self.assertIn("  | ValueError: 3", told)
        self.assertIn("990 sub-exceptions omitted", told)
        nested = "e = ValueError('x')\nfor i in range(50):\n    e = ExceptionGroup(str(i), [e] * 3)\nraise e"
        self.assertLess(len(self.fail(nested)["traceback"]), 70000)


class HooksTest(unittest.TestCase):
    def test_callback_on_import(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "sbx_hook_probe.py"), "w", encoding="ascii") as file:
                file.write("x = 1\n")
            sys.path.insert(0, directory)
            watcher = hooks.Watcher()
            seen = []
            try:
                watcher.when_imported("sbx_hook_probe", seen.append)
                watcher.when_imported("sbx_hook_missing", seen.append)
                watcher.when_imported("os", seen.append)
                import sbx_hook_probe

                with self.assertRaises(ImportError):
                    __import__("sbx_hook_missing")
            finally:
                sys.meta_path.remove(watcher)
                sys.path.remove(directory)
        self.assertEqual(seen, [os, sbx_hook_probe])
        self.assertEqual(type(sbx_hook_probe.__loader__).__name__, "SourceFileLoader")
        self.assertIs(sbx_hook_probe.__spec__.loader, sbx_hook_probe.__loader__)


class FilesTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.top = holder.name

    def test_round_trip(self):
        files.write(self.top, "a/b/c.bin", b"\0\xff" * 100000)
        self.assertEqual(files.read(self.top, "a/b/c.bin", 200000), b"\0\xff" * 100000)
        files.write(self.top, "a/b/c.bin", b"")
        self.assertEqual(files.read(self.top, "a/b/c.bin", 10), b"")

    def test_limits_and_types(self):
        files.write(self.top, "x", b"12345")
        self.assertEqual(files.read(self.top, "x", 5), b"12345")
        with self.assertRaisesRegex(OSError, "Larger than 4"):
            files.read(self.top, "x", 4)
        os.mkfifo(os.path.join(self.top, "fifo"))
        with self.assertRaisesRegex(OSError, "Not a regular file"):
            files.read(self.top, "fifo", 4)
        with self.assertRaises(OSError):
            files.write(self.top, "fifo", b"x")
        with self.assertRaises(OSError):
            files.read(self.top, ".", 4)
        with self.assertRaisesRegex(ValueError, "NUL"):
            files.read(self.top, "a\0b", 4)
        with self.assertRaises(ValueError):
            files.read(self.top, 5, 4)

    def test_listing(self):
        files.write(self.top, "d/e", b"12")
        os.symlink("/etc", os.path.join(self.top, "link"))
        with open(os.path.join(os.fsencode(self.top), b"\xff"), "wb"):
            pass
        found, truncated = files.listing(self.top, ".")
        self.assertFalse(truncated)
        self.assertEqual([(file["path"], file["type"]) for file in found],
                         [("d", "directory"), ("link", "link"), ("\ufffd", "other"), ("d/e", "file")])
        self.assertEqual(found[-1]["size"], 2)
        self.assertEqual(files.listing(self.top, "d")[0][0]["path"], "d/e")
        self.assertEqual(files.listing(self.top, "d/e")[0][0]["size"], 2)
        with self.assertRaises(OSError):
            files.listing(self.top, "missing")

    def test_listing_is_bounded(self):
        os.mkdir(os.path.join(self.top, "many"))
        for number in range(files.LIST_MAX + 5):
            with open(os.path.join(self.top, "many", str(number)), "wb"):
                pass
        found, truncated = files.listing(self.top, ".")
        self.assertEqual((len(found), truncated), (files.LIST_MAX, True))


class VariablesTest(unittest.TestCase):
    def test_names(self):
        namespace = {"__name__": "x", "a": 1, "os": os, "_b": 2, 5: 6, "odd name": 1, "nul\0": 1, "\ud800": 1}
        namespace["z" * 300] = 1
        self.assertEqual(variables.names(namespace), ["a", "_b", "odd name", "\ufffd"])
        self.assertEqual(len(variables.names({f"v{i}": i for i in range(1000)})), variables.NAMES_MAX)

    def test_get_is_bounded(self):
        namespace = {f"v{i}": "x" * 60000 for i in range(100)}
        told, omitted = variables.get(namespace, None)
        self.assertGreater(omitted, 50)
        self.assertEqual(len(told) + omitted, 100)
        self.assertEqual(variables.get(namespace, ["v3", "none", 5])[0]["v3"]["type"], "str")
        self.assertNotIn("json", variables.get({"x": "y" * 70000}, None)[0]["x"])

    def test_context(self):
        namespace = {"__name__": "x", "a": 1, "os": os}
        context = variables.Context(namespace)
        context["odd name"] = [1]
        self.assertEqual(dict(context), {"a": 1, "odd name": [1]})
        self.assertEqual(len(context), 2)
        with self.assertRaises(KeyError):
            context["os"]
        with self.assertRaises(KeyError):
            context["__name__"] = 1
        with self.assertRaises(TypeError):
            context[1] = 1
        del context["a"]
        self.assertNotIn("a", namespace)
        self.assertIn("odd name", repr(context))
        self.assertIsInstance(sys.modules["sbx_guest"], types.ModuleType)


if __name__ == "__main__":
    unittest.main()
