# SPDX-License-Identifier: Apache-2.0
"""The attempts to break out, as data: each is a small program that runs in the jail and must fail at what it tries.

A program prints "HELD why" for what was refused and "ESCAPED what" for what was not; it must print the one and never the
other. It may use what guest.py offers, in WebAssembly guest_wasm.py. "@NAME@" in its text stands for a value of the host (harness.Host.values)."""
import importlib
import pkgutil
from dataclasses import dataclass
from typing import Callable, Optional

NAMESPACES, LANDLOCK, CONTAINER, WASM = "namespaces", "landlock", "container", "wasm"


@dataclass(frozen=True)
class Attempt:
    name: str
    promise: str  # what a user is promised
    code: str
    ends: tuple = ("ok",)  # end reasons that are as they should be
    isolations: tuple = (NAMESPACES, LANDLOCK, CONTAINER)  # that promise it
    # What the same program says on the host, as the user who runs the server: "escaped" proves that the program would
    # notice; "escaped as root" needs root for it; None: not to be tried outside.
    control: Optional[str] = None
    judge: Optional[Callable] = None  # judge(result, host) -> None, or what is wrong
    flags: tuple = ()  # more arguments of `exec`
    alone: bool = False  # it looks for what other attempts may leave in their session
    needs_cgroup: bool = False  # holds where this user can have cgroups; else each process has limits of its own


def every():
    """All attempts, in a fixed order; names are unique."""
    found = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        found += importlib.import_module("%s.%s" % (__name__, module.name)).ATTEMPTS
    names = [attempt.name for attempt in found]
    assert len(names) == len(set(names)), "two attempts of one name"
    return found
