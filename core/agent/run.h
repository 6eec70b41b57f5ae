/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/agent: one run, the places in it, and the effects that it is made of. */
#pragma once

#include <limits.h>

#include "agent/agent.h"
#include "agent/journal.h"
#include "agent/sampling.h"
#include "base/thread.h"

#define SBX_AGENT_ORIGIN "agent"

/* ---- budget.c: what may still be used. A completion has a budget below that of whoever asked for it; what it uses
 * counts in all of them, up to the run's. Thread-safe: all are protected by the root's lock. ---- */

struct sbx_budget {
        struct sbx_budget *parent; /* NULL: the run's */
        pthread_mutex_t lock;      /* of the root */
        uint64_t token_limit, tokens_in, tokens_out, tokens_reserved;
        unsigned tool_limit, tools, call_limit, calls; /* tool calls; model calls */
        double cost_limit_usd, cost_usd;               /* of sub-calls: sub_call_cost_usd of the run counts beside */
        bool cost_unknown;                             /* something was used whose price nobody knows */
};
/* UINT64_MAX, UINT_MAX, a negative cost: no limit but those above. */
void sbx_budget_init(struct sbx_budget *budget, struct sbx_budget *parent, uint64_t token_limit, unsigned tool_limit,
                     unsigned call_limit, double cost_limit_usd);
void sbx_budget_destroy(struct sbx_budget *budget);
uint64_t sbx_budget_tokens_left(struct sbx_budget *budget); /* in it and all above it */
/* Room for one more model call: as much of `wanted` tokens as is left, at least `needed`, is held until
 * sbx_budget_settle. Else why not. */
enum sbx_run_end sbx_budget_begin_call(struct sbx_budget *budget, uint64_t needed, uint64_t wanted,
                                       uint64_t *ret_reserved);
void sbx_budget_settle(struct sbx_budget *budget, uint64_t reserved, uint64_t tokens_in, uint64_t tokens_out,
                       double cost_usd /* negative: unknown */);
/* Counts a model call of an earlier life of the run, whatever the limits. */
void sbx_budget_recall(struct sbx_budget *budget, uint64_t tokens_in, uint64_t tokens_out, double cost_usd);
bool sbx_budget_take_tool(struct sbx_budget *budget); /* room for one more tool call */

/* ---- the run ---- */

struct sbx_run {
        /* Never change while it goes on. */
        struct sbx_runs *runs;
        const struct sbx_runs_parts *parts;
        enum sbx_run_kind kind;
        char id[SBX_RUN_ID_SIZE];
        char *principal;         /* who asked for it */
        char *session_principal; /* who its sessions belong to: "run:ID" */
        char *model, *environment;
        const struct sbx_instance *provider; /* NULL: `sampling` answers */
        struct sbx_sampling *sampling;       /* the client's model; NULL: the provider's */
        json_t *response_format;      /* NULL: none */
        struct sbx_run_limits limits; /* settled: nothing is 0 for "configured" */
        bool sub_calls;
        struct sbx_journal *journal;
        const struct sbx_run_watch *watch; /* NULL: nobody */
        const struct sbx_call *call;       /* deadline_ns is the run's */
        struct sbx_budget budget;

        pthread_mutex_t restore_lock; /* held while sessions are brought to where the journal left them */
        bool restored;                /* protected by restore_lock */

        pthread_mutex_t lock;      /* protects what follows, and is held while the watch is told */
        char *answer;              /* FINAL was called; NULL: not yet */
        const char *answer_source; /* "final", "final_var" */
        bool answer_taken;         /* none is set any more */
        json_t *notices;           /* texts for the result: what was done again, what may have happened twice */
        json_t *events;            /* those of the trajectory, if the result holds them */
        double sub_call_cost_usd;
        unsigned calls_made; /* model calls, all depths, of this and earlier lives */
};

/* A place in a run: which completion, how deep, under which key and event. A tool's context has it as `run`. */
struct sbx_place {
        struct sbx_run *run;
        struct sbx_budget *budget;
        const char *key;             /* of the journal */
        const char *call_id;         /* of the trajectory event that this belongs to; NULL: none */
        const char *principal;       /* of the sessions that tools use from here */
        unsigned depth;              /* 0: the run's own completion */
        unsigned *sub_calls_of_turn; /* protected by run->lock; starts at 0 with each turn of the run */
        /* What only sub-completions set. */
        const struct sbx_call *call;   /* NULL: the run's */
        const char *sub_call_type;     /* "sub_complete", ...; NULL: none */
        struct sbx_sub_answer *answer; /* where FINAL goes; NULL: to the run */
        uint64_t answer_tokens;        /* the most that an answer may have; 0: what the budget leaves */
        bool replay;                   /* what is not in the journal is not done: only counted and told again */
};

