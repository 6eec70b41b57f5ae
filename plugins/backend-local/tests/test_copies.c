/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of guests, without the core: `test_copies BUILD_ROOT`. Speaks TAP. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

#define MARK "sbx-copies-mark" /* in command lines of what guests start */

/* Processes of this machine with the mark of this run in their command line. */
static void make_mark(char mark[64]) {
        snprintf(mark, 64, MARK "-%ld", (long)getpid());
}

static bool is_marked(const char *pid) {
        char path[300], mark[64], line[4096];
        int fd;
        ssize_t n;

        make_mark(mark);
        snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, line, sizeof(line));
        if (fd >= 0)
                close(fd);
        return n > 0 && memmem(line, (size_t)n, mark, strlen(mark)) != NULL;
}

static int count_marked(void) {
        DIR *proc = opendir("/proc");
        const struct dirent *entry;
        int count = 0;

        while (proc != NULL && (entry = readdir(proc)) != NULL)
                count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_marked(entry->d_name);
        if (proc != NULL)
                closedir(proc);
        return count;
}

/* ---- lives */

static void test_life(struct suite *suite) {
        struct sbx_guest guest, copies[3];
        struct sbx_guest_usage usage;
        pid_t first;
        int before;

        if (!begin(suite, &guest))
                return;
        end(suite, &guest);
        before = count_fds();
        if (!begin(suite, &guest))
                return;
        first = fake_pid_of(&guest);
        says(&guest, "n = 0", "");
        for (int i = 0; i < 3; i++)
                if (!freeze(suite, &guest, &copies[i]) || !says(&guest, "n += 1", ""))
                        return;
        check(suite, fake_pid_of(&guest) != first && !is_dead(&guest, 0), "the guest lives, in another process");
        check(suite, says(&guest, "print(n)", "3\n"), "and has what it had");
        suite->fake.ops->guest_kill(suite->fake.instance, copies[0].handle);
        check(suite, is_dead(&copies[0], 0) && !is_dead(&guest, 0) && !is_dead(&copies[1], 0),
              "one copy dies, and nobody else");
        fake_exec(&guest, "import os\nos._exit(3)", NULL, NULL);
        check(suite, is_dead(&guest, 5000), "the guest ends itself");
        usage = usage_of(suite, &guest);
        check(suite, usage.exit_code == 3, "how it ended is known: %d", usage.exit_code);
        end(suite, &guest);
        check(suite, says(&copies[2], "print(n)", "2\n"), "a copy goes on");
        suite->fake.ops->guest_kill(suite->fake.instance, copies[2].handle);
        usage = usage_of(suite, &copies[2]);
        check(suite, is_dead(&copies[2], 0) && usage.exit_code == -SIGKILL, "and is killed: %d", usage.exit_code);
        check(suite, says(&copies[1], "print(n)", "1\n"), "the last one goes on");
        check(suite, kill(first, 0) == 0, "as long as the first process");
        for (int i = 0; i < 3; i++)
                end(suite, &copies[i]);
        for (int i = 0; i < 500 && kill(first, 0) == 0; i++) /* until it is buried */
                usleep(10000);
        check(suite, kill(first, 0) < 0, "which ends with the last of them");
        check(suite, count_fds() == before, "no descriptor is left open");
}

static void test_first_process_holds_nothing(struct suite *suite) {
        char path[64], line[256];
        struct sbx_guest guest, copy;
        long kib = -1;
        pid_t first;
        FILE *file;

        if (!begin(suite, &guest))
                return;
        first = fake_pid_of(&guest);
        says(&guest, "data = [bytes([n % 256]) * 4000 for n in range(60 << 8)]", "");
        if (!freeze(suite, &guest, &copy))
                return;
        snprintf(path, sizeof(path), "/proc/%d/status", (int)first);
        for (int i = 0; i < 500 && (kib < 0 || kib > 20000); i++) { /* it is at it */
                file = fopen(path, "re");
                while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
                                break;
                if (file != NULL)
                        fclose(file);
                usleep(10000);
        }
        check(suite, kib >= 0 && kib < 20000, "process 1 has given back the session's memory: %ld KiB are left", kib);
        check(suite, says(&guest, "print(sum(map(len, data)))", "61440000\n"), "the guest has it");
        end(suite, &guest);
        check(suite, says(&copy, "print(sum(map(len, data)))", "61440000\n"), "and so has the copy");
        end(suite, &copy);
}

