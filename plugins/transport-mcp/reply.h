/* SPDX-License-Identifier: Apache-2.0 */
/* Where answers go: a channel to the client, or a batch that collects them first; and the messages that are sent. */
#pragma once

#include <stdbool.h>

#include "jsonrpc.h"
#include "text.h"

/* The way to a client. Owned by whoever receives messages (stdio; an HTTP exchange). */
struct mcp_channel {
        void *data;
        /* Sends one message, given in parts that together are one JSON text without a newline. `droppable`: it may be
         * thrown away when the client is behind with reading. Any thread; may wait for the client. */
        void (*send)(void *data, const struct sbx_bytes *parts, size_t count, bool droppable);
};

/* Answers of one batch, sent as one array when the last reference goes. Any thread. */
struct mcp_batch;
int mcp_batch_new(const struct mcp_channel *channel, struct mcp_batch **ret_batch);
struct mcp_batch *mcp_batch_ref(struct mcp_batch *batch);
void mcp_batch_unref(struct mcp_batch *batch); /* NULL is fine */

/* Where the answer to one message goes; borrows both, which must live until then. */
struct mcp_target {
        const struct mcp_channel *channel;
        struct mcp_batch *batch; /* NULL: straight to the channel */
};

/* `result` is a JSON object in one line. An empty `id` is answered as null. */
void mcp_reply_result(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result);
/* `message` of any quality; `hint` may be NULL or empty, else it follows the message. Works without memory. */
void mcp_reply_error(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                     const char *hint);
/* notifications/progress, droppable; `total` is left out unless positive, `message` when NULL. Never in a batch. */
void mcp_send_progress(const struct mcp_channel *channel, const struct mcp_id *token, double progress, double total,
                       const char *message);
