/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups of guests, on the version that this machine has: limits that hold, counters, reuse, killing, reaping. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/sched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../cgroup_internal.h"

#define MIB (1024u * 1024u)

static const struct cgroup_limits small_limits = {.memory_bytes = 32 * MIB, .pids_max = 16, .cpu_percent = 100};

static uint64_t now_us(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* The manager of most tests; skips loudly where this user may not use cgroups. */
static struct sbx_cgroup_manager *new_manager(void) {
        struct sbx_cgroup_manager *m = NULL;
        struct sbx_error err = {0};

        assert_int_equal(cgroup_manager_new("auto", NULL, &m, &err), 0);
        if (strcmp(cgroup_manager_kind(m), "none") == 0) {
                print_message("# SKIPPED: no cgroups for uid %u here: %s | %s\n", geteuid(), m->reason, m->remedy);
                cgroup_manager_free(m);
                skip();
        }
        return m;
}

static bool has(const struct sbx_cgroup_manager *m, unsigned controller, const char *name) {
        if ((m->controllers & controller) != 0)
                return true;
        print_message("# SKIPPED: no %s controller here: %s\n", name, m->reason);
        return false;
}

static struct sbx_cgroup *create(struct sbx_cgroup_manager *m, const struct cgroup_limits *limits) {
        struct sbx_cgroup *c = NULL;
        struct sbx_error err = {0};

        if (cgroup_create(m, "test", limits, &c, &err) < 0)
                fail_msg("%s", err.message);
        return c;
}

/* A child that waits for `gate`'s end of file, then does `work`. */
struct child {
        pid_t pid;
        int gate;
};

static struct child start_child(int (*work)(void)) {
        struct child child = {.pid = -1};
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        child.pid = fork();
        assert_true(child.pid >= 0);
        if (child.pid == 0) {
                char byte;

                close(fds[1]);
                while (read(fds[0], &byte, 1) < 0 && errno == EINTR)
                        ;
                _exit(work());
        }
        close(fds[0]);
        child.gate = fds[1];
        return child;
}

static void open_gate(struct child *child) {
        close(child->gate);
        child->gate = -1;
}

static int wait_child(struct child *child) {
        int status = 0;

        assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
        return status;
}

static struct child run_in(struct sbx_cgroup *c, int (*work)(void)) {
        struct child child = start_child(work);
        struct sbx_error err = {0};

        if (cgroup_attach(c, child.pid, &err) < 0)
                fail_msg("%s", err.message);
        open_gate(&child);
        return child;
}

static struct sbx_guest_usage usage_of(struct sbx_cgroup *c) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};

        assert_int_equal(cgroup_usage(c, &usage), 0);
        return usage;
}

/* ---- what children do */

static int touch(size_t bytes) {
        volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
                return 9;
        for (size_t i = 0; i < bytes; i += 4096)
                memory[i] = 1;
        return 0;
}
static int touch_16m(void) {
        return touch(16 * MIB);
}
static int touch_128m(void) {
        return touch(128 * MIB);
}
static int spin_300ms(void) {
        uint64_t end = now_us() + 300000;

        while (now_us() < end)
                ;
        return 0;
}
static int sleep_long(void) {
        while (pause() < 0)
                ;
        return 0;
}
/* Answers how many children it could start. */
static int count_forks(void) {
        int count = 0;

        while (count < 100) {
                pid_t pid = fork();

                if (pid < 0)
                        break;
                if (pid == 0)
                        sleep_long();
                count++;
        }
        return count;
}
static int fork_bomb(void) {
        while (fork() >= 0 || errno == EAGAIN)
                ;
        return 0;
}

/* ---- tests */

