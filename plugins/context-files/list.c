/* SPDX-License-Identifier: Apache-2.0 */
/* snipara_sections: what is indexed, section by section. */
#include "calls.h"

#define LIMIT_MAX 500
#define FILTER_BYTES_MAX 1000u

#define FROM_SECTIONS                                                                                                  \
        " FROM files f CROSS JOIN sections s ON s.file = f.id"                                                         \
        " WHERE ?1 IS NULL OR s.title LIKE ?1 ESCAPE '\\' OR f.path LIKE ?1 ESCAPE '\\'"

static const char count_sections[] = "SELECT count(*)" FROM_SECTIONS;
static const char select_sections[] = "SELECT s.id, s.title, s.level, f.path, s.start_line, s.end_line" FROM_SECTIONS
                                      " ORDER BY f.path, s.start_line, s.id LIMIT ?2 OFFSET ?3";

/* "PREFIX%", with what LIKE would take for its own escaped. NULL: -ENOMEM. */
static char *prefix_pattern(struct sbx_bytes prefix) {
        const char *bytes = prefix.data;
        char *pattern = malloc(prefix.size * 2 + 2), *at = pattern;

        if (pattern == NULL)
                return NULL;
        for (size_t i = 0; i < prefix.size; i++) {
                if (bytes[i] == '%' || bytes[i] == '_' || bytes[i] == '\\')
                        *at++ = '\\';
                *at++ = bytes[i];
        }
        *at++ = '%';
        *at = '\0';
        return pattern;
}

static void bind_pattern(sqlite3_stmt *statement, const char *pattern) {
        if (pattern != NULL)
                bind_text(statement, 1, pattern, strlen(pattern));
}

static int count(struct tool_call *call, const char *pattern, int64_t *ret_total, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *statement = NULL;
        int r = database_prepare(call->connection, count_sections, &statement, err), rc;

        if (r < 0)
                return r;
        bind_pattern(statement, pattern);
        rc = sqlite3_step(statement);
        if (rc != SQLITE_ROW)
                return database_error(call->connection, rc, "list the index", err);
        *ret_total = sqlite3_column_int64(statement, 0);
        return 0;
}

static int list(struct tool_call *call, const char *pattern, int64_t limit, int64_t offset, json_t *sections,
                struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *rows = NULL;
        int r = database_prepare(call->connection, select_sections, &rows, err), rc;

        if (r < 0)
                return r;
        bind_pattern(rows, pattern);
        sqlite3_bind_int64(rows, 2, limit);
        sqlite3_bind_int64(rows, 3, offset);
        while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
                json_t *section =
                        json_pack("{s:I,s:o,s:I,s:o,s:[I,I]}", "id", (json_int_t)sqlite3_column_int64(rows, 0), "title",
                                  column_json(rows, 1), "level", (json_int_t)sqlite3_column_int64(rows, 2), "file",
                                  column_json(rows, 3), "lines", (json_int_t)sqlite3_column_int64(rows, 4),
                                  (json_int_t)sqlite3_column_int64(rows, 5));

                if (json_array_append_new(sections, section) < 0)
                        return -ENOMEM;
        }
        return rc == SQLITE_DONE ? 0 : database_error(call->connection, rc, "list the index", err);
}

int tool_sections(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        int64_t limit = argument_int(call, "limit", 20, 1, LIMIT_MAX);
        int64_t offset = argument_int(call, "offset", 0, 0, INT32_MAX), total = 0;
        struct sbx_bytes filter = argument_text(call, "filter");
        _cleanup_free_ char *pattern = NULL;
        _cleanup_json_ json_t *answer =
                json_pack("{s:[],s:I,s:I}", "sections", "limit", (json_int_t)limit, "offset", (json_int_t)offset);
        int r;

        if (answer == NULL)
                return -ENOMEM;
        if (filter.size > FILTER_BYTES_MAX || (filter.size > 0 && memchr(filter.data, '\0', filter.size) != NULL))
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, "Give the beginning of a title or of a file's path.",
                                     "the filter has more than %u bytes, or a NUL", FILTER_BYTES_MAX);
        if (filter.size > 0) {
                pattern = prefix_pattern(filter);
                if (pattern == NULL)
                        return -ENOMEM;
        }
        r = count(call, pattern, &total, err);
        if (r == 0)
                r = list(call, pattern, limit, offset, json_object_get(answer, "sections"), err);
        if (r == 0 && json_object_set_new(answer, "total", json_integer(total)) < 0)
                r = -ENOMEM;
        if (r == 0)
                r = answer_freshness(call, answer);
        if (r == 0)
                *ret_answer = steal_pointer(answer);
        return r;
}
