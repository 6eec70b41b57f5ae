/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up MCP over HTTP: the server's state, exchanges, sessions, streams, figures.
 *
 * Locks, in the order in which they are taken: a session's (or a modern exchange's own), then the server's. The
 * server's is a leaf: nothing is called under it. Functions of http_server.h that write may be called under a session's
 * lock, because that library calls nobody back from them; hs_on_gone is called under none. */
#pragma once

#include <http_server.h>
#include <pthread.h>

#include "meta.h"
#include "serve_http.h"

#define HTTP_SECOND_NS UINT64_C(1000000000)
#define HTTP_EVENT_ID_SIZE 64

struct http_exchange;
struct http_session;
struct http_stream;

/* ---- figures: http_figures.c ---- */

enum http_era { HTTP_LEGACY = 0, HTTP_MODERN = 1, HTTP_ERAS };

#define HTTP_METHODS 16u /* those with a name of their own, see http_figures.c; the last is "other" */
#define HTTP_BUCKETS 14u

/* All atomic. */
struct http_figures {
        uint64_t requests[HTTP_ERAS];
        uint64_t sessions_started, sessions_expired, sessions_refused, streams_resumed, clients_lost;
        uint64_t buckets[HTTP_METHODS][HTTP_BUCKETS + 1];
        uint64_t sum_ns[HTTP_METHODS];
};
unsigned http_method_index(const char *method);
void http_count(uint64_t *counter);
void http_figures_answered(struct http_figures *figures, unsigned method, uint64_t duration_ns);
struct mcp_http;
int http_figures_tell(struct mcp_http *http, struct mcp_text *out);

/* ---- parameters in headers: http_params.c ---- */

struct http_params {
        json_t *tools;      /* {tool: [{"header", "path": [], "type"}]}; NULL: to be read. The server's thread alone */
        uint32_t out_dated; /* atomic: the list of tools has changed */
};
void http_params_free(struct http_params *params);

/* ---- the server: serve_http.c ---- */

#define HTTP_SESSION_BUCKETS 256u

struct mcp_http {
        struct mcp_server *server;
        const struct sbx_host *host;
        const struct mcp_http_settings *settings;
        struct hs_auth *auth;
        struct hs_server *hs; /* atomic: NULL until it has started, when the first requests may be here */
        struct sbx_watch *watch;
        struct hs_route routes[8];
        char *metadata_path, *metadata_url, *metadata; /* RFC 9728; NULL without an issuer */
        struct http_figures figures;
        struct http_params params;
        uint64_t replay_total; /* atomic: bytes that all sessions keep */
        bool not_ready;        /* atomic: as /readyz was answered last */

        pthread_t keeper;
        pthread_mutex_t lock;   /* protects what follows */
        pthread_cond_t changed; /* something is dead, all is answered, or the keeper is to end */
        bool stopping;          /* nothing new is taken on */
        bool keeper_stop;
        struct http_exchange *exchanges; /* all that are not freed */
        size_t exchanges_alive;
        size_t unanswered; /* requests that a client waits for, without those that listen */
        struct http_session *sessions[HTTP_SESSION_BUCKETS];
        size_t sessions_open;  /* those in `sessions` */
        size_t sessions_alive; /* those that are not freed */
        struct http_exchange *dead_exchanges;
        struct http_session *dead_sessions;
};

uint64_t http_now_ns(const struct mcp_http *http);
bool http_is_stopping(struct mcp_http *http);

/* ---- http_keeper.c: the thread that does what nobody waits for ---- */

int http_keeper_start(struct mcp_http *http, struct sbx_error *err);
void http_keeper_stop(struct mcp_http *http); /* when nothing is alive */
/* One after another, without a lock. */
void http_each_exchange(struct mcp_http *http, void (*visit)(struct http_exchange *exchange, uint64_t now_ns));

/* ---- http_reply.c: answers that no connection makes ---- */

/* A JSON-RPC error as a whole response. `id` and `data` may be NULL or empty, `hint` NULL; `headers` as for hs_respond,
 * NULL: none further. */
void http_refuse(struct hs_exchange *hs, unsigned status, int code, const struct mcp_id *id, const char *message,
                 const char *hint, struct sbx_bytes data, const struct hs_header *headers);
void http_answer(struct hs_exchange *hs, unsigned status, const char *type, struct sbx_bytes body);

