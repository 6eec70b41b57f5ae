#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs inside.py in a virtual machine with a stock Debian kernel, where cgroup v2 is all there is, and prints TAP.

    run_qemu.py --test-cgroup BUILD/plugins/backend-local/tests/test_cgroup [--build BUILD]

QEMU and the kernel are taken from the distribution: QEMU is installed if this is root, the kernel is only unpacked
(once, to $XDG_CACHE_HOME/snipara-sandbox-tests). No hardware virtualisation is needed. Whatever can't be had: the whole
run is skipped, with the reason. Ends within --timeout seconds."""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import image

HERE = os.path.dirname(os.path.abspath(__file__))
QEMU = "qemu-system-x86_64"
KERNEL_PACKAGE = "linux-image-cloud-amd64"


class Unavailable(Exception):
    pass


def command(*arguments, **options):
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)


def need_qemu():
    if shutil.which(QEMU):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable("%s is missing; install it: apt-get install qemu-system-x86" % QEMU)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    done = command("apt-get", "install", "-y", "-qq", "--no-install-recommends", "qemu-system-x86", env=environment)
    if done.returncode != 0 or not shutil.which(QEMU):
        raise Unavailable("qemu-system-x86 can't be installed: %s" % done.stderr.strip().splitlines()[-1:])


def download_kernel(target):
    depends = command("apt-cache", "depends", KERNEL_PACKAGE).stdout
    names = [line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    if not names:
        raise Unavailable("apt knows no %s; set SBX_QEMU_KERNEL to a kernel image" % KERNEL_PACKAGE)
    with tempfile.TemporaryDirectory() as directory:
        done = command("apt-get", "download", "-qq", names[0], cwd=directory)
        packages = glob.glob(os.path.join(directory, "*.deb"))
        if not packages:
            raise Unavailable("%s can't be downloaded: %s" % (names[0], done.stderr.strip()))
        command("dpkg-deb", "-x", packages[0], os.path.join(directory, "root"))
        kernels = glob.glob(os.path.join(directory, "root/boot/vmlinuz-*"))
        if not kernels:
            raise Unavailable("%s holds no kernel" % names[0])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(kernels[0], target + ".part")
        os.rename(target + ".part", target)


def find_kernel():
    given = os.environ.get("SBX_QEMU_KERNEL")
    if given:
        return given
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kernel = os.path.join(cache, "snipara-sandbox-tests", "vmlinuz")
    if not os.path.exists(kernel):
        download_kernel(kernel)
    return kernel


SYSTEMD = "/lib/systemd/systemd"
SYSTEMD_TESTS = """[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -IS /usr/lib/sbx-tests/inside.py --systemd
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity
"""
SYSTEMD_UNITS = ("basic.target", "sysinit.target", "sockets.target", "paths.target", "timers.target", "shutdown.target",
                 "-.slice", "system.slice", "user.slice", "app.slice", "-.mount")


def add_systemd(result):
    """The system manager of this machine, with next to no units."""
    real = os.path.realpath(SYSTEMD)
    result.file(real, SYSTEMD)
    for tool in ("systemctl", "systemd-run"):
        result.file(os.path.realpath(shutil.which(tool)), "/bin/" + tool)
    for kind in ("system", "user"):
        for unit in SYSTEMD_UNITS:
            source = "/usr/lib/systemd/%s/%s" % (kind, unit)
            if os.path.exists(source):
                result.file(os.path.realpath(source), "/lib/systemd/%s/%s" % (kind, unit))
    result.text("/etc/systemd/system/tests.service", SYSTEMD_TESTS)
    result.text("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    result.link("/usr/lib/systemd", "/lib/systemd")


def build_image(path, test_cgroup, build, systemd):
    result = image.Image()
    if systemd:
        add_systemd(result)
    for directory in ("/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/etc"):
        result.directory(directory)
    result.device("/dev/console", 0o600, 5, 1)
    result.device("/dev/null", 0o666, 1, 3)
    result.device("/dev/urandom", 0o666, 1, 9)  # for the interpreter's hash seed, before anything is mounted
    python = image.add_python(result, "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable)
    if python != "/usr/bin/python3":
        result.link("/usr/bin/python3", python)
    result.file(os.path.realpath("/bin/sh"), "/bin/sh")
    for tool in ("sleep", "true", "cat", "id", "echo", "setsid"):
        result.file(os.path.realpath(shutil.which(tool)), "/bin/" + tool)
    result.file("/etc/ld.so.cache")
    result.text("/etc/passwd", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
                               "nobody:x:65534:65534::/nonexistent:/bin/sh\n")
    result.text("/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n")
    result.file(test_cgroup, "/usr/lib/sbx-tests/test_cgroup")
    result.file(os.path.join(HERE, "inside.py"), "/usr/lib/sbx-tests/inside.py")
    with open(os.path.join(HERE, "inside.py")) as f:
        result.text("/init", "#!/usr/bin/python3 -IS\n" + f.read(), 0o755)
    if not systemd and build and os.path.exists(os.path.join(build, "core/cli/snipara-sandbox")):
        image.add_build(result, os.path.abspath(build), "/opt/build")
    result.write(path)


def boot(kernel, initramfs, timeout, parameters=""):
    """Yields the lines that the machine says, until it ends or the time is up."""
    arguments = [QEMU, "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1536", "-kernel", kernel, "-initrd", initramfs, "-append",
                 "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off " + parameters, "-nographic", "-no-reboot", "-nodefaults",
                 "-serial", "stdio", "-monitor", "none"]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace")
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            yield line.rstrip()
    finally:
        timer.cancel()
        process.kill()
        process.wait()


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def result(self, ok, name, directive=""):
        self.count += 1
        self.failed += not ok
        print("%s %d - %s%s" % ("ok" if ok else "not ok", self.count, name, directive), flush=True)


def relay(lines, tap):
    """Turns the machine's lines into TAP; False if it ended before it was through."""
    tail = []
    for line in lines:
        _, _, text = line.partition("@@ ")
        if not text:
            tail = (tail + [line])[-60:]
        elif text == "end":
            return True
        elif text.startswith("ok "):
            tap.result(True, text[3:])
        elif text.startswith("not ok "):
            tap.result(False, text[7:])
        elif text.startswith("skip "):
            name, _, reason = text[5:].partition(" # ")
            tap.result(True, name, " # SKIP " + reason)
        else:
            print(text, flush=True)
    for line in tail:
        print("# console: " + line)
    return False


def run_machine(options, kernel, tap, systemd):
    parameters = "rdinit=%s systemd.unit=tests.service systemd.log_level=err" % SYSTEMD if systemd else ""
    with tempfile.TemporaryDirectory() as directory:
        initramfs = os.path.join(directory, "initramfs")
        build_image(initramfs, options.test_cgroup, options.build, systemd)
        print("# kernel %s, image of %d MiB" % (kernel, os.path.getsize(initramfs) >> 20), flush=True)
        if not relay(boot(kernel, initramfs, options.timeout, parameters), tap):
            tap.result(False, "the virtual machine came to its end within %d s" % options.timeout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test-cgroup", required=True, help="the test program of plugins/backend-local")
    parser.add_argument("--build", help="build directory with the whole program")
    parser.add_argument("--timeout", type=float, default=800)
    options = parser.parse_args()
    try:
        need_qemu()
        kernel = find_kernel()
    except (Unavailable, OSError) as e:
        print("TAP version 13\n1..0 # SKIP cgroup v2 in a virtual machine: %s" % e)
        return 0
    print("TAP version 13")
    tap = Tap()
    run_machine(options, kernel, tap, False)
    if os.path.exists(SYSTEMD) and shutil.which("systemd-run"):
        run_machine(options, kernel, tap, True)
    else:
        tap.result(True, "cgroup v2 under systemd", " # SKIP this machine has no systemd to take along")
    print("1..%d\n# %d run, %d failed" % (tap.count, tap.count, tap.failed))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
