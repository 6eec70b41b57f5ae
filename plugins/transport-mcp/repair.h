/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text whose strings every client can read. */
#pragma once

#include "text.h"

/* Whether it is UTF-8, and no escape in it may stand for NUL or half a surrogate pair. False also when it can't be told
 * at a glance. */
bool mcp_json_is_clean(struct sbx_bytes json);
/* Appends the text with U+FFFD in the place of bytes that are no UTF-8, and of escapes for NUL or a lone surrogate.
 * Returns text->error. */
int mcp_json_repair(struct sbx_bytes json, struct mcp_text *text);
