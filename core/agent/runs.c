/* SPDX-License-Identifier: Apache-2.0 */
/* Runs from their beginning to their end, whatever that is; and the list of those that have a journal. */
#include "agent/runs.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define PROMPT_SHOWN_BYTES 200u

/* ---- the table ---- */

void sbx_runs_free(struct sbx_runs *runs) {
        if (runs == NULL)
                return;
        sbx_runs_stop(runs);
        sbx_background_destroy(&runs->background);
        free(runs->directory);
        free(runs);
}
SBX_DEFINE_CLEANUP(struct sbx_runs *, sbx_runs_free, cleanup_runs)

int sbx_runs_new(const struct sbx_runs_parts *parts, struct sbx_runs **ret_runs, struct sbx_error *err) {
        _cleanup_(cleanup_runs) struct sbx_runs *runs = calloc(1, sizeof(*runs));
        int r;

        if (runs == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        runs->parts = *parts;
        r = sbx_background_init(&runs->background);
        if (r < 0) {
                free(steal_pointer(runs));
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        if (parts->state_directory != NULL && asprintf(&runs->directory, "%s/runs", parts->state_directory) < 0) {
                runs->directory = NULL;
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        r = sbx_subcall_tools_add(parts->tools, err);
        if (r == 0)
                r = sbx_agent_tools_add(runs, err);
        if (r < 0)
                return r;
        *ret_runs = steal_pointer(runs);
        return 0;
}

void sbx_runs_stop(struct sbx_runs *runs) {
        sbx_background_stop(&runs->background);
}

const struct sbx_runs_parts *sbx_runs_parts(const struct sbx_runs *runs) {
        return &runs->parts;
}

/* ---- one run ---- */

static void tell_started(struct sbx_prepared *prepared) {
        struct sbx_run *run = &prepared->run;
        const json_t *request = prepared->request;
        json_t *event;

        if (!sbx_run_observed(run))
                return;
        event = json_pack("{s:O, s:O, s:O?, s:s, s:s, s:s, s:o, s:O?, s:O?, s:O*}", "kind",
                          json_object_get(request, "kind"), "prompt", json_object_get(request, "prompt"), "system",
                          json_object_get(request, "system"), "model", run->model, "provider", sbx_run_provider_name(run),
                          "environment", run->environment, "limits", sbx_limits_encode(&run->limits), "version",
                          json_object_get(request, "version"), "timestamp", json_object_get(request, "started_at"),
                          "variables", json_object_get(request, "variables"));
        sbx_run_emit(run, "run_started", event);
}

/* Variables of a resumed run come back with its sessions, and only if these are needed. */
static int load_variables(struct sbx_run *run, struct sbx_error *problem) {
        return sbx_journal_resumed(run->journal) ? 0 : sbx_variables_load(run, problem);
}

/* The run can't go on: the members that the loop would have filled in. */
static int fill_failed(struct sbx_run *run, json_t *result, struct sbx_error *err) {
        _cleanup_json_ json_t *members =
                json_pack("{s:s, s:s, s:i, s:b, s:n, s:n}", run->kind == SBX_RUN_AGENT ? "answer" : "response", "",
                          "answer_source", "error", "iterations", 0, "forced_termination", 0, "validated", "check");

        if (members == NULL || json_object_update(result, members) < 0)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        return run->kind == SBX_RUN_AGENT && json_object_set_new(result, "iteration_summaries", json_array()) < 0
                       ? SBX_NOMEM(err, SBX_AGENT_ORIGIN)
                       : 0;
}

static enum sbx_run_end end_of_failure(int code) {
        return code == -ECANCELED ? SBX_RUN_CANCELLED : code == -ETIMEDOUT ? SBX_RUN_TIMEOUT : SBX_RUN_FAILED;
}

/* A run that can be resumed will want them again. */
static void end_sessions(struct sbx_run *run, enum sbx_run_end end) {
        if (end == SBX_RUN_OK || run->runs->directory == NULL)
                sbx_sessions_destroy_all(run->parts->sessions, run->session_principal);
        else
                sbx_sessions_suspend_all(run->parts->sessions, run->session_principal);
}

static int go_on(struct sbx_prepared *prepared, json_t **ret_result, struct sbx_error *err) {
        struct sbx_run *run = &prepared->run;
        _cleanup_json_ json_t *result = json_object();
        enum sbx_run_end end = SBX_RUN_FAILED;
        struct sbx_error problem = {0}, unkept = {0};
        int r;

        if (result == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        tell_started(prepared);
        r = load_variables(run, &problem);
        if (r < 0) {
                end = end_of_failure(r);
                r = fill_failed(run, result, err);
        } else {
                r = sbx_agent_loop(run, prepared->request, result, &end, &problem);
                if (r < 0 && err != NULL && err->code == 0)
                        *err = problem;
        }
        end_sessions(run, end);
        if (r == 0)
                r = sbx_result_complete(run, end, &problem, result, err);
        if (r < 0)
                return r;
        /* First the trajectory, then the journal's end: of a run that was killed in between, the trajectory is told the
         * rest when it is resumed; one that has ended in its journal tells nothing any more. */
        sbx_result_tell(run, result);
        (void)sbx_trajectory_flush(run->parts->trajectory); /* a sink that is slow has been reported */
        /* An answer that could not be kept is an answer all the same. */
        if (sbx_result_record(prepared, end, result, &unkept) < 0)
                sbx_log(run->parts->logger, SBX_LOG_WARNING, "run %s: its end is not in the journal: %s", run->id,
                        unkept.message);
        *ret_result = steal_pointer(result);
        return 0;
}

int sbx_runs_run(struct sbx_runs *runs, const struct sbx_run_request *request, const struct sbx_run_watch *watch,
                 const struct sbx_call *call, json_t **ret_result, struct sbx_error *err) {
        struct sbx_prepared prepared;
        int r = sbx_prepare(runs, request, watch, call, &prepared, err);

        if (r < 0)
                return r;
        if (prepared.ended != NULL) {
                *ret_result = json_incref(prepared.ended);
                r = sbx_error_set(err, -EALREADY, SBX_AGENT_ORIGIN,
                                  strcmp(prepared.ended_as, sbx_run_end_name(SBX_RUN_OK)) == 0
                                          ? NULL
                                          : "It can go on with a higher limit.",
                                  "run %s has ended already (%s): this is its result", prepared.run.id,
                                  prepared.ended_as);
        } else
                r = go_on(&prepared, ret_result, err);
        sbx_prepared_clear(&prepared);
        return r;
}

/* ---- the list ---- */

static json_t *shown_prompt(const json_t *request) {
        const char *prompt = json_string_value(json_object_get(request, "prompt"));
        struct sbx_bytes text = {prompt != NULL ? prompt : "", prompt != NULL ? strlen(prompt) : 0};

        text.size = sbx_utf8_cut(text, PROMPT_SHOWN_BYTES);
        return sbx_json_text(text);
}

static int add_listed(void *data, const struct sbx_journal_summary *summary) {
        bool ended = summary->last_key != NULL && strncmp(summary->last_key, "end.", 4) == 0;
        const char *state = summary->locked ? "running" : ended ? "ended" : "stopped";
        json_t *end = ended && !summary->locked ? json_object_get(summary->last, "end") : NULL;

        return json_array_append_new(data, json_pack("{s:s, s:O?, s:o, s:O?, s:s, s:O?, s:O?}", "run_id",
                                                     summary->run_id, "kind", json_object_get(summary->request, "kind"),
                                                     "prompt", shown_prompt(summary->request), "started_at",
                                                     json_object_get(summary->request, "started_at"), "state", state,
                                                     "end", end, "model", json_object_get(summary->request, "model"))) <
                               0
                       ? -ENOMEM
                       : 0;
}

int sbx_runs_list(struct sbx_runs *runs, json_t **ret_list, struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        int r = list != NULL ? sbx_journal_list(runs->directory, add_listed, list, err) : -ENOMEM;

        if (r < 0)
                return sbx_error_set(err, r, SBX_AGENT_ORIGIN, NULL, "runs can't be listed: %s", SBX_ERRNO_TEXT(r));
        *ret_list = steal_pointer(list);
        return 0;
}
