/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 server for transports, on libmicrohttpd: requests that are whole, bounded and allowed, answered now or
 * later, whole or as a stream. Knows nothing of what is served.
 *
 * One thread of the server reads and writes for all connections; handlers run on it and must not block. Everything else
 * may be called by any thread. Nothing that a client sends or withholds can make it wait, grow or leak: every limit is
 * in `struct hs_settings`.
 */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#include "auth.h"

struct hs_server;
struct hs_exchange; /* one request and its response */

/* A limit of 0 means the default behind it. Borrowed until hs_server_start returns, but for `auth` and `log_data`. */
struct hs_settings {
        const char *listen;          /* "127.0.0.1:8000", "[::1]:8000", "0.0.0.0:8000"; port 0: any free one */
        const char *tls_certificate; /* PEM file, with its chain; NULL: no TLS */
        const char *tls_key;         /* PEM file; must not be readable by others */
        const char *const
                *hosts; /* further values of Host that are allowed, without port; NULL-terminated; may be NULL */
        const char *const *origins;  /* further values of Origin that are allowed, "https://app.example"; as above */
        const struct hs_auth *auth;  /* who may come in; must be set off loopback; NULL: everybody, as principal "" */
        size_t body_max;             /* bytes of a request (32 MiB) */
        unsigned header_max;         /* bytes of a request's line and headers (32 KiB) */
        unsigned connections_max;    /* at one time (1024) */
        unsigned per_address_max;    /* ... from one address (connections_max) */
        unsigned rate_per_second;    /* requests of one principal, else of one address; 0: no limit */
        unsigned rate_burst;         /* ... at once beyond it (2 x rate) */
        unsigned idle_timeout_ms;    /* a connection between requests (120 s) */
        unsigned request_timeout_ms; /* from a request's first byte to its last (30 s) */
        unsigned write_timeout_ms;   /* a response of which the client takes nothing (30 s) */
        size_t stream_max;           /* bytes of a stream that wait for the client (4 MiB) */
        void (*log)(void *data, int level, const char *message); /* SBX_LOG_*; may be NULL */
        void *log_data;
};

/* A path that is served. The table ends with a NULL path. Any other path is 404. */
struct hs_route {
        const char *path;    /* exact; a trailing '/' in the request makes no difference */
        const char *methods; /* "GET, POST": any other is 405 with Allow; OPTIONS is answered by the server (CORS) */
        unsigned flags;      /* HS_ROUTE_* bits */
        void *data;
        /* By the server's thread, when the request is whole, within its limits, from an allowed host and origin, and by
         * somebody who may. Answers through hs_respond or hs_stream, now or later; keeps `exchange` with hs_ref. */
        void (*handle)(void *data, struct hs_exchange *exchange);
};
#define HS_ROUTE_PUBLIC (1u << 0) /* needs no token */

/* -EINVAL (settings; a wildcard address without auth), -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -ENOENT and -EBADMSG (TLS
 * files), -ENOMEM; the error says what to do. Runs from then on. `routes` lives as long as the server. */
int hs_server_start(const struct hs_settings *settings, const struct hs_route *routes, struct hs_server **ret_server,
                    struct sbx_error *err);
/* "http://127.0.0.1:8000", with the port that it got. */
const char *hs_server_url(const struct hs_server *server);
/* No new connection, no new request: those that come get 503 and `Connection: close`. Responses go on. Idempotent. */
void hs_server_drain(struct hs_server *server);
/* Not by a handler. Responses under way get up to `grace_ms`; then every connection is closed and everybody told
 * (`gone`). When it returns no handler runs, and none of its threads. Exchanges that somebody holds stay, and writing
 * to them does nothing. */
void hs_server_stop(struct hs_server *server, unsigned grace_ms);
void hs_server_free(struct hs_server *server); /* stopped before; NULL is fine */

/* Counters since the start. */
struct hs_counts {
        uint64_t connections, connections_open, requests, bytes_in, bytes_out;
        /* Requests that were refused, by reason: see hs_refusal_name. */
        uint64_t refused[16];
};
enum hs_refusal {
        HS_REFUSED_HOST,
        HS_REFUSED_ORIGIN,
        HS_REFUSED_TOKEN,
        HS_REFUSED_SCOPE,
        HS_REFUSED_RATE,
        HS_REFUSED_BODY,
        HS_REFUSED_HEADER,
        HS_REFUSED_CONNECTIONS,
        HS_REFUSED_SLOW,
        HS_REFUSED_MALFORMED,
        HS_REFUSED_PATH,
        HS_REFUSED_METHOD,
        HS_REFUSALS,
};
const char *hs_refusal_name(enum hs_refusal refusal); /* "host", "origin", ... */
void hs_server_counts(struct hs_server *server, struct hs_counts *ret);

/* ---- one exchange ---- */

struct hs_exchange *hs_ref(struct hs_exchange *exchange);
void hs_unref(struct hs_exchange *exchange); /* NULL is fine; the last one of an unanswered exchange answers 500 */

/* Of the request; they live as long as the exchange. */
const char *hs_method(const struct hs_exchange *exchange);
const char *hs_path(const struct hs_exchange *exchange);                     /* without query, decoded */
const char *hs_query(const struct hs_exchange *exchange, const char *name);  /* NULL: not there */
const char *hs_header(const struct hs_exchange *exchange, const char *name); /* any case; surrounding blanks removed;
                                                                              * NULL: not there; "" when sent twice with
                                                                              * different values */
struct sbx_bytes hs_body(const struct hs_exchange *exchange);
const char *hs_principal(const struct hs_exchange *exchange); /* of the token; "" without */
const char *hs_address(const struct hs_exchange *exchange);   /* of the client, "127.0.0.1" */

struct hs_header {
        const char *name, *value;
};
/* The whole response; at most once, and not after hs_stream. `headers` end with a NULL name; Content-Length, Date, CORS
 * and Connection are the server's. Copies. */
void hs_respond(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers, struct sbx_bytes body);
/* Begins a response whose body comes in pieces (chunked), each sent at once. */
void hs_stream(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers);
/* -EPIPE: the client is gone, or the stream has ended; -ENOBUFS: it is behind, more than stream_max would wait: nothing
 * of this piece is kept. Pieces of several threads do not mix. */
int hs_write(struct hs_exchange *exchange, const struct sbx_bytes *parts, size_t count);
void hs_end(struct hs_exchange *exchange);

/* `gone` is called once, by a thread of the server, if the client closes the connection (also half: it will send no
 * more) or the server is stopped before the response has ended; never after hs_on_gone(exchange, NULL, NULL) has
 * returned, nor after the response has ended. At once if it is gone already: by the caller when the exchange is over.
 * Do not hold a lock that `gone` takes. */
void hs_on_gone(struct hs_exchange *exchange, void (*gone)(void *data), void *data);
