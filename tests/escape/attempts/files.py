# SPDX-License-Identifier: Apache-2.0
"""The host's files: none is to be read outside the read-only set, none to be written outside the workspace and /tmp."""
from . import CONTAINER, NAMESPACES, Attempt

READ = "no host file outside the read-only set can be read"
WRITE = "nothing can be written but the workspace and /tmp"

READ_ONE = """
def read():
    with open({path}, "rb") as f:
        return f.read(64)
must_fail("open", read)
"""

# Everywhere that a path leads: /proc's links, descriptors that were left open, names with "..".
READ_ROUNDABOUT = """
target = @CANARY@.lstrip("/")
starts = ["/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/proc/1/cwd", "/proc/thread-self/root", "/dev/fd/0/..",
          "/proc/self/map_files/..", "/tmp", "/workspace", "/dev/shm", "."]
starts += ["/proc/%d/%s" % (p, d) for p in visible_pids() for d in ("root", "cwd")]
found = []
for start in starts:
    for climb in ("", "../" * 16):
        try:
            with open(os.path.join(start, climb, target), "rb") as f:
                found.append((start, f.read(16)))
        except OSError:
            pass
escaped(found) if found else held("%d ways round" % len(starts))
"""

READ_DESCRIPTORS = """
import stat
found = []
for fd in range(1024):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    kind = stat.S_IFMT(mode)
    where = ""
    try:
        where = os.readlink("/proc/self/fd/%d" % fd)
    except OSError:
        pass
    if stat.S_ISDIR(mode):
        found.append((fd, "directory", where))
    elif not (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or where == "/dev/null"):
        found.append((fd, oct(kind), where))
escaped(found) if found else held("only sockets, pipes and /dev/null are open")
"""

READ_LINKS = """
import tempfile
d = tempfile.mkdtemp()
os.symlink(@CANARY@, d + "/soft")
def read():
    with open(d + "/soft") as f:
        return f.read()
must_fail("through a symbolic link", read)
must_fail("hard link", os.link, @CANARY@, d + "/hard")
import shutil
shutil.rmtree(d)
"""

WALK_WRITE = """
import stat
allowed = ("/tmp", "/workspace", "/dev/shm", "/proc", os.getcwd())
if @CONTAINER@:
    allowed += ("/dev/mqueue", "/run", "/var/tmp")  # in memory, and its own
wrong, tried = [], 0
def try_directory(directory, files):
    probe = os.path.join(directory, "sbx-escape-probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o600))
        wrong.append(probe)
        os.unlink(probe)
    except OSError:
        pass
    for name in files[:2]:
        path = os.path.join(directory, name)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY))
                wrong.append(path)
        except OSError:
            pass
try_directory(@HOME@, ["secret"])
for directory, names, files in os.walk("/"):
    if directory in allowed or directory.startswith(tuple(a + "/" for a in allowed)):
        names[:] = []
        continue
    tried += 1
    if tried > 4000:
        break
    try_directory(directory, files)
escaped(wrong[:10]) if wrong else held("%d directories" % tried)
"""

WRITE_LIST = """
paths = ["/", "/etc", "/usr", "/usr/lib", "/bin", "/lib", "/var", "/var/tmp", "/home", "/root", "/run", "/opt", "/srv",
         "/dev", "/sys", "/boot", os.path.dirname(os.__file__), @PROJECT@, @HOME@, os.path.dirname(@CANARY@)]
if @CONTAINER@:
    paths = [path for path in paths if path not in ("/run", "/var/tmp")]  # in memory, and its own
wrong = []
for path in paths:
    for act in (lambda: os.close(os.open(path + "/sbx-escape-probe", os.O_CREAT | os.O_WRONLY, 0o600)),
                lambda: os.mkdir(path + "/sbx-escape-directory"),
                lambda: os.symlink("/etc", path + "/sbx-escape-link"),
                lambda: os.mkfifo(path + "/sbx-escape-fifo")):
        try:
            act()
            wrong.append(path)
        except OSError:
            pass
escaped(wrong) if wrong else held("%d directories" % len(paths))
"""

CHANGE = """
target = os.path.realpath(os.__file__)
must_fail("chmod", os.chmod, target, 0o777)
must_fail("chown", os.chown, target, os.getuid(), os.getgid())
must_fail("utime", os.utime, target)
must_fail("truncate", os.truncate, target, 0)
must_fail("rename", os.rename, target, target + ".old")
must_fail("unlink", os.unlink, target)
must_fail("link", os.link, target, "/tmp/sbx-escape-hard")
must_fail("setxattr", os.setxattr, target, "user.sbx", b"1")
"""

MAKE_DEVICES = """
import stat
for kind, major, minor in (("c", 1, 1), ("c", 1, 5), ("c", 10, 229), ("b", 8, 0), ("b", 254, 0), ("b", 7, 0)):
    mode = (stat.S_IFCHR if kind == "c" else stat.S_IFBLK) | 0o666
    path = "/tmp/sbx-device-%s%d" % (kind, minor)
    if not must_fail("mknod %s %d:%d" % (kind, major, minor), os.mknod, path, mode, os.makedev(major, minor)):
        os.unlink(path)
"""

