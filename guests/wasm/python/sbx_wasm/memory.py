# SPDX-License-Identifier: Apache-2.0
"""Room for telling of a MemoryError.

The limit is the engine's, which refuses to let memory grow. Code that has filled all of it would leave none for the
worker to say so, and the session would be lost.
"""

_BYTES = 768 << 10  # two arenas of small objects, and something for the allocator of larger ones


class Reserve:
    """What stands where a process has its MemoryLimit: memory that is given up when an execution has used all."""

    __slots__ = ("_held",)

    def __init__(self):
        self._held = bytearray(_BYTES)

    def lift(self):
        """Gives the reserve up."""
        self._held = None

    def apply(self, _memory_bytes):
        """Before each execution: takes the reserve again, if there is room. The limit itself is the engine's."""
        if self._held is None:
            try:
                self._held = bytearray(_BYTES)
            except MemoryError:
                return  # the code has kept what it filled: it may free it now
