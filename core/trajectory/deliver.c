/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that hands events to the sinks, and flushes them. */
#include <snipara-sandbox/sink.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "trajectory/internal.h"

#define FLUSH_AFTER_NS SBX_NS_PER_S /* without an event */

static void report_sink(struct sbx_trajectory *trajectory, struct sbx_trajectory_sink *sink, int r,
                        const struct sbx_error *problem) {
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

/* What stands in the place of an event that is too large: enough to find its place in the run. */
static json_t *too_large(const json_t *object, const char *timestamp) {
        static const char *const kept[] = {"trajectory_id", "event",     "call_id", "parent_call_id",
                                           "depth",         "timestamp", "sequence"};
        json_t *stub = json_object();

        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
                json_t *value = json_object_get(object, kept[i]);

                if (value != NULL && json_object_set(stub, kept[i], value) < 0) {
                        json_decref(stub);
                        return NULL;
                }
        }
        if (json_object_get(stub, "timestamp") == NULL)
                json_object_set_new(stub, "timestamp", json_string(timestamp));
        if (json_object_set_new(stub, "too_large", json_true()) < 0) {
                json_decref(stub);
                return NULL;
        }
        return stub;
}

/* An event that can't be encoded, or is too large, leaves one that says so in its place. */
static int encode(const struct sbx_trajectory_event *event, struct sbx_buffer *out) {
        _cleanup_json_ json_t *stub = NULL;

        if ((event->timestamp[0] == '\0' ||
             json_object_set_new(event->object, "timestamp", json_string(event->timestamp)) == 0) &&
            json_object_set_new(event->object, "sequence", json_integer((json_int_t)event->sequence)) == 0 &&
            sbx_json_encode(event->object, out) == 0)
                return 0;
        sbx_buffer_clear(out);
        stub = too_large(event->object, event->timestamp);
        return stub != NULL ? sbx_json_encode(stub, out) : -ENOMEM;
}

static void deliver(struct sbx_trajectory *trajectory, struct sbx_trajectory_event *event, unsigned sink_count) {
        _cleanup_buffer_ struct sbx_buffer json =
                SBX_BUFFER(event->of_run ? SBX_TRAJECTORY_RUN_EVENT_MAX : SBX_TRAJECTORY_EVENT_MAX);
        int encoded = encode(event, &json);

        for (unsigned i = 0; i < sink_count; i++) {
                struct sbx_trajectory_sink *sink = &trajectory->sinks[i];
                const struct sbx_sink_ops *ops = sink->instance->ops;
                struct sbx_error problem = {0};

                if (!event->of_run && !sink->all)
                        continue;
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

/* ---- the loop; the functions keep the lock, but for the time that sinks take ---- */

static void deliver_first(struct sbx_trajectory *trajectory) {
        struct sbx_trajectory_event event = trajectory->queue[trajectory->first];
        unsigned sink_count = trajectory->sink_count;

        trajectory->first = (trajectory->first + 1) % SBX_TRAJECTORY_QUEUE_MAX;
        trajectory->count--;
        trajectory->weight -= event.weight;
        pthread_cond_broadcast(&trajectory->emptied);
        pthread_mutex_unlock(&trajectory->lock);
        deliver(trajectory, &event, sink_count);
        pthread_mutex_lock(&trajectory->lock);
}

static void flush(struct sbx_trajectory *trajectory) {
        uint64_t asked = trajectory->flushes_asked;
        unsigned sink_count = trajectory->sink_count;

        pthread_mutex_unlock(&trajectory->lock);
        flush_sinks(trajectory, sink_count);
        pthread_mutex_lock(&trajectory->lock);
        trajectory->flushes_done = asked;
        pthread_cond_broadcast(&trajectory->flushed);
}

/* Somebody waits for a flush, and all that was emitted before has been delivered. */
static bool flush_is_due(const struct sbx_trajectory *trajectory) {
        return trajectory->flushes_asked > trajectory->flushes_done &&
               (trajectory->count == 0 || trajectory->queue[trajectory->first].sequence > trajectory->flush_after);
}

void *sbx_trajectory_deliver(void *data) {
        struct sbx_trajectory *trajectory = data;
        uint64_t flush_at_ns = 0; /* 0: nothing to flush */

        SBX_LOCKED(&trajectory->lock);
        while (trajectory->count > 0 || !trajectory->stop || flush_at_ns != 0) {
                bool idle = trajectory->count == 0 && flush_at_ns != 0 &&
                            (trajectory->stop || sbx_clock_ns() >= flush_at_ns);

                if (idle || flush_is_due(trajectory)) {
                        if (trajectory->count == 0)
                                flush_at_ns = 0;
                        flush(trajectory);
                } else if (trajectory->count > 0) {
                        deliver_first(trajectory);
                        flush_at_ns = sbx_clock_ns() + FLUSH_AFTER_NS;
                } else {
                        sbx_cond_wait(&trajectory->filled, &trajectory->lock, flush_at_ns);
                }
        }
        return NULL;
}
