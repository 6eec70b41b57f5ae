/* SPDX-License-Identifier: Apache-2.0 */
/* commit: all or nothing, and only by the holder of the lease. */
#include "suite.h"

static int commit(const struct sbx_store_change *changes, size_t count, const char *lease, uint64_t token,
                  uint32_t flags, struct sbx_error *err) {
        return suite.ops->commit(suite.state, changes, count, lease, token, flags, NULL, err);
}

static void test_all_at_once(void **state) {
        const char *in = directory("all");
        char names[4][128];
        _cleanup_free_ uint8_t *large = contents(2500000, 3);
        struct sbx_store_change changes[4];

        (void)state;
        for (int i = 0; i < 4; i++)
                snprintf(names[i], sizeof(names[i]), "%s/%d", in, i);
        put(names[0], "old 0");
        put(names[1], "old 1");
        changes[0] = change(names[0], "new 0");
        changes[1] = change(names[1], NULL);
        changes[2] = (struct sbx_store_change){names[2], {large, 2500000}};
        changes[3] = change(names[3], NULL); /* was never there */
        expect(0, commit(changes, 4, NULL, 0, 0, err));
        expect_text(names[0], "new 0");
        expect_text(names[1], NULL);
        expect_contents(names[2], 2500000, 3);
        expect_text(names[3], NULL);
        changes[0] = change(names[0], NULL);
        changes[1] = change(names[2], NULL);
        expect(0, commit(changes, 2, NULL, 0, SBX_STORE_SOON, err));
        expect_text(names[0], NULL);
        expect_text(names[2], NULL);
}

static void test_empty_blob_is_kept(void **state) {
        const char *name = name_in(directory("empty"), "a");
        const struct sbx_store_change empty = {name, {"", 0}};
        size_t size = 1;
        _cleanup_free_ char *found = NULL;

        (void)state;
        expect(0, commit(&empty, 1, NULL, 0, 0, err));
        found = get(name, &size);
        assert_non_null(found);
        assert_int_equal(size, 0);
}

static void test_what_makes_no_sense(void **state) {
        const char *in = directory("sense");
        char other[128];
        struct sbx_store_change two[2] = {change(name_in(in, "a"), "1"), change(name_in(in, "a"), "2")};

        (void)state;
        put(name_in(in, "a"), "before");
        expect(-EINVAL, commit(two, 2, NULL, 0, 0, err)); /* one name twice */
        snprintf(other, sizeof(other), "%s.other/b", in);
        two[1] = change(other, "2");
        expect(-EINVAL, commit(two, 2, NULL, 0, 0, err)); /* two directories */
        expect(-EINVAL, commit(two, 1, NULL, 0, 1u << 31, err));
        expect_text(name_in(in, "a"), "before");
        expect_text(other, NULL);
}

static void test_lease_decides(void **state) {
        const char *in = directory("lease");
        char name[128], lease[128];
        struct sbx_store_change one;
        uint64_t token;

        (void)state;
        snprintf(name, sizeof(name), "%s/a", in);
        snprintf(lease, sizeof(lease), "%s.lease", in);
        one = change(name, "1");
        expect(-ESTALE, commit(&one, 1, lease, 1, 0, err)); /* nobody has it */
        expect_text(name, NULL);
        token = take(lease, "me", 60000);
        expect(-ESTALE, commit(&one, 1, lease, token + 1, 0, err));
        expect(-ESTALE, commit(&one, 1, lease, token - 1, SBX_STORE_SOON, err));
        expect(-ESTALE, commit(&one, 1, lease, 0, 0, err));
        expect_text(name, NULL);
        expect(0, commit(&one, 1, lease, token, 0, err));
        expect_text(name, "1");
        expect(0, suite.ops->lease_release(suite.state, lease, token, NULL, err));
        one = change(name, "2");
        expect(-ESTALE, commit(&one, 1, lease, token, 0, err)); /* given back */
        expect_text(name, "1");
}

/* The point of a token: who was replaced while he slept can't write any more, but may as long as nobody came. */
static void test_fencing(void **state) {
        const char *in = directory("fencing");
        char name[128];
        struct sbx_store_change one;
        struct sbx_store_lease second = {.struct_size = sizeof(second)};
        uint64_t first;

        (void)state;
        snprintf(name, sizeof(name), "%s/a", in);
        first = take(in, "sleeper", 1); /* its time is over at once */
        sleep_ms(5);
        one = change(name, "late, but nobody came");
        expect(0, commit(&one, 1, in, first, 0, err));
        expect(0, suite.ops->lease_take(suite.state, in, "other", 60000, 0, NULL, &second, err));
        assert_true(second.token > first);
        one = change(name, "too late");
        expect(-ESTALE, commit(&one, 1, in, first, 0, err));
        expect(-ESTALE, commit(&one, 1, in, first, SBX_STORE_SOON, err));
        expect_text(name, "late, but nobody came");
        one = change(name, "other's");
        expect(0, commit(&one, 1, in, second.token, 0, err));
        expect_text(name, "other's");
}

static void test_same_contents_many_times(void **state) {
        const char *in = directory("same");
        char names[40][128];
        _cleanup_free_ uint8_t *large = contents(400000, 5);
        struct sbx_store_change changes[40];

        (void)state;
        for (int i = 0; i < 40; i++) {
                snprintf(names[i], sizeof(names[i]), "%s/%d", in, i);
                changes[i] = (struct sbx_store_change){names[i], {large, 400000}};
        }
        expect(0, commit(changes, 40, NULL, 0, 0, err));
        for (int i = 0; i < 39; i++)
                changes[i] = change(names[i], NULL);
        expect(0, commit(changes, 39, NULL, 0, 0, err));
        expect_contents(names[39], 400000, 5);
}

static void test_many_names(void **state) {
        const char *in = directory("many");
        struct sbx_store_change *changes = calloc(2000, sizeof(*changes));
        char(*names)[128] = calloc(2000, sizeof(*names));
        _cleanup_free_ char *listed = NULL;
        size_t lines = 0;

        (void)state;
        assert_non_null(changes);
        assert_non_null(names);
        for (int i = 0; i < 2000; i++) {
                snprintf(names[i], sizeof(names[i]), "%s/%d", in, i);
                changes[i] = change(names[i], names[i]);
        }
        expect(0, commit(changes, 2000, NULL, 0, 0, err));
        expect_text(names[1234], names[1234]);
        listed = list(name_in(in, ""));
        for (const char *at = listed; *at != '\0'; at++)
                lines += *at == '\n';
        assert_int_equal(lines, 2000);
        for (int i = 0; i < 2000; i++)
                changes[i] = change(names[i], NULL);
        expect(0, commit(changes, 1999, NULL, 0, 0, err));
        expect_text(names[1999], names[1999]);
        free(changes);
        free(names);
}

struct group commits_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_at_once),
                cmocka_unit_test(test_empty_blob_is_kept),
                cmocka_unit_test(test_what_makes_no_sense),
                cmocka_unit_test(test_lease_decides),
                cmocka_unit_test(test_fencing),
                cmocka_unit_test(test_same_contents_many_times),
                cmocka_unit_test(test_many_names),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
