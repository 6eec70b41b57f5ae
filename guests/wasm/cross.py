# SPDX-License-Identifier: Apache-2.0
"""What recipes of guests are made with: sources compiled to libraries and objects, and linked to a module."""

import concurrent.futures
import dataclasses
import pathlib
import shutil

from debian import Debian
from steps import Steps
from toolchain import Toolchain

STACK_BYTES = 8 << 20
# wasi-libc's substitutes for what WASI lacks.
EMULATED = ("signal", "getpid", "process-clocks")
EMULATED_FLAGS = ["-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_PROCESS_CLOCKS"]


@dataclasses.dataclass
class Guest:
    """What a recipe returns."""
    name: str  # of the artefacts
    runtime: str
    version: str
    module: pathlib.Path
    tree: pathlib.Path
    sources: list  # Package: what is in it, for the manifest and the licences


class Kit:
    """A build directory, Debian's archive and the cross compiler."""

    def __init__(self, directory, jobs):
        self.steps = Steps(directory, jobs)
        self.debian = Debian(self.steps)
        self.toolchain = Toolchain(self.steps, self.debian)
        self.prefix = self.steps.directory / "prefix"  # of the libraries
        for name in ("include", "lib"):
            (self.prefix / name).mkdir(parents=True, exist_ok=True)

    def debian_of(self, release):
        """Another release: its sources, not its tools."""
        return Debian(self.steps, release)

    def parallel(self, function, items):
        """Calls `function` for each item, as many at once as there may be jobs; the first failure is raised."""
        with concurrent.futures.ThreadPoolExecutor(self.steps.jobs) as pool:
            for done in [pool.submit(function, item) for item in items]:
                done.result()

    def compile(self, sources, flags, directory, environment=None):
        """Objects of C files, in `directory`."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        objects = [directory / (pathlib.Path(source).stem + ".o") for source in sources]
        self.parallel(lambda pair: self.steps.run(["wasm32-wasi-cc", *flags, "-c", pair[0], "-o", pair[1]],
                                                  environment=environment), zip(sources, objects))
        return objects

    def library(self, name, package, sources, flags, headers, api="."):
        """A static library in the prefix, of a package's files; its headers are in the directory `api`."""
        base = package.directory
        output = self.prefix / "lib" / f"lib{name}.a"
        key = [package.key(), self.toolchain.key, sources, flags, headers]
        with self.steps.step("library-" + name, key, [output]) as wanted:
            if wanted:
                objects = self.steps.directory / "objects" / name
                objects = self.compile([base / source for source in sources], flags, objects)
                output.unlink(missing_ok=True)
                self.steps.run(["wasm32-wasi-ar", "rcsD", output, *objects])
                for header in headers:
                    target = self.prefix / "include" / header
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(base / api / header, target)
        return output

    def link(self, name, inputs, output):
        """A reactor module: a library with a constructor, `_initialize`, that is called more than once afterwards. The
        stack is first in memory, so that its overflow is a fault and not a change of data."""
        with self.steps.step("link-" + name, [self.toolchain.key, *inputs, STACK_BYTES], [output]) as wanted:
            if wanted:
                emulated = [f"-lwasi-emulated-{part}" for part in EMULATED]
                self.steps.run(["wasm32-wasi-cc", "-mexec-model=reactor", "-o", output, *inputs, *emulated, "-lm",
                                "-z", f"stack-size={STACK_BYTES}", "-Wl,--stack-first"])
        return output
