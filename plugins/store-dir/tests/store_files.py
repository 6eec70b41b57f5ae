# SPDX-License-Identifier: Apache-2.0
"""Reads and forges the files of a store that is not encrypted, after docs/stores.md and apart from the plugin's code:
what tests of damage and of attackers need."""
import hashlib
import json
import os
import struct

CHUNK = 1 << 20


def derive(salt, what, key=b""):
    return hashlib.blake2b(b"snipara-sandbox store 1\0" + salt + what, key=key, digest_size=32).digest()


class Keys:
    def __init__(self, directory):
        with open(os.path.join(directory, "store"), encoding="ascii") as file:
            self.identity = json.load(file)
        self.hash_key = derive(bytes.fromhex(self.identity["salt"]), b"hash")

    def hash(self, what, *pieces):
        state = hashlib.blake2b(key=self.hash_key, digest_size=32)
        state.update(what.ljust(16, b"\0"))
        for piece in pieces:
            state.update(piece)
        return state.digest()

    def pair(self, what, first, second):
        return self.hash(what, struct.pack("<Q", len(first)), first, second)

    def blob_id(self, size, hashes):
        return self.hash(b"blob", struct.pack("<Q", size), b"".join(hashes))


def encode(name):
    return name.replace("/", ",") if name else ","


def entry_bytes(leaf, kind, identity, size, sealed_size, offset):
    numbers = struct.pack("<QQQ", size, sealed_size, offset)
    return struct.pack("<HB", len(leaf), kind) + leaf.encode() + identity + numbers


def index_bytes(keys, directory, table, blobs, generation=1, version=1, raw_size=None):
    """The file of an index with this raw table."""
    sealed = struct.pack("<I", 1 + len(table)) + b"\0" + table
    head = b"sbxindex" + struct.pack("<IIQQQQ", version, 1, len(table) if raw_size is None else raw_size, len(sealed),
                                     len(blobs), generation)
    head += keys.pair(b"index", head + directory.encode(), table)
    return head + sealed + blobs + sealed + head


def parse_index(data):
    """[(leaf, kind, id, size, sealed size, sealed bytes)] of an index with one chunk."""
    assert data[:8] == b"sbxindex"
    version, chunks, raw_size, sealed_size, blobs_size, generation = struct.unpack("<IIQQQQ", data[8:48])
    assert version == 1 and chunks == 1 and generation > 0
    assert len(data) == 2 * (80 + sealed_size) + blobs_size and data[:80] == data[-80:]
    assert struct.unpack("<I", data[80:84])[0] == sealed_size - 4 and data[84] == 0
    table, blobs = data[85:80 + sealed_size], data[80 + sealed_size:80 + sealed_size + blobs_size]
    assert len(table) == raw_size
    entries, at = [], 0
    while at < len(table):
        length, kind = struct.unpack("<HB", table[at:at + 3])
        leaf = table[at + 3:at + 3 + length].decode()
        at += 3 + length
        identity = table[at:at + 32]
        size, stored, offset = struct.unpack("<QQQ", table[at + 32:at + 56])
        at += 56
        entries.append((leaf, kind, identity, size, stored, blobs[offset:offset + stored] if kind == 0 else None))
    return entries


def rle_frame(size, declared=None):
    """zstd: `size` zeros in a few bytes, which say that they are `declared`."""
    frame = b"\x28\xb5\x2f\xfd" + b"\xa0" + struct.pack("<I", size if declared is None else declared)
    left = size
    while left > 0:
        block = min(left, 128 << 10)
        left -= block
        header = (block << 3) | (1 << 1) | (1 if left == 0 else 0)
        frame += struct.pack("<I", header)[:3] + b"\0"
    return frame


def object_bytes(keys, raw_size, chunks, hashes, count=None, offset=None):
    """(id, file) of a large blob with these sealed chunks."""
    body, table, at = b"", b"", 32
    for sealed, digest in zip(chunks, hashes):
        table += digest + struct.pack("<QI", at if offset is None else offset, len(sealed))
        body += sealed
        at += len(sealed)
    head = b"sbxblob1" + struct.pack("<IIQQ", len(chunks) if count is None else count, 0, raw_size, at)
    return keys.blob_id(raw_size, hashes), head + body + table
