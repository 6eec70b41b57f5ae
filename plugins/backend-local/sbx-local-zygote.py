# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports what sessions need, and becomes each new guest. It never runs a session's code itself."""
import ctypes
import sys


def load(path):
    library = ctypes.PyDLL(path)
    for name in ("preload", "serve", "scratch"):
        getattr(library, f"sbx_zygote_{name}").argtypes = [ctypes.c_void_p]
    library.sbx_zygote_settle.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.sbx_zygote_open.restype = ctypes.c_void_p
    library.sbx_zygote_preload.restype = library.sbx_zygote_scratch.restype = ctypes.c_char_p
    return library


def is_missing(name):
    """Whether nothing of that name could be imported; runs nothing of it."""
    name = name.partition(".")[0]
    return name not in sys.modules and not any(finder.find_spec(name, None) for finder in sys.meta_path)


def become_guests(library, zygote, worker):
    names = [name for name in library.sbx_zygote_preload(zygote).decode().split(",") if name]
    missing = [name for name in names if is_missing(name)]
    if missing:
        raise ImportError(f"preload: no module named {missing[0]!r}")
    worker.prepare()
    control = library.sbx_zygote_serve(zygote)
    while control < 0:
        failure = None
        try:
            worker.prepare(names)
        except BaseException as error:  # noqa: BLE001 - whatever a module raises
            failure = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        library.sbx_zygote_settle(zygote, failure)
        control = library.sbx_zygote_serve(zygote)
    return control


def main():
    library_path, guests = sys.argv[1:3]
    sys.argv[:] = [""]
    sys.path.insert(0, guests)
    library = load(library_path)
    zygote = library.sbx_zygote_open()
    from sbx_guest import worker

    control = become_guests(library, zygote, worker)
    # Only a guest comes here, locked down.
    scratch = library.sbx_zygote_scratch(zygote)
    if scratch is not None:
        import os

        os.environ["HOME"] = os.environ["TMPDIR"] = os.fsdecode(scratch)
    try:
        worker.serve(control)
    finally:
        library.sbx_zygote_end()


main()
