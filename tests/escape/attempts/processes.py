# SPDX-License-Identifier: Apache-2.0
"""Other processes: not to be seen, signalled, traced or read, be they the host's, the zygote or another session."""
from . import CONTAINER, NAMESPACES, Attempt

SEE = "the host's processes can't be seen"
SIGNAL = "no process outside the session can be signalled"
TRACE = "ptrace, process_vm_readv and their like fail"

SEE_ALL = """
pids = visible_pids()
others = [p for p in pids if p not in (os.getpid(), os.getppid())]
escaped(others[:10]) if others else held("only pid %s" % pids)
"""

SIGNAL_ALL = """
mine = {os.getpid()} | {int(thread) for thread in os.listdir("/proc/self/task")}
reached = []
for pid in list(range(1, 40000)) + [@VICTIM@, @SERVER@]:
    if pid in mine:
        continue
    try:
        os.kill(pid, 0)
        reached.append(pid)
    except OSError:
        pass
escaped(reached[:10]) if reached else held("40000 pids")
"""

SIGNAL_VICTIM = """
import signal
must_fail("kill", os.kill, @VICTIM@, signal.SIGTERM)
must_fail("kill the server", os.kill, @SERVER@, signal.SIGTERM)
ppid = os.getppid()
if ppid:
    must_fail("kill the parent", os.kill, ppid, signal.SIGTERM)
numbers = (434, 424)  # pidfd_open, pidfd_send_signal
fd, error = syscall(numbers[0], @VICTIM@, 0)
if fd < 0:
    held("pidfd_open: " + name_of(error))
else:
    refused("pidfd_send_signal", numbers[1], fd, 15, 0, 0)
"""

# Harmless for the server only if a process group, a session and "everybody" end at the jail.
SIGNAL_EVERYBODY = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for target in (-1, 0) if os.getpid() == 1 else ():  # elsewhere it would reach whoever runs this
    try:
        os.kill(target, signal.SIGTERM)
    except OSError as e:
        print(target, name_of(e.errno))
held("done") if os.getpid() == 1 else escaped("not the first process of a pid namespace")
"""

PTRACE = """
import platform
number = {"x86_64": 101, "aarch64": 117}[platform.machine()]
def trace_me():
    refused("PTRACE_TRACEME", number, 0, 0, 0, 0)
if not @CONTAINER@:  # who may not see another may trace its own children
    in_child(trace_me)
errors = REFUSED + ((errno.ESRCH,) if @CONTAINER@ else ())
for name, pid in (("the victim", @VICTIM@), ("the server", @SERVER@), ("the parent", os.getppid()), ("pid 1", 1)):
    for request, code in (("PTRACE_ATTACH", 16), ("PTRACE_SEIZE", 0x4206)):
        if pid != os.getpid() or not @CONTAINER@:
            refused("%s %s" % (request, name), number, code, pid, 0, 0, errors=errors)
"""

# A child of one's own: what is refused here is refused because of the call, not because of whom it meets.
READ_CHILD = """
import platform
readv, writev = {"x86_64": (310, 311), "aarch64": (270, 271)}[platform.machine()]
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
local = Vector(ctypes.addressof(buffer), 8)
remote = Vector(id(None), 8)
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(w)
    os.read(r, 1)
    os._exit(0)
refused("process_vm_readv", readv, pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
refused("process_vm_writev", writev, pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
refused("kcmp", {"x86_64": 312, "aarch64": 272}[platform.machine()], os.getpid(), pid, 0, 0, 0)
fd, error = syscall(434, pid, 0)
if fd >= 0:
    refused("pidfd_getfd", 438, fd, 0, 0)
else:
    held("pidfd_open: " + name_of(error))
refused("process_madvise", 440, max(fd, 0), ctypes.byref(remote), 1, 4, 0)
os.close(w)
os.waitpid(pid, 0)
"""

PROC_OF_OTHERS = """
found = []
for pid in (@VICTIM@, @SERVER@):
    for name in ("mem", "environ", "maps", "fd", "root", "cwd", "exe", "cmdline"):
        path = "/proc/%d/%s" % (pid, name)
        try:
            found.append((path, os.listdir(path) if name == "fd" else open(path, "rb").read(64) if name != "exe" else
                          os.readlink(path)))
        except OSError:
            pass
escaped(found) if found else held("nothing of the host's in /proc")
"""

PROC_ONE = """
found = []
for name in ("mem", "environ", "root", "cwd", "fd"):
    path = "/proc/1/" + name
    if os.getpid() == 1:
        break
    try:
        found.append(os.listdir(path) if name in ("fd", "root", "cwd") else open(path, "rb").read(10))
    except OSError:
        pass
environment = open("/proc/self/environ", "rb").read() if os.path.exists("/proc/self/environ") else b""
secret = @TOKEN_REVERSED@[::-1].encode()
escaped(found or environment) if found or secret in environment else held("nothing")
"""

ATTEMPTS = [
    Attempt("see-processes", SEE, SEE_ALL, isolations=(NAMESPACES, CONTAINER), control="escaped"),
    Attempt("signal-all-pids", SIGNAL, SIGNAL_ALL, control="escaped"),
    Attempt("signal-victim", SIGNAL, SIGNAL_VICTIM),
    Attempt("signal-everybody", SIGNAL, SIGNAL_EVERYBODY, isolations=(NAMESPACES, CONTAINER)),
    Attempt("ptrace", TRACE, PTRACE),
    Attempt("process-vm", TRACE, READ_CHILD, control="escaped"),
    Attempt("proc-of-others", SEE, PROC_OF_OTHERS, control="escaped"),
    Attempt("proc-1", SEE, PROC_ONE),
]
