# SPDX-License-Identifier: Apache-2.0
"""What builds guests: steps and their stamps, wasm2c's output rewritten, trees that are the same every time."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

import debian  # noqa: E402
import steps  # noqa: E402
import transform  # noqa: E402
import tree  # noqa: E402


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)


class Steps(InDirectory):
    def setUp(self):
        super().setUp()
        self.steps = steps.Steps(self.directory / "work", 2)
        self.steps.say = lambda text: None
        self.output = self.directory / "output"
        self.times = 0

    def step(self, inputs, fail=None):
        with self.steps.step("one", inputs, [self.output]) as wanted:
            if wanted:
                self.times += 1
                if fail:
                    raise fail
                self.output.write_text("x")

    def test_a_step_is_done_once(self):
        self.step(["a"])
        self.step(["a"])
        self.assertEqual(self.times, 1)

    def test_inputs_count_by_content(self):
        source = self.directory / "source"
        source.mkdir()
        (source / "file").write_text("1")
        self.step([source])
        (source / "file").touch()
        self.step([source])
        self.assertEqual(self.times, 1)
        (source / "file").write_text("2")
        self.step([source])
        self.assertEqual(self.times, 2)

    def test_an_output_that_is_gone_is_made_again(self):
        self.step([])
        self.output.unlink()
        self.step([])
        self.assertEqual(self.times, 2)

    def test_a_failure_leaves_no_stamp(self):
        self.step(["a"])
        with self.assertRaises(OSError):
            self.step(["b"], OSError())
        self.step(["a"])  # its stamp went when the other one started
        self.assertEqual(self.times, 3)

    def test_what_was_not_made_is_told(self):
        with self.assertRaisesRegex(steps.BuildError, "nothing has made .*/output"):
            with self.steps.step("one", [], [self.output]):
                pass

    def test_the_end_of_a_failing_commands_output_is_shown(self):
        with self.assertRaisesRegex(steps.BuildError, r"(?s)sh failed; the end of .*\n  reason$"):
            self.steps.run(["sh", "-c", "echo reason; exit 3"])
        with self.assertRaisesRegex(steps.BuildError, "can't run /nowhere/x: No such file"):
            self.steps.run(["/nowhere/x"])


class Archive(InDirectory):
    """Debian's archive, with an apt-get that has what the test lets it have."""

    def setUp(self):
        super().setUp()
        programs = self.directory / "bin"
        programs.mkdir()
        self.available = self.directory / "available"
        self.calls = self.directory / "calls"
        script = programs / "apt-get"
        script.write_text('#!/bin/sh\nfor last; do :; done\necho "$last" >>' + f'"{self.calls}"\n'
                          f'test "$last" = update && exit 0\ngrep -qx "$last" "{self.available}" || exit 100\n'
                          'name=${last%%/*}\nprintf "Version: 1.0-1\\n" >"$name.dsc"\n')
        script.chmod(0o755)
        unpack = programs / "dpkg-source"
        unpack.write_text('#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/debian" && echo one >"$last/file"\n')
        unpack.chmod(0o755)
        self.steps = steps.Steps(self.directory / "work", 1)
        self.steps.say = lambda text: None
        self.steps.environment["PATH"] = f"{programs}:{self.steps.environment['PATH']}"
        self.archive = debian.Debian(self.steps)
        keyring = self.directory / "keyring"
        keyring.touch()
        self.addCleanup(setattr, debian, "KEYRING", debian.KEYRING)
        debian.KEYRING = str(keyring)

    def test_a_source_is_fetched_once(self):
        self.available.write_text("zlib\n")
        for _ in range(2):
            package = self.archive.source("zlib")
        self.assertEqual((package.version, (package.directory / "file").read_text()), ("1.0-1", "one\n"))
        self.assertEqual(self.calls.read_text().split(), ["update", "zlib"])

    def test_the_releases_own_version_stands_in(self):
        self.available.write_text(f"zlib/{debian.RELEASE}\n")
        self.assertEqual(self.archive.source("zlib").version, "1.0-1")

    def test_what_is_nowhere_is_told(self):
        self.available.write_text("")
        with self.assertRaisesRegex(steps.BuildError, "zlib is neither in its newest version nor in that of book"):
            self.archive.source("zlib")

    def test_patches_are_applied_and_count(self):
        self.available.write_text("zlib\n")
        patch = self.directory / "fix.patch"
        for text in ("two", "three"):
            patch.write_text(f"--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+{text}\n")
            package = self.archive.source("zlib", [patch])
            self.assertEqual((package.directory / "file").read_text(), text + "\n")
        patch.write_text("--- a/file\n+++ b/file\n@@ -1 +1 @@\n-other\n+four\n")
        with self.assertRaisesRegex(steps.BuildError, "patch failed"):
            self.archive.source("zlib", [patch])

    def test_missing_keys_are_told(self):
        debian.KEYRING = str(self.directory / "nowhere")
        with self.assertRaisesRegex(steps.BuildError, "apt-get install debian-archive-keyring"):
            self.archive.source("zlib")


