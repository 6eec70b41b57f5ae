/* SPDX-License-Identifier: Apache-2.0 */
/* The warm-up: brings the configured environment up and has its pool filled on a thread of its own, so that who serves
 * can answer at once and the first execution finds a guest. */
#include "session/state.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define WARM_TIMEOUT_MS UINT64_C(300000) /* a backend may have to fetch an image first */
#define GIVE_WAY_STEP_MS 10
#define GIVE_WAY_MAX_MS 1000u

static bool is_wanted(struct sbx_sessions *sessions) {
        SBX_LOCKED(&sessions->lock);
        return sessions->live > 0 && !sessions->warm_stop;
}

/* Somebody who waits for a session already gets the first guest of a backend that is new, and not the second one,
 * behind a guest that nobody needs yet. When that took a guest, the pool is filled anyway. */
static void give_way(struct sbx_sessions *sessions, struct sbx_backend_pool *backend) {
        struct pollfd stop = {.fd = sessions->warm_stop_fd, .events = POLLIN};

        for (unsigned waited_ms = 0;
             waited_ms < GIVE_WAY_MAX_MS && is_wanted(sessions) && sbx_pool_ready(backend->pool, NULL) == -EAGAIN;
             waited_ms += GIVE_WAY_STEP_MS)
                if (poll(&stop, 1, GIVE_WAY_STEP_MS) > 0)
                        return;
}

static void *warm_run(void *data) {
        struct sbx_sessions *sessions = data;
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = sessions->warm_stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(WARM_TIMEOUT_MS)};
        struct sbx_backend_pool *backend = NULL;
        struct sbx_error problem = {0};
        int r = sbx_backend_find(sessions, NULL, NULL, &call, &backend, &problem);

        if (r == 0) {
                give_way(sessions, backend);
                sbx_backend_warm(sessions, backend->instance);
        }
        pthread_mutex_lock(&sessions->lock);
        if (r < 0) {
                sessions->warm_failure = problem;
                sbx_error_set(&sessions->warm_failure, r, SBX_SESSION_ORIGIN, NULL,
                              "environment '%s' can't be started: %s", sessions->environment, SBX_ERRNO_TEXT(r));
                problem = sessions->warm_failure;
        }
        sessions->warm_ended = true;
        pthread_mutex_unlock(&sessions->lock);
        if (r < 0 && r != -ECANCELED)
                sbx_log(sessions->logger, SBX_LOG_WARNING, "can't prepare sessions ahead: %s%s%s", problem.message,
                        problem.hint[0] != '\0' ? ". " : "", problem.hint);
        return NULL;
}

void sbx_sessions_warm(struct sbx_sessions *sessions) {
        int r;

        SBX_LOCKED(&sessions->lock);
        sbx_retention_start_locked(sessions);
        if (sessions->warmer_runs || sessions->warm_stop)
                return;
        r = sbx_thread_start(&sessions->warmer, "sbx-warm", warm_run, sessions);
        if (r < 0) /* the first session brings it up then */
                sbx_log(sessions->logger, SBX_LOG_WARNING, "no thread to prepare sessions ahead: %s",
                        SBX_ERRNO_TEXT(r));
        else
                sessions->warmer_runs = true;
}

void sbx_warm_stop(struct sbx_sessions *sessions) {
        bool runs;

        pthread_mutex_lock(&sessions->lock);
        runs = sessions->warmer_runs;
        sessions->warmer_runs = false;
        sessions->warm_stop = true;
        pthread_mutex_unlock(&sessions->lock);
        (void)!eventfd_write(sessions->warm_stop_fd, 1);
        if (runs)
                pthread_join(sessions->warmer, NULL);
}

int sbx_sessions_ready(struct sbx_sessions *sessions, struct sbx_error *err) {
        const struct sbx_backend_pool *backend;
        struct sbx_error problem;
        bool ended;

        pthread_mutex_lock(&sessions->lock);
        backend = sbx_backend_configured_locked(sessions);
        problem = sessions->warm_failure;
        ended = sessions->warm_ended;
        pthread_mutex_unlock(&sessions->lock);
        if (backend != NULL) /* it lives as long as the sessions */
                return sbx_pool_ready(backend->pool, err);
        if (ended && problem.code != 0) {
                if (err != NULL && err->code == 0)
                        *err = problem;
                return problem.code;
        }
        return sbx_error_set(err, -EAGAIN, SBX_SESSION_ORIGIN, "Ask again in a moment.",
                             "environment '%s' is not started yet", sessions->environment);
}
