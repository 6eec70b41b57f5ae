/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request and the way back to who sent it: a whole JSON response when the answer is the first thing to say,
 * else a stream of events. */
#include <stdlib.h>

#include "http_private.h"

#define PARTS_MAX 16u
#define SMALL 4096u

/* ---- life ---- */

void http_exchange_ref(struct http_exchange *exchange) {
        __atomic_fetch_add(&exchange->refs, 1, __ATOMIC_RELAXED);
}

bool http_exchange_try_ref(struct http_exchange *exchange) {
        uint32_t refs = __atomic_load_n(&exchange->refs, __ATOMIC_RELAXED);

        while (refs > 0)
                if (__atomic_compare_exchange_n(&exchange->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
                                                __ATOMIC_RELAXED))
                        return true;
        return false;
}

void http_exchange_answered(struct http_exchange *exchange) {
        struct mcp_http *http = exchange->http;

        if (!exchange->manner.is_post || exchange->answered)
                return;
        exchange->answered = true;
        if (exchange->session != NULL)
                http_session_exchange_ended(exchange->session);
        if (exchange->manner.listens)
                return;
        pthread_mutex_lock(&http->lock);
        http->unanswered--;
        if (http->unanswered == 0 && http->stopping)
                pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
        http_figures_answered(&http->figures, exchange->manner.method, http_now_ns(http) - exchange->started_ns);
}

/* Nobody will answer any more: there was nothing to answer, the request was cancelled, or the server or the session
 * ends. Under the lock. */
static void answer_nothing(struct http_exchange *exchange) {
        const struct sbx_bytes nothing = {NULL, 0};

        exchange->phase = HTTP_ENDED;
        if (http_is_stopping(exchange->http))
                http_refuse(exchange->hs, 503, MCP_INTERNAL_ERROR, NULL, "the server ends", NULL, nothing, NULL);
        else if (exchange->session != NULL && exchange->session->closed)
                http_refuse(exchange->hs, 404, MCP_INVALID_REQUEST, NULL, "the session has ended",
                            "Begin a new one with initialize", nothing, NULL);
        else
                hs_respond(exchange->hs, 202, NULL, nothing);
}

void http_exchange_release(struct http_exchange *exchange) {
        if (__atomic_fetch_sub(&exchange->holders, 1, __ATOMIC_ACQ_REL) != 1)
                return;
        pthread_mutex_lock(exchange->lock);
        if (exchange->phase == HTTP_WAITING)
                answer_nothing(exchange);
        if (exchange->stream != NULL) {
                http_stream_end(exchange->stream);
                exchange->stream->held = false;
                exchange->stream = NULL;
        }
        if (exchange->phase == HTTP_STREAMING)
                hs_end(exchange->hs);
        exchange->phase = HTTP_ENDED;
        http_exchange_answered(exchange);
        pthread_mutex_unlock(exchange->lock);
        http_exchange_unref(exchange);
}

void http_exchange_unref(struct http_exchange *exchange) {
        struct mcp_http *http = exchange->http;

        if (__atomic_fetch_sub(&exchange->refs, 1, __ATOMIC_ACQ_REL) != 1)
                return;
        if (exchange->session != NULL && !exchange->manner.is_post)
                http_session_exchange_ended(exchange->session);
        pthread_mutex_lock(&http->lock);
        if (exchange->previous != NULL)
                exchange->previous->next = exchange->next;
        else
                http->exchanges = exchange->next;
        if (exchange->next != NULL)
                exchange->next->previous = exchange->previous;
        exchange->next = http->dead_exchanges;
        http->dead_exchanges = exchange;
        if (exchange->next == NULL)
                pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
}

/* By the keeper, so that the threads that tell of lost clients, and those that end calls, are through with it. */
void http_exchange_free(struct http_exchange *exchange) {
        struct mcp_http *http = exchange->http;

        if (exchange->watched)
                hs_on_gone(exchange->hs, NULL, NULL);
        hs_unref(exchange->hs);
        if (exchange->connection != NULL) {
                mcp_connection_cancel(exchange->connection);
                mcp_connection_wait(exchange->connection);
                mcp_connection_free(exchange->connection);
        }
        if (exchange->session != NULL)
                http_session_unref(exchange->session);
        pthread_mutex_destroy(&exchange->own_lock);
        free(exchange);
        pthread_mutex_lock(&http->lock);
        http->exchanges_alive--;
        pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
}

/* ---- the channel of a POST ---- */

static unsigned status_of(const struct mcp_outgoing *message) {
        if (message->error == 0)
                return 200;
        if (message->error == MCP_PARSE_ERROR || message->error == MCP_INVALID_REQUEST)
                return 400;
        if (!mcp_is_modern(message->revision))
                return 200;
        switch (message->error) {
        case MCP_HEADER_MISMATCH:
        case MCP_MISSING_CAPABILITY:
        case MCP_UNSUPPORTED_VERSION:
                return 400;
        case MCP_METHOD_NOT_FOUND:
                return 404;
        default:
                return 200;
        }
}

