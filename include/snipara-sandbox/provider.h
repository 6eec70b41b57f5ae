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

struct sbx_provider_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* `request` is a chat-completions request object; the response object goes to `ret_response`. `events` may
         * be NULL: then nothing is streamed. Calls run in parallel. */
        int (*complete)(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                        const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
