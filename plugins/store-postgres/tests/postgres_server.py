# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of a test's own, in a temporary directory, reached by a Unix socket there; it and its files are
gone when the test ends. PostgreSQL does not run as root: then as `postgres`, or `nobody`."""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


def find_program(name):
    """The path of one of PostgreSQL's programs, which distributions keep out of PATH; None: not installed."""
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin") + ["/usr/libexec/postgresql"])
    for place in os.environ.get("PATH", "").split(":") + places[::-1]:
        if os.access(os.path.join(place, name), os.X_OK):
            return os.path.join(place, name)
    return None


def server_user():
    """(user, group) to run the server as, for subprocess; (None, None): as we are."""
    if os.geteuid() != 0:
        return None, None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    return None, None


class Server:
    """Started by the constructor. `conninfo` leads to it."""

    def __init__(self, settings=(), password=None):
        self.uid, self.gid = server_user()
        self.process = None
        self.directory = tempfile.mkdtemp(prefix="sbx-pg-")
        self.settings = list(settings)
        self.data = os.path.join(self.directory, "data")
        self.log = os.path.join(self.directory, "log")
        self.conninfo = "host=%s dbname=postgres user=tester" % self.directory
        os.mkdir(self.data, 0o700)
        if self.uid is not None:
            os.chown(self.directory, self.uid, self.gid)
            os.chown(self.data, self.uid, self.gid)
        try:
            self._make(password)
            self.start()
        except BaseException:
            self.close()
            raise

    def _run(self, arguments):
        return subprocess.run(arguments, user=self.uid, group=self.gid, extra_groups=[] if self.uid is not None else None,
                              cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120)

    def _make(self, password):
        arguments = [find_program("initdb"), "-D", self.data, "-U", "tester", "-E", "UTF8", "--no-locale", "-N",
                     "--auth=" + ("scram-sha-256" if password else "trust")]
        if password:
            path = os.path.join(self.directory, "password")
            with open(path, "w", encoding="ascii") as file:
                file.write(password + "\n")
            os.chmod(path, 0o644)
            arguments.append("--pwfile=" + path)
        done = self._run(arguments)
        if done.returncode != 0:
            raise RuntimeError("initdb: " + done.stdout)

    def start(self, wait=True):
        arguments = [find_program("postgres"), "-D", self.data, "-k", self.directory, "-c", "listen_addresses="]
        for setting in self.settings:
            arguments += ["-c", setting]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                arguments, user=self.uid, group=self.gid, extra_groups=[] if self.uid is not None else None,
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while wait and self._run([find_program("pg_isready"), "-h", self.directory, "-q"]).returncode != 0:
            if self.process.poll() is not None:
                with open(self.log, encoding="utf-8", errors="replace") as log:
                    raise RuntimeError("postgres: " + log.read()[-2000:])
            time.sleep(0.05)

    def kill(self):
        """As when the machine fails: nothing is written any more. Its children notice that it is gone, and end."""
        self.process.kill()
        self.process.wait()
        for _ in range(600):  # the next server waits for the shared memory of the last child
            left = [pid for pid in os.listdir("/proc") if pid.isdigit() and self._is_child(pid)]
            if not left:
                break
            for pid in left:
                self._kill_child(int(pid))
            time.sleep(0.02)
        try:
            os.unlink(os.path.join(self.data, "postmaster.pid"))
        except FileNotFoundError:
            pass

    def _is_child(self, pid):
        try:
            return os.readlink("/proc/%s/cwd" % pid) == self.data
        except OSError:
            return False

    def _kill_child(self, pid):
        if self._is_child(str(pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def close(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def sql(self, text, user="tester"):
        """What psql prints for a statement, one line for each row, columns separated by "|"."""
        done = self._run([find_program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.directory,
                          "-U", user, "-d", "postgres", "-c", text])
        if done.returncode != 0:
            raise RuntimeError("psql: " + done.stdout)
        return done.stdout.rstrip("\n")

    def session(self):
        """psql that goes on while the test says things to it; it ends with the `with` block."""
        return _Session([find_program("psql"), "-X", "-q", "-h", self.directory, "-U", "tester", "-d", "postgres"],
                        self.uid, self.gid, self.directory)


class _Session:
    def __init__(self, arguments, uid, gid, directory):
        self.process = subprocess.Popen(arguments, user=uid, group=gid, extra_groups=[] if uid is not None else None,
                                        cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.process.stdin.close()
        self.process.wait(60)
