/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of trajectories: line by line, or no more than their ends. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/logs.h"

#define ORIGIN "logs"
#define CHUNK_SIZE ((size_t)64 << 10)
#define END_SIZE ((size_t)8 << 10) /* what is read of an end at first */

/* ---- line by line ---- */

void sbx_logs_reader_init(struct sbx_logs_reader *reader, int fd) {
        *reader = (struct sbx_logs_reader){.fd = fd, .buffer = SBX_BUFFER(SBX_LOGS_LINE_MAX + 2 * CHUNK_SIZE)};
}

void sbx_logs_reader_free(struct sbx_logs_reader *reader) {
        sbx_buffer_free(&reader->buffer);
}

static int read_more(struct sbx_logs_reader *reader, struct sbx_error *err) {
        struct sbx_buffer *buffer = &reader->buffer;
        ssize_t size;
        int r;

        if (reader->begin > 0) {
                sbx_buffer_consume(buffer, reader->begin);
                reader->begin = 0;
        }
        r = sbx_buffer_reserve(buffer, CHUNK_SIZE);
        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        do
                size = read(reader->fd, buffer->data + buffer->size, CHUNK_SIZE);
        while (size < 0 && errno == EINTR);
        if (size < 0)
                return sbx_error_set(err, -errno, ORIGIN, NULL, "can't read the file: %s", SBX_ERRNO_TEXT(errno));
        reader->ended = size == 0;
        buffer->size += (size_t)size;
        return 0;
}

/* Drops the rest of a line that is too long. */
static int skip_line(struct sbx_logs_reader *reader, struct sbx_error *err) {
        int r = 0;

        while (r == 0 && !reader->ended) {
                const char *newline;

                reader->begin = reader->buffer.size;
                r = read_more(reader, err);
                newline = r == 0 && reader->buffer.size > 0 ? memchr(reader->buffer.data, '\n', reader->buffer.size)
                                                            : NULL;
                if (newline != NULL) {
                        reader->begin = (size_t)(newline - reader->buffer.data) + 1;
                        return 0;
                }
        }
        reader->begin = reader->buffer.size;
        return r;
}

static int give_too_long(struct sbx_logs_reader *reader, struct sbx_logs_line *ret_line, struct sbx_error *err) {
        int r = skip_line(reader, err);

        if (r < 0)
                return r;
        *ret_line = (struct sbx_logs_line){.number = ++reader->number, .whole = !reader->ended, .too_long = true};
        return 1;
}

int sbx_logs_reader_next(struct sbx_logs_reader *reader, struct sbx_logs_line *ret_line, struct sbx_error *err) {
        struct sbx_buffer *buffer = &reader->buffer;
        size_t searched = reader->begin;

        for (;;) {
                const char *newline =
                        buffer->size > searched ? memchr(buffer->data + searched, '\n', buffer->size - searched) : NULL;
                size_t end = newline != NULL ? (size_t)(newline - buffer->data) : buffer->size;
                int r;

                if (newline != NULL || (reader->ended && end > reader->begin)) {
                        *ret_line = (struct sbx_logs_line){
                                .text = {buffer->data + reader->begin, end - reader->begin},
                                .number = ++reader->number,
                                .whole = newline != NULL,
                        };
                        reader->begin = end + (newline != NULL);
                        return 1;
                }
                if (reader->ended)
                        return 0;
                if (end - reader->begin > SBX_LOGS_LINE_MAX)
                        return give_too_long(reader, ret_line, err);
                searched = end - reader->begin; /* read_more moves the line to the front */
                r = read_more(reader, err);
                if (r < 0)
                        return r;
        }
}

/* ---- the ends ---- */

