/* SPDX-License-Identifier: Apache-2.0 */
/* Who may see and call which tool: flags, patterns of the configuration, other names. */
#include "sessions.h"

#include "tools/content.h"
#include "tools/tools.h"

static int echo(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err) {
        char text[64];

        snprintf(text, sizeof(text), "%d %s", (int)context->caller, context->run != NULL ? "run" : "no run");
        *ret_result = sbx_content_text(false, text);
        return *ret_result != NULL ? 0 : -ENOMEM;
}

static void add(struct sbx_tools *tools, const char *name, unsigned flags) {
        struct sbx_tool tool = {.name = name,
                                .description = "Does it.",
                                .input_schema = "{\"type\":\"object\"}",
                                .run = echo,
                                .flags = flags};

        assert_int_equal(sbx_tools_add(tools, &tool, NULL), 0);
}

static struct sbx_tools *new_tools(void) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_tools *tools = NULL;

        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        add(tools, "plain", 0);
        add(tools, "answer", SBX_TOOL_RUN);
        add(tools, "look", SBX_TOOL_HOST);
        add(tools, "turn", SBX_TOOL_SESSION);
        add(tools, "mine", SBX_TOOL_CLIENT);
        add(tools, "secret_host_run", SBX_TOOL_HOST | SBX_TOOL_RUN);
        add(tools, "runs_code", SBX_TOOL_EXECUTES | SBX_TOOL_SESSION);
        add(tools, "done", SBX_TOOL_RUN | SBX_TOOL_ALWAYS);
        return tools;
}

/* The names that a kind of caller gets, in order, with spaces between them. Listing and calling say the same. */
static const char *names_of(struct sbx_tools *tools, enum sbx_tool_caller caller) {
        static const char *const all[] = {"plain", "answer",          "look",      "turn",
                                          "mine",  "secret_host_run", "runs_code", "done"};
        static char text[256];
        _cleanup_json_ json_t *list = NULL;
        json_t *tool;
        size_t index;

        assert_int_equal(sbx_tools_list_for(tools, caller, &list, NULL), 0);
        text[0] = '\0';
        json_array_foreach (list, index, tool) {
                size_t size = strlen(text);

                snprintf(text + size, sizeof(text) - size, "%s%s", size > 0 ? " " : "",
                         json_string_value(json_object_get(tool, "name")));
        }
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                struct sbx_tool_context context = {.principal = "", .caller = caller};
                struct sbx_buffer out = SBX_BUFFER(1 << 20);
                struct sbx_error err = {0};
                char padded[300], wanted[40];
                int expected;

                snprintf(padded, sizeof(padded), " %s ", text);
                snprintf(wanted, sizeof(wanted), " %s ", all[i]);
                expected = strstr(padded, wanted) != NULL ? 0 : -EACCES;
                assert_int_equal(sbx_tools_check(tools, all[i], caller, NULL), expected);
                assert_int_equal(sbx_tools_call(tools, all[i], BYTES("{}"), &context, &out, &err), expected);
                if (expected < 0)
                        assert_contains(err.message, "is not for");
                sbx_buffer_free(&out);
        }
        return text;
}

static void allow(struct sbx_tools *tools, enum sbx_tool_caller caller, const char *first, const char *second) {
        const char *patterns[] = {first, second, NULL};

        assert_int_equal(sbx_tools_allow(tools, caller, patterns, NULL), 0);
}

static void test_flags(void **state) {
        struct sbx_tools *tools = new_tools();

        /* Nothing was allowed: clients get what is theirs, and runs nothing. */
        assert_string_equal(names_of(tools, SBX_CALLER_CLIENT), "plain turn mine runs_code");
        assert_string_equal(names_of(tools, SBX_CALLER_MODEL), "done");
        assert_string_equal(names_of(tools, SBX_CALLER_CODE), "done");
        for (enum sbx_tool_caller caller = SBX_CALLER_CLIENT; caller <= SBX_CALLER_CODE; caller++)
                allow(tools, caller, "*", NULL);
        assert_string_equal(names_of(tools, SBX_CALLER_CLIENT), "plain look turn mine runs_code");
        assert_string_equal(names_of(tools, SBX_CALLER_MODEL), "plain answer look turn secret_host_run runs_code done");
        assert_string_equal(names_of(tools, SBX_CALLER_CODE), "plain answer look secret_host_run done");
        sbx_tools_free(tools);
}