LIST_DEVICES = """
import stat
harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)}  # null, zero, full, random, urandom
if @CONTAINER@:
    harmless.add((5, 2))  # ptmx, of terminals of its own
wrong = []
for directory, names, files in os.walk("/dev"):
    for name in files:
        path = os.path.join(directory, name)
        try:
            st = os.stat(path)
        except OSError:
            continue
        device = (os.major(st.st_rdev), os.minor(st.st_rdev))
        if stat.S_ISBLK(st.st_mode) or (stat.S_ISCHR(st.st_mode) and device not in harmless):
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                wrong.append(path)
            except OSError:
                pass
escaped(wrong[:10]) if wrong else held("null, zero, full, random, urandom at most")
"""

SETUID_PROGRAMS = """
import glob, stat, subprocess
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
privileges = {k: status[k].strip() for k in ("NoNewPrivs", "CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")}
bad = [k for k, v in privileges.items() if (v != "1" if k == "NoNewPrivs" else int(v, 16) != 0 and k != "CapBnd")]
escaped(privileges) if bad else held(privileges)
for path in ("/bin/su", "/usr/bin/passwd", "/usr/bin/sudo", "/bin/mount", "/usr/bin/newgrp", "/usr/bin/chsh"):
    if os.path.exists(path):
        try:
            done = subprocess.run([path, "--version"], capture_output=True, timeout=5, input=b"")
        except OSError as e:
            held("%s: %s" % (path, name_of(e.errno)))
# A program made setuid here must gain nothing for those who run it.
import shutil
copy = "/tmp/sbx-escape-true"
try:
    shutil.copy("/bin/true" if os.path.exists("/bin/true") else sys.executable, copy)
    os.chmod(copy, 0o6755)
except OSError as e:
    held("making one: %s" % name_of(e.errno))
else:
    nosuid = os.statvfs("/tmp").f_flag & os.ST_NOSUID
    held("nosuid") if nosuid or os.stat(copy).st_uid == os.getuid() else escaped("a setuid program in /tmp")
"""

HANDLES = """
import platform
numbers = {"x86_64": (303, 304), "aarch64": (264, 265)}[platform.machine()]
handle = ctypes.create_string_buffer(256)
ctypes.memmove(handle, (128).to_bytes(4, "little"), 4)
mount_id = ctypes.c_int()
syscall(numbers[0], -100, b"/", handle, ctypes.byref(mount_id), 0)
fd = os.open(os.getcwd(), os.O_RDONLY)
refused("open_by_handle_at", numbers[1], fd, handle, 0)
# The number of the root directory of most file systems, as the well-known attack on containers guesses it.
guess = (8).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2).to_bytes(8, "little")
refused("open_by_handle_at, inode 2", numbers[1], fd, ctypes.create_string_buffer(guess, 16), 0)
"""


def read(name, path, **options):
    return Attempt("read-" + name, READ, READ_ONE.format(path=path), **options)


ATTEMPTS = [
    read("etc-shadow", "'/etc/shadow'", control="escaped as root"),
    read("canary", "@CANARY@", control="escaped"),
    read("home", "@HOME@ + '/secret'", control="escaped"),
    read("project", "@PROJECT@ + '/secret'", control="escaped"),
    read("configuration", "@CONFIGURATION@", control="escaped"),
    read("root-home", "'/root/.bashrc'"),
    read("ssh-host-keys", "'/etc/ssh/ssh_host_ed25519_key'"),
    read("machine-id", "'/etc/machine-id'"),
    read("host-memory", "'/dev/mem'"),
    Attempt("read-roundabout", READ, READ_ROUNDABOUT, control="escaped"),
    Attempt("read-descriptors", READ, READ_DESCRIPTORS),
    Attempt("read-links", READ, READ_LINKS, control="escaped"),
    Attempt("list-home", READ, "must_fail('list', os.listdir, @HOME@)", control="escaped"),
    Attempt("list-tmp-of-host", READ, "names = os.listdir('/tmp')\n"
            "escaped(names[:5]) if any(os.path.basename(@SCRATCH@) in n for n in names) else held(names[:5])",
            isolations=(NAMESPACES, CONTAINER), control="escaped"),
    Attempt("write-everywhere", WRITE, WALK_WRITE, control="escaped"),
    Attempt("write-list", WRITE, WRITE_LIST),
    Attempt("change-files", WRITE, CHANGE),
    Attempt("make-devices", "mknod of devices fails", MAKE_DEVICES, control="escaped as root"),
    Attempt("list-devices", "/dev holds nothing but null, zero, full, random and urandom", LIST_DEVICES),
    Attempt("setuid-programs", "setuid programs give nothing", SETUID_PROGRAMS),
    Attempt("open-by-handle", "open_by_handle_at fails", HANDLES),
]
