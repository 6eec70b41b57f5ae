#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The MCPB bundle and server.json of the build: their shape, and that what was unpacked from the bundle runs."""
import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import ROOT, environment  # noqa: E402

BUILD = os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT")
SCRIPT = ROOT / "packaging" / "mcp" / "make_bundle.py"
URL = "https://example.org/releases/2"


def make(out, *args):
    return subprocess.run([sys.executable, SCRIPT, "--build", BUILD, "--out", out, *args], capture_output=True, text=True,
                          check=False, timeout=300)


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BUILD:
            skip("SNIPARA_SANDBOX_BUILD_ROOT is not set: there is no build to bundle")
        if os.environ.get("SANITIZER", "none") != "none":
            skip("a build with sanitizers is not for bundles")
        cls.directory = tempfile.TemporaryDirectory(prefix="sbx-bundle-")
        cls.addClassCleanup(cls.directory.cleanup)
        os.chmod(cls.directory.name, 0o755)
        cls.out = pathlib.Path(cls.directory.name, "out")
        done = make(cls.out, "--url", URL)
        assert done.returncode == 0, done.stderr
        cls.bundle, = cls.out.glob("*.mcpb")
        cls.folder = pathlib.Path(cls.directory.name, "unpacked")
        with zipfile.ZipFile(cls.bundle) as archive:
            for info in archive.infolist():
                path = archive.extract(info, cls.folder)
                os.chmod(path, info.external_attr >> 16 & 0o777)
        cls.manifest = json.loads((cls.folder / "manifest.json").read_text())

    def test_manifest(self):
        manifest = self.manifest
        self.assertEqual(manifest["manifest_version"], "0.3")
        self.assertEqual(manifest["server"]["type"], "binary")
        self.assertEqual(manifest["compatibility"]["platforms"], ["linux"])
        for name in ("name", "version", "description", "author"):
            self.assertTrue(manifest[name])
        program = self.folder / manifest["server"]["entry_point"]
        self.assertTrue(program.stat().st_mode & stat.S_IXUSR)
        used = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"])))
        self.assertEqual(used, set(manifest["user_config"]))
        self.assertTrue(all(entry["sensitive"] for entry in manifest["user_config"].values()))
        names = {tool["name"] for tool in manifest["tools"]}
        self.assertLessEqual({"execute_python", "list_sessions", "execute"}, names)
        self.assertFalse({name for name in names if name.startswith("test_")})

    def test_unpacked_program_runs(self):
        config = self.manifest["server"]["mcp_config"]
        command = config["command"].replace("${__dirname}", str(self.folder))
        values = {name: value.replace("${__dirname}", str(self.folder)) for name, value in config["env"].items()
                  if "user_config" not in value}
        home = tempfile.mkdtemp(dir=self.directory.name)
        values = environment(home, **values)
        values.pop("SNIPARA_SANDBOX_BUILD_ROOT", None)
        listed = subprocess.run([command, "plugins", "list"], capture_output=True, text=True, env=values, check=True,
                                cwd=home, timeout=60)
        self.assertIn("transport-mcp", listed.stdout)
        done = subprocess.run([command, "exec", "-c", "print(6 * 7)"], capture_output=True, text=True, env=values,
                              check=False, cwd=home, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "42\n"), done.stderr)

    def test_nothing_for_developers_and_licences_of_libraries(self):
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*")]
        self.assertFalse([name for name in names if name.endswith((".h", ".pc", ".a"))])
        self.assertIn("LICENSE", names)
        self.assertTrue([name for name in names if name.startswith("licences/libjansson")])
        self.assertFalse([name for name in names if re.search(r"/libc\.so|/ld-linux", name)])

    def test_server_json(self):
        value = json.loads((self.out / "server.json").read_text())
        self.assertRegex(value["name"], r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")
        self.assertTrue(1 <= len(value["description"]) <= 100)
        self.assertTrue(value["$schema"].endswith("/2025-12-11/server.schema.json"))
        package, = value["packages"]
        self.assertEqual(package["registryType"], "mcpb")
        self.assertEqual(package["identifier"], f"{URL}/{self.bundle.name}")
        self.assertEqual(package["fileSha256"], hashlib.sha256(self.bundle.read_bytes()).hexdigest())
        self.assertEqual(package["transport"], {"type": "stdio"})

    def test_same_bytes_again(self):
        again = pathlib.Path(self.directory.name, "again")
        done = make(again)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((again / self.bundle.name).read_bytes(), self.bundle.read_bytes())
        self.assertNotIn("packages", json.loads((again / "server.json").read_text()))

    def test_mistakes_are_told(self):
        for args, says in ((("--url", "ftp://x"), "https"),):
            done = make(pathlib.Path(self.directory.name, "bad"), *args)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    main()
