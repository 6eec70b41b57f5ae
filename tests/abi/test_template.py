#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plugin author's way: install snipara-sandbox into an empty place, copy examples/plugin-template away from the sources,
build, test and install it there through pkg-config, and load it with the installed program.

Environment: BUILD_ROOT, the build directory of the whole project, already built.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import main, note, skip  # noqa: E402

TEMPLATE = HERE.parents[1] / "examples" / "plugin-template"
BUILD_ROOT = os.environ.get("BUILD_ROOT", "")


class Template(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BUILD_ROOT:
            skip("BUILD_ROOT is not set: run it with meson test")
        for tool in ("meson", "ninja", "pkg-config"):
            if shutil.which(tool) is None:
                skip("%s is not installed" % tool)
        os.umask(0o022)  # or the plugin directory would be refused
        scratch = tempfile.TemporaryDirectory(prefix="sbx-template-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name).resolve()
        cls.environment = {key: value for key, value in os.environ.items()
                           if not key.startswith(("SNIPARA_", "RLM_", "MESON", "DESTDIR"))}
        for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            cls.environment[name] = str(cls.scratch / name.lower())
            (cls.scratch / name.lower()).mkdir(mode=0o700)
        cls.install_project()
        cls.build_template()

    @classmethod
    def run_tool(cls, *command, ok=True, **options):
        done = subprocess.run([str(word) for word in command], env=cls.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, **options)
        if ok and done.returncode != 0:
            raise AssertionError("%s: exit code %d\n%s" % (" ".join(map(str, command)), done.returncode, done.stdout))
        return done

    @classmethod
    def install_project(cls):
        """Staged below the scratch directory, as a distribution's package build does, and used from there: the program
        finds its plugins relative to itself."""
        stage = cls.scratch / "stage"
        cls.run_tool("meson", "install", "-C", BUILD_ROOT, "--destdir", stage, "--no-rebuild", "--quiet")
        found = sorted(stage.rglob("snipara-sandbox.pc"))
        assert len(found) == 1, "installed pkg-config files: %s" % found
        cls.pc = found[0]
        text = cls.pc.read_text(encoding="utf-8")
        cls.prefix = pathlib.Path(str(stage) + re.search(r"^prefix=(.*)$", text, re.M)[1])
        cls.pc.write_text(re.sub(r"^prefix=.*$", "prefix=%s" % cls.prefix, text, flags=re.M), encoding="utf-8")
        cls.environment["PKG_CONFIG_PATH"] = str(cls.pc.parent)
        cls.environment["LD_LIBRARY_PATH"] = str(cls.pc.parent.parent)

    @classmethod
    def build_template(cls):
        source, build = cls.scratch / "my-plugin", cls.scratch / "my-build"
        shutil.copytree(TEMPLATE, source)
        cls.run_tool("meson", "setup", build, source, "--prefix", cls.scratch / "my-prefix")
        cls.run_tool("meson", "compile", "-C", build)
        cls.build, cls.built = build, build / "sink-example.so"

    def variable(self, name):
        return self.run_tool("pkg-config", "--variable=" + name, "snipara-sandbox").stdout.strip()

    def program(self, *arguments, ok=True, **options):
        path = self.prefix / "bin" / "snipara-sandbox"
        if not path.exists():
            skip("the program is not part of this build")
        done = self.run_tool(path, *arguments, ok=ok, cwd=self.scratch, **options)
        note(done.stdout)
        return done

    def installed(self):
        """The template in the plugin directory."""
        self.run_tool("meson", "install", "-C", self.build, "--no-rebuild", "--quiet")
        path = pathlib.Path(self.variable("plugindir"), "sink-example.so")
        self.assertTrue(path.is_file())
        return path

    def configure(self, *lines):
        path = self.scratch / "test.cfg"
        path.write_text("plugins = (\n  { name = \"local\"; plugin = \"backend-local\"; },\n"
                        "  { name = \"events\"; plugin = \"sink-example\"; %s }\n);\n" % " ".join(lines), encoding="utf-8")
        return path

    def test_pkg_config_tells_where_plugins_go_and_which_abi(self):
        self.assertTrue(self.variable("plugindir").startswith(str(self.prefix)))
        self.assertTrue(self.variable("plugindir").endswith("/snipara-sandbox/plugins"))
        self.assertTrue(self.variable("confdir").endswith("/snipara-sandbox"))
        self.assertEqual(self.variable("abi_major"), "1")
        self.assertRegex(self.variable("abi_minor"), r"^\d+$")

    def test_installed_headers_are_complete(self):
        source = self.scratch / "all.c"
        headers = sorted(path.name for path in (HERE.parents[1] / "include" / "snipara-sandbox").glob("*.h"))
        source.write_text("".join("#include <snipara-sandbox/%s>\n" % name for name in headers), encoding="utf-8")
        flags = self.run_tool("pkg-config", "--cflags", "snipara-sandbox").stdout.split()
        self.run_tool("cc", "-fsyntax-only", *flags, source)

    def test_the_template_passes_its_own_tests(self):
        self.run_tool("meson", "test", "-C", self.build, "--no-rebuild")

    def test_the_template_links_with_nothing_of_the_host(self):
        needed = self.run_tool("readelf", "-d", self.built).stdout
        self.assertNotIn("snipara", "".join(line for line in needed.splitlines() if "NEEDED" in line))
        defined = self.run_tool("nm", "-D", "--defined-only", self.built).stdout.split()
        self.assertEqual([word for word in defined if word.startswith("sbx_")], ["sbx_plugin_entry_v1"])

    def test_plugins_check_accepts_it(self):
        self.assertIn("sink-example", self.program("plugins", "check", self.built).stdout)

    def test_plugins_check_refuses_it_when_others_can_write_it(self):
        directory = self.scratch / "writable"
        directory.mkdir()
        path = pathlib.Path(shutil.copy(self.built, directory))
        path.chmod(0o777)
        done = self.program("plugins", "check", path, ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(path), done.stdout)
        self.assertIn("chmod go-w", done.stdout)

    def test_plugins_info_prints_its_options(self):
        self.installed()
        text = self.program("plugins", "info", "sink-example").stdout
        for word in ("sink-example", "file", "max_size", "64m"):
            self.assertIn(word, text)

    def test_plugins_list_names_it(self):
        self.installed()
        self.assertIn("sink-example", self.program("plugins", "list").stdout)

    def test_an_execution_loads_and_starts_it(self):
        self.installed()
        events = self.scratch / "events.jsonl"
        config = self.configure('file = "%s";' % events, "critical = true;")
        done = self.program("exec", "--config", config, "-c", "print(6 * 7)", ok=False)
        if done.returncode == 3:
            skip("no jail can be set up here")
        self.assertEqual(done.returncode, 0)
        self.assertIn("42", done.stdout)
        lines = events.read_text(encoding="utf-8").splitlines()
        self.assertNotEqual(lines, [], "an execution is an event")
        for line in lines:
            self.assertLessEqual({"trajectory_id", "event", "timestamp"}, set(json.loads(line)))

    def test_a_wrong_option_is_refused_with_file_and_line(self):
        self.installed()
        config = self.configure('file = "x.jsonl"; max_sise = "1m";', "critical = true;")
        done = self.program("exec", "--config", config, "-c", "1", ok=False)
        self.assertEqual(done.returncode, 2)
        for word in ("max_sise", "max_size", "test.cfg:3"):
            self.assertIn(word, done.stdout)

    def test_a_sink_that_fails_does_not_fail_the_run_unless_critical(self):
        self.installed()
        done = self.program("exec", "--config", self.configure('file = "/nonexistent/x.jsonl";'), "-c", "print(6 * 7)",
                            ok=False)
        if done.returncode == 3:
            skip("no jail can be set up here")
        self.assertEqual(done.returncode, 0)
        self.assertIn("42", done.stdout)
        self.assertIn("/nonexistent/x.jsonl", done.stdout)
        done = self.program("exec", "--config", self.configure('file = "/nonexistent/x.jsonl";', "critical = true;"), "-c",
                            "print(6 * 7)", ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("42", done.stdout)
        self.assertIn("/nonexistent/x.jsonl", done.stdout)


if __name__ == "__main__":
    main()
