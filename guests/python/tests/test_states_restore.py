# SPDX-License-Identifier: Apache-2.0
"""Portable states of Python: taken up where something is missing or damaged; when two are equal; files."""

import json
import os
import shutil
import stat
import subprocess
import sys
import unittest

import portable
from states_case import StatesCase


class RestoreTest(StatesCase):
    def test_what_can_not_be_made_takes_nothing_with_it(self):
        code = """
import sys, types
gone = types.ModuleType("gone")
gone.__spec__ = sys.__spec__
exec("class Thing: pass", gone.__dict__)
sys.modules["gone"] = gone
thing, data, text = gone.Thing(), ["d"], "a text that many have"
first = [thing, data, text, {"more": data}]
second = {"data": data, text: text}
third = [first]
class Refuses:
    def __setstate__(self, state): raise RuntimeError("not here")
refuses = Refuses()
refuses.x = [data]
kept = refuses.x
fourth = [refuses]
last = (data, kept, sys)
"""
        guest = self.begin(code)
        told, parts = self.save(guest)
        self.assertEqual(told["unsaved"], [])
        other, restored = self.go_on(parts)
        missing = self.problems(restored, "missing")
        self.assertEqual(set(missing), {"gone", "thing", "first", "third", "refuses", "fourth"})
        self.assertIn("not here", missing["refuses"][1])
        self.assertIn("gone", missing["thing"][1])
        self.assertEqual(missing["refuses"][0], "Refuses")
        self.assertEqual(self.value(other, "second['data'] is data is last[0] is kept[0], second[text]"),
                         "(True, 'a text that many have')")

    def test_many_that_can_not_be_made(self):
        code = "class R:\n    def __setstate__(self, state): raise RuntimeError\n"
        code += "for i in range(30):\n    globals()[f'r{i}'] = r = R()\n    r.x = globals()[f'x{i}'] = [i]\n    del r"
        _told, guest, missing = self.move(code)
        self.assertEqual(len(missing), 30)
        self.assertEqual(self.value(guest, "[globals()[f'x{i}'][0] for i in range(30)] == list(range(30))"), "True")

    def test_a_session_that_has_run_something(self):
        _told, parts = self.save(self.begin("x = 1"))
        guest = self.begin("y = 2")
        told = portable.restore(guest, parts)
        self.assertEqual((told["end"], told["error"]["errno"]), ("error", "EBUSY"))
        self.assertEqual(self.value(guest, "y"), "2")

    def test_damage(self):
        code = "x = {'a': [1, 2]}\nopen('f', 'w').write('text')\ndef f(): return x\nb = bytearray(300000)"
        _told, parts = self.save(self.begin(code))
        index = json.loads(parts[0])
        self.assertGreater(len(parts), 2)
        damaged = [[], parts[:1], parts[:-1]]
        damaged += [[bad, *parts[1:]] for bad in (b"", parts[0][:-1], b"[" * 10000, b"\xff")]
        for key in index:
            if key == "unsaved":
                continue
            for value in (None, -1, [], {}, "x", [[]], {"tmp": [["f"]]}, [[1, 2, 3, 4, 5]], {"a": 1}):
                changed = json.dumps({**index, key: value}).encode()
                damaged.append([changed, *parts[1:]])
        for number in range(1, len(parts)):
            damaged.append([*parts[:number], b"", *parts[number + 1 :]])
            damaged.append([*parts[:number], os.urandom(len(parts[number])), *parts[number + 1 :]])
        guest = self.start()
        for given in damaged:
            told = portable.restore(guest, given)
            self.assertIn(told["end"], ("ok", "error"), told)
            if told["end"] == "error":
                self.assertEqual(told["error"].get("errno"), "EBADMSG", told)
            else:
                guest = self.start()  # this one has taken up what was good in it
            self.assertEqual(self.value(guest, "1 + 1"), "2")

    def test_newer_versions(self):
        _told, parts = self.save(self.begin("x = 1"))
        index = {**json.loads(parts[0]), "version": 2}
        told = portable.restore(self.start(), [json.dumps(index).encode(), *parts[1:]])
        self.assertEqual(told["error"]["errno"], "EPROTONOSUPPORT")

    def test_files_stay_inside(self):
        _told, parts = self.save(self.begin("open('f', 'w').write('text')"))
        index = json.loads(parts[0])
        for name in ("../../out", "/etc/out", "a/../../../out"):
            index["files"]["tmp"][-1][1] = name
            told = portable.restore(self.start(), [json.dumps(index).encode(), *parts[1:]])
            self.assertEqual(told["error"]["errno"], "EBADMSG", name)

    def test_other_pythons(self):
        code = """
def f(a, b=2):
    class Inner:
        def m(self): return a
    return [x + a for x in range(b)], Inner().m()
def counter():
    n = 0
    def more():
        nonlocal n
        n += 1
        return n
    return more
more = counter()
more()
class Old: v = 1
old = Old()
two = (lambda q: q + 1), (lambda q: q + 2)
def generate():
    yield from range(3)
"""
        others = find_other_pythons()
        if not others:
            self.skipTest("no other Python from 3.9 on is here")
        _told, parts = self.save(self.begin(code))
        for python in others:
            guest, told = self.go_on(parts, options=("-I", "-S"), python=python)
            self.assertEqual(set(self.problems(told, "missing")), {"two"}, python)  # which of the two can't be told
            told = self.value(guest, "f(1), more(), old.v, list(generate())")
            self.assertEqual(told, "(([1, 2], 1), 2, 1, [0, 1, 2])")


