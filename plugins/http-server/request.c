/* SPDX-License-Identifier: Apache-2.0 */
/* A request from its first line to its handler: what libmicrohttpd calls, in this order, on the loop. */
#include "internal.h"

#define BODY_FIRST_BYTES 16384u

static struct hs_connection *connection_of(struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return info != NULL ? info->socket_context : NULL;
}

/* The first line is there. */
void *hs_request_begin(void *data, const char *uri, struct MHD_Connection *mhd) {
        struct hs_connection *connection = connection_of(mhd);
        struct hs_exchange *exchange;
        int r;

        if (connection == NULL || connection->phase == HS_DOOMED)
                return NULL;
        exchange = hs_exchange_new(connection);
        if (exchange == NULL)
                return NULL;
        if (connection->phase != HS_RECEIVING)
                hs_connection_phase(connection, HS_RECEIVING);
        pthread_mutex_lock(&connection->server->lock);
        connection->server->active++;
        pthread_mutex_unlock(&connection->server->lock);
        connection->exchange = exchange;
        connection->more_input = false;
        exchange->uri = uri;
        exchange->uri_size = uri != NULL ? strlen(uri) : 0;
        r = hs_target_parse(uri != NULL ? uri : "", exchange->uri_size, &exchange->target);
        if (r < 0)
                exchange->refused = (struct hs_refused){
                        .status = r == -ENOMEM ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_BAD_REQUEST,
                        .reason = r == -ENOMEM ? -1 : HS_REFUSED_MALFORMED,
                        .message = r == -ENOMEM ? "out of memory" : "the request's target is malformed",
                        .hint = "A path begins with '/', and has no empty or dot segments and no encoded separators.",
                        .close = true,
                };
        return exchange;
}

static enum MHD_Result send_response(struct hs_exchange *exchange, struct MHD_Connection *mhd, unsigned status,
                                     struct MHD_Response *response) {
        enum MHD_Result r;

        if (response == NULL)
                return MHD_NO;
        hs_connection_phase(exchange->connection, HS_WRITING);
        r = MHD_queue_response(mhd, status, response);
        MHD_destroy_response(response);
        return r;
}

static enum MHD_Result send_refusal(struct hs_exchange *exchange, struct MHD_Connection *mhd) {
        hs_count_refusal(exchange->server, exchange->refused.reason);
        exchange->answered = true;
        exchange->connection->linger = exchange->refused.close;
        return send_response(exchange, mhd, exchange->refused.status, hs_refusal_response(exchange));
}

/* The head is there. Refuses now if what follows can't be trusted or would be too much to throw away. */
static enum MHD_Result take_head(struct hs_exchange *exchange, struct MHD_Connection *mhd, const char *method,
                                 const char *version) {
        exchange->checked = true;
        hs_count(exchange->server, HS_COUNT_REQUESTS, 1);
        hs_check(exchange, mhd, method, version);
        if (exchange->refused.status != 0 && exchange->refused.close)
                return send_refusal(exchange, mhd);
        return MHD_YES;
}

static void refuse_body(struct hs_exchange *exchange, unsigned status, const char *message, const char *hint) {
        exchange->refused =
                (struct hs_refused){.status = status, .reason = -1, .message = message, .hint = hint, .close = true};
        hs_count_refusal(exchange->server, HS_REFUSED_BODY);
        exchange->connection->linger = true;
        /* libmicrohttpd sends no response while a body is coming in. */
        if (!exchange->server->tls)
                hs_last_words(exchange->connection->fd,
                              status == MHD_HTTP_CONTENT_TOO_LARGE ? "413 Content Too Large"
                                                                   : "503 Service Unavailable",
                              message, hint);
}

