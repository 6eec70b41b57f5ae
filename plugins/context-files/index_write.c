/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files and their sections into the database, in transactions of bounded size. */
#include "index_write.h"

#include "sections.h"

#define BATCH_FILES 256u
#define BATCH_BYTES (4u << 20)
#define BATCH_NS (250 * NS_PER_MS) /* another process waits no longer for its turn */
/* A change so young may be followed by another one in the same tick of the file system's clock: such a file is looked
 * at again by the next pass. */
#define YOUNG_NS (100 * NS_PER_MS)

enum statement_index {
        FIND,
        SEEN,
        FILE_PUT,
        SECTION_PUT,
        TEXT_PUT,
        TEXT_REMOVE,
        SECTION_REMOVE,
        FILE_REMOVE,
        GONE,
        STATEMENT_COUNT,
};

static const char *const statements[STATEMENT_COUNT] = {
        [FIND] = "SELECT id, size, mtime_ns, ctime_ns, inode, text FROM files WHERE path = ?1",
        [SEEN] = "INSERT OR IGNORE INTO temp.seen(id) VALUES (?1)",
        [FILE_PUT] = "INSERT INTO files(path, size, mtime_ns, ctime_ns, inode, text, lines)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [SECTION_PUT] = "INSERT INTO sections(file, start_line, end_line, level, title) VALUES (?1, ?2, ?3, ?4, ?5)",
        [TEXT_PUT] = "INSERT INTO section_text(rowid, title, body, path) VALUES (?1, ?2, ?3, ?4)",
        [TEXT_REMOVE] = "DELETE FROM section_text WHERE rowid IN (SELECT id FROM sections WHERE file = ?1)",
        [SECTION_REMOVE] = "DELETE FROM sections WHERE file = ?1",
        [FILE_REMOVE] = "DELETE FROM files WHERE id = ?1",
        [GONE] = "SELECT id FROM files WHERE id > ?1 AND id <= ?2 AND id NOT IN (SELECT id FROM temp.seen)"
                 " ORDER BY id LIMIT 1",
};

struct index_writer {
        struct connection *connection;
        sqlite3_stmt *statements[STATEMENT_COUNT];
        int64_t last_id; /* of the files that were there before; what has a higher one came meanwhile */
        bool open;       /* a transaction is */
        bool broken;     /* a statement failed: a file may be half in the transaction, which must not be committed */
        uint64_t opened_ns;
        size_t batch_files, batch_bytes;
        /* of the file at hand */
        int64_t file;
        const char *path;
};

/* Runs to the end, or to the first row. */
static int run(struct index_writer *writer, enum statement_index which, bool *ret_row, struct sbx_error *err) {
        int rc = sqlite3_step(writer->statements[which]), r = 0;

        if (rc != SQLITE_ROW && rc != SQLITE_DONE)
                r = database_error(writer->connection, rc, "write the index", err);
        writer->broken |= r < 0;
        if (ret_row != NULL && r == 0)
                *ret_row = rc == SQLITE_ROW;
        if (ret_row == NULL || rc != SQLITE_ROW)
                sqlite3_reset(writer->statements[which]);
        return r;
}

static int run_with_id(struct index_writer *writer, enum statement_index which, int64_t id, struct sbx_error *err) {
        sqlite3_bind_int64(writer->statements[which], 1, id);
        return run(writer, which, NULL, err);
}

/* ---- lifecycle ---- */

static int read_last_id(struct index_writer *writer, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *statement = NULL;
        int r = database_prepare(writer->connection, "SELECT coalesce(max(id), 0) FROM files", &statement, err), rc;

        if (r < 0)
                return r;
        rc = sqlite3_step(statement);
        if (rc != SQLITE_ROW)
                return database_error(writer->connection, rc, "read the index", err);
        writer->last_id = sqlite3_column_int64(statement, 0);
        return 0;
}

