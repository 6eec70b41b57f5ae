/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of events, and the thread that hands them to the sinks. */
#include "trajectory/trajectory.h"

#include <sys/random.h>

#include <snipara-sandbox/sink.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"

#define ORIGIN "trajectory"
#define QUEUE_MAX 1024u
#define SINKS_MAX 16u
#define EVENT_MAX_BYTES ((size_t)1 << 20)
#define WAIT_MAX_NS SBX_NS_PER_S    /* for a place in the queue */
#define FLUSH_AFTER_NS SBX_NS_PER_S /* without an event */
#define ID_SIZE 33

struct event {
        json_t *object;
        uint64_t sequence;
        char timestamp[SBX_TIMESTAMP_SIZE];
};

struct sink {
        const struct sbx_instance *instance;
        uint64_t failed; /* events in a row */
};

struct sbx_trajectory {
        const struct sbx_logger *logger;
        char id[ID_SIZE];

        pthread_mutex_t lock; /* protects all that follows, but for the sinks' `failed`, which is the thread's */
        pthread_cond_t filled, emptied;
        struct event queue[QUEUE_MAX]; /* a ring */
        size_t first, count;
        uint64_t last_sequence, dropped;
        struct sink sinks[SINKS_MAX];
        unsigned sink_count; /* atomic as well: read without the lock */
        pthread_t thread;
        bool runs, stop;
};

/* ---- delivering: the thread alone ---- */

static void report_sink(struct sbx_trajectory *trajectory, struct sink *sink, int r, const struct sbx_error *problem) {
        if (r < 0 && sink->failed++ == 0)
                sbx_log(trajectory->logger, SBX_LOG_WARNING, "trajectory sink '%s' fails, events are lost: %s%s%s",
                        sink->instance->name, problem->code != 0 ? problem->message : SBX_ERRNO_TEXT(r),
                        problem->hint[0] != '\0' ? " " : "", problem->hint);
        if (r >= 0 && sink->failed > 0) {
                sbx_log(trajectory->logger, SBX_LOG_WARNING, "trajectory sink '%s' works again; %llu events were lost",
                        sink->instance->name, (unsigned long long)sink->failed);
                sink->failed = 0;
        }
}

/* An event that can't be encoded, or is too large, leaves one that says so in its place. */
static int encode(const struct event *event, struct sbx_buffer *out) {
        _cleanup_json_ json_t *stub = NULL;

        if (json_object_set_new(event->object, "timestamp", json_string(event->timestamp)) == 0 &&
            json_object_set_new(event->object, "sequence", json_integer((json_int_t)event->sequence)) == 0 &&
            sbx_json_encode(event->object, out) == 0)
                return 0;
        sbx_buffer_clear(out);
        stub = json_pack("{s:O, s:O, s:s, s:I, s:b}", "trajectory_id", json_object_get(event->object, "trajectory_id"),
                         "event", json_object_get(event->object, "event"), "timestamp", event->timestamp, "sequence",
                         (json_int_t)event->sequence, "too_large", 1);
        return stub != NULL ? sbx_json_encode(stub, out) : -ENOMEM;
}

static void deliver(struct sbx_trajectory *trajectory, struct event *event, unsigned sink_count) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(EVENT_MAX_BYTES);
        int encoded = encode(event, &json);

        for (unsigned i = 0; i < sink_count; i++) {
                struct sink *sink = &trajectory->sinks[i];
                const struct sbx_sink_ops *ops = sink->instance->ops;
                struct sbx_error problem = {0};

                report_sink(trajectory, sink,
                            encoded < 0 ? encoded
                                        : ops->event(sink->instance->state, sbx_buffer_bytes(&json), &problem),
                            &problem);
        }
        json_decref(event->object);
}

static void flush_sinks(struct sbx_trajectory *trajectory, unsigned sink_count) {
        for (unsigned i = 0; i < sink_count; i++) {
                const struct sbx_instance *sink = trajectory->sinks[i].instance;
                const struct sbx_sink_ops *ops = sink->ops;
                struct sbx_error problem = {0};

                if (ops->flush != NULL && ops->flush(sink->state, &problem) < 0)
                        sbx_log(trajectory->logger, SBX_LOG_WARNING, "trajectory sink '%s' can't flush: %s", sink->name,
                                problem.message);
        }
}

static void *deliver_run(void *data) {
        struct sbx_trajectory *trajectory = data;
        uint64_t flush_at_ns = 0; /* 0: nothing to flush */

        pthread_mutex_lock(&trajectory->lock);
        while (trajectory->count > 0 || !trajectory->stop || flush_at_ns != 0) {
                unsigned sink_count = trajectory->sink_count;
                struct event event;

                if (trajectory->count > 0) {
                        event = trajectory->queue[trajectory->first];
                        trajectory->first = (trajectory->first + 1) % QUEUE_MAX;
                        trajectory->count--;
                        pthread_cond_signal(&trajectory->emptied);
                        pthread_mutex_unlock(&trajectory->lock);
                        deliver(trajectory, &event, sink_count);
                        flush_at_ns = sbx_clock_ns() + FLUSH_AFTER_NS;
                        pthread_mutex_lock(&trajectory->lock);
                } else if (flush_at_ns != 0 && (trajectory->stop || sbx_clock_ns() >= flush_at_ns)) {
                        flush_at_ns = 0;
                        pthread_mutex_unlock(&trajectory->lock);
                        flush_sinks(trajectory, sink_count);
                        pthread_mutex_lock(&trajectory->lock);
                } else {
                        sbx_cond_wait(&trajectory->filled, &trajectory->lock, flush_at_ns);
                }
        }
        pthread_mutex_unlock(&trajectory->lock);
        return NULL;
}

