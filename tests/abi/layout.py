#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary layout of the public headers, and what a newer one may not change.

    layout.py show INCLUDE_DIR            prints the layout
    layout.py update INCLUDE_DIR FILE     writes it to FILE: only when a change is meant to be the ABI from now on

A compiler measures: a generated program prints sizes, offsets and values. Lines:

    define NAME VALUE
    enum TYPE NAME VALUE
    function NAME SIGNATURE
    struct NAME fixed|growable SIZE
    member STRUCT NAME OFFSET SIZE TYPE
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from headers import Headers

HEAD = """# The plugin ABI, major version 1, on 64-bit systems (LP64). Made by tests/abi/layout.py; tests/abi/test_layout.py compares
# the headers to it. A line here is a promise to plugins that exist: it is never changed, only followed by others.
"""
MAY_CHANGE = ("SBX_ABI_MINOR",)  # that it grows is the point of it


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def program(headers):
    lines = ["#include <snipara-sandbox/%s>" % name for name in headers.files]
    lines += ["int main(void) {"]
    for name, text in headers.constants.items():
        kind = '%s' if text.startswith('"') else '%lld'
        value = name if text.startswith('"') else "(long long)%s" % name
        lines.append('printf("define %s %s\\n", %s);' % (name, kind, value))
    for enum, values in headers.enums.items():
        lines += ['printf("enum %s %s %%lld\\n", (long long)%s);' % (enum, value, value) for value in values]
    for name, signature in headers.functions.items():
        lines.append('printf("function %s %%s\\n", %s);' % (name, quoted(signature)))
    for struct in headers.structs.values():
        growth = "growable" if headers.may_grow(struct.name) else "fixed"
        lines.append('printf("struct %s %s %%zu\\n", sizeof(struct %s));' % (struct.name, growth, struct.name))
        for name, kind in struct.members:
            lines.append('printf("member %s %s %%zu %%zu %%s\\n", offsetof(struct %s, %s), '
                         'sizeof(((struct %s *)0)->%s), %s);'
                         % (struct.name, name, struct.name, name, struct.name, name, quoted(kind)))
    return "\n".join(lines + ["return 0;", "}", ""])


def measure(include_dir):
    """The layout as a list of lines."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    with tempfile.TemporaryDirectory(prefix="sbx-abi-") as scratch:
        source, binary = pathlib.Path(scratch, "layout.c"), pathlib.Path(scratch, "layout")
        source.write_text(program(Headers(include_dir)), encoding="utf-8")
        subprocess.run([*compiler, "-std=gnu17", "-I", str(include_dir), "-o", str(binary), str(source)], check=True)
        return subprocess.run([str(binary)], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def read(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def index(lines):
    """{what it is about: the rest}, in order: ("member", "sbx_call", "cancel_fd") -> "4 4 int32_t"."""
    found = {}
    for line in lines:
        kind, rest = line.split(" ", 1)
        words = rest.split(" ", 2 if kind in ("member", "enum") else 1)
        found[(kind, *words[:-1])] = words[-1]
    return found


def compare(baseline, current):
    """(what breaks plugins that exist, what was added), as texts."""
    old, new = index(baseline), index(current)
    broken, added = [], []
    for key, value in old.items():
        name = " ".join(key)
        if key not in new:
            broken.append("%s was removed or renamed" % name)
        elif key[0] == "struct":
            (old_growth, old_size), (growth, size) = value.split(), new[key].split()
            if growth != old_growth:
                broken.append("%s was %s and is %s" % (name, old_growth, growth))
            if int(size) < int(old_size) or (int(size) > int(old_size) and old_growth == "fixed"):
                broken.append("%s was %s bytes and is %s" % (name, old_size, size))
        elif new[key] != value and key[1] not in MAY_CHANGE:
            broken.append("%s was \"%s\" and is \"%s\"" % (name, value, new[key]))
        elif key[1] in MAY_CHANGE and int(new[key]) < int(value):
            broken.append("%s went back from %s to %s" % (name, value, new[key]))
    for key, value in new.items():
        if key in old:
            continue
        added.append(" ".join(key))
        struct = ("struct", key[1])
        # In the padding that an older plugin's sizeof covers there is anything: it can't become a member.
        if key[0] == "member" and struct in old and int(value.split()[0]) < int(old[struct].split()[1]):
            broken.append("%s was put inside of what the struct was before (offset %s of %s bytes); append it"
                          % (" ".join(key), value.split()[0], old[struct].split()[1]))
        if key[0] == "enum" and value in [v for k, v in old.items() if k[:2] == key[:2]]:
            broken.append("%s takes the value %s of another name" % (" ".join(key), value))
    return broken, added


def main():
    command, include_dir, *rest = sys.argv[1:]
    lines = "\n".join(measure(include_dir)) + "\n"
    if command == "show":
        sys.stdout.write(lines)
    elif command == "update":
        pathlib.Path(rest[0]).write_text(HEAD + lines, encoding="utf-8")
    else:
        sys.exit("usage: layout.py show INCLUDE_DIR | update INCLUDE_DIR FILE")


if __name__ == "__main__":
    main()
