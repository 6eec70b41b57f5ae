# SPDX-License-Identifier: Apache-2.0
"""Images by real engines: pulled from a registry that the test runs, and prepared for projects.

Environment: HOST is docker-images-host; KIND the engine, "docker" or "podman"."""
import base64
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "engines")]

import api  # noqa: E402
import engines  # noqa: E402
from registry import Registry  # noqa: E402
from tap import main, note, skip  # noqa: E402

HOST, KIND = os.environ["HOST"], os.environ["KIND"]
TIMEOUT = 240
ENDS_IN = 60
PROJECT = "org.snipara.sandbox.project"

stack = contextlib.ExitStack()
registry = engine = None


class Podman(engines.Podman):
    """Takes images from the test's registry, which has no certificate. Docker does so on the loopback by itself."""

    def environment(self):
        path = os.path.join(self.runtime, "registries.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write('[[registry]]\nlocation = "%s"\ninsecure = true\n' % registry.place)
        return dict(super().environment(), CONTAINERS_REGISTRIES_CONF=path)


def setUpModule():
    global registry, engine
    registry = stack.enter_context(Registry())
    if KIND == "docker":
        engine = stack.enter_context(engines.shared("docker"))
        return
    os.makedirs(engines.CACHE, exist_ok=True)
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="podman-", dir=engines.CACHE,
                                                                ignore_cleanup_errors=True))
    engine = stack.enter_context(Podman(directory))
    engine.check()
    tar = engines.cached_image()
    engine.start()
    engine.bring_image(tar)


def tearDownModule():
    stack.close()


class Case(unittest.TestCase):
    def setUp(self):
        registry.reset()
        self.directory = stack_directory(self)
        self.home = os.path.join(self.directory, "home")
        self.project = os.path.join(self.directory, "project")
        os.makedirs(self.home)
        os.makedirs(self.project)
        self.addCleanup(self.remove_images)

    def images(self, all_of_them=False):
        """Those of this test; others may use the engine at the same time."""
        found = engine.ask("GET", "/images/json" + ("?all=1" if all_of_them else ""))
        projects = {project_hash(self.project), project_hash(os.path.join(self.directory, "other"))}
        return {image["Id"]: image for image in found if (image.get("Labels") or {}).get(PROJECT) in projects or any(
            name.startswith(registry.place) for name in (image.get("RepoTags") or []) + (image.get("RepoDigests") or []))}

    def remove_images(self):
        for _ in range(3):
            for image in self.images():
                with contextlib.suppress(api.Failed):
                    engine.ask("DELETE", "/images/%s?force=1" % image)
        self.assertEqual({image: facts.get("RepoTags") for image, facts in self.images(True).items()}, {})

    def arguments(self, *more, **settings):
        return [HOST, "--engine=" + engine.address, "--memory_max=4096m", "$HOME=" + self.home,
                "%project=" + self.project, *("@%s=%s" % item for item in settings.items()), *more]

    def start(self, *more, **settings):
        process = subprocess.Popen(self.arguments(*more, **settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=dict(os.environ, PATH=self.home + ":" + os.environ["PATH"]))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_host(self, *more, code=0, **settings):
        process = self.start(*more, **settings)
        output = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, code, output)
        return output

    def fails(self, code, *more, **settings):
        output = self.run_host(*more, code=1, **settings)
        self.assertIn("\nerror %s: " % code, "\n" + output)
        self.assertRegex(output, r"\nhint: \S")
        return output

    def json_of(self, output):
        return json.loads(output.splitlines()[-1])

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)


def project_hash(path):
    """As the label has it: of this machine, this user, and the directory."""
    try:
        with open("/etc/machine-id", "rb") as f:
            machine = f.read(64)
    except OSError:
        machine = b""
    return hashlib.sha256(machine + b"\n%d\n" % os.geteuid() + os.path.realpath(path).encode()).hexdigest()


def stack_directory(case):
    directory = tempfile.TemporaryDirectory(prefix="sbx-images-")
    case.addCleanup(directory.cleanup)
    return directory.name


