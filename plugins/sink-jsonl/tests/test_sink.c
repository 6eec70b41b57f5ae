/* SPDX-License-Identifier: Apache-2.0 */
/* The sink as the core drives it: files, resumed runs, half lines, duplicates, what else may stand in the way. */
#include "test.h"

#include <sys/file.h>

#include "../files.h"
#include "../record.h"

static void run_a_little(struct fixture *fixture, const char *id) {
        assert_int_equal(emit_event(fixture, id, "run_started", ",\"kind\":\"completion\",\"prompt\":\"hello\""), 0);
        for (unsigned i = 1; i <= 3; i++)
                assert_int_equal(emit_call(fixture, id, i), 0);
}

static void test_nothing_before_an_event(void **state) {
        struct fixture *fixture = *state;

        assert_int_equal(fixture->ops->flush(fixture->instance, NULL), 0);
        restart(fixture);
        assert_int_not_equal(access(fixture->state.logs, F_OK), 0);
}

static void test_a_run(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);
        struct stat st;
        json_t *lines;

        run_a_little(fixture, RUN);
        lines = read_chained(fixture, RUN); /* as things happen, not at the end */
        assert_int_equal(json_array_size(lines), 4);
        json_decref(lines);
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ",\"end\":\"ok\",\"total_tokens\":5,\"duration_ms\":9"),
                         0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 5);
        assert_string_equal(text_at(lines, 0, "_type"), "trajectory_metadata");
        assert_string_equal(text_at(lines, 0, "prompt"), "hello");
        assert_int_equal(int_at(lines, 0, "event_count"), 0);
        assert_string_equal(text_at(lines, 2, "prompt"), "p2");
        assert_string_equal(text_at(lines, 4, "_type"), "trajectory_metadata");
        assert_int_equal(int_at(lines, 4, "event_count"), 3);
        assert_int_equal(int_at(lines, 4, "total_tokens"), 5);
        assert_int_equal(int_at(lines, 4, "total_duration_ms"), 9);
        json_decref(lines);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(stat(fixture->state.logs, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        free(path);
}

/* Killed behind its second call: the same events come again, and go on. */
static void test_resume(void **state) {
        struct fixture *fixture = *state;
        json_t *lines;

        run_a_little(fixture, RUN);
        restart(fixture);
        run_a_little(fixture, RUN);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 4); /* nothing new yet, nothing said */
        json_decref(lines);
        assert_int_equal(emit_call(fixture, RUN, 4), 0);
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ",\"end\":\"ok\""), 0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 7);
        assert_string_equal(text_at(lines, 4, "event"), "run_resumed");
        assert_string_equal(text_at(lines, 5, "prompt"), "p4");
        assert_string_equal(text_at(lines, 6, "event"), "run_ended");
        assert_int_equal(int_at(lines, 6, "event_count"), 4);
        json_decref(lines);
}

/* A run that had ended (at a limit, say) may go on, and end again; one that has nothing to add leaves the file alone.
 */
static void test_resume_after_the_end(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN), *before, *after;
        json_t *lines;

        run_a_little(fixture, RUN);
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ",\"end\":\"token_budget\""), 0);
        before = read_path(path, NULL);
        restart(fixture);
        run_a_little(fixture, RUN);
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ",\"end\":\"token_budget\""), 0);
        after = read_path(path, NULL);
        assert_string_equal(before, after);
        restart(fixture);
        run_a_little(fixture, RUN);
        assert_int_equal(emit_call(fixture, RUN, 4), 0);
        assert_int_equal(emit_event(fixture, RUN, "run_ended", ",\"end\":\"ok\""), 0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 8);
        assert_string_equal(text_at(lines, 7, "end"), "ok");
        json_decref(lines);
        free(path);
        free(before);
        free(after);
}

static void test_duplicates(void **state) {
        struct fixture *fixture = *state;
        json_t *lines;

        run_a_little(fixture, RUN);
        run_a_little(fixture, RUN);
        assert_int_equal(emit_event(fixture, RUN, "events_dropped", ",\"count\":2"), 0);
        assert_int_equal(emit_event(fixture, RUN, "events_dropped", ",\"count\":2"), 0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 6);
        json_decref(lines);
}

