/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding API with the real backend: what a program that links the library gets. Uses runtime.h alone. */
#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <snipara-sandbox/runtime.h>

#define assert_contains(text, part)                                                                                    \
        do {                                                                                                           \
                const char *contains_ = (text);                                                                        \
                if (contains_ == NULL || strstr(contains_, (part)) == NULL)                                            \
                        fail_msg("\"%s\" was expected in \"%s\"", (part), contains_ != NULL ? contains_ : "(null)");   \
        } while (0)

/* ---- helpers ---- */

static struct sbx_runtime *open_with(const char *const *settings) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_runtime *runtime = NULL;
        struct sbx_error err = {0};

        if (sbx_runtime_open(&options, &runtime, &err) < 0)
                fail_msg("%s (%s)", err.message, err.hint);
        return runtime;
}

static struct sbx_execution execution_of(const char *id, const char *code) {
        return (struct sbx_execution){
                .struct_size = sizeof(struct sbx_execution), .code = {code, strlen(code)}, .session_id = id};
}

static struct sbx_result *run_with(struct sbx_runtime *runtime, const struct sbx_execution *execution,
                                   const struct sbx_call *call) {
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};

        if (sbx_runtime_execute(runtime, execution, call, &result, &err) < 0)
                fail_msg("%s (%s)", err.message, err.hint);
        return result;
}

static struct sbx_result *run(struct sbx_runtime *runtime, const char *id, const char *code) {
        struct sbx_execution execution = execution_of(id, code);

        return run_with(runtime, &execution, NULL);
}

/* Runs code that has to end ok, and compares its value. */
static void assert_value(struct sbx_runtime *runtime, const char *id, const char *code, const char *value) {
        struct sbx_result *result = run(runtime, id, code);

        if (result->end != SBX_END_OK)
                fail_msg("%s: %s %s", code, sbx_end_name(result->end), result->error_message);
        if (value != NULL)
                assert_string_equal(result->value, value);
        sbx_result_free(result);
}

static unsigned count_children(void) {
        char prefix[32], path[300], line[512];
        unsigned count = 0;
        struct dirent *entry;
        DIR *proc = opendir("/proc");

        snprintf(prefix, sizeof(prefix), "PPid:\t%d\n", (int)getpid());
        while (proc != NULL && (entry = readdir(proc)) != NULL) {
                FILE *file;

                if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                        continue;
                snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
                file = fopen(path, "re");
                while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                        count += strcmp(line, prefix) == 0;
                if (file != NULL)
                        fclose(file);
        }
        if (proc != NULL)
                closedir(proc);
        return count;
}

/* ---- tests ---- */

static void test_results(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_result *result;

        result = run(runtime, NULL,
                     "import sys\nprint('out')\nprint('err', file=sys.stderr)\nresult = [1, 'two']\n6 * 7");
        assert_int_equal(result->end, SBX_END_OK);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        assert_string_equal(result->stdout_text.data, "out\n");
        assert_string_equal(result->stderr_text.data, "err\n");
        assert_string_equal(result->value, "42");
        assert_string_equal(result->result, "[1, 'two']");
        assert_contains(result->result_json, "two");
        assert_string_equal(result->session_id, "default");
        assert_non_null(result->isolation);
        assert_true(result->duration_ns > 0);
        sbx_result_free(result);

        result = run(runtime, NULL, "def f():\n    raise KeyError('gone')\nf()");
        assert_int_equal(result->end, SBX_END_ERROR);
        assert_string_equal(result->error_type, "KeyError");
        assert_contains(result->error_message, "gone");
        assert_contains(result->traceback, "in f");
        sbx_result_free(result);
        sbx_runtime_free(runtime);
}

