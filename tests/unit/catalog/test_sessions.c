/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in parts of the catalog over fake guests: files and artifacts of sessions, prompts, completions. */
#include "sessions.h"

#include "catalog/catalog.h"

struct bench {
        struct table table;
        struct sbx_catalog *catalog;
        struct sbx_buffer out; /* the last answer, or "-ERRNO: message" */
};

static void bench_open(struct bench *bench) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};

        *bench = (struct bench){.out = SBX_BUFFER(64 << 20)};
        table_open(&bench->table, NULL);
        assert_int_equal(sbx_catalog_new(&logger, &bench->catalog, NULL), 0);
        assert_int_equal(sbx_catalog_add_sessions(bench->catalog, bench->table.sessions, NULL), 0);
        assert_int_equal(sbx_catalog_add_prompts(bench->catalog, bench->table.sessions, NULL), 0);
}

static void bench_close(struct bench *bench) {
        sbx_buffer_free(&bench->out);
        table_close(&bench->table);
        sbx_catalog_free(bench->catalog);
}

static const char *ask(struct bench *bench, const char *principal, unsigned kind, const char *name,
                       const char *arguments) {
        const struct sbx_request request = {.struct_size = sizeof(request),
                                            .kind = kind,
                                            .name = name,
                                            .principal = principal,
                                            .arguments = {arguments, strlen(arguments)}};
        const struct sbx_client client = {.struct_size = sizeof(client)};
        struct sbx_error err = {0};
        int r;

        sbx_buffer_clear(&bench->out);
        r = sbx_catalog_request(bench->catalog, &request, &client, NULL, &bench->out, &err);
        if (r < 0) {
                sbx_buffer_clear(&bench->out);
                assert_int_equal(sbx_buffer_printf(&bench->out, "%d: %s", r, err.message), 0);
        }
        return bench->out.data;
}

static const char *list(struct bench *bench, const char *principal) {
        return ask(bench, principal, SBX_REQUEST_RESOURCES, "", "");
}

static const char *read_uri(struct bench *bench, const char *principal, const char *uri) {
        return ask(bench, principal, SBX_REQUEST_READ, uri, "");
}

static void put(struct bench *bench, const char *principal, const char *id, const char *path, struct sbx_bytes bytes) {
        assert_int_equal(
                sbx_sessions_file_write(bench->table.sessions, principal, id, path, bytes, NULL, &bench->table.err), 0);
}

static void keep(struct bench *bench, const char *principal, const char *id, struct sbx_bytes bytes) {
        char name[SBX_ARTIFACT_NAME_SIZE];

        assert_int_equal(sbx_sessions_artifact_add(bench->table.sessions, principal, id, "plot", ".png", "image/png",
                                                   bytes, name, &bench->table.err),
                         0);
}

/* ---- resources ---- */

static void test_list(void **state) {
        struct bench bench;

        bench_open(&bench);
        assert_string_equal(list(&bench, ""), "{\"resources\":[]}");
        assert_int_equal(fake_guest_counts().started, 0);
        put(&bench, "", "s", "b c.csv", BYTES("1,2"));
        put(&bench, "", "s", "a", BYTES(""));
        keep(&bench, "", "s", BYTES("png"));
        assert_string_equal(
                list(&bench, ""),
                "{\"resources\":["
                "{\"uri\":\"repl://s/artifacts/plot-1.png\",\"name\":\"plot-1.png\",\"mimeType\":\"image/png\","
                "\"size\":3},"
                "{\"uri\":\"repl://s/files/a\",\"name\":\"a\",\"size\":0},"
                "{\"uri\":\"repl://s/files/b%20c.csv\",\"name\":\"b c.csv\",\"mimeType\":\"text/csv\",\"size\":3}"
                "]}");
        bench_close(&bench);
}

/* Whatever a guest says its files are called. */
static void test_hostile_names(void **state) {
        static const char *const paths[] = {"/etc/passwd", "../up", "a/../../b", "..", "", "ok/./x"};
        struct bench bench;
        char long_path[2000];

        bench_open(&bench);
        put(&bench, "", "s", "line\nbreak\x1b[31m", BYTES("x"));
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (paths[i][0] != '\0')
                        put(&bench, "", "s", paths[i], BYTES("x"));
        memset(long_path, 'n', sizeof(long_path) - 1);
        long_path[sizeof(long_path) - 1] = '\0';
        put(&bench, "", "s", long_path, BYTES("x"));
        assert_string_equal(list(&bench, ""), "{\"resources\":["
                                              "{\"uri\":\"repl://s/files/line%0Abreak%1B%5B31m\","
                                              "\"name\":\"repl://s/files/line%0Abreak%1B%5B31m\",\"size\":1},"
                                              "{\"uri\":\"repl://s/files/ok/x\",\"name\":\"ok/x\",\"size\":1}]}");
        bench_close(&bench);
}

