#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines of the test's own that are stopped, killed and started again, and one whose disk is full."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_case import Case, engines, on_each_engine, wait_for
from tap import main

FOREVER = "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)"
DISK_MIB = 256  # beyond what the image takes


class Restart(Case):
    options = ()
    keeps = property(lambda self: self.kind == "podman")  # dockerd ends containers when it begins

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        if cls.kind is not None:
            cls.own = cls.stack.enter_context(engines.own(cls.kind, options=cls.options))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def find_engine(self):
        if not self.own.answers():  # a test failed while it was away
            self.own.kill()
            self.own.start()
        return self.own

    def test_stopped_and_started(self):
        with self.server(reconnect="5m") as server:
            self.call(server, "x = 6")
            self.engine.stop()
            self.engine.start()
            self.goes_on(server)

    def test_killed_and_started(self):
        with self.server(reconnect="5m") as server:
            self.call(server, "x = 6")
            self.engine.kill()
            self.engine.start()
            self.goes_on(server)

    def goes_on(self, server):
        self.kept(self.call(server, "print(x * 7)"), "42")
        self.works(server)
        self.works(server, session_id="other")

    def test_killed_in_an_execution(self):
        with self.server(reconnect="5m") as server:
            self.works(server)
            seen = {stream: stream.sent_down for stream in self.proxy.streams()}
            call = server.start_call("execute_python", {"code": FOREVER})
            self.assertTrue(wait_for(lambda: any(stream.sent_down > seen.get(stream, 1 << 62)
                                                 for stream in self.proxy.streams())), "the execution does not begin")
            self.engine.kill()
            response = server.response()
            self.assertEqual(response["id"], call)
            facts = response["result"]["_meta"]["snipara-sandbox/execution"]
            self.assertEqual((facts["end"], facts["state"]), ("lost", "lost"))
            self.engine.start()
            self.works(server)

    def test_a_pool_over_a_restart(self):
        """Containers that were ready and are no more are not handed out."""
        with self.server(pool=3, reconnect="5m") as server:
            self.works(server, session_id="first")
            self.assertTrue(wait_for(lambda: len(self.containers()) >= 4))
            self.engine.stop()
            self.engine.start()
            for number in range(5):
                self.works(server, session_id="s%d" % number)

    def test_the_server_ends_without_its_engine(self):
        """It does not wait for it, and what is left is removed once the engine is back and somebody starts."""
        with self.server(timeout="5s") as server:
            self.works(server)
            self.engine.kill()
            server.close_input()
            self.assertEqual(server.wait(120), 0)
            self.engine.start()
            done = self.execute()
            self.assertEqual(done.stdout.strip(), "42", done.stderr)


class LiveRestore(Restart):
    """A dockerd that lets containers live while it is away: sessions go on."""
    options = ("--live-restore",)
    keeps = True


@unittest.skipUnless(os.geteuid() == 0, "mounting takes root")
class FullDisk(Case):
    """The disk under dockerd is full."""
    kind = "docker"

    def find_engine(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        tar = engines.cached_image()
        self.disk = stack.enter_context(tempfile.TemporaryDirectory(prefix="sbx-disk-"))
        size = 2 * os.path.getsize(tar) + (DISK_MIB << 20)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "none", self.disk], check=True)
        stack.callback(subprocess.run, ["umount", "-l", self.disk], check=False)
        engine = stack.enter_context(engines.Docker(os.path.join(self.disk, "docker")))
        engine.check()
        engine.start()
        engine.bring_image(tar)
        return engine

    def test_a_full_disk(self):
        with self.server() as server:
            self.works(server)
            filler = os.path.join(self.disk, "filler")
            with open(filler, "wb") as file:
                size = shutil.disk_usage(self.disk).free
                os.posix_fallocate(file.fileno(), 0, size)
            end, _, text = self.call(server, "1", session_id="other")
            self.assertIsNone(end, text)
            self.assertRegex(text, "(?i)no space left")
            self.assertRegex(text, "(?i)prune|free")
            os.unlink(filler)
            self.works(server, session_id="third")


on_each_engine(globals(), Restart)
on_each_engine(globals(), LiveRestore, kinds=("docker",))

if __name__ == "__main__":
    main()
