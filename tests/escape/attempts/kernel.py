# SPDX-License-Identifier: Apache-2.0
"""System calls that reach for the kernel: mounts, namespaces, tracing, keys, programs in the kernel, devices."""
from . import CONTAINER, NAMESPACES, Attempt

# name: (number on x86_64, number on aarch64 or None, arguments, promise). The arguments are such that the kernel itself
# would answer with something else than EPERM, EACCES or ENOSYS, or would do it, wherever that can be had without harm.
CALLS = {
    "mount": (165, 40, "b'none', b'/tmp', b'tmpfs', 0, 0"),
    "mount-bind": (165, 40, "b'/', b'/tmp', 0, 0x1000, 0"),
    "mount-remount": (165, 40, "0, b'/', 0, 0x20, 0"),
    "umount2": (166, 39, "b'/tmp', 2"),
    "pivot_root": (155, 41, "b'.', b'.'"),
    "chroot": (161, 51, "b'/tmp'"),
    "open_tree": (428, 428, "-100, b'/', 1"),
    "move_mount": (429, 429, "-100, b'/', -100, b'/tmp', 0"),
    "fsopen": (430, 430, "b'tmpfs', 0"),
    "fsconfig": (431, 431, "0, 0, 0, 0, 0"),
    "fsmount": (432, 432, "0, 0, 0"),
    "fspick": (433, 433, "-100, b'/', 0"),
    "mount_setattr": (442, 442, "-100, b'/', 0, 0, 0"),
    "open_tree_attr": (467, 467, "-100, b'/', 1, 0, 0"),
    "swapon": (167, 224, "b'/tmp', 0"),
    "swapoff": (168, 225, "b'/tmp'"),
    "quotactl": (179, 60, "0, 0, 0, 0"),
    "quotactl_fd": (443, 443, "0, 0, 0, 0"),
    "acct": (163, 89, "b'/tmp/acct'"),
    "fanotify_init": (300, 262, "0, 0"),
    "name_to_handle_at": (303, 264, "-100, b'/', ctypes.create_string_buffer(128), ctypes.byref(ctypes.c_int()), 0"),
    "bpf": (321, 280, "0, ctypes.create_string_buffer(128), 128"),
    "perf_event_open": (298, 241, "ctypes.create_string_buffer(b'\\1\\0\\0\\0\\x80\\0\\0\\0' + b'\\0' * 120), 0, -1, -1, 0"),
    "io_uring_setup": (425, 425, "4, ctypes.create_string_buffer(256)"),
    "io_uring_enter": (426, 426, "0, 0, 0, 0, 0, 0"),
    "io_uring_register": (427, 427, "0, 0, 0, 0"),
    "userfaultfd": (323, 282, "1"),
    "add_key": (248, 217, "b'user', b'sbx', b'x', 1, -3"),
    "request_key": (249, 218, "b'user', b'sbx', 0, 0"),
    "keyctl": (250, 219, "0, -3, 1"),
    "kexec_load": (246, 104, "0, 0, 0, 0"),
    "kexec_file_load": (320, 294, "-1, -1, 0, 0, 0"),
    "init_module": (175, 105, "b'', 0, b''"),
    "finit_module": (313, 273, "0, b'', 0"),
    "delete_module": (176, 106, "b'sbx', 0"),
    "create_module": (174, None, "b'sbx', 1"),
    "reboot": (169, 142, "0, 0, 0, 0"),
    "sethostname": (170, 161, "b'sbx', 3"),
    "setdomainname": (171, 162, "b'sbx', 3"),
    "iopl": (172, None, "0"),
    "ioperm": (173, None, "0, 1, 0"),
    "modify_ldt": (154, None, "0, 0, 0"),
    "syslog": (103, 116, "10, 0, 0"),
    "settimeofday": (164, 170, "0, 0"),
    "clock_settime": (227, 112, "0, 0"),
    "adjtimex": (159, 171, "ctypes.create_string_buffer(b'\\1' + b'\\0' * 255)"),
    "clock_adjtime": (305, 266, "0, ctypes.create_string_buffer(b'\\1' + b'\\0' * 255)"),
    "lookup_dcookie": (212, 18, "0, 0, 0"),
    "vhangup": (153, 58, ""),
    "move_pages": (279, 239, "1, 0, 0, 0, 0, 0"),
    "migrate_pages": (256, 238, "1, 0, 0, 0"),
    "uselib": (134, None, "b'/tmp/sbx'"),
    "ustat": (136, None, "0, 0"),
    "sysfs": (139, None, "3"),
    "_sysctl": (156, None, "0"),
    "nfsservctl": (180, 42, "0, 0, 0"),
    "pidfd_getfd": (438, 438, "0, 0, 0"),
    "memfd_secret": (447, 447, "0"),
    "lsm_set_self_attr": (460, 460, "100, 0, 0, 0"),
    "setns": (308, 268, "os.open('/proc/self/ns/uts', 0) if os.path.exists('/proc/self/ns/uts') else 0, 0"),
    "personality-unknown": (135, 92, "0x0020000"),  # UNAME26: tells a program another kernel version
    "personality-no-random": (135, 92, "0x0040000"),  # ADDR_NO_RANDOMIZE
    "personality-exec-data": (135, 92, "0x0400000"),  # READ_IMPLIES_EXEC
}

