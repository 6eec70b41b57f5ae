# SPDX-License-Identifier: Apache-2.0
"""The host that attempts are made against: files, sockets, processes and secrets that must stay out of reach, the program
that they run in, and the comparison of the machine before and after."""
import ctypes
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = "core/cli/snipara-sandbox"
ORDINARY_UID = 23917  # a user that owns nothing on the machine

CONFIGURATION = """
environment = "local";
# not for guests: @TOKEN@
plugins = (
  { name = "local"; plugin = "backend-local"; isolation = "@ISOLATION@"; pool = 0;
    tmp_size = "32m"; workspace_size = "32m"; pids = 64; cgroup = "auto"; },
  { name = "mcp"; plugin = "transport-mcp"; }
);
"""

CONTAINER_CONFIGURATION = """
environment = "docker";
# not for guests: @TOKEN@
plugins = (
  { name = "docker"; plugin = "backend-docker"; engine = "@ENGINE@"; image = "@IMAGE@"; pull = "never"; pool = 0;
    workspace = "none"; tmp_size = "32m"; workspace_size = "32m"; shm = "32m"; pids = 64; },
  { name = "mcp"; plugin = "transport-mcp"; }
);
"""

WASM_CONFIGURATION = """
environment = "wasm";
# not for guests: @TOKEN@
plugins = (
  { name = "wasm"; plugin = "backend-wasm"; pool = 0; },
  { name = "mcp"; plugin = "transport-mcp"; }
);
"""


def _read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


GUEST, GUEST_WASM = _read("guest.py"), _read("guest_wasm.py")


class Unavailable(Exception):
    """Why attempts of this kind can't be made on this machine."""


def stage_build(build, target):
    """What runs of a build directory, where every user can read it."""
    def ignored(directory, names):
        return [n for n in names if n.endswith((".p", ".a", ".o")) or n.startswith(("meson-", "."))]
    shutil.copytree(build, target, symlinks=True, ignore=ignored)


