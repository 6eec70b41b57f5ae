/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run, in the shape of snipara-sandbox 2.2.7 and with more members; the first and the last event; and
 * the records that say that the run has ended. */
#include "agent/runs.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

/* A run that was stopped by its user, or by a failure around it, can go on where it was. */
bool sbx_end_is_final(enum sbx_run_end end) {
        return end != SBX_RUN_CANCELLED && end != SBX_RUN_FAILED;
}

struct sums {
        uint64_t in, out;
        unsigned tools;
        double cost_usd;
        bool cost_unknown;
};

static struct sums sums_of(struct sbx_run *run) {
        struct sbx_budget *budget = &run->budget;
        SBX_LOCKED(&budget->lock);

        return (struct sums){budget->tokens_in, budget->tokens_out, budget->tools, budget->cost_usd,
                             budget->cost_unknown};
}

static json_t *cost_json(const struct sums *sums) {
        return sums->cost_unknown ? json_null() : json_real(sums->cost_usd);
}

static json_t *totals(struct sbx_run *run, const struct sums *sums, unsigned calls) {
        char sampled[SBX_SAMPLING_MODEL_SIZE] = "";

        if (run->sampling != NULL)
                sbx_sampling_model(run->sampling, sampled);
        return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s, s:s}", "trajectory_id", run->id, "total_calls",
                         (json_int_t)calls, "total_tokens", (json_int_t)sums->in + (json_int_t)sums->out,
                         "total_input_tokens", (json_int_t)sums->in, "total_output_tokens", (json_int_t)sums->out,
                         "total_tool_calls", (json_int_t)sums->tools, "duration_ms",
                         (json_int_t)sbx_journal_active_ms(run->journal), "total_cost_usd", cost_json(sums), "model",
                         sampled[0] != '\0' ? sampled : run->model, "provider", sbx_run_provider_name(run));
}

/* "success" as everybody reads it: there is an answer, and nothing speaks against it. */
static bool is_success(enum sbx_run_end end, const json_t *result) {
        return end == SBX_RUN_OK && !json_is_false(json_object_get(result, "validated"));
}

static json_t *ending(struct sbx_run *run, enum sbx_run_end end, const struct sbx_error *problem,
                      const json_t *result) {
        bool ok = end == SBX_RUN_OK, resumable = !sbx_end_is_final(end) && run->parts->state_directory != NULL;

        return json_pack("{s:s, s:b, s:o, s:o, s:b}", "end", sbx_run_end_name(end), "success",
                         (int)is_success(end, result), "error",
                         ok ? json_null()
                            : sbx_json_text((struct sbx_bytes){problem->message, strlen(problem->message)}),
                         "hint",
                         ok || problem->hint[0] == '\0'
                                 ? json_null()
                                 : sbx_json_text((struct sbx_bytes){problem->hint, strlen(problem->hint)}),
                         "resumable", (int)resumable);
}

int sbx_result_complete(struct sbx_run *run, enum sbx_run_end end, const struct sbx_error *problem, json_t *result,
                        struct sbx_error *err) {
        struct sums sums = sums_of(run);
        _cleanup_json_ json_t *members = NULL, *last = ending(run, end, problem, result);
        int r = 0;

        if (sums.cost_unknown)
                sbx_run_notice(
                        run, "No price is known for a model that was used: the cost is unknown, and cost limits could "
                             "not be applied to it.");
        pthread_mutex_lock(&run->lock);
        members = totals(run, &sums, run->calls_made);
        if (members == NULL || last == NULL || json_object_update(members, last) < 0 ||
            json_object_set(members, "notices", run->notices) < 0 ||
            (run->events != NULL && json_object_set(members, "events", run->events) < 0) ||
            (run->events == NULL && run->kind == SBX_RUN_COMPLETION &&
             json_object_set_new(members, "events", json_array()) < 0))
                r = -ENOMEM;
        pthread_mutex_unlock(&run->lock);
        if (r == 0 && run->kind == SBX_RUN_AGENT &&
            (json_object_set_new(members, "run_id", json_string(run->id)) < 0 ||
             json_object_set_new(members, "total_cost", cost_json(&sums)) < 0))
                r = -ENOMEM;
        if (r == 0 && json_object_update(result, members) < 0)
                r = -ENOMEM;
        return r < 0 ? SBX_NOMEM(err, SBX_AGENT_ORIGIN) : 0;
}

void sbx_result_tell(struct sbx_run *run, const json_t *result) {
        static const char *const copied[] = {"end",
                                             "error",
                                             "response",
                                             "answer",
                                             "total_calls",
                                             "total_tokens",
                                             "total_input_tokens",
                                             "total_output_tokens",
                                             "total_tool_calls",
                                             "duration_ms",
                                             "total_cost_usd",
                                             "validated",
                                             "iterations",
                                             "success"};
        json_t *event = json_object();

        for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]) && event != NULL; i++) {
                json_t *value = json_object_get(result, copied[i]);

                if (value != NULL)
                        json_object_set(event, copied[i], value);
        }
        sbx_run_emit(run, "run_ended", event);
}

int sbx_result_record(const struct sbx_prepared *prepared, enum sbx_run_end end, const json_t *result,
                      struct sbx_error *err) {
        struct sbx_journal *journal = prepared->run.journal;
        _cleanup_json_ json_t *kept = NULL, *record = NULL, *ended = NULL;
        char key[SBX_JOURNAL_KEY_MAX], timestamp[SBX_TIMESTAMP_SIZE];
        int r;

        if (!sbx_end_is_final(end))
                return sbx_journal_sync(journal, err);
        kept = json_copy((json_t *)(uintptr_t)result);
        if (kept != NULL && json_object_get(kept, "events") != NULL &&
            json_object_set_new(kept, "events", json_array()) < 0) /* the trajectory has them */
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        sbx_clock_timestamp(timestamp);
        record = kept != NULL ? json_pack("{s:s, s:O}", "type", "result", "result", kept) : NULL;
        /* A small last line: who lists runs reads that alone. */
        ended = json_pack("{s:s, s:s, s:s}", "type", "end", "end", sbx_run_end_name(end), "timestamp", timestamp);
        snprintf(key, sizeof(key), "result.%u", prepared->life);
        r = sbx_journal_add(journal, key, record, err);
        snprintf(key, sizeof(key), "end.%u", prepared->life);
        if (r == 0)
                r = sbx_journal_add(journal, key, ended, err);
        return r < 0 ? r : sbx_journal_sync(journal, err);
}
