/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a span. */
#include "span.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define STATUS_ERROR 2 /* Status.StatusCode; unset, as the conventions want it, when nothing went wrong */

static json_t *span_name(const struct otlp_span *span) {
        _cleanup_json_ json_t *subject = NULL;

        if (span->subject == NULL || *span->subject == '\0')
                return json_string(span->operation);
        subject = otlp_cut_text(span->subject, strlen(span->subject), OTLP_NAME_MAX);
        return subject != NULL ? json_sprintf("%s %s", span->operation, json_string_value(subject)) : NULL;
}

static json_t *nanoseconds(uint64_t time_ns) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%" PRIu64, time_ns);
        return json_string(digits);
}

char *otlp_span_encode(struct otlp_span *span) {
        _cleanup_json_ json_t *attributes = otlp_attributes_take(&span->attributes);
        _cleanup_json_ json_t *object = NULL;

        if (attributes == NULL)
                return NULL;
        object = json_pack("{s:s, s:s, s:o, s:i, s:o, s:o, s:O}", "traceId", span->trace_id, "spanId", span->id, "name",
                           span_name(span), "kind", (int)span->kind, "startTimeUnixNano", nanoseconds(span->start_ns),
                           "endTimeUnixNano", nanoseconds(span->end_ns), "attributes", attributes);
        if (object == NULL ||
            (span->parent_id[0] != '\0' &&
             json_object_set_new(object, "parentSpanId", json_string(span->parent_id)) < 0) ||
            (span->failed && json_object_set_new(object, "status", json_pack("{s:i}", "code", STATUS_ERROR)) < 0))
                return NULL;
        return json_dumps(object, JSON_COMPACT);
}
