/* SPDX-License-Identifier: Apache-2.0 */
/* The reaper: a thread that ends sessions which nobody used for too long, and frees guests that others have done with,
 * so that killing and sweeping up after a guest is not on the way of an answer. */
#include "session/state.h"

#include "base/error.h"

#define GRAVES_MAX (sizeof(((struct sbx_sessions *)0)->graves) / sizeof(((struct sbx_sessions *)0)->graves[0]))

/* Whether a call finds something stored to go on with; and whether that is all that the session was. Nobody has its
 * turn: what belongs to that may be looked at. */
static bool is_stored_locked(const struct sbx_session *session) {
        return session->vault != NULL && sbx_vault_durable(session->vault) && sbx_session_stored_head(session) != NULL;
}

static bool is_kept_locked(const struct sbx_session *session) {
        const struct sbx_checkpoint *head = is_stored_locked(session) ? sbx_session_stored_head(session) : NULL;

        return head != NULL && strcmp(head->id, session->current) == 0;
}

static bool may_expire_locked(const struct sbx_session *session) {
        return session->references == 0 && strcmp(session->id, SBX_SESSION_DEFAULT) != 0;
}

/* Takes one session that has expired out of the table; NULL: none has. `*ret_next_ns`: when to look again at the
 * latest. A session that becomes idle later than now expires a whole TTL from then, so that is soon enough for it. */
static struct sbx_session *expire_one_locked(struct sbx_sessions *sessions, uint64_t *ret_next_ns) {
        uint64_t now = sbx_clock_ns(), next = now + sessions->ttl_ns;

        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                for (struct sbx_session *at = sessions->buckets[i]; at != NULL; at = at->next) {
                        uint64_t expires = at->last_used_ns + sessions->ttl_ns;

                        if (!may_expire_locked(at))
                                continue;
                        if (expires <= now) {
                                if (!is_kept_locked(at))
                                        sbx_expired_add_locked(sessions, at->principal, at->id, is_stored_locked(at));
                                sbx_session_end_locked(at);
                                return at;
                        }
                        if (expires < next)
                                next = expires;
                }
        *ret_next_ns = next;
        return NULL;
}

static void free_unlocked(struct sbx_sessions *sessions, struct sbx_session *session, struct sbx_guest_process *guest) {
        pthread_mutex_unlock(&sessions->lock);
        if (session != NULL) {
                sbx_log(sessions->logger, SBX_LOG_DEBUG, "session '%s' expired", session->id);
                sbx_session_tell(sessions, session->principal, session->id);
                sbx_session_free(session);
        }
        sbx_guest_free(guest);
        pthread_mutex_lock(&sessions->lock);
}

static void *reaper_run(void *data) {
        struct sbx_sessions *sessions = data;
        uint64_t look_at_ns = 0; /* 0: never, there is no TTL */

        pthread_mutex_lock(&sessions->lock);
        if (sessions->ttl_ns > 0)
                look_at_ns = sbx_clock_ns() + sessions->ttl_ns;
        while (!sessions->reaper_stop) {
                struct sbx_session *expired = NULL;

                if (sessions->grave_count > 0) {
                        free_unlocked(sessions, NULL, sessions->graves[--sessions->grave_count]);
                        continue;
                }
                if (look_at_ns != 0 && sbx_clock_ns() >= look_at_ns)
                        expired = expire_one_locked(sessions, &look_at_ns);
                if (expired != NULL)
                        free_unlocked(sessions, expired, NULL);
                else
                        sbx_cond_wait(&sessions->reaper_wake, &sessions->lock, look_at_ns);
        }
        pthread_mutex_unlock(&sessions->lock);
        return NULL;
}

void sbx_reaper_start_locked(struct sbx_sessions *sessions) {
        int r;

        if (sessions->reaper_runs || sessions->reaper_stop)
                return;
        r = sbx_thread_start(&sessions->reaper, "sbx-reaper", reaper_run, sessions);
        if (r < 0) /* the next session tries again; until then guests are freed by those who used them */
                sbx_log(sessions->logger, SBX_LOG_WARNING, "idle sessions can't expire, no thread can be had: %s",
                        SBX_ERRNO_TEXT(r));
        else
                sessions->reaper_runs = true;
}

void sbx_reaper_stop(struct sbx_sessions *sessions) {
        bool runs;

        pthread_mutex_lock(&sessions->lock);
        runs = sessions->reaper_runs;
        sessions->reaper_stop = true;
        pthread_cond_signal(&sessions->reaper_wake);
        pthread_mutex_unlock(&sessions->lock);
        if (runs)
                pthread_join(sessions->reaper, NULL);
        while (sessions->grave_count > 0)
                sbx_guest_free(sessions->graves[--sessions->grave_count]);
}

void sbx_reaper_bury(struct sbx_sessions *sessions, struct sbx_guest_process *guest) {
        bool buried = false;

        if (guest == NULL)
                return;
        pthread_mutex_lock(&sessions->lock);
        if (sessions->reaper_runs && !sessions->reaper_stop && sessions->grave_count < GRAVES_MAX) {
                sessions->graves[sessions->grave_count++] = guest;
                buried = true;
                pthread_cond_signal(&sessions->reaper_wake);
        }
        pthread_mutex_unlock(&sessions->lock);
        if (!buried)
                sbx_guest_free(guest);
}
