/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of a context source: registered, called, and refused when they are not what they should be. */
#include "../test.h"

#include <snipara-sandbox/context.h>

#include "base/json.h"
#include "tools/tools.h"

/* A source whose definitions and answers are texts. */
struct source {
        const char *tools, *answer;
        int code; /* of call() */
        char arguments[128];
        struct sbx_instance instance;
};

static int source_tools(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        const struct source *source = instance;

        return sbx_output_append(ret_json, source->tools, strlen(source->tools));
}

static int source_call(void *instance, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
                       struct sbx_output *ret_result, struct sbx_error *err) {
        struct source *source = instance;

        snprintf(source->arguments, sizeof(source->arguments), "%s %.*s", tool, (int)arguments.size,
                 (const char *)arguments.data);
        if (source->code < 0)
                return sbx_error_set(err, source->code, "source", "Check the network.", "the service does not answer");
        return sbx_output_append(ret_result, source->answer, strlen(source->answer));
}

static const struct sbx_context_ops ops = {.struct_size = sizeof(ops), .tools = source_tools, .call = source_call};

#define SEARCH                                                                                                         \
        "[{\"name\":\"search\",\"description\":\"Finds.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{"       \
        "\"query\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\",\"default\":5}},\"required\":[\"query\"]}}]"

static int add(struct source *source, struct sbx_tools **ret_tools, struct sbx_error *err) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};

        source->instance = (struct sbx_instance){.name = "docs", .state = source, .ops = &ops};
        assert_int_equal(sbx_tools_new(&logger, ret_tools, err), 0);
        return sbx_tools_add_context(*ret_tools, &source->instance, false, err);
}

static void call(struct sbx_tools *tools, const char *arguments, const char *expected) {
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_error err = {0};

        assert_int_equal(
                sbx_tools_call(tools, "search", (struct sbx_bytes){arguments, strlen(arguments)}, &context, &out, &err),
                0);
        assert_contains(out.data, expected);
        sbx_buffer_free(&out);
}

static void test_call(void **state) {
        struct source source = {.tools = SEARCH, .answer = "{\"content\":[{\"type\":\"text\",\"text\":\"found\"}]}"};
        struct sbx_tools *tools = NULL;
        struct sbx_error err = {0};

        assert_int_equal(add(&source, &tools, &err), 0);
        call(tools, "{\"query\":\"x\"}", "\"found\"");
        assert_string_equal(source.arguments, "search {\"query\":\"x\",\"limit\":5}");
        call(tools, "{\"query\":\"x\"}", "\"isError\":false");
        call(tools, "{\"query\":5}", "arguments.query: must be of type string");
        source.code = -EIO;
        call(tools, "{\"query\":\"x\"}", "Error: the service does not answer\\nCheck the network.");
        source.code = 0;
        source.answer = "{\"result\":1}";
        call(tools, "{\"query\":\"x\"}", "no content array");
        source.answer = "{\"content\":";
        call(tools, "{\"query\":\"x\"}", "not valid JSON");
        sbx_tools_free(tools);
}

/* Who may call them, and under which names, stands in the definition. */
static void test_meta(void **state) {
        struct source source = {
                .tools = "[{\"name\":\"docs_search\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},"
                         "\"_meta\":{\"snipara-sandbox/host\":true,\"snipara-sandbox/aliases\":[\"rlm_search\"]}},"
                         "{\"name\":\"docs_read\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}}]",
                .answer = "{\"content\":[]}"};
        static const char *const searching[] = {"rlm_*", NULL};
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_tools *tools = NULL;
        struct sbx_error err = {0};

        assert_int_equal(add(&source, &tools, &err), 0);
        assert_int_equal(sbx_tools_check(tools, "docs_read", SBX_CALLER_CLIENT, NULL), 0);
        assert_int_equal(sbx_tools_check(tools, "docs_search", SBX_CALLER_CLIENT, NULL), -EACCES);
        assert_int_equal(sbx_tools_check(tools, "rlm_search", SBX_CALLER_CLIENT, NULL), -EACCES);
        assert_int_equal(sbx_tools_allow(tools, SBX_CALLER_CLIENT, searching, NULL), 0);
        assert_int_equal(sbx_tools_call(tools, "rlm_search", BYTES("{}"), &context, &out, &err), 0);
        assert_string_equal(source.arguments, "docs_search {}"); /* the source knows its own name alone */
        assert_int_equal(sbx_tools_list(tools, &out, NULL), 0);
        assert_null(strstr(out.data, "rlm_search")); /* another name is not listed */
        sbx_buffer_free(&out);
        sbx_tools_free(tools);
}

#define DEFINITION(name, alias)                                                                                        \
        "{\"name\":\"" name "\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},"                          \
        "\"_meta\":{\"snipara-sandbox/aliases\":[\"" alias "\"]}}"

static int add_more(struct source *source, struct sbx_tools *tools, bool only_missing, struct sbx_error *err) {
        source->instance = (struct sbx_instance){.name = "more", .state = source, .ops = &ops};
        *err = (struct sbx_error){0};
        return sbx_tools_add_context(tools, &source->instance, only_missing, err);
}

/* Of the built-in sources, the first that has a name wins; two that were configured must not clash. */
static void test_only_missing(void **state) {
        struct source first = {.tools = "[" DEFINITION("one", "uno") "]", .answer = "{\"content\":[]}"};
        struct source second = {
                .tools = "[" DEFINITION("one", "eins") "," DEFINITION("two", "uno") "," DEFINITION("uno", "due") "]",
                .answer = "{\"content\":[]}"};
        struct source nothing = {.tools = "[]"}, wrong = {.tools = "[" DEFINITION("three", "a b") "]"};
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_tools *tools = NULL;
        struct sbx_error err = {0};

        assert_int_equal(add(&first, &tools, &err), 0);
        assert_int_equal(add_more(&second, tools, false, &err), -EEXIST);
        assert_contains(err.message, "'one'");
        assert_int_equal(add_more(&second, tools, true, &err), 0);
        assert_int_equal(add_more(&nothing, tools, true, &err), 0);
        assert_int_equal(sbx_tools_check(tools, "eins", SBX_CALLER_CLIENT, NULL), -ENOENT);
        assert_int_equal(sbx_tools_check(tools, "due", SBX_CALLER_CLIENT, NULL), -ENOENT);
        assert_int_equal(sbx_tools_call(tools, "uno", BYTES("{}"), &context, &out, &err), 0);
        assert_string_equal(first.arguments, "one {}");
        assert_int_equal(sbx_tools_call(tools, "two", BYTES("{}"), &context, &out, &err), 0);
        assert_string_equal(second.arguments, "two {}");
        assert_int_equal(add_more(&wrong, tools, true, &err), -EINVAL);
        assert_contains(err.message, "context source 'more'");
        sbx_buffer_free(&out);
        sbx_tools_free(tools);
}

static void test_bad_definitions(void **state) {
        static const char *const bad[] = {"{}", "[", "[{\"name\":\"x\"}]", "[{\"name\":\"x\",\"description\":\"d\"}]"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct source source = {.tools = bad[i]};
                struct sbx_tools *tools = NULL;
                struct sbx_error err = {0};

                assert_true(add(&source, &tools, &err) < 0);
                assert_contains(err.message, "context source 'docs'");
                sbx_tools_free(tools);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_call),
                cmocka_unit_test(test_meta),
                cmocka_unit_test(test_only_missing),
                cmocka_unit_test(test_bad_definitions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
