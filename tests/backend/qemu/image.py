# SPDX-License-Identifier: Apache-2.0
"""Builds an initramfs (cpio "newc") out of files of this machine: programs with the libraries that they need."""
import os
import re
import stat
import subprocess
import sysconfig

# Of the standard library: what no test needs, to keep the image small.
SKIPPED_DIRECTORIES = {"test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "pydoc_data",
                       "site-packages", "dist-packages", "__pycache__", "distutils"}


class Image:
    """Paths inside the image and what stands there; parents and libraries are added as needed."""

    def __init__(self):
        self.entries = {}

    def directory(self, path, mode=0o755):
        path = path.strip("/")
        if path and path not in self.entries:
            self.directory(os.path.dirname(path))
            self.entries[path] = (stat.S_IFDIR | mode, b"", (0, 0))

    def text(self, path, content, mode=0o644):
        self.directory(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFREG | mode, content.encode(), (0, 0))

    def device(self, path, mode, major, minor):
        self.directory(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFCHR | mode, b"", (major, minor))

    def link(self, path, target):
        self.directory(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFLNK | 0o777, target.encode(), (0, 0))

    def file(self, source, path=None):
        """A file, at the same path unless told otherwise, with its libraries if it is a program."""
        path = path or source
        if path.strip("/") in self.entries:
            return
        with open(source, "rb") as f:
            content = f.read()
        self.directory(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFREG | stat.S_IMODE(os.stat(source).st_mode), content, (0, 0))
        if content[:4] == b"\x7fELF":
            for library in libraries_of(source):
                self.file(os.path.realpath(library), library)

    def tree(self, source, path=None, skipped=frozenset()):
        for directory, names, files in os.walk(source):
            names[:] = [n for n in names if n not in skipped]
            inside = (path or source) + directory[len(source):]
            self.directory(inside)
            for name in files:
                full = os.path.join(directory, name)
                if os.path.islink(full) and os.path.exists(full):
                    self.link(os.path.join(inside, name), os.readlink(full))
                elif os.path.isfile(full):
                    self.file(full, os.path.join(inside, name))

    def write(self, target):
        with open(target, "wb") as f:
            for number, path in enumerate(sorted(self.entries), 1):
                mode, content, device = self.entries[path]
                f.write(header(number, path, mode, len(content), device) + content + b"\0" * (-len(content) % 4))
            f.write(header(0, "TRAILER!!!", 0, 0, (0, 0)))


def header(number, path, mode, size, device):
    name = path.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, size, 0, 0, device[0], device[1], len(name), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4)


def libraries_of(program):
    """Absolute paths of the shared libraries that the loader would take."""
    output = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", output, re.MULTILINE)


def add_python(image, python):
    """An interpreter and its standard library, at their own paths."""
    script = "import sys, sysconfig; print(sys.executable); print(sysconfig.get_path('stdlib')); print(sys.version_info[1])"
    executable, stdlib, _ = subprocess.run([python, "-I", "-c", script], stdout=subprocess.PIPE, text=True,
                                           check=True).stdout.split()
    image.file(os.path.realpath(executable), executable)
    image.tree(stdlib, skipped=SKIPPED_DIRECTORIES | {"config-" + (sysconfig.get_config_var("MULTIARCH") or "")})
    return executable


def add_build(image, build, target):
    """What runs of a build directory: programs, libraries, plugins, guests; no object files."""
    for directory, names, files in os.walk(build):
        names[:] = [n for n in names if not n.endswith(".p") and not n.startswith(("meson-", "."))]
        for name in files:
            full = os.path.join(directory, name)
            inside = target + full[len(build):]
            if os.path.islink(full):
                image.link(inside, os.readlink(full))
            elif os.access(full, os.X_OK) or ".so" in name or "/guests/" in full or name.endswith(".py"):
                image.file(full, inside)
