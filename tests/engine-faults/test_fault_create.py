#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines that fail while a container is made, started, attached, looked at or removed: an error that says what to do, the
server goes on, and no container is left, also of those that the engine made and never told of."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_case import Case, on_each_engine, wait_for
import faults
from tap import main

CREATE, START, INSPECT = "POST /containers/create", "POST /containers/[^/]+/start", "GET /containers/[^/]+/json"
ATTACH, REMOVE = "POST /containers/[^/]+/attach", "DELETE /containers/"
STEPS = (CREATE, ATTACH, START, INSPECT)
FULL = "write /var/lib/docker/overlay2/x: no space left on device"


class Create(Case):
    def each_step_fails(self, *actions, **config):
        """Each step fails once in each of the ways: the call says so, and the next one works."""
        with self.server(**config) as server:
            self.works(server)
            for step in STEPS:
                for number, action in enumerate(actions):
                    with self.subTest(step=step, number=number):
                        rule = self.proxy.on(step, action, times=1)
                        end, _, text = self.call(server, "print(6 * 7)", session_id="s%d" % number)
                        self.assertEqual(rule.hits, 1, "the step was not taken")
                        # Going on without it is as good, where the step can be done again.
                        self.assertTrue(end is None and len(text) > 20 or end == "ok", text)
                        self.works(server, session_id="after")
                        server.call("destroy_session", {"session_id": "after"})
                        server.call("destroy_session", {"session_id": "s%d" % number})

    def test_errors_of_each_kind(self):
        self.each_step_fails(*(faults.status(code, "fault %d" % code) for code in (400, 403, 404, 409, 500, 503)))

    def test_connections_that_end(self):
        self.each_step_fails(faults.close(), faults.reset(), faults.lose_answer())

    def test_answers_that_are_none(self):
        self.each_step_fails(faults.raw(b"garbage\r\n\r\n"), faults.answer(200, b"{"), faults.answer(200, b"[]"),
                             faults.answer(200, b""), faults.cut_answer(10))

    def test_answers_without_an_end(self):
        self.each_step_fails(faults.flood(), faults.flood_headers())

    def test_answers_that_never_come(self):
        self.each_step_fails(faults.hang(), timeout="4s")

    def test_an_id_that_is_a_path(self):
        """What the engine calls a container goes into paths of further requests."""
        with self.server() as server:
            for name in ("../images/x", "x?force=1", "a" * 5000, "", "x y\r\nX-Evil: 1", 5, None):
                with self.subTest(id=name):
                    rule = self.proxy.on(CREATE, faults.answer(201, {"Id": name, "Warnings": []}), times=1)
                    end, _, text = self.call(server, "1")
                    self.assertEqual(rule.hits, 1)
                    self.assertIsNone(end, text)
            self.assertEqual(self.proxy.count(r".*(images/x|x\?force=1/|X-Evil|aaaaaaaaaa)"), 0)
            self.works(server)

    def test_a_full_disk(self):
        with self.server() as server:
            for step in (CREATE, START):
                self.proxy.on(step, faults.status(500, FULL), times=1)
                end, _, text = self.call(server, "1")
                self.assertIsNone(end)
                self.assertRegex(text, "no space left")
                self.assertRegex(text, "(?i)prune|free|space|df")
            self.works(server)

    def test_an_image_that_goes_away(self):
        with self.server() as server:
            self.works(server)
            self.proxy.on(CREATE, faults.status(404, "No such image: x:1"), times=1)
            end, _, text = self.call(server, "1", session_id="other")
            self.assertTrue(end is None or end == "ok", text)
            self.works(server, session_id="another")

    def test_isolation_that_is_not_there(self):
        """What was asked for and is not in the running container is a refusal, not a line in a report."""
        def change(*path, to):
            def act(value):
                inner = value
                for name in path[:-1]:
                    inner = inner[name]
                inner[path[-1]] = to
                return value
            return faults.rewrite_json(act)

        lies = {"network": change("HostConfig", "NetworkMode", to="bridge"),
                "root": change("HostConfig", "ReadonlyRootfs", to=False),
                "privileged": change("HostConfig", "Privileged", to=True),
                "capabilities": change("HostConfig", "CapAdd", to=["CAP_SYS_ADMIN"]),
                "no_new_privileges": change("HostConfig", "SecurityOpt", to=[]),
                "memory": change("HostConfig", "Memory", to=0),
                "pids": change("HostConfig", "PidsLimit", to=0),
                "user": change("Config", "User", to="root")}
        with self.server() as server:
            for number, (name, action) in enumerate(lies.items()):
                with self.subTest(layer=name):
                    rule = self.proxy.on(INSPECT, action, times=1)
                    end, _, text = self.call(server, "print('ran')", session_id="lie-%d" % number)
                    self.assertEqual(rule.hits, 1, "nobody looked")
                    self.assertIsNone(end, text)
                    self.assertNotIn("ran", text.splitlines())
            self.proxy.clear()
            self.works(server)

    def test_a_caller_who_gives_up(self):
        """A cancelled call does not wait for an engine that hangs, and what it began is removed."""
        with self.server() as server:
            self.works(server)
            go = threading.Event()
            self.addCleanup(go.set)
            self.proxy.on(CREATE, faults.delayed(go), times=1)
            before = self.proxy.count(CREATE)
            call = server.start_call("execute_python", {"code": "1", "session_id": "gone"})
            self.assertTrue(wait_for(lambda: self.proxy.count(CREATE) > before))
            server.notify("notifications/cancelled", {"requestId": call})
            self.works(server, session_id="other")
            go.set()
            names = self.names()
            server.call("destroy_session", {"session_id": "other"})
            server.call("destroy_session", {"session_id": "default"})
            self.assertTrue(names)
            self.assertTrue(wait_for(lambda: not self.containers()), "what the engine made late is still there")

    def test_removal_that_fails(self):
        """A container that can't be removed now is removed later."""
        with self.server() as server:
            for number, action in enumerate((faults.status(500, "device busy"), faults.close(), faults.raw(b"?\r\n\r\n"),
                                             faults.status(409, "removal is already in progress"))):
                with self.subTest(number=number):
                    session = "s%d" % number
                    self.works(server, session_id=session)
                    self.proxy.on(REMOVE, action, times=1)
                    server.call("destroy_session", {"session_id": session})
            self.proxy.on(REMOVE, faults.status(500, "device busy"))
            self.works(server, session_id="last")
            server.call("destroy_session", {"session_id": "last"})
            self.proxy.clear()

    def test_a_foreign_container_of_the_same_name(self):
        """A name that is taken is not ours to remove."""
        with self.server() as server:
            taken = []

            def take(exchange):
                name = exchange.path.split("name=")[1].split("&")[0]
                spec = {"Image": self.engine.image, "Cmd": ["true"]}
                taken.append(self.engine.ask("POST", "/containers/create?name=" + name, spec)["Id"])
                exchange.relay(exchange.forward())

            self.proxy.on(CREATE, take, times=1)
            try:
                end, _, text = self.call(server, "print(6 * 7)")
                self.assertTrue(end is None or end == "ok", text)
                self.works(server, session_id="other")
                self.engine.ask("GET", "/containers/%s/json" % taken[0])
            finally:
                for container in taken:
                    self.engine.ask("DELETE", "/containers/%s?force=1" % container)


on_each_engine(globals(), Create)

if __name__ == "__main__":
    main()
