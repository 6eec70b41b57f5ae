# SPDX-License-Identifier: Apache-2.0
"""Ignore patterns against `git check-ignore`: cases from the manual, and some hundreds of random ones."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from tap import main, skip, note

TOOL = sys.argv.pop(1)
SEED = int(os.environ.get("SEED", "20261"))
CASES = int(os.environ.get("CASES", "400"))
GIT_ENV = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", HOME="/nonexistent")
DIRECTORIES = ["a", "a/b", "a/b/c", "b", "b/a", "foo", "foo/a", "foo/bar", "foo.d", "[x]", "a b", "x-", "\u00e9"]
NAMES = ["a", "b", "c", "aa", "ab", "foo", "bar", "foo.c", "foo.o", ".a", "#a", "!a", "a ", "a]", "a-b", "a\\b", "A", "1",
         "*", "?", "[a]", "foobar", "x.tar.gz", "\u00e9"]


class Repository:
    def __init__(self):
        if shutil.which("git") is None:
            skip("git is not installed")
        self.path = tempfile.mkdtemp(prefix="ignore-")
        subprocess.run(["git", "init", "-q", self.path], env=GIT_ENV, check=True)
        self.entries = []
        for directory in [""] + DIRECTORIES:
            os.makedirs(os.path.join(self.path, directory), exist_ok=True)
            for name in NAMES:
                path = os.path.join(directory, name)
                if path not in DIRECTORIES:
                    open(os.path.join(self.path, path), "w").close()
                    self.entries.append((path, False))
        self.entries += [(d, True) for d in DIRECTORIES]

    def git(self):
        """The paths that git ignores."""
        text = b"".join(os.fsencode(path) + b"\0" for path, _ in self.entries)
        done = subprocess.run(["git", "-C", self.path, "check-ignore", "--no-index", "-z", "--stdin"], input=text,
                              env=GIT_ENV, stdout=subprocess.PIPE)
        assert done.returncode in (0, 1), done
        return {os.fsdecode(path) for path in done.stdout.split(b"\0") if path}

    def ours(self, patterns):
        """The same by the tool: what it names, and all that is below."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(patterns)
            file.flush()
            text = b"".join(os.fsencode(path) + (b"/\n" if is_dir else b"\n") for path, is_dir in self.entries)
            done = subprocess.run([TOOL, file.name], input=text, stdout=subprocess.PIPE, check=True)
        named = {path for (path, _), verdict in zip(self.entries, done.stdout.split()) if verdict == b"1"}

        def below(path):
            parts = path.split("/")
            return any("/".join(parts[:i]) in named for i in range(1, len(parts)))
        return {path for path, _ in self.entries if path in named or below(path)}

    def compare(self, patterns):
        with open(os.path.join(self.path, ".gitignore"), "wb") as file:
            file.write(patterns)
        theirs, ours = self.git(), self.ours(patterns)
        if theirs != ours:
            raise AssertionError("patterns %r: git alone ignores %r, we alone %r" %
                                 (patterns, sorted(theirs - ours)[:6], sorted(ours - theirs)[:6]))
        return len(theirs)


def compare_all(cases):
    repository = Repository()
    try:
        counts = [repository.compare(case) for case in cases]
    finally:
        shutil.rmtree(repository.path)
    note("%d cases, %d paths, %d of the cases ignore some but not all" %
         (len(cases), len(repository.entries), sum(0 < n < len(repository.entries) for n in counts)))
    return counts


def test_cases_of_the_manual():
    compare_all([pattern.encode() for pattern in [
        "foo", "foo/", "/foo", "foo/bar", "/foo/bar/", "**/a", "**/a/b", "a/**", "a/**/c", "foo/*", "foo/*\n!foo/bar",
        "*.o\n!foo.o", "/*\n!/foo\n/foo/*\n!/foo/bar", "# comment\n\n  \n", "\\#a", "\\!a", "a\\ ", "a ", "a \\ ",
        "[ab]", "[!ab]", "[^ab]", "[a-c]", "[]a]", "[!]a]", "[a", "a[", "[[:alpha:]]", "[[:digit:]a]", "[[:bogus:]]",
        "[[:alpha]]", "\\[a\\]", "a\\", "foo\\", "*", "/", "//", "!", "**", "***", "**foo", "foo**", "foo**/a",
        "a*/**/c", "**/**/c", "/**", "/**/", "**/", "a//b", "?", "??", "a?", "*a*", "x.*.gz", "\u00e9", "[\u00e9]",
        "\ufefffoo", "foo\r\nbar\r\n", "a\\/b", "foo/**/", "[--0]", "[a\\-c]", "[a-\\c]", "a]", "foo\\.c", "*.[oc]",
        "foo.d/\n!foo.d", "!a\na", "a\n!a", "a/b\n!a/b/c"]])


def random_pattern(rng):
    pieces = ["a", "b", "c", "foo", "bar", "*", "*", "**", "?", "/", "/", "/", "[ab]", "[!a]", "[a-c]", "[^f]", ".o", ".", "\\",
              "[[:alpha:]]", "[]", "]", "[", "-", " ", "!", "#", "\\*", "\\?", "**/", "/**", "/**/", "A", "1", "\u00e9", "x"]
    line = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 6)))
    return ("!" if rng.random() < 0.2 else "") + line + ("/" if rng.random() < 0.15 else "")


def test_random_patterns():
    rng = random.Random(SEED)
    note("seed %d" % SEED)
    counts = compare_all([("\n".join(random_pattern(rng) for _ in range(rng.randint(1, 4))) + "\n").encode()
                          for _ in range(CASES)])
    assert sum(n > 0 for n in counts) > CASES // 4


if __name__ == "__main__":
    main()
