# SPDX-License-Identifier: Apache-2.0
"""The host's side of portable states, for tests of workers in any language."""

SAVE, RESTORE, GIVE_STATE, STATE = 0x09, 0x0A, 0x0C, 0x87
_PIECE = 1 << 20


def save(guest, digest=None, max_bytes=1 << 30, max_ms=30000):
    """(what the worker tells, parts)."""
    told, _blob = guest.request(SAVE, {"max_bytes": max_bytes, "max_ms": max_ms, "digest": digest})
    parts, whole = [], True
    for kind, header, blob in guest.frames:
        if kind != STATE:
            continue
        assert header["part"] == len(parts) - (not whole), header
        if whole:
            parts.append(b"")
        parts[-1] += blob
        whole = header["last"]
    assert whole
    return told, parts


def restore(guest, parts):
    """What the worker tells."""
    for number, part in enumerate(parts):
        for at in range(0, max(len(part), 1), _PIECE):
            guest.send(GIVE_STATE, {"part": number, "last": at + _PIECE >= len(part)}, part[at : at + _PIECE])
    return guest.request(RESTORE, {"parts": len(parts)})[0]
