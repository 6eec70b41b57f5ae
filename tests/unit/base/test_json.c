/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: what is refused before and while parsing, decoding with paths, compact encoding. */
#include "../test.h"
#include "../alloc_fail.h"

#include "base/clock.h"
#include "base/json.h"

#define LIMIT (32u << 20)

static struct sbx_bytes text_of(const char *text) {
        return (struct sbx_bytes){text, strlen(text)};
}

static json_t *parse_or_fail(const char *text) {
        struct sbx_error err = {0};
        json_t *value = NULL;

        if (sbx_json_parse_any(text_of(text), LIMIT, "test", &value, &err) < 0)
                fail_msg("%s", err.message);
        return value;
}

static void refuses(struct sbx_bytes text, int code, const char *part) {
        struct sbx_error err = {0};
        json_t *value = (json_t *)&err; /* to see that it is left alone */
        int r = sbx_json_parse_any(text, LIMIT, "frame", &value, &err);

        if (r != code)
                fail_msg("%d and not %d for %.80s", r, code, (const char *)text.data);
        assert_int_equal(err.code, code);
        assert_ptr_equal(value, &err);
        assert_contains(err.message, "frame: ");
        assert_contains(err.message, part);
}

static void repeat(struct sbx_buffer *out, const char *text, size_t times) {
        while (times-- > 0)
                assert_int_equal(sbx_buffer_append_text(out, text), 0);
}

