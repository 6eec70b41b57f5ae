# SPDX-License-Identifier: Apache-2.0
"""QuickJS of Debian's source (of the release after the one that the rest is of: it has none), for wasm32-wasi."""

import pathlib

from cross import Guest

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = "trixie"
OWN = ("engine.c", "files.c", "frames.c", "guest.c", "host.c", "memory.c")
# engine.c includes quickjs.c.
SOURCES = ("cutils.c", "dtoa.c", "libregexp.c", "libunicode.c")
# EMSCRIPTEN: no threads, no computed jumps, nothing of the system's own allocator.
FLAGS = ["-O2", "-g0", "-DNDEBUG", "-DEMSCRIPTEN", "-D_GNU_SOURCE", f"-I{HERE}", f"-I{HERE}/include"]


def version_of(package):
    """As QuickJS tells it: 2025-04-26."""
    return (package.directory / "VERSION").read_text().strip()


def build(kit):
    """All of it. The worker's files come when the image is baked."""
    package = kit.debian_of(RELEASE).source("quickjs", sorted(HERE.glob("*.patch")))
    steps, version = kit.steps, version_of(package)
    objects, tree = steps.directory / "objects/javascript", steps.directory / "tree-javascript"
    own = [HERE / name for name in OWN]
    flags = [*FLAGS, f"-I{package.directory}", f'-DCONFIG_VERSION="{version}"']
    stamp = objects / "guest.o"
    key = [package.key(), kit.toolchain.key, flags, own, HERE / "engine.h"]
    with steps.step("javascript-guest", key, [stamp]) as wanted:
        if wanted:
            # What QuickJS's own code is warned of is not ours to mend.
            kit.compile([*own, *(package.directory / name for name in SOURCES)], [*flags, "-w"], objects)
    inputs = sorted(objects.glob("*.o"))
    module = kit.link("javascript", inputs, steps.directory / "javascript.wasm")
    tree.mkdir(exist_ok=True)
    sources = [package, kit.toolchain.libc, kit.toolchain.runtime]
    return Guest("javascript", "javascript", version, module, tree, sources)
