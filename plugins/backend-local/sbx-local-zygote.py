# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports what sessions need, then becomes each new guest. It never runs a session's code itself."""
import ctypes
import gc
import sys


def main():
    library_path, guests = sys.argv[1:3]
    sys.argv[:] = [""]
    sys.path.insert(0, guests)
    library = ctypes.PyDLL(library_path)
    library.sbx_zygote_open.restype = ctypes.c_void_p
    for name in ("sbx_zygote_preload", "sbx_zygote_scratch"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = ctypes.c_char_p
    library.sbx_zygote_serve.argtypes = [ctypes.c_void_p]

    zygote = library.sbx_zygote_open()
    from sbx_guest import worker

    names = library.sbx_zygote_preload(zygote).decode()
    worker.prepare([name for name in names.split(",") if name])
    # What is here now is shared by all guests: the collector must not touch it, or each would copy it.
    gc.collect()
    gc.freeze()

    control = library.sbx_zygote_serve(zygote)
    # Only a guest comes here, locked down.
    scratch = library.sbx_zygote_scratch(zygote)
    if scratch is not None:
        import os

        os.environ["HOME"] = os.environ["TMPDIR"] = os.fsdecode(scratch)
    worker.serve(control)


main()
