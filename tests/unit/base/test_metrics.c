/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, and the text that tells it. */
#include <pthread.h>

#include "../alloc_fail.h"
#include "../test.h"

#include "base/buffer.h"
#include "base/metrics.h"

#define THREADS 4u
#define TIMES 20000u

static void counts(void **state) {
        struct sbx_metrics metrics = {0};

        SBX_COUNT(&metrics, tool_calls, 1);
        SBX_COUNT(&metrics, tool_calls, 41);
        SBX_COUNT((struct sbx_metrics *)NULL, tool_calls, 1);
        assert_int_equal(sbx_metric_get(&metrics.tool_calls), 42);
        assert_int_equal(sbx_metric_get(&metrics.tool_errors), 0);
}

static void *count_many(void *data) {
        struct sbx_metrics *metrics = data;

        for (unsigned i = 0; i < TIMES; i++) {
                SBX_COUNT(metrics, output_bytes, 3);
                sbx_histogram_add(&metrics->execution_seconds, 1000);
        }
        return NULL;
}

static void loses_nothing(void **state) {
        struct sbx_metrics metrics = {0};
        pthread_t threads[THREADS];

        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, count_many, &metrics), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(sbx_metric_get(&metrics.output_bytes), 3 * THREADS * TIMES);
        assert_int_equal(metrics.execution_seconds.buckets[0], THREADS * TIMES);
        assert_int_equal(metrics.execution_seconds.sum_ns, UINT64_C(1000) * THREADS * TIMES);
}

static void tells(void **state) {
        static const struct sbx_metric_sample samples[] = {{"end=\"ok\"", 7}, {"end=\"error\"", UINT64_MAX}};
        const struct sbx_metric_sample plain = {NULL, 0};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(4096);

        assert_int_equal(sbx_metrics_tell(&out, "a_total", "counter", "Some.", samples, 2), 0);
        assert_int_equal(sbx_metrics_tell(&out, "b", "gauge", "One.", &plain, 1), 0);
        assert_string_equal(out.data, "# HELP a_total Some.\n# TYPE a_total counter\na_total{end=\"ok\"} 7\n"
                                      "a_total{end=\"error\"} 18446744073709551615\n"
                                      "# HELP b One.\n# TYPE b gauge\nb 0\n");
}

static void tells_a_histogram(void **state) {
        struct sbx_histogram histogram = {0};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(4096);

        sbx_histogram_add(&histogram, 0);
        sbx_histogram_add(&histogram, 500000); /* a bound belongs to what is below it */
        sbx_histogram_add(&histogram, 500001);
        sbx_histogram_add(&histogram, 60000000000);
        sbx_histogram_add(&histogram, 60000000001);
        assert_int_equal(sbx_metrics_tell_histogram(&out, "h_seconds", "Time.", &histogram), 0);
        assert_contains(out.data, "# TYPE h_seconds histogram\nh_seconds_bucket{le=\"0.0005\"} 2\n"
                                  "h_seconds_bucket{le=\"0.001\"} 3\n");
        assert_contains(out.data, "h_seconds_bucket{le=\"30\"} 3\nh_seconds_bucket{le=\"60\"} 4\n"
                                  "h_seconds_bucket{le=\"+Inf\"} 5\nh_seconds_sum 120.001000002\nh_seconds_count 5\n");
}

static void keeps_to_the_maximum(void **state) {
        struct sbx_histogram histogram = {0};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(100);

        assert_int_equal(sbx_metrics_tell_histogram(&out, "h_seconds", "Time.", &histogram), -EFBIG);
}

static int tell_one(void *data) {
        struct sbx_histogram histogram = {0};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(4096);

        return sbx_metrics_tell_histogram(&out, "h_seconds", "Time.", &histogram);
}

static void fails_without_memory(void **state) {
        assert_true(alloc_fail_sweep(tell_one, NULL) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counts),
                cmocka_unit_test(loses_nothing),
                cmocka_unit_test(tells),
                cmocka_unit_test(tells_a_histogram),
                cmocka_unit_test(keeps_to_the_maximum),
                cmocka_unit_test(fails_without_memory),
        };

        return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
