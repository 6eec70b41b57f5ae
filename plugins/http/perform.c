/* SPDX-License-Identifier: Apache-2.0 */
/* One request from start to end: what curl is told, and waiting on network, deadline and cancel descriptor at once. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "http_internal.h"

#define POLL_MS_MAX 60000

uint64_t http_clock_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void sbx_http_response_clear(struct sbx_http_response *response) {
        free(response->body);
        *response = (struct sbx_http_response){0};
}

/* A header whose text could end the line and begin another would change the request. */
int http_add_header(struct http_exchange *exchange, const char *header) {
        struct curl_slist *longer;

        for (const char *c = header; *c != '\0'; c++)
                if ((unsigned char)*c < 0x20 || *c == 0x7F)
                        return sbx_error_set(
                                exchange->err, -EINVAL, exchange->http->origin,
                                "Look for a line break in a key or another setting that goes into headers.",
                                "a header for %s has control characters", exchange->place.text);
        longer = curl_slist_append(exchange->headers, header);
        if (longer == NULL)
                return sbx_error_set(exchange->err, -ENOMEM, exchange->http->origin, NULL, "out of memory");
        exchange->headers = longer;
        return 0;
}

static int add_headers(struct http_exchange *exchange) {
        int r = http_add_header(exchange, "Expect:"); /* no waiting for 100-continue */

        for (const char *const *header = exchange->request->headers; r == 0 && header != NULL && *header != NULL;
             header++)
                r = http_add_header(exchange, *header);
        return r;
}

static CURLcode set_request(struct http_exchange *exchange) {
        const struct sbx_http_request *request = exchange->request;
        CURL *easy = exchange->line->easy;
        CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, request->url);

        if (code == CURLE_OK)
                code = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
        if (code == CURLE_OK && strcmp(request->method, "GET") == 0)
                return curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        if (code == CURLE_OK && (request->body.size > 0 || strcmp(request->method, "POST") == 0)) {
                code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
                if (code == CURLE_OK)
                        code = curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                                                request->body.size > 0 ? (const char *)request->body.data : "");
        }
        if (code == CURLE_OK && strcmp(request->method, "POST") != 0)
                code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
        return code;
}

/* No child process gets a connection: what is behind it may be trusted with much. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
        int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

        return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* Proxy variables are the only thing of the environment that counts: no netrc, no cookies, no other protocol. */
CURLcode http_set_network(struct http_exchange *exchange) {
        const struct sbx_http *http = exchange->http;
        CURL *easy = exchange->line->easy;
        uint64_t connect_ms = http->connect_timeout_ms < 3600000 ? http->connect_timeout_ms : 3600000;
        CURLcode code;

#if LIBCURL_VERSION_NUM >= 0x075500
        code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
        code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        if (code == CURLE_OK && (http->proxy != NULL || http->unix_socket != NULL))
                code = curl_easy_setopt(easy, CURLOPT_PROXY, http->unix_socket != NULL ? "" : http->proxy);
        if (code == CURLE_OK && http->ca_file != NULL)
                code = curl_easy_setopt(easy, CURLOPT_CAINFO, http->ca_file);
        if (code == CURLE_OK && http->certificate != NULL)
                code = curl_easy_setopt(easy, CURLOPT_SSLCERT, http->certificate);
        if (code == CURLE_OK && http->key != NULL)
                code = curl_easy_setopt(easy, CURLOPT_SSLKEY, http->key);
        if (code == CURLE_OK && http->unix_socket != NULL)
                code = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, http->unix_socket);
        if (code == CURLE_OK && http->user_agent != NULL)
                code = curl_easy_setopt(easy, CURLOPT_USERAGENT, http->user_agent);
        if (code == CURLE_OK && http->http1)
                code = curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        if (code != CURLE_OK)
                return code;
        curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
        curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
        curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
        /* A name server that does not answer must not outlast the deadline: the resolver's thread is left behind. */
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
        return curl_easy_setopt(easy, CURLOPT_SHARE, http->share);
}

static CURLcode set_answer(struct http_exchange *exchange) {
        CURL *easy = exchange->line->easy;
        size_t max = exchange->request->response_max_bytes;

        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_take_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_take_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
        /* 0 would mean no limit; the callback stops that at the first byte. */
        return curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)(max < INT64_MAX ? max : INT64_MAX));
}