/* A process that was killed while it wrote. */
static void test_a_half_line(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN), *before, *after;
        json_t *lines;
        size_t size;

        run_a_little(fixture, RUN);
        before = read_path(path, &size);
        restart(fixture);
        append_to(path, "{\"trajectory_id\":\"" RUN "\",\"call_id\":\"00000000-0000-8000-8000-000000000004\",\"pro");
        assert_int_equal(emit_call(fixture, RUN, 4), 0); /* the half one was none */
        after = read_path(path, NULL);
        assert_memory_equal(before, after, size);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 6);
        assert_string_equal(text_at(lines, 5, "prompt"), "p4");
        json_decref(lines);
        free(path);
        free(before);
        free(after);
}

/* A file of nothing but half a line is a new one. */
static void test_a_half_first_line(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);
        json_t *lines;

        run_a_little(fixture, RUN);
        restart(fixture);
        assert_int_equal(truncate(path, 30), 0);
        run_a_little(fixture, RUN);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 4);
        assert_string_equal(text_at(lines, 0, "event"), "run_started");
        json_decref(lines);
        free(path);
}

static void test_lines_of_others(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN), *text, *large, prev[JSONL_HASH_SIZE];
        const char *last;

        run_a_little(fixture, RUN);
        restart(fixture);
        large = malloc(JSONL_LINE_MAX + 100000);
        assert_non_null(large);
        memset(large, 'x', JSONL_LINE_MAX + 100000 - 1);
        large[JSONL_LINE_MAX + 100000 - 2] = '\n';
        large[JSONL_LINE_MAX + 100000 - 1] = '\0';
        append_to(path, "not JSON\n\n[1]\n");
        append_to(path, large);
        assert_int_equal(emit_call(fixture, RUN, 4), 0);
        text = read_path(path, NULL);
        jsonl_hash_line((struct sbx_bytes){large, strlen(large) - 1}, prev);
        last = strstr(text, "run_resumed");
        assert_non_null(last);
        assert_contains(last, prev); /* chained to what stands there, whatever that is */
        free(large);
        free(text);
        free(path);
}

static void test_events_outside_of_runs(void **state) {
        struct fixture *fixture = *state;
        static const char process[] = "0123456789abcdef0123456789abcdef";
        json_t *lines;

        assert_int_equal(emit_event(fixture, process, "tool_call", ",\"tool\":\"x\""), 0);
        assert_int_equal(emit_event(fixture, process, "tool_call", ",\"tool\":\"x\""), 0);
        lines = read_chained(fixture, process);
        assert_int_equal(json_array_size(lines), 3);
        assert_string_equal(text_at(lines, 0, "event"), "log_started");
        assert_string_equal(text_at(lines, 0, "timestamp"), "2026-01-02T03:04:05.678Z");
        assert_int_equal(int_at(lines, 0, "event_count"), 0);
        assert_string_equal(text_at(lines, 2, "event"), "tool_call");
        json_decref(lines);
}

/* More runs than files may be open, in turns. */
static void test_many_runs(void **state) {
        struct fixture *fixture = *state;
        char id[32];

        for (unsigned turn = 1; turn <= 3; turn++)
                for (unsigned i = 0; i < JSONL_OPEN_MAX + 20; i++) {
                        snprintf(id, sizeof(id), "run-%u", i);
                        assert_int_equal(emit_event(fixture, id, "run_started", ""), 0);
                        assert_int_equal(emit_call(fixture, id, turn), 0);
                        assert_int_equal(emit_call(fixture, id, turn), 0);
                }
        for (unsigned i = 0; i < JSONL_OPEN_MAX + 20; i++) {
                json_t *lines;
                size_t calls = 0;

                snprintf(id, sizeof(id), "run-%u", i);
                lines = read_chained(fixture, id);
                for (size_t line = 0; line < json_array_size(lines); line++)
                        calls += text_at(lines, line, "call_id")[0] != '\0';
                assert_int_equal(calls, 3);
                json_decref(lines);
        }
}

