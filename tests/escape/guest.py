# SPDX-License-Identifier: Apache-2.0
# Put before the code of each attempt; runs in the jail, under any Python from 3.9 on.
import ctypes
import errno
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def held(text):
    print("HELD", text, flush=True)


def escaped(text):
    print("ESCAPED", text, flush=True)


def name_of(error):
    return errno.errorcode.get(error, str(error))


def syscall(number, *arguments):
    """(result, errno) of a raw system call."""
    ctypes.set_errno(0)
    values = [ctypes.c_ulong(a & 0xFFFFFFFFFFFFFFFF) if isinstance(a, int) else a for a in arguments]
    return libc.syscall(ctypes.c_long(number), *values), ctypes.get_errno()


def refused(what, number, *arguments, errors=REFUSED):
    """The call must fail with one of `errors`. Any other error means that it came as far as the kernel's own code."""
    result, error = syscall(number, *arguments)
    if result == -1 and error in errors:
        held("%s: %s" % (what, name_of(error)))
    else:
        escaped("%s: result %d, %s" % (what, result, name_of(error) if result == -1 else "no error"))
    return result


def must_fail(what, function, *arguments, errors=None):
    """A Python call must raise OSError (of `errors`, if given). Answers whether it did."""
    try:
        got = function(*arguments)
    except OSError as e:
        if errors is None or e.errno in errors:
            held("%s: %s" % (what, name_of(e.errno)))
            return True
        escaped("%s: %s" % (what, name_of(e.errno)))
        return False
    escaped("%s: %.200r" % (what, got))
    return False


def is_masked(path):
    """Is there /dev/null in its place?"""
    try:
        return os.stat(path).st_rdev == os.makedev(1, 3)
    except OSError:
        return False


def visible_pids():
    """Processes that /proc shows."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def in_child(function):
    """Runs it in a forked child; answers the wait status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            function()
            sys.stdout.flush()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]
