#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the include order of the tree, so that the structure stays what ARCHITECTURE.md says.

- A file of core/<module>/ includes only its own module and those before it in ORDER.
- A plugin includes <snipara-sandbox/*.h>, its own headers and libraries; nothing of core/. Its tests may: they are not
  shipped, and some drive it through the core's own loader.
- A public header includes only public headers and the C library.
Prints TAP.
"""
import pathlib
import re
import sys

ORDER = ["base", "config", "plugin", "guest", "session", "tools", "catalog", "trajectory", "agent", "runtime",
         "cli"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def includes(path):
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h") and p.is_file())


def check_core():
    for path in sources("core"):
        module = path.relative_to(ROOT / "core").parts[0]
        if module not in ORDER:
            yield path, 0, f"module {module!r} has no place in the order {' < '.join(ORDER)}"
            continue
        for line, quote, target in includes(path):
            other = target.split("/")[0]
            if quote == '"' and "/" in target and other in ORDER and ORDER.index(other) > ORDER.index(module):
                yield path, line, f"core/{module} includes {target}, which comes after it"
            if quote == '"' and not (ROOT / "core" / target).exists() and not (path.parent / target).exists():
                yield path, line, f'"{target}" is neither below core/ nor beside the file'


def check_plugins():
    for folder in ("plugins", "examples"):
        for path in sources(folder):
            if "tests" in path.parts:
                continue
            for line, quote, target in includes(path):
                if quote == '"' and ".." in target.split("/"):
                    inside = (path.parent / target).resolve()
                    if ROOT / folder / path.relative_to(ROOT / folder).parts[0] not in inside.parents:
                        yield path, line, f"{target} leaves the plugin's directory"
                elif quote == '"' and (ROOT / "core" / target).exists() and not (path.parent / target).exists():
                    yield path, line, f"a plugin includes {target} of core/"
                elif quote == "<" and target.startswith("snipara-sandbox/runtime.h"):
                    yield path, line, "a plugin includes runtime.h, the API for embedding programs"


def check_public():
    for path in sources("include"):
        for line, quote, target in includes(path):
            if quote == '"' or ("/" in target and not target.startswith(("snipara-sandbox/", "sys/", "linux/"))):
                yield path, line, f"a public header includes {target}"


def main():
    checks = [("core includes only what comes before it", check_core),
              ("plugins include only public headers", check_plugins),
              ("public headers stand alone", check_public)]
    print("TAP version 13")
    print(f"1..{len(checks)}")
    failed = False
    for number, (name, check) in enumerate(checks, 1):
        problems = list(check())
        for path, line, text in problems:
            print(f"# {path.relative_to(ROOT)}:{line}: {text}")
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
