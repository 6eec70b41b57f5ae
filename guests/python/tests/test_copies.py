# SPDX-License-Identifier: Apache-2.0
"""What a copy of the worker keeps of files and descriptors, in this process and its children."""

import array
import faulthandler
import asyncio
import json
import mmap
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from types import SimpleNamespace

import harness  # noqa: F401 - sets the path
from sbx_guest import awaiting, copies, descriptors, kept_files

MIB = 1 << 20


def describe(top):
    """Everything below a directory, so that two of these are equal if the directories are."""
    told = []
    for base, directories, names in os.walk(top):
        for name in sorted(directories + names):
            path = os.path.join(base, name)
            found = os.lstat(path)
            content = None
            if stat.S_ISREG(found.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(found.st_mode):
                content = os.readlink(path)
            told.append((path, found.st_mode, found.st_nlink, found.st_mtime_ns, content))
    return told


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = directory.name
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.top)

    def write(self, name, text="", mode=0o644):
        os.makedirs(os.path.dirname(os.path.join(self.top, name)), exist_ok=True)
        with open(name, "w") as file:
            file.write(text)
        os.chmod(name, mode)

    def keep(self, max_bytes=MIB, max_files=100):
        return kept_files.KeptFiles([self.top], max_bytes, max_files)


class KeptFilesTest(InDirectory):
    def test_what_was_changed_is_as_it_was(self):
        self.write("a/b/deep", "deep")
        self.write("private", "p", 0o600)
        self.write("tool", "t", 0o755)
        os.link("tool", "a/same")
        os.symlink("nowhere", "link")
        os.mkfifo("pipe")
        os.mkdir("empty", 0o750)
        os.utime("private", (1, 1))
        before = describe(self.top)
        kept = self.keep()
        self.write("private", "longer")
        self.write("tool", "u")
        os.rename("a", "moved")
        os.unlink("link")
        os.mkdir("link")
        self.write("link/inside", "x")
        os.unlink("pipe")
        self.write("pipe", "no pipe")
        os.rmdir("empty")
        self.write("more/and/more")
        os.chmod("more/and", 0)
        kept.put_back()
        self.assertEqual(describe(self.top), before)
        self.assertTrue(os.path.samefile("tool", "a/same"))

    def test_what_was_not_changed_stays(self):
        self.write("file", "content")
        number = os.stat("file").st_ino
        self.keep().put_back()
        self.assertEqual(os.stat("file").st_ino, number)

    def test_the_same_length_is_not_the_same(self):
        self.write("file", "one")
        kept = self.keep()
        found = os.stat("file")
        self.write("file", "two")
        os.utime("file", ns=(found.st_atime_ns, found.st_mtime_ns))
        kept.put_back()
        with open("file") as file:
            self.assertEqual(file.read(), "one")

    def test_names_that_are_no_text(self):
        with open(b"\xff\xfe", "wb") as file:
            file.write(b"x")
        kept = self.keep()
        os.unlink(b"\xff\xfe")
        kept.put_back()
        self.assertTrue(os.path.exists(b"\xff\xfe"))

    def test_links_out_of_it_are_not_followed(self):
        with tempfile.TemporaryDirectory() as other:
            path = os.path.join(other, "secret")
            with open(path, "w") as file:
                file.write("outside")
            self.write("inner", "x")
            kept = self.keep()
            os.unlink("inner")
            os.symlink(path, "inner")
            os.symlink(other, "directory")
            kept.put_back()
            with open(path) as file:
                self.assertEqual(file.read(), "outside")
            self.assertEqual(sorted(os.listdir(self.top)), ["inner"])
            self.assertFalse(os.path.islink("inner"))

    def test_limits(self):
        self.write("file", "x" * 1000)
        self.assertEqual(self.keep(1000).bytes, 1000)
        with self.assertRaises(kept_files.TooMuch):
            self.keep(999)
        self.write("other")
        with self.assertRaises(kept_files.TooMuch):
            self.keep(max_files=1)

    def test_a_sparse_file_counts_whole(self):
        with open("sparse", "wb") as file:
            file.truncate(1 << 40)
        with self.assertRaises(kept_files.TooMuch):
            self.keep()

    def test_sockets_are_told(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
            with self.assertRaisesRegex(kept_files.TooMuch, "socket"):
                self.keep()


class DescriptorsTest(InDirectory):
    def setUp(self):
        super().setUp()
        self.before = {fd for fd, _found in descriptors._open_numbers()}

    def look(self):
        """Of what was opened since."""
        return descriptors.Descriptors((), self.before, [self.top])

    def test_files_are_opened_again_where_they_were(self):
        self.write("file", "one two three")
        file = open("file", "r+b", buffering=0)
        self.addCleanup(file.close)
        file.read(4)
        found = self.look()
        kept = self.keep()
        found.keep(kept)
        file.write(b"TWO")  # as the original would, while the copy waits
        found.detach()
        self.assertTrue(stat.S_ISCHR(os.fstat(file.fileno()).st_mode))
        kept.put_back()
        found.reopen()
        self.assertEqual(file.read(), b"two three")
        self.assertFalse(os.get_inheritable(file.fileno()))

    def test_files_without_a_name(self):
        file = open("gone", "w+b", buffering=0)
        self.addCleanup(file.close)
        file.write(b"still here")
        os.unlink("gone")
        found = self.look()
        kept = self.keep()
        found.keep(kept)
        self.assertEqual(kept.bytes, 10)
        file.write(b" and more")
        found.detach()
        found.reopen()
        self.assertEqual(file.tell(), 10)
        file.seek(0)
        self.assertEqual(file.read(), b"still here")

    def test_what_is_appended_goes_to_the_end(self):
        self.write("log", "one")
        file = open("log", "ab", buffering=0)
        self.addCleanup(file.close)
        found = self.look()
        kept = self.keep()
        found.detach()
        kept.put_back()
        found.reopen()
        file.write(b" two")
        with open("log") as log:
            self.assertEqual(log.read(), "one two")

    def test_inheritable_ones_and_directories(self):
        directory = os.open(".", os.O_RDONLY)
        self.addCleanup(os.close, directory)
        os.set_inheritable(directory, True)
        found = self.look()
        found.detach()
        found.reopen()
        self.assertTrue(stat.S_ISDIR(os.fstat(directory).st_mode))
        self.assertTrue(os.get_inheritable(directory))

    def refuses(self, what, *fds):
        with self.assertRaisesRegex(descriptors.Busy, what):
            self.look()
        for fd in fds:
            os.close(fd)

    def test_what_is_refused(self):
        self.refuses("pipe", *os.pipe())
        with socket.socket():
            self.refuses("socket")
        waiter = select.epoll()
        self.refuses("eventpoll")
        waiter.close()
        if hasattr(os, "memfd_create"):
            self.refuses("memfd", os.memfd_create("x"))
        path = os.open(".", os.O_PATH)
        self.refuses("can't be opened again", path)
        other = tempfile.TemporaryFile(dir="/dev/shm")
        self.refuses("removed", os.dup(other.fileno()))
        other.close()

    def test_a_file_that_may_not_be_opened_again(self):
        if os.geteuid() == 0:
            self.skipTest("root may open any file")
        self.write("file")
        with open("file", "r+"):
            os.chmod("file", 0)
            self.refuses("can't be opened again")

    def test_memory(self):
        descriptors.check_memory([self.top])
        with mmap.mmap(-1, 4096), self.assertRaisesRegex(descriptors.Busy, "shared"):
            descriptors.check_memory([self.top])
        self.write("file", "x" * 4096)
        with open("file", "r+b") as file:
            with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE):
                descriptors.check_memory([self.top])
            with mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ):
                descriptors.check_memory(["/elsewhere"])
                with self.assertRaisesRegex(descriptors.Busy, "file"):
                    descriptors.check_memory([self.top])


