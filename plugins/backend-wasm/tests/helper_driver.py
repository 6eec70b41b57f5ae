# SPDX-License-Identifier: Apache-2.0
"""Drives the helper program sbx-wasm as the plugin does (helper/protocol.h), with the rogue guest (rogue_guest.h) or any
other code and image. Standard library only; everything that waits has a limit."""
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

LIMIT_S = 180  # for what takes milliseconds, on a machine that is very busy

HELPER = os.environ.get("SBX_WASM", "")
ROGUE = os.environ.get("SBX_WASM_ROGUE", "")
EXPAND = os.environ.get("SBX_WASM_EXPAND", "")

SPAWN, RELEASE, STATUS, PERMIT, ADOPT = 1, 2, 3, 4, 5
READY, SPAWNED, FAILED, EXITED, PERMITTED = 16, 17, 18, 19, 20
FORK, SAVE, REPLY = 1, 2, 16
UNKNOWN = -(1 << 31)
EXIT_SETUP, EXIT_TRAP = 125, 128

CONFIG = struct.Struct("=IIIIIIQQIIQII")
ZYGOTE = struct.Struct("=IiQQQiI512s256s")
COMMAND = struct.Struct("=IiQQiI256s")
STATUS_PAGE = struct.Struct("=QQQQIIII")
ROGUE_COMMAND = struct.Struct("=QQ6Q")

(ADD, RESUMED, TRAP, EXIT, SPIN, SLEEP, GROW, FILL, PRINT, BUFFER, TEXT, SYSCALL, INT80, COPIES, PEEK) = range(15)

PAGE = 4096
MASK = (1 << 64) - 1


class Gone(Exception):
    """The other end has closed the stream."""


class Refused(Exception):
    """The zygote or a session said no."""

    def __init__(self, code, text, hint=""):
        super().__init__("%d: %s" % (code, text))
        self.code, self.text, self.hint = code, text, hint


def readable(fd, limit_s):
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(limit_s * 1000))


def text_of(data):
    return data.split(b"\0", 1)[0].decode()


def memfd(data=b"", name="test"):
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def receive(sock, size):
    sock.settimeout(LIMIT_S)
    try:
        data, fds, _, _ = socket.recv_fds(sock, size, 8)
    except ConnectionResetError:
        raise Gone() from None
    if not data:
        raise Gone()
    return data, fds


def make_image(directory, code=None, module=b"\0asm\1\0\0\0"):
    """Bakes an image of `code`; returns the path of its expanded form."""
    path = lambda name: os.path.join(directory, name)
    os.makedirs(path("tree/usr/lib/sbx"), exist_ok=True)
    for name, content in (("module.wasm", module), ("manifest.json", b'{"name": "rogue"}'), ("tree/usr/lib/sbx/x", b"x")):
        with open(path(name), "wb") as file:
            file.write(content)
    subprocess.run([HELPER, "bake", "--code", code or ROGUE, "--module", path("module.wasm"), "--tree", path("tree"),
                    "--manifest", path("manifest.json"), "--out", path("packed")], check=True, timeout=LIMIT_S)
    subprocess.run([EXPAND, path("packed"), path("image")], check=True, timeout=LIMIT_S)
    return path("image")


_image = None


def rogue_image():
    global _image
    if _image is None:
        directory = tempfile.TemporaryDirectory(prefix="sbx-wasm-test-")
        _image = (make_image(directory.name), directory)
    return _image[0]


class Helper:
    """A helper process: its zygote and what it says."""

    def __init__(self, image=None, code=None, *, namespaces=1, drop=None, sessions_max=64, memory_max=64 << 20,
                 files_max=4 << 20, snapshot_max=32 << 20, cpu_seconds=0, config=None, image_flags=os.O_RDONLY,
                 prefix=(), wait=True):
        drop = os.getuid() == 0 if drop is None else drop
        if config is None:
            config = CONFIG.pack(CONFIG.size, drop, 65534, 65534, namespaces, sessions_max, memory_max, files_max, 1000,
                                 64, snapshot_max, cpu_seconds, 0)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = [theirs.detach(), os.open(image or rogue_image(), image_flags | os.O_CLOEXEC),
                 os.open(code or ROGUE, os.O_RDONLY | os.O_CLOEXEC), memfd(config)]
        self.sessions, self.next_id, self.layers = [], 0, None
        self.start(given, list(prefix))
        if wait:
            self.await_ready()

    def start(self, given, prefix):
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in given]
        for fd in given:
            os.close(fd)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        actions = [(os.POSIX_SPAWN_DUP2, null, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, 3 + i) for i, fd in enumerate(high)]
        arguments = prefix + [HELPER, "zygote"]
        self.pid = os.posix_spawnp(arguments[0], arguments, os.environ if prefix else {}, file_actions=actions,
                                   setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
        self.pidfd = os.pidfd_open(self.pid)
        for fd in high + [null]:
            os.close(fd)

    def answer(self):
        data, fds = receive(self.socket, ZYGOTE.size + 1)
        kind, code, id, parent, cpu_ns, pid, _, text, hint = ZYGOTE.unpack(data)
        if kind == FAILED:
            raise Refused(code, text_of(text), text_of(hint))
        return {"type": kind, "code": code, "id": id, "pid": pid, "cpu_ns": cpu_ns, "fds": fds}

    def await_ready(self):
        answer = self.answer()
        assert answer["type"] == READY, answer
        with os.fdopen(answer["fds"][0], "rb") as file:
            self.layers = {layer["name"]: layer for layer in json.loads(os.pread(file.fileno(), 1 << 16, 0))}

    def send(self, kind, id, fds=(), parent=0, pid=0):
        socket.send_fds(self.socket, [ZYGOTE.pack(kind, 0, id, parent, 0, pid, 0, b"", b"")], list(fds))

    def ask(self, kind, id, fds=(), **members):
        self.send(kind, id, fds, **members)
        answer = self.answer()
        assert answer["id"] == id, answer
        return answer

    def new_id(self):
        self.next_id += 1
        return self.next_id

    def spawn(self, state=None, memory_max=0):
        """A session; `state`: the bytes that one saved."""
        session, fds = Session.make(self, memory_max)
        if state is not None:
            fds.append(memfd(state))
        try:
            answer = self.ask(SPAWN, session.id, fds)
        finally:
            for fd in fds:
                os.close(fd)
        session.pid, session.pidfd = answer["pid"], answer["fds"][0]
        self.sessions.append(session)
        if state is not None:
            session.reply(session.id)
        return session

    def status(self, session):
        return self.ask(STATUS, session.id)

    def wait_end(self):
        """Until the process that was started is dead; its exit status."""
        if not readable(self.pidfd, LIMIT_S):
            raise AssertionError("the helper does not end")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self):
        """Ends the helper, and with it all sessions."""
        self.socket.close()
        code = self.wait_end()
        os.close(self.pidfd)
        for session in self.sessions:
            session.await_death()
            session.forget()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


