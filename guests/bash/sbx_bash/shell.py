# SPDX-License-Identifier: Apache-2.0
"""The shell of a session: started once, given one piece of code after another, interrupted without losing anything."""

import os
import re
import signal
from fcntl import F_DUPFD_CLOEXEC, fcntl
from select import POLLIN, poll
from time import monotonic

from . import prelude, processes
from .rest import Rest, descriptors, quote

_CHUNK = 65536
_LOOK_SECONDS = 0.5  # between looks whether the shell is still there
_ROUND_SECONDS = 0.03  # between signals of an interrupt
_SETTLE_SECONDS = 0.2
_ROUNDS_GENTLE = 2  # signals that well-behaved programs get before they are killed
_HIGH = 100
_ERRORS_MAX = 64 << 10
_START_SECONDS = 60
_VERSION_MIN = (4, 4)
_PAGE_PATH = f"/proc/self/fd/{prelude.PAGE}"
# Of two records the first may have been cut off by an interrupt.
_STATE = b"#sbx"
_RECORD = re.compile(rb"\0\0([0-9]+)\0((?:[^\0]+\0)+)\0\.\0")
BASH = "bash"
_CALL_FDS = (prelude.REQUEST, prelude.ANSWER, prelude.TEXT, prelude.TOKEN_READ, prelude.TOKEN_WRITE)


class Gone(Exception):
    """The shell ended, and with it the session's variables. ``code``: as the shell would tell it."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Unusable(Exception):
    """There is no shell that could serve."""


def find_bash():
    """Path of the shell."""
    for directory in [*os.environ.get("PATH", "").split(":"), "/bin", "/usr/bin", "/usr/local/bin"]:
        path = f"{directory}/{BASH}"
        if directory.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise Unusable("there is no bash here: install the package bash, or choose an image that has it")


def move_high(fd):
    """A close-on-exec duplicate beyond the numbers that the shell gets; ``fd`` itself is closed."""
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(fd)


def pipe():
    """Both ends of a pipe, where programs do not stumble on them: to read, to write."""
    reader, writer = os.pipe()
    return move_high(reader), move_high(writer)


class Page:
    """A file without a name, for the shell to read through /proc."""

    def __init__(self):
        self.fd = move_high(self._open())

    @staticmethod
    def _open():
        try:
            return os.memfd_create("sbx-bash", os.MFD_CLOEXEC)
        except OSError:  # where nothing counts the memory of such files they are not allowed
            return os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def put(self, *parts):
        """Replaces the content."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        view = memoryview(b"".join(parts))
        at = 0
        while at < len(view):
            at += os.pwrite(self.fd, view[at:], at)

    def left(self):
        """What was written through the shell's own descriptor since the last put()."""
        return os.pread(self.fd, os.lseek(self.fd, 0, os.SEEK_CUR), 0)


class Record:
    """What the shell says after an execution."""

    def __init__(self, fields):
        told = {field[:1]: field[1:] for field in fields}
        self.status = int(told[b"s"])
        self.began = told[b"r"] != b""
        self.line = told[b"l"].decode("utf-8", "replace")
        self.command = told[b"c"].decode("utf-8", "replace")
        self.errexit = told[b"e"] != b""
        self.names = told[b"n"].decode("utf-8", "replace").split()
        self.result = told.get(b"v", b"")
        self.shown = [field[1:] for field in fields if field[:1] == b"b"]


