# SPDX-License-Identifier: Apache-2.0
"""What a shell tells of itself for a portable state, and what can be seen of it from outside."""

import os
import re

_DECLARED = re.compile(rb"^declare -[-a-zA-Z]+ ([A-Za-z_][A-Za-z0-9_]*)(?:=|$)", re.MULTILINE)
_FUNCTION = re.compile(rb"^declare -f([a-z]*) (.+)$", re.MULTILINE)


class Rest:
    """What the shell tells of itself at one time, but for the text of each variable and function."""

    def __init__(self, fields):
        told, self.arguments = {}, []
        for field in fields:
            if field[:1] == b"1":
                self.arguments.append(field[1:])
            else:
                told[field[:1]] = field[1:]
        self.options = told[b"o"].splitlines() + told[b"s"].splitlines()
        self.traps, self.aliases, self.umask = told[b"t"], told[b"a"], told[b"u"].strip()
        self.directory = told[b"d"]
        self.functions = [name for name in told[b"f"].split(b"\n") if name]
        self.attributes = {name: kinds for kinds, name in _FUNCTION.findall(told[b"F"])}
        self.declared = b"\n" + told[b"p"]
        self.jobs = told[b"j"].decode("utf-8", "replace")

    def names(self):
        """Those that may be of variables: a line within a value may look like one."""
        return sorted(set(_DECLARED.findall(self.declared)))


def quote(data):
    """Bytes as one word of bash."""
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def descriptors(pid):
    """{number: what it leads to} of those that the shell's programs get, too: its own ones are close-on-exec. None
    where that can't be seen."""
    found = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
                flags = re.search(r"^flags:\s*([0-7]+)$", file.read(), re.MULTILINE)
            if flags is not None and not int(flags.group(1), 8) & os.O_CLOEXEC:
                found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return {}
    return found
