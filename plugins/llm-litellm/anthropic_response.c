/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of Anthropic's Messages API, whole and streamed. */
#include "dialect.h"
#include "util.h"

static void take_usage(struct llm_answer *answer, const json_t *usage) {
        struct llm_usage *found = &answer->usage;
        int64_t fresh, written = 0, cached = 0;

        if (!json_is_object(usage))
                return;
        llm_json_count(usage, "cache_creation_input_tokens", &written);
        llm_json_count(usage, "cache_read_input_tokens", &cached);
        if (llm_json_count(usage, "input_tokens", &fresh)) {
                found->prompt = fresh + written + cached;
                found->cached = cached;
                found->known = true;
        }
        llm_json_count(usage, "output_tokens", &found->completion); /* in a stream each count is the whole */
}

static bool is_answer_tool(const json_t *block, bool wants_json) {
        const char *name = llm_json_string(block, "name");

        return wants_json && name != NULL && strcmp(name, LLM_ANSWER_TOOL) == 0;
}

static int say_json(struct llm_answer *answer, const json_t *value) {
        answer->has_content = true;
        llm_text_clear(&answer->content); /* what it said before calling the tool is not the answer */
        return llm_json_encode(value, &answer->content);
}

static int take_block(struct llm_answer *answer, const json_t *block, size_t index, bool wants_json, bool *answered) {
        const char *type = llm_json_string(block, "type");
        const json_t *text = json_object_get(block, "text"), *input = json_object_get(block, "input");
        struct llm_tool_call *call;
        int r;

        if (type == NULL)
                return -EBADMSG;
        if (strcmp(type, "text") == 0)
                return json_is_string(text) && !*answered
                               ? llm_answer_say(answer, json_string_value(text), json_string_length(text))
                               : 0;
        if (strcmp(type, "tool_use") != 0)
                return 0; /* thinking, and what else may come */
        if (is_answer_tool(block, wants_json)) {
                *answered = true;
                return say_json(answer, input);
        }
        r = llm_answer_add_call(answer, (int64_t)index, llm_json_string(block, "id"), llm_json_string(block, "name"),
                                &call);
        return r < 0 || input == NULL ? r : llm_json_encode(input, &call->arguments);
}

static int take_names(struct llm_answer *answer, const json_t *message) {
        int r = llm_answer_keep(&answer->id, message, "id");

        return r < 0 ? r : llm_answer_keep(&answer->model, message, "model");
}

int llm_anthropic_decode(const json_t *body, bool wants_json, struct llm_answer *answer) {
        const json_t *content = json_object_get(body, "content"), *block;
        bool answered = false;
        size_t index;
        int r;

        if (!json_is_array(content))
                return -EBADMSG;
        r = take_names(answer, body);
        json_array_foreach (content, index, block)
                if (r == 0)
                        r = take_block(answer, block, index, wants_json, &answered);
        take_usage(answer, json_object_get(body, "usage"));
        llm_answer_set_finish(answer, llm_json_string(body, "stop_reason"));
        answer->ended = true;
        return r;
}

/* ---- streamed: each event becomes a chunk of chat completions for whoever watches ---- */

static int tell(struct llm_stream *stream, json_t *delta, const char *finish) {
        const struct llm_answer *answer = stream->answer;
        _cleanup_text_ struct llm_text text = LLM_TEXT(SIZE_MAX / 4);
        _cleanup_json_ json_t *chunk =
                json_pack("{s:s, s:s, s:i, s:s, s:[{s:i, s:o, s:s?}]}", "id", answer->id != NULL ? answer->id : "",
                          "object", "chat.completion.chunk", "created", (int)time(NULL), "model",
                          answer->model != NULL ? answer->model : stream->route->name, "choices", "index", 0, "delta",
                          delta, "finish_reason", finish);

        if (chunk == NULL || llm_json_encode(chunk, &text) < 0)
                return -ENOMEM;
        llm_stream_tell(stream, llm_text_bytes(&text));
        return 0;
}

static int tell_text(struct llm_stream *stream, const char *text, size_t size) {
        return stream->events == NULL ? 0 : tell(stream, json_pack("{s:s%}", "content", text, size), NULL);
}

static int tell_call(struct llm_stream *stream, const struct llm_tool_call *call, const char *arguments, size_t size,
                     bool first) {
        size_t number = (size_t)(call - stream->answer->calls);

        if (stream->events == NULL)
                return 0;
        if (first)
                return tell(stream,
                            json_pack("{s:[{s:i, s:s?, s:s, s:{s:s?, s:s}}]}", "tool_calls", "index", (int)number, "id",
                                      call->id, "type", "function", "function", "name", call->name, "arguments", ""),
                            NULL);
        return tell(stream,
                    json_pack("{s:[{s:i, s:{s:s%}}]}", "tool_calls", "index", (int)number, "function", "arguments",
                              arguments, size),
                    NULL);
}