static int read_at(int fd, uint64_t offset, size_t size, struct sbx_buffer *out, struct sbx_error *err) {
        size_t done = 0;

        sbx_buffer_clear(out);
        if (sbx_buffer_reserve(out, size) < 0)
                return SBX_NOMEM(err, ORIGIN);
        while (done < size) {
                ssize_t n = pread(fd, out->data + done, size - done, (off_t)(offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return sbx_error_set(err, -errno, ORIGIN, NULL, "can't read the file: %s",
                                             SBX_ERRNO_TEXT(errno));
                if (n == 0)
                        break;
                done += (size_t)n;
        }
        out->size = done;
        return 0;
}

/* The line before the newline at `end`. False: it begins before `bytes` do. */
static bool line_before(struct sbx_bytes bytes, size_t end, bool from_start, struct sbx_bytes *ret_line) {
        const char *data = bytes.data, *newline = end > 0 ? memrchr(data, '\n', end) : NULL;
        size_t begin = newline != NULL ? (size_t)(newline - data) + 1 : 0;

        if (newline == NULL && !from_start)
                return false;
        *ret_line = (struct sbx_bytes){data + begin, end - begin};
        return true;
}

/* First the 8 KiB at the end, then ever more, until the last whole line is in it. */
static int read_last(int fd, uint64_t file_size, json_t **ret_last, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(SBX_LOGS_LINE_MAX);

        for (size_t size = END_SIZE;; size *= 4) {
                const char *newline;
                struct sbx_bytes line;
                int r;

                size = size > SBX_LOGS_LINE_MAX ? SBX_LOGS_LINE_MAX : size;
                size = size > file_size ? (size_t)file_size : size;
                r = read_at(fd, file_size - size, size, &bytes, err);
                if (r < 0)
                        return r;
                newline = bytes.size > 0 ? memrchr(bytes.data, '\n', bytes.size) : NULL;
                if (newline != NULL &&
                    line_before(sbx_buffer_bytes(&bytes), (size_t)(newline - bytes.data), size == file_size, &line)) {
                        *ret_last = sbx_logs_parse(line);
                        return 0;
                }
                if (size == file_size || size == SBX_LOGS_LINE_MAX)
                        return 0;
        }
}

/* The line that begins at `begin`: 8 KiB from there, then ever more, until its end is in `bytes`. `*ret_end` is where
 * the next one begins; 0: it has no end. */
static int read_line_at(int fd, uint64_t file_size, uint64_t begin, struct sbx_buffer *bytes, uint64_t *ret_end,
                        struct sbx_error *err) {
        uint64_t left = file_size > begin ? file_size - begin : 0;

        *ret_end = 0;
        for (size_t size = END_SIZE;; size *= 4) {
                const char *newline;
                int r;

                size = size > SBX_LOGS_LINE_MAX ? SBX_LOGS_LINE_MAX : size;
                size = size > left ? (size_t)left : size;
                r = read_at(fd, begin, size, bytes, err);
                if (r < 0)
                        return r;
                newline = bytes->size > 0 ? memchr(bytes->data, '\n', bytes->size) : NULL;
                if (newline != NULL) {
                        bytes->size = (size_t)(newline - bytes->data);
                        *ret_end = begin + bytes->size + 1;
                }
                if (newline != NULL || size == left || size == SBX_LOGS_LINE_MAX)
                        return 0;
        }
}

int sbx_logs_ends_read(int fd, json_t **ret_first, json_t **ret_second, json_t **ret_last, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(SBX_LOGS_LINE_MAX);
        struct stat st;
        uint64_t end = 0, ignored = 0;
        int r;

        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, ORIGIN, NULL, "can't look at the file: %s", SBX_ERRNO_TEXT(errno));
        r = read_line_at(fd, (uint64_t)st.st_size, 0, &bytes, &end, err);
        if (r < 0 || end == 0)
                return r;
        *ret_first = sbx_logs_parse(sbx_buffer_bytes(&bytes));
        /* A file that sink-jsonl wrote tells everything in its first and its last line. */
        if (ret_second != NULL && *ret_first != NULL && json_object_get(*ret_first, "prev") == NULL) {
                r = read_line_at(fd, (uint64_t)st.st_size, end, &bytes, &ignored, err);
                if (r == 0 && ignored > 0)
                        *ret_second = sbx_logs_parse(sbx_buffer_bytes(&bytes));
        }
        return r < 0 ? r : read_last(fd, (uint64_t)st.st_size, ret_last, err);
}

/* ---- what is in a line ---- */

json_t *sbx_logs_parse(struct sbx_bytes text) {
        struct sbx_error ignored = {0};
        json_t *object = NULL;

        if (text.size == 0 || sbx_json_parse(text, SBX_LOGS_LINE_MAX, "line", &object, &ignored) < 0)
                return NULL;
        if (json_is_object(object))
                return object;
        json_decref(object);
        return NULL;
}

bool sbx_logs_is_metadata(const json_t *line) {
        return json_object_get(line, "_type") != NULL;
}

const char *sbx_logs_text(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));

        return text != NULL ? text : "";
}

bool sbx_logs_is(const json_t *object, const char *key, const char *text) {
        return strcmp(sbx_logs_text(object, key), text) == 0;
}

double sbx_logs_number(const json_t *object, const char *key) {
        const json_t *value = json_object_get(object, key);
        double number = json_is_number(value) ? json_number_value(value) : -1;

        return number >= 0 && number < 1e18 ? number : -1;
}