class Session:
    @classmethod
    def make(cls, helper, memory_max=0):
        """A session that is not there yet, and the descriptors to hand over."""
        self = cls()
        self.helper, self.id, self.pid, self.pidfd = helper, helper.new_id(), 0, -1
        self.control, control = socket.socketpair()
        self.command, command = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        status = memfd(STATUS_PAGE.pack(memory_max, *[0] * 7).ljust(PAGE, b"\0"), "status")
        self.page = mmap.mmap(status, PAGE)
        self.frames = []
        return self, [control.detach(), command.detach(), status]

    def forget(self):
        self.control.close()
        self.command.close()
        self.page.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    # ---- the guest protocol, as the rogue guest has it

    def take(self, size):
        data = b""
        self.control.settimeout(LIMIT_S)
        while len(data) < size:
            try:
                part = self.control.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Gone()
            data += part
        return data

    def send_rogue(self, op, *args, number=0):
        words = [value & MASK for value in args] + [0] * (6 - len(args))
        self.control.sendall(ROGUE_COMMAND.pack(op, number & MASK, *words))

    def answer(self):
        return struct.unpack("=q", self.take(8))[0]

    def do(self, op, *args, number=0):
        """One command; the guest's answer. Gone: it died of it."""
        try:
            self.send_rogue(op, *args, number=number)
        except BrokenPipeError:
            raise Gone() from None
        return self.answer()

    def syscall(self, number, *args):
        return self.do(SYSCALL, *args, number=number)

    def text(self, data):
        return self.do(TEXT, *struct.unpack("=6Q", data.encode().ljust(48, b"\0")))

    # ---- commands

    def send_command(self, kind, id, fds=()):
        socket.send_fds(self.command, [COMMAND.pack(kind, 0, id, 0, 0, 0, b"")], list(fds))

    def reply(self, id):
        data, fds = receive(self.command, COMMAND.size + 1)
        for fd in fds:
            os.close(fd)
        kind, code, reply_id, size, pid, _, text = COMMAND.unpack(data)
        assert (kind, reply_id) == (REPLY, id), (kind, reply_id, id)
        if code != 0:
            raise Refused(code, text_of(text))
        return size, pid

    def clone(self):
        """COMMAND_FORK alone: a copy that is not adopted, and its pid."""
        copy, fds = Session.make(self.helper)
        self.send_command(FORK, copy.id, fds)
        for fd in fds:
            os.close(fd)
        return copy, self.reply(copy.id)[1]

    def fork(self):
        self.helper.ask(PERMIT, self.id)
        copy, pid = self.clone()
        answer = self.helper.ask(ADOPT, copy.id, parent=self.id, pid=pid)
        copy.pid, copy.pidfd = answer["pid"], answer["fds"][0]
        self.helper.sessions.append(copy)
        return copy

    def save(self):
        fd = memfd()
        try:
            self.send_command(SAVE, 1, [fd])
            size, _ = self.reply(1)
            assert os.fstat(fd).st_size == size
            return os.pread(fd, size, 0)
        finally:
            os.close(fd)

    # ---- from outside

    def usage(self):
        names = ("memory_max", "memory", "files", "files_peak", "memory_refused", "trap", "exit_code", "executing")
        return dict(zip(names, STATUS_PAGE.unpack(self.page[:STATUS_PAGE.size])))

    def outer_pid(self):
        """As this process sees it."""
        with open("/proc/self/fdinfo/%d" % self.pidfd) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))

    def signal(self, number):
        signal.pidfd_send_signal(self.pidfd, number)

    def alive(self):
        return not readable(self.pidfd, 0)

    def await_death(self):
        if self.pidfd >= 0 and not readable(self.pidfd, LIMIT_S):
            raise AssertionError("session %d does not die" % self.id)

    def end(self):
        """How it ended, once it is dead."""
        self.await_death()
        return self.helper.status(self)["code"]

    def await_executing(self):
        for _ in range(LIMIT_S * 1000):
            if self.usage()["executing"] == 1:
                return
            time.sleep(0.001)
        raise AssertionError("it does not execute")
