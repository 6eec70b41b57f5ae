# SPDX-License-Identifier: Apache-2.0
"""First process of the virtual machine: mounts what a system has, runs the checks, tells each outcome on the console.

A line of outcome is "@@ ok NAME", "@@ not ok NAME", "@@ skip NAME # why"; a comment is "@@ # text"; "@@ end" is the last.
"""
import ctypes
import glob
import json
import os
import signal
import subprocess
import sys
import traceback

CGROUPS = "/sys/fs/cgroup"
USER = 1000
BUILD = "/opt/build"  # if the program is part of the image
PROGRAM = BUILD + "/core/cli/snipara-sandbox"

libc = ctypes.CDLL(None, use_errno=True)
MS_BIND, MS_MOVE, MS_REC = 0x1000, 0x2000, 0x4000


def mount(source, target, kind=None, flags=0, data=None):
    arguments = [value.encode() if value is not None else None for value in (source, target, kind)]
    if libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None) != 0:
        raise OSError(ctypes.get_errno(), "mount " + target)


def set_up_system():
    # A root that can be pivoted away from: the initial ramfs can't, a bind mount moved over it can.
    os.makedirs("/newroot", exist_ok=True)
    mount("/", "/newroot", flags=MS_BIND)
    os.chdir("/newroot")
    mount(".", "/", flags=MS_MOVE)
    os.chroot(".")
    os.chdir("/")
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"),
                         ("tmpfs", "/run"), ("tmpfs", "/home")):
        os.makedirs(target, exist_ok=True)
        mount(kind, target, kind)
    os.makedirs("/dev/shm", exist_ok=True)
    mount("tmpfs", "/dev/shm", "tmpfs")
    mount("cgroup2", CGROUPS, "cgroup2", data="nsdelegate")
    os.chmod("/tmp", 0o1777)
    os.makedirs("/home/user")
    os.chown("/home/user", USER, USER)


def say(text):
    sys.stdout.write("@@ %s\n" % text)
    sys.stdout.flush()


def comment(text):
    for line in text.rstrip().splitlines():
        say("# " + line)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def new_cgroup(name, owner=None):
    path = os.path.join(CGROUPS, name)
    os.makedirs(path, exist_ok=True)
    if owner is not None:
        for entry in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(os.path.join(path, entry), owner, owner)
    return path


def start(arguments, uid=0, cgroup=CGROUPS, environment=(), **options):
    """Runs a program as a user in a cgroup, as a service manager would."""
    def become():
        if cgroup is not None:
            write(os.path.join(cgroup, "cgroup.procs"), "0")
        if uid:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    home = "/home/user" if uid else "/root"
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, **dict(environment)}
    return subprocess.Popen(arguments, preexec_fn=become, env=env, cwd="/home/user", stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)


def run(arguments, timeout=60, **options):
    process = start(arguments, **options)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return -1, output + "\n(no end after %d s)" % timeout
    return process.returncode, output


def leftovers():
    return glob.glob(CGROUPS + "/**/sbx-*", recursive=True)


def expect(name, condition, detail=""):
    say(("ok " if condition else "not ok ") + name)
    if not condition:
        comment(detail)


def check_cgroups(name, expected=None, **options):
    """test_cgroup where it must work, or (`expected`) where it must say why it can't."""
    code, output = run(["/usr/lib/sbx-tests/test_cgroup"], environment={"CMOCKA_MESSAGE_OUTPUT": "TAP"}, **options)
    skipped = "SKIPPED: no cgroups" in output
    if expected is None:
        expect(name, code == 0 and not skipped, "exit code %d\n%s" % (code, output))
    else:
        expect(name, code == 0 and skipped and expected in output, "exit code %d\n%s" % (code, output))
    expect(name + ": nothing is left behind", not leftovers(), "\n".join(leftovers()))
    for line in output.splitlines():
        if line.startswith("#") and line.endswith(" us"):
            comment(name + ": " + line[1:].strip())


def all_cgroup_checks(delegated):
    check_cgroups("cgroup v2, root, in the root cgroup")
    check_cgroups("cgroup v2, root, in a cgroup of its own", cgroup=new_cgroup("service"))
    check_cgroups("cgroup v2, ordinary user, delegated", uid=USER, cgroup=delegated)
    check_cgroups("cgroup v2, ordinary user, not delegated", expected="systemd-run --user --scope -p Delegate=yes",
                  uid=USER, cgroup=new_cgroup("foreign"))
    busy = new_cgroup("busy")
    other = start(["/bin/sh", "-c", "read nothing < /dev/zero; sleep 1000"], cgroup=busy)
    check_cgroups("cgroup v2, root, beside another process", expected="other processes", cgroup=busy)
    other.kill()
    other.wait()


class Program:
    """The program as one user in one cgroup."""

    def __init__(self, name, **where):
        self.name, self.where = name, where

    def run(self, *arguments):
        return run([PROGRAM, *arguments], environment={"SNIPARA_SANDBOX_BUILD_ROOT": BUILD}, **self.where)

    def expect(self, what, condition, output):
        expect("%s: %s" % (self.name, what), condition, output)

    def executes(self, what, code, judge, *arguments):
        status, output = self.run("exec", "--json", *arguments, "-c", code)
        try:
            result = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
        except (ValueError, IndexError):
            result = {}
        self.expect(what, bool(result) and judge(result), "exit code %d\n%s" % (status, output))


FRUGAL = "x = bytearray(1 << 30); x[::4096] = b'1' * (1 << 18)"


