/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full, and when lines are synced. */
#include "test.h"

#include <signal.h>
#include <sys/resource.h>

static unsigned syncs;
static int sync_answer;

int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

int __wrap_fdatasync(int fd) {
        (void)fd;
        syncs++;
        errno = EIO;
        return sync_answer;
}

int __wrap_fsync(int fd) {
        (void)fd;
        return 0;
}

/* The end of the disk, as RLIMIT_FSIZE makes it: a part of a line fits. */
static void set_file_limit(rlim_t bytes) {
        struct rlimit limit;

        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);
        struct stat before, after;
        json_t *lines;

        assert_int_equal(emit_event(fixture, RUN, "run_started", ""), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), 0);
        assert_int_equal(stat(path, &before), 0);
        set_file_limit((rlim_t)before.st_size + 50); /* a part of a line */
        assert_true(emit_call(fixture, RUN, 2) < 0);
        assert_contains(fixture->state.log, "Make room");
        set_file_limit((rlim_t)before.st_size); /* nothing */
        assert_true(emit_call(fixture, RUN, 3) < 0);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(before.st_size, after.st_size);
        set_file_limit(RLIM_INFINITY);
        assert_int_equal(emit_call(fixture, RUN, 3), 0); /* it was not kept, so it is no duplicate */
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 4);
        assert_string_equal(text_at(lines, 2, "event"), "events_lost");
        assert_int_equal(int_at(lines, 2, "count"), 2);
        assert_string_equal(text_at(lines, 3, "prompt"), "p3");
        json_decref(lines);
        free(path);
}

static void run_with(const char *sync, unsigned expected_before_flush, unsigned expected_at_the_end) {
        void *state = NULL;
        struct fixture *fixture;

        assert_int_equal(fixture_open(&state, sync), 0);
        fixture = state;
        syncs = 0;
        assert_int_equal(emit_event(fixture, RUN, "run_started", ""), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), 0);
        assert_int_equal(syncs, expected_before_flush);
        assert_int_equal(fixture->ops->flush(fixture->instance, NULL), 0);
        assert_int_equal(fixture->ops->flush(fixture->instance, NULL), 0); /* nothing new */
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ""), 0);
        assert_int_equal(syncs, expected_at_the_end);
        assert_int_equal(teardown(&state), 0);
}

static void test_when_lines_are_synced(void **state) {
        run_with("event", 2, 3);
        run_with("flush", 0, 2);
        run_with("never", 0, 0);
}

static void test_a_sync_that_fails(void **state) {
        struct fixture *fixture = *state;
        struct sbx_error err = {0};

        assert_int_equal(emit_call(fixture, RUN, 1), 0);
        sync_answer = -1;
        assert_int_equal(fixture->ops->flush(fixture->instance, &err), -EIO);
        assert_contains(err.message, RUN);
        restart(fixture); /* and the log says so */
        assert_contains(fixture->state.log, RUN);
        sync_answer = 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
                cmocka_unit_test(test_when_lines_are_synced),
                cmocka_unit_test_setup_teardown(test_a_sync_that_fails, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