static struct llm_tool_call *find_call(struct llm_answer *answer, int64_t index) {
        for (size_t i = answer->call_count; i-- > 0;)
                if (answer->calls[i].index == index)
                        return &answer->calls[i];
        return NULL;
}

static int start_block(struct llm_stream *stream, int64_t index, const json_t *block) {
        const char *type = llm_json_string(block, "type");
        const json_t *text = json_object_get(block, "text"), *input = json_object_get(block, "input");
        struct llm_tool_call *call;
        int r;

        if (type != NULL && strcmp(type, "text") == 0 && json_string_length(text) > 0 && stream->answer_block < 0) {
                r = llm_answer_say(stream->answer, json_string_value(text), json_string_length(text));
                return r < 0 ? r : tell_text(stream, json_string_value(text), json_string_length(text));
        }
        if (type == NULL || strcmp(type, "tool_use") != 0)
                return 0;
        if (is_answer_tool(block, stream->wants_json)) {
                stream->answer_block = index;
                stream->answer->has_content = true;
                llm_text_clear(&stream->answer->content);
                return 0;
        }
        r = llm_answer_add_call(stream->answer, index, llm_json_string(block, "id"), llm_json_string(block, "name"),
                                &call);
        if (r == 0)
                r = tell_call(stream, call, "", 0, true);
        if (r < 0 || json_object_size(input) == 0)
                return r;
        r = llm_json_encode(input, &call->arguments); /* whole at once, as some servers do */
        return r < 0 ? r : tell_call(stream, call, call->arguments.data, call->arguments.size, false);
}

static int grow_block(struct llm_stream *stream, int64_t index, const json_t *delta) {
        const char *type = llm_json_string(delta, "type");
        const json_t *text = json_object_get(delta, "text"), *part = json_object_get(delta, "partial_json");
        struct llm_tool_call *call;
        int r;

        if (type != NULL && strcmp(type, "text_delta") == 0 && json_is_string(text) && stream->answer_block < 0) {
                r = llm_answer_say(stream->answer, json_string_value(text), json_string_length(text));
                return r < 0 ? r : tell_text(stream, json_string_value(text), json_string_length(text));
        }
        if (type == NULL || strcmp(type, "input_json_delta") != 0 || !json_is_string(part))
                return 0;
        if (index == stream->answer_block) {
                r = llm_answer_say(stream->answer, json_string_value(part), json_string_length(part));
                return r < 0 ? r : tell_text(stream, json_string_value(part), json_string_length(part));
        }
        call = find_call(stream->answer, index);
        if (call == NULL)
                return -EBADMSG;
        r = llm_text_append(&call->arguments, json_string_value(part), json_string_length(part));
        return r < 0 ? r : tell_call(stream, call, json_string_value(part), json_string_length(part), false);
}

static int end_message(struct llm_stream *stream, const json_t *event) {
        struct llm_answer *answer = stream->answer;

        take_usage(answer, json_object_get(event, "usage"));
        llm_answer_set_finish(answer, llm_json_string(json_object_get(event, "delta"), "stop_reason"));
        if (answer->finish == NULL || stream->events == NULL)
                return 0;
        return tell(stream, json_object(),
                    answer->call_count == 0 && strcmp(answer->finish, "tool_calls") == 0 ? "stop" : answer->finish);
}

int llm_anthropic_event(struct llm_stream *stream, const json_t *event, struct sbx_bytes raw) {
        const char *type = llm_json_string(event, "type");
        const json_t *message = json_object_get(event, "message");
        int64_t index = 0;
        int r;

        if (type == NULL)
                return -EBADMSG;
        llm_json_count(event, "index", &index);
        if (strcmp(type, "error") == 0) {
                json_decref(stream->error);
                stream->error = json_incref((json_t *)event);
                return -EREMOTEIO;
        }
        if (strcmp(type, "message_start") == 0) {
                r = take_names(stream->answer, message);
                take_usage(stream->answer, json_object_get(message, "usage"));
                return r;
        }
        if (strcmp(type, "content_block_start") == 0)
                return start_block(stream, index, json_object_get(event, "content_block"));
        if (strcmp(type, "content_block_delta") == 0)
                return grow_block(stream, index, json_object_get(event, "delta"));
        if (strcmp(type, "message_delta") == 0)
                return end_message(stream, event);
        if (strcmp(type, "message_stop") == 0)
                stream->answer->ended = true;
        return 0; /* ping, content_block_stop, and what else may come */
}
