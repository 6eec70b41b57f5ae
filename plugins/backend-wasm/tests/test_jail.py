# SPDX-License-Identifier: Apache-2.0
"""The helper's jail, from inside: a guest that has left its sandbox makes system calls, and dies of them."""
import ctypes
import errno
import os
import platform
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../tests")]
import helper_driver as driver
from helper_driver import Gone, Helper, Refused
from tap import main, note, skip

# Numbers of x86-64 (asm/unistd_64.h), the only architecture that the backend runs on.
(READ, WRITE, CLOSE, POLL, LSEEK, MMAP, MPROTECT, MUNMAP, BRK, SIGACTION, SIGPROCMASK, SIGRETURN, PREAD, PWRITE, READV,
 WRITEV, SCHED_YIELD, MREMAP, MADVISE, SENDMSG, RECVMSG, CLONE, EXIT_GROUP, FTRUNCATE, GETTIMEOFDAY, SIGALTSTACK, PRCTL,
 TIME, RESTART, GETTIME, GETRES, NANOSLEEP, PPOLL, GETRANDOM, SYSINFO, GETPPID) = (
     0, 1, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 24, 25, 28, 46, 47, 56, 231, 77, 96, 131, 157, 201, 219,
     228, 229, 230, 271, 318, 99, 110)
# What a session may do, whatever the arguments; those with conditions are tried one by one below.
ALLOWED = {READ, WRITE, CLOSE, POLL, LSEEK, MUNMAP, BRK, SIGPROCMASK, SIGRETURN, PREAD, PWRITE, READV, WRITEV,
           SCHED_YIELD, MREMAP, MADVISE, SENDMSG, RECVMSG, EXIT_GROUP, FTRUNCATE, GETTIMEOFDAY, SIGALTSTACK, TIME,
           RESTART, GETTIME, GETRES, NANOSLEEP, PPOLL, GETRANDOM, SYSINFO, GETPPID}
# The kernel's own, for probes that it has placed itself: from elsewhere they kill, and filters are not asked (Linux 6.14).
UNFILTERED = {335, 336}
CONDITIONAL = {MMAP, MPROTECT, CLONE, PRCTL, SIGACTION}
LAST_CALL = 470  # beyond those of Linux 6.16

PROT_R, PROT_W, PROT_X = 1, 2, 4
SHARED, PRIVATE, FIXED, ANONYMOUS, NORESERVE, GROWSDOWN, HUGETLB = 1, 2, 0x10, 0x20, 0x4000, 0x100, 0x40000
CLONE_VM, CLONE_PARENT, CLONE_THREAD, CLONE_NEWUSER, CLONE_PIDFD = 0x100, 0x8000, 0x10000, 0x10000000, 0x1000
NONE = driver.MASK  # no descriptor


def dies(session, function, *args):
    """Whether the call killed the session as the filter does."""
    try:
        answer = function(*args)
    except Gone:
        code = session.end()
        assert code == -signal.SIGSYS, "%s ended with %d" % (args, code)
        return True
    note("answered %d" % answer)
    return False


# ---- calls

def test_every_call_that_is_not_needed_kills():
    """All of them, by number: who adds one to the filters has to add it here."""
    survived = []
    with Helper(sessions_max=LAST_CALL + 10) as helper:
        for number in range(LAST_CALL + 1):
            if number in ALLOWED | CONDITIONAL | UNFILTERED:
                continue
            session = helper.spawn()
            if not dies(session, session.syscall, number):
                survived.append(number)
            helper.send(driver.RELEASE, session.id)
    assert survived == [], survived


def test_other_tables_of_calls_kill():
    with Helper() as helper:
        for number in 39, 0x40000000 + 39, 0x40000000 + READ, 0xffffffff, 1 << 40:
            session = helper.spawn()
            if number == 1 << 40:  # the kernel looks at 32 bits: this is `read`
                continue
            assert dies(session, session.syscall, number), hex(number)
        for number in 20, 1, 5, 11:  # getpid, exit, open, execve of the 32-bit table
            session = helper.spawn()
            try:
                answer = session.do(driver.INT80, number=number)
                assert answer == -errno.ENOSYS, answer  # a kernel without that table
            except Gone:
                assert session.end() in (-signal.SIGSYS, -signal.SIGSEGV), number


