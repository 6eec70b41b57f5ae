/* SPDX-License-Identifier: Apache-2.0 */
/* Guests of the plugin, without the core: `test_guest BUILD_ROOT`. Speaks TAP. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

/* Opened and started, with the suite's isolation and up to seven more settings. Says what went wrong. */
static bool open_backend(struct suite *suite, struct fake_host *fake, char **settings, size_t count,
                         struct sbx_error *err) {
        char isolation[64], cgroup[] = "cgroup=auto";
        char *all[10] = {isolation, cgroup};
        int r;

        snprintf(isolation, sizeof(isolation), "isolation=%s", suite->of);
        for (size_t i = 0; i < count; i++)
                all[2 + i] = settings[i];
        *fake = (struct fake_host){.library = NULL};
        *err = (struct sbx_error){0};
        r = fake_open(fake, suite->root, all, 2 + count, err);
        if (r == 0)
                r = fake->plugin->start(fake->instance, NULL, err);
        return r == 0;
}

/* A greeted guest. */
static bool start_guest(struct suite *suite, struct fake_host *fake, struct sbx_guest *guest) {
        struct sbx_error err = {0};

        if (fake_start(fake, guest, &err) == 0 && fake_greet(guest) == 0)
                return true;
        check(suite, false, "a guest starts: %s (%s)", err.message, err.hint);
        return false;
}

static bool has(const struct sbx_guest *guest, const char *text) {
        return memmem(guest->report.data, guest->report.size, text, strlen(text)) != NULL;
}

/* ---- tests */

static void test_life(struct suite *suite, struct fake_host *fake) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct pollfd death;
        struct sbx_guest guest;
        int before;

        if (!start_guest(suite, fake, &guest))
                return;
        fake_end(fake, &guest);
        before = count_fds();
        if (!start_guest(suite, fake, &guest))
                return;
        check(suite, has(&guest, "\"backend\":\"local\"") && has(&guest, suite->of),
              "the report names backend and isolation");
        check(suite, says(&guest, "x = 20 + 1\nprint(x)", "21\n") && says(&guest, "print(x * 2)", "42\n"),
              "it runs code, and keeps variables");
        check(suite,
              says(&guest, "import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True).stdout)",
                   "b'hi\\n'\n"),
              "it runs programs");
        check(suite,
              fake->ops->guest_usage(fake->instance, guest.handle, &usage, NULL) == 0 && usage.exit_code == INT32_MIN &&
                      usage.memory_bytes > 0,
              "usage of a living guest");
        fake->ops->guest_kill(fake->instance, guest.handle);
        death = (struct pollfd){guest.exit_fd, POLLIN, 0};
        check(suite, poll(&death, 1, 0) == 1, "it is dead when guest_kill returns");
        check(suite, fake->ops->guest_interrupt(fake->instance, guest.handle, NULL) == -ESRCH,
              "a dead guest can't be interrupted");
        check(suite,
              fake->ops->guest_usage(fake->instance, guest.handle, &usage, NULL) == 0 && usage.exit_code == -SIGKILL,
              "it was killed");
        fake->ops->guest_kill(fake->instance, guest.handle);
        fake_end(fake, &guest);
        check(suite, count_fds() == before, "no descriptor is left open");
}

static void test_limits(struct suite *suite, struct fake_host *fake) {
        static const char code[] = "try: x = bytearray(200 << 20)\nexcept MemoryError: x = b''\nprint(len(x) >> 20)";
        struct sbx_limits limits = {.struct_size = sizeof(limits), .memory_bytes = UINT64_C(1) << 30};
        struct sbx_guest guest;
        bool counted;
        int r;

        if (!start_guest(suite, fake, &guest))
                return;
        counted = has(&guest, "{\"name\":\"memory\",\"state\":\"applied\"");
        check(suite, says(&guest, code, "200\n"), "it has the configured memory");
        (void)fake_exec(&guest, "x = None", NULL, NULL);
        r = fake->ops->guest_limit(fake->instance, guest.handle, &limits, NULL);
        check(suite, r == (counted ? 0 : -ENOTSUP), "a memory limit is raised by its cgroup alone (%d)", r);
        limits.memory_bytes = 128u << 20;
        r = fake->ops->guest_limit(fake->instance, guest.handle, &limits, NULL);
        check(suite, r == 0, "a memory limit is lowered (%d)", r);
        check(suite, !says(&guest, code, "200\n"), "and then holds");
        fake_end(fake, &guest);
}

