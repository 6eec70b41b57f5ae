/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/agent: the table of runs, how a run is made from a request or a journal, and its result. */
#pragma once

#include "agent/run.h"

/* ---- background.c: runs that clients began, and that they look after by id: those that go on by themselves, and those
 * that a call waits for ---- */

#define SBX_BACKGROUND_RUNNING_MAX 16u
#define SBX_BACKGROUND_ENDED_MAX 64u
#define SBX_BACKGROUND_KEEP_S 3600u

struct sbx_background_run;
struct sbx_background {
        pthread_mutex_t lock;             /* protects what follows */
        pthread_cond_t ended;             /* a run has, that a call waited for */
        struct sbx_background_run *first; /* newest first */
        bool stopping;
};
int sbx_background_init(struct sbx_background *background);
/* Cancels all, and waits for them. */
void sbx_background_stop(struct sbx_background *background);
void sbx_background_destroy(struct sbx_background *background);

/* What a run begins with. Copied. */
struct sbx_background_request {
        const char *principal, *task;
        struct sbx_run_limits limits;
};
/* A run that has its place among those that go on, and that one of the next two must begin. -EBUSY (all together, or the
 * principal's, are too many), -ESHUTDOWN. */
int sbx_background_enter(struct sbx_runs *runs, const struct sbx_background_request *request,
                         struct sbx_background_run **ret_entry, struct sbx_error *err);
const char *sbx_background_id(const struct sbx_background_run *entry); /* before it is begun */
/* On a thread of its own. The entry is the table's from here on, in any case. */
int sbx_background_begin(struct sbx_background_run *entry, struct sbx_error *err);
/* On the caller's thread, to its end, also that of `context->call`; tells the context's progress. `sampling`: the model
 * of context->client answers. `*ret_status`: as sbx_background_status has it. The entry is the table's. */
int sbx_background_run_within(struct sbx_background_run *entry, const struct sbx_tool_context *context, bool sampling,
                              json_t **ret_status, struct sbx_error *err);
/* {"run_id", "status", "task", "elapsed_seconds", ...} of the principal's run that the id, or the beginning of one, means.
 * -ENOENT: there is none, or there are several. */
int sbx_background_status(struct sbx_background *background, const char *principal, const char *id,
                          json_t **ret_status, struct sbx_error *err);
/* Likewise; whether it had ended already. */
int sbx_background_cancel(struct sbx_background *background, const char *principal, const char *id, bool *ret_ended,
                          struct sbx_error *err);
json_t *sbx_background_shown_task(const char *task);

struct sbx_runs {
        struct sbx_runs_parts parts;
        char *directory; /* of journals; NULL: they stay in memory */
        struct sbx_background background;
};

/* ---- run_request.c ---- */

/* A run that is about to go on, and all that belongs to it. */
struct sbx_prepared {
        struct sbx_run run;
        struct sbx_call call;  /* run.call: the caller's, with the run's deadline */
        const json_t *request; /* the journal's */
        unsigned life;         /* 1: the run's first; each resume is one more */
        json_t *ended;         /* its result, if it had ended: then nothing goes on */
        char *ended_as;        /* the name of that end */
};
int sbx_run_id_new(char ret_id[SBX_RUN_ID_SIZE], struct sbx_error *err);
int sbx_prepare(struct sbx_runs *runs, const struct sbx_run_request *request, const struct sbx_run_watch *watch,
                const struct sbx_call *call, struct sbx_prepared *ret_prepared, struct sbx_error *err);
void sbx_prepared_clear(struct sbx_prepared *prepared);

/* ---- run_limits.c: limits in journals ---- */

json_t *sbx_limits_encode(const struct sbx_run_limits *limits);
void sbx_limits_decode(const json_t *object,
                       struct sbx_run_limits *ret_limits); /* 0, or negative, for what is missing */
/* What `asked` states replaces it in `limits`; whether it states anything. */
bool sbx_limits_replace(struct sbx_run_limits *limits, const struct sbx_run_limits *asked);

/* ---- run_result.c ---- */

/* Adds totals, the end and its reason, notices and events to what the loop has filled in. */
int sbx_result_complete(struct sbx_run *run, enum sbx_run_end end, const struct sbx_error *problem, json_t *result,
                        struct sbx_error *err);
void sbx_result_tell(struct sbx_run *run, const json_t *result);
/* Keeps the result in the journal, and that the run has ended; unless it was stopped before its end, and can go on. */
int sbx_result_record(const struct sbx_prepared *prepared, enum sbx_run_end end, const json_t *result,
                      struct sbx_error *err);
bool sbx_end_is_final(enum sbx_run_end end);
