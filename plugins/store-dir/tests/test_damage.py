#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""store-dir when its files are damaged, cut short, of another version or of somebody else's making: what was stored is
either given back as it was or refused; what is not damaged stays readable.
Environment: STORE_DRIVE, STORE_PLUGIN; STORE_FLIPS: how many bits are flipped (default 150)."""
import json
import os
import random
import shutil
import stat
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import store_files  # noqa: E402
from store_case import Place, flip  # noqa: E402
from tap import main, note, skip  # noqa: E402

FLIPS = int(os.environ.get("STORE_FLIPS") or 150)
SMALL = {"s/%d" % i: "text %d" % i for i in range(5)}


def fill(store):
    for name, text in SMALL.items():
        store.do("put %s %s" % (name, text))
    store.do("fill s/large 2500000 x1")


def look(store, exact=True):
    """How many names are as they were; the others have to be refused. With `exact` none of them may be missing."""
    good = 0
    for name, text in SMALL.items():
        answer = store.ask("get " + name)
        assert answer in ("ok " + text,) or answer.startswith("error EBADMSG "), answer
        good += answer.startswith("ok")
    answer = store.ask("check s/large 2500000 x1")
    assert answer == "ok" or answer.startswith("error EBADMSG "), answer
    return good + (answer == "ok")


# ---- the index ----

def test_flipped_bits_of_the_index():
    with Place() as place:
        with place.open() as store:
            fill(store)
        whole = place.read("names", "s", "index")
        choose, counts = random.Random(7), {}
        with place.open() as store:
            for _ in range(FLIPS):
                place.write(flip(whole, choose.randrange(8 * len(whole))), "names", "s", "index")
                os.unlink(place.file("names", "s", "index.old")) if os.path.exists(
                    place.file("names", "s", "index.old")) else None
                good = look(store)
                counts[good] = counts.get(good, 0) + 1
        note("names that survived a flipped bit: times %s" % counts)
        assert set(counts) <= {5, 6}, counts  # the names are there twice: one bit costs one small blob at most


def test_index_cut_short():
    with Place() as place:
        with place.open() as store:
            fill(store)
        whole = place.read("names", "s", "index")
        os.unlink(place.file("names", "s", "index.old"))
        with place.open() as store:
            for size in range(0, len(whole), 37):
                place.write(whole[:size], "names", "s", "index")
                good = look(store)
                assert good > 0 or size < len(whole) // 2, (size, good)
            place.write(whole, "names", "s", "index")
            assert look(store) == 6


def test_damaged_index_is_not_written_over():
    with Place() as place:
        with place.open() as store:
            fill(store)
        os.unlink(place.file("names", "s", "index.old"))
        place.write(b"nothing of use" * 100, "names", "s", "index")
        with place.open() as store:
            store.fails("put s/new x", "EBADMSG")
            store.fails("commit - 0 0 s/0!", "EBADMSG")
            assert "rm -r" in store.fails("get s/0", "EBADMSG")
            assert place.read("names", "s", "index") == b"nothing of use" * 100
            store.do("put other/a fine")
            listed = store.ask("list ")
            assert listed.startswith("ok other/a=4 then error EBADMSG "), listed
            assert json.loads(store.do("collect"))["damaged"] == ["s"]
            assert len(place.objects("s")) == 1  # its large blob may be all that is left of it


def test_index_of_another_directory():
    """Somebody copies one session's index over another's."""
    with Place() as place:
        with place.open() as store:
            fill(store)
            store.do("put t/0 other")
        for name in ("index", "index.old"):
            place.write(place.read("names", "s", "index"), "names", "t", name)
        with place.open() as store:
            store.fails("get t/0", "EBADMSG")
            assert look(store) == 6


def test_loss_of_power():
    """What was stored last did not reach the disk: the state before it is there, whole, and the log says so."""
    with Place() as place:
        with place.open() as store:
            store.do("commit - 0 0 s/a=1 s/b~300000~x1")
            store.do("commit - 0 1 s/a=2 s/b~300000~x2")
            store.kill()
        for left in (b"", place.read("names", "s", "index")[:100]):
            place.write(left, "names", "s", "index")
            with place.open() as store:
                assert store.do("get s/a") == "1"
                store.do("check s/b 300000 x1")
        with place.open() as store:
            store.do("commit - 0 0 s/a=3 s/b~300000~x3")
            assert store.do("get s/a") == "3"
            assert len(place.objects("s")) == 1


# ---- large blobs ----

def test_flipped_bits_of_a_large_blob():
    with Place() as place:
        with place.open() as store:
            store.do("fill s/large 2500000 z1")
            store.do("put s/small fine")
        hexname = place.objects("s")[0]
        whole = place.read("names", "s", hexname)
        choose, harmless = random.Random(8), 0
        with place.open() as store:
            for _ in range(FLIPS // 5):
                place.write(flip(whole, choose.randrange(8 * len(whole))), "names", "s", hexname)
                answer = store.ask("check s/large 2500000 z1")
                harmless += answer == "ok"  # a few bits of what zstd writes mean nothing
                assert answer == "ok" or answer.startswith("error EBADMSG "), answer
                assert store.do("get s/small") == "fine"
        assert harmless <= FLIPS // 50, harmless


def test_large_blob_cut_short_or_gone():
    with Place() as place:
        with place.open() as store:
            store.do("fill s/large 2500000 x1")
            store.do("fill s/other 100000 x2")
        for size in (0, 1, 31, 32, 1000, 2499999):
            hexnames = place.objects("s")
            large = max(hexnames, key=lambda name: os.stat(place.file("names", "s", name)).st_size)
            whole = place.read("names", "s", large)
            place.write(whole[:size], "names", "s", large)
            with place.open() as store:
                store.fails("get s/large", "EBADMSG")
                assert json.loads(store.do("collect"))["damaged"] == ["s/large"]
                store.do("check s/other 100000 x2")
            place.write(whole, "names", "s", large)
        os.unlink(place.file("names", "s", large))
        with place.open() as store:
            assert "missing" in store.fails("get s/large", "EBADMSG")
            assert json.loads(store.do("collect"))["damaged"] == ["s/large"]


def test_the_same_contents_again_mend_it():
    """Nobody shares a file that is known to be damaged."""
    with Place() as place:
        with place.open() as store:
            store.do("fill s/large 500000 x1")
            hexname = place.objects("s")[0]
            with open(place.file("names", "s", hexname), "r+b") as file:
                file.seek(200000)
                file.write(b"damaged")
            store.fails("get s/large", "EBADMSG")
            store.do("fill t/copy 500000 x1")
            store.do("check t/copy 500000 x1")
            store.fails("get s/large", "EBADMSG")
            store.do("fill s/large 500000 x1")
            store.do("check s/large 500000 x1")
            assert json.loads(store.do("collect"))["damaged"] == []


# ---- identity and keys ----

def test_identity_from_its_copy():
    with Place() as place:
        with place.open() as store:
            fill(store)
        whole = place.read("store")
        for damage in (b"", whole[:50], flip(whole, 8 * 50), b"{}", b"\xff" * 5000, None):
            if damage is None:
                os.unlink(place.file("store"))
            else:
                place.write(damage, "store")
            with place.open() as store:
                assert look(store) == 6
            assert place.read("store") == whole
        for name in ("store", "store.copy"):
            place.write(flip(whole, 8 * 50), name)
        place.refused("EBADMSG")
        for name in ("store", "store.copy"):
            place.write(whole.replace(b'store": 1', b'store": 2'), name)
        assert "version 2" in place.refused("EPROTONOSUPPORT")
        for name in ("store", "store.copy"):
            os.unlink(place.file(name))
        assert "is not a store" in place.refused("EINVAL")


def test_newer_version_of_an_index():
    with Place() as place:
        with place.open() as store:
            fill(store)
            keys = store_files.Keys(place.path)
            place.write(store_files.index_bytes(keys, "s", b"", b"", version=2), "names", "s", "index")
            assert "newer" in store.fails("get s/0", "EPROTONOSUPPORT")
            store.fails("put s/0 x", "EPROTONOSUPPORT")


def test_directory_of_somebody_else():
    with Place() as place:
        os.mkdir(place.path, 0o700)
        with open(place.file("thesis.txt"), "w", encoding="ascii") as file:
            file.write("two years of work")
        place.refused("EINVAL")
        assert os.listdir(place.path) == ["thesis.txt"]


def test_keys():
    with Place() as place:
        key, other = place.key(), place.key("other")
        with place.open(key_file=key) as store:
            fill(store)
            store.do("put s/secret the-crown-jewels")
            store.do("fill s/plain 300000 z1")
        for directory, _, files in os.walk(place.path):
            for name in files:
                with open(os.path.join(directory, name), "rb") as file:
                    data = file.read()
                assert b"jewels" not in data and b"zzzzzzzz" not in data and b"secret" not in data, name
        assert "not the one" in place.refused("EKEYREJECTED", key_file=other)
        assert "key_file" in place.refused("ENOKEY")
        with open(key, "rb") as file:
            digits = place.key("digits", file.read().hex().encode() + b"\n")
        with place.open(key_file=digits) as store:
            assert look(store) == 6
        place.refused("ENOENT", key_file=os.path.join(place.top, "nowhere"))
        place.refused("EACCES", key_file=place.key("open", mode=0o644))
        place.refused("EINVAL", key_file=place.key("short", b"short"))
        place.refused("EINVAL", key_file=place.key("long", b"x" * 1000))
    with Place() as place:
        with place.open() as store:
            fill(store)
        assert "not encrypted" in place.refused("EKEYREJECTED", key_file=place.key())


def test_flipped_bits_of_an_encrypted_index():
    with Place() as place:
        place.options["key_file"] = place.key()
        with place.open() as store:
            fill(store)
        whole = place.read("names", "s", "index")
        os.unlink(place.file("names", "s", "index.old"))
        choose = random.Random(9)
        with place.open() as store:
            for _ in range(FLIPS):
                place.write(flip(whole, choose.randrange(8 * len(whole))), "names", "s", "index")
                assert look(store) >= 5


# ---- attackers ----

def test_links_devices_and_directories():
    with Place() as place:
        with place.open() as store:
            fill(store)
        target = os.path.join(place.top, "target")
        shutil.copy(place.file("names", "s", "index"), target)
        os.unlink(place.file("names", "s", "index.old"))
        with place.open() as store:
            for make in (lambda path: os.symlink(target, path), os.mkfifo, os.mkdir,
                         lambda path: os.symlink("/dev/zero", path)):
                path = place.file("names", "s", "index")
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
                make(path)
                store.fails("get s/0", "EBADMSG")
                store.fails("put s/0 x", "EBADMSG")
            os.unlink(path)
            shutil.copy(target, path)
            assert look(store) == 6
            hexname = place.objects("s")[0]
            shutil.move(place.file("names", "s", hexname), target)
            os.symlink(target, place.file("names", "s", hexname))
            store.fails("get s/large", "EBADMSG")
            os.symlink(place.top, place.file("names", "link"))
            store.fails("put link/a x", "EBADMSG")
            store.fails("get link/a", "EBADMSG")
            assert not os.path.exists(os.path.join(place.top, "index"))
            os.symlink(target, place.file("leases", "lease"))
            store.fails("take lease me 1000 0", "EBADMSG")


def test_wrong_owners_and_modes():
    with Place() as place:
        with place.open() as store:
            fill(store)
        for directory, directories, files in os.walk(place.path):
            for name in directories + files:
                mode = stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode)
                assert mode & 0o077 == 0, (name, oct(mode))
        os.chmod(place.path, 0o755)
        assert "chmod 700" in place.refused("EPERM")
        os.chmod(place.path, 0o700)
        os.chmod(place.file("names", "s"), 0o777)
        with place.open() as store:
            store.fails("get s/0", "EPERM")
        os.chmod(place.file("names", "s"), 0o700)
        os.rename(place.path, place.path + ".real")
        os.symlink(place.path + ".real", place.path)
        assert "symbolic link" in place.refused("ENOTDIR")
        os.unlink(place.path)
        os.rename(place.path + ".real", place.path)
        if os.geteuid() != 0:
            skip("only root can give files away")
        os.chown(place.file("names", "s", "index"), 65534, 65534)
        os.unlink(place.file("names", "s", "index.old"))
        with place.open() as store:
            store.fails("get s/0", "EBADMSG")
        os.chown(place.path, 65534, 65534)
        place.refused("EPERM")


def peak_kb(store):
    with open("/proc/%d/status" % store.process.pid, encoding="ascii") as file:
        return int([line for line in file if line.startswith("VmHWM")][0].split()[1])


def sanitized():
    """Whether memory is used by what looks for errors, too."""
    with open(os.environ["STORE_PLUGIN"], "rb") as file:
        plugin = file.read()
    return b"__asan_init" in plugin or b"__tsan_init" in plugin


def test_forged_files():
    """An attacker who can write to the store, which is not encrypted: his numbers cost no memory and no crash."""
    with Place() as place:
        with place.open() as store:
            fill(store)
            keys = store_files.Keys(place.path)
            before = peak_kb(store)
            entry = store_files.entry_bytes
            zero, huge = b"\0" * 32, (1 << 64) - 1

            def index(table, blobs=b"", **more):
                os.makedirs(place.file("names", "f"), 0o700, exist_ok=True)
                place.write(store_files.index_bytes(keys, "f", table, blobs, **more), "names", "f", "index")

            index(entry("a", 0, keys.blob_id(1, [keys.hash(b"chunk", b"x")]), 1, 2, 0), b"\0x")
            assert store.do("get f/a") == "x"  # forged as it should be, it is read: the forgery below is what counts
            for table in (entry("a", 0, zero, huge, huge, huge), entry("a", 0, zero, 10, huge, 5),
                          entry("a", 0, zero, 10, 5, huge), entry("../../a", 0, zero, 1, 1, 0),
                          entry("b", 0, zero, 1, 1, 0) + entry("a", 0, zero, 1, 1, 0), entry("a", 7, zero, 1, 1, 0),
                          entry("a", 0, zero, 1, 1, 0)[:-1], struct.pack("<HB", 65535, 0) + b"a" * 100, b"\0\0",
                          entry("", 0, zero, 1, 1, 0), entry("a\0b", 0, zero, 1, 1, 0),
                          entry("a", 0, zero, 1 << 20, 1, 0)):
                index(table, b"\0x")
                assert store.ask("get f/a").startswith("error EBADMSG "), table
            for size in (huge, 1 << 40, 64 << 20, 0):
                index(b"\0x", raw_size=size)
                store.fails("get f/a", "EBADMSG")

            bomb = b"\1" + store_files.rle_frame(1 << 30)
            index(entry("a", 0, zero, 1 << 20, len(bomb), 0), bomb)
            store.fails("get f/a", "EBADMSG")
            bomb = b"\1" + store_files.rle_frame(1 << 30, declared=1 << 20)
            index(entry("a", 0, zero, 1 << 20, len(bomb), 0), bomb)
            store.fails("get f/a", "EBADMSG")

            def large(raw_size, chunks, hashes, **more):
                identity, data = store_files.object_bytes(keys, raw_size, chunks, hashes, **more)
                place.write(data, "names", "f", identity.hex())
                index(entry("a", 1, identity, raw_size, len(data), 0))

            chunk = keys.hash(b"chunk", b"\0" * (1 << 20))
            large(1 << 20, [b"\1" + store_files.rle_frame(1 << 20)], [chunk])
            assert store.ask("get f/a") == "ok "  # zeros
            for size, chunks, more in ((1 << 20, [bomb], {}), (1 << 62, [bomb], {}), (2 << 20, [bomb], {}),
                                       (1 << 20, [bomb], {"count": 0xffffffff}), (1 << 20, [bomb], {"count": 0}),
                                       (1 << 20, [bomb], {"offset": huge}), (1 << 20, [bomb], {"offset": 1 << 40})):
                large(size, chunks, [chunk] * len(chunks), **more)
                store.fails("get f/a", "EBADMSG")
            grown = peak_kb(store) - before
            note("the largest forgery took %d KB" % grown)
            assert sanitized() or grown < 32 << 10, grown
            assert look(store) == 6


def test_many_chunks_that_unpack_to_much():
    """A file of some kilobytes that is rightly one of 200 MB is limited by what the caller takes."""
    with Place() as place:
        with place.open() as store:
            fill(store)
            keys = store_files.Keys(place.path)
            chunk = keys.hash(b"chunk", b"\0" * (1 << 20))
            identity, data = store_files.object_bytes(keys, 400 << 20, [b"\1" + store_files.rle_frame(1 << 20)] * 400,
                                                      [chunk] * 400)
            os.mkdir(place.file("names", "f"), 0o700)
            place.write(data, "names", "f", identity.hex())
            table = store_files.entry_bytes("a", 1, identity, 400 << 20, 1, 0)
            place.write(store_files.index_bytes(keys, "f", table, b""), "names", "f", "index")
            store.fails("get f/a", "EFBIG")


def test_files_are_as_documented():
    with Place(compression=0) as place:
        with place.open() as store:
            store.do("put s/b two")
            store.do("put s/a one")
            store.do("fill s/c 100000 x1")
        keys = store_files.Keys(place.path)
        entries = store_files.parse_index(place.read("names", "s", "index"))
        assert [(entry[0], entry[1], entry[3]) for entry in entries] == [("a", 0, 3), ("b", 0, 3), ("c", 1, 100000)]
        assert entries[0][5] == b"\0one"
        assert entries[0][2] == keys.blob_id(3, [keys.hash(b"chunk", b"one")])
        data = place.read("names", "s", entries[2][2].hex())
        count, _, size, table = struct.unpack("<IIQQ", data[8:32])
        assert data[:8] == b"sbxblob1" and (count, size, table) == (1, 100000, 32 + 100001)
        assert entries[2][2] == keys.blob_id(100000, [data[table:table + 32]])
        assert data[table:table + 32] == keys.hash(b"chunk", data[33:table])


if __name__ == "__main__":
    main()
