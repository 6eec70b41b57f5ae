/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of connections to a project's database, and a new database in the place of a damaged one. */
#include "database.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "database_open.h"

#define IDLE_MAX 4u

struct database {
        const struct sbx_host *host;
        char *path, *directory;
        pthread_mutex_t lock; /* protects what follows */
        struct connection *idle;
        size_t idle_count;
};

int database_new(const struct sbx_host *host, const char *path, struct database **ret_database, struct sbx_error *err) {
        struct database *database = calloc(1, sizeof(*database));
        const char *slash = strrchr(path, '/');

        if (database == NULL)
                return files_nomem(err);
        database->host = host;
        database->path = strdup(path);
        database->directory = strndup(path, slash > path ? (size_t)(slash - path) : 1);
        pthread_mutex_init(&database->lock, NULL);
        if (database->path == NULL || database->directory == NULL) {
                database_free(database);
                return files_nomem(err);
        }
        *ret_database = database;
        return 0;
}

static void drop_idle(struct database *database) {
        struct connection *list, *next;

        pthread_mutex_lock(&database->lock);
        list = database->idle;
        database->idle = NULL;
        database->idle_count = 0;
        pthread_mutex_unlock(&database->lock);
        for (; list != NULL; list = next) {
                next = list->next;
                connection_close(list);
        }
}

void database_free(struct database *database) {
        if (database == NULL)
                return;
        drop_idle(database);
        pthread_mutex_destroy(&database->lock);
        free(database->path);
        free(database->directory);
        free(database);
}

/* ---- taking and giving back ---- */

bool database_identity(struct database *database, uint64_t *ret_device, uint64_t *ret_inode) {
        struct stat st;

        if (lstat(database->path, &st) < 0)
                return false;
        *ret_device = st.st_dev;
        *ret_inode = st.st_ino;
        return true;
}

/* Somebody may have removed or replaced the file since the connection was opened. */
static bool is_current(const struct connection *connection) {
        uint64_t device, inode;

        return database_identity(connection->database, &device, &inode) && device == connection->device &&
               inode == connection->inode;
}

static struct connection *pop_idle(struct database *database) {
        struct connection *connection;

        pthread_mutex_lock(&database->lock);
        connection = database->idle;
        if (connection != NULL) {
                database->idle = connection->next;
                database->idle_count--;
        }
        pthread_mutex_unlock(&database->lock);
        return connection;
}

int database_take(struct database *database, const struct sbx_call *call, struct connection **ret_connection,
                  struct sbx_error *err) {
        struct connection *connection;

        while ((connection = pop_idle(database)) != NULL) {
                if (is_current(connection)) {
                        connection->call = call;
                        connection->waited_ns = 0;
                        *ret_connection = connection;
                        return 0;
                }
                connection_close(connection);
        }
        return connection_open(database, database->path, call, ret_connection, err);
}

void database_give(struct connection *connection) {
        struct database *database;
        bool keep;

        if (connection == NULL)
                return;
        database = connection->database;
        connection->call = NULL;
        connection->stopped = NULL;
        keep = !connection->damaged && sqlite3_get_autocommit(connection->sqlite) != 0;
        if (keep) {
                pthread_mutex_lock(&database->lock);
                keep = database->idle_count < IDLE_MAX;
                if (keep) {
                        connection->next = database->idle;
                        database->idle = connection;
                        database->idle_count++;
                }
                pthread_mutex_unlock(&database->lock);
        }
        if (!keep)
                connection_close(connection);
}

/* ---- replacing ---- */

static int move_aside(struct database *database, struct sbx_error *err) {
        static const char *const endings[] = {"", "-wal", "-shm"};
        char text[512];
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(endings) / sizeof(endings[0]); i++) {
                _cleanup_free_ char *from = NULL, *to = NULL;

                if (asprintf(&from, "%s%s", database->path, endings[i]) < 0)
                        from = NULL;
                if (asprintf(&to, "%s.damaged-%llu%s", database->path,
                             (unsigned long long)(clock_read_ns(CLOCK_REALTIME) / (1000 * NS_PER_MS)), endings[i]) < 0)
                        to = NULL;
                if (from == NULL || to == NULL)
                        return files_nomem(err);
                if (rename(from, to) == 0) {
                        snprintf(text, sizeof(text), "the index %s was damaged: it was moved to %s, a new one is made",
                                 from, to);
                        if (i == 0)
                                database->host->log(database->host->self, SBX_LOG_WARNING, text);
                } else if (errno != ENOENT) {
                        r = sbx_error_set(err, -errno, FILES_ORIGIN, "Remove it by hand.",
                                          "the index %s is damaged and can't be moved aside: %s", from,
                                          strerrordesc_np(errno));
                }
        }
        return r;
}

int database_replace(struct database *database, uint64_t device, uint64_t inode, struct sbx_error *err) {
        _cleanup_close_ int fd = open(database->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t now_device, now_inode;
        int r = fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB);

        /* One process does it; it takes no time worth speaking of. */
        for (unsigned i = 0; r < 0 && fd >= 0 && i < 100 && errno == EWOULDBLOCK; i++) {
                poll(NULL, 0, 20);
                r = flock(fd, LOCK_EX | LOCK_NB);
        }
        if (r < 0)
                return sbx_error_set(err, -errno, FILES_ORIGIN, NULL, "can't lock %s: %s", database->directory,
                                     strerrordesc_np(errno));
        drop_idle(database);
        if (!database_identity(database, &now_device, &now_inode) || now_device != device || now_inode != inode)
                return 0;
        return move_aside(database, err);
}
