/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that begin as another one is, and run beside it, without the core: `test_branches BUILD_ROOT`. Speaks TAP. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

#define STATE                                                                                                          \
        "import os, collections, decimal\n"                                                                            \
        "data = {i: str(i) for i in range(20000)}\n"                                                                   \
        "big = bytearray(os.urandom(6 << 20)); digest = hash(bytes(big))\n"                                            \
        "squares = (n * n for n in range(9)); next(squares), next(squares)\n"                                          \
        "def counter(n=0):\n"                                                                                          \
        "    while True:\n"                                                                                            \
        "        n += 1\n"                                                                                             \
        "        yield n\n"                                                                                            \
        "count = counter(); next(count)\n"                                                                             \
        "os.makedirs('/tmp/d', exist_ok=True)\n"                                                                       \
        "kept = open('/tmp/d/file', 'w+'); kept.write('first line\\n'); kept.flush()\n"                                \
        "noise = open('/dev/urandom', 'rb', 0)\n"
#define LOOK                                                                                                           \
        "print(len(data), data[777], digest == hash(bytes(big)), next(squares), next(count), "                         \
        "open('/tmp/d/file').read().strip(), len(noise.read(5)), decimal.Decimal(1) / 8)"
#define SEEN "20000 777 True 4 2 first line 5 0.125\n"

static void test_life(struct suite *suite) {
        struct sbx_guest guest, branches[3];
        int before;

        if (!begin(suite, &guest))
                return;
        end(suite, &guest);
        before = count_fds();
        if (!begin(suite, &guest) || !says(&guest, STATE, ""))
                return;
        for (int i = 0; i < 3; i++)
                if (!branch(suite, &guest, &branches[i]))
                        return;
        check(suite, says(&guest, LOOK, SEEN), "the original goes on");
        for (int i = 0; i < 3; i++)
                check(suite, says(&branches[i], LOOK, SEEN), "branch %d has all of it", i);
        check(suite, says(&branches[0], "data.clear(); big[:] = b''; kept.write('more'); kept.flush()", ""),
              "one changes what it has");
        check(suite,
              says(&branches[1], "print(len(data), len(big), open('/tmp/d/file').read())",
                   "20000 6291456 first line\n\n"),
              "another one does not see it");
        check(suite,
              says(&guest, "print(len(data), len(big), open('/tmp/d/file').read())", "20000 6291456 first line\n\n"),
              "nor does the original");
        end(suite, &guest);
        check(suite, says(&branches[2], "print(next(count))", "3\n"), "branches outlive their original");
        for (int i = 0; i < 3; i++)
                end(suite, &branches[i]);
        check(suite, count_fds() == before, "no descriptor is left open: %d, %d", count_fds(), before);
}

/* ---- what a branch is */

static void test_alone(struct suite *suite) {
        static const char look[] =
                "import os, sys\n"
                "print(sorted(int(name) for name in os.listdir('/proc') if name.isdecimal()), os.getpid(),\n"
                "      sys.modules['__main__'].__dict__ is globals(), len(os.listdir('/proc/self/task')))";
        struct sbx_guest guest, first, second;

        if (!begin(suite, &guest) || !says(&guest, "mine = 1", "") || !branch(suite, &guest, &first))
                return;
        check(suite, says(&first, look, "[1] 1 True 1\n"), "a branch sees no process but its own");
        check(suite, says(&first, "mine += 1\nimport json, random", "") && branch(suite, &first, &second),
              "a branch is branched");
        check(suite,
              says(&second, look, "[1] 1 True 1\n") && says(&second, "print(mine, json.dumps([mine]))", "2 [2]\n"),
              "and that one is the same");
        check(suite, says(&guest, "print(mine)", "1\n"), "the first of all is what it was");
        check(suite,
              says(&second, "import subprocess\nprint(subprocess.run(['true']).returncode, os.fork() and os.wait()[1])",
                   NULL),
              "it starts processes");
        end(suite, &first);
        end(suite, &second);
        end(suite, &guest);
}

