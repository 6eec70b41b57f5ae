/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of a model, whatever API it came over, as it is put together. One thread. */
#pragma once

#include "json.h"

#define LLM_CALLS_MAX 256 /* tool calls of one answer */

struct llm_tool_call {
        char *id, *name;           /* NULL: none was given */
        struct llm_text arguments; /* as the model wrote them, JSON or not */
        int64_t index;             /* in the stream */
};

struct llm_usage {
        bool known;
        int64_t prompt, completion, cached; /* `cached` of `prompt` came out of a cache */
        bool has_cost;
        double cost_usd; /* as the provider says */
};

struct llm_answer {
        char *id, *model; /* NULL: not said */
        struct llm_text content;
        bool has_content;
        struct llm_tool_call calls[LLM_CALLS_MAX];
        size_t call_count;
        const char *finish; /* "stop", "length", "tool_calls", "content_filter"; NULL: not yet */
        struct llm_usage usage;
        bool ended; /* the stream said so */
};

int llm_answer_new(size_t max_bytes, struct llm_answer **ret_answer);
void llm_answer_free(struct llm_answer *answer); /* NULL is fine */

/* Takes a copy of a string member, unless it is there already. -ENOMEM. */
int llm_answer_keep(char **member, const json_t *object, const char *key);
/* Appends text to the content. -EFBIG, -ENOMEM. */
int llm_answer_say(struct llm_answer *answer, const char *text, size_t size);
/* A new tool call; the strings may be NULL. -EBADMSG: more than LLM_CALLS_MAX; -ENOMEM. */
int llm_answer_add_call(struct llm_answer *answer, int64_t index, const char *id, const char *name,
                        struct llm_tool_call **ret_call);
/* What a provider calls the end, in the words of chat completions; NULL: it says nothing. */
void llm_answer_set_finish(struct llm_answer *answer, const char *reason);

/* The chat-completions response, usage and cost included. Calls without an id get one, and arguments that are empty
 * become
 * "{}"; all else is as the model said it. `cost_usd` negative: unknown. Returns out->error. */
int llm_answer_encode(const struct llm_answer *answer, const char *model, bool estimated, double cost_usd,
                      struct llm_text *out);
