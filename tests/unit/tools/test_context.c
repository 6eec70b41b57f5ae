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
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_call), cmocka_unit_test(test_bad_definitions)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
