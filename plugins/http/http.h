/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP for plugins, on libcurl: one request with a deadline, a cancel descriptor and a maximum for everything. Linked
 * into the plugins that use it; no globals of its own. A client is thread-safe: requests of different threads go on
 * side by side, and connections are kept for the next one. */
#ifndef SBX_HTTP_H
#define SBX_HTTP_H

#include <stdbool.h>
#include <sys/types.h>

#include <snipara-sandbox/types.h>

struct sbx_http; /* a client: its idle connections */

struct sbx_http_options {
        const char *origin;      /* of errors: the plugin's name */
        const char *user_agent;  /* "snipara-sandbox/2.2.7" */
        const char *proxy;       /* NULL: as the environment says (HTTPS_PROXY, NO_PROXY); "": none */
        const char *ca_file;     /* NULL: the system's */
        const char *certificate; /* of this client, PEM, with `key`; NULL: none */
        const char *key;
        bool http1;              /* HTTP/1.1 alone, where TLS would settle for HTTP/2 */
        const char *unix_socket; /* every request goes to this socket, whatever host its URL names; NULL: the network */
        uint64_t connect_timeout_ms; /* 0: 10 s */
        uint64_t idle_timeout_ms;    /* no byte for so long: -ETIMEDOUT; 0: none but the call's deadline */
};
int sbx_http_new(const struct sbx_http_options *options, struct sbx_http **ret_http, struct sbx_error *err);
void sbx_http_free(struct sbx_http *http); /* NULL is fine; no request may be under way */

struct sbx_http_request {
        const char *method;         /* "GET", "POST" */
        const char *url;            /* http or https; redirects are not followed, so that a key never goes elsewhere */
        const char *const *headers; /* "Name: value", NULL-terminated; never in an error or a log */
        struct sbx_bytes body;
        size_t response_max_bytes; /* of the body, whole or streamed: beyond it -EFBIG */
        /* NULL: the body is collected in the response. Else it is called with each piece of a 2xx body, by the thread
         * that asked; negative ends the request with that code. The body of another status is collected all the same.
         */
        int (*piece)(void *data, struct sbx_bytes piece);
        void *data;
        const char *keep_header; /* name of one more header whose value is wanted (response.kept); NULL: none */
};

struct sbx_http_response {
        unsigned status; /* 0: none came */
        char *body;      /* NUL-terminated; NULL: none */
        size_t body_size;
        char content_type[128];  /* lower case, without parameters; "" if none */
        char request_id[128];    /* x-request-id, request-id; printable ASCII; "" if none */
        uint64_t retry_after_ms; /* retry-after-ms, Retry-After in seconds or as a date; 0: none */
        bool sent;               /* the request left: it may have been acted upon, whatever came of the answer */
        char kept[128];          /* value of the request's keep_header; printable ASCII; "" if none */
};
void sbx_http_response_clear(struct sbx_http_response *response);
/* Fills `ret_response`, which need not be initialised, in any case: on failure nothing of it is to be freed, and
 * `status` and `sent` say how far it got. 0: an answer came, of whatever status. Else -EINVAL (URL or header),
 * -EHOSTUNREACH (name or route), -ECONNREFUSED, -ECONNRESET (it broke off), -EPROTO (TLS or HTTP), -EFBIG, -ETIMEDOUT,
 * -ECANCELED, -ENOMEM, or what `piece` returned; -ENOENT, -EACCES of a Unix socket; the error names scheme, host and
 * port of the URL (or the socket), and nothing else of it. */
int sbx_http_perform(struct sbx_http *http, const struct sbx_http_request *request, const struct sbx_call *call,
                     struct sbx_http_response *ret_response, struct sbx_error *err);

/* A connection that a request has taken out of HTTP (RFC 9110, 7.8): bytes both ways, non-blocking. One thread at a
 * time. */
struct sbx_http_stream;
#define SBX_HTTP_STREAM_BODY_MAX 65536u /* of the answer when it is not a stream; what is more is left out */

/* Asks with "Connection: Upgrade", "Upgrade: `protocol`". The server's 101, or 200 (container engines), hands the
 * connection over: 0 and the stream. Another answer: 0, no stream (NULL), and the response with its status and body.
 * Of the request `piece`, `response_max_bytes` and `keep_header` don't count. Errors as of sbx_http_perform. The client
 * must outlive the stream. */
int sbx_http_stream_open(struct sbx_http *http, const struct sbx_http_request *request, const char *protocol,
                         const struct sbx_call *call, struct sbx_http_stream **ret_stream,
                         struct sbx_http_response *ret_response, struct sbx_error *err);
void sbx_http_stream_free(struct sbx_http_stream *stream); /* closes the connection; NULL is fine */
/* To poll. Bytes may wait in the stream although it is not readable: after opening, and whenever it was, receive until
 * -EAGAIN. */
int sbx_http_stream_fd(const struct sbx_http_stream *stream);
/* Bytes moved; receive: 0 is the end; -EAGAIN, -EPIPE (send), -ECONNRESET. After -EAGAIN of send, the next one begins
 * with the same bytes and has at least as many. */
ssize_t sbx_http_stream_send(struct sbx_http_stream *stream, const void *data, size_t size);
ssize_t sbx_http_stream_receive(struct sbx_http_stream *stream, void *data, size_t size);

#endif
