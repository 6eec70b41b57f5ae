/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a descriptor or a lock as long as a call allows. */
#include <poll.h>

#include "backend.h"
#include "util.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND 1000000000L
#define LOCK_SLICE_NS 20000000L /* how often a call that waits for another's question looks whether it has ended */

/* Milliseconds until `deadline_ns`, rounded up; -1: none. */
static int remaining_ms(uint64_t deadline_ns) {
        uint64_t now = monotonic_ns();
        uint64_t ms;

        if (deadline_ns == 0)
                return -1;
        if (deadline_ns <= now)
                return 0;
        ms = (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
        return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

int wait_fd(int fd, short events, const struct sbx_call *call, int limit_ms) {
        uint64_t limit_ns = limit_ms < 0 ? 0 : monotonic_ns() + (uint64_t)limit_ms * NS_PER_MS;
        uint64_t deadline_ns = call != NULL ? call->deadline_ns : 0;
        struct pollfd fds[2] = {{.fd = fd, .events = events},
                                {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN}};

        if (deadline_ns == 0 || (limit_ns != 0 && limit_ns < deadline_ns))
                deadline_ns = limit_ns;
        for (;;) {
                int n = poll(fds, 2, remaining_ms(deadline_ns));

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && fds[0].revents != 0)
                        return 0;
                if (n > 0)
                        return -ECANCELED;
                if (n == 0)
                        return -ETIMEDOUT;
        }
}

int call_state(const struct sbx_call *call) {
        struct pollfd fd = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};

        if (call == NULL)
                return 0;
        if (fd.fd >= 0 && poll(&fd, 1, 0) > 0)
                return -ECANCELED;
        return call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns ? -ETIMEDOUT : 0;
}

int lock_for(pthread_mutex_t *lock, const struct sbx_call *call) {
        int r = pthread_mutex_trylock(lock);

        while (r == EBUSY || r == ETIMEDOUT) {
                struct timespec until;
                int state = call_state(call);

                if (state < 0)
                        return state;
                clock_gettime(CLOCK_REALTIME, &until); /* a clock that is set costs one slice */
                until.tv_nsec += LOCK_SLICE_NS;
                until.tv_sec += until.tv_nsec / NS_PER_SECOND;
                until.tv_nsec %= NS_PER_SECOND;
                r = pthread_mutex_timedlock(lock, &until);
        }
        return -r;
}

int gave_up(int code, const char *doing, struct sbx_error *err) {
        return sbx_error_set(err, code, WASM_ORIGIN, NULL, "gave up %s: %s", doing,
                             code == -ECANCELED   ? "the call was cancelled"
                             : code == -ETIMEDOUT ? "its time is over"
                                                  : strerror(-code));
}