static void test_exit_codes(struct suite *suite, struct fake_host *fake) {
        static const struct {
                const char *code;
                int exit_code;
        } cases[] = {{"import os; os._exit(3)", 3}, {"import ctypes; ctypes.string_at(0)", -SIGSEGV}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
                struct sbx_guest guest;
                struct pollfd death;

                if (!start_guest(suite, fake, &guest))
                        return;
                (void)fake_exec(&guest, cases[i].code, NULL, NULL);
                death = (struct pollfd){guest.exit_fd, POLLIN, 0};
                poll(&death, 1, 5000);
                fake->ops->guest_usage(fake->instance, guest.handle, &usage, NULL);
                check(suite, usage.exit_code == cases[i].exit_code, "%s: exit code %d", cases[i].code, usage.exit_code);
                fake_end(fake, &guest);
        }
}

static void *interrupt_soon(void *data) {
        void **pair = data;
        const struct fake_host *fake = pair[0];
        const struct sbx_guest *guest = pair[1];

        usleep(200000);
        fake->ops->guest_interrupt(fake->instance, guest->handle, NULL);
        return NULL;
}

static void test_interrupt(struct suite *suite, struct fake_host *fake) {
        struct sbx_guest guest;
        void *pair[2] = {fake, &guest};
        char *result = NULL;
        pthread_t thread;

        if (!start_guest(suite, fake, &guest) || pthread_create(&thread, NULL, interrupt_soon, pair) != 0)
                return;
        (void)fake_exec(&guest, "y = 5\nwhile True: pass", NULL, &result);
        pthread_join(thread, NULL);
        check(suite, result != NULL && strstr(result, "\"interrupted\"") != NULL && says(&guest, "print(y)", "5\n"),
              "an interrupted loop keeps its variables");
        free(result);
        fake_end(fake, &guest);
}

static void test_orphans(struct suite *suite, struct fake_host *fake) {
        static const char code[] = "import os, sys\n"
                                   "if os.fork() == 0:\n"
                                   "    os.setsid()\n"
                                   "    if os.fork() == 0:\n"
                                   "        os.execvp('sleep', ['sleep', '86399'])\n"
                                   "    os._exit(0)\n";
        struct sbx_guest guest;
        int before, after;

        if (!start_guest(suite, fake, &guest))
                return;
        (void)fake_exec(&guest, code, NULL, NULL);
        usleep(100000);
        before = system("pgrep -f '^sleep 86399' > /dev/null");
        fake_end(fake, &guest);
        after = system("pgrep -f '^sleep 86399' > /dev/null");
        check(suite, before == 0 && after != 0, "what it started in the background dies with it");
}

struct crowd {
        struct fake_host *fake;
        int good;
};

static void *crowd_member(void *data) {
        struct crowd *crowd = data;

        for (int i = 0; i < 5; i++) {
                struct sbx_guest guest;
                struct sbx_error err = {0};

                if (fake_start(crowd->fake, &guest, &err) == 0) {
                        crowd->good += fake_greet(&guest) == 0 && says(&guest, "print(6 * 7)", "42\n");
                        fake_end(crowd->fake, &guest);
                }
        }
        return NULL;
}