static void test_modes(void **state) {
        struct cgroup_limits limits = small_limits;
        struct sbx_cgroup_manager *m = NULL;
        struct sbx_cgroup *c;
        struct cgroup_entry entry;
        struct sbx_error err = {0};
        struct sbx_guest_usage usage;

        assert_int_equal(cgroup_manager_new("perhaps", NULL, &m, &err), -EINVAL);
        assert_non_null(strstr(err.message, "perhaps"));
        assert_null(m);
        assert_int_equal(cgroup_manager_new("off", NULL, &m, NULL), 0);
        assert_string_equal(cgroup_manager_kind(m), "none");
        c = create(m, &limits);
        assert_int_equal(cgroup_attach(c, getpid(), NULL), 0);
        assert_int_equal(cgroup_limit(c, &limits, NULL), 0);
        assert_int_equal(cgroup_entry_open(c, &entry, NULL), 0);
        assert_int_equal(entry.kind, CGROUP_ENTRY_NONE);
        assert_int_equal(entry.count, 0);
        usage = usage_of(c);
        assert_int_equal(usage.cpu_ns, 0);
        cgroup_kill(c);
        cgroup_release(c);
        cgroup_release(NULL);
        cgroup_manager_free(m);
        cgroup_manager_free(NULL);
}

static void test_bad_base(void **state) {
        struct sbx_cgroup_manager *m = NULL;
        struct sbx_error err = {0};

        assert_int_equal(cgroup_manager_new("auto", "/tmp", &m, &err), -EINVAL);
        assert_non_null(strstr(err.message, "/tmp"));
        assert_null(m);
}

static void collect_layer(void *data, const char *name, const char *layer_state, const char *detail) {
        char *text = data;

        print_message("# %s: %s, %s\n", name, layer_state, detail);
        snprintf(text + strlen(text), 512 - strlen(text), "%s=%s ", name, layer_state);
}

static void test_describe(void **state) {
        struct cgroup_limits limits = {.memory_bytes = MIB, .pids_max = 3};
        struct sbx_cgroup_manager *m = NULL;
        char text[512] = "";

        assert_int_equal(cgroup_manager_new("off", NULL, &m, NULL), 0);
        cgroup_describe(m, collect_layer, text, &limits);
        assert_string_equal(text, "memory=unavailable pids=unavailable cpu=unavailable ");
        cgroup_manager_free(m);
        m = new_manager();
        text[0] = '\0';
        cgroup_describe(m, collect_layer, text, &limits);
        if ((m->controllers & CGROUP_LIMITS) == CGROUP_LIMITS)
                assert_string_equal(text, "memory=applied pids=applied cpu=unlimited ");
        cgroup_manager_free(m);
}

static void test_counters(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c = create(m, &small_limits);
        struct child child = run_in(c, spin_300ms);
        struct sbx_guest_usage usage;

        print_message("# cgroup %s in %s, controllers %x, reusable %d, swap limited %d\n", cgroup_manager_kind(m),
                      m->trees[0].path, m->controllers, m->reusable, m->swap_limited);
        usleep(50000);
        usage = usage_of(c);
        if ((m->controllers & CGROUP_PIDS) != 0)
                assert_int_equal(usage.pids, 1);
        assert_int_equal(wait_child(&child), 0);
        usage = usage_of(c);
        assert_in_range(usage.cpu_ns, 100000000, 400000000);
        assert_int_equal(usage.oom_killed, 0);
        cgroup_release(c);
        cgroup_manager_free(m);
}

static pid_t clone_into(int cgroup_fd) {
        struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup_fd};

        return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* What the zygote does: the process enters while it is being made. */
static pid_t fork_through(const struct cgroup_entry *entry, const char *expected_name) {
        pid_t pid = entry->kind == CGROUP_ENTRY_CLONE ? clone_into(entry->fds[0]) : fork();

        if (pid == 0) {
                char *text = NULL;
                size_t size;

                for (int i = 0; entry->kind == CGROUP_ENTRY_TASKS && i < entry->count; i++)
                        if (write(entry->fds[i], "0", 1) != 1)
                                _exit(1);
                if (cgroup_read_text(AT_FDCWD, "/proc/self/cgroup", 65536, &text, &size) < 0 ||
                    strstr(text, expected_name) == NULL)
                        _exit(2);
                _exit(0);
        }
        return pid;
}

