/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, transfer of ownership, clock. */
#ifndef DOCKER_UTIL_H
#define DOCKER_UTIL_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void docker_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void docker_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
static inline void docker_cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_free_ _cleanup_(docker_cleanup_free)
#define _cleanup_close_ _cleanup_(docker_cleanup_close)
#define _cleanup_json_ _cleanup_(docker_cleanup_json)

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
        docker_cleanup_close(fd);
        *fd = -1;
}

/* For the rest of the scope. */
static inline pthread_mutex_t *docker_lock_(pthread_mutex_t *lock) {
        pthread_mutex_lock(lock);
        return lock;
}
static inline void docker_cleanup_unlock(pthread_mutex_t **lock) {
        pthread_mutex_unlock(*lock);
}
#define DOCKER_LOCKED_NAME_(line) locked_##line
#define DOCKER_LOCKED_LINE_(mutex, line)                                                                               \
        _cleanup_(docker_cleanup_unlock) __attribute__((unused)) pthread_mutex_t *DOCKER_LOCKED_NAME_(line) =          \
                docker_lock_(mutex)
#define DOCKER_LOCKED_AT_(mutex, line) DOCKER_LOCKED_LINE_(mutex, line)
#define DOCKER_LOCKED(mutex) DOCKER_LOCKED_AT_(mutex, __LINE__)

static inline uint64_t monotonic_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
