# SPDX-License-Identifier: Apache-2.0
"""JSON for frames, on the accelerators of the standard library alone.

``import json`` pulls in ``re`` and ``enum`` and costs as much as starting the interpreter does; the C scanner and
encoder behind it do not.
"""

from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

INT_MIN = -(1 << 63)
INT_MAX = (1 << 63) - 1
DEPTH_MAX = 48  # the host reads 64 levels; what we wrap a value in must fit as well
NODES_MAX = 50_000


class _Options:
    """What make_scanner reads its options from."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


class _Strict(_Options):
    """The same, without the NaN and Infinity that are no JSON."""

    @staticmethod
    def parse_constant(name):
        raise ValueError(f"{name} is not JSON")


def _refuse(value):
    raise TypeError(f"{type(value).__name__} has no JSON form")


_scan = make_scanner(_Options)
_scan_strictly = make_scanner(_Strict)
_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
_encode_readably = make_encoder(None, _refuse, encode_basestring, None, ": ", ", ", False, False, True)


def loads(text):
    """The object in ``text`` (bytes). ValueError when it is not exactly one JSON object."""
    text = str(text, "utf-8")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # the latter where it has an error to raise that is in ``json``
        raise ValueError("not JSON") from None
    if end != len(text) or type(value) is not dict:
        raise ValueError("not one JSON object")
    return value


def loads_any(text):
    """The value in ``text`` (str or bytes), whatever its type. ValueError when it is not exactly one JSON value."""
    if not isinstance(text, str):
        text = str(text, "utf-8")
    try:
        value, end = _scan_strictly(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("not one JSON value")
    return value


def dumps(value):
    """ASCII bytes of plain data whose strings went through ``clean`` or are known to be good."""
    return "".join(_encode(value, 0)).encode("ascii")


def clean(text):
    """``text`` without lone surrogates, as an exact str."""
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _good_text(text, is_key):
    if text.isascii():
        return not is_key or "\0" not in text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return not is_key or "\0" not in text


def _plain(value, limit):
    """Can it be told in JSON that every reader takes: plain types, string keys, 64-bit integers, finite floats?"""
    stack = [(value, 0)]
    nodes = size = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if nodes > NODES_MAX or depth > DEPTH_MAX or size > limit:
            return False
        kind = type(item)
        if kind is str:
            size += len(item)
            if size > limit or not _good_text(item, False):
                return False
        elif kind is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif kind is float:
            if item != item or item in (float("inf"), float("-inf")):
                return False
        elif kind is list or kind is tuple:
            if len(item) + nodes > NODES_MAX:
                return False
            stack.extend([(part, depth + 1) for part in item])
        elif kind is dict:
            if len(item) + nodes > NODES_MAX:
                return False
            for key, part in list(item.items()):
                if type(key) is not str or not _good_text(key, True):
                    return False
                size += len(key)
                stack.append((part, depth + 1))
        elif item is not None and kind is not bool:
            return False
    return True


def dumps_value(value, limit):
    """ASCII text of a user's value, or None when it can't be told in JSON of at most ``limit`` bytes."""
    if not _plain(value, limit):
        return None
    text = "".join(_encode(value, 0))
    return text if len(text) <= limit else None


def dumps_readable(value, limit):
    """The same for people: not escaped to ASCII, and with spaces."""
    if not _plain(value, limit):
        return None
    return "".join(_encode_readably(value, 0))
