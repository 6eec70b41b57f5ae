/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, clock, whether a call should end. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <snipara-sandbox/types.h>

#define FILES_ORIGIN "context-files"
#define NS_PER_MS UINT64_C(1000000)

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void files_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void files_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
#define _cleanup_free_ _cleanup_(files_cleanup_free)
#define _cleanup_close_ _cleanup_(files_cleanup_close)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })
static inline int steal_fd(int *fd) {
        int stolen = *fd;

        *fd = -1;
        return stolen;
}

static inline uint64_t clock_read_ns(clockid_t clock) {
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
static inline uint64_t monotonic_ns(void) {
        return clock_read_ns(CLOCK_MONOTONIC);
}

/* -ECANCELED, -ETIMEDOUT or 0. */
static inline int call_state(const struct sbx_call *call) {
        struct pollfd ready;

        if (call == NULL)
                return 0;
        ready = (struct pollfd){.fd = call->cancel_fd, .events = POLLIN};
        if (call->cancel_fd >= 0 && poll(&ready, 1, 0) > 0)
                return -ECANCELED;
        return call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns ? -ETIMEDOUT : 0;
}

static inline int files_nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, FILES_ORIGIN, NULL, "out of memory");
}
