/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the index fresh: one pass at a time, on a thread of its own. */
#include "refresh.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>

struct pass {
        int done_fd; /* readable when it has ended; nobody reads */
        atomic_bool stop;
        uint64_t started_ns;
        unsigned refs; /* by refresh.lock */
};

struct refresh {
        const struct files_options *options;
        struct database *database;
        pthread_mutex_t lock; /* protects what follows */
        bool stopping, thread_to_join;
        pthread_t thread;
        struct pass *pass;     /* under way; NULL: none */
        uint64_t last_ns;      /* when the last pass that got through began; 0: none has */
        struct freshness last; /* what the last pass came to */
};

/* ---- a pass ---- */

static void unref(struct pass *pass) {
        if (--pass->refs > 0)
                return;
        close(pass->done_fd);
        free(pass);
}

static bool on_stopped(void *data) {
        return atomic_load(&((struct pass *)data)->stop);
}

/* With a new database if the old one is found damaged. */
static int run_pass(struct refresh *refresh, struct pass *pass, struct index_result *ret_result,
                    struct sbx_error *err) {
        int r = -EUCLEAN;

        for (unsigned attempt = 0; r == -EUCLEAN && attempt < 2; attempt++) {
                struct connection *connection = NULL;
                uint64_t device = 0, inode = 0;

                *err = (struct sbx_error){0};
                database_identity(refresh->database, &device, &inode);
                r = database_take(refresh->database, NULL, &connection, err);
                if (r == 0) {
                        connection->stopped = on_stopped;
                        connection->stopped_data = pass;
                        device = connection->device;
                        inode = connection->inode;
                        r = index_pass(refresh->options, connection, ret_result, err);
                        database_give(connection);
                }
                if (r == -EUCLEAN && database_replace(refresh->database, device, inode, err) < 0)
                        break;
        }
        return r;
}

static void describe(const struct refresh *refresh, int r, const struct index_result *result,
                     const struct sbx_error *err, struct freshness *ret) {
        const struct files_options *options = refresh->options;

        *ret = (struct freshness){.partial = r < 0 || result->files_cut || result->bytes_cut || result->tree_cut};
        if (r < 0)
                snprintf(ret->reason, sizeof(ret->reason), "indexing failed: %.120s", err->message);
        else if (result->files_cut)
                snprintf(ret->reason, sizeof(ret->reason), "the project has more than max_files = %llu files",
                         (unsigned long long)options->files_max);
        else if (result->bytes_cut)
                snprintf(ret->reason, sizeof(ret->reason), "the project has more text than max_total_size");
        else if (result->tree_cut)
                snprintf(ret->reason, sizeof(ret->reason),
                         "the project has too many or too deep directories, or an ignore file that is too large");
}

static void *thread_main(void *data) {
        struct refresh *refresh = data;
        struct index_result result = {0};
        struct sbx_error err = {0};
        struct freshness freshness;
        struct pass *pass;
        int r;

        pthread_mutex_lock(&refresh->lock);
        pass = refresh->pass;
        pthread_mutex_unlock(&refresh->lock);
        r = run_pass(refresh, pass, &result, &err);
        if (r < 0 && r != -ECANCELED)
                refresh->options->host->log(refresh->options->host->self, SBX_LOG_WARNING, err.message);
        describe(refresh, r, &result, &err, &freshness);
        pthread_mutex_lock(&refresh->lock);
        refresh->last = freshness;
        refresh->last_ns = r == 0 ? pass->started_ns : 0;
        refresh->pass = NULL;
        eventfd_write(pass->done_fd, 1);
        unref(pass);
        pthread_mutex_unlock(&refresh->lock);
        return NULL;
}

/* ---- starting ---- */

