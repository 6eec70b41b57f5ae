# SPDX-License-Identifier: Apache-2.0
"""What a guest may grow: disk, inodes, processes, memory, descriptors, output; each has a limit that can't be raised.

The harness's configuration sets small sizes: 32 MiB of /tmp and of the workspace, 64 processes; memory is the default
profile's 512 MiB."""
from . import CONTAINER, NAMESPACES, Attempt

FULL = "the disk and the inode table can't be filled"
PIDS = "the pid table can't be filled"
MEMORY = "memory beyond the limit can't be had"
RAISE = "limits can't be raised"
CORE = "no core dumps"

FILL_DISK = """
chunk = b"x" * (1 << 20)
total = {}
for place in ("/tmp", "/dev/shm", "/workspace", os.getcwd(), "/run", "/var/tmp", "/dev"):
    if not os.path.isdir(place):
        continue
    names, written = [], 0
    try:
        for i in range(64):
            names.append("%s/sbx-fill-%d" % (place, i))
            with open(names[-1], "wb", buffering=0) as f:
                for _ in range(16):
                    written += f.write(chunk)
    except OSError as e:
        held("%s: %s after %d MiB" % (place, name_of(e.errno), written >> 20))
    total[place] = written >> 20
    for name in names:
        try:
            os.unlink(name)
        except OSError:
            pass
wrong = {p: t for p, t in total.items() if t > 300}
escaped(wrong) if wrong else held(total)
"""

FILL_INODES = """
made = {}
for place in ("/tmp", "/dev/shm", "/workspace", os.getcwd()):
    if not os.path.isdir(place):
        continue
    count = 0
    try:
        for count in range(300000):
            os.mknod("%s/i%d" % (place, count))
    except OSError as e:
        held("%s: %s after %d files" % (place, name_of(e.errno), count))
    made[place] = count
    for i in range(count):
        try:
            os.unlink("%s/i%d" % (place, i))
        except OSError:
            pass
wrong = {p: n for p, n in made.items() if n > 250000}
escaped(wrong) if wrong else held(made)
"""

FORKS = """
import signal
pids = []
try:
    for _ in range(5000):
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        pids.append(pid)
except OSError as e:
    held("%s after %d processes" % (name_of(e.errno), len(pids)))
else:
    escaped("%d processes" % len(pids))
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""

THREADS = """
import threading
stop = threading.Event()
threading.stack_size(65536)
count = 0
try:
    for count in range(5000):
        threading.Thread(target=stop.wait, daemon=True).start()
    escaped("%d threads" % count)
except RuntimeError as e:
    held("%s after %d threads" % (e, count))
stop.set()
"""

ONE_BIG = """
data = bytearray(4 << 30)
data[::4096] = b"1" * (1 << 20)
escaped("4 GiB")
"""

MANY_PROCESSES = """
import mmap, signal
size = 64 << 20
def eat():
    m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for i in range(0, size, 4096):
        m[i] = 1
    os.write(w, os.getpid().to_bytes(4, "little"))
    signal.pause()
r, w = os.pipe()
pids = []
for _ in range(24):
    pid = os.fork()
    if pid == 0:
        try:
            eat()
        finally:
            os._exit(1)
    pids.append(pid)
import select
full = set()
while select.select([r], [], [], 2)[0]:
    full.add(int.from_bytes(os.read(r, 4), "little"))
alive = 0
for pid in pids:
    if os.waitpid(pid, os.WNOHANG)[0] == 0:
        alive += pid in full
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
escaped("%d children hold %d MiB" % (alive, alive * 64)) if alive * 64 > 600 else held("%d of 24 got it" % alive)
"""

SHARED = """
import mmap
held_fds, total = [], 0
chunk = b"x" * (1 << 20)
try:
    for _ in range(1024):
        fd = os.memfd_create("sbx")
        held_fds.append(fd)
        for _ in range(4):
            total += os.write(fd, chunk)
except OSError as e:
    held(name_of(e.errno))
escaped("%d MiB in memory files" % (total >> 20)) if total > 600 << 20 else held("%d MiB" % (total >> 20))
"""

SYSV = """
libc.shmget.restype = ctypes.c_int
libc.shmat.restype = ctypes.c_void_p
identity = libc.shmget(0, ctypes.c_size_t(1 << 30), 0o1600)
if identity < 0:
    held("shmget: " + name_of(ctypes.get_errno()))
else:
    address = libc.shmat(identity, None, 0)
    for at in range(0, 1 << 30, 4096):
        ctypes.c_char.from_address(address + at).value = b"1"
    escaped("1 GiB of shared memory")
