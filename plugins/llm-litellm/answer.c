/* SPDX-License-Identifier: Apache-2.0 */
/* The answer that all APIs are brought to, and its form as a chat-completions response. */
#include "answer.h"

#include <strings.h>

#include "util.h"

int llm_answer_new(size_t max_bytes, struct llm_answer **ret_answer) {
        struct llm_answer *answer = calloc(1, sizeof(*answer));

        if (answer == NULL)
                return -ENOMEM;
        answer->content.max = max_bytes;
        *ret_answer = answer;
        return 0;
}

void llm_answer_free(struct llm_answer *answer) {
        if (answer == NULL)
                return;
        free(answer->id);
        free(answer->model);
        llm_text_free(&answer->content);
        for (size_t i = 0; i < answer->call_count; i++) {
                free(answer->calls[i].id);
                free(answer->calls[i].name);
                llm_text_free(&answer->calls[i].arguments);
        }
        free(answer);
}

int llm_answer_keep(char **member, const json_t *object, const char *key) {
        const char *text = llm_json_string(object, key);

        if (text == NULL || *member != NULL)
                return 0;
        *member = strdup(text);
        return *member != NULL ? 0 : -ENOMEM;
}

int llm_answer_say(struct llm_answer *answer, const char *text, size_t size) {
        answer->has_content = true;
        return llm_text_append(&answer->content, text, size);
}

int llm_answer_add_call(struct llm_answer *answer, int64_t index, const char *id, const char *name,
                        struct llm_tool_call **ret_call) {
        struct llm_tool_call *call = &answer->calls[answer->call_count];

        if (answer->call_count == LLM_CALLS_MAX)
                return -EBADMSG;
        *call = (struct llm_tool_call){.index = index, .arguments = LLM_TEXT(answer->content.max)};
        call->id = id != NULL && id[0] != '\0' ? strdup(id) : NULL;
        call->name = name != NULL ? strdup(name) : NULL;
        answer->call_count++;
        if ((id != NULL && id[0] != '\0' && call->id == NULL) || (name != NULL && call->name == NULL))
                return -ENOMEM;
        *ret_call = call;
        return 0;
}

void llm_answer_set_finish(struct llm_answer *answer, const char *reason) {
        static const struct {
                const char *said, *meant;
        } words[] = {
                {"stop", "stop"},
                {"end_turn", "stop"},
                {"stop_sequence", "stop"},
                {"pause_turn", "stop"},
                {"eos", "stop"},
                {"length", "length"},
                {"max_tokens", "length"},
                {"model_length", "length"},
                {"model_context_window_exceeded", "length"},
                {"tool_calls", "tool_calls"},
                {"tool_use", "tool_calls"},
                {"function_call", "tool_calls"},
                {"content_filter", "content_filter"},
                {"refusal", "content_filter"},
                {"safety", "content_filter"},
        };

        if (reason == NULL || reason[0] == '\0')
                return;
        answer->finish = "stop"; /* a word that nobody knows: what matters is that it is over */
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strcasecmp(words[i].said, reason) == 0)
                        answer->finish = words[i].meant;
}

/* ---- the response ---- */

static void encode_string(const char *text, size_t size, struct llm_text *out) {
        _cleanup_json_ json_t *value = json_stringn(text, size);

        llm_json_encode(value, out);
}

static void encode_calls(const struct llm_answer *answer, struct llm_text *out) {
        for (size_t i = 0; i < answer->call_count; i++) {
                const struct llm_tool_call *call = &answer->calls[i];
                const char *name = call->name != NULL ? call->name : "";

                llm_text_literal(out, i > 0 ? ",{\"id\":" : "{\"id\":");
                if (call->id != NULL)
                        encode_string(call->id, strlen(call->id), out);
                else
                        llm_text_printf(out, "\"call_%zu\"", i);
                llm_text_literal(out, ",\"type\":\"function\",\"function\":{\"name\":");
                encode_string(name, strlen(name), out);
                llm_text_literal(out, ",\"arguments\":");
                if (call->arguments.size > 0)
                        encode_string(call->arguments.data, call->arguments.size, out);
                else
                        llm_text_literal(out, "\"{}\"");
                llm_text_literal(out, "}}");
        }
}

static void encode_usage(const struct llm_usage *usage, bool estimated, double cost_usd, struct llm_text *out) {
        _cleanup_json_ json_t *cost = cost_usd >= 0 ? json_real(cost_usd) : json_null();
        long long total = usage->prompt + usage->completion;

        llm_text_printf(out, ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld",
                        (long long)usage->prompt, (long long)usage->completion, total);
        if (usage->cached > 0)
                llm_text_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%lld}", (long long)usage->cached);
        if (estimated)
                llm_text_literal(out, ",\"estimated\":true");
        llm_text_literal(out, ",\"cost_usd\":");
        llm_json_encode(cost, out);
        llm_text_literal(out, "}");
}

int llm_answer_encode(const struct llm_answer *answer, const char *model, bool estimated, double cost_usd,
                      struct llm_text *out) {
        const char *id = answer->id != NULL ? answer->id : "", *finish = answer->finish;

        /* Some providers end with "stop" after tool calls, and a cut answer stays cut. */
        if (answer->call_count > 0 && (finish == NULL || strcmp(finish, "stop") == 0))
                finish = "tool_calls";
        else if (answer->call_count == 0 && (finish == NULL || strcmp(finish, "tool_calls") == 0))
                finish = "stop";
        if (answer->model != NULL)
                model = answer->model;
        llm_text_literal(out, "{\"id\":");
        encode_string(id, strlen(id), out);
        llm_text_printf(out, ",\"object\":\"chat.completion\",\"created\":%lld,\"model\":", (long long)time(NULL));
        encode_string(model, strlen(model), out);
        llm_text_literal(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
        if (answer->has_content && (answer->content.size > 0 || answer->call_count == 0))
                encode_string(answer->content.size > 0 ? answer->content.data : "", answer->content.size, out);
        else
                llm_text_literal(out, "null");
        if (answer->call_count > 0) {
                llm_text_literal(out, ",\"tool_calls\":[");
                encode_calls(answer, out);
                llm_text_literal(out, "]");
        }
        llm_text_printf(out, "},\"finish_reason\":\"%s\"}]", finish);
        encode_usage(&answer->usage, estimated, cost_usd, out);
        return llm_text_literal(out, "}");
}