def test_what_is_needed_works():
    with Helper() as helper:
        session = helper.spawn()
        buffer = session.do(driver.BUFFER, 64, 0)
        assert session.syscall(GETRANDOM, buffer, 32, 0) == 32
        assert session.syscall(GETTIME, 1, buffer) == 0
        assert session.syscall(POLL, 0, 0, 0) == 0
        assert session.syscall(SYSINFO, buffer) == -errno.ENOSYS
        assert session.syscall(MADVISE, buffer & ~4095, 4096, 0) == 0


# ---- arguments

def test_nothing_becomes_executable():
    cases = [(MMAP, 0, 4096, PROT_R | PROT_X, PRIVATE | ANONYMOUS, NONE, 0),
             (MMAP, 0, 4096, PROT_R | PROT_W | PROT_X, PRIVATE | ANONYMOUS, NONE, 0),
             (MMAP, 0, 4096, PROT_X, PRIVATE | ANONYMOUS, NONE, 0),
             (MMAP, 0, 4096, PROT_R | PROT_W | 0x10, PRIVATE | ANONYMOUS, NONE, 0)]
    cases += [(MPROTECT, "here", 4096, protection) for protection in
              (PROT_X, PROT_R | PROT_X, PROT_R | PROT_W | PROT_X, 0x01000000 | PROT_R, 8, 1 << 32)]
    with Helper() as helper:
        for call, *args in cases:
            session = helper.spawn()
            here = session.do(driver.BUFFER, 1, 0) & ~4095
            args = [here if value == "here" else value for value in args]
            assert dies(session, session.syscall, call, *args), (call, args)


def test_only_private_memory_and_the_status_page_are_mapped():
    refused = [(4096, PROT_R | PROT_W, SHARED | ANONYMOUS, NONE), (4096, PROT_R, PRIVATE, 0), (4096, PROT_R, SHARED, 0),
               (8192, PROT_R | PROT_W, SHARED | FIXED, 0), (4096, PROT_R, SHARED | FIXED, 0),
               (4096, PROT_R | PROT_W, PRIVATE | ANONYMOUS | GROWSDOWN, NONE),
               (2 << 20, PROT_R | PROT_W, PRIVATE | ANONYMOUS | HUGETLB, NONE)]
    with Helper() as helper:
        for size, protection, flags, fd in refused:
            session = helper.spawn()
            assert dies(session, session.syscall, MMAP, 0, size, protection, flags, fd, 0), (size, protection, flags)
        session = helper.spawn()
        assert session.syscall(MMAP, 0, 4096, PROT_R | PROT_W, PRIVATE | ANONYMOUS | NORESERVE, NONE, 0) > 0
        # What else looks like a status page is none of the descriptors that it has.
        here = session.syscall(MMAP, 0, 4096, PROT_R | PROT_W, PRIVATE | ANONYMOUS, NONE, 0)
        for fd in range(16):
            assert session.syscall(MMAP, here, 4096, PROT_R | PROT_W, SHARED | FIXED, fd, 0) < 0, fd


def test_the_image_stays_as_it_is():
    """The image's pages can't be made writable for others: neither where they are mapped shared, nor by a new map."""
    with Helper() as helper:
        session, other = helper.spawn(), helper.spawn()
        pid = session.outer_pid()
        try:
            with open("/proc/%d/maps" % pid) as file:
                lines = [line.split() for line in file]
        except PermissionError:
            skip("/proc/%d/maps can't be read by this user" % pid)
        shared = [line for line in lines if line[1].endswith("s") and line[-1].endswith("/image")]
        assert shared, lines
        for line in shared:
            start = int(line[0].split("-")[0], 16)
            assert line[1].startswith("r--"), line
            assert session.syscall(MPROTECT, start, 4096, PROT_R | PROT_W) == -errno.EACCES
        assert other.do(driver.ADD, 0) == 100


