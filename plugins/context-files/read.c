/* SPDX-License-Identifier: Apache-2.0 */
/* snipara_read: lines of a file, as it is now; or, without a file, lines of all indexed files one after another. */
#include "calls.h"

#include <fcntl.h>
#include <stdio.h>

#include "rules.h"
#include "tree.h"
#include "utf8.h"

#define LINES_MAX 200
#define CONTENT_BYTES_MAX 65536u
#define PARTS_MAX 50u

/* ---- opening ---- */

struct place {
        struct rules *rules;
        int fd; /* the directory that was reached */
};

static void place_clear(struct place *place) {
        rules_free(place->rules);
        files_cleanup_close(&place->fd);
}

/* One directory further, by the path's first `size` bytes, of which the last component begins at `start`. */
static int descend(struct place *place, const char *path, size_t start, size_t size) {
        _cleanup_free_ char *below = strndup(path, size);
        struct stat st;
        int r, fd;

        if (below == NULL)
                return -ENOMEM;
        r = rules_enter(place->rules, place->fd, start > 0 ? (below[start - 1] = '\0', below) : "");
        if (r < 0)
                return r;
        if (start > 0)
                below[start - 1] = '/';
        if (rules_excluded(place->rules, below, true))
                return -ENOENT;
        r = tree_open_directory(place->fd, below + start, &fd, &st);
        if (r < 0)
                return r;
        close(place->fd);
        place->fd = fd;
        return 0;
}

/* Component by component, under the same rules as the walk: no link is followed and nothing excluded is reached,
 * whoever moves things about meanwhile. */
static int open_below(const struct files_options *options, const char *path, int *ret_fd) {
        _cleanup_(place_clear) struct place place = {.fd = open(options->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        _cleanup_free_ char *directory = NULL;
        size_t start = 0;
        struct stat st;
        int r = place.fd < 0 ? -errno
                             : rules_new(options->project, options->exclude, options->exclude_count, &place.rules);

        for (const char *slash; r == 0 && (slash = strchr(path + start, '/')) != NULL;
             start = (size_t)(slash - path) + 1)
                r = descend(&place, path, start, (size_t)(slash - path));
        if (r < 0)
                return r;
        directory = strndup(path, start > 0 ? start - 1 : 0);
        if (directory == NULL)
                return -ENOMEM;
        r = rules_enter(place.rules, place.fd, directory);
        if (r == 0 && rules_excluded(place.rules, path, false))
                r = -ENOENT;
        return r < 0 ? r : tree_open_file(place.fd, path + start, ret_fd, &st);
}

static int read_error(const char *path, int r, struct sbx_error *err) {
        if (r == -ENOMEM)
                return files_nomem(err);
        return sbx_error_set(
                err, r, FILES_ORIGIN, "snipara_sections lists the files that can be read.", "can't read \"%.300s\": %s",
                path,
                r == -ENOENT || r == -ELOOP || r == -ENOTDIR || r == -EINVAL
                        ? "there is no such file in the project, or it is left out (ignored, a link, a secret)"
                : r == -EFBIG   ? "it is larger than max_file_size"
                : r == -EBADMSG ? "it is not a text"
                                : strerrordesc_np(-r));
}

/* The text of a file, repaired, to be freed. */
static int read_text(const struct files_options *options, const char *path, char **ret_text, size_t *ret_size,
                     struct sbx_error *err) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *data = NULL;
        size_t size = 0;
        int r = open_below(options, path, &fd);

        if (r == 0)
                r = tree_read(fd, options->file_bytes_max, &data, &size);
        if (r == 0 && !utf8_is_text(data, size < 8192 ? size : 8192, size > 8192))
                r = -EBADMSG;
        if (r < 0)
                return read_error(path, r, err);
        *ret_text = utf8_repair(data, size, ret_size);
        return *ret_text != NULL ? 0 : files_nomem(err);
}

/* ---- lines ---- */

/* An object {file, start_line, end_line, total_lines, content, truncated}; end_line is of the last line that is there.
 */
static int make_part(const char *path, const char *text, size_t size, int64_t start, int64_t end, json_t **ret_part) {
        size_t from = size, to = size, kept;
        int64_t line = 1, last = 0;

        for (size_t at = 0; at < size; line++) {
                const char *newline = memchr(text + at, '\n', size - at);
                size_t next = newline != NULL ? (size_t)(newline - text) + 1 : size;

                if (line == start)
                        from = at;
                if (line >= start && line <= end) {
                        to = next;
                        last = line;
                }
                at = next;
        }
        kept = last > 0 ? utf8_cut(text + from, to - from, CONTENT_BYTES_MAX) : 0;
        *ret_part = json_pack("{s:o,s:I,s:I,s:I,s:o,s:b}", "file", utf8_json(path, strlen(path)), "start_line",
                              (json_int_t)start, "end_line", (json_int_t)last, "total_lines", (json_int_t)(line - 1),
                              "content", utf8_json(text + from, kept), "truncated", last > 0 && kept < to - from);
        return *ret_part != NULL ? 0 : -ENOMEM;
}

static int read_part(const struct files_options *options, const char *path, int64_t start, int64_t end,
                     json_t **ret_part, struct sbx_error *err) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = read_text(options, path, &text, &size, err);

        if (r < 0)
                return r;
        r = make_part(path, text, size, start, end, ret_part);
        if (r == 0 && json_integer_value(json_object_get(*ret_part, "end_line")) == 0) {
                json_int_t lines = json_integer_value(json_object_get(*ret_part, "total_lines"));

                json_decref(*ret_part);
                *ret_part = NULL;
                return sbx_error_set(err, -ERANGE, FILES_ORIGIN, NULL,
                                     "\"%.300s\" has %lld lines: there is no line %lld", path, (long long)lines,
                                     (long long)start);
        }
        return r;
}

