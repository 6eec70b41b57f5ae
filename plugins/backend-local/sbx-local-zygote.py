# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports what sessions need, and becomes each new guest. It never runs a session's code itself."""
import ctypes
import os
import sys

# Modules whose after-fork hooks have nothing to do in a guest: the zygote has one thread and holds no lock when it is
# cloned, and the worker seeds `random` itself.
IDLE_HOOKS = ("threading", "logging", "random")

PYTHON, NODE, BASH = 0, 1, 2  # enum local_runtime
COPIES_FD = 5  # see zygote_clone.c
NODE_FLAGS = ("--expose-internals", "--no-force-async-hooks-checks", "--experimental-vm-modules")  # see the worker


class ForkHooks:
    """What modules register with os.register_at_fork while they are imported. Running all of it would cost each guest
    half a millisecond before its first line."""

    def __init__(self):
        self.recorded = []

    def __enter__(self):
        self.register, os.register_at_fork = os.register_at_fork, self.record
        return self

    def __exit__(self, *_):
        os.register_at_fork = self.register

    def record(self, **hooks):
        self.recorded.append(hooks)

    def hand_over(self):
        """In a guest: they hold from now on, for what its code forks; those that matter run once, for the clone."""
        for hooks in self.recorded:
            os.register_at_fork(**hooks)
            after = hooks.get("after_in_child")
            if after is not None and getattr(after, "__module__", None) not in IDLE_HOOKS:
                after()


def load(path):
    library = ctypes.PyDLL(path)
    library.sbx_zygote_copy.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.sbx_zygote_image.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    library.sbx_zygote_image.restype = ctypes.c_int64
    for name in ("preload", "serve", "scratch", "thaw"):
        getattr(library, f"sbx_zygote_{name}").argtypes = [ctypes.c_void_p]
    library.sbx_zygote_settle.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for name in ("copies", "node", "runtime", "memory"):
        getattr(library, f"sbx_zygote_{name}").argtypes = [ctypes.c_void_p]
    library.sbx_zygote_open.restype = ctypes.c_void_p
    library.sbx_zygote_node.restype = ctypes.c_char_p
    library.sbx_zygote_memory.restype = ctypes.c_uint64
    library.sbx_zygote_preload.restype = library.sbx_zygote_scratch.restype = ctypes.c_char_p
    return library


class CopyMaker:
    """Copies the process of a session, for its worker."""

    def __init__(self, library, zygote):
        self.library = library
        self.zygote = zygote
        self.fd = COPIES_FD

    def copy(self, deaths_fd):
        return self.library.sbx_zygote_copy(self.zygote, deaths_fd)

    def image(self, image_fd, streams):
        return self.library.sbx_zygote_image(self.zygote, image_fd, (ctypes.c_int * len(streams))(*streams))

    def thaw(self):
        self.library.sbx_zygote_thaw(self.zygote)


def is_missing(name):
    """Whether nothing of that name could be imported; runs nothing of it."""
    name = name.partition(".")[0]
    return name not in sys.modules and not any(finder.find_spec(name, None) for finder in sys.meta_path)


def become_guests(library, zygote, hooks):
    with hooks:
        from sbx_guest import worker
    names = [name for name in library.sbx_zygote_preload(zygote).decode().split(",") if name]
    missing = [name for name in names if is_missing(name)]
    if missing:
        raise ImportError(f"preload: no module named {missing[0]!r}")
    with hooks:
        worker.prepare()
    control = library.sbx_zygote_serve(zygote)
    while control < 0:
        failure = None
        try:
            with hooks:
                import sbx_guest.copies  # noqa: F401 - not every guest needs it
                worker.prepare(names)
        except BaseException as error:  # noqa: BLE001 - whatever a module raises
            failure = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        library.sbx_zygote_settle(zygote, failure)
        control = library.sbx_zygote_serve(zygote)
    return worker, control


def become_node(library, zygote, guests, control):
    """Another program takes over, within everything that holds this process."""
    megabytes = max(library.sbx_zygote_memory(zygote) >> 20, 64)
    program = os.fsdecode(library.sbx_zygote_node(zygote))
    arguments = ["node", *NODE_FLAGS, f"--max-old-space-size={megabytes}", os.path.join(guests, "sbx_node", "worker.js")]
    os.environ["SBX_CONTROL_FD"] = str(control)
    os.environ["OPENSSL_CONF"] = "/dev/null"  # one that it may not read would keep it from starting
    os.set_inheritable(control, True)
    try:
        os.execve(program, arguments, os.environ)
    except OSError as error:
        os.write(2, f"can't execute {program}: {error.strerror}".encode("utf-8", "replace"))
        os._exit(126)


def serve(library, zygote, worker, guests, control):
    runtime = library.sbx_zygote_runtime(zygote)
    if runtime == NODE:
        become_node(library, zygote, os.path.join(guests, "node"), control)
    if runtime == BASH:
        sys.path.insert(0, os.path.join(guests, "bash"))
        from sbx_bash import worker
    if runtime == PYTHON and library.sbx_zygote_copies(zygote):
        worker.serve(control, copy_maker=CopyMaker(library, zygote))
    else:
        os.close(COPIES_FD)
        worker.serve(control)


def main():
    library_path, guests = sys.argv[1:3]
    sys.argv[:] = [""]
    sys.path.insert(0, guests)
    library = load(library_path)
    zygote = library.sbx_zygote_open()
    hooks = ForkHooks()
    worker, control = become_guests(library, zygote, hooks)
    # Only a guest comes here, locked down.
    scratch = library.sbx_zygote_scratch(zygote)
    if scratch is not None:
        os.environ["HOME"] = os.environ["TMPDIR"] = os.fsdecode(scratch)
    hooks.hand_over()
    try:
        serve(library, zygote, worker, os.path.dirname(guests), control)
    finally:
        library.sbx_zygote_end()


main()
