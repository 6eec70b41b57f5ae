# SPDX-License-Identifier: Apache-2.0
"""The reaper by itself: what it is told, what it does when its server ends or dies, and what it does not touch."""
import fcntl
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from owner_case import LABEL, PATIENCE, engine, on_each_engine, wait_for  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main  # noqa: E402

OWN, DEAD, STRANGER = "1" * 32, "2" * 32, "f" * 32
PROGRAM = pathlib.Path(os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT", ""), "plugins/backend-docker/sbx-docker-reaper")


class Reaper(unittest.TestCase):
    kind = None

    def setUp(self):
        if self.kind is None:
            self.skipTest("the cases of an engine")
        if not PROGRAM.is_file():
            self.skipTest("SNIPARA_SANDBOX_BUILD_ROOT has no sbx-docker-reaper")
        self.engine = engine(self.kind)
        directory = tempfile.TemporaryDirectory(prefix="sbx-r-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def start(self):
        """(process, the server's end): without a pidfd the socket alone tells of the server."""
        configuration = {"owner": OWN, "directory": self.directory, "engine": self.engine.address, "timeout_ms": 60000}
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("configuration")
        os.write(memory, json.dumps(configuration).encode())
        os.lseek(memory, 0, os.SEEK_SET)
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in (other.fileno(), memory)]

        def place():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.closerange(5, 50)

        process = subprocess.Popen([PROGRAM], preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, env={})
        for fd in high + [memory]:
            os.close(fd)
        other.close()
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(mine.close)
        self.assertTrue(wait_for(lambda: self.hosts() or process.poll() is not None))
        return process, mine

    def hosts(self):
        top = pathlib.Path(self.directory, "docker")
        return [path for path in top.glob("*") if path.is_dir()] if top.is_dir() else []

    def locks(self):
        return sorted(path.name for path in self.hosts()[0].iterdir())

    def lock(self, owner):
        pathlib.Path(self.hosts()[0], owner + ".lock").touch()

    def container(self, name, owner, scope="session", host=None):
        labels = {"owner": owner, "host": host or self.hosts()[0].name, "scope": scope, "guest": "python"}
        made = self.engine.ask("POST", "/containers/create?name=sbx-reaper-%d-%s" % (os.getpid(), name), {
            "Image": self.engine.image, "Cmd": ["true"], "Labels": {LABEL + key: value for key, value in labels.items()},
            "HostConfig": {"NetworkMode": "none"}})
        self.addCleanup(self.remove, made["Id"])
        return made["Id"]

    def remove(self, container_id):
        if self.exists(container_id):
            self.engine.ask("DELETE", "/containers/%s?force=1" % container_id)

    def exists(self, container_id):
        return any(container["Id"] == container_id for container in self.engine.ask("GET", "/containers/json?all=1"))

    def test_server_that_is_gone(self):
        process, server = self.start()
        self.lock(OWN)
        mine, foreign = self.container("a", OWN), self.container("b", OWN, host=STRANGER)
        server.close()
        self.assertTrue(wait_for(lambda: not self.exists(mine)))
        late = self.container("c", OWN)  # what the engine had been asked for
        self.assertTrue(wait_for(lambda: not self.exists(late)))
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertTrue(self.exists(foreign))
        self.assertEqual(self.locks(), [])

    def test_those_that_died_before(self):
        self.start()[1].close()
        self.assertTrue(self.hosts())
        self.lock(DEAD)
        left = self.container("a", DEAD)
        process, server = self.start()
        self.assertTrue(wait_for(lambda: not self.exists(left)))
        self.assertTrue(wait_for(lambda: DEAD + ".lock" not in self.locks()))
        server.send(b"e")
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_nobody_waits_for_it(self):
        process, server = self.start()
        server.send(b"fsbx-reaper-%d-a" % os.getpid())
        server.send(b"fsbx-reaper-%d-b" % os.getpid())
        mine, foreign = self.container("a", OWN), self.container("b", OWN, host=STRANGER)
        self.assertTrue(wait_for(lambda: not self.exists(mine)))
        self.assertTrue(self.exists(foreign))
        server.send(b"e")
        self.assertIn(process.wait(PATIENCE), (0, 3))
        self.assertTrue(self.exists(foreign))

    def test_it_comes_after_the_end(self):
        process, server = self.start()
        self.lock(OWN)
        server.send(b"fsbx-reaper-%d-a" % os.getpid())
        server.send(b"e")
        self.assertEqual(process.wait(PATIENCE), 3)
        late = self.container("a", OWN)
        self.assertTrue(wait_for(lambda: not self.exists(late)))
        self.assertTrue(wait_for(lambda: self.locks() == []))

    def test_not_started_by_hand(self):
        done = subprocess.run([PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("starts it by itself", done.stderr)


on_each_engine(globals(), Reaper)

if __name__ == "__main__":
    main()
