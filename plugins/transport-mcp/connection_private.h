/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up a connection: its state, the methods, the calls. */
#pragma once

#include <pthread.h>

#include "connection.h"

struct mcp_call;

struct mcp_connection {
        const struct mcp_settings *settings;
        pthread_mutex_t lock; /* protects what follows; nothing of the host is called under it */
        pthread_cond_t ended; /* a call was freed */
        enum mcp_revision revision;
        bool closing;
        struct mcp_call *calls; /* under way: answered neither by a result nor by silence yet */
        size_t calls_count;
        size_t calls_alive; /* those whose memory lives, `calls` among them */
};

enum mcp_revision mcp_connection_revision(struct mcp_connection *connection);

/* ---- methods.c: one message ---- */

void mcp_dispatch(struct mcp_connection *connection, const struct mcp_message *message,
                  const struct mcp_target *target);

/* ---- call.c: tool calls ---- */

/* `params` of a tools/call request. Answers on `target`, sooner or later, unless it is cancelled. */
void mcp_call_start(struct mcp_connection *connection, const struct mcp_message *message, const json_t *params,
                    const struct mcp_target *target);
/* Cancels the call of that request; none: nothing happens. */
void mcp_call_cancel(struct mcp_connection *connection, const struct mcp_id *id);
void mcp_call_cancel_all(struct mcp_connection *connection);
