# SPDX-License-Identifier: Apache-2.0
"""Real container engines for tests: a dockerd and a podman service with paths, containers and images of their own, which
touch nothing of an engine that the machine has.

    with engines.shared("docker") as engine:        # that of the whole test run, else one for this test
        engine.address                              # "unix:///tmp/.../docker.sock"
        engine.image                                # has Python, Bash, Node, pip, pytest
        engine.ask("GET", "/containers/json?all=1")
    with engines.own("podman") as engine:           # to be stopped, killed and started again at will
        engine.stop(); engine.start()

Where no engine can run, both raise Unavailable, which skips the test that lets it pass, with the reason. run.py starts
the shared ones and puts their addresses into SBX_TEST_DOCKER and SBX_TEST_PODMAN."""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

import api
import image
from image import Unavailable

KINDS = ("docker", "podman")
CACHE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "engines")
START_SECONDS = 60

# "file": locks of their own, not those that every podman of this user shares. The limits: without CAP_SYS_RESOURCE
# nobody can raise them to what is the default.
PODMAN_CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
lock_type = "file"
"""


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


class Engine:
    """One that runs, or that can be started. `directory`: state that may stay (images); sockets are elsewhere."""
    kind, programs = "", ()
    image = image.NAME
    # As the network and the file system see it from this machine.
    address = property(lambda self: "unix://" + self.socket)

    def __init__(self, directory):
        self.directory, self.process, self.runtime, self.socket = directory, None, None, None

    def ask(self, method, target, body=None, timeout=120):
        return api.ask(self.socket, method, target, body, timeout)

    def answers(self):
        try:
            self.ask("GET", "/_ping", timeout=10)
            return True
        except (OSError, api.Failed):
            return False

    # ---- starting

    def check(self):
        if os.geteuid() != 0:
            raise Unavailable("%s is started by root alone in tests" % self.kind)
        for program, package in self.programs:
            if shutil.which(program) is None:
                raise Unavailable("no %s on this machine: apt-get install %s" % (program, package))

    def start(self):
        """Starts it and waits until it answers; again after stop and kill too."""
        self.check()
        if self.runtime is None:
            # Paths of sockets must be short, and podman wants the same ones as the last time.
            name = hashlib.sha256(os.path.realpath(self.directory).encode()).hexdigest()[:12]
            self.runtime = "/run/sbx-test-%s-%s" % (self.kind, name)
            self.socket = os.path.join(self.runtime, self.kind + ".sock")
            self._clear()  # what is left of one that was killed
            os.mkdir(self.runtime, 0o700)
        os.makedirs(self.directory, exist_ok=True)
        self.log = os.path.join(self.directory, "log")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.arguments(), env=self.environment(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd="/", start_new_session=True,
                                            preexec_fn=_end_with_parent)
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                with open(self.log, errors="replace") as f:
                    raise Unavailable("%s does not start here: %s" % (self.kind, f.read()[-600:].strip()))
            time.sleep(0.02)
        return self

    def environment(self):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.runtime,
                "XDG_RUNTIME_DIR": self.runtime, "TMPDIR": self.runtime}

    def has_image(self):
        return any("sbxtest:1" in str(entry.get("RepoTags")) for entry in self.ask("GET", "/images/json"))

    def bring_image(self, tar):
        if self.has_image():
            return
        with open(tar, "rb") as f:
            answer = self.ask("POST", "/images/create?fromSrc=-&repo=sbxtest&tag=1", f, timeout=600)
        if not self.has_image():  # podman takes the image and leaves its name
            last = answer[-1] if isinstance(answer, list) else answer
            self.ask("POST", "/images/%s/tag?repo=docker.io/library/sbxtest&tag=1" % last["status"])

    # ---- ending

    def containers(self):
        return self.ask("GET", "/containers/json?all=1")

    def remove_containers(self):
        for container in self.containers():
            with contextlib.suppress(api.Failed):
                self.ask("DELETE", "/containers/%s?force=1&v=1" % container["Id"])

    def signal(self, number):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self, seconds=60):
        """As an administrator does; containers end with it or live on, as the engine has it."""
        self.signal(signal.SIGTERM)
        self._reap(seconds)

    def kill(self):
        self.signal(signal.SIGKILL)
        self._reap(10)

    def _reap(self, seconds):
        if self.process is None:
            return
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        """Ends it with all that it made, but for images."""
        if self.runtime is None:
            return
        if self.process is not None:
            with contextlib.suppress(OSError, api.Failed):
                self.remove_containers()
        self.stop()
        self._clear()
        self.runtime = None

    def _clear(self):
        """Ends and removes what an engine of this directory may leave: processes, mounts, sockets."""
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in self._mounts():
            subprocess.run(["umount", "-l", mount], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.runtime, ignore_errors=True)

    def _mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            points = [line.split()[4] for line in f]
        inside = (self.runtime + "/", os.path.realpath(self.directory) + "/")
        return [point for point in reversed(points) if point.startswith(inside)]

    def _left(self):
        """Processes of the engine that outlived it: their command lines name its runtime directory."""
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and int(name) != os.getpid():
                    with open("/proc/%s/cmdline" % name, "rb") as f:
                        program, *arguments = f.read().split(b"\0")
                    helper = os.path.basename(program).startswith((b"containerd", b"conmon", b"podman", b"dockerd"))
                    if helper and any(self.runtime.encode() in argument for argument in arguments):
                        yield int(name)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Docker(Engine):
    kind, programs = "docker", (("dockerd", "docker.io"), ("containerd", "containerd"), ("runc", "runc"))
    options = ()  # more arguments of dockerd

    def arguments(self):
        configuration = os.path.join(self.runtime, "daemon.json")
        with open(configuration, "w", encoding="utf-8") as f:
            f.write("{}\n")
        return ["dockerd", "--config-file", configuration, "--iptables=false", "--bridge=none", "--data-root",
                os.path.join(self.directory, "data"), "--exec-root", os.path.join(self.runtime, "exec"), "--pidfile",
                os.path.join(self.runtime, "pid"), "-H", self.address, *self.options]

    def start(self):
        if self.runtime is not None:  # of one that was killed
            for name in ("pid", "exec/containerd/containerd.pid"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.runtime, name))
        return super().start()


class Podman(Engine):
    kind, programs = "podman", (("podman", "podman"), ("conmon", "conmon"), ("runc", "runc"))

    def arguments(self):
        return ["podman", "--root", os.path.join(self.directory, "root"), "--runroot", os.path.join(self.runtime, "run"),
                "--tmpdir", os.path.join(self.runtime, "tmp"), "system", "service", "-t", "0", self.address]

    def environment(self):
        configuration = os.path.join(self.runtime, "containers.conf")
        with open(configuration, "w", encoding="utf-8") as f:
            f.write(PODMAN_CONFIGURATION)
        return dict(super().environment(), CONTAINERS_CONF=configuration)


class Shared(Engine):
    """One that somebody else started, and that others use at the same time."""

    def __init__(self, kind, address):
        super().__init__(None)
        self.kind, self.socket = kind, address.removeprefix("unix://")

    def close(self):
        pass


def _engine(kind, directory):
    return {"docker": Docker, "podman": Podman}[kind](directory)


@contextlib.contextmanager
def own(kind, with_image=True, options=()):
    """One for this test alone, with nothing in it but the image."""
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=kind + "-", dir=CACHE, ignore_cleanup_errors=True) as directory, \
            _engine(kind, directory) as engine:
        engine.options = options
        engine.check()
        tar = cached_image() if with_image else None
        engine.start()
        if with_image:
            engine.bring_image(tar)
        yield engine


def cached_image():
    """The tar of the image; one process makes it, others wait."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "image.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return image.make(CACHE)


@contextlib.contextmanager
def kept(kind):
    """One with a directory below build/, so that the image is there the next time. Only one process has it at a time."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, kind + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _engine(kind, os.path.join(CACHE, kind)) as engine:
            engine.check()
            tar = cached_image()
            try:
                engine.start()
            except Unavailable:  # a kill may have left what it can't begin with
                engine.close()
                shutil.rmtree(engine.directory, ignore_errors=True)
                engine.start()
            engine.remove_containers()  # of a run that was killed
            engine.bring_image(tar)
            yield engine


@contextlib.contextmanager
def shared(kind):
    """That of the whole test run, if run.py started one; else one for as long as the block lasts."""
    name = "SBX_TEST_" + kind.upper()
    address = os.environ.get(name)
    if address is None:
        with kept(kind) as engine:
            yield engine
    elif address.startswith("unix://"):
        yield Shared(kind, address)
    else:  # run.py could not start it, and says why
        raise Unavailable(address or name + " is empty")
