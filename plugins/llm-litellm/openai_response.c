/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of OpenAI-compatible APIs, whole and streamed. */
#include "dialect.h"
#include "util.h"

/* Text, or an array of parts with text in them. */
static int take_content(struct llm_answer *answer, const json_t *content) {
        const json_t *part;
        size_t index;
        int r = 0;

        if (json_is_string(content))
                return llm_answer_say(answer, json_string_value(content), json_string_length(content));
        json_array_foreach (content, index, part) {
                const json_t *text = json_object_get(part, "text");

                if (r == 0 && json_is_string(text))
                        r = llm_answer_say(answer, json_string_value(text), json_string_length(text));
        }
        return r;
}

static void take_usage(struct llm_answer *answer, const json_t *usage) {
        struct llm_usage found = {.known = true};
        const json_t *cost = json_object_get(usage, "cost");

        if (!json_is_object(usage) || !llm_json_count(usage, "prompt_tokens", &found.prompt))
                return;
        if (!llm_json_count(usage, "completion_tokens", &found.completion))
                return;
        if (!llm_json_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &found.cached) &&
            !llm_json_count(usage, "prompt_cache_hit_tokens", &found.cached)) /* DeepSeek's name for it */
                found.cached = 0;
        if (found.cached > found.prompt)
                found.cached = found.prompt;
        if (json_is_number(cost) && json_number_value(cost) >= 0) {
                found.has_cost = true;
                found.cost_usd = json_number_value(cost);
        }
        answer->usage = found;
}

/* Arguments are JSON in a string; some servers send the object itself. */
static int take_arguments(struct llm_tool_call *call, const json_t *arguments) {
        if (json_is_string(arguments))
                return llm_text_append(&call->arguments, json_string_value(arguments), json_string_length(arguments));
        return json_is_object(arguments) ? llm_json_encode(arguments, &call->arguments) : 0;
}

static int take_calls(struct llm_answer *answer, const json_t *calls) {
        const json_t *call;
        size_t index;

        json_array_foreach (calls, index, call) {
                const json_t *function = json_object_get(call, "function");
                struct llm_tool_call *added = NULL;
                int r = llm_answer_add_call(answer, (int64_t)index, llm_json_string(call, "id"),
                                            llm_json_string(function, "name"), &added);

                if (r == 0)
                        r = take_arguments(added, json_object_get(function, "arguments"));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int take_names(struct llm_answer *answer, const json_t *body) {
        int r = llm_answer_keep(&answer->id, body, "id");

        return r < 0 ? r : llm_answer_keep(&answer->model, body, "model");
}

int llm_openai_decode(const json_t *body, bool wants_json, struct llm_answer *answer) {
        const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
        const json_t *message = json_object_get(choice, "message"), *refusal = json_object_get(message, "refusal");
        int r;

        if (!json_is_object(message))
                return -EBADMSG;
        r = take_names(answer, body);
        if (r == 0)
                r = take_content(answer, json_object_get(message, "content"));
        if (r == 0 && !answer->has_content && json_is_string(refusal))
                r = take_content(answer, refusal);
        if (r == 0)
                r = take_calls(answer, json_object_get(message, "tool_calls"));
        take_usage(answer, json_object_get(body, "usage"));
        llm_answer_set_finish(answer, llm_json_string(choice, "finish_reason"));
        answer->ended = true;
        return r;
}

/* ---- streamed ---- */

/* The call that a fragment belongs to: that of its index, unless it brings another id, as servers do that number every
 * call 0; without an index, the last one. */
static struct llm_tool_call *find_call(struct llm_answer *answer, const json_t *fragment, const char *id) {
        int64_t index;
        bool has_index = llm_json_count(fragment, "index", &index);

        for (size_t i = answer->call_count; i-- > 0;) {
                struct llm_tool_call *call = &answer->calls[i];

                if (has_index && call->index != index)
                        continue;
                return id == NULL || id[0] == '\0' || call->id == NULL || strcmp(call->id, id) == 0 ? call : NULL;
        }
        return NULL;
}

static int take_fragment(struct llm_answer *answer, const json_t *fragment) {
        const json_t *function = json_object_get(fragment, "function");
        const char *id = llm_json_string(fragment, "id"), *name = llm_json_string(function, "name");
        struct llm_tool_call *call = find_call(answer, fragment, id);
        int64_t index = (int64_t)answer->call_count;

        if (call == NULL) {
                int r;

                llm_json_count(fragment, "index", &index);
                r = llm_answer_add_call(answer, index, id, name, &call);
                if (r < 0)
                        return r;
        } else if ((call->id == NULL && llm_answer_keep(&call->id, fragment, "id") < 0) ||
                   (call->name == NULL && llm_answer_keep(&call->name, function, "name") < 0))
                return -ENOMEM;
        return take_arguments(call, json_object_get(function, "arguments"));
}

int llm_openai_event(struct llm_stream *stream, const json_t *event, struct sbx_bytes raw) {
        struct llm_answer *answer = stream->answer;
        const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        const json_t *delta = json_object_get(choice, "delta"), *fragment;
        size_t index;
        int r;

        if (json_is_object(json_object_get(event, "error")) || json_is_string(json_object_get(event, "error"))) {
                json_decref(stream->error);
                stream->error = json_incref((json_t *)event);
                return -EREMOTEIO;
        }
        if (!json_is_array(json_object_get(event, "choices")))
                return 0; /* some servers send chunks of their own beside */
        r = take_names(answer, event);
        if (r == 0)
                r = take_content(answer, json_object_get(delta, "content"));
        json_array_foreach (json_object_get(delta, "tool_calls"), index, fragment)
                if (r == 0)
                        r = take_fragment(answer, fragment);
        take_usage(answer, json_object_get(event, "usage"));
        llm_answer_set_finish(answer, llm_json_string(choice, "finish_reason"));
        if (r == 0 && choice != NULL)
                llm_stream_tell(stream, raw);
        return r;
}
