#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""store-dir in its directory: what is on the disk when, what is shared, what goes, a full disk, a quota, leases and
clocks. Environment: STORE_DRIVE, STORE_PLUGIN."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store_case import Place  # noqa: E402
from tap import main, skip  # noqa: E402

HOUR = 3600


def wait_until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened that " + what
        time.sleep(0.02)


def same_file(place, *names):
    paths = [place.file("names", "s", name) for name in names]
    return all(map(os.path.exists, paths)) and len({os.stat(path).st_ino for path in paths}) == 1


def collect(store):
    return json.loads(store.do("collect"))


# ---- making and opening ----

def test_nothing_is_made_before_something_is_stored():
    with Place() as place:
        with place.open() as store:
            store.fails("get s/a", "ENOENT")
            assert store.do("list") == ""
            store.fails("look lease", "ENOENT")
            store.fails("remove s/a", "ENOENT")
            assert collect(store)["blobs"] == 0
            store.ask("probe")
            assert not os.path.exists(place.path)
            store.do("put s/a x")
            assert sorted(os.listdir(place.path)) == ["leases", "locks", "names", "objects", "store", "store.copy",
                                                      "tmp", "trash"]


def test_default_place():
    """One for each project."""
    with Place() as place:
        state = os.path.join(place.top, "state")
        places = set()
        for project in ("a/work", "b/work", "b/we ird\u00e4"):
            path = os.path.join(place.top, project)
            os.makedirs(path)
            from store_process import Store
            with Store("%state=" + state, "%project=" + path) as store:
                store.do("put s/a " + project.split("/")[0])
            places.add(path)
        made = sorted(os.listdir(os.path.join(state, "sessions")))
        assert len(made) == 3 and made[1].startswith("work-") and made[2].startswith("work-"), made
        assert made[0].startswith("we_ird__-"), made


def test_many_make_it_at_once():
    with Place() as place:
        stores = [place.open() for _ in range(8)]
        for number, store in enumerate(stores):
            store.send("put s/%d x" % number)
        answers = [store.receive() for store in stores]
        assert answers == ["ok"] * 8, answers
        assert len(stores[0].do("list").split()) == 8
        for store in stores:
            assert store.close() == 0


def test_removed_under_its_feet():
    with Place() as place:
        with place.open() as store:
            store.do("put s/a x")
            shutil.rmtree(place.path)
            store.fails("put s/a y", "EIO")
            store.fails("get s/a", "EIO")


def test_probe():
    with Place() as place:
        with place.open(quota="1m") as store:
            assert "made when" in store.ask("probe")
            store.do("fill s/a 1000000 x1")
            told = store.ask("probe")
            assert told.startswith("1 ") and "nearly full" in told and "not encrypted" in told, told
    with Place() as place:
        place.key("file")
        place.path = os.path.join(place.top, "file", "store")
        place.refused("ENOTDIR", "probe")


# ---- what is on the disk ----

def test_soon_and_at_once():
    with Place() as place:
        with place.open() as store:
            store.do("commit - 0 0 s/a=1")
            assert same_file(place, "index", "index.old")
            store.do("commit - 0 1 s/a=2 s/b~200000~x1")
            wait_until(lambda: same_file(place, "index", "index.old"), "the thread synced what was stored")
            store.do("commit - 0 1 s/a=3 s/b~200000~x2")
            store.do("restart")
            assert same_file(place, "index", "index.old")
            store.do("commit - 0 1 s/a=4 s/b~200000~x3")
        assert same_file(place, "index", "index.old")
        assert len(place.objects("s")) == 1 and len(os.listdir(place.file("objects"))) == 1
        assert os.listdir(place.file("tmp")) == []


def test_equal_contents_are_kept_once():
    with Place() as place:
        with place.open() as store:
            for number in range(20):
                store.do("fill s%d/a 3000000 x1" % number)
            told = collect(store)
            assert told["bytes"] == 60000000 and told["stored_bytes"] < 3100000, told
            for number in range(19):
                store.do("remove s%d/a" % number)
            store.do("check s19/a 3000000 x1")
            store.do("remove s19/a")
            assert os.listdir(place.file("objects")) == os.listdir(place.file("names")) == []


def test_compression():
    sizes = {}
    for level in (0, 1, 19):
        with Place(compression=level) as place:
            with place.open() as store:
                store.do("fill s/z 2000000 z1")
                store.do("fill s/x 2000000 x1")
                store.do("check s/z 2000000 z1")
                sizes[level] = collect(store)["stored_bytes"]
    assert sizes[0] > 4000000 > sizes[1] > sizes[19] > 2000000, sizes


