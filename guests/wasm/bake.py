#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bakes a guest's image from what build.py has made and the worker of this source tree: seconds, where build.py takes
minutes, so that Meson does it whenever the worker has changed.

A guest's directory holds NAME.so, NAME.wasm, NAME.json (its manifest) and NAME-tree.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import tree  # pylint: disable=wrong-import-position

GUESTS = pathlib.Path(__file__).resolve().parent.parent
# What comes from this source tree: where guests see it, and where it is.
WORKERS = {
    "python": {"/usr/lib/sbx/sbx_guest": GUESTS / "python/sbx_guest",
               "/usr/lib/sbx/sbx_wasm": GUESTS / "wasm/python/sbx_wasm",
               "/usr/lib/sbx/preload": GUESTS / "wasm/python/preload",
               "/usr/lib/sbx/rehearsal": GUESTS / "wasm/python/rehearsal"},
    "javascript": {"/usr/lib/sbx/javascript/" + path.name: path
                   for path in sorted((GUESTS / "wasm/javascript/worker").glob("*.js"))}
                  | {f"/usr/lib/sbx/javascript/{name}.js": GUESTS / f"node/sbx_node/{name}.js"
                     for name in ("errors", "text", "tools", "variables")}
                  | {"/usr/lib/sbx/rehearsal": GUESTS / "wasm/javascript/rehearsal"},
}


def add_worker(root, name, when):
    """Puts the worker into the tree at `root`; returns what it is made of."""
    inputs, compiled = [], []
    for target, source in WORKERS.get(name, {}).items():
        inputs.append(source)
        if source.is_dir():
            inputs += [source / file for file in tree.python_files(source)]
            compiled += tree.add_python(root, source, target)
        else:
            os.makedirs(os.path.dirname(root + target), exist_ok=True)
            shutil.copyfile(source, root + target)
    for path in compiled:
        tree.compile_one(root + path, path)
    tree.set_times(root + "/usr/lib/sbx", when)
    return inputs


def write_manifest(path, manifest, root):
    """The guest's, and what is preloaded."""
    preload = pathlib.Path(root + "/usr/lib/sbx/preload")
    names = preload.read_text(encoding="ascii").splitlines() if preload.is_file() else []
    manifest = manifest | {"preload": [line for line in names if line and not line.startswith("#")], "packages": []}
    pathlib.Path(path).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def bake(options, directory):
    """Stages tree and manifest in `directory` and runs sbx-wasm; returns the worker's files."""
    guest = pathlib.Path(options.guest)
    manifest = json.loads((guest / f"{options.name}.json").read_text(encoding="utf-8"))
    when = manifest.pop("time")
    root = directory + "/tree"
    shutil.copytree(guest / f"{options.name}-tree", root)
    inputs = add_worker(root, options.name, when)
    write_manifest(directory + "/manifest.json", manifest, root)
    base = guest / options.name
    subprocess.run([options.program, "bake", "--code", f"{base}.so", "--module", f"{base}.wasm", "--tree", root,
                    "--manifest", directory + "/manifest.json", "--out", options.output], check=True)
    return inputs


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="sbx-wasm")
    parser.add_argument("--guest", required=True, help="directory that build.py has made")
    parser.add_argument("--name", default="python")
    parser.add_argument("--output", required=True, help="the image to write")
    parser.add_argument("--depfile", help="what the image depends on, for make")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sbx-bake-") as directory:
        try:
            inputs = bake(options, directory)
        except subprocess.CalledProcessError as error:
            sys.exit(f"bake.py: sbx-wasm has not made an image (status {error.returncode})")
        except OSError as error:
            sys.exit(f"bake.py: {error}; a guest's directory is made by guests/wasm/build.py")
    if options.depfile:
        files = " ".join(str(path).replace(" ", "\\ ") for path in inputs)
        pathlib.Path(options.depfile).write_text(f"{options.output}: {files}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
