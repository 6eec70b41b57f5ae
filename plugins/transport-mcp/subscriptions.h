/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants to hear of changes: `subscriptions/listen` of modern clients, what legacy connections are told unasked or
 * have subscribed to; and telling them. */
#pragma once

#include "call.h"
#include "meta.h"

int mcp_subscriptions_new(struct mcp_server *server, struct mcp_subscriptions **ret_subscriptions,
                          struct sbx_error *err);
/* Ends each modern stream with its result. */
void mcp_subscriptions_stop(struct mcp_subscriptions *subscriptions);
void mcp_subscriptions_free(struct mcp_subscriptions *subscriptions);

/* subscriptions/listen: acknowledged at once, ended by cancelling, the end of the connection, or the server's. */
void mcp_subscriptions_listen(struct mcp_connection *connection, const struct mcp_message *message,
                              const struct mcp_meta *meta, const struct mcp_target *target);
/* notifications/cancelled of a listening request; false: there is none of that id. */
bool mcp_subscriptions_cancel(struct mcp_connection *connection, const struct mcp_id *id);
/* A legacy connection: from its initialize on it hears of lists; resources/subscribe and unsubscribe add and remove. */
void mcp_subscriptions_join(struct mcp_connection *connection);
int mcp_subscriptions_add(struct mcp_connection *connection, const char *uri, struct sbx_error *err);
void mcp_subscriptions_remove(struct mcp_connection *connection, const char *uri);
/* The connection ends: all of its subscriptions do. */
void mcp_subscriptions_leave(struct mcp_connection *connection);

/* The state of a task changed: `task` is its DetailedTask, a JSON object in one line. */
void mcp_subscriptions_task(struct mcp_subscriptions *subscriptions, const char *principal, const char *task_id,
                            struct sbx_bytes task);
