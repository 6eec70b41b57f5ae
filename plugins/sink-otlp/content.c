/* SPDX-License-Identifier: Apache-2.0 */
/* What people and models said, and what code did: exported only when the configuration asks for it. Messages are JSON
 * in a string, as the conventions want them on spans. */
#include <string.h>

#include "convert.h"
#include "util.h"

#define CALLS_MAX 128u /* of one message */

/* How much of a text of `size` bytes may be taken; what is taken is gone from the span's share. */
static size_t take_room(const struct otlp_event *event, struct otlp_span *span, size_t size) {
        size_t room = event->converter->content_max;

        if (room > span->content_left)
                room = span->content_left;
        span->content_left -= size < room ? size : room;
        return room;
}

static json_t *cut_content(const struct otlp_event *event, struct otlp_span *span, const json_t *text) {
        size_t size = json_string_length(text);

        return otlp_cut_text(json_string_value(text), size, take_room(event, span, size));
}

/* A value that is no string goes as its JSON, in a string. */
void otlp_add_content(const struct otlp_event *event, struct otlp_span *span, const char *key, const json_t *value) {
        _cleanup_free_ char *json = NULL;
        size_t size;

        if (!event->converter->content || value == NULL || json_is_null(value))
                return;
        if (json_is_string(value)) {
                size = json_string_length(value);
                otlp_add_text(&span->attributes, key, json_string_value(value), size, take_room(event, span, size));
                return;
        }
        json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        if (json == NULL) {
                span->attributes.failed = true;
                return;
        }
        size = strlen(json);
        otlp_add_text(&span->attributes, key, json, size, take_room(event, span, size));
}

/* {"type": "text", "content": ...}; takes nothing. */
static int append_text(json_t *parts, json_t *content) {
        return content == NULL || json_array_append_new(parts,
                                                        json_pack("{s:s, s:O}", "type", "text", "content", content)) < 0
                       ? -ENOMEM
                       : 0;
}

/* Arguments that are too large become their JSON, cut, in a string. */
static json_t *cut_arguments(const struct otlp_event *event, struct otlp_span *span, json_t *arguments) {
        _cleanup_free_ char *json = NULL;
        size_t size, room;

        if (arguments == NULL)
                return json_null();
        json = json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY);
        if (json == NULL)
                return NULL;
        size = strlen(json);
        room = take_room(event, span, size);
        return size <= room ? json_incref(arguments) : otlp_cut_text(json, size, room);
}

static int append_calls(const struct otlp_event *event, struct otlp_span *span, json_t *parts) {
        const json_t *calls = json_object_get(event->object, "tool_calls");

        for (size_t i = 0; i < json_array_size(calls) && i < CALLS_MAX; i++) {
                const json_t *call = json_array_get(calls, i);
                const char *id = json_string_value(json_object_get(call, "id"));
                const char *name = json_string_value(json_object_get(call, "name"));
                json_t *part = json_pack("{s:s, s:s*, s:s, s:o}", "type", "tool_call", "id", id, "name",
                                         name != NULL ? name : "", "arguments",
                                         cut_arguments(event, span, json_object_get(call, "arguments")));

                if (part == NULL || json_array_append_new(parts, part) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Takes the reference of `parts`. */
static void add_message(struct otlp_span *span, const char *key, const char *role, const char *finish_reason,
                        json_t *parts) {
        _cleanup_json_ json_t *messages =
                json_pack("[{s:s, s:o, s:s*}]", "role", role, "parts", parts, "finish_reason", finish_reason);
        _cleanup_free_ char *json = messages != NULL ? json_dumps(messages, JSON_COMPACT) : NULL;

        if (json == NULL)
                span->attributes.failed = true;
        else
                otlp_add_text(&span->attributes, key, json, strlen(json), SIZE_MAX);
}

static void add_input(const struct otlp_event *event, struct otlp_span *span) {
        const json_t *prompt = json_object_get(event->object, "prompt");
        const json_t *system = json_object_get(event->object, "system");
        _cleanup_json_ json_t *parts = json_array();
        _cleanup_json_ json_t *text = NULL;

        if (json_is_string(prompt)) {
                text = cut_content(event, span, prompt);
                if (parts == NULL || append_text(parts, text) < 0)
                        span->attributes.failed = true;
                else
                        add_message(span, "gen_ai.input.messages", "user", NULL, json_incref(parts));
        }
        if (json_is_string(system)) {
                _cleanup_json_ json_t *cut = cut_content(event, span, system);
                _cleanup_json_ json_t *list = json_pack("[{s:s, s:O}]", "type", "text", "content", cut);
                _cleanup_free_ char *json = list != NULL ? json_dumps(list, JSON_COMPACT) : NULL;

                if (json == NULL)
                        span->attributes.failed = true;
                else
                        otlp_add_text(&span->attributes, "gen_ai.system_instructions", json, strlen(json), SIZE_MAX);
        }
}

static void add_output(const struct otlp_event *event, struct otlp_span *span) {
        const char *finish = json_string_value(json_object_get(event->object, "finish_reason"));
        const json_t *answer = json_object_get(event->object, "response");
        _cleanup_json_ json_t *parts = json_array();
        _cleanup_json_ json_t *text = NULL;

        if (json_is_null(answer) || answer == NULL)
                answer = json_object_get(event->object, "answer");
        if (json_is_string(answer) && json_string_length(answer) > 0) {
                text = cut_content(event, span, answer);
                if (append_text(parts, text) < 0)
                        span->attributes.failed = true;
        }
        if (parts == NULL || append_calls(event, span, parts) < 0)
                span->attributes.failed = true;
        else if (json_array_size(parts) > 0)
                add_message(span, "gen_ai.output.messages", "assistant", finish, json_incref(parts));
}

void otlp_add_messages(const struct otlp_event *event, struct otlp_span *span) {
        if (!event->converter->content)
                return;
        add_input(event, span);
        add_output(event, span);
}
