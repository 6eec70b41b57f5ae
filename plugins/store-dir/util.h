/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, growing bytes, errors of the system, a call's end. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <snipara-sandbox/types.h>

#define DIR_ORIGIN "store-dir"

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
static inline void cleanup_unlock(pthread_mutex_t **mutex) {
        pthread_mutex_unlock(*mutex);
}
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_unlock_ _cleanup_(cleanup_unlock)

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
static inline pthread_mutex_t *lock_mutex(pthread_mutex_t *mutex) {
        pthread_mutex_lock(mutex);
        return mutex;
}

static inline int no_memory(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, DIR_ORIGIN, NULL, "out of memory");
}

static inline uint64_t clock_ns(clockid_t clock) {
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Bytes that grow up to a maximum. */
struct bytes {
        uint8_t *data;
        size_t size, capacity;
};
static inline void bytes_clear(struct bytes *bytes) {
        free(bytes->data);
        *bytes = (struct bytes){0};
}
#define _cleanup_bytes_ _cleanup_(bytes_clear)
int bytes_reserve(struct bytes *bytes, size_t more, size_t max); /* -EFBIG, -ENOMEM */
int bytes_append(struct bytes *bytes, const void *data, size_t size, size_t max);

/* Little-endian numbers of the files. */
static inline void store_number(uint8_t *at, uint64_t value, size_t size) {
        for (size_t i = 0; i < size; i++)
                at[i] = (uint8_t)(value >> (8 * i));
}
static inline uint64_t load_number(const uint8_t *at, size_t size) {
        uint64_t value = 0;

        for (size_t i = size; i > 0; i--)
                value = value << 8 | at[i - 1];
        return value;
}

/* -ECANCELED, -ETIMEDOUT once the call is over; `call` may be NULL. */
int call_check(const struct sbx_call *call, struct sbx_error *err);
/* Waits for `ms`, or until the call is over, which is told as above. */
int call_pause(const struct sbx_call *call, unsigned ms, struct sbx_error *err);

/* Whole reads and writes, at an offset. read_at: as many bytes as there are; -errno. */
ssize_t read_at(int fd, void *data, size_t size, uint64_t offset);
int write_at(int fd, const void *data, size_t size, uint64_t offset);