static void test_copies_and_branches(struct suite *suite) {
        struct sbx_guest guest, copy, side, copy_of_side, other;

        if (!begin(suite, &guest) || !says(&guest, "n = 1\nstep = iter(range(100))\nnext(step)", "") ||
            !freeze(suite, &guest, &copy) || !says(&guest, "n = 2; next(step)", ""))
                return;
        if (!branch(suite, &copy, &side) || !branch(suite, &copy, &other) || !branch(suite, &guest, &copy_of_side))
                return;
        check(suite, says(&side, "print(n, next(step))", "1 1\n") && says(&other, "print(n, next(step))", "1 1\n"),
              "what a copy that waits is made of serves twice");
        check(suite, says(&copy_of_side, "print(n, next(step))", "2 2\n"), "the guest's own is another one");
        end(suite, &copy_of_side);
        check(suite, freeze(suite, &side, &copy_of_side) && says(&side, "print(next(step))", "2\n"),
              "a branch has copies that wait");
        end(suite, &side);
        check(suite, says(&copy_of_side, "print(next(step))", "2\n"), "which take its place");
        end(suite, &guest);
        check(suite, says(&copy, "print(n, next(step))", "1 1\n"), "and the first guest's copy takes its");
        end(suite, &copy);
        end(suite, &copy_of_side);
        end(suite, &other);
}

/* What the kernel keeps for a process is there again. */
static void test_kernel_state(struct suite *suite) {
        struct sbx_guest guest, side;

        if (!begin(suite, &guest) ||
            !says(&guest,
                  "import os, signal\n"
                  "seen = []\n"
                  "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
                  "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n"
                  "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})\n"
                  "os.umask(0o077)\n"
                  "os.makedirs('/tmp/deep/er'); os.chdir('/tmp/deep/er')\n"
                  "os.environ['NAME'] = 'value'\n"
                  "null = open('/dev/null', 'w'); zero = os.open('/dev/zero', os.O_RDONLY); spare = os.dup(zero)\n"
                  "gone = open('/tmp/gone', 'w+'); gone.write('still here'); gone.flush(); os.remove('/tmp/gone')",
                  "") ||
            !branch(suite, &guest, &side))
                return;
        check(suite,
              says(&side,
                   "os.kill(os.getpid(), signal.SIGUSR1); os.kill(os.getpid(), signal.SIGUSR2)\n"
                   "print(seen, signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ()), oct(os.umask(0o077)),\n"
                   "      os.getcwd(), os.getenv('NAME'), os.read(zero, 2), os.read(spare, 1), null.write('x'))\n"
                   "gone.seek(0); print(gone.read())",
                   "[1] True 0o77 /tmp/deep/er value b'\\x00\\x00' b'\\x00' 1\nstill here\n"),
              "signals, directory, environment, devices, a file without a name");
        check(suite,
              says(&side,
                   "import mmap, ctypes, sqlite3\nprint(sqlite3.connect(':memory:').execute('select 6*7').fetchone())",
                   "(42,)\n"),
              "it loads libraries");
        end(suite, &side);
        end(suite, &guest);
}

/* Libraries that were loaded after the session had begun, memory that was given back, large and small pieces of it. */
static void test_memory_of_all_kinds(struct suite *suite) {
        static const char begin_with[] =
                "import mmap, os, sqlite3, ctypes, array\n"
                "database = sqlite3.connect(':memory:')\n"
                "database.execute('create table t (n)'); database.executemany('insert into t values (?)', "
                "[(i,) for i in range(1000)])\n"
                "plain = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); plain[1000:1005] = b'plain'\n"
                "sparse = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); sparse[1 << 29] = 7\n"
                "numbers = array.array('q', range(500000))\n"
                "junk = [bytes(100) for _ in range(300000)]; del junk\n"
                "text = 'x' * 5000000";
        static const char look[] =
                "print(database.execute('select sum(n) from t').fetchone(), plain[1000:1005], sparse[1 << 29], sparse[5],\n"
                "      sum(numbers), len(text), sum(len(bytes(100)) for _ in range(100000)))";
        static const char seen[] = "(499500,) b'plain' 7 0 124999750000 5000000 10000000\n";
        struct sbx_guest guest, side, again;

        if (!begin(suite, &guest) || !says(&guest, begin_with, "") || !branch(suite, &guest, &side))
                return;
        check(suite, says(&side, look, seen), "a branch has it");
        check(suite, branch(suite, &side, &again) && says(&again, look, seen), "a branch of the branch too");
        check(suite,
              says(&side, "numbers[0] = 1; sparse[5] = 1; plain.close()", "") && says(&guest, look, seen) &&
                      says(&again, look, seen),
              "nobody sees what another one changes");
        end(suite, &again);
        end(suite, &side);
        end(suite, &guest);
}