def find_other_pythons():
    """Interpreters whose byte code is another's."""
    found = []
    paths = os.environ.get("SBX_TEST_OTHER_PYTHONS", "").split(":")
    paths += [shutil.which(f"python3.{minor}") for minor in range(9, 20) if minor != sys.version_info[1]]
    for path in filter(None, paths):
        ask = [path, "-I", "-c", "import sys; print(sys.executable)"]
        run = subprocess.run(ask, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            found.append(run.stdout.strip())
    return found


class DigestTest(StatesCase):
    def test_equal_states(self):
        code = "data = [{'a': 1}, {2, 3}]\ndef f(): return data\nclass C: pass\nc = C()\nopen('f', 'w').write('1')"
        guest = self.begin(code)
        told, parts = self.save(guest)
        self.run_ok(guest, "print(f(), c, len(data))")
        again, none = self.save(guest, digest=told["digest"])
        self.assertEqual((again["unchanged"], none, again["digest"]), (True, [], told["digest"]))
        self.assertEqual(self.save(guest)[1], parts)
        for change in ("data.append(1)", "c.x = 1", "open('f', 'w').write('2')", "import os\nos.environ['A'] = 'b'",
                       "os.chmod('f', 0o600)", "os.mkdir('d')", "os.chdir('d')", "def f(): return 1"):
            self.run_ok(guest, change)
            changed, _parts = self.save(guest, digest=told["digest"])
            self.assertNotEqual(changed["digest"], told["digest"], change)
            told = changed

    def test_large_things_that_did_not_change_are_in_the_same_parts(self):
        code = "import array\nsmall = [1]\nlarge = {i: str(i) * 3 for i in range(50000)}\n"
        code += "arr = array.array('d', range(50000))\ntext = b't' * 400000\n"
        guest = self.begin(code + "open('big', 'wb').write(bytes(500000))")
        self.save(guest)
        before = self.save(guest)[1]
        self.run_ok(guest, "small.append([2, 'three'])\nanother = {'four': small}")
        after = self.save(guest)[1]
        large = {part for part in before if len(part) > 200000}
        self.assertGreaterEqual(len(large), 4)
        self.assertLessEqual(large, set(after))

    def test_nothing_is_copied_on_its_way(self):
        guest = self.begin("data = bytearray(64 << 20)\nimport resource")
        peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10"
        before = int(self.value(guest, peak))
        _told, parts = self.save(guest)
        self.assertLess(int(self.value(guest, peak)) - before, 32)
        self.assertIn(64 << 20, map(len, parts))


class FilesTest(StatesCase):
    def test_directories_are_those_of_the_beginning(self):
        guest = self.begin("import os\nos.environ['TMPDIR'] = '/etc'\nopen('f', 'w').write('text')\nos.chdir('/')")
        told, parts = self.save(guest)
        self.assertEqual(told["files"], {"count": 2, "bytes": 4})
        other, _told = self.go_on(parts)
        self.assertEqual(self.value(other, "os.getcwd(), os.environ['TMPDIR']"), "('/', '/etc')")
        self.assertEqual(os.listdir(other.work), ["f"])

    def test_modes_times_and_links(self):
        code = """
import os
os.makedirs("a/b")
open("a/b/file", "w").write("x" * 1000)
open("a/empty", "w").close()
open("run", "w").write("#!")
os.chmod("run", 0o750)
os.utime("run", ns=(5, 1234567890123456789))
os.symlink("a/b/file", "link")
os.symlink("/nowhere", "broken")
open(b"bad\\xff", "w").write("odd")
open("large", "wb").write(bytes(range(256)) * 4096)
os.mkfifo("pipe")
os.mkdir("closed")
open("closed/in", "w").write("in")
os.chmod("closed", 0o500)
"""
        guest = self.begin(code)
        told, parts = self.save(guest)
        unsaved = [(one["name"].rpartition("/")[2], one["type"]) for one in told["unsaved"]]
        self.assertEqual(unsaved, [("pipe", "special file")])
        self.assertEqual(told["files"]["bytes"], 1000 + 2 + 3 + (1 << 20) + 2)
        other, restored = self.go_on(parts)
        self.assertEqual(restored["missing"][1:], [])
        run = os.stat(f"{other.work}/run")
        self.assertEqual((stat.S_IMODE(run.st_mode), run.st_mtime_ns), (0o750, 1234567890123456789))
        self.assertEqual(os.readlink(f"{other.work}/link"), "a/b/file")
        self.assertEqual(os.readlink(f"{other.work}/broken"), "/nowhere")
        self.assertEqual(stat.S_IMODE(os.stat(f"{other.work}/closed").st_mode), 0o500)
        for name in (b"a/b/file", b"a/empty", b"bad\xff", b"large", b"closed/in"):
            paths = [os.path.join(os.fsencode(one.work), name) for one in (guest, other)]
            with open(paths[0], "rb") as ours, open(paths[1], "rb") as theirs:
                self.assertEqual(ours.read(), theirs.read(), name)
        self.assertEqual(sorted(os.listdir(guest.work)), sorted([*os.listdir(other.work), "pipe"]))

    def test_too_many(self):
        guest = self.begin("for i in range(10001): open(f'f{i}', 'w').close()")
        self.assertEqual(portable.save(guest)[0]["error"]["errno"], "EFBIG")

    def test_a_file_that_changes_within_a_tick_of_its_clock(self):
        code = "import os\ndef write(text):\n    open('f', 'w').write(text * 300000)\n    os.utime('f', ns=(1, 1))"
        guest = self.begin(code)
        digests = set()
        for text in "abc":
            self.run_ok(guest, f"write('{text}')")
            digests.add(self.save(guest)[0]["digest"])
        self.assertEqual(len(digests), 3)


if __name__ == "__main__":
    unittest.main()
