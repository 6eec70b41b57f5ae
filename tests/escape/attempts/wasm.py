# SPDX-License-Identifier: Apache-2.0
"""Out of WebAssembly: by paths, through memory, through functions, by using up what there is."""
from . import WASM, Attempt

FILES = "no path leads to a file of the host"
READ_ONLY = "nothing can be written but the workspace and /tmp"
MEMORY = "nothing beyond linear memory can be read or written"
CALLS = "a forged function pointer calls nothing that it may not"
LIMITS = "what a session can grow has a limit, and the session lives on"
ABSENT = "there are no sockets, processes, threads or native code"
SECRETS = "the host's environment and secrets are not in a guest"
TIME = "no code runs or sleeps longer than it may"

PATHS = """
targets = [@CANARY@, @HOME@ + "/secret", @CONFIGURATION@, @SOCKET@, @PROJECT@, "/etc/shadow", "/proc/self/environ", "/proc/1/root",
           "/dev/mem", "/sys/kernel", "/root", "/var/lib"]
for path in targets:
    for way in (path, "/" + path, "/../.." + path, "../" * 40 + path.lstrip("/"), "/work/../.." + path, "./" + path,
                "/tmp/../tmp/../.." + path, "/usr/lib/../../.." + path, path + "/.", os.fsencode(path)):
        for act in (os.stat, os.lstat, os.listdir, os.readlink, open, lambda p: os.open(p, os.O_RDONLY),
                    lambda p: os.open(p, os.O_RDONLY | os.O_DIRECTORY), lambda p: os.open(p, os.O_WRONLY)):
            try:
                got = act(way)
            except (OSError, AttributeError):
                continue
            escaped("%r: %r" % (way, got))
held("%d files of the host" % len(targets))
"""

READ_CANARY = """
def read():
    with open(@CANARY@) as f:
        return f.read(64)
must_fail("open", read)
"""

LINKS = """
os.makedirs("links/deep", exist_ok=True)
os.symlink(@CANARY@, "links/soft")
os.symlink("/", "links/root")
os.symlink("../" * 60, "links/up")
os.symlink("links/root", "links/deep/again")
target = @CANARY@.lstrip("/")
for path in ("links/soft", "links/root/" + target, "links/up/" + target, "links/deep/../../links/root/" + target,
             "links/root/proc/self/root/" + target, "links/up/links/up/" + target):
    must_fail(path, open, path)
must_fail("a hard link", os.link, @CANARY@, "links/hard")
must_fail("renamed from outside", os.rename, @CANARY@, "links/taken")
for name in ("loop", "pool"):
    os.symlink("pool" if name == "loop" else "loop", "links/" + name)
must_fail("a loop", open, "links/loop", errors=(errno.ELOOP,))
"""

DIRECTORIES = """
top = os.open("/", os.O_RDONLY)
target = @CANARY@.lstrip("/")
for path in (target, "../" + target, "../" * 50 + target, @CANARY@, "./../" + target):
    must_fail("below a descriptor: " + path, lambda p: os.open(p, os.O_RDONLY, dir_fd=top), path)
for fd in range(3, 300):
    try:
        names = os.listdir(fd) if fd != top else []
    except (OSError, TypeError):
        continue
    if set(names) - {"dev", "tmp", "usr", "work"}:
        escaped("descriptor %d: %s" % (fd, names))
os.close(top)
listed = sorted(os.listdir("/"))
(held if set(listed) <= {"dev", "tmp", "usr", "work"} else escaped)("/ has %s" % listed)
os.mkdir("inner")
os.chdir("inner")
os.rename("/work/inner", "/work/moved")
for path in ("../../" + target, "../../../" + target):
    must_fail("from a directory that was moved: " + path, open, path)
"""

NAMES = """
target = @CANARY@
for path in (target + "\\0", "\\0" + target, b"\\xc0\\xae\\xc0\\xae/" * 9 + os.fsencode(target), "%2e%2e/" * 9 + target, "..\\\\" * 9 + target,
             "file://" + target, "/" * 4000 + target, "a" * 100000, "a/" * 2000 + target, "\\u2025/" * 9 + target, "//localhost" + target,
             "/proc/self/fd/3/../../.." + target, "/dev/fd/0/.." + target, ""):
    try:
        got = open(path, "rb").read(64)
    except (OSError, ValueError) as e:
        held("%.40r: %s" % (path, e.__class__.__name__))
    else:
        escaped("%.40r: %r" % (path, got))
"""