int index_writer_new(struct connection *connection, struct index_writer **ret_writer, struct sbx_error *err) {
        struct index_writer *writer = calloc(1, sizeof(*writer));
        int r;

        if (writer == NULL)
                return files_nomem(err);
        writer->connection = connection;
        r = database_exec(connection,
                          "CREATE TEMP TABLE IF NOT EXISTS seen(id INTEGER PRIMARY KEY); DELETE FROM temp.seen", err);
        for (size_t i = 0; r == 0 && i < STATEMENT_COUNT; i++)
                r = database_prepare(connection, statements[i], &writer->statements[i], err);
        if (r == 0)
                r = read_last_id(writer, err);
        if (r < 0) {
                index_writer_free(writer);
                return r;
        }
        *ret_writer = writer;
        return 0;
}

void index_writer_free(struct index_writer *writer) {
        if (writer == NULL)
                return;
        for (size_t i = 0; i < STATEMENT_COUNT; i++)
                sqlite3_finalize(writer->statements[i]);
        if (sqlite3_get_autocommit(writer->connection->sqlite) == 0)
                sqlite3_exec(writer->connection->sqlite, "ROLLBACK", NULL, NULL, NULL);
        free(writer);
}

/* ---- transactions ---- */

static int begin(struct index_writer *writer, struct sbx_error *err) {
        int r = writer->open ? 0 : database_exec(writer->connection, "BEGIN IMMEDIATE", err);

        if (r == 0 && !writer->open) {
                writer->open = true;
                writer->opened_ns = monotonic_ns();
                writer->batch_files = writer->batch_bytes = 0;
        }
        return r;
}

int index_commit(struct index_writer *writer, struct sbx_error *err) {
        if (!writer->open || writer->broken)
                return 0;
        writer->open = false;
        return database_exec(writer->connection, "COMMIT", err);
}

static int commit_when_full(struct index_writer *writer, size_t bytes, struct sbx_error *err) {
        writer->batch_files++;
        writer->batch_bytes += bytes;
        return writer->batch_files >= BATCH_FILES || writer->batch_bytes >= BATCH_BYTES ||
                               monotonic_ns() - writer->opened_ns >= BATCH_NS
                       ? index_commit(writer, err)
                       : 0;
}

/* ---- files ---- */

int index_find(struct index_writer *writer, const char *path, struct index_row *ret_row, struct sbx_error *err) {
        sqlite3_stmt *statement = writer->statements[FIND];
        struct index_row row = {0};
        int r;

        bind_text(statement, 1, path, strlen(path));
        r = run(writer, FIND, &row.found, err);
        if (r < 0)
                return r;
        if (row.found) {
                row.id = sqlite3_column_int64(statement, 0);
                row.size = sqlite3_column_int64(statement, 1);
                row.mtime_ns = sqlite3_column_int64(statement, 2);
                row.ctime_ns = sqlite3_column_int64(statement, 3);
                row.inode = sqlite3_column_int64(statement, 4);
                row.text = sqlite3_column_int(statement, 5) != 0;
        }
        sqlite3_reset(statement);
        *ret_row = row;
        return 0;
}

int index_seen(struct index_writer *writer, int64_t id, struct sbx_error *err) {
        return run_with_id(writer, SEEN, id, err);
}

static int remove_file(struct index_writer *writer, int64_t id, struct sbx_error *err) {
        int r = run_with_id(writer, TEXT_REMOVE, id, err);

        if (r == 0)
                r = run_with_id(writer, SECTION_REMOVE, id, err);
        return r < 0 ? r : run_with_id(writer, FILE_REMOVE, id, err);
}

struct section_sink {
        struct index_writer *writer;
        struct sbx_error *err;
};

