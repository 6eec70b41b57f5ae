/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite database of a project: connections, schema, hardening, and a new one in the place of a damaged one.
 * Thread-safe: each call takes a connection of its own out of a small pool, and gives it back. */
#pragma once

#include <sqlite3.h>

#include <snipara-sandbox/plugin.h>

#include "util.h"

#define DATABASE_VERSION 1

struct database;

struct connection {
        sqlite3 *sqlite;
        struct database *database;
        const struct sbx_call *call; /* ends statements and waiting; NULL: none */
        bool (*stopped)(void *data); /* the same for who has no call; may be NULL */
        void *stopped_data;
        uint64_t device, inode; /* of the file */
        uint64_t waited_ns;     /* for the lock of another connection */
        bool damaged;           /* a statement has found out */
        struct connection *next;
};

/* That SQLite is thread-safe and has FTS5: -ENOTSUP. */
int database_check_sqlite(struct sbx_error *err);

/* `path` is absolute; its directory is there. Opens nothing yet. */
int database_new(const struct sbx_host *host, const char *path, struct database **ret_database, struct sbx_error *err);
void database_free(struct database *database); /* NULL is fine; every connection was given back */

/* -EUCLEAN: the file is damaged (see database_replace). -ENOTSUP: made by another version. -EACCES, -EPERM. */
int database_take(struct database *database, const struct sbx_call *call, struct connection **ret_connection,
                  struct sbx_error *err);
void database_give(struct connection *connection); /* NULL is fine */
/* Moves the damaged file aside, unless another process has already. The next database_take makes a new one. */
int database_replace(struct database *database, uint64_t device, uint64_t inode, struct sbx_error *err);
/* What the file is now; false: it is not there. */
bool database_identity(struct database *database, uint64_t *ret_device, uint64_t *ret_inode);

/* The error of the statement that failed with `rc`: -EUCLEAN (and the connection is marked), -ECANCELED, -ETIMEDOUT,
 * -EBUSY, -ENOSPC, -ENOMEM, -EIO. `what`: "search the index". */
int database_error(struct connection *connection, int rc, const char *what, struct sbx_error *err);
int database_prepare(struct connection *connection, const char *sql, sqlite3_stmt **ret_statement,
                     struct sbx_error *err);
int database_exec(struct connection *connection, const char *sql, struct sbx_error *err);

static inline void cleanup_statement(sqlite3_stmt **statement) {
        sqlite3_finalize(*statement);
}
#define _cleanup_statement_ _cleanup_(cleanup_statement)
static inline void cleanup_connection(struct connection **connection) {
        database_give(*connection);
}
#define _cleanup_connection_ _cleanup_(cleanup_connection)

static inline int bind_text(sqlite3_stmt *statement, int index, const void *text, size_t size) {
        return sqlite3_bind_text64(statement, index, text != NULL ? text : "", size, SQLITE_STATIC, SQLITE_UTF8);
}
