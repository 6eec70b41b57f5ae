/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a runtime that only grow, and how they are told: Prometheus text format, version 0.0.4. The figures have
 * no lock: each is one atomic. docs/metrics.md lists the names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

#define SBX_METRIC_BUCKETS 14u /* upper bounds 0.0005 ... 60 s, see metrics.c; one more counts all */

struct sbx_histogram {
        uint64_t buckets[SBX_METRIC_BUCKETS + 1]; /* each counts what lies between its neighbours */
        uint64_t sum_ns;
};

#define SBX_METRIC_ENDS 7u /* enum sbx_end */

/* All atomic. One for each runtime; zeroes at the beginning. */
struct sbx_metrics {
        uint64_t executions[SBX_METRIC_ENDS];
        struct sbx_histogram execution_seconds; /* wall clock of an execution */
        struct sbx_histogram session_seconds;   /* from the wish for a new session to its guest */
        uint64_t sessions_started, sessions_ended, sessions_refused;
        uint64_t pool_hits, pool_misses, guests_started, guest_failures;
        uint64_t output_bytes, output_dropped_bytes;
        uint64_t tool_calls, tool_errors, tools_refused;
        uint64_t file_bytes_in, file_bytes_out;
};

void sbx_metric_add(uint64_t *counter, uint64_t more);
uint64_t sbx_metric_get(const uint64_t *counter);
/* Nothing for `metrics` NULL: nobody measures. */
#define SBX_COUNT(metrics, member, more)                                                                               \
        do {                                                                                                           \
                struct sbx_metrics *measured_ = (metrics);                                                             \
                if (measured_ != NULL)                                                                                 \
                        sbx_metric_add(&measured_->member, (more));                                                    \
        } while (0)
void sbx_histogram_add(struct sbx_histogram *histogram, uint64_t duration_ns);

/* ---- telling; each appends the HELP and TYPE lines, then the samples. -ENOMEM, -EFBIG. ---- */

struct sbx_metric_sample {
        const char *labels; /* `end="ok"`; NULL: none */
        uint64_t value;
};
/* `type` is "counter" or "gauge". */
int sbx_metrics_tell(struct sbx_buffer *out, const char *name, const char *type, const char *help,
                     const struct sbx_metric_sample *samples, size_t count);
int sbx_metrics_tell_histogram(struct sbx_buffer *out, const char *name, const char *help,
                               const struct sbx_histogram *histogram);
