#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's side of backend-wasm: the cache of images, zygotes that die, many guests, descriptors, what is left."""
import glob
import os
import pathlib
import resource
import signal
import tempfile

import wasm_case  # first: it finds the others
import drive
from mcp_client import wait_until_dead
from tap import main, note, skip

MANY = int(os.environ.get("GUESTS", "150"))


def cache_of(directory):
    return os.path.join(directory, "cache")


def server(directory, *settings):
    return wasm_case.server("wasm.cache_directory=" + cache_of(directory), *settings)


def expanded(directory):
    return glob.glob(cache_of(directory) + "/*.expanded")


def works(driver):
    guest = driver.start()
    answer = guest.run("print(6 * 7)")
    guest.end()
    return answer == "42\n"


def zygote_of(session):
    with open("/proc/%d/stat" % session, encoding="latin-1") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


# ---- the cache


def test_an_image_is_unpacked_once():
    with tempfile.TemporaryDirectory() as directory:
        with server(directory) as driver:
            assert works(driver)
        (path,) = expanded(directory)
        before = os.stat(path)
        assert before.st_mode & 0o077 == 0 and os.stat(cache_of(directory)).st_mode & 0o077 == 0
        with server(directory) as driver:
            assert works(driver)
        after = os.stat(path)
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        assert os.listdir(cache_of(directory)) == [os.path.basename(path)], "something was left"


def spoiled(spoil):
    """What `spoil` did to the unpacked image is seen, and another one takes its place."""
    with tempfile.TemporaryDirectory() as directory:
        with server(directory) as driver:
            assert works(driver)
        (path,) = expanded(directory)
        spoil(path)
        before = os.lstat(path)
        with server(directory) as driver:
            assert works(driver)
        after = os.lstat(path)
        assert before.st_ino != after.st_ino, "it was used"


def test_an_unpacked_image_that_others_can_write():
    spoiled(lambda path: os.chmod(path, 0o666))


def test_an_unpacked_image_of_another_name():
    def spoil(path):
        data = pathlib.Path(path).read_bytes()
        pathlib.Path(path).write_bytes(data[:40] + bytes(64) + data[104:])
    spoiled(spoil)


def test_an_unpacked_image_that_is_a_link():
    def spoil(path):
        os.rename(path, path + ".away")
        os.symlink(path + ".away", path)
    spoiled(spoil)


def test_an_unpacked_image_of_somebody_else():
    if os.geteuid() != 0:
        skip("only root can give files away")
    spoiled(lambda path: os.chown(path, 65534, 65534))