static void refuses_what_is_not_json(void **state) {
        static const char *const cases[] = {
                "{",
                "[1,]",
                "{\"a\":1,}",
                "{a:1}",
                "'x'",
                "nul",
                "01",
                "1 2",
                "[1}",
                "{\"a\"}",
                "\"\t\"",
                "\"open",
                "\"\\x41\"",
                "\"\\ud800\"",
                "\"\\udc00\\ud800\"",
                "\"\\ud83d x\"",
                "\xEF\xBB\xBF{}",
                "{}}",
                "]",
                "}{",
                "[1]]",
                "99999999999999999999999",
                "1e999",
                "NaN",
                "Infinity",
                "-",
                "+1",
                ".5",
                "// c\n1",
                "\"\\",
                "\"\\\"",
                "{\"a\":1,\"a\":2}",
                "{\"a\":1,\"\\u0061\":2}",
                "{\"\\u0000\":1}",
                "\"\xFF\"",
                "\"\xED\xA0\x80\"",
                "\"\xC0\x80\"",
                "\x80",
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                refuses(text_of(cases[i]), -EINVAL, "not valid JSON");
        refuses(BYTES("{}\0"), -EINVAL, "not valid JSON");
        refuses(BYTES("\"a\0b\""), -EINVAL, "not valid JSON");
        refuses(BYTES(""), -EINVAL, "empty");
}

static void takes_containers_alone_unless_told(void **state) {
        struct sbx_error err = {0};
        json_t *value = NULL;

        assert_int_equal(sbx_json_parse(BYTES("17"), LIMIT, "x", &value, &err), -EINVAL);
        assert_int_equal(sbx_json_parse_any(BYTES(" 17 "), LIMIT, "x", &value, NULL), 0);
        json_decref(value);
}

static void limits_size(void **state) {
        struct sbx_error err = {0};
        json_t *value = NULL;

        assert_int_equal(sbx_json_parse(BYTES("[1,2]"), 5, "x", &value, &err), 0);
        json_decref(value);
        assert_int_equal(sbx_json_parse(BYTES("[1,2] "), 5, "x", &value, &err), -EFBIG);
        assert_contains(err.message, "6 bytes, at most 5");
}

static void limits_depth(void **state) {
        for (size_t depth = SBX_JSON_DEPTH_MAX; depth <= SBX_JSON_DEPTH_MAX + 1; depth++) {
                struct sbx_buffer text = SBX_BUFFER(LIMIT);

                repeat(&text, "[{\"a\":", depth / 2);
                if (depth % 2 == 1)
                        repeat(&text, "[", 1);
                repeat(&text, depth % 2 == 1 ? "]" : "0", 1);
                repeat(&text, "}]", depth / 2);
                if (depth > SBX_JSON_DEPTH_MAX)
                        refuses(sbx_buffer_bytes(&text), -EINVAL, "deeper than 64 levels");
                else
                        json_decref(parse_or_fail(text.data));
                sbx_buffer_free(&text);
        }
}

static void is_not_fooled_about_depth(void **state) {
        struct sbx_buffer text = SBX_BUFFER(LIMIT);

        /* Brackets in strings do not count ... */
        json_decref(
                parse_or_fail("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"]"));
        /* ... and a string that seems to end does not hide them. */
        repeat(&text, "[\"\\\\\",", 65);
        refuses(sbx_buffer_bytes(&text), -EINVAL, "deeper than 64 levels");
        sbx_buffer_clear(&text);
        repeat(&text, "[", 200000);
        refuses(sbx_buffer_bytes(&text), -EINVAL, "deeper than 64 levels");
        sbx_buffer_clear(&text);
        repeat(&text, "[}", 200000); /* never deep, by a careless count */
        refuses(sbx_buffer_bytes(&text), -EINVAL, "not valid JSON");
        sbx_buffer_free(&text);
}

static void limits_values(void **state) {
        static const char *const floods[] = {"0,", "[],", "{},", "\"\","};

        for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
                struct sbx_buffer text = SBX_BUFFER(LIMIT);

                repeat(&text, "[", 1);
                repeat(&text, floods[i], SBX_JSON_VALUES_MAX);
                refuses(sbx_buffer_bytes(&text), -EFBIG, "values");
                sbx_buffer_free(&text);
        }
}

static void looks_at_long_strings_quickly(void **state) {
        struct sbx_buffer text = SBX_BUFFER(LIMIT);
        uint64_t start;

        /* Quadratic in the escapes it would take hours. */
        repeat(&text, "\"", 1);
        repeat(&text, "\\\\\\\"", 4000000);
        repeat(&text, "\"", 1);
        start = sbx_clock_ns();
        json_decref(parse_or_fail(text.data));
        assert_true(sbx_clock_ns() - start < 20 * SBX_NS_PER_S);
        sbx_buffer_free(&text);
}

static void decodes_members(void **state) {
        json_t *object =
                parse_or_fail("{\"s\":\"x\",\"nul\":\"a\\u0000b\",\"n\":7,\"real\":30.0,\"half\":0.5,\"t\":true,"
                              "\"none\":null,\"big\":1e300,\"min\":-9223372036854775808}");
        struct sbx_error err = {0};
        struct sbx_bytes text = {NULL, 0};
        const char *string = "before";
        int64_t number = -1;
        bool flag = false;

        assert_int_equal(sbx_json_get_string(object, "p", "s", SBX_JSON_REQUIRED, &string, &err), 0);
        assert_string_equal(string, "x");
        assert_int_equal(sbx_json_get_string(object, "p", "none", 0, &string, &err), 0);
        assert_int_equal(sbx_json_get_string(object, "p", "absent", 0, &string, &err), 0);
        assert_string_equal(string, "x");
        assert_int_equal(sbx_json_get_text(object, "p", "nul", 0, &text, &err), 0);
        assert_int_equal(text.size, 3);
        assert_memory_equal(text.data, "a\0b", 3);
        assert_int_equal(sbx_json_get_int(object, "p", "n", 0, 0, 10, &number, &err), 0);
        assert_int_equal(number, 7);
        assert_int_equal(sbx_json_get_int(object, "p", "real", 0, 0, 30, &number, &err), 0);
        assert_int_equal(number, 30);
        assert_int_equal(sbx_json_get_int(object, "p", "min", 0, INT64_MIN, INT64_MAX, &number, &err), 0);
        assert_true(number == INT64_MIN);
        assert_int_equal(sbx_json_get_bool(object, "p", "t", 0, &flag, &err), 0);
        assert_true(flag);
        assert_int_equal(err.code, 0);
        json_decref(object);
}

static void says_where_a_member_is_wrong(void **state) {
        json_t *object =
                parse_or_fail("{\"s\":\"x\",\"nul\":\"a\\u0000b\",\"n\":7,\"half\":0.5,\"none\":null,\"big\":1e300}");
        json_t *array = json_array();
        struct sbx_error err = {0};
        struct sbx_bytes text = {NULL, 0};
        const char *string = NULL;
        int64_t number = -1;
        bool flag = false;

#define WRONG(call, expected)                                                                                          \
        do {                                                                                                           \
                err.code = 0;                                                                                          \
                assert_int_equal((call), -EINVAL);                                                                     \
                assert_string_equal(err.message, expected);                                                            \
        } while (0)
        WRONG(sbx_json_get_string(object, "params.arguments", "code", SBX_JSON_REQUIRED, &string, &err),
              "params.arguments.code: missing, must be a string");
        WRONG(sbx_json_get_string(object, "p", "none", SBX_JSON_REQUIRED, &string, &err),
              "p.none: missing, must be a string");
        WRONG(sbx_json_get_string(object, "", "n", 0, &string, &err), "n: must be a string, not a number");
        WRONG(sbx_json_get_string(object, NULL, "nul", 0, &string, &err), "nul: must not have a NUL character in it");
        WRONG(sbx_json_get_text(object, "p", "n", 0, &text, &err), "p.n: must be a string, not a number");
        WRONG(sbx_json_get_int(object, "p", "s", 0, 0, 9, &number, &err), "p.s: must be an integer, not a string");
        WRONG(sbx_json_get_int(object, "p", "half", 0, 0, 9, &number, &err), "p.half: must be an integer, not 0.5");
        WRONG(sbx_json_get_int(object, "p", "big", 0, 0, 9, &number, &err), "p.big: must be an integer, not 1e+300");
        WRONG(sbx_json_get_int(object, "p", "n", 0, 8, 9, &number, &err), "p.n: 7 is out of range, must be 8 to 9");
        WRONG(sbx_json_get_bool(object, "p", "n", 0, &flag, &err), "p.n: must be true or false, not a number");
        WRONG(sbx_json_get_bool(array, "p", "n", 0, &flag, &err), "p: must be an object");
        assert_null(string);
        assert_null(text.data);
        assert_int_equal(number, -1);
        assert_false(flag);
        json_decref(array);
        json_decref(object);
}

static void encodes_what_it_parsed(void **state) {
        static const char *const cases[] = {
                "null",
                "true",
                "false",
                "0",
                "-1",
                "9223372036854775807",
                "-9223372036854775808",
                "0.1",
                "1.0",
                "-0.0",
                "1e+300",
                "1.7976931348623157e+308",
                "-1e-05",
                "0.30000000000000004",
                "[]",
                "{}",
                "\"\"",
                "\"\\\"\\\\\\n\\t\\r\\u0000\\u0001\\u001f\x7F\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80/\"",
                "{\"b\":[1,{\"c\":null},\"d\"],\"a\":{}}",
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(LIMIT);
                json_t *value = parse_or_fail(cases[i]);

                assert_int_equal(sbx_json_encode(value, &out), 0);
                assert_string_equal(out.data, cases[i]);
                json_decref(value);
                sbx_buffer_free(&out);
        }
}

static void encodes_within_bounds(void **state) {
        struct sbx_buffer out = SBX_BUFFER(12);
        json_t *value = parse_or_fail("[1,2,3,\"abcdef\"]"), *cycle = json_array();

        assert_int_equal(sbx_buffer_append_text(&out, "x"), 0);
        assert_int_equal(sbx_json_encode(value, &out), -EFBIG);
        assert_string_equal(out.data, "x");
        assert_int_equal(sbx_json_encode(NULL, &out), -EINVAL);
        out.max = LIMIT;
        /* jansson refuses a direct cycle, not one over two arrays. */
        json_array_append_new(cycle, json_array());
        json_array_append(json_array_get(cycle, 0), cycle);
        assert_int_equal(sbx_json_encode(cycle, &out), -EINVAL);
        assert_string_equal(out.data, "x");
        json_array_clear(json_array_get(cycle, 0));
        json_decref(cycle);
        json_decref(value);
        sbx_buffer_free(&out);
}

static void makes_strings_of_any_bytes(void **state) {
        json_t *text = sbx_json_text(BYTES("a\0\xFF\xED\xA0\x80"));

        assert_int_equal(json_string_length(text), 14);
        assert_memory_equal(json_string_value(text), "a\0\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 14);
        json_decref(text);
        text = sbx_json_text((struct sbx_bytes){NULL, 0});
        assert_string_equal(json_string_value(text), "");
        json_decref(text);
}

/* Documents with bytes changed, dropped and doubled: refused or taken, and what was taken comes back the same. */
static void stands_broken_documents(void **state) {
        static const char seed_text[] =
                "{\"id\":1,\"params\":{\"name\":\"x\\u00e9\\n\",\"arguments\":{\"code\":\"print(\\\"1\\\")\","
                "\"n\":[1,-2.5e3,true,false,null,[[]],{}]}}}";
        uint32_t random = 12345;

        for (unsigned round = 0; round < 60000; round++) {
                char text[2 * sizeof(seed_text)];
                size_t size = sizeof(seed_text) - 1;
                json_t *value = NULL;

                memcpy(text, seed_text, size);
                for (unsigned change = 0; change < 1 + round % 4; change++) {
                        size_t at;

                        random = random * 1664525u + 1013904223u;
                        at = (random >> 8) % size;
                        if (random % 3 == 0)
                                text[at] = (char)(random >> 24);
                        else if (random % 3 == 1)
                                memmove(text + at, text + at + 1, --size - at);
                        else
                                memmove(text + at + 1, text + at, size++ - at);
                }
                if (sbx_json_parse((struct sbx_bytes){text, size}, LIMIT, "broken", &value, NULL) == 0) {
                        struct sbx_buffer out = SBX_BUFFER(LIMIT);
                        json_t *again = NULL;

                        assert_int_equal(sbx_json_encode(value, &out), 0);
                        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), LIMIT, "again", &again, NULL), 0);
                        assert_true(json_equal(value, again));
                        json_decref(again);
                        sbx_buffer_free(&out);
                }
                json_decref(value);
        }
}

