/* SPDX-License-Identifier: Apache-2.0 */
/* The queue between those who emit events and the thread that hands them to the sinks. */
#pragma once

#include "base/thread.h"
#include "trajectory/trajectory.h"

#define SBX_TRAJECTORY_QUEUE_MAX 1024u
#define SBX_TRAJECTORY_SINKS_MAX 16u
#define SBX_TRAJECTORY_WEIGHT_MAX ((size_t)64 << 20) /* of what is queued; one event is always let in */
#define SBX_TRAJECTORY_EVENT_MAX ((size_t)1 << 20)
#define SBX_TRAJECTORY_RUN_EVENT_MAX ((size_t)32 << 20) /* as sink.h promises */
#define SBX_TRAJECTORY_ID_MAX 64u
#define SBX_TRAJECTORY_LOSERS_MAX 8u

struct sbx_trajectory_event {
        json_t *object;
        uint64_t sequence;
        size_t weight; /* about the bytes that it takes */
        bool of_run;
        char timestamp[SBX_TIMESTAMP_SIZE]; /* "": it has one of its own */
};

struct sbx_trajectory_sink {
        const struct sbx_instance *instance;
        bool all;        /* not only the events of runs */
        uint64_t failed; /* events in a row; the thread's own */
};

/* How many events of one trajectory were dropped, and not yet told. The first is that of the process. */
struct sbx_trajectory_loser {
        char id[SBX_TRAJECTORY_ID_MAX];
        uint64_t count;
};

struct sbx_trajectory {
        const struct sbx_logger *logger;
        char id[33];

        pthread_mutex_t lock; /* protects all that follows */
        pthread_cond_t filled, emptied, flushed;
        struct sbx_trajectory_event queue[SBX_TRAJECTORY_QUEUE_MAX]; /* a ring */
        size_t first, count, weight;
        uint64_t last_sequence; /* of what was emitted */
        uint64_t flushes_asked, flushes_done;
        uint64_t flush_after; /* what is asked for comes when the event of this sequence is with the sinks */
        struct sbx_trajectory_loser losers[SBX_TRAJECTORY_LOSERS_MAX];
        bool dropping, dropping_runs; /* no event of the kind fitted lately: nobody waits again until one does */
        struct sbx_trajectory_sink sinks[SBX_TRAJECTORY_SINKS_MAX];
        unsigned sink_count, all_count; /* written with the lock; read without it too, atomically */
        pthread_t thread;
        bool runs, stop;
};

/* The thread: delivers until `stop` is set and the queue is empty, then flushes. */
void *sbx_trajectory_deliver(void *data);
