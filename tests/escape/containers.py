# SPDX-License-Identifier: Apache-2.0
"""Attempts that containers do not hold against, because the engine's own seccomp profile or file tree allows them; each
with what stands in the way instead. backend-local holds against all of them."""

PROFILE = "the engine's seccomp profile allows it: "
OWN = "it reaches nothing but the container's own"

WITHOUT = {
    "sysfs": "engines mount /sys, read-only",
    "socket-families": PROFILE + "sockets can be made, in a network that has nothing but its loopback",
    "socket-family-high-bits": PROFILE + "sockets can be made, in a network that has nothing but its loopback",
    "other-abi": PROFILE + "calls of i386 stand under the same rules",
    "syscall-modify_ldt": PROFILE + OWN,
    "syscall-memfd_secret": PROFILE + "what it takes counts as locked memory, of which there are 64 KiB or 8 MiB",
    "syscall-personality-unknown": PROFILE + OWN,
    "fill-inodes": "files in memory have no number of their own; they count against the container's memory",
}
WITHOUT_OF = {
    "docker": {
        "syscall-io_uring_setup": PROFILE + "newer profiles do not",
        "syscall-io_uring_enter": PROFILE + "newer profiles do not",
        "syscall-io_uring_register": PROFILE + "newer profiles do not",
    },
    "podman": {
        "syscall-fsconfig": PROFILE + "without capabilities there is nothing to give it",
        "syscall-mount_setattr": PROFILE + "without capabilities it is refused by the kernel",
        "syscall-name_to_handle_at": PROFILE + "a handle can't be opened without capabilities",
        "syscall-keyctl": PROFILE + "keys are those of the container's user",
        "syscall-pidfd_getfd": PROFILE + OWN,
        "process-vm": PROFILE + OWN,
        "unshare": PROFILE + "namespaces below the container's own can be made",
        "clone": PROFILE + "namespaces below the container's own can be made",
        "clone3": PROFILE + "namespaces below the container's own can be made",
        "setns-own": PROFILE + OWN,
    },
}


def reason_without(kind, name):
    """Why the attempt is not made in containers of this engine; None: it is."""
    return WITHOUT.get(name) or WITHOUT_OF[kind].get(name)