static void join(const struct sbx_bytes *parts, size_t count, char *to) {
        for (size_t i = 0; i < count; i++) {
                if (parts[i].size > 0)
                        memcpy(to, parts[i].data, parts[i].size);
                to += parts[i].size;
        }
}

static void respond(struct http_exchange *exchange, const struct mcp_outgoing *message) {
        const struct hs_header headers[] = {
                {"Content-Type", "application/json"},
                {exchange->manner.begins_session && message->error == 0 ? "Mcp-Session-Id" : NULL,
                 exchange->session != NULL ? exchange->session->id : NULL},
                {NULL, NULL},
        };
        char small[SMALL], *body = small;
        size_t size = 0;

        for (size_t i = 0; i < message->count; i++)
                size += message->parts[i].size;
        if (size > sizeof(small))
                body = malloc(size);
        if (body == NULL) {
                http_refuse(exchange->hs, 500, MCP_INTERNAL_ERROR, NULL, "out of memory", NULL,
                            (struct sbx_bytes){NULL, 0}, NULL);
        } else {
                join(message->parts, message->count, body);
                hs_respond(exchange->hs, status_of(message), headers, (struct sbx_bytes){body, size});
        }
        if (body != small)
                free(body);
}

/* An event of a modern exchange: nobody can ask for it again. */
static int write_event(struct http_exchange *exchange, const struct mcp_outgoing *message) {
        struct sbx_bytes parts[PARTS_MAX + 2];
        char before[64], *joined = NULL;
        size_t count = message->count, size = 0;
        int r;

        parts[0] = (struct sbx_bytes){before, http_sse_begin(before, sizeof(before), NULL)};
        if (count <= PARTS_MAX) {
                for (size_t i = 0; i < count; i++)
                        parts[1 + i] = message->parts[i];
        } else {
                for (size_t i = 0; i < count; i++)
                        size += message->parts[i].size;
                joined = malloc(size > 0 ? size : 1);
                if (joined == NULL)
                        return -ENOMEM;
                join(message->parts, count, joined);
                parts[1] = (struct sbx_bytes){joined, size};
                count = 1;
        }
        parts[1 + count] = HTTP_SSE_END;
        r = hs_write(exchange->hs, parts, count + 2);
        free(joined);
        return r;
}

void http_exchange_begin_stream(struct http_exchange *exchange, enum mcp_revision revision) {
        hs_stream(exchange->hs, 200, http_sse_headers);
        exchange->phase = HTTP_STREAMING;
        exchange->written_ns = http_now_ns(exchange->http);
        if (exchange->session == NULL || !exchange->manner.is_post)
                return;
        exchange->stream = http_stream_new(exchange->session, exchange);
        if (exchange->stream != NULL && revision >= MCP_2025_11_25)
                http_stream_prime(exchange->stream, HTTP_SSE_RETRY_MS);
}

/* True: the client is too far behind to be served. */
static bool send_event(struct http_exchange *exchange, const struct mcp_outgoing *message) {
        int r = 0;

        if (exchange->phase == HTTP_WAITING) {
                if (!exchange->manner.takes_stream)
                        return false;
                http_exchange_begin_stream(exchange, message->revision);
        }
        if (exchange->stream != NULL)
                http_stream_send(exchange->stream, message);
        else if (exchange->phase == HTTP_STREAMING)
                r = write_event(exchange, message);
        exchange->written_ns = http_now_ns(exchange->http);
        if (message->kind == MCP_OUT_RESPONSE && exchange->phase == HTTP_STREAMING) {
                hs_end(exchange->hs);
                exchange->phase = HTTP_ENDED;
        }
        return (r == -ENOBUFS || r == -ENOMEM) && message->kind != MCP_OUT_PROGRESS;
}

static void drop_client(struct http_exchange *exchange) {
        if (exchange->phase == HTTP_STREAMING)
                hs_end(exchange->hs);
        exchange->phase = HTTP_ENDED;
        http_count(&exchange->http->figures.clients_lost);
}

static void channel_send(void *data, const struct mcp_outgoing *message) {
        struct http_exchange *exchange = data;
        bool response = message->kind == MCP_OUT_RESPONSE, too_slow = false, failed;

        pthread_mutex_lock(exchange->lock);
        failed = response && exchange->manner.begins_session && message->error != 0;
        /* First: who has the answer may count on it that nothing is under way any more. */
        if (response)
                http_exchange_answered(exchange);
        if (exchange->phase == HTTP_WAITING && response && (exchange->manner.takes_json || status_of(message) != 200)) {
                respond(exchange, message);
                exchange->phase = HTTP_ENDED;
        } else if (exchange->phase != HTTP_ENDED || exchange->stream != NULL) {
                too_slow = send_event(exchange, message);
        }
        if (too_slow)
                drop_client(exchange);
        pthread_mutex_unlock(exchange->lock);
        if (too_slow && exchange->connection != NULL)
                mcp_connection_cancel(exchange->connection);
        if (failed)
                http_session_close(exchange->session);
}

