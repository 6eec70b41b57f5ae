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
                "execute_python",     "execute_code",  "execute_bash",    "get_repl_context",   "set_repl_context",
                "clear_repl_context", "list_sessions", "destroy_session", "checkpoint_session", "list_checkpoints",
                "rollback_session",   "fork_session",  "execute",         "upload_file",        "download_file",
                "list_files"};
        struct bench bench;
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *list = NULL;
        json_t *tool;
        size_t index;

        bench_open(&bench, NULL);
        assert_int_equal(sbx_tools_list(bench.tools, &out, &bench.table.err), 0);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1 << 20, "list", &list, &bench.table.err), 0);
        assert_int_equal(json_array_size(list), sizeof(names) / sizeof(names[0]));
        json_array_foreach (list, index, tool) {
                const json_t *schema = json_object_get(tool, "inputSchema");

                assert_string_equal(json_string_value(json_object_get(tool, "name")), names[index]);
                assert_true(json_string_length(json_object_get(tool, "description")) < 2048);
                assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
                assert_null(json_object_get(tool, "outputSchema"));
                assert_true(json_is_boolean(json_object_get(json_object_get(tool, "annotations"), "readOnlyHint")));
                assert_int_equal(json_array_size(json_object_get(tool, "icons")), 1);
        }
        bench_close(&bench);
}

/* What an agent must know stands where every client shows it. */
static void check_contract(const char *const *settings, const char *stay) {
        const char *const parts[] = {"persist between calls", stay, "128 MB", "No network", "images"};
        struct bench bench;
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *list = NULL;
        char beginning[501];

        bench_open(&bench, settings);
        assert_int_equal(sbx_tools_list(bench.tools, &out, &bench.table.err), 0);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1 << 20, "list", &list, &bench.table.err), 0);
        snprintf(beginning, sizeof(beginning), "%s",
                 json_string_value(json_object_get(json_array_get(list, 0), "description")));
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                assert_contains(beginning, parts[i]);
        bench_close(&bench);
}

static void test_contract_comes_first(void **state) {
        check_contract(NULL, "are stored, and go on in a new server");
        check_contract((const char *const[]){"store=", NULL}, "ends after 30 idle minutes");
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

static void test_languages(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "execute_code", "{\"language\":\"python\",\"code\":\"ok\"}"), "1");
        assert_string_equal(call(&bench, "execute_python", "{\"code\":\"ok\"}"), "2");
        assert_string_equal(call(&bench, "execute_code", "{\"language\":\"javascript\",\"code\":\"ok\"}"), "1");
        assert_string_equal(fake_guest_counts().last_runtime, "node");
        assert_string_equal(
                json_string_value(json_object_get(
                        json_object_get(json_object_get(bench.result, "_meta"), "snipara-sandbox/execution"),
                        "session_id")),
                "default-node");
        assert_string_equal(call(&bench, "execute_bash", "{\"command\":\"ok\"}"), "1");
        assert_string_equal(fake_guest_counts().last_runtime, "bash");
        assert_string_equal(
                call(&bench, "execute_code",
                     "{\"language\":\"bash\",\"code\":\"ok\",\"session_id\":\"default-bash\",\"timeout\":7}"),
                "2");
        assert_int_equal(fake_guest_counts().last_timeout_ms, 7000);
        assert_contains(call(&bench, "execute_bash", "{\"command\":\"ok\",\"session_id\":\"default\"}"),
                        "session 'default' is one of python and can't execute bash");
        assert_true(is_error(&bench));
        assert_contains(call(&bench, "execute_code", "{\"language\":\"a/b\",\"code\":\"ok\"}"),
                        "language: \"a/b\" can't be the name of one");
        assert_string_equal(call(&bench, "execute_code", "{\"code\":\"ok\"}"), "3");
        assert_contains(call(&bench, "execute_bash", "{\"command\":\" \"}"), "No code provided");
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
        const json_t *facts;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "list_sessions", "{}"),
                            "Active sessions (1):\nTrust level: sandboxed\n\n  - default: idle 0s, age 0s, "
                            "environment: local (not started)");
        facts = json_object_get(bench.result, "structuredContent");
        assert_int_equal(json_array_size(json_object_get(facts, "sessions")), 1);
        assert_true(json_is_array(json_object_get(facts, "stored")));
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

/* ---- annotations ---- */

static bool hint(struct bench *bench, const char *name, const char *hint) {
        _cleanup_json_ json_t *list = NULL;
        json_t *tool;
        size_t index;

        assert_int_equal(sbx_tools_list_for(bench->tools, SBX_CALLER_CLIENT, &list, NULL), 0);
        json_array_foreach (list, index, tool) {
                const json_t *value = json_object_get(json_object_get(tool, "annotations"), hint);

                if (strcmp(json_string_value(json_object_get(tool, "name")), name) == 0) {
                        assert_true(json_is_boolean(value));
                        return json_is_true(value);
                }
        }
        fail_msg("no tool %s", name);
        return false;
}

