#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines that can't be used from the start: nothing runs, and the error says why and what to type next."""
import json
import os
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_case import PATIENCE, PROGRAM, Case, environment, on_each_engine, wait_for
import faults
from tap import main

NOBODY = 65534
HTML = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<h1>nginx</h1>\n"
EVERYTHING = ""


def older(headers, body):
    """What an engine of years ago says of itself, in headers and JSON."""
    headers["api-version"] = "1.24"
    if not body.startswith(b"{"):
        return body
    value = json.loads(body)
    value.update(ApiVersion="1.24", MinAPIVersion="1.12", Version="1.12.6")
    return json.dumps(value).encode()


class Start(Case):
    def test_no_socket(self):
        self.proxy.down()
        self.refused(self.execute(), "engine.sock", "(?i)no such file|no socket|there is no|nobody")

    def test_nobody_listens(self):
        self.proxy.down()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.proxy.path)
            self.refused(self.execute(), "engine.sock", "(?i)refused|nobody|listens|answers")
        os.unlink(self.proxy.path)

    @unittest.skipUnless(os.geteuid() == 0, "becoming another user takes root")
    def test_a_forbidden_socket(self):
        os.chmod(self.proxy.path, 0o600)
        shutil.rmtree(self.home)
        os.chmod(self.directory, 0o755)
        os.mkdir(self.home, 0o700)
        config = self.config()
        for path in (self.home, self.project, config):
            os.chown(path, NOBODY, NOBODY)
        done = self.run_program("exec", "--config", config, "-c", "1", user=NOBODY, group=NOBODY, extra_groups=[])
        self.refused(done, "engine.sock", "(?i)permission|forbidden|not allowed|may not")
        self.assertRegex(done.stderr, "(?m)^hint: .*(group|rootless|usermod|permission|root)")

    def test_something_else_in_its_place(self):
        with open(self.proxy.path + ".file", "w", encoding="utf-8"):
            pass
        self.refused(self.execute(engine="unix://" + self.proxy.path + ".file"), r"\.file")
        self.refused(self.execute(engine="unix://" + self.directory), "(?i)engine|socket")

    def test_not_an_engine(self):
        self.proxy.on(EVERYTHING, faults.raw(HTML))
        self.refused(self.execute(), "engine.sock")

    def test_answers_that_are_none(self):
        for data in (b"", b"\x00" * 100, b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nOK",
                     b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nOK", b"HTTP/9.9 999 ???\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nOK\r\n"):
            with self.subTest(data=data):
                self.proxy.clear()
                self.proxy.on(EVERYTHING, faults.raw(data))
                self.refused(self.execute(), "engine.sock")

    def test_json_that_is_none(self):
        for body in (b"{", b"[1", b'{"ApiVersion": 5}', b'{"a":1,"a":2}', b"\xff\xfe", b"null", b"[]", b"[" * 100000,
                     b'{"ApiVersion": "1.41' + b"0" * 1000 + b'"}', b'{"ApiVersion": "../../x"}'):
            with self.subTest(body=body[:30]):
                self.proxy.clear()
                self.proxy.on(EVERYTHING, faults.answer(200, body, ["Api-Version: ../../" + "x" * 50]))
                self.refused(self.execute(), "engine.sock")

    def test_an_engine_that_never_answers(self):
        self.proxy.on(EVERYTHING, faults.hang())
        self.refused(self.execute(timeout="1s"), "engine.sock", "(?i)answer|time")

    def test_a_frozen_engine(self):
        self.proxy.freeze()
        self.refused(self.execute(timeout="1s"), "engine.sock", "(?i)answer|time")

    def test_floods(self):
        for flood in (faults.flood(), faults.flood_headers(),
                      faults.flood(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"ApiVersion": "', b"1" * 65536)):
            self.proxy.clear()
            self.proxy.on(EVERYTHING, flood)
            self.refused(self.execute(), "engine.sock")

    def test_an_engine_in_trouble(self):
        self.proxy.on(EVERYTHING, faults.status(500, "the engine is on fire"))
        self.refused(self.execute(), "engine.sock", "on fire|500")

    def test_an_api_that_is_too_old(self):
        self.proxy.on("(GET|HEAD) /(_ping|version)", faults.rewrite(older))
        self.refused(self.execute(), r"1\.24", r"1\.40")
        self.assertEqual(self.proxy.count("POST "), 0)

    def test_what_an_engine_says_does_no_harm(self):
        """Control characters, escape sequences and megabytes in a message do not reach a terminal."""
        self.proxy.on("POST /containers/create", faults.status(500, "\x1b]0;owned\x07\x1b[2J" + "A" * 100000))
        done = self.execute()
        self.refused(done)
        self.assertNotIn("\x1b", done.stderr)
        self.assertNotIn("\x07", done.stderr)
        self.assertLess(len(done.stderr), 8192)

    def test_an_image_that_is_missing(self):
        for pull in ("never", "missing"):
            with self.subTest(pull=pull):
                done = self.execute(image="registry.invalid/no/such-image:1", pull=pull)
                self.refused(done, "registry.invalid/no/such-image:1")
                self.assertRegex(done.stderr, "(?m)^hint: .*(pull|load|import|build)")

    def test_an_image_without_an_interpreter(self):
        image = self.empty_image()
        done = self.execute(image=image)
        self.refused(done, "(?i)python")
        self.nothing_left()

    def empty_image(self):
        """An image with one file, which is no program."""
        root = os.path.join(self.directory, "root")
        os.mkdir(root)
        with open(os.path.join(root, "file"), "w", encoding="utf-8") as file:
            file.write("nothing\n")
        tar = os.path.join(self.directory, "empty.tar")
        subprocess.run(["tar", "-C", root, "-cf", tar, "."], check=True)
        with open(tar, "rb") as file:
            lines = self.engine.ask("POST", "/images/create?fromSrc=-", file)
        lines = lines if isinstance(lines, list) else [lines]
        image = next(line["status"] for line in reversed(lines) if "status" in line).split(":")[-1]
        self.addCleanup(self.engine.ask, "DELETE", "/images/" + image + "?force=1")
        name = "docker.io/library/sbx-empty-%d" % os.getpid()
        self.engine.ask("POST", "/images/%s/tag?repo=%s&tag=1" % (image, name))
        return name + ":1"

    def test_doctor_tells(self):
        self.proxy.on("GET /version", faults.rewrite(older))
        self.proxy.on("(GET|HEAD) /_ping", faults.rewrite(older))
        done = subprocess.run([PROGRAM, "doctor", "--config", self.config()], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, cwd=self.project, env=environment(self.home), timeout=PATIENCE, check=False)
        self.assertRegex(done.stdout, r"1\.24")
        self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_a_server_whose_engine_comes_later(self):
        self.proxy.down()
        with self.server(timeout="5s") as server:
            end, _, text = self.call(server, "1")
            self.assertIsNone(end)
            self.assertIn("engine.sock", text)
            self.proxy.up()
            self.assertTrue(wait_for(lambda: self.call(server, "1")[0] == "ok"), "it is not tried again")
            self.works(server)


on_each_engine(globals(), Start)

if __name__ == "__main__":
    main()
