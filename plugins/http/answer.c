/* SPDX-License-Identifier: Apache-2.0 */
/* An answer as it comes in: the few headers that count, and a body with a maximum. All of it is hostile. */
#include <strings.h>
#include <time.h>

#include "http_internal.h"

/* Ends the transfer from within a callback: curl takes any other count than its own for a failure. */
static size_t give_up(struct http_exchange *exchange, int code) {
        if (exchange->failure == 0)
                exchange->failure = code;
        return 0;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The value of the header `name` in a line; NULL: another header. */
static const char *header_value(const char *line, size_t size, const char *name, size_t *ret_size) {
        size_t length = strlen(name);

        if (size <= length || line[length] != ':' || strncasecmp(line, name, length) != 0)
                return NULL;
        line += length + 1;
        size -= length + 1;
        while (size > 0 && is_blank(line[0])) {
                line++;
                size--;
        }
        while (size > 0 && is_blank(line[size - 1]))
                size--;
        *ret_size = size;
        return line;
}

/* Copies a value whole; one that is too long or not printable ASCII counts as none. */
static void copy_value(const char *value, size_t value_size, char *out, size_t capacity) {
        out[0] = '\0';
        if (value_size >= capacity)
                return;
        for (size_t i = 0; i < value_size; i++)
                if (value[i] < 0x20 || value[i] > 0x7E)
                        return;
        memcpy(out, value, value_size);
        out[value_size] = '\0';
}

static void copy_content_type(const char *value, size_t value_size, char *out, size_t capacity) {
        size_t size = 0;

        while (size < value_size && value[size] != ';')
                size++;
        while (size > 0 && is_blank(value[size - 1]))
                size--;
        copy_value(value, size, out, capacity);
        for (; *out != '\0'; out++)
                if (*out >= 'A' && *out <= 'Z')
                        *out = (char)(*out - 'A' + 'a');
}

/* Digits, bounded so that nothing overflows later: nobody waits for eleven days. */
static bool read_digits(const char *value, size_t size, uint64_t *ret) {
        uint64_t number = 0;
        size_t i = 0;

        for (; i < size && value[i] >= '0' && value[i] <= '9'; i++)
                if (number < UINT64_C(1000000000))
                        number = number * 10 + (uint64_t)(value[i] - '0');
        if (i == 0 || (i < size && value[i] != '.'))
                return false;
        *ret = number < UINT64_C(1000000000) ? number : UINT64_C(1000000000);
        return true;
}

/* RFC 9110, 10.2.3: seconds, or a date. */
static uint64_t retry_after_ms(const char *value, size_t size) {
        char text[64];
        uint64_t seconds;
        time_t when, now = time(NULL);

        if (read_digits(value, size, &seconds))
                return seconds * 1000;
        copy_value(value, size, text, sizeof(text));
        when = text[0] != '\0' ? curl_getdate(text, NULL) : -1;
        return when > now && when - now < 1000000000 ? (uint64_t)(when - now) * 1000 : 0;
}

static void start_answer(struct http_exchange *exchange) {
        struct sbx_http_response *response = exchange->response;
        long status = 0;

        /* An interim answer, or that of a proxy, came before this one. */
        response->content_type[0] = response->request_id[0] = response->kept[0] = '\0';
        response->retry_after_ms = 0;
        curl_easy_getinfo(exchange->line->easy, CURLINFO_RESPONSE_CODE, &status);
        response->status = status > 0 ? (unsigned)status : 0;
}

size_t http_take_header(char *line, size_t one, size_t size, void *data) {
        struct http_exchange *exchange = data;
        struct sbx_http_response *response = exchange->response;
        uint64_t milliseconds;
        const char *value;
        size_t length;

        exchange->headers_size += size;
        if (exchange->headers_size > HTTP_HEADERS_MAX)
                return give_up(exchange, -EFBIG);
        if (size > 5 && memcmp(line, "HTTP/", 5) == 0)
                start_answer(exchange);
        else if ((value = header_value(line, size, "content-type", &length)) != NULL)
                copy_content_type(value, length, response->content_type, sizeof(response->content_type));
        else if ((value = header_value(line, size, "x-request-id", &length)) != NULL ||
                 (value = header_value(line, size, "request-id", &length)) != NULL)
                copy_value(value, length, response->request_id, sizeof(response->request_id));
        else if ((value = header_value(line, size, "retry-after-ms", &length)) != NULL) {
                if (read_digits(value, length, &milliseconds))
                        response->retry_after_ms = milliseconds;
        } else if ((value = header_value(line, size, "retry-after", &length)) != NULL && response->retry_after_ms == 0)
                response->retry_after_ms = retry_after_ms(value, length);
        if (exchange->request->keep_header != NULL &&
            (value = header_value(line, size, exchange->request->keep_header, &length)) != NULL)
                copy_value(value, length, response->kept, sizeof(response->kept));
        return size;
}

static int collect(struct http_exchange *exchange, const char *piece, size_t size) {
        struct sbx_http_response *response = exchange->response;
        size_t needed = response->body_size + size + 1, capacity = exchange->body_capacity;
        char *body;

        if (needed > capacity) {
                for (capacity = capacity > 0 ? capacity : 4096; capacity < needed;)
                        capacity *= 2;
                body = realloc(response->body, capacity);
                if (body == NULL)
                        return -ENOMEM;
                response->body = body;
                exchange->body_capacity = capacity;
        }
        memcpy(response->body + response->body_size, piece, size);
        response->body_size += size;
        response->body[response->body_size] = '\0';
        return 0;
}

size_t http_take_body(char *piece, size_t one, size_t size, void *data) {
        struct http_exchange *exchange = data;
        const struct sbx_http_request *request = exchange->request;
        int r;

        if (size > request->response_max_bytes - exchange->body_taken)
                return give_up(exchange, -EFBIG);
        exchange->body_taken += size;
        if (request->piece != NULL && exchange->response->status >= 200 && exchange->response->status < 300)
                r = request->piece(request->data, (struct sbx_bytes){piece, size});
        else
                r = collect(exchange, piece, size);
        return r < 0 ? give_up(exchange, r) : size;
}