/* ---- what can't be */

static void test_refusals(struct suite *suite) {
        static const char *const busy[] = {
                "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
                "import os\npipe = os.pipe()",
                "import socket\npair = socket.socketpair()",
                "import mmap\nshared = mmap.mmap(-1, 4096)",
                "import subprocess\nsubprocess.Popen(['sleep', '100'])",
                "import signal\nsignal.alarm(100)",
                "import ctypes, mmap\nhidden = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nhidden[0] = 1\n"
                "at = ctypes.addressof(ctypes.c_char.from_buffer(hidden))\n"
                "ctypes.CDLL(None).mprotect(ctypes.c_void_p(at), 4096, 0)",
        };
        struct sbx_guest guest, side;

        for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
                struct sbx_error err = {0};

                if (!begin(suite, &guest) || !says(&guest, busy[i], ""))
                        return;
                check(suite, fake_fork(&suite->fake, &guest, false, &side, &err) == -EBUSY, "refused: %s", err.message);
                check(suite, says(&guest, "print(1)", "1\n"), "the session goes on");
                end(suite, &guest);
        }
}

/* Files are put into a branch when it runs: a library among them can't be mapped before. */
static void test_a_library_of_its_own(struct suite *suite) {
        struct sbx_error err = {0};
        struct sbx_guest guest, side;

        if (!begin(suite, &guest) ||
            !says(&guest,
                  "import _ctypes, ctypes, shutil\nshutil.copy(_ctypes.__file__, '/tmp/own.so')\nown = ctypes.CDLL('/tmp/own.so')",
                  ""))
                return;
        check(suite, fake_fork(&suite->fake, &guest, false, &side, &err) == -EIO, "refused: %s", err.message);
        check(suite, says(&guest, "print(1)", "1\n"), "the session goes on");
        end(suite, &guest);
}

/* A guest that lies about itself, in the process that writes the image or in the one that it becomes. */
#define FIND                                                                                                           \
        "import gc, os, mmap, struct\n"                                                                                \
        "import sbx_guest.copies as module\n"                                                                          \
        "maker = next(item for item in gc.get_objects() if type(item).__name__ == 'CopyMaker')\n"                      \
        "kind, real = type(maker), type(maker).image\n"
static const char *const liars[] = {
        "kind.image = lambda self, fd, streams: 1 << 40",
        "kind.image = lambda self, fd, streams: 4096",
        "kind.image = lambda self, fd, streams: os.pwrite(fd, os.urandom(8192), 0)",
        "kind.image = lambda self, fd, streams: -1",
        "kind.image = lambda self, fd, streams: 1",
        "module._DONE = b's'",
        "module._DONE = b'x'",
        /* Keeps its hands on the image. */
        "def keep(self, fd, streams):\n    global held\n    held = mmap.mmap(fd, 4096)\n    return real(self, fd, streams)\n"
        "kind.image = keep",
        /* What the trailer says is nonsense: places, sizes, counts, descriptors. */
        "def spoil(offset, size):\n"
        "    def image(self, fd, streams):\n"
        "        done = real(self, fd, streams)\n"
        "        if done > 1:\n"
        "            os.pwrite(fd, os.urandom(size), done + offset)\n"
        "        return done\n"
        "    kind.image = image\n"
        "spoil(-184, 184)",
        "def spoil(self, fd, streams):\n"
        "    done = real(self, fd, streams)\n"
        "    if done > 1:\n"
        "        for at in range(0, done, 4096):\n"
        "            os.pwrite(fd, b'\\xff' * 64, at)\n"
        "    return done\n"
        "kind.image = spoil",
        "def short(self, fd, streams):\n    done = real(self, fd, streams)\n    return done if done < 2 else done - 100\n"
        "kind.image = short",
        "def long(self, fd, streams):\n    done = real(self, fd, streams)\n    return done if done < 2 else done + 100\n"
        "kind.image = long",
        "real_become = module.Copies._become_copy\nmodule.Copies._become_copy = lambda *_: os._exit(0)",
        "module.Copies._become_copy = lambda self, *_: self._tell(b'd', 'x' * 400, 1 << 60)",
        "module.Copies._become_copy = lambda *_: os.write(2, b'x' * 100000)",
        "os._exit(0)",
};

