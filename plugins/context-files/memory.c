/* SPDX-License-Identifier: Apache-2.0 */
/* The memory tools: notes that are kept in the project's database, found again by their words. */
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <sys/random.h>

#include "match.h"
#include "utf8.h"

#define CONTENT_BYTES_MAX 65536u
#define CATEGORY_BYTES_MAX 1000u
#define LIST_ITEMS_MAX 50u
#define LIST_BYTES_MAX 65536u
#define LIMIT_MAX 500
#define CANDIDATES_MAX 100
#define DAY_MS INT64_C(86400000)
#define DAYS_MAX 36500
#define RANKING_NOTE                                                                                                   \
        "memories are found by their words, not by meaning; relevance is the square root of the share of the "         \
        "query's words that a memory has"

#define COLUMNS                                                                                                        \
        "m.number, m.id, t.content, m.type, m.scope, m.category, m.created_ms, m.expires_ms, m.related_to, "           \
        "m.document_refs"
/* ?1 now, ?2 type, ?3 scope, ?4 category */
#define FILTERS                                                                                                        \
        " (m.expires_ms IS NULL OR m.expires_ms > ?1) AND (?2 IS NULL OR m.type = ?2)"                                 \
        " AND (?3 IS NULL OR m.scope = ?3) AND (?4 IS NULL OR m.category = ?4)"

static int64_t now_ms(void) {
        return (int64_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_MS);
}

static void bind_argument(const struct tool_call *call, sqlite3_stmt *statement, int index, const char *key) {
        struct sbx_bytes text = argument_text(call, key);

        if (text.size > 0)
                bind_text(statement, index, text.data, text.size);
}

static void bind_filters(const struct tool_call *call, sqlite3_stmt *statement) {
        sqlite3_bind_int64(statement, 1, now_ms());
        bind_argument(call, statement, 2, "type");
        bind_argument(call, statement, 3, "scope");
        bind_argument(call, statement, 4, "category");
}

/* Runs a statement that answers with nothing, or with one number. */
static int run(struct tool_call *call, sqlite3_stmt *statement, int64_t *ret_number, struct sbx_error *err) {
        int rc = sqlite3_step(statement);

        if (rc == SQLITE_ROW && ret_number != NULL)
                *ret_number = sqlite3_column_int64(statement, 0);
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0
                                                     : database_error(call->connection, rc, "use the memories", err);
}

/* ---- answers ---- */

static json_t *time_json(int64_t ms) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm parts;
        char text[64];

        if (gmtime_r(&seconds, &parts) == NULL || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
                return json_null();
        return json_string(text);
}

static json_t *list_json(sqlite3_stmt *row, int column) {
        json_t *list = json_loadb((const char *)sqlite3_column_text(row, column),
                                  (size_t)sqlite3_column_bytes(row, column), JSON_ALLOW_NUL, NULL);

        if (json_is_array(list))
                return list;
        json_decref(list);
        return json_array();
}

static json_t *memory_json(sqlite3_stmt *row) {
        bool category = sqlite3_column_type(row, 5) != SQLITE_NULL,
             expires = sqlite3_column_type(row, 7) != SQLITE_NULL;

        return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "memory_id", column_json(row, 1), "content",
                         column_json(row, 2), "type", column_json(row, 3), "scope", column_json(row, 4), "category",
                         category ? column_json(row, 5) : json_null(), "created_at",
                         time_json(sqlite3_column_int64(row, 6)), "expires_at",
                         expires ? time_json(sqlite3_column_int64(row, 7)) : json_null(), "related_to",
                         list_json(row, 8), "document_refs", list_json(row, 9));
}

/* ---- remember ---- */

static int make_id(char ret_id[24]) {
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -EIO;
        snprintf(ret_id, 24, "mem_%016llx", (unsigned long long)number);
        return 0;
}

/* A list of strings as JSON text, to be freed. */
static int list_text(const struct tool_call *call, const char *key, char **ret_text, struct sbx_error *err) {
        const json_t *list = json_object_get(call->arguments, key);
        _cleanup_free_ char *text = json_is_array(list) ? json_dumps(list, JSON_COMPACT) : strdup("[]");

        if (text == NULL)
                return -ENOMEM;
        if (json_array_size(list) > LIST_ITEMS_MAX || strlen(text) > LIST_BYTES_MAX)
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, NULL, "%s has more than %u items or %u bytes", key,
                                     LIST_ITEMS_MAX, LIST_BYTES_MAX);
        *ret_text = steal_pointer(text);
        return 0;
}