static int start_thread(struct refresh *refresh) {
        sigset_t all, before;
        int r;

        sigfillset(&all); /* the program's signals are for its own threads */
        pthread_sigmask(SIG_BLOCK, &all, &before);
        r = pthread_create(&refresh->thread, NULL, thread_main, refresh);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

/* Called with the lock held. */
static int start_pass(struct refresh *refresh) {
        struct pass *pass = calloc(1, sizeof(*pass));
        int r;

        if (pass == NULL)
                return -ENOMEM;
        pass->refs = 1;
        pass->started_ns = monotonic_ns();
        pass->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = pass->done_fd < 0 ? -errno : 0;
        if (r == 0 && refresh->thread_to_join)
                pthread_join(refresh->thread, NULL); /* it has said that it is done: it takes the lock no more */
        refresh->thread_to_join = r < 0 && refresh->thread_to_join;
        if (r == 0) {
                refresh->pass = pass;
                r = start_thread(refresh);
                refresh->thread_to_join = r == 0;
        }
        if (r < 0) {
                refresh->pass = NULL;
                if (pass->done_fd >= 0)
                        close(pass->done_fd);
                free(pass);
        }
        return r;
}

int refresh_new(const struct files_options *options, struct database *database, struct refresh **ret_refresh,
                struct sbx_error *err) {
        struct refresh *refresh = calloc(1, sizeof(*refresh));

        if (refresh == NULL)
                return files_nomem(err);
        refresh->options = options;
        refresh->database = database;
        pthread_mutex_init(&refresh->lock, NULL);
        *ret_refresh = refresh;
        return 0;
}

void refresh_stop(struct refresh *refresh) {
        bool join;

        pthread_mutex_lock(&refresh->lock);
        refresh->stopping = true;
        if (refresh->pass != NULL)
                atomic_store(&refresh->pass->stop, true);
        join = refresh->thread_to_join;
        refresh->thread_to_join = false;
        pthread_mutex_unlock(&refresh->lock);
        if (join)
                pthread_join(refresh->thread, NULL);
}

void refresh_resume(struct refresh *refresh) {
        pthread_mutex_lock(&refresh->lock);
        refresh->stopping = false;
        pthread_mutex_unlock(&refresh->lock);
}

void refresh_free(struct refresh *refresh) {
        if (refresh == NULL)
                return;
        refresh_stop(refresh);
        pthread_mutex_destroy(&refresh->lock);
        free(refresh);
}

void refresh_forget(struct refresh *refresh) {
        pthread_mutex_lock(&refresh->lock);
        refresh->last_ns = 0;
        pthread_mutex_unlock(&refresh->lock);
}

/* ---- waiting ---- */

static uint64_t wait_until(const struct refresh *refresh, const struct sbx_call *call) {
        uint64_t now = monotonic_ns(), until = now + refresh->options->wait_ns, most;

        if (call == NULL || call->deadline_ns == 0)
                return until;
        most = call->deadline_ns > now ? now + (call->deadline_ns - now) / 4 * 3 : now;
        return until < most ? until : most;
}

/* 1: the pass has ended; 0: the time is up. */
static int wait_for(const struct pass *pass, const struct sbx_call *call, uint64_t until) {
        struct pollfd fds[] = {{.fd = pass->done_fd, .events = POLLIN},
                               {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN}};

        for (;;) {
                uint64_t now = monotonic_ns(), left = until > now ? until - now : 0;
                struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
                int n = ppoll(fds, 2, &timeout, NULL);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && fds[1].revents != 0)
                        return -ECANCELED;
                if (n > 0)
                        return 1;
                if (n == 0)
                        return 0;
        }
}

/* Called with the lock held: the pass to wait for, NULL when none is needed. */
static int pass_to_wait_for(struct refresh *refresh, struct pass **ret_pass) {
        bool fresh = refresh->last_ns != 0 && monotonic_ns() - refresh->last_ns < refresh->options->refresh_ns;
        int r = 0;

        if (refresh->stopping)
                return -ESHUTDOWN;
        if (refresh->pass == NULL && !fresh)
                r = start_pass(refresh);
        if (r < 0)
                return r;
        if (refresh->pass != NULL)
                refresh->pass->refs++;
        *ret_pass = refresh->pass;
        return 0;
}

int refresh_wait(struct refresh *refresh, const struct sbx_call *call, struct freshness *ret_freshness,
                 struct sbx_error *err) {
        struct pass *pass = NULL;
        int r, ended = 1;
        bool whole;

        pthread_mutex_lock(&refresh->lock);
        r = pass_to_wait_for(refresh, &pass);
        pthread_mutex_unlock(&refresh->lock);
        if (r < 0)
                return sbx_error_set(err, r, FILES_ORIGIN, NULL, "can't index the project: %s", strerrordesc_np(-r));
        if (pass != NULL)
                ended = wait_for(pass, call, wait_until(refresh, call));
        pthread_mutex_lock(&refresh->lock);
        *ret_freshness = refresh->last;
        whole = refresh->last_ns != 0;
        if (pass != NULL)
                unref(pass);
        pthread_mutex_unlock(&refresh->lock);
        if (ended < 0)
                return sbx_error_set(err, ended, FILES_ORIGIN, NULL,
                                     "the call was cancelled while the project is indexed");
        if (ended == 0 && whole) {
                ret_freshness->stale = true;
        } else if (ended == 0) {
                ret_freshness->partial = true;
                snprintf(ret_freshness->reason, sizeof(ret_freshness->reason),
                         "the project is still being indexed: ask again in a while for all of it");
        }
        return call_state(call) == 0 ? 0
                                     : sbx_error_set(err, call_state(call), FILES_ORIGIN, NULL,
                                                     "the call ended while the project is indexed");
}
