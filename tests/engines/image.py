# SPDX-License-Identifier: Apache-2.0
"""The image that containers of the tests are made of: a small Debian with Python, Bash, Node, pip and pytest, made by
debootstrap once and kept as a tar, since no registry may be in reach."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

NAME = "sbxtest:1"  # in engines that want it whole: docker.io/library/sbxtest:1
PACKAGES = ("python3", "python-is-python3", "python3-pip", "python3-pytest", "python3-pytest-asyncio", "nodejs")
# Not needed to run anything; a third of the whole.
LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/debconf", "usr/share/doc", "usr/share/man",
            "usr/share/locale", "usr/share/info", "usr/share/i18n", "dev", "proc", "sys")


class Unavailable(unittest.SkipTest):
    """Why there can be no engine or image here; a test that lets it pass is skipped for that reason."""


def release():
    """(codename, mirror) of the Debian that this machine gets its packages from, else those of Debian 12."""
    known = {}
    try:
        with open("/etc/os-release", encoding="utf-8") as f:
            known = dict(line.strip().split("=", 1) for line in f if "=" in line)
    except OSError:
        pass
    codename = known.get("VERSION_CODENAME", "") if known.get("ID") == "debian" else ""
    mirror = None
    if codename:
        done = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)
        sites = [line.split()[1] for line in done.stdout.splitlines() if line.split()[:1] == [codename]]
        mirror = next((site for site in sites if site.startswith("http")), None)
    return codename or "bookworm", mirror or "http://deb.debian.org/debian"


def path(directory):
    """Where the tar is, or will be; named after what it is made of."""
    with open(__file__, "rb") as f:
        what = hashlib.sha256(f.read() + release()[0].encode()).hexdigest()[:12]
    return os.path.join(directory, "image-%s.tar" % what)


def _debootstrap(root, log):
    codename, mirror = release()
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")
    done = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES), codename, root, mirror],
                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, check=False)
    if done.returncode != 0:
        log.seek(0)
        raise Unavailable("debootstrap of %s from %s failed: %s" %
                          (codename, mirror, " ".join(log.read().decode(errors="replace").split("\n")[-4:])))


def make(directory):
    """The path of the tar; made now if it is not there."""
    target = path(directory)
    if os.path.exists(target):
        return target
    if os.geteuid() != 0:
        raise Unavailable("the image is made by root alone")
    for program in ("debootstrap", "tar"):
        if shutil.which(program) is None:
            raise Unavailable("there is no %s: apt-get install %s" % (program, program))
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-", dir=directory) as scratch, \
            tempfile.TemporaryFile(dir=directory) as log:
        root, whole = os.path.join(scratch, "root"), os.path.join(scratch, "tar")
        _debootstrap(root, log)
        for name in LEFT_OUT:
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)
            os.makedirs(os.path.join(root, name), exist_ok=True)
        subprocess.run(["tar", "--numeric-owner", "--one-file-system", "-C", root, "-cf", whole, "."],
                       stdin=subprocess.DEVNULL, check=True)
        os.rename(whole, target)
    return target
