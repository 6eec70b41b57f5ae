# SPDX-License-Identifier: Apache-2.0
"""What Python code may look for and does not find in WebAssembly: every error says so, and what to do.

What is missing stays missing, so that code that asks before (`hasattr`, `try: import`, `find_spec`) takes its other way.
"""

import errno
import os
import sys

# By the module that can't be had.
_MODULES = {
    "_ctypes": "native libraries are",
    "_curses": "terminals are",
    "_multiprocessing": "processes are",
    "_posixshmem": "shared memory is",
    "_posixsubprocess": "processes are",
    "_ssl": "TLS is",
    "_tkinter": "windows are",
    "fcntl": "control of descriptors is",
    "grp": "groups are",
    "mmap": "mapped files are",
    "pwd": "users are",
    "readline": "terminals are",
    "resource": "limits of processes are",
    "spwd": "users are",
    "syslog": "logs of the system are",
    "termios": "terminals are",
    "tkinter": "windows are",
}
_PROCESSES = (
    "P_ALL P_NOWAIT P_NOWAITO P_PGID P_PID P_WAIT WEXITED WNOHANG WNOWAIT WUNTRACED execl execle execlp execlpe execv "
    "execve execvp execvpe fork forkpty getpgid getpgrp getppid getsid kill killpg nice pidfd_open posix_spawn "
    "posix_spawnp sched_getaffinity setpgid setsid spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe system "
    "wait wait3 wait4 waitid waitpid waitstatus_to_exitcode"
)
_USERS = "getegid geteuid getgid getgroups getlogin getuid setegid seteuid setgid setgroups setuid"
# Names that these modules have elsewhere.
_NAMES = {
    "os": {
        "processes are": _PROCESSES,
        "pipes, devices and copies of descriptors are": "dup2 eventfd memfd_create mkfifo mknod openpty pipe pipe2 sendfile splice",
        "users and groups are": _USERS,
        "permissions of files are": "chown fchmod fchown lchown umask",
        "mounted file systems are": "fstatvfs statvfs sync",
        "terminals are": "ctermid get_terminal_size tcgetpgrp ttyname",
    },
    "signal": {
        "timers of processes are": "ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL alarm getitimer setitimer",
        "masks of signals are": "SIG_BLOCK SIG_SETMASK SIG_UNBLOCK pause pthread_kill pthread_sigmask sigpending sigwait",
    },
    "socket": {"sockets are": "AF_UNIX gethostbyaddr gethostbyname gethostname getnameinfo if_nameindex socketpair"},
}


def text(what):
    """What is told of something that is not here; ``what`` ends in "is" or "are"."""
    return f"{what} not in the WebAssembly sandbox; use the local or docker backend"


class Finder:
    """The last one that the import system asks: nobody else has found the module."""

    @staticmethod
    def find_spec(name, path=None, _target=None):
        """Raises where it knows why."""
        what = _MODULES.get(name)
        if what is not None:
            raise ModuleNotFoundError(f"No module named {name!r}: {text(what)}", name=name)
        native = _native_file(name.rpartition(".")[2], sys.path if path is None else path)
        if native is not None:
            # No ModuleNotFoundError: `from . import name` would take it for a missing attribute.
            raise ImportError(f"{native} is native code; {text('native wheels are')}", name=name, path=native)


def _native_file(name, directories):
    """An extension module of that name, which was built for processes."""
    for directory in directories:
        try:
            files = os.listdir(directory or ".")
        except (OSError, TypeError):
            continue
        for file in files:
            if file.startswith(name + ".") and file.endswith((".so", ".pyd")):
                return os.path.join(directory, file)
    return None


def hint(error):
    """What to add to an error that ended the user's code, or None."""
    if not isinstance(error, ModuleNotFoundError) or type(error.name) is not str:
        return None
    name = error.name.partition(".")[0]
    if name in sys.stdlib_module_names or name in sys.modules or not name:
        return None
    return (
        f"{name} is not in this image; packages of pure Python can be baked into one (snipara-sandbox image build "
        f"--with {name}), {text('those with native code are')}"
    )


def refuse(what, kind=OSError):
    """A function that fails."""

    def refused(*_arguments, **_options):
        raise kind(errno.ENOTSUP, text(what)) if kind is OSError else kind(text(what))

    return refused


def _explain_names(module, groups):
    known = {name: what for what, names in groups.items() for name in names.split()}
    for name in known:
        module.__dict__.pop(name, None)  # functions of os.py that call what is missing
    listed = getattr(module, "__all__", None)
    if listed is not None:
        listed[:] = [name for name in listed if name not in known]

    def missing(name):
        what = known.get(name)
        reason = "" if what is None else f": {text(what)}"
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}{reason}", name=name, obj=module)

    module.__getattr__ = missing


def _explain_sockets():
    import http.client
    import socket

    socket.socket.__init__ = refuse("sockets are")
    socket.getaddrinfo = refuse("sockets are")
    if not hasattr(http.client, "HTTPSConnection"):  # without it, urllib knows no https at all
        http.client.HTTPSConnection = type(
            "HTTPSConnection", (http.client.HTTPConnection,), {"__init__": refuse("TLS and sockets are")}
        )


def _explain_threads():
    import _thread
    import threading

    refused = refuse("threads are", RuntimeError)
    _thread.start_new_thread = _thread.start_new = threading._start_new_thread = refused  # noqa: SLF001


def _explain_processes():
    import subprocess

    subprocess.Popen.__init__ = refuse("processes are")


def install():
    """Makes this the way in which modules fail. Once; code that runs later finds it so."""
    if any(finder is Finder for finder in sys.meta_path):
        return
    sys.meta_path.append(Finder)
    _explain_sockets()
    _explain_threads()
    _explain_processes()
    for name, groups in _NAMES.items():
        _explain_names(__import__(name), groups)
