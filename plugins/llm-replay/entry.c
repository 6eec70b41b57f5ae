/* SPDX-License-Identifier: Apache-2.0 */
/* A line of a trajectory as a model call, in the shape of the chat-completions API. */
#include "recording.h"

#include <string.h>

#include "util.h"

#define TOKENS_MAX INT64_C(1000000000000)

void replay_entry_clear(struct replay_entry *entry) {
        json_decref(entry->prompt);
        json_decref(entry->content);
        json_decref(entry->calls);
        json_decref(entry->usage);
        free(entry->finish_reason);
        free(entry->model);
        free(entry->call_id);
        free(entry->key);
        free(entry->error);
        *entry = (struct replay_entry){.prompt = NULL};
}

/* snipara-sandbox 2.2.7 wrote model calls alone, and did not say so. */
static bool is_model_call(const json_t *event) {
        const char *name = json_string_value(json_object_get(event, "event"));

        if (json_object_get(event, "_type") != NULL || !json_is_string(json_object_get(event, "call_id")))
                return false;
        return name == NULL || strcmp(name, "completion") == 0;
}

static int copy_text(const json_t *object, const char *member, char **ret) {
        const char *text = json_string_value(json_object_get(object, member));

        if (text == NULL)
                return 0;
        *ret = strdup(text);
        return *ret != NULL ? 0 : -ENOMEM;
}

/* Arguments were an object, or could not be read when they were recorded; then what is left of them is why, which can't
 * be read either: so the call fails again. */
static json_t *arguments_text(const json_t *call) {
        json_t *arguments = json_object_get(call, "arguments");
        _cleanup_free_ char *text = NULL;

        if (arguments == NULL)
                arguments = json_object_get(call, "error");
        if (json_is_string(arguments))
                return json_incref(arguments);
        if (arguments == NULL)
                return json_string("{}");
        text = json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY);
        return text != NULL ? json_string(text) : NULL;
}

static int decode_calls(const json_t *event, struct replay_entry *entry) {
        const json_t *calls = json_object_get(event, "tool_calls"), *call;
        size_t i;

        entry->calls = json_array();
        json_array_foreach (calls, i, call) {
                json_t *id = json_object_get(call, "id"), *name = json_object_get(call, "name");
                json_t *decoded;

                if (!json_is_string(id) || !json_is_string(name))
                        continue;
                decoded = json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type", "function", "function", "name", name,
                                    "arguments", arguments_text(call));
                if (decoded == NULL || json_array_append_new(entry->calls, decoded) < 0)
                        return -ENOMEM;
        }
        return entry->calls != NULL ? 0 : -ENOMEM;
}

static json_int_t tokens(const json_t *event, const char *member) {
        json_int_t count = json_integer_value(json_object_get(event, member));

        return count < 0 ? 0 : count > TOKENS_MAX ? TOKENS_MAX : count;
}

static int decode_usage(const json_t *event, struct replay_entry *entry) {
        json_t *cost = json_object_get(event, "estimated_cost_usd");
        json_int_t input = tokens(event, "input_tokens"), output = tokens(event, "output_tokens");

        entry->usage = json_pack("{s:I, s:I, s:I, s:O?}", "prompt_tokens", input, "completion_tokens", output,
                                 "total_tokens", input + output, "cost_usd", json_is_number(cost) ? cost : NULL);
        return entry->usage != NULL ? 0 : -ENOMEM;
}

static int decode_answer(const json_t *event, struct replay_entry *entry) {
        json_t *prompt = json_object_get(event, "prompt"), *response = json_object_get(event, "response");
        json_t *error = json_object_get(event, "error");
        bool answered;

        entry->prompt = json_is_string(prompt) ? json_incref(prompt) : json_string("");
        entry->content = json_is_string(response) ? json_incref(response) : json_null();
        if (entry->prompt == NULL || decode_calls(event, entry) < 0 || decode_usage(event, entry) < 0 ||
            copy_text(event, "finish_reason", &entry->finish_reason) < 0)
                return -ENOMEM;
        answered = json_is_string(response) || json_array_size(entry->calls) > 0;
        entry->lost = json_is_true(json_object_get(event, "too_large"));
        if (!answered && json_is_string(error) && copy_text(event, "error", &entry->error) < 0)
                return -ENOMEM;
        if (entry->finish_reason != NULL)
                return 0;
        entry->finish_reason = strdup(json_array_size(entry->calls) > 0 ? "tool_calls" : "stop");
        return entry->finish_reason != NULL ? 0 : -ENOMEM;
}

int replay_entry_decode(const json_t *event, struct replay_entry *ret_entry) {
        struct replay_entry entry = {.successor = REPLAY_NONE};

        if (!is_model_call(event))
                return 0;
        if (decode_answer(event, &entry) < 0 || copy_text(event, "model", &entry.model) < 0 ||
            copy_text(event, "call_id", &entry.call_id) < 0 || copy_text(event, "key", &entry.key) < 0) {
                replay_entry_clear(&entry);
                return -ENOMEM;
        }
        *ret_entry = entry;
        return 1;
}