static void test_many_files(void **state) {
        _cleanup_json_ json_t *answer = NULL;
        struct bench bench;
        char path[32];

        bench_open(&bench);
        for (unsigned i = 0; i < 1100; i++) {
                snprintf(path, sizeof(path), "f%u", i);
                put(&bench, "", "s", path, BYTES("x"));
        }
        answer = json_loads(list(&bench, ""), 0, NULL);
        assert_int_equal(json_array_size(json_object_get(answer, "resources")), 1000);
        bench_close(&bench);
}

static void test_busy_sessions(void **state) {
        struct runner runner = {0};
        struct bench bench;

        bench_open(&bench);
        put(&bench, "", "s", "f", BYTES("x"));
        keep(&bench, "", "s", BYTES("png"));
        runner_start(&runner, &bench.table, "s", "sleep 30000");
        wait_until_busy(&bench.table, "s");
        assert_contains(list(&bench, ""), "plot-1.png"); /* which waits for nothing */
        assert_null(strstr(bench.out.data, "files"));
        assert_contains(read_uri(&bench, "", "repl://s/artifacts/plot-1.png"), "\"text\":\"png\"");
        assert_int_equal(sbx_sessions_destroy(bench.table.sessions, "", "s", NULL), 0);
        runner_join(&runner);
        runner_free(&runner);
        assert_string_equal(list(&bench, ""), "{\"resources\":[]}");
        bench_close(&bench);
}

static void test_read(void **state) {
        static const char *const missing[] = {"repl://s/files/none", "repl://none/files/a", "repl://s/artifacts/none",
                                              "repl://none/artifacts/plot-1.png", "other://s/files/a"};
        static const char *const broken[] = {"repl://s/files/../a",     "repl://s/files//a",   "repl://s/files/a%00",
                                             "repl://s/files/%2e%2e/a", "repl://s/files/a%zz", "repl:///files/a"};
        struct bench bench;

        bench_open(&bench);
        put(&bench, "", "s", "a", BYTES("text"));
        put(&bench, "", "s", "raw", BYTES("\0\1\377"));
        put(&bench, "", "s", "empty", BYTES(""));
        keep(&bench, "", "s", BYTES("\x89PNG\r\n\x1a\n"));
        assert_string_equal(
                read_uri(&bench, "", "repl://s/files/a"),
                "{\"contents\":[{\"uri\":\"repl://s/files/a\",\"mimeType\":\"text/plain\",\"text\":\"text\"}]}");
        assert_contains(read_uri(&bench, "", "repl://s/files/%61"), "\"uri\":\"repl://s/files/%61\"");
        assert_contains(read_uri(&bench, "", "repl://s/files/raw"),
                        "\"mimeType\":\"application/octet-stream\",\"blob\":\"AAH/\"");
        assert_contains(read_uri(&bench, "", "repl://s/files/empty"), "\"text\":\"\"");
        assert_contains(read_uri(&bench, "", "repl://s/artifacts/plot-1.png"), "\"blob\":\"iVBORw0KGgo=\"");
        for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
                assert_memory_equal(read_uri(&bench, "", missing[i]), "-2: ", 4);
        for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
                assert_memory_equal(read_uri(&bench, "", broken[i]), "-22: ", 5);
        assert_int_equal(fake_guest_counts().started, 1);
        bench_close(&bench);
}

/* What is another's does not exist, in the same words. */
static void test_of_others(void **state) {
        struct bench bench;
        char message[300];

        bench_open(&bench);
        put(&bench, "token:alice", "s", "secret", BYTES("x"));
        keep(&bench, "token:alice", "s", BYTES("png"));
        assert_string_equal(list(&bench, "token:bob"), "{\"resources\":[]}");
        assert_string_equal(list(&bench, ""), "{\"resources\":[]}");
        snprintf(message, sizeof(message), "%s", read_uri(&bench, "token:bob", "repl://s/files/secret"));
        assert_int_equal(sbx_sessions_destroy(bench.table.sessions, "token:alice", "s", NULL), 0);
        assert_string_equal(read_uri(&bench, "token:bob", "repl://s/files/secret"), message);
        assert_memory_equal(read_uri(&bench, "token:bob", "repl://s/artifacts/plot-1.png"), "-2: ", 4);
        assert_contains(ask(&bench, "token:bob", SBX_REQUEST_COMPLETION, "",
                            "{\"ref\":{\"type\":\"ref/resource\",\"uri\":\"repl://{session}/files/{+path}\"},"
                            "\"argument\":{\"name\":\"session\",\"value\":\"\"}}"),
                        "\"values\":[\"default\"]");
        bench_close(&bench);
}

/* ---- completions ---- */

static const char *complete(struct bench *bench, const char *ref, const char *name, const char *value,
                            const char *session) {
        char arguments[512];

        snprintf(arguments, sizeof(arguments),
                 "{\"ref\":%s,\"argument\":{\"name\":\"%s\",\"value\":\"%s\"},\"context\":{\"arguments\":{\"session\":"
                 "\"%s\"}}}",
                 ref, name, value, session);
        return ask(bench, "", SBX_REQUEST_COMPLETION, "", arguments);
}