def read_until(process, words):
    """The output up to a line with the words."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("%r was expected in %s" % (words, "".join(lines)))


class Pulls(Case):
    def test_pull(self):
        image = registry.add("team/small:1", 8 << 20)
        registry.gate.clear()
        process = self.start("get=python", "get=bash", "threads", "forget=python", "get=python", "threads",
                             docker_image=image)
        progress = read_until(process, " MB" if KIND == "docker" else "progress: pulling " + image)
        if KIND == "docker":  # podman tells less
            self.assertRegex(progress, r"pulling %s: \d+ of 9 MB" % image)
        registry.gate.set()
        rest = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, progress + rest)
        ids = [line.split()[1] for line in rest.splitlines() if line.startswith("id: ")]
        self.assertEqual((len(ids), len(set(ids))), (3, 1))
        self.assertIn(ids[0], {"sha256:" + image.removeprefix("sha256:") for image in self.images()})
        threads = re.findall(r"(?m)^threads: \d+$", progress + rest)
        self.assertEqual((len(threads), len(set(threads))), (2, 1), threads)
        note(progress + rest)

        registry.requests.clear()  # it is there now
        self.assertNotIn("pulling", self.run_host("get=python", docker_image=image))
        self.assertEqual(registry.requests, [])

    def test_by_digest(self):
        from registry import digest
        image = registry.add("team/digest:1")
        whole = "%s@%s" % (image.rpartition(":")[0], digest(registry.images["team/digest:1"]))
        self.assertIn("id: sha256:", self.run_host("get=python", docker_image=whole))

    def test_when(self):
        image = registry.add("team/when:1")
        output = self.fails("ENOENT", "get=python", "--pull=never", docker_image=image)
        self.assertIn("never to pull", output)
        self.assertEqual(registry.requests, [])
        self.run_host("get=python", "--pull=always", docker_image=image)
        first = registry.count("manifests")
        self.run_host("get=python", "--pull=always", docker_image=image)
        self.assertGreater(registry.count("manifests"), first)
        self.run_host("get=python", "--pull=never", docker_image=image)

    def test_callers_share_a_pull(self):
        image = registry.add("team/twice:1")
        output = self.run_host("get-twice=python", docker_image=image)
        self.assertEqual(output.count("id: sha256:"), 2)
        self.assertEqual(output.count("log 3: pulling"), 1)
        self.assertEqual(registry.count("GET .*blobs"), 2)  # the layer and the configuration, once each

    def test_who_gives_up_does_not_end_it(self):
        image = registry.add("team/slow:1", 4 << 20)
        registry.gate.clear()
        process = self.start("give-up=python", "cancel=python", "get=python", docker_image=image)
        output = read_until(process, "ECANCELED")
        self.assertIn("error ETIMEDOUT: the image %s is not ready yet" % image, output)
        self.assertIn("hint: It goes on", output)
        registry.gate.set()
        output += process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(output.count("log 3: pulling"), 1)
        self.assertIn("id: sha256:", output)

    def test_end_while_a_pull_hangs(self):
        image = registry.add("team/hang:1", 4 << 20)
        registry.gate.clear()
        process = self.start("give-up=python", docker_image=image)
        output = process.communicate(timeout=ENDS_IN)[0]
        self.assertEqual(process.returncode, 0, output)

    def test_time_for_a_pull(self):
        image = registry.add("team/late:1", 4 << 20)
        registry.gate.clear()
        output = self.fails("EIO", "get=python", "--build_timeout=1500ms", docker_image=image)
        self.assertIn("hint: Raise build_timeout", output)

    def test_credentials(self):
        image = registry.add("team/secret:1")
        registry.login = ("me", "pa:ss")
        output = self.fails("EACCES", "get=python", docker_image=image)
        self.assertIn("login " + registry.place, output)
        configuration = os.path.join(self.home, ".docker", "config.json")
        os.mkdir(os.path.dirname(configuration))
        for password, code in (("wrong", "EACCES"), ("pa:ss", None)):
            auth = base64.b64encode(("me:" + password).encode()).decode()
            with open(configuration, "w", encoding="utf-8") as f:
                json.dump({"auths": {registry.place: {"auth": auth}}}, f)
            output = self.fails(code, "get=python", docker_image=image) if code else \
                self.run_host("get=python", docker_image=image)
            self.assertNotIn(password, output)
            self.assertNotIn(auth, output)
        self.assertIn("id: sha256:", output)

    def test_credential_helper(self):
        image = registry.add("team/helped:1")
        registry.login = ("me", "from the helper")
        helper = os.path.join(self.home, "docker-credential-test")
        with open(helper, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nread -r server\n[ "$server" = "%s" ] || exit 1\n'
                    'echo \'{"Username": "me", "Secret": "from the helper"}\'\n' % registry.place)
        os.chmod(helper, 0o700)
        path = os.path.join(self.directory, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"credsStore": "test"}, f)
        output = self.run_host("get=python", "--registry_config=" + path, docker_image=image)
        self.assertNotIn("from the helper", output)

    def test_unknown(self):
        registry.add("team/known:1")
        for name in ("team/known:2", "team/unknown:1"):
            output = self.fails("ENOENT", "get=python", docker_image="%s/%s" % (registry.place, name))
            self.assertIn("there is no image", output)

    def test_offline(self):
        with Registry() as gone:
            image = gone.add("team/gone:1")
        output = self.fails("EHOSTUNREACH", "get=python", docker_image=image)
        self.assertIn("%s load -i image.tar" % KIND, output)
        self.assertIn("%s pull %s" % (KIND, image), output)
        self.fails("EHOSTUNREACH", "get=python", docker_image="registry.invalid/team/x:1")
        note(output)

    def test_damaged_layer(self):
        image = registry.add("team/damaged:1")
        registry.damaged = True
        self.fails("EIO", "get=python", docker_image=image)

    def test_names_that_are_none(self):
        for name in ("a b", "x?tag=y", "../x", "-x", "a\nb"):
            self.fails("EINVAL", "get=python", docker_image=name)
        self.assertEqual(registry.requests, [])


class Prepared(Case):
    def prepared(self):
        """What this test prepared: by its name."""
        return {tag.rpartition("/")[2]: image for image in self.images().values() for tag in image["RepoTags"] or ()
                if "snipara-sandbox-workspace" in tag}

    def get(self, *more, runtime="python", **settings):
        output = self.run_host("get=" + runtime, *more, docker_image=engine.image, **settings)
        return next(line.split()[1] for line in output.splitlines() if line.startswith("id: ")), output

    def inside(self, image, *command):
        """What a program in the image says."""
        made = engine.ask("POST", "/containers/create", {"Image": image, "Cmd": command, "NetworkDisabled": True,
                                                         "HostConfig": {"NetworkMode": "none"}})["Id"]
        try:
            engine.ask("POST", "/containers/%s/start" % made)
            code = engine.ask("POST", "/containers/%s/wait" % made)["StatusCode"]
        finally:
            engine.ask("DELETE", "/containers/%s?force=1" % made)
        return code

    def test_once(self):
        first, output = self.get(docker_workspace_setup="tests-only")
        self.assertIn("log 3: preparing the image", output)
        self.assertRegex(output, r"progress: preparing an image for the project, step \d+/\d+: \S")
        note(output)
        self.write("pyproject.toml", "[project]\nname = 'x'\nversion = '1'\n")  # nothing of it is installed
        again, output = self.get("get=bash", docker_workspace_setup="tests-only")
        self.assertEqual(first, again)
        self.assertNotIn("preparing", output)
        self.assertEqual(len(self.prepared()), 1)
        plain, output = self.get()
        self.assertNotEqual(plain, first)
        self.assertNotIn("preparing", output)
        self.assertEqual(self.inside(first, "python3", "-c", "import os, pytest, pytest_asyncio; assert os.getuid() == "
                                     "65534 and os.environ['PYTHONPATH'] == '/workspace' and 'PIP_NO_CACHE_DIR' not in "
                                     "os.environ; assert 'cache_dir=/tmp' in os.environ['PYTEST_ADDOPTS']"), 0)

    def test_node_is_not_prepared(self):
        output = self.run_host("get=node", "--runtimes=node=" + engine.image, docker_workspace_setup="tests-only")
        self.assertNotIn("preparing", output)

    def test_project(self):
        """Its installation by its own command; Git, secrets and virtual environments are not in the build."""
        self.write("pyproject.toml", "[build-system]\nrequires = ['setuptools']\nbuild-backend = "
                   "'setuptools.build_meta'\n[project]\nname = 'thing'\nversion = '1.2'\n")
        self.write("thing/__init__.py", "answer = 42\n")
        self.write(".env", "SECRET=1")
        self.write(".dockerignore", "*\n")
        self.write(".git/config", "url = https://me:secret@example.org")
        self.write("environment/pyvenv.cfg", "home = /usr/bin")
        self.write("key.pem", "-----BEGIN PRIVATE KEY-----")
        command = ("set -e; test ! -e .env; test ! -e .git; test ! -e environment; test ! -e key.pem; "
                   "test -e .dockerignore; python3 -m pip install --no-build-isolation --no-deps -e .")
        image, output = self.get(docker_workspace_install_command=command)
        self.assertEqual(self.inside(image, "python3", "-c", "import thing; assert thing.answer == 42"), 0)
        self.write("thing/code.py", "more = 1\n")  # comes with the mount
        self.assertEqual(self.get(docker_workspace_install_command=command)[0], image)
        self.write("pyproject.toml", "[build-system]\nrequires = ['setuptools']\nbuild-backend = "
                   "'setuptools.build_meta'\n[project]\nname = 'thing'\nversion = '1.3'\n")
        self.assertNotEqual(self.get(docker_workspace_install_command=command)[0], image)

    def test_without_a_mount(self):
        """All of it is in the image then, so all of it matters."""
        self.write("setup.py", "from setuptools import setup\nsetup(name='thing', version='1', py_modules=['thing'])\n")
        self.write("thing.py", "answer = 1\n")
        command = "python3 -m pip install --no-build-isolation --no-deps ."
        settings = {"docker_workspace_install_command": command, "docker_mount_workspace": "false"}
        image = self.get(**settings)[0]
        self.assertEqual(self.inside(image, "python3", "-c", "import thing"), 0)
        self.write("thing.py", "answer = 2\n")
        self.assertNotEqual(self.get(**settings)[0], image)

    def test_failing_build(self):
        output = self.fails("EIO", "get=python", docker_image=engine.image, docker_workspace_install_command=(
            "for i in $(seq 5000); do echo line $i; done; printf '\\033]0;title\\007last words\\n'; exit 3"))
        self.assertIn("last words", output)
        self.assertIn("line 5000\n", output)
        self.assertNotIn("line 4000\n", output)
        self.assertNotIn("\033", output)
        self.assertLess(len(output.partition("error EIO")[2]), 2000)
        self.assertEqual(self.prepared(), {})
        self.assertEqual(self.images(True), {})
        note(output)

    def test_no_network_for_the_build(self):
        self.write("requirements.txt", "a-package-that-nobody-has==1\n")
        output = self.fails("EIO", "get=python", docker_image=engine.image, docker_workspace_setup="package")
        self.assertIn("a-package-that-nobody-has", output)
        self.assertIn("hint: The build needs a network", output)

    def test_nothing_to_install(self):
        output = self.fails("EINVAL", "get=python", docker_image=engine.image, docker_workspace_setup="package")
        self.assertIn("neither pyproject.toml", output)
        output = self.run_host("list", docker_image=engine.image, docker_workspace_setup="package")
        self.assertIn("neither pyproject.toml", output)  # in the log
        self.assertGreater(len(self.json_of(output)), 5)
        self.fails("EINVAL", "prune", docker_image=engine.image, docker_workspace_setup="package")

    def test_extras(self):
        image = self.get(docker_workspace_install_extras="pytest>=7,pytest-asyncio")[0]
        steps = [step["CreatedBy"] for step in engine.ask("GET", "/images/%s/history" % image)]
        # Podman writes the list down as it stands.
        self.assertTrue(any("pip install pytest>=7 pytest-asyncio" in re.sub('[][",]', "", step) for step in steps), steps)
        for bad in ("--index-url=x", "x @ https://e.org/x.whl", "./x", "x; touch /y", "$(x)"):
            self.fails("EINVAL", "get=python", docker_image=engine.image, docker_workspace_install_extras=bad)

    def test_end_while_a_build_goes_on(self):
        if KIND == "podman":
            skip("Podman goes on with a step of a build when nobody waits for it any more")
        process = self.start("give-up=python", docker_image=engine.image,
                             docker_workspace_install_command="sleep 4321")
        read_until(process, "error ETIMEDOUT")
        output = process.communicate(timeout=ENDS_IN)[0]
        self.assertEqual(process.returncode, 0, output)
        self.none_runs("4321")

    def test_time_for_a_build(self):
        if KIND == "podman":
            skip("Podman goes on with a step of a build when nobody waits for it any more")
        output = self.fails("EIO", "get=python", "--build_timeout=4s", docker_image=engine.image,
                            docker_workspace_install_command="sleep 4322")
        self.assertIn("hint: Raise build_timeout", output)
        self.none_runs("4322")

    def none_runs(self, mark):
        """The engine ends a build with the request that asked for it, in a while."""
        end = time.monotonic() + ENDS_IN
        while any(self.is_sleeping(name, mark) for name in os.listdir("/proc") if name.isdigit()) or any(
                mark in container["Command"] for container in engine.containers()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    @staticmethod
    def is_sleeping(pid, mark):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                return f.read() == b"sleep\0%s\0" % mark.encode()
        return False

    def test_list_and_prune(self):
        commands = ["echo 1", "echo 2"]
        ids = [self.get(docker_workspace_install_command=command)[0] for command in commands]
        rows = self.json_of(self.run_host("list", docker_image=engine.image,
                                          docker_workspace_install_command=commands[1]))
        known = {row["id"]: row for row in rows if row["id"]}
        self.assertEqual([known[image]["in_use"] for image in ids], [False, True])
        self.assertEqual(known[ids[1]]["runtime"], "python")
        self.assertRegex(known[ids[0]]["name"], r"^snipara-sandbox-workspace:[0-9a-f]{32}$")
        self.assertRegex(known[ids[0]]["created"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        named = {row["runtime"]: row for row in rows if not row["prepared"]}
        self.assertEqual(named["python"]["name"], engine.image)
        self.assertGreater(named["python"]["size"], 0)
        self.assertIsNone(named["python3.10"]["size"])

        # Another project has nothing to say about them.
        other = os.path.join(self.directory, "other")
        os.mkdir(other)
        self.assertEqual(self.json_of(self.prune_of(other))["removed"], [])
        pruned = self.json_of(self.run_host("prune", docker_image=engine.image,
                                            docker_workspace_install_command=commands[1]))
        self.assertEqual(pruned["removed"], [known[ids[0]]["name"]])
        self.assertGreater(pruned["bytes"], 0)
        self.assertEqual(set(self.prepared()), {known[ids[1]]["name"]})

        # One that a container is made of stays.
        made = engine.ask("POST", "/containers/create", {"Image": ids[1], "Cmd": ["sleep", "1"]})["Id"]
        try:
            self.assertEqual(self.json_of(self.run_host("prune", docker_image=engine.image))["removed"], [])
        finally:
            engine.ask("DELETE", "/containers/%s?force=1" % made)
        self.assertEqual(self.json_of(self.run_host("prune", docker_image=engine.image))["removed"],
                         [known[ids[1]]["name"]])
        self.assertEqual(self.prepared(), {})

    def prune_of(self, project):
        whole, self.project = self.project, project
        try:
            return self.run_host("prune", docker_image=engine.image)
        finally:
            self.project = whole

    def test_prepare(self):
        """Python's image, and those that the configuration names; of the others those that are here."""
        image = registry.add("team/named:1")
        output = self.run_host("prepare", "--runtimes=node=" + image, docker_image=engine.image)
        self.assertEqual(output.count("log 3: pulling"), 1)
        output = self.run_host("prepare", "--runtimes=node=" + image, docker_image=engine.image)
        self.assertNotIn("pulling", output)

    def test_image_that_goes_away(self):
        image = registry.add("team/away:1")
        first = self.run_host("get=python", "forget=python", "get=python", docker_image=image)
        self.assertEqual(first.count("id: "), 2)


if __name__ == "__main__":
    main()
