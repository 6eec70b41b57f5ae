/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: a model that plans, calls tools and executes code in a session, under limits, with a trajectory and a journal
 * that it can be resumed from. A completion answers one prompt; an agent goes on until it calls FINAL. Thread-safe:
 * runs go on side by side. docs/runs.md tells the whole. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "config/config.h"
#include "plugin/registry.h"
#include "session/session.h"
#include "tools/tools.h"
#include "trajectory/trajectory.h"

#define SBX_RUN_ID_SIZE 37 /* a UUID in text, RFC 9562; also the id of the trajectory */

enum sbx_run_kind { SBX_RUN_COMPLETION = 0, SBX_RUN_AGENT = 1 };

/* Why a run ended. The names stand in results and trajectories. */
enum sbx_run_end {
        SBX_RUN_OK = 0,             /* "ok": the model answered, or called FINAL */
        SBX_RUN_MAX_DEPTH = 1,      /* "max_depth" */
        SBX_RUN_MAX_SUBCALLS = 2,   /* "max_subcalls": model calls of the run */
        SBX_RUN_TOKEN_BUDGET = 3,   /* "token_budget" */
        SBX_RUN_TOOL_BUDGET = 4,    /* "tool_budget" */
        SBX_RUN_COST_LIMIT = 5,     /* "cost_limit" */
        SBX_RUN_TIMEOUT = 6,        /* "timeout" */
        SBX_RUN_MAX_ITERATIONS = 7, /* "max_iterations" */
        SBX_RUN_CANCELLED = 8,      /* "cancelled" */
        SBX_RUN_FAILED = 9,         /* "error": the provider, or this program */
};
const char *sbx_run_end_name(enum sbx_run_end end);

/* What a run may use. 0 (for the doubles: a negative number): the configured value, for an agent its own default
 * (docs/runs.md). What is above a hard limit of config.h is refused. */
struct sbx_run_limits {
        unsigned max_depth, max_subcalls, tool_budget, max_iterations, sub_calls_per_turn;
        uint64_t token_budget, timeout_ms;
        double cost_usd, sub_call_cost_usd;
};
#define SBX_RUN_LIMITS_CONFIGURED                                                                                      \
        { .cost_usd = -1, .sub_call_cost_usd = -1 }

/* A text that code of the run's session finds in a variable, and that never enters the model's context by itself. */
struct sbx_run_variable {
        const char *name;
        struct sbx_bytes text; /* UTF-8, at most 16 MiB */
};

/* Everything is borrowed until sbx_runs_run returns. NULL: as configured, or none. */
struct sbx_run_request {
        enum sbx_run_kind kind;
        const char *prompt; /* of an agent: the task */
        const char *system; /* comes after the program's own instructions */
        const char *provider, *model, *environment;
        const char *principal;
        const char *check;           /* code that validates an answer: it runs in the session, with `answer` */
        const char *response_format; /* JSON object of the chat-completions API */
        const struct sbx_run_variable *variables;
        size_t variable_count;
        struct sbx_run_limits limits;
        bool no_sub_calls, no_auto_context;
        bool with_events;      /* the result holds the trajectory's events */
        const char *resume_id; /* goes on with a run of which the journal is there (its id or the beginning of it, 4
                                  digits at least). Then prompt, check, variables ... are the journal's; limits that are
                                  set here replace its own. */
        const char *run_id;    /* the id for a new run; NULL: a random one */
        const struct sbx_client *client; /* its model answers, in the place of a provider's (sampling.h); NULL: none's */
};

/* Who looks on. Each may be NULL; called by one thread at a time. */
struct sbx_run_watch {
        void *data;
        /* Text of the model as it streams; `depth` 0 is the run's own, more are sub-calls. */
        void (*text)(void *data, unsigned depth, struct sbx_bytes text);
        /* What happens, as JSON objects with "event": docs/runs.md lists them; those of the trajectory among them. */
        void (*event)(void *data, const json_t *event);
};

struct sbx_runs;

struct sbx_runs_parts { /* all outlive the runs */
        const struct sbx_config *config;
        struct sbx_registry *registry;
        struct sbx_tools *tools;
        struct sbx_sessions *sessions;
        struct sbx_trajectory *trajectory;
        const struct sbx_logger *logger;
        const char *state_directory; /* journals are in its "runs"; NULL: no home, runs can't be resumed */
};
/* Adds the tools of runs to `parts->tools` (docs/tools.md). */
int sbx_runs_new(const struct sbx_runs_parts *parts, struct sbx_runs **ret_runs, struct sbx_error *err);
/* Cancels what goes on in the background (sbx_runs_stop), and frees. No other call may be under way. */
void sbx_runs_free(struct sbx_runs *runs);
/* Cancels the background runs of snipara_agent_run and waits for them. Idempotent. */
void sbx_runs_stop(struct sbx_runs *runs);

/* Runs to the end, whatever that is: 0 and the result, a JSON object in the shape of snipara-sandbox 2.2.7
 * (RLMResult.to_dict, AgentResult.to_dict) with more members, docs/runs.md. Negative when it could not begin: -EINVAL
 * (request, limits), -ENOENT (provider, run to resume), -EBUSY (another process has the run), -EALREADY (the run to
 * resume has ended: `ret_result` is set all the same, to its result). */
int sbx_runs_run(struct sbx_runs *runs, const struct sbx_run_request *request, const struct sbx_run_watch *watch,
                 const struct sbx_call *call, json_t **ret_result, struct sbx_error *err);

/* Runs that have a journal: [{"run_id", "kind", "prompt", "started_at", "state": "ended" | "stopped" | "running",
 * "end"}], newest first. */
int sbx_runs_list(struct sbx_runs *runs, json_t **ret_list, struct sbx_error *err);

/* For code_mode = "always": answers calls of code that is executed outside of a run, within the budget of one
 * completion. NULL: the configuration does not allow it. Free with sbx_code_run_free. */
struct sbx_code_run;
int sbx_code_run_new(struct sbx_runs *runs, const char *principal, const struct sbx_call *call,
                     struct sbx_code_run **ret_run, struct sbx_error *err);
const struct sbx_code_calls *sbx_code_run_calls(struct sbx_code_run *run);
void sbx_code_run_free(struct sbx_code_run *run);
