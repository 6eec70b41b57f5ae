/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by the examples of FIPS 180-4 (csrc.nist.gov, "Cryptographic Standards and Guidelines: Example Values"), and
 * by libmd's for every length around a block, in pieces of any size. */
#include "base/sha256.h"

#include <sha256.h>
#include <stdlib.h>

#include "../test.h"

static void assert_digest(struct sbx_bytes bytes, const char *expected) {
        unsigned char digest[SBX_SHA256_SIZE];
        char text[2 * SBX_SHA256_SIZE + 1];

        sbx_sha256_of(bytes, digest);
        sbx_hex_encode(digest, sizeof(digest), text);
        assert_string_equal(text, expected);
}

static void test_examples(void **state) {
        char *million = malloc(1000000);

        memset(million, 'a', 1000000);
        assert_digest((struct sbx_bytes){NULL, 0}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_digest(BYTES("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_digest(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        assert_digest((struct sbx_bytes){million, 1000000},
                      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        free(million);
}

static void test_pieces(void **state) {
        unsigned char data[300], expected[SHA256_DIGEST_LENGTH], digest[SBX_SHA256_SIZE];

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (unsigned char)(i * 2654435761u >> 13);
        for (size_t size = 0; size <= sizeof(data); size++)
                for (size_t piece = 1; piece < 140; piece += 9) {
                        struct sbx_sha256 hash;
                        SHA2_CTX other;

                        sbx_sha256_begin(&hash);
                        for (size_t done = 0; done < size; done += piece)
                                sbx_sha256_add(&hash, (struct sbx_bytes){data + done,
                                                                         size - done < piece ? size - done : piece});
                        sbx_sha256_end(&hash, digest);
                        SHA256Init(&other);
                        SHA256Update(&other, data, size);
                        SHA256Final(expected, &other);
                        assert_memory_equal(digest, expected, sizeof(digest));
                }
}

static void test_hexadecimal(void **state) {
        static const char *const wrong[] = {"", "0", "00f", "00fff", "00FF", "0g", "00 f", " 0ff", "-100"};
        unsigned char data[2] = {0};
        char text[5];

        assert_int_equal(sbx_hex_decode("0aff", data, 2), 0);
        assert_int_equal(data[0], 0x0a);
        assert_int_equal(data[1], 0xff);
        sbx_hex_encode(data, 2, text);
        assert_string_equal(text, "0aff");
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(sbx_hex_decode(wrong[i], data, 2), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_examples),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_hexadecimal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
