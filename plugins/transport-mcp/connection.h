/* SPDX-License-Identifier: Apache-2.0 */
/* One client's conversation: what was negotiated and which calls are under way. Knows messages and channels, not how
 * bytes travel. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "protocol.h"
#include "reply.h"

struct mcp_connection;

/* What a connection is made with; borrowed, outlives it. */
struct mcp_settings {
        const struct sbx_host *host;
        const char *principal; /* who the client is, for the tools; "" is the local user */
        size_t calls_max;      /* tool calls under way at once */
};

/* -ENOMEM, with `err` set. */
int mcp_connection_new(const struct mcp_settings *settings, struct mcp_connection **ret_connection,
                       struct sbx_error *err);
/* No call may be under way: see mcp_connection_wait. NULL is fine. */
void mcp_connection_free(struct mcp_connection *connection);

/* Takes one text from the client, a message or a batch, and answers on `channel`, now or when a tool ends; `channel`
 * lives until the calls have ended. Any thread; texts that depend on each other's order come from one. */
void mcp_connection_receive(struct mcp_connection *connection, struct sbx_bytes text,
                            const struct mcp_channel *channel);

/* The client is gone: cancels every call and refuses new ones; nothing more is sent for them. Returns at once. Any
 * thread. */
void mcp_connection_cancel(struct mcp_connection *connection);
/* Returns when no call is under way. */
void mcp_connection_wait(struct mcp_connection *connection);
