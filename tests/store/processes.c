/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes on one store, and what is left of those that are killed. A process is this program again, told by
 * the environment what to do (child_main). */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"
#include "suite.h"

#define KILLS_DEFAULT 12
#define COUNTERS 3
#define COUNT 40

/* ---- children ---- */

struct child {
        pid_t pid;
        int fd; /* what it says */
};

static struct child start_child(const char *task, const char *in) {
        char number[32];
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        snprintf(number, sizeof(number), "%lu", suite.number);
        assert_int_equal(setenv("SBX_STORE_CHILD", task, 1), 0);
        assert_int_equal(setenv("SBX_STORE_DIRECTORY", in, 1), 0);
        assert_int_equal(setenv("SBX_STORE_NUMBER", number, 1), 0);
        pid = fork();
        if (pid == 0) {
                dup2(fds[1], STDOUT_FILENO);
                close(fds[0]);
                close(fds[1]);
                execv("/proc/self/exe", suite.arguments);
                _exit(127);
        }
        unsetenv("SBX_STORE_CHILD");
        assert_true(pid > 0);
        close(fds[1]);
        return (struct child){pid, fds[0]};
}

static void end_child(struct child *child, int wanted_code) {
        int status = 0;

        close(child->fd);
        assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
        if (wanted_code >= 0)
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == wanted_code);
}

static int commit_state(const char *in, unsigned round, const char *lease, uint64_t token, uint32_t flags,
                        struct sbx_error *err) {
        size_t size = round % 3 == 0 ? 700000 + round : 300 + round;
        _cleanup_free_ uint8_t *bytes = contents(size, round);
        char text[32], old[32], names[3][256];
        struct sbx_store_change changes[3];

        snprintf(text, sizeof(text), "%u", round);
        snprintf(old, sizeof(old), "part-%u", round - 1);
        snprintf(names[0], sizeof(names[0]), "%s/manifest", in);
        snprintf(names[1], sizeof(names[1]), "%s/part-%u", in, round);
        snprintf(names[2], sizeof(names[2]), "%s/%s", in, old);
        changes[0] = change(names[0], text);
        changes[1] = (struct sbx_store_change){names[1], {bytes, size}};
        changes[2] = change(names[2], NULL);
        return suite.ops->commit(suite.state, changes, 3, lease, token, flags, NULL, err);
}

/* Commits states one after another, and says which it was told are kept, until it is killed. */
static int commit_forever(const char *in) {
        struct sbx_error err = {0};
        unsigned round = 1;
        char *last;
        size_t size;

        last = get(name_in(in, "manifest"), &size);
        if (last != NULL)
                round = (unsigned)strtoul(last, NULL, 10) + 1;
        free(last);
        for (;; round++) {
                if (commit_state(in, round, NULL, 0, round % 4 == 0 ? 0 : SBX_STORE_SOON, &err) < 0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 1;
                }
                if (write(STDOUT_FILENO, &round, sizeof(round)) != sizeof(round))
                        return 0;
        }
}

/* Adds one to a number so many times, each time with the lease: takes it when it can, and gives it back. */
static int count_up(const char *in) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        char name[256];

        snprintf(name, sizeof(name), "%s/counter", in);
        for (int done = 0; done < COUNT;) {
                struct sbx_error err = {0};
                struct sbx_store_change one;
                _cleanup_free_ char *value = NULL;
                char text[32];
                size_t size;
                int r = suite.ops->lease_take(suite.state, in, "counter", 60000, 0, NULL, &lease, &err);

                if (r == -EBUSY) {
                        sleep_ms(1);
                        continue;
                }
                if (r < 0)
                        return 1;
                value = get(name, &size);
                snprintf(text, sizeof(text), "%lu", (value != NULL ? strtoul(value, NULL, 10) : 0) + 1);
                one = change(name, text);
                if (suite.ops->commit(suite.state, &one, 1, in, lease.token, SBX_STORE_SOON, NULL, &err) < 0 ||
                    suite.ops->lease_release(suite.state, in, lease.token, NULL, &err) < 0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 1;
                }
                done++;
        }
        return 0;
}

/* Takes the lease, says its token, and never comes back. */
static int take_and_sleep(const char *in) {
        uint64_t token = take(in, "sleeper", 60000);

        if (write(STDOUT_FILENO, &token, sizeof(token)) != sizeof(token))
                return 1;
        for (;;)
                pause();
}

int child_main(const char *task) {
        const char *in = getenv("SBX_STORE_DIRECTORY");

        if (strcmp(task, "commit") == 0)
                return commit_forever(in);
        if (strcmp(task, "count") == 0)
                return count_up(in);
        return take_and_sleep(in);
}

/* ---- tests ---- */

