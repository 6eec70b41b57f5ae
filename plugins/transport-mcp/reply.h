/* SPDX-License-Identifier: Apache-2.0 */
/* Where answers go: a channel to the client, or a batch that collects them first; and the messages that are sent. */
#pragma once

#include <stdbool.h>

#include "jsonrpc.h"
#include "protocol.h"
#include "text.h"

enum mcp_outgoing_kind {
        MCP_OUT_RESPONSE = 1,     /* the answer to a request, or to a batch: the last message on a channel of HTTP */
        MCP_OUT_NOTIFICATION = 2, /* of the request that the channel belongs to, or of none */
        MCP_OUT_PROGRESS = 3,     /* may be thrown away when the client is behind with reading */
        MCP_OUT_REQUEST = 4,      /* the server asks: legacy alone */
};

/* One message: parts that together are one JSON text without a newline. */
struct mcp_outgoing {
        enum mcp_outgoing_kind kind;
        enum mcp_revision revision;
        int error; /* code of an error response; 0: a result */
        const struct sbx_bytes *parts;
        size_t count;
};

/* A way to the client, with a reference count of its owner's (stdio; an HTTP exchange or session). Any thread may call
 * its functions. */
struct mcp_channel {
        void *data;
        void (*send)(void *data, const struct mcp_outgoing *message); /* may wait for the client */
        void (*close_stream)(void *data, uint32_t retry_ms);          /* see sbx_client; NULL: can't */
        void (*ref)(void *data); /* NULL, both: lives until the connection is freed */
        void (*unref)(void *data);
};
struct mcp_channel *mcp_channel_ref(struct mcp_channel *channel);
void mcp_channel_unref(struct mcp_channel *channel); /* NULL is fine */

/* Answers of one batch, sent as one array when the last reference goes. Any thread. */
struct mcp_batch;
int mcp_batch_new(struct mcp_channel *channel, struct mcp_batch **ret_batch);
struct mcp_batch *mcp_batch_ref(struct mcp_batch *batch);
void mcp_batch_unref(struct mcp_batch *batch); /* NULL is fine */

/* Where the answer to one message goes, and in which revision's words; whoever keeps one has references of both. */
struct mcp_target {
        struct mcp_channel *channel;
        struct mcp_batch *batch; /* NULL: straight to the channel */
        enum mcp_revision revision;
};

/* How long a modern client may keep a result, and for whom (`ttlMs`, `cacheScope`). */
struct mcp_caching {
        unsigned ttl_ms;
        bool is_public; /* the same for every principal */
        bool is_plain;  /* the result has neither `resultType` nor `_meta` itself, and need not be looked through */
};

/* `result` is a JSON object in one line. An empty `id` is answered as null. A modern client gets what every result has:
 * `resultType` ("complete" unless the result has one) and the server's name in `_meta`, merged with the result's own.
 */
void mcp_reply_result(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result);
/* The same with `ttlMs` and `cacheScope` for a modern client; NULL: without. */
void mcp_reply_cacheable(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result,
                         const struct mcp_caching *caching);
/* `message` of any quality; `hint` may be NULL or empty, else it follows the message; `data` is JSON in one line, or
 * empty. Works without memory. */
void mcp_reply_error(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                     const char *hint);
void mcp_reply_error_data(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                          const char *hint, struct sbx_bytes data);
/* notifications/progress; `total` is left out unless positive, `message` when NULL. Never in a batch. */
void mcp_send_progress(const struct mcp_target *target, const struct mcp_id *token, double progress, double total,
                       const char *message);
/* Any other notification: `params` is a JSON object in one line. */
void mcp_send_notification(struct mcp_channel *channel, enum mcp_revision revision, const char *method,
                           struct sbx_bytes params);
