/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugins/http share: a client, one of its connections, and the state of one request. */
#pragma once

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>

#include "http.h"

#define HTTP_NS_PER_MS UINT64_C(1000000)
#define HTTP_HEADERS_MAX (256u * 1024u) /* of one answer, interim ones included */
#define HTTP_CONNECT_TIMEOUT_MS 10000
#define HTTP_IDLE_MAX 32        /* lines that wait for the next request; more are closed */
#define HTTP_LINE_CONNECTIONS 2 /* idle connections of one line: its requests come one after another */

/* One request at a time: a transfer handle with the connections that it left open. */
struct http_line {
        struct http_line *next;
        CURLM *multi;
        CURL *easy;
};

struct sbx_http {
        char *origin, *user_agent, *proxy, *ca_file, *certificate, *key, *unix_socket; /* all but origin may be NULL */
        uint64_t connect_timeout_ms, idle_timeout_ms;
        bool http1;
        CURLSH *share; /* names and TLS sessions, for all lines */
        pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
        pthread_mutex_t lock; /* protects idle and idle_count */
        struct http_line *idle;
        unsigned idle_count;
};

int http_line_take(struct sbx_http *http, struct http_line **ret_line);
int http_line_new(struct http_line **ret_line); /* one that has no connection */
void http_line_free(struct http_line *line);
void http_line_give_back(struct sbx_http *http, struct http_line *line);

/* The place of a URL, as errors name it: "https://host:port". */
struct http_place {
        char text[320];
};

/* One request under way. */
struct http_exchange {
        const struct sbx_http *http;
        const struct sbx_http_request *request;
        struct sbx_http_response *response;
        struct http_line *line;
        struct curl_slist *headers;
        struct http_place place;
        size_t headers_size, body_capacity, body_taken;
        int failure; /* negative: why a callback ended the transfer */
        struct sbx_error *err;
};

/* place.c. -EINVAL: not an http or https URL. */
int http_place_of(const struct sbx_http *http, const char *url, struct http_place *ret_place);
/* answer.c: what curl calls as an answer comes in; `data` is the exchange. */
size_t http_take_header(char *line, size_t one, size_t size, void *data);
size_t http_take_body(char *piece, size_t one, size_t size, void *data);
/* perform.c: where to, and how to be sure of who is there; the bounds of waiting. */
int http_add_header(struct http_exchange *exchange, const char *header);
CURLcode http_set_network(struct http_exchange *exchange);
uint64_t http_clock_ns(void);
/* Until when to wait, for poll(); the bounds that have passed already end the request before. */
int http_wait_ms(uint64_t now, uint64_t deadline_ns, uint64_t idle_until_ns);
int http_check_bounds(const struct http_exchange *exchange, const struct sbx_call *call, uint64_t now,
                      uint64_t idle_until_ns);
/* Performs what curl was told, until it is done. */
int http_transfer(struct http_exchange *exchange, const struct sbx_call *call);
/* failure.c: reports how curl ended a transfer. Returns the negative errno. */
int http_failure(const struct http_exchange *exchange, CURLcode code);
/* stream_head.c: an answer that was read by hand. */
#define HTTP_HEAD_MAX 65536u
struct http_head {
        unsigned status;
        size_t size;     /* with the empty line that ends it */
        bool chunked;    /* the body comes in chunks */
        uint64_t length; /* of the body; UINT64_MAX: until the connection ends */
};
/* 1: it is whole; 0: there is more to come; -EPROTO. */
int http_head_read(const char *data, size_t size, struct http_head *ret_head);
/* The body out of the `size` bytes after the head, into `out` (which has room for as many). True: it is whole. */
bool http_body_read(const struct http_head *head, const char *data, size_t size, char *out, size_t *ret_size);
