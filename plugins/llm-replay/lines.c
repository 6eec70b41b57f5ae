/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded reading of JSON lines. */
#include "lines.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "util.h"

#define CHUNK ((size_t)256 << 10)
#define DEPTH_MAX 64u
#define VALUES_MAX (1u << 20)

/* ---- JSON ---- */

/* A lexical look: "[[],[],...]" would take some fifty times its size in memory, and deep nesting the stack. */
static const char *shape_problem(struct sbx_bytes text) {
        const char *data = text.data;
        size_t depth = 0, values = 0;
        bool in_string = false;

        for (size_t i = 0; i < text.size; i++) {
                char c = data[i];

                if (in_string) {
                        if (c == '\\')
                                i++;
                        else if (c == '"')
                                in_string = false;
                        continue;
                }
                if (c == '"')
                        in_string = true;
                else if (c == '[' || c == '{') {
                        values += 4;
                        if (++depth > DEPTH_MAX)
                                return "it is nested too deeply";
                } else if ((c == ']' || c == '}') && depth > 0)
                        depth--;
                values += c == ',' || c == '"';
                if (values > VALUES_MAX)
                        return "it has too many values";
        }
        return NULL;
}

static const char *parse_problem(const json_error_t *problem) {
        switch (json_error_code(problem)) {
        case json_error_invalid_utf8:
                return "it is not UTF-8";
        case json_error_duplicate_key:
                return "a key stands in it twice";
        default:
                return "it is no JSON object";
        }
}

int replay_json_parse(struct sbx_bytes text, json_t **ret_object, const char **ret_problem) {
        json_error_t problem = {.line = 0};
        json_t *value;

        *ret_problem = shape_problem(text);
        if (*ret_problem != NULL)
                return -EBADMSG;
        value = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        if (json_is_object(value)) {
                *ret_object = value;
                return 0;
        }
        /* An allocation that fails inside of the parser leaves no text. */
        if (value == NULL && (problem.text[0] == '\0' || json_error_code(&problem) == json_error_out_of_memory)) {
                *ret_problem = "there is no memory for it";
                return -ENOMEM;
        }
        *ret_problem = value == NULL ? parse_problem(&problem) : "it is no JSON object";
        json_decref(value);
        return -EBADMSG;
}

/* ---- the file ---- */

static int system_error(const struct replay_lines *lines, int code, const char *what, struct sbx_error *err) {
        return sbx_error_set(err, code, REPLAY_ORIGIN, "Set `file` to a trajectory that can be read.",
                             "%s can't be %s: %s", lines->path, what, strerrordesc_np(-code));
}

int replay_lines_open(const char *path, uint64_t max_bytes, struct replay_lines *ret_lines, struct sbx_error *err) {
        struct replay_lines lines = {.path = path, .total_max = max_bytes};
        struct stat st;
        int r = 0;

        /* O_NONBLOCK: a FIFO in its place does not make us wait for a writer. */
        lines.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (lines.fd < 0)
                return system_error(&lines, -errno, "opened", err);
        if (fstat(lines.fd, &st) < 0)
                r = system_error(&lines, -errno, "read", err);
        else if (!S_ISREG(st.st_mode))
                r = sbx_error_set(err, -EINVAL, REPLAY_ORIGIN, "Set `file` to a recorded trajectory, a .jsonl file.",
                                  "%s is no regular file", path);
        else if ((uint64_t)st.st_size > max_bytes)
                r = sbx_error_set(err, -EFBIG, REPLAY_ORIGIN, "Raise `max_size`.",
                                  "%s has %lld bytes, and `max_size` is %llu", path, (long long)st.st_size,
                                  (unsigned long long)max_bytes);
        if (r < 0) {
                close(lines.fd);
                return r;
        }
        *ret_lines = lines;
        return 0;
}

void replay_lines_close(struct replay_lines *lines) {
        if (lines->fd >= 0)
                close(lines->fd);
        free(lines->buffer);
        *lines = (struct replay_lines){.fd = -1};
}

static int make_room(struct replay_lines *lines, struct sbx_error *err) {
        char *grown;

        if (lines->begin > 0) {
                memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
                lines->end -= lines->begin;
                lines->begin = 0;
        }
        if (lines->end < lines->capacity)
                return 0;
        if (lines->capacity >= REPLAY_LINE_MAX)
                return sbx_error_set(err, -EFBIG, REPLAY_ORIGIN, "Set `file` to a trajectory that sink-jsonl wrote.",
                                     "line %llu of %s is longer than %zu MiB", (unsigned long long)lines->number + 1,
                                     lines->path, REPLAY_LINE_MAX >> 20);
        grown = realloc(lines->buffer, lines->capacity > 0 ? lines->capacity * 2 : CHUNK);
        if (grown == NULL)
                return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for line %llu of %s",
                                     (unsigned long long)lines->number + 1, lines->path);
        lines->buffer = grown;
        lines->capacity = lines->capacity > 0 ? lines->capacity * 2 : CHUNK;
        return 0;
}

/* More bytes of the file, which may have grown since its size was looked at. */
static int fill(struct replay_lines *lines, struct sbx_error *err) {
        ssize_t got;
        int r = make_room(lines, err);

        if (r < 0)
                return r;
        do
                got = read(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return system_error(lines, -errno, "read", err);
        lines->ended = got == 0;
        lines->end += (size_t)got;
        lines->total += (uint64_t)got;
        if (lines->total > lines->total_max)
                return sbx_error_set(err, -EFBIG, REPLAY_ORIGIN, "Raise `max_size`.", "%s is larger than `max_size`",
                                     lines->path);
        return 0;
}

/* The next line, without its newline: 1; 0: the end. `whole`: there was a newline. */
static int next_line(struct replay_lines *lines, struct sbx_bytes *ret_line, bool *ret_whole, struct sbx_error *err) {
        size_t searched = 0;

        for (;;) {
                char *start = lines->buffer != NULL ? lines->buffer + lines->begin : NULL;
                size_t size = lines->end - lines->begin;
                char *newline = size > searched ? memchr(start + searched, '\n', size - searched) : NULL;
                int r;

                if (newline != NULL || (lines->ended && size > 0)) {
                        *ret_whole = newline != NULL;
                        *ret_line = (struct sbx_bytes){start, newline != NULL ? (size_t)(newline - start) : size};
                        lines->begin += ret_line->size + (newline != NULL);
                        lines->number++;
                        return 1;
                }
                if (lines->ended)
                        return 0;
                searched = size;
                r = fill(lines, err);
                if (r < 0)
                        return r;
        }
}

static bool is_blank(struct sbx_bytes line) {
        const char *data = line.data;

        for (size_t i = 0; i < line.size; i++)
                if (data[i] != ' ' && data[i] != '\t' && data[i] != '\r')
                        return false;
        return true;
}

int replay_lines_next(struct replay_lines *lines, json_t **ret_object, struct sbx_error *err) {
        struct sbx_bytes line = {NULL, 0};
        const char *problem = NULL;
        bool whole = false;
        int r;

        do {
                r = next_line(lines, &line, &whole, err);
                if (r <= 0)
                        return r;
        } while (is_blank(line));
        r = replay_json_parse(line, ret_object, &problem);
        if (r == 0)
                return 1;
        if (!whole && r != -ENOMEM)
                return 0;
        return sbx_error_set(
                err, r, REPLAY_ORIGIN, "Set `file` to a trajectory as sink-jsonl or snipara-sandbox 2.2.7 writes it.",
                "line %llu of %s can't be used: %s", (unsigned long long)lines->number, lines->path, problem);
}