static void test_annotations(void **state) {
        static const char *const reads[] = {"get_repl_context", "list_sessions", "download_file", "list_files",
                                            "list_checkpoints"};
        static const char *const destroys[] = {"clear_repl_context", "destroy_session", "upload_file",
                                               "rollback_session"};
        static const char *const executes[] = {"execute_python", "execute"};
        struct bench bench;

        bench_open(&bench, NULL);
        for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
                assert_true(hint(&bench, reads[i], "readOnlyHint"));
        assert_false(hint(&bench, "checkpoint_session", "destructiveHint"));
        assert_false(hint(&bench, "fork_session", "destructiveHint"));
        for (size_t i = 0; i < sizeof(destroys) / sizeof(destroys[0]); i++) {
                assert_true(hint(&bench, destroys[i], "destructiveHint"));
                assert_true(hint(&bench, destroys[i], "idempotentHint"));
        }
        for (size_t i = 0; i < 2; i++) {
                assert_false(hint(&bench, executes[i], "readOnlyHint"));
                assert_true(hint(&bench, executes[i], "destructiveHint"));
                assert_false(hint(&bench, executes[i], "openWorldHint")); /* the jail has no network */
        }
        bench_close(&bench);
}

static bool is_open(const char *const *settings) {
        struct bench bench;
        bool open;

        bench_open(&bench, settings);
        open = hint(&bench, "execute_bash", "openWorldHint");
        bench_close(&bench);
        return open;
}

static void test_network_is_told(void **state) {
        assert_false(is_open((const char *const[]){"environment=docker", NULL}));
        assert_true(is_open((const char *const[]){"environment=docker", "docker.network=bridge", NULL}));
        assert_true(is_open((const char *const[]){"environment=docker", "docker_network_disabled=false", NULL}));
        assert_false(is_open((const char *const[]){"environment=docker", "docker_network_disabled=false",
                                                   "docker.network=none", NULL}));
        assert_false(is_open((const char *const[]){"local.isolation=landlock", NULL}));
        assert_true(is_open((const char *const[]){"local.isolation=none", NULL}));
}

/* ---- files ---- */

static const json_t *block(const struct bench *bench, size_t index) {
        return json_array_get(json_object_get(bench->result, "content"), index);
}

static const char *member(const struct bench *bench, size_t index, const char *key) {
        const char *text = json_string_value(json_object_get(block(bench, index), key));

        return text != NULL ? text : "";
}

static void test_upload(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "upload_file", "{\"path\":\"./a//b.csv\",\"content\":\"x,y\"}"),
                            "Wrote 3 bytes to a/b.csv in the workspace of session 'default'");
        assert_string_equal(member(&bench, 1, "type"), "resource_link");
        assert_string_equal(member(&bench, 1, "uri"), "repl://default/files/a/b.csv");
        assert_string_equal(member(&bench, 1, "name"), "b.csv");
        assert_string_equal(member(&bench, 1, "mimeType"), "text/csv");
        assert_int_equal(json_integer_value(json_object_get(block(&bench, 1), "size")), 3);
        assert_string_equal(call(&bench, "download_file", "{\"path\":\"a/b.csv\"}"), "x,y");
        call(&bench, "upload_file", "{\"path\":\"raw\",\"content_base64\":\"AAH/\",\"session_id\":\"s\"}");
        assert_string_equal(member(&bench, 1, "mimeType"), "application/octet-stream");
        assert_contains(call(&bench, "download_file", "{\"path\":\"raw\",\"session_id\":\"s\"}"),
                        "raw: application/octet-stream, 3 bytes, attached");
        assert_string_equal(json_string_value(json_object_get(json_object_get(block(&bench, 1), "resource"), "blob")),
                            "AAH/");
        assert_contains(call(&bench, "upload_file", "{\"path\":\"empty\",\"content\":\"\"}"), "Wrote 0 bytes");
        assert_string_equal(call(&bench, "download_file", "{\"path\":\"empty\"}"), "(the file is empty)");
        bench_close(&bench);
}

