# SPDX-License-Identifier: Apache-2.0
"""A module's native code: wasm2c's output, rewritten (transform.py), compiled by gcc to a shared object."""

import pathlib

import transform
from steps import BuildError, hash_file

HERE = pathlib.Path(__file__).resolve().parent
ENGINE = HERE.parent.parent / "plugins/backend-wasm/engine"
HEADERS = [HERE / "native.h", ENGINE / "code.h", ENGINE / "wasi.h"]
# The first row keeps to what WebAssembly says and C leaves open; the second to what the engine needs: no page of the
# stack is stepped over, so that its guard is always met. In the third, two passes are left out that join what an
# interpreter's main loop has apart: programs are 5 % faster without. -O3, clang or a profile of that loop gain nothing.
FLAGS = ["-std=gnu11", "-w", "-fno-strict-aliasing", "-ffp-contract=off", "-frounding-math", "-fsignaling-nans",
         "-fno-math-errno",
         "-fPIC", "-fvisibility=hidden", "-fstack-clash-protection", "-fno-asynchronous-unwind-tables",
         "-O2", "-fno-gcse", "-fno-crossjumping"]
LINK_FLAGS = ["-shared", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none", "-Wl,--hash-style=gnu", "-s"]


def make_sources(kit, guest, directory):
    """C files of a module."""
    steps, module = kit.steps, guest.module
    key = [module, kit.toolchain.wabt.key(), HERE / "transform.py"]
    with steps.step(f"wasm2c-{guest.name}", key, [directory / "state.c"]) as wanted:
        if wanted:
            output = steps.directory / f"{guest.name}-wasm2c.c"
            steps.run([kit.toolchain.wasm2c, "-n", guest.name, "-o", output, module])
            try:
                transform.transform(output, directory, guest.name, hash_file(module))
            except transform.TransformError as error:
                raise BuildError(f"{module}: {error}") from error
            output.unlink()
    return sorted(directory.glob("*.c"))


def make_object(kit, source, key):
    """One of them, compiled; kept for as long as it does not change, as most don't when a guest's own part does."""
    output = source.with_suffix(".o")
    stamp = source.with_suffix(".stamp")
    wanted = transform.digest([key, hash_file(source)])
    if not (output.is_file() and stamp.is_file() and stamp.read_text() == wanted):
        kit.steps.run(["gcc", *FLAGS, f"-I{HERE}", f"-I{ENGINE}", f"-I{source.parent}", "-c", source, "-o", output])
        stamp.write_text(wanted)
    return output


def make_code(kit, guest):
    """NAME.so"""
    steps, directory = kit.steps, kit.steps.directory / f"native-{guest.name}"
    sources = make_sources(kit, guest, directory)
    compiler = steps.run(["gcc", "--version"], log=False)
    key = [FLAGS, compiler, [hash_file(path) for path in HEADERS], hash_file(directory / "functions.h")]
    output = steps.directory / f"{guest.name}.so"
    with steps.step(f"native-{guest.name}", [key, sources, LINK_FLAGS], [output]) as wanted:
        if wanted:
            done = []

            def compile_one(source):
                make_object(kit, source, key)
                done.append(source)
                steps.say(f"{len(done)} of {len(sources)} files")

            kit.parallel(compile_one, sources)
            steps.run(["gcc", *LINK_FLAGS, "-o", output, *(path.with_suffix(".o") for path in sources), "-lm"])
    return output
