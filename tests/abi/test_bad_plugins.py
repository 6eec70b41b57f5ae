#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plugins that must be refused, each with a message that says what is wrong and where, and a hint what to do next.

Environment: CHECK_LOAD, the program that loads; FIXTURES, the directory of the plugins that tests/abi/meson.build builds.
"""
import errno
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import main, note, skip  # noqa: E402

CHECK_LOAD = os.environ.get("CHECK_LOAD", "")
FIXTURES = pathlib.Path(os.environ.get("FIXTURES", "."))

# Fixture: errno, words of the message, words of the hint.
BROKEN = {
    "sink-wrong-name": (errno.EINVAL, ["\"sink-other\"", "\"sink-wrong-name\""], ["Name the file"]),
    "sink-bad-name": (errno.EINVAL, ["\"Sink Bad\""], ["lower-case"]),
    "wrong-prefix": (errno.EINVAL, ["sink plugin", "\"sink-\""], ["sink-"]),
    "sink-newer-major": (errno.EPROTO, ["ABI 2", "ABI 1"], ["Install a newer snipara-sandbox"]),
    "sink-older-major": (errno.EPROTO, ["ABI 0", "ABI 1"], ["Build the plugin again"]),
    "sink-no-symbol": (errno.ENOEXEC, ["no symbol sbx_plugin_entry_v1"], ["visibility"]),
    "sink-null-descriptor": (errno.EINVAL, ["returned NULL"], ["descriptor"]),
    "sink-unknown-kind": (errno.EINVAL, ["kind 99"], [".kind"]),
    "sink-small-descriptor": (errno.EINVAL, ["struct sbx_plugin", "struct_size 24"], ["sizeof"]),
    "sink-huge-descriptor": (errno.EINVAL, ["struct sbx_plugin", "100000000"], ["sizeof"]),
    "sink-small-ops": (errno.EINVAL, ["struct sbx_sink_ops", "struct_size 8"], ["sizeof"]),
    "sink-no-ops": (errno.EINVAL, ["no .ops"], [".ops"]),
    "sink-no-event": (errno.EINVAL, ["no event()"], ["header"]),
    "sink-no-open": (errno.EINVAL, ["no open()"], ["required"]),
    "sink-option-default": (errno.EINVAL, ["\"number\"", "minimum and maximum"], ["option table"]),
    "sink-option-text": (errno.EINVAL, ["\"number\"", "not a value of its type"], ["option table"]),
    "sink-option-type": (errno.EINVAL, ["\"number\"", "type"], ["option table"]),
    "sink-option-name": (errno.EINVAL, ["\"Number\"", "bad name"], ["option table"]),
    "sink-option-twice": (errno.EINVAL, ["\"text\""], ["option table"]),
    "sink-option-group": (errno.EINVAL, ["\"list\"", "\"list.items\""], ["option table"]),
    "sink-option-reserved": (errno.EINVAL, ["\"enabled\"", "core"], ["option table"]),
    "sink-undefined": (errno.ENOEXEC, ["sbx_function_that_nobody_has"], ["--no-undefined"]),
    "context-mute": (errno.EINVAL, ["no call() or request()"], ["header"]),
    "backend-lying": (errno.EINVAL, ["feature", "guest_fork()"], [".features"]),
}


def load(path, **options):
    """("ok", name) or (errno, message, hint)."""
    done = subprocess.run([CHECK_LOAD, str(path)], check=True, stdout=subprocess.PIPE, text=True, **options)
    lines = done.stdout.splitlines()
    if lines[0].startswith("ok "):
        return "ok", lines[0][3:]
    code, message, hint = (line.split(" ", 1)[1] for line in lines)
    note("%s. %s" % (message, hint))
    return -int(code), message, hint


class Broken(unittest.TestCase):
    """Wrong inside: see BROKEN."""


def add_broken(name, expected):
    def test(self):
        path = FIXTURES / (name + ".so")
        code, message, hint = load(path)
        self.assertEqual(code, expected[0], message)
        self.assertIn(str(path), message, "it says where")
        for words, text in ((expected[1], message), (expected[2], hint)):
            for word in words:
                self.assertIn(word, text)
    setattr(Broken, "test_" + name.replace("-", "_"), test)


for _name, _expected in BROKEN.items():
    add_broken(_name, _expected)


class Files(unittest.TestCase):
    """Wrong as a file: a good plugin, or what looks like one, where it can't be trusted."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="sbx-abi-")
        self.addCleanup(self.scratch.cleanup)
        self.directory = pathlib.Path(self.scratch.name, "plugins")
        self.directory.mkdir(mode=0o755)
        self.path = self.directory / "sink-now.so"
        shutil.copyfile(FIXTURES / "sink-now.so", self.path)
        self.path.chmod(0o755)

    def refused(self, path, code, message_words, hint_words, where=None):
        result = load(path)
        self.assertEqual(result[0], code, result)
        for word in [str(where or path), *message_words]:
            self.assertIn(word, result[1])
        for word in hint_words:
            self.assertIn(word, result[2])

    def test_a_good_plugin_loads(self):
        self.assertEqual(load(self.path), ("ok", "sink-now"))

    def test_a_symbolic_link_to_a_good_plugin_loads(self):
        elsewhere = pathlib.Path(self.scratch.name, "links")
        elsewhere.mkdir(mode=0o755)
        os.symlink(self.path, elsewhere / "sink-now.so")
        self.assertEqual(load(elsewhere / "sink-now.so"), ("ok", "sink-now"))

    def test_world_writable(self):
        self.path.chmod(0o757)
        self.refused(self.path, errno.EPERM, ["everybody", "757"], ["chmod go-w"])

    def test_group_writable(self):
        self.path.chmod(0o775)
        self.refused(self.path, errno.EPERM, ["group", "775"], ["chmod go-w"])

    def test_directory_world_writable(self):
        self.directory.chmod(0o777)
        self.refused(self.path, errno.EPERM, ["directory", "everybody"], ["chmod go-w"], where=self.directory)

    def test_directory_group_writable(self):
        self.directory.chmod(0o775)
        self.refused(self.path, errno.EPERM, ["directory", "group"], ["chmod go-w"], where=self.directory)

    def test_a_link_to_a_world_writable_file(self):
        os.symlink(self.path, self.directory / "sink-link.so")
        self.path.chmod(0o777)
        self.refused(self.directory / "sink-link.so", errno.EPERM, ["everybody"], ["chmod go-w"], where=self.path)

    def test_owned_by_somebody_else(self):
        if os.geteuid() != 0:
            skip("only root can give a file away")
        os.chown(self.path, 12345, -1)
        self.refused(self.path, errno.EPERM, ["12345"], ["chown"])

    def test_directory_of_somebody_else(self):
        if os.geteuid() != 0:
            skip("only root can give a directory away")
        os.chown(self.directory, 12345, -1)
        self.refused(self.path, errno.EPERM, ["12345"], ["chown"], where=self.directory)

    def test_below_a_directory_that_others_can_replace(self):
        """Then it is loaded through a descriptor: what was checked is what is loaded."""
        os.chmod(self.scratch.name, 0o777)
        self.assertEqual(load(self.path), ("ok", "sink-now"))

    def test_not_an_elf_file(self):
        self.path.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
        self.refused(self.path, errno.ENOEXEC, ["not an ELF"], ["shared object"])

    def test_empty_file(self):
        self.path.write_bytes(b"")
        self.refused(self.path, errno.ENOEXEC, ["not an ELF"], ["shared object"])

    def test_damaged_elf_file(self):
        self.path.write_bytes(b"\x7fELF" + b"\xff" * 200)
        self.refused(self.path, errno.ENOEXEC, ["can't load"], ["build the plugin again"])

    def test_a_library_that_is_no_plugin(self):
        self.refused_library = shutil.copyfile(FIXTURES / "sink-no-symbol.so", self.directory / "libz.so")
        self.refused(self.directory / "libz.so", errno.ENOEXEC, ["is not a plugin"], ["visibility"])

    def test_directory(self):
        (self.directory / "sink-dir.so").mkdir()
        self.refused(self.directory / "sink-dir.so", errno.EINVAL, ["a directory"], [".so file"])

    def test_fifo(self):
        os.mkfifo(self.directory / "sink-fifo.so")
        self.refused(self.directory / "sink-fifo.so", errno.EINVAL, ["not a regular file"], [".so file"])

    def test_dangling_path(self):
        self.refused(self.directory / "sink-gone.so", errno.ENOENT, ["does not exist"], ["plugins list"])

    def test_dangling_link(self):
        os.symlink("nowhere", self.directory / "sink-link.so")
        self.refused(self.directory / "sink-link.so", errno.ENOENT, ["symbolic link to nothing"], ["Point the link"])

    def test_below_a_file(self):
        self.refused(self.path / "x.so", errno.ENOENT, ["does not exist"], ["plugins list"])

    def test_relative_path(self):
        self.refused("sink-now.so", errno.EINVAL, ["not absolute"], ["root directory"])

    def test_many_at_once(self):
        done = subprocess.run([CHECK_LOAD, str(self.path), "/nonexistent.so", str(self.path)], check=True,
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout.count("ok sink-now\n"), 2)


if __name__ == "__main__":
    main()