def test_processes_are_not_made():
    kill = [CLONE_VM | signal.SIGCHLD, signal.SIGCHLD, CLONE_PARENT | CLONE_VM, CLONE_PARENT | CLONE_PIDFD,
            CLONE_VM | CLONE_THREAD | 0x800, CLONE_PARENT | CLONE_NEWUSER, CLONE_PARENT | 1 << 40, CLONE_PARENT | 17]
    with Helper() as helper:
        for flags in kill:
            session = helper.spawn()
            assert dies(session, session.syscall, CLONE, flags), hex(flags)
        session = helper.spawn()
        assert dies(session, session.syscall, CLONE, CLONE_PARENT, 4096), "with a stack of its own"
        session = helper.spawn()
        assert session.syscall(CLONE, CLONE_PARENT) == -errno.EAGAIN
        assert session.do(driver.COPIES, 5, CLONE_PARENT) == -errno.EAGAIN


def test_what_it_may_copies_die_with_it():
    """Between PERMIT and ADOPT it can make more than one; none outlives it, none becomes a session."""
    for namespaces in 0, 1:
        with Helper(namespaces=namespaces, sessions_max=8) as helper:
            session, other = helper.spawn(), helper.spawn()
            helper.ask(driver.PERMIT, session.id)
            made = session.do(driver.COPIES, 4, CLONE_PARENT)
            assert made == 4 or os.getuid() != 0, made
            try:
                helper.ask(driver.ADOPT, helper.new_id(), parent=session.id, pid=0)
                raise AssertionError("pid 0 was adopted")
            except Refused:
                pass
            assert session.do(driver.COPIES, 1, CLONE_PARENT) == -errno.EAGAIN
            session.signal(signal.SIGKILL)
            # They have its control stream: it ends when the last one is dead.
            try:
                session.take(1)
                raise AssertionError("the stream goes on")
            except Gone:
                pass
            assert other.do(driver.ADD, 1) == 101


def test_prctl_and_handlers():
    with Helper() as helper:
        for args in (PRCTL, 15, 0), (PRCTL, 4, 1), (PRCTL, 22, 0), (PRCTL, 1, 0), (PRCTL, 1, 10), (SIGACTION, 11 + 1), \
                    (SIGACTION, 31), (SIGACTION, 2):
            session = helper.spawn()
            assert dies(session, session.syscall, *args), args


def test_nothing_of_another_session_is_reached():
    """By number: signals, memory, descriptors and limits of processes that exist."""
    with Helper() as helper:
        other = helper.spawn()
        for name, (number, *args) in {"kill": (62, other.pid, 9), "tgkill": (234, other.pid, other.pid, 9),
                             "ptrace": (101, 16, other.pid), "process_vm_readv": (310, other.pid, 0, 0, 0, 0),
                             "process_vm_writev": (311, other.pid, 0, 0, 0, 0), "pidfd_open": (434, other.pid),
                             "pidfd_getfd": (438, 3, 0), "prlimit64": (302, other.pid, 7, 0, 0),
                             "setpgid": (109, 0, other.pid), "kcmp": (312, other.pid, other.pid, 0)}.items():
            session = helper.spawn()
            assert dies(session, session.syscall, number, *args), name
        assert other.do(driver.ADD, 0) == 100


def test_few_descriptors():
    """A session has its control and its command stream, and none of the zygote's or of another session."""
    with Helper() as helper:
        helper.spawn()
        session = helper.spawn()
        copy = session.fork()
        for process in session, copy:
            answers = [process.syscall(LSEEK, fd, 0, 0) for fd in range(128)]
            assert [answer for answer in answers if answer != -errno.EBADF] == [-errno.ESPIPE] * 2, answers


# ---- limits

def test_memory_beyond_the_limit():
    with Helper(memory_max=16 << 20, snapshot_max=1 << 20, files_max=1 << 20) as helper:
        session = helper.spawn()
        # By the guest's own reservation, of 8 GiB.
        assert session.do(driver.GROW, 16 << 4) == 16
        assert session.do(driver.GROW, 1) == -1
        chunks = 0
        while session.syscall(MMAP, 0, 16 << 20, PROT_R | PROT_W, PRIVATE | ANONYMOUS, NONE, 0) > 0:
            chunks += 1
            assert chunks < 100, "no end of memory"


