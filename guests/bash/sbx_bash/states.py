# SPDX-License-Identifier: Apache-2.0
"""Portable states of a bash session: what differs from a shell that was just started, in the shell's own words.

Variables with their attributes, functions, aliases, traps, options, the umask, the working directory, positional
parameters, `$?`. Background jobs, coprocesses and descriptors that `exec` opened are named as what can't be saved. The
words are bash's own (`declare -p` and the like), so bash reads them; the host reads nothing of it.
"""

import os
import re
import signal

from sbx_guest.states import States
from sbx_guest.states_parts import OWN_SIZE, damaged

from . import variables
from .rest import descriptors, quote

# What bash keeps itself, or is different in every shell.
_NOT_KEPT = frozenset(
    """_ COLUMNS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME FUNCNEST GROUPS HISTCMD LINENO LINES OPTIND
    PIPESTATUS PPID PWD RANDOM SECONDS SHELLOPTS SRANDOM UID""".split()
)
_KEPT_OF_OURS = frozenset(("__sbx_exit",))  # the action of a trap for EXIT
_JOB = re.compile(r"\[([0-9]+)\][-+ ] +[0-9]+ (\S+) +(.*?)(?: &)?$", re.MULTILINE)
_FD_KINDS = {"/": "file", "pipe": "pipe", "socket": "socket"}
_FORMAT = 1  # of what stands in the index below "bash"


def is_kept(name):
    """Does a variable of this name belong to the session, and not to the shell?"""
    if name in _KEPT_OF_OURS:
        return True
    return name not in _NOT_KEPT and not name.startswith(("BASH", "__sbx_"))


def _latin(data):
    """Bytes as a string that JSON can have, and back."""
    return data.decode("latin-1")


def _bytes(text):
    if not isinstance(text, str) or "\0" in text:
        raise ValueError("a text")
    return text.encode("latin-1")


class BashStates(States):
    """One for each session."""

    language = "bash"

    def is_fresh(self):
        return self.session.fresh

    def names(self):
        shell = self.session.shell
        return variables.user_names(shell.last_names, shell.known)[: variables.NAMES_MAX]

    # ---- saving ----

    def gather(self, index, parts, unsaved, budget):
        # Nothing here runs code of the session's that could hang; and the driver must not be torn out of a conversation
        # with the shell. The time is looked at in between.
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        shell = self.session.shell
        rest, start = shell.tell_rest(), shell.started
        budget.begin()
        parts.charge(len(rest.declared))
        wanted = [name for name in rest.names() if is_kept(name.decode("ascii"))]
        items = shell.tell_items(wanted, rest.functions)
        budget.begin()
        kept = [item for item in items if not self._was_there(item, start)]
        told = index["bash"] = self._tell(rest, start)
        told["items"] = _add_items(kept, parts)
        _name_jobs(rest, unsaved)
        _name_descriptors(shell, unsaved)
        return _count_variables(kept, start)

    @staticmethod
    def _was_there(item, start):
        kind, name, text = item
        return b"\n" + text in start.declared if kind == "v" else name in start.functions

    def _tell(self, rest, start):
        shell = self.session.shell
        before = set(start.options)
        there = {name for name in rest.names() if is_kept(name.decode("ascii"))}
        return {
            "format": _FORMAT,
            "version": shell.version,
            "options": [_latin(line) for line in rest.options if line not in before],
            "traps": None if rest.traps == start.traps else _latin(rest.traps),
            "aliases": None if rest.aliases == start.aliases else _latin(rest.aliases),
            "umask": None if rest.umask == start.umask else _latin(rest.umask),
            "directory": self._tell_directory(rest.directory),
            "attributes": {
                _latin(name): _latin(kinds)
                for name, kinds in rest.attributes.items()
                if kinds and name not in start.functions
            },
            "gone": [_latin(n) for n in start.names() if n not in there and is_kept(n.decode("ascii"))],
            "gone_functions": [_latin(name) for name in start.functions if name not in rest.functions],
            "arguments": [_latin(argument) for argument in rest.arguments],
            "status": shell.status,
            "errexit": shell.errexit,
        }

    def _tell_directory(self, directory):
        """The workspace of another guest may be elsewhere."""
        workspace = os.path.realpath(os.fsencode(self.session.workspace))
        if directory == workspace or directory.startswith(workspace + b"/"):
            return ["workspace", _latin(directory[len(workspace) + 1 :])]
        return ["", _latin(directory)]

    # ---- restoring ----

    def apply(self, index, given, missing, budget):
        told = index["bash"]
        if told["format"] > _FORMAT:
            raise damaged(f"what it says of bash has version {told['format']}")
        items = _read_items(told["items"], given)
        shell, session = self.session.shell, self.session
        script = _script(told, items)
        shell.run_own(b"__sbx_restoring=1\n" + script)
        self._go_to(told["directory"], missing)
        arguments = b" ".join(quote(_bytes(text)) for text in told["arguments"])
        shell.run_own(b"\\builtin set -- " + arguments + b"\n")
        shell.run_own(b"\n".join(_bytes(line) for line in told["options"]) + b"\n")
        shell.errexit, shell.status = told["errexit"] is True, int(told["status"]) & 255
        self._find_missing(items, missing)
        session.names = None
        return _count_variables(items, shell.started)

    def _go_to(self, where, missing):
        base = os.fsencode(self.session.workspace) if where[0] == "workspace" else b"/"
        target = os.path.join(base, _bytes(where[1]))
        record = self.session.shell.run_own(b"\\builtin cd -- " + quote(target) + b"\n")
        if record.line != "1":
            shown = target.decode("utf-8", "replace")
            missing.append({"name": shown, "type": "directory", "reason": "the session was in it, and it is not here"})

    def _find_missing(self, items, missing):
        """What did not come back as it was is tried once more by itself: one that bash can't read keeps others away."""
        lost = self._differing(items)
        for kind, _name, text in lost:
            self.session.shell.run_own(b"__sbx_restoring=1\n" + text + b"\n")
        version = self.session.shell.version
        for kind, name, _text in self._differing(lost) if lost else []:
            what = "variable" if kind == "v" else "function"
            shown = name.decode("utf-8", "replace")
            missing.append({"name": shown, "type": what, "reason": f"bash {version} does not take it"})

    def _differing(self, items):
        shell = self.session.shell
        names = [name for kind, name, _text in items if kind == "v"]
        functions = [name for kind, name, _text in items if kind == "f"]
        found = {(kind, name): text for kind, name, text in shell.tell_items(names, functions)}
        return [item for item in items if found.get(item[:2]) != item[2]]