/* Takes out what has expired, and sees whether there is room. */
static int make_room(struct tool_call *call, struct sbx_error *err) {
        static const char *const sql[] = {
                "DELETE FROM memory_text WHERE rowid IN (SELECT number FROM memories WHERE expires_ms <= ?1)",
                "DELETE FROM memories WHERE expires_ms <= ?1", "SELECT count(*) FROM memories WHERE ?1 > 0"};
        uint64_t most = call->files->options.memories_max;
        int64_t count = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(sql) / sizeof(sql[0]); i++) {
                _cleanup_statement_ sqlite3_stmt *statement = NULL;

                r = database_prepare(call->connection, sql[i], &statement, err);
                if (r == 0) {
                        sqlite3_bind_int64(statement, 1, now_ms());
                        r = run(call, statement, &count, err);
                }
        }
        if (r == 0 && (uint64_t)count >= most)
                r = sbx_error_set(err, -ENOSPC, FILES_ORIGIN,
                                  "Forget some with snipara_forget, or raise `max_memories`.",
                                  "there are %lld memories already", (long long)count);
        return r;
}

struct memory {
        char id[24];
        char *related_to, *document_refs;
        int64_t created_ms, expires_ms; /* 0: never */
};

static int insert(struct tool_call *call, const struct memory *memory, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *row = NULL, *text = NULL;
        int r = database_prepare(
                call->connection,
                "INSERT INTO memories(id, type, scope, category, created_ms, expires_ms, related_to,"
                " document_refs) VALUES (?1, coalesce(?2, 'fact'), coalesce(?3, 'project'), ?4, ?5, ?6,"
                " ?7, ?8)",
                &row, err);

        if (r == 0)
                r = database_prepare(call->connection,
                                     "INSERT INTO memory_text(rowid, content, category) VALUES (?1, ?2, ?3)", &text,
                                     err);
        if (r < 0)
                return r;
        bind_text(row, 1, memory->id, strlen(memory->id));
        bind_argument(call, row, 2, "type");
        bind_argument(call, row, 3, "scope");
        bind_argument(call, row, 4, "category");
        sqlite3_bind_int64(row, 5, memory->created_ms);
        if (memory->expires_ms != 0)
                sqlite3_bind_int64(row, 6, memory->expires_ms);
        bind_text(row, 7, memory->related_to, strlen(memory->related_to));
        bind_text(row, 8, memory->document_refs, strlen(memory->document_refs));
        r = run(call, row, NULL, err);
        if (r < 0)
                return r;
        sqlite3_bind_int64(text, 1, sqlite3_last_insert_rowid(call->connection->sqlite));
        bind_argument(call, text, 2, "content");
        bind_argument(call, text, 3, "category");
        return run(call, text, NULL, err);
}

/* Ends the transaction that `r` came out of. */
static int finish(struct tool_call *call, int r, struct sbx_error *err) {
        if (r == 0)
                return database_exec(call->connection, "COMMIT", err);
        sqlite3_exec(call->connection->sqlite, "ROLLBACK", NULL, NULL, NULL);
        return r;
}

static int store(struct tool_call *call, const struct memory *memory, struct sbx_error *err) {
        int r = database_exec(call->connection, "BEGIN IMMEDIATE", err);

        if (r < 0)
                return r;
        r = make_room(call, err);
        if (r == 0)
                r = insert(call, memory, err);
        return finish(call, r, err);
}

int tool_remember(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        struct sbx_bytes content = argument_text(call, "content"), category = argument_text(call, "category");
        _cleanup_free_ char *related_to = NULL, *document_refs = NULL;
        int64_t days = argument_int(call, "ttl_days", 0, 0, DAYS_MAX);
        struct memory memory = {.created_ms = now_ms()};
        int r;

        if (content.size == 0 || content.size > CONTENT_BYTES_MAX || category.size > CATEGORY_BYTES_MAX)
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, NULL,
                                     "the content is empty or has more than %u bytes, or the category more than %u",
                                     CONTENT_BYTES_MAX, CATEGORY_BYTES_MAX);
        r = list_text(call, "related_to", &related_to, err);
        if (r == 0)
                r = list_text(call, "document_refs", &document_refs, err);
        if (r == 0)
                r = make_id(memory.id);
        if (r < 0)
                return r;
        memory.related_to = related_to;
        memory.document_refs = document_refs;
        memory.expires_ms = days > 0 ? memory.created_ms + days * DAY_MS : 0;
        r = store(call, &memory, err);
        if (r < 0)
                return r;
        *ret_answer = json_pack("{s:s,s:s,s:o,s:o}", "memory_id", memory.id, "status", "stored", "created_at",
                                time_json(memory.created_ms), "expires_at",
                                days > 0 ? time_json(memory.expires_ms) : json_null());
        return *ret_answer != NULL ? 0 : -ENOMEM;
}

