/* SPDX-License-Identifier: Apache-2.0 */
/* Events to spans: which event makes which span, and the span of a run itself. */
#include "convert.h"

#include <string.h>
#include <time.h>

#include "timestamp.h"
#include "util.h"

#define EVENT_MAX ((size_t)32 << 20) /* sink.h */
#define NS_PER_MS UINT64_C(1000000)
#define DURATION_MAX_MS (366.0 * 24 * 3600 * 1000)
#define AGENT_NAME "snipara-sandbox"

/* ---- spans ---- */

void otlp_event_span(const struct otlp_event *event, const char *operation, const char *subject, enum otlp_kind kind,
                     struct otlp_span *ret_span) {
        const char *parent = json_string_value(json_object_get(event->object, "parent_call_id"));

        *ret_span = (struct otlp_span){.operation = operation,
                                       .subject = subject,
                                       .kind = kind,
                                       .end_ns = event->end_ns,
                                       .content_left = event->converter->content_max * 4};
        ret_span->start_ns = event->end_ns > event->duration_ns ? event->end_ns - event->duration_ns : event->end_ns;
        otlp_trace_id(event->run_id, ret_span->trace_id);
        if (event->call_id != NULL)
                otlp_span_id(event->call_id, ret_span->id);
        else
                otlp_part_id(event->run_id, "run", 0, ret_span->id);
        if (parent != NULL)
                otlp_span_id(parent, ret_span->parent_id);
        else if (event->call_id != NULL)
                otlp_part_id(event->run_id, "run", 0, ret_span->parent_id);
        otlp_attributes_init(&ret_span->attributes);
        otlp_add_name(&ret_span->attributes, "gen_ai.conversation.id", event->run_id);
        otlp_copy_int(&ret_span->attributes, "snipara_sandbox.depth", event->object, "depth");
        otlp_copy_name(&ret_span->attributes, "snipara_sandbox.key", event->object, "key");
}

int otlp_event_emit(const struct otlp_event *event, struct otlp_span *span) {
        char *json;

        if (otlp_seen(event->converter->memory, otlp_hash(span->id, otlp_hash(span->trace_id, 0)))) {
                otlp_attributes_clear(&span->attributes);
                return 0;
        }
        json = otlp_span_encode(span);
        if (json == NULL)
                return -ENOMEM;
        event->converter->emit(event->converter->data, json);
        return 0;
}

void otlp_span_fail(struct otlp_span *span, const char *type) {
        span->failed = true;
        otlp_add_name(&span->attributes, "error.type", type != NULL && *type != '\0' ? type : "_OTHER");
}

/* ---- the run ---- */

static int begin_run(const struct otlp_event *event) {
        const char *name = json_string_value(json_object_get(event->object, "model"));
        const char *instance = json_string_value(json_object_get(event->object, "provider"));
        char provider[OTLP_PROVIDER_SIZE];
        const char *model;
        struct otlp_span span = {.content_left = event->converter->content_max * 2};

        otlp_split_model(name, instance, provider, &model);
        otlp_attributes_init(&span.attributes);
        otlp_add_name(&span.attributes, "gen_ai.provider.name", provider);
        otlp_add_name(&span.attributes, "gen_ai.request.model", model);
        otlp_copy_name(&span.attributes, "gen_ai.agent.version", event->object, "version");
        otlp_copy_name(&span.attributes, "snipara_sandbox.run.kind", event->object, "kind");
        otlp_copy_name(&span.attributes, "snipara_sandbox.environment", event->object, "environment");
        otlp_add_messages(event, &span);
        return otlp_run_begin(event->converter->memory, event->run_id, name, instance, event->time_ns,
                              otlp_attributes_take(&span.attributes)) != NULL
                       ? 0
                       : -ENOMEM;
}

static void add_totals(struct otlp_attributes *attributes, const json_t *object) {
        static const struct {
                const char *key, *member;
        } counts[] = {
                {"gen_ai.usage.input_tokens", "total_input_tokens"},
                {"gen_ai.usage.output_tokens", "total_output_tokens"},
                {"snipara_sandbox.run.model_calls", "total_calls"},
                {"snipara_sandbox.run.tool_calls", "total_tool_calls"},
                {"snipara_sandbox.run.iterations", "iterations"},
        };

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
                otlp_copy_int(attributes, counts[i].key, object, counts[i].member);
        otlp_copy_double(attributes, "snipara_sandbox.cost_usd", object, "total_cost_usd");
        otlp_copy_bool(attributes, "snipara_sandbox.run.validated", object, "validated");
        otlp_copy_name(attributes, "snipara_sandbox.run.end", object, "end");
}

