/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and waiting for threads. A thread of the library blocks every signal: those are the program's business. */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "base/clock.h"

/* `name`: at most 15 bytes, shown by ps and debuggers. `stack_bytes` 0: as large as is usual. 0 or -errno (-EAGAIN: too
 * many threads). */
static inline int sbx_thread_start_sized(pthread_t *ret_thread, const char *name, size_t stack_bytes,
                                         void *(*run)(void *data), void *data) {
        sigset_t all, before;
        pthread_attr_t attributes;
        int r = pthread_attr_init(&attributes);

        if (r != 0)
                return -r;
        if (stack_bytes > 0)
                r = pthread_attr_setstacksize(&attributes, stack_bytes);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (r == 0)
                r = pthread_create(ret_thread, &attributes, run, data);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        if (r == 0)
                pthread_setname_np(*ret_thread, name);
        return -r;
}

static inline int sbx_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *data), void *data) {
        return sbx_thread_start_sized(ret_thread, name, 0, run, data);
}

/* A condition whose timed waits follow CLOCK_MONOTONIC, as every deadline here does. 0 or -errno. */
static inline int sbx_cond_init(pthread_cond_t *cond) {
        pthread_condattr_t attributes;
        int r = pthread_condattr_init(&attributes);

        if (r != 0)
                return -r;
        r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (r == 0)
                r = pthread_cond_init(cond, &attributes);
        pthread_condattr_destroy(&attributes);
        return -r;
}

/* Waits until signalled or until `deadline_ns` (0: for ever); may wake early. 0 or -ETIMEDOUT. */
static inline int sbx_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns) {
        struct timespec until = {.tv_sec = (time_t)(deadline_ns / SBX_NS_PER_S),
                                 .tv_nsec = (long)(deadline_ns % SBX_NS_PER_S)};

        if (deadline_ns == 0)
                return -pthread_cond_wait(cond, lock);
        return -pthread_cond_timedwait(cond, lock, &until);
}

static inline void sbx_cleanup_unlock(pthread_mutex_t **lock) {
        if (*lock != NULL)
                pthread_mutex_unlock(*lock);
}
/* Holds the mutex until the end of the scope. */
#define SBX_LOCKED(mutex)                                                                                              \
        __attribute__((cleanup(sbx_cleanup_unlock), unused)) pthread_mutex_t *scope_lock_ = (mutex);                   \
        pthread_mutex_lock(scope_lock_)