#define FILES "{\"type\":\"ref/resource\",\"uri\":\"repl://{session}/files/{+path}\"}"
#define ARTIFACTS "{\"type\":\"ref/resource\",\"uri\":\"repl://{session}/artifacts/{name}\"}"
#define PROMPT "{\"type\":\"ref/prompt\",\"name\":\"debug_error\"}"

static void test_completions(void **state) {
        struct bench bench;
        char path[16];

        bench_open(&bench);
        put(&bench, "", "s1", "data.csv", BYTES("x"));
        put(&bench, "", "s1", "dates.csv", BYTES("x"));
        keep(&bench, "", "s1", BYTES("png"));
        put(&bench, "", "s2", "x", BYTES("x"));
        assert_contains(complete(&bench, FILES, "session", "s", ""), "\"values\":[\"s1\",\"s2\"]");
        assert_contains(complete(&bench, ARTIFACTS, "session", "s2", ""), "\"values\":[\"s2\"]");
        assert_contains(complete(&bench, PROMPT, "session_id", "d", ""), "\"values\":[\"default\"]");
        assert_contains(complete(&bench, FILES, "path", "dat", "s1"), "\"values\":[\"data.csv\",\"dates.csv\"]");
        assert_contains(complete(&bench, FILES, "path", "dat", "none"), "\"values\":[]");
        assert_contains(complete(&bench, ARTIFACTS, "name", "p", "s1"), "\"values\":[\"plot-1.png\"]");
        assert_contains(complete(&bench, ARTIFACTS, "path", "", "s1"), "\"values\":[]");
        assert_contains(complete(&bench, PROMPT, "error", "", ""), "\"values\":[]");
        for (unsigned i = 0; i < 120; i++) {
                snprintf(path, sizeof(path), "n%u", i);
                put(&bench, "", "s2", path, BYTES("x"));
        }
        assert_contains(complete(&bench, FILES, "path", "n", "s2"), "\"total\":120,\"hasMore\":true");
        bench_close(&bench);
}

/* ---- prompts ---- */

static void test_prompts(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *prompts = NULL;
        struct bench bench;
        json_t *prompt;
        size_t index;

        bench_open(&bench);
        assert_int_equal(sbx_catalog_list(bench.catalog, SBX_LIST_PROMPTS, &out, NULL), 0);
        prompts = json_loads(out.data, 0, NULL);
        assert_int_equal(json_array_size(prompts), 4);
        json_array_foreach (prompts, index, prompt) {
                const char *name = json_string_value(json_object_get(prompt, "name"));
                _cleanup_json_ json_t *given = json_object();
                json_t *argument;
                char *arguments;
                size_t at;

                json_array_foreach (json_object_get(prompt, "arguments"), at, argument)
                        if (json_is_true(json_object_get(argument, "required")))
                                json_object_set_new(given, json_string_value(json_object_get(argument, "name")),
                                                    json_string("what ````` it is"));
                arguments = json_dumps(given, 0);
                assert_contains(ask(&bench, "", SBX_REQUEST_PROMPT, name, arguments), "session");
                assert_contains(bench.out.data, "default");
                if (strcmp(name, "debug_error") == 0 || strcmp(name, "run_and_explain") == 0)
                        assert_contains(bench.out.data, "``````");
                free(arguments);
                if (json_object_size(given) > 0)
                        assert_memory_equal(ask(&bench, "", SBX_REQUEST_PROMPT, name, "{}"), "-22: ", 5);
        }
        assert_memory_equal(ask(&bench, "", SBX_REQUEST_PROMPT, "summarize_session", "{\"session_id\":\"a b\"}"),
                            "-22: ", 5);
        assert_memory_equal(ask(&bench, "", SBX_REQUEST_PROMPT, "none", "{}"), "-2: ", 4);
        assert_int_equal(fake_guest_counts().started, 0);
        sbx_buffer_free(&out);
        bench_close(&bench);
}

static void test_templates(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct bench bench;

        bench_open(&bench);
        assert_int_equal(sbx_catalog_list(bench.catalog, SBX_LIST_TEMPLATES, &out, NULL), 0);
        assert_contains(out.data, "\"repl://{session}/artifacts/{name}\"");
        assert_contains(out.data, "\"repl://{session}/files/{+path}\"");
        sbx_buffer_free(&out);
        bench_close(&bench);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_list),        cmocka_unit_test(test_hostile_names),
                cmocka_unit_test(test_many_files),  cmocka_unit_test(test_busy_sessions),
                cmocka_unit_test(test_read),        cmocka_unit_test(test_of_others),
                cmocka_unit_test(test_completions), cmocka_unit_test(test_prompts),
                cmocka_unit_test(test_templates),
        };

        return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
