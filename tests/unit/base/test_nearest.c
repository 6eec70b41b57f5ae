/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest name: what is a typo, what is another word. */
#include "base/nearest.h"

#include "../test.h"

static const char *nearest_of(const char *wanted) {
        static const char *const names[] = {"execute_python", "execute", "list_sessions", "destroy_session", "plugins"};
        struct sbx_nearest nearest = SBX_NEAREST(wanted);

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                sbx_nearest_offer(&nearest, names[i]);
        return nearest.best;
}

static void test_typos(void **state) {
        assert_string_equal(nearest_of("execute_pyton"), "execute_python");
        assert_string_equal(nearest_of("listSessions"), "list_sessions");
        assert_string_equal(nearest_of("LIST-SESSIONS"), "list_sessions");
        assert_string_equal(nearest_of("exceute"), "execute");
        assert_string_equal(nearest_of("plug"), "plugins");
}

static void test_other_words(void **state) {
        char long_name[200];

        memset(long_name, 'x', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        assert_null(nearest_of("rm"));
        assert_null(nearest_of(""));
        assert_null(nearest_of(long_name));
}

static void test_exact_is_distance_zero(void **state) {
        struct sbx_nearest nearest = SBX_NEAREST("model");

        sbx_nearest_offer(&nearest, "modal");
        assert_int_equal(nearest.distance, 1);
        sbx_nearest_offer(&nearest, "model");
        assert_int_equal(nearest.distance, 0);
        assert_string_equal(nearest.best, "model");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_typos),
                cmocka_unit_test(test_other_words),
                cmocka_unit_test(test_exact_is_distance_zero),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
