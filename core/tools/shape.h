/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of MCP that plugins hand over as JSON: checked before they reach a client. Pure functions; each answers 0 or
 * -EBADMSG, with what is wrong and where. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/types.h>

#define SBX_SHAPE_ICONS_MAX 16u
#define SBX_SHAPE_BLOCKS_MAX 1024u
#define SBX_SHAPE_URI_MAX 8192u

/* A member that must be a text of 1 to `max` bytes, or, if `optional`, may be missing. `what` names its owner. */
int sbx_shape_text(const json_t *object, const char *what, const char *key, size_t max, bool optional,
                   struct sbx_error *err);
/* A URI: begins with a scheme (RFC 3986), no spaces and no control characters. */
bool sbx_shape_is_uri(const char *text);
/* [{src, mimeType, sizes, theme}]; src is an https: or data: URI: what else a client might open is not ours to say. */
int sbx_shape_icons(const json_t *icons, struct sbx_error *err);
/* {uri, mimeType, text | blob}, text or blob alone, blob being base64. */
int sbx_shape_contents(const json_t *contents, const char *what, struct sbx_error *err);
/* A content block: text, image, audio, resource or resource_link, with its members. */
int sbx_shape_block(const json_t *block, const char *what, struct sbx_error *err);
/* An array of content blocks. */
int sbx_shape_blocks(const json_t *blocks, const char *what, struct sbx_error *err);
