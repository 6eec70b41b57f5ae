/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a connection that are under way: its list, and who answers each. */
#include "call_private.h"

#include <stdlib.h>

static void exchange_free(struct mcp_exchange *exchange) {
        mcp_batch_unref(exchange->target.batch);
        mcp_channel_unref(exchange->target.channel);
        mcp_id_free(&exchange->id);
        mcp_id_free(&exchange->token);
        free(exchange);
}

struct mcp_exchange *mcp_exchange_ref(struct mcp_exchange *exchange) {
        atomic_fetch_add(&exchange->refs, 1);
        return exchange;
}

void mcp_exchange_unref(struct mcp_exchange *exchange) {
        struct mcp_connection *connection;

        if (exchange == NULL || atomic_fetch_sub(&exchange->refs, 1) > 1)
                return;
        connection = exchange->connection;
        if (exchange->call != NULL)
                mcp_call_unref(exchange->call);
        exchange_free(exchange);
        pthread_mutex_lock(&connection->lock);
        connection->calls_alive--;
        pthread_cond_broadcast(&connection->ended);
        pthread_mutex_unlock(&connection->lock); /* the connection may be gone from here on */
}

/* ---- the list; the caller holds the lock ---------------------------------------------------------------- */

static void list_add(struct mcp_connection *connection, struct mcp_exchange *exchange) {
        exchange->next = connection->calls;
        if (exchange->next != NULL)
                exchange->next->previous = exchange;
        connection->calls = exchange;
        connection->calls_count++;
        exchange->listed = true;
}

static bool list_remove(struct mcp_connection *connection, struct mcp_exchange *exchange) {
        if (!exchange->listed)
                return false;
        if (exchange->next != NULL)
                exchange->next->previous = exchange->previous;
        if (exchange->previous != NULL)
                exchange->previous->next = exchange->next;
        else
                connection->calls = exchange->next;
        connection->calls_count--;
        exchange->listed = false;
        return true;
}

static struct mcp_exchange *list_find(struct mcp_connection *connection, const struct mcp_id *id) {
        for (struct mcp_exchange *exchange = connection->calls; exchange != NULL; exchange = exchange->next)
                if (mcp_id_equal(&exchange->id, id))
                        return exchange;
        return NULL;
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

/* Puts the exchange on the list, if there is room; the list and the caller have a reference each. */
static int enlist(struct mcp_connection *connection, struct mcp_exchange *exchange, struct sbx_error *err) {
        size_t calls_max = mcp_server_settings(connection->server)->calls_max;
        int r = 0;

        pthread_mutex_lock(&connection->lock);
        if (connection->closing)
                r = sbx_error_set(err, -ECANCELED, "transport-mcp", NULL, "the connection is closing");
        else if (list_find(connection, &exchange->id) != NULL)
                r = sbx_error_set(err, -EEXIST, "transport-mcp", NULL, "a call with this id is under way already");
        else if (connection->calls_count >= calls_max)
                r = sbx_error_set(err, -EBUSY, "transport-mcp",
                                  "Wait for some to end, cancel some, or raise max_calls in the transport's options",
                                  "too many calls under way on this connection (at most %zu)", calls_max);
        else {
                list_add(connection, exchange);
                connection->calls_alive++;
        }
        pthread_mutex_unlock(&connection->lock);
        return r;
}

static int copy_id(const struct mcp_id *id, struct mcp_id *ret) {
        char *json = malloc(id->size);

        if (json == NULL)
                return -ENOMEM;
        memcpy(json, id->json, id->size);
        *ret = (struct mcp_id){json, id->size};
        return 0;
}

static int decode(struct mcp_exchange *exchange, const struct mcp_message *message, const json_t *token,
                  struct sbx_error *err) {
        int r = token != NULL ? mcp_id_decode(token, &exchange->token) : 0;

        if (r == -EINVAL)
                return sbx_error_set(err, r, "transport-mcp", NULL,
                                     "params._meta.progressToken must be an integer, or a string of at most %d bytes",
                                     MCP_ID_BYTES_MAX);
        if (r == 0)
                r = copy_id(&message->id, &exchange->id);
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "out of memory") : 0;
}

int mcp_exchange_new(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                     const struct mcp_target *target, struct mcp_call *call, struct mcp_exchange **ret_exchange,
                     struct sbx_error *err) {
        struct mcp_exchange *exchange = calloc(1, sizeof(*exchange));
        int r;

        if (exchange == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "out of memory");
        *exchange = (struct mcp_exchange){
                .connection = connection,
                .target = {mcp_channel_ref(target->channel), NULL, target->revision},
                .capabilities = meta->capabilities,
                .log_level = meta->log_level,
                .call = call,
        };
        if (target->batch != NULL)
                exchange->target.batch = mcp_batch_ref(target->batch);
        atomic_init(&exchange->refs, 2);
        r = decode(exchange, message, meta->token, err);
        if (r == 0) {
                if (call != NULL)
                        mcp_call_ref(call);
                r = enlist(connection, exchange, err);
                if (r < 0 && call != NULL)
                        mcp_call_unref(call);
        }
        if (r < 0) {
                exchange_free(exchange);
                return r;
        }
        *ret_exchange = exchange;
        return 0;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

bool mcp_exchange_claim(struct mcp_exchange *exchange) {
        bool claimed;

        if (exchange == NULL)
                return false;
        pthread_mutex_lock(&exchange->connection->lock);
        claimed = list_remove(exchange->connection, exchange);
        pthread_mutex_unlock(&exchange->connection->lock);
        if (claimed)
                mcp_exchange_unref(exchange); /* the list's; the caller has one of its own */
        return claimed;
}

bool mcp_exchange_attach(struct mcp_exchange *exchange, struct mcp_call *call) {
        bool listed;

        mcp_call_ref(call);
        pthread_mutex_lock(&exchange->connection->lock);
        exchange->call = call;
        listed = exchange->listed;
        pthread_mutex_unlock(&exchange->connection->lock);
        return listed;
}

bool mcp_exchange_is_open(struct mcp_exchange *exchange) {
        bool listed;

        pthread_mutex_lock(&exchange->connection->lock);
        listed = exchange->listed;
        pthread_mutex_unlock(&exchange->connection->lock);
        return listed;
}

/* ---- cancelling ---------------------------------------------------------------------------------------- */

/* Takes a request off the list, that of `id` or any, and ends its call, which then has nobody to answer. False: there
 * is none. */
static bool cancel_one(struct mcp_connection *connection, const struct mcp_id *id) {
        struct mcp_exchange *exchange;
        struct mcp_call *call = NULL;

        pthread_mutex_lock(&connection->lock);
        exchange = id != NULL ? list_find(connection, id) : connection->calls;
        if (exchange != NULL) {
                list_remove(connection, exchange);
                call = exchange->call; /* NULL: the retry will see that it is off the list */
                if (call != NULL)
                        mcp_call_ref(call);
        }
        pthread_mutex_unlock(&connection->lock);
        if (exchange == NULL)
                return false;
        if (call != NULL) {
                mcp_call_end(call);
                mcp_call_unref(call);
        }
        mcp_exchange_unref(exchange);
        return true;
}

void mcp_call_cancel(struct mcp_connection *connection, const struct mcp_id *id) {
        (void)cancel_one(connection, id);
}

void mcp_call_cancel_all(struct mcp_connection *connection) {
        while (cancel_one(connection, NULL))
                ;
}
