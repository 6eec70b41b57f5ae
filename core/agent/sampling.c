/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the model of a run's client. What comes back is a stranger's word: bounded, read by strict rules, and turned
 * into the shape of every other provider's answer, so that the same limits and tool rules apply to it. */
#include "agent/sampling.h"

#include <stdlib.h>

#include "agent/response.h"
#include "agent/sampling_text.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define ORIGIN SBX_SAMPLING_NAME
#define REQUEST_MAX ((size_t)64 << 20) /* bytes of the chat-completions request */
#define ASKED_MAX ((size_t)4 << 20)    /* bytes of what a client is sent: transports bound their messages */
#define ANSWER_MAX ((size_t)4 << 20)   /* bytes of what it answers */
#define TEXT_MAX ((size_t)16 << 20)    /* of one message, while it is put together */
#define MAX_TOKENS_FALLBACK 4096       /* MCP demands a number */
#define KEY_SIZE 32

struct sbx_sampling {
        const struct sbx_client *client;
        pthread_mutex_t lock; /* protects what follows; held while the client is asked, one question at a time */
        unsigned asked;       /* so far: the next key has one more */
        unsigned junk;        /* answers in a row that asked for nothing */
        char model[SBX_SAMPLING_MODEL_SIZE];
};

bool sbx_sampling_possible(const struct sbx_client *client) {
        return client != NULL && (client->capabilities & SBX_CLIENT_SAMPLING) != 0 && client->ask != NULL;
}

int sbx_sampling_new(const struct sbx_client *client, struct sbx_sampling **ret_sampling, struct sbx_error *err) {
        struct sbx_sampling *sampling = calloc(1, sizeof(*sampling));

        if (sampling == NULL)
                return SBX_NOMEM(err, ORIGIN);
        sampling->client = client;
        pthread_mutex_init(&sampling->lock, NULL);
        *ret_sampling = sampling;
        return 0;
}

void sbx_sampling_free(struct sbx_sampling *sampling) {
        if (sampling == NULL)
                return;
        pthread_mutex_destroy(&sampling->lock);
        free(sampling);
}

void sbx_sampling_model(struct sbx_sampling *sampling, char ret_name[SBX_SAMPLING_MODEL_SIZE]) {
        SBX_LOCKED(&sampling->lock);
        memcpy(ret_name, sampling->model, SBX_SAMPLING_MODEL_SIZE);
}

/* ---- the conversation, as text ---- */

static const char *text_of(const json_t *object, const char *name) {
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL ? text : "";
}

static struct sbx_bytes bytes_of(const json_t *text) {
        return (struct sbx_bytes){json_string_value(text), json_string_length(text)};
}

/* What the model asked for, in the words that it used. */
static int add_action(const json_t *call, struct sbx_buffer *out) {
        const json_t *function = json_object_get(call, "function");
        _cleanup_json_ json_t *arguments = NULL;
        const json_t *code, *answer;
        int r;

        r = sbx_json_parse(bytes_of(json_object_get(function, "arguments")), TEXT_MAX, "arguments", &arguments, NULL);
        if (r < 0)
                return r;
        code = json_object_get(arguments, "code");
        answer = json_object_get(arguments, "answer");
        if (out->size > 0 && sbx_buffer_append_text(out, "\n\n") < 0)
                return -ENOMEM;
        if (json_is_string(code))
                return sbx_text_code(bytes_of(code), out);
        return json_is_string(answer) ? sbx_text_final(bytes_of(answer), out) : 0;
}

static int add_text(const json_t *message, struct sbx_buffer *out) {
        const json_t *content = json_object_get(message, "content"), *calls = json_object_get(message, "tool_calls"),
                     *call;
        size_t index;
        int r = 0;

        if (strcmp(text_of(message, "role"), "tool") == 0)
                r = sbx_buffer_append_text(out, "What came of it:\n");
        if (r == 0 && json_is_string(content))
                r = sbx_buffer_append(out, json_string_value(content), json_string_length(content));
        json_array_foreach (calls, index, call)
                if (r == 0)
                        r = add_action(call, out);
        return r;
}

