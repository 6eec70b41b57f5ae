/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments against schemas: what is refused and how that is told, defaults, and what is let pass. */
#include "../test.h"

#include "base/json.h"
#include "tools/state.h"

static const char schema_text[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"code\":{\"type\":\"string\"},"
        "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":300},"
        "\"profile\":{\"type\":\"string\",\"enum\":[\"quick\",\"default\"],\"default\":\"default\"},"
        "\"name\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":4},"
        "\"ratio\":{\"type\":\"number\",\"minimum\":0},"
        "\"deep\":{\"type\":\"boolean\"},"
        "\"maybe\":{\"type\":[\"string\",\"null\"]},"
        "\"list\":{\"type\":\"array\",\"maxItems\":3,\"items\":{\"type\":\"integer\",\"maximum\":9}},"
        "\"inner\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"default\":7}},\"required\":["
        "\"b\"]}},"
        "\"required\":[\"code\"],\"additionalProperties\":false}";

static json_t *parse(const char *text) {
        struct sbx_error err = {0};
        json_t *value = NULL;

        if (sbx_json_parse((struct sbx_bytes){text, strlen(text)}, 1 << 20, "test", &value, &err) < 0)
                fail_msg("%s: %s", text, err.message);
        return value;
}

/* The arguments after the schema was applied; NULL and the error if they were refused. */
static json_t *apply(const char *arguments, struct sbx_error *err) {
        _cleanup_json_ json_t *schema = parse(schema_text);
        json_t *value = parse(arguments);

        *err = (struct sbx_error){0};
        if (sbx_schema_apply(schema, value, err) == 0)
                return value;
        json_decref(value);
        return NULL;
}

static void assert_refused(const char *arguments, const char *message) {
        struct sbx_error err;

        assert_null(apply(arguments, &err));
        assert_contains(err.message, message);
}

static void test_defaults(void **state) {
        struct sbx_error err;
        _cleanup_json_ json_t *arguments = apply("{\"code\":\"1\",\"inner\":{\"b\":1}}", &err);

        assert_string_equal(json_string_value(json_object_get(arguments, "profile")), "default");
        assert_null(json_object_get(arguments, "timeout"));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(arguments, "inner"), "a")), 7);
}

static void test_types(void **state) {
        assert_refused("{\"code\":5}", "arguments.code: must be of type string, not integer");
        assert_refused("{\"code\":\"\",\"timeout\":\"5\"}", "arguments.timeout: must be of type integer, not string");
        assert_refused("{\"code\":\"\",\"timeout\":5.5}", "arguments.timeout: must be of type integer, not number");
        assert_refused("{\"code\":\"\",\"timeout\":true}", "not boolean");
        assert_refused("{\"code\":\"\",\"maybe\":1}", "string, null");
        assert_refused("{\"code\":\"\",\"list\":[1,\"x\"]}", "arguments.list[1]: must be of type integer");
}

static void test_ranges(void **state) {
        assert_refused("{\"code\":\"\",\"timeout\":0}", "arguments.timeout: 0 is out of range; allowed are 1 to 300");
        assert_refused("{\"code\":\"\",\"timeout\":10000}",
                       "arguments.timeout: 10000 is out of range; allowed are 1 to 300");
        assert_refused("{\"code\":\"\",\"ratio\":-0.5}", "at least 0");
        assert_refused("{\"code\":\"\",\"list\":[10]}", "arguments.list[0]: 10 is out of range");
        assert_refused("{\"code\":\"\",\"list\":[1,2,3,4]}", "has 4 items, at most 3");
        assert_refused("{\"code\":\"\",\"name\":\"x\"}", "has 1 characters, at least 2");
        assert_refused("{\"code\":\"\",\"name\":\"abcde\"}", "has 5 characters, at most 4");
}

static void test_characters_are_counted(void **state) {
        struct sbx_error err;
        _cleanup_json_ json_t *arguments =
                apply("{\"code\":\"\",\"name\":\"\\u00e4\\u00f6\\u00fc\\ud83d\\ude00\"}", &err);

        assert_non_null(arguments);
}

static void test_enum(void **state) {
        assert_refused("{\"code\":\"\",\"profile\":\"fast\"}",
                       "arguments.profile: unknown value 'fast'; allowed are quick, default");
}

static void test_unknown_and_missing(void **state) {
        struct sbx_error err;

        assert_refused("{}", "arguments.code: required, but missing");
        assert_refused("{\"code\":\"\",\"inner\":{}}", "arguments.inner.b: required, but missing");
        assert_null(apply("{\"code\":\"\",\"time_out\":3}", &err));
        assert_contains(err.message, "arguments.time_out: unknown argument; did you mean 'timeout'?");
        assert_contains(err.hint, "code, timeout, profile");
        assert_null(apply("{\"code\":\"\",\"xylophone\":3}", &err));
        assert_null(strstr(err.message, "did you mean"));
}

static void test_whole_numbers(void **state) {
        struct sbx_error err;
        _cleanup_json_ json_t *arguments = apply("{\"code\":\"\",\"timeout\":5.0,\"list\":[2.0]}", &err);

        assert_true(json_is_integer(json_object_get(arguments, "timeout")));
        assert_int_equal(json_integer_value(json_object_get(arguments, "timeout")), 5);
        assert_true(json_is_integer(json_array_get(json_object_get(arguments, "list"), 0)));
}

static void test_null_is_not_given(void **state) {
        struct sbx_error err;
        _cleanup_json_ json_t *arguments =
                apply("{\"code\":\"\",\"timeout\":null,\"profile\":null,\"maybe\":null}", &err);

        assert_non_null(arguments);
        assert_null(json_object_get(arguments, "timeout"));
        assert_string_equal(json_string_value(json_object_get(arguments, "profile")), "default");
        assert_true(json_is_null(json_object_get(arguments, "maybe")));
        assert_refused("{\"code\":null}", "arguments.code: required, but missing");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),      cmocka_unit_test(test_types),
                cmocka_unit_test(test_ranges),        cmocka_unit_test(test_characters_are_counted),
                cmocka_unit_test(test_enum),          cmocka_unit_test(test_unknown_and_missing),
                cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_null_is_not_given),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
