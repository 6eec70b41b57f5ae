/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of running sessions, where the backend can copy a guest: once a session has been quiet for a moment, a
 * thread copies its guest. When the guest is ended the session goes on with the copy, and says so. */
#include "session/state.h"

#include "base/error.h"

#define QUIET_NS (5 * SBX_NS_PER_MS)   /* after the last use: who executes one piece after another is not held up */
#define LATE_NS SBX_NS_PER_S           /* after the first change: who does so all the time has checkpoints, too */
#define COPY_TIMEOUT_MS UINT64_C(5000) /* a copy takes less than a millisecond */

static bool is_wanted(const struct sbx_session *session) {
        const struct sbx_instance *instance = session->backend->instance;
        const struct sbx_backend_ops *ops = instance->ops;
        const struct sbx_value *value =
                instance->core_settings != NULL ? sbx_settings_get(instance->core_settings, "checkpoint") : NULL;

        return (ops->features & SBX_BACKEND_FORK) != 0 && session->id[0] != '\0' &&
               (value == NULL || !value->set || strcmp(value->string, "off") != 0);
}

/* ---- the thread ---- */

static uint64_t due_of(const struct sbx_session *session) {
        uint64_t quiet = session->last_used_ns + QUIET_NS, late = session->unsaved_since_ns + LATE_NS;

        return quiet < late ? quiet : late;
}

/* One whose copy is due, with its turn taken; NULL: none is, and `*ret_next_ns` is when to look again (0: when told).
 */
static struct sbx_session *take_due_locked(struct sbx_sessions *sessions, uint64_t *ret_next_ns) {
        uint64_t now = sbx_clock_ns();

        *ret_next_ns = 0;
        for (size_t i = 0; sessions->unsaved > 0 && i < SBX_SESSION_BUCKETS; i++)
                for (struct sbx_session *at = sessions->buckets[i]; at != NULL; at = at->next) {
                        uint64_t due = due_of(at);

                        if (!at->unsaved || at->references > 0) /* who has it tells when he lets go */
                                continue;
                        if (due <= now) {
                                at->references++;
                                at->busy = at->glance = true;
                                sbx_checkpoint_saved_locked(at);
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
        struct sbx_guest_process *copy = NULL;
        struct sbx_error problem = {0};
        struct sbx_guest_spec spec;
        char label[SBX_SESSION_LABEL_SIZE];
        int r;

        if (session->guest == NULL || !sbx_guest_alive(session->guest))
                return;
        sbx_session_describe(session, session->memory_limit_bytes, label, &spec);
        r = sbx_guest_fork(session->guest, &spec, &call, &copy, &problem);
        if (r < 0) { /* cancelled: the session has ended meanwhile */
                sbx_log(session->owner->logger, r == -ECANCELED ? SBX_LOG_DEBUG : SBX_LOG_WARNING,
                        "session '%s' has no new checkpoint: %s", session->id, problem.message);
                return;
        }
        sbx_checkpoint_drop(session);
        session->checkpoint = copy;
        session->checkpoint_executions = session->executions;
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
                copy_guest(session);
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
                sbx_log(sessions->logger, SBX_LOG_WARNING, "no checkpoints are made, no thread can be had: %s",
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

void sbx_checkpoint_mark(struct sbx_session *session) {
        struct sbx_sessions *sessions = session->owner;

        if (session->guest == NULL || !is_wanted(session))
                return;
        SBX_LOCKED(&sessions->lock);
        if (!session->unsaved) {
                sessions->unsaved++;
                session->unsaved_since_ns = sbx_clock_ns();
        }
        session->unsaved = true;
        start_locked(sessions);
}

void sbx_checkpoint_saved_locked(struct sbx_session *session) {
        if (session->unsaved)
                session->owner->unsaved--;
        session->unsaved = false;
}

bool sbx_checkpoint_use(struct sbx_session *session) {
        struct sbx_guest_process *copy = session->checkpoint;

        if (copy == NULL || !sbx_guest_alive(copy))
                return false;
        session->checkpoint = NULL;
        sbx_session_replace(session, copy);
        return true;
}

void sbx_checkpoint_drop(struct sbx_session *session) {
        struct sbx_guest_process *copy = session->checkpoint;

        session->checkpoint = NULL;
        sbx_reaper_bury(session->owner, copy);
}