/* Bytes that have moved so far, in either direction. */
static uint64_t bytes_moved(const struct http_exchange *exchange) {
        curl_off_t down = 0, up = 0;

        curl_easy_getinfo(exchange->line->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
        curl_easy_getinfo(exchange->line->easy, CURLINFO_SIZE_UPLOAD_T, &up);
        return (uint64_t)down + (uint64_t)up + exchange->headers_size;
}

int http_wait_ms(uint64_t now, uint64_t deadline_ns, uint64_t idle_until_ns) {
        uint64_t until = deadline_ns, left;

        if (until == 0 || (idle_until_ns != 0 && idle_until_ns < until))
                until = idle_until_ns;
        if (until == 0)
                return POLL_MS_MAX;
        left = until > now ? (until - now + HTTP_NS_PER_MS - 1) / HTTP_NS_PER_MS : 0;
        return left < POLL_MS_MAX ? (int)left : POLL_MS_MAX;
}

int http_check_bounds(const struct http_exchange *exchange, const struct sbx_call *call, uint64_t now,
                      uint64_t idle_until_ns) {
        const char *origin = exchange->http->origin, *place = exchange->place.text;
        struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};

        if (call->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
                return sbx_error_set(exchange->err, -ECANCELED, origin, NULL, "the request to %s was cancelled", place);
        if (call->deadline_ns != 0 && now >= call->deadline_ns)
                return sbx_error_set(exchange->err, -ETIMEDOUT, origin, "Allow more time, or look at the server.",
                                     "%s did not finish its answer in the time that was left", place);
        if (idle_until_ns != 0 && now >= idle_until_ns)
                return sbx_error_set(exchange->err, -ETIMEDOUT, origin, "Look at the server and the network.",
                                     "%s sent nothing for %llu seconds", place,
                                     (unsigned long long)(exchange->http->idle_timeout_ms / 1000));
        return 0;
}

/* 1: the transfer has ended, as *ret_code says. */
static int is_done(const struct http_exchange *exchange, CURLcode *ret_code) {
        int left;

        for (CURLMsg *message; (message = curl_multi_info_read(exchange->line->multi, &left)) != NULL;)
                if (message->msg == CURLMSG_DONE) {
                        *ret_code = message->data.result;
                        return 1;
                }
        return 0;
}

int http_transfer(struct http_exchange *exchange, const struct sbx_call *call) {
        uint64_t idle_ns = exchange->http->idle_timeout_ms * HTTP_NS_PER_MS;
        uint64_t now = http_clock_ns(), idle_until = idle_ns > 0 ? now + idle_ns : 0, moved = 0;
        struct curl_waitfd cancel = {.fd = call->cancel_fd, .events = CURL_WAIT_POLLIN};
        unsigned extra = call->cancel_fd >= 0 ? 1 : 0;
        CURLM *multi = exchange->line->multi;
        CURLcode code = CURLE_OK;
        int running, r;

        for (;;) {
                r = http_check_bounds(exchange, call, now, idle_until);
                if (r < 0)
                        return r;
                if (curl_multi_perform(multi, &running) != CURLM_OK)
                        return http_failure(exchange, CURLE_OUT_OF_MEMORY);
                if (is_done(exchange, &code))
                        return code == CURLE_OK && exchange->failure == 0 ? 0 : http_failure(exchange, code);
                now = http_clock_ns();
                if (idle_ns > 0 && bytes_moved(exchange) != moved) {
                        moved = bytes_moved(exchange);
                        idle_until = now + idle_ns;
                }
                if (curl_multi_poll(multi, &cancel, extra, http_wait_ms(now, call->deadline_ns, idle_until), NULL) !=
                    CURLM_OK)
                        return http_failure(exchange, CURLE_OUT_OF_MEMORY);
                now = http_clock_ns();
        }
}

static int run(struct http_exchange *exchange, const struct sbx_call *call) {
        struct http_line *line = exchange->line;
        CURLcode code = http_set_network(exchange);
        long request_size = 0;
        int r;

        if (code == CURLE_OK)
                code = set_request(exchange);
        if (code == CURLE_OK)
                code = set_answer(exchange);
        if (code != CURLE_OK)
                return http_failure(exchange, code);
        if (curl_multi_add_handle(line->multi, line->easy) != CURLM_OK)
                return http_failure(exchange, CURLE_OUT_OF_MEMORY);
        r = http_transfer(exchange, call);
        curl_easy_getinfo(line->easy, CURLINFO_REQUEST_SIZE, &request_size);
        exchange->response->sent = request_size > 0;
        curl_multi_remove_handle(line->multi, line->easy); /* closes what is unfinished */
        return r;
}

int sbx_http_perform(struct sbx_http *http, const struct sbx_http_request *request, const struct sbx_call *call,
                     struct sbx_http_response *ret_response, struct sbx_error *err) {
        static const struct sbx_call unbounded = {sizeof(unbounded), -1, 0};
        struct http_exchange exchange = {.http = http, .request = request, .response = ret_response, .err = err};
        int r;

        *ret_response = (struct sbx_http_response){0};
        r = http_place_of(http, request->url, &exchange.place);
        if (r < 0)
                return http_failure(&exchange, r == -ENOMEM ? CURLE_OUT_OF_MEMORY : CURLE_URL_MALFORMAT);
        r = add_headers(&exchange);
        if (r == 0 && http_line_take(http, &exchange.line) < 0)
                r = http_failure(&exchange, CURLE_OUT_OF_MEMORY);
        if (r == 0) {
                r = run(&exchange, call != NULL ? call : &unbounded);
                http_line_give_back(http, exchange.line);
        }
        curl_slist_free_all(exchange.headers);
        if (r < 0) {
                free(ret_response->body);
                ret_response->body = NULL;
                ret_response->body_size = 0;
        }
        return r;
}