/* ---- http_headers.c ---- */

/* Whether `accept` (NULL: anything) takes a media type, "application/json". */
bool http_accepts(const char *accept, const char *type);
bool http_is_json(const char *content_type);
/* The headers and _meta of a modern message. `ret_data`: what the error carries. 0 or -EINVAL with `ret_fault` set. */
int http_check_modern(struct mcp_http *http, const struct hs_exchange *hs, const struct mcp_message *message,
                      struct mcp_fault *ret_fault, struct mcp_text *ret_data);
/* The value of a header as it was meant: "=?base64?...?=" decoded, strictly. False: it is malformed. The caller frees.
 */
bool http_header_decode(const char *value, char **ret_text, size_t *ret_size);
/* http_params.c: the Mcp-Param-* headers of a tools/call. */
int http_check_params(struct mcp_http *http, const struct hs_exchange *hs, const struct mcp_message *message,
                      struct mcp_fault *ret_fault);

/* ---- http_post.c, http_get.c, http_operator.c: the routes ---- */

void http_handle(void *data, struct hs_exchange *hs);
void http_get(struct mcp_http *http, struct hs_exchange *hs);
void http_delete(struct mcp_http *http, struct hs_exchange *hs);
void http_health(void *data, struct hs_exchange *hs);
void http_ready(void *data, struct hs_exchange *hs);
void http_metrics(void *data, struct hs_exchange *hs);
void http_metadata(void *data, struct hs_exchange *hs);

/* ---- http_exchange.c: one POST, or one GET, and the way back to who sent it ---- */

enum http_phase {
        HTTP_WAITING = 0,   /* nothing was sent */
        HTTP_STREAMING = 1, /* events are */
        HTTP_ENDED = 2,     /* nothing can be any more; of a legacy POST: its stream may go on without it */
};

/* What kind of exchange it is; decided before it begins. */
struct http_manner {
        unsigned method; /* http_method_index */
        bool is_post;
        bool takes_stream, takes_json; /* as its client says */
        bool begins_session;
        bool listens; /* for as long as the client likes */
};

struct http_exchange {
        struct mcp_channel channel; /* of a POST */
        struct mcp_http *http;
        struct hs_exchange *hs;            /* a reference */
        struct mcp_connection *connection; /* modern: its own */
        struct http_session *session;      /* legacy: a reference */
        struct http_manner manner;
        uint64_t started_ns;
        bool watched; /* hs_on_gone was set */

        uint32_t refs;    /* atomic; of the memory */
        uint32_t holders; /* atomic; who may still send something to it; together they have one reference */
        pthread_mutex_t own_lock;
        pthread_mutex_t *lock; /* `own_lock`, or the session's; protects what follows */
        enum http_phase phase;
        struct http_stream *stream; /* legacy POST, once it streams; belongs to the session */
        uint64_t written_ns;
        bool answered;

        struct http_exchange *previous, *next; /* of http->exchanges; `next` of http->dead_exchanges too */
};

/* Begins with one holder, the caller. Takes a reference of `hs`, and one of `session` (NULL: modern; then `connection`
 * becomes the exchange's). -ENOMEM; -ECANCELED: the server stops. */
int http_exchange_new(struct mcp_http *http, struct hs_exchange *hs, struct http_session *session,
                      struct mcp_connection *connection, const struct http_manner *manner,
                      struct http_exchange **ret_exchange);
/* A holder less. When the last one goes and a POST was not answered, it is answered 202. Under no lock. */
void http_exchange_release(struct http_exchange *exchange);
void http_exchange_ref(struct http_exchange *exchange);
bool http_exchange_try_ref(struct http_exchange *exchange); /* false: it is dying */
void http_exchange_unref(struct http_exchange *exchange);   /* also under its lock */
void http_exchange_free(struct http_exchange *exchange);    /* the keeper: it is dead */
/* From now on a client that goes away is noticed. Under no lock. */
void http_exchange_watch(struct http_exchange *exchange);
/* What is silent for too long becomes a stream, and a silent stream gets a comment. */
void http_exchange_tick(struct http_exchange *exchange, uint64_t now_ns);
/* Ends what is under way, as when the client has gone; the client is told. Under no lock. */
void http_exchange_cancel(struct http_exchange *exchange);