static void test_liars(struct suite *suite) {
        struct sbx_guest guest, side;
        int before;

        if (!begin(suite, &guest))
                return;
        end(suite, &guest);
        before = count_fds();
        for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
                struct sbx_error err = {0};
                char code[2048];
                int r;

                if (!begin(suite, &guest))
                        return;
                snprintf(code, sizeof(code), "%s%s", FIND, liars[i]);
                fake_exec(&guest, code, NULL, NULL);
                r = fake_fork(&suite->fake, &guest, false, &side, &err);
                check(suite, r == 0 || (r < 0 && err.message[0] != '\0' && strpbrk(err.message, "\n\x1b") == NULL),
                      "liar %zu: %s", i, r == 0 ? "a branch" : err.message);
                if (r == 0)
                        end(suite, &side);
                end(suite, &guest);
        }
        check(suite, count_fds() == before, "no descriptor is left open: %d, %d", count_fds(), before);
        if (begin(suite, &guest)) {
                check(suite, says(&guest, "print(1)", "1\n"), "the next guest is an ordinary one");
                end(suite, &guest);
        }
}

/* One that kept a descriptor of the image can't change what others began with, nor what will begin with it. */
static void test_image_is_sealed(struct suite *suite) {
        struct sbx_guest guest, first, second;

        if (!begin(suite, &guest) ||
            !says(&guest,
                  FIND "secret = 'unspoilt' * 100000\n"
                       "def keep(self, fd, streams):\n"
                       "    global held\n"
                       "    if 'held' not in globals():\n"
                       "        held = os.dup(fd)\n"
                       "    return real(self, fd, streams)\n"
                       "kind.image = keep",
                  "") ||
            !branch(suite, &guest, &first))
                return;
        check(suite,
              says(&guest,
                   "done = []\n"
                   "for attempt in (lambda: os.pwrite(held, b'x' * 4096, 0), lambda: os.ftruncate(held, 0),\n"
                   "                lambda: mmap.mmap(held, 4096), lambda: os.ftruncate(held, 1 << 30)):\n"
                   "    try:\n"
                   "        attempt(); done.append('worked')\n"
                   "    except OSError as error:\n"
                   "        done.append(error.errno)\n"
                   "print(done[:3], done[3] != 'worked', os.close(held))",
                   "[1, 1, 1] True None\n"),
              "the image can't be written, cut or mapped to be written");
        check(suite, says(&first, "print(secret == 'unspoilt' * 100000)", "True\n"), "its branch is what it was");
        if (branch(suite, &guest, &second)) {
                check(suite, says(&second, "print(secret == 'unspoilt' * 100000)", "True\n"), "so is the next one");
                end(suite, &second);
        }
        end(suite, &first);
        end(suite, &guest);
}

/* ---- what it takes */

static void test_many(struct suite *suite) {
        enum { BRANCHES = 40 };
        struct sbx_guest guest, sides[BRANCHES];
        struct sbx_guest_usage usage;
        uint64_t began_with;
        bool good = true;
        char code[64], wanted[32];

        if (!begin(suite, &guest) || !says(&guest, "import os\nbig = os.urandom(20 << 20)", ""))
                return;
        began_with = usage_of(suite, &guest).memory_bytes;
        for (int i = 0; i < BRANCHES; i++)
                if (!branch(suite, &guest, &sides[i]))
                        return;
        for (int i = 0; i < BRANCHES; i++) {
                snprintf(code, sizeof(code), "mine = %d", i);
                good = says(&sides[i], code, "") && good;
        }
        for (int i = 0; i < BRANCHES; i++) {
                snprintf(wanted, sizeof(wanted), "%d %d\n", i, 20 << 20);
                good = says(&sides[i], "print(mine, len(big))", wanted) && good;
        }
        check(suite, good, "%d branches live side by side", BRANCHES);
        usage = usage_of(suite, &sides[0]);
        if (is_counted(&guest, "memory"))
                check(suite, usage.memory_bytes < (UINT64_C(20) << 20),
                      "one takes less than what they share: %llu bytes", (unsigned long long)usage.memory_bytes);
        else
                skip(suite, "one takes less than what they share", "no cgroup counts memory here");
        for (int i = 0; i < BRANCHES; i++)
                end(suite, &sides[i]);
        for (int i = 0; i < BRANCHES; i++) {
                if (!says(&guest, "mine = 1", "") || !branch(suite, &guest, &sides[0]))
                        return;
                end(suite, &sides[0]);
        }
        usage = usage_of(suite, &guest);
        check(suite, usage.memory_bytes < began_with + (UINT64_C(120) << 20),
              "images that nobody needs are gone: %llu bytes, then %llu", (unsigned long long)began_with,
              (unsigned long long)usage.memory_bytes);
        end(suite, &guest);
}

