#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of other languages than Python on this machine, through the real program: state, ends, versions."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from cli_case import Sandboxed  # noqa: E402
from tap import main  # noqa: E402

PLACES = ("/usr/bin/node", "/usr/local/bin/node", "/usr/bin/nodejs")  # where backend-local looks


def version_of(program):
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    return re.search(r"\d+\.\d+(\.\d+)?", told).group()


NODE = next((place for place in PLACES if os.access(place, os.X_OK)), None)
NODE_VERSION = version_of(NODE) if NODE else "0.0.0"
MAJOR = int(NODE_VERSION.split(".")[0])

PATIENT = ("--timeout", "2", "--set", "interrupt_grace=60s")  # on a machine that is busy, too


class Language(Sandboxed):
    def results(self, language, *codes, flags=(), suffix="js"):
        """Results of pieces of code in one session."""
        files = [self.write(f"code{i}.{suffix}", code) for i, code in enumerate(codes)]
        done = self.run_cli("exec", "--env", "local", "--language", language, "--json", *flags, *files)
        self.assertTrue(done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


@unittest.skipIf(MAJOR < 18, f"no Node 18 or later in {', '.join(PLACES)}")
class NodeTest(Language):
    def test_state_lasts(self):
        told = self.results("node", "const a = 1; let b = {c: [2]}; function f() { return a + b.c[0] }",
                            "console.log(f()); result = f() * 2")
        self.assertEqual([one["end"] for one in told], ["ok", "ok"])
        self.assertEqual((told[1]["stdout"], told[1]["result"], told[1]["isolation"]), ("3\n", "6", "namespaces"))
        self.assertGreater(told[1]["memory_peak_bytes"], 0)

    def test_it_is_in_the_jail(self):
        code = ("const os = require('os'), fs = require('fs');\n"
                "result = [process.pid, process.getuid(), os.hostname(), process.cwd(), "
                "fs.readdirSync('/').includes('home'), process.env.HOME]")
        told = self.results("node", code)[0]
        self.assertEqual(json.loads(told["result_json"]) if isinstance(told["result_json"],
                                                                       str) else told["result_json"],
                         [1, 65534, "sandbox", "/workspace", False, "/tmp"])

    def test_a_time_out_keeps_state(self):
        for loop in ("for (;;);", "await null; for (;;);", "require('child_process').execSync('sleep 1000')"):
            told = self.results("node", "var kept = 'yes'", loop, flags=PATIENT)
            self.assertEqual([(one["end"], one["state"]) for one in told], [("ok", "kept"), ("timeout", "kept")], loop)

    def test_errors(self):
        for code, end, kind in (("null.x", "error", "TypeError"), ("process.exit(3)", "error", "ExitError"),
                                ("process.exit(0)", "ok", None)):
            told = self.results("node", code)[0]
            self.assertEqual((told["end"], (told["error"] or {}).get("type")), (end, kind))

    def test_versions(self):
        self.assertEqual(self.results(f"node{MAJOR}", "result = process.version")[0]["result"], f"'v{NODE_VERSION}'")
        self.fails(2, "exec", "--env", "local", "--language", "node" + ("22" if MAJOR != 22 else "20"), "-c", "1",
                   says=("no runtime", NODE_VERSION))

    def test_one_outside_of_the_usual_places(self):
        directory = os.path.join(self.home, "node", "bin")
        os.makedirs(directory)
        shutil.copy(NODE, directory)
        for path in (self.home, os.path.dirname(self.home)):
            os.chmod(path, 0o755)
        program = os.path.join(directory, "node")
        for isolation in ("namespaces", "landlock"):
            done = self.run_cli("exec", "--env", "local", "--set", f"local.node={program}", "--set",
                                f"local.isolation={isolation}",
                                "--language", "node", "-c", "process.execPath")
            self.assertEqual(done.stdout, f"'{program}'\n", done.stderr)
        self.fails(2, "exec", "--env", "local", "--set", "local.node=/nowhere/node", "--language", "node", "-c", "1",
                   says="/nowhere/node")


@unittest.skipIf(shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") is None, "no bash")
class BashTest(Language):
    def test_state_lasts(self):
        told = self.results("bash", "a=1; f() { echo \"f $a\"; }; cd /tmp; export E=2", "f; pwd; env | grep ^E=",
                            suffix="sh")
        self.assertEqual([one["end"] for one in told], ["ok", "ok"])
        self.assertEqual(told[1]["stdout"], "f 1\n/tmp\nE=2\n")

    def test_a_time_out_keeps_state(self):
        told = self.results("bash", "kept=yes", "while :; do :; done", flags=PATIENT, suffix="sh")
        self.assertEqual([(one["end"], one["state"]) for one in told], [("ok", "kept"), ("timeout", "kept")])


class PythonTest(Language):
    def test_versions(self):
        told = self.results("python", "import sys; result = list(sys.version_info[:2])", suffix="py")[0]
        major, minor = re.findall(r"\d+", told["result"])
        self.assertEqual(self.results(f"python{major}.{minor}", "result = 1", suffix="py")[0]["end"], "ok")
        self.fails(2, "exec", "--env", "local", "--language", f"python{major}.{int(minor) + 1}", "-c", "1",
                   says=("no runtime", f"{major}.{minor}."))


if __name__ == "__main__":
    main()
