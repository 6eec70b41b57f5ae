# SPDX-License-Identifier: Apache-2.0
"""CPython 3.11 of Debian's source, with zlib, bzip2, liblzma and SQLite of theirs, for wasm32-wasi."""

import pathlib
import shutil
import time

from cross import EMULATED_FLAGS, Guest
from tree import make_python_tree

HERE = pathlib.Path(__file__).resolve().parent

ZLIB_SOURCES = [name + ".c" for name in ("adler32", "compress", "crc32", "deflate", "inffast", "inflate", "inftrees",
                                         "trees", "uncompr", "zutil")]
BZIP2_SOURCES = [name + ".c" for name in ("blocksort", "bzlib", "compress", "crctable", "decompress", "huffman",
                                          "randtable")]
# Of liblzma what is not for threads, for small tables, or a program that makes tables.
LZMA_DIRECTORIES = ("common", "check", "lz", "lzma", "rangecoder", "delta", "simple")
LZMA_LEFT_OUT = ("_tablegen", "_small", "_mt", "outqueue", "hardware_cputhreads")
LZMA_FILTERS = ("LZMA1", "LZMA2", "DELTA", "X86", "ARM", "ARM64", "ARMTHUMB", "IA64", "POWERPC", "SPARC")
LZMA_DEFINES = (["HAVE_STDBOOL_H", "HAVE__BOOL", "HAVE_STDINT_H", "HAVE_INTTYPES_H", "HAVE_LIMITS_H", "HAVE_STRING_H",
                 "HAVE_VISIBILITY", "HAVE_CHECK_CRC32", "HAVE_CHECK_CRC64", "HAVE_CHECK_SHA256", "HAVE_ENCODERS",
                 "HAVE_DECODERS", "HAVE_LZIP_DECODER", "HAVE_MF_HC3", "HAVE_MF_HC4", "HAVE_MF_BT2", "HAVE_MF_BT3",
                 "HAVE_MF_BT4", "TUKLIB_FAST_UNALIGNED_ACCESS"]
                + [f"HAVE_{kind}_{name}" for kind in ("ENCODER", "DECODER") for name in LZMA_FILTERS])
# Features as in Debian's package, as far as they need no threads and no shared libraries.
SQLITE_FLAGS = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_OMIT_WAL",
                "-DSQLITE_MAX_MMAP_SIZE=0", "-DSQLITE_ENABLE_COLUMN_METADATA", "-DSQLITE_ENABLE_FTS3",
                "-DSQLITE_ENABLE_FTS3_PARENTHESIS", "-DSQLITE_ENABLE_FTS3_TOKENIZER", "-DSQLITE_ENABLE_FTS4",
                "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_MATH_FUNCTIONS",
                "-DSQLITE_ENABLE_DBSTAT_VTAB", "-DSQLITE_SOUNDEX", "-DSQLITE_USE_URI",
                "-DSQLITE_LIKE_DOESNT_MATCH_BLOBS", "-DSQLITE_MAX_VARIABLE_NUMBER=250000", "-DHAVE_USLEEP"]
BUILD_PYTHON = "/usr/bin/python3.11"
OPTIMISE = ["-O3", "-g0", "-w", "-DNDEBUG"]
PYTHON_TARGETS = ["libpython3.11.a", "Modules/_decimal/libmpdec/libmpdec.a", "Modules/expat/libexpat.a"]


def make_zlib(kit):
    """libz.a"""
    package = kit.debian.source("zlib")
    return package, kit.library("z", package, ZLIB_SOURCES, OPTIMISE + ["-DHAVE_UNISTD_H"], ["zlib.h", "zconf.h"])


def make_bzip2(kit):
    """libbz2.a"""
    package = kit.debian.source("bzip2")
    return package, kit.library("bz2", package, BZIP2_SOURCES, OPTIMISE, ["bzlib.h"])