static void test_crowd(struct suite *suite, struct fake_host *fake) {
        struct crowd crowds[8];
        pthread_t threads[8];
        int good = 0;

        for (int i = 0; i < 8; i++) {
                crowds[i] = (struct crowd){fake, 0};
                if (pthread_create(&threads[i], NULL, crowd_member, &crowds[i]) != 0)
                        abort();
        }
        for (int i = 0; i < 8; i++) {
                pthread_join(threads[i], NULL);
                good += crowds[i].good;
        }
        check(suite, good == 40, "eight threads start five guests each (%d worked)", good);
}

static void test_zygote_death(struct suite *suite, struct fake_host *fake) {
        struct sbx_guest guest, next;
        struct pollfd death;
        pid_t zygote;

        if (!start_guest(suite, fake, &guest))
                return;
        zygote = zygote_of(&guest);
        if (zygote > 1)
                kill(zygote, SIGKILL);
        death = (struct pollfd){guest.exit_fd, POLLIN, 0};
        check(suite, poll(&death, 1, 5000) == 1, "guests die with the zygote");
        fake_end(fake, &guest);
        if (start_guest(suite, fake, &next)) {
                check(suite, says(&next, "print(1)", "1\n") && zygote_of(&next) != zygote,
                      "and another zygote serves the next");
                fake_end(fake, &next);
        }
}

static void test_calls(struct suite *suite, struct fake_host *fake) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "test", .runtime = "cobol"};
        struct sbx_guest guest = {.struct_size = sizeof(guest)};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_error err = {0};
        int fds[2], r;

        r = fake->ops->guest_start(fake->instance, &spec, NULL, &guest, &err);
        check(suite, r == -ENOENT && strstr(err.message, "cobol") != NULL, "another runtime: %s", err.message);
        spec.runtime = "python";
        err = (struct sbx_error){0};
        r = fake->ops->guest_start(fake->instance, &spec, &call, &guest, &err);
        check(suite, r == -ETIMEDOUT, "a deadline that has passed: %s", err.message);
        if (pipe2(fds, O_CLOEXEC) < 0 || write(fds[1], "x", 1) != 1)
                abort();
        call = (struct sbx_call){.struct_size = sizeof(call), .cancel_fd = fds[0], .deadline_ns = 0};
        err = (struct sbx_error){0};
        r = fake->ops->guest_start(fake->instance, &spec, &call, &guest, &err);
        check(suite, r == -ECANCELED, "a cancelled call: %s", err.message);
        close(fds[0]);
        close(fds[1]);
        /* Given up on in every phase of a start, or not, as it happens. */
        for (uint64_t i = 0; i < 30; i++) {
                call = (struct sbx_call){.struct_size = sizeof(call),
                                         .cancel_fd = -1,
                                         .deadline_ns = fake_clock_ns() + i * UINT64_C(100000)};
                guest = (struct sbx_guest){.struct_size = sizeof(guest)};
                if (fake->ops->guest_start(fake->instance, &spec, &call, &guest, NULL) == 0)
                        fake_end(fake, &guest);
        }
        if (start_guest(suite, fake, &guest)) {
                check(suite, says(&guest, "print(3)", "3\n"), "what was given up does not disturb the next");
                fake_end(fake, &guest);
        }
}

