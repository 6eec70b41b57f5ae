# SPDX-License-Identifier: Apache-2.0
"""sbx-wasm bake on the command line, with the tiny guest. Usage: test_bake.py SBX-WASM TINY-GUEST.so"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests"))
from tap import main  # noqa: E402

PROGRAM, CODE = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]
# As in tiny_guest.c: a data segment.
MODULE = b"\0asm\1\0\0\0\x0b\x14\x01\0\x41\x80\x88\x04\x0b\x0ca tiny guest"


class Place:
    """A directory with what a bake takes."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = self.directory.name
        self.write("guest.wasm", MODULE)
        self.write("tree/usr/lib/hello", b"hello\n")
        self.write("manifest", b'{"name": "tiny"}')

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.directory.cleanup()

    def write(self, name, content):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def read(self, name):
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def bake(self, *arguments):
        return subprocess.run([PROGRAM, "bake", "--code", CODE, "--manifest", "manifest", *arguments],
                              cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    def base(self, out="base.sbximg"):
        return self.bake("--module", "guest.wasm", "--tree", "tree", "--out", out)

    def base_made(self):
        done = self.base()
        assert done.returncode == 0, done.stderr

    def refuses(self, done, text, out="new.sbximg"):
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert done.stderr.startswith("sbx-wasm bake: ") and text in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert not [name for name in os.listdir(self.path) if name.startswith(out)], "something was left behind"


def test_the_same_input_gives_the_same_image():
    with Place() as place:
        place.base_made()
        assert place.base("again.sbximg").returncode == 0
        image = place.read("base.sbximg")
        assert image[:8] == b"SBXWIMAG" and b'{"name": "tiny"}' in image
        assert image == place.read("again.sbximg")


def test_packages_are_baked_into_an_image():
    with Place() as place:
        place.base_made()
        place.write("more/usr/lib/package/module.py", b"x = 1\n")
        place.write("preload", b"package.module\n")
        done = place.bake("--image", "base.sbximg", "--add", "more", "--preload", "preload", "--out", "new.sbximg")
        assert done.returncode == 0, done.stderr
        assert place.read("new.sbximg") != place.read("base.sbximg")
        # Nothing more: the guest's memory stays as it was, but for what the preparation did.
        done = place.bake("--image", "new.sbximg", "--out", "same.sbximg")
        assert done.returncode == 0, done.stderr
        assert place.read("same.sbximg") == place.read("new.sbximg")


def test_a_rehearsal_leaves_no_trace():
    """Its frames are commands to the tiny guest, which does not know them, but reads them into its memory."""
    with Place() as place:
        place.base_made()
        place.write("tree/usr/lib/sbx/rehearsal", b"anything")
        done = place.base("new.sbximg")
        assert done.returncode == 0, done.stderr
        hot = [int.from_bytes(place.read(name)[160:164], "little") for name in ("base.sbximg", "new.sbximg")]
        assert hot[0] == 0 and hot[1] > 0, hot
        done = place.bake("--image", "new.sbximg", "--out", "again.sbximg")
        assert done.returncode == 0 and place.read("again.sbximg") == place.read("new.sbximg"), done


def test_usage():
    with Place() as place:
        for arguments in (["--out", "new.sbximg"],
                          ["--module", "guest.wasm", "--out", "new.sbximg"],
                          ["--module", "guest.wasm", "--tree", "tree", "--add", "tree", "--out", "new.sbximg"],
                          ["--image", "base.sbximg", "--module", "guest.wasm", "--tree", "tree", "--out", "new.sbximg"],
                          ["--module", "guest.wasm", "--tree", "tree"],
                          ["--module", "guest.wasm", "--tree", "tree", "--out", "new.sbximg", "more"],
                          ["--unknown"]):
            done = place.bake(*arguments)
            assert done.returncode == 2 and "usage: sbx-wasm bake" in done.stderr, (arguments, done)


def test_what_is_not_there_is_named():
    with Place() as place:
        place.base_made()
        place.refuses(place.bake("--module", "none.wasm", "--tree", "tree", "--out", "new.sbximg"), "none.wasm")
        place.refuses(place.bake("--module", "guest.wasm", "--tree", "none", "--out", "new.sbximg"), "none can't be read")
        place.refuses(place.bake("--image", "none.sbximg", "--out", "new.sbximg"), "none.sbximg")
        place.refuses(place.bake("--image", "base.sbximg", "--preload", "none", "--out", "new.sbximg"), "none can't be")
        done = place.bake("--module", "guest.wasm", "--tree", "tree", "--out", "none/new.sbximg")
        place.refuses(done, "none/new.sbximg")
        os.unlink(os.path.join(place.path, "manifest"))
        place.refuses(place.bake("--image", "base.sbximg", "--out", "new.sbximg"), "manifest can't be read")


def test_another_module_is_refused():
    with Place() as place:
        place.write("guest.wasm", MODULE[:-1] + b"T")
        place.refuses(place.base("new.sbximg"), "not the one that the code was made of")


def test_what_is_no_code_is_refused():
    with Place() as place:
        place.write("code.so", b"no code")
        done = place.bake("--code", "code.so", "--module", "guest.wasm", "--tree", "tree", "--out", "new.sbximg")
        place.refuses(done, "code can't be loaded")


def test_a_damaged_image_is_refused():
    with Place() as place:
        place.base_made()
        image = bytearray(place.read("base.sbximg"))
        image[-10] ^= 255
        place.write("base.sbximg", image)
        place.refuses(place.bake("--image", "base.sbximg", "--out", "new.sbximg"), "the image is damaged")
        place.write("base.sbximg", b"")
        place.refuses(place.bake("--image", "base.sbximg", "--out", "new.sbximg"), "no image of a guest")


def test_a_failed_preparation_leaves_the_old_image():
    with Place() as place:
        place.base_made()
        before = place.read("base.sbximg")
        place.write("preload", b"! fails")
        done = place.bake("--image", "base.sbximg", "--preload", "preload", "--out", "base.sbximg")
        assert done.returncode == 1 and "preparation failed (1)" in done.stderr, done
        assert place.read("base.sbximg") == before
        assert sorted(os.listdir(place.path)) == ["base.sbximg", "guest.wasm", "manifest", "preload", "tree"]


def test_links_do_not_bring_files_of_the_host_in():
    with Place() as place:
        place.base_made()
        os.mkdir(os.path.join(place.path, "more"))
        os.symlink("/etc/passwd", os.path.join(place.path, "more", "passwd"))
        place.refuses(place.bake("--image", "base.sbximg", "--add", "more", "--out", "new.sbximg"), "symbolic link")


def test_manifests_are_text():
    with Place() as place:
        for manifest, text in ((b"", "empty"), (b"a\0b", "no text"), (b"x" * ((1 << 20) + 1), "larger than")):
            place.write("manifest", manifest)
            place.refuses(place.base("new.sbximg"), text)


if __name__ == "__main__":
    main()