def _count_variables(items, start):
    """How many the session made: those that the shell came with have changed only."""
    known = {*start.names(), b"OLDPWD"}
    return sum(1 for kind, name, _text in items if kind == "v" and name not in known and not name.startswith(b"__sbx_"))


def _script(told, items):
    """Functions come before aliases, which would be expanded in them; a shell with its first options can read them."""
    lines = [text for kind, _name, text in items if kind == "f"]
    for name, kinds in told["attributes"].items():
        if re.fullmatch(r"[a-z]+", kinds):
            lines.append(b"\\builtin declare -f" + kinds.encode("ascii") + b" " + quote(_bytes(name)))
    lines += [text for kind, _name, text in items if kind == "v"]
    lines += [b"\\builtin unset -v " + quote(_bytes(name)) for name in told["gone"]]
    lines += [b"\\builtin unset -f " + quote(_bytes(name)) for name in told["gone_functions"]]
    if told["umask"] is not None:
        lines.append(b"\\builtin umask " + quote(_bytes(told["umask"])))
    for key, clear in (("aliases", b"\\builtin unalias -a"), ("traps", b"\\builtin :")):
        if told[key] is not None:
            lines += [clear, _bytes(told[key])]
    return b"\n".join(lines) + b"\n"


# ---- items in parts ----


def _add_items(items, parts):
    """[[kind, name, part, offset, size]]; what is large has a part of its own."""
    entries, pack, size = [], [], 0
    for kind, name, text in items:
        if len(text) >= OWN_SIZE and parts.has_room():
            entries.append([kind, _latin(name), parts.add([text]), 0, len(text)])
            continue
        entries.append([kind, _latin(name), 0, size, len(text)])
        pack.append(text)
        size += len(text)
    if pack:
        number = parts.add(pack)
        for entry in entries:
            entry[2] = entry[2] or number
    return entries


def _read_items(entries, given):
    packs, items = {}, []
    for kind, name, part, offset, size in entries:
        if part not in packs:
            packs[part] = b"".join(given.pieces(part))
        if kind not in ("v", "f") or offset < 0 or size < 0 or offset + size > len(packs[part]):
            raise damaged("a variable is longer than its part")
        text = bytes(packs[part][offset : offset + size])
        if b"\0" in text:
            raise damaged("a variable with a NUL character")
        items.append((kind, _bytes(name), text))
    return items


# ---- what can't be saved ----


def _name_jobs(rest, unsaved):
    for number, _state, command in _JOB.findall(rest.jobs):
        reason = f"its processes are not saved: {command[:200]}"
        unsaved.append({"name": f"%{number}", "type": "background job", "reason": reason})


def _name_descriptors(shell, unsaved):
    for number, target in sorted(descriptors(shell.pid).items()):
        if number not in shell.own_fds:
            kind = _FD_KINDS.get(target[:1]) or _FD_KINDS.get(target.partition(":")[0], "descriptor")
            reason = f"it is open: {os.fsencode(target).decode('utf-8', 'replace')[:200]}"
            unsaved.append({"name": f"descriptor {number}", "type": kind, "reason": reason})
