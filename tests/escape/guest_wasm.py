# SPDX-License-Identifier: Apache-2.0
# Put before the code of each attempt in WebAssembly. Python gives no way to addresses there; this takes one: an object
# that is made of bytes, and that a piece of bytecode takes for a constant. What comes of it is a bytearray over all of
# the session's linear memory and what lies beyond: the hands of an attacker who has the interpreter.
import dis
import errno
import os
import struct
import sys

SPACE = 1 << 32


def held(text):
    print("HELD", text, flush=True)


def escaped(text):
    print("ESCAPED", text, flush=True)


def name_of(error):
    return errno.errorcode.get(error, str(error))


def must_fail(what, function, *arguments, errors=None):
    """A Python call must raise OSError (of `errors`, if given). Answers whether it did."""
    try:
        got = function(*arguments)
    except OSError as e:
        if errors is None or e.errno in errors:
            held("%s: %s" % (what, name_of(e.errno)))
            return True
        escaped("%s: %s" % (what, name_of(e.errno)))
        return False
    escaped("%s: %.200r" % (what, got))
    return False


def object_at(slot):
    """What the interpreter finds where the word at this address points to: LOAD_CONST far outside its tuple."""
    def function():
        return "a constant"
    code = function.__code__
    index = (slot - id(code.co_consts) - 12) % SPACE >> 2
    op = dis.opmap
    body = bytes([op["RESUME"], 0, op["EXTENDED_ARG"], index >> 24 & 255, op["EXTENDED_ARG"], index >> 16 & 255,
                  op["EXTENDED_ARG"], index >> 8 & 255, op["LOAD_CONST"], index & 255, op["RETURN_VALUE"], 0])
    function.__code__ = code.replace(co_code=body)
    return function()


def content_of(data):
    """Where the content of bytes lies."""
    return id(data) + 16


_kept = []  # what is forged must stay


def forge(data):
    """The object that these bytes are."""
    slot = struct.pack("<I", content_of(data))
    _kept.append((data, slot))
    return object_at(content_of(slot))


def memory_from(address, size=0x7fffffff):
    """A bytearray that was told to lie there."""
    return forge(struct.pack("<IIIIIII", 1 << 20, id(bytearray), size, 0, address, address, 0))


def check_hands():
    """Forging works: else an attempt would prove nothing."""
    sample = b"what lies at a known address"
    at = content_of(sample)
    if bytes(memory_from(0)[at:at + len(sample)]) != sample:
        raise AssertionError("no object can be forged any more: write this attempt anew")