/* ---- lines of all files ---- */

static int add_file(struct tool_call *call, sqlite3_stmt *row, int64_t before, int64_t start, int64_t end,
                    json_t *parts, struct sbx_error *err) {
        const char *path = (const char *)sqlite3_column_text(row, 0);
        json_t *part = NULL;
        int r;

        if (path == NULL || !tree_path_valid(path, strlen(path)))
                return path == NULL ? -ENOMEM : 0;
        r = read_part(&call->files->options, path, start > before ? start - before : 1, end - before, &part, err);
        if (r == -ENOMEM || r == 0)
                return r < 0 || json_array_append_new(parts, part) < 0 ? -ENOMEM : 0;
        if (err != NULL) /* it is gone or has become shorter since it was indexed */
                *err = (struct sbx_error){0};
        return 0;
}

static int read_across(struct tool_call *call, int64_t start, int64_t end, json_t *answer, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *rows = NULL;
        json_t *parts = json_array();
        int64_t before = 0;
        int r = json_object_set_new(answer, "parts", parts) < 0 ? -ENOMEM : 0, rc = SQLITE_ROW;

        if (r == 0)
                r = database_prepare(call->connection, "SELECT path, lines FROM files WHERE text = 1 ORDER BY path",
                                     &rows, err);
        while (r == 0 && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
                int64_t lines = sqlite3_column_int64(rows, 1);

                if (before + lines >= start && before < end && json_array_size(parts) < PARTS_MAX)
                        r = add_file(call, rows, before, start, end, parts, err);
                before += lines;
        }
        if (r == 0 && rc != SQLITE_DONE)
                r = database_error(call->connection, rc, "read the index", err);
        if (r == 0 && json_object_set_new(answer, "total_lines", json_integer(before)) < 0)
                r = -ENOMEM;
        return r;
}

int tool_read(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        int64_t start = argument_int(call, "start_line", 1, 1, INT32_MAX);
        int64_t end = argument_int(call, "end_line", start, 1, INT32_MAX);
        struct sbx_bytes file = argument_text(call, "file");
        _cleanup_json_ json_t *answer = NULL;
        int r;

        if (end < start)
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, NULL, "end_line %lld is before start_line %lld",
                                     (long long)end, (long long)start);
        if (end > start + LINES_MAX - 1)
                end = start + LINES_MAX - 1;
        if (file.data == NULL) {
                answer = json_pack(
                        "{s:I,s:I,s:s}", "start_line", (json_int_t)start, "end_line", (json_int_t)end, "note",
                        "no file was given: lines are counted through all indexed files, in order of their path");
                r = answer == NULL ? -ENOMEM : read_across(call, start, end, answer, err);
                if (r == 0)
                        r = answer_freshness(call, answer);
        } else if (!tree_path_valid(file.data, file.size)) {
                r = sbx_error_set(err, -EINVAL, FILES_ORIGIN,
                                  "Give a path relative to the project, as snipara_sections lists it.",
                                  "the file's path is empty, absolute, too long, or has \"..\" in it");
        } else {
                r = read_part(&call->files->options, file.data, start, end, &answer, err);
        }
        if (r == 0)
                *ret_answer = steal_pointer(answer);
        return r;
}