static int end_run(const struct otlp_event *event) {
        const char *end = json_string_value(json_object_get(event->object, "end"));
        const json_t *error = json_object_get(event->object, "error");
        struct otlp_span span;
        int r;

        otlp_event_span(event, "invoke_agent", AGENT_NAME, OTLP_KIND_INTERNAL, &span);
        otlp_attributes_clear(&span.attributes);
        otlp_attributes_init_copy(&span.attributes, event->run != NULL ? event->run->attributes : NULL);
        if (event->run != NULL && event->run->start_ns <= span.end_ns)
                span.start_ns = event->run->start_ns;
        otlp_add_name(&span.attributes, "gen_ai.operation.name", "invoke_agent");
        otlp_add_name(&span.attributes, "gen_ai.agent.name", AGENT_NAME);
        otlp_add_name(&span.attributes, "gen_ai.conversation.id", event->run_id);
        add_totals(&span.attributes, event->object);
        if (end != NULL ? strcmp(end, "ok") != 0 : !json_is_null(error) && error != NULL)
                otlp_span_fail(&span, end);
        otlp_add_messages(event, &span);
        r = otlp_event_emit(event, &span);
        otlp_run_end(event->run);
        return r;
}

/* ---- all events ---- */

static uint64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t duration_of(const json_t *object) {
        const json_t *value = json_object_get(object, "duration_ms");
        double milliseconds;

        if (value == NULL)
                value = json_object_get(object, "call_ms");
        milliseconds = json_number_value(value);
        if (!(milliseconds > 0))
                return 0;
        return (uint64_t)((milliseconds < DURATION_MAX_MS ? milliseconds : DURATION_MAX_MS) * (double)NS_PER_MS);
}

static const struct {
        const char *name;
        bool of_call; /* it has a call_id */
        bool begins;  /* its timestamp is when it began; else when it ended */
        int (*convert)(const struct otlp_event *event);
} kinds[] = {
        {"run_started", false, true, begin_run},
        {"run_ended", false, false, end_run},
        {"completion", true, true, otlp_convert_completion},
        {"execution", true, true, otlp_convert_execution},
        {"check", true, true, otlp_convert_check},
        {"tool_call", true, true, otlp_convert_tool_call},
        {"tool_call", false, false, otlp_convert_lone_call},
        {"execution", false, false, otlp_convert_lone_call},
};

static int convert_event(struct otlp_event *event) {
        const char *name = json_string_value(json_object_get(event->object, "event"));

        for (size_t i = 0; name != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(name, kinds[i].name) == 0 && kinds[i].of_call == (event->call_id != NULL)) {
                        event->end_ns = event->time_ns + (kinds[i].begins ? event->duration_ns : 0);
                        return kinds[i].convert(event);
                }
        return 0;
}

int otlp_convert(struct otlp_converter *converter, struct sbx_bytes text, struct sbx_error *err) {
        _cleanup_json_ json_t *object = NULL;
        struct otlp_event event = {.converter = converter};
        json_error_t problem = {.line = 0};
        int r;

        if (text.size > EVENT_MAX)
                return sbx_error_set(err, -EFBIG, OTLP_ORIGIN, NULL, "an event of %zu bytes is too large", text.size);
        object = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        /* An allocation that fails inside of the parser leaves no text. */
        if (object == NULL && (problem.text[0] == '\0' || json_error_code(&problem) == json_error_out_of_memory))
                return sbx_error_set(err, -ENOMEM, OTLP_ORIGIN, NULL, "no memory for an event of %zu bytes", text.size);
        event.object = object;
        event.run_id = json_string_value(json_object_get(object, "trajectory_id"));
        if (event.run_id == NULL || *event.run_id == '\0')
                return sbx_error_set(err, -EBADMSG, OTLP_ORIGIN, NULL,
                                     "an event is not a JSON object with a trajectory_id");
        event.call_id = json_string_value(json_object_get(object, "call_id"));
        event.run = otlp_run_find(converter->memory, event.run_id);
        event.time_ns = otlp_timestamp(json_string_value(json_object_get(object, "timestamp")));
        if (event.time_ns == 0)
                event.time_ns = now_ns();
        event.duration_ns = duration_of(object);
        r = convert_event(&event);
        if (r < 0)
                return sbx_error_set(err, r, OTLP_ORIGIN, NULL, "no memory for the span of an event");
        return 0;
}
