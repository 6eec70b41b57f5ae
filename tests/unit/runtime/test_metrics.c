/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime tells of itself: each name, type and label is in docs/metrics.md, and the other way round. The
 * argument is the root of the sources. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../test.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/runtime.h"

#define PREFIX "snipara_sandbox_"
#define NAMES_MAX 64u
#define TEXT_MAX ((size_t)1 << 20)

static const char *sources;

struct metric {
        char name[80], type[16];
};
struct metrics {
        struct metric list[NAMES_MAX];
        size_t count;
};

static void quiet(void *data, int level, const char *message) {
}

static struct sbx_runtime *open_runtime(const char *const *settings) {
        const struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                                    .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                                    .directory = "/",
                                                    .settings = settings,
                                                    .log = quiet};
        struct sbx_runtime *runtime = NULL;
        struct sbx_error err = {0};

        if (sbx_runtime_open(&options, &runtime, &err) < 0)
                fail_msg("%s", err.message);
        return runtime;
}

static char *tell(struct sbx_runtime *runtime) {
        struct sbx_buffer out = SBX_BUFFER(TEXT_MAX);

        assert_int_equal(sbx_runtime_metrics(runtime, &out, NULL), 0);
        return sbx_buffer_steal(&out);
}

static void add(struct metrics *metrics, const char *name, size_t name_size, const char *type, size_t type_size) {
        struct metric *metric = &metrics->list[metrics->count++];

        assert_true(metrics->count <= NAMES_MAX);
        snprintf(metric->name, sizeof(metric->name), "%.*s", (int)name_size, name);
        snprintf(metric->type, sizeof(metric->type), "%.*s", (int)type_size, type);
}

/* Of the lines "# TYPE name type". */
static void read_told(const char *text, struct metrics *ret) {
        for (const char *at = text; (at = strstr(at, "# TYPE ")) != NULL;) {
                const char *name, *space;

                name = at += strlen("# TYPE ");
                space = strchr(name, ' ');
                assert_non_null(space);
                add(ret, name, (size_t)(space - name), space + 1, strcspn(space + 1, "\n"));
        }
}

/* Of the rows "| `name` | type | labels | ..." of the runtime's section; those of transports follow it. */
static void read_documented(const char *text, struct metrics *ret) {
        static const char begin[] = "\n| `" PREFIX;
        const char *section_end = strstr(text, "\n## Of the HTTP server");

        assert_non_null(section_end);
        for (const char *at = text; (at = strstr(at, begin)) != NULL && at < section_end;) {
                const char *name = at + 4, *end = strchr(name, '`'), *type;

                assert_non_null(end);
                type = end + strlen("` | ");
                add(ret, name, (size_t)(end - name), type, strcspn(type, " "));
                at = type;
        }
}

static bool has(const struct metrics *metrics, const struct metric *wanted) {
        for (size_t i = 0; i < metrics->count; i++)
                if (strcmp(metrics->list[i].name, wanted->name) == 0 &&
                    strcmp(metrics->list[i].type, wanted->type) == 0)
                        return true;
        return false;
}

static char *read_document(void) {
        char path[4096];
        struct sbx_buffer text = SBX_BUFFER(TEXT_MAX);
        struct sbx_error err = {0};

        snprintf(path, sizeof(path), "%s/docs/metrics.md", sources);
        if (sbx_file_read(AT_FDCWD, path, TEXT_MAX, &text, &err) < 0)
                fail_msg("%s", err.message);
        return sbx_buffer_steal(&text);
}

