/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectories: emitting events into the queue, and the life of the whole. */
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "trajectory/internal.h"

#define ORIGIN "trajectory"
#define WAIT_MAX_NS SBX_NS_PER_S /* for a place in the queue */
#define RUN_WAIT_MAX_NS (30 * SBX_NS_PER_S)
#define FLUSH_WAIT_MAX_NS (30 * SBX_NS_PER_S)

_Static_assert(sizeof(((struct sbx_trajectory *)NULL)->id) <= SBX_TRAJECTORY_ID_MAX, "it is one of the losers' ids");

/* ---- emitting ---- */

/* About the bytes that the event takes. Deeper nesting than is ever encoded counts for nothing. */
static size_t weight_of(const json_t *value, unsigned depth) {
        size_t weight = 64, index;
        const char *key;
        json_t *item;

        if (depth > 2 * SBX_JSON_DEPTH_MAX)
                return 0;
        if (json_is_string(value))
                return weight + json_string_length(value);
        json_object_foreach ((json_t *)value, key, item)
                weight += strlen(key) + weight_of(item, depth + 1);
        json_array_foreach (value, index, item)
                weight += weight_of(item, depth + 1);
        return weight;
}

static bool fits(const struct sbx_trajectory *trajectory, size_t weight) {
        return trajectory->count == 0 || (trajectory->count < SBX_TRAJECTORY_QUEUE_MAX &&
                                          trajectory->weight + weight <= SBX_TRAJECTORY_WEIGHT_MAX);
}

static void append_locked(struct sbx_trajectory *trajectory, json_t *object, size_t weight, bool of_run) {
        size_t place = (trajectory->first + trajectory->count) % SBX_TRAJECTORY_QUEUE_MAX;
        struct sbx_trajectory_event *event = &trajectory->queue[place];

        *event = (struct sbx_trajectory_event){
                .object = object, .sequence = ++trajectory->last_sequence, .weight = weight, .of_run = of_run};
        if (!json_is_string(json_object_get(object, "timestamp")))
                sbx_clock_timestamp(event->timestamp);
        trajectory->count++;
        trajectory->weight += weight;
        pthread_cond_signal(&trajectory->filled);
}

/* More runs than there are places for lose events at once: those of the others count as the process's. */
static void count_dropped_locked(struct sbx_trajectory *trajectory, const char *id) {
        struct sbx_trajectory_loser *loser = &trajectory->losers[0];

        for (size_t i = 1; id != NULL && strlen(id) < sizeof(loser->id) && i < SBX_TRAJECTORY_LOSERS_MAX; i++) {
                struct sbx_trajectory_loser *place = &trajectory->losers[i];

                if (place->count > 0 && strcmp(place->id, id) != 0)
                        continue;
                snprintf(place->id, sizeof(place->id), "%s", id);
                loser = place;
                break;
        }
        loser->count++;
        trajectory->last_sequence++; /* a gap tells a reader that something is missing, and how much */
}

/* Tells how many were dropped, as soon as there is room for it and the event that comes after. */
static void tell_dropped_locked(struct sbx_trajectory *trajectory) {
        for (size_t i = 0; i < SBX_TRAJECTORY_LOSERS_MAX; i++) {
                struct sbx_trajectory_loser *loser = &trajectory->losers[i];
                json_t *object;

                if (loser->count == 0)
                        continue;
                if (trajectory->count + 1 >= SBX_TRAJECTORY_QUEUE_MAX)
                        return;
                object = json_pack("{s:s, s:s, s:I}", "trajectory_id", i == 0 ? trajectory->id : loser->id, "event",
                                   "events_dropped", "count", (json_int_t)loser->count);
                if (object == NULL)
                        return;
                loser->count = 0;
                append_locked(trajectory, object, 0, i > 0);
        }
}

static int enqueue(struct sbx_trajectory *trajectory, const char *run_id, json_t *object) {
        bool of_run = run_id != NULL, *dropping = of_run ? &trajectory->dropping_runs : &trajectory->dropping;
        uint64_t until_ns = sbx_clock_ns() + (of_run ? RUN_WAIT_MAX_NS : WAIT_MAX_NS);
        size_t weight = weight_of(object, 0);
        int r = 0;

        SBX_LOCKED(&trajectory->lock);
        while (!fits(trajectory, weight) && r == 0)
                r = *dropping ? -ETIMEDOUT : sbx_cond_wait(&trajectory->emptied, &trajectory->lock, until_ns);
        if (!fits(trajectory, weight)) {
                *dropping = true;
                count_dropped_locked(trajectory, run_id);
                return -EBUSY;
        }
        *dropping = false;
        tell_dropped_locked(trajectory);
        append_locked(trajectory, object, weight, of_run);
        return 0;
}

