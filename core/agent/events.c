/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells: events of its trajectory, and notes for who looks on. */
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/json.h"

#define NOTICES_MAX 100u /* of one run; more would only repeat themselves */
#define NOTICE_MAX_BYTES 1000u

/* A UUID of version 8 (RFC 9562): the bits of a SHA-256. */
void sbx_event_id(const struct sbx_run *run, const char *key, char ret_id[SBX_RUN_ID_SIZE]) {
        char name[SBX_RUN_ID_SIZE + SBX_JOURNAL_KEY_MAX + 1], digest[SBX_SHA256_TEXT_SIZE];
        int length = snprintf(name, sizeof(name), "%s %s", run->id, key);

        sbx_sha256_text((struct sbx_bytes){name, (size_t)length}, digest);
        digest[12] = '8';
        digest[16] =
                "89ab"[digest[16] & 3]; /* the variant; which of the four does not matter, if it is always the same */
        snprintf(ret_id, SBX_RUN_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", digest, digest + 8, digest + 12, digest + 16,
                 digest + 20);
}

bool sbx_run_observed(const struct sbx_run *run) {
        return run->events != NULL || (run->watch != NULL && run->watch->event != NULL) ||
               sbx_trajectory_records_runs(run->parts->trajectory);
}

/* Members that every event of 2.2.7 has. */
static int add_missing(json_t *event) {
        _cleanup_json_ json_t *members = NULL;

        if (json_object_get(event, "call_id") == NULL) /* run_started, run_ended */
                return 0;
        members = json_pack("{s:n, s:i, s:s, s:n, s:[], s:[], s:[], s:i, s:i, s:i, s:n, s:n}", "parent_call_id",
                            "depth", 0, "prompt", "", "response", "tool_calls", "tool_results", "repl_results",
                            "input_tokens", 0, "output_tokens", 0, "duration_ms", 0, "error", "estimated_cost_usd");
        return members != NULL ? json_object_update_missing(event, members) : -1;
}

static int complete(struct sbx_run *run, const char *name, json_t *event) {
        char timestamp[SBX_TIMESTAMP_SIZE];

        sbx_clock_timestamp(timestamp);
        if (json_object_get(event, "timestamp") == NULL &&
            json_object_set_new(event, "timestamp", json_string(timestamp)) < 0)
                return -1;
        return json_object_set_new(event, "trajectory_id", json_string(run->id)) < 0 ||
                               json_object_set_new(event, "event", json_string(name)) < 0
                       ? -1
                       : add_missing(event);
}

void sbx_run_emit(struct sbx_run *run, const char *name, json_t *event) {
        _cleanup_json_ json_t *own = event;

        if (own == NULL || complete(run, name, own) < 0)
                return;
        pthread_mutex_lock(&run->lock);
        /* A copy: the trajectory adds members of its own. What the members hold is not changed by anyone. */
        if (run->events != NULL)
                json_array_append_new(run->events, json_copy(own));
        if (run->watch != NULL && run->watch->event != NULL)
                run->watch->event(run->watch->data, own);
        pthread_mutex_unlock(&run->lock);
        /* What is lost is counted and told by the trajectory. */
        (void)sbx_trajectory_emit(run->parts->trajectory, run->id, name, steal_pointer(own));
}

void sbx_run_tell(struct sbx_run *run, json_t *event) {
        _cleanup_json_ json_t *own = event;

        if (own == NULL || run->watch == NULL || run->watch->event == NULL)
                return;
        SBX_LOCKED(&run->lock);
        run->watch->event(run->watch->data, own);
}

void sbx_run_notice(struct sbx_run *run, const char *format, ...) {
        _cleanup_free_ char *line = NULL;
        json_t *notice = NULL, *event;
        va_list args;

        va_start(args, format);
        if (vasprintf(&line, format, args) < 0)
                line = NULL;
        va_end(args);
        if (line != NULL)
                notice = sbx_json_text((struct sbx_bytes){line, strnlen(line, NOTICE_MAX_BYTES)});
        if (notice == NULL)
                return;
        event = json_pack("{s:s, s:O}", "event", "notice", "text", notice);
        pthread_mutex_lock(&run->lock);
        if (run->notices != NULL && json_array_size(run->notices) < NOTICES_MAX)
                json_array_append(run->notices, notice);
        pthread_mutex_unlock(&run->lock);
        json_decref(notice);
        sbx_run_tell(run, event);
}
