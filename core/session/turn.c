/* SPDX-License-Identifier: Apache-2.0 */
/* One call at a time in a session, in the order of their arrival; who waits can give up. */
#include "session/state.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"

#define ORIGIN SBX_SESSION_ORIGIN

static void waiter_wake(const struct sbx_waiter *waiter) {
        /* An eventfd takes a 1 unless its count is near 2^64: this can't fail. */
        (void)!eventfd_write(waiter->fd, 1);
}

static void queue_append(struct sbx_session *session, struct sbx_waiter *waiter) {
        if (session->last_waiter != NULL)
                session->last_waiter->next = waiter;
        else
                session->first_waiter = waiter;
        session->last_waiter = waiter;
}

static void queue_remove(struct sbx_session *session, struct sbx_waiter *waiter) {
        struct sbx_waiter *before = NULL;

        for (struct sbx_waiter *at = session->first_waiter; at != NULL; before = at, at = at->next) {
                if (at != waiter)
                        continue;
                if (before != NULL)
                        before->next = at->next;
                else
                        session->first_waiter = at->next;
                if (session->last_waiter == at)
                        session->last_waiter = before;
                return;
        }
}

static int describe_wait_failure(const struct sbx_session *session, int code, struct sbx_error *err) {
        if (code == -ETIMEDOUT)
                return sbx_error_set(err, code, ORIGIN,
                                     "Try again, use another session_id, or destroy the session, which "
                                     "cancels what it runs.",
                                     "session '%s' was busy until the deadline of this call; nothing was run",
                                     session->id);
        if (code == -ECANCELED)
                return sbx_error_set(err, code, ORIGIN, NULL,
                                     "cancelled while waiting for session '%s'; nothing was run", session->id);
        return sbx_error_set(err, code, ORIGIN, NULL, "waiting for session '%s': %s", session->id,
                             SBX_ERRNO_TEXT(code));
}

int sbx_turn_wait_locked(struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_close_ int fd = -1;
        struct sbx_waiter waiter = {0};
        int r;

        if (!session->busy) {
                session->busy = true;
                return 0;
        }
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
                return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't wait for session '%s': %s", session->id, SBX_ERRNO_TEXT(errno));
        waiter.fd = fd;
        queue_append(session, &waiter);
        pthread_mutex_unlock(&session->owner->lock);
        r = sbx_fd_wait(fd, POLLIN, call);
        pthread_mutex_lock(&session->owner->lock);
        if (waiter.refused)
                return sbx_error_set(err, -ECANCELED, ORIGIN, "Call again: a session of that name starts clean.",
                                     "session '%s' was destroyed while this call waited for it; nothing was run",
                                     session->id);
        if (waiter.granted && r == 0)
                return 0;
        if (waiter.granted)
                sbx_turn_pass_locked(session); /* it came at the moment of giving up */
        else
                queue_remove(session, &waiter);
        return describe_wait_failure(session, r, err);
}

int sbx_turn_wait_end_locked(struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_sessions *sessions = session->owner;
        _cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        struct sbx_waiter waiter = {.fd = fd};
        int r;

        if (fd < 0)
                return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't wait for session '%s': %s", session->id, SBX_ERRNO_TEXT(errno));
        queue_append(session, &waiter);
        pthread_mutex_unlock(&sessions->lock);
        r = sbx_fd_wait(fd, POLLIN, call);
        pthread_mutex_lock(&sessions->lock);
        if (waiter.refused) /* it is gone: not even its name may be looked at */
                return 0;
        queue_remove(session, &waiter);
        return describe_wait_failure(session, r, err);
}

void sbx_turn_pass_locked(struct sbx_session *session) {
        struct sbx_waiter *next = session->ended ? NULL : session->first_waiter;

        if (next == NULL) {
                session->busy = false;
                return;
        }
        session->first_waiter = next->next;
        if (session->first_waiter == NULL)
                session->last_waiter = NULL;
        next->granted = true;
        waiter_wake(next);
}

void sbx_turn_refuse_locked(struct sbx_session *session) {
        for (struct sbx_waiter *at = session->first_waiter, *next; at != NULL; at = next) {
                next = at->next; /* `at` may be gone as soon as it is woken and the lock is free */
                at->refused = true;
                waiter_wake(at);
        }
        session->first_waiter = session->last_waiter = NULL;
}
