/* SPDX-License-Identifier: Apache-2.0 */
/* Opening one connection to the database: a file that is the user's alone, hardening, the schema, and what ends a
 * statement early. */
#include "database_open.h"

#include <fcntl.h>
#include <sys/stat.h>

#define BUSY_MAX_NS (10000 * NS_PER_MS)
#define BUSY_STEP_MS 10
#define STEPS_BETWEEN_CHECKS 2000 /* of SQLite's virtual machine: some tenths of a millisecond */
#define VALUE_BYTES_MAX (16 << 20)

static const char schema[] =
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
        /* text 0: not a text, kept so that it is not read again */
        "CREATE TABLE files(id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,"
        " mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, text INTEGER NOT NULL,"
        " lines INTEGER NOT NULL);"
        "CREATE TABLE sections(id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, start_line INTEGER NOT "
        "NULL,"
        " end_line INTEGER NOT NULL, level INTEGER NOT NULL, title TEXT NOT NULL);"
        "CREATE INDEX sections_of_file ON sections(file, start_line);"
        /* rowid: of sections */
        "CREATE VIRTUAL TABLE section_text USING fts5(title, body, path, tokenize = 'porter unicode61');"
        "CREATE TABLE memories(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL,"
        " scope TEXT NOT NULL, category TEXT, created_ms INTEGER NOT NULL, expires_ms INTEGER,"
        " related_to TEXT NOT NULL, document_refs TEXT NOT NULL);"
        /* rowid: memories.number */
        "CREATE VIRTUAL TABLE memory_text USING fts5(content, category, tokenize = 'porter unicode61');";

/* ---- ending early ---- */

static int state_of(const struct connection *connection) {
        if (connection->stopped != NULL && connection->stopped(connection->stopped_data))
                return -ECANCELED;
        return call_state(connection->call);
}

static int on_progress(void *data) {
        return state_of(data) < 0;
}

static int on_busy(void *data, int count) {
        struct connection *connection = data;
        struct pollfd cancel = {.fd = connection->call != NULL ? connection->call->cancel_fd : -1, .events = POLLIN};
        uint64_t start = monotonic_ns();

        if (state_of(connection) < 0 || connection->waited_ns > BUSY_MAX_NS)
                return 0;
        poll(&cancel, 1, BUSY_STEP_MS);
        connection->waited_ns = count == 0 ? 0 : connection->waited_ns;
        connection->waited_ns += monotonic_ns() - start;
        return 1;
}

/* ---- errors ---- */

static int code_of(struct connection *connection, int rc) {
        switch (rc & 0xFF) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                connection->damaged = true;
                return -EUCLEAN;
        case SQLITE_INTERRUPT:
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return state_of(connection) < 0 ? state_of(connection) : -EBUSY;
        case SQLITE_NOMEM:
                return -ENOMEM;
        case SQLITE_FULL:
                return -ENOSPC;
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
                return -EACCES;
        case SQLITE_TOOBIG:
                return -EFBIG;
        default:
                return -EIO;
        }
}

int database_error(struct connection *connection, int rc, const char *what, struct sbx_error *err) {
        int code = code_of(connection, rc);

        return sbx_error_set(err, code, FILES_ORIGIN,
                             code == -EBUSY    ? "Another process writes to the index: try again."
                             : code == -ENOSPC ? "Make room on the disk, or set `database` to a path elsewhere."
                                               : NULL,
                             "can't %s: %s", what,
                             code == -ETIMEDOUT   ? "the time is up"
                             : code == -ECANCELED ? "cancelled"
                                                  : sqlite3_errmsg(connection->sqlite));
}

int database_prepare(struct connection *connection, const char *sql, sqlite3_stmt **ret_statement,
                     struct sbx_error *err) {
        int rc = sqlite3_prepare_v2(connection->sqlite, sql, -1, ret_statement, NULL);

        return rc == SQLITE_OK ? 0 : database_error(connection, rc, "use the index", err);
}

int database_exec(struct connection *connection, const char *sql, struct sbx_error *err) {
        int rc = sqlite3_exec(connection->sqlite, sql, NULL, NULL, NULL);

        return rc == SQLITE_OK ? 0 : database_error(connection, rc, "use the index", err);
}

/* ---- opening ---- */

int database_check_sqlite(struct sbx_error *err) {
        static const char hint[] =
                "Install an SQLite library with FTS5 (Debian: libsqlite3-0), or switch this plugin off.";
        sqlite3 *sqlite = NULL;
        int rc;

        if (sqlite3_threadsafe() == 0)
                return sbx_error_set(err, -ENOTSUP, FILES_ORIGIN, hint, "SQLite %s was built without threads",
                                     sqlite3_libversion());
        rc = sqlite3_open_v2(":memory:", &sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_exec(sqlite, "CREATE VIRTUAL TABLE t USING fts5(x)", NULL, NULL, NULL);
        sqlite3_close(sqlite);
        if (rc == SQLITE_NOMEM)
                return files_nomem(err);
        return rc == SQLITE_OK ? 0
                               : sbx_error_set(err, -ENOTSUP, FILES_ORIGIN, hint,
                                               "SQLite %s has no FTS5, which the index needs", sqlite3_libversion());
}

/* The file is made before SQLite opens it, so that nobody else can read it, not even for a moment. */
static int check_file(const char *path, struct connection *connection, struct sbx_error *err) {
        struct stat st;
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd >= 0)
                close(fd);
        else if (errno != EEXIST)
                return sbx_error_set(err, -errno, FILES_ORIGIN,
                                     "Set `database` to a path in a directory that you can write.",
                                     "can't make the index %s: %s", path, strerrordesc_np(errno));
        if (lstat(path, &st) < 0)
                return sbx_error_set(err, -errno, FILES_ORIGIN, NULL, "can't look at the index %s: %s", path,
                                     strerrordesc_np(errno));
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
                return sbx_error_set(err, -EPERM, FILES_ORIGIN, "Move it away, or give it mode 0600.",
                                     "the index %s is not a file of this user's alone (owner %u, mode %03o)", path,
                                     st.st_uid, st.st_mode & 07777);
        connection->device = st.st_dev;
        connection->inode = st.st_ino;
        return 0;
}