def test_a_state_as_large_as_it_likes():
    """What a session writes to the descriptor for its state is bounded."""
    with Helper(snapshot_max=1 << 20) as helper:
        session = helper.spawn()
        fd = driver.memfd()
        session.send_command(driver.SAVE, 1, [fd])
        session.reply(1)
        copy, fds = driver.Session.make(helper)
        for given in fds[:2]:
            os.close(given)
        os.close(fd)
        copy.forget()
        os.close(fds[2])
        # It can't keep the descriptor for later: it is closed when the answer is sent.
        for number in range(32):
            assert session.syscall(FTRUNCATE, number, 1 << 40) < 0, number


# ---- layers

def test_the_report():
    with Helper() as helper:
        for name in ("WebAssembly", "process", "user namespace", "mount namespace", "network namespace", "pid namespace",
                     "ipc namespace", "uts namespace", "cgroup namespace", "root", "ids", "capabilities", "no_new_privs",
                     "landlock", "seccomp", "rlimits", "pids", "cpu", "cpu time"):
            layer = helper.layers[name]
            assert layer["state"] in ("applied", "absent", "off") and layer["detail"], layer
        for name in "WebAssembly", "process", "capabilities", "no_new_privs", "seccomp", "rlimits", "pids":
            assert helper.layers[name]["state"] == "applied", name
        assert helper.layers["cpu time"]["state"] == "off"
    with Helper(namespaces=0, cpu_seconds=5) as helper:
        assert helper.layers["user namespace"]["state"] == helper.layers["root"]["state"] == "off"
        assert helper.layers["cpu time"]["state"] == "applied"


