/* SPDX-License-Identifier: Apache-2.0 */
/* The index: names in order, its file, and what becomes of one that is not as it was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "index.h"
#include "names.h"

static struct sealing sealing;

static int set_up(void **state) {
        char identity[SEALING_IDENTITY_MAX];

        (void)state;
        return sealing_create(NULL, "test", identity, &sealing, NULL);
}

/* Of a small blob, whose sealed bytes stay the caller's. */
static struct index_entry entry_of(char *leaf, const char *text, uint8_t sealed[128]) {
        struct index_entry entry = {.leaf = leaf, .size = strlen(text), .blob = sealed};
        const struct sbx_bytes blob = {text, strlen(text)};
        uint8_t hash[SEALING_HASH_SIZE];
        size_t size = 0;

        sealing_chunk_hash(&sealing, blob, hash);
        sealing_blob_id(&sealing, blob.size, hash, 1, entry.id);
        assert_int_equal(entry_seal(&sealing, 1, entry.id, blob, sealed, &size), 0);
        entry.sealed_size = size;
        return entry;
}

static void put_number(struct index *index, unsigned number, uint8_t sealed[128]) {
        char leaf[16], text[32];
        struct index_entry entry;

        snprintf(leaf, sizeof(leaf), "%u", number);
        snprintf(text, sizeof(text), "text %u", number);
        entry = entry_of(leaf, text, sealed);
        assert_int_equal(index_put(index, &entry), 0);
}

static void expect_number(const struct index *index, unsigned number) {
        char leaf[16], text[32];
        const struct index_entry *entry;
        uint8_t raw[64];

        snprintf(leaf, sizeof(leaf), "%u", number);
        entry = index_find(index, leaf);
        assert_non_null(entry);
        assert_int_equal(entry->size, snprintf(text, sizeof(text), "text %u", number));
        assert_int_equal(entry_unseal(&sealing, entry, raw), 0);
        assert_memory_equal(raw, text, entry->size);
}

static void test_there_and_back(void **state) {
        static uint8_t sealed[1000][128];
        _cleanup_index_ struct index index = {.generation = 7}, back = {0};
        _cleanup_bytes_ struct bytes file = {0};

        (void)state;
        for (unsigned i = 0; i < 1000; i++)
                put_number(&index, i * 7919 % 1000, sealed[i]);
        index_settle(&index);
        for (unsigned i = 0; i < 1000; i += 3) {
                char leaf[16];

                snprintf(leaf, sizeof(leaf), "%u", i);
                assert_true(index_remove(&index, leaf));
                assert_false(index_remove(&index, leaf));
        }
        assert_int_equal(index.count, 1000);
        index_settle(&index);
        for (size_t i = 1; i < index.count; i++)
                assert_true(strcmp(index.entries[i - 1].leaf, index.entries[i].leaf) < 0);
        assert_int_equal(index_build(&sealing, "a/directory", &index, &file), 0);
        assert_int_equal(index_parse(&sealing, "a/directory", &file, &back), 0);
        assert_int_equal(back.generation, 7);
        assert_int_equal(back.count, 666);
        for (unsigned i = 0; i < 1000; i++)
                if (i % 3 != 0)
                        expect_number(&back, i);
}

static void test_bound_to_its_directory(void **state) {
        _cleanup_index_ struct index index = {.generation = 1}, back = {0};
        _cleanup_bytes_ struct bytes file = {0};
        uint8_t sealed[128];

        (void)state;
        put_number(&index, 1, sealed);
        assert_int_equal(index_build(&sealing, "one", &index, &file), 0);
        assert_int_equal(index_parse(&sealing, "other", &file, &back), -EBADMSG);
        assert_int_equal(back.count, 0);
}

/* Which large blobs there are, in whatever order they came. */
static void test_objects(void **state) {
        _cleanup_index_ struct index index = {.generation = 1}, none = {0};
        _cleanup_objects_ struct index_objects objects = {0}, nothing = {0};
        uint8_t id[SEALING_HASH_SIZE] = {0};

        (void)state;
        for (unsigned i = 0; i < 200; i++) {
                char leaf[16];
                struct index_entry entry = {.leaf = leaf, .is_object = i % 2 == 0};

                snprintf(leaf, sizeof(leaf), "%u", i);
                entry.id[31] = (uint8_t)(i * 37);
                assert_int_equal(index_put(&index, &entry), 0);
        }
        assert_int_equal(index_objects(&index, &objects), 0);
        assert_int_equal(objects.count, 100);
        for (unsigned i = 0; i < 200; i++) {
                id[31] = (uint8_t)(i * 37);
                assert_int_equal(index_objects_has(&objects, id), i % 2 == 0);
        }
        assert_int_equal(index_objects(&none, &nothing), 0);
        assert_false(index_objects_has(&nothing, id));
}