/* ---- place.c ---- */

/* base + the formatted rest. -ENAMETOOLONG. */
int sbx_key_make(char ret_key[SBX_JOURNAL_KEY_MAX], struct sbx_error *err, const char *base, const char *format, ...)
        SBX_PRINTF(4, 5);
const struct sbx_call *sbx_place_call(const struct sbx_place *place);
/* 0, -ECANCELED or -ETIMEDOUT: whether the place's call has ended. */
int sbx_place_ended(const struct sbx_place *place);
/* Reads `call` likewise. */
int sbx_call_ended(const struct sbx_call *call);

/* ---- limits.c ---- */

/* What was asked for, else the configured value, for an agent its own default. -EINVAL: above a hard limit. */
int sbx_run_limits_settle(const struct sbx_config *config, enum sbx_run_kind kind, const struct sbx_run_limits *asked,
                          struct sbx_run_limits *ret_limits, struct sbx_error *err);

/* ---- events.c: the trajectory (docs/trajectory.md) ---- */

/* The id of the event under a key: the same in each life of the run. */
void sbx_event_id(const struct sbx_run *run, const char *key, char ret_id[SBX_RUN_ID_SIZE]);
/* Emits an event of 2.2.7's shape, and tells the watch. Takes the reference of `event`; NULL is out of memory, which is
 * not told: the run goes on. `name`: "run_started", "completion", "execution", "tool_call", "run_ended". */
void sbx_run_emit(struct sbx_run *run, const char *name, json_t *event);
/* Tells the watch alone. Takes the reference. */
void sbx_run_tell(struct sbx_run *run, json_t *event);
void sbx_run_notice(struct sbx_run *run, const char *format, ...) SBX_PRINTF(2, 3);
/* False: nobody looks at events of the run, making one is not needed. */
bool sbx_run_observed(const struct sbx_run *run);

/* ---- model.c: one answer of the model ---- */

struct sbx_answer {
        char *text;         /* NULL: none */
        json_t *tool_calls; /* array of the API's objects, arguments parsed: {"id", "name", "arguments": object, or
                               "error": why they can't be read}; never NULL, may be empty */
        json_t *message;    /* as it goes into the next request */
        const char *finish_reason; /* "stop", "length", "tool_calls", "content_filter" */
        uint64_t tokens_in, tokens_out;
        double cost_usd;               /* negative: unknown */
        const char *model, *timestamp; /* who answered, and when; of `record` */
        uint64_t duration_ms;
        json_t *record;
};
void sbx_answer_clear(struct sbx_answer *answer);
/* Whether the provider of runs, as configured, could be asked at all: 0; -ENOENT: there is none; -EACCES: it has no key;
 * or what else is wrong with it. Says nothing of whether it would answer. */
int sbx_model_available(const struct sbx_runs_parts *parts, const struct sbx_call *call, struct sbx_error *err);
/* Who answers, for results and events: the provider's name. */
const char *sbx_run_provider_name(const struct sbx_run *run);
/* The provider of a run: the entry `name` (NULL: the setting `backend`). "openai" and "anthropic" mean the entry
 * "litellm" unless there are entries of those names. -ENOENT and what the plugin says. */
int sbx_model_provider(const struct sbx_runs_parts *parts, const char *name, const struct sbx_call *call,
                       const struct sbx_instance **ret_provider, struct sbx_error *err);
/* Asks the model, or the journal, under place->key + ".model". Takes what it used from the budget. The event
 * "completion" is the caller's: it holds the results of the turn's tools. `*ret_end` is not SBX_RUN_OK when a limit or
 * an error kept it from being asked or answered; then the error says more. `tools`: the list for the request, may be
 * empty. -ENOMEM and what the journal says are the only negative returns. */
int sbx_model_ask(const struct sbx_place *place, const json_t *messages, const json_t *tools,
                  struct sbx_answer *ret_answer, enum sbx_run_end *ret_end, struct sbx_error *err);

/* ---- completion.c: turns, until the model asks for no more tools ---- */