static void test_bad_uploads(void **state) {
        static const struct {
                const char *arguments, *message;
        } cases[] = {
                {"{}", "arguments.path: required"},
                {"{\"path\":\"f\"}", "give either content (text) or content_base64 (anything)"},
                {"{\"path\":\"f\",\"content\":\"\",\"content_base64\":\"\"}", "not both"},
                {"{\"path\":\"f\",\"content_base64\":\"AA\"}", "no whole groups of 4"},
                {"{\"path\":\"f\",\"content_base64\":\"AAAA\\nAAA\"}", "character 5 is not base64"},
                {"{\"path\":\"f\",\"content_base64\":\"AA==AAAA\"}", "character 3 is not base64"},
                {"{\"path\":\"f\",\"content_base64\":\"AB==\"}", "character 2 is not base64"},
                {"{\"path\":\"f\",\"content_base64\":\"A===\"}", "character 2 is not base64"},
                {"{\"path\":\"f\",\"content_base64\":\"AA-_\"}", "character 3 is not base64"},
                {"{\"path\":\"/etc/passwd\",\"content\":\"\"}", "it is absolute"},
                {"{\"path\":\"a/../../b\",\"content\":\"\"}", "leads out of the workspace"},
                {"{\"path\":\".\",\"content\":\"\"}", "names no file"},
                {"{\"path\":\"a\\u0000b\",\"content\":\"\"}", "arguments.path"},
                {"{\"path\":\"f\",\"content\":\"\",\"session_id\":\"a/b\"}", "session_id: character 2"},
        };
        struct bench bench;

        bench_open(&bench, NULL);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_contains(call(&bench, "upload_file", cases[i].arguments), cases[i].message);
                assert_true(is_error(&bench));
        }
        assert_int_equal(fake_guest_counts().started, 0);
        bench_close(&bench);
}

static void upload(struct bench *bench, const char *path, size_t size, const char *begin) {
        char *bytes = malloc(size + 1);

        assert_non_null(bytes);
        memset(bytes, 'x', size);
        memcpy(bytes, begin, strlen(begin));
        assert_int_equal(sbx_sessions_file_write(bench->table.sessions, "", NULL, path, (struct sbx_bytes){bytes, size},
                                                 NULL, NULL),
                         0);
        free(bytes);
}

static void test_download(void **state) {
        struct bench bench;

        bench_open(&bench, NULL);
        upload(&bench, "short.txt", 30000, "");
        assert_int_equal(strlen(call(&bench, "download_file", "{\"path\":\"short.txt\"}")), 30000);
        upload(&bench, "long.txt", 30001, "");
        assert_string_equal(call(&bench, "download_file", "{\"path\":\"long.txt\"}"),
                            "long.txt: text/plain, 30001 bytes, attached as a resource");
        assert_string_equal(member(&bench, 1, "type"), "resource");
        assert_string_equal(member(&bench, 2, "uri"), "repl://default/files/long.txt");
        upload(&bench, "p", 500000, "\x89PNG\r\n\x1a\n");
        call(&bench, "download_file", "{\"path\":\"p\"}");
        assert_string_equal(member(&bench, 0, "type"), "image");
        assert_string_equal(member(&bench, 0, "mimeType"), "image/png");
        upload(&bench, "q", 500001, "\x89PNG\r\n\x1a\n");
        assert_contains(call(&bench, "download_file", "{\"path\":\"q\"}"), "image/png, 500001 bytes");
        upload(&bench, "fake.png", 20, "no image at all"); /* whatever it is called */
        assert_contains(call(&bench, "download_file", "{\"path\":\"fake.png\"}"), "no image at all");
        assert_string_equal(member(&bench, 1, "mimeType"), "text/plain");
        upload(&bench, "huge", ((size_t)8 << 20) + 1, "");
        assert_contains(call(&bench, "download_file", "{\"path\":\"huge\"}"), "larger than 8388608 bytes");
        assert_contains(call(&bench, "download_file", "{\"path\":\"huge\"}"), "execute_python read a part");
        assert_contains(call(&bench, "download_file", "{\"path\":\"none\"}"), "No such file");
        assert_true(is_error(&bench));
        bench_close(&bench);
}

static void test_list_files(void **state) {
        struct bench bench;
        char path[64];

        bench_open(&bench, NULL);
        assert_string_equal(call(&bench, "list_files", "{}"),
                            "{\"session_id\":\"default\",\"path\":\"\",\"files\":[],\"count\":0,\"truncated\":false}");
        upload(&bench, "f", 5, "");
        assert_contains(call(&bench, "list_files", ""), "\"files\":[{\"path\":\"f\",\"type\":\"file\",\"size\":5,"
                                                        "\"modified\":\"1970-01-01T00:00:01Z\"}],\"count\":1");
        for (unsigned i = 0; i < 1000; i++) {
                snprintf(path, sizeof(path), "a-directory/file-%u", i);
                upload(&bench, path, 0, "");
        }
        assert_true(strlen(call(&bench, "list_files", "")) < 30000); /* whole entries, and valid JSON */
        assert_contains(call(&bench, "list_files", ""), "\"truncated\":true,\"hint\"");
        assert_contains(call(&bench, "list_files", "{\"path\":\"..\"}"), "leads out");
        bench_close(&bench);
}