class LoopTest(unittest.TestCase):
    def test_the_original_does_not_hear_of_it(self):
        session = SimpleNamespace(loop=awaiting.Loop())

        self.assertEqual(session.loop.run(asyncio.sleep(0, 1)), 1)
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:  # the copy
            loop = copies._IdleLoop(session)
            loop.detach()
            loop.renew()
            value = session.loop.run(asyncio.sleep(0.01, 2))
            os.write(theirs, b"%d" % value)
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(os.read(ours, 10), b"2")
        os.close(ours)
        os.close(theirs)
        # What wakes the loop from a signal handler or a thread still does.
        loop = session.loop.idle()
        woken = asyncio.Event()
        threading.Timer(0.05, lambda: loop.call_soon_threadsafe(woken.set)).start()
        self.assertTrue(session.loop.run(asyncio.wait_for(woken.wait(), 60)))
        self.assertEqual(session.loop.run(asyncio.sleep(0.1, 3)), 3)
        loop.close()

    def test_loops_that_stay(self):
        session = SimpleNamespace(loop=None)
        self.assertEqual(copies._IdleLoop(session).numbers, ())
        session.loop = awaiting.Loop()
        self.assertEqual(copies._IdleLoop(session).numbers, ())
        session.loop.run(asyncio.sleep(0))
        loop = session.loop.idle()
        loop.add_signal_handler(signal.SIGUSR1, print)
        with self.assertRaises(descriptors.Busy):
            copies._IdleLoop(session)
        loop.close()


