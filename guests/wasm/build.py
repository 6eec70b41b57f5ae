#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds guests for backend-wasm from Debian's sources: native code, module, files, manifest and licences.

Minutes the first time; what has been done is kept in the cache directory, also when the build is interrupted. README.md
has the whole way of it. The image is baked by bake.py, which Meson does: -Dwasm-guest=DIRECTORY.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# pylint: disable=wrong-import-position
import native
from cross import Kit
from debian import LICENCES
from steps import BuildError, hash_file
from toolchain import check_programs


def recipes():
    """The guests that there are recipes for."""
    return sorted(path.parent.name for path in HERE.glob("*/recipe.py"))


def load_recipe(name):
    """The recipe of one guest."""
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", HERE / name / "recipe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_results(guest, code, output):
    """Puts what was made into the output directory, each file by a rename."""
    output.mkdir(parents=True, exist_ok=True)
    licences = output / "licences"
    licences.mkdir(exist_ok=True)
    for package in guest.sources:
        shutil.copyfile(package.copyright, licences / package.name)
    sources = [{"name": package.name, "version": package.version, "sha256": package.sha256,
                "licence": LICENCES[package.name]} for package in guest.sources]
    manifest = {"name": guest.name, "runtime": guest.runtime, "version": guest.version, "sources": sources,
                "module_sha256": hash_file(guest.module), "time": guest.sources[0].time()}
    (output / f"{guest.name}.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for source, name in ((code, f"{guest.name}.so"), (guest.module, f"{guest.name}.wasm")):
        shutil.copyfile(source, output / (name + ".new"))
        os.replace(output / (name + ".new"), output / name)
    tree = output / f"{guest.name}-tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(guest.tree, tree)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=pathlib.Path, help="directory for the results")
    parser.add_argument("--cache", type=pathlib.Path, help="directory for what is kept between builds (~2 GB; "
                                                          "default: OUTPUT/../wasm-guest-cache)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once (default: processors)")
    parser.add_argument("guest", nargs="*", help="which (default: all of them: " + ", ".join(recipes()) + ")")
    options = parser.parse_args()
    unknown = sorted(set(options.guest) - set(recipes()))
    if unknown:
        parser.error(f"no such guest: {', '.join(unknown)}; there are {', '.join(recipes())}")
    if sys.version_info[:2] != (3, 11):
        sys.exit("build.py: byte code is made by the Python that runs this: use 3.11, /usr/bin/python3.11 build.py")
    start = time.monotonic()
    output = options.output.resolve()
    try:
        check_programs()
        kit = Kit(options.cache or output.parent / "wasm-guest-cache", options.jobs)
        for name in options.guest or recipes():
            guest = load_recipe(name).build(kit)
            write_results(guest, native.make_code(kit, guest), output)
    except BuildError as error:
        sys.exit(f"build.py: {error}")
    print(f"{output}: {', '.join(options.guest or recipes())}, in {time.monotonic() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