/* Under the lock. */
void http_exchange_begin_stream(struct http_exchange *exchange, enum mcp_revision revision);
void http_exchange_answered(struct http_exchange *exchange);

/* ---- http_session.c: legacy clients ---- */

struct http_event { /* http_stream.c */
        struct http_event *next;
        struct http_stream *stream;
        uint64_t sequence, time_ns;
        size_t size;
        char bytes[]; /* as it was sent */
};

struct http_session {
        struct mcp_channel channel; /* for what answers nothing */
        struct mcp_http *http;
        struct mcp_connection *connection;
        char *principal;
        char id[MCP_RANDOM_ID_SIZE];
        char tag[9];      /* begins the ids of its events */
        uint32_t refs;    /* atomic */
        size_t exchanges; /* atomic: alive */
        uint64_t used_ns; /* atomic: when the last of them ended */

        pthread_mutex_t lock; /* protects what follows */
        bool closed;
        uint64_t streams_begun;
        struct http_stream *streams, *standalone; /* `standalone` is one of them; NULL: never asked for */
        struct http_event *oldest, **newest;      /* what can be replayed, of all streams, in order */
        size_t replay_bytes;

        struct http_session *next; /* of its bucket, or of http->dead_sessions */
};

/* A new session, in the table; makes room by ending an idle one of the same principal. One reference, the caller's.
 * -EBUSY: no room; -ENOMEM; -ECANCELED: the server stops. */
int http_session_new(struct mcp_http *http, const char *principal, struct http_session **ret_session,
                     struct sbx_error *err);
/* The session of that id and principal, with a reference; NULL: none. */
struct http_session *http_session_find(struct mcp_http *http, const char *id, const char *principal);
void http_session_ref(struct http_session *session);
void http_session_unref(struct http_session *session);
/* Takes it out of the table, cancels its requests and ends its streams. Under no lock. */
void http_session_close(struct http_session *session);
void http_session_free(struct http_session *session); /* the keeper: it is dead */
void http_sessions_close_all(struct mcp_http *http);
/* Sessions that nobody used for too long, and events that are too old. */
void http_sessions_tick(struct mcp_http *http, uint64_t now_ns);
void http_session_exchange_ended(struct http_session *session);

/* ---- http_stream.c: events of a session that can be asked for again; all under the session's lock ---- */

struct http_stream {
        struct http_stream *next;
        struct http_session *session;
        uint64_t number;
        uint64_t sequence;              /* of the newest event */
        uint64_t dropped;               /* of the newest event that is no longer kept */
        size_t kept;                    /* events */
        bool ended;                     /* the last event was sent */
        bool held;                      /* a POST may still send to it */
        struct http_exchange *exchange; /* where events go now, a reference; NULL: nowhere */
};

/* On `exchange`, whose response has begun. NULL: out of memory. */
struct http_stream *http_stream_new(struct http_session *session, struct http_exchange *exchange);
/* An event without data: the client has an id to come back with, and knows when (0: as it likes). */
void http_stream_prime(struct http_stream *stream, uint32_t retry_ms);
void http_stream_send(struct http_stream *stream, const struct mcp_outgoing *message);
/* Nothing more comes. */
void http_stream_end(struct http_stream *stream);
/* Ends the response, not the stream. */
void http_stream_detach(struct http_stream *stream);
/* Frees the session's streams and events. */
void http_streams_free(struct http_session *session);
/* Forgets events that are older than `before_ns`, and streams that nobody can come back to. */
void http_streams_expire(struct http_session *session, uint64_t before_ns);
/* What `id` says, if it is one of this session's events and what follows is still here. NULL: `ret_why`. */
struct http_stream *http_stream_find(struct http_session *session, const char *id, uint64_t *ret_sequence,
                                     const char **ret_why);
/* Sends what came after `sequence` to `exchange`, whose response has begun, and what is to come. */
void http_stream_resume(struct http_stream *stream, uint64_t sequence, struct http_exchange *exchange);

/* ---- http_sse.c: how events look ---- */

/* The start of one event that carries a message; `id` may be NULL. Returns its size. */
size_t http_sse_begin(char *text, size_t capacity, const char *id);
extern const struct hs_header http_sse_headers[];
#define HTTP_SSE_END MCP_LITERAL("\n\n")
#define HTTP_SSE_COMMENT MCP_LITERAL(":\n\n")
#define HTTP_SSE_RETRY_MS 1000u
