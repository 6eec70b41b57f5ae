# SPDX-License-Identifier: Apache-2.0
"""Turns the C that wasm2c writes of a module into source files for engine/code.h's contract.

What wasm2c 1.0.32 writes keeps memory, table and imported modules as objects that an instance points to. Here an
instance is one struct with memory right behind it, the table is static data, imports are plain functions of the engine,
and there are no data segments: they are in the image. The functions' bodies stay as they are; what names an object is
rewritten. Anything that this file does not know is an error, never passed on.
"""

import hashlib
import json
import os
import re

HEADER = """\
/* Made by guests/wasm/native.py of wasm2c's output. */
#pragma once
#include "native.h"

#define TABLE_SIZE {table_size}u
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN extern const struct wasm_table_entry wasm_table[TABLE_SIZE];

"""

STATE = """\
/* Made by guests/wasm/native.py of wasm2c's output. */
#include "functions.h"

HIDDEN const struct wasm_table_entry wasm_table[TABLE_SIZE] = {{
{table}
}};

static const uint64_t global_values[] = {{{global_values}}};

__attribute__((visibility("default"))) extern const struct wasm_code sbx_wasm_code_v1;
const struct wasm_code sbx_wasm_code_v1 = {{
        .struct_size = sizeof(struct wasm_code),
        .abi = WASM_CODE_ABI,
        .name = "{name}",
        .module_sha256 = "{sha256}",
        .initial_pages = {pages},
        .global_count = {global_count},
        .global_values = global_values,
{exports}
}};
"""

EXPORTS = (("initialize", "_initialize"), ("start", "sbx_start"), ("prepare", "sbx_prepare"),
           ("request", "sbx_request"), ("resume", "sbx_resume"))


class TransformError(Exception):
    """wasm2c's output is not what this file was written for."""


def find(pattern, text, what):
    """The match of `pattern`, which must be there."""
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise TransformError(f"no {what} in wasm2c's output: is it another version than 1.0.32?")
    return match


class Module:
    """wasm2c's output, taken apart."""

    def __init__(self, text):
        self.text = text
        self.type_name = find(r"^static void init_globals\((Z_\w+_instance_t)\*", text, "instance type")[1]
        prototypes = find(r"^static \w+ w2c_\w+\(" + self.type_name + r"\*.*\);$", text, "function prototype").start()
        globals_start = text.index("static void init_globals")
        bodies = find(r"^static void init_elem_instances.*\n\}\n", text, "init_elem_instances").end()
        exports = text.index("/* export: '")
        self.prototypes = text[prototypes:globals_start]
        self.state = text[:prototypes] + text[globals_start:bodies]
        self.bodies = text[bodies:exports]
        self.exports = text[exports:]
        self.globals = dict(re.findall(r"^  instance->(w2c_\w+) = (.*);$", self.function("init_globals"), re.MULTILINE))
        self.global_numbers = {name: number for number, name in enumerate(self.globals)}
        self.types = self.canonical_types()

    def function(self, name):
        """The text of one of the functions that set an instance up."""
        return find(r"^static void " + name + r"\((.|\n)*?^\}\n", self.state, name)[0]

    def canonical_types(self):
        """The number of each function type: the same one for the same signature, above 0."""
        numbers, by_signature = {}, {}
        pattern = r"func_types\[(\d+)\] = wasm_rt_register_func_type\((.*)\);"
        for index, signature in re.findall(pattern, self.state):
            numbers[int(index)] = by_signature.setdefault(signature, len(by_signature) + 1)
        return numbers

    def pages(self):
        """The memory's initial size."""
        return int(find(r"wasm_rt_allocate_memory\(&instance->w2c_memory, (\d+), \d+\);", self.state, "memory")[1])

    def table(self):
        """The table's size, and its entries: index, type, function."""
        init = self.function("init_tables")
        size = int(find(r"wasm_rt_allocate_funcref_table\(&instance->w2c_T0, (\d+), \d+\);", init, "table")[1])
        segments = re.findall(r"funcref_table_init\(&instance->w2c_T0, (\w+), (\d+), (\d+)u, 0, (\d+),", init)
        if init.count(";") != 1 + len(segments):
            raise TransformError("the table is set up in a way that native.py does not know:\n" + init)
        entries = []
        for name, count, offset, used in segments:
            body = find(r"^static const wasm_elem_segment_expr_t " + name + r"\[\] = \{\n((.|\n)*?)^\};", self.state,
                        "element segment " + name)[1]
            items = re.findall(r"^  \{(\d+), \(wasm_rt_function_ptr_t\)&(\w+), 0\},$", body, re.MULTILINE)
            if not len(items) == len(body.splitlines()) == int(count) == int(used):
                raise TransformError(f"element segment {name} holds what native.py does not know")
            entries += [(int(offset) + i, self.types[int(kind)], item) for i, (kind, item) in enumerate(items)]
        if any(index >= size for index, _, _ in entries):
            raise TransformError("an element segment is larger than the table")
        return size, entries

    def export(self, name):
        """The function that is exported as `name`."""
        return find(r"^/\* export: '" + re.escape(name) + r"' \*/\n.*\n  (?:return )?(w2c_\w+)\(", self.exports,
                    "export " + name)[1]