/* Two flags that share a bit give each other's rights: what executes code would be for every model, named or not. */
static void test_flags_are_apart(void **state) {
        static const unsigned flags[] = {SBX_TOOL_QUICK,   SBX_TOOL_HEARTBEAT, SBX_TOOL_RUN,      SBX_TOOL_HOST,
                                         SBX_TOOL_SESSION, SBX_TOOL_CLIENT,    SBX_TOOL_EXECUTES, SBX_TOOL_ALWAYS};
        unsigned seen = 0;

        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
                assert_int_equal(__builtin_popcount(flags[i]), 1);
                assert_int_equal(seen & flags[i], 0);
                seen |= flags[i];
        }
}

/* What a run does itself needs no leave for its model; what clients alone have stays theirs. */
static void test_runs(void **state) {
        struct sbx_tools *tools = new_tools();

        assert_string_equal(names_of(tools, SBX_CALLER_RUN), "plain answer look turn secret_host_run runs_code done");
        sbx_tools_free(tools);
}

static void test_patterns(void **state) {
        static const char *const bad[] = {"", "a*b", "a b", "**", "a/b", "t\xc3\xa4"};
        struct sbx_tools *tools = new_tools();
        struct sbx_error err = {0};

        allow(tools, SBX_CALLER_MODEL, "plain", "an*");
        assert_string_equal(names_of(tools, SBX_CALLER_MODEL), "plain answer done");
        allow(tools, SBX_CALLER_MODEL, "plai", "plainer"); /* the last word counts, and names are whole */
        assert_string_equal(names_of(tools, SBX_CALLER_MODEL), "done");
        allow(tools, SBX_CALLER_CODE, "turn", "mine"); /* what flags forbid, no pattern allows */
        assert_string_equal(names_of(tools, SBX_CALLER_CODE), "done");
        allow(tools, SBX_CALLER_CLIENT, "answer", "look");
        assert_string_equal(names_of(tools, SBX_CALLER_CLIENT), "plain look turn mine runs_code");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                const char *const patterns[] = {"plain", bad[i], NULL};

                err = (struct sbx_error){0};
                assert_int_equal(sbx_tools_allow(tools, SBX_CALLER_CODE, patterns, &err), -EINVAL);
                assert_contains(err.message, "code_tools");
        }
        assert_int_equal(sbx_tools_check(tools, "plain", (enum sbx_tool_caller)4, NULL), -EINVAL);
        assert_int_equal(sbx_tools_check(tools, "plain", (enum sbx_tool_caller) - 1, NULL), -EINVAL);
        sbx_tools_free(tools);
}

static void test_refusals(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_error err = {0};

        allow(tools, SBX_CALLER_CODE, "plain", NULL);
        assert_int_equal(sbx_tools_check(tools, "look", SBX_CALLER_CODE, &err), -EACCES);
        assert_string_equal(err.message, "look is not for code");
        assert_string_equal(err.hint, "The setting code_tools decides. Tools are: plain, done");
        err = (struct sbx_error){0};
        assert_int_equal(sbx_tools_check(tools, "turn", SBX_CALLER_CODE, &err), -EACCES);
        assert_string_equal(err.hint, "Tools are: plain, done"); /* no setting would help */
        err = (struct sbx_error){0};
        assert_int_equal(sbx_tools_check(tools, "lok", SBX_CALLER_CODE, &err), -ENOENT);
        assert_string_equal(err.message, "unknown tool 'lok'"); /* what it can't have is not recommended */
        err = (struct sbx_error){0};
        assert_int_equal(sbx_tools_check(tools, "plian", SBX_CALLER_CODE, &err), -ENOENT);
        assert_string_equal(err.message, "unknown tool 'plian'; did you mean 'plain'?");
        sbx_tools_free(tools);
}

