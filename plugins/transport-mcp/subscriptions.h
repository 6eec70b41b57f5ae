/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants to hear of changes: `subscriptions/listen` of modern clients, what legacy connections are told unasked or
 * have subscribed to; and telling them. */
#pragma once

#include "call.h"
#include "meta.h"

int mcp_subscriptions_new(struct mcp_server *server, struct mcp_subscriptions **ret_subscriptions,
                          struct sbx_error *err);
/* Ends each modern stream with its result; nobody is told of anything from then on. May be called before the server is
 * stopped, while streams are still open, and again. */
void mcp_subscriptions_stop(struct mcp_subscriptions *subscriptions);
void mcp_subscriptions_free(struct mcp_subscriptions *subscriptions);

/* What one subscriber may ask for, and how many there may be. */
#define MCP_SUBSCRIPTION_URIS_MAX 256u
#define MCP_SUBSCRIPTION_BYTES_MAX (64u << 10) /* of its URIs and ids together */
#define MCP_LISTENERS_MAX 1024u                /* streams of modern clients */
#define MCP_LISTENERS_OF_PRINCIPAL_MAX 256u

/* subscriptions/listen: acknowledged at once, ended by cancelling, the end of the connection, or the server's. */
void mcp_subscriptions_listen(struct mcp_connection *connection, const struct mcp_message *message,
                              const struct mcp_meta *meta, const struct mcp_target *target);
/* notifications/cancelled of a listening request; false: there is none of that id. */
bool mcp_subscriptions_cancel(struct mcp_connection *connection, const struct mcp_id *id);
/* A legacy connection: from its initialize on it hears of lists; resources/subscribe and unsubscribe add and remove. */
void mcp_subscriptions_join(struct mcp_connection *connection);
/* -EBUSY: too many already; -ECANCELED, -ENOMEM. */
int mcp_subscriptions_add(struct mcp_connection *connection, const char *uri, struct sbx_error *err);
void mcp_subscriptions_remove(struct mcp_connection *connection, const char *uri);
/* The connection ends: all of its subscriptions do. */
void mcp_subscriptions_leave(struct mcp_connection *connection);

/* The state of a task changed: `task` is its DetailedTask, a JSON object in one line without a `_meta` of its own.
 * Copies; of states that come faster than they are sent, the last one is. Any thread, does not block. */
void mcp_subscriptions_task(struct mcp_subscriptions *subscriptions, const char *principal, const char *task_id,
                            struct sbx_bytes task);