static int grow_body(struct hs_exchange *exchange, size_t more) {
        size_t needed = exchange->body_size + more;
        size_t capacity = exchange->body_capacity > 0 ? exchange->body_capacity : BODY_FIRST_BYTES;
        size_t most = exchange->chunked ? exchange->server->limits.body_max : exchange->body_expected;
        char *grown;

        if (needed <= exchange->body_capacity)
                return 0;
        /* As it comes, not as it is announced: an announcement costs the client nothing. */
        while (capacity < needed)
                capacity *= 2;
        if (capacity > most)
                capacity = most;
        if (hs_budget_take(exchange->budget, capacity - exchange->body_capacity) < 0)
                return -ENOBUFS;
        grown = realloc(exchange->body, capacity);
        if (grown == NULL) {
                atomic_fetch_sub(&exchange->budget->used, capacity - exchange->body_capacity);
                return -ENOMEM;
        }
        exchange->body = grown;
        exchange->body_capacity = capacity;
        return 0;
}

static void take_body(struct hs_exchange *exchange, const char *bytes, size_t size) {
        hs_count(exchange->server, HS_COUNT_IN, size);
        if (exchange->refused.status != 0)
                return; /* to be thrown away; how much was checked by the head, or the connection gets closed */
        if (size > exchange->server->limits.body_max - exchange->body_size) {
                refuse_body(exchange, MHD_HTTP_CONTENT_TOO_LARGE, "the request's body is too large",
                            "Send less at once.");
        } else if (grow_body(exchange, size) < 0) {
                refuse_body(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "too much is being received at the moment",
                            "Come again later.");
        } else {
                memcpy(exchange->body + exchange->body_size, bytes, size);
                exchange->body_size += size;
        }
}

/* Sends what the handler answered, or has libmicrohttpd leave the connection alone until it has. */
static enum MHD_Result answer(struct hs_exchange *exchange, struct MHD_Connection *mhd) {
        struct MHD_Response *response;
        unsigned status;
        bool abort;

        pthread_mutex_lock(&exchange->lock);
        abort = exchange->abort;
        status = exchange->status;
        response = exchange->response;
        exchange->response = NULL;
        if (!abort && response == NULL) {
                exchange->suspended = true;
                hs_connection_phase(exchange->connection, HS_WAITING);
                MHD_suspend_connection(mhd);
        }
        pthread_mutex_unlock(&exchange->lock);
        if (response != NULL && !abort)
                return send_response(exchange, mhd, status, response);
        if (response != NULL)
                MHD_destroy_response(response);
        return abort ? MHD_NO : MHD_YES;
}

/* The request is whole. */
static enum MHD_Result handle(struct hs_exchange *exchange, struct MHD_Connection *mhd) {
        if (exchange->refused.status != 0)
                return exchange->answered ? MHD_YES : send_refusal(exchange, mhd);
        if (!exchange->handled) {
                exchange->handled = true;
                hs_connection_phase(exchange->connection, HS_WAITING);
                hs_ref(exchange);
                exchange->route->handle(exchange->route->data, exchange);
                hs_unref(exchange);
                if (exchange->connection->peer_closed)
                        hs_exchange_gone(exchange); /* it had closed before anybody could want to know */
        }
        return answer(exchange, mhd);
}

enum MHD_Result hs_request_step(void *data, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context) {
        struct hs_exchange *exchange = *context;

        if (exchange == NULL || exchange->abort || exchange->connection->phase == HS_DOOMED)
                return MHD_NO;
        if (!exchange->checked)
                return take_head(exchange, mhd, method, version);
        if (*upload_size == 0)
                return handle(exchange, mhd);
        take_body(exchange, upload, *upload_size);
        *upload_size = 0;
        return exchange->refused.status != 0 && exchange->refused.close ? MHD_NO : MHD_YES;
}

void hs_request_completed(void *data, struct MHD_Connection *mhd, void **context,
                          enum MHD_RequestTerminationCode code) {
        struct hs_exchange *exchange = *context;
        struct hs_server *server = data;
        struct hs_connection *connection;

        *context = NULL;
        if (exchange == NULL)
                return;
        connection = exchange->connection;
        connection->exchange = NULL;
        connection->used = true;
        connection->linger |= !exchange->checked; /* libmicrohttpd refused it */
        pthread_mutex_lock(&server->lock);
        if (--server->active == 0)
                pthread_cond_broadcast(&server->changed);
        pthread_mutex_unlock(&server->lock);
        hs_connection_phase(connection, connection->more_input ? HS_RECEIVING : HS_IDLE);
        hs_exchange_over(exchange);
}