PROMISES = {
    "no mounts": ("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
                  "fspick", "swap", "quotactl", "acct"),
    "no new namespaces, no setns": ("setns",),
    "no keyctl": ("add_key", "request_key", "keyctl"),
    "no bpf, perf_event_open, io_uring, userfaultfd": ("bpf", "perf_event_open", "io_uring", "userfaultfd"),
    "no kexec, no modules": ("kexec", "init_module", "finit_module", "delete_module", "create_module"),
    "no personality tricks": ("personality",),
}


def promise_of(name):
    for promise, starts in PROMISES.items():
        if name.startswith(starts):
            return promise
    return "no system call that is for the administrator or that nobody needs"


def call_attempt(name):
    x86_64, aarch64, arguments = CALLS[name]
    code = ("import platform\nnumber = {'x86_64': %r, 'aarch64': %r}.get(platform.machine())\n"
            "def attempt():\n"
            "    refused(%r, number%s)\n"
            "attempt() if number is not None else held('this machine has no such call')\n"
            % (x86_64, aarch64, name, ", " + arguments if arguments else ""))
    return Attempt("syscall-" + name, promise_of(name), code)


UNSHARE = """
import platform
number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
flags = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "network": 0x40000000, "time": 0x80}
for name, flag in flags.items():
    def attempt():
        refused("unshare %s" % name, number, flag)
        refused("unshare %s, high bits" % name, number, flag | 1 << 32)
    in_child(attempt)
"""

CLONE = """
import platform, signal
number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
flags = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "network": 0x40000000}
for name, flag in flags.items():
    result, error = syscall(number, flag | signal.SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
        escaped("clone with a new %s namespace" % name)
    elif error in REFUSED:
        held("clone %s: %s" % (name, name_of(error)))
    else:
        escaped("clone %s: %s" % (name, name_of(error)))
"""

CLONE3 = """
import struct
arguments = ctypes.create_string_buffer(struct.pack("<11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
result, error = syscall(435, arguments, 88)
if result == 0:
    os._exit(0)
held("ENOSYS") if result == -1 and error == errno.ENOSYS else escaped("result %d, %s" % (result, name_of(error)))
"""

SETNS = """
for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
    path = "/proc/self/ns/" + name
    if not os.path.exists(path):
        held(name + ": no /proc")
        continue
    fd = os.open(path, os.O_RDONLY)
    import platform
    refused("setns " + name, {"x86_64": 308, "aarch64": 268}[platform.machine()], fd, 0)
    os.close(fd)
fd, error = syscall(434, os.getpid(), 0)
if fd >= 0:
    refused("setns with a pidfd", {"x86_64": 308, "aarch64": 268}[platform.machine()], fd, 0x20000)
"""

# The numbers are compared on 32 bits by the kernel (CVE-2017-5226 and after): bits above must not help.
TERMINAL = """
import platform
number = {"x86_64": 16, "aarch64": 29}[platform.machine()]
errors = REFUSED + ((errno.ENOTTY,) if @CONTAINER@ else ())  # there is no terminal in containers
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C)):
    for high in (0, 1 << 32, 0xFFFFFFFF << 32):
        for fd in (0, 1, 2):
            refused("%s on %d, high bits %#x" % (name, fd, high), number, fd, request | high, b"x", errors=errors)
try:
    primary, secondary = os.openpty()
except OSError as e:
    held("openpty: " + name_of(e.errno))
else:
    refused("TIOCSTI on a terminal of its own", number, secondary, 0x5412, b"x")
"""

OTHER_ABI = """
import mmap, platform
if platform.machine() != "x86_64":
    held("one ABI only")
else:
    # x32: the same calls with bit 30 set; unshare, mount, ptrace.
    for name, number in (("unshare", 272), ("mount", 165), ("ptrace", 521), ("getpid", 39)):
        def attempt():
            result, error = syscall(number | 0x40000000, 0x10000000, 0, 0, 0, 0)
            held("x32 " + name + ": " + name_of(error)) if result == -1 and error in REFUSED else escaped("x32 " + name)
        status = in_child(attempt)
        if os.WIFSIGNALED(status):
            held("x32 %s: killed by signal %d" % (name, os.WTERMSIG(status)))
    # i386: int 0x80 with getpid (20), answered by the kernel unless the filter knows the architecture.
    def legacy():
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("53b814000000cd805bc3"))  # push rbx; mov eax, 20; int 0x80; pop rbx; ret
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        result = function()
        held("i386: %d" % result) if result < 0 else escaped("i386: getpid is %d" % result)
    status = in_child(legacy)
    if os.WIFSIGNALED(status):
        held("i386: killed by signal %d" % os.WTERMSIG(status))
    # vsyscall page: no way to anything but the time.
"""

