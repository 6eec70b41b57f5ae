/* SPDX-License-Identifier: Apache-2.0 */
/* collect: what is used stays, what is not goes, and the numbers are right. */
#include "suite.h"

static json_int_t number(const json_t *told, const char *name) {
        const json_t *value = json_object_get(told, name);

        if (!json_is_integer(value))
                fail_msg("collect does not tell %s", name);
        return json_integer_value(value);
}

static void test_numbers(void **state) {
        const char *in = directory("numbers");
        _cleanup_json_ json_t *before = collect(), *full = NULL, *after = NULL;

        (void)state;
        assert_true(json_is_string(json_object_get(before, "location")));
        assert_int_equal(json_array_size(json_object_get(before, "damaged")), 0);
        number(before, "quota_bytes");
        put_contents(name_in(in, "a"), 3000000, 7);
        put_contents(name_in(in, "b"), 100, 8);
        full = collect();
        assert_int_equal(number(full, "blobs"), number(before, "blobs") + 2);
        assert_int_equal(number(full, "bytes"), number(before, "bytes") + 3000100);
        assert_true(number(full, "stored_bytes") >= 2900000);
        expect(0, suite.ops->remove(suite.state, name_in(in, "a"), NULL, err));
        after = collect();
        assert_int_equal(number(after, "blobs"), number(before, "blobs") + 1);
        assert_true(number(after, "stored_bytes") + 2900000 <= number(full, "stored_bytes"));
        expect_contents(name_in(in, "b"), 100, 8);
}

static void test_shared_contents_stay(void **state) {
        const char *in = directory("shared");
        char other[128];

        (void)state;
        put_contents(name_in(in, "a"), 2000000, 9);
        snprintf(other, sizeof(other), "%s.other/a", in);
        put_contents(other, 2000000, 9);
        expect(0, suite.ops->remove(suite.state, name_in(in, "a"), NULL, err));
        json_decref(collect());
        expect_contents(other, 2000000, 9);
        put_contents(name_in(in, "again"), 2000000, 9);
        expect_contents(name_in(in, "again"), 2000000, 9);
}

static void test_leases_stay(void **state) {
        const char *lease = directory("leases");
        uint64_t token = take(lease, "me", 60000), next;

        (void)state;
        json_decref(collect());
        expect(0, suite.ops->lease_renew(suite.state, lease, token, 60000, NULL, err));
        expect(0, suite.ops->lease_release(suite.state, lease, token, NULL, err));
        json_decref(collect());
        next = take(lease, "me", 60000);
        assert_true(next > token);
}

struct group collect_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_shared_contents_stay),
                cmocka_unit_test(test_leases_stay),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
