/* SPDX-License-Identifier: Apache-2.0 */
/* snipara_search: the lines of the index that match a regular expression (PCRE2: the syntax that Python's `re` has,
 * nearly). A pattern's size, and the work and memory for each line, are limited, so that none can hold the call up. */
#include "calls.h"
#include "utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#define PATTERN_BYTES_MAX 1000u
#define RESULTS_MAX 500
#define LINE_BYTES_SHOWN 300u
#define STEPS_MAX 200000u /* of PCRE2, for one line: some milliseconds */
#define DEPTH_MAX 20000u
#define HEAP_KIB_MAX 4096u
#define COSTLY_LINES_MAX 20u /* then the pattern is given up */

static const char select_texts[] =
        "SELECT f.path, s.start_line, t.body FROM files f CROSS JOIN sections s ON s.file = f.id"
        " CROSS JOIN section_text t ON t.rowid = s.id ORDER BY f.path, s.start_line, s.id";

struct search {
        pcre2_code *code;
        pcre2_match_data *data;
        pcre2_match_context *context;
        json_t *matches;
        size_t max_results, costly;
        uint64_t until_ns; /* 0: no end */
        bool more, late;
};

static void search_clear(struct search *search) {
        pcre2_match_context_free(search->context);
        pcre2_match_data_free(search->data);
        pcre2_code_free(search->code);
}

static int compile(struct search *search, struct sbx_bytes pattern, struct sbx_error *err) {
        unsigned char reason[160];
        PCRE2_SIZE offset;
        int code;

        if (pattern.size == 0 || pattern.size > PATTERN_BYTES_MAX)
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, "Give a regular expression.",
                                     "the pattern is empty, or has more than %u bytes", PATTERN_BYTES_MAX);
        search->code = pcre2_compile(pattern.data, pattern.size, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code,
                                     &offset, NULL);
        if (search->code == NULL) {
                if (pcre2_get_error_message(code, reason, sizeof(reason)) < 0)
                        reason[0] = '\0';
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN,
                                     "Write special characters with a backslash: \\( \\[ \\.",
                                     "the pattern is no regular expression: %s (at byte %zu)", (char *)reason, offset);
        }
        search->data = pcre2_match_data_create(1, NULL);
        search->context = pcre2_match_context_create(NULL);
        if (search->data == NULL || search->context == NULL)
                return -ENOMEM;
        pcre2_set_match_limit(search->context, STEPS_MAX);
        pcre2_set_depth_limit(search->context, DEPTH_MAX);
        pcre2_set_heap_limit(search->context, HEAP_KIB_MAX);
        return 0;
}

/* The line, or the part of a long one that begins a little before the match. */
static json_t *shown(const char *line, size_t size, size_t match) {
        size_t from = match > LINE_BYTES_SHOWN / 3 && size > LINE_BYTES_SHOWN ? match - LINE_BYTES_SHOWN / 3 : 0;

        from = utf8_cut(line, size, from);
        return utf8_json(line + from, utf8_cut(line + from, size - from, LINE_BYTES_SHOWN));
}

static int match_line(struct search *search, sqlite3_stmt *row, const char *line, size_t size, int64_t number) {
        int r = pcre2_match(search->code, (PCRE2_SPTR)line, size, 0, 0, search->data, search->context);
        size_t start;
        json_t *match;

        if (r == PCRE2_ERROR_MATCHLIMIT || r == PCRE2_ERROR_DEPTHLIMIT || r == PCRE2_ERROR_HEAPLIMIT)
                search->costly++;
        if (r == PCRE2_ERROR_NOMEMORY)
                return -ENOMEM;
        if (r < 0)
                return 0;
        if (json_array_size(search->matches) >= search->max_results) {
                search->more = true;
                return 0;
        }
        start = pcre2_get_ovector_pointer(search->data)[0];
        match = json_pack("{s:o,s:I,s:o}", "file", column_json(row, 0), "line", (json_int_t)number, "text",
                          shown(line, size, start < size ? start : size));
        return json_array_append_new(search->matches, match) < 0 ? -ENOMEM : 0;
}

static bool is_over(const struct search *search) {
        return search->more || search->late || search->costly >= COSTLY_LINES_MAX;
}

static int match_section(struct search *search, sqlite3_stmt *row) {
        const char *text = (const char *)sqlite3_column_text(row, 2);
        size_t size = (size_t)sqlite3_column_bytes(row, 2);
        int64_t number = sqlite3_column_int64(row, 1);
        int r = 0;

        search->late = search->until_ns != 0 && monotonic_ns() > search->until_ns;
        for (size_t at = 0; at < size && r == 0 && !is_over(search); number++) {
                const char *newline = memchr(text + at, '\n', size - at);
                size_t length = newline != NULL ? (size_t)(newline - text) - at : size - at, whole = length + 1;

                if (length > 0 && text[at + length - 1] == '\r')
                        length--;
                r = match_line(search, row, text + at, length, number);
                at += whole;
        }
        return r;
}

static int match_all(struct tool_call *call, struct search *search, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *rows = NULL;
        int r = database_prepare(call->connection, select_texts, &rows, err), rc = SQLITE_ROW;

        while (r == 0 && !is_over(search) && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
                r = match_section(search, rows);
                if (r == 0 && call_state(call->call) == -ECANCELED)
                        r = sbx_error_set(err, -ECANCELED, FILES_ORIGIN, NULL, "the search was cancelled");
        }
        return r < 0 || rc == SQLITE_ROW || rc == SQLITE_DONE
                       ? r
                       : database_error(call->connection, rc, "search the index", err);
}

/* The time that is left is not used up to the last: the answer has to go out. */
static uint64_t until(const struct sbx_call *call) {
        uint64_t now = monotonic_ns();

        if (call == NULL || call->deadline_ns == 0)
                return 0;
        return call->deadline_ns > now ? now + (call->deadline_ns - now) / 10 * 9 : now;
}

static int answer(struct tool_call *call, const struct search *search, json_t **ret_answer) {
        _cleanup_json_ json_t *object = json_pack("{s:O,s:b}", "matches", search->matches, "truncated", search->more);
        struct freshness *freshness = &call->freshness;

        if (object == NULL)
                return -ENOMEM;
        if (search->costly > 0 &&
            json_object_set_new(object, "lines_given_up", json_integer((json_int_t)search->costly)) < 0)
                return -ENOMEM;
        if (search->late || search->costly > 0) {
                freshness->partial = true;
                snprintf(freshness->reason, sizeof(freshness->reason), "%s",
                         search->late ? "the time was up before all was searched"
                                      : "the pattern takes too much work on some lines; make it simpler");
        }
        if (answer_freshness(call, object) < 0)
                return -ENOMEM;
        *ret_answer = steal_pointer(object);
        return 0;
}

int tool_search(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        _cleanup_json_ json_t *matches = json_array();
        _cleanup_(search_clear) struct search search = {
                .matches = matches,
                .max_results = (size_t)argument_int(call, "max_results", 20, 1, RESULTS_MAX),
                .until_ns = until(call->call),
        };
        int r = matches == NULL ? -ENOMEM : compile(&search, argument_text(call, "pattern"), err);

        if (r == 0)
                r = match_all(call, &search, err);
        return r < 0 ? r : answer(call, &search, ret_answer);
}
