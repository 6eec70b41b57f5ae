#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `doctor` says of container engines: where none is, where one can't be used, and with real ones (KIND is "docker" or
"podman")."""
import contextlib
import json
import os
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "engines"),
                os.path.join(HERE, "..", "..", "plugins", "backend-docker", "tests")]
import engines  # noqa: E402
from engine_server import VERSION, EngineServer  # noqa: E402
from tap import main, note, skip  # noqa: E402
from cli_case import Case  # noqa: E402


class Doctor(Case):
    def doctor(self, environment="docker", **settings):
        """Its exit code, and what it found of the engine: {subject: check}."""
        words = [word for name, value in {"environment": environment, **settings}.items()
                 for word in ("--set", "%s=%s" % (name.replace("__", "."), value))]
        done = self.run_cli("doctor", "--json", *words, env={"DOCKER_HOST": "", "CONTAINER_HOST": ""})
        checks = json.loads(done.stdout)["checks"]
        return done.returncode, {c["subject"]: c for c in checks if c["area"] == "docker (backend-docker)"}

    def bad(self, check, status, *words):
        self.assertEqual(check["status"], status, check)
        self.assertTrue(check["remedy"], check)
        for word in words:
            self.assertIn(word, check["detail"] + " " + check["remedy"])


class WithoutEngine(Doctor):
    def test_none(self):
        if any(os.path.exists(path) for path in ("/var/run/docker.sock", "/run/podman/podman.sock")):
            skip("this machine has an engine in its usual place")
        code, checks = self.doctor()
        self.assertEqual(code, 1)
        self.bad(checks["engine"], "failed", "no container engine was found", "apt install podman", "DOCKER_HOST")
        self.assertEqual(checks["place: rootless Podman"]["detail"], "nothing at unix://%s/run/podman/podman.sock" % self.home)
        self.assertNotIn("a whole guest", checks)
        # Where code does not run in containers, this is no fault.
        code, checks = self.doctor(environment="local")
        self.bad(checks["engine"], "warning", "no container engine was found")

    def test_one_that_ended(self):
        path = os.path.join(self.home, "run")
        os.mkdir(path, 0o700)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path + "/docker.sock")
        code, checks = self.doctor()
        if not any(check["detail"].endswith("and is used") for check in checks.values()):
            self.assertEqual(code, 1)
            self.bad(checks["place: rootless Docker"], "failed", "refused the connection", "systemctl --user start docker")
        code, checks = self.doctor(docker__engine="unix://%s/docker.sock" % path)
        self.assertEqual(code, 1)
        self.bad(checks["place: option engine"], "failed", "refused the connection", "systemctl")

    def test_one_that_is_too_old(self):
        path = os.path.join(self.home, "old.sock")
        with EngineServer(path=path, version=dict(VERSION, ApiVersion="1.38", Version="18.06.1")):
            code, checks = self.doctor(docker__engine="unix://" + path)
        self.assertEqual(code, 1)
        self.bad(checks["place: option engine"], "failed", "18.06.1", "too old", "Install Docker 20.10")

    def test_addresses(self):
        code, checks = self.doctor(docker__engine="ssh://host")
        self.assertEqual(code, 1)
        self.bad(checks["place"], "failed", "ssh", "Forward the socket")


class WithEngine(Doctor):
    stack = contextlib.ExitStack()

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.stack.enter_context(engines.shared(os.environ.get("KIND", "docker")))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def containers(self):
        return {c["Id"] for c in self.engine.containers()
                if c.get("Labels", {}).get("org.snipara.sandbox.guest") == "probe"}

    def test_all_is_well(self):
        before = self.containers()
        code, checks = self.doctor(docker__engine=self.engine.address, docker_image=self.engine.image)
        self.assertEqual(code, 0, checks)
        self.assertIn(" %s (linux/" % self.engine.ask("GET", "/version")["Version"], checks["engine"]["detail"])
        self.assertTrue(checks["engine"]["detail"].startswith(self.engine.kind), checks)
        self.assertRegex(checks["a whole guest"]["detail"], r"^a container was ready after \d+ ms$")
        self.assertTrue(all(check["status"] == "ok" for check in checks.values()), checks)
        self.assertEqual(self.containers() - before, set())
        note(json.dumps(checks, indent=1))

    def test_it_is_found(self):
        """Podman's and Docker's sockets at a user's usual places."""
        path = os.path.join(self.home, "run", *(("docker.sock",) if self.engine.kind == "docker" else
                                                ("podman", "podman.sock")))
        os.makedirs(os.path.dirname(path), 0o700)
        os.symlink(self.engine.socket, path)
        if os.path.exists("/var/run/docker.sock"):
            skip("an engine in the machine's usual place comes before it")
        code, checks = self.doctor(docker_image=self.engine.image)
        self.assertEqual(code, 0, checks)
        name = {"docker": "rootless Docker", "podman": "rootless Podman"}[self.engine.kind]
        self.assertEqual(checks["place: " + name]["detail"], "unix://%s answers, and is used" % path, checks)

    def test_an_image_that_is_not_there(self):
        for pull, words in (("missing", "snipara-sandbox image build"), ("never", "docker load")):
            code, checks = self.doctor(docker__engine=self.engine.address, docker_image="nobody/has:this",
                                       docker__pull=pull)
            self.assertEqual(code, 0, checks)
            self.bad(checks["image: python"], "warning", "nobody/has:this is not there", words)
            self.bad(checks["a whole guest"], "warning", "not tried without its image, nobody/has:this")

    def test_an_image_that_can_not_be_used(self):
        """It is there, and has no Python."""
        made = self.engine.ask("POST", "/containers/create", {"Image": self.engine.image, "Cmd": ["true"]})
        try:
            self.engine.ask("POST", "/commit?container=%s&repo=localhost/sbx-no-python&tag=1&changes=ENV+PATH%%3D/nowhere" %
                            made["Id"], {})
            code, checks = self.doctor(docker__engine=self.engine.address, docker_image="localhost/sbx-no-python:1")
            self.assertEqual(code, 1, checks)
            self.bad(checks["a whole guest"], "failed")
            note(json.dumps(checks["a whole guest"]))
        finally:
            self.engine.ask("DELETE", "/containers/%s?force=1" % made["Id"])
            with contextlib.suppress(Exception):
                self.engine.ask("DELETE", "/images/localhost/sbx-no-python:1?force=1")


if __name__ == "__main__":
    main()