static void test_sessions(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);

        assert_value(runtime, "a", "x = 1", NULL);
        assert_value(runtime, "b", "x = 2", NULL);
        assert_value(runtime, "a", "x", "1");
        assert_value(runtime, "b", "x", "2");
        assert_value(runtime, "", "'x' in globals()", "False");
        assert_value(runtime, "", "y = 1; 'y' in globals()", "True");
        assert_value(runtime, "", "'y' in globals()", "False");
        sbx_runtime_free(runtime);
        assert_int_equal(count_children(), 0);
}

static void test_timeout_keeps_state(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_execution execution = execution_of("t", "kept = 5\nwhile True: pass");
        struct sbx_result *result;

        execution.timeout_ms = 300;
        result = run_with(runtime, &execution, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        assert_value(runtime, "t", "kept", "5");
        sbx_runtime_free(runtime);
}

/* Where nothing is kept of a session; what is kept otherwise stands in tests/functional/test_sessions.py. */
static void test_crash_is_told(void **state) {
        struct sbx_runtime *runtime = open_with((const char *const[]){"local.checkpoint=off", NULL});
        struct sbx_result *result;

        assert_value(runtime, "c", "x = 1", NULL);
        result = run(runtime, "c", "import ctypes; ctypes.string_at(0)");
        assert_int_equal(result->end, SBX_END_KILLED);
        assert_int_equal(result->state, SBX_STATE_LOST);
        sbx_result_free(result);
        result = run(runtime, "c", "'x' in globals()");
        assert_string_equal(result->value, "False");
        assert_contains(result->notice, "variables are gone");
        sbx_result_free(result);
        result = run(runtime, "c", "1");
        assert_null(result->notice);
        sbx_result_free(result);
        sbx_runtime_free(runtime);
}

static void write_to(void *data, int fd, struct sbx_bytes bytes) {
        (void)fd;
        (void)bytes;
        (void)!eventfd_write(*(int *)data, 1);
}

static void test_cancelling(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_execution execution =
                execution_of("x", "y = 3\nimport time\nprint('begun', flush=True)\ntime.sleep(100)");
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = eventfd(0, EFD_CLOEXEC)};
        struct sbx_result *result;
        int fd = call.cancel_fd;
        struct sbx_output_events events = {.struct_size = sizeof(events), .data = &fd, .output = write_to};

        execution.events = &events; /* cancelled as soon as it is known to run */
        result = run_with(runtime, &execution, &call);
        assert_int_equal(result->end, SBX_END_CANCELLED);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        close(fd);
        assert_value(runtime, "x", "y", "3");
        sbx_runtime_free(runtime);
}

struct parallel {
        struct sbx_runtime *runtime;
        pthread_t thread;
        char id[8];
        bool ok;
};

static void *run_parallel(void *data) {
        struct parallel *parallel = data;

        for (unsigned i = 0; i < 10; i++) {
                struct sbx_execution execution =
                        execution_of(i % 2 ? "" : parallel->id, "n = globals().get('n', 0) + 1; n");
                struct sbx_result *result = NULL;
                char expected[8];

                snprintf(expected, sizeof(expected), "%u", i % 2 ? 1 : i / 2 + 1);
                if (sbx_runtime_execute(parallel->runtime, &execution, NULL, &result, NULL) < 0)
                        return NULL;
                parallel->ok = result->end == SBX_END_OK && strcmp(result->value, expected) == 0;
                sbx_result_free(result);
                if (!parallel->ok)
                        return NULL;
        }
        return NULL;
}

static void test_parallel(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct parallel parallels[6] = {0};

        for (unsigned i = 0; i < 6; i++) {
                parallels[i].runtime = runtime;
                snprintf(parallels[i].id, sizeof(parallels[i].id), "p%u", i);
                assert_int_equal(pthread_create(&parallels[i].thread, NULL, run_parallel, &parallels[i]), 0);
        }
        for (unsigned i = 0; i < 6; i++) {
                pthread_join(parallels[i].thread, NULL);
                assert_true(parallels[i].ok);
        }
        sbx_runtime_free(runtime);
        assert_int_equal(count_children(), 0);
}

