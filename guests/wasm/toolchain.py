# SPDX-License-Identifier: Apache-2.0
"""The cross compiler: Debian's clang with its wasi-libc, and wabt's wasm2c, unpacked and not installed."""

import pathlib
import shutil

from steps import BuildError

CLANG = "14"
# Programs of the build machine, and the packages that have them.
PROGRAMS = {"clang-14": "clang-14", "wasm-ld-14": "lld-14", "llvm-ar-14": "llvm-14", "gcc": "gcc", "make": "make",
            "dpkg-source": "dpkg-dev", "patch": "patch", "/usr/bin/python3.11": "python3.11"}
# Code that needs less of WASI's future: bulk memory, and what any processor has.
FEATURES = ["-mbulk-memory", "-msign-ext", "-mnontrapping-fptoint"]

COMPILER = """\
#!/bin/sh
# The C compiler for guests.
exec clang-{clang} --target=wasm32-wasi --sysroot={sysroot} -resource-dir {resources} {features} -D_Thread_local= "$@"
"""


def check_programs():
    """All that the system has to have."""
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        raise BuildError("Programs are missing. As root:\n  apt-get install --no-install-recommends "
                         + " ".join(missing))


class Toolchain:
    """Makes `bin`, to be put in PATH: wasm32-wasi-cc, and llvm's ar and ranlib."""

    def __init__(self, steps, debian):
        self.wabt = debian.tool("wabt")
        self.libc = debian.tool("wasi-libc")
        self.runtime = debian.tool("libclang-rt-14-dev-wasm32")
        self.bin = steps.directory / "toolchain/bin"
        self.wasm2c = self.wabt.directory / "usr/bin/wasm2c"
        self.key = [COMPILER, FEATURES, self.wabt.key(), self.libc.key(), self.runtime.key(),
                    steps.run(["clang-14", "--version"], log=False)]
        with steps.step("toolchain", self.key, [self.bin / "wasm32-wasi-cc"]) as wanted:
            if wanted:
                self.make(steps)
        steps.environment["PATH"] = f"{self.bin}:{steps.environment['PATH']}"

    def make(self, steps):
        """clang looks for its headers and its library in one directory, which Debian has in two packages."""
        resources = steps.directory / "toolchain/resources"
        shutil.rmtree(resources.parent, ignore_errors=True)
        (resources / "lib").mkdir(parents=True)
        self.bin.mkdir()
        own = pathlib.Path(steps.run(["clang-14", "-print-resource-dir"], log=False).strip())
        (resources / "include").symlink_to(own / "include")
        library = next(self.runtime.directory.glob("usr/lib/llvm-14/lib/clang/*/lib/wasi"), None)
        if not library:
            raise BuildError("libclang-rt-14-dev-wasm32 holds no library for wasi")
        (resources / "lib/wasi").symlink_to(library)
        compiler = self.bin / "wasm32-wasi-cc"
        compiler.write_text(COMPILER.format(clang=CLANG, sysroot=self.libc.directory / "usr", resources=resources,
                                            features=" ".join(FEATURES)))
        compiler.chmod(0o755)
        for name in ("ar", "ranlib"):
            (self.bin / f"wasm32-wasi-{name}").symlink_to(shutil.which(f"llvm-{name}-{CLANG}"))
