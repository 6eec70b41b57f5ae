/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for one piece of work, which end with it. */
#include "parallel.h"

#include <signal.h>
#include <stdatomic.h>
#include <sched.h>

#define WORTH_BYTES ((uint64_t)2 << 20)

struct shared {
        atomic_size_t next;
        atomic_int failure;
        size_t count;
        int (*work)(void *data, size_t index);
        void *data;
};

static void *take_part(void *data) {
        struct shared *shared = data;
        size_t index;

        while (atomic_load(&shared->failure) == 0 && (index = atomic_fetch_add(&shared->next, 1)) < shared->count) {
                int none = 0, r = shared->work(shared->data, index);

                if (r < 0)
                        atomic_compare_exchange_strong(&shared->failure, &none, r);
        }
        return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(pthread_t *ret_thread, struct shared *shared) {
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(ret_thread, NULL, take_part, shared);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

int parallel_run(size_t count, unsigned threads, int (*work)(void *data, size_t index), void *data) {
        struct shared shared = {.count = count, .work = work, .data = data};
        pthread_t others[PARALLEL_THREADS];
        unsigned started = 0;

        /* A thread that can't be had is no failure: the others do its work. */
        while (started + 1 < threads && started + 1 < count && started < PARALLEL_THREADS &&
               start_thread(&others[started], &shared) == 0)
                started++;
        take_part(&shared);
        while (started > 0)
                pthread_join(others[--started], NULL);
        return atomic_load(&shared.failure);
}

unsigned parallel_threads(uint64_t bytes) {
        cpu_set_t set;
        unsigned processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;

        if (bytes < WORTH_BYTES)
                return 1;
        return processors < PARALLEL_THREADS ? processors : PARALLEL_THREADS;
}
