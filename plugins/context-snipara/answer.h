/* SPDX-License-Identifier: Apache-2.0 */
/* What the service answered, as the result of a tool: its content, or a failure that says what to do. Pure functions.
 */
#pragma once

#include <jansson.h>

#include "credentials.h"
#include "http.h"
#include "tools.h"

/* Why a call came to nothing. It becomes a result with isError, for the model to read, and with the facts for programs:
 * "_meta": {"snipara-sandbox/error": {"kind", "http_status", "retry_after_ms"}}. */
struct snipara_failure {
        const char *kind; /* "unauthorized", "forbidden", "not_found", "rate_limited", "server_error", "refused",
                           * "invalid_answer", "too_large", "timeout", "unreachable", "no_credentials", "arguments" */
        unsigned status;  /* of HTTP; 0: none */
        uint64_t retry_after_ms;
        struct sbx_error error; /* message and hint */
};

/* Sets kind, message and hint; returns -EBADMSG. */
int snipara_fail(struct snipara_failure *failure, const char *kind, const char *hint, const char *format, ...)
        SBX_PRINTF(4, 5);
/* The result for a failure; NULL: no memory. */
json_t *snipara_failure_result(const struct snipara_failure *failure);

struct snipara_question {
        const struct snipara_tool *tool;
        const struct snipara_credential *credential; /* what must not come back, and what an error speaks of */
        size_t text_max;                             /* bytes of a result's text */
};
/* 0: the result; -ENOMEM; -EBADMSG: `failure` says it all. */
int snipara_answer_read(const struct snipara_question *question, const struct sbx_http_response *response,
                        json_t **ret_result, struct snipara_failure *failure);
