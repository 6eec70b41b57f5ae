/* SPDX-License-Identifier: Apache-2.0 */
/* An API that models are asked over: requests into it, answers out of it. Two of them: OpenAI's chat completions and
 * Anthropic's messages. */
#pragma once

#include <snipara-sandbox/provider.h>

#include "answer.h"
#include "route.h"

/* How a request is to be sent. */
struct llm_manner {
        bool stream;
        bool has_temperature; /* the program's; used if the request has none */
        double temperature;
        /* Learned from a refusal: some models want these otherwise, and say so. */
        bool no_temperature;
        bool completion_tokens;
};

/* A streamed answer under way. */
struct llm_stream {
        struct llm_answer *answer;
        const struct sbx_provider_events *events;
        const struct llm_route *route;
        bool wants_json;      /* the answer comes as arguments of LLM_ANSWER_TOOL */
        int64_t answer_block; /* which block of the stream that is; -1: none yet */
        bool told;            /* something reached the caller */
        json_t *error;        /* the server reported one within the stream; owned */
};
/* Hands a chunk to the caller. */
void llm_stream_tell(struct llm_stream *stream, struct sbx_bytes chunk);

struct llm_dialect {
        /* Appends the body. -EINVAL with an error: the request has no messages, or such that the API has no form for.
         */
        int (*encode)(const json_t *request, const struct llm_route *route, const struct llm_manner *manner,
                      struct llm_text *body, struct sbx_error *err);
        /* A whole answer. -EBADMSG: not an answer of this API; -ENOMEM, -EFBIG. */
        int (*decode)(const json_t *body, bool wants_json, struct llm_answer *answer);
        /* One event of a stream, as JSON. The same errors, or -EREMOTEIO: stream->error is set. */
        int (*event)(struct llm_stream *stream, const json_t *event, struct sbx_bytes raw);
};
extern const struct llm_dialect llm_openai, llm_anthropic;

int llm_openai_decode(const json_t *body, bool wants_json, struct llm_answer *answer);
int llm_openai_event(struct llm_stream *stream, const json_t *event, struct sbx_bytes raw);
int llm_anthropic_decode(const json_t *body, bool wants_json, struct llm_answer *answer);
int llm_anthropic_event(struct llm_stream *stream, const json_t *event, struct sbx_bytes raw);

/* Anthropic's API gets a JSON schema as a tool of this name, which the model must call. */
#define LLM_ANSWER_TOOL "answer_in_json"
bool llm_wants_json_tool(const json_t *request);
