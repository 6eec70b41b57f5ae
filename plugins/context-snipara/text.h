/* SPDX-License-Identifier: Apache-2.0 */
/* Text that came over a network: repaired, cut, without secrets, parsed within bounds. Pure functions. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/types.h>

/* A copy with U+FFFD for every byte that is not part of UTF-8 (RFC 3629), NUL-terminated; NULL: no memory. */
char *snipara_text_repair(struct sbx_bytes bytes, size_t *ret_size);
/* The largest length <= `limit` that does not cut a character of valid UTF-8. */
size_t snipara_text_cut(const char *text, size_t size, size_t limit);
/* Every occurrence of `secret` becomes asterisks. */
void snipara_text_redact(char *text, size_t size, const char *secret);

/* Any bytes as JSON: UTF-8 is repaired first; at most 64 levels and 200,000 values, which are counted before anything
 * is built; duplicate keys are refused. -EBADMSG: not JSON, or beyond the bounds; -ENOMEM. */
int snipara_json_parse(struct sbx_bytes bytes, json_t **ret);
