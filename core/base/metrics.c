/* SPDX-License-Identifier: Apache-2.0 */
/* Counts without a lock, and tells the figures in the Prometheus text format. */
#include "base/metrics.h"

#include <inttypes.h>

#include "base/clock.h"

/* Upper bounds in nanoseconds, each inclusive as in Prometheus, and the same as text: from a warm execution in a
 * fraction of a millisecond to the longest that a profile allows without being asked for more. */
static const struct {
        uint64_t ns;
        const char *seconds;
} bounds[SBX_METRIC_BUCKETS] = {
        {UINT64_C(500000), "0.0005"},  {UINT64_C(1000000), "0.001"},  {UINT64_C(2500000), "0.0025"},
        {UINT64_C(5000000), "0.005"},  {UINT64_C(10000000), "0.01"},  {UINT64_C(25000000), "0.025"},
        {UINT64_C(50000000), "0.05"},  {UINT64_C(100000000), "0.1"},  {UINT64_C(250000000), "0.25"},
        {UINT64_C(1000000000), "1"},   {UINT64_C(2500000000), "2.5"}, {UINT64_C(10000000000), "10"},
        {UINT64_C(30000000000), "30"}, {UINT64_C(60000000000), "60"},
};

void sbx_metric_add(uint64_t *counter, uint64_t more) {
        __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

uint64_t sbx_metric_get(const uint64_t *counter) {
        return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void sbx_histogram_add(struct sbx_histogram *histogram, uint64_t duration_ns) {
        size_t at = 0;

        while (at < SBX_METRIC_BUCKETS && duration_ns > bounds[at].ns)
                at++;
        sbx_metric_add(&histogram->buckets[at], 1);
        sbx_metric_add(&histogram->sum_ns, duration_ns);
}

/* ---- telling ---- */

static int tell_head(struct sbx_buffer *out, const char *name, const char *type, const char *help) {
        return sbx_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

int sbx_metrics_tell(struct sbx_buffer *out, const char *name, const char *type, const char *help,
                     const struct sbx_metric_sample *samples, size_t count) {
        int r = tell_head(out, name, type, help);

        for (size_t i = 0; i < count && r == 0; i++) {
                bool labelled = samples[i].labels != NULL;

                r = sbx_buffer_printf(out, "%s%s%s%s %" PRIu64 "\n", name, labelled ? "{" : "",
                                      labelled ? samples[i].labels : "", labelled ? "}" : "", samples[i].value);
        }
        return r;
}

/* The count is the sum of the buckets that were just read, so that it agrees with them while others go on counting; the
 * sum of the durations may be ahead of or behind it by what ends in this very moment. */
int sbx_metrics_tell_histogram(struct sbx_buffer *out, const char *name, const char *help,
                               const struct sbx_histogram *histogram) {
        uint64_t count = 0, sum_ns = sbx_metric_get(&histogram->sum_ns);
        int r = tell_head(out, name, "histogram", help);

        for (size_t i = 0; i < SBX_METRIC_BUCKETS && r == 0; i++) {
                count += sbx_metric_get(&histogram->buckets[i]);
                r = sbx_buffer_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, bounds[i].seconds, count);
        }
        count += sbx_metric_get(&histogram->buckets[SBX_METRIC_BUCKETS]);
        if (r == 0)
                r = sbx_buffer_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
        if (r == 0) /* in integers: no locale has a say in how the point looks */
                r = sbx_buffer_printf(out, "%s_sum %" PRIu64 ".%09" PRIu64 "\n%s_count %" PRIu64 "\n", name,
                                      sum_ns / SBX_NS_PER_S, sum_ns % SBX_NS_PER_S, name, count);
        return r;
}