static void test_aliases(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_tool_context context = {.principal = "", .caller = SBX_CALLER_CODE, .run = tools};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);

        assert_int_equal(sbx_tools_alias(tools, "old_plain", "plain", NULL), 0);
        assert_int_equal(sbx_tools_alias(tools, "older", "old_plain", NULL), 0);
        assert_int_equal(sbx_tools_alias(tools, "old_turn", "turn", NULL), 0);
        assert_int_equal(sbx_tools_alias(tools, "look", "plain", NULL), -EEXIST);
        assert_int_equal(sbx_tools_alias(tools, "older", "look", NULL), -EEXIST);
        assert_int_equal(sbx_tools_alias(tools, "x", "none", NULL), -ENOENT);
        assert_int_equal(sbx_tools_alias(tools, "a b", "plain", NULL), -EINVAL);
        assert_int_equal(sbx_tools_alias(tools, NULL, "plain", NULL), -EINVAL);
        assert_int_equal(sbx_tools_check(tools, "older", SBX_CALLER_CODE, NULL), -EACCES);
        allow(tools, SBX_CALLER_CODE, "old_*", NULL); /* any of its names will do */
        assert_int_equal(sbx_tools_check(tools, "older", SBX_CALLER_CODE, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "plain", SBX_CALLER_CODE, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "old_turn", SBX_CALLER_CODE, NULL), -EACCES);
        assert_string_equal(names_of(tools, SBX_CALLER_CODE), "plain done");
        assert_int_equal(sbx_tools_call(tools, "older", BYTES("{}"), &context, &out, NULL), 0);
        assert_contains(out.data, "2 run");
        sbx_buffer_free(&out);
        {
                struct sbx_tool tool = {
                        .name = "older", .description = "d", .input_schema = "{\"type\":\"object\"}", .run = echo};

                assert_int_equal(sbx_tools_add(tools, &tool, NULL), -EEXIST);
        }
        sbx_tools_free(tools);
}

/* One name may mean two tools, to different callers. */
static void test_alias_behind_a_tool(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_alias(tools, "mine", "look", NULL), 0); /* a tool for clients alone has the name */
        assert_int_equal(sbx_tools_alias(tools, "mine", "plain", NULL), -EEXIST);
        assert_int_equal(sbx_tools_alias(tools, "turn", "look", NULL), 0); /* which code can't have */
        assert_int_equal(sbx_tools_alias(tools, "answer", "secret_host_run", NULL), -EEXIST);
        assert_int_equal(sbx_tools_check(tools, "mine", SBX_CALLER_CLIENT, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "mine", SBX_CALLER_MODEL, &err), -EACCES);
        assert_contains(err.hint, "model_tools"); /* it would be `look`, which a setting can allow */
        allow(tools, SBX_CALLER_MODEL, "mine", NULL);
        assert_int_equal(sbx_tools_check(tools, "mine", SBX_CALLER_MODEL, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "look", SBX_CALLER_MODEL, NULL), 0);
        allow(tools, SBX_CALLER_CLIENT, "mine", "turn");
        assert_int_equal(sbx_tools_check(tools, "look", SBX_CALLER_CLIENT, NULL), -EACCES);
        allow(tools, SBX_CALLER_MODEL, "turn", NULL); /* to a model it is the tool of that name */
        assert_int_equal(sbx_tools_check(tools, "look", SBX_CALLER_MODEL, NULL), -EACCES);
        sbx_tools_free(tools);
}

/* The services of plugins are for clients, whatever the tool. */
static void test_submitted(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_tool_services services;
        struct sbx_output *list = NULL;

        sbx_tools_services(tools, &services);
        assert_int_equal(sbx_output_new(1 << 20, &list), 0);
        assert_int_equal(services.list(services.data, list, NULL), 0);
        assert_null(memmem(sbx_output_bytes(list).data, sbx_output_bytes(list).size, "\"look\"", 6));
        assert_null(memmem(sbx_output_bytes(list).data, sbx_output_bytes(list).size, "\"answer\"", 8));
        sbx_output_free(list);
        sbx_tools_free(tools);
}

