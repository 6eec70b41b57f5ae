/* SPDX-License-Identifier: Apache-2.0 */
/* The tool calls of one answer: which of them may run, running them in order or side by side, and their results. */
#include "agent/messages.h"
#include "agent/subcalls.h"
#include "agent/workers.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_AGENT_ORIGIN

struct job {
        const json_t *call;
        const char *name;
        bool runs;      /* false: `result` says why not */
        json_t *result; /* a tool result */
        int r;          /* negative: the run can't go on */
        struct sbx_error problem;
};

struct jobs {
        const struct sbx_place *turn;
        struct job *list;
        size_t count;
};

static void free_jobs(struct jobs *jobs) {
        for (size_t i = 0; i < jobs->count; i++)
                json_decref(jobs->list[i].result);
        free(jobs->list);
}

static int refuse(struct job *job, const char *text, struct sbx_error *err) {
        job->result = sbx_content_text(true, text);
        return job->result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int refuse_problem(struct job *job, const struct sbx_error *problem, struct sbx_error *err) {
        if (problem->code == -ENOMEM)
                return SBX_NOMEM(err, ORIGIN);
        job->result = sbx_content_error(problem);
        return job->result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

/* ---- before ---- */

/* Decides, in the order of the calls, which of them run: so it is the same in each life of the run. */
static int admit(const struct sbx_place *turn, struct job *job, unsigned *refused, struct sbx_error *err) {
        const char *error = json_string_value(json_object_get(job->call, "error"));
        struct sbx_error problem = {0};
        bool final;

        job->name = json_string_value(json_object_get(job->call, "name"));
        final = sbx_is_final_tool(job->name);
        /* Giving the answer is always possible. */
        if (!final && !sbx_budget_take_tool(turn->budget)) {
                ++*refused;
                return refuse(
                        job,
                        "Error: the tool budget is used up, this call was not made. Answer now with what you have.",
                        err);
        }
        if (error != NULL) {
                _cleanup_free_ char *text = NULL;

                if (asprintf(&text, "Error: %s", error) < 0) {
                        text = NULL;
                        return SBX_NOMEM(err, ORIGIN);
                }
                return refuse(job, text, err);
        }
        if (sbx_tools_check(turn->run->parts->tools, job->name, SBX_CALLER_MODEL, &problem) < 0)
                return refuse_problem(job, &problem, err);
        if (sbx_is_subcall_tool(job->name) && !sbx_subcalls_possible(turn))
                return refuse(job,
                              "Error: sub-calls are not possible here: they are switched off, or the limit of depth "
                              "is reached.",
                              err);
        job->runs = true;
        return 0;
}

static int prepare(const struct sbx_place *turn, const json_t *calls, struct jobs *jobs, unsigned *refused,
                   struct sbx_error *err) {
        size_t index;
        json_t *call;

        *jobs = (struct jobs){.turn = turn, .list = calloc(json_array_size(calls) + 1, sizeof(*jobs->list))};
        if (jobs->list == NULL)
                return SBX_NOMEM(err, ORIGIN);
        json_array_foreach (calls, index, call) {
                int r;

                jobs->list[index].call = call;
                jobs->count++;
                r = admit(turn, &jobs->list[index], refused, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- running ---- */

static void tell_begin(const struct sbx_place *place, const struct job *job) {
        if (place->run->watch == NULL || place->run->watch->event == NULL)
                return;
        sbx_run_tell(place->run,
                     json_pack("{s:s, s:s, s:O*, s:i, s:s}", "event", "tool_begin", "name", job->name, "arguments",
                               json_object_get(job->call, "arguments"), "depth", (int)place->depth, "key", place->key));
}

static void tell_end(const struct sbx_place *place, const struct job *job, uint64_t begin_ns) {
        bool is_error = false;
        json_t *text;

        if (place->run->watch == NULL || place->run->watch->event == NULL || job->result == NULL)
                return;
        text = sbx_messages_result_text(job->result, &is_error);
        sbx_run_tell(place->run, json_pack("{s:s, s:s, s:b, s:f, s:i, s:s, s:o}", "event", "tool_end", "name",
                                           job->name, "is_error", (int)is_error, "duration_ms",
                                           (double)((sbx_clock_ns() - begin_ns) / 1000) / 1000, "depth",
                                           (int)place->depth, "key", place->key, "text", text));
}

static int call_tool(const struct sbx_place *turn, struct job *job, size_t index, struct sbx_error *err) {
        struct sbx_place place = *turn;
        char key[SBX_JOURNAL_KEY_MAX];
        uint64_t begin_ns = sbx_clock_ns();
        int r = sbx_key_make(key, err, turn->key, ".t%zu", index);

        if (r < 0)
                return r;
        place.key = key;
        tell_begin(&place, job);
        r = sbx_run_tool(&place, job->name, json_object_get(job->call, "arguments"), SBX_CALLER_MODEL, &job->result,
                         err);
        tell_end(&place, job, begin_ns);
        return r;
}

static void run_job(struct jobs *jobs, size_t index) {
        struct job *job = &jobs->list[index];
        const struct sbx_place *turn = jobs->turn;
        int ended;

        if (!job->runs)
                return;
        if (sbx_place_has_answer(turn)) {
                job->r = refuse(job, "Error: not run: the answer was given before.", &job->problem);
                return;
        }
        ended = sbx_place_ended(turn);
        if (ended < 0)
                job->r = refuse(job,
                                ended == -ECANCELED ? "Error: not run: the run was cancelled."
                                                    : "Error: not run: the time is up.",
                                &job->problem);
        else
                job->r = call_tool(turn, job, index, &job->problem);
}

static void run_one(void *data, size_t index) {
        struct jobs *jobs = data;

        if (!sbx_is_final_tool(jobs->list[index].name))
                run_job(jobs, index);
}

static unsigned parallelism(const struct sbx_place *turn) {
        const struct sbx_config *config = turn->run->parts->config;

        return sbx_config_bool(config, "parallel_tools") ? (unsigned)sbx_config_int(config, "max_parallel") : 1;
}

static void run_all(struct jobs *jobs) {
        unsigned parallel = parallelism(jobs->turn);

        if (parallel > 1 && jobs->count > 1) {
                sbx_workers_run(run_one, jobs, jobs->count, parallel);
                /* The answer comes after what was to happen beside it. */
                for (size_t i = 0; i < jobs->count; i++)
                        if (sbx_is_final_tool(jobs->list[i].name))
                                run_job(jobs, i);
                return;
        }
        for (size_t i = 0; i < jobs->count && (i == 0 || jobs->list[i - 1].r == 0); i++)
                run_job(jobs, i);
}

/* ---- after ---- */

static int append_results(const struct jobs *jobs, json_t *messages, json_t *tool_results, struct sbx_error *err) {
        for (size_t i = 0; i < jobs->count; i++) {
                const struct job *job = &jobs->list[i];
                _cleanup_json_ json_t *text = NULL;
                bool is_error = false;

                if (job->r < 0) {
                        if (err != NULL && err->code == 0)
                                *err = job->problem;
                        return job->r;
                }
                text = sbx_messages_result_text(job->result, &is_error);
                if (text == NULL || sbx_messages_add_result(messages, tool_results, json_object_get(job->call, "id"),
                                                            text, is_error) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        return 0;
}

int sbx_tool_calls_run(const struct sbx_place *turn, const struct sbx_answer *answer, json_t *messages,
                       json_t *tool_results, unsigned *ret_refused, struct sbx_error *err) {
        json_int_t dropped = json_integer_value(json_object_get(answer->record, "dropped_calls"));
        __attribute__((cleanup(free_jobs))) struct jobs jobs = {0};
        unsigned refused = 0;
        int r;

        if (dropped > 0)
                sbx_run_notice(turn->run, "The model asked for %lld more tools in one answer than are looked at (%s).",
                               (long long)dropped, turn->key);
        r = prepare(turn, answer->tool_calls, &jobs, &refused, err);
        if (r < 0)
                return r;
        run_all(&jobs);
        r = append_results(&jobs, messages, tool_results, err);
        if (r == 0)
                *ret_refused = refused;
        return r;
}
