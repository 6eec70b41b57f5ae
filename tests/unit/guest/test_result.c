/* SPDX-License-Identifier: Apache-2.0 */
/* Results: text is repaired, displays are encoded, everything is freed whole. */
#include "../test.h"

#include "../alloc_fail.h"
#include "guest/result.h"

static void names_of_ends(void **state) {
        static const char *const ends[] = {"ok", "error", "timeout", "memory", "cancelled", "killed", "lost"};
        static const char *const states[] = {"kept", "rolled_back", "lost"};

        for (int i = 0; i < 7; i++)
                assert_string_equal(sbx_end_name((enum sbx_end)i), ends[i]);
        for (int i = 0; i < 3; i++)
                assert_string_equal(sbx_state_name((enum sbx_state)i), states[i]);
        assert_string_equal(sbx_end_name((enum sbx_end)99), "unknown");
        sbx_result_free(NULL);
}

static void sets_text(void **state) {
        struct sbx_result *result = NULL;

        assert_int_equal(sbx_result_new(&result), 0);
        assert_int_equal(result->struct_size, sizeof(*result));
        assert_int_equal(sbx_result_set(&result->value, BYTES("a\xff\0b")), 0);
        assert_string_equal(result->value, "a\xef\xbf\xbd\xe2\x90\x80"
                                           "b");
        assert_int_equal(sbx_result_set(&result->value, BYTES("")), 0);
        assert_string_equal(result->value, "");
        assert_int_equal(sbx_result_set(&result->value, (struct sbx_bytes){0}), 0);
        assert_null(result->value);
        sbx_result_free(result);
}

static void check_output(const char *in, size_t size, bool cut, const char *expected, size_t expected_size) {
        struct sbx_buffer text = SBX_BUFFER(100);
        struct sbx_bytes field = {0};

        assert_int_equal(sbx_buffer_append(&text, in, size), 0);
        assert_int_equal(sbx_result_set_output(&field, &text, cut), 0);
        assert_int_equal(field.size, expected_size);
        assert_memory_equal(field.data, expected, expected_size + 1);
        free((void *)(uintptr_t)field.data);
        sbx_buffer_free(&text);
}

static void sets_output(void **state) {
        check_output("", 0, false, "", 0);
        check_output("", 0, true, "", 0);
        check_output("a\0b", 3, false, "a\0b", 3);
        check_output("a\xc3\xa9", 3, true, "a\xc3\xa9", 3);      /* whole: stays */
        check_output("a\xe2\x82", 3, true, "a", 1);              /* half of a character: dropped */
        check_output("a\xe2\x82", 3, false, "a\xef\xbf\xbd", 4); /* the guest wrote it so: repaired */
        check_output("a\xf0\x9f\x98", 4, true, "a", 1);
        check_output("\x80\x80\x80\x80", 4, true, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12);
}

static void encodes_displays(void **state) {
        static const struct {
                const char *mime, *data, *expected;
                size_t size;
        } cases[] = {
                {"text/html", "<b>\xff</b>", "<b>\xef\xbf\xbd</b>", 8},
                {"image/svg+xml", "<svg/>", "<svg/>", 6},
                {"application/json", "{}", "{}", 2},
                {"application/vnd.plotly.v1+json", "{}", "{}", 2},
                {"image/png", "", "", 0},
                {"image/png", "f", "Zg==", 1},
                {"image/png", "fo", "Zm8=", 2},
                {"image/png", "foo", "Zm9v", 3},
                {"image/png", "\xfb\xff\0", "+/8A", 3},
        };
        struct sbx_result *result = NULL;

        assert_int_equal(sbx_result_new(&result), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_bytes data = {cases[i].data, cases[i].size};

                assert_int_equal(sbx_result_add_display(result, cases[i].mime, data), 0);
                assert_string_equal(result->displays[i].mime_type, cases[i].mime);
                assert_string_equal(result->displays[i].data.data, cases[i].expected);
                assert_int_equal(result->displays[i].data.size, strlen(cases[i].expected));
        }
        while (result->display_count < SBX_DISPLAYS_MAX)
                assert_int_equal(sbx_result_add_display(result, "text/plain", BYTES("x")), 0);
        assert_int_equal(sbx_result_add_display(result, "text/plain", BYTES("x")), -E2BIG);
        sbx_result_free(result);
}

static int build_body(void *data) {
        struct sbx_buffer text = SBX_BUFFER(100);
        struct sbx_result *result = NULL;
        int r = sbx_result_new(&result);

        if (r == 0)
                r = sbx_buffer_append(&text, "a\xff", 2);
        if (r == 0)
                r = sbx_result_set(&result->value, BYTES("a\xff"));
        if (r == 0)
                r = sbx_result_set_output(&result->stdout_text, &text, false);
        if (r == 0)
                r = sbx_result_add_display(result, "text/plain", BYTES("x"));
        if (r == 0)
                r = sbx_result_add_display(result, "image/png", BYTES("x"));
        sbx_buffer_free(&text);
        sbx_result_free(result);
        return r;
}

static void survives_allocation_failures(void **state) {
        assert_true(alloc_fail_sweep(build_body, NULL) > 8);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_of_ends),
                cmocka_unit_test(sets_text),
                cmocka_unit_test(sets_output),
                cmocka_unit_test(encodes_displays),
                cmocka_unit_test(survives_allocation_failures),
        };

        return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