/* The built-in ones, over fake guests: code calls no tool that waits for the turn that the code itself has. */
static void test_builtin(void **state) {
        static const char *const never[] = {
                "execute_python",   "get_repl_context", "set_repl_context", "clear_repl_context", "destroy_session",
                "list_sessions",    "execute",          "upload_file",      "download_file",      "checkpoint_session",
                "list_checkpoints", "rollback_session", "fork_session"};
        static const char *const clients_alone[] = {"destroy_session",  "list_sessions",    "execute",
                                                    "upload_file",      "download_file",    "checkpoint_session",
                                                    "list_checkpoints", "rollback_session", "fork_session"};
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_tools *tools = NULL;
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        assert_int_equal(sbx_tools_add_builtin(tools, table.sessions, table.config, NULL), 0);
        allow(tools, SBX_CALLER_MODEL, "*", NULL);
        allow(tools, SBX_CALLER_CODE, "*", NULL);
        for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
                assert_int_equal(sbx_tools_check(tools, never[i], SBX_CALLER_CLIENT, NULL), 0);
                assert_int_equal(sbx_tools_check(tools, never[i], SBX_CALLER_CODE, NULL), -EACCES);
        }
        for (size_t i = 0; i < sizeof(clients_alone) / sizeof(clients_alone[0]); i++)
                assert_int_equal(sbx_tools_check(tools, clients_alone[i], SBX_CALLER_MODEL, NULL), -EACCES);
        assert_int_equal(sbx_tools_check(tools, "execute_python", SBX_CALLER_MODEL, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "file_read", SBX_CALLER_CODE, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "file_list", SBX_CALLER_MODEL, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "list_files", SBX_CALLER_MODEL, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "list_files", SBX_CALLER_CODE, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "list_files", SBX_CALLER_CLIENT, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "file_list", SBX_CALLER_CLIENT, NULL), -EACCES);
        /* To clients that name is the session's files: it opens the project's to nobody. */
        allow(tools, SBX_CALLER_CLIENT, "list_*", NULL);
        assert_int_equal(sbx_tools_check(tools, "file_list", SBX_CALLER_CLIENT, NULL), -EACCES);
        allow(tools, SBX_CALLER_MODEL, "list_files", NULL);
        assert_int_equal(sbx_tools_check(tools, "file_list", SBX_CALLER_MODEL, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "file_read", SBX_CALLER_CLIENT, NULL), -EACCES);
        sbx_tools_free(tools);
        table_close(&table);
}

static int answer_calls(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                        struct sbx_buffer *result, struct sbx_error *err) {
        ++*(unsigned *)data;
        return sbx_buffer_append_text(result, "\"answered\"");
}

/* execute_python hands on who answers the code's calls. */
static void test_code_calls(void **state) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        unsigned count = 0;
        const struct sbx_code_calls calls = {.data = &count, .answer = answer_calls};
        struct sbx_tool_context context = {.principal = "run:1", .caller = SBX_CALLER_MODEL, .code_calls = &calls};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_tools *tools = NULL;
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        assert_int_equal(sbx_tools_add_builtin(tools, table.sessions, table.config, NULL), 0);
        allow(tools, SBX_CALLER_MODEL, "execute_*", NULL);
        assert_int_equal(sbx_tools_call(tools, "execute_python", BYTES("{\"code\":\"call x\"}"), &context, &out, NULL),
                         0);
        assert_contains(out.data, "answered");
        assert_int_equal(count, 1);
        sbx_buffer_free(&out);
        sbx_tools_free(tools);
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_flags),
                cmocka_unit_test(test_flags_are_apart),
                cmocka_unit_test(test_runs),
                cmocka_unit_test(test_patterns),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_aliases),
                cmocka_unit_test(test_alias_behind_a_tool),
                cmocka_unit_test(test_submitted),
                cmocka_unit_test(test_builtin),
                cmocka_unit_test(test_code_calls),
        };

        return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