static void test_entry(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c = create(m, &small_limits);
        struct cgroup_entry entry;
        struct sbx_error err = {0};

        if (cgroup_entry_open(c, &entry, &err) < 0)
                fail_msg("%s", err.message);
        assert_true(entry.kind != CGROUP_ENTRY_NONE && entry.count > 0);
        for (int i = 0; i < 3; i++) {
                uint64_t start = now_us();
                struct child child = {.pid = fork_through(&entry, c->name)};

                assert_true(child.pid > 0);
                assert_int_equal(wait_child(&child), 0);
                print_message("# forked into the cgroup, looked and ended in %" PRIu64 " us\n", now_us() - start);
                usleep(30000);
        }
        cgroup_entry_close(&entry);
        assert_int_equal(entry.count, 0);
        cgroup_release(c);
        cgroup_manager_free(m);
}

/* The zygote of a server that runs as root has another uid, and clones into cgroups that root made. */
static void test_entry_of_other_user(void **state) {
        struct sbx_cgroup_manager *m;
        struct cgroup_entry entry;
        struct sbx_error err = {0};
        struct sbx_cgroup *c;
        struct child child;

        if (geteuid() != 0) {
                print_message("# SKIPPED: needs root\n");
                skip();
        }
        m = new_manager();
        assert_int_equal(cgroup_manager_admit(m, 65534, &err), 0);
        c = create(m, &small_limits);
        assert_int_equal(cgroup_entry_open(c, &entry, &err), 0);
        child.pid = fork();
        if (child.pid == 0) {
                int status = 0;
                pid_t pid;

                if (setresuid(65534, 65534, 65534) < 0)
                        _exit(10);
                pid = fork_through(&entry, c->name);
                if (pid < 0)
                        _exit(20 + (errno & 63));
                waitpid(pid, &status, 0);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 11);
        }
        assert_int_equal(wait_child(&child), 0);
        cgroup_entry_close(&entry);
        cgroup_release(c);
        cgroup_manager_free(m);
}

