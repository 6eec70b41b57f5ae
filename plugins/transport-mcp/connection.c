/* SPDX-License-Identifier: Apache-2.0 */
/* One client's conversation: texts come in, are decoded, and go to the methods one by one. */
#include "connection_private.h"

#include <stdlib.h>

int mcp_connection_new(struct mcp_server *server, enum mcp_connection_kind kind, const char *principal,
                       struct mcp_connection **ret_connection, struct sbx_error *err) {
        struct mcp_connection *connection = malloc(sizeof(*connection));
        size_t size = strlen(principal) + 1;
        char *copy = malloc(size);

        if (connection == NULL || copy == NULL) {
                free(connection);
                free(copy);
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a connection");
        }
        memcpy(copy, principal, size);
        *connection = (struct mcp_connection){
                .server = server, .kind = kind, .principal = copy, .log_level = mcp_log_level("info")};
        pthread_mutex_init(&connection->lock, NULL);
        pthread_cond_init(&connection->ended, NULL);
        *ret_connection = connection;
        return 0;
}

void mcp_connection_free(struct mcp_connection *connection) {
        if (connection == NULL)
                return;
        mcp_channel_unref(connection->channel);
        pthread_cond_destroy(&connection->ended);
        pthread_mutex_destroy(&connection->lock);
        free(connection->principal);
        free(connection);
}

void mcp_connection_set_channel(struct mcp_connection *connection, struct mcp_channel *channel) {
        struct mcp_channel *before;

        if (channel != NULL)
                mcp_channel_ref(channel);
        pthread_mutex_lock(&connection->lock);
        before = connection->channel;
        connection->channel = channel;
        pthread_mutex_unlock(&connection->lock);
        mcp_channel_unref(before);
}

struct mcp_channel *mcp_connection_channel(struct mcp_connection *connection) {
        struct mcp_channel *channel;

        pthread_mutex_lock(&connection->lock);
        channel = connection->channel;
        if (channel != NULL)
                mcp_channel_ref(channel);
        pthread_mutex_unlock(&connection->lock);
        return channel;
}

enum mcp_revision mcp_connection_revision(struct mcp_connection *connection) {
        enum mcp_revision revision;

        pthread_mutex_lock(&connection->lock);
        revision = connection->revision;
        pthread_mutex_unlock(&connection->lock);
        return revision;
}

const char *mcp_connection_principal(const struct mcp_connection *connection) {
        return connection->principal;
}

struct mcp_server *mcp_connection_server(const struct mcp_connection *connection) {
        return connection->server;
}

/* ---- what a request says of its client ----------------------------------------------------------------- */

static bool is_modern(const struct mcp_connection *connection, const struct mcp_message *message) {
        return connection->kind == MCP_CONNECTION_REQUEST ||
               (connection->kind == MCP_CONNECTION_STREAM && mcp_meta_is_modern(message));
}

static int legacy_meta(struct mcp_connection *connection, const struct mcp_message *message, struct mcp_meta *ret_meta,
                       struct mcp_fault *fault) {
        const json_t *meta = json_object_get(message->params, "_meta");

        if (meta != NULL && !json_is_object(meta)) {
                *fault = (struct mcp_fault){MCP_INVALID_PARAMS, "params._meta must be an object"};
                return -EINVAL;
        }
        pthread_mutex_lock(&connection->lock);
        *ret_meta = (struct mcp_meta){connection->revision, connection->capabilities, connection->log_level,
                                      json_object_get(meta, "progressToken")};
        pthread_mutex_unlock(&connection->lock);
        return 0;
}

int mcp_connection_meta(struct mcp_connection *connection, const struct mcp_message *message, struct mcp_meta *ret_meta,
                        struct mcp_fault *ret_fault, struct mcp_text *ret_data) {
        if (is_modern(connection, message))
                return mcp_meta_decode(message, ret_meta, ret_fault, ret_data);
        return legacy_meta(connection, message, ret_meta, ret_fault);
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Takes the reference `root`. `target` has no revision yet. */
static void receive_one(struct mcp_connection *connection, json_t *root, struct mcp_target target) {
        _cleanup_message_ struct mcp_message message = {0};
        struct mcp_fault fault;
        int r = mcp_message_decode(root, &message, &fault);

        target.revision = r == 0 && message.kind != MCP_RESPONSE && is_modern(connection, &message)
                                  ? MCP_2026_07_28
                                  : mcp_connection_revision(connection);
        if (r < 0)
                mcp_reply_error(&target, &message.id, fault.code, fault.message, NULL);
        else if (message.kind == MCP_RESPONSE)
                mcp_call_respond(connection, &message);
        else
                mcp_dispatch(connection, &message, &target);
}

static const char *refuse_batch(struct mcp_connection *connection, const json_t *batch) {
        if (mcp_connection_revision(connection) != MCP_2025_03_26)
                return "batches are part of protocol revision 2025-03-26 only: send one message at a time";
        if (json_array_size(batch) == 0)
                return "an empty batch";
        if (json_array_size(batch) > MCP_BATCH_MAX)
                return "too many messages in a batch: at most 1000";
        return NULL;
}

static void receive_batch(struct mcp_connection *connection, const json_t *messages, struct mcp_channel *channel) {
        struct mcp_target target = {channel, NULL, mcp_connection_revision(connection)};
        const char *problem = refuse_batch(connection, messages);
        size_t index;
        json_t *root;

        if (problem != NULL) {
                mcp_reply_error(&target, NULL, MCP_INVALID_REQUEST, problem, NULL);
                return;
        }
        if (mcp_batch_new(channel, &target.batch) < 0) {
                mcp_reply_error(&target, NULL, MCP_INTERNAL_ERROR, "out of memory", NULL);
                return;
        }
        json_array_foreach (messages, index, root) {
                receive_one(connection, json_incref(root), target);
        }
        mcp_batch_unref(target.batch);
}

void mcp_connection_receive_document(struct mcp_connection *connection, json_t *document, struct mcp_channel *channel) {
        if (json_is_array(document)) {
                receive_batch(connection, document, channel);
                json_decref(document);
        } else {
                receive_one(connection, document, (struct mcp_target){channel, NULL, MCP_REVISION_NONE});
        }
}

void mcp_connection_receive(struct mcp_connection *connection, struct sbx_bytes text, struct mcp_channel *channel) {
        const struct mcp_target target = {channel, NULL, mcp_connection_revision(connection)};
        _cleanup_id_ struct mcp_id id = {NULL, 0};
        struct mcp_fault fault;
        json_t *document = NULL;

        if (mcp_jsonrpc_parse(text, &document, &id, &fault) < 0)
                mcp_reply_error(&target, &id, fault.code, fault.message, NULL);
        else
                mcp_connection_receive_document(connection, document, channel);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

void mcp_connection_cancel(struct mcp_connection *connection) {
        pthread_mutex_lock(&connection->lock);
        connection->closing = true;
        pthread_mutex_unlock(&connection->lock);
        mcp_subscriptions_leave(connection);
        mcp_call_cancel_all(connection);
}

void mcp_connection_wait(struct mcp_connection *connection) {
        pthread_mutex_lock(&connection->lock);
        while (connection->calls_alive > 0 || connection->subscribers_alive > 0)
                pthread_cond_wait(&connection->ended, &connection->lock);
        pthread_mutex_unlock(&connection->lock);
}
