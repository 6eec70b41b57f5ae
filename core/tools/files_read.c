/* SPDX-License-Identifier: Apache-2.0 */
/* file_read: some lines of a file, however large it is, in a result of bounded size. */
#include "tools/files.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define ORIGIN SBX_FILES_ORIGIN
#define CHUNK ((size_t)256 << 10)
#define FILE_MAX ((uint64_t)1 << 30) /* bytes of a file: all of it is read, since its lines are counted */

struct reading {
        int64_t first, last; /* lines that are wanted, from 1 */
        size_t budget;       /* what their JSON may still cost */
        bool in_bytes;       /* how that is counted */
        struct sbx_buffer line, content;
        int64_t line_count; /* ended so far */
        int64_t taken;      /* the last line in `content`; first - 1: none */
        bool full, cut;     /* there is no room for more; and not even for the whole of the one line */
};

static void cleanup_reading(struct reading *reading) {
        sbx_buffer_free(&reading->line);
        sbx_buffer_free(&reading->content);
}

/* The longest beginning of the text that the budget has room for. */
static size_t fitting(struct sbx_bytes text, size_t budget, bool in_bytes) {
        size_t low = 0, high = text.size;

        while (low < high) {
                size_t middle = high - (high - low) / 2;

                if (sbx_files_json_cost((struct sbx_bytes){text.data, middle}, in_bytes) <= budget)
                        low = middle;
                else
                        high = middle - 1;
        }
        return sbx_utf8_cut(text, low);
}

