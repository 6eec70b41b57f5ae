/* SPDX-License-Identifier: Apache-2.0 */
/* snipara_context_query: the best sections for a question, ranked by keywords (BM25), within a token budget. */
#include "calls.h"
#include "match.h"
#include "utf8.h"

#define CANDIDATES_MAX 200
#define TOKENS_MIN 100
#define TOKENS_MAX 100000
#define PIECE_BYTES_MIN 200u /* less of a section is not worth having */
#define SUMMARY_BYTES 400u
#define RANKING_NOTE "sections are ranked by keywords (BM25): this source has no embeddings"

static const char select_sections[] =
        "SELECT f.path, s.start_line, s.end_line, s.level, s.title, t.body, r.score"
        " FROM (SELECT rowid AS id, rank AS score FROM section_text"
        "       WHERE section_text MATCH ?1 AND rank MATCH 'bm25(4.0, 1.0, 2.0)' ORDER BY rank LIMIT ?2) r"
        " JOIN sections s ON s.id = r.id JOIN files f ON f.id = s.file JOIN section_text t ON t.rowid = r.id"
        " ORDER BY r.score, f.path, s.start_line";

struct budget {
        size_t left; /* bytes of JSON */
        bool metadata, summaries;
};

/* The end of the last whole line within `limit`, or of the last whole character when that would be too little. */
static size_t cut_at_line(const char *text, size_t size, size_t limit) {
        size_t cut = utf8_cut(text, size, limit);

        for (size_t i = cut; cut < size && i > cut / 2; i--)
                if (text[i - 1] == '\n')
                        return i;
        return cut;
}

static json_t *make_section(sqlite3_stmt *row, size_t bytes, const struct budget *budget) {
        const char *text = (const char *)sqlite3_column_text(row, 5);
        size_t size = (size_t)sqlite3_column_bytes(row, 5);
        json_t *section =
                json_pack("{s:o,s:o,s:[I,I],s:o,s:b}", "file", column_json(row, 0), "title", column_json(row, 4),
                          "lines", (json_int_t)sqlite3_column_int64(row, 1), (json_int_t)sqlite3_column_int64(row, 2),
                          "content", utf8_json(text, bytes), "truncated", bytes < size);
        int r = section == NULL ? -1 : 0;

        if (r == 0 && budget->metadata)
                r = json_object_set_new(section, "relevance_score", json_real(-sqlite3_column_double(row, 6)));
        if (r == 0 && budget->metadata)
                r = json_object_set_new(section, "level", json_integer(sqlite3_column_int64(row, 3)));
        if (r == 0 && budget->metadata)
                r = json_object_set_new(section, "token_count",
                                        json_integer((json_int_t)((bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN)));
        if (r < 0) {
                json_decref(section);
                return NULL;
        }
        return section;
}

static size_t encoded_size(const json_t *value) {
        return json_dumpb(value, NULL, 0, JSON_COMPACT) + 1; /* and the comma */
}

/* As much of the section as the budget has room for. 1: it was added; 0: no room. */
static int add_section(sqlite3_stmt *row, struct budget *budget, json_t *sections) {
        const char *text = (const char *)sqlite3_column_text(row, 5);
        size_t size = (size_t)sqlite3_column_bytes(row, 5), bytes = size;
        size_t least = json_array_size(sections) > 0 ? PIECE_BYTES_MIN : 1;

        if (budget->summaries)
                bytes = cut_at_line(text, size, SUMMARY_BYTES);
        for (;;) {
                json_t *section = make_section(row, bytes, budget);
                size_t encoded = section != NULL ? encoded_size(section) : 0;

                if (section == NULL)
                        return -ENOMEM;
                if (encoded <= budget->left) {
                        budget->left -= encoded;
                        return json_array_append_new(sections, section) < 0 ? -ENOMEM : 1;
                }
                json_decref(section);
                encoded -= budget->left; /* what is too much; escapes may make it more than that of the text */
                bytes = cut_at_line(text, size, bytes / 2 > encoded ? bytes - encoded : bytes / 2);
                if (bytes < least)
                        return 0;
        }
}

static int collect(struct tool_call *call, const char *match, struct budget *budget, json_t *sections,
                   struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *rows = NULL;
        int r = database_prepare(call->connection, select_sections, &rows, err), rc;

        if (r < 0)
                return r;
        bind_text(rows, 1, match, strlen(match));
        sqlite3_bind_int(rows, 2, CANDIDATES_MAX);
        while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
                r = add_section(rows, budget, sections);
                if (r <= 0)
                        return r;
        }
        return rc == SQLITE_DONE ? 0 : database_error(call->connection, rc, "search the index", err);
}

static int describe(const struct tool_call *call, size_t words, int64_t max_tokens, size_t used, json_t *answer) {
        struct sbx_bytes mode = argument_text(call, "search_mode");
        int r = json_object_set_new(answer, "max_tokens", json_integer(max_tokens));

        if (r == 0)
                r = json_object_set_new(answer, "total_tokens",
                                        json_integer((json_int_t)((used + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN)));
        if (r == 0)
                r = json_object_set_new(answer, "search_mode", json_string("keyword"));
        if (r == 0 && (mode.size != 7 || memcmp(mode.data, "keyword", 7) != 0))
                r = json_object_set_new(answer, "search_mode_note", json_string(RANKING_NOTE));
        if (r == 0 && words == 0)
                r = json_object_set_new(answer, "note", json_string("the query has no word to look for"));
        return r == 0 ? answer_freshness(call, answer) : -ENOMEM;
}

int tool_context_query(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        int64_t max_tokens = argument_int(call, "max_tokens", 2000, TOKENS_MIN, TOKENS_MAX);
        size_t room = (size_t)max_tokens * BYTES_PER_TOKEN, count;
        struct budget budget = {.left = room,
                                .metadata = argument_bool(call, "include_metadata", true),
                                .summaries = argument_bool(call, "prefer_summaries", false)};
        struct match_word words[MATCH_WORDS_MAX];
        _cleanup_free_ char *match = NULL;
        _cleanup_json_ json_t *answer = json_pack("{s:[]}", "sections");
        int r = 0;

        if (answer == NULL)
                return -ENOMEM;
        count = match_words(argument_text(call, "query"), words);
        match = match_query(words, count);
        if (match == NULL)
                return -ENOMEM;
        if (count > 0)
                r = collect(call, match, &budget, json_object_get(answer, "sections"), err);
        if (r == 0)
                r = describe(call, count, max_tokens, room - budget.left, answer);
        if (r == 0)
                *ret_answer = steal_pointer(answer);
        return r;
}