struct seen {
        char text[256];
        size_t size;
};

static void see(void *data, int fd, struct sbx_bytes bytes) {
        struct seen *seen = data;

        if (fd == 1 && bytes.size < sizeof(seen->text) - seen->size) {
                memcpy(seen->text + seen->size, bytes.data, bytes.size);
                seen->size += bytes.size;
        }
}

static void test_output_while_it_comes(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_execution execution = execution_of(NULL, "import os\nprint('a')\nos.system('echo b')\nprint('c')");
        struct seen seen = {.size = 0};
        struct sbx_output_events events = {.struct_size = sizeof(events), .data = &seen, .output = see};

        execution.events = &events;
        sbx_result_free(run_with(runtime, &execution, NULL));
        seen.text[seen.size] = '\0';
        assert_contains(seen.text, "a\n");
        assert_contains(seen.text, "b\n");
        assert_contains(seen.text, "c\n");
        sbx_runtime_free(runtime);
}

static void test_displays(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_result *result = run(runtime, NULL,
                                        "class Shown:\n"
                                        "    def _repr_html_(self): return '<b>x</b>'\n"
                                        "    def _repr_png_(self): return b'\\x89PNG....'\n"
                                        "Shown()");
        bool html = false, png = false;

        assert_int_equal(result->end, SBX_END_OK);
        for (uint32_t i = 0; i < result->display_count; i++) {
                html = html || strcmp(result->displays[i].mime_type, "text/html") == 0;
                png = png || strcmp(result->displays[i].mime_type, "image/png") == 0;
        }
        assert_true(html || png);
        sbx_result_free(result);
        sbx_runtime_free(runtime);
}

static void test_tools(void **state) {
        static const char arguments[] = "{\"code\":\"print('hi')\"}", wrong[] = "{\"code\":\"1\",\"timeout\":10000}";
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_bytes json = {0};
        struct sbx_error err = {0};

        assert_int_equal(sbx_runtime_tool_list(runtime, &json, &err), 0);
        assert_contains(json.data, "\"name\":\"execute_python\"");
        sbx_bytes_free(&json);
        assert_int_equal(sbx_runtime_tool_call(runtime, "execute_python",
                                               (struct sbx_bytes){arguments, sizeof(arguments) - 1}, NULL, &json, &err),
                         0);
        assert_contains(json.data, "\"text\":\"hi\\n\"");
        assert_contains(json.data, "\"isError\":false");
        sbx_bytes_free(&json);
        assert_int_equal(sbx_runtime_tool_call(runtime, "execute_python", (struct sbx_bytes){wrong, sizeof(wrong) - 1},
                                               NULL, &json, &err),
                         0);
        assert_contains(json.data, "allowed are 1 to 300");
        sbx_bytes_free(&json);
        assert_int_equal(
                sbx_runtime_tool_call(runtime, "execute_pyton", (struct sbx_bytes){NULL, 0}, NULL, &json, &err),
                -ENOENT);
        assert_contains(err.message, "execute_python");
        sbx_runtime_free(runtime);
}

static void test_report(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_bytes json = {0};
        struct sbx_error err = {0};

        assert_int_equal(sbx_runtime_report(runtime, NULL, NULL, &json, &err), 0);
        assert_contains(json.data, "\"isolation\"");
        assert_contains(json.data, "\"layers\"");
        sbx_bytes_free(&json);
        sbx_runtime_free(runtime);
}

