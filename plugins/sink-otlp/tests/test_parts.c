/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, timestamps, and what is remembered of runs and spans. */
#include "test.h"

#include <stdio.h>

#include "ids.h"
#include "runs.h"
#include "timestamp.h"

static void test_ids(void **state) {
        char trace[OTLP_TRACE_ID_SIZE], span[OTLP_SPAN_ID_SIZE], other[OTLP_TRACE_ID_SIZE];

        (void)state;
        otlp_trace_id("0193D7B2-4c5a-7e11-8a01-0123456789ab", trace);
        assert_string_equal(trace, "0193d7b24c5a7e118a010123456789ab");
        otlp_trace_id("0193d7b24c5a7e118a010123456789ab", other);
        assert_string_equal(trace, other);
        otlp_span_id("0193d7b2-4c5a-7e11-8a01-0123456789ab", span);
        assert_string_equal(span, "0193d7b24c5a7e11");
        otlp_part_id("a", "b", 1, span);
        otlp_part_id("a", "b", 2, other);
        assert_string_not_equal(span, other);
}

/* Texts that are no UUID, or of which nothing but zeros would be left, give other ids, each its own. */
static void test_ids_of_other_texts(void **state) {
        const char *const texts[] = {"",
                                     "run",
                                     "0193d7b2-4c5a-7e11-8a01-0123456789a",
                                     "0193d7b2-4c5a-7e11-8a01-0123456789abc",
                                     "0193d7b2--4c5a7e118a010123456789ab",
                                     "0193d7b2-4c5a-7e11-8a01-0123456789ag",
                                     "00000000-0000-0000-0000-000000000000",
                                     "00000000-0000-0000-8000-000000000001"};
        char spans[8][OTLP_SPAN_ID_SIZE], traces[8][OTLP_TRACE_ID_SIZE];

        (void)state;
        for (size_t i = 0; i < 8; i++) {
                otlp_span_id(texts[i], spans[i]);
                otlp_trace_id(texts[i], traces[i]);
                assert_int_equal(strspn(spans[i], "0123456789abcdef"), 16);
                assert_int_equal(strspn(traces[i], "0123456789abcdef"), 32);
                assert_true(strspn(spans[i], "0") < 16 && strspn(traces[i], "0") < 32);
                for (size_t j = 0; j < i; j++) {
                        assert_string_not_equal(spans[i], spans[j]);
                        assert_string_not_equal(traces[i], traces[j]);
                }
        }
        assert_string_equal(traces[7], "00000000000000008000000000000001"); /* a valid one */
}

static void test_timestamps(void **state) {
        static const struct {
                const char *text;
                uint64_t ns;
        } cases[] = {
                {"1970-01-01T00:00:01Z", UINT64_C(1000000000)},
                {"2026-11-21T03:00:10.250Z", UINT64_C(1795230010250000000)},
                {"2026-11-21T05:00:10.25+02:00", UINT64_C(1795230010250000000)},
                {"2026-11-20 22:30:10.250000-04:30", UINT64_C(1795230010250000000)},
                {"2026-11-21T03:00:10.123456789123Z", UINT64_C(1795230010123456789)},
                {"2024-02-29T23:59:60Z", UINT64_C(1709251200000000000)},
                {"2000-03-01T00:00:00z", UINT64_C(951868800000000000)},
                {"2261-12-31T23:59:59Z", UINT64_C(9214646399000000000)},
                {"1969-12-31T23:59:59Z", 0},
                {"2262-01-01T00:00:00Z", 0},
                {"1970-01-01T00:00:00+01:00", 0},
                {"2026-13-01T00:00:00Z", 0},
                {"2026-01-01T24:00:00Z", 0},
                {"2026-01-01T00:00:00", 0},
                {"2026-01-01T00:00:00Zx", 0},
                {"2026-01-01T00:00:00+1:00", 0},
                {"2026-1-01T00:00:00Z", 0},
                {"2026-01-01T00:00:00+24:00", 0},
                {"", 0},
                {"now", 0},
                {NULL, 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (otlp_timestamp(cases[i].text) != cases[i].ns)
                        fail_msg("%s is %llu", cases[i].text, (unsigned long long)otlp_timestamp(cases[i].text));
}

/* The last OTLP_SEEN_MAX are known, whatever came before: also those that stand in one another's way in the table. */
static void test_seen(void **state) {
        struct otlp_memory *memory = otlp_memory_new();
        uint64_t total = OTLP_SEEN_MAX * 4;

        (void)state;
        assert_non_null(memory);
        for (uint64_t i = 1; i <= total; i++)
                assert_false(otlp_seen(memory, i * 4096 + i % 7)); /* many have the same place */
        for (uint64_t i = total; i > total - OTLP_SEEN_MAX; i--)
                assert_true(otlp_seen(memory, i * 4096 + i % 7));
        assert_false(otlp_seen(memory, 4096 + 1));
        otlp_memory_free(memory);
}

static void test_runs(void **state) {
        struct otlp_memory *memory = otlp_memory_new();
        char id[16];

        (void)state;
        assert_non_null(memory);
        for (unsigned i = 0; i < OTLP_RUNS_MAX + 10; i++) {
                snprintf(id, sizeof(id), "run %u", i);
                assert_non_null(otlp_run_begin(memory, id, "m", NULL, i, json_array()));
        }
        assert_null(otlp_run_find(memory, "run 9"));
        assert_int_equal(otlp_run_find(memory, "run 10")->start_ns, 10);
        otlp_run_end(otlp_run_find(memory, "run 10"));
        assert_null(otlp_run_find(memory, "run 10"));
        assert_non_null(otlp_run_begin(memory, "run 11", NULL, "p", 99, json_array())); /* again: no second place */
        assert_int_equal(otlp_run_find(memory, "run 11")->start_ns, 99);
        otlp_memory_free(memory);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_ids_of_other_texts),
                                           cmocka_unit_test(test_timestamps), cmocka_unit_test(test_seen),
                                           cmocka_unit_test(test_runs)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
