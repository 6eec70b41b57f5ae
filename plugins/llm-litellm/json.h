/* SPDX-License-Identifier: Apache-2.0 */
/* JSON on jansson, for documents that come from a network: bounded before anything is allocated, and repaired. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

#define LLM_JSON_DEPTH_MAX 64
#define LLM_JSON_VALUES_MAX (1u << 20)

static inline void llm_cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_json_ __attribute__((cleanup(llm_cleanup_json)))

/* An object. Bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD, and *ret_repaired (may be NULL)
 * tells. -EBADMSG: not a JSON object, duplicate keys, nested deeper than LLM_JSON_DEPTH_MAX, more than
 * LLM_JSON_VALUES_MAX values; -ENOMEM. */
int llm_json_parse(struct sbx_bytes text, json_t **ret_object, bool *ret_repaired);

/* A member that is a string without NUL; NULL: there is none. Borrowed. */
const char *llm_json_string(const json_t *object, const char *key);
/* A member that is a count: an integer, or a real that is one; negative ones count as none. */
bool llm_json_count(const json_t *object, const char *key, int64_t *ret);
/* Appends compact JSON. Returns text->error. */
int llm_json_encode(const json_t *value, struct llm_text *text);