static int put_section(void *data, const struct section *section) {
        const struct section_sink *sink = data;
        struct index_writer *writer = sink->writer;
        sqlite3_stmt *row = writer->statements[SECTION_PUT], *text = writer->statements[TEXT_PUT];
        int r;

        sqlite3_bind_int64(row, 1, writer->file);
        sqlite3_bind_int64(row, 2, (int64_t)section->start_line);
        sqlite3_bind_int64(row, 3, (int64_t)section->end_line);
        sqlite3_bind_int64(row, 4, section->level);
        bind_text(row, 5, section->title.data, section->title.size);
        r = run(writer, SECTION_PUT, NULL, sink->err);
        if (r < 0)
                return r;
        sqlite3_bind_int64(text, 1, sqlite3_last_insert_rowid(writer->connection->sqlite));
        bind_text(text, 2, section->title.data, section->title.size);
        bind_text(text, 3, section->text.data, section->text.size);
        bind_text(text, 4, writer->path, strlen(writer->path));
        return run(writer, TEXT_PUT, NULL, sink->err);
}

static int64_t to_ns(const struct timespec *time) {
        return (int64_t)time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static int put_file(struct index_writer *writer, const struct stat *st, bool text, size_t lines,
                    struct sbx_error *err) {
        sqlite3_stmt *statement = writer->statements[FILE_PUT];
        int64_t changed = to_ns(&st->st_ctim), now = (int64_t)clock_read_ns(CLOCK_REALTIME);
        int r;

        bind_text(statement, 1, writer->path, strlen(writer->path));
        sqlite3_bind_int64(statement, 2, st->st_size);
        sqlite3_bind_int64(statement, 3, to_ns(&st->st_mtim));
        sqlite3_bind_int64(statement, 4, now - changed < (int64_t)YOUNG_NS ? -1 : changed);
        sqlite3_bind_int64(statement, 5, (int64_t)st->st_ino);
        sqlite3_bind_int(statement, 6, text);
        sqlite3_bind_int64(statement, 7, (int64_t)lines);
        r = run(writer, FILE_PUT, NULL, err);
        if (r == 0)
                writer->file = sqlite3_last_insert_rowid(writer->connection->sqlite);
        return r;
}

static int count_only(void *data, const struct section *section) {
        return 0;
}

int index_put(struct index_writer *writer, const char *path, const struct stat *st, const struct sbx_bytes *text,
              struct sbx_error *err) {
        struct section_sink sink = {writer, err};
        struct index_row old;
        size_t lines = 0;
        int r = begin(writer, err);

        writer->path = path;
        if (r == 0)
                r = index_find(writer, path, &old, err); /* again: another process may have been here */
        if (r == 0 && old.found)
                r = remove_file(writer, old.id, err);
        if (r == 0 && text != NULL)
                r = sections_split(*text, false, count_only, NULL, &lines);
        if (r == 0)
                r = put_file(writer, st, text != NULL, lines, err);
        if (r == 0 && text != NULL)
                r = sections_split(*text, sections_is_markdown(path), put_section, &sink, &lines);
        if (r == 0)
                r = index_seen(writer, writer->file, err);
        return r < 0 ? r : commit_when_full(writer, text != NULL ? text->size : 0, err);
}

int index_sweep(struct index_writer *writer, uint64_t *ret_removed, struct sbx_error *err) {
        sqlite3_stmt *gone = writer->statements[GONE];
        uint64_t removed = 0;
        int64_t id = 0;
        bool found = true;
        int r = 0;

        sqlite3_bind_int64(gone, 2, writer->last_id);
        while (r == 0) {
                sqlite3_bind_int64(gone, 1, id);
                r = run(writer, GONE, &found, err);
                if (r < 0 || !found)
                        break;
                id = sqlite3_column_int64(gone, 0);
                sqlite3_reset(gone);
                r = begin(writer, err);
                if (r == 0)
                        r = remove_file(writer, id, err);
                if (r == 0)
                        r = commit_when_full(writer, 0, err);
                removed++;
        }
        *ret_removed = removed;
        return r;
}