/* ---- emitting ---- */

static void append_locked(struct sbx_trajectory *trajectory, json_t *object) {
        struct event *event = &trajectory->queue[(trajectory->first + trajectory->count) % QUEUE_MAX];

        *event = (struct event){.object = object, .sequence = ++trajectory->last_sequence};
        sbx_clock_timestamp(event->timestamp);
        trajectory->count++;
        pthread_cond_signal(&trajectory->filled);
}

/* Tells how many were dropped, as soon as there is room for it and the event that comes after. */
static void tell_dropped_locked(struct sbx_trajectory *trajectory) {
        json_t *object;

        if (trajectory->dropped == 0 || trajectory->count + 1 >= QUEUE_MAX)
                return;
        object = json_pack("{s:s, s:s, s:I}", "trajectory_id", trajectory->id, "event", "events_dropped", "count",
                           (json_int_t)trajectory->dropped);
        if (object == NULL)
                return;
        trajectory->dropped = 0;
        append_locked(trajectory, object);
}

static int enqueue(struct sbx_trajectory *trajectory, json_t *object) {
        uint64_t until_ns = sbx_clock_ns() + WAIT_MAX_NS;
        int r = 0;

        SBX_LOCKED(&trajectory->lock);
        /* Events are being dropped already: nobody waits again until one fits. */
        if (trajectory->dropped > 0)
                until_ns = 1;
        while (trajectory->count == QUEUE_MAX && r == 0)
                r = sbx_cond_wait(&trajectory->emptied, &trajectory->lock, until_ns);
        if (trajectory->count == QUEUE_MAX) {
                trajectory->dropped++;
                trajectory->last_sequence++; /* a gap tells a reader that something is missing, and how much */
                return -EBUSY;
        }
        tell_dropped_locked(trajectory);
        append_locked(trajectory, object);
        return 0;
}

int sbx_trajectory_emit(struct sbx_trajectory *trajectory, const char *trajectory_id, const char *event_name,
                        json_t *event) {
        _cleanup_json_ json_t *object = event;
        int r;

        if (!sbx_trajectory_active(trajectory))
                return 0;
        if (object == NULL ||
            json_object_set_new(object, "trajectory_id",
                                json_string(trajectory_id != NULL ? trajectory_id : trajectory->id)) < 0 ||
            json_object_set_new(object, "event", json_string(event_name)) < 0)
                return -ENOMEM;
        r = enqueue(trajectory, object);
        if (r == 0)
                object = NULL; /* the queue has it */
        return r;
}

/* ---- the whole ---- */

int sbx_trajectory_new(const struct sbx_logger *logger, struct sbx_trajectory **ret_trajectory, struct sbx_error *err) {
        struct sbx_trajectory *trajectory = calloc(1, sizeof(*trajectory));
        uint64_t random[2];

        if (trajectory == NULL)
                return SBX_NOMEM(err, ORIGIN);
        trajectory->logger = logger;
        if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
                free(trajectory);
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "the kernel gives no random numbers: %s",
                                     SBX_ERRNO_TEXT(errno));
        }
        snprintf(trajectory->id, sizeof(trajectory->id), "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
        pthread_mutex_init(&trajectory->lock, NULL);
        if (sbx_cond_init(&trajectory->filled) < 0 || sbx_cond_init(&trajectory->emptied) < 0) {
                free(trajectory);
                return SBX_NOMEM(err, ORIGIN);
        }
        *ret_trajectory = trajectory;
        return 0;
}

void sbx_trajectory_free(struct sbx_trajectory *trajectory) {
        if (trajectory == NULL)
                return;
        pthread_mutex_lock(&trajectory->lock);
        tell_dropped_locked(trajectory);
        trajectory->stop = true;
        pthread_cond_signal(&trajectory->filled);
        pthread_mutex_unlock(&trajectory->lock);
        if (trajectory->runs)
                pthread_join(trajectory->thread, NULL);
        pthread_cond_destroy(&trajectory->filled);
        pthread_cond_destroy(&trajectory->emptied);
        pthread_mutex_destroy(&trajectory->lock);
        free(trajectory);
}

int sbx_trajectory_add_sink(struct sbx_trajectory *trajectory, const struct sbx_instance *sink, struct sbx_error *err) {
        int r;

        SBX_LOCKED(&trajectory->lock);
        if (trajectory->sink_count == SINKS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, "Remove a sink from `plugins`.",
                                     "sink '%s': there are %u already, the maximum", sink->name, SINKS_MAX);
        if (!trajectory->runs) {
                r = sbx_thread_start(&trajectory->thread, "sbx-trajectory", deliver_run, trajectory);
                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, "Raise the limit of processes (ulimit -u).",
                                             "no thread can be had for trajectory sinks: %s", SBX_ERRNO_TEXT(r));
                trajectory->runs = true;
        }
        trajectory->sinks[trajectory->sink_count] = (struct sink){.instance = sink};
        __atomic_store_n(&trajectory->sink_count, trajectory->sink_count + 1, __ATOMIC_RELEASE);
        return 0;
}

bool sbx_trajectory_active(const struct sbx_trajectory *trajectory) {
        return __atomic_load_n(&trajectory->sink_count, __ATOMIC_ACQUIRE) > 0;
}

const char *sbx_trajectory_id(const struct sbx_trajectory *trajectory) {
        return trajectory->id;
}
