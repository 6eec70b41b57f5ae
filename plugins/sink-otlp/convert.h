/* SPDX-License-Identifier: Apache-2.0 */
/* Events of trajectories to spans, with the OpenTelemetry semantic conventions for generative AI (version 1.37 and
 * later: gen_ai.provider.name). One thread. */
#pragma once

#include <snipara-sandbox/types.h>

#include "runs.h"
#include "span.h"

struct otlp_converter {
        bool content;       /* prompts, code, answers and results are exported too */
        size_t content_max; /* of one text, in bytes */
        struct otlp_memory *memory;
        void *data;
        /* A finished span; takes `json`, which is to be freed with free(). */
        void (*emit)(void *data, char *json);
};

/* Emits no span, one, or a completion's and those of its tool calls. An event of a kind that it does not know is passed
 * over. `text` is the event's JSON. -EBADMSG: no object with an id; -ENOMEM. */
int otlp_convert(struct otlp_converter *converter, struct sbx_bytes text, struct sbx_error *err);

/* ---- inside ---- */

/* What all spans of an event have in common. */
struct otlp_event {
        struct otlp_converter *converter;
        const json_t *object;
        const char *run_id, *call_id;          /* call_id NULL: none */
        struct otlp_run *run;                  /* NULL: its beginning was not seen */
        uint64_t time_ns, duration_ns, end_ns; /* what it says; and when what it tells of ended */
};

/* convert.c: a span of the event that ended when it was told, without attributes. Free with otlp_attributes_clear. */
void otlp_event_span(const struct otlp_event *event, const char *operation, const char *subject, enum otlp_kind kind,
                     struct otlp_span *ret_span);
/* Encodes and emits it, unless it was emitted before. -ENOMEM. */
int otlp_event_emit(const struct otlp_event *event, struct otlp_span *span);
/* Marks the span as failed. `type` has few values; NULL: the conventions' "_OTHER". */
void otlp_span_fail(struct otlp_span *span, const char *type);

/* model.c */
int otlp_convert_completion(const struct otlp_event *event);
#define OTLP_PROVIDER_SIZE 64
/* "openai/gpt-4o-mini": the conventions' name of the provider, and the model. When the name tells no provider it is
 * `fallback`. `name` and `fallback` may be NULL; the model points into `name`. */
void otlp_split_model(const char *name, const char *fallback, char ret_provider[OTLP_PROVIDER_SIZE],
                      const char **ret_model);

/* tool.c */
int otlp_convert_execution(const struct otlp_event *event);
int otlp_convert_check(const struct otlp_event *event);
int otlp_convert_tool_call(const struct otlp_event *event);
/* The tool calls of a completion that have no event of their own. */
int otlp_convert_calls_of_turn(const struct otlp_event *event);
/* Outside of a run. */
int otlp_convert_lone_call(const struct otlp_event *event);

/* content.c: nothing unless content is exported; cut to what is allowed. */
void otlp_add_content(const struct otlp_event *event, struct otlp_span *span, const char *key, const json_t *value);
void otlp_add_messages(const struct otlp_event *event, struct otlp_span *span);