/* ---- what is too much for a result ---- */

static json_t *read_artifacts(struct bench *bench, const char *id) {
        json_t *list = NULL;

        assert_int_equal(sbx_sessions_artifact_list(bench->table.sessions, "", id, &list, NULL), 0);
        return list;
}

static void test_long_output_is_kept(void **state) {
        struct bench bench;
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        char *type = NULL;

        bench_open(&bench, NULL);
        call(&bench, "execute_python", "{\"code\":\"print 29000\"}");
        assert_int_equal(json_array_size(json_object_get(bench.result, "content")), 1);
        assert_contains(call(&bench, "execute_python", "{\"code\":\"print 100000\"}"), "... [cut: ");
        assert_string_equal(member(&bench, 1, "type"), "resource_link");
        assert_string_equal(member(&bench, 1, "uri"), "repl://default/artifacts/output-1.txt");
        assert_string_equal(member(&bench, 1, "name"), "output-1.txt");
        assert_int_equal(sbx_sessions_artifact_read(bench.table.sessions, "", NULL, "output-1.txt", &out, &type, NULL),
                         0);
        assert_true(out.size > 100000);
        assert_string_equal(type, "text/plain");
        free(type);
        sbx_buffer_free(&out);
        call(&bench, "execute", "{\"code\":\"print 100000\"}"); /* its session is gone */
        assert_int_equal(json_array_size(json_object_get(bench.result, "content")), 1);
        bench_close(&bench);
}

static void test_images_are_kept(void **state) {
        _cleanup_json_ json_t *list = NULL;
        struct bench bench;

        bench_open(&bench, (const char *const[]){"store=", NULL});
        call(&bench, "execute_python", "{\"code\":\"plot 6\",\"session_id\":\"s\"}");
        assert_int_equal(json_array_size(json_object_get(bench.result, "content")), 1 + 4 * 2 + 2 + 1);
        assert_string_equal(member(&bench, 1, "type"), "image"); /* behind the value */
        assert_string_equal(member(&bench, 2, "uri"), "repl://s/artifacts/plot-1.png");
        assert_contains(member(&bench, 2, "description"), "above");
        assert_contains(member(&bench, 9, "description"), "not shown");
        assert_contains(member(&bench, 11, "text"), "2 of what is not shown can be read as resources");
        list = read_artifacts(&bench, "s");
        assert_int_equal(json_array_size(list), 6);
        call(&bench, "execute_python", "{\"code\":\"poster 600000\",\"session_id\":\"s\"}");
        assert_string_equal(member(&bench, 1, "name"), "plot-7.png");
        assert_int_equal(json_integer_value(json_object_get(block(&bench, 1), "size")), 600000);
        assert_contains(member(&bench, 2, "text"), "1 image(s) larger than 500 kB");
        call(&bench, "execute_python", "{\"code\":\"page 11000\",\"session_id\":\"s\"}");
        assert_string_equal(member(&bench, 2, "name"), "display-8.html");
        bench_close(&bench);
}

/* Models and code can't read resources, so nothing is kept for them. */
static void test_models_get_no_links(void **state) {
        struct sbx_tool_context context = {.principal = "", .caller = SBX_CALLER_MODEL};
        const char *const patterns[] = {"*", NULL};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *list = NULL;
        struct bench bench;

        bench_open(&bench, NULL);
        assert_int_equal(sbx_tools_allow(bench.tools, SBX_CALLER_MODEL, patterns, NULL), 0);
        assert_int_equal(
                sbx_tools_call(bench.tools, "execute_python", BYTES("{\"code\":\"plot 1\"}"), &context, &out, NULL), 0);
        assert_contains(out.data, "\"image\"");
        assert_null(strstr(out.data, "resource_link"));
        list = read_artifacts(&bench, "default");
        assert_int_equal(json_array_size(list), 0);
        sbx_buffer_free(&out);
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
                cmocka_unit_test(test_list),
                cmocka_unit_test(test_contract_comes_first),
                cmocka_unit_test(test_execute_python),
                cmocka_unit_test(test_languages),
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_context),
                cmocka_unit_test(test_sessions),
                cmocka_unit_test(test_execute),
                cmocka_unit_test(test_annotations),
                cmocka_unit_test(test_network_is_told),
                cmocka_unit_test(test_upload),
                cmocka_unit_test(test_bad_uploads),
                cmocka_unit_test(test_download),
                cmocka_unit_test(test_list_files),
                cmocka_unit_test(test_long_output_is_kept),
                cmocka_unit_test(test_images_are_kept),
                cmocka_unit_test(test_models_get_no_links),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