"""

RAISE_LIMITS = """
import resource
for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY:
        print(name, "has no limit")
        continue
    for limits in ((hard + 1, hard + 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        try:
            resource.setrlimit(which, limits)
            escaped("%s raised to %r" % (name, limits))
        except (OSError, ValueError):
            held(name)
"""

# A crash handler of the host (core_pattern "|...") runs whatever the limit is, unless that is exactly 1.
CORE_LIMIT = """
import resource
core = resource.getrlimit(resource.RLIMIT_CORE)
held("limit %r" % (core,)) if core in ((0, 0), (1, 1)) else escaped("core dumps of %r" % (core,))
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (OSError, ValueError) as e:
    held(e)
if not @CONTAINER@ and core == (1, 1) and resource.getrlimit(resource.RLIMIT_CORE) != core:
    escaped("the limit that keeps the host's crash handler away can be changed")
"""

RAISE_CGROUP = """
found = []
for directory in ("/sys/fs/cgroup", "/proc/self/root/sys/fs/cgroup"):
    for base, names, files in os.walk(directory):
        for name in files:
            if name in ("memory.max", "pids.max", "memory.limit_in_bytes", "cgroup.procs", "tasks", "cpu.max"):
                try:
                    os.close(os.open(os.path.join(base, name), os.O_WRONLY))
                    found.append(os.path.join(base, name))
                except OSError:
                    pass
escaped(found[:5]) if found else held("no control file can be opened")
"""

CORE_DUMP = """
import signal
def crash():
    os.kill(os.getpid(), signal.SIGSEGV) if os.getpid() != 1 else None
    ctypes.string_at(0)
status = in_child(crash)
names = [n for n in os.listdir(os.getcwd()) if "core" in n]
escaped("a core dump %s" % names) if names or os.WCOREDUMP(status) else held("status %d" % status)
"""

DESCRIPTORS = """
fds = []
try:
    for _ in range(1100000):
        fds.append(os.open("/dev/null", os.O_RDONLY))
    escaped("%d descriptors" % len(fds))
except OSError as e:
    held("%s after %d" % (name_of(e.errno), len(fds)))
for fd in fds:
    os.close(fd)
"""

LOCKED = """
libc.mlockall.restype = ctypes.c_int
import mmap
m = mmap.mmap(-1, 128 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(m))
result = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(128 << 20))
escaped("128 MiB locked") if result == 0 else held(name_of(ctypes.get_errno()))
"""

PIPES = """
import fcntl
total, pipes = 0, []
try:
    for _ in range(2000):
        r, w = os.pipe()
        pipes.append((r, w))
        try:
            fcntl.fcntl(w, 1031, 1 << 20)
        except OSError:
            pass
        os.set_blocking(w, False)
        try:
            while True:
                total += os.write(w, b"x" * 65536)
        except BlockingIOError:
            pass
except OSError as e:
    held(name_of(e.errno))
escaped("%d MiB in pipes" % (total >> 20)) if total > 600 << 20 else held("%d MiB in %d pipes" % (total >> 20, len(pipes)))
"""

ENDS = ("ok", "error", "memory", "killed", "lost", "timeout")


def not_escaped(result, host):
    """For what may end the guest before it can say that it was held."""
    return "it escaped" if "ESCAPED" in result["stdout"] else None


ATTEMPTS = [
    Attempt("fill-disk", FULL, FILL_DISK, ends=("ok", "memory", "error"), judge=not_escaped, isolations=(NAMESPACES, CONTAINER)),
    Attempt("fill-inodes", FULL, FILL_INODES, ends=("ok", "memory", "error", "timeout"), judge=not_escaped,
            isolations=(NAMESPACES, CONTAINER)),
    Attempt("fork-many", PIDS, FORKS, ends=ENDS),
    Attempt("thread-many", PIDS, THREADS, ends=ENDS),
    Attempt("memory-one-block", MEMORY, ONE_BIG, ends=("memory",), judge=not_escaped),
    Attempt("memory-many-processes", MEMORY, MANY_PROCESSES, ends=("ok", "memory", "error", "killed"),
            judge=not_escaped, needs_cgroup=True),
    Attempt("memory-files", MEMORY, SHARED, ends=("ok", "memory", "error", "killed"), judge=not_escaped,
            needs_cgroup=True),
    Attempt("memory-sysv", MEMORY, SYSV, ends=("ok", "memory", "killed"), judge=not_escaped),
    Attempt("memory-pipes", MEMORY, PIPES, ends=("ok", "memory", "killed", "error"), judge=not_escaped,
            needs_cgroup=True),
    Attempt("memory-locked", MEMORY, LOCKED),
    Attempt("raise-limits", RAISE, RAISE_LIMITS),
    Attempt("raise-cgroup", RAISE, RAISE_CGROUP),
    Attempt("core-dump", CORE, CORE_DUMP),
    Attempt("core-limit", CORE, CORE_LIMIT),
    Attempt("descriptors", "the table of open files can't be filled", DESCRIPTORS, ends=ENDS),
]