/* Takes a line, whole or not at all; of the first one as much as there is room for. */
static int take_line(struct reading *reading, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer repaired = SBX_BUFFER(4 * SBX_FILES_CODE_BUDGET);
        struct sbx_bytes text = sbx_buffer_bytes(&reading->line);
        size_t cost;

        if (!sbx_utf8_valid(text)) {
                if (sbx_utf8_repair(text, false, &repaired) < 0)
                        return SBX_NOMEM(err, ORIGIN);
                text = sbx_buffer_bytes(&repaired);
        }
        cost = sbx_files_json_cost(text, reading->in_bytes);
        if (cost > reading->budget) {
                reading->full = true;
                if (reading->taken >= reading->first)
                        return 0;
                text.size = fitting(text, reading->budget, reading->in_bytes);
                reading->cut = true;
                cost = reading->budget;
        }
        reading->budget -= cost;
        reading->taken++;
        return sbx_buffer_append(&reading->content, text.data, text.size) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int end_line(struct reading *reading, struct sbx_error *err) {
        int64_t number = ++reading->line_count;
        int r = 0;

        if (number >= reading->first && number <= reading->last && !reading->full)
                r = take_line(reading, err);
        sbx_buffer_clear(&reading->line);
        return r;
}

/* A part of a line. What is not wanted is not kept, nor what can't fit. */
static int add_part(struct reading *reading, const char *bytes, size_t size, struct sbx_error *err) {
        int64_t number = reading->line_count + 1;
        size_t room = reading->line.max - reading->line.size;

        if (number < reading->first || number > reading->last || reading->full)
                return 0;
        return sbx_buffer_append(&reading->line, bytes, size < room ? size : room) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int add_chunk(struct reading *reading, const char *bytes, size_t size, struct sbx_error *err) {
        int r = 0;

        while (size > 0 && r == 0) {
                const char *newline = memchr(bytes, '\n', size);
                size_t length = newline != NULL ? (size_t)(newline - bytes) + 1 : size;

                r = add_part(reading, bytes, length, err);
                if (r == 0 && newline != NULL)
                        r = end_line(reading, err);
                bytes += length;
                size -= length;
        }
        return r;
}

static int read_lines(int fd, const char *path, const struct sbx_call *call, struct reading *reading,
                      struct sbx_error *err) {
        _cleanup_free_ char *chunk = malloc(CHUNK);
        bool ends_with_newline = true;
        uint64_t total = 0;
        int r = 0;

        if (chunk == NULL)
                return SBX_NOMEM(err, ORIGIN);
        while (r == 0) {
                ssize_t size = read(fd, chunk, CHUNK);

                if (size < 0 && errno == EINTR)
                        continue;
                if (size < 0)
                        return sbx_error_set(err, -errno, ORIGIN, NULL, "Error reading file: %.512s: %s", path,
                                             SBX_ERRNO_TEXT(errno));
                if (size == 0)
                        break;
                total += (uint64_t)size;
                if (total > FILE_MAX)
                        return sbx_error_set(err, -EFBIG, ORIGIN, "Split it, or search it with another tool.",
                                             "File too large: %.512s has more than %u MiB", path,
                                             (unsigned)(FILE_MAX >> 20));
                ends_with_newline = chunk[size - 1] == '\n';
                r = add_chunk(reading, chunk, (size_t)size, err);
                if (r == 0)
                        r = sbx_files_may_go_on(call, err);
        }
        return r == 0 && !ends_with_newline ? end_line(reading, err) : r;
}

static json_t *make_report(const struct reading *reading, const char *path) {
        json_t *report = json_pack(
                "{s:o, s:o, s:I, s:I, s:I, s:b}", "content", sbx_json_text(sbx_buffer_bytes(&reading->content)), "path",
                sbx_json_text((struct sbx_bytes){path, strlen(path)}), "start_line", (json_int_t)reading->first,
                "end_line", (json_int_t)reading->taken, "total_lines", (json_int_t)reading->line_count, "truncated",
                (int)(reading->taken < reading->line_count || reading->cut));

        if (report != NULL && reading->cut && json_object_set_new(report, "line_cut", json_true()) < 0) {
                json_decref(report);
                return NULL;
        }
        return report;
}

/* As the original counts: what is before the first line is the first line, and 0 is no end. */
static int get_lines(json_t *arguments, struct reading *reading, struct sbx_error *err) {
        int64_t start = 1, end = 0, most = 100;
        int r = sbx_json_get_int(arguments, "arguments", "start_line", 0, INT64_MIN, INT64_MAX, &start, err);

        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "end_line", 0, INT64_MIN, INT64_MAX, &end, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "max_lines", 0, 1, INT32_MAX, &most, err);
        if (r < 0)
                return r;
        reading->first = start < 1 ? 1 : start > INT64_MAX / 2 ? INT64_MAX / 2 : start;
        reading->last = reading->first - 1 + most;
        if (end != 0 && end < reading->last)
                reading->last = end;
        reading->taken = reading->first - 1;
        return 0;
}

static int read_file(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                     struct sbx_error *err) {
        bool is_code = context->caller == SBX_CALLER_CODE;
        size_t budget = is_code ? SBX_FILES_CODE_BUDGET : SBX_FILES_TEXT_BUDGET;
        __attribute__((cleanup(cleanup_reading))) struct reading reading = {
                .in_bytes = is_code,
                .line = SBX_BUFFER((budget + 1) * (is_code ? 1 : 4)), /* more never fits */
                .content = SBX_BUFFER(budget * 4)};
        __attribute__((cleanup(sbx_file_place_clear))) struct sbx_file_place place = {0};
        _cleanup_close_ int seen = -1, fd = -1;
        const char *path = NULL;
        size_t path_cost;
        char summary[128];
        int r = sbx_json_get_string(arguments, "arguments", "path", SBX_JSON_REQUIRED, &path, err);

        if (r == 0)
                r = get_lines(arguments, &reading, err);
        if (r == 0)
                r = sbx_files_locate(context->data, path, &place, err);
        if (r == 0)
                r = sbx_files_look(&place, &seen, err);
        if (r == 0)
                r = sbx_files_open(&place, seen, S_IFREG, &fd, err);
        if (r < 0)
                return r;
        path_cost = sbx_files_json_cost((struct sbx_bytes){place.path, strlen(place.path)}, is_code);
        reading.budget = budget > path_cost ? budget - path_cost : 0;
        r = read_lines(fd, place.path, context->call, &reading, err);
        if (r < 0)
                return r;
        snprintf(summary, sizeof(summary), "lines %lld to %lld of %lld", (long long)reading.first,
                 (long long)reading.taken, (long long)reading.line_count);
        return sbx_files_result(context, make_report(&reading, place.path), summary, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_file_read) {
        struct sbx_error problem = {0};
        int r = read_file(context, arguments, ret_result, &problem);

        if (r == 0)
                return 0;
        if (r == -ENOMEM || r == -ECANCELED || r == -ETIMEDOUT) {
                *err = problem;
                return r;
        }
        return sbx_files_failure(&problem, "content", json_null(), ret_result, err);
}
