#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, in C and in C++, without a warning; so does the plugin template's code."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import main, skip  # noqa: E402

ROOT = HERE.parents[1]
HEADERS = sorted((ROOT / "include" / "snipara-sandbox").glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Wformat=2", "-Werror"]
C_WARNINGS = ["-Wstrict-prototypes", "-Wmissing-prototypes"]


def compile_alone(compiler, flags, suffix, text):
    if shutil.which(compiler) is None:
        skip("%s is not installed" % compiler)
    with tempfile.TemporaryDirectory(prefix="sbx-abi-") as scratch:
        source = pathlib.Path(scratch, "alone" + suffix)
        source.write_text(text, encoding="utf-8")
        command = [compiler, *flags, "-I", str(ROOT / "include"), "-c", "-o", str(source.with_suffix(".o")), str(source)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError("%s\n%s" % (" ".join(command), done.stdout))


class Headers(unittest.TestCase):
    """One test for each compiler and language; every header alone in each."""

    def each(self, compiler, flags, suffix):
        for header in HEADERS:
            with self.subTest(header=header.name):
                compile_alone(compiler, flags, suffix, "#include <snipara-sandbox/%s>\n" % header.name)
        together = "".join("#include <snipara-sandbox/%s>\n" % header.name for header in reversed(HEADERS))
        compile_alone(compiler, flags, suffix, together + together)


def add(name, compiler, flags, suffix):
    def test(self):
        self.each(compiler, flags, suffix)
    setattr(Headers, "test_" + name, test)


for _compiler in ("gcc", "clang"):
    add("%s_gnu17" % _compiler, _compiler, ["-std=gnu17", *WARNINGS, *C_WARNINGS], ".c")
    # Plain ISO C99, with nothing of POSIX asked for.
    add("%s_c99_pedantic" % _compiler, _compiler, ["-std=c99", "-pedantic-errors", *WARNINGS, *C_WARNINGS], ".c")
for _compiler in ("g++", "clang++"):
    for _standard in ("c++11", "c++17"):
        add("%s_%s" % (_compiler, _standard), _compiler, ["-std=" + _standard, "-pedantic-errors", *WARNINGS], ".cc")

CPP_PLUGIN = """
#include <snipara-sandbox/sink.h>
static int plugin_open(const struct sbx_host *, void **ret_instance, struct sbx_error *) { *ret_instance = new int(0); return 0; }
static void plugin_close(void *instance) { delete static_cast<int *>(instance); }
static int plugin_event(void *, struct sbx_bytes json, struct sbx_error *err) {
        return json.size > 0 ? 0 : sbx_error_set(err, -EINVAL, "cpp", "Send something.", "%s", "empty event");
}
static struct sbx_sink_ops make_ops() { struct sbx_sink_ops o{}; o.struct_size = sizeof(o); o.event = plugin_event; return o; }
const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        static const struct sbx_sink_ops ops = make_ops();
        static struct sbx_plugin plugin{};
        plugin.struct_size = sizeof(plugin); plugin.abi_major = SBX_ABI_MAJOR; plugin.kind = SBX_PLUGIN_SINK;
        plugin.name = "sink-cpp"; plugin.ops = &ops; plugin.open = plugin_open; plugin.close = plugin_close;
        return &plugin;
}
"""


class Plugins(unittest.TestCase):
    def test_a_plugin_in_cpp_exports_the_entry(self):
        if shutil.which("g++") is None:
            skip("g++ is not installed")
        with tempfile.TemporaryDirectory(prefix="sbx-abi-") as scratch:
            source, target = pathlib.Path(scratch, "plugin.cc"), pathlib.Path(scratch, "sink-cpp.so")
            source.write_text(CPP_PLUGIN, encoding="utf-8")
            subprocess.run(["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
                            "-Wl,--no-undefined", "-I", str(ROOT / "include"), "-o", str(target), str(source)], check=True)
            symbols = subprocess.run(["nm", "-D", "--defined-only", str(target)], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.split()
        self.assertIn("sbx_plugin_entry_v1", symbols)

    def test_the_template_compiles_with_every_warning(self):
        for compiler in ("gcc", "clang"):
            for path in sorted((ROOT / "examples" / "plugin-template").rglob("*.c")):
                with self.subTest(compiler=compiler, file=path.name):
                    compile_alone(compiler, ["-std=gnu17", "-D_GNU_SOURCE", '-DPLUGIN_VERSION="0"', "-I", str(path.parent),
                                             *WARNINGS, *C_WARNINGS], ".c", '#include "%s"\n' % path)


if __name__ == "__main__":
    main()
