/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 both ways, and what kind of content bytes are. */
#include <stdlib.h>
#include <string.h>

#include "../test.h"
#include "base/base64.h"
#include "base/mime.h"

static void check_both_ways(struct sbx_bytes bytes, const char *text) {
        struct sbx_buffer encoded = SBX_BUFFER(1000), decoded = SBX_BUFFER(1000);

        assert_int_equal(sbx_base64_encode(bytes, &encoded), 0);
        assert_int_equal(encoded.size, strlen(text));
        assert_int_equal(encoded.size, sbx_base64_size(bytes.size));
        if (encoded.size > 0)
                assert_string_equal(encoded.data, text);
        assert_int_equal(sbx_base64_decode(sbx_buffer_bytes(&encoded), &decoded, NULL), 0);
        assert_int_equal(decoded.size, bytes.size);
        if (bytes.size > 0)
                assert_memory_equal(decoded.data, bytes.data, bytes.size);
        sbx_buffer_free(&encoded);
        sbx_buffer_free(&decoded);
}

/* RFC 4648, section 10. */
static void test_base64(void **state) {
        check_both_ways(BYTES(""), "");
        check_both_ways(BYTES("f"), "Zg==");
        check_both_ways(BYTES("fo"), "Zm8=");
        check_both_ways(BYTES("foo"), "Zm9v");
        check_both_ways(BYTES("foob"), "Zm9vYg==");
        check_both_ways(BYTES("fooba"), "Zm9vYmE=");
        check_both_ways(BYTES("foobar"), "Zm9vYmFy");
        check_both_ways(BYTES("\0\377\376\373\357"), "AP/+++8=");
}

static void test_bad_base64(void **state) {
        static const struct {
                const char *text;
                size_t position;
        } cases[] = {
                {"A", 1},        {"AA", 2},        {"AAA", 3},      {"AAAAA", 5},    {"====", 0},      {"A===", 1},
                {"=AAA", 0},     {"AA=A", 2},      {"AA==AAAA", 2}, {"AAA=AAAA", 3}, {"AB==", 1},      {"AAB=", 2},
                {"AAAA AAA", 4}, {"AAA\nAAAA", 3}, {"AA-_", 2},     {"\377AAA", 0},  {"AAAAAA\0A", 6}, {"AAAAZh==", 5},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(1000);
                size_t position = 99, size = i == 16 ? 8 : strlen(cases[i].text);

                assert_int_equal(sbx_buffer_append_text(&out, "kept"), 0);
                assert_int_equal(sbx_base64_decode((struct sbx_bytes){cases[i].text, size}, &out, &position), -EINVAL);
                if (position != cases[i].position)
                        fail_msg("%s: wrong at %zu, not %zu", cases[i].text, position, cases[i].position);
                assert_string_equal(out.data, "kept");
                assert_int_equal(out.size, 4);
                sbx_buffer_free(&out);
        }
}

static void test_base64_bounds(void **state) {
        struct sbx_buffer out = SBX_BUFFER(5);

        assert_int_equal(sbx_base64_encode(BYTES("abcd"), &out), -EFBIG);
        assert_int_equal(sbx_base64_decode(BYTES("Zm9vYmFy"), &out, NULL), -EFBIG);
        assert_int_equal(out.size, 0);
        assert_int_equal(sbx_base64_decode(BYTES("Zm9v"), &out, NULL), 0);
        sbx_buffer_free(&out);
}

/* Any text is refused, or is the one text of what it decodes to. */
static void test_base64_is_canonical(void **state) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \n-_";
        unsigned random = 1;

        for (unsigned round = 0; round < 20000; round++) {
                struct sbx_buffer decoded = SBX_BUFFER(100), again = SBX_BUFFER(100);
                char text[8];

                for (size_t i = 0; i < sizeof(text); i++) {
                        random = random * 1103515245u + 12345u;
                        text[i] = digits[(random >> 16) % (sizeof(digits) - 1)];
                }
                if (sbx_base64_decode((struct sbx_bytes){text, sizeof(text)}, &decoded, NULL) == 0) {
                        assert_int_equal(sbx_base64_encode(sbx_buffer_bytes(&decoded), &again), 0);
                        assert_memory_equal(again.data, text, sizeof(text));
                }
                sbx_buffer_free(&decoded);
                sbx_buffer_free(&again);
        }
}

static void test_images(void **state) {
        assert_string_equal(sbx_mime_image(BYTES("\x89PNG\r\n\x1a\n")), "image/png");
        assert_string_equal(sbx_mime_image(BYTES("\xff\xd8\xff\xe0")), "image/jpeg");
        assert_string_equal(sbx_mime_image(BYTES("GIF87a")), "image/gif");
        assert_string_equal(sbx_mime_image(BYTES("GIF89a")), "image/gif");
        assert_string_equal(sbx_mime_image(BYTES("RIFF\1\2\3\4WEBPVP8 ")), "image/webp");
        assert_null(sbx_mime_image(BYTES("RIFF\1\2\3\4WAVEfmt ")));
        assert_null(sbx_mime_image(BYTES("\x89PNG\r\n\x1a")));
        assert_null(sbx_mime_image(BYTES("")));
        assert_null(sbx_mime_image(BYTES("<svg/>")));
}

static void test_types(void **state) {
        assert_string_equal(sbx_mime_of_name("a/b.CSV"), "text/csv");
        assert_null(sbx_mime_of_name("a.csv/b"));
        assert_null(sbx_mime_of_name("csv"));
        assert_null(sbx_mime_of_name("a."));
        assert_null(sbx_mime_of_name(""));
        assert_string_equal(sbx_mime_of("x.csv", BYTES("a")), "text/csv");
        assert_string_equal(sbx_mime_of("x.csv", BYTES("GIF89a")), "image/gif"); /* the bytes tell */
        assert_string_equal(sbx_mime_of("x.png", BYTES("text")), "text/plain");
        assert_string_equal(sbx_mime_of("x.png", BYTES("\377")), "application/octet-stream");
        assert_string_equal(sbx_mime_of("x.svg", BYTES("<svg/>")), "image/svg+xml");
        assert_string_equal(sbx_mime_of("x", BYTES("")), "text/plain");
        assert_string_equal(sbx_mime_of("x", BYTES("a\0b")), "application/octet-stream");
        assert_true(sbx_mime_is_text(BYTES("na\xc3\xafve")));
        assert_false(sbx_mime_is_text(BYTES("na\xefve")));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_base64),        cmocka_unit_test(test_bad_base64),
                cmocka_unit_test(test_base64_bounds), cmocka_unit_test(test_base64_is_canonical),
                cmocka_unit_test(test_images),        cmocka_unit_test(test_types),
        };

        return cmocka_run_group_tests_name("content", tests, NULL, NULL);
}