class Transform(InDirectory):
    def transform(self, *changes):
        text = (HERE / "sample.c").read_text()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        source = self.directory / "sample.c"
        source.write_text(text)
        self.files = transform.transform(source, self.directory / "code", "sample", "0" * 64, 3)
        return "".join(pathlib.Path(path).read_text() for path in self.files)

    def test_memory_table_globals_imports(self):
        code = self.transform()
        for line in ("instance->globals[0] = w2c_i0;", "w2c_i1 = wasm_memory_grow(instance, w2c_i1);",
                     "i32_store(instance, (u64)(w2c_i0) + 8, w2c_i1);",
                     "memory_copy(instance, w2c_i0, w2c_i1, w2c_i2);",
                     "memory_fill(instance, w2c_i0, w2c_i1, w2c_i2);", "w2c_i1 = (u32)(instance->size / WASM_PAGE);",
                     "CALL_INDIRECT(u32 (*)(struct wasm_instance *, u32, u32), 1, w2c_i2, instance, w2c_i0, w2c_i1);",
                     "sbx_interrupt_mark(instance, w2c_i0);", "w2c_i0 = wasi_fd_close(instance, w2c_i0);",
                     "[1] = {1, (void (*)(void))w2c_f2},", "[2] = {4, (void (*)(void))w2c_f3},", ".initial_pages = 2,",
                     "global_values[] = {65536u};", ".start = w2c_sbx_start,", '.module_sha256 = "' + "0" * 64):
            self.assertIn(line, code)

    def test_equal_signatures_are_one_type(self):
        module = transform.Module((HERE / "sample.c").read_text())
        self.assertEqual(module.types, {0: 1, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5})

    def test_the_result_compiles(self):
        compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
        if not compiler:
            self.skipTest("there is no C compiler")
        self.transform()
        engine = SOURCE / "plugins/backend-wasm/engine"
        includes = [f"-I{path}" for path in (HERE.parent, engine, self.directory / "code")]
        subprocess.run([compiler, "-std=gnu11", "-Werror", "-Wall", "-Wno-unused-function", "-Wno-unused-label",
                        "-Wno-unused-value", "-fsyntax-only", *includes, *self.files], check=True)

    def test_functions_are_spread_and_none_is_lost(self):
        self.transform()
        names = [os.path.basename(path) for path in self.files]
        self.assertEqual(names, ["part00.c", "part01.c", "part02.c", "state.c"])
        functions = sum(pathlib.Path(path).read_text().count("\nHIDDEN ") for path in self.files[:3])
        self.assertEqual(functions, 7)

    def test_what_is_not_known_is_refused(self):
        for old, new in (("wasi_snapshot_preview1Z_fd_close)(instance->Z_wasi_snapshot_preview1",
                          "hostZ_fd_close)(instance->Z_host"),
                         ("w2c_i0 = instance->w2c_g0;", "w2c_i0 = instance->w2c_g1;"),
                         ("memory_fill(&instance->w2c_memory,", "memory_init(&instance->w2c_memory, x, 3,"),
                         ("instance->w2c_g0 = 65536u;", "instance->w2c_g0 = 0x1p+1;"),
                         ("{4, (wasm_rt_function_ptr_t)&w2c_f3, 0},", "{4, (wasm_rt_function_ptr_t)&w2c_f3, 8},"),
                         ("/* export: 'sbx_request' */", "/* export: 'other' */")):
            with self.subTest(new), self.assertRaises(transform.TransformError):
                self.transform((old, new))


class Tree(InDirectory):
    def make(self, name):
        library = self.directory / "library"
        for path, text in (("json/__init__.py", "x = 1\n"), ("test/test_json.py", "y\n"), ("idlelib/x.py", "z\n"),
                           ("data.txt", "text"), ("json/tests/a.py", "")):
            (library / path).parent.mkdir(parents=True, exist_ok=True)
            (library / path).write_text(text)
        target = self.directory / name
        tree.make_python_tree(str(target), str(library), [], None, 1700000000, 1)
        return target

    def test_without_tests_and_with_byte_code(self):
        made = self.make("one")
        files = sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file())
        library = "usr/lib/python3.11/"
        tag = sys.implementation.cache_tag
        compiled = library + f"json/__pycache__/__init__.{tag}.pyc"
        self.assertEqual(files, [library + "data.txt", library + "json/__init__.py", compiled])
        code = (made / compiled).read_bytes()
        self.assertEqual(code[4:8], b"\1\0\0\0")  # a hash that nobody checks
        self.assertIn(b"/usr/lib/python3.11/json/__init__.py", code)

    def test_the_same_every_time(self):
        first, second = (self.make(name) for name in ("one", "two"))
        self.assertEqual(steps.hash_tree(first), steps.hash_tree(second))
        self.assertEqual({path.stat().st_mtime for path in first.rglob("*")}, {1700000000.0})


if __name__ == "__main__":
    unittest.main()