def own_address():
    """An address of this machine that is not the loopback's; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return s.getsockname()[0]
        except OSError:
            return "127.0.0.1"


class Host:
    """One user on one isolation; `engine`: where containers are. A context manager: what it makes is gone afterwards."""

    def __init__(self, build, uid, isolation, engine=None):
        self.uid, self.isolation, self.engine = uid, isolation, engine
        self.guest = GUEST_WASM if isolation == "wasm" else GUEST
        self.has_cgroups = False  # first_execution finds out
        self.token = secrets.token_hex(16)
        self.directory = tempfile.mkdtemp(prefix="sbx-escape-")
        os.chmod(self.directory, 0o755)
        self.build = build
        self.sockets, self.threads, self.processes, self.server_pids = [], [], [], []
        self.home, self.project = self._directory("home"), self._directory("project")
        self.runtime, self.temporary = self._directory("runtime"), self._directory("tmp")
        self.configuration = self._file("project/escape.cfg", self._configuration())
        self.canary = self._file("canary", self.token)
        self._file("home/secret", self.token)
        self._file("project/secret", self.token)
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "XDG_RUNTIME_DIR": self.runtime,
            "TMPDIR": self.temporary,
            "SNIPARA_SANDBOX_BUILD_ROOT": build, "OPENAI_API_KEY": self.token, "SNIPARA_API_KEY": self.token,
            "AWS_SECRET_ACCESS_KEY": self.token, "SOMETHING": self.token,
        }
        self.environment.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        self._listeners()
        self.victim = self._start([shutil.which("sleep"), "100000"])
        self.server = self._start([os.path.join(build, PROGRAM), "mcp-serve", "--config", self.configuration],
                                  stdin=subprocess.PIPE)
        self.values = {
            "CANARY": self.canary, "HOME": self.home, "PROJECT": self.project, "CONFIGURATION": self.configuration,
            "SCRATCH": self.directory, "TOKEN_REVERSED": self.token[::-1], "VICTIM": self.victim.pid,
            "SERVER": self.server.pid, "TCP_PORT": self.tcp_port, "TCP6_PORT": self.tcp6_port,
            "ADDRESS": own_address(), "ABSTRACT": self.abstract, "SOCKET": self.socket_path,
            "HOSTNAME": socket.gethostname(), "CONTAINER": engine is not None,
        }

    def _configuration(self):
        if self.isolation == "wasm":
            return WASM_CONFIGURATION.replace("@TOKEN@", self.token)
        if self.engine is None:
            return CONFIGURATION.replace("@TOKEN@", self.token).replace("@ISOLATION@", self.isolation)
        return (CONTAINER_CONFIGURATION.replace("@TOKEN@", self.token).replace("@ENGINE@", self.engine.address)
                .replace("@IMAGE@", self.engine.image))

    def _directory(self, name):
        path = os.path.join(self.directory, name)
        os.mkdir(path, 0o755)
        os.chown(path, self.uid, self.uid)
        return path

    def _file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o644)
        os.chown(path, self.uid, self.uid)
        return path

    def _listen(self, family, address):
        s = socket.socket(family)
        self.sockets.append(s)
        s.bind(address)
        s.listen(16)

        def answer():
            while True:
                try:
                    connection, _ = s.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(self.token.encode())
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        return s.getsockname()

    def _listeners(self):
        self.tcp_port = self._listen(socket.AF_INET, ("0.0.0.0", 0))[1]
        try:
            self.tcp6_port = self._listen(socket.AF_INET6, ("::1", 0))[1]
        except OSError:
            self.tcp6_port = self.tcp_port
        self.abstract = "sbx-escape-" + self.token[:8]
        self._listen(socket.AF_UNIX, "\0" + self.abstract)
        self.socket_path = os.path.join(self.directory, "socket")
        self._listen(socket.AF_UNIX, self.socket_path)
        os.chmod(self.socket_path, 0o777)

    def identity(self):
        """Arguments of Popen that make a process the user's."""
        if os.geteuid() != 0 or self.uid == 0:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}

    def _start(self, arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(arguments, env=self.environment, cwd=self.project, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True, **self.identity(), **options)
        self.processes.append(process)
        self.server_pids.append(process.pid)
        return process

    def unharmed(self):
        """What an attempt may have done to the host, found out from outside."""
        wrong = []
        for name in ("canary", "home/secret", "project/secret"):
            with open(os.path.join(self.directory, name)) as f:
                if f.read() != self.token:
                    wrong.append(name + " was changed")
        if self.victim.poll() is not None:
            wrong.append("the victim is dead")
        if self.server.poll() is not None:
            wrong.append("the server is dead")
        return wrong

    def litter(self):
        """What the program left in the directories that it was told to use for such things."""
        return sorted(os.path.join(base, name) for top in (self.runtime, self.temporary)
                      for base, _, names in os.walk(top) for name in names)

    def program(self, attempt):
        text = self.guest + attempt.code
        return re.sub("@([A-Z0-9_]+)@", lambda match: repr(self.values[match.group(1)]), text)

    def execute(self, code, flags=(), timeout=120):
        """(result object of `exec --json`, what else it said)."""
        results, complaint = self._execute([*flags, "-"], code, timeout)
        return (results[0], complaint) if results else (None, complaint)

    def execute_all(self, codes, timeout=300):
        """(results of pieces of code in one session, what else it said)."""
        paths = [self._file("project/code%d.py" % i, code) for i, code in enumerate(codes)]
        return self._execute(paths, "", timeout)

    def _execute(self, more, code, timeout):
        arguments = [os.path.join(self.build, PROGRAM), "exec", "--config", self.configuration, "--json", *more]
        process = subprocess.Popen(arguments, env=self.environment, cwd=self.project, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.identity())
        self.server_pids.append(process.pid)
        try:
            out, err = process.communicate(code.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += b"\n(no end after %d s)" % timeout
        out, err = out.decode(errors="replace"), err.decode(errors="replace")
        try:
            results = [json.loads(line) for line in out.splitlines()]
        except ValueError:
            results = []
        if results:
            return results, err
        return [], "exit code %d: %s %s" % (process.returncode, out[-2000:], err[-4000:])

    def outside(self, code):
        """What the same program says when it runs on the host as this user."""
        done = subprocess.run([system_python(), "-I", "-c", code], env=self.environment, cwd=self.project,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              text=True, errors="replace", check=False, **self.identity())
        return done.stdout

    def stop(self):
        """Ends the server and the victim, as their users would."""
        for process in self.processes:
            if process.stdin is not None:
                process.stdin.close()
            else:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []

    def close(self):
        self.stop()
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def system_python():
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


# ---- before and after

def become_reaper():
    """Orphans of what we start become our children, so that they can be told from other processes of the machine; and
    should the sandbox fail to stop a fork bomb, the machine lives on to tell."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (4000 if hard == resource.RLIM_INFINITY else min(hard, 4000), hard))
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def children():
    """{pid: command line} of this process's living children."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as f:
                state, ppid = f.read().rpartition(")")[2].split()[:2]
            if int(ppid) == os.getpid() and state != "Z":
                with open("/proc/%s/cmdline" % name, "rb") as f:
                    found[int(name)] = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass
    return found


def mounts():
    with open("/proc/self/mountinfo") as f:
        return {" ".join(line.split()[3:]) for line in f}


def cgroups(pids):
    """Directories of cgroups that processes with these pids have made."""
    wanted = re.compile(r"^sbx-\d+\.(%s)\.\d+-" % "|".join(str(p) for p in pids)) if pids else None
    return sorted(os.path.join(base, name) for base, names, _ in os.walk("/sys/fs/cgroup") for name in names
                  if wanted and wanted.match(name))


def files(uid):
    """Paths of the made-up user's, or of ours by their name, where programs put temporary things."""
    found = set()
    for directory in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/user", "/var/lib"):
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            try:
                st = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if "snipara" in entry.name or (uid == ORDINARY_UID and st.st_uid == uid):
                found.add("%s (%s)" % (entry.path, stat.filemode(st.st_mode)))
    return found


class Machine:
    """What is there of processes, mounts, cgroups and files, to be compared later; and of containers, if there is an
    engine, whose mounts are its own affair: they go with the containers."""

    def __init__(self, uid, engine=None):
        self.uid, self.engine = uid, engine
        self.children, self.mounts, self.files = set(children()), mounts(), files(uid)
        self.containers = self._containers()

    def _containers(self):
        return {container["Id"] for container in self.engine.containers()} if self.engine is not None else set()

    def leftovers(self, pids, seconds=5):
        """What was not there before; what goes within `seconds` is only late."""
        end = time.monotonic() + seconds
        while True:
            while True:  # orphans that became ours
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
            left = ["process %d %s" % item for item in children().items() if item[0] not in self.children]
            if self.engine is None:
                left += ["mount " + line for line in mounts() - self.mounts]
            left += ["container " + name for name in self._containers() - self.containers]
            left += ["cgroup " + path for path in cgroups(pids)]
            left += ["file " + path for path in files(self.uid) - self.files]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)
