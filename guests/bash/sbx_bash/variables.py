# SPDX-License-Identifier: Apache-2.0
"""Variables of the shell: what `declare -p` says of them, and how a value is written so that bash reads it."""

import re

from sbx_guest import jsontext
from sbx_guest.text import cap

NAMES_MAX = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME_MAX = 200
_REPR_MAX = 64 << 10
_JSON_MAX = 64 << 10
_TOTAL_MAX = 1 << 20
_OWN = ("__sbx_", "BASH", "COMP_")
# What bash itself sets while code runs.
_SHELLS = frozenset(("_", "COLUMNS", "FUNCNAME", "LINES", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "PIPESTATUS"))
_ESCAPES = {
    b"a": b"\a", b"b": b"\b", b"e": b"\x1b", b"E": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t",
    b"v": b"\v", b"\\": b"\\", b"'": b"'", b'"': b'"', b"?": b"?",
}  # fmt: skip
_ANSI_C = re.compile(
    rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_PLAIN = re.compile(rb"[^\s\"'()\]$]+")
_DOUBLE = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_DOLLAR = re.compile(rb"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_SINGLE = re.compile(rb"'([^']*)'")


class Unreadable(ValueError):
    """`declare -p` said what this module does not know."""


def is_name(name):
    """Can a variable of the shell have it?"""
    return isinstance(name, str) and len(name) <= _NAME_MAX and _NAME.match(name) is not None


def user_names(found, known):
    """The names that the code made, sorted: ``known`` are those that were there before."""
    return sorted(
        name
        for name in found
        if name not in known and name not in _SHELLS and not name.startswith(_OWN) and is_name(name)
    )


# ---- reading ----


def _ansi_c(match):
    octal, two, four, eight, control, single = match.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if two is not None:
        return bytes((int(two, 16),))
    if four is not None or eight is not None:
        number = int(four or eight, 16)
        return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"\xef\xbf\xbd"
    if control is not None:
        return bytes((control[0] & 0x1F,))
    return _ESCAPES.get(single, b"\\" + single)


class _Reader:
    """Words of the shell's own quoting, one after another."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def peek(self, text):
        return self.data.startswith(text, self.at)

    def take(self, text):
        if not self.peek(text):
            raise Unreadable(f"{text!r} is missing at {self.at}")
        self.at += len(text)

    def _piece(self):
        for pattern in (_DOUBLE, _DOLLAR, _SINGLE, _PLAIN):
            match = pattern.match(self.data, self.at)
            if match is None:
                continue
            self.at = match.end()
            if pattern is _DOUBLE:
                return re.sub(rb'\\(["\\$`\n])', rb"\1", match.group(1))
            if pattern is _DOLLAR:
                return _ANSI_C.sub(_ansi_c, match.group(1))
            return match.group(match.lastindex or 0)
        return None

    def word(self):
        pieces = []
        while True:
            piece = self._piece()
            if piece is None:
                break
            pieces.append(piece)
        return b"".join(pieces).decode("utf-8", "replace")

    def elements(self):
        """[(key, value)] of an array."""
        found = []
        self.take(b"(")
        while True:
            while self.peek(b" ") or self.peek(b"\n"):
                self.at += 1
            if self.peek(b")"):
                return found
            self.take(b"[")
            key = self.word()
            self.take(b"]=")
            found.append((key, self.word()))


def _integer(text):
    return (
        int(text)
        if re.fullmatch(r"-?[0-9]{1,19}", text) and jsontext.INT_MIN <= int(text) <= jsontext.INT_MAX
        else text
    )


def read(declared):
    """(kind, text as bash has it, value) of what `declare -p` says of one variable."""
    head, equals, text = declared.rstrip(b"\n").partition(b"=")
    words = head.split()
    if len(words) != 3 or words[0] != b"declare":
        raise Unreadable("no declaration")
    attributes = words[1]
    if not equals:
        kind = "associative array" if b"A" in attributes else "array" if b"a" in attributes else "unset"
        return kind, "", {} if b"A" in attributes else [] if b"a" in attributes else None
    shown = text.decode("utf-8", "replace")
    reader = _Reader(text)
    if b"A" in attributes or b"a" in attributes:
        if reader.peek(b"'") or reader.peek(b'"'):  # before 4.4: the whole of it in quotes
            reader = _Reader(reader.word().encode("utf-8"))
        pairs = reader.elements()
        if b"i" in attributes:
            pairs = [(key, _integer(value)) for key, value in pairs]
        if b"A" in attributes:
            return "associative array", shown, dict(pairs)
        return "array", shown, [value for _key, value in pairs]
    value = reader.word()
    if b"n" in attributes:
        return "reference", shown, value
    return ("integer", shown, _integer(value)) if b"i" in attributes else ("string", shown, value)


def describe(shown):
    """(name, {"type", "repr", "json"?}, value) of what the shell's __sbx_show wrote."""
    head, _newline, declared = shown.partition(b"\n")
    name, _space, size = head.decode("ascii", "replace").partition(" ")
    try:
        kind, text, value = read(declared)
    except Unreadable:
        return name, {"type": "unknown", "repr": cap(declared.decode("utf-8", "replace"), _REPR_MAX)}, None
    told = {"type": kind, "repr": jsontext.clean(cap(text, _REPR_MAX))}
    if size != "0":
        told["repr"] += f" [... {size} in all ...]"
        return name, told, None
    if value is not None and jsontext.dumps_value(value, _JSON_MAX) is not None:
        told["json"] = value
    return name, told, value


def describe_all(blocks):
    """({name: what describe() says}, how many did not fit)."""
    out, left = {}, _TOTAL_MAX
    for position, block in enumerate(blocks):
        name, told, _value = describe(block)
        if not is_name(name):
            continue
        left -= len(jsontext.dumps(told)) + len(name) + 8
        if left < 0:
            return out, len(blocks) - position
        out[name] = told
    return out, 0


# ---- writing ----


def quote(text):
    """``text`` as one word of bash."""
    if "\0" in text:
        raise ValueError("a variable of bash can't hold a NUL character")
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(value):
    """The text of a scalar; that of anything else is its JSON."""
    if isinstance(value, str):
        return jsontext.clean(value)
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    told = jsontext.dumps_readable(value, 16 << 20)
    if told is None:
        raise ValueError("the value has no JSON form")
    return told


def assignment(name, value):
    """(code that gives a value to a variable that is not there, what it then looks like)."""
    if isinstance(value, list):
        shown = "(" + " ".join(f"[{at}]={quote(_plain(item))}" for at, item in enumerate(value)) + ")"
        return f"builtin declare -ga {name} && {name}={shown}", shown
    if isinstance(value, dict):
        if "" in value:
            raise ValueError("an associative array of bash can't have an empty key")
        shown = "(" + " ".join(f"[{quote(key)}]={quote(_plain(item))}" for key, item in value.items()) + ")"
        return f"builtin declare -gA {name} && {name}={shown}", shown
    shown = quote(_plain(value))
    return f"{name}={shown}", shown