/* What it said last before it was killed, or `before`. */
static unsigned kill_after(const char *in, unsigned rounds, unsigned ms, unsigned before) {
        struct child child = start_child("commit", in);
        unsigned round;

        /* Some rounds first, so that it is killed in the middle of work and not of its start. */
        for (unsigned i = 0; i < rounds && read(child.fd, &round, sizeof(round)) == sizeof(round); i++)
                before = round;
        sleep_ms(ms);
        kill(child.pid, SIGKILL);
        while (read(child.fd, &round, sizeof(round)) == sizeof(round))
                before = round;
        end_child(&child, -1);
        return before;
}

/* The newest state, once it is the same before and after everything of it was read: what the killed process has sent to
 * a server may still be done. */
static unsigned check_state(const char *in, unsigned acknowledged) {
        unsigned round = 0, again = 1;

        while (round != again) {
                _cleanup_free_ char *manifest = NULL, *part = NULL, *names = NULL, *newer = NULL;
                size_t size, part_size = 0, wanted_size;
                char leaf[64], wanted[512];

                manifest = get(name_in(in, "manifest"), &size);
                assert_non_null(manifest);
                round = (unsigned)strtoul(manifest, NULL, 10);
                snprintf(leaf, sizeof(leaf), "part-%u", round);
                part = get(name_in(in, leaf), &part_size);
                names = list(name_in(in, ""));
                newer = get(name_in(in, "manifest"), &size);
                again = (unsigned)strtoul(newer, NULL, 10);
                if (round != again)
                        continue;
                if (round != acknowledged && round != acknowledged + 1)
                        fail_msg("state %u, but %u was acknowledged", round, acknowledged);
                if (part == NULL)
                        fail_msg("state %u has lost its part", round);
                wanted_size = round % 3 == 0 ? 700000 + round : 300 + round;
                assert_int_equal(part_size, wanted_size);
                expect_contents(name_in(in, leaf), wanted_size, round);
                snprintf(wanted, sizeof(wanted), "%s/manifest\n%s/%s\n", in, in, leaf); /* and nothing of any other */
                assert_string_equal(names, wanted);
        }
        return round;
}

static void test_killed_in_the_middle(void **state) {
        const char *wanted = getenv("SBX_STORE_KILLS");
        unsigned kills = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 10) : KILLS_DEFAULT, last = 0;
        char in[128];

        (void)state;
        snprintf(in, sizeof(in), "%s", directory("killed"));
        for (unsigned i = 0; i < kills; i++) {
                json_t *told;

                last = check_state(in, kill_after(in, 1 + i % 5, i * 7 % 13, last));
                told = i % 4 == 3 ? collect() : NULL;
                assert_int_equal(json_array_size(json_object_get(told, "damaged")), 0);
                json_decref(told);
        }
        print_message("# %u processes were killed, the last state is %u\n", kills, last);
}

static void test_no_update_is_lost(void **state) {
        struct child children[COUNTERS];
        char in[128], wanted[32];

        (void)state;
        snprintf(in, sizeof(in), "%s", directory("count"));
        for (int i = 0; i < COUNTERS; i++)
                children[i] = start_child("count", in);
        for (int i = 0; i < COUNTERS; i++)
                end_child(&children[i], 0);
        snprintf(wanted, sizeof(wanted), "%d", COUNTERS * COUNT);
        expect_text(name_in(in, "counter"), wanted);
}

/* A lease survives its holder, until somebody who knows that he is dead says so. */
static void test_dead_holder(void **state) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        uint64_t token = 0;
        struct child child;
        char in[128];

        (void)state;
        snprintf(in, sizeof(in), "%s", directory("dead"));
        child = start_child("sleep", in);
        assert_int_equal(read(child.fd, &token, sizeof(token)), sizeof(token));
        kill(child.pid, SIGKILL);
        end_child(&child, -1);
        expect(-EBUSY, suite.ops->lease_take(suite.state, in, "me", 60000, 0, NULL, &lease, err));
        assert_int_equal(lease.token, token);
        assert_string_equal(lease.holder, "sleeper");
        expect(0, suite.ops->lease_take(suite.state, in, "me", 60000, token, NULL, &lease, err));
        assert_true(lease.token > token);
}

/* What one process stored, another one sees at once. */
static void test_seen_by_others(void **state) {
        char in[128];
        struct child child;
        unsigned round = 0;

        (void)state;
        snprintf(in, sizeof(in), "%s", directory("seen"));
        expect_text(name_in(in, "manifest"), NULL);
        child = start_child("commit", in);
        for (int i = 0; i < 5; i++) {
                _cleanup_free_ char *text = NULL;
                size_t size;

                assert_int_equal(read(child.fd, &round, sizeof(round)), sizeof(round));
                text = get(name_in(in, "manifest"), &size);
                assert_non_null(text);
                assert_true(strtoul(text, NULL, 10) >= round);
        }
        kill(child.pid, SIGKILL);
        end_child(&child, -1);
}

struct group processes_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_killed_in_the_middle),
                cmocka_unit_test(test_no_update_is_lost),
                cmocka_unit_test(test_dead_holder),
                cmocka_unit_test(test_seen_by_others),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