WRITES = """
import json
library = json.__file__
for what, act in (
        ("write", lambda: open(library, "w")), ("append", lambda: open(library, "ab")), ("update", lambda: open(library, "r+")),
        ("truncate", lambda: os.truncate(library, 0)), ("unlink", lambda: os.unlink(library)),
        ("rename away", lambda: os.rename(library, "/tmp/away")), ("rename over", lambda: os.rename(__import__("tempfile").mkstemp()[1], library)),
        ("times", lambda: os.utime(library, (1, 1))), ("link over", lambda: os.symlink("/tmp", library + "x")),
        ("a directory", lambda: os.mkdir("/usr/lib/mine")), ("in the root", lambda: open("/mine", "w")),
        ("in /usr", lambda: open("/usr/mine", "w")), ("rename a directory", lambda: os.rename("/usr/lib", "/tmp/lib")),
        ("remove /work", lambda: os.rmdir("/work")), ("remove /tmp", lambda: os.rmdir("/tmp")),
        ("rename /tmp", lambda: os.rename("/tmp", "/other"))):
    must_fail(what, act)
"""

FULL_BYTES = """
written, block = 0, os.urandom(1 << 20)
try:
    with open("full", "wb", buffering=0) as f:
        while written < 2 << 30:
            written += f.write(block)
    escaped("2 GiB fit")
except OSError as e:
    held("%s after %d MiB" % (name_of(e.errno), written >> 20))
must_fail("one more", lambda: open("more", "wb").write(block))
os.unlink("full")
open("after", "w").write("fits")
print(open("after").read())
"""

FULL_ENTRIES = """
made = 0
os.mkdir("many")
try:
    for made in range(1000000):
        open("many/%d" % made, "w").close()
    escaped("a million files")
except OSError as e:
    held("%s after %d files" % (name_of(e.errno), made))
must_fail("one more directory", os.mkdir, "another")
must_fail("one more link", os.symlink, "x", "link")
for i in range(made):
    os.unlink("many/%d" % i)
os.rmdir("many")
os.mkdir("after")
"""

FULL_OTHER = """
path = "deep"
try:
    for depth in range(100000):
        os.mkdir(path)
        path += "/d"
    escaped("%d directories deep" % depth)
except OSError as e:
    held("depth: %s after %d" % (name_of(e.errno), depth))
kept = []
try:
    for number in range(1000000):
        kept.append(os.open("/tmp", os.O_RDONLY))
    escaped("a million descriptors")
except OSError as e:
    held("descriptors: %s after %d" % (name_of(e.errno), number))
for fd in kept:
    os.close(fd)
with open("sparse", "wb", buffering=0) as f:
    for size in (1 << 33, 1 << 40, (1 << 62), (1 << 63) - 1):
        must_fail("truncate to %d" % size, f.truncate, size)
        f.seek(size - 1 if size < 1 << 62 else (1 << 62) - 1)
        must_fail("write at %d" % f.tell(), f.write, b"x")
        f.seek(0)
        f.truncate(0)
"""

# The secret is put together in one place, where it is found; anywhere else it would be the host's. Ends beyond the memory.
SEARCH = """
check_hands()
needle = bytearray(reversed(@TOKEN_REVERSED@.encode()))
memory, address = memory_from(0), 0
mine, = struct.unpack("<I", bytes(memory[id(needle) + 20:id(needle) + 24]))
while address < 0x7fff0000:
    at = memory.find(needle, address, address + 65536 + len(needle))
    while at >= 0:
        held("its own") if at == mine else print("FOUND", hex(at), flush=True)
        at = memory.find(needle, at + 1, address + 65536 + len(needle))
    address += 65536
escaped("memory has no end")
"""

READ_BEYOND = """
check_hands()
held("a known address was read")
memory = memory_from(0x80000000)
escaped("read %r" % bytes(memory[0x7ffffff0:0x7ffffff8]))
"""

READ_NEXT = """
check_hands()
held("a known address was read")
memory, address = memory_from(0), 0
while address < 0x7fffffff:
    memory[address]
    address += 4096
escaped("memory has no end")
"""

WRITE_BEYOND = """
check_hands()
held("a known address was read")
memory = memory_from(0x80000000)
for at in (0x7ffffff0, 0x40000000, 0x20000000, 0):
    memory[at] = 1
    escaped("wrote at %x" % (0x80000000 + at))
"""

