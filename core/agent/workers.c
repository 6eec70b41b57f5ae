/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered jobs on threads that live as long as the jobs do. */
#include "agent/workers.h"

#include "base/thread.h"

/* Two hundred of them are 100 MiB of addresses, and as much memory as they touch. */
#define STACK_BYTES ((size_t)512 << 10)

struct work {
        void (*run)(void *data, size_t index);
        void *data;
        size_t count;
        size_t next; /* atomic */
};

static void *work_run(void *data) {
        struct work *work = data;

        for (;;) {
                size_t index = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);

                if (index >= work->count)
                        return NULL;
                work->run(work->data, index);
        }
}

void sbx_workers_run(void (*run)(void *data, size_t index), void *data, size_t count, unsigned parallel) {
        struct work work = {.run = run, .data = data, .count = count};
        pthread_t threads[SBX_WORKERS_MAX];
        unsigned started = 0;

        if (parallel > SBX_WORKERS_MAX)
                parallel = SBX_WORKERS_MAX;
        while (started + 1 < parallel && started + 1 < count &&
               sbx_thread_start_sized(&threads[started], "sbx-run", STACK_BYTES, work_run, &work) == 0)
                started++;
        work_run(&work);
        for (unsigned i = 0; i < started; i++)
                pthread_join(threads[i], NULL);
}
