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
/* A resource that the client can read when it needs it. */
struct sbx_content_link {
        const char *uri, *name, *mime_type;
        const char *description; /* NULL: none */
        size_t size;
};
int sbx_content_add_link(json_t *result, const struct sbx_content_link *link);
/* Bytes of any kind, whole, as an embedded resource. -ENOMEM, -EFBIG. */
int sbx_content_add_blob(json_t *result, const char *uri, const char *mime_type, struct sbx_bytes bytes);
/* A result of one text block. */
json_t *sbx_content_text(bool is_error, const char *text);
/* "Error: message", and the hint on a line of its own. */
json_t *sbx_content_error(const struct sbx_error *problem);
/* Would the text be cut? */
bool sbx_text_is_longer(struct sbx_bytes text, size_t max_characters);
/* Text of at most `max_characters`, and a marker in its middle that tells how much was cut when it is longer: two
 * thirds are the head, one third the tail. What is not UTF-8 is repaired. -ENOMEM, -EFBIG. */
int sbx_text_clip(struct sbx_bytes text, size_t max_characters, struct sbx_buffer *out);