def test_many_small_ones():
    """The index takes no more than so many; the others get files of their own."""
    with Place(compression=0) as place:
        with place.open() as store:
            for number in range(60):
                store.do("commit - 0 1 s/%d~16000~x%d" % (number, number))
            for number in range(60):
                store.do("check s/%d 16000 x%d" % (number, number))
        assert os.stat(place.file("names", "s", "index")).st_size < 600000
        assert len(place.objects("s")) > 10


# ---- collecting ----

def test_collect_removes_what_is_left():
    with Place() as place:
        with place.open() as store:
            store.do("fill s/a 200000 x1")
            keep = place.objects("s")
            old = time.time() - 2 * 24 * HOUR
            place.write(b"x" * 1000, "names", "s", "new")
            place.write(b"x" * 1000, "names", "s", "0" * 64)
            place.write(b"x" * 1000, "objects", "1" * 64)
            os.mkdir(place.file("names", "empty"), 0o700)
            os.mkdir(place.file("trash", "abc"), 0o700)
            place.write(b"x", "trash", "abc", "2" * 64)
            place.write(b"x", "tmp", "young")
            place.write(b"x", "tmp", "old")
            os.utime(place.file("tmp", "old"), (old, old))
            told = collect(store)
            assert told["removed"] >= 5 and told["removed_bytes"] >= 3001 and told["damaged"] == [], told
            assert sorted(os.listdir(place.file("names", "s"))) == sorted(keep + ["index", "index.old"])
            assert os.listdir(place.file("objects")) == keep
            assert os.listdir(place.file("names")) == ["s"] and os.listdir(place.file("trash")) == []
            assert os.listdir(place.file("tmp")) == ["young"]
            store.do("check s/a 200000 x1")


# ---- room ----

def test_quota():
    with Place(quota="3m") as place:
        with place.open() as store, place.open() as other:
            store.do("fill s/a 1500000 x1")
            other.do("fill t/a 1000000 x2")
            before = place.read("names", "s", "index")
            told = store.fails("commit - 0 0 s/a! s/b~2000000~x3", "ENOSPC")
            assert "sessions gc" in told, told
            assert place.read("names", "s", "index") == before
            store.do("check s/a 1500000 x1")
            store.do("fill u/a 1500000 x1")  # the same again takes no room
            other.do("remove t/a")
            store.do("fill s/b 1200000 x3")  # and what another one removes is room at once
            other.fails("fill t/a 1000000 x2", "ENOSPC")
            store.do("remove s/b")


def test_largest_blob():
    with Place(max_blob="1m") as place:
        with place.open() as store:
            store.do("fill s/a 1048576 x1")
            assert "max_blob" in store.fails("fill s/b 1048577 x1", "EFBIG")


