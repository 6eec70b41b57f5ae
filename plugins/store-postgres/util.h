/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, clock, names of blobs, common errors. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <snipara-sandbox/store.h>

#define POSTGRES_ORIGIN "store-postgres"
#define NS_PER_MS UINT64_C(1000000)
#define NAME_BYTES_MAX 255u
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void postgres_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void postgres_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
#define _cleanup_free_ _cleanup_(postgres_cleanup_free)
#define _cleanup_close_ _cleanup_(postgres_cleanup_close)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })

static inline uint64_t monotonic_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The earlier of two deadlines, 0 being none. */
static inline uint64_t earlier(uint64_t a, uint64_t b) {
        return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Waits until `fd` (-1: only for time to pass) has one of `events`. -ECANCELED: the call was cancelled; -ETIMEDOUT. */
int wait_for(int fd, short events, const struct sbx_call *call, uint64_t deadline_ns);

/* 0, or -EINVAL with an error that names it. */
int check_name(const char *name, struct sbx_error *err);

static inline int postgres_nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, POSTGRES_ORIGIN, NULL, "out of memory");
}
