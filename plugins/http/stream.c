/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that a request takes out of HTTP. Curl only connects (and does TLS); request and answer are written and
 * read here, for what follows them belongs to no HTTP message. */
#include <poll.h>
#include <strings.h>

#include "http_internal.h"

#define RETRY_MAX 16384u /* one record of TLS */

struct sbx_http_stream {
        struct http_line *line; /* curl closes the connection of a handle that leaves its multi handle */
        int fd;
        char *early; /* bytes that came with the answer's head */
        size_t early_start, early_size;
        /* TLS libraries want exactly the bytes again that they could not send at once: kept here. NULL: no TLS. */
        char *retry;
        size_t retry_size;
};

/* What has been read of the answer. */
struct answer {
        char *data;
        size_t size, capacity;
};

static int out_of_memory(struct http_exchange *exchange) {
        return http_failure(exchange, CURLE_OUT_OF_MEMORY);
}

/* The path with its query: all that follows the authority. */
static const char *target_of(const char *url) {
        const char *target = strstr(url, "://");

        target = target != NULL ? strchr(target + 3, '/') : NULL;
        return target != NULL ? target : "/";
}

static void write_request(FILE *out, const struct http_exchange *exchange, const char *protocol) {
        const struct sbx_http_request *request = exchange->request;
        const char *authority = strstr(request->url, "://") + 3;

        fprintf(out, "%s %s HTTP/1.1\r\nHost: %.*s\r\n", request->method, target_of(request->url),
                (int)strcspn(authority, "/"), authority);
        if (exchange->http->user_agent != NULL)
                fprintf(out, "User-Agent: %s\r\n", exchange->http->user_agent);
        fprintf(out, "Connection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %zu\r\n", protocol, request->body.size);
        for (const struct curl_slist *header = exchange->headers; header != NULL; header = header->next)
                fprintf(out, "%s\r\n", header->data);
        fputs("\r\n", out);
        if (request->body.size > 0)
                fwrite(request->body.data, 1, request->body.size, out);
}

static int make_request(struct http_exchange *exchange, const char *protocol, char **ret_text, size_t *ret_size) {
        FILE *out;
        int r = 0;

        for (const char *const *header = exchange->request->headers; r == 0 && header != NULL && *header != NULL;
             header++)
                r = http_add_header(exchange, *header);
        if (r < 0)
                return r;
        out = open_memstream(ret_text, ret_size);
        if (out == NULL)
                return out_of_memory(exchange);
        write_request(out, exchange, protocol);
        return fclose(out) == 0 ? 0 : out_of_memory(exchange);
}

static int connect_line(struct http_exchange *exchange, const struct sbx_call *call, struct sbx_http_stream *stream) {
        struct http_line *line = exchange->line;
        curl_socket_t fd = CURL_SOCKET_BAD;
        CURLcode code = http_set_network(exchange);
        int r;

        if (code == CURLE_OK)
                code = curl_easy_setopt(line->easy, CURLOPT_URL, exchange->request->url);
        if (code == CURLE_OK)
                code = curl_easy_setopt(line->easy, CURLOPT_CONNECT_ONLY, 1L);
        /* TLS would settle for HTTP/2, which has no upgrade. */
        if (code == CURLE_OK)
                code = curl_easy_setopt(line->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        if (code != CURLE_OK)
                return http_failure(exchange, code);
        if (curl_multi_add_handle(line->multi, line->easy) != CURLM_OK)
                return out_of_memory(exchange);
        r = http_transfer(exchange, call);
        if (r < 0)
                return r;
        code = curl_easy_getinfo(line->easy, CURLINFO_ACTIVESOCKET, &fd);
        if (code != CURLE_OK || fd == CURL_SOCKET_BAD)
                return http_failure(exchange, CURLE_RECV_ERROR);
        stream->fd = fd;
        return 0;
}

/* Until the connection is ready, or the call's time is up, or it is cancelled. */
static int wait_for(struct http_exchange *exchange, int fd, short events, const struct sbx_call *call,
                    uint64_t idle_until_ns) {
        struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = call->cancel_fd, .events = POLLIN}};
        uint64_t now = http_clock_ns();
        int r = http_check_bounds(exchange, call, now, idle_until_ns);

        if (r < 0)
                return r;
        if (poll(fds, 2, http_wait_ms(now, call->deadline_ns, idle_until_ns)) < 0 && errno != EINTR)
                return out_of_memory(exchange);
        return http_check_bounds(exchange, call, http_clock_ns(), idle_until_ns);
}