static void test_a_symbolic_link(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN), target[160];

        run_a_little(fixture, "other");
        snprintf(target, sizeof(target), "%s/target", fixture->state.directory);
        assert_int_equal(symlink(target, path), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), -ELOOP);
        assert_contains(fixture->state.log, RUN);
        assert_contains(fixture->state.log, "symbolic link");
        assert_int_not_equal(access(target, F_OK), 0);
        close(open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(emit_call(fixture, RUN, 1), -ELOOP);
        free(path);
}

static void test_no_regular_file(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);

        run_a_little(fixture, "other");
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), -EINVAL);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(emit_call(fixture, RUN, 1), -EISDIR);
        assert_int_equal(emit_call(fixture, "other", 9), 0); /* the others go on */
        free(path);
}

static void test_another_process_has_it(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);
        int fd;

        run_a_little(fixture, RUN);
        restart(fixture);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        assert_int_equal(emit_call(fixture, RUN, 4), -EBUSY);
        close(fd);
        assert_int_equal(emit_call(fixture, RUN, 5), 0);
        free(path);
}

/* Somebody cleans up while the run goes on. */
static void test_a_removed_file(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN), command[256];
        json_t *lines;

        run_a_little(fixture, RUN);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(emit_call(fixture, RUN, 4), 0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 2);
        assert_string_equal(text_at(lines, 0, "event"), "log_started");
        json_decref(lines);
        snprintf(command, sizeof(command), "rm -rf '%s'", fixture->state.logs);
        assert_int_equal(system(command), 0);
        assert_int_equal(emit_call(fixture, RUN, 5), 0);
        lines = read_chained(fixture, RUN);
        assert_int_equal(json_array_size(lines), 2);
        json_decref(lines);
        free(path);
}

static void test_a_directory_that_can_not_be_made(void **state) {
        struct fixture *fixture = *state;

        snprintf(fixture->state.logs, sizeof(fixture->state.logs), "/dev/null/logs");
        restart(fixture);
        assert_int_equal(emit_call(fixture, RUN, 1), -ENOTDIR);
        assert_contains(fixture->state.log, "log_dir");
}

/* ---- probe ---- */

struct report {
        int status;
        char detail[512];
};

static void on_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        struct report *report = data;

        report->status = status;
        snprintf(report->detail, sizeof(report->detail), "%s|%s", detail, remedy != NULL ? remedy : "");
}

static void test_probe(void **state) {
        struct fixture *fixture = *state;
        struct report report = {.status = -1};
        struct sbx_probe_events events = {.struct_size = sizeof(events), .data = &report, .report = on_report};

        assert_int_equal(fixture->plugin->probe(fixture->instance, &events, NULL), 0);
        assert_int_equal(report.status, SBX_PROBE_OK);
        assert_contains(report.detail, fixture->state.logs);
        assert_int_not_equal(access(fixture->state.logs, F_OK), 0); /* it looks, and leaves nothing */
        snprintf(fixture->state.logs, sizeof(fixture->state.logs), "/dev/null/logs");
        restart(fixture);
        assert_true(fixture->plugin->probe(fixture->instance, &events, NULL) < 0);
        assert_int_equal(report.status, SBX_PROBE_FAILED);
        assert_contains(report.detail, "log_dir");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_nothing_before_an_event),
                TEST(test_a_run),
                TEST(test_resume),
                TEST(test_resume_after_the_end),
                TEST(test_duplicates),
                TEST(test_a_half_line),
                TEST(test_a_half_first_line),
                TEST(test_lines_of_others),
                TEST(test_events_outside_of_runs),
                TEST(test_many_runs),
                TEST(test_a_symbolic_link),
                TEST(test_no_regular_file),
                TEST(test_another_process_has_it),
                TEST(test_a_removed_file),
                TEST(test_a_directory_that_can_not_be_made),
                TEST(test_probe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
