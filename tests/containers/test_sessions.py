#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions in containers of a real engine: what the report says against what code sees, how executions end, what is left.

Environment: KIND is the engine, "docker" or "podman"; SNIPARA_SANDBOX the program."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "engines")]

import engines  # noqa: E402
from tap import main  # noqa: E402

KIND = os.environ["KIND"]
LIMIT = 180  # of one run of the program, so that a test that hangs ends
MIB = 1 << 20

STATUS = """
import json, os
told = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
def may_write(path):
    try:
        open(os.path.join(path, 'x'), 'w').close()
        return True
    except OSError:
        return False
def size(path):
    st = os.statvfs(path)
    return st.f_blocks * st.f_frsize
print(json.dumps({
    'pid': os.getpid(), 'uid': os.getuid(), 'gid': os.getgid(), 'groups': os.getgroups(), 'cwd': os.getcwd(),
    'capabilities': [told[name].strip() for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')],
    'privs': told['NoNewPrivs'].strip(), 'seccomp': told['Seccomp'].strip(),
    'interfaces': sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo'],
    'writable': [path for path in ('/', '/etc', '/usr', '/var', '/workspace', '/tmp', '/dev/shm') if may_write(path)],
    'sizes': {path: size(path) for path in ('/tmp', '/dev/shm')},
    'sockets': [name for name in ('/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock')
                if os.path.exists(name)],
    'environment': dict(os.environ)}))
"""


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = engines.shared(KIND)
        cls.engine = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sbx-sessions-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        os.chmod(self.directory, 0o755)

    def configure(self, **options):
        image = "docker.io/library/sbxtest:1" if KIND == "podman" else "sbxtest:1"
        entry = {"name": "c", "plugin": "backend-docker", "engine": "unix://" + self.engine.socket, "image": image,
                 "pull": "never", "pool": 0, **options}
        path = os.path.join(self.directory, "snipara-sandbox.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write("plugins = ( { %s } );\n" % " ".join(
                "%s = %s;" % (name, "[ %s ]" % ", ".join(map(json.dumps, value)) if isinstance(value, list)
                              else json.dumps(value)) for name, value in entry.items()))

    def run_program(self, *arguments, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory, "SECRET_OF_THE_HOST": "s3cret",
                       **{name: os.environ[name] for name in ("SNIPARA_SANDBOX_BUILD_ROOT", "XDG_RUNTIME_DIR",
                                                              "ASAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")
                          if name in os.environ}}
        return subprocess.run([os.environ["SNIPARA_SANDBOX"], *arguments], cwd=self.directory, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False, **more)

    def execute(self, *codes, arguments=()):
        """The JSON of each execution."""
        pieces = [word for code in codes for word in ("-c", code)]
        done = self.run_program("exec", "--env", "c", "--json", *arguments, *pieces)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(results, done.stderr)
        return results

    def report(self, *arguments):
        done = self.run_program("exec", "--env", "c", "--report", *arguments, "-c", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        layers = {}
        for line in done.stderr.splitlines():
            for state in ("applied", "absent", "off"):
                name, found, detail = line.strip().partition("  %s " % state)
                if found:
                    layers[name.strip()] = (state, detail.strip())
        return layers

    def refused(self, **options):
        self.configure(**options)
        done = self.run_program("exec", "--env", "c", "-c", "print('ran')")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("ran", done.stdout)
        return done.stderr

    def tearDown(self):
        left = [one for one in self.engine.ask("GET", "/containers/json?all=1")
                if any(name.startswith("/snipara-sandbox-") for name in one["Names"])]
        self.assertEqual(left, [], "containers are left")


class Isolation(Case):
    def test_what_code_sees(self):
        self.configure()
        seen = json.loads(self.execute(STATUS)[0]["stdout"])
        self.assertEqual((seen["pid"], seen["uid"], seen["gid"]), (1, 65534, 65534))
        self.assertLessEqual(set(seen["groups"]), {65534})
        self.assertEqual(set(seen["capabilities"]), {"0000000000000000"})
        self.assertEqual((seen["privs"], seen["seccomp"]), ("1", "2"))
        self.assertEqual(seen["interfaces"], ["lo"])
        self.assertEqual(seen["writable"], ["/tmp", "/dev/shm"])
        self.assertEqual(seen["sizes"], {"/tmp": 64 * MIB, "/dev/shm": 64 * MIB})
        self.assertEqual(seen["cwd"], "/workspace")
        self.assertEqual(seen["sockets"], [])

    def test_nothing_of_the_hosts_environment(self):
        self.configure(environment=["GREETING=hello world"])
        environment = json.loads(self.execute(STATUS)[0]["stdout"])["environment"]
        self.assertEqual(environment["GREETING"], "hello world")
        self.assertEqual(environment["HOME"], "/tmp")
        self.assertNotIn("s3cret", json.dumps(environment))
        self.assertEqual([name for name in environment if name.startswith("SBX_")], [])

    def test_the_report(self):
        self.configure()
        layers = self.report()
        for name in ("engine", "container runtime", "pid namespace", "mount namespace", "network namespace",
                     "ipc namespace", "uts namespace", "root", "tmp", "shm", "workspace", "disk", "ids", "capabilities",
                     "no_new_privs", "seccomp", "memory", "cpu", "pids"):
            self.assertEqual(layers[name][0], "applied", (name, layers))
        self.assertIn(KIND, layers["engine"][1])
        self.assertIn("512 MiB", layers["memory"][1])
        self.assertIn("65534:65534", layers["ids"][1])

    def test_the_report_of_less(self):
        self.configure(read_only=False, workspace="none", tmp_size="8m", pids=50, cpus=0.5)
        layers = self.report()
        self.assertEqual(layers["root"][0], "off")
        self.assertEqual(layers["disk"][0], "off")
        self.assertIn("8 MiB", layers["tmp"][1])
        self.assertIn("50", layers["pids"][1])
        self.assertIn("0.50", layers["cpu"][1])
        self.assertIn("256 MiB", layers["workspace"][1])

    def test_what_the_engine_can_not_do(self):
        error = self.refused(runtime="no-such-runtime")
        self.assertIn("runtime", error)
        self.assertIn("hint:", error)

    def test_the_engines_socket_is_not_shown(self):
        error = self.refused(workspace_path=os.path.dirname(self.engine.socket))
        self.assertIn("socket", error)


class Workspace(Case):
    def test_read_only(self):
        self.configure()
        with open(os.path.join(self.directory, "data.txt"), "w", encoding="utf-8") as file:
            file.write("of the project")
        ok, failed = self.execute("print(open('data.txt').read())", "open('new.txt', 'w')")
        self.assertEqual(ok["stdout"], "of the project\n")
        self.assertEqual(failed["error"]["type"], "OSError")
        self.assertIn("Read-only", failed["error"]["message"])

    @unittest.skipUnless(os.geteuid() == 0, "giving a directory away takes root")
    def test_its_owner_writes(self):
        project = os.path.join(self.directory, "project")
        os.mkdir(project, 0o700)
        os.chown(project, 12345, 12346)
        self.configure(workspace="rw", workspace_path=project, user="owner", workspace_target="/srv/here")
        self.assertEqual(self.execute("open('new.txt', 'w').write('x')")[0]["end"], "ok")
        st = os.stat(os.path.join(project, "new.txt"))
        self.assertEqual((st.st_uid, st.st_gid), (12345, 12346))

    def test_roots_is_not_written(self):
        if os.stat(self.directory).st_uid != 0:
            self.skipTest("the directory is not root's")
        self.assertIn("root", self.refused(workspace="rw", user="owner"))

    def test_none(self):
        self.configure(workspace="none", workspace_size="4m")
        result = self.execute("import os; print(os.listdir('.'), os.statvfs('.').f_blocks * os.statvfs('.').f_frsize)")[0]
        self.assertEqual(result["stdout"].split(), ["[]", str(4 * MIB)])

    def test_a_directory_that_is_not_there(self):
        self.assertIn("workspace", self.refused(workspace_path=os.path.join(self.directory, "nowhere")))
        self.assertFalse(os.path.exists(os.path.join(self.directory, "nowhere")))


class Ends(Case):
    def setUp(self):
        super().setUp()
        self.configure()

    def one(self, code, *arguments):
        return self.execute(code, arguments=arguments)[0]

    def test_state_is_kept_over_an_interrupt(self):
        first, second = self.execute("x = 41", "while True: pass", arguments=("--timeout", "2"))
        self.assertEqual(first["end"], "ok")
        self.assertEqual((second["end"], second["state"]), ("timeout", "kept"))

    def test_memory(self):
        result = self.one("bytearray(3 << 30)")
        self.assertEqual((result["end"], result["state"]), ("memory", "kept"))

    def test_memory_that_the_kernel_ends(self):
        result = self.one("import mmap\nheld = []\nwhile True:\n    m = mmap.mmap(-1, 16 << 20)\n    m.write(b'x' * (16 << 20))"
                          "\n    held.append(m)")
        self.assertEqual((result["end"], result["state"]), ("memory", "lost"))
        self.assertGreaterEqual(result["memory_peak_bytes"], 500 * MIB)

    def test_a_crash(self):
        result = self.one("import ctypes; ctypes.string_at(0)")
        self.assertEqual((result["end"], result["state"]), ("killed", "lost"))
        self.assertIn("11", result["error"]["message"])

    def test_an_exit(self):
        result = self.one("import os; os._exit(7)")
        self.assertEqual((result["end"], result["state"]), ("lost", "lost"))
        self.assertIn("7", result["error"]["message"])

    def test_a_bomb(self):
        result = self.one("import os\nwhile True: os.fork()", "--timeout", "10")
        self.assertIn(result["end"], ("error", "timeout", "memory", "killed", "lost"))

    def test_usage(self):
        result = self.one("import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
                          "x = bytearray(b'x') * (64 << 20)")
        self.assertEqual(result["end"], "ok", result)
        self.assertGreaterEqual(result["cpu_ms"], 290)
        self.assertGreaterEqual(result["memory_peak_bytes"], 64 * MIB)

    def test_a_profile_has_other_limits(self):
        result = self.one("import mmap\nheld = []\nfor i in range(45):\n    m = mmap.mmap(-1, 16 << 20)\n"
                          "    m.write(b'x' * (16 << 20))\n    held.append(m)", "--profile", "analysis")
        self.assertEqual(result["end"], "ok", result)

    def test_output_and_files(self):
        result = self.one("import os, sys\nos.write(1, b'raw\\n'); print('py'); print('err', file=sys.stderr)\n"
                          "os.system('echo child')\nprint('x' * 3000000)")
        self.assertEqual(result["stdout"][:14], "raw\npy\nchild\nx")
        self.assertEqual(result["stderr"], "err\n")
        self.assertEqual(len(result["stdout"]) + result["stdout_dropped_bytes"], 13 + 3000001)


if __name__ == "__main__":
    main()
