# SPDX-License-Identifier: Apache-2.0
"""The host's secrets: what its environment, its configuration and its command line hold never enters a guest."""
from . import CONTAINER, NAMESPACES, Attempt

PROMISE = "the host's environment and secrets are not in a guest"

ENVIRONMENT = """
secret = @TOKEN_REVERSED@[::-1]
places = {"os.environ": repr(dict(os.environ))}
for name in ("environ", "cmdline"):
    for pid in ("self", "1", str(os.getppid())):
        try:
            with open("/proc/%s/%s" % (pid, name), "rb") as f:
                places[pid + "/" + name] = f.read().decode("latin-1")
        except OSError:
            pass
found = [where for where, text in places.items() if secret in text]
known = [n for n in os.environ if n.startswith(("OPENAI", "SNIPARA", "RLM", "SBX", "AWS", "LD_"))]
escaped(found + known) if found or known else held(sorted(os.environ))
"""

# All of the process's memory, which it shares with the zygote: nothing of the host may ever have been there. The text
# looked for is put together here, in a buffer that is left out.
MEMORY = """
import mmap
reversed_secret = @TOKEN_REVERSED@
buffer = ctypes.create_string_buffer(len(reversed_secret))
for i, c in enumerate(reversed(reversed_secret)):
    buffer[i] = c.encode()
needle = ctypes.addressof(buffer)
strstr = libc.memmem
strstr.restype = ctypes.c_void_p
strstr.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
found = []
scanned = 0
with open("/proc/self/maps") as f:
    lines = f.read().splitlines()
for line in lines:
    fields = line.split()
    if "r" != fields[1][0] or (len(fields) > 5 and fields[5] in ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
        continue
    start, end = (int(x, 16) for x in fields[0].split("-"))
    at = start
    while at < end:
        hit = strstr(at, end - at, needle, len(reversed_secret))
        if not hit:
            break
        if hit != needle:
            found.append(hex(hit))
        at = hit + 1
    scanned += end - start
escaped(found) if found else held("%d bytes" % scanned)
"""

COMMAND_LINES = """
texts = [open("/proc/self/cmdline", "rb").read(), open("/proc/1/cmdline", "rb").read(), repr(sys.argv).encode(),
         repr(sys.path).encode()]
wrong = [t for t in texts for part in (@PROJECT@, @HOME@, @CONFIGURATION@) if part.encode() in t]
escaped(wrong) if wrong else held("nothing of the host's paths")
"""

NAMES_OF_HOST = """
import platform
escaped(platform.node()) if platform.node() == @HOSTNAME@ else held(platform.node())
"""

MOUNTS = """
with open("/proc/self/mountinfo") as f:
    text = f.read()
wrong = [part for part in (@PROJECT@, @HOME@, os.path.dirname(@CANARY@)) if part in text]
escaped(wrong) if wrong else held("%d mounts" % len(text.splitlines()))
"""

ATTEMPTS = [
    Attempt("environment", PROMISE, ENVIRONMENT, control="escaped"),
    Attempt("memory-of-zygote", PROMISE, MEMORY, alone=True),
    Attempt("command-lines", PROMISE, COMMAND_LINES, isolations=(NAMESPACES, CONTAINER)),
    Attempt("host-name", PROMISE, NAMES_OF_HOST, isolations=(NAMESPACES, CONTAINER), control="escaped"),
    Attempt("mount-table", PROMISE, MOUNTS, isolations=(NAMESPACES, CONTAINER)),
]
