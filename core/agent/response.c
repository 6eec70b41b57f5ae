/* SPDX-License-Identifier: Apache-2.0 */
/* What a provider answered, checked field by field: all of it is hostile. */
#include "agent/response.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define ARGUMENTS_MAX ((size_t)20 << 20) /* bytes of JSON: 16 MiB of code, escaped */
#define ID_MAX 128u
#define NAME_MAX_BYTES 64u    /* what APIs take for a function's name */
#define TOKENS_MAX 1000000000 /* of one call */
#define MODEL_MAX 256u

static int unreadable(struct sbx_error *err, const char *what) {
        return sbx_error_set(err, -EBADMSG, ORIGIN, "Check that the address is that of a chat-completions API.",
                             "the model's answer can't be read: %s", what);
}

/* ---- finish reasons ---- */

static const char *finish_reason(const char *name, bool has_tool_calls) {
        static const char *const known[] = {"stop", "length", "tool_calls", "content_filter"};

        for (size_t i = 0; name != NULL && i < sizeof(known) / sizeof(known[0]); i++)
                if (strcmp(known[i], name) == 0)
                        return known[i];
        return has_tool_calls ? "tool_calls" : "stop";
}

/* ---- tool calls ---- */

static bool id_is_taken(const json_t *calls, const char *id) {
        const json_t *call;
        size_t index;

        json_array_foreach (calls, index, call)
                if (strcmp(json_string_value(json_object_get(call, "id")), id) == 0)
                        return true;
        return false;
}

/* The next request names each result by its call's id: one that is missing, strange or there already gets another. */
static json_t *make_id(const json_t *calls, const json_t *given) {
        const char *id = json_string_value(given);
        size_t length = id != NULL ? json_string_length(given) : 0;
        char own[32];

        if (length > 0 && length <= ID_MAX && strlen(id) == length && !id_is_taken(calls, id))
                return json_string(id);
        for (size_t number = json_array_size(calls);; number++) {
                snprintf(own, sizeof(own), "call_%zu", number);
                if (!id_is_taken(calls, own))
                        return json_string(own);
        }
}

static json_t *clipped_text(const json_t *text, size_t max) {
        struct sbx_bytes bytes = {json_string_value(text), json_string_length(text)};

        bytes.size = sbx_utf8_cut(bytes, max);
        return sbx_json_text(bytes);
}

/* Why the arguments can't be read, for the model. */
static json_t *describe(const char *why, const json_t *given) {
        _cleanup_json_ json_t *begin = json_is_string(given) ? clipped_text(given, 200) : json_string("");
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);

        if (begin == NULL || sbx_buffer_printf(&text, "The arguments of this call can't be read: %s.", why) < 0)
                return NULL;
        if (json_string_length(begin) > 0 &&
            sbx_buffer_printf(&text, " They began with: %s", json_string_value(begin)) < 0)
                return NULL;
        return sbx_json_text(sbx_buffer_bytes(&text));
}