static void harden(sqlite3 *sqlite) {
        static const struct {
                int which, value;
        } switches[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                        {SQLITE_DBCONFIG_DQS_DML, 0},
                        {SQLITE_DBCONFIG_DQS_DDL, 0}},
          limits[] = {{SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},
                      {SQLITE_LIMIT_SQL_LENGTH, 65536},
                      {SQLITE_LIMIT_ATTACHED, 0},
                      {SQLITE_LIMIT_EXPR_DEPTH, 100},
                      {SQLITE_LIMIT_COMPOUND_SELECT, 10},
                      {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 4096},
                      {SQLITE_LIMIT_VARIABLE_NUMBER, 64},
                      {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                      {SQLITE_LIMIT_WORKER_THREADS, 0}};

        for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
                sqlite3_db_config(sqlite, switches[i].which, switches[i].value, (int *)NULL);
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
                sqlite3_limit(sqlite, limits[i].which, limits[i].value);
}

static int read_version(struct connection *connection, int *ret_version, struct sbx_error *err) {
        _cleanup_statement_ sqlite3_stmt *statement = NULL;
        int r = database_prepare(connection, "PRAGMA user_version", &statement, err), rc;

        if (r < 0)
                return r;
        rc = sqlite3_step(statement);
        if (rc != SQLITE_ROW)
                return database_error(connection, rc, "open the index", err);
        *ret_version = sqlite3_column_int(statement, 0);
        return 0;
}

static int make_schema(struct connection *connection, const char *path, struct sbx_error *err) {
        int version = 0, r = read_version(connection, &version, err);

        if (r < 0 || version == DATABASE_VERSION)
                return r;
        if (version != 0)
                return sbx_error_set(err, -ENOTSUP, FILES_ORIGIN, "Move it away, or set `database` to another path.",
                                     "the index %s has version %d; this snipara-sandbox knows %d", path, version,
                                     DATABASE_VERSION);
        r = database_exec(connection, "BEGIN IMMEDIATE", err);
        if (r == 0)
                r = read_version(connection, &version, err); /* another process was first? */
        if (r == 0 && version == 0)
                r = database_exec(connection, schema, err);
        if (r == 0 && version == 0)
                r = database_exec(connection, "PRAGMA user_version = 1", err);
        if (r == 0)
                r = database_exec(connection, "COMMIT", err);
        return r;
}

/* The switch fails at once, without asking the busy handler, while another process has the new file open. Where there
 * can be no WAL (some network file systems) SQLite stays with its journal, and all still holds. */
static int use_wal(struct connection *connection, struct sbx_error *err) {
        int rc = sqlite3_exec(connection->sqlite, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);

        while ((rc & 0xFF) == SQLITE_BUSY && on_busy(connection, 1) != 0)
                rc = sqlite3_exec(connection->sqlite, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        return rc == SQLITE_OK ? 0 : database_error(connection, rc, "open the index", err);
}

static int set_up(struct connection *connection, const char *path, struct sbx_error *err) {
        int r;

        harden(connection->sqlite);
        sqlite3_progress_handler(connection->sqlite, STEPS_BETWEEN_CHECKS, on_progress, connection);
        sqlite3_busy_handler(connection->sqlite, on_busy, connection);
        /* Where there can be no WAL (some network file systems) SQLite stays with its journal; all still holds. */
        r = database_exec(connection,
                          "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;"
                          "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216",
                          err);
        if (r == 0)
                r = use_wal(connection, err);
        return r < 0 ? r : make_schema(connection, path, err);
}

int connection_open(struct database *database, const char *path, const struct sbx_call *call,
                    struct connection **ret_connection, struct sbx_error *err) {
        struct connection *connection = calloc(1, sizeof(*connection));
        int r, rc;

        if (connection == NULL)
                return files_nomem(err);
        connection->database = database;
        connection->call = call;
        r = check_file(path, connection, err);
        if (r == 0) {
                rc = sqlite3_open_v2(path, &connection->sqlite,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
                r = rc == SQLITE_OK              ? set_up(connection, path, err)
                    : connection->sqlite == NULL ? files_nomem(err)
                                                 : database_error(connection, rc, "open the index", err);
        }
        if (r < 0) {
                connection_close(connection);
                return r;
        }
        *ret_connection = connection;
        return 0;
}

void connection_close(struct connection *connection) {
        sqlite3_close(connection->sqlite); /* rolls back what is open */
        free(connection);
}