def test_an_unpacked_image_that_was_cut():
    spoiled(lambda path: os.truncate(path, 0))
    spoiled(lambda path: os.truncate(path, os.stat(path).st_size // 2))


def test_a_cache_that_others_can_write_is_not_used():
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(cache_of(directory))
        os.chmod(cache_of(directory), 0o777)
        with server(directory) as driver:
            assert works(driver), "an image in memory would have done"
        assert os.listdir(cache_of(directory)) == [], "something was written where others can"


def test_no_cache_at_all():
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(cache_of(directory)).write_text("a file is in its place", encoding="ascii")
        with server(directory) as driver:
            assert works(driver)


# ---- zygotes


def test_a_dead_zygote_is_replaced():
    with wasm_case.server() as driver:
        guest, session = wasm_case.started(driver)
        assert guest.run("print(1)") == "1\n"
        zygote = zygote_of(session)
        os.kill(zygote, signal.SIGKILL)
        left = wait_until_dead([session, zygote], 30)
        assert not left, "%s outlived their zygote" % left
        try:
            raise AssertionError("a dead guest answers: %s" % guest.execute("print(2)"))
        except drive.Failed as failure:
            assert failure.name == "ESRCH", failure
        guest.end()
        assert works(driver), "no other zygote came"


def test_nothing_is_left_of_many_guests():
    with wasm_case.server() as driver:
        assert works(driver)
        processes, files = set(driver.processes()), descriptors(driver.process.pid)
        guests = [driver.start() for _ in range(MANY)]
        note("%d descriptors for %d guests" % (descriptors(driver.process.pid) - files, MANY))
        assert descriptors(driver.process.pid) - files <= 3 * MANY, "a guest takes more than three descriptors"
        assert len(set(driver.processes()) - processes) == MANY
        for number, guest in enumerate(guests):
            guest.run("x = %d" % number)
        for number, guest in enumerate(guests):
            assert guest.run("print(x)") == "%d\n" % number
        for guest in guests:
            guest.end()
        assert not wait_until_dead(set(driver.processes()) - processes, 30)
        assert descriptors(driver.process.pid) == files, "descriptors are left"
    assert not wait_until_dead(processes, 30), "the zygote outlived the server"


def test_a_server_that_stops_takes_its_guests_along():
    with wasm_case.server() as driver:
        guests = [driver.start() for _ in range(5)]
        guests[0].run("x = 1")
        processes = driver.processes()
        assert len(processes) >= 6
    assert not wait_until_dead(processes, 30)


def test_more_sessions_than_are_allowed():
    with wasm_case.server("wasm.sessions=3") as driver:
        guests = [driver.start() for _ in range(3)]
        for attempt in (driver.start, guests[0].fork):
            try:
                attempt()
                raise AssertionError("a fourth one was started")
            except drive.Failed as failure:
                assert failure.name == "EAGAIN" and "sessions" in str(failure), failure
        assert guests[0].run("print(5)") == "5\n", "the guest that could not be copied is hurt"
        guests[1].end()
        guests[1] = guests[0].fork()
        assert guests[1].run("print(6)") == "6\n"


def test_descriptors_run_out():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    reason = wasm_case.with_guest.missing()
    if reason is not None:
        skip(reason)
    with drive.Driver("wasm", ["wasm.pool=0"], preexec_fn=limit) as driver:
        guests = []
        try:
            for _ in range(64):
                guests.append(driver.start())
            raise AssertionError("64 guests in 64 descriptors")
        except drive.Failed as failure:
            assert failure.name == "EAGAIN" and "ulimit -n" in str(failure), failure
        assert len(guests) >= 8
        assert guests[-1].run("print(7)") == "7\n", "the one before it is hurt"
        guests.pop().end()
        assert works(driver)


# ---- what guests use


def test_usage_is_told():
    with wasm_case.server() as driver:
        guest = driver.start()
        guest.run("x = 1")
        before = guest.usage()
        guest.run("import time\nuntil = time.process_time() + 0.05\nwhile time.process_time() < until: pass")
        guest.run("data = bytes(range(256)) * (40 << 12)\nopen('file', 'wb').write(bytes(8 << 20)); None")
        after = guest.usage()
        assert after["cpu_ns"] - before["cpu_ns"] >= 40_000_000, (before, after)
        assert after["memory"] - before["memory"] >= 40 << 20, (before, after)
        assert after["memory_peak"] - before["memory_peak"] >= 48 << 20, (before, after)
        guest.run("import os\ndel data\nos.unlink('file')")
        assert guest.usage()["memory_peak"] >= after["memory_peak"]
        assert guest.usage()["memory"] < after["memory"], "the file is gone"


def test_a_limit_that_is_lowered_and_raised():
    with wasm_case.server() as driver:
        guest = driver.start()
        guest.limit(32 << 20)
        assert guest.execute("x = bytearray(64 << 20)")["end"] == "memory"
        guest.limit(128 << 20)
        assert guest.run("x = bytearray(64 << 20); print(len(x))") == "%d\n" % (64 << 20)


def test_processor_time_in_all():
    with wasm_case.server("wasm.cpu_time=1") as driver:
        guest = driver.start()
        result = guest.execute("while True:\n    pass", timeout_ms=60000)
        assert result["end"] == "killed", result
        guest.end()
        assert works(driver)


if __name__ == "__main__":
    main()
