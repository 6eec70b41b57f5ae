/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes, sealed chunks, identities and key files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sealing.h"

static const char context_text[] = "where it belongs";
static const struct sbx_bytes context = {context_text, sizeof(context_text)};

/* A key file in a directory that the caller removes. */
static char directory[] = "/tmp/sbx-sealing-XXXXXX", key_path[64], other_path[64];

static void write_file(const char *path, const void *data, size_t size) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_int_equal(fwrite(data, 1, size, file), size);
        assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
        char key[32];

        (void)state;
        umask(077);
        assert_non_null(mkdtemp(directory));
        snprintf(key_path, sizeof(key_path), "%s/key", directory);
        snprintf(other_path, sizeof(other_path), "%s/other", directory);
        memset(key, 'k', sizeof(key));
        write_file(key_path, key, sizeof(key));
        memset(key, 'o', sizeof(key));
        write_file(other_path, key, sizeof(key));
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        unlink(key_path);
        unlink(other_path);
        return rmdir(directory);
}

static struct sealing make(const char *key_file) {
        char identity[SEALING_IDENTITY_MAX];
        struct sealing sealing;

        assert_int_equal(sealing_create(key_file, "test", identity, &sealing, NULL), 0);
        return sealing;
}

static uint8_t *fill(size_t size, bool shrinks) {
        uint8_t *bytes = malloc(size + 1);
        uint32_t number = 1;

        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++) {
                number = number * 1664525 + 1013904223;
                bytes[i] = shrinks ? (uint8_t)(i / 64) : (uint8_t)(number >> 24);
        }
        return bytes;
}

/* The size of what was sealed. */
static size_t there_and_back(const struct sealing *sealing, int level, size_t size, bool shrinks) {
        uint8_t *raw = fill(size, shrinks), *sealed = malloc(size + SEALING_OVERHEAD), *back = malloc(size + 1);
        size_t sealed_size = 0;

        assert_int_equal(sealing_seal(sealing, level, context, (struct sbx_bytes){raw, size}, sealed, &sealed_size), 0);
        assert_true(sealed_size <= size + SEALING_OVERHEAD);
        back[size] = 0x55;
        assert_int_equal(sealing_unseal(sealing, context, (struct sbx_bytes){sealed, sealed_size}, size, back), 0);
        assert_memory_equal(back, raw, size);
        assert_int_equal(back[size], 0x55);
        free(raw);
        free(sealed);
        free(back);
        return sealed_size;
}

static void test_there_and_back(void **state) {
        static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 65536, 70000, SEALING_CHUNK_MAX - 1, SEALING_CHUNK_MAX};

        (void)state;
        for (int encrypted = 0; encrypted < 2; encrypted++) {
                struct sealing sealing = make(encrypted ? key_path : NULL);

                assert_int_equal(sealing.encrypted, encrypted);
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                        size_t plain = there_and_back(&sealing, 0, sizes[i], true);
                        size_t small = there_and_back(&sealing, 1, sizes[i], true);
                        size_t random = there_and_back(&sealing, 1, sizes[i], false);

                        assert_int_equal(plain, random); /* what does not shrink is kept as it is */
                        assert_true(sizes[i] < 4096 || small < plain / 2);
                }
                sealing_clear(&sealing);
        }
}

static void test_too_large(void **state) {
        struct sealing sealing = make(NULL);
        uint8_t *raw = fill(SEALING_CHUNK_MAX + 1, true), sealed[64] = {0}, long_context[600] = {0};
        size_t size;

        (void)state;
        assert_int_equal(sealing_seal(&sealing, 1, context, (struct sbx_bytes){raw, SEALING_CHUNK_MAX + 1}, raw, &size),
                         -EINVAL);
        assert_int_equal(sealing_seal(&sealing, 1, (struct sbx_bytes){long_context, sizeof(long_context)},
                                      (struct sbx_bytes){raw, 1}, sealed, &size),
                         -EINVAL);
        assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, 2}, SEALING_CHUNK_MAX + 1, raw),
                         -EBADMSG);
        assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, 0}, 0, raw), -EBADMSG);
        free(raw);
}

/* Every bit of an encrypted chunk counts, so do its context and its size. */
static void test_encrypted_is_bound(void **state) {
        struct sealing sealing = make(key_path), other = make(key_path);
        uint8_t *raw = fill(500, true), sealed[600], back[501];
        const struct sbx_bytes elsewhere = {"elsewhere", 9};
        size_t size = 0;

        (void)state;
        assert_int_equal(sealing_seal(&sealing, 1, context, (struct sbx_bytes){raw, 500}, sealed, &size), 0);
        for (size_t bit = 0; bit < 8 * size; bit++) {
                sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
                assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, size}, 500, back),
                                 -EBADMSG);
                sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (size_t cut = 0; cut < size; cut++)
                assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, cut}, 500, back),
                                 -EBADMSG);
        assert_int_equal(sealing_unseal(&sealing, elsewhere, (struct sbx_bytes){sealed, size}, 500, back), -EBADMSG);
        assert_int_equal(sealing_unseal(&other, context, (struct sbx_bytes){sealed, size}, 500, back), -EBADMSG);
        assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, size}, 499, back), -EBADMSG);
        assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, size}, 501, back), -EBADMSG);
        assert_int_equal(sealing_unseal(&sealing, context, (struct sbx_bytes){sealed, size}, 500, back), 0);
        free(raw);
}

