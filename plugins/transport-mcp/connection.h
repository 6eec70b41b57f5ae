/* SPDX-License-Identifier: Apache-2.0 */
/* One conversation: a pipe, an HTTP session, or one modern HTTP request. Knows messages and channels, not how bytes
 * travel. */
#pragma once

#include "protocol.h"
#include "reply.h"
#include "server.h"

struct mcp_connection;

enum mcp_connection_kind {
        MCP_CONNECTION_STREAM = 1,  /* standard input and output: both eras, in any order */
        MCP_CONNECTION_SESSION = 2, /* of HTTP, begun by `initialize`: legacy alone */
        MCP_CONNECTION_REQUEST = 3, /* one HTTP request: modern alone */
};

/* `principal` is who the client is, for the host; copied. -ENOMEM. */
int mcp_connection_new(struct mcp_server *server, enum mcp_connection_kind kind, const char *principal,
                       struct mcp_connection **ret_connection, struct sbx_error *err);
/* No request may be under way: see mcp_connection_wait. NULL is fine. */
void mcp_connection_free(struct mcp_connection *connection);

/* Takes one text from the client, a message or a batch, and answers on `channel`, now or when a request ends. Any
 * thread; texts that depend on each other's order come from one. */
void mcp_connection_receive(struct mcp_connection *connection, struct sbx_bytes text, struct mcp_channel *channel);
/* The same for a text that was parsed (mcp_jsonrpc_parse): takes the reference `document`. */
void mcp_connection_receive_document(struct mcp_connection *connection, json_t *document, struct mcp_channel *channel);

/* Where messages go that answer nothing (changes of lists and resources, requests that belong to no call any more).
 * NULL, as at the beginning: nowhere. Takes a reference of its own, and drops that of the one before. */
void mcp_connection_set_channel(struct mcp_connection *connection, struct mcp_channel *channel);

/* MCP_REVISION_NONE: not initialized. */
enum mcp_revision mcp_connection_revision(struct mcp_connection *connection);
const char *mcp_connection_principal(const struct mcp_connection *connection);
struct mcp_server *mcp_connection_server(const struct mcp_connection *connection);

/* The client is gone: cancels every request under way and refuses new ones; nothing more is sent for them. What has
 * become a task, or waits for a modern client's input, goes on. Returns at once. Any thread. */
void mcp_connection_cancel(struct mcp_connection *connection);
/* Returns when no request is under way. */
void mcp_connection_wait(struct mcp_connection *connection);
