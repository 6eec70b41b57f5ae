/* SPDX-License-Identifier: Apache-2.0 */
/* One session, for whoever has its turn: its guest, the guest's limits, and what the others may see of it. */
#include "session/state.h"

#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define START_TIMEOUT_MS UINT64_C(60000)
#define COPY_TIMEOUT_MS UINT64_C(5000) /* it takes about a millisecond */
#define LABEL_ID_MAX 40 /* of the id; with the number it stays a short name for a cgroup or a container */

/* ---- calls ---- */

static int watch_open(struct sbx_session *session, struct sbx_error *err) {
        struct epoll_event event = {.events = EPOLLIN};
        _cleanup_close_ int fd = epoll_create1(EPOLL_CLOEXEC);

        if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, session->stop_fd, &event) < 0)
                return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't watch for the end of session '%s': %s", session->id, SBX_ERRNO_TEXT(errno));
        session->watch_fd = steal_fd(&fd);
        return 0;
}

int sbx_session_call_begin(struct sbx_session *session, const struct sbx_call *call, uint64_t limit_ms,
                           struct sbx_call *ret_call, struct sbx_error *err) {
        struct sbx_call merged = {.struct_size = sizeof(merged), .cancel_fd = session->stop_fd};
        struct epoll_event event = {.events = EPOLLIN};
        uint64_t limit_ns = limit_ms > 0 ? sbx_clock_deadline_ms(limit_ms) : 0;
        int r;

        if (call != NULL) {
                merged.deadline_ns = call->deadline_ns;
                merged.progress = call->progress;
                merged.progress_data = call->progress_data;
        }
        if (limit_ns != 0 && (merged.deadline_ns == 0 || limit_ns < merged.deadline_ns))
                merged.deadline_ns = limit_ns;
        if (call != NULL && call->cancel_fd >= 0 && session->stop_fd < 0) {
                merged.cancel_fd = call->cancel_fd;
        } else if (call != NULL && call->cancel_fd >= 0) {
                /* A call has one descriptor to cancel it with, so the two become one: an epoll is readable when one of
                 * those that it watches is. */
                if (session->watch_fd < 0) {
                        r = watch_open(session, err);
                        if (r < 0)
                                return r;
                }
                if (epoll_ctl(session->watch_fd, EPOLL_CTL_ADD, call->cancel_fd, &event) < 0)
                        return sbx_error_set(
                                err, -EINVAL, ORIGIN, "Pass a pollable descriptor, such as an eventfd, or -1.",
                                "cancel_fd %d can't be watched: %s", (int)call->cancel_fd, SBX_ERRNO_TEXT(errno));
                merged.cancel_fd = session->watch_fd;
        }
        *ret_call = merged;
        return 0;
}

void sbx_session_call_end(struct sbx_session *session, const struct sbx_call *call) {
        if (call != NULL && call->cancel_fd >= 0 && session->watch_fd >= 0)
                epoll_ctl(session->watch_fd, EPOLL_CTL_DEL, call->cancel_fd, NULL);
}

/* ---- what others may see ---- */

static void publish(struct sbx_session *session) {
        const json_t *names = session->guest != NULL ? sbx_guest_names(session->guest) : NULL;
        const char *isolation = session->guest != NULL ? sbx_guest_isolation(session->guest) : NULL;
        char *copy = NULL;

        /* The guest replaces its list of names, and never changes one: a reference is enough, and the same list is the
         * same names. */
        if (names == session->names && (isolation == NULL) == (session->isolation == NULL))
                return;
        copy = isolation != NULL ? strdup(isolation) : NULL;
        pthread_mutex_lock(&session->owner->lock);
        json_decref(session->names);
        session->names = json_incref((json_t *)names);
        free(session->isolation);
        session->isolation = copy;
        pthread_mutex_unlock(&session->owner->lock);
}

void sbx_session_bury(struct sbx_session *session) {
        struct sbx_guest_process *guest = steal_pointer(session->guest);

        /* First our reference to its names: jansson's counts want one thread at a time, and the reaper frees the rest.
         */
        publish(session);
        sbx_reaper_bury(session->owner, guest);
        session->memory_peak_bytes = 0;
}

void sbx_session_replace(struct sbx_session *session, struct sbx_guest_process *guest) {
        struct sbx_guest_process *old = session->guest;

        session->guest = guest;
        publish(session);
        session->memory_peak_bytes = 0;
        sbx_reaper_bury(session->owner, old);
}

/* Its guest is dead. Why is kept for the notice; an older reason that nobody heard of is where its state went. */
static void fall(struct sbx_session *session, const char *reason) {
        if (session->fall == NULL)
                session->fall = strdup(reason);
        session->current[0] = '\0';
        sbx_guest_end(session->guest);
        sbx_session_bury(session);
}

