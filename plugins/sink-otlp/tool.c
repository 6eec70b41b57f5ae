/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of tools: executions, checks, calls that code made, and the other tool calls of a model's turn. */
#include <stdio.h>
#include <string.h>

#include "convert.h"

#define CALLS_MAX 1024u /* spans that one completion may become */

static void add_tool(struct otlp_span *span, const char *name) {
        otlp_add_name(&span->attributes, "gen_ai.operation.name", "execute_tool");
        otlp_add_name(&span->attributes, "gen_ai.tool.name", name);
        otlp_add_name(&span->attributes, "gen_ai.tool.type", "function");
}

/* How an execution went: the end of it, or the error in its result. */
static void add_outcome(const struct otlp_event *event, struct otlp_span *span) {
        const json_t *result = json_array_get(json_object_get(event->object, "repl_results"), 0);
        const json_t *error = json_object_get(event->object, "error");
        const char *end = json_string_value(json_object_get(event->object, "end"));
        const json_t *source = result != NULL ? result : event->object;

        if (error == NULL || json_is_null(error))
                error = json_object_get(result, "error");
        if (end != NULL ? strcmp(end, "ok") != 0 : error != NULL && !json_is_null(error))
                otlp_span_fail(span, end);
        otlp_add_name(&span->attributes, "snipara_sandbox.execution.end", end);
        otlp_copy_name(&span->attributes, "snipara_sandbox.execution.state", event->object, "state");
        otlp_copy_name(&span->attributes, "snipara_sandbox.session.id", event->object, "session_id");
        otlp_copy_name(&span->attributes, "snipara_sandbox.isolation", event->object, "isolation");
        otlp_copy_name(&span->attributes, "snipara_sandbox.profile", event->object, "profile");
        otlp_copy_int(&span->attributes, "snipara_sandbox.execution.memory_peak_bytes", source, "memory_peak_bytes");
        otlp_copy_double(&span->attributes, "snipara_sandbox.execution.cpu_time_ms", source,
                         result != NULL ? "cpu_time_ms" : "cpu_ms");
        otlp_copy_bool(&span->attributes, "snipara_sandbox.execution.truncated", source, "truncated");
}

/* Where in the turn the tool call stands that this event tells of: "1.2.t3" is the fourth. -1: it can't be told. */
static int64_t index_in_turn(const json_t *object) {
        const char *key = json_string_value(json_object_get(object, "key"));
        const char *last = key != NULL ? strrchr(key, '.') : NULL;
        int64_t index = 0;

        if (last == NULL || last[1] != 't' || last[2] == '\0' || strlen(last + 2) > 6)
                return -1;
        for (const char *p = last + 2; *p != '\0'; p++) {
                if (*p < '0' || *p > '9')
                        return -1;
                index = index * 10 + (*p - '0');
        }
        return index;
}

/* A mark in what was seen: that tool call of the completion has a span already. */
static uint64_t mark_of_call(const char *trace_id, const char *completion_span_id, uint64_t index) {
        return otlp_hash(completion_span_id, otlp_hash(trace_id, index + 1));
}

static void mark_call(const struct otlp_event *event, const struct otlp_span *span) {
        int64_t index = index_in_turn(event->object);

        if (index >= 0)
                otlp_seen(event->converter->memory, mark_of_call(span->trace_id, span->parent_id, (uint64_t)index));
}

int otlp_convert_execution(const struct otlp_event *event) {
        const char *tool = json_string_value(json_object_get(event->object, "tool"));
        struct otlp_span span;

        if (tool == NULL)
                tool = "execute_python";
        otlp_event_span(event, "execute_tool", tool, OTLP_KIND_INTERNAL, &span);
        add_tool(&span, tool);
        otlp_copy_name(&span.attributes, "gen_ai.tool.call.id", event->object, "tool_call_id");
        add_outcome(event, &span);
        otlp_add_content(event, &span, "gen_ai.tool.call.arguments", json_object_get(event->object, "prompt"));
        otlp_add_content(event, &span, "gen_ai.tool.call.result", json_object_get(event->object, "response"));
        mark_call(event, &span);
        return otlp_event_emit(event, &span);
}