# The host is given ranges that leave linear memory.
HOST_RANGES = """
check_hands()
held("a known address was read")
with open("scratch", "wb+", buffering=0) as f:
    f.write(b"x" * 100000)
    for address, size in ((0, 0x7fffffff), (0x80000000, 0x7fffffff), (0xfffffff0, 0x7fffffff), (0xffff0000, 0x10000),
                          (0xfffffff0, 0x20), (0x7fffffff, 0x7fffffff)):
        whole = memoryview(memory_from(address, size))
        must_fail("write from %x" % address, os.write, f.fileno(), whole)
        must_fail("pwrite from %x" % address, os.pwrite, f.fileno(), whole, 0)
        if address:
            f.seek(0)
            must_fail("read to %x" % address, os.readv, f.fileno(), [whole])
            must_fail("writev", os.writev, f.fileno(), [whole, b"fine"])
            written = os.writev(f.fileno(), [b"fine", whole])
            (held if written == 4 else escaped)("a part: %d" % written)
must_fail("standard output", os.write, 1, memoryview(memory_from(0x80000000)))
must_fail("the control stream", os.write, 4, memoryview(memory_from(0x80000000)))
"""

FORGED_CALL = """
check_hands()
held("a known address was read")
kind = bytearray(bytes(memory_from(0)[id(bytearray):id(bytearray) + 256]))
kind[44:48] = struct.pack("<I", 0x00ffffff)  # tp_repr: no function there
kind = bytes(kind)
thing = forge(struct.pack("<IIII", 1 << 20, content_of(kind), 0, 0))
repr(thing)
escaped("it was called")
"""

FORGED_SIGNATURE = """
check_hands()
held("a known address was read")
source = bytes(memory_from(0)[id(bytearray):id(bytearray) + 256])
kind = bytearray(source)
kind[44:48] = source[24:28]  # tp_repr: that of tp_dealloc, which returns nothing
kind = bytes(kind)
thing = forge(struct.pack("<IIII", 1 << 20, content_of(kind), 0, 0))
repr(thing)
escaped("it was called")
"""

STACK = """
sys.setrecursionlimit(10 ** 9)
held("the limit of Python is gone")
def dive(n): return list(map(dive, [n]))
try:
    dive(0)
except (RecursionError, MemoryError) as e:
    held(e.__class__.__name__)
"""

STACK_OF_C = """
import ast, json, pickle, re, copy
sys.setrecursionlimit(10 ** 9)
held("the limit of Python is gone")
nested = []
for _ in range(200000):
    nested = [nested]
for what, act in (("repr", lambda: repr(nested)), ("json", lambda: json.dumps(nested)), ("pickle", lambda: pickle.dumps(nested)),
                  ("json.loads", lambda: json.loads("[" * 200000)), ("compile", lambda: compile("(" * 200000, "x", "eval")),
                  ("compare", lambda: nested == [nested]), ("re", lambda: re.compile("(" * 20000 + ")" * 20000)),
                  ("minus", lambda: compile("-" * 200000 + "1", "x", "eval")), ("copy", lambda: copy.deepcopy(nested))):
    try:
        act()
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as e:
        held("%s: %s" % (what, e.__class__.__name__))
"""

GROW = """
kept, hoard = "kept", []
try:
    while True:
        hoard.append(bytearray(1 << 20))
except MemoryError:
    count = len(hoard)
    hoard.clear()
(held if count < 600 else escaped)("MemoryError after %d MiB" % count)
for size in (1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62):
    try:
        bytearray(size)
        escaped("%d bytes" % size)
    except (MemoryError, OverflowError) as e:
        held("%d: %s" % (size, e.__class__.__name__))
(held if kept == "kept" else escaped)("variables are there")
"""