static void test_refusals(void **state) {
        struct sbx_runtime *runtime = open_with((const char *const[]){"max_sessions=1", NULL});
        struct sbx_execution execution = execution_of(NULL, "1");
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};

        execution.profile = "fast";
        assert_int_equal(sbx_runtime_execute(runtime, &execution, NULL, &result, &err), -ENOENT);
        assert_contains(err.message, "fast");
        err = (struct sbx_error){0};
        execution.profile = NULL;
        execution.environment = "nowhere";
        assert_int_equal(sbx_runtime_execute(runtime, &execution, NULL, &result, &err), -ENOENT);
        assert_contains(err.hint, "local");
        err = (struct sbx_error){0};
        execution.environment = NULL;
        execution.timeout_ms = 600001;
        assert_int_equal(sbx_runtime_execute(runtime, &execution, NULL, &result, &err), -EINVAL);
        assert_value(runtime, "one", "1", "1");
        err = (struct sbx_error){0};
        execution = execution_of("two", "1");
        assert_int_equal(sbx_runtime_execute(runtime, &execution, NULL, &result, &err), -EBUSY);
        assert_null(result);
        sbx_runtime_free(runtime);
}

static void test_configuration_errors(void **state) {
        const char *const settings[] = {"no_such_setting=1", NULL};
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_runtime *runtime = NULL;
        struct sbx_error err = {0};

        assert_true(sbx_runtime_open(&options, &runtime, &err) < 0);
        assert_contains(err.message, "no_such_setting");
        assert_null(runtime);
}

/* A program that was built when the structs were smaller. */
static void test_older_caller(void **state) {
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_execution execution = execution_of("", "1 + 1");
        struct sbx_result *result;

        execution.struct_size = offsetof(struct sbx_execution, environment);
        execution.environment = "past the end of an older struct";
        execution.timeout_ms = UINT64_MAX;
        result = run_with(runtime, &execution, NULL);
        assert_string_equal(result->value, "2");
        sbx_result_free(result);
        sbx_runtime_free(runtime);
}

static void test_two_runtimes(void **state) {
        struct sbx_runtime *first = open_with(NULL), *second = open_with((const char *const[]){"local.pool=0", NULL});

        assert_value(first, NULL, "x = 1", NULL);
        assert_value(second, NULL, "'x' in globals()", "False");
        sbx_runtime_free(first);
        assert_value(second, NULL, "1", "1");
        sbx_runtime_free(second);
        assert_int_equal(count_children(), 0);
}

static void test_opened_and_never_used(void **state) {
        sbx_runtime_free(open_with(NULL));
        sbx_runtime_free(NULL);
        assert_non_null(sbx_version());
        assert_int_equal(count_children(), 0);
}

/* Where this machine can't have the isolation, nothing here can be shown, and the reason is. */
static const char *why_not(void) {
        static struct sbx_error err;
        struct sbx_execution execution = execution_of("", "1");
        struct sbx_runtime *runtime = open_with(NULL);
        struct sbx_result *result = NULL;
        int r = sbx_runtime_execute(runtime, &execution, NULL, &result, &err);

        sbx_result_free(result);
        sbx_runtime_free(runtime);
        return r == -ENOTSUP ? err.message : NULL;
}

/* What an earlier run has stored is not this one's. */
static char state_home[] = "/tmp/sbx-state-XXXXXX";

static int forget(const char *path, const struct stat *st, int kind, struct FTW *where) {
        (void)st;
        (void)kind;
        (void)where;
        return remove(path);
}

static void forget_state(void) {
        nftw(state_home, forget, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_sessions),
                cmocka_unit_test(test_timeout_keeps_state),
                cmocka_unit_test(test_crash_is_told),
                cmocka_unit_test(test_cancelling),
                cmocka_unit_test(test_parallel),
                cmocka_unit_test(test_output_while_it_comes),
                cmocka_unit_test(test_displays),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_report),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_configuration_errors),
                cmocka_unit_test(test_older_caller),
                cmocka_unit_test(test_two_runtimes),
                cmocka_unit_test(test_opened_and_never_used),
        };
        const char *reason;

        cmocka_set_message_output(CM_OUTPUT_TAP);
        if (mkdtemp(state_home) == NULL || setenv("XDG_STATE_HOME", state_home, 1) < 0)
                return 1;
        atexit(forget_state);
        reason = why_not();
        if (reason != NULL) {
                printf("1..0 # SKIP %s\n", reason);
                return 0;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
