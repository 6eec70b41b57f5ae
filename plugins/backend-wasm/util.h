/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, clock, whole reads and writes. */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define WASM_ORIGIN "backend-wasm"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
static inline void cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_json_ _cleanup_(cleanup_json)

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
        cleanup_close(fd);
        *fd = -1;
}

static inline uint64_t monotonic_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t at_most(uint64_t value, uint64_t maximum) {
        return value < maximum ? value : maximum;
}

static inline int write_whole(int fd, const void *data, size_t size) {
        const char *at = data;

        while (size > 0) {
                ssize_t n = write(fd, at, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                at += n;
                size -= (size_t)n;
        }
        return 0;
}