NOT_THERE = """
def says(what, act):
    try:
        got = act()
    except (ImportError, OSError, RuntimeError, AttributeError, NotImplementedError) as e:
        held("%s: %s: %s" % (what, e.__class__.__name__, e))
    else:
        escaped("%s: %r" % (what, got))
def thread():
    import threading
    t = threading.Thread(target=print)
    t.start()
def connect():
    import socket
    return socket.create_connection(("127.0.0.1", @TCP_PORT@), 2)
def listen():
    import socket
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    return s
def unix():
    import socket
    s = socket.socket(socket.AF_UNIX)
    s.connect(@SOCKET@)
    return s
says("connect", connect)
says("listen", listen)
says("a socket by name", unix)
says("url", lambda: __import__("urllib.request").request.urlopen("http://127.0.0.1:%d/" % @TCP_PORT@))
says("subprocess", lambda: __import__("subprocess").run(["true"]))
says("system", lambda: os.system("true"))
says("popen", lambda: os.popen("true").read())
says("fork", lambda: os.fork())
says("exec", lambda: os.execv("/bin/true", ["true"]))
says("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
says("kill", lambda: os.kill(@VICTIM@, 9))
says("thread", thread)
says("process", lambda: __import__("multiprocessing").Process(target=print).start())
says("ctypes", lambda: __import__("ctypes").CDLL(None))
says("a module of native code", lambda: __import__("_ctypes"))
says("dlopen", lambda: __import__("importlib.machinery").machinery.ExtensionFileLoader("x", "/tmp/x.so").load_module())
says("mmap", lambda: __import__("mmap").mmap(-1, 4096))
says("ptrace", lambda: os.ptrace())
says("mount", lambda: os.mount())
"""

ENVIRONMENT = """
secret = @TOKEN_REVERSED@[::-1]
places = {"os.environ": repr(dict(os.environ)), "arguments": repr(sys.argv), "path": repr(sys.path)}
found = [where for where, text in places.items() if secret in text or @PROJECT@ in text or @HOME@ in text]
known = [n for n in os.environ if n.startswith(("OPENAI", "SNIPARA", "RLM", "SBX", "AWS", "LD_"))]
escaped(found + known) if found or known else held(sorted(os.environ))
import platform
names = (platform.node(), platform.platform(), platform.release())
escaped(names) if @HOSTNAME@ in names else held(names)
"""

SLEEP = """
import time
held("asleep")
while True:
    time.sleep(10 ** 9)
"""

SLEEP_ON = """
import time
held("asleep")
while True:
    try:
        time.sleep(10 ** 9)
    except BaseException:
        pass
"""

SLEEP_OTHERWISE = """
import select
held("waits")
select.select([], [], [], 10 ** 8)
"""


def no_secret(result, _host):
    if "FOUND" in result["stdout"]:
        return "a secret of the host is in linear memory"
    return None if "HELD its own" in result["stdout"] else "the search found nothing, not even what is there"


ENDED = ("killed", "lost")


def attempt(name, promise, code, **more):
    return Attempt("wasm-" + name, promise, code, isolations=(WASM,), **more)


ATTEMPTS = [
    attempt("paths", FILES, PATHS),
    attempt("read-canary", FILES, READ_CANARY, control="escaped"),
    attempt("links", FILES, LINKS),
    attempt("directories", FILES, DIRECTORIES),
    attempt("names", FILES, NAMES),
    attempt("read-only", READ_ONLY, WRITES),
    attempt("full", LIMITS, FULL_BYTES),
    attempt("a-million-files", LIMITS, FULL_ENTRIES),
    attempt("depth-descriptors-holes", LIMITS, FULL_OTHER),
    attempt("search-memory", SECRETS, SEARCH, ends=ENDED, judge=no_secret, flags=("--timeout", "100")),
    attempt("read-beyond", MEMORY, READ_BEYOND, ends=ENDED),
    attempt("read-page-by-page", MEMORY, READ_NEXT, ends=ENDED, flags=("--timeout", "100")),
    attempt("write-beyond", MEMORY, WRITE_BEYOND, ends=ENDED),
    attempt("ranges-for-the-host", MEMORY, HOST_RANGES),
    attempt("forged-call", CALLS, FORGED_CALL, ends=ENDED),
    attempt("forged-signature", CALLS, FORGED_SIGNATURE, ends=ENDED),
    attempt("stack", LIMITS, STACK, ends=("ok", *ENDED), flags=("--timeout", "100")),
    attempt("stack-of-c", LIMITS, STACK_OF_C, ends=("ok", *ENDED), flags=("--timeout", "100")),
    attempt("grow", LIMITS, GROW),
    attempt("not-there", ABSENT, NOT_THERE),
    attempt("environment", SECRETS, ENVIRONMENT),
    attempt("sleep", TIME, SLEEP, ends=("timeout",), flags=("--timeout", "1")),
    attempt("sleep-on", TIME, SLEEP_ON, ends=("timeout",), flags=("--timeout", "1")),
    attempt("sleep-otherwise", TIME, SLEEP_OTHERWISE, ends=("timeout",), flags=("--timeout", "1")),
]