/* Only where the client knows how to come back: it got an id to begin with. */
static void channel_close_stream(void *data, uint32_t retry_ms) {
        struct http_exchange *exchange = data;
        enum mcp_revision revision;

        if (exchange->session == NULL || !exchange->manner.takes_stream)
                return;
        revision = mcp_connection_revision(exchange->session->connection);
        if (revision < MCP_2025_11_25)
                return;
        pthread_mutex_lock(exchange->lock);
        if (exchange->phase == HTTP_WAITING)
                http_exchange_begin_stream(exchange, revision);
        if (exchange->stream != NULL && !exchange->stream->ended) {
                if (exchange->stream->exchange != NULL)
                        http_stream_prime(exchange->stream, retry_ms);
                http_stream_detach(exchange->stream);
        }
        pthread_mutex_unlock(exchange->lock);
}

static void channel_ref(void *data) {
        struct http_exchange *exchange = data;

        __atomic_fetch_add(&exchange->holders, 1, __ATOMIC_RELAXED);
}

static void channel_unref(void *data) {
        http_exchange_release(data);
}

/* ---- the client goes away ---- */

/* By a thread of the HTTP server, at most once; the exchange lives until it is through. */
static void gone(void *data) {
        struct http_exchange *exchange = data;
        struct http_stream *stream = NULL;
        bool lost;

        pthread_mutex_lock(exchange->lock);
        lost = exchange->phase != HTTP_ENDED;
        if (exchange->session != NULL)
                for (stream = exchange->session->streams; stream != NULL && stream->exchange != exchange;)
                        stream = stream->next;
        exchange->phase = HTTP_ENDED;
        if (stream != NULL)
                http_stream_detach(stream);
        pthread_mutex_unlock(exchange->lock);
        if (lost && exchange->manner.is_post)
                http_count(&exchange->http->figures.clients_lost);
        if (lost && exchange->connection != NULL)
                mcp_connection_cancel(exchange->connection);
}

void http_exchange_watch(struct http_exchange *exchange) {
        exchange->watched = true;
        hs_on_gone(exchange->hs, gone, exchange);
}

void http_exchange_cancel(struct http_exchange *exchange) {
        if (exchange->connection != NULL)
                mcp_connection_cancel(exchange->connection);
}

/* ---- time ---- */

void http_exchange_tick(struct http_exchange *exchange, uint64_t now_ns) {
        const uint64_t after_ns = exchange->http->settings->keep_alive_ms * UINT64_C(1000000);
        const struct sbx_bytes comment = HTTP_SSE_COMMENT;
        enum mcp_revision revision = MCP_2026_07_28;

        if (exchange->session != NULL)
                revision = mcp_connection_revision(exchange->session->connection);
        pthread_mutex_lock(exchange->lock);
        if (now_ns >= exchange->written_ns + after_ns) {
                if (exchange->phase == HTTP_WAITING && exchange->manner.takes_stream &&
                    !exchange->manner.begins_session)
                        http_exchange_begin_stream(exchange, revision);
                if (exchange->phase == HTTP_STREAMING) {
                        (void)hs_write(exchange->hs, &comment, 1); /* gone or behind: others see to it */
                        exchange->written_ns = now_ns;
                }
        }
        pthread_mutex_unlock(exchange->lock);
}

/* ---- beginning ---- */

static int enlist(struct mcp_http *http, struct http_exchange *exchange) {
        int r = -ECANCELED;

        pthread_mutex_lock(&http->lock);
        if (!http->stopping) {
                exchange->next = http->exchanges;
                if (exchange->next != NULL)
                        exchange->next->previous = exchange;
                http->exchanges = exchange;
                http->exchanges_alive++;
                if (exchange->manner.is_post && !exchange->manner.listens)
                        http->unanswered++;
                r = 0;
        }
        pthread_mutex_unlock(&http->lock);
        return r;
}

static void join_session(struct http_exchange *exchange, struct http_session *session) {
        exchange->session = session;
        exchange->lock = &session->lock;
        http_session_ref(session);
        __atomic_fetch_add(&session->exchanges, 1, __ATOMIC_RELAXED);
}

int http_exchange_new(struct mcp_http *http, struct hs_exchange *hs, struct http_session *session,
                      struct mcp_connection *connection, const struct http_manner *manner,
                      struct http_exchange **ret_exchange) {
        struct http_exchange *exchange = malloc(sizeof(*exchange));
        uint64_t now_ns = http_now_ns(http);
        int r;

        if (exchange == NULL)
                return -ENOMEM;
        *exchange = (struct http_exchange){
                .channel = {exchange, channel_send, channel_close_stream, channel_ref, channel_unref},
                .http = http,
                .hs = hs_ref(hs),
                .manner = *manner,
                .started_ns = now_ns,
                .written_ns = now_ns,
                .refs = 1,
                .holders = 1,
        };
        pthread_mutex_init(&exchange->own_lock, NULL);
        exchange->lock = &exchange->own_lock;
        if (session != NULL)
                join_session(exchange, session);
        r = enlist(http, exchange);
        if (r < 0) {
                if (session != NULL) {
                        http_session_exchange_ended(session);
                        http_session_unref(session);
                }
                pthread_mutex_destroy(&exchange->own_lock);
                hs_unref(hs);
                free(exchange);
                return r;
        }
        exchange->connection = connection;
        *ret_exchange = exchange;
        return 0;
}
