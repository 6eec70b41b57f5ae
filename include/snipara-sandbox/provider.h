/* SPDX-License-Identifier: Apache-2.0 */
/* Provider plugins: answer chat completions, in the shape of the OpenAI chat-completions API. */
#ifndef SNIPARA_SANDBOX_PROVIDER_H
#define SNIPARA_SANDBOX_PROVIDER_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_provider_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        /* One streamed `chat.completion.chunk`, as JSON. Called by the thread that called complete(). */
        void (*delta)(void *data, struct sbx_bytes chunk);
};

/* The request: a chat-completions request object of the OpenAI API: "model" (provider/model), "messages", and where they
 * apply "tools", "tool_choice", "temperature", "max_tokens", "stop", "response_format". "stream" is not in it: `events`
 * says whether deltas are wanted.
 *
 * The response: a chat-completions object: "model", "choices": [{"message": {"role": "assistant", "content": text or
 * null, "tool_calls": [{"id", "type": "function", "function": {"name", "arguments": JSON text}}]}, "finish_reason":
 * "stop" | "length" | "tool_calls" | "content_filter"}], "usage": {"prompt_tokens", "completion_tokens",
 * "total_tokens"}. A provider that streamed puts the whole together. Beyond the API: usage.cost_usd, a number, or null
 * (or absent) when the price is not known; usage.estimated: true when the provider counted the tokens itself.
 *
 * Errors: -EACCES (key refused or missing), -ENOENT (unknown model), -E2BIG (the context is too long), -EDQUOT (quota or
 * credit used up), -EAGAIN (rate limit, after the retries), -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET (no connection, or
 * it broke), -EREMOTEIO (5xx after the retries), -EBADMSG (an answer that can't be read), -EINVAL (request refused),
 * -EFBIG (answer too large), -ETIMEDOUT, -ECANCELED. */
struct sbx_provider_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* `request` is a chat-completions request object; the response object goes to `ret_response`. `events` may
         * be NULL: then nothing is streamed. Calls run in parallel. */
        int (*complete)(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                        const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err);
        /* Since ABI 1.2; may be NULL. Whether a request for that model could be sent at all: 0, -EACCES (a key is needed
         * and there is none), or as complete. Says nothing of whether it would be answered: never connects, never
         * waits. */
        int (*available)(void *instance, const char *model, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