/* RLIMIT_FSIZE is for the session's files. */
static void test_beyond_the_limit_of_files(struct suite *suite) {
        char cgroup[] = "cgroup=auto", tmp[] = "tmp_size=4m", workspace[] = "workspace_size=4m";
        char *settings[] = {cgroup, tmp, workspace};
        struct sbx_guest guest, side;

        close_suite(suite);
        if (!open_suite(suite, settings, 3) || !begin(suite, &guest) ||
            !says(&guest, "import resource\nbig = bytes(range(256)) * 80000\nlater = [str(i) for i in range(50000)]",
                  "") ||
            !branch(suite, &guest, &side))
                return;
        check(suite,
              says(&side,
                   "print(len(big), big == bytes(range(256)) * 80000, later[-1], resource.getrlimit(resource.RLIMIT_FSIZE)[0])",
                   "20480000 True 49999 4194304\n"),
              "an image may be larger than any file of the session");
        end(suite, &side);
        end(suite, &guest);
        close_suite(suite);
        open_suite(suite, settings, 1);
}

/* A call that is over costs a session nothing, however long its image takes. */
static void test_impatience(struct suite *suite) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                      .label = "impatient",
                                      .runtime = "python",
                                      .limits.struct_size = sizeof(spec.limits)};
        struct sbx_guest guest,
                side = {.struct_size = sizeof(side), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        struct sbx_error err = {0};
        int r;

        if (!begin(suite, &guest) || !says(&guest, "big = bytes(range(256)) * 400000", ""))
                return;
        r = suite->fake.ops->guest_fork(suite->fake.instance, guest.handle, &spec, &call, &side, &err);
        check(suite, r == -ETIMEDOUT, "no branch for a call that is over: %d, %s", r, err.message);
        check(suite, says(&guest, "print(len(big))", "102400000\n"), "the session goes on");
        if (branch(suite, &guest, &side)) {
                check(suite, says(&side, "print(big == bytes(range(256)) * 400000)", "True\n"), "and is branched");
                end(suite, &side);
        }
        end(suite, &guest);
}

static void test_zygote_death(struct suite *suite) {
        struct sbx_guest guest, side;
        pid_t zygote;

        if (!begin(suite, &guest) || !branch(suite, &guest, &side))
                return;
        zygote = zygote_of(&guest);
        if (check(suite, zygote > 1, "there is a zygote"))
                kill(zygote, SIGKILL);
        check(suite, is_dead(&guest, 5000) && is_dead(&side, 5000), "guest and branch die with the zygote");
        end(suite, &guest);
        end(suite, &side);
        if (begin(suite, &guest) && branch(suite, &guest, &side)) {
                check(suite, says(&side, "print(1)", "1\n"), "there are others after that");
                end(suite, &guest);
                end(suite, &side);
        }
}

/* Branches are there where a cgroup counts memory. */
static bool may_branch(struct suite *suite) {
        struct sbx_error err = {0};
        struct sbx_guest guest, side;
        bool counted;

        if (!begin(suite, &guest))
                return false;
        counted = is_counted(&guest, "memory");
        if (!counted) {
                check(suite, fake_fork(&suite->fake, &guest, false, &side, &err) == -ENOTSUP,
                      "without a cgroup no session is branched: %s", err.message);
                skip(suite, "branches", "no cgroup counts memory here");
        }
        end(suite, &guest);
        return counted;
}

int main(int argc, char **argv) {
        static suite_test *const tests[] = {test_life,
                                            test_alone,
                                            test_copies_and_branches,
                                            test_kernel_state,
                                            test_memory_of_all_kinds,
                                            test_refusals,
                                            test_a_library_of_its_own,
                                            test_liars,
                                            test_image_is_sealed,
                                            test_many,
                                            test_beyond_the_limit_of_files,
                                            test_impatience,
                                            test_zygote_death};

        return run_suite(argc, argv, may_branch, tests, sizeof(tests) / sizeof(tests[0]));
}
