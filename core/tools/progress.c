/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of calls: strictly increasing, never after the end, and a heartbeat from one thread for all long calls,
 * because clients give up on a call that is silent for a minute. */
#include "tools/state.h"

#include <math.h>

#include "base/utf8.h"

#define INTERVAL_NS (2 * SBX_NS_PER_S)
#define PULSE 0.0001 /* of a heartbeat between the steps that a tool counts: too little to reach the next one */

int sbx_beats_init(struct sbx_beats *beats) {
        int r;

        *beats = (struct sbx_beats){0};
        r = sbx_cond_init(&beats->wake);
        if (r < 0)
                return r;
        r = sbx_cond_init(&beats->idle);
        if (r < 0) {
                pthread_cond_destroy(&beats->wake);
                return r;
        }
        pthread_mutex_init(&beats->lock, NULL);
        return 0;
}

void sbx_beats_stop(struct sbx_beats *beats) {
        bool runs;

        pthread_mutex_lock(&beats->lock);
        runs = beats->runs;
        beats->runs = false;
        beats->stop = true;
        pthread_cond_signal(&beats->wake);
        pthread_mutex_unlock(&beats->lock);
        if (runs)
                pthread_join(beats->thread, NULL);
}

void sbx_beats_destroy(struct sbx_beats *beats) {
        pthread_cond_destroy(&beats->wake);
        pthread_cond_destroy(&beats->idle);
        pthread_mutex_destroy(&beats->lock);
}

/* ---- telling ---- */

/* What is no number is no JSON either. */
static void tell_locked(struct sbx_beat *beat, double progress, double total, const char *message) {
        if (!isfinite(progress))
                return;
        /* Also when nothing is told: a tool that counts its own way has no use for elapsed seconds, however often. */
        __atomic_store_n(&beat->last_ns, sbx_clock_ns(), __ATOMIC_RELAXED);
        if (progress > beat->last_progress) {
                beat->last_progress = progress;
                beat->context->progress(beat->context->progress_data, progress, isfinite(total) ? total : 0, message);
        }
}

static double elapsed_s(const struct sbx_beat *beat) {
        return (double)(sbx_clock_ns() - beat->started_ns) / (double)SBX_NS_PER_S;
}

static void keep_message(struct sbx_beat *beat, const char *message) {
        size_t size = sbx_utf8_cut((struct sbx_bytes){message, strlen(message)}, sizeof(beat->last_message) - 1);

        memcpy(beat->last_message, message, size);
        beat->last_message[size] = '\0';
}

static void tell_from_tool(void *data, double progress, double total, const char *message) {
        struct sbx_beat *beat = data;

        SBX_LOCKED(&beat->lock);
        if (progress != SBX_PROGRESS_ELAPSED) {
                beat->counts = true;
                beat->last_total = total;
                keep_message(beat, message != NULL ? message : "");
        }
        tell_locked(beat, progress == SBX_PROGRESS_ELAPSED ? elapsed_s(beat) : progress, total, message);
}

/* A tool that counts something of its own goes on where it was, a trifle further: clients take no less as a sign of
 * life. */
static void tell_elapsed(struct sbx_beat *beat) {
        double seconds = elapsed_s(beat);
        char message[SBX_BEAT_MESSAGE_SIZE + 32];

        SBX_LOCKED(&beat->lock);
        if (beat->counts) {
                snprintf(message, sizeof(message), "%s (%.0f s)", beat->last_message, seconds);
                tell_locked(beat, beat->last_progress + PULSE, beat->last_total, message);
        } else {
                snprintf(message, sizeof(message), "in progress for %.0f s", seconds);
                tell_locked(beat, seconds, 0, message);
        }
}

/* ---- the thread ---- */

/* One that is due; NULL: none is, look again at `*ret_next_ns` (0: when woken). A beat whose receiver is slow holds up
 * the others' heartbeats, but no call. */
static struct sbx_beat *find_due_locked(const struct sbx_beats *beats, uint64_t *ret_next_ns) {
        uint64_t now = sbx_clock_ns(), next = 0;

        for (struct sbx_beat *at = beats->first; at != NULL; at = at->next) {
                uint64_t due = __atomic_load_n(&at->last_ns, __ATOMIC_RELAXED) + INTERVAL_NS;

                if (due <= now)
                        return at;
                if (next == 0 || due < next)
                        next = due;
        }
        *ret_next_ns = next;
        return NULL;
}

static void *beats_run(void *data) {
        struct sbx_beats *beats = data;

        pthread_mutex_lock(&beats->lock);
        while (!beats->stop) {
                uint64_t next_ns = 0;
                struct sbx_beat *beat = find_due_locked(beats, &next_ns);

                if (beat == NULL) {
                        sbx_cond_wait(&beats->wake, &beats->lock, next_ns);
                        continue;
                }
                beat->in_use = true;
                pthread_mutex_unlock(&beats->lock);
                tell_elapsed(beat);
                pthread_mutex_lock(&beats->lock);
                beat->in_use = false;
                pthread_cond_broadcast(&beats->idle);
        }
        pthread_mutex_unlock(&beats->lock);
        return NULL;
}

/* ---- one call ---- */

void sbx_beat_begin(struct sbx_beats *beats, struct sbx_beat *beat, const struct sbx_tool_context *context,
                    bool heartbeat, struct sbx_tool_context *ret_context) {
        *beat = (struct sbx_beat){.owner = beats, .context = context, .last_progress = -INFINITY};
        *ret_context = *context;
        if (context->progress == NULL)
                return;
        pthread_mutex_init(&beat->lock, NULL);
        beat->started_ns = beat->last_ns = sbx_clock_ns();
        ret_context->progress = tell_from_tool;
        ret_context->progress_data = beat;
        if (!heartbeat)
                return;
        pthread_mutex_lock(&beats->lock);
        if (!beats->runs && !beats->stop)
                beats->runs = sbx_thread_start(&beats->thread, "sbx-progress", beats_run, beats) == 0;
        beat->listed = beats->runs;
        if (beat->listed) {
                beat->next = beats->first;
                beats->first = beat;
                pthread_cond_signal(&beats->wake);
        }
        pthread_mutex_unlock(&beats->lock);
}

void sbx_beat_end(struct sbx_beat *beat) {
        struct sbx_beats *beats = beat->owner;

        if (beat->context == NULL || beat->context->progress == NULL)
                return;
        if (beat->listed) {
                pthread_mutex_lock(&beats->lock);
                while (beat->in_use)
                        pthread_cond_wait(&beats->idle, &beats->lock);
                for (struct sbx_beat **at = &beats->first; *at != NULL; at = &(*at)->next)
                        if (*at == beat) {
                                *at = beat->next;
                                break;
                        }
                pthread_mutex_unlock(&beats->lock);
        }
        pthread_mutex_destroy(&beat->lock);
}