class MakerTest(InDirectory):
    """A copy that os.fork makes, through the whole of Copies."""

    def setUp(self):
        super().setUp()
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, self.control = socket.socketpair()
        self.channel = control
        self.theirs = theirs
        streams = SimpleNamespace(flush=lambda: None, saved=list)
        self.session = SimpleNamespace(
            channel=SimpleNamespace(read_fd=control.fileno(), has_more=lambda: False),
            is_init=False,
            forked=False,
            loop=None,
            streams=streams,
            moved=lambda: None,
            guard=lambda function: function(),
        )
        self.addCleanup(self.ours.close)
        self.addCleanup(theirs.close)
        self.addCleanup(self.control.close)
        self.addCleanup(control.close)

    def copy(self, _deaths):
        return -11

    def ask(self):
        made = SimpleNamespace(fd=os.dup(self.theirs.fileno()), copy=self.copy, thaw=lambda: None)
        maker = copies.Copies(self.session, made)
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
        self.ours.sendmsg([b"c"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        for fd in fds:
            os.close(fd)
        count = len(os.listdir("/proc/self/fd"))
        maker.make(json.dumps({"directories": [self.top], "max_bytes": MIB, "max_files": 100}).encode(), 0)
        self.assertEqual(len(os.listdir("/proc/self/fd")), count)
        answer = self.ours.recv(1000)
        maker.close()
        return answer[:1], answer[13:].decode()

    def test_reasons_are_told_and_nothing_stays_open(self):
        # This process has pipes and sockets of the test's.
        kind, text = self.ask()
        self.assertEqual(kind, b"b")
        self.assertTrue(text)

    def test_threads_processes_and_timers_are_seen_first(self):
        faulthandler.cancel_dump_traceback_later()  # the watch of who runs this is a thread, too
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        try:
            self.assertEqual(self.ask(), (b"b", "it has threads"))
        finally:
            stop.set()
            thread.join()
        while os.stat("/proc/self/task").st_nlink > 3:  # the kernel is not through with it
            time.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, 1000)
        try:
            self.assertIn("timer", self.ask()[1])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
            self.assertEqual(self.ask(), (b"b", "it has other processes"))
            child.stdin.close()


if __name__ == "__main__":
    unittest.main()
