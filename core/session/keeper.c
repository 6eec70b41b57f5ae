/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: a thread that copies the guests of sessions, where the backend can, once these have been quiet for a
 * moment; and stores the states of branches, whose makers do not wait for that. */
#include "session/state.h"

#include "base/error.h"

#define QUIET_NS (5 * SBX_NS_PER_MS)   /* after the last use: who executes one piece after another is not held up */
#define LATE_NS SBX_NS_PER_S           /* after the first change: who does so all the time has copies, too */
#define LATE_COSTS 10                  /* ... or ten times what keeping the state takes, if that is more */
#define COPY_TIMEOUT_MS UINT64_C(5000) /* a copy takes about a millisecond */

static bool is_wanted(struct sbx_session *session) {
        if (session->unstored)
                return true;
        return sbx_copies_possible(session) && !session->uncopyable && sbx_session_saves(session) &&
               (session->current[0] == '\0' || sbx_copies_find(session, session->current) == NULL);
}

/* ---- the thread ---- */

static uint64_t due_of(const struct sbx_session *session) {
        uint64_t cost = session->unstored ? session->kept_ns : 0; /* of a large state: not while others want the turn */
        uint64_t quiet = session->last_used_ns + (cost > QUIET_NS ? cost : QUIET_NS),
                 late = session->unsaved_since_ns + (LATE_COSTS * cost > LATE_NS ? LATE_COSTS * cost : LATE_NS);

        return quiet < late ? quiet : late;
}

/* One that is due, with its turn taken; NULL: none is, and `*ret_next_ns` is when to look again (0: when told). */
static struct sbx_session *take_due_locked(struct sbx_sessions *sessions, uint64_t *ret_next_ns) {
        uint64_t now = sbx_clock_ns();

        *ret_next_ns = 0;
        for (size_t i = 0; sessions->unsaved > 0 && i < SBX_SESSION_BUCKETS; i++)
                for (struct sbx_session *at = sessions->buckets[i]; at != NULL; at = at->next) {
                        uint64_t due;

                        if (!at->unsaved || at->references > 0) /* who has it tells when he lets go */
                                continue;
                        due = due_of(at);
                        if (due <= now) {
                                at->references++;
                                at->busy = at->keeping = at->glance = true;
                                sbx_keeper_forget_locked(at);
                                return at;
                        }
                        if (*ret_next_ns == 0 || due < *ret_next_ns)
                                *ret_next_ns = due;
                }
        return NULL;
}

static void copy_guest(struct sbx_session *session) {
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = session->stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(COPY_TIMEOUT_MS)};
        const struct sbx_checkpoint given = {.automatic = true, .executions = session->executions};
        struct sbx_error problem = {0};
        int r = sbx_copies_make(session, &given, session->current, &call, &problem);

        /* Cancelled: the session has ended meanwhile. Busy: its code has threads, say; it has other checkpoints. */
        session->uncopyable = r == -ENOTSUP;
        if (r < 0)
                sbx_log(session->owner->logger,
                        session->uncopyable || r == -ECANCELED || r == -EBUSY || r == -ENOSPC ? SBX_LOG_DEBUG
                                                                                              : SBX_LOG_WARNING,
                        "session '%s' has no copy to go back to: %s", session->id, problem.message);
}

static void keep(struct sbx_session *session) {
        if (session->guest == NULL || !sbx_guest_alive(session->guest) || session->vault == NULL ||
            sbx_vault_lost(session->vault))
                return;
        sbx_session_store(session);
        if (session->vault != NULL && session->guest != NULL && is_wanted(session))
                copy_guest(session);
}

static void *keeper_run(void *data) {
        struct sbx_sessions *sessions = data;

        pthread_mutex_lock(&sessions->lock);
        while (!sessions->keeper_stop) {
                uint64_t next_ns;
                struct sbx_session *session = take_due_locked(sessions, &next_ns);

                if (session == NULL) {
                        sbx_cond_wait(&sessions->keeper_wake, &sessions->lock, next_ns);
                        continue;
                }
                pthread_mutex_unlock(&sessions->lock);
                keep(session);
                sbx_session_release(session);
                pthread_mutex_lock(&sessions->lock);
        }
        pthread_mutex_unlock(&sessions->lock);
        return NULL;
}

static void start_locked(struct sbx_sessions *sessions) {
        int r;

        if (sessions->keeper_runs || sessions->keeper_stop)
                return;
        r = sbx_thread_start(&sessions->keeper, "sbx-keeper", keeper_run, sessions);
        if (r < 0) /* the next execution tries again */
                sbx_log(sessions->logger, SBX_LOG_WARNING, "no copies are made, no thread can be had: %s",
                        SBX_ERRNO_TEXT(r));
        else
                sessions->keeper_runs = true;
}

void sbx_keeper_stop(struct sbx_sessions *sessions) {
        bool runs;

        pthread_mutex_lock(&sessions->lock);
        runs = sessions->keeper_runs;
        sessions->keeper_stop = true;
        pthread_cond_signal(&sessions->keeper_wake);
        pthread_mutex_unlock(&sessions->lock);
        if (runs)
                pthread_join(sessions->keeper, NULL);
}

/* ---- for whoever has a session's turn ---- */

void sbx_keeper_mark(struct sbx_session *session) {
        struct sbx_sessions *sessions = session->owner;

        if (session->guest == NULL || session->vault == NULL || !is_wanted(session))
                return;
        SBX_LOCKED(&sessions->lock);
        if (!session->unsaved) {
                sessions->unsaved++;
                session->unsaved_since_ns = sbx_clock_ns();
        }
        session->unsaved = true;
        start_locked(sessions);
}

void sbx_keeper_forget_locked(struct sbx_session *session) {
        if (session->unsaved)
                session->owner->unsaved--;
        session->unsaved = false;
}
