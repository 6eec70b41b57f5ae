/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a tool: credential, request, answer, and asking again where that is safe. */
#pragma once

#include "answer.h"

/* An instance of the plugin. Nothing in it changes after open(), but for what has a lock of its own. */
struct snipara {
        const struct sbx_host *host;
        struct sbx_http *http;
        struct snipara_credentials *credentials;
        char *base;
        uint64_t timeout_ms;
        unsigned retries;
        size_t text_max;
};

/* Any thread. 0: `*ret_result` is what the tool answers. -EBADMSG: it came to nothing, and `failure` says why.
 * -ECANCELED, -ETIMEDOUT (the call's own deadline), -ENOMEM: `err` says it. `arguments` is changed to what goes out. */
int snipara_ask(struct snipara *snipara, const struct snipara_tool *tool, json_t *arguments,
                const struct sbx_call *call, json_t **ret_result, struct snipara_failure *failure,
                struct sbx_error *err);
