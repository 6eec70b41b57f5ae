/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin and its programs: scope-bound cleanup, clock, whole reads and writes. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOCAL_ORIGIN "backend-local"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void local_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void local_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
#define _cleanup_free_ _cleanup_(local_cleanup_free)
#define _cleanup_close_ _cleanup_(local_cleanup_close)

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
static inline void close_fd(int *fd) {
        local_cleanup_close(fd);
        *fd = -1;
}

static inline uint64_t monotonic_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* One write to a small file of the kernel, whole or an error. */
static inline int write_whole(int fd, const void *data, size_t size) {
        ssize_t n;

        do
                n = write(fd, data, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t)n == size ? 0 : -EIO;
}