static void test_preload(struct suite *suite) {
        static const struct {
                char setting[64];
                const char *wanted;
        } cases[] = {
                {"preload=nosuchmodule", "nosuchmodule"}, {"python=/bin/nosuch", "/bin/nosuch"},
                {"read_only_paths=/proc/1", "/proc"},     {"read_only_paths=/nosuch", "/nosuch"},
                {"workspace=rw", "workspace_path"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *settings[] = {(char *)cases[i].setting};
                struct fake_host fake;
                struct sbx_guest guest = {.handle = NULL};
                struct sbx_error err;
                bool good = open_backend(suite, &fake, settings, 1, &err) && fake_start(&fake, &guest, &err) == 0;

                check(suite, !good && strstr(err.message, cases[i].wanted) != NULL && err.hint[0] != '\0',
                      "%s: %s (%s)", cases[i].setting, err.message, err.hint);
                fake_end(&fake, &guest);
                fake_close(&fake);
        }
}

static void write_text(const char *path, const char *text) {
        FILE *file = fopen(path, "we");

        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
                abort();
}

/* A workspace of the server's own user, and a directory to be read. */
static void test_paths(struct suite *suite) {
        char directory[] = "/tmp/sbx-test-XXXXXX", workspace[64], path_setting[96], read_only[96], file[96], code[256];
        char rw[] = "workspace=rw", ro[] = "workspace=ro";
        char *settings[] = {rw, path_setting, read_only};
        struct fake_host fake;
        struct sbx_guest guest;
        struct sbx_error err;
        struct stat st;

        if (mkdtemp(directory) == NULL || chmod(directory, 0755) < 0)
                abort();
        snprintf(workspace, sizeof(workspace), "%s/work", directory);
        snprintf(path_setting, sizeof(path_setting), "workspace_path=%s", workspace);
        snprintf(read_only, sizeof(read_only), "read_only_paths=%s/data", directory);
        snprintf(file, sizeof(file), "%s/data", directory);
        if (mkdir(workspace, 0755) < 0 || mkdir(file, 0755) < 0)
                abort();
        snprintf(file, sizeof(file), "%s/data/f", directory);
        write_text(file, "read me");
        snprintf(file, sizeof(file), "%s/work/made", directory);
        /* Without a mount namespace there is no id-mapped mount: a root's own directory is then closed to guests. */
        if (geteuid() == 0 && strcmp(suite->of, "namespaces") != 0 && chown(workspace, 65534, 65534) < 0)
                abort();
        if (open_backend(suite, &fake, settings, 3, &err) && start_guest(suite, &fake, &guest)) {
                snprintf(code, sizeof(code), "open('made', 'w').write('x')\nprint(open('%s/data/f').read())",
                         directory);
                check(suite, says(&guest, code, "read me\n"), "it reads a read-only path and writes its workspace");
                check(suite, stat(file, &st) == 0, "what it wrote is there");
                if (strcmp(suite->of, "namespaces") == 0)
                        check(suite, st.st_uid == geteuid(), "and belongs to the owner of the directory");
                if (strcmp(suite->of, "none") != 0) {
                        snprintf(code, sizeof(code),
                                 "try: open('%s/data/g', 'w')\nexcept OSError as e: print(e.errno in (1, 13, 30))",
                                 directory);
                        check(suite, says(&guest, code, "True\n"), "it can't write the read-only path");
                        check(suite,
                              says(&guest,
                                   "import os\ntry: os.chmod('made', 0o4755)\nexcept OSError as e: print(e.errno)",
                                   "1\n"),
                              "it can't make a set-uid file");
                }
                fake_end(&fake, &guest);
        } else
                check(suite, false, "workspace: %s", err.message);
        fake_close(&fake);
        settings[0] = ro;
        if (strcmp(suite->of, "none") != 0 && open_backend(suite, &fake, settings, 3, &err)) {
                if (start_guest(suite, &fake, &guest)) {
                        check(suite,
                              says(&guest,
                                   "print(open('made').read())\ntry: open('made', 'a')\nexcept OSError: print('no')",
                                   "x\nno\n"),
                              "a read-only workspace");
                        fake_end(&fake, &guest);
                }
                fake_close(&fake);
        }
        unlink(file);
        rmdir(workspace);
        snprintf(file, sizeof(file), "%s/data/f", directory);
        unlink(file);
        *strrchr(file, '/') = '\0';
        rmdir(file);
        rmdir(directory);
}

/* Generators of random numbers that were used before guests were cloned must not say the same in each. */
static void test_random(struct suite *suite, struct fake_host *fake) {
        static const char code[] = "import ssl, random\nprint(ssl.RAND_bytes(8).hex(), random.random())";
        struct fake_output *outputs = calloc(3, sizeof(*outputs));
        bool good = outputs != NULL;

        for (int i = 0; good && i < 3; i++) {
                struct sbx_guest guest;

                good = start_guest(suite, fake, &guest) && fake_exec(&guest, code, &outputs[i], NULL) == 0;
                fake_end(fake, &guest);
                for (int j = 0; good && j < i; j++)
                        good = strcmp(outputs[i].text, outputs[j].text) != 0 &&
                               strncmp(outputs[i].text, outputs[j].text, 16) != 0 &&
                               strcmp(outputs[i].text + 16, outputs[j].text + 16) != 0;
        }
        check(suite, good && outputs[0].size > 17, "guests have random numbers of their own");
        free(outputs);
}

/* A virtual environment in /tmp, which every guest has its own of. */
static void test_venv(struct suite *suite) {
        char directory[] = "/tmp/sbx-venv-XXXXXX", command[256], setting[64], preload[] = "preload=json,seeded";
        char *settings[] = {setting, preload};
        struct fake_host fake;
        struct sbx_guest guest;
        struct sbx_error err;

        if (mkdtemp(directory) == NULL || chmod(directory, 0755) < 0)
                abort();
        snprintf(command, sizeof(command), "/usr/bin/python3 -m venv --without-pip %s/v 2>/dev/null", directory);
        if (system(command) != 0) {
                skip(suite, "a virtual environment", "python3 -m venv does not work here");
        } else {
                snprintf(command, sizeof(command),
                         "cd %s/v/lib/python3*/site-packages && "
                         "echo 'import ssl, random; ssl.RAND_bytes(8); random.random()' > seeded.py",
                         directory);
                if (system(command) != 0)
                        abort();
                snprintf(setting, sizeof(setting), "python=%s/v/bin/python3", directory);
                snprintf(command, sizeof(command),
                         "import sys\nprint(sys.prefix == '%s/v', sys.prefix != sys.base_prefix)", directory);
                if (open_backend(suite, &fake, settings, 2, &err) && start_guest(suite, &fake, &guest)) {
                        check(suite, says(&guest, command, "True True\n"), "a virtual environment");
                        fake_end(&fake, &guest);
                        test_random(suite, &fake);
                } else
                        check(suite, false, "a virtual environment: %s", err.message);
                fake_close(&fake);
        }
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        if (system(command) != 0)
                printf("# can't remove %s\n", directory);
}

static void run(struct suite *suite, const char *isolation) {
        struct fake_host fake;
        struct sbx_error err;

        suite->of = isolation;
        if (!open_backend(suite, &fake, NULL, 0, &err)) {
                check(suite, false, "it starts: %s (%s)", err.message, err.hint);
                fake_close(&fake);
                return;
        }
        test_life(suite, &fake);
        test_limits(suite, &fake);
        test_exit_codes(suite, &fake);
        test_interrupt(suite, &fake);
        test_orphans(suite, &fake);
        test_crowd(suite, &fake);
        test_calls(suite, &fake);
        test_zygote_death(suite, &fake);
        fake.plugin->stop(fake.instance);
        if (fake.plugin->start(fake.instance, NULL, &err) == 0)
                test_exit_codes(suite, &fake);
        else
                check(suite, false, "it starts again: %s", err.message);
        fake_close(&fake);
        test_preload(suite);
        test_paths(suite);
        test_venv(suite);
}

int main(int argc, char **argv) {
        struct suite suite = {.root = argc > 1 ? argv[1] : getenv("SNIPARA_SANDBOX_BUILD_ROOT")};

        if (suite.root == NULL) {
                fprintf(stderr, "usage: %s BUILD_ROOT\n", argv[0]);
                return 2;
        }
        printf("TAP version 13\n");
        run(&suite, "namespaces");
        run(&suite, "landlock");
        run(&suite, "none");
        printf("1..%d\n", suite.count);
        return suite.failed > 0;
}
