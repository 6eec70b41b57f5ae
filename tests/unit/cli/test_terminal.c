/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted bytes on a terminal: what passes, what is shown instead, and that the cut of chunks makes no difference. */
#include "../test.h"
#include "../alloc_fail.h"

#include "base/utf8.h"
#include "cli/terminal.h"

static const struct {
        const char *what;
        struct sbx_bytes input;
        const char *output;
} cases[] = {
        {"plain text", BYTES("a b\tc\r\nd\b"), "a b\tc\r\nd\b"},
        {"UTF-8", BYTES("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"), "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"colour", BYTES("\033[1;31mred\033[0m"), "\033[1;31mred\033[0m"},
        {"true colour", BYTES("\033[38:2:1:2:3mx"), "\033[38:2:1:2:3mx"},
        {"a progress bar", BYTES("\r\033[K\033[2A"), "\r\033[K\033[2A"},
        {"a title", BYTES("\033]0;title\007"), "^[]0;title^G"},
        {"the clipboard", BYTES("\033]52;c;aGk=\033\\"), "^[]52;c;aGk=^[\\"},
        {"a report that comes back as typed input", BYTES("\033[6n"), "^[[6n"},
        {"a mode", BYTES("\033[?1049h"), "^[[?1049h"},
        {"clear the screen", BYTES("\033[2J\033[H"), "^[[2J^[[H"},
        {"reset", BYTES("\033c"), "^[c"},
        {"device control", BYTES("\033P$q\"p\033\\"), "^[P$q\"p^[\\"},
        {"an intermediate byte", BYTES("\033[1 q"), "^[[1 q"},
        {"an endless sequence", BYTES("\033[1111111111111111111111111111111111111111m"),
         "^[[1111111111111111111111111111111111111111m"},
        {"C0", BYTES("\001\177\016"), "^A^?^N"},
        {"NUL", BYTES("a\0b"), "a^@b"},
        {"C1 as UTF-8",
         BYTES("\xC2\x9B"
               "31m"),
         "\\u009b31m"},
        {"C1 as a byte",
         BYTES("\x9B"
               "31m"),
         "\xEF\xBF\xBD"
         "31m"},
        {"right-to-left override",
         BYTES("a\xE2\x80\xAE"
               "b"),
         "a\\u202eb"},
        {"overlong", BYTES("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"a surrogate", BYTES("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"beyond Unicode", BYTES("\xF4\x90\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"cut at the end", BYTES("x\xE2\x82"), "x\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"an escape at the end", BYTES("x\033"), "x^["},
        {"a sequence at the end", BYTES("x\033[3"), "x^[[3"},
};

static int filter(struct sbx_bytes input, size_t chunk, struct sbx_buffer *out) {
        struct sbx_cli_filter state = {0};
        const char *text = input.data;
        int r = 0;

        for (size_t at = 0; at < input.size && r >= 0; at += chunk) {
                size_t size = input.size - at < chunk ? input.size - at : chunk;

                r = sbx_cli_filter_append(&state, (struct sbx_bytes){text + at, size}, out);
        }
        return r < 0 ? r : sbx_cli_filter_finish(&state, out);
}

static void shows_what_is_not_harmless(void **state) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(1000);

                print_message("# %s\n", cases[i].what);
                assert_int_equal(filter(cases[i].input, 1000, &out), 0);
                assert_string_equal(out.data, cases[i].output);
                sbx_buffer_free(&out);
        }
}

static void does_not_mind_where_chunks_are_cut(void **state) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (size_t chunk = 1; chunk < 8; chunk++) {
                        struct sbx_buffer out = SBX_BUFFER(1000);

                        assert_int_equal(filter(cases[i].input, chunk, &out), 0);
                        assert_string_equal(out.data, cases[i].output);
                        sbx_buffer_free(&out);
                }
}

/* Whatever comes in: valid UTF-8 comes out, and no escape but for the sequences that are let through. */
static void lets_nothing_else_through(void **state) {
        uint32_t random = 12345;

        for (unsigned round = 0; round < 20000; round++) {
                struct sbx_buffer out = SBX_BUFFER(4000);
                unsigned char input[64];

                for (size_t i = 0; i < sizeof(input); i++) {
                        random = random * 1664525u + 1013904223u;
                        input[i] = random >> 30 == 0 ? "\033[;0mn]c"[(random >> 8) % 8] : (unsigned char)(random >> 16);
                }
                assert_int_equal(filter((struct sbx_bytes){input, sizeof(input)}, 1 + round % 64, &out), 0);
                assert_true(sbx_utf8_valid(sbx_buffer_bytes(&out)));
                for (char *escape = out.data; (escape = strchr(escape, '\033')) != NULL; escape++) {
                        size_t parameters = strspn(escape + 2, "0123456789;:");

                        assert_int_equal(escape[1], '[');
                        assert_non_null(memchr("mKABCDG", escape[2 + parameters], 7));
                }
                for (size_t i = 0; i < out.size; i++)
                        assert_true((unsigned char)out.data[i] >= 0x20 || strchr("\033\n\r\t\b", out.data[i]) != NULL);
                sbx_buffer_free(&out);
        }
}

static int filter_all(void *data) {
        struct sbx_buffer out = SBX_BUFFER(100000);
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(cases) / sizeof(cases[0]); i++)
                r = filter(cases[i].input, 3, &out);
        sbx_buffer_free(&out);
        return r;
}

static void survives_every_allocation_failure(void **state) {
        assert_true(alloc_fail_sweep(filter_all, NULL) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(shows_what_is_not_harmless),
                cmocka_unit_test(does_not_mind_where_chunks_are_cut),
                cmocka_unit_test(lets_nothing_else_through),
                cmocka_unit_test(survives_every_allocation_failure),
        };

        return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
