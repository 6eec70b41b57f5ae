# SPDX-License-Identifier: Apache-2.0
"""Sources and tools from Debian's archive, without touching the system: apt gets lists and a cache of its own, packages
are unpacked, not installed. All is checked by apt against the archive's signatures.

What can't be taken in its newest version (a security suite may list a source that its mirror no longer holds) is taken
from the release's own suite.
"""

import dataclasses
import email.utils
import pathlib
import re
import shutil

from steps import BuildError, hash_file

RELEASE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRRORS = (("http://deb.debian.org/debian", "{0} {0}-updates"),
           ("http://deb.debian.org/debian-security", "{0}-security"))

# SPDX names of what each package is under; its whole copyright file goes along.
LICENCES = {"python3.11": "PSF-2.0", "zlib": "Zlib", "bzip2": "bzip2-1.0.6", "xz-utils": "LicenseRef-PublicDomain",
            "sqlite3": "blessing", "tzdata": "LicenseRef-PublicDomain",
            "wasi-libc": "Apache-2.0 WITH LLVM-exception AND MIT",
            "libclang-rt-14-dev-wasm32": "Apache-2.0 WITH LLVM-exception", "quickjs": "MIT"}


@dataclasses.dataclass
class Package:
    """A source or binary package, unpacked."""
    name: str
    version: str
    sha256: str  # of the .dsc, which has those of all its files; of the .deb
    directory: pathlib.Path
    copyright: pathlib.Path
    patches: list = dataclasses.field(default_factory=list)

    def key(self):
        """What steps that use it depend on."""
        return [self.name, self.version, self.sha256, self.patches]

    def time(self):
        """When this version of a source was made: the date of its changelog's first entry."""
        line = re.search(r"^ -- .*>  (.*)$", (self.directory / "debian/changelog").read_text(), re.MULTILINE)
        return int(email.utils.parsedate_to_datetime(line[1]).timestamp())


class Debian:
    """One release of Debian's archive, by apt."""

    def __init__(self, steps, release=RELEASE):
        self.steps = steps
        self.release = release
        self.directory = steps.directory / ("debian" if release == RELEASE else f"debian-{release}")
        self.updated = False

    def apt(self, *arguments, cwd):
        """One command of apt-get."""
        base = self.directory / "apt"
        options = {"Dir::Etc::sourcelist": base / "debian.sources", "Dir::Etc::sourceparts": "/dev/null",
                   "Dir::State::lists": base / "lists", "Dir::Cache": base / "cache", "APT::Sandbox::User": "",
                   "Acquire::Retries": 3}
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self.steps.run(["apt-get", *words, "-q", *arguments], cwd=cwd)

    def update(self):
        """Reads the archive's lists, once for each run that needs them."""
        if self.updated:
            return
        base = self.directory / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (base / name).mkdir(parents=True, exist_ok=True)
        if not pathlib.Path(KEYRING).is_file():
            raise BuildError(f"Debian's keys are not there ({KEYRING}): apt-get install debian-archive-keyring")
        (base / "debian.sources").write_text("\n".join(
            f"Types: deb deb-src\nURIs: {mirror}\nSuites: {suites.format(self.release)}\nComponents: main\n"
            f"Signed-By: {KEYRING}\n"
            for mirror, suites in MIRRORS))
        self.apt("update", cwd=base)
        self.updated = True

    def fetch(self, what, name, directory):
        """`what` (source or download) of a package into an empty directory: the newest, or the release's own."""
        self.update()
        words = ["source", "--download-only"] if what == "source" else ["download"]
        failure = None
        for wanted in (name, f"{name}/{self.release}"):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            try:
                self.apt(*words, wanted, cwd=directory)
                return
            except BuildError as error:
                failure = error
                self.steps.say(f"{wanted} can't be had")
        raise BuildError(f"{failure}\nDebian's package {name} is neither in its newest version nor in that of "
                         f"{self.release} to be had from {MIRRORS[0][0]}. Is the network there? A proxy is taken from "
                         "http_proxy.")

    def source(self, name, patches=()):
        """A source package, unpacked with Debian's patches, and those of ours."""
        directory = self.directory / "sources" / name
        unpacked = directory / "unpacked"
        with self.steps.step("source-" + name, [name, self.release], [directory]) as wanted:
            if wanted:
                self.fetch("source", name, directory)
        dsc = only(directory, "*.dsc")
        with self.steps.step("unpack-" + name, [dsc, list(patches)], [unpacked]) as wanted:
            if wanted:
                shutil.rmtree(unpacked, ignore_errors=True)
                self.steps.run(["dpkg-source", "--no-check", "-x", dsc, unpacked], cwd=directory)
                for patch in patches:
                    self.steps.run(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", patch], cwd=unpacked)
        version = re.search(r"^Version: (.*)$", dsc.read_text(), re.MULTILINE)[1]
        return Package(name, version, hash_file(dsc), unpacked, unpacked / "debian/copyright", list(patches))

    def tool(self, name):
        """A binary package, unpacked into a directory of its own."""
        directory = self.directory / "tools" / name
        unpacked = directory / "unpacked"
        with self.steps.step("tool-" + name, [name, self.release], [unpacked]) as wanted:
            if wanted:
                self.fetch("download", name, directory)
                self.steps.run(["dpkg", "-x", only(directory, "*.deb"), unpacked])
        deb = only(directory, "*.deb")
        version = deb.name.split("_")[1].replace("%3a", ":")
        return Package(name, version, hash_file(deb), unpacked, unpacked / "usr/share/doc" / name / "copyright")


def only(directory, pattern):
    """The one file of that name."""
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise BuildError(f"{directory} holds {len(found)} files like {pattern}, not one: remove it to start anew")
    return found[0]
