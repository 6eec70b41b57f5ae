# SPDX-License-Identifier: Apache-2.0
"""sbx-wasm-packages.py alone: what it lays out, and what it refuses."""
import contextlib
import http.server
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests"))
from tap import main, skip  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../sbx-wasm-packages.py")
SITE = "tree/usr/lib/python3/site-packages"


def write(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_text(text, encoding="utf-8")


def make_wheel(directory, name="tool", version="1.0", tag="py3-none-any", files=None, requires=()):
    path = os.path.join(directory, f"{name}-{version}-{tag}.whl")
    info = f"{name}-{version}.dist-info/"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    content = files if files is not None else {f"{name}/__init__.py": "value = 1\n"}
    content = {**content, info + "METADATA": metadata, info + "WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n"}
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)
        archive.writestr(info + "RECORD", "".join(f"{file},,\n" for file in content))
    return path


class Packages(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="sbx-packages-")
        self.addCleanup(holder.cleanup)
        self.project = os.path.join(holder.name, "project")
        self.out = os.path.join(holder.name, "out")
        os.makedirs(self.project)
        os.makedirs(self.out)

    def collect(self, *packages, **environment):
        return subprocess.run([sys.executable, "-I", PROGRAM, "--project", self.project, "--python", "3.11.2",
                               "--out", self.out, "--", *packages], capture_output=True, text=True, timeout=120,
                              check=False, env={"PATH": os.environ["PATH"], "HOME": self.project, **environment})

    def collected(self, *packages, **environment):
        result = self.collect(*packages, **environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        site = os.path.join(self.out, SITE)
        return sorted(os.path.relpath(os.path.join(base, name), site) for base, _, names in os.walk(site)
                      for name in names if not name.endswith(".pyc"))

    def refused(self, *packages, **environment):
        result = self.collect(*packages, **environment)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr.strip().splitlines()[-1]

    def preload(self):
        return pathlib.Path(self.out, "preload").read_text(encoding="utf-8").split()

    def facts(self):
        return json.loads(pathlib.Path(self.out, "packages.json").read_text(encoding="utf-8"))

    # ---- directories

    def test_a_package(self):
        write(self.project + "/tool/__init__.py", "value = 1\n")
        write(self.project + "/tool/data/table.txt", "x")
        write(self.project + "/tool/__pycache__/old.cpython-311.pyc", "x")
        self.assertEqual(self.collected("./tool"), ["tool/__init__.py", "tool/data/table.txt"])
        self.assertEqual(self.preload(), ["tool"])
        self.assertEqual(self.facts(), [{"name": "./tool", "version": "", "source": "directory"}])

    def test_a_directory_of_packages(self):
        write(self.project + "/vendor/one/__init__.py")
        write(self.project + "/vendor/two.py")
        write(self.project + "/vendor/setup.py", "raise SystemExit('nothing of a package is run')")
        write(self.project + "/vendor/notes/readme.txt")
        self.assertEqual(self.collected("./vendor"), ["one/__init__.py", "two.py"])
        self.assertEqual(self.preload(), ["one", "two"])

    def test_sources_in_src(self):
        write(self.project + "/lib/pyproject.toml")
        write(self.project + "/lib/src/tool/__init__.py")
        self.assertEqual(self.collected("./lib"), ["tool/__init__.py"])

    def test_a_module(self):
        write(self.project + "/tool.py", "raise SystemExit('nothing of a package is run')")
        self.assertEqual(self.collected("tool.py"), ["tool.py"])

    def test_nothing_to_import(self):
        write(self.project + "/vendor/readme.txt")
        self.assertIn("there is no package in", self.refused("./vendor"))
        self.out += "-2"
        self.assertIn("is no wheel, module or directory", self.refused("./nowhere"))

    def test_native_code_in_a_directory(self):
        write(self.project + "/tool/__init__.py")
        write(self.project + "/tool/speed.cpython-311-x86_64-linux-gnu.so")
        self.assertIn("./tool: it holds native code (tool/speed.cpython-311-x86_64-linux-gnu.so)",
                      self.refused("./tool"))

    def test_native_code_beside_modules(self):
        write(self.project + "/vendor/two.py")
        write(self.project + "/vendor/three.so")
        self.assertIn("native code (three.so)", self.refused("./vendor"))

    def test_a_link_out(self):
        write(self.project + "/tool/__init__.py")
        write(self.project + "/secret.txt", "secret")
        os.symlink("../secret.txt", self.project + "/tool/data.txt")
        self.assertIn("is a link that leads elsewhere", self.refused("./tool"))

    def test_a_linked_directory_out(self):
        write(self.project + "/tool/__init__.py")
        os.symlink("/etc", self.project + "/tool/etc")
        self.assertIn("is a link that leads elsewhere", self.refused("./tool"))

    def test_a_pipe(self):
        write(self.project + "/tool/__init__.py")
        os.mkfifo(self.project + "/tool/pipe")
        self.assertIn("is no file", self.refused("./tool"))

    def test_a_file_without_end(self):
        write(self.project + "/tool/__init__.py")
        with open(self.project + "/tool/hole", "wb") as file:
            file.truncate(1 << 40)
        self.assertIn("256 MiB in all", self.refused("./tool"))

    # ---- wheels

    def test_a_wheel(self):
        make_wheel(self.project, files={"tool/__init__.py": "", "other.py": "", "tool-1.0.data/purelib/third.py": "",
                                        "tool-1.0.data/scripts/run": ""})
        files = self.collected("./tool-1.0-py3-none-any.whl")
        self.assertEqual([name for name in files if "dist-info" not in name],
                         ["other.py", "third.py", "tool/__init__.py"])
        self.assertIn("tool-1.0.dist-info/METADATA", files)
        self.assertEqual(self.preload(), ["other", "tool"])
        self.assertEqual(self.facts(), [{"name": "tool", "version": "1.0", "source": "wheel"}])

    def test_a_native_wheel(self):
        make_wheel(self.project, tag="cp311-cp311-manylinux_2_17_x86_64")
        self.assertIn("it is a wheel of native code",
                      self.refused("tool-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"))

    def test_native_code_in_a_pure_wheel(self):
        make_wheel(self.project, files={"tool/__init__.py": "", "tool/libx.so.1": ""})
        self.assertIn("native code (tool/libx.so.1)", self.refused("tool-1.0-py3-none-any.whl"))

    def test_paths_out_of_a_wheel(self):
        for name in ("../out.py", "/etc/out.py", "tool/../../out.py", "tool//x.py", "./x.py", "tool\\..\\x.py"):
            with self.subTest(name):
                self.out += "-"
                make_wheel(self.project, files={"tool/__init__.py": "", name: ""})
                self.assertIn("is no path of a package", self.refused("tool-1.0-py3-none-any.whl"))

    def test_a_wheel_that_is_none(self):
        write(self.project + "/tool-1.0-py3-none-any.whl", "not a zip file")
        self.assertIn("it is no wheel", self.refused("tool-1.0-py3-none-any.whl"))
        with zipfile.ZipFile(self.project + "/empty-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("readme.txt", "")
        self.out += "-2"
        self.assertIn("there is no METADATA", self.refused("empty-1.0-py3-none-any.whl"))

    # ---- names

    def test_bad_names(self):
        for name in ("-r", "a b", "x;y", "tool==", "tool>=1", "git+https:x"):
            with self.subTest(name):
                self.out += "-"
                text = self.refused(name)
                self.assertTrue("neither a name" in text or "it is not in" in text, text)

    @contextlib.contextmanager
    def index(self, *wheels):
        """A package index (PEP 503) of these wheels; gives its address."""
        pages = {}
        for wheel in wheels:
            file = os.path.basename(wheel)
            name = file.split("-")[0]
            pages[f"/simple/{name}/"] = pages.get(f"/simple/{name}/", b"") + f'<a href="/{file}">{file}</a>'.encode()
            pages["/" + file] = pathlib.Path(wheel).read_bytes()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = pages.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/simple"
            finally:
                server.shutdown()
                thread.join()

    def pip(self, *wheels):
        if importlib.util.find_spec("pip") is None:
            skip("this Python has no pip")
        return self.index(*wheels)

    def test_a_name_from_an_index(self):
        tool = make_wheel(self.project, "sbxtool", "2.0", requires=["sbxbase>=1", "sbxnever; extra == 'more'"])
        base = make_wheel(self.project, "sbxbase", "1.5")
        with self.pip(tool, base) as address:
            files = self.collected("sbxtool==2.0", PIP_INDEX_URL=address, no_proxy="127.0.0.1")
        self.assertIn("sbxtool/__init__.py", files)
        self.assertIn("sbxbase/__init__.py", files)
        self.assertEqual(self.preload(), ["sbxtool"])  # not what it depends on: it imports that itself
        self.assertEqual([(fact["name"], fact["version"]) for fact in self.facts()],
                         [("sbxbase", "1.5"), ("sbxtool", "2.0")])

    def test_a_name_with_native_wheels_alone(self):
        wheel = make_wheel(self.project, "sbxnative", "1.0", "cp311-cp311-manylinux_2_17_x86_64")
        with self.pip(wheel) as address:
            text = self.refused("sbxnative", PIP_INDEX_URL=address, no_proxy="127.0.0.1")
        self.assertIn("sbxnative: it is not in /usr/lib/python3/dist-packages, and No matching distribution", text)


if __name__ == "__main__":
    main()
