/* SPDX-License-Identifier: Apache-2.0 */
/* The revisions of MCP, and what differs between them. Legacy ones begin with `initialize`; the modern ones have no
 * beginning: each request says which revision it is of. */
#pragma once

#include <jansson.h>

#include "text.h"

enum mcp_revision {
        MCP_REVISION_NONE = 0, /* not negotiated yet */
        MCP_2024_11_05 = 1,
        MCP_2025_03_26 = 2, /* the only one with batches */
        MCP_2025_06_18 = 3,
        MCP_2025_11_25 = 4,
        MCP_2026_07_28 = 5, /* the first modern one */
};
static inline bool mcp_is_modern(enum mcp_revision revision) {
        return revision >= MCP_2026_07_28;
}

/* The revision that answers the `protocolVersion` of `initialize`: the same if it is a legacy one, else the newest of
 * them. */
enum mcp_revision mcp_revision_negotiate(const char *protocol_version);
/* MCP_REVISION_NONE: not one of ours. */
enum mcp_revision mcp_revision_find(const char *name);
const char *mcp_revision_name(enum mcp_revision revision);

/* The result of a tool or prompt, an object as the host gave it, as a client of `revision` may see it. Nearly always
 * these are the bytes themselves; else `storage` holds what `ret_result` points to. Blocks of a type that came later
 * than the revision become text. -EINVAL: it is not a JSON object; -EFBIG, -ENOMEM. */
int mcp_result_prepare(struct sbx_bytes result, enum mcp_revision revision, struct mcp_text *storage,
                       struct sbx_bytes *ret_result);

/* A JSON array or object of the host's in one line, as mcp_result_prepare; UTF-8 throughout, and without characters
 * that some client's parser would stumble over: NUL, lone surrogates. */
int mcp_json_one_line(struct sbx_bytes json, struct mcp_text *storage, struct sbx_bytes *ret_json);
/* Appends any JSON value, in one line. Returns text->error; -ENOMEM sticks there, too. */
int mcp_text_append_json(struct mcp_text *text, const json_t *value);
/* Of the host's JSON, parsed, with the same repairs as mcp_json_one_line; NULL: it is none, or there is no memory. */
json_t *mcp_json_load(struct sbx_bytes json);
