/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at JSON text without building anything: what must be known of a message before, or instead of, parsing it. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* How deeply arrays and objects nest in `text`, counting at most to `limit` + 1. The text may be anything. */
size_t mcp_scan_depth(struct sbx_bytes text, size_t limit);

/* Members of the object that `text` is: `value` is the raw text behind the last one of that name, {NULL, 0} when there
 * is none, and points into `text`. Names that are written with escapes are passed over. How many were found, counting
 * one that is there twice as two; SIZE_MAX when the object does not end as it should. */
struct mcp_scan_member {
        const char *quoted; /* the name as it stands in the text, "\"id\"" */
        struct sbx_bytes value;
};
size_t mcp_scan_members(struct sbx_bytes text, struct mcp_scan_member *members, size_t count);

/* The raw text of the member `id` of the object that `text` is: lexically sound up to the end, but of a text that the
 * parser refused for a reason of its own (duplicate keys, numbers out of range, nesting). False when there is none,
 * more than one, or it can't be told. `ret` points into `text`. */
bool mcp_scan_id(struct sbx_bytes text, struct sbx_bytes *ret);
