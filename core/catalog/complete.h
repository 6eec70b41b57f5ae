/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of the built-in parts: values that begin as what was typed, and ids of sessions. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/types.h>

#define SBX_COMPLETION_VALUES_MAX 100u /* MCP: completion/complete */

struct sbx_catalog_values {
        json_t *values; /* NULL: none so far */
        size_t total;
};
#define _cleanup_completion_ __attribute__((cleanup(sbx_catalog_values_clear)))
void sbx_catalog_values_clear(struct sbx_catalog_values *completion);
/* Takes a copy of a value that begins with `prefix`. -ENOMEM. */
int sbx_catalog_values_offer(struct sbx_catalog_values *completion, const char *value, const char *prefix);
/* {"completion": {"values", "total", "hasMore"}} */
int sbx_catalog_values_result(const struct sbx_catalog_values *completion, json_t **ret_result, struct sbx_error *err);

struct sbx_sessions;
/* Offers the ids of the principal's sessions. */
int sbx_complete_sessions(struct sbx_sessions *sessions, const char *principal, const char *prefix,
                          struct sbx_catalog_values *completion, struct sbx_error *err);