static void test_memory(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c;
        struct child child;
        struct sbx_guest_usage usage;
        int status;

        if (!has(m, CGROUP_MEMORY, "memory")) {
                cgroup_manager_free(m);
                skip();
        }
        c = create(m, &small_limits);
        child = run_in(c, touch_128m);
        status = wait_child(&child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        usage = usage_of(c);
        assert_int_equal(usage.oom_killed, 1);
        assert_true(usage.memory_peak_bytes == 0 || usage.memory_peak_bytes > 24 * MIB);
        assert_true(usage.memory_peak_bytes <= 32 * MIB);
        cgroup_release(c);

        /* Whoever comes next starts with clean counters, and the limit is its own. */
        for (int i = 0; i < 3; i++) {
                struct cgroup_limits larger = {.memory_bytes = 512 * MIB};

                c = create(m, &larger);
                usage = usage_of(c);
                assert_int_equal(usage.oom_killed, 0);
                assert_in_range(usage.memory_peak_bytes, 0, 4 * MIB);
                assert_in_range(usage.cpu_ns, 0, 5000000);
                child = run_in(c, touch_128m);
                assert_int_equal(wait_child(&child), 0);
                usage = usage_of(c);
                assert_int_equal(usage.oom_killed, 0);
                assert_true(usage.memory_peak_bytes == 0 || usage.memory_peak_bytes > 120 * MIB);
                cgroup_release(c);
        }
        cgroup_manager_free(m);
}

static void test_memory_changes(void **state) {
        struct cgroup_limits more = {.memory_bytes = 256 * MIB}, less = {.memory_bytes = 8 * MIB};
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c;
        struct child child;
        int status;

        if (!has(m, CGROUP_MEMORY, "memory")) {
                cgroup_manager_free(m);
                skip();
        }
        c = create(m, &small_limits);
        assert_int_equal(cgroup_limit(c, &more, NULL), 0);
        assert_int_equal(c->limits.pids_max, small_limits.pids_max);
        child = run_in(c, touch_128m);
        assert_int_equal(wait_child(&child), 0);
        assert_int_equal(cgroup_limit(c, &less, NULL), 0);
        child = run_in(c, touch_16m);
        status = wait_child(&child);
        assert_true(WIFSIGNALED(status));
        cgroup_release(c);
        cgroup_manager_free(m);
}

static void test_pids(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c;
        struct child child;
        int status;

        if (!has(m, CGROUP_PIDS, "pids")) {
                cgroup_manager_free(m);
                skip();
        }
        c = create(m, &small_limits);
        child = run_in(c, count_forks);
        status = wait_child(&child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 15);
        assert_false(cgroup_is_empty(c));
        cgroup_kill(c);
        assert_true(cgroup_is_empty(c));
        cgroup_release(c);
        cgroup_manager_free(m);
}

static void test_cpu(void **state) {
        struct cgroup_limits fifth = {.cpu_percent = 20};
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c;
        struct child child;

        if (!has(m, CGROUP_CPU, "cpu")) {
                cgroup_manager_free(m);
                skip();
        }
        c = create(m, &fifth);
        child = run_in(c, spin_300ms);
        assert_int_equal(wait_child(&child), 0);
        assert_in_range(usage_of(c).cpu_ns, 20000000, 150000000);
        cgroup_release(c);
        cgroup_manager_free(m);
}

static void test_kill_fork_bomb(void **state) {
        struct cgroup_limits limits = {.pids_max = 64, .cpu_percent = 100};
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c;
        struct child child;

        if (!has(m, CGROUP_PIDS, "pids")) {
                cgroup_manager_free(m);
                skip();
        }
        c = create(m, &limits);
        child = run_in(c, fork_bomb);
        usleep(100000);
        cgroup_kill(c);
        assert_true(cgroup_is_empty(c));
        wait_child(&child);
        cgroup_release(c);
        /* The limit that killing left behind is not the next one's. */
        c = create(m, &small_limits);
        child = run_in(c, count_forks);
        assert_int_equal(WEXITSTATUS(wait_child(&child)), 15);
        cgroup_release(c);
        cgroup_manager_free(m);
}

static int count_directories(const char *path, const char *prefix) {
        DIR *dir = opendir(path);
        struct dirent *entry;
        int count = 0;

        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL)
                count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
        closedir(dir);
        return count;
}

static void test_churn(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        char owner[CGROUP_NAME_MAX], path[512];
        uint64_t start = now_us();

        snprintf(owner, sizeof(owner), "%s", m->owner);
        snprintf(path, sizeof(path), "%s", m->trees[0].path);
        for (int i = 0; i < 500; i++)
                cgroup_release(create(m, &small_limits));
        print_message("# create and release: %.1f us\n", (double)(now_us() - start) / 500);
        assert_in_range(count_directories(path, owner), 0, 40);
        for (int round = 0; round < 2; round++) {
                struct sbx_cgroup *held[100];

                for (int i = 0; i < 100; i++)
                        held[i] = create(m, &small_limits);
                for (int i = 0; i < 100; i++)
                        cgroup_release(held[i]);
        }
        assert_in_range(count_directories(path, owner), 0, 40);
        cgroup_manager_free(m);
        assert_int_equal(count_directories(path, owner), 0);
}