def check_program(program):
    code, output = program.run("doctor")
    if code == 0:
        comment(output)
    program.expect("doctor finds what it needs", code == 0, "exit code %d\n%s" % (code, output))
    program.executes("code runs", "print(6 * 7)", lambda r: r["end"] == "ok" and r["stdout"] == "42\n")
    program.executes("its isolation is namespaces", "1", lambda r: r["isolation"] == "namespaces")
    program.executes("CPU and peak memory are told", "sum(range(10**6)) and None",
                     lambda r: r["end"] == "ok" and r["cpu_ms"] > 0 and r["memory_peak_bytes"] > 0)
    program.executes("too much memory ends as such", FRUGAL, lambda r: r["end"] == "memory")
    expect(program.name + ": nothing is left behind", not leftovers(), "\n".join(leftovers()))


def check_copies():
    """Copies of sessions and branches of them: how their memory and processes are counted is the cgroup's matter."""
    for subject in ("copies", "branches"):
        code, output = run(["%s/plugins/backend-local/tests/test_%s" % (BUILD, subject), BUILD], timeout=400,
                           cgroup=new_cgroup("service"))
        failed = [line for line in output.splitlines() if line.startswith("not ok")]
        expect("%s on cgroup v2" % subject, code == 0 and "SKIP" not in output,
               "exit code %d\n%s" % (code, "\n".join(failed) or output))


def all_program_checks(delegated):
    if not os.path.exists(PROGRAM):
        say("skip the program on cgroup v2 # it is not built")
        return
    check_program(Program("program, root", cgroup=new_cgroup("service")))
    check_copies()
    check_program(Program("program, ordinary user, delegated", uid=USER, cgroup=delegated))
    refused = Program("program, ordinary user, not delegated", uid=USER, cgroup=new_cgroup("foreign"))
    code, output = refused.run("exec", "-c", "print(1)")
    refused.expect("is refused, and told what to type", code == 3 and "systemd-run --user --scope -p Delegate=yes" in
                   output, "exit code %d\n%s" % (code, output))


# ---- under systemd

USER_MANAGER = """[Service]
User=%d
Delegate=yes
Environment=XDG_RUNTIME_DIR=/run/user/%d HOME=/home/user
ExecStartPre=+/usr/bin/python3 -c "import os; d='/run/user/%d'; os.makedirs(d); os.chown(d, %d, %d)"
Type=notify
ExecStart=/lib/systemd/systemd --user --unit=basic.target
"""
# Beside another process: the cgroup of the service is not the program's alone.
IN_COMPANY = "sleep 1000 & /usr/lib/sbx-tests/test_cgroup; code=$?; kill $!; exit $code"
USER_SERVICE = """[Service]
Type=oneshot
Environment=CMOCKA_MESSAGE_OUTPUT=TAP XDG_RUNTIME_DIR=/run/user/%d
ExecStart=/bin/sh -c "(%s) >/home/user/output 2>&1"
"""


def in_a_scope(name, code, output):
    expect(name, code == 0 and "/snipara-sandbox-sbx-" in output and "SKIPPED: no cgroups" not in output,
           "exit code %d\n%s" % (code, output))


def systemd_checks():
    """A cgroup that isn't the program's alone: it gets a scope from the manager by itself."""
    code, output = run(["/bin/sh", "-c", IN_COMPANY], cgroup=None, environment={"CMOCKA_MESSAGE_OUTPUT": "TAP"})
    in_a_scope("systemd, root: a scope of its own", code, output)
    os.makedirs("/run/systemd/user", exist_ok=True)
    write("/run/systemd/system/manager.service", USER_MANAGER % ((USER,) * 5))
    write("/run/systemd/user/company.service", USER_SERVICE % (USER, IN_COMPANY.replace("$", "$$")))
    code, output = run(["systemctl", "start", "manager.service"], cgroup=None)
    expect("systemd, a user's manager starts", code == 0, output)
    code, output = run(["systemctl", "--user", "start", "company.service"], uid=USER, cgroup=None,
                       environment={"XDG_RUNTIME_DIR": "/run/user/%d" % USER})
    comment(output)
    with open("/home/user/output") as f:
        in_a_scope("systemd, ordinary user: a scope of its own", code, f.read())
    expect("systemd: nothing is left behind", not leftovers(), "\n".join(leftovers()))


def under_systemd():
    """As a service of the system manager, which has mounted everything."""
    try:
        os.makedirs("/home/user", exist_ok=True)
        os.chown("/home/user", USER, USER)
        systemd_checks()
    except Exception:
        say("not ok systemd_checks")
        comment(traceback.format_exc())
    finally:
        say("end")
        libc.reboot(0x4321fedc)


def main():
    write(CGROUPS + "/cgroup.subtree_control", "+memory +pids +cpu")
    delegated = new_cgroup("delegated", USER)
    with open("/proc/version") as f:
        comment(f.read())
    for checks in (all_cgroup_checks, all_program_checks):
        try:
            checks(delegated)
        except Exception:  # the console is the only witness
            say("not ok " + checks.__name__)
            comment(traceback.format_exc())


def as_first_process():
    """The checks run in a child, so that this process does what init does: wait for orphans."""
    set_up_system()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            main()
        finally:
            say("end")
            os._exit(0)
    while os.wait()[0] != child:
        pass
    os.sync()
    libc.reboot(0x4321fedc)  # RB_POWER_OFF


if __name__ == "__main__":
    try:
        under_systemd() if sys.argv[1:] == ["--systemd"] else as_first_process()
    except BaseException:
        comment(traceback.format_exc())
        say("end")
        libc.reboot(0x4321fedc)