static void test_zygote_death(struct suite *suite) {
        struct sbx_guest guest, copy;
        pid_t zygote;

        if (!begin(suite, &guest))
                return;
        zygote = zygote_of(&guest);
        if (!freeze(suite, &guest, &copy))
                return;
        if (check(suite, zygote > 1, "there is a zygote"))
                kill(zygote, SIGKILL);
        check(suite, is_dead(&guest, 5000) && is_dead(&copy, 5000), "guest and copy die with the zygote");
        end(suite, &guest);
        end(suite, &copy);
        if (begin(suite, &guest) && freeze(suite, &guest, &copy)) {
                check(suite, says(&copy, "print(1)", "1\n"), "there are others after that");
                end(suite, &guest);
                end(suite, &copy);
        }
}

/* ---- what a guest starts */

/* One that begins another program has no command line for a moment. */
static bool any_marked(void) {
        for (int i = 0; i < 500; i++) {
                if (count_marked() > 0)
                        return true;
                usleep(10000);
        }
        return false;
}

/* A program that has left its parents: nobody waits for it. */
static void start_stray(const struct sbx_guest *guest) {
        char code[512], mark[64];

        make_mark(mark);
        snprintf(code, sizeof(code),
                 "import subprocess\nsubprocess.run(['sh', '-c', 'setsid sh -c \"sleep 600; : %s\" </dev/null "
                 ">/dev/null 2>&1 &'])",
                 mark);
        says(guest, code, NULL);
}

static void test_strays(struct suite *suite) {
        struct sbx_guest guest, copy, other;

        if (!begin(suite, &guest) || !freeze(suite, &guest, &copy) || !freeze(suite, &guest, &other))
                return;
        start_stray(&guest);
        check(suite, any_marked(), "the guest has started a program");
        end(suite, &other);
        check(suite, any_marked(), "which does not end with a copy that waits");
        suite->fake.ops->guest_kill(suite->fake.instance, guest.handle);
        check(suite, count_marked() == 0, "but with the guest");
        check(suite, says(&copy, "print(1)", "1\n"), "a copy that waited goes on");
        start_stray(&copy);
        end(suite, &guest);
        check(suite, any_marked(), "what it starts does not end with the guest that it replaced");
        end(suite, &copy);
        check(suite, count_marked() == 0, "but with it");
}

struct interrupted {
        struct suite *suite;
        struct sbx_guest *guest;
        atomic_bool over;
};

static void *interrupt_later(void *data) {
        struct interrupted *interrupted = data;

        for (int i = 0; i < 20; i++) { /* as the core does: one that comes too early is not taken */
                usleep(100000);
                interrupted->suite->fake.ops->guest_interrupt(interrupted->suite->fake.instance,
                                                              interrupted->guest->handle, NULL);
                if (count_marked() == 0)
                        break;
        }
        return NULL;
}

static void test_interrupts(struct suite *suite) {
        struct sbx_guest guest, copy;
        struct interrupted interrupted = {.suite = suite, .guest = &guest};
        pthread_t thread;

        if (!begin(suite, &guest))
                return;
        says(&guest, "word = 'kept'", "");
        if (!freeze(suite, &guest, &copy))
                return;
        start_stray(&guest);
        if (pthread_create(&thread, NULL, interrupt_later, &interrupted) != 0)
                abort();
        check(suite, says(&guest, "import time\ntime.sleep(60)", NULL), "an execution is interrupted");
        pthread_join(thread, NULL);
        check(suite, count_marked() == 0, "what it had started has ended");
        check(suite, !is_dead(&copy, 0) && says(&guest, "print(word)", "kept\n"), "the guest and its copy have not");
        end(suite, &guest);
        check(suite, says(&copy, "print(word)", "kept\n"), "the copy goes on");
        end(suite, &copy);
}