/* A blob that is lost stays lost when the index is written again, and takes nothing else along. */
static void test_lost_blobs_stay_lost(void **state) {
        _cleanup_index_ struct index index = {.generation = 1}, cut = {0}, again = {0};
        _cleanup_bytes_ struct bytes file = {0}, rewritten = {0};
        static uint8_t sealed[20][128];
        uint8_t raw[64];
        size_t lost = 0;

        (void)state;
        for (unsigned i = 0; i < 20; i++)
                put_number(&index, i, sealed[i]);
        index_settle(&index);
        assert_int_equal(index_build(&sealing, "d", &index, &file), 0);
        file.size = file.size - file.size * 48 / 100; /* the table at the end, and some blobs */
        assert_int_equal(index_parse(&sealing, "d", &file, &cut), 0);
        cut.generation++;
        assert_int_equal(index_build(&sealing, "d", &cut, &rewritten), 0);
        assert_int_equal(index_parse(&sealing, "d", &rewritten, &again), 0);
        assert_int_equal(again.count, 20);
        for (size_t i = 0; i < again.count; i++)
                if (again.entries[i].blob == NULL) {
                        assert_int_equal(entry_unseal(&sealing, &again.entries[i], raw), -EBADMSG);
                        lost++;
                } else {
                        expect_number(&again, (unsigned)strtoul(again.entries[i].leaf, NULL, 10));
                }
        assert_true(lost > 0 && lost < 20);
}

/* Whatever stands in the file, nothing is read beyond it and nothing wrong comes out. */
static void test_any_bytes(void **state) {
        _cleanup_index_ struct index index = {.generation = 1};
        _cleanup_bytes_ struct bytes whole = {0};
        static uint8_t sealed[5][128];
        uint32_t number = 12345;

        (void)state;
        for (unsigned i = 0; i < 5; i++)
                put_number(&index, i, sealed[i]);
        assert_int_equal(index_build(&sealing, "d", &index, &whole), 0);
        for (int round = 0; round < 20000; round++) {
                _cleanup_index_ struct index back = {0};
                _cleanup_bytes_ struct bytes file = {0};
                size_t size;

                number = number * 1664525 + 1013904223;
                size = round % 4 == 0 ? number / 7 % (whole.size + 1) : whole.size;
                assert_int_equal(bytes_append(&file, whole.data, size, INDEX_FILE_MAX), 0);
                for (int i = 0; i < 1 + round % 8 && size > 0; i++) {
                        number = number * 1664525 + 1013904223;
                        file.data[number / 3 % size] = (uint8_t)(number >> 24);
                }
                if (index_parse(&sealing, "d", &file, &back) < 0)
                        continue;
                assert_int_equal(back.count, 5);
                for (size_t i = 0; i < back.count; i++) {
                        uint8_t raw[64];

                        if (entry_unseal(&sealing, &back.entries[i], raw) == 0)
                                expect_number(&back, (unsigned)i);
                }
        }
}

static void test_names(void **state) {
        char file[NAME_MAX_BYTES + 1], back[NAME_MAX_BYTES + 1], long_name[300];
        struct name parts;

        (void)state;
        assert_int_equal(name_split("a/b/c", &parts, NULL), 0);
        assert_string_equal(parts.directory, "a/b");
        assert_string_equal(parts.leaf, "c");
        assert_int_equal(name_split("c", &parts, NULL), 0);
        assert_string_equal(parts.directory, "");
        assert_int_equal(name_split("../c", &parts, NULL), -EINVAL);
        assert_int_equal(name_split("a,b", &parts, NULL), -EINVAL);
        assert_int_equal(name_split(NULL, &parts, NULL), -EINVAL);
        name_encode("a/b", file);
        assert_string_equal(file, "a,b");
        assert_true(name_decode(file, back));
        assert_string_equal(back, "a/b");
        name_encode("", file);
        assert_string_equal(file, ",");
        assert_true(name_decode(file, back));
        assert_string_equal(back, "");
        assert_false(name_decode(",,", back));
        assert_false(name_decode("a,..,b", back));
        assert_false(name_decode("lost+found", back));
        memset(long_name, 'a', sizeof(long_name));
        long_name[256] = '\0';
        assert_false(name_decode(long_name, back));
        long_name[255] = '\0';
        assert_true(name_decode(long_name, back));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_bound_to_its_directory),
                cmocka_unit_test(test_objects),        cmocka_unit_test(test_lost_blobs_stay_lost),
                cmocka_unit_test(test_any_bytes),      cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("index", tests, set_up, NULL);
}
