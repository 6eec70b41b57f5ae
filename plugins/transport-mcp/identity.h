/* SPDX-License-Identifier: Apache-2.0 */
/* How the server names itself, in the words of each revision, and what it says that it can do. */
#pragma once

#include "meta.h"
#include "protocol.h"

#define MCP_SERVER_NAME "SniparaSandbox"
/* In the _meta of every modern result: the short form, for it is sent each time. */
#define MCP_SERVER_KEY "\"" MCP_META_SERVER "\""
#define MCP_SERVER_MEMBER                                                                                              \
        MCP_SERVER_KEY ":{\"name\":\"" MCP_SERVER_NAME "\",\"title\":\"Snipara Sandbox\",\"version\":\"" SBX_VERSION   \
                       "\"}"

/* Each appends a JSON value. */
void mcp_identity_server(enum mcp_revision revision, struct mcp_text *text); /* an `Implementation`, all of it */
void mcp_identity_capabilities(enum mcp_revision revision, struct mcp_text *text);
void mcp_identity_instructions(struct mcp_text *text);