def status_of(session, pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_the_kernel_agrees_with_the_report():
    for namespaces in 0, 1:
        with Helper(namespaces=namespaces) as helper:
            session = helper.spawn()
            copy = session.fork()
            for pid in session.outer_pid(), copy.outer_pid():
                status = status_of(session, pid)
                assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
                assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0 or \
                    os.getuid() != 0
                assert int(status["CapEff"], 16) == int(status["CapInh"], 16) == 0
                if os.getuid() == 0:
                    assert status["Uid"].split() == ["65534"] * 4 and status["Groups"].split() == []
                if helper.layers["pid namespace"]["state"] == "applied":
                    assert len(status["NSpid"].split()) == len(status_of(None, os.getpid())["NSpid"].split()) + 1
                try:
                    roots = [os.stat("/proc/%d/root" % pid), os.stat("/proc/%d/ns/net" % pid)]
                    own = [os.stat("/proc/self/root"), os.stat("/proc/self/ns/net")]
                except PermissionError:
                    continue
                applied = helper.layers["root"]["state"] == "applied"
                assert [a.st_ino == b.st_ino and a.st_dev == b.st_dev for a, b in zip(roots, own)] == [not applied] * 2
                if applied:
                    assert os.listdir("/proc/%d/root/" % pid) == []


def unprivileged(*command):
    """The words that make a command run as an ordinary user."""
    return [sys.executable, "-c", "import os, sys; os.setgroups([]) if os.getuid() == 0 else 0\n"
            "if os.getuid() == 0: os.setresgid(1000, 1000, 1000); os.setresuid(1000, 1000, 1000)\n"
            "os.execv(sys.argv[1], sys.argv[1:])", *command]


def test_as_an_ordinary_user():
    """Without any privilege of the server's, with and without namespaces."""
    if os.getuid() != 0:
        skip("every test of this file is that one: it runs as uid %d" % os.getuid())
    for path in driver.HELPER, driver.ROGUE:
        places = [path] + [os.path.dirname(path[:end + 1]) for end, letter in enumerate(path) if letter == "/"]
        closed = [place for place in places[1:] if place and not os.stat(place).st_mode & 0o001]
        if closed or not os.stat(path).st_mode & 0o004:
            skip("another user can't reach %s" % (closed + [path])[0])
    for namespaces in 0, 1:
        with Helper(namespaces=namespaces, drop=0, prefix=unprivileged()) as helper:
            session = helper.spawn()
            copy = session.fork()
            assert copy.do(driver.ADD, 1) == 101
            assert helper.spawn(copy.save()).do(driver.ADD, 1) == 102
            assert status_of(None, session.outer_pid())["Uid"].split() == ["1000"] * 4
            assert helper.layers["ids"]["state"] == "absent"
            assert dies(session, session.syscall, 41, 1, 1, 0)  # socket


def powerless_root():
    """The words that make a command run as root without a capability, as in a container that drops them all."""
    return [sys.executable, "-c", "import ctypes, os, sys\n"
            "libc = ctypes.CDLL(None)\n"
            "for number in range(64): libc.prctl(24, number, 0, 0, 0)\n"
            "os.execv(sys.argv[1], sys.argv[1:])"]


def test_as_root_without_rights():
    if os.getuid() != 0:
        skip("needs root")
    with Helper(prefix=powerless_root()) as helper:
        session = helper.spawn()
        assert helper.layers["ids"]["state"] == "absent" and "CAP_SETUID" in helper.layers["ids"]["detail"]
        status = status_of(None, session.outer_pid())
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0
        # The kernel counts no processes of root: the report knows it, and the copies die with the session.
        made = session.do(driver.COPIES, 3, CLONE_PARENT)
        assert (made == -errno.EAGAIN) == (helper.layers["pids"]["state"] == "applied"), (made, helper.layers["pids"])
        assert session.fork().do(driver.ADD, 1) == 101
        session.signal(signal.SIGKILL)
        try:
            session.take(1)
            raise AssertionError("the stream goes on")
        except Gone:
            pass
        session = helper.spawn()
        assert dies(session, session.syscall, 41, 1, 1, 0)  # socket
        session = helper.spawn()
        assert dies(session, session.syscall, 2, session.text("/etc/shadow"), 0)  # open
    helper = Helper(prefix=powerless_root(), namespaces=2, wait=False)
    try:
        helper.await_ready()
        raise AssertionError("it came up")
    except Refused as failure:
        assert failure.code == -errno.EOPNOTSUPP and "CAP_SETUID" in failure.text + failure.hint, failure
    assert helper.close() == 1


def test_without_room():
    """What the user's limits do not let it have is told with what to raise."""
    words = [sys.executable, "-c", "import os, resource, sys\n"
             "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); os.execv(sys.argv[1], sys.argv[1:])"]
    helper = Helper(prefix=words, wait=False)
    try:
        helper.await_ready()
        raise AssertionError("it came up")
    except Refused as failure:
        assert failure.code == -errno.ENOMEM and "ulimit -v" in failure.hint, failure
    assert helper.close() == 1


def no_namespaces():
    """The words that make a command run where no namespace can be had, as in most containers: a filter says so."""
    program = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
# clone with a namespace's flag, or unshare: EPERM
rules = [(0x20, 0, 0, 0), (0x15, 0, 3, 56), (0x20, 0, 0, 16), (0x45, 0, 1, 0x7e020000), (0x06, 0, 0, 0x00050001),
         (0x20, 0, 0, 0), (0x15, 0, 1, 272), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
memory = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(rules), ctypes.addressof(memory)))) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""
    return [sys.executable, "-c", program]


def test_where_no_namespaces_can_be_had():
    with Helper(prefix=no_namespaces()) as helper:
        for name in "user namespace", "mount namespace", "network namespace", "root":
            assert helper.layers[name]["state"] == "absent", helper.layers[name]
        assert "ermitted" in helper.layers["user namespace"]["detail"], helper.layers["user namespace"]
        session = helper.spawn()
        assert session.fork().do(driver.ADD, 1) == 101
        assert dies(session, session.syscall, 41, 1, 1, 0)
    helper = Helper(prefix=no_namespaces(), namespaces=2, wait=False)
    try:
        helper.await_ready()
        raise AssertionError("it came up")
    except Refused as failure:
        assert failure.code == -errno.EOPNOTSUPP and "namespaces" in failure.text and failure.hint, failure
    assert helper.close() == 1


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("1..0 # SKIP the numbers of calls are those of x86-64")
        sys.exit(0)
    main()
