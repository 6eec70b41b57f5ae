/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of the built-in parts: values that begin as what was typed, and ids of sessions. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/types.h>

#define SBX_COMPLETION_VALUES_MAX 100u /* MCP: completion/complete */

struct sbx_completion {
        json_t *values; /* NULL: none so far */
        size_t total;
};
#define _cleanup_completion_ __attribute__((cleanup(sbx_completion_clear)))
void sbx_completion_clear(struct sbx_completion *completion);
/* Takes a copy of a value that begins with `prefix`. -ENOMEM. */
int sbx_completion_offer(struct sbx_completion *completion, const char *value, const char *prefix);
/* {"completion": {"values", "total", "hasMore"}} */
int sbx_completion_result(const struct sbx_completion *completion, json_t **ret_result, struct sbx_error *err);

struct sbx_sessions;
/* Offers the ids of the principal's sessions. */
int sbx_complete_sessions(struct sbx_sessions *sessions, const char *principal, const char *prefix,
                          struct sbx_completion *completion, struct sbx_error *err);
