# SPDX-License-Identifier: Apache-2.0
"""Makes a directory tree as guests see it: the standard library with its byte code, time zones, the worker.

The same sources give the same tree, byte for byte: files have one time, byte code is checked by nothing and holds no
time ("unchecked hash"), and names are added in order.
"""

import concurrent.futures
import os
import py_compile
import shutil

# What can't work in a guest, or is for developers of Python: tests, programs with windows, installers.
SKIPPED_DIRECTORIES = {"__pycache__", "ensurepip", "idle_test", "idlelib", "lib2to3", "msilib", "test", "tests",
                       "tkinter", "turtledemo"}
SKIPPED_FILES = {"turtle.py", "antigravity.py", "_aix_support.py", "_osx_support.py", "_msi.py"}
SKIPPED_ZONES = {"posix", "right", "posixrules", "leapseconds", "leap-seconds.list", "localtime", "+VERSION"}


def python_files(directory):
    """The files of a library or package that guests get, relative to `directory`, in order."""
    for base, directories, names in os.walk(directory):
        directories[:] = sorted(set(directories) - SKIPPED_DIRECTORIES)
        for name in sorted(set(names) - SKIPPED_FILES):
            if not name.endswith((".pyc", ".exe", ".bat", ".a", ".so")):
                yield os.path.relpath(os.path.join(base, name), directory)


def compile_one(path, guest_path):
    """Byte code for one file, that names the file as guests see it."""
    py_compile.compile(path, dfile=guest_path, doraise=True, quiet=1,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def compile_files(tree, paths, jobs):
    """Byte code for `paths`, which are as guests see them."""
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for done in [pool.submit(compile_one, tree + path, path) for path in paths]:
            done.result()


def add_python(tree, source, guest_directory):
    """Copies Python files into the tree; returns what has to be compiled."""
    sources = []
    for name in python_files(source):
        target = os.path.join(guest_directory, name)
        os.makedirs(os.path.dirname(tree + target), exist_ok=True)
        shutil.copyfile(os.path.join(source, name), tree + target)
        if name.endswith(".py"):
            sources.append(target)
    return sources


def add_zones(tree, source):
    """Time zones, as `zoneinfo` reads them."""
    for base, directories, names in os.walk(source):
        directories[:] = sorted(set(directories) - SKIPPED_ZONES)
        for name in sorted(set(names) - SKIPPED_ZONES):
            path = os.path.join(base, name)
            target = os.path.join(tree + "/usr/share/zoneinfo", os.path.relpath(path, source))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(path, target)


def set_times(tree, when):
    """One time for all of it."""
    for base, directories, names in os.walk(tree, topdown=False):
        for name in names + directories:
            os.utime(os.path.join(base, name), (when, when), follow_symlinks=False)


def make_python_tree(tree, library, additions, zones, when, jobs):
    """A new tree at `tree`. `additions` are pairs of a source directory and one as guests see it."""
    shutil.rmtree(tree, ignore_errors=True)
    sources = add_python(tree, library, "/usr/lib/python3.11")
    os.makedirs(tree + "/usr/lib/python3/site-packages")
    for source, directory in additions:
        sources += add_python(tree, source, directory)
    compile_files(tree, sources, jobs)
    if zones:
        add_zones(tree, zones)
    set_times(tree, when)