struct sbx_completion {
        char *text; /* the answer, or what was reached so far; never NULL when 0 was returned */
        enum sbx_run_end end;
        struct sbx_error problem;  /* when `end` is not ok */
        bool final;                /* FINAL or FINAL_VAR ended it (depth 0 alone) */
        const char *finish_reason; /* of the last answer: "length" and "content_filter" say that it is not whole */
        unsigned tool_calls;
        json_t *tool_names; /* of its tool calls, in order */
};
void sbx_completion_clear(struct sbx_completion *completion);
/* `place->key` is the completion's: turns are key.1, key.2, ... `with_tools` false: a plain answer. */
int sbx_complete(const struct sbx_place *place, const char *system, const char *prompt, bool with_tools,
                 struct sbx_completion *ret_completion, struct sbx_error *err);

/* ---- tool_calls.c: the tool calls of one answer ---- */

/* Runs them, in order or side by side (parallel_tools), through the registry; the results are appended to `messages` in
 * the order of the calls. What is over the tool budget, not known, not allowed or can't be read gets an error result.
 */
int sbx_tool_calls_run(const struct sbx_place *turn, const struct sbx_answer *answer, json_t *messages,
                       json_t *tool_results, unsigned *ret_refused, struct sbx_error *err);

/* ---- execution.c: code in a session of the run, once ----
 *
 * Records of the journal; each has "type", "timestamp" and "duration_ms":
 *      "model"      text, tool_calls, finish_reason, tokens_in, tokens_out, cost_usd (null: unknown), model
 *      "execution"  a tool that executes code: name, arguments (the code among them), result (a tool result), principal
 * (of its session), session_id, end, state, calls (how many the code made) "tool"       any other tool: name,
 * arguments, result, principal; "session": true if it changes a session's variables (set_repl_context,
 * clear_repl_context, destroy_session), which a restored one needs too "call"       llm_query, llm_batch, FINAL,
 * FINAL_VAR of code: name, arguments, result, or error {code, message}
 */

/* One tool call under place->key, through the registry or from the journal. `*ret_result` is a tool result object. Code
 * that it executes may call back. */
int sbx_run_tool(const struct sbx_place *place, const char *name, json_t *arguments, enum sbx_tool_caller caller,
                 json_t **ret_result, struct sbx_error *err);
/* Notes in the record of an execution which stored checkpoint the session made after it; `checkpoint` is that of its
 * result, NULL: none. 0 or -1. */
int sbx_record_checkpoint(json_t *record, const json_t *checkpoint);
/* Brings the run's sessions to where the journal left them, before the first execution of a resumed run that is not in
 * it: takes what the store has of them, and runs what is recorded and not in it again, in order, calls answered from
 * the journal; says in notices what was done, and which executions ended otherwise. Does nothing the second time. */
int sbx_run_restore_sessions(struct sbx_run *run, struct sbx_error *err);

/* ---- code_calls.c: what code in a session calls back: llm_query, llm_batch, FINAL, FINAL_VAR, tools ---- */

#define SBX_CODE_CALLS_MAX 1000u        /* of one execution; what is over it fails at once */
#define SBX_CODE_CALLS_REFUSED_MAX 100u /* then the execution is cancelled */

struct sbx_code_context {       /* one execution's; lives as long as it */
        struct sbx_place place; /* the execution's: its call_id is the execution's own */
        struct sbx_code_calls calls;
        struct sbx_call
                call;     /* for the execution: ends with the place's, or when the code floods the host with calls */
        int flood_fd;     /* written to when it does */
        unsigned count;   /* calls answered so far: the next one's key is place.key + ".c" + count */
        unsigned refused; /* beyond them */
        bool flooded;
};
int sbx_code_context_init(struct sbx_code_context *context, const struct sbx_place *place, struct sbx_error *err);
void sbx_code_context_destroy(struct sbx_code_context *context);

/* ---- subcalls.c: snipara_sub_complete, snipara_batch_complete, and the queries of code ---- */

struct sbx_query {
        const char *prompt, *system, *context_query;
        uint64_t max_tokens; /* 0: what is inherited */
        bool with_tools;
        bool own_sessions; /* its tools use sessions of its own: those of `place` are busy */
        const char *type;  /* sub_call_type of its events */
};
/* Asks all, at most `max_parallel` at a time; `results[i]` becomes {"response", "tokens_used", "cost", "calls"} or
 * {"response": null, "error", "end", "tokens_used", "cost"}. Counts against sub-calls of the turn, their cost, the
 * depth and the budget: what is over a limit is refused one by one. Keys: place->key + ".q" + i. */