/* The same bytes never look the same. */
static void test_nonces(void **state) {
        struct sealing sealing = make(key_path);
        uint8_t one[64], other[64];
        size_t size = 0;

        (void)state;
        assert_int_equal(sealing_seal(&sealing, 1, context, (struct sbx_bytes){"same", 4}, one, &size), 0);
        assert_int_equal(sealing_seal(&sealing, 1, context, (struct sbx_bytes){"same", 4}, other, &size), 0);
        assert_memory_not_equal(one + 1, other + 1, 24);
        assert_memory_not_equal(one + 25, other + 25, 4);
}

/* What is not encrypted is not read by a store that is, and the other way round: nobody takes the lock off. */
static void test_no_downgrade(void **state) {
        struct sealing encrypted = make(key_path), plain = make(NULL);
        uint8_t sealed[64], back[4];
        size_t size = 0;

        (void)state;
        assert_int_equal(sealing_seal(&plain, 0, context, (struct sbx_bytes){"text", 4}, sealed, &size), 0);
        assert_int_equal(sealing_unseal(&encrypted, context, (struct sbx_bytes){sealed, size}, 4, back), -EBADMSG);
        assert_int_equal(sealing_seal(&encrypted, 0, context, (struct sbx_bytes){"text", 4}, sealed, &size), 0);
        assert_int_equal(sealing_unseal(&plain, context, (struct sbx_bytes){sealed, size}, 4, back), -EBADMSG);
}

static void test_hashes(void **state) {
        struct sealing sealing = make(NULL), other = make(NULL);
        uint8_t one[SEALING_HASH_SIZE], two[SEALING_HASH_SIZE];
        const struct sbx_bytes ab = {"ab", 2}, a = {"a", 1}, c = {"c", 1}, bc = {"bc", 2};

        (void)state;
        sealing_hash(&sealing, "x", ab, c, one);
        sealing_hash(&sealing, "x", ab, c, two);
        assert_memory_equal(one, two, sizeof(one));
        sealing_hash(&sealing, "x", a, bc, two); /* where one piece ends counts */
        assert_memory_not_equal(one, two, sizeof(one));
        sealing_hash(&sealing, "y", ab, c, two);
        assert_memory_not_equal(one, two, sizeof(one));
        sealing_hash(&other, "x", ab, c, two); /* another store */
        assert_memory_not_equal(one, two, sizeof(one));
        sealing_chunk_hash(&sealing, ab, one);
        sealing_blob_id(&sealing, 2, one, 1, two);
        assert_memory_not_equal(one, two, sizeof(one));
        sealing_blob_id(&sealing, 3, one, 1, one); /* the size counts */
        assert_memory_not_equal(one, two, sizeof(one));
        assert_int_equal(sealing_chunk_count(0), 1);
        assert_int_equal(sealing_chunk_count(1), 1);
        assert_int_equal(sealing_chunk_count(SEALING_CHUNK_MAX), 1);
        assert_int_equal(sealing_chunk_count(SEALING_CHUNK_MAX + 1), 2);
        assert_int_equal(sealing_chunk_count((uint64_t)SEALING_CHUNK_MAX << 20), 1 << 20);
}

static int open_text(const char *text, const char *key_file, struct sealing *sealing) {
        struct sbx_error err = {0};
        int r = sealing_open((struct sbx_bytes){text, strlen(text)}, key_file, "here", "test", sealing, &err);

        assert_int_equal(err.code, r);
        assert_true(r == 0 || err.message[0] != '\0');
        return r;
}

static void test_identities(void **state) {
        char plain[SEALING_IDENTITY_MAX], secret[SEALING_IDENTITY_MAX];
        struct sealing sealing, again;

        (void)state;
        assert_int_equal(sealing_create(NULL, "test", plain, &sealing, NULL), 0);
        assert_int_equal(open_text(plain, NULL, &again), 0);
        assert_memory_equal(&sealing, &again, sizeof(sealing));
        assert_int_equal(open_text(plain, key_path, &again), -EKEYREJECTED);
        assert_int_equal(sealing_create(key_path, "test", secret, &sealing, NULL), 0);
        assert_int_equal(open_text(secret, key_path, &again), 0);
        assert_memory_equal(&sealing, &again, sizeof(sealing));
        assert_int_equal(open_text(secret, other_path, &again), -EKEYREJECTED);
        assert_int_equal(open_text(secret, NULL, &again), -ENOKEY);
        assert_int_equal(open_text("", NULL, &again), -EBADMSG);
        assert_int_equal(open_text("{}", NULL, &again), -EBADMSG);
        assert_int_equal(open_text("{\"snipara-sandbox store\": 2}", NULL, &again), -EPROTONOSUPPORT);
        assert_int_equal(open_text("{\"snipara-sandbox store\": 0}", NULL, &again), -EBADMSG);
}

/* Every byte of an identity counts, but for white space. */
static void test_damaged_identities(void **state) {
        char text[SEALING_IDENTITY_MAX];
        struct sealing sealing;

        (void)state;
        assert_int_equal(sealing_create(NULL, "test", text, &sealing, NULL), 0);
        for (size_t i = 0; text[i] != '\0' && text[i] != '\n'; i++) {
                char kept = text[i];
                int r;

                if (kept == ' ')
                        continue;
                text[i] = kept == 'x' ? 'y' : 'x';
                r = open_text(text, NULL, &sealing);
                assert_true(r == -EBADMSG);
                text[i] = kept;
        }
        assert_int_equal(open_text(text, NULL, &sealing), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),     cmocka_unit_test(test_too_large),
                cmocka_unit_test(test_encrypted_is_bound), cmocka_unit_test(test_nonces),
                cmocka_unit_test(test_no_downgrade),       cmocka_unit_test(test_hashes),
                cmocka_unit_test(test_identities),         cmocka_unit_test(test_damaged_identities),
        };

        return cmocka_run_group_tests_name("sealing", tests, set_up, tear_down);
}
