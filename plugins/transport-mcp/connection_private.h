/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up a connection: its state, the methods, the calls. */
#pragma once

#include <pthread.h>

#include "call.h"
#include "connection.h"
#include "meta.h"
#include "subscriptions.h"

struct mcp_question; /* call_ask.c: a request of ours that the client has not answered yet */

struct mcp_connection {
        struct mcp_server *server;
        enum mcp_connection_kind kind;
        char *principal;

        pthread_mutex_t lock;       /* protects what follows; nothing of the host, and no channel, is called under it */
        pthread_cond_t ended;       /* a call or subscriber was freed */
        enum mcp_revision revision; /* as `initialize` left it */
        uint32_t capabilities;      /* SBX_CLIENT_* bits, of `initialize` */
        int log_level;              /* legacy: of logging/setLevel; "info" at the beginning */
        bool closing;
        struct mcp_channel *channel; /* see mcp_connection_set_channel */

        /* exchange.c */
        struct mcp_exchange *calls; /* requests that are not answered yet */
        size_t calls_count;
        size_t calls_alive; /* those that point to this connection, `calls` among them */
        /* call_ask.c */
        struct mcp_question *questions;
        uint64_t questions_asked;
        /* subscriptions.c */
        size_t subscribers_alive; /* those that point to this connection */
};

/* The request's own revision, capabilities and log level: of its _meta, or of the connection. */
int mcp_connection_meta(struct mcp_connection *connection, const struct mcp_message *message, struct mcp_meta *ret_meta,
                        struct mcp_fault *ret_fault, struct mcp_text *ret_data);
/* The connection's channel, with a reference; NULL: none. */
struct mcp_channel *mcp_connection_channel(struct mcp_connection *connection);

/* ---- methods.c: one message ---- */

void mcp_dispatch(struct mcp_connection *connection, const struct mcp_message *message,
                  const struct mcp_target *target);
