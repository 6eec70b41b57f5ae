/* SPDX-License-Identifier: Apache-2.0 */
/* Which era a request belongs to, and what it says of its client: `_meta` of the modern revisions, what `initialize`
 * left behind in the legacy ones. */
#pragma once

#include <snipara-sandbox/request.h>

#include "jsonrpc.h"
#include "protocol.h"

#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"
#define MCP_EXTENSION_TASKS "io.modelcontextprotocol/tasks"

/* What a request says of its client, or what the connection knows of it. */
struct mcp_meta {
        enum mcp_revision revision;
        uint32_t capabilities; /* SBX_CLIENT_* bits */
        int log_level; /* 0 "debug" to 7 "emergency": lines from there on; -1: none (modern: the client did not ask) */
        const json_t *token; /* _meta.progressToken; NULL: none. Borrowed from the message */
};

/* Whether a request is to be answered as a modern one: its _meta has a protocolVersion, or its method is one that only
 * the modern revisions have. */
bool mcp_meta_is_modern(const struct mcp_message *message);
/* Of a modern request. Problems: _meta, its protocolVersion or its clientCapabilities are missing or of the wrong type
 * (MCP_INVALID_PARAMS); a revision that is not spoken (MCP_UNSUPPORTED_VERSION, `ret_data` gets {supported,
 * requested}). 0 or -EINVAL with `ret_fault` set. */
int mcp_meta_decode(const struct mcp_message *message, struct mcp_meta *ret_meta, struct mcp_fault *ret_fault,
                    struct mcp_text *ret_data);
/* SBX_CLIENT_* bits of a `capabilities` object; tasks only count where `modern`. */
uint32_t mcp_capabilities_decode(const json_t *capabilities, bool modern);
/* -1: no such level. */
int mcp_log_level(const char *name);
