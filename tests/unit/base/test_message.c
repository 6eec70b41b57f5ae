/* SPDX-License-Identifier: Apache-2.0 */
/* What people read: errors, log lines, timestamps. */
#include "../test.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"

static void wraps_errors(void **state) {
        struct sbx_error err = {0};

        sbx_error_wrap(&err, "nothing yet");
        sbx_error_wrap(NULL, "nobody");
        assert_int_equal(err.code, 0);
        assert_string_equal(err.message, "");
        assert_int_equal(sbx_error_set(&err, -ENOENT, "here", "do this", "no %s", "file"), -ENOENT);
        assert_int_equal(sbx_error_set(&err, -EINVAL, "there", NULL, "later"), -EINVAL);
        sbx_error_wrap(&err, "loading %d", 7);
        assert_string_equal(err.message, "loading 7: no file");
        assert_string_equal(err.hint, "do this");
        assert_string_equal(err.origin, "here");
        assert_int_equal(err.code, -ENOENT);
        assert_int_equal(SBX_NOMEM(NULL, "x"), -ENOMEM);
}

static void cuts_long_errors_at_a_character(void **state) {
        for (unsigned shift = 0; shift < 4; shift++) {
                struct sbx_error err = {0};
                char text[3 * SBX_ERROR_MESSAGE_MAX] = "";
                size_t size = shift;

                memset(text, 'x', shift);
                while (size + 4 < sizeof(text)) {
                        memcpy(text + size, "\xF0\x9F\x98\x80", 4);
                        size += 4;
                }
                text[size] = '\0';
                sbx_error_set(&err, -EINVAL, "o", text, "%s", text);
                for (unsigned i = 0; i < 3; i++) {
                        assert_true(sbx_utf8_valid((struct sbx_bytes){err.message, strlen(err.message)}));
                        assert_true(strlen(err.message) >= SBX_ERROR_MESSAGE_MAX - 8);
                        sbx_error_wrap(&err, "%.*s", (int)i, "ab");
                }
                sbx_error_wrap(&err, "%s", text);
                assert_true(sbx_utf8_valid((struct sbx_bytes){err.message, strlen(err.message)}));
                assert_true(sbx_utf8_valid((struct sbx_bytes){err.hint, strlen(err.hint)}));
        }
}

static void names_errno(void **state) {
        char text[8];

        assert_string_equal(SBX_ERRNO_TEXT(-ENOENT), "No such file or directory");
        assert_string_equal(SBX_ERRNO_TEXT(ENOENT), "No such file or directory");
        assert_contains(SBX_ERRNO_TEXT(-123456), "123456");
        assert_string_equal(sbx_errno_text(-ENOENT, text, sizeof(text)), "No such");
}

struct captured {
        int level;
        unsigned count;
        char text[8192];
};

static void capture(void *data, int level, const char *message) {
        struct captured *captured = data;

        captured->level = level;
        captured->count++;
        snprintf(captured->text, sizeof(captured->text), "%s", message);
}

static void logs_one_safe_line(void **state) {
        struct captured captured = {0};
        struct sbx_logger logger = {capture, &captured, SBX_LOG_INFO};

        sbx_log(&logger, SBX_LOG_DEBUG, "too much");
        assert_int_equal(captured.count, 0);
        sbx_log(&logger, SBX_LOG_INFO, "%s", "a\nb\tc\r\x1B[31m\x7F");
        assert_string_equal(captured.text, "a\\nb\\tc\\x0d\\x1b[31m\\x7f");
        assert_int_equal(captured.level, SBX_LOG_INFO);
        sbx_log(&logger, SBX_LOG_ERROR, "%s",
                "\xFF\xC3 \xC2\x9B"
                "31m \xE2\x80\xAE \xE2\x81\xA6 \xE2\x80\xA8 caf\xC3\xA9 \xF0\x9F\x98\x80");
        assert_string_equal(captured.text,
                            "\\xff\\xc3 \\xc2\\x9b31m \\xe2\\x80\\xae \\xe2\\x81\\xa6 \\xe2\\x80\\xa8 caf\xC3\xA9 "
                            "\xF0\x9F\x98\x80");
        assert_int_equal(captured.count, 2);
}

static void cuts_long_lines(void **state) {
        for (size_t length = 4070; length < 4110; length++) {
                struct captured captured = {0};
                struct sbx_logger logger = {capture, &captured, SBX_LOG_INFO};
                char text[5000];

                memset(text, 'y', length);
                memcpy(text + length, "\xE2\x82\xAC", 4);
                sbx_log(&logger, SBX_LOG_INFO, "%s", text);
                assert_true(strlen(captured.text) < 4100);
                assert_true(sbx_utf8_valid((struct sbx_bytes){captured.text, strlen(captured.text)}));
                if (length > 4095)
                        assert_string_equal(captured.text + strlen(captured.text) - 3, "...");
                memset(text, '\n', length); /* each grows to two */
                sbx_log(&logger, SBX_LOG_INFO, "%s", text);
                assert_string_equal(captured.text + strlen(captured.text) - 3, "...");
        }
}

static void knows_levels(void **state) {
        int level = 0;

        assert_int_equal(sbx_log_level_from_name("INFO", &level), 0);
        assert_int_equal(level, SBX_LOG_INFO);
        assert_int_equal(sbx_log_level_from_name("loud", &level), -EINVAL);
        assert_int_equal(sbx_log_level_from_name("", &level), -EINVAL);
        assert_int_equal(level, SBX_LOG_INFO);
}

static void tells_the_time(void **state) {
        char text[SBX_TIMESTAMP_SIZE];
        unsigned year, ms;

        sbx_clock_timestamp(text);
        assert_int_equal(strlen(text), 24);
        assert_int_equal(sscanf(text, "%4u-%*2u-%*2uT%*2u:%*2u:%*2u.%3uZ", &year, &ms), 2);
        assert_true(year >= 2024);
        assert_int_equal(sbx_clock_poll_ms(0), -1);
        assert_int_equal(sbx_clock_poll_ms(1), 0);
        assert_int_equal(sbx_clock_poll_ms(UINT64_MAX), INT_MAX);
        assert_in_range(sbx_clock_poll_ms(sbx_clock_ns() + 100 * SBX_NS_PER_MS), 90, 101);
        assert_in_range(sbx_clock_poll_ms(sbx_clock_ns() + SBX_NS_PER_MS), 0, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(wraps_errors),    cmocka_unit_test(cuts_long_errors_at_a_character),
                cmocka_unit_test(names_errno),     cmocka_unit_test(logs_one_safe_line),
                cmocka_unit_test(cuts_long_lines), cmocka_unit_test(knows_levels),
                cmocka_unit_test(tells_the_time),
        };

        return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
