/* SPDX-License-Identifier: Apache-2.0 */
/* Tool results in the shape of MCP: content blocks, and texts short enough for a model. Pure functions. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/buffer.h"

#define SBX_CONTENT_TEXT_MAX 30000u /* characters of a text block; more is cut in its middle */

/* {"content": [], "isError": is_error}; NULL: out of memory, also below. */
json_t *sbx_content_new(bool is_error);
/* Appends a text block, cut to SBX_CONTENT_TEXT_MAX. 0 or -ENOMEM. */
int sbx_content_add_text(json_t *result, struct sbx_bytes text);
int sbx_content_add_image(json_t *result, const char *mime_type, struct sbx_bytes base64);
/* A result of one text block. */
json_t *sbx_content_text(bool is_error, const char *text);
/* "Error: message", and the hint on a line of its own. */
json_t *sbx_content_error(const struct sbx_error *problem);
/* Text of at most `max_characters`, and a marker in its middle that tells how much was cut when it is longer: two
 * thirds are the head, one third the tail. What is not UTF-8 is repaired. -ENOMEM, -EFBIG. */
int sbx_text_clip(struct sbx_bytes text, size_t max_characters, struct sbx_buffer *out);
