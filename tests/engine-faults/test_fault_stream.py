#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams to containers that break, stall or lie: what has nothing under way goes on where it was, what has is told to be
lost at once, and nothing waits longer than its time-out."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_case import Case, on_each_engine, text_of, wait_for
import faults
from tap import main

ATTACH, SIGNAL, STATS = "POST /containers/[^/]+/attach", "POST /containers/[^/]+/kill", "GET /containers/[^/]+/stats"
FOREVER = "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)"
MEMORY_MAX_KIB = 200 << 10


def rss_kib(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Stream(Case):
    def begin(self, server, **arguments):
        """Starts an execution without an end; returns its id and stream once it is known to run."""
        seen = {stream: stream.sent_down for stream in self.proxy.streams()}
        call = server.start_call("execute_python", {"code": FOREVER, **arguments})
        moved = []

        def runs():
            moved[:] = [stream for stream in self.proxy.streams() if stream.sent_down > seen.get(stream, 1 << 62)]
            return moved
        self.assertTrue(wait_for(runs), "the execution does not begin")
        return call, moved[0]

    def ended(self, server, call):
        response = server.response()
        self.assertEqual(response["id"], call)
        result = response["result"]
        facts = result["_meta"]["snipara-sandbox/execution"]
        return facts["end"], facts["state"], text_of(result)

    def test_the_stream_breaks_in_an_execution(self):
        with self.server() as server:
            self.works(server)
            call, stream = self.begin(server)
            stream.cut()
            end, state, text = self.ended(server, call)
            self.assertEqual((end, state), ("lost", "lost"), text)
            self.works(server)

    def test_the_stream_breaks_between_executions(self):
        with self.server() as server:
            self.call(server, "x = 40")
            for number in range(3):
                streams = self.proxy.streams()
                self.assertTrue(streams)
                for stream in streams:
                    stream.cut()
                self.kept(self.call(server, "x += 1\nprint(x)"), str(41 + number))

    def test_the_engine_vanishes_in_an_execution(self):
        with self.server() as server:
            self.works(server)
            call, _ = self.begin(server)
            self.proxy.down()
            end, state, text = self.ended(server, call)
            self.assertEqual((end, state), ("lost", "lost"), text)
            end, _, text = self.call(server, "1", session_id="other")
            self.assertIsNone(end)
            self.assertIn("engine.sock", text)
            self.proxy.up()
            self.works(server)

    def test_the_engine_vanishes_for_a_moment(self):
        """An idle session is kept; a call that comes meanwhile waits for the engine."""
        with self.server(reconnect="5m") as server:
            self.call(server, "x = 6")
            self.proxy.down()
            call = server.start_call("execute_python", {"code": "print(x * 7)"})
            server.ask("ping")
            self.proxy.up()
            self.kept(self.ended(server, call), "42")
            self.works(server)

    def test_the_engine_vanishes_for_good(self):
        with self.server(reconnect="1s") as server:
            self.call(server, "x = 6")
            self.proxy.down()
            end, state, text = self.call(server, "print(x)")
            self.assertNotEqual(end, "ok", text)
            self.proxy.up()
            end, _, text = self.call(server, "print('x' in globals())")
            self.assertEqual(end, "ok", text)
            self.assertIn("False", text)

    def test_the_container_is_removed_by_somebody(self):
        with self.server() as server:
            self.call(server, "x = 6")
            for container in self.containers():
                self.remove(container["Id"])
            end, state, text = self.call(server, "print(6 * 7)")
            self.assertTrue((end, state) == ("lost", "lost") or end == "ok" and "restarted" in text, (end, state, text))
            self.works(server)
            call, _ = self.begin(server)
            for container in self.containers():
                self.remove(container["Id"])
            end, state, text = self.ended(server, call)
            self.assertIn(end, ("lost", "killed"), text)
            self.assertEqual(state, "lost")
            self.works(server)

    def test_a_stream_that_stands_still(self):
        """Neither the time-out nor the interrupt reach the code; the session is given up."""
        with self.server(more='interrupt_grace = "1s";') as server:
            self.works(server)
            call, stream = self.begin(server, timeout=2)
            stream.freeze()
            end, state, text = self.ended(server, call)
            self.assertIn(end, ("timeout", "lost"), text)
            self.assertEqual(state, "lost")
            self.works(server)
            stream.thaw()

    def test_an_engine_that_hangs_in_an_execution(self):
        with self.server(more='interrupt_grace = "1s";', timeout="2s") as server:
            self.works(server)
            call, _ = self.begin(server, timeout=2)
            self.proxy.freeze()
            end, state, text = self.ended(server, call)
            self.assertIn(end, ("timeout", "lost"), text)
            self.assertEqual(state, "lost")
            end, _, text = self.call(server, "1", session_id="other")
            self.assertIsNone(end, text)
            self.proxy.thaw()
            self.works(server)

    def test_interrupts_that_arrive(self):
        with self.server(more='interrupt_grace = "1m";') as server:
            self.call(server, "x = 6")
            end, state, text = self.call(server, "while True: pass", timeout=1)
            self.assertEqual((end, state), ("timeout", "kept"), text)
            self.assertEqual(self.call(server, "print(x)")[2].strip(), "6")
            call, _ = self.begin(server)
            server.notify("notifications/cancelled", {"requestId": call})
            self.assertEqual(self.call(server, "print(x * 7)")[2].strip(), "42")

    def test_interrupts_that_fail(self):
        """They are repeated; when none arrives, the container is removed."""
        for action in (faults.status(500, "no"), faults.close(), faults.hang()):
            self.proxy.clear()
            with self.server(more='interrupt_grace = "1s";') as server:
                self.works(server)
                rule = self.proxy.on(SIGNAL, action)
                call, _ = self.begin(server, timeout=1)
                end, state, text = self.ended(server, call)
                self.assertIn(end, ("timeout", "lost"), text)
                self.assertEqual(state, "lost")
                self.assertGreaterEqual(rule.hits, 1)
                self.works(server)

    def test_an_interrupt_that_fails_once(self):
        with self.server(more='interrupt_grace = "1m";') as server:
            self.call(server, "x = 6")
            self.proxy.on(SIGNAL, faults.status(500, "no"), times=1)
            end, state, text = self.call(server, "while True: pass", timeout=1)
            self.assertEqual((end, state), ("timeout", "kept"), text)
            self.assertEqual(self.call(server, "print(x)")[2].strip(), "6")

    def test_statistics_that_fail(self):
        """What an execution used is not worth its result."""
        for action in (faults.status(500, "no"), faults.raw(b"?"), faults.answer(200, b'{"memory_stats": "much"}'), faults.close()):
            self.proxy.clear()
            self.proxy.on(STATS, action)
            with self.server() as server:
                self.works(server)

    def remove(self, container):
        self.engine.ask("DELETE", "/containers/%s?force=1" % container)


class Lies(Case):
    """What an engine could say instead; no matter which, so one stands for all."""

    def assert_right(self, end, text):
        """If it is ok; a notice of what the first call met may come before what is printed."""
        self.assertTrue(end != "ok" or text.strip().splitlines()[-1] == "42", text)

    def test_streams_that_lie(self):
        """Instead of the engine's framing comes something else, from the start or later."""
        lies = (b"\xff" * 64, b"\x07\0\0\0\0\0\0\x05hello", b"\x01\0\0\0\xff\xff\xff\xff" + b"x" * 1000,
                b"\x01\1\1\1\0\0\0\x05hello", b"HTTP/1.1 500 x\r\n\r\n", faults.frame(1, b"\xff" * 64),
                faults.frame(1, b"\0\0\0\x7f\x86"), faults.frame(0, b"echo"))
        with self.server(more='interrupt_grace = "1s";') as server:
            for at in (0, 200):
                for number, lie in enumerate(lies):
                    with self.subTest(at=at, number=number):
                        rule = self.proxy.on(ATTACH, faults.stream_garbage(lie, at), times=1)
                        session = "lie-%d-%d" % (at, number)
                        for _ in range(3):
                            end, _, text = self.call(server, "print(6 * 7)", session_id=session, timeout=5)
                            if end != "ok":
                                break
                        self.assertEqual(rule.hits, 1)
                        self.assert_right(end, text)
                        server.call("destroy_session", {"session_id": session})
            self.works(server)
            self.assertLess(rss_kib(server.process.pid), MEMORY_MAX_KIB)

    def test_streams_without_an_end(self):
        """What nobody asked for does not pile up in the server."""
        flood = faults.frame(1, b"\0" * 60000) * 16
        noise = faults.frame(2, b"noise\n" * 10000) * 16
        for piece in (flood, noise, b"\x01\0\0\0\xff\xff\xff\xff" + b"x" * 1000000):
            self.proxy.clear()
            with self.server(more='interrupt_grace = "1s";') as server:
                def pour(exchange, piece=piece):
                    reply = exchange.forward()
                    exchange.client.send(reply.head)
                    exchange.alive = False
                    while True:
                        exchange.client.send(piece)
                self.proxy.on(ATTACH, pour, times=1)
                end, _, text = self.call(server, "print(6 * 7)", timeout=5)
                self.assertNotEqual(end, "ok", text)
                self.assertLess(rss_kib(server.process.pid), MEMORY_MAX_KIB)
                self.works(server)

    def test_streams_that_end_anywhere(self):
        with self.server() as server:
            for size in (0, 1, 7, 8, 9, 12, 13, 50, 200, 400):
                with self.subTest(size=size):
                    rule = self.proxy.on(ATTACH, faults.stream_cut(size), times=1)
                    session = "cut-%d" % size
                    for _ in range(2):
                        end, _, text = self.call(server, "print(6 * 7)", session_id=session)
                    self.assertEqual(rule.hits, 1)
                    self.assert_right(end, text)
                    server.call("destroy_session", {"session_id": session})
            self.works(server)

    def test_streams_in_small_pieces(self):
        self.proxy.on(ATTACH, faults.stream_drip())
        with self.server() as server:
            self.works(server)
            end, _, text = self.call(server, "print('x' * 5000)")
            self.assertEqual((end, text.strip()), ("ok", "x" * 5000))

    def test_standard_error_that_nobody_asked_for(self):
        self.proxy.on(ATTACH, faults.stream_stderr_flood(1 << 20))
        with self.server() as server:
            self.works(server)


on_each_engine(globals(), Stream)
on_each_engine(globals(), Lies, kinds=("podman",))

if __name__ == "__main__":
    main()