class Rewriter:
    """Rewrites function bodies, line by line."""

    def __init__(self, module):
        self.module = module
        self.imports = set()
        names = "|".join(re.escape(name) for name in module.globals)
        self.global_access = re.compile(r"\binstance->(" + names + r")\b")
        self.call = re.compile(r"CALL_INDIRECT\(instance->w2c_T0, (.*?)\(\*\)\(void\*(.*?)\), (\d+), (\w+), "
                               r"instance->w2c_T0\.data\[\4\]\.module_instance")
        self.imported = re.compile(r"\(\*Z_(\w+?)Z_(\w+)\)\(instance->Z_\1_instance\b")

    def line(self, line):
        """One line of a function's body."""
        if "&instance->w2c_memory" in line:
            line = line.replace("memory_copy(&instance->w2c_memory, &instance->w2c_memory,", "memory_copy(instance,")
            line = line.replace("wasm_rt_grow_memory(&instance->w2c_memory,", "wasm_memory_grow(instance,")
            line = line.replace("&instance->w2c_memory", "instance")
        if "instance->" in line:
            line = line.replace("instance->w2c_memory.pages", "(u32)(instance->size / WASM_PAGE)")
            line = self.global_access.sub(self.replace_global, line)
            line = self.call.sub(self.replace_call, line)
            line = self.imported.sub(self.replace_import, line)
        return line

    def replace_global(self, match):
        return f"instance->globals[{self.module.global_numbers[match[1]]}]"

    def replace_call(self, match):
        kind = self.module.types[int(match[3])]
        return f"CALL_INDIRECT({match[1]}(*)(struct wasm_instance *{match[2]}), {kind}, {match[4]}, instance"

    def replace_import(self, match):
        name = {"wasi_snapshot_preview1": "wasi_", "sbx": "sbx_"}.get(match[1])
        if not name:
            raise TransformError(f"the module imports {match[2]} from {match[1]}, which the engine does not have")
        self.imports.add(name + match[2])
        return f"{name}{match[2]}(instance"


def check_left(text, what):
    """Nothing of wasm2c's objects may be left over."""
    match = re.search(r"Z_\w+|\bw2c_(?:T\d|memory\b)|wasm_rt_\w+|instance->(?!globals\[|size\b)\w+|\b(?:memory_init|"
                      r"\w+_table_(?:copy|init|get|set|fill))\(", text)
    if match:
        line = text[:match.start()].rpartition("\n")[2] + text[match.start():].partition("\n")[0]
        raise TransformError(f"{what}: don't know what to do with `{match[0]}` in: {line.strip()[:200]}")


def split_functions(bodies):
    """The functions' texts, in their order."""
    return [part + "\n}\n" for part in bodies.split("\n}\n") if part.strip()]


def rewrite_functions(module):
    """The functions, rewritten, and the prototypes."""
    rewriter = Rewriter(module)
    own = module.type_name + "* instance"
    functions = []
    for text in split_functions(module.bodies):
        text = "\n".join(rewriter.line(line) for line in text.strip("\n").split("\n")) + "\n"
        text = text.replace(own, "struct wasm_instance *instance", 1).replace("static ", "HIDDEN ", 1)
        check_left(text, "a function")
        functions.append(text)
    prototypes = module.prototypes.replace(module.type_name + "*", "struct wasm_instance *")
    prototypes = re.sub(r"^static ", "HIDDEN ", prototypes, flags=re.MULTILINE)
    check_left(prototypes, "the prototypes")
    return functions, prototypes


def parts_of(functions, count):
    """The functions in `count` runs of about the same size: neighbours call each other."""
    total, done, parts = sum(map(len, functions)), 0, [[]]
    for text in functions:
        if done > total * len(parts) / count and len(parts) < count:
            parts.append([])
        parts[-1].append(text)
        done += len(text)
    return parts


def state_source(module, name, sha256):
    """The file with table, globals and exports."""
    _, entries = module.table()
    for value in module.globals.values():
        find(r"^\d+(u|ull)$", value, "integer global")
    return STATE.format(
        name=name, sha256=sha256, pages=module.pages(), global_count=len(module.globals),
        table="\n".join(f"        [{index}] = {{{kind}, (void (*)(void)){function}}}," for index, kind, function
                        in entries),
        global_values=", ".join(module.globals.values()),
        exports="\n".join(f"        .{field} = {module.export(export)}," for field, export in EXPORTS))


def digest(value):
    """SHA-256 of what JSON can hold."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def transform(source, directory, name, sha256, count=16):
    """Writes `directory`/*.c and functions.h of wasm2c's file `source`; returns the C files."""
    with open(source, encoding="utf-8") as file:
        module = Module(file.read())
    functions, prototypes = rewrite_functions(module)
    os.makedirs(directory, exist_ok=True)
    size, _ = module.table()
    files = {"functions.h": HEADER.format(table_size=size) + prototypes, "state.c": state_source(module, name, sha256)}
    for number, part in enumerate(parts_of(functions, count)):
        files[f"part{number:02}.c"] = '#include "functions.h"\n\n' + "\n".join(part)
    for old in os.listdir(directory):
        if old.endswith(".c"):
            os.unlink(os.path.join(directory, old))
    for file_name, text in files.items():
        with open(os.path.join(directory, file_name), "w", encoding="utf-8") as file:
            file.write(text)
    return [os.path.join(directory, file_name) for file_name in sorted(files) if file_name.endswith(".c")]