/* A server that is killed leaves cgroups; the next one removes them, and those alone. */
static void test_reap(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        char base[512], path[1024], dead_owner[CGROUP_NAME_MAX] = "", foreign[3][600];
        int fds[2], status;
        pid_t pid;

        snprintf(base, sizeof(base), "%s", m->trees[0].path);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                struct sbx_cgroup_manager *own = NULL;
                struct sbx_cgroup *c = NULL;

                if (cgroup_manager_new("auto", m->ops->entry_kind == CGROUP_ENTRY_CLONE ? base : NULL, &own, NULL) <
                            0 ||
                    cgroup_create(own, "left", &small_limits, &c, NULL) < 0 ||
                    write(fds[1], own->owner, strlen(own->owner)) < 0)
                        _exit(1);
                kill(getpid(), SIGKILL);
        }
        close(fds[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_true(read(fds[0], dead_owner, sizeof(dead_owner) - 1) > 0);
        close(fds[0]);
        assert_true(count_directories(base, dead_owner) > 0);

        snprintf(foreign[0], sizeof(foreign[0]), "%s/sbx-other", base);
        snprintf(foreign[1], sizeof(foreign[1]), "%s/sbx-1.%d.1-0", base, pid); /* of another pid namespace */
        snprintf(foreign[2], sizeof(foreign[2]), "%s/%s-9999", base, m->owner); /* of this process, which lives */
        for (int i = 0; i < 3; i++)
                assert_int_equal(mkdir(foreign[i], 0755), 0);
        cgroup_reap(m);
        assert_int_equal(count_directories(base, dead_owner), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(rmdir(foreign[i]), 0);
        snprintf(path, sizeof(path), "%s/%s", base, m->cached->name);
        assert_int_equal(access(path, F_OK), 0);
        cgroup_manager_free(m);
}

static void test_two_instances(void **state) {
        struct sbx_cgroup_manager *m = new_manager(), *n = new_manager();
        struct sbx_cgroup *c = create(m, &small_limits), *d = create(n, &small_limits);
        struct child child;
        char path[512], owner[CGROUP_NAME_MAX];

        snprintf(path, sizeof(path), "%s", m->trees[0].path);
        snprintf(owner, sizeof(owner), "%s", m->owner);
        assert_string_equal(m->trees[0].path, n->trees[0].path);
        assert_string_not_equal(c->name, d->name);
        cgroup_release(c);
        cgroup_manager_free(m);
        child = run_in(d, touch_16m);
        assert_int_equal(wait_child(&child), 0);
        cgroup_release(d);
        cgroup_manager_free(n);
        assert_int_equal(count_directories(path, owner), 0);
}

/* Another user's server: nothing is delegated to it. */
static void test_no_rights(void **state) {
        int status;
        pid_t pid;

        if (geteuid() != 0) {
                print_message("# SKIPPED: needs root, to become another user\n");
                skip();
        }
        pid = fork();
        if (pid == 0) {
                struct sbx_cgroup_manager *m = NULL;
                struct sbx_error err = {0};

                if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
                        _exit(1);
                if (cgroup_manager_new("required", NULL, &m, &err) != -ENOTSUP || err.hint[0] == '\0')
                        _exit(2);
                printf("# as uid 65534: %s | %s\n", err.message, err.hint);
                if (cgroup_manager_new("auto", NULL, &m, NULL) != 0 || strcmp(cgroup_manager_kind(m), "none") != 0)
                        _exit(3);
                cgroup_manager_free(m);
                fflush(stdout);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_attach_error(void **state) {
        struct sbx_cgroup_manager *m = new_manager();
        struct sbx_cgroup *c = create(m, &small_limits);
        struct child child = start_child(spin_300ms);
        struct sbx_error err = {0};

        kill(child.pid, SIGKILL);
        wait_child(&child);
        assert_true(cgroup_attach(c, child.pid, &err) < 0);
        assert_int_not_equal(err.code, 0);
        close(child.gate);
        cgroup_release(c);
        cgroup_manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_modes),          cmocka_unit_test(test_bad_base),
                cmocka_unit_test(test_describe),       cmocka_unit_test(test_counters),
                cmocka_unit_test(test_entry),          cmocka_unit_test(test_entry_of_other_user),
                cmocka_unit_test(test_memory),         cmocka_unit_test(test_memory_changes),
                cmocka_unit_test(test_pids),           cmocka_unit_test(test_cpu),
                cmocka_unit_test(test_kill_fork_bomb), cmocka_unit_test(test_churn),
                cmocka_unit_test(test_reap),           cmocka_unit_test(test_two_instances),
                cmocka_unit_test(test_no_rights),      cmocka_unit_test(test_attach_error),
        };

        return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