/* Appends the text as a message of the role, or to the last message if that has the same: some models want roles to
 * take turns. */
static int put_message(json_t *messages, const char *role, struct sbx_bytes text) {
        json_t *last = json_array_get(messages, json_array_size(messages) - 1),
               *content = json_object_get(last, "content");
        _cleanup_buffer_ struct sbx_buffer joined = SBX_BUFFER(TEXT_MAX);
        int r;

        if (last == NULL || strcmp(text_of(last, "role"), role) != 0)
                return json_array_append_new(messages, json_pack("{s:s, s:{s:s, s:o}}", "role", role, "content", "type",
                                                                 "text", "text", sbx_json_text(text)));
        r = sbx_buffer_printf(&joined, "%s\n\n", text_of(content, "text"));
        if (r == 0)
                r = sbx_buffer_append(&joined, text.data, text.size);
        return r < 0 ? r : json_object_set_new(content, "text", sbx_json_text(sbx_buffer_bytes(&joined)));
}

static int convert_messages(const json_t *given, struct sbx_buffer *system, json_t *messages) {
        const json_t *message;
        size_t index;

        json_array_foreach (given, index, message) {
                const char *role = text_of(message, "role");
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX);
                int r;

                if (strcmp(role, "system") == 0) {
                        r = add_text(message, system);
                } else {
                        r = add_text(message, &text);
                        if (r == 0)
                                r = put_message(messages, strcmp(role, "assistant") == 0 ? "assistant" : "user",
                                                sbx_buffer_bytes(&text));
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the request ---- */

/* What of the text protocol the request's tools allow. */
static unsigned actions_of(const json_t *request) {
        const json_t *tools = json_object_get(request, "tools"), *tool;
        unsigned can = 0;
        size_t index;

        json_array_foreach (tools, index, tool) {
                const char *name = text_of(json_object_get(tool, "function"), "name");

                if (strcmp(name, "execute_python") == 0)
                        can |= SBX_TEXT_CAN_CODE;
                else if (strcmp(name, "FINAL") == 0)
                        can |= SBX_TEXT_CAN_FINAL;
        }
        return can;
}

static int make_params(const json_t *request, unsigned can, json_t **ret_params) {
        _cleanup_buffer_ struct sbx_buffer system = SBX_BUFFER(TEXT_MAX);
        _cleanup_json_ json_t *messages = json_array(), *params = NULL;
        const json_t *limit = json_object_get(request, "max_tokens");
        int r;

        if (messages == NULL)
                return -ENOMEM;
        r = convert_messages(json_object_get(request, "messages"), &system, messages);
        if (r == 0)
                r = sbx_text_rules(can, &system);
        if (r < 0)
                return r;
        /* Sense before speed before price; a hint at a model's name would be a guess at what the client has. */
        params = json_pack("{s:O, s:I, s:{s:f, s:f, s:f}}", "messages", messages, "maxTokens",
                           json_is_integer(limit) ? json_integer_value(limit) : (json_int_t)MAX_TOKENS_FALLBACK,
                           "modelPreferences", "intelligencePriority", 0.8, "speedPriority", 0.4, "costPriority", 0.2);
        if (params == NULL || (system.size > 0 && json_object_set_new(params, "systemPrompt",
                                                                      sbx_json_text(sbx_buffer_bytes(&system))) < 0))
                return -ENOMEM;
        *ret_params = steal_pointer(params);
        return 0;
}

static int encode_question(const char *key, json_t *params, struct sbx_buffer *out, struct sbx_error *err) {
        _cleanup_json_ json_t *question =
                json_pack("{s:{s:s, s:O}}", key, "method", "sampling/createMessage", "params", params);
        int r = question != NULL ? sbx_json_encode(question, out) : -ENOMEM;

        if (r == -EFBIG)
                return sbx_error_set(
                        err, -E2BIG, ORIGIN, "Ask for less output, or keep data in variables of the session.",
                        "the conversation is larger than the %zu MiB that a client is sent", ASKED_MAX >> 20);
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

/* ---- the answer ---- */

static int unreadable(struct sbx_error *err, const char *what) {
        return sbx_error_set(err, -EBADMSG, ORIGIN, "Configure a provider of your own (backend, model, api_key).",
                             "the answer of the client's model can't be read: %s", what);
}

static int add_block(const json_t *block, struct sbx_buffer *out) {
        const json_t *text = json_object_get(block, "text");

        if (strcmp(text_of(block, "type"), "text") != 0 || !json_is_string(text))
                return -EBADMSG;
        return sbx_buffer_append(out, json_string_value(text), json_string_length(text));
}

/* The content is a block, or since revision 2025-11-25 a list of blocks; all of it must be text. */
static int read_text(const json_t *result, struct sbx_buffer *raw, struct sbx_buffer *out, struct sbx_error *err) {
        const json_t *content = json_object_get(result, "content"), *block;
        size_t index;
        int r = 0;

        if (json_is_object(content))
                r = add_block(content, raw);
        else if (!json_is_array(content))
                r = -EBADMSG;
        json_array_foreach (content, index, block)
                if (r == 0)
                        r = add_block(block, raw);
        if (r == -EBADMSG)
                return unreadable(err, "its content is not text");
        if (r == 0)
                r = sbx_utf8_repair(sbx_buffer_bytes(raw), true, out);
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static const char *finish_reason(const json_t *result, const struct sbx_text_action *action) {
        if (action->kind != SBX_TEXT_ONLY)
                return "tool_calls";
        return strcmp(text_of(result, "stopReason"), "maxTokens") == 0 ? "length" : "stop";
}

/* The one tool call that the action is; NULL: out of memory. */
static json_t *make_calls(const struct sbx_text_action *action, unsigned number) {
        bool code = action->kind == SBX_TEXT_CODE;
        _cleanup_json_ json_t *arguments = json_pack("{s:o}", code ? "code" : "answer", sbx_json_text(action->body));
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(2 * TEXT_MAX);
        char id[KEY_SIZE];

        if (arguments == NULL || sbx_json_encode(arguments, &text) < 0)
                return NULL;
        snprintf(id, sizeof(id), "text-%u", number);
        return json_pack("[{s:s, s:s, s:{s:s, s:s}}]", "id", id, "type", "function", "function", "name",
                         code ? "execute_python" : "FINAL", "arguments", text.data);
}

static int write_response(const json_t *result, const struct sbx_text_action *action, unsigned number,
                          size_t asked_bytes, size_t answered_bytes, struct sbx_output *ret_response,
                          struct sbx_error *err) {
        _cleanup_json_ json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content",
                                                   sbx_json_text(action->before)),
                              *response = NULL;
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_RESPONSE_MAX);

        if (message == NULL || (action->kind != SBX_TEXT_ONLY &&
                                json_object_set_new(message, "tool_calls", make_calls(action, number)) < 0))
                return SBX_NOMEM(err, ORIGIN);
        /* MCP tells no tokens: these are estimates, and said to be. No price is told either, so none is known. */
        response = json_pack("{s:O?, s:[{s:O, s:s}], s:{s:I, s:I, s:b}}", "model", json_object_get(result, "model"),
                             "choices", "message", message, "finish_reason", finish_reason(result, action), "usage",
                             "prompt_tokens", (json_int_t)sbx_tokens_estimate(asked_bytes), "completion_tokens",
                             (json_int_t)sbx_tokens_estimate(answered_bytes), "estimated", 1);
        if (response == NULL || sbx_json_encode(response, &text) < 0 ||
            sbx_output_append(ret_response, text.data, text.size) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return 0;
}

/* ---- asking, with the lock ---- */

static void note_model(struct sbx_sampling *sampling, const json_t *result) {
        struct sbx_bytes name = bytes_of(json_object_get(result, "model"));

        if (name.data == NULL)
                return;
        name.size = strnlen(name.data, sbx_utf8_cut(name, SBX_SAMPLING_MODEL_SIZE - 1));
        memcpy(sampling->model, name.data, name.size);
        sampling->model[name.size] = '\0';
}

static int check_junk(struct sbx_sampling *sampling, const struct sbx_text_action *action, bool must_act,
                      struct sbx_error *err) {
        if (!must_act)
                return 0;
        sampling->junk = action->kind == SBX_TEXT_ONLY ? sampling->junk + 1 : 0;
        if (sampling->junk < SBX_SAMPLING_JUNK_MAX)
                return 0;
        return sbx_error_set(err, -EBADMSG, ORIGIN, "Configure a provider of your own (backend, model, api_key).",
                             "the client's model does not keep to the form: %u answers in a row had neither a "
                             "```python block nor a line FINAL:",
                             sampling->junk);
}

static int ask_client(const struct sbx_sampling *sampling, struct sbx_bytes question, const char *key,
                      const struct sbx_call *call, json_t **ret_answers, const json_t **ret_result,
                      struct sbx_error *err) {
        struct sbx_output *output = NULL;
        struct sbx_error problem = {0};
        int r = sbx_output_new(ANSWER_MAX, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        r = sampling->client->ask(sampling->client->data, question, call, output, &problem);
        if (r < 0) {
                sbx_error_set(&problem, r, ORIGIN, NULL, "%s", SBX_ERRNO_TEXT(r));
                sbx_error_wrap(&problem, r == -EACCES ? "the client refused to ask its model"
                                                      : "the client's model can't be asked");
                if (err != NULL && err->code == 0)
                        *err = problem;
        } else if (sbx_json_parse(sbx_output_bytes(output), ANSWER_MAX, "answer", ret_answers, &problem) < 0)
                r = unreadable(err, problem.message);
        sbx_output_free(output);
        if (r < 0)
                return r;
        *ret_result = json_object_get(*ret_answers, key);
        return json_is_object(*ret_result) ? 0 : unreadable(err, "it is missing");
}

static int ask_locked(struct sbx_sampling *sampling, const json_t *request, bool must_act, const struct sbx_call *call,
                      struct sbx_output *ret_response, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer question = SBX_BUFFER(ASKED_MAX), raw = SBX_BUFFER(ANSWER_MAX),
                                           text = SBX_BUFFER(4 * ANSWER_MAX);
        _cleanup_json_ json_t *params = NULL, *answers = NULL;
        unsigned can = actions_of(request);
        const json_t *result = NULL;
        struct sbx_text_action action;
        char key[KEY_SIZE];
        int r = make_params(request, can, &params);

        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the request can't be put together: %s", SBX_ERRNO_TEXT(r));
        snprintf(key, sizeof(key), "completion-%u", ++sampling->asked);
        r = encode_question(key, params, &question, err);
        if (r == 0)
                r = ask_client(sampling, sbx_buffer_bytes(&question), key, call, &answers, &result, err);
        if (r == 0)
                r = read_text(result, &raw, &text, err);
        if (r < 0)
                return r;
        note_model(sampling, result);
        sbx_text_action_find((struct sbx_bytes){text.size > 0 ? text.data : "", text.size}, can, &action);
        r = check_junk(sampling, &action, must_act, err);
        return r < 0 ? r
                     : write_response(result, &action, sampling->asked, question.size, text.size, ret_response, err);
}

int sbx_sampling_complete(struct sbx_sampling *sampling, struct sbx_bytes request, bool must_act,
                          const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        _cleanup_json_ json_t *parsed = NULL;
        int r = sbx_json_parse(request, REQUEST_MAX, "request", &parsed, err);

        if (r < 0)
                return r;
        SBX_LOCKED(&sampling->lock);
        r = sbx_call_ended(call); /* while it waited for another's answer */
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "%s", r == -ECANCELED ? "cancelled" : "the time is up");
        return ask_locked(sampling, parsed, must_act, call, ret_response, err);
}