def make_lzma(kit):
    """liblzma.a"""
    package = kit.debian.source("xz-utils")
    base = package.directory
    sources = sorted(str(path.relative_to(base)) for name in LZMA_DIRECTORIES
                     for path in (base / "src/liblzma" / name).glob("*.c") if not path.stem.endswith(LZMA_LEFT_OUT))
    sources.append("src/common/tuklib_physmem.c")
    flags = [f"-I{base}/src/liblzma/{name}" for name in ("api", *LZMA_DIRECTORIES)] + [f"-I{base}/src/common"]
    flags += [f"-D{name}=1" for name in LZMA_DEFINES] + ["-DASSUME_RAM=128", "-DTUKLIB_SYMBOL_PREFIX=lzma_"]
    # Without threads it blocks signals around nothing that matters here.
    flags += EMULATED_FLAGS + ["-Dsigset_t=int", "-Dsigprocmask(how,set,old)=0"]
    api = base / "src/liblzma/api"
    headers = sorted(str(path.relative_to(api)) for path in api.rglob("*.h"))
    return package, kit.library("lzma", package, sources, OPTIMISE + flags, headers, api)


def make_sqlite(kit):
    """libsqlite3.a, of the one file that its own build makes of the sources, with Tcl."""
    package = kit.debian.source("sqlite3")
    tcl, library = (kit.debian.tool(name) for name in ("tcl8.6", "libtcl8.6"))
    steps, build = kit.steps, kit.steps.directory / "sqlite"
    with steps.step("sqlite-source", [package.key(), tcl.key()], [build / "sqlite3.c"]) as wanted:
        if wanted:
            shutil.rmtree(build, ignore_errors=True)  # make takes half a sqlite3.c for a whole one
            build.mkdir()
            environment = {"LD_LIBRARY_PATH": str(next(library.directory.glob("usr/lib/*-linux-gnu"))),
                           "TCL_LIBRARY": str(library.directory / "usr/share/tcltk/tcl8.6"),
                           "TCL8_6_TM_PATH": str(library.directory / "usr/share/tcltk/tcl8.6/tcl8")}
            steps.run([package.directory / "configure", "-q", "--disable-tcl", "--disable-readline"], cwd=build)
            steps.run(["make", "sqlite3.c", "sqlite3.h", f"TCLSH_CMD={tcl.directory}/usr/bin/tclsh8.6"], cwd=build,
                      environment=environment)
    shim = HERE / "sqlite_wasi.h"
    flags = [*OPTIMISE, *SQLITE_FLAGS, *EMULATED_FLAGS]
    output = kit.prefix / "lib/libsqlite3.a"
    with steps.step("library-sqlite3", [build / "sqlite3.c", kit.toolchain.key, flags, shim], [output]) as wanted:
        if wanted:
            flags += ["-include", shim]
            objects = kit.compile([build / "sqlite3.c"], flags, steps.directory / "objects/sqlite3")
            output.unlink(missing_ok=True)
            steps.run(["wasm32-wasi-ar", "rcsD", output, *objects])
            (kit.prefix / "include/sqlite3.h").write_bytes((build / "sqlite3.h").read_bytes())
    return package, output


def configure_environment(kit):
    """What CPython's configure is told of the compiler and the libraries."""
    include, lib = f"-I{kit.prefix}/include", f"-L{kit.prefix}/lib"
    environment = {"CC": "wasm32-wasi-cc", "CPP": "wasm32-wasi-cc -E", "AR": "wasm32-wasi-ar",
                   "RANLIB": "wasm32-wasi-ranlib", "READELF": "true", "CFLAGS": " ".join(EMULATED_FLAGS),
                   "PKG_CONFIG_LIBDIR": "/nonexistent",
                   "LDFLAGS": "-lwasi-emulated-signal -lwasi-emulated-getpid -lwasi-emulated-process-clocks",
                   "OPT": " ".join(OPTIMISE)}
    for name, library in (("ZLIB", "z"), ("BZIP2", "bz2"), ("LIBLZMA", "lzma"), ("LIBSQLITE3", "sqlite3")):
        environment |= {f"{name}_CFLAGS": include, f"{name}_LIBS": f"{lib} -l{library}"}
    return environment


