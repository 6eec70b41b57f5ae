/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and durations: whole or not at all. */
#include "../test.h"

#include <locale.h>

#include "base/number.h"

struct integer_case {
        const char *text;
        int result;
        int64_t value;
};

static void check(int (*parse)(const char *, int64_t *), const struct integer_case *cases, size_t count) {
        for (size_t i = 0; i < count; i++) {
                int64_t value = -77;
                int r = parse(cases[i].text, &value);

                if (r != cases[i].result || (r == 0 && value != cases[i].value) || (r != 0 && value != -77))
                        fail_msg("\"%s\": %d, %lld", cases[i].text, r, (long long)value);
        }
}
#define CHECK(parse, cases) check(parse, cases, sizeof(cases) / sizeof((cases)[0]))

static void integers(void **state) {
        static const struct integer_case cases[] = {
                {"0", 0, 0},
                {"-0", 0, 0},
                {"+7", 0, 7},
                {"007", 0, 7},
                {"-12", 0, -12},
                {"9223372036854775807", 0, INT64_MAX},
                {"-9223372036854775808", 0, INT64_MIN},
                {"9223372036854775808", -ERANGE, 0},
                {"-9223372036854775809", -ERANGE, 0},
                {"99999999999999999999999999", -ERANGE, 0},
                {"", -EINVAL, 0},
                {"-", -EINVAL, 0},
                {"+-1", -EINVAL, 0},
                {" 1", -EINVAL, 0},
                {"1 ", -EINVAL, 0},
                {"0x10", -EINVAL, 0},
                {"1.0", -EINVAL, 0},
                {"1e3", -EINVAL, 0},
                {"ten", -EINVAL, 0},
                {"99999999999999999999999999x", -EINVAL, 0},
                {"1\n", -EINVAL, 0},
        };

        CHECK(sbx_number_int, cases);
}

static void sizes(void **state) {
        static const struct integer_case cases[] = {
                {"100", 0, 100},
                {"64k", 0, 65536},
                {"64K", 0, 65536},
                {"512m", 0, INT64_C(536870912)},
                {"512MB", 0, INT64_C(536870912)},
                {"2g", 0, INT64_C(2147483648)},
                {"1.5g", 0, INT64_C(1610612736)},
                {"1t", 0, INT64_C(1099511627776)},
                {"2GiB", 0, INT64_C(2147483648)},
                {"0.5k", 0, 512},
                {"0", 0, 0},
                {"10b", 0, 10},
                {"0.33333333333333333333k", 0, 341},
                {"8388607t", 0, INT64_C(9223370937343148032)},
                {"8388608t", -ERANGE, 0},
                {"99999999999999999999", -ERANGE, 0},
                {"", -EINVAL, 0},
                {"k", -EINVAL, 0},
                {"-1k", -EINVAL, 0},
                {"1.5", -EINVAL, 0},
                {"1.k", -EINVAL, 0},
                {".5k", -EINVAL, 0},
                {"5 k", -EINVAL, 0},
                {"5kk", -EINVAL, 0},
                {"5x", -EINVAL, 0},
                {"1,5g", -EINVAL, 0},
        };

        CHECK(sbx_number_size, cases);
}

static void durations(void **state) {
        static const struct integer_case cases[] = {
                {"250ms", 0, 250},
                {"30s", 0, 30000},
                {"5m", 0, 300000},
                {"1h", 0, 3600000},
                {"30", 0, 30000},
                {"1d", 0, 86400000},
                {"0.5", 0, 500},
                {"1.25s", 0, 1250},
                {"0", 0, 0},
                {"0.0001s", 0, 0},
                {"5S", 0, 5000},
                {"9223372036854775s", 0, INT64_C(9223372036854775000)},
                {"9223372036854776s", -ERANGE, 0},
                {"", -EINVAL, 0},
                {"s", -EINVAL, 0},
                {"-5s", -EINVAL, 0},
                {"1.5ms", -EINVAL, 0},
                {"5 s", -EINVAL, 0},
                {"1h30m", -EINVAL, 0},
                {"5min", -EINVAL, 0},
                {"inf", -EINVAL, 0},
        };

        CHECK(sbx_number_duration, cases);
}

static void floats(void **state) {
        static const char *const refused[] = {"",   ".",  "1.", ".5",  "inf", "nan", "0x1p3",
                                              " 1", "1 ", "1e", "1e+", "1,5", "--1"};
        double value = 0;

        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
                if (sbx_number_float(refused[i], &value) != -EINVAL)
                        fail_msg("\"%s\" was taken", refused[i]);
        assert_int_equal(sbx_number_float("1e999", &value), -ERANGE);
        assert_int_equal(sbx_number_float("-1e999", &value), -ERANGE);
        assert_int_equal(sbx_number_float("-2.5e-1", &value), 0);
        assert_true(value == -0.25);
        assert_int_equal(sbx_number_float("1e-999", &value), 0);
        assert_true(value == 0);
        /* Where the comma is the decimal point, a dot must still be one. */
        if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
                print_message("# no German locale here: the dot was checked in the C locale alone\n");
        assert_int_equal(sbx_number_float("1.5", &value), 0);
        setlocale(LC_ALL, "C");
        assert_true(value == 1.5);
}

static void booleans(void **state) {
        static const char *const yes[] = {"true", "TRUE", "yes", "On", "1"}, *const no[] = {"false", "No", "off", "0"};
        static const char *const neither[] = {"", "2", "y", "truee", " true", "null"};
        bool value = false;

        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
                assert_true(sbx_number_bool(yes[i], &value) == 0 && value);
        for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
                assert_true(sbx_number_bool(no[i], &value) == 0 && !value);
        for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++)
                assert_int_equal(sbx_number_bool(neither[i], &value), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(integers), cmocka_unit_test(sizes),    cmocka_unit_test(durations),
                cmocka_unit_test(floats),   cmocka_unit_test(booleans),
        };

        return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