class Shell:
    """One bash. ``interrupts`` tells of SIGINT; ``calls`` answers the tool calls of the code."""

    def __init__(self, interrupts, calls):
        self._interrupts = interrupts
        self._calls = calls
        self._said = b""
        self.errors = bytearray()
        self._attempt = 0
        self._page = Page()
        self.status = 0
        self._start()
        self.started = self.tell_rest()
        self.known = frozenset(self.last_names)

    def _start(self):
        self.last_names = ()
        self._done_fd, done = pipe()
        self._errors_fd, errors = pipe()
        script, self._script_fd = pipe()
        os.set_blocking(self._errors_fd, False)
        try:
            self.pid = self._spawn(script, done, errors)
        finally:
            for fd in (script, done, errors):
                os.close(fd)
        self._waiter = poll()
        for fd in (self._done_fd, self._errors_fd, self._interrupts.wakeup_fd, self._calls.request_fd):
            self._waiter.register(fd, POLLIN)
        self.version = self._greet()
        self.own_fds = frozenset(descriptors(self.pid))
        self.errexit = False

    def _revive(self, gone):
        """Another shell that goes on with what the one that ended left. Raises ``gone`` where it left nothing."""
        state = self._page.left()
        if not (state.startswith(_STATE) and state.endswith(_STATE)):
            raise gone
        self._drop()
        self._start()
        self._page.put(state)
        return self._go(f"builtin . {_PAGE_PATH} >/dev/null 2>&1")

    def _spawn(self, script, done, errors):
        dup = os.POSIX_SPAWN_DUP2
        null = move_high(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))
        actions = [(dup, 1, prelude.OUT), (dup, 2, prelude.ERR), (dup, self._page.fd, prelude.PAGE)]
        actions += [(dup, done, prelude.DONE), (dup, errors, prelude.ERRORS)]
        actions += [(dup, fd, number) for fd, number in zip(self._calls.shell_fds(), _CALL_FDS)]
        actions += [(dup, script, 0), (dup, null, 1), (dup, null, 2)]
        # What Python ignores, and what whoever started the worker did: the shell's programs have the usual signals.
        usual = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP]
        try:
            return os.posix_spawn(
                find_bash(),
                ["bash", "--noprofile", "--norc", "--noediting", "-i"],
                {**os.environ, "HISTFILE": "", "PS1": ""},
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=usual,
            )
        finally:
            os.close(null)

    def _greet(self):
        """The version, once the shell knows the prelude."""
        self._page.put(prelude.text())
        self._say(f"builtin . {_PAGE_PATH}; builtin printf '%s\\n' \"$BASH_VERSION\" >&{prelude.DONE}")
        deadline = monotonic() + _START_SECONDS
        while not self._said.endswith(b"\n") and monotonic() < deadline:
            self._listen(_LOOK_SECONDS, answering=False)
        version = self._said.decode("ascii", "replace").partition("(")[0].strip()
        self._said = b""
        numbers = [int(part) if part.isdecimal() else 0 for part in version.split(".")]
        if tuple(numbers) < _VERSION_MIN:
            raise Unusable(f"bash {version or '(silent)'} is too old: 4.4 or later is needed")
        return version

    def _say(self, line):
        """A line for the shell's prompt."""
        data = line.encode("ascii") + b"\n"
        try:
            os.write(self._script_fd, data)  # far less than a pipe takes at once
        except BrokenPipeError:
            raise self._end() from None

    def _ask(self, before=""):
        self._attempt += 1
        self._say(f'{before}__sbx_done {self._attempt} "$?"')

    # ---- running ----

    def run(self, source, tools=False):
        """Runs the user's code: the Record. What it writes goes to the driver's fds 1 and 2."""
        closed = (prelude.OUT, prelude.ERR, prelude.ERRORS) + (() if tools else _CALL_FDS)
        closing = "".join(f" {fd}>&-" for fd in closed)
        # A group, so that it is read whole before any of it runs, and that an error of expansion (an unset variable
        # under `set -u`) ends all of it. The last redirection also notes that it began.
        begin = b"{ builtin set -e;" if self.errexit else b"{ "
        end = f"\n\n}} 2>&{prelude.ERR}{closing} {prelude.DONE}>&${{__sbx_ran:=-}}\n"
        self._page.put(begin, source, end.encode("ascii"))
        self._calls.begin(tools)
        try:
            return self._go(f"\\builtin . {_PAGE_PATH} </dev/null >&{prelude.OUT} 2>&{prelude.ERRORS}")
        except Gone as gone:
            return self._revive(gone)

    def run_own(self, script=b""):
        """The same for a script of the driver's, whose output nobody sees; the Record's `line` is "1" on success."""
        begin = b"{ :\n__sbx_status=%d\n{ :\n" % self.status
        end = f"\n}} && __sbx_line=1\n}} {prelude.DONE}>&${{__sbx_ran:=-}}\n"
        self._page.put(begin, script, end.encode("ascii"))
        errexit = self.errexit  # which is off between executions
        record = self._go(f"\\builtin . {_PAGE_PATH} </dev/null >/dev/null 2>&{prelude.ERRORS}")
        self.errexit = errexit
        return record

    def show(self, names):
        """What `declare -p` says of the variables, each with a line of ours before it."""
        return self.run_own("__sbx_shown=({})".format(" ".join(names)).encode("ascii")).shown

    def _fields(self, script):
        """What a script of the driver's writes into the page, field by field."""
        self.run_own(script)
        return self._page.left().partition(b"\0\0")[0].split(b"\0")

    def tell_rest(self):
        """All but the text of variables and functions, for a portable state. Functions see no trap for DEBUG."""
        own = '\\builtin printf t; \\builtin trap -p; \\builtin printf "\\0"; \\__sbx_rest "$@"'
        return Rest(self._fields(f"{{ {own}; }} >&{prelude.PAGE}\n".encode("ascii")))

    def tell_items(self, names, functions):
        """[(kind, name, text that makes it)] of variables ("v") and functions ("f") that are there."""
        found = []
        for kind, how, wanted in (("v", b"-p", names), ("f", b"-f", functions)):
            if not wanted:
                continue
            words = b" ".join(quote(name) for name in wanted)
            for field in self._fields(b"\\__sbx_items %b %b >&%d\n" % (how, words, prelude.PAGE)):
                name, _space, text = field.partition(b" ")
                if text:
                    found.append((kind, name, text))
        return found

    def is_array(self, name):
        """Does a variable of that name hold more than one value?"""
        shown = self.show([name])
        return bool(shown) and re.match(rb"[^\n]*\ndeclare -[a-z]*[aA]", shown[0]) is not None

    def _go(self, line):
        self.errors.clear()
        first = self._attempt + 1
        self._ask(line + "\n")
        record = self._wait(first)
        self._hear_errors()
        self.errexit = record.errexit
        self.status = record.status
        self.last_names = record.names
        return record

    def _wait(self, first):
        """The first whole Record of an attempt from ``first`` on."""
        rounds, at = 0, None
        while True:
            record = self._parse(first)
            if record is not None:
                if rounds > 0:
                    self._settle()
                return record
            if self._interrupts.fired and (at is None or monotonic() >= at):
                self._listen(0, answering=False)
                if self._said:
                    continue
                self._press(rounds)
                rounds += 1
                at = monotonic() + _ROUND_SECONDS
            seconds = _LOOK_SECONDS if at is None else max(at - monotonic(), 0)
            self._listen(seconds, answering=at is None)

    def _press(self, rounds):
        """One more signal of an interrupt."""
        # A trap of the code's for SIGINT would run each time that it comes. The shell comes first: it unwinds when it
        # has had the signal by the time that its program dies of it.
        stop = rounds >= _ROUNDS_GENTLE and rounds % 2 == 0
        processes.send((self.pid,), prelude.STOP_SIGNAL if stop else signal.SIGINT)
        processes.send(processes.others(self.pid), signal.SIGINT if rounds < _ROUNDS_GENTLE else signal.SIGKILL)
        if rounds >= _ROUNDS_GENTLE:
            processes.send((self.pid,), signal.SIGCONT)
        if rounds > 0:
            self._ask()  # the line that was there may have been swallowed with what was unwound

    def _settle(self):
        """After the last signal: ends the other processes, and waits until the shell reads whole lines again."""
        while True:
            processes.kill_others(self.pid)
            first = self._attempt + 1
            self._ask("\n")
            deadline = monotonic() + _SETTLE_SECONDS
            while monotonic() < deadline:
                if self._parse(first) is not None:
                    return
                self._listen(_ROUND_SECONDS, answering=False)

    # ---- listening ----

    def _listen(self, seconds, answering):
        """Waits for what comes, and takes it. Raises Gone when the shell ended."""
        ready = self._waiter.poll(seconds * 1000)
        for fd, _event in ready:
            if fd == self._done_fd:
                self._hear()
            elif fd == self._interrupts.wakeup_fd:
                self._interrupts.drain()
            elif fd == self._errors_fd:
                self._hear_errors()
            else:
                self._calls.take(answering)
        if not ready:
            self._look()

    def _hear(self):
        data = os.read(self._done_fd, _CHUNK)
        if not data:
            raise self._end()
        self._said += data

    def _look(self):
        """Has the shell ended, while something else holds its end of the pipe?"""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise self._end()

    def _end(self):
        _pid, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.pid = None
        return Gone(code if code >= 0 else 128 - code)

    def _hear_errors(self):
        while True:
            try:
                data = os.read(self._errors_fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            self.errors += data[: max(_ERRORS_MAX - len(self.errors), 0)]

    def _parse(self, first):
        """The Record of an attempt from ``first`` on, if there is one."""
        if not self._said.endswith(b"\n"):
            return None
        told, self._said = self._said.split(), b""
        if int(told[-1]) < first:
            return None
        for match in _RECORD.finditer(self._page.left()):
            if int(match.group(1)) >= first:
                return Record(match.group(2)[:-1].split(b"\0"))
        return None

    def close(self):
        """Ends the shell and all that it started."""
        if self.pid is not None:
            # The shell last, and standing still: what it started would be nobody's that we know.
            processes.send((self.pid,), signal.SIGSTOP)
            processes.kill_others(self.pid)
            processes.send((self.pid,), signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None
        processes.kill_others(None)
        processes.bury(None)
        self._drop()
        os.close(self._page.fd)

    def _drop(self):
        for fd in (self._done_fd, self._errors_fd, self._script_fd):
            os.close(fd)
        self._said = b""
