/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in tools over fake guests: names, arguments, texts, errors. */
#include "sessions.h"

#include "tools/tools.h"

struct bench {
        struct table table;
        struct sbx_tools *tools;
        json_t *result; /* of the last call() */
};

static void bench_open(struct bench *bench, const char *const *settings) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};

        *bench = (struct bench){0};
        table_open(&bench->table, settings);
        assert_int_equal(sbx_tools_new(&logger, &bench->tools, &bench->table.err), 0);
        assert_int_equal(
                sbx_tools_add_builtin(bench->tools, bench->table.sessions, bench->table.config, &bench->table.err), 0);
}

static void bench_close(struct bench *bench) {
        json_decref(bench->result);
        sbx_tools_free(bench->tools);
        table_close(&bench->table);
}

static const char *call(struct bench *bench, const char *name, const char *arguments) {
        struct sbx_tool_context context = {.principal = ""};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(8 << 20);
        struct sbx_error err = {0};

        json_decref(bench->result);
        bench->result = NULL;
        assert_int_equal(sbx_tools_call(bench->tools, name, (struct sbx_bytes){arguments, strlen(arguments)}, &context,
                                        &out, &err),
                         0);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 8 << 20, "result", &bench->result, &err), 0);
        return json_string_value(json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
}

static bool is_error(const struct bench *bench) {
        return json_is_true(json_object_get(bench->result, "isError"));
}

static void test_list(void **state) {
        static const char *const names[] = {
                "execute_python", "get_repl_context", "set_repl_context", "clear_repl_context",
                "list_sessions",  "destroy_session",  "execute"};
        struct bench bench;
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *list = NULL;
        json_t *tool;
        size_t index;

        bench_open(&bench, NULL);
        assert_int_equal(sbx_tools_list(bench.tools, &out, &bench.table.err), 0);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1 << 20, "list", &list, &bench.table.err), 0);
        assert_int_equal(json_array_size(list), 7);
        json_array_foreach(list, index, tool) {
                const json_t *schema = json_object_get(tool, "inputSchema");

                assert_string_equal(json_string_value(json_object_get(tool, "name")), names[index]);
                assert_true(json_string_length(json_object_get(tool, "description")) < 2048);
                assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
                assert_null(json_object_get(tool, "outputSchema"));
                assert_true(json_is_boolean(json_object_get(json_object_get(tool, "annotations"), "readOnlyHint")));
        }
        bench_close(&bench);
}

/* What an agent must know stands where every client shows it. */
static void test_contract_comes_first(void **state) {
        static const char *const parts[] = {"persist between calls", "ends after 30 idle minutes", "128 MB",
                                            "No network", "images"};
        struct bench bench;
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *list = NULL;
        char beginning[501];

        bench_open(&bench, NULL);
        assert_int_equal(sbx_tools_list(bench.tools, &out, &bench.table.err), 0);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1 << 20, "list", &list, &bench.table.err), 0);
        snprintf(beginning, sizeof(beginning), "%s",
                 json_string_value(json_object_get(json_array_get(list, 0), "description")));
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                assert_contains(beginning, parts[i]);
        bench_close(&bench);
}

static void test_execute_python(void **state) {
        struct bench bench;
        const json_t *facts;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "execute_python", "{\"code\":\"name x\"}"), "1");
        assert_string_equal(call(&bench, "execute_python", "{\"code\":\"ok\",\"session_id\":\"\"}"), "2");
        assert_string_equal(call(&bench, "execute_python", "{\"code\":\"ok\",\"session_id\":\"b\"}"), "1");
        facts = json_object_get(json_object_get(bench.result, "_meta"), "snipara-sandbox/execution");
        assert_string_equal(json_string_value(json_object_get(facts, "session_id")), "b");
        call(&bench, "execute_python", "{\"code\":\"ok\",\"timeout\":7}");
        assert_int_equal(fake_guest_counts().last_timeout_ms, 7000);
        call(&bench, "execute_python", "{\"code\":\"ok\",\"timeout\":7,\"profile\":\"analysis\"}");
        assert_int_equal(fake_guest_counts().last_timeout_ms, 7000);
        call(&bench, "execute_python", "{\"code\":\"ok\",\"profile\":\"extended\"}");
        assert_int_equal(fake_guest_counts().last_timeout_ms, 300000);
        bench_close(&bench);
}