/* "arguments": an object, or "error". */
static int add_arguments(json_t *call, json_t *given, struct sbx_error *err) {
        struct sbx_bytes text = {json_string_value(given), json_string_length(given)};
        _cleanup_json_ json_t *arguments = NULL;
        struct sbx_error problem = {0};
        const char *why = NULL;
        int r;

        if (json_is_object(given)) { /* some servers send it as it is meant */
                arguments = json_incref(given);
        } else if (given == NULL || json_is_null(given) || (json_is_string(given) && text.size == 0)) {
                arguments = json_object();
                why = arguments == NULL ? "out of memory" : NULL;
        } else if (!json_is_string(given)) {
                why = "must be a JSON object in a string";
        } else if (sbx_json_parse(text, ARGUMENTS_MAX, "arguments", &arguments, &problem) < 0) {
                if (problem.code == -ENOMEM)
                        return SBX_NOMEM(err, ORIGIN);
                why = problem.message;
        } else if (!json_is_object(arguments)) {
                why = "must be a JSON object";
        }
        if (why == NULL)
                r = json_object_set(call, "arguments", arguments);
        else
                r = json_object_set_new(call, "error", describe(why, given));
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int add_call(json_t *calls, const json_t *given, struct sbx_error *err) {
        json_t *function = json_object_get(given, "function"), *name = json_object_get(function, "name");
        _cleanup_json_ json_t *call = json_pack("{s:o}", "id", make_id(calls, json_object_get(given, "id")));
        int r = 0;

        if (call == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (!json_is_string(name) || json_string_length(name) == 0) {
                if (json_object_set_new(call, "name", json_string("")) < 0 ||
                    json_object_set_new(call, "error", json_string("This call names no tool.")) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        } else {
                /* What is cut, or had a NUL, is the name of no tool, and is answered as such. */
                if (json_object_set_new(call, "name", clipped_text(name, 4 * NAME_MAX_BYTES)) < 0)
                        return SBX_NOMEM(err, ORIGIN);
                r = add_arguments(call, json_object_get(function, "arguments"), err);
        }
        if (r == 0 && json_array_append(calls, call) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        return r;
}

static int decode_calls(const json_t *message, json_t *record, struct sbx_error *err) {
        const json_t *given = json_object_get(message, "tool_calls"), *call;
        size_t index, count = json_array_size(given);
        json_t *calls = json_array();

        if (calls == NULL || json_object_set_new(record, "tool_calls", calls) < 0)
                return SBX_NOMEM(err, ORIGIN);
        if (given != NULL && !json_is_null(given) && !json_is_array(given))
                return unreadable(err, "choices[0].message.tool_calls is no array");
        json_array_foreach (given, index, call) {
                int r = index < SBX_TOOL_CALLS_MAX ? add_call(calls, call, err) : 0;

                if (r < 0)
                        return r;
        }
        if (count > SBX_TOOL_CALLS_MAX &&
            json_object_set_new(record, "dropped_calls", json_integer((json_int_t)(count - SBX_TOOL_CALLS_MAX))) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return 0;
}

/* ---- usage ---- */

static uint64_t count_of(const json_t *usage, const char *key, uint64_t estimate) {
        const json_t *count = json_object_get(usage, key);
        json_int_t value = json_integer_value(count);

        if (!json_is_integer(count) || value < 0)
                return estimate;
        return (uint64_t)(value < TOKENS_MAX ? value : TOKENS_MAX);
}

static int decode_usage(const json_t *response, size_t prompt_bytes, json_t *record) {
        const json_t *usage = json_object_get(response, "usage"), *cost = json_object_get(usage, "cost_usd");
        _cleanup_buffer_ struct sbx_buffer calls = SBX_BUFFER(SBX_RESPONSE_MAX);
        size_t answer_bytes = json_string_length(json_object_get(record, "text"));
        double value = json_number_value(cost);
        bool known = json_is_number(cost) && isfinite(value) && value >= 0;

        if (json_array_size(json_object_get(record, "tool_calls")) > 0 &&
            sbx_json_encode(json_object_get(record, "tool_calls"), &calls) == 0)
                answer_bytes += calls.size;
        return json_object_set_new(record, "tokens_in",
                                   json_integer((json_int_t)count_of(usage, "prompt_tokens",
                                                                     sbx_tokens_estimate(prompt_bytes)))) < 0 ||
                               json_object_set_new(
                                       record, "tokens_out",
                                       json_integer((json_int_t)count_of(usage, "completion_tokens",
                                                                         sbx_tokens_estimate(answer_bytes)))) < 0 ||
                               json_object_set_new(record, "cost_usd", known ? json_real(value) : json_null()) < 0
                       ? -ENOMEM
                       : 0;
}

/* ---- the whole ---- */

/* Text may hold anything but a NUL, which C strings can't. */
static int decode_text(const json_t *message, json_t *record, struct sbx_error *err) {
        const json_t *content = json_object_get(message, "content");
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4 * SBX_RESPONSE_MAX);
        int r;

        if (content == NULL || json_is_null(content))
                return json_object_set_new(record, "text", json_null()) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
        if (!json_is_string(content))
                return unreadable(err, "choices[0].message.content is no text");
        r = sbx_utf8_repair((struct sbx_bytes){json_string_value(content), json_string_length(content)}, true, &text);
        if (r == 0 && json_object_set_new(record, "text", sbx_json_text(sbx_buffer_bytes(&text))) < 0)
                r = -ENOMEM;
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int decode_message(const json_t *response, json_t *record, struct sbx_error *err) {
        const json_t *choices = json_object_get(response, "choices"), *choice = json_array_get(choices, 0),
                     *message = json_object_get(choice, "message"), *model = json_object_get(response, "model");
        const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
        int r;

        if (!json_is_array(choices) || json_array_size(choices) == 0)
                return unreadable(err, "it has no choices");
        if (!json_is_object(message))
                return unreadable(err, "choices[0].message is no object");
        r = decode_text(message, record, err);
        if (r == 0)
                r = decode_calls(message, record, err);
        if (r < 0)
                return r;
        reason = finish_reason(reason, json_array_size(json_object_get(record, "tool_calls")) > 0);
        if (json_object_set_new(record, "finish_reason", json_string(reason)) < 0 ||
            json_object_set_new(record, "model", json_is_string(model) ? clipped_text(model, MODEL_MAX) : json_null()) <
                    0)
                return SBX_NOMEM(err, ORIGIN);
        return 0;
}

int sbx_response_decode(struct sbx_bytes bytes, size_t prompt_bytes, json_t **ret_record, struct sbx_error *err) {
        _cleanup_json_ json_t *response = NULL, *record = json_pack("{s:s}", "type", "model");
        struct sbx_error problem = {0};
        int r;

        if (record == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_json_parse(bytes, SBX_RESPONSE_MAX, "response", &response, &problem);
        if (r == -ENOMEM)
                return SBX_NOMEM(err, ORIGIN);
        if (r < 0)
                return unreadable(err, problem.message);
        r = decode_message(response, record, err);
        if (r == 0 && decode_usage(response, prompt_bytes, record) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        if (r < 0)
                return r;
        *ret_record = steal_pointer(record);
        return 0;
}

/* ---- records ---- */

/* A name that every API takes back. */
static json_t *safe_name(const char *name) {
        char safe[NAME_MAX_BYTES + 1];
        size_t length = 0;

        for (; name[length] != '\0' && length < NAME_MAX_BYTES; length++) {
                char c = name[length];
                bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                            c == '-' || c == '.';

                safe[length] = fine ? c : '_';
        }
        return length > 0 ? json_stringn(safe, length) : json_string("unnamed");
}

static json_t *call_for_request(const json_t *call) {
        _cleanup_buffer_ struct sbx_buffer arguments = SBX_BUFFER(2 * ARGUMENTS_MAX);
        const json_t *given = json_object_get(call, "arguments");

        if ((given != NULL ? sbx_json_encode(given, &arguments) : sbx_buffer_append_text(&arguments, "{}")) < 0)
                return NULL;
        return json_pack("{s:O, s:s, s:{s:o, s:o}}", "id", json_object_get(call, "id"), "type", "function", "function",
                         "name", safe_name(json_string_value(json_object_get(call, "name"))), "arguments",
                         sbx_json_text(sbx_buffer_bytes(&arguments)));
}

static json_t *message_for_request(const json_t *record) {
        const json_t *calls = json_object_get(record, "tool_calls"), *call;
        _cleanup_json_ json_t *message =
                json_pack("{s:s, s:O}", "role", "assistant", "content", json_object_get(record, "text"));
        json_t *list;
        size_t index;

        if (message == NULL || json_array_size(calls) == 0)
                return steal_pointer(message);
        list = json_array();
        if (list == NULL || json_object_set_new(message, "tool_calls", list) < 0)
                return NULL;
        json_array_foreach (calls, index, call)
                if (json_array_append_new(list, call_for_request(call)) < 0)
                        return NULL;
        return steal_pointer(message);
}

static bool is_sound(const json_t *record) {
        const json_t *text = json_object_get(record, "text"), *calls = json_object_get(record, "tool_calls"), *call;
        size_t index;

        if ((!json_is_string(text) && !json_is_null(text)) || !json_is_array(calls) ||
            !json_is_integer(json_object_get(record, "tokens_in")) ||
            !json_is_integer(json_object_get(record, "tokens_out")))
                return false;
        json_array_foreach (calls, index, call)
                if (!json_is_string(json_object_get(call, "id")) || !json_is_string(json_object_get(call, "name")) ||
                    (!json_is_object(json_object_get(call, "arguments")) &&
                     !json_is_string(json_object_get(call, "error"))))
                        return false;
        return true;
}

int sbx_response_answer(json_t *record, struct sbx_answer *ret_answer, struct sbx_error *err) {
        const json_t *text = json_object_get(record, "text"), *cost = json_object_get(record, "cost_usd");
        struct sbx_answer answer = {.cost_usd = -1};

        if (!is_sound(record))
                return sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "the journal's record of a model call is damaged");
        answer.text = json_is_string(text) ? strdup(json_string_value(text)) : NULL;
        answer.message = message_for_request(record);
        if (answer.message == NULL || (json_is_string(text) && answer.text == NULL)) {
                sbx_answer_clear(&answer);
                return SBX_NOMEM(err, ORIGIN);
        }
        answer.tool_calls = json_incref(json_object_get(record, "tool_calls"));
        answer.finish_reason = finish_reason(json_string_value(json_object_get(record, "finish_reason")),
                                             json_array_size(answer.tool_calls) > 0);
        answer.tokens_in = (uint64_t)json_integer_value(json_object_get(record, "tokens_in"));
        answer.tokens_out = (uint64_t)json_integer_value(json_object_get(record, "tokens_out"));
        if (json_is_number(cost))
                answer.cost_usd = json_number_value(cost);
        answer.model = json_string_value(json_object_get(record, "model"));
        answer.timestamp = json_string_value(json_object_get(record, "timestamp"));
        answer.duration_ms = (uint64_t)json_integer_value(json_object_get(record, "duration_ms"));
        answer.record = json_incref(record);
        *ret_answer = answer;
        return 0;
}

void sbx_answer_clear(struct sbx_answer *answer) {
        free(answer->text);
        json_decref(answer->tool_calls);
        json_decref(answer->message);
        json_decref(answer->record);
        *answer = (struct sbx_answer){0};
}