/* ---- allocation failures, of jansson's too ---- */

void *__wrap_malloc(size_t size);

static int use_json(void *data) {
        static const char document[] = "{\"a\":[1,2.5,\"text\\u0000\",{\"b\":null,\"c\":[true,false]}],\"d\":\"e\"}";
        struct sbx_buffer out = SBX_BUFFER(LIMIT);
        struct sbx_error err = {0};
        json_t *value = NULL, *text = NULL;
        int r = sbx_json_parse(BYTES(document), LIMIT, "document", &value, &err);

        if (r < 0) {
                assert_null(value);
                assert_int_equal(err.code, r);
                if (alloc_fail.failed) /* jansson calls it a syntax error when it is short of memory for a string */
                        r = -ENOMEM;
        }
        if (r == 0)
                r = sbx_json_encode(value, &out);
        if (r == 0) {
                text = sbx_json_text(BYTES("\xFF repaired"));
                r = text != NULL ? 0 : -ENOMEM;
        }
        json_decref(text);
        json_decref(value);
        sbx_buffer_free(&out);
        return r;
}

static void survives_every_allocation_failure(void **state) {
        unsigned rounds;

        json_decref(json_object()); /* jansson seeds its hash once, and not while failing */
        json_set_alloc_funcs(__wrap_malloc, free);
        rounds = alloc_fail_sweep(use_json, NULL);
        json_set_alloc_funcs(malloc, free);
        assert_true(rounds > 20);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(refuses_what_is_not_json),
                cmocka_unit_test(takes_containers_alone_unless_told),
                cmocka_unit_test(limits_size),
                cmocka_unit_test(limits_depth),
                cmocka_unit_test(is_not_fooled_about_depth),
                cmocka_unit_test(limits_values),
                cmocka_unit_test(looks_at_long_strings_quickly),
                cmocka_unit_test(decodes_members),
                cmocka_unit_test(says_where_a_member_is_wrong),
                cmocka_unit_test(encodes_what_it_parsed),
                cmocka_unit_test(encodes_within_bounds),
                cmocka_unit_test(makes_strings_of_any_bytes),
                cmocka_unit_test(stands_broken_documents),
                cmocka_unit_test(survives_every_allocation_failure),
        };

        return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
