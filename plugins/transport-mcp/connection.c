/* SPDX-License-Identifier: Apache-2.0 */
/* One client's conversation: texts come in, are decoded, and go to the methods one by one. */
#include "connection_private.h"

#include <stdlib.h>

int mcp_connection_new(const struct mcp_settings *settings, struct mcp_connection **ret_connection,
                       struct sbx_error *err) {
        struct mcp_connection *connection = malloc(sizeof(*connection));

        if (connection == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a connection");
        *connection = (struct mcp_connection){.settings = settings};
        pthread_mutex_init(&connection->lock, NULL);
        pthread_cond_init(&connection->ended, NULL);
        *ret_connection = connection;
        return 0;
}

void mcp_connection_free(struct mcp_connection *connection) {
        if (connection == NULL)
                return;
        pthread_cond_destroy(&connection->ended);
        pthread_mutex_destroy(&connection->lock);
        free(connection);
}

enum mcp_revision mcp_connection_revision(struct mcp_connection *connection) {
        enum mcp_revision revision;

        pthread_mutex_lock(&connection->lock);
        revision = connection->revision;
        pthread_mutex_unlock(&connection->lock);
        return revision;
}

/* Takes the reference `root`. */
static void receive_one(struct mcp_connection *connection, json_t *root, const struct mcp_target *target) {
        _cleanup_message_ struct mcp_message message = {0};
        struct mcp_fault fault;

        if (mcp_message_decode(root, &message, &fault) < 0)
                mcp_reply_error(target, &message.id, fault.code, fault.message, NULL);
        else if (message.kind != MCP_RESPONSE) /* this server asks its clients nothing */
                mcp_dispatch(connection, &message, target);
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

static void receive_batch(struct mcp_connection *connection, const json_t *messages,
                          const struct mcp_channel *channel) {
        struct mcp_target target = {channel, NULL};
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
        json_array_foreach(messages, index, root) {
                receive_one(connection, json_incref(root), &target);
        }
        mcp_batch_unref(target.batch);
}

void mcp_connection_receive(struct mcp_connection *connection, struct sbx_bytes text,
                            const struct mcp_channel *channel) {
        const struct mcp_target target = {channel, NULL};
        _cleanup_id_ struct mcp_id id = {NULL, 0};
        struct mcp_fault fault;
        json_t *document = NULL;

        if (mcp_jsonrpc_parse(text, &document, &id, &fault) < 0) {
                mcp_reply_error(&target, &id, fault.code, fault.message, NULL);
        } else if (json_is_array(document)) {
                receive_batch(connection, document, channel);
                json_decref(document);
        } else {
                receive_one(connection, document, &target);
        }
}

void mcp_connection_cancel(struct mcp_connection *connection) {
        pthread_mutex_lock(&connection->lock);
        connection->closing = true;
        pthread_mutex_unlock(&connection->lock);
        mcp_call_cancel_all(connection);
}

void mcp_connection_wait(struct mcp_connection *connection) {
        pthread_mutex_lock(&connection->lock);
        while (connection->calls_alive > 0)
                pthread_cond_wait(&connection->ended, &connection->lock);
        pthread_mutex_unlock(&connection->lock);
}