/* The copy of the newest checkpoint is all that it takes to go on at once. */
static bool go_on_with_copy(struct sbx_session *session, const char *reason) {
        struct sbx_checkpoint *head = sbx_session_head(session);
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(COPY_TIMEOUT_MS)};
        struct sbx_notice notice = {.from = head, .reason = reason};
        struct sbx_guest_process *guest = NULL;

        if (head == NULL || sbx_copies_find(session, head->id) == NULL ||
            sbx_copies_use(session, head->id, head->automatic, &call, &guest, NULL) < 0)
                return false;
        notice.mechanism = sbx_copies_mechanism(session);
        sbx_guest_end(session->guest); /* what is left of it, before the copy does anything */
        sbx_session_replace(session, guest);
        sbx_notice_set(session, &notice);
        sbx_session_stand(session, head->id);
        return true;
}

void sbx_session_settle(struct sbx_session *session, const char *reason) {
        if (session->guest != NULL && !sbx_guest_alive(session->guest) && !go_on_with_copy(session, reason))
                fall(session, reason);
        publish(session);
}

/* ---- the guest ---- */

void sbx_session_describe(const struct sbx_session *session, uint64_t memory_bytes, char label[SBX_SESSION_LABEL_SIZE],
                          struct sbx_guest_spec *ret_spec) {
        snprintf(label, SBX_SESSION_LABEL_SIZE, "s%llu-%.*s", (unsigned long long)session->number, LABEL_ID_MAX,
                 session->id[0] != '\0' ? session->id : "fresh");
        for (char *at = label; *at != '\0'; at++)
                if (*at == ':' || *at == '@')
                        *at = '_';
        *ret_spec = (struct sbx_guest_spec){
                .struct_size = sizeof(*ret_spec),
                .label = label,
                .runtime = session->runtime.family,
                .runtime_version = session->runtime.version[0] != '\0' ? session->runtime.version : NULL,
                .limits = {.struct_size = sizeof(ret_spec->limits), .memory_bytes = memory_bytes},
                .owner = session->principal,
        };
}

static void measure_start(struct sbx_session *session) {
        struct sbx_metrics *metrics = session->owner->metrics;

        if (metrics != NULL && !session->had_guest)
                sbx_histogram_add(&metrics->session_seconds, sbx_clock_ns() - session->wished_ns);
        session->had_guest = true;
}

int sbx_session_start_guest(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                            struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        char label[SBX_SESSION_LABEL_SIZE];
        struct sbx_guest_spec spec;
        struct sbx_call limited = *call;
        uint64_t latest = sbx_clock_deadline_ms(START_TIMEOUT_MS);
        int r;

        sbx_session_describe(session, memory_bytes, label, &spec);
        if (limited.deadline_ns == 0 || limited.deadline_ns > latest)
                limited.deadline_ns = latest;
        r = sbx_pool_take(session->backend->pool, &spec, &limited, ret_guest, err);
        if (r < 0)
                sbx_error_wrap(err, "can't start a session in environment '%s'", session->backend->instance->name);
        return r;
}

void sbx_session_adopt(struct sbx_session *session, struct sbx_guest_process *guest, uint64_t memory_bytes) {
        sbx_session_replace(session, guest);
        session->memory_limit_bytes = memory_bytes;
        session->untried = true;
        free(steal_pointer(session->fall));
        measure_start(session);
}

/* The kernel kills a guest whose limit is lowered below what it holds, and its variables go with it. So the hard limit
 * is lowered only when the guest never came near the new one; otherwise it stays, and the soft limit of the execution
 * refuses what it would allocate. The backend's own maximum holds in any case. */
static bool may_lower(const struct sbx_session *session, uint64_t memory_bytes) {
        return session->memory_peak_bytes > 0 && session->memory_peak_bytes < memory_bytes - memory_bytes / 4;
}

static int apply_limit(struct sbx_session *session, uint64_t memory_bytes, struct sbx_error *err) {
        struct sbx_limits limits = {.struct_size = sizeof(limits), .memory_bytes = memory_bytes};
        struct sbx_error problem = {0};
        int r;

        if (memory_bytes == session->memory_limit_bytes ||
            (memory_bytes < session->memory_limit_bytes && !may_lower(session, memory_bytes)))
                return 0;
        r = sbx_guest_limit(session->guest, &limits, &problem);
        if (r == -ENOTSUP) /* a backend that can't: the limit of the start holds, and the soft one */
                return 0;
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        if (r == 0)
                session->memory_limit_bytes = memory_bytes;
        return r;
}

int sbx_session_ready(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                      struct sbx_error *err) {
        int r;

        sbx_session_settle(session, "its interpreter ended while nothing was executed");
        if (session->guest == NULL)
                r = sbx_session_revive(session, memory_bytes, call, err);
        else
                r = 0;
        if (r == 0 && memory_bytes > 0) /* a copy has what its original had */
                r = apply_limit(session, memory_bytes, err);
        if (r < 0 && session->guest != NULL && !sbx_guest_alive(session->guest))
                return -ESRCH; /* it died this moment: the caller tries again with a new one */
        return r;
}
