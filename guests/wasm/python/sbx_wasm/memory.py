# SPDX-License-Identifier: Apache-2.0
"""The limit of memory is the engine's, which refuses to let it grow; what is done here is to keep the worker able to
tell of it (reserve.c)."""

import _sbx


class Reserve:
    """Stands where a process has its MemoryLimit."""

    __slots__ = ()

    def apply(self, _memory_bytes):
        """Before each execution: keeps something back from it."""
        _sbx.hold()

    def renew(self):
        """The limit is in force always; what is kept back is kept again."""
        _sbx.hold()

    def lift(self):
        """The execution has used all memory: what was kept back is there for telling of it."""
        _sbx.release()
