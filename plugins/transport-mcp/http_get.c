/* SPDX-License-Identifier: Apache-2.0 */
/* GET and DELETE of legacy clients: the stream of what answers nothing, coming back to a stream, ending a session. */
#include "http_private.h"

static const struct sbx_bytes nothing = {NULL, 0};

static void refuse(struct hs_exchange *hs, unsigned status, const char *message, const char *hint) {
        http_refuse(hs, status, MCP_INVALID_REQUEST, NULL, message, hint, nothing, NULL);
}

/* With a reference; NULL: refused. */
static struct http_session *session_of(struct mcp_http *http, struct hs_exchange *hs) {
        const char *id = hs_header(hs, "Mcp-Session-Id"), *version = hs_header(hs, "MCP-Protocol-Version");
        struct http_session *session;

        if (version != NULL && mcp_revision_find(version) == MCP_REVISION_NONE) {
                refuse(hs, 400, "MCP-Protocol-Version names a revision that is not spoken here",
                       "Known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28");
                return NULL;
        }
        if (id == NULL) {
                refuse(hs, 400, "the header Mcp-Session-Id is missing",
                       "Begin with initialize, and send the id that its response has");
                return NULL;
        }
        session = http_session_find(http, id, hs_principal(hs));
        if (session == NULL)
                refuse(hs, 404, "there is no such session", "Begin a new one with initialize");
        return session;
}

/* ---- streams; under the session's lock ---- */

static void listen_anew(struct http_session *session, struct http_exchange *exchange, enum mcp_revision revision) {
        if (session->standalone != NULL && session->standalone->exchange != NULL) {
                exchange->phase = HTTP_ENDED;
                refuse(exchange->hs, 409, "the session has such a stream already", "One is enough for each session");
                return;
        }
        if (session->standalone != NULL) {
                /* The client does not come back for what it missed: it begins anew. */
                http_exchange_begin_stream(exchange, revision);
                http_stream_resume(session->standalone, session->standalone->sequence, exchange);
        } else {
                http_exchange_begin_stream(exchange, revision);
                session->standalone = http_stream_new(session, exchange);
        }
        if (session->standalone == NULL)
                hs_end(exchange->hs);
        else if (revision >= MCP_2025_11_25)
                http_stream_prime(session->standalone, HTTP_SSE_RETRY_MS);
}

static void come_back(struct http_session *session, struct http_exchange *exchange, const char *event,
                      enum mcp_revision revision) {
        const char *why = NULL;
        uint64_t sequence = 0;
        struct http_stream *stream = http_stream_find(session, event, &sequence, &why);

        if (stream == NULL) {
                exchange->phase = HTTP_ENDED;
                refuse(exchange->hs, 400, why, "Send the request again if its answer is still wanted");
                return;
        }
        http_count(&session->http->figures.streams_resumed);
        http_exchange_begin_stream(exchange, revision);
        http_stream_resume(stream, sequence, exchange);
}

static void open_stream(struct http_session *session, struct http_exchange *exchange) {
        const char *event = hs_header(exchange->hs, "Last-Event-ID");
        enum mcp_revision revision = mcp_connection_revision(session->connection);

        pthread_mutex_lock(&session->lock);
        if (session->closed) {
                exchange->phase = HTTP_ENDED;
                refuse(exchange->hs, 404, "there is no such session", "Begin a new one with initialize");
        } else if (event != NULL && event[0] != '\0') {
                come_back(session, exchange, event, revision);
        } else {
                listen_anew(session, exchange, revision);
        }
        pthread_mutex_unlock(&session->lock);
}

void http_get(struct mcp_http *http, struct hs_exchange *hs) {
        const struct http_manner manner = {.method = HTTP_METHODS - 1, .takes_stream = true};
        const char *accept = hs_header(hs, "Accept");
        struct http_exchange *exchange = NULL;
        struct http_session *session;
        int r;

        if (accept == NULL || !http_accepts(accept, "text/event-stream")) {
                refuse(hs, 406, "Accept must have text/event-stream", NULL);
                return;
        }
        session = session_of(http, hs);
        if (session == NULL)
                return;
        r = http_exchange_new(http, hs, session, NULL, &manner, &exchange);
        if (r < 0) {
                refuse(hs, r == -ECANCELED ? 503 : 500, r == -ECANCELED ? "the server ends" : "out of memory", NULL);
        } else {
                open_stream(session, exchange);
                http_exchange_watch(exchange);
                http_exchange_unref(exchange); /* the stream has one of its own */
        }
        http_session_unref(session);
}

void http_delete(struct mcp_http *http, struct hs_exchange *hs) {
        struct http_session *session = session_of(http, hs);

        if (session == NULL)
                return;
        http_session_close(session);
        http_session_unref(session);
        hs_respond(hs, 200, NULL, nothing);
}