class FullDisk(Place):
    """The store is on a file system of its own, as large as `size` says, that only its process sees."""

    def __init__(self, size, **options):
        super().__init__(**options)
        self.size = size

    def open(self, **options):
        real = os.environ["STORE_DRIVE"]
        wrapper = os.path.join(self.top, "wrapper")
        os.makedirs(os.path.join(self.top, "disk"), exist_ok=True)
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nmount -t tmpfs -o size=%s,mode=700 none "%s/disk" && exec unshare %s -- "%s" "$@"\n'
                       % (self.size, self.top, "-m", real))
        os.chmod(wrapper, 0o700)
        outer = os.path.join(self.top, "outer")
        with open(outer, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec unshare %s -- "%s" "$@"\n' % (self.namespaces, wrapper))
        os.chmod(outer, 0o700)
        self.path = os.path.join(self.top, "disk", "store")
        os.environ["STORE_DRIVE"] = outer
        try:
            return super().open(**options)
        finally:
            os.environ["STORE_DRIVE"] = real

    @property
    def namespaces(self):
        for namespaces in ("-m", "-rm"):
            if subprocess.run(["unshare", namespaces, "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0:
                return namespaces
        skip("no small file system can be mounted here")
        return None


def test_full_disk():
    with FullDisk("4m") as place:
        with place.open() as store:
            store.do("fill s/a 1000000 x1")
            store.do("put s/b before")
            number = 0
            while store.ask("fill s/more%d 700000 y%d" % (number, number)) == "ok":
                number += 1
                assert number < 10
            told = store.fails("commit - 0 1 s/b=after s/c~2000000~x9", "ENOSPC")
            assert "room" in told, told
            assert store.do("get s/b") == "before"
            store.do("check s/a 1000000 x1")
            for i in range(number):
                store.do("check s/more%d 700000 y%d" % (i, i))
            token = store.do("take lease me 60000 0").split()[0]
            store.do("renew lease %s 60000" % token)
            for i in range(number):
                store.do("remove s/more%d" % i)
            store.do("commit lease %s 1 s/b=after s/c~2000000~x9" % token)
            store.do("check s/c 2000000 x9")
            assert collect(store)["damaged"] == []


def test_full_disk_to_the_last_byte():
    """Small commits until nothing goes any more: then everything is as the last one that went left it."""
    with FullDisk("300k") as place:
        with place.open() as store:
            last = 0
            for number in range(1, 2000):
                answer = store.ask("commit - 0 %d s/manifest=%d s/part%d~3000~x%d"
                                   % (number % 2, number, number, number))
                if answer != "ok":
                    assert answer.startswith("error ENOSPC "), answer
                    break
                last = number
            assert 10 < last < 1999, last
            assert store.do("get s/manifest") == str(last)
            for number in range(1, last + 1):
                store.do("check s/part%d 3000 x%d" % (number, number))
            assert len(store.do("list s/").split()) == last + 1


# ---- leases ----

def other_boot(place, lease, age):
    """As if the lease were of another machine, or from before a reboot, last renewed `age` seconds ago. The hash of the
    file is made anew: the store is not encrypted, and the format documented."""
    import store_files
    keys = store_files.Keys(place.path)
    data = bytearray(place.read("leases", lease))
    data[40:76] = b"00000000-0000-0000-0000-000000000000"
    data[480:] = keys.pair(b"lease", lease.encode(), bytes(data[:480]))
    with open(place.file("leases", lease), "r+b") as file:
        file.write(data)
    then = time.time() - age
    os.utime(place.file("leases", lease), (then, then))


def test_leases_of_other_machines():
    with Place() as place:
        with place.open() as store:
            token = int(store.do("take lease other 30000 0").split()[0])
            other_boot(place, "lease", 5)
            told = store.fails("take lease me 30000 0", "EBUSY").split()
            assert int(told[2]) == token and 20000 <= int(told[3]) <= 25100, told
            other_boot(place, "lease", 31)
            assert store.do("look lease").split()[1] == "0"
            newer = int(store.do("take lease me 30000 0").split()[0])
            assert newer > token
            other_boot(place, "lease", -5)  # its clock is a little fast
            assert int(store.fails("take lease you 30000 0", "EBUSY").split()[3]) == 30000
            other_boot(place, "lease", -HOUR)  # somebody has set the clock back
            store.do("take lease you 30000 0")


def test_damaged_lease():
    with Place() as place:
        with place.open() as store:
            token = int(store.do("take lease other 30000 0").split()[0])
            with open(place.file("leases", "lease"), "r+b") as file:
                file.seek(100)
                file.write(b"damaged")
            assert "unknown" in store.ask("take lease me 30000 0") or "damaged" in store.ask("take lease me 30000 0")
            store.fails("take lease me 30000 %d" % token, "EBUSY")
            store.fails("renew lease %d 30000" % token, "ESTALE")
            store.fails("commit lease %d 0 s/a=1" % token, "ESTALE")
            then = time.time() - 61
            os.utime(place.file("leases", "lease"), (then, then))
            assert int(store.do("take lease me 30000 0").split()[0]) > token
            place.write(b"", "leases", "lease")  # the power went before it was written
            assert int(store.do("take lease me 30000 0").split()[0]) > token


def test_leases_are_cleaned_away():
    with Place() as place:
        with place.open() as store:
            tokens = {}
            for lease in ("given", "young", "held"):
                tokens[lease] = int(store.do("take %s me 30000 0" % lease).split()[0])
            for lease in ("given", "young"):
                store.do("release %s %d" % (lease, tokens[lease]))
            then = time.time() - 25 * HOUR
            for lease in ("given", "held"):
                os.utime(place.file("leases", lease), (then, then))
            collect(store)
            assert sorted(os.listdir(place.file("leases"))) == ["held", "young"]
            assert int(store.do("take given me 30000 0").split()[0]) > tokens["given"]


# ---- many ----

def test_threads():
    with Place() as place:
        with place.open() as store, place.open() as other:
            store.send("threads 6 40")
            for _ in range(20):
                assert collect(other)["damaged"] == []
                other.do("list threads/")
            assert store.receive() == "ok"
            assert collect(store)["damaged"] == []


if __name__ == "__main__":
    main()
