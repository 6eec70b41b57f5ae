/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP for plugins, on libcurl: one request with a deadline, a cancel descriptor and a maximum for everything. Linked
 * into the plugins that use it; no globals of its own. A client is thread-safe: requests of different threads go on
 * side by side, and connections are kept for the next one. */
#ifndef SBX_HTTP_H
#define SBX_HTTP_H

#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct sbx_http; /* a client: its idle connections */

struct sbx_http_options {
        const char *origin;          /* of errors: the plugin's name */
        const char *user_agent;      /* "snipara-sandbox/2.2.7" */
        const char *proxy;           /* NULL: as the environment says (HTTPS_PROXY, NO_PROXY); "": none */
        const char *ca_file;         /* NULL: the system's */
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
 * -ECANCELED, -ENOMEM, or what `piece` returned; the error names scheme, host and port of the URL, and nothing else of
 * it. */
int sbx_http_perform(struct sbx_http *http, const struct sbx_http_request *request, const struct sbx_call *call,
                     struct sbx_http_response *ret_response, struct sbx_error *err);

#endif