/* ---- recall ---- */

/* How many of the words the memory has. */
static int count_words(struct tool_call *call, sqlite3_stmt *probe, char *const *queries, size_t count, int64_t number,
                       size_t *ret_hits, struct sbx_error *err) {
        size_t hits = 0;

        for (size_t i = 0; i < count; i++) {
                int64_t found = 0;
                int r;

                bind_text(probe, 1, queries[i], strlen(queries[i]));
                sqlite3_bind_int64(probe, 2, number);
                r = run(call, probe, &found, err);
                sqlite3_reset(probe);
                if (r < 0)
                        return r;
                hits += found != 0;
        }
        *ret_hits = hits;
        return 0;
}

struct recall {
        char *queries[MATCH_WORDS_MAX]; /* one for each word */
        char *any;
        size_t count;
        double minimum;
};

static void recall_clear(struct recall *recall) {
        for (size_t i = 0; i < recall->count; i++)
                free(recall->queries[i]);
        free(recall->any);
}

static int recall_prepare(struct recall *recall, struct sbx_bytes query) {
        struct match_word words[MATCH_WORDS_MAX];

        recall->count = match_words(query, words);
        recall->any = match_query(words, recall->count);
        for (size_t i = 0; i < recall->count; i++)
                recall->queries[i] = match_query(&words[i], 1);
        for (size_t i = 0; i < recall->count; i++)
                if (recall->queries[i] == NULL)
                        return -ENOMEM;
        return recall->any != NULL ? 0 : -ENOMEM;
}

/* Puts the memory where its relevance belongs; of the same one, the earlier of the rows stays before. */
static int add_ranked(json_t *memories, json_t *memory, double relevance) {
        size_t at = json_array_size(memories);

        if (memory == NULL || json_object_set_new(memory, "relevance", json_real(relevance)) < 0) {
                json_decref(memory);
                return -ENOMEM;
        }
        while (at > 0 && json_real_value(json_object_get(json_array_get(memories, at - 1), "relevance")) < relevance)
                at--;
        return json_array_insert_new(memories, at, memory) < 0 ? -ENOMEM : 0;
}

static int recall_rows(struct tool_call *call, const struct recall *recall, json_t *memories, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *rows = NULL, *probe = NULL;
        int r = database_prepare(call->connection,
                                 "SELECT " COLUMNS " FROM memory_text t JOIN memories m ON m.number = t.rowid"
                                 " WHERE t.memory_text MATCH ?5 AND" FILTERS " ORDER BY t.rank, m.number DESC LIMIT ?6",
                                 &rows, err),
            rc = SQLITE_DONE;

        if (r == 0)
                r = database_prepare(call->connection,
                                     "SELECT 1 FROM memory_text WHERE memory_text MATCH ?1 AND rowid = ?2", &probe,
                                     err);
        if (r < 0)
                return r;
        bind_filters(call, rows);
        bind_text(rows, 5, recall->any, strlen(recall->any));
        sqlite3_bind_int(rows, 6, CANDIDATES_MAX);
        while (r == 0 && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
                double relevance;
                size_t hits = 0;

                r = count_words(call, probe, recall->queries, recall->count, sqlite3_column_int64(rows, 0), &hits, err);
                relevance = sqrt((double)hits / (double)recall->count);
                if (r == 0 && relevance >= recall->minimum)
                        r = add_ranked(memories, memory_json(rows), relevance);
        }
        return r < 0 || rc == SQLITE_DONE ? r : database_error(call->connection, rc, "search the memories", err);
}

int tool_recall(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        const json_t *minimum = json_object_get(call->arguments, "min_relevance");
        _cleanup_(recall_clear) struct recall recall = {.minimum = json_is_number(minimum) ? json_number_value(minimum)
                                                                                           : 0.5};
        size_t limit = (size_t)argument_int(call, "limit", 5, 1, LIMIT_MAX);
        _cleanup_json_ json_t *memories = json_array();
        int r = memories == NULL ? -ENOMEM : recall_prepare(&recall, argument_text(call, "query"));

        if (r == 0 && recall.count > 0)
                r = recall_rows(call, &recall, memories, err);
        if (r < 0)
                return r;
        while (json_array_size(memories) > limit)
                json_array_remove(memories, json_array_size(memories) - 1);
        *ret_answer = json_pack("{s:O,s:s,s:s}", "memories", memories, "search_mode", "keyword", "search_mode_note",
                                RANKING_NOTE);
        return *ret_answer != NULL ? 0 : -ENOMEM;
}