static void is_documented(void **state) {
        struct sbx_runtime *runtime = open_runtime(NULL);
        _cleanup_free_ char *text = tell(runtime), *document = read_document();
        struct metrics told = {0}, documented = {0};

        read_told(text, &told);
        read_documented(document, &documented);
        assert_true(told.count > 20);
        for (size_t i = 0; i < told.count; i++)
                if (!has(&documented, &told.list[i]))
                        fail_msg("%s (%s) is told, and not in docs/metrics.md", told.list[i].name, told.list[i].type);
        for (size_t i = 0; i < documented.count; i++)
                if (!has(&told, &documented.list[i]))
                        fail_msg("%s (%s) is in docs/metrics.md, and not told", documented.list[i].name,
                                 documented.list[i].type);
        /* Values of labels, too: in the row of their metric. */
        for (const char *at = text; (at = strstr(at, "=\"")) != NULL;) {
                size_t size = strcspn(at += 2, "\"");
                char value[64];

                snprintf(value, sizeof(value), "`%.*s`", (int)size, at);
                if (at[0] >= 'a' && at[0] <= 'z') /* not the bounds of buckets, nor the version */
                        assert_contains(document, value);
        }
        sbx_runtime_free(runtime);
}

static uint64_t value_of(struct sbx_runtime *runtime, const char *sample) {
        _cleanup_free_ char *text = tell(runtime);
        char line[128];
        const char *found;

        snprintf(line, sizeof(line), "\n" PREFIX "%s ", sample);
        found = strstr(text, line);
        if (found == NULL)
                fail_msg("%s is not told", sample);
        return strtoull(found + strlen(line), NULL, 10);
}

static void counts_calls(void **state) {
        struct sbx_runtime *runtime = open_runtime(NULL);
        struct sbx_bytes json = {0};

        assert_int_equal(sbx_runtime_tool_call(runtime, "list_sessions", BYTES("{}"), NULL, &json, NULL), 0);
        sbx_bytes_free(&json);
        assert_int_equal(sbx_runtime_tool_call(runtime, "destroy_session", BYTES("{\"session_id\": \"none\"}"), NULL,
                                               &json, NULL),
                         0);
        sbx_bytes_free(&json);
        assert_int_equal(sbx_runtime_tool_call(runtime, "no_such_tool", BYTES("{}"), NULL, &json, NULL), -ENOENT);
        assert_int_equal(value_of(runtime, "tool_calls_total"), 2);
        assert_int_equal(value_of(runtime, "tool_errors_total"), 1);
        assert_int_equal(value_of(runtime, "tool_refusals_total"), 1);
        assert_int_equal(value_of(runtime, "executions_total{end=\"ok\"}"), 0);
        assert_true(value_of(runtime, "start_time_seconds") > 1700000000);
        assert_true(value_of(runtime, "open_fds") > 2);
        assert_true(value_of(runtime, "resident_memory_bytes") > 4096);
        sbx_runtime_free(runtime);
}

/* An environment that can't be had: who asks whether we are ready is told so, and the runtime ends all the same. */
static void warms_in_vain(void **state) {
        static const char *const settings[] = {"environment=none-such", NULL};

        for (unsigned i = 0; i < 20; i++) {
                struct sbx_runtime *runtime = open_runtime(settings);
                struct sbx_error err = {0};
                int r = -EAGAIN;

                assert_int_equal(sbx_sessions_ready(runtime->sessions, NULL), -EAGAIN);
                sbx_sessions_warm(runtime->sessions);
                sbx_sessions_warm(runtime->sessions);
                for (unsigned ms = 0; i % 2 == 0 && ms < 60000 && r == -EAGAIN; ms++) {
                        err = (struct sbx_error){0};
                        r = sbx_sessions_ready(runtime->sessions, &err);
                        usleep(1000);
                }
                if (i % 2 == 0) {
                        assert_int_equal(r, -ENOENT);
                        assert_contains(err.message, "none-such");
                }
                sbx_runtime_free(runtime); /* every other time before the thread has begun */
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(is_documented),
                cmocka_unit_test(counts_calls),
                cmocka_unit_test(warms_in_vain),
        };

        if (argc != 2)
                return EXIT_FAILURE;
        sources = argv[1];
        return cmocka_run_group_tests_name("runtime metrics", tests, NULL, NULL);
}
