/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: what is valid, how the rest is repaired, where text may be cut. */
#include "../test.h"
#include "../alloc_fail.h"

#include "base/utf8.h"

#define R "\xEF\xBF\xBD"

struct repair_case {
        struct sbx_bytes input;
        const char *output;
};

static const struct repair_case broken[] = {
        {BYTES("\x80"), R},
        {BYTES("a\xFF"
               "b"),
         "a" R "b"},
        {BYTES("\xC0\x80"), R R},                         /* overlong NUL */
        {BYTES("\xC1\xBF"), R R},                         /* overlong */
        {BYTES("\xE0\x80\x80"), R R R},                   /* overlong */
        {BYTES("\xE0\x9F\xBF"), R R R},                   /* overlong */
        {BYTES("\xF0\x80\x80\x80"), R R R R},             /* overlong */
        {BYTES("\xF0\x8F\xBF\xBF"), R R R R},             /* overlong */
        {BYTES("\xED\xA0\x80"), R R R},                   /* U+D800 */
        {BYTES("\xED\xBF\xBF"), R R R},                   /* U+DFFF */
        {BYTES("\xED\xA0\xBD\xED\xB8\x80"), R R R R R R}, /* a pair of surrogates */
        {BYTES("\xF4\x90\x80\x80"), R R R R},             /* U+110000 */
        {BYTES("\xF5\x80\x80\x80"), R R R R},
        {BYTES("\xF8\x88\x80\x80\x80"), R R R R R},
        {BYTES("\xE2\x82"), R},     /* cut */
        {BYTES("\xF0\x9F\x98"), R}, /* cut: one maximal part */
        {BYTES("\xF0\x9F\x98x"), R "x"},
        {BYTES("\xE2\x82\xE2\x82\xAC"), R "\xE2\x82\xAC"},
        {BYTES("\xC3"), R},
        {BYTES("12345678\xC3 12345678"), "12345678" R " 12345678"},
};

static const struct sbx_bytes sound[] = {
        BYTES(""),
        BYTES("plain"),
        BYTES("\0nul\0"),
        BYTES("\x7F"),
        BYTES("\xC2\x80"),
        BYTES("\xDF\xBF"),
        BYTES("\xE0\xA0\x80"),
        BYTES("\xED\x9F\xBF"),
        BYTES("\xEE\x80\x80"),
        BYTES("\xEF\xBF\xBF"),
        BYTES("\xF0\x90\x80\x80"),
        BYTES("\xF4\x8F\xBF\xBF"),
        BYTES("0123456789abcdef\xE2\x82\xAC 0123456789"),
};

static void knows_what_is_valid(void **state) {
        assert_true(sbx_utf8_valid((struct sbx_bytes){NULL, 0}));
        for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++)
                if (!sbx_utf8_valid(sound[i]))
                        fail_msg("text %zu is valid", i);
        for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
                if (sbx_utf8_valid(broken[i].input))
                        fail_msg("text %zu is not valid", i);
}

static void repairs_maximal_parts(void **state) {
        for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(1000);

                assert_int_equal(sbx_utf8_repair(broken[i].input, false, &out), 0);
                assert_string_equal(out.data, broken[i].output);
                assert_true(sbx_utf8_valid(sbx_buffer_bytes(&out)));
                sbx_buffer_free(&out);
        }
        for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(1000);

                assert_int_equal(sbx_utf8_repair(sound[i], false, &out), 0);
                assert_int_equal(out.size, sound[i].size);
                assert_true(out.size == 0 || memcmp(out.data, sound[i].data, out.size) == 0);
                sbx_buffer_free(&out);
        }
}

static void shows_nul(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1000);

        assert_int_equal(sbx_utf8_repair(BYTES("\0a\0\0\xFF\0"), true, &out), 0);
        assert_string_equal(out.data, "\xE2\x90\x80"
                                      "a\xE2\x90\x80\xE2\x90\x80" R "\xE2\x90\x80");
        sbx_buffer_free(&out);
}

static void leaves_the_output_alone_when_it_does_not_fit(void **state) {
        struct sbx_buffer out = SBX_BUFFER(8);

        assert_int_equal(sbx_buffer_append_text(&out, "ab"), 0);
        assert_int_equal(sbx_utf8_repair(BYTES("cd\xFF\xFF"), false, &out), -EFBIG);
        assert_string_equal(out.data, "ab");
        assert_int_equal(out.size, 2);
        sbx_buffer_free(&out);
}

static void cuts_between_characters(void **state) {
        struct sbx_bytes text = BYTES("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
        static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};

        for (size_t limit = 0; limit < sizeof(expected) / sizeof(expected[0]); limit++)
                assert_int_equal(sbx_utf8_cut(text, limit), expected[limit]);
        /* Bytes that are no characters may be cut anywhere, and never make it go far back. */
        assert_int_equal(sbx_utf8_cut(BYTES("\x80\x80\x80\x80\x80\x80"), 5), 5);
        assert_int_equal(sbx_utf8_cut(BYTES("\xC3\xA9\x80\x80"), 3), 3);
        assert_int_equal(sbx_utf8_cut(BYTES("\x80\x80"), 1), 1);
}

/* All sequences of up to three bytes out of the interesting ones: a repair is always valid, and changes what was not.
 */
static void repairs_every_mixture(void **state) {
        static const unsigned char bytes[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
                                              0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
        const size_t count = sizeof(bytes);

        for (size_t i = 0; i < count * count * count * count; i++) {
                char text[4] = {(char)bytes[i % count], (char)bytes[i / count % count],
                                (char)bytes[i / count / count % count], (char)bytes[i / count / count / count]};
                struct sbx_bytes input = {text, sizeof(text)};
                char storage[64];
                struct sbx_buffer out = {storage, 0, sizeof(storage), sizeof(storage) - 1};

                assert_int_equal(sbx_utf8_repair(input, false, &out), 0);
                assert_ptr_equal(out.data, storage);
                if (!sbx_utf8_valid(sbx_buffer_bytes(&out)))
                        fail_msg("repair of mixture %zu is not valid", i);
                if (sbx_utf8_valid(input) != (out.size == 4 && memcmp(out.data, text, 4) == 0))
                        fail_msg("repair of mixture %zu changed valid text, or did not change invalid text", i);
        }
}

static int repair_all(void *data) {
        struct sbx_buffer out = SBX_BUFFER(100000);
        int r = 0;

        for (size_t k = 0; r == 0 && k < 50; k++)
                for (size_t i = 0; r == 0 && i < sizeof(broken) / sizeof(broken[0]); i++)
                        r = sbx_utf8_repair(broken[i].input, true, &out);
        sbx_buffer_free(&out);
        return r;
}

static void survives_every_allocation_failure(void **state) {
        assert_true(alloc_fail_sweep(repair_all, NULL) > 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(knows_what_is_valid),
                cmocka_unit_test(repairs_maximal_parts),
                cmocka_unit_test(shows_nul),
                cmocka_unit_test(leaves_the_output_alone_when_it_does_not_fit),
                cmocka_unit_test(cuts_between_characters),
                cmocka_unit_test(repairs_every_mixture),
                cmocka_unit_test(survives_every_allocation_failure),
        };

        return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
