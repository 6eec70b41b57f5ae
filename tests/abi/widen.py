#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the public headers of a later minor version: every struct that may grow gets two more members.

    widen.py INCLUDE_DIR OUTPUT_DIR

With them the tests build "the next host" and "the next plugin", to meet those of today.
"""
import pathlib
import re
import sys

from headers import Headers

MEMBERS = "        uint64_t next_member_a, next_member_b;\n"
MINOR = re.compile(r"(#define SBX_ABI_MINOR )(\d+)u")


def widen(text, growable):
    for name in growable:
        text = re.sub(r"(^struct %s \{\n.*?)(^\};)" % name, r"\g<1>%s\g<2>" % MEMBERS, text, flags=re.S | re.M)
    return MINOR.sub(lambda m: "%s%du\n#define SBX_ABI_TEST_NEXT 1" % (m[1], int(m[2]) + 1), text)


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    headers = Headers(source)
    growable = [name for name in headers.structs if headers.may_grow(name)]
    (target / "snipara-sandbox").mkdir(parents=True, exist_ok=True)
    for name in headers.files:
        text = (source / "snipara-sandbox" / name).read_text(encoding="utf-8")
        (target / "snipara-sandbox" / name).write_text(widen(text, growable), encoding="utf-8")


if __name__ == "__main__":
    main()