int sbx_queries_ask(const struct sbx_place *place, const struct sbx_query *queries, size_t count, unsigned max_parallel,
                    uint64_t total_tokens, json_t *ret_results, struct sbx_error *err);
int sbx_subcall_tools_add(struct sbx_tools *tools, struct sbx_error *err); /* and FINAL, FINAL_VAR */

/* ---- answer.c: FINAL ---- */

struct sbx_sub_answer { /* of a sub-completion; protected by run->lock */
        char *text;
};
/* FINAL at a place: the answer of the run, or of the sub-completion that the place is in. -EALREADY, -ENOMEM. */
int sbx_place_set_answer(const struct sbx_place *place, const char *answer, const char *source, struct sbx_error *err);
bool sbx_place_has_answer(const struct sbx_place *place);

/* The first one counts. False: there is an answer already. */
bool sbx_run_set_answer(struct sbx_run *run, const char *answer, const char *source);
bool sbx_run_has_answer(struct sbx_run *run);
char *sbx_run_take_answer(struct sbx_run *run, const char **ret_source); /* and none is set after it */

/* ---- runs.c ---- */

const struct sbx_runs_parts *sbx_runs_parts(const struct sbx_runs *runs);

/* ---- prompt.c: the program's own words to a model ---- */

struct sbx_prompt_iteration {
        const char *task;
        unsigned iteration, max_iterations; /* the first is 1 */
        uint64_t tokens_left;
        const json_t *actions;               /* texts: what was done so far; the last five are told */
        const char *rejected, *check_output; /* an answer that did not pass the check; NULL: none */
};
/* `context`: what was retrieved for the task; NULL: nothing. NULL is out of memory, below too. */
char *sbx_prompt_system(const struct sbx_run *run, const json_t *request, const char *context);
char *sbx_prompt_iteration(const struct sbx_prompt_iteration *iteration);
/* Of a completion run whose answer did not pass. */
char *sbx_prompt_again(const char *prompt, const char *rejected, const char *check_output);

/* ---- check.c: code that validates an answer ---- */

struct sbx_check {
        bool passed;
        char *end;    /* of the execution: "ok", "error", ... */
        char *output; /* what the model gets to see of it */
};
void sbx_check_clear(struct sbx_check *check);
/* Runs the code in the run's session, with `answer`, under place->key + ".check", or takes it from the journal.
 * -ECANCELED, -ETIMEDOUT: the run's call ended meanwhile, and nothing was recorded. */
int sbx_check_answer(const struct sbx_place *place, const char *code, const char *answer, struct sbx_check *ret_check,
                     struct sbx_error *err);

/* ---- variables.c: texts that come with the request ---- */

#define SBX_RUN_VARIABLES_MAX 64u
#define SBX_RUN_VARIABLE_MAX_BYTES ((size_t)16 << 20)
#define SBX_RUN_VARIABLES_MAX_BYTES ((size_t)256 << 20) /* of all together */

/* [{"name", "bytes", "characters", "sha256"}], for the request in the journal. -EINVAL, -EFBIG. */
int sbx_variables_describe(const struct sbx_run_variable *variables, size_t count, json_t **ret_list,
                           struct sbx_error *err);
int sbx_variables_record(struct sbx_journal *journal, const struct sbx_run_variable *variables, size_t count,
                         struct sbx_error *err);
/* Puts those of the journal into the run's session. -ENOENT: one of them is not in the journal. */
int sbx_variables_load(struct sbx_run *run, struct sbx_error *err);
/* Makes sure that the run's session is in its environment: setting a variable can't say which, executing code can. */
int sbx_variables_start_session(struct sbx_run *run, struct sbx_error *err);
int sbx_variable_set(struct sbx_run *run, const char *name, const json_t *text, struct sbx_error *err);

/* ---- agent_loop.c, background.c ---- */

/* The iterations of a run, of either kind: checks, limits, the forced ending. Fills in what the result says beyond the
 * totals. `*ret_end` and `problem` say why it ended; negative is out of memory alone. */
int sbx_agent_loop(struct sbx_run *run, const json_t *request, json_t *result, enum sbx_run_end *ret_end,
                   struct sbx_error *problem);
int sbx_agent_tools_add(struct sbx_runs *runs, struct sbx_error *err);
