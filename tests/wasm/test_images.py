#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`image build`, `list`, `prune` with backend-wasm: packages baked into an image, and sessions that begin with them."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import wasm_case  # first: it finds the others
from tap import main, skip

INSTALLED = os.path.join(os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT", ""), "guests/wasm")

PROGRAM = os.environ.get("SNIPARA_SANDBOX", "snipara-sandbox")


def write(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_text(text, encoding="utf-8")


class Images(unittest.TestCase):
    def setUp(self):
        reason = wasm_case.with_guest.missing()
        if reason is not None:
            skip(reason)
        holder = tempfile.TemporaryDirectory(prefix="sbx-images-")
        self.addCleanup(holder.cleanup)
        self.project = os.path.join(holder.name, "project")
        self.cache = os.path.join(holder.name, "cache")
        os.makedirs(self.project)

    def run_program(self, *arguments, status=0, packages=()):
        self.configure(packages)
        result = subprocess.run([PROGRAM, *arguments, "--config", self.project + "/sandbox.cfg"], cwd=self.project,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def configure(self, packages):
        names = ", ".join('"%s"' % name for name in packages)
        write(self.project + "/sandbox.cfg",
              'environment = "wasm";\nplugins = ( { name = "wasm"; plugin = "backend-wasm"; pool = 0; '
              'cache_directory = "%s"; packages = [ %s ]; } );\n' % (self.cache, names))

    def execute(self, code, packages=()):
        return self.run_program("exec", "-q", "-c", code, packages=packages).stdout

    def images(self, packages=()):
        text = self.run_program("image", "list", "--env", "wasm", "--json", packages=packages).stdout
        found = json.loads(text)
        return found["images"] if isinstance(found, dict) else found

    def kept(self, pattern):
        return [name for name in os.listdir(self.cache) if re.search(pattern, name)]

    def test_a_package_from_build_to_prune(self):
        write(self.project + "/tool/__init__.py", "import json\nfrom . import part\n")
        write(self.project + "/tool/part.py", "value = 41\n")
        write(self.project + "/tool/later.py", "value = 42\n")
        wanted = ["./tool"]
        result = self.run_program("exec", "-c", "1", status=2, packages=wanted)
        self.assertIn("was not built yet", result.stderr)
        self.assertIn("image build", result.stderr)
        self.run_program("image", "build", "--env", "wasm", packages=wanted)
        self.assertEqual(self.execute("import sys; print('tool' in sys.modules)", wanted), "True\n")
        self.assertEqual(self.execute("import tool, tool.later; print(tool.part.value, tool.later.value)", wanted),
                         "41 42\n")
        self.assertEqual(self.execute("import sys; print('tool' in sys.modules)"), "False\n")

        (built,) = self.kept(r"^python-[0-9a-f]{32}\.sbximg$")
        before = os.stat(os.path.join(self.cache, built))
        self.run_program("image", "build", "--env", "wasm", packages=wanted)
        after = os.stat(os.path.join(self.cache, built))
        self.assertEqual(before.st_mtime_ns, after.st_mtime_ns, "it was built again")

        rows = {image["name"]: image for image in self.images(wanted)}
        self.assertTrue(rows[built]["prepared"] and rows[built]["in_use"], rows)
        self.assertTrue(rows[built]["size"] > 0)
        self.assertFalse(rows["python.sbximg"]["in_use"], rows)
        rows = {image["name"]: image for image in self.images()}
        self.assertTrue(rows[built]["prepared"] and not rows[built]["in_use"], rows)
        self.assertTrue(rows["python.sbximg"]["in_use"], rows)

        self.run_program("image", "prune", "--env", "wasm", packages=wanted)
        self.assertEqual(self.kept(r"^python-"), [built], "what is asked for was removed")
        write(self.cache + "/.new-bake-killed/tree/file")
        write(self.cache + "/.new-bake-running/tree/file")
        os.utime(self.cache + "/.new-bake-killed", (0, 0))
        self.run_program("image", "prune", "--env", "wasm")
        self.assertEqual(self.kept(r"^python-"), [])
        installed = [name for name in os.listdir(INSTALLED) if name.endswith(".sbximg")]
        self.assertIn(len(self.kept(r"\.expanded$")), range(1, len(installed) + 1), "of what is installed")
        self.assertEqual(self.kept(r"^\.new-"), [".new-bake-running"])

    def test_another_content_is_another_image(self):
        write(self.project + "/tool/__init__.py", "value = 1\n")
        self.run_program("image", "build", "--env", "wasm", packages=["./tool"])
        write(self.project + "/tool/__init__.py", "value = 2\n")
        self.run_program("exec", "-c", "1", status=2, packages=["./tool"])
        self.run_program("image", "build", "--env", "wasm", packages=["./tool"])
        self.assertEqual(self.execute("import tool; print(tool.value)", ["./tool"]), "2\n")

    def test_a_list_of_one_command(self):
        write(self.project + "/tool.py", "value = 3\n")
        built = self.run_program("image", "build", "--env", "wasm", "--with", "./tool.py")
        self.assertIn("--set wasm.packages=./tool.py", built.stderr)
        self.assertEqual(self.execute("import tool; print(tool.value)", ["./tool.py"]), "3\n")

    def test_what_can_not_be_imported(self):
        write(self.project + "/tool/__init__.py", "import nothing_of_this_name\n")
        result = self.run_program("image", "build", "--env", "wasm", status=3, packages=["./tool"])
        self.assertIn("No module named 'nothing_of_this_name'", result.stderr)
        self.assertEqual(self.kept(r"^(python-|\.new-)"), [], "something was left")

    def test_native_code(self):
        write(self.project + "/tool/__init__.py")
        write(self.project + "/tool/fast.cpython-311-x86_64-linux-gnu.so")
        result = self.run_program("image", "build", "--env", "wasm", status=3, packages=["./tool"])
        self.assertIn("native code (tool/fast.cpython-311-x86_64-linux-gnu.so)", result.stderr)
        self.assertIn("local or docker", result.stderr)

    def test_a_package_that_is_not_there(self):
        result = self.run_program("image", "build", "--env", "wasm", status=2, packages=["./nowhere"])
        self.assertIn("./nowhere", result.stderr)
        self.assertIn("relative to the project", result.stderr)

    def test_code_that_runs_while_baking_is_a_guest(self):
        secret = os.path.join(self.project, "secret")
        write(secret, "of the host")
        write(self.project + "/tool/__init__.py",
              "import os\nfound = []\nfor path in (%r, '/etc/passwd', '/proc/self/environ'):\n"
              "    try:\n        found.append(open(path).read())\n    except OSError:\n        pass\n"
              "names = sorted(os.environ)\n" % secret)
        self.run_program("image", "build", "--env", "wasm", packages=["./tool"])
        self.assertEqual(self.execute("import tool; print(tool.found)", ["./tool"]), "[]\n")

    def test_a_state_outlives_the_configuration(self):
        tool = os.path.join(self.project, "tool.py")
        write(tool, "value = 4\n")
        self.run_program("image", "build", "--env", "wasm", packages=[tool])
        state = os.path.join(self.project, "state")
        cache = "wasm.cache_directory=" + self.cache
        with wasm_case.drive.Driver("wasm", ["wasm.pool=0", cache, "wasm.packages=" + tool]) as driver:
            guest = driver.start()
            guest.run("import tool; tool.value += 1")
            guest.save(state)
        with wasm_case.drive.Driver("wasm", ["wasm.pool=0", cache]) as driver:
            self.assertEqual(driver.start().run("import sys; print('tool' in sys.modules)"), "False\n")
            self.assertEqual(driver.restore(state).run("print(tool.value)"), "5\n")


if __name__ == "__main__":
    main()