IDENTITY = """
import platform
x86 = platform.machine() == "x86_64"
def change(name, number, *arguments):
    result, error = syscall(number, *arguments)
    held("%s: %s" % (name, name_of(error))) if result == -1 else escaped(name)
change("setuid 0", 105 if x86 else 146, 0)
change("setgid 0", 106 if x86 else 144, 0)
change("setresuid 0", 117 if x86 else 147, 0, 0, 0)
change("setresgid 0", 119 if x86 else 149, 0, 0, 0)
change("setuid 1", 105 if x86 else 146, 1)
change("setgroups", 116 if x86 else 159, 1, (ctypes.c_uint * 1)(0))
header = (ctypes.c_uint * 2)(0x20080522, 0)
full = (ctypes.c_uint * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0)
change("capset", 126 if x86 else 91, header, full)
change("ambient capability", 157 if x86 else 167, 47, 2, 21, 0, 0)
escaped("uid 0 inside") if 0 in (os.getuid(), os.geteuid()) else held("uid %d" % os.getuid())
"""

KEEP_PRIVILEGES_OFF = """
import platform
prctl = {"x86_64": 157, "aarch64": 167}[platform.machine()]
result, _ = syscall(prctl, 39, 0, 0, 0, 0)
held("no_new_privs") if result == 1 else escaped("no_new_privs is %d" % result)
result, _ = syscall(prctl, 21, 0, 0, 0, 0)
held("a filter is on") if result == 2 else escaped("seccomp mode %d" % result)
result, error = syscall(prctl, 22, 0, 0, 0, 0)
result, error = syscall(prctl, 38, 0, 0, 0, 0)
held("no_new_privs stays: " + name_of(error)) if result == -1 else escaped("no_new_privs was taken back")
for option in (15,):  # PR_SET_NAME is harmless: what is refused is not everything
    syscall(prctl, option, b"sbx", 0, 0, 0)
"""

PROC_WRITE = """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/kernel/hostname", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/kcore",
             "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/acpi/x", "/proc/irq/default_smp_affinity",
             "/proc/bus/pci/devices", "/proc/scsi/scsi", "/proc/sched_debug", "/proc/timer_list",
             "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/proc/self/attr/current",
             "/proc/self/clear_refs_"):
    if is_masked(path):
        held(path + ": masked")
        continue
    def write():
        with open(path, "r+b", buffering=0) as f:
            f.write(b"1")
    must_fail(path, write)
try:
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("-1000")
    escaped("oom_score_adj")
except OSError as e:
    held("oom_score_adj: " + name_of(e.errno))
"""

KERNEL_READ = """
for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/1/stack", "/proc/self/pagemap_", "/proc/vmallocinfo",
             "/proc/slabinfo", "/dev/kmsg", "/dev/mem", "/dev/port"):
    if is_masked(path):
        held(path + ": masked")
        continue
    def read():
        with open(path, "rb", buffering=0) as f:
            return f.read(16)
    must_fail(path, read)
try:
    with open("/proc/kallsyms") as f:
        addresses = {f.readline().split()[0] for _ in range(50)}
    escaped(addresses) if any(int(a, 16) for a in addresses) else held("kallsyms: zeros")
except OSError as e:
    held("kallsyms: " + name_of(e.errno))
"""

SYSFS = """
try:
    names = os.listdir("/sys")
except OSError as e:
    held(name_of(e.errno))
else:
    escaped(names) if names else held("empty")
"""

SCHEDULING = """
def attempt():
    must_fail("nice -20", os.setpriority, os.PRIO_PROCESS, 0, -20)
    must_fail("real time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
in_child(attempt)
"""

ATTEMPTS = [call_attempt(name) for name in CALLS] + [
    Attempt("unshare", "no new namespaces, no setns", UNSHARE, control="escaped as root"),
    Attempt("clone", "no new namespaces, no setns", CLONE, control="escaped as root"),
    Attempt("clone3", "clone3 answers ENOSYS, since a filter can't see its flags", CLONE3),
    Attempt("setns-own", "no new namespaces, no setns", SETNS, control="escaped"),
    Attempt("terminal-ioctl", "no TIOCSTI, no TIOCLINUX, whatever the upper bits", TERMINAL, control="escaped"),
    Attempt("other-abi", "system calls of another ABI are refused", OTHER_ABI),
    Attempt("identity", "no other user, no capability", IDENTITY, control="escaped as root"),
    Attempt("lock-stays", "no_new_privs and the filter stay", KEEP_PRIVILEGES_OFF, control="escaped"),
    Attempt("proc-write", "/proc of the host can't be written", PROC_WRITE),
    Attempt("kernel-read", "the kernel's memory and log can't be read", KERNEL_READ, control="escaped as root"),
    Attempt("sysfs", "/sys is empty", SYSFS, isolations=(NAMESPACES, CONTAINER), control="escaped"),
    Attempt("scheduling", "no higher priority", SCHEDULING, control="escaped as root"),
]
