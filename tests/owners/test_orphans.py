# SPDX-License-Identifier: Apache-2.0
"""No container outlives its server, however that ends, and none of anybody else's is touched.

SBX_KILLS: how many kills at random moments, of each engine (default 12; 50 in the suite `slow`)."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from owner_case import LABEL, Case, children, is_alive, on_each_engine, wait_for  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, note  # noqa: E402

KILLS = int(os.environ.get("SBX_KILLS") or 12)
STRANGER = "f" * 32


class Orphans(Case):
    def test_orderly_end(self):
        self.works()
        self.assertEqual(self.containers(), [])
        self.assertEqual(self.lock_files(), [])

    def test_killed_server(self):
        server = self.serve(pool=2)
        self.says(server, "print(6 * 7)", "42")
        reapers = children(server.process.pid, "sbx-docker-reaper")
        self.assertEqual(len(reapers), 1)
        self.assertTrue(self.containers("running"))
        self.assertEqual(len(self.lock_files()), 1)
        self.kill(server)
        self.nothing_left()
        # It looks for a while for what the engine may have been making, and then nothing of it is left either.
        self.assertTrue(wait_for(lambda: not is_alive(reapers[0])))
        self.assertEqual(self.lock_files(), [])
        self.assertEqual(self.containers(), [])

    def test_standard_error_of_a_killed_server_is_closed(self):
        read, write = os.pipe()
        process = self.popen("exec", "--config", self.config(), "-c", "import time; print(1); time.sleep(1000)", stderr=write)
        os.close(write)
        self.assertTrue(wait_for(lambda: self.containers("running")))
        process.kill()
        process.wait()
        with open(read, "rb") as stream:
            stream.read()  # its end comes though the reaper is still at work
        self.nothing_left()

    def test_next_start_removes_what_is_left(self):
        server = self.serve(pool=1)
        self.says(server, "print(6 * 7)", "42")
        self.kill(server, with_reaper=True)
        self.assertTrue(self.containers("running"))
        self.assertEqual(len(self.lock_files()), 1)
        second = self.serve()
        self.assertTrue(wait_for(lambda: not self.containers()))
        self.says(second, "print(6 * 7)", "42")
        self.end(second)
        self.nothing_left()

    def test_living_server_keeps_its_own(self):
        first = self.serve()
        self.says(first, "x = 1\nprint(x)", "1")
        mine = {container["Id"] for container in self.containers("running")}
        self.assertTrue(mine)
        other = self.serve(pool=1)
        self.says(other, "print(6 * 7)", "42")
        self.kill(other)
        for _ in range(3):
            self.works()
        self.assertTrue(wait_for(lambda: {container["Id"] for container in self.containers()} == mine))
        self.says(first, "print(x + 1)", "2")
        self.end(first)
        self.nothing_left()

    def test_interrupted_terminal(self):
        """Ctrl-C goes to the reaper's server and not to the reaper."""
        server = self.serve()
        self.says(server, "print(6 * 7)", "42")
        (reaper,) = children(server.process.pid, "sbx-docker-reaper")
        self.assertNotEqual(os.getsid(reaper), os.getsid(server.process.pid))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(reaper, number)
        time.sleep(0.2)
        self.assertTrue(is_alive(reaper))
        self.kill(server)
        self.nothing_left()

    def test_kills_at_any_moment(self):
        host = self.first_run()
        foreign = [self.foreign({}), self.foreign({LABEL + "scope": "session"}),
                   self.foreign({LABEL + "host": STRANGER, LABEL + "owner": STRANGER, LABEL + "scope": "session"}),
                   self.foreign({LABEL + "host": host, LABEL + "owner": "not an id", LABEL + "scope": "session"})]
        moments = random.Random(7)
        killed = {"without its reaper": 0, "before it ended": 0}
        for turn in range(KILLS):
            code = "import time; time.sleep(%g)" % moments.choice((0, 0, 0.2, 100))
            process = self.popen("exec", "--config", self.config(pool=turn % 3), "-c", code)
            time.sleep(moments.random() * self.usual * 1.5)
            if turn % 5 == 4:  # and the one that looks after it
                for reaper in children(process.pid, "sbx-docker-reaper"):
                    os.kill(reaper, signal.SIGKILL)
                    killed["without its reaper"] += 1
            killed["before it ended"] += process.poll() is None
            process.kill()
            process.wait()
        note("%d kills: %s" % (KILLS, killed))
        self.assertGreater(killed["before it ended"], 0)
        self.remaining_after_a_start()
        self.assertEqual([self.exists(container) for container in foreign], [True] * len(foreign))

    def first_run(self):
        """Its host label; and how long a run takes here, as a measure of where in it a kill may strike."""
        begin = time.monotonic()
        self.works()
        self.usual = min(time.monotonic() - begin, 6)
        return self.host()

    def remaining_after_a_start(self):
        """What reapers were killed with their servers is found by the next start, be it a late birth."""
        foreign_host = "not an id"
        deadline = time.monotonic() + 240
        while True:
            server = self.serve()
            self.says(server, "print(6 * 7)", "42")
            self.end(server)
            left = [container for container in self.containers() if container["Labels"][LABEL + "owner"] != foreign_host]
            if not left and not self.lock_files():
                return
            self.assertLess(time.monotonic(), deadline, (left, self.lock_files()))
            time.sleep(1)


on_each_engine(globals(), Orphans)

if __name__ == "__main__":
    main()
