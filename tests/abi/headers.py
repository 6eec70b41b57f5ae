# SPDX-License-Identifier: Apache-2.0
"""Reads what the public headers declare: structs with their members, enumerators, constants, functions. Enough of C for
the style of these headers; what it can't read is an error, never skipped."""
import pathlib
import re

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.S | re.M)
ENUM = re.compile(r"\benum (\w+) \{(.*?)\};", re.S)
DEFINE = re.compile(r"^#define (SBX_\w+) +(\(?(?:0x)?\d[^\n]*|\"[^\n]*)$", re.M)
FUNCTION = re.compile(r"^(?:SBX_API )?((?:const )?(?:struct \w+|int|void|char) ?\*?)\n?(sbx_\w+)\(([^)]*)\);", re.M)
POINTER = re.compile(r"^(.*?)\(\*(\w+)\)\((.*)\)$", re.S)
PLAIN = re.compile(r"^(.*?)(\w+)((?:\[\w+\])?)$", re.S)


class Struct:
    def __init__(self, name, members):
        self.name = name
        self.members = members  # [(name, type)]

    @property
    def growable(self):
        return self.members[0][0] == "struct_size"


def squeeze(text):
    return re.sub(r"\s*\*\s*", " *", " ".join(text.split())).replace("* *", "**").strip()


def parameters(text):
    """The types alone: a parameter's name may change."""
    types = []
    for parameter in text.split(","):
        match = re.match(r"^(.*?[\s*])\w+$", squeeze(parameter))
        named = match and match[1].split()[-1] not in ("struct", "enum")
        types.append(squeeze(match[1] if named else parameter))
    return ", ".join(types)


def members(body, where):
    found = []
    for declaration in body.split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        pointer = POINTER.match(declaration)
        if pointer:
            found.append((pointer[2], "%s(*)(%s)" % (squeeze(pointer[1]) + " ", parameters(pointer[3]))))
            continue
        first, *others = declaration.split(",")
        match = PLAIN.match(first.strip())
        if not match or "(" in declaration:
            raise ValueError("%s: can't read the declaration %r" % (where, declaration))
        base = squeeze(match[1].rstrip("* \n")) if others else squeeze(match[1])
        stars = squeeze(match[1])[len(base):] if others else ""
        found.append((match[2], squeeze(base + stars) + match[3]))
        for other in others:
            match = re.match(r"^(\**)(\w+)((?:\[\w+\])?)$", other.strip())
            if not match:
                raise ValueError("%s: can't read the declaration %r" % (where, declaration))
            found.append((match[2], squeeze(base + " " + match[1]) + match[3]))
    return found


class Headers:
    """All headers of INCLUDE_DIR/snipara-sandbox."""

    def __init__(self, include_dir):
        self.structs, self.enums, self.constants, self.functions, self.files = {}, {}, {}, {}, []
        for path in sorted(pathlib.Path(include_dir, "snipara-sandbox").glob("*.h")):
            self.files.append(path.name)
            text = COMMENT.sub(" ", path.read_text(encoding="utf-8"))
            for name, body in STRUCT.findall(text):
                self.structs[name] = Struct(name, members(body, "%s: struct %s" % (path.name, name)))
            if len(STRUCT.findall(text)) != len(re.findall(r"^struct \w+ \{", text, re.M)):
                raise ValueError("%s: a struct that can't be read" % path.name)
            for name, body in ENUM.findall(text):
                self.enums[name] = re.findall(r"\b(SBX_\w+)\b\s*=", body)
            self.constants.update(DEFINE.findall(text))
            found = FUNCTION.findall(text)
            if len(found) < len(re.findall(r"^SBX_API ", text, re.M)):
                raise ValueError("%s: a function that can't be read" % path.name)
            for result, name, arguments in found:
                self.functions[name] = "%s (%s)" % (squeeze(result), parameters(arguments))

    def embedded(self):
        """Names of structs that stand by value in another one, and so can't grow."""
        found = set()
        for struct in self.structs.values():
            for _, kind in struct.members:
                match = re.match(r"^struct (\w+)(?:\[\w+\])?$", kind)
                if match:
                    found.add(match[1])
        return found

    def may_grow(self, name):
        return self.structs[name].growable and name not in self.embedded()
