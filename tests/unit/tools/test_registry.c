/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: definitions that are refused, listing, and calls on the caller's thread. */
#include "../test.h"

#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"
#include "tools/tools.h"

static int echo(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err) {
        *ret_result = sbx_content_text(false, json_string_value(json_object_get(arguments, "text")));
        return *ret_result != NULL ? 0 : -ENOMEM;
}

static int break_down(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                      struct sbx_error *err) {
        return sbx_error_set(err, -EIO, "test", "Turn it.", "the handle is stuck");
}

static const struct sbx_tool echo_tool = {
        .name = "echo",
        .description = "Says it again.",
        .input_schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"default\":"
                        "\"nothing\"}},\"additionalProperties\":false}",
        .annotations = "{\"readOnlyHint\":true}",
        .run = echo};

static struct sbx_tools *new_tools(void) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_tools *tools = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_new(&logger, &tools, &err), 0);
        return tools;
}

static json_t *call(struct sbx_tools *tools, const char *name, const char *arguments, int expected,
                    struct sbx_error *err) {
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        json_t *result = NULL;

        *err = (struct sbx_error){0};
        assert_int_equal(
                sbx_tools_call(tools, name, (struct sbx_bytes){arguments, strlen(arguments)}, &context, &out, err),
                expected);
        if (expected == 0)
                assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1 << 20, "result", &result, err), 0);
        sbx_buffer_free(&out);
        return result;
}

static const char *text_of(const json_t *result) {
        return json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

static void assert_definition_refused(struct sbx_tool tool, const char *message) {
        struct sbx_tools *tools = new_tools();
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_add(tools, &tool, &err), -EINVAL);
        assert_contains(err.message, message);
        sbx_tools_free(tools);
}

static void test_definitions(void **state) {
        static char long_text[2100];
        struct sbx_tool tool = echo_tool;

        memset(long_text, 'a', sizeof(long_text) - 1);
        tool.name = "a b";
        assert_definition_refused(tool, "1 to 64 of A-Z");
        tool.name = "";
        assert_definition_refused(tool, "1 to 64 of A-Z");
        tool = echo_tool;
        tool.description = long_text;
        assert_definition_refused(tool, "description");
        tool = echo_tool;
        tool.input_schema = "{\"type\":\"object\",\"anyOf\":[]}";
        assert_definition_refused(tool, "anyOf");
        tool.input_schema = "{\"type\":\"string\"}";
        assert_definition_refused(tool, "type object");
        tool.input_schema = "{\"type\":";
        assert_definition_refused(tool, "tool 'echo'");
        tool = echo_tool;
        tool.annotations = "[]";
        assert_definition_refused(tool, "JSON object");
}

static void test_twice(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_add(tools, &echo_tool, &err), 0);
        assert_int_equal(sbx_tools_add(tools, &echo_tool, &err), -EEXIST);
        sbx_tools_free(tools);
}

static void test_list(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_tool other = echo_tool;
        struct sbx_buffer first = SBX_BUFFER(1 << 20), second = SBX_BUFFER(1 << 20);
        struct sbx_error err = {0};

        other.name = "another";
        other.title = "Another";
        assert_int_equal(sbx_tools_add(tools, &echo_tool, &err), 0);
        assert_int_equal(sbx_tools_add(tools, &other, &err), 0);
        assert_int_equal(sbx_tools_list(tools, &first, &err), 0);
        assert_int_equal(sbx_tools_list(tools, &second, &err), 0);
        assert_string_equal(first.data, second.data);
        assert_string_equal(
                first.data,
                "[{\"name\":\"echo\",\"description\":\"Says it "
                "again.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{"
                "\"text\":{\"type\":\"string\",\"default\":\"nothing\"}},\"additionalProperties\":false},"
                "\"annotations\":{\"readOnlyHint\":true}},{\"name\":\"another\",\"title\":\"Another\",\"description\":"
                "\"Says it again.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\","
                "\"default\":\"nothing\"}},\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":true}}]");
        sbx_buffer_free(&first);
        sbx_buffer_free(&second);
        sbx_tools_free(tools);
}

static void test_calls(void **state) {
        struct sbx_tools *tools = new_tools();
        struct sbx_tool failing = echo_tool;
        struct sbx_error err = {0};
        json_t *result;

        failing.name = "fail";
        failing.run = break_down;
        assert_int_equal(sbx_tools_add(tools, &echo_tool, &err), 0);
        assert_int_equal(sbx_tools_add(tools, &failing, &err), 0);

        result = call(tools, "echo", "{\"text\":\"hi\"}", 0, &err);
        assert_string_equal(text_of(result), "hi");
        json_decref(result);
        result = call(tools, "echo", "", 0, &err); /* no arguments at all are none */
        assert_string_equal(text_of(result), "nothing");
        json_decref(result);
        result = call(tools, "echo", "{\"txet\":\"hi\"}", 0, &err);
        assert_true(json_is_true(json_object_get(result, "isError")));
        assert_string_equal(text_of(result),
                            "Error: arguments.txet: unknown argument; did you mean 'text'?\nArguments are: text.");
        json_decref(result);
        result = call(tools, "fail", "{}", 0, &err);
        assert_true(json_is_true(json_object_get(result, "isError")));
        assert_string_equal(text_of(result), "Error: the handle is stuck\nTurn it.");
        json_decref(result);

        call(tools, "ecko", "{}", -ENOENT, &err);
        assert_contains(err.message, "unknown tool 'ecko'; did you mean 'echo'?");
        assert_contains(err.hint, "echo, fail");
        call(tools, "echo", "[1]", -EINVAL, &err);
        call(tools, "echo", "{\"text\":", -EINVAL, &err);
        sbx_tools_free(tools);
}

struct notes {
        unsigned calls;
        char tool[64], arguments[256];
        int status;
        bool active;
};

static bool notes_active(void *data) {
        return ((struct notes *)data)->active;
}

static void notes_take(void *data, const struct sbx_tool_record *record) {
        struct notes *notes = data;
        char *arguments = json_dumps(record->arguments, JSON_COMPACT);

        notes->calls++;
        notes->status = record->status;
        snprintf(notes->tool, sizeof(notes->tool), "%s", record->tool);
        snprintf(notes->arguments, sizeof(notes->arguments), "%s", arguments);
        free(arguments);
}

static void test_observer(void **state) {
        struct sbx_tools *tools = new_tools();
        struct notes notes = {.active = true};
        struct sbx_error err = {0};

        sbx_tools_observe(tools, &(struct sbx_tool_observer){&notes, notes_active, notes_take});
        assert_int_equal(sbx_tools_add(tools, &echo_tool, &err), 0);
        json_decref(call(tools, "echo", "{}", 0, &err));
        assert_int_equal(notes.calls, 1);
        assert_string_equal(notes.tool, "echo");
        assert_string_equal(notes.arguments, "{}"); /* as they were sent, without the defaults */
        json_decref(call(tools, "echo", "{\"text\":3}", 0, &err));
        assert_int_equal(notes.status, -EINVAL);
        notes.active = false;
        json_decref(call(tools, "echo", "{}", 0, &err));
        assert_int_equal(notes.calls, 2);
        sbx_tools_free(tools);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_definitions), cmocka_unit_test(test_twice),    cmocka_unit_test(test_list),
                cmocka_unit_test(test_calls),       cmocka_unit_test(test_observer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