static uint64_t idle_until(const struct http_exchange *exchange) {
        uint64_t idle_ns = exchange->http->idle_timeout_ms * HTTP_NS_PER_MS;

        return idle_ns > 0 ? http_clock_ns() + idle_ns : 0;
}

static int send_all(struct http_exchange *exchange, const struct sbx_http_stream *stream, const char *text, size_t size,
                    const struct sbx_call *call) {
        uint64_t until = idle_until(exchange);
        size_t sent = 0, n;

        while (sent < size) {
                CURLcode code = curl_easy_send(stream->line->easy, text + sent, size - sent, &n);
                int r;

                exchange->response->sent = exchange->response->sent || code == CURLE_OK;
                if (code == CURLE_OK) {
                        sent += n;
                        until = idle_until(exchange);
                        continue;
                }
                r = code == CURLE_AGAIN ? wait_for(exchange, stream->fd, POLLOUT, call, until)
                                        : http_failure(exchange, CURLE_SEND_ERROR);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* 1: more bytes, 0: the end. */
static int read_more(struct http_exchange *exchange, const struct sbx_http_stream *stream, struct answer *answer,
                     const struct sbx_call *call) {
        uint64_t until = idle_until(exchange);
        CURLcode code;
        size_t n = 0;
        int r;

        if (answer->capacity - answer->size < 4096) {
                size_t capacity = answer->capacity > 0 ? 2 * answer->capacity : 8192;
                char *data = realloc(answer->data, capacity);

                if (data == NULL)
                        return out_of_memory(exchange);
                answer->data = data;
                answer->capacity = capacity;
        }
        for (;;) {
                code = curl_easy_recv(stream->line->easy, answer->data + answer->size, 4096, &n);
                if (code != CURLE_AGAIN)
                        break;
                r = wait_for(exchange, stream->fd, POLLIN, call, until);
                if (r < 0)
                        return r;
        }
        if (code != CURLE_OK)
                return http_failure(exchange, CURLE_RECV_ERROR);
        answer->size += n;
        return n > 0;
}

static int read_head(struct http_exchange *exchange, const struct sbx_http_stream *stream, struct answer *answer,
                     const struct sbx_call *call, struct http_head *ret_head) {
        for (;;) {
                int r = read_more(exchange, stream, answer, call);

                if (r < 0)
                        return r;
                if (r == 0)
                        return http_failure(exchange, answer->size > 0 ? CURLE_PARTIAL_FILE : CURLE_GOT_NOTHING);
                r = http_head_read(answer->data, answer->size, ret_head);
                if (r == 1)
                        return 0;
                if (r < 0)
                        return http_failure(exchange, CURLE_WEIRD_SERVER_REPLY);
        }
}

/* Of an answer that is no stream; as much as is wanted, or as comes. */
static int read_body(struct http_exchange *exchange, const struct sbx_http_stream *stream, struct answer *answer,
                     const struct http_head *head, const struct sbx_call *call) {
        struct sbx_http_response *response = exchange->response;
        bool whole = false;
        int r;

        for (;;) {
                size_t size = answer->size - head->size;
                char *body = realloc(response->body, size + 1);

                if (body == NULL)
                        return out_of_memory(exchange);
                response->body = body;
                whole = http_body_read(head, answer->data + head->size, size, body, &response->body_size);
                body[response->body_size] = '\0';
                if (whole || size >= SBX_HTTP_STREAM_BODY_MAX)
                        return 0;
                r = read_more(exchange, stream, answer, call);
                if (r <= 0)
                        return r;
        }
}

static int ask(struct http_exchange *exchange, struct sbx_http_stream *stream, const char *protocol,
               const struct sbx_call *call, struct answer *answer, bool *ret_taken) {
        char *text = NULL;
        size_t size = 0;
        struct http_head head = {0};
        int r = make_request(exchange, protocol, &text, &size);

        if (r == 0)
                r = connect_line(exchange, call, stream);
        if (r == 0)
                r = send_all(exchange, stream, text, size, call);
        free(text);
        if (r == 0)
                r = read_head(exchange, stream, answer, call, &head);
        if (r < 0)
                return r;
        exchange->response->status = head.status;
        *ret_taken = head.status == 101 || head.status == 200;
        if (!*ret_taken)
                return read_body(exchange, stream, answer, &head, call);
        stream->early = answer->data;
        stream->early_start = head.size;
        stream->early_size = answer->size - head.size;
        answer->data = NULL;
        if (stream->early_size == 0) {
                free(stream->early);
                stream->early = NULL;
        }
        return 0;
}

static int make_stream(struct http_exchange *exchange, struct sbx_http_stream **ret_stream) {
        struct sbx_http_stream *stream = calloc(1, sizeof(*stream));
        bool tls = strncasecmp(exchange->request->url, "https:", 6) == 0;

        if (stream == NULL)
                return -ENOMEM;
        stream->fd = -1;
        if (tls)
                stream->retry = malloc(RETRY_MAX);
        if ((tls && stream->retry == NULL) || http_line_new(&stream->line) < 0) {
                sbx_http_stream_free(stream);
                return -ENOMEM;
        }
        exchange->line = stream->line;
        *ret_stream = stream;
        return 0;
}

int sbx_http_stream_open(struct sbx_http *http, const struct sbx_http_request *request, const char *protocol,
                         const struct sbx_call *call, struct sbx_http_stream **ret_stream,
                         struct sbx_http_response *ret_response, struct sbx_error *err) {
        static const struct sbx_call unbounded = {.struct_size = sizeof(unbounded), .cancel_fd = -1};
        struct http_exchange exchange = {.http = http, .request = request, .response = ret_response, .err = err};
        struct sbx_http_stream *stream = NULL;
        struct answer answer = {0};
        bool taken = false;
        int r;

        *ret_response = (struct sbx_http_response){0};
        *ret_stream = NULL;
        r = http_place_of(http, request->url, &exchange.place);
        if (r < 0)
                return http_failure(&exchange, r == -ENOMEM ? CURLE_OUT_OF_MEMORY : CURLE_URL_MALFORMAT);
        r = make_stream(&exchange, &stream);
        r = r < 0 ? out_of_memory(&exchange)
                  : ask(&exchange, stream, protocol, call != NULL ? call : &unbounded, &answer, &taken);
        free(answer.data);
        curl_slist_free_all(exchange.headers);
        if (r < 0) {
                free(ret_response->body);
                ret_response->body = NULL;
                ret_response->body_size = 0;
        }
        if (r < 0 || !taken)
                sbx_http_stream_free(stream);
        else
                *ret_stream = stream;
        return r;
}

void sbx_http_stream_free(struct sbx_http_stream *stream) {
        if (stream == NULL)
                return;
        if (stream->line != NULL) {
                curl_multi_remove_handle(stream->line->multi, stream->line->easy);
                http_line_free(stream->line);
        }
        free(stream->early);
        free(stream->retry);
        free(stream);
}

int sbx_http_stream_fd(const struct sbx_http_stream *stream) {
        return stream->fd;
}

static ssize_t send_now(struct sbx_http_stream *stream, const void *data, size_t size) {
        size_t n = 0;
        CURLcode code = curl_easy_send(stream->line->easy, data, size, &n);

        return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? -EAGAIN : -EPIPE;
}

ssize_t sbx_http_stream_send(struct sbx_http_stream *stream, const void *data, size_t size) {
        ssize_t n;

        if (stream->retry == NULL)
                return send_now(stream, data, size);
        if (stream->retry_size == 0) {
                stream->retry_size = size < RETRY_MAX ? size : RETRY_MAX;
                memcpy(stream->retry, data, stream->retry_size);
        }
        n = send_now(stream, stream->retry, stream->retry_size);
        if (n != -EAGAIN)
                stream->retry_size = 0;
        return n;
}

ssize_t sbx_http_stream_receive(struct sbx_http_stream *stream, void *data, size_t size) {
        CURLcode code;
        size_t n = 0;

        if (stream->early_size > 0) {
                n = size < stream->early_size ? size : stream->early_size;
                memcpy(data, stream->early + stream->early_start, n);
                stream->early_start += n;
                stream->early_size -= n;
                return (ssize_t)n;
        }
        code = curl_easy_recv(stream->line->easy, data, size, &n);
        return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}