/* No tool of a model: the program itself ran it, to see whether an answer holds. */
int otlp_convert_check(const struct otlp_event *event) {
        struct otlp_span span;

        otlp_event_span(event, "check", NULL, OTLP_KIND_INTERNAL, &span);
        otlp_copy_bool(&span.attributes, "snipara_sandbox.check.passed", event->object, "passed");
        add_outcome(event, &span);
        otlp_add_content(event, &span, "snipara_sandbox.check.code", json_object_get(event->object, "prompt"));
        otlp_add_content(event, &span, "snipara_sandbox.check.output", json_object_get(event->object, "response"));
        return otlp_event_emit(event, &span);
}

static const json_t *result_of_call(const json_t *object, const json_t *call, size_t index) {
        const json_t *results = json_object_get(object, "tool_results");
        const json_t *id = json_object_get(call, "id");
        size_t i;
        const json_t *result;

        json_array_foreach (results, i, result)
                if (json_is_string(id) && json_equal(id, json_object_get(result, "tool_call_id")))
                        return result;
        return json_is_string(id) ? NULL : json_array_get(results, index);
}

static void add_call(const struct otlp_event *event, struct otlp_span *span, const json_t *call, const json_t *result) {
        add_tool(span, json_string_value(json_object_get(call, "name")));
        otlp_copy_name(&span->attributes, "gen_ai.tool.call.id", call, "id");
        if (json_is_true(json_object_get(result, "is_error")))
                otlp_span_fail(span, "tool_error");
        otlp_add_content(event, span, "gen_ai.tool.call.arguments", json_object_get(call, "arguments"));
        otlp_add_content(event, span, "gen_ai.tool.call.result", json_object_get(result, "content"));
}

int otlp_convert_tool_call(const struct otlp_event *event) {
        const json_t *call = json_array_get(json_object_get(event->object, "tool_calls"), 0);
        const json_t *error = json_object_get(event->object, "error");
        struct otlp_span span;

        otlp_event_span(event, "execute_tool", json_string_value(json_object_get(call, "name")), OTLP_KIND_INTERNAL,
                        &span);
        add_call(event, &span, call, result_of_call(event->object, call, 0));
        if (!span.failed && error != NULL && !json_is_null(error))
                otlp_span_fail(&span, "tool_error");
        mark_call(event, &span);
        return otlp_event_emit(event, &span);
}

/* When they ran is not told: they stand at the end of the turn, and say so. */
int otlp_convert_calls_of_turn(const struct otlp_event *event) {
        const json_t *calls = json_object_get(event->object, "tool_calls");
        char completion_id[OTLP_SPAN_ID_SIZE], trace_id[OTLP_TRACE_ID_SIZE];
        int r = 0;

        otlp_span_id(event->call_id, completion_id);
        otlp_trace_id(event->run_id, trace_id);
        for (size_t i = 0; r == 0 && i < json_array_size(calls) && i < CALLS_MAX; i++) {
                const json_t *call = json_array_get(calls, i);
                const json_t *result = result_of_call(event->object, call, i);
                struct otlp_span span;

                /* A call without a result was not made. */
                if (result == NULL || otlp_seen(event->converter->memory, mark_of_call(trace_id, completion_id, i)))
                        continue;
                otlp_event_span(event, "execute_tool", json_string_value(json_object_get(call, "name")),
                                OTLP_KIND_INTERNAL, &span);
                otlp_part_id(event->call_id, "tool", i, span.id);
                memcpy(span.parent_id, completion_id, sizeof(span.parent_id));
                span.start_ns = span.end_ns;
                add_call(event, &span, call, result);
                otlp_add_bool(&span.attributes, "snipara_sandbox.duration_unknown", true);
                r = otlp_event_emit(event, &span);
        }
        return r;
}

/* Each is a trace of its own: one for the life of a server would be no help to anybody. */
int otlp_convert_lone_call(const struct otlp_event *event) {
        const char *tool = json_string_value(json_object_get(event->object, "tool"));
        uint64_t sequence = (uint64_t)json_integer_value(json_object_get(event->object, "sequence"));
        struct otlp_span span;

        if (tool == NULL)
                tool = "execute_python";
        otlp_event_span(event, "execute_tool", tool, OTLP_KIND_INTERNAL, &span);
        otlp_part_trace_id(event->run_id, sequence, span.trace_id);
        otlp_part_id(event->run_id, "call", sequence, span.id);
        add_tool(&span, tool);
        add_outcome(event, &span);
        if (!span.failed && json_is_true(json_object_get(event->object, "is_error")))
                otlp_span_fail(&span, "tool_error");
        otlp_copy_name(&span.attributes, "snipara_sandbox.principal", event->object, "principal");
        return otlp_event_emit(event, &span);
}
