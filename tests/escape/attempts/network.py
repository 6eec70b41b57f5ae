# SPDX-License-Identifier: Apache-2.0
"""The network: there is none, of any family, nor the sockets of the host."""
from . import CONTAINER, NAMESPACES, Attempt

PROMISE = "no network: IPv4, IPv6, netlink, packet, vsock, abstract sockets of the host"

FAMILIES = """
import socket
made = []
for family in range(0, 64):
    if family == socket.AF_UNIX:
        continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            s = socket.socket(family, kind)
        except OSError:
            continue
        made.append((family, int(kind)))
        s.close()
escaped(made) if made else held("64 families")
"""

# Numbers of families are compared by the kernel as 32 bits: one with more must not slip by a filter on 64.
FAMILY_HIGH_BITS = """
import platform
number, pair = {"x86_64": (41, 53), "aarch64": (198, 199)}[platform.machine()]
for name, family in (("AF_INET", 2), ("AF_INET6", 10), ("AF_NETLINK", 16), ("AF_PACKET", 17), ("AF_VSOCK", 40),
                     ("AF_ALG", 38), ("AF_KCM", 41), ("AF_XDP", 44)):
    for high in (0, 1 << 32):
        result, error = syscall(number, family | high, 2, 0)
        if result >= 0:
            escaped("%s with high bits %#x" % (name, high))
            os.close(result)
        else:
            held("%s: %s" % (name, name_of(error)))
"""

CONNECT = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", @TCP_PORT@)), (socket.AF_INET6, ("::1", @TCP6_PORT@)),
                        (socket.AF_INET, (@ADDRESS@, @TCP_PORT@))):
    def talk():
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(address)
            return s.recv(64)
    must_fail("connect", talk)
"""

ABSTRACT = """
import socket
def talk(kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(2)
        s.connect(b"\\0" + @ABSTRACT@.encode())
        return s.recv(64)
must_fail("abstract socket of the host", talk, socket.SOCK_STREAM)
"""

PATH_SOCKET = """
import socket
def talk():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        s.connect(@SOCKET@)
        return s.recv(64)
must_fail("a socket of the host in its file system", talk)
for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
             "/run/systemd/journal/socket", "/run/user/0/bus"):
    def reach():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            return path
    must_fail(path, reach)
"""

NAMES = """
import socket
try:
    escaped(socket.getaddrinfo("example.org", 80))
except OSError as e:
    held(e)
"""

INTERFACES = """
import socket
try:
    names = [name for _, name in socket.if_nameindex()]
except OSError as e:
    names = []
try:
    with open("/proc/net/dev") as f:
        names += [line.split(":")[0].strip() for line in f if ":" in line]
except OSError:
    pass
wrong = [name for name in names if name != "lo"]
escaped(wrong) if wrong else held(names)
"""

ATTEMPTS = [
    Attempt("socket-families", PROMISE, FAMILIES, control="escaped"),
    Attempt("socket-family-high-bits", PROMISE, FAMILY_HIGH_BITS, control="escaped"),
    Attempt("connect-to-host", PROMISE, CONNECT, control="escaped"),
    Attempt("abstract-socket", PROMISE, ABSTRACT, control="escaped"),
    Attempt("path-socket", PROMISE, PATH_SOCKET, control="escaped"),
    Attempt("look-up-names", PROMISE, NAMES),
    Attempt("network-interfaces", PROMISE, INTERFACES, isolations=(NAMESPACES, CONTAINER), control="escaped"),
]
