/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a request for a stream, which curl does not read: its status, its length, its body (RFC 9112). */
#include <strings.h>

#include "http_internal.h"

/* "HTTP/1.1 404 Not Found" */
static bool read_status(const char *line, size_t size, unsigned *ret_status) {
        unsigned status = 0;

        if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || (size > 12 && line[12] != ' '))
                return false;
        for (size_t i = 9; i < 12; i++) {
                if (line[i] < '0' || line[i] > '9')
                        return false;
                status = status * 10 + (unsigned)(line[i] - '0');
        }
        *ret_status = status;
        return status >= 100 && status < 600;
}

static bool is_header(const char *line, size_t size, const char *name, const char **ret_value, size_t *ret_size) {
        size_t length = strlen(name);

        if (size <= length || line[length] != ':' || strncasecmp(line, name, length) != 0)
                return false;
        line += length + 1;
        size -= length + 1;
        while (size > 0 && (line[0] == ' ' || line[0] == '\t')) {
                line++;
                size--;
        }
        while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t'))
                size--;
        *ret_value = line;
        *ret_size = size;
        return true;
}

static bool read_number(const char *text, size_t size, unsigned base, uint64_t *ret_number) {
        uint64_t number = 0;
        size_t i = 0;

        for (; i < size; i++) {
                unsigned digit = text[i] >= '0' && text[i] <= '9'   ? (unsigned)(text[i] - '0')
                                 : text[i] >= 'a' && text[i] <= 'f' ? (unsigned)(text[i] - 'a') + 10
                                 : text[i] >= 'A' && text[i] <= 'F' ? (unsigned)(text[i] - 'A') + 10
                                                                    : 16;

                if (digit >= base || number > UINT32_MAX)
                        return false;
                number = number * base + digit;
        }
        *ret_number = number;
        return i > 0;
}

static int take_header(const char *line, size_t size, struct http_head *head) {
        const char *value;
        size_t length;

        if (is_header(line, size, "transfer-encoding", &value, &length)) {
                if (length != 7 || strncasecmp(value, "chunked", 7) != 0)
                        return -EPROTO;
                head->chunked = true;
        } else if (is_header(line, size, "content-length", &value, &length) &&
                   !read_number(value, length, 10, &head->length))
                return -EPROTO;
        return 0;
}

int http_head_read(const char *data, size_t size, struct http_head *ret_head) {
        const char *end = memmem(data, size, "\r\n\r\n", 4), *line = data, *next;
        struct http_head head = {.length = UINT64_MAX};

        if (end == NULL)
                return size < HTTP_HEAD_MAX ? 0 : -EPROTO;
        head.size = (size_t)(end - data) + 4;
        for (; line < end + 2; line = next + 2) {
                next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
                if (next == NULL)
                        return -EPROTO;
                if (line == data) {
                        if (!read_status(line, (size_t)(next - line), &head.status))
                                return -EPROTO;
                } else if (take_header(line, (size_t)(next - line), &head) < 0)
                        return -EPROTO;
        }
        *ret_head = head;
        return 1;
}

/* Chunk by chunk: "1f;extension\r\n" and so many bytes and "\r\n", until one of size 0. What is malformed ends it. */
static bool read_chunks(const char *data, size_t size, char *out, size_t *ret_size) {
        size_t taken = 0, at = 0;
        bool whole = false;

        while (!whole) {
                const char *line = data + at, *end = memmem(line, size - at, "\r\n", 2);
                const char *extension = end != NULL ? memchr(line, ';', (size_t)(end - line)) : NULL;
                uint64_t length;
                size_t piece;

                if (end == NULL ||
                    !read_number(line, (size_t)((extension != NULL ? extension : end) - line), 16, &length))
                        break;
                at = (size_t)(end - data) + 2;
                whole = length == 0;
                piece = length < size - at ? (size_t)length : size - at;
                memcpy(out + taken, data + at, piece);
                taken += piece;
                if (size - at < length + 2)
                        break;
                at += (size_t)length + 2;
        }
        *ret_size = taken;
        return whole;
}

bool http_body_read(const struct http_head *head, const char *data, size_t size, char *out, size_t *ret_size) {
        if (head->chunked)
                return read_chunks(data, size, out, ret_size);
        *ret_size = head->length < size ? (size_t)head->length : size;
        if (*ret_size > 0)
                memcpy(out, data, *ret_size);
        return size >= head->length;
}