static void test_bad_arguments(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "execute_python", "{\"code\":\" \\n\\t\"}"), "Error: No code provided");
        assert_true(is_error(&bench));
        assert_contains(call(&bench, "execute_python", "{}"), "arguments.code: required");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"timeout\":0}"),
                        "arguments.timeout: 0 is out of range; allowed are 1 to 300");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"timeout\":10000}"),
                        "10000 is out of range; allowed are 1 to 300");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"profile\":\"fast\"}"),
                        "allowed are quick, default, analysis, extended");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"sessionId\":\"x\"}"),
                        "did you mean 'session_id'");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"session_id\":\"a/b\"}"),
                        "session_id: character 2");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\",\"session_id\":\"a\\u0000b\"}"), "session_id");
        assert_true(is_error(&bench));
        assert_int_equal(fake_guest_counts().started, 0);
        bench_close(&bench);
}

static void test_ends(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_contains(call(&bench, "execute_python", "{\"code\":\"sleep 9000\",\"timeout\":1}"),
                        "Error: Timeout: it went wrong\nThe session's variables are kept.");
        assert_contains(call(&bench, "execute_python", "{\"code\":\"crash\"}"),
                        "Error: Killed: it went wrong\nThe session's variables are lost");
        assert_true(is_error(&bench));
        assert_contains(call(&bench, "execute_python", "{\"code\":\"ok\"}"), "[Session 'default' was restarted");
        assert_false(is_error(&bench));
        bench_close(&bench);
}

static void test_context(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "get_repl_context", "{}"), "Context is empty");
        assert_string_equal(call(&bench, "set_repl_context", "{\"key\":\"k\",\"value\":\"[1, 2]\"}"),
                            "Set context['k'] = [1, 2]");
        assert_string_equal(call(&bench, "set_repl_context", "{\"key\":\"t\",\"value\":\"plain\"}"),
                            "Set context['t'] = \"plain\"");
        assert_string_equal(call(&bench, "set_repl_context", "{\"key\":\"u\",\"value\":\"\"}"),
                            "Set context['u'] = \"\"");
        assert_string_equal(call(&bench, "get_repl_context", ""), "Current REPL context:\n  k = 1\n  t = 1\n  u = 1");
        assert_string_equal(call(&bench, "set_repl_context", "{\"key\":\"\",\"value\":\"1\"}"),
                            "Error: No key provided");
        assert_true(is_error(&bench));
        assert_string_equal(call(&bench, "clear_repl_context", "{}"), "REPL context cleared");
        assert_string_equal(call(&bench, "get_repl_context", "{\"session_id\":\"default\"}"), "Context is empty");
        bench_close(&bench);
}

static void test_sessions(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "list_sessions", "{}"),
                            "Active sessions (1):\nTrust level: sandboxed\n\n  - default: idle 0s, age 0s, "
                            "environment: local (not started)");
        call(&bench, "execute_python", "{\"code\":\"name x\",\"session_id\":\"s\"}");
        assert_contains(call(&bench, "list_sessions", ""),
                        "\n  - s: idle 0s, age 0s, context: ['x'], environment: local (fake)");
        call(&bench, "execute_python", "{\"code\":\"name it's\",\"session_id\":\"t\"}");
        assert_contains(call(&bench, "list_sessions", ""), "context: [\"it's\"]");
        assert_string_equal(call(&bench, "destroy_session", "{\"session_id\":\"s\"}"), "Session 's' destroyed");
        assert_string_equal(call(&bench, "destroy_session", "{\"session_id\":\"s\"}"), "Session 's' not found");
        assert_true(is_error(&bench));
        assert_string_equal(call(&bench, "destroy_session", "{\"session_id\":\"default\"}"), "Default session reset");
        assert_string_equal(call(&bench, "destroy_session", "{\"session_id\":\"\"}"), "Error: No session_id provided");
        assert_contains(call(&bench, "destroy_session", "{}"), "arguments.session_id: required, but missing");
        bench_close(&bench);
}

static void test_execute(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "execute", "{\"code\":\"name x\"}"), "(no output)");
        assert_int_equal(fake_guest_counts().last_timeout_ms, 6000);
        assert_int_equal(fake_guest_counts().last_start_memory_bytes, UINT64_C(128) << 20);
        call(&bench, "execute", "{\"code\":\"ok\"}");
        assert_int_equal(fake_guest_counts().started, 2);
        assert_contains(call(&bench, "execute", "{\"code\":\"ok\",\"session_id\":\"x\"}"), "unknown argument");
        bench_close(&bench);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_list),           cmocka_unit_test(test_contract_comes_first),
                cmocka_unit_test(test_execute_python), cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_ends),           cmocka_unit_test(test_context),
                cmocka_unit_test(test_sessions),       cmocka_unit_test(test_execute),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
