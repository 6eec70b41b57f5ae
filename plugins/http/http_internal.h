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
        char *origin, *user_agent, *proxy, *ca_file; /* all but origin may be NULL */
        uint64_t connect_timeout_ms, idle_timeout_ms;
        CURLSH *share; /* names and TLS sessions, for all lines */
        pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
        pthread_mutex_t lock; /* protects idle and idle_count */
        struct http_line *idle;
        unsigned idle_count;
};

int http_line_take(struct sbx_http *http, struct http_line **ret_line);
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
int http_place_of(const char *url, struct http_place *ret_place);
/* answer.c: what curl calls as an answer comes in; `data` is the exchange. */
size_t http_take_header(char *line, size_t one, size_t size, void *data);
size_t http_take_body(char *piece, size_t one, size_t size, void *data);
/* failure.c: reports how curl ended a transfer. Returns the negative errno. */
int http_failure(const struct http_exchange *exchange, CURLcode code);