int sbx_trajectory_emit(struct sbx_trajectory *trajectory, const char *trajectory_id, const char *event_name,
                        json_t *event) {
        _cleanup_json_ json_t *object = event;
        int r;

        if (trajectory_id != NULL ? !sbx_trajectory_records_runs(trajectory) : !sbx_trajectory_active(trajectory))
                return 0;
        if (object == NULL ||
            json_object_set_new(object, "trajectory_id",
                                json_string(trajectory_id != NULL ? trajectory_id : trajectory->id)) < 0 ||
            json_object_set_new(object, "event", json_string(event_name)) < 0)
                return -ENOMEM;
        r = enqueue(trajectory, trajectory_id, object);
        if (r == 0)
                object = NULL; /* the queue has it */
        return r;
}

int sbx_trajectory_flush(struct sbx_trajectory *trajectory) {
        uint64_t until_ns = sbx_clock_ns() + FLUSH_WAIT_MAX_NS, ticket;
        int r = 0;

        SBX_LOCKED(&trajectory->lock);
        if (!trajectory->runs)
                return 0;
        tell_dropped_locked(trajectory);
        ticket = ++trajectory->flushes_asked;
        trajectory->flush_after = trajectory->last_sequence;
        pthread_cond_signal(&trajectory->filled);
        while (trajectory->flushes_done < ticket && r == 0)
                r = sbx_cond_wait(&trajectory->flushed, &trajectory->lock, until_ns);
        return trajectory->flushes_done >= ticket ? 0 : -ETIMEDOUT;
}

/* ---- the whole ---- */

static int init_conditions(struct sbx_trajectory *trajectory) {
        pthread_cond_t *conditions[] = {&trajectory->filled, &trajectory->emptied, &trajectory->flushed};
        int r = 0;

        for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]) && r == 0; i++)
                r = sbx_cond_init(conditions[i]);
        return r;
}

int sbx_trajectory_new(const struct sbx_logger *logger, struct sbx_trajectory **ret_trajectory, struct sbx_error *err) {
        _cleanup_free_ struct sbx_trajectory *trajectory = calloc(1, sizeof(*trajectory));
        uint64_t random[2];

        if (trajectory == NULL)
                return SBX_NOMEM(err, ORIGIN);
        trajectory->logger = logger;
        if (getrandom(random, sizeof(random), 0) != sizeof(random))
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "the kernel gives no random numbers: %s",
                                     SBX_ERRNO_TEXT(errno));
        snprintf(trajectory->id, sizeof(trajectory->id), "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
        pthread_mutex_init(&trajectory->lock, NULL);
        if (init_conditions(trajectory) < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_trajectory = steal_pointer(trajectory);
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
        pthread_cond_destroy(&trajectory->flushed);
        pthread_mutex_destroy(&trajectory->lock);
        free(trajectory);
}

/* What the configuration says of the entry: the option that the core adds to sinks (core/plugin/kinds.c). */
static bool wants_all(const struct sbx_instance *sink) {
        const struct sbx_value *events =
                sink->core_settings != NULL ? sbx_settings_get(sink->core_settings, "events") : NULL;

        return events == NULL || !events->set || strcmp(events->string, "runs") != 0;
}

int sbx_trajectory_add_sink(struct sbx_trajectory *trajectory, const struct sbx_instance *sink, struct sbx_error *err) {
        struct sbx_trajectory_sink added = {.instance = sink, .all = wants_all(sink)};
        int r;

        SBX_LOCKED(&trajectory->lock);
        if (trajectory->sink_count == SBX_TRAJECTORY_SINKS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, "Remove a sink from `plugins`.",
                                     "sink '%s': there are %u already, the maximum", sink->name,
                                     SBX_TRAJECTORY_SINKS_MAX);
        if (!trajectory->runs) {
                r = sbx_thread_start(&trajectory->thread, "sbx-trajectory", sbx_trajectory_deliver, trajectory);
                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, "Raise the limit of processes (ulimit -u).",
                                             "no thread can be had for trajectory sinks: %s", SBX_ERRNO_TEXT(r));
                trajectory->runs = true;
        }
        trajectory->sinks[trajectory->sink_count] = added;
        __atomic_store_n(&trajectory->all_count, trajectory->all_count + added.all, __ATOMIC_RELEASE);
        __atomic_store_n(&trajectory->sink_count, trajectory->sink_count + 1, __ATOMIC_RELEASE);
        return 0;
}

bool sbx_trajectory_active(const struct sbx_trajectory *trajectory) {
        return __atomic_load_n(&trajectory->all_count, __ATOMIC_ACQUIRE) > 0;
}

bool sbx_trajectory_records_runs(const struct sbx_trajectory *trajectory) {
        return __atomic_load_n(&trajectory->sink_count, __ATOMIC_ACQUIRE) > 0;
}

const char *sbx_trajectory_id(const struct sbx_trajectory *trajectory) {
        return trajectory->id;
}
