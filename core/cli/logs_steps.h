/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorded run did in its sessions, step by step, and doing one of them again. */
#pragma once

#include "cli/logs_events.h"
#include "runtime/runtime.h"

enum sbx_logs_step_kind {
        SBX_LOGS_EXECUTION = 0,
        SBX_LOGS_CHECK = 1,
        SBX_LOGS_TOOL = 2, /* one that changes a session's variables */
};

struct sbx_logs_step {
        enum sbx_logs_step_kind kind;
        size_t event;          /* of the execution or check; of the completion that asked for the tool */
        const json_t *call;    /* SBX_LOGS_TOOL: {"name", "arguments"} */
        const char *principal; /* whose session it was */
};
struct sbx_logs_steps {
        struct sbx_logs_step *items;
        size_t count, capacity;
};
/* In the order in which they were done in each session. `events` outlives the steps. 0 or -ENOMEM. */
int sbx_logs_steps_make(const struct sbx_logs_events *events, const char *run_id, struct sbx_logs_steps *ret_steps);
void sbx_logs_steps_free(struct sbx_logs_steps *steps);
#define _cleanup_logs_steps_ __attribute__((cleanup(sbx_logs_steps_free)))

/* What doing one again came to. */
struct sbx_logs_outcome {
        const char *obstacle; /* why it was not done; NULL: it was. Static text */
        char end[16];         /* "" for a tool */
        char *text;           /* as the model would see it; NULL for a tool */
        char calls[256];      /* how the calls that the code made differ; "": they don't */
};
void sbx_logs_outcome_free(struct sbx_logs_outcome *outcome);
/* `environment` may be NULL: the configured one. Negative when it could not be tried at all. */
int sbx_logs_step_repeat(struct sbx_runtime *runtime, const struct sbx_logs_events *events,
                         const struct sbx_logs_step *step, const char *environment, const struct sbx_call *call,
                         struct sbx_logs_outcome *ret_outcome, struct sbx_error *err);

/* Whose sessions are those of a recorded principal when it is done again: of nobody who has a run. NULL: out of memory.
 */
char *sbx_logs_principal(const char *recorded);
/* Sets a variable of a session before the first step; a text of any size that a run takes. */
int sbx_logs_variable_set(struct sbx_runtime *runtime, const char *principal, const char *environment, const char *name,
                          struct sbx_bytes text, const struct sbx_call *call, struct sbx_error *err);
