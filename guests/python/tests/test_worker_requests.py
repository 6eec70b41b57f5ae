# SPDX-License-Identifier: Apache-2.0
"""The worker over the guest protocol: variables, files, tools."""

import tempfile
import time
import unittest

from guest_case import GuestTest
from harness import CLEAR, FILE_LIST, FILE_READ, FILE_WRITE, GET, SET, TOOL_CALL, TOOL_RESULT


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