def make_cpython(kit, package, libraries):
    """libpython3.11.a and its companions, and the build's sysconfig data: a build with CPython's own scripts for
    cross compiling, which make the build machine's python3.11 do what the new one can't do here."""
    steps, build = kit.steps, kit.steps.directory / "python"
    environment = configure_environment(kit)
    environment["CONFIG_SITE"] = str(package.directory / "Tools/wasm/config.site-wasm32-wasi")
    key = [package.key(), kit.toolchain.key, libraries, OPTIMISE, EMULATED_FLAGS]
    with steps.step("python-configure", key, [build / "Makefile"]) as wanted:
        if wanted:
            shutil.rmtree(build, ignore_errors=True)
            build.mkdir()
            # By a relative path: it gets into the interpreter.
            steps.run(["../debian/sources/python3.11/unpacked/configure", "-q", "--host=wasm32-unknown-wasi",
                       "--build=x86_64-pc-linux-gnu", f"--with-build-python={BUILD_PYTHON}", "--with-pymalloc",
                       "--with-ensurepip=no", "--disable-test-modules", "--prefix=/usr"], cwd=build,
                      environment=environment)
    with steps.step("python-make", [*key, build / "Makefile"], [build / name for name in PYTHON_TARGETS]) as wanted:
        if wanted:
            made = time.gmtime(package.time())
            steps.run(["make", "-s", f"-j{steps.jobs}", *PYTHON_TARGETS, "pybuilddir.txt",
                       time.strftime("BUILD_DATE=%b %d %Y", made), time.strftime("BUILD_TIME=%H:%M:%S", made)],
                      cwd=build)
    return build


def make_module(kit, package, build, libraries):
    """python.wasm"""
    sources, steps = [HERE / "guest.c", HERE / "reserve.c"], kit.steps
    output = steps.directory / "objects/guest-python"
    objects = [output / source.with_suffix(".o").name for source in sources]
    key = [*sources, HERE / "guest.h", package.key(), build / "pyconfig.h", kit.toolchain.key]
    with steps.step("python-guest", key, objects) as wanted:
        if wanted:
            includes = [f"-I{build}", f"-I{package.directory}/Include"]
            kit.compile(sources, ["-O2", "-DNDEBUG", *includes, *EMULATED_FLAGS], output)
    inputs = [*objects, *(build / name for name in PYTHON_TARGETS), *libraries]
    return kit.link("python", inputs, steps.directory / "python.wasm")


def make_sysconfig(kit, build, directory):
    """The build's description of itself (`sysconfig`), without this machine's paths, under the name that Debian's
    version of sysconfig.py looks for."""
    generated = next((build / (build / "pybuilddir.txt").read_text()).glob("_sysconfigdata_*.py"))
    directory.mkdir(exist_ok=True)
    values = {}
    exec(compile(generated.read_text(), generated, "exec"), values)  # its lines are broken by the length of paths
    lines = [f"    {name!r}: {value!r},\n" for name, value in sorted(values["build_time_vars"].items())]
    text = "build_time_vars = {\n" + "".join(lines) + "}\n"
    (directory / "_sysconfigdata__wasm32-wasi.py").write_text(text.replace(str(kit.steps.directory), "/build"))


def make_tree(kit, package, build, zones):
    """The standard library, time zones."""
    tree, sysconfig = kit.steps.directory / "tree-python", kit.steps.directory / "sysconfig"
    key = [package.key(), zones.key(), HERE.parent / "tree.py", HERE / "recipe.py", build / "pybuilddir.txt"]
    with kit.steps.step("python-tree", key, [tree]) as wanted:
        if wanted:
            make_sysconfig(kit, build, sysconfig)
            make_python_tree(str(tree), str(package.directory / "Lib"), [(str(sysconfig), "/usr/lib/python3.11")],
                             str(zones.directory / "usr/share/zoneinfo"), package.time(), kit.steps.jobs)
    return tree


def build(kit):
    """All of it."""
    package = kit.debian.source("python3.11", sorted(HERE.glob("*.patch")))
    made = [make(kit) for make in (make_zlib, make_bzip2, make_lzma, make_sqlite)]
    libraries = [library for _, library in made]
    directory = make_cpython(kit, package, libraries)
    module = make_module(kit, package, directory, libraries)
    zones = kit.debian.tool("tzdata")
    tree = make_tree(kit, package, directory, zones)
    sources = [package, *(library for library, _ in made), zones, kit.toolchain.libc, kit.toolchain.runtime]
    return Guest("python", "python", package.version.split("-")[0], module, tree, sources)