/* ---- list and forget ---- */

#define LISTED                                                                                                         \
        " FROM memories m JOIN memory_text t ON t.rowid = m.number WHERE" FILTERS                                      \
        " AND (?5 IS NULL OR instr(lower(t.content), lower(?5)) > 0)"

static int count_listed(struct tool_call *call, int64_t *ret_total, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *statement = NULL;
        int r = database_prepare(call->connection, "SELECT count(*)" LISTED, &statement, err);

        if (r < 0)
                return r;
        bind_filters(call, statement);
        bind_argument(call, statement, 5, "search");
        return run(call, statement, ret_total, err);
}

int tool_memories(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        int64_t limit = argument_int(call, "limit", 20, 1, LIMIT_MAX),
                offset = argument_int(call, "offset", 0, 0, INT32_MAX);
        _cleanup_statement_ sqlite3_stmt *rows = NULL;
        _cleanup_json_ json_t *memories = json_array();
        int64_t total = 0;
        int r = memories == NULL ? -ENOMEM : count_listed(call, &total, err), rc;

        if (r == 0)
                r = database_prepare(call->connection,
                                     "SELECT " COLUMNS LISTED " ORDER BY m.number DESC LIMIT ?6 OFFSET ?7", &rows, err);
        if (r < 0)
                return r;
        bind_filters(call, rows);
        bind_argument(call, rows, 5, "search");
        sqlite3_bind_int64(rows, 6, limit);
        sqlite3_bind_int64(rows, 7, offset);
        while ((rc = sqlite3_step(rows)) == SQLITE_ROW)
                if (json_array_append_new(memories, memory_json(rows)) < 0)
                        return -ENOMEM;
        if (rc != SQLITE_DONE)
                return database_error(call->connection, rc, "list the memories", err);
        *ret_answer = json_pack("{s:O,s:I,s:I,s:I}", "memories", memories, "total", (json_int_t)total, "limit",
                                (json_int_t)limit, "offset", (json_int_t)offset);
        return *ret_answer != NULL ? 0 : -ENOMEM;
}

/* ?1 id, ?2 type, ?3 category, ?4 created before; all that are given must hold. */
#define FORGOTTEN                                                                                                      \
        " (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR type = ?2) AND (?3 IS NULL OR category = ?3)"                     \
        " AND (?4 IS NULL OR created_ms < ?4)"

static int forget(struct tool_call *call, int64_t days, int64_t *ret_deleted, struct sbx_error *err) {
        static const char *const sql[] = {
                "DELETE FROM memory_text WHERE rowid IN (SELECT number FROM memories WHERE" FORGOTTEN ")",
                "DELETE FROM memories WHERE" FORGOTTEN};
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(sql) / sizeof(sql[0]); i++) {
                _cleanup_statement_ sqlite3_stmt *statement = NULL;

                r = database_prepare(call->connection, sql[i], &statement, err);
                if (r < 0)
                        return r;
                bind_argument(call, statement, 1, "memory_id");
                bind_argument(call, statement, 2, "type");
                bind_argument(call, statement, 3, "category");
                if (days >= 0)
                        sqlite3_bind_int64(statement, 4, now_ms() - days * DAY_MS);
                r = run(call, statement, NULL, err);
                *ret_deleted = sqlite3_changes64(call->connection->sqlite);
        }
        return r;
}

int tool_forget(struct tool_call *call, json_t **ret_answer, struct sbx_error *err) {
        int64_t days = argument_int(call, "older_than_days", -1, -1, DAYS_MAX), deleted = 0;
        int r;

        if (argument_text(call, "memory_id").size == 0 && argument_text(call, "type").size == 0 &&
            argument_text(call, "category").size == 0 && days < 0)
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, "Give memory_id, type, category or older_than_days.",
                                     "nothing says which memories to forget, so none was");
        r = database_exec(call->connection, "BEGIN IMMEDIATE", err);
        if (r < 0)
                return r;
        r = finish(call, forget(call, days, &deleted, err), err);
        if (r < 0)
                return r;
        *ret_answer = json_pack("{s:I}", "deleted", (json_int_t)deleted);
        return *ret_answer != NULL ? 0 : -ENOMEM;
}