/* As the core does: again and again for a while, then it is killed. */
static void *interrupt_or_kill(void *data) {
        struct interrupted *interrupted = data;
        const struct sbx_backend_ops *ops = interrupted->suite->fake.ops;

        for (int i = 0; i < 10 && !atomic_load(&interrupted->over); i++) {
                usleep(200000);
                ops->guest_interrupt(interrupted->suite->fake.instance, interrupted->guest->handle, NULL);
        }
        if (!atomic_load(&interrupted->over))
                ops->guest_kill(interrupted->suite->fake.instance, interrupted->guest->handle);
        return NULL;
}

/* Processes that multiply as fast as they can, beside copies that must not be hit. */
static void test_fork_bomb(struct suite *suite) {
        struct sbx_guest guest, copy;
        struct interrupted interrupted = {.suite = suite, .guest = &guest};
        pthread_t thread;
        int r;

        if (!begin(suite, &guest))
                return;
        if (!is_counted(&guest, "pids")) {
                skip(suite, "a fork bomb beside copies", "no cgroup counts processes");
                end(suite, &guest);
                return;
        }
        says(&guest, "word = 'kept'", "");
        if (!freeze(suite, &guest, &copy))
                return;
        if (pthread_create(&thread, NULL, interrupt_or_kill, &interrupted) != 0)
                abort();
        r = fake_exec(&guest, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", NULL, NULL);
        atomic_store(&interrupted.over, true);
        pthread_join(thread, NULL);
        check(suite, !is_dead(&copy, 0), "a copy survives a fork bomb (the execution: %d)", r);
        end(suite, &guest);
        for (int at = 0; at < 1000 && usage_of(suite, &copy).pids > 2; at++)
                usleep(10000); /* the dead are buried one by one */
        check(suite, usage_of(suite, &copy).pids <= 2, "of which nothing is left: %u processes",
              usage_of(suite, &copy).pids);
        check(suite, says(&copy, "print(word)", "kept\n"), "and goes on");
        end(suite, &copy);
}

/* ---- limits */

static bool start_limited(struct suite *suite, uint64_t memory_bytes, uint32_t pids, struct sbx_guest *guest) {
        struct sbx_guest_spec spec = {
                .struct_size = sizeof(spec),
                .label = "test-limited",
                .runtime = "python",
                .limits = {.struct_size = sizeof(spec.limits), .memory_bytes = memory_bytes, .pids_max = pids}};

        *guest = (struct sbx_guest){
                .struct_size = sizeof(*guest), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        return suite->fake.ops->guest_start(suite->fake.instance, &spec, NULL, guest, NULL) == 0 &&
               fake_greet(guest) == 0;
}

#define GREEDY "data = []\nfor i in range(200): data.append(bytearray(b'x') * (1 << 20))"

static void test_memory(struct suite *suite) {
        struct sbx_guest guest, copy, again;

        if (!start_limited(suite, 64 << 20, 0, &guest)) {
                check(suite, false, "a small guest starts");
                return;
        }
        if (!is_counted(&guest, "memory")) {
                skip(suite, "memory of copies", "no cgroup counts it");
                end(suite, &guest);
                return;
        }
        for (int i = 0; i < 10; i++) { /* each one makes room, and takes it along */
                if (!freeze(suite, &guest, &copy))
                        return;
                end(suite, &copy);
        }
        says(&guest, "word = 'kept'", "");
        if (!freeze(suite, &guest, &copy) || !freeze(suite, &guest, &again))
                return;
        end(suite, &again);
        fake_exec(&guest, GREEDY, NULL, NULL);
        check(suite, is_dead(&guest, 5000) && usage_of(suite, &guest).oom_killed == 1,
              "a guest with copies has no more memory than without, and is who the kernel ends");
        end(suite, &guest);
        check(suite, says(&copy, "print(word)", "kept\n") && usage_of(suite, &copy).oom_killed == 0,
              "its copy goes on, without the blame");
        end(suite, &copy);
}

static void test_pids(struct suite *suite) {
        struct sbx_guest guest, copies[6];

        if (!start_limited(suite, 0, 2, &guest)) {
                check(suite, false, "a guest with two processes starts");
                return;
        }
        if (!is_counted(&guest, "pids")) {
                skip(suite, "processes of copies", "no cgroup counts them");
                end(suite, &guest);
                return;
        }
        for (int i = 0; i < 6; i++)
                if (!freeze(suite, &guest, &copies[i]))
                        return;
        check(suite,
              says(&guest, "import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True).stdout)",
                   "b'hi\\n'\n"),
              "copies take nothing from the processes that a guest may have");
        check(suite,
              says(&guest,
                   "import os\nn = 0\ntry:\n    for n in range(50):\n        if os.fork() == 0:\n"
                   "            import time; time.sleep(60); os._exit(0)\nexcept BlockingIOError: pass\n"
                   "print(n < 12)",
                   "True\n"),
              "nor do they add to them");
        for (int i = 0; i < 6; i++)
                end(suite, &copies[i]);
        end(suite, &guest);
}

/* ---- files */

#define TREE                                                                                                           \
        "import os, stat\n"                                                                                            \
        "os.makedirs('a/b'); open('a/one', 'w').write('1'); os.link('a/one', 'a/b/same')\n"                            \
        "os.symlink('../one', 'a/b/link'); os.mkfifo('a/pipe'); os.mkdir('closed'); os.chmod('closed', 0o555)\n"       \
        "os.chmod('a/one', 0o640); os.utime('a/one', (5, 5)); open('/dev/shm/x', 'wb').write(bytes(70000))\n"
#define TELL                                                                                                           \
        "def tell():\n"                                                                                                \
        "    out = []\n"                                                                                               \
        "    for top in ('/workspace', '/tmp', '/dev/shm'):\n"                                                         \
        "        for base, dirs, files in os.walk(top):\n"                                                             \
        "            for name in sorted(dirs + files):\n"                                                              \
        "                path = os.path.join(base, name); s = os.lstat(path)\n"                                        \
        "                what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else None\n"                              \
        "                if stat.S_ISREG(s.st_mode): what = open(path, 'rb').read()\n"                                 \
        "                out.append((path, s.st_mode, s.st_nlink, what, int(s.st_mtime)))\n"                           \
        "    return out\nbefore = tell()"
#define DESTROY                                                                                                        \
        "import shutil\nos.chmod('closed', 0); open('/dev/shm/x', 'r+b').write(b'y')\n"                                \
        "open('a/one', 'w').write('2'); os.unlink('a/b/link'); os.makedirs('a/b/link/deep'); os.unlink('a/pipe')\n"    \
        "os.symlink('/usr', 'a/pipe'); open('new', 'w').write('n'); os.chmod('.', 0o500)"

static void test_files(struct suite *suite) {
        struct sbx_guest guest, copy;
        struct sbx_error err = {0};

        if (!begin(suite, &guest))
                return;
        says(&guest, TREE, "");
        says(&guest, TELL, "");
        if (!freeze(suite, &guest, &copy))
                return;
        check(suite, says(&guest, DESTROY "\nprint('done')", "done\n"), "files are changed");
        end(suite, &guest);
        check(suite, says(&copy, "print(before == tell(), os.path.samefile('a/one', 'a/b/same'))", "True True\n"),
              "a copy has them as they were");
        check(suite, says(&copy, "with open('huge', 'wb') as f:\n    for i in range(65): f.write(bytes(1 << 20))", ""),
              "a large file is written");
        check(suite,
              fake_fork(&suite->fake, &copy, true, &guest, &err) == -EBUSY && strstr(err.message, "64 MiB") != NULL,
              "with it there can be no copy: %s", err.message);
        check(suite,
              says(&copy,
                   "os.unlink('huge')\nfor i in range(10001): open(f'/workspace/{i}', 'w').close()\nprint('done')",
                   "done\n"),
              "many files are made");
        err = (struct sbx_error){0};
        check(suite,
              fake_fork(&suite->fake, &copy, true, &guest, &err) == -EBUSY && strstr(err.message, "10000") != NULL,
              "nor with very many: %s", err.message);
        end(suite, &copy);
}

/* ---- liars: code that takes the worker's place in answering. Whatever comes of it is an error or a copy, and ends
 * when it is told to; the next guest knows nothing of it */

static const char *const liars[] = {
        /* Answers ahead. */
        "s.send(b'd' + bytes(12))",
        "s.send(b'd' + bytes(12)); s.send(b'd' + bytes(12)); s.send(b't' + bytes(12))",
        "s.send(b'b' + bytes(12) + b'\\n\\x1b[31m' * 60)",
        "s.send(b'f' + bytes(12)); s.send(b''); s.send(b'd' * 70000 if False else b'd' * 4000)",
        "s.send(b'd')",
        /* Descriptors that nobody asked for. */
        "s.sendmsg([b'd' + bytes(12)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2]))])",
        /* Another process answers, in the name of the session. */
        "\nif os.fork() == 0:\n    s.send(b'd' + bytes(12)); time.sleep(600)",
        /* Nobody answers. */
        "s.close()",
        "s.shutdown(socket.SHUT_RDWR)",
        /* Too much. */
        "s.setblocking(False)\ntry:\n    while True: s.send(b't' + bytes(12))\nexcept BlockingIOError: pass",
};
#define FIND                                                                                                           \
        "import array, os, socket, time\n"                                                                             \
        "def find():\n"                                                                                                \
        "    for n in os.listdir('/proc/self/fd'):\n"                                                                  \
        "        try:\n            s = socket.socket(fileno=int(n))\n        except OSError: continue\n"               \
        "        if s.type == socket.SOCK_SEQPACKET: return s\n        s.detach()\n"                                   \
        "s = find()\n"

static void test_liars(struct suite *suite) {
        struct sbx_guest guest, copy;
        int before;

        if (!begin(suite, &guest))
                return;
        end(suite, &guest);
        before = count_fds();
        for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++)
                for (int copied = 0; copied < 2; copied++) { /* before the first copy, and later */
                        struct sbx_error err = {0};
                        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
                        struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                                      .label = "liar",
                                                      .runtime = "python",
                                                      .limits.struct_size = sizeof(spec.limits),
                                                      .flags = SBX_GUEST_FROZEN};
                        struct sbx_guest first = {.handle = NULL};
                        char code[2048];
                        int r;

                        if (!begin(suite, &guest) || (copied != 0 && !freeze(suite, &guest, &first)))
                                return;
                        snprintf(code, sizeof(code), "%s%s", FIND, liars[i]);
                        fake_exec(&guest, code, NULL, NULL);
                        copy = (struct sbx_guest){.struct_size = sizeof(copy),
                                                  .control_fd = -1,
                                                  .stdout_fd = -1,
                                                  .stderr_fd = -1,
                                                  .exit_fd = -1};
                        r = suite->fake.ops->guest_fork(suite->fake.instance, guest.handle, &spec, &call, &copy, &err);
                        check(suite,
                              r == 0 || (r < 0 && err.message[0] != '\0' && strpbrk(err.message, "\n\x1b") == NULL),
                              "liar %zu, %s: %s", i, copied != 0 ? "of more copies" : "of the first copy",
                              r == 0 ? "a copy" : err.message);
                        if (r == 0)
                                end(suite, &copy);
                        end(suite, &guest);
                        end(suite, &first);
                }
        check(suite, count_fds() == before, "no descriptor is left open");
        if (begin(suite, &guest)) {
                check(suite, says(&guest, "print(1)", "1\n"), "the next guest is an ordinary one");
                end(suite, &guest);
        }
}

/* ---- */

static void test_refusals(struct suite *suite) {
        char landlock[] = "isolation=landlock", cgroup[] = "cgroup=auto";
        char *settings[] = {landlock, cgroup};
        struct sbx_guest guest, copy;
        struct sbx_error err = {0};

        close_suite(suite);
        if (open_suite(suite, settings, 2) && begin(suite, &guest)) {
                for (int frozen = 0; frozen < 2; frozen++)
                        check(suite, fake_fork(&suite->fake, &guest, frozen, &copy, &err) == -ENOTSUP,
                              "without a pid namespace there are no copies");
                end(suite, &guest);
        }
}

int main(int argc, char **argv) {
        static suite_test *const tests[] = {test_life,      test_first_process_holds_nothing,
                                            test_strays,    test_interrupts,
                                            test_fork_bomb, test_memory,
                                            test_pids,      test_files,
                                            test_liars,     test_zygote_death,
                                            test_refusals};

        return run_suite(argc, argv, NULL, tests, sizeof(tests) / sizeof(tests[0]));
}
