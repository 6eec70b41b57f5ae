/* SPDX-License-Identifier: Apache-2.0 */
/* One span, and its JSON (opentelemetry-proto, trace/v1/trace.proto: Span). */
#pragma once

#include "attributes.h"
#include "ids.h"

enum otlp_kind { OTLP_KIND_INTERNAL = 1, OTLP_KIND_CLIENT = 3 }; /* Span.SpanKind */

struct otlp_span {
        char trace_id[OTLP_TRACE_ID_SIZE];
        char id[OTLP_SPAN_ID_SIZE];
        char parent_id[OTLP_SPAN_ID_SIZE]; /* "": the root of its trace */
        const char *operation, *subject;   /* the name is both, with a space between; `subject` may be NULL */
        enum otlp_kind kind;
        uint64_t start_ns, end_ns;
        bool failed;
        struct otlp_attributes attributes;
        size_t content_left; /* bytes of content that it may still take */
};

/* Compact JSON, to be freed with free(); takes the attributes. NULL: no memory. */
char *otlp_span_encode(struct otlp_span *span);
