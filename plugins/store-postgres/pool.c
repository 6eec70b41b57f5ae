/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of connections. While the server can't be had, calls that come after the first one try for a moment
 * only: a session is not to wait `connect_timeout` for each thing that it wants kept. */
#include "pool.h"

#include <pthread.h>
#include <sys/eventfd.h>

#define ATTEMPTS 5u
#define SHORT_TRY_NS (200 * NS_PER_MS)
#define IDLE_NS_MAX (300000 * NS_PER_MS)

struct pool {
        const struct postgres_options *options;
        int free_fd;             /* a semaphore: how many connections more may be in use */
        pthread_mutex_t lock;    /* protects what follows */
        struct connection *idle; /* the one used last comes first */
        uint64_t failed_ns;      /* when a try to connect was given up, 0: the last one went well */
};

int pool_new(const struct postgres_options *options, struct pool **ret_pool, struct sbx_error *err) {
        struct pool *pool = calloc(1, sizeof(*pool));

        if (pool == NULL)
                return postgres_nomem(err);
        pool->options = options;
        pool->free_fd = eventfd((unsigned)options->connections, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
        if (pool->free_fd < 0) {
                free(pool);
                return sbx_error_set(err, -errno, POSTGRES_ORIGIN, NULL, "can't make an event descriptor: %m");
        }
        pthread_mutex_init(&pool->lock, NULL);
        *ret_pool = pool;
        return 0;
}

void pool_rest(struct pool *pool) {
        struct connection *list, *next;

        pthread_mutex_lock(&pool->lock);
        list = steal_pointer(pool->idle);
        pool->failed_ns = 0;
        pthread_mutex_unlock(&pool->lock);
        for (; list != NULL; list = next) {
                next = list->next;
                connection_close(list);
        }
}

void pool_free(struct pool *pool) {
        if (pool == NULL)
                return;
        pool_rest(pool);
        pthread_mutex_destroy(&pool->lock);
        close(pool->free_fd);
        free(pool);
}

/* ---- one of the places ---- */

static int take_place(struct pool *pool, const struct sbx_call *call, struct sbx_error *err) {
        uint64_t deadline_ns =
                earlier(call != NULL ? call->deadline_ns : 0, monotonic_ns() + pool->options->timeout_ns);

        for (;;) {
                uint64_t one;
                int r;

                if (read(pool->free_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
                        return 0;
                r = wait_for(pool->free_fd, POLLIN, call, deadline_ns);
                if (r == -ECANCELED)
                        return sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "the call was cancelled");
                if (r < 0)
                        return sbx_error_set(err, r, POSTGRES_ORIGIN, "Raise `connections`.",
                                             "all %zu connections to PostgreSQL are in use",
                                             pool->options->connections);
        }
}

static void give_place(struct pool *pool) {
        uint64_t one = 1;

        if (write(pool->free_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
                abort(); /* the counter can't overflow: what is given was taken */
}

/* ---- connections ---- */

static struct connection *pop_idle(struct pool *pool) {
        struct connection *connection;

        pthread_mutex_lock(&pool->lock);
        connection = pool->idle;
        if (connection != NULL)
                pool->idle = connection->next;
        pthread_mutex_unlock(&pool->lock);
        return connection;
}

/* How long to try. Somebody who waited in vain just now waited for all of us. */
static uint64_t patience_ns(struct pool *pool) {
        uint64_t whole = pool->options->connect_timeout_ns;
        bool fresh;

        pthread_mutex_lock(&pool->lock);
        fresh = pool->failed_ns != 0 && monotonic_ns() - pool->failed_ns < whole;
        pthread_mutex_unlock(&pool->lock);
        return fresh && whole > SHORT_TRY_NS ? SHORT_TRY_NS : whole;
}

/* A call that was cancelled, or had little time, says nothing of the server. */
static void note_try(struct pool *pool, int r, uint64_t patience, const struct sbx_call *call) {
        bool late = call != NULL && call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns;

        if (r < 0 && (r == -ECANCELED || r == -ENOMEM || late || patience < pool->options->connect_timeout_ns))
                return;
        pthread_mutex_lock(&pool->lock);
        pool->failed_ns = r < 0 ? monotonic_ns() : 0;
        pthread_mutex_unlock(&pool->lock);
}

static int take_connection(struct pool *pool, const struct sbx_call *call, struct connection **ret_connection,
                           struct sbx_error *err) {
        struct connection *connection;
        uint64_t patience;
        int r;

        while ((connection = pop_idle(pool)) != NULL) {
                connection->next = NULL;
                if (!connection_is_stale(connection)) {
                        *ret_connection = connection;
                        return 0;
                }
                connection_close(connection);
        }
        patience = patience_ns(pool);
        r = connection_open(pool->options, patience, call, ret_connection, err);
        note_try(pool, r, patience, call);
        return r;
}

/* Connections that were not used for long are closed, from the end of the list. */
static struct connection *cut_unused(struct pool *pool) {
        struct connection **at = &pool->idle, *cut;
        uint64_t now = monotonic_ns();

        while (*at != NULL && now - (*at)->idle_since_ns < IDLE_NS_MAX)
                at = &(*at)->next;
        cut = *at;
        *at = NULL;
        return cut;
}

static void give_connection(struct pool *pool, struct connection *connection) {
        struct connection *unused, *next;

        if (!connection_rest(connection)) {
                connection_close(connection);
                return;
        }
        connection->idle_since_ns = monotonic_ns();
        pthread_mutex_lock(&pool->lock);
        connection->next = pool->idle;
        pool->idle = connection;
        unused = cut_unused(pool);
        pthread_mutex_unlock(&pool->lock);
        for (; unused != NULL; unused = next) {
                next = unused->next;
                connection_close(unused);
        }
}

static int attempt(struct pool *pool,
                   int (*work)(struct connection *connection, void *data, const struct sbx_call *call,
                               struct sbx_error *err),
                   void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct connection *connection = NULL;
        int r = take_connection(pool, call, &connection, err);

        if (r < 0)
                return r;
        r = work(connection, data, call, err);
        if (r == -ECONNRESET) /* the others have lost theirs, too: found out when they are taken */
                connection_close(connection);
        else
                give_connection(pool, connection);
        return r;
}

int pool_work(struct pool *pool,
              int (*work)(struct connection *connection, void *data, const struct sbx_call *call,
                          struct sbx_error *err),
              void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r = take_place(pool, call, err);

        if (r < 0)
                return r;
        for (unsigned i = 0; i < ATTEMPTS; i++) {
                problem = (struct sbx_error){0};
                r = attempt(pool, work, data, call, &problem);
                if (r != -ECONNRESET && r != -EAGAIN)
                        break;
        }
        give_place(pool);
        if (r == -ECONNRESET || r == -EAGAIN)
                r = -EIO;
        return r < 0 ? sbx_error_set(err, r, POSTGRES_ORIGIN, problem.hint, "%s", problem.message) : r;
}
