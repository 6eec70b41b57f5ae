/* SPDX-License-Identifier: Apache-2.0 */
/* The iterations of a run: observe, think, act, check, until there is an answer that holds, or a limit. A completion
 * run has one iteration, and more only if its answer does not pass the check. */
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define CONTEXT_TOOL "snipara_context_query"
#define CONTEXT_TOKENS 4000     /* what is retrieved for the first iteration, as in 2.2.7 */
#define PREVIEW_CHARACTERS 200u /* of a response in the summary of its iteration */
#define ACTION_CHARACTERS 160u  /* of a response in the list of what was done */
#define ACTION_TOOLS 5u

struct loop {
        struct sbx_run *run;
        const json_t *request;
        const char *task, *check_code; /* of `request` */
        unsigned iteration;            /* that goes on, or was the last; the first is 1 */
        json_t *actions, *summaries;
        char *best;   /* the last text that was reached; NULL: none yet */
        char *answer; /* that holds */
        const char *source;
        char *rejected;         /* an answer that did not pass the check */
        struct sbx_check check; /* the last one */
        unsigned attempts;      /* checks so far */
        bool done;
        enum sbx_run_end end;
        struct sbx_error *problem; /* when `end` is not ok */
};

static void loop_clear(struct loop *loop) {
        json_decref(loop->actions);
        json_decref(loop->summaries);
        free(loop->best);
        free(loop->answer);
        free(loop->rejected);
        sbx_check_clear(&loop->check);
}

static void end_loop(struct loop *loop, enum sbx_run_end end) {
        loop->done = true;
        loop->end = end;
}

static enum sbx_run_end end_of_error(int code) {
        return code == -ECANCELED ? SBX_RUN_CANCELLED : code == -ETIMEDOUT ? SBX_RUN_TIMEOUT : SBX_RUN_FAILED;
}

static int no_memory(struct loop *loop) {
        return SBX_NOMEM(loop->problem, SBX_AGENT_ORIGIN);
}

static int replace_text(struct loop *loop, char **slot, const char *text) {
        char *copy = strdup(text);

        if (copy == NULL)
                return no_memory(loop);
        free(*slot);
        *slot = copy;
        return 0;
}

/* ---- totals ---- */

struct totals {
        uint64_t tokens;
        double cost_usd;
        bool cost_unknown;
        unsigned tools;
};

static struct totals totals_of(struct sbx_budget *budget, pthread_mutex_t *lock) {
        SBX_LOCKED(lock);
        return (struct totals){budget->tokens_in + budget->tokens_out, budget->cost_usd, budget->cost_unknown,
                               budget->tools};
}

static struct totals run_totals(struct sbx_run *run) {
        return totals_of(&run->budget, &run->budget.lock);
}

/* ---- before an iteration ---- */

/* Why there is to be no other iteration; SBX_RUN_OK: nothing is in the way. */
static enum sbx_run_end check_limits(struct loop *loop) {
        struct sbx_run *run = loop->run;
        struct totals totals = run_totals(run);
        int r = sbx_call_ended(run->call);

        if (r < 0)
                return end_of_error(r);
        if (loop->iteration >= run->limits.max_iterations)
                return SBX_RUN_MAX_ITERATIONS;
        if (totals.cost_usd >= run->limits.cost_usd && totals.tokens > 0)
                return SBX_RUN_COST_LIMIT;
        return sbx_budget_tokens_left(&run->budget) == 0 ? SBX_RUN_TOKEN_BUDGET : SBX_RUN_OK;
}

/* What the context sources find for the task; NULL: nothing, which is no failure. */
static int load_context(struct loop *loop, const struct sbx_place *first, char **ret_context) {
        struct sbx_run *run = loop->run;
        _cleanup_json_ json_t *arguments = NULL, *result = NULL;
        struct sbx_place place = *first;
        char key[SBX_JOURNAL_KEY_MAX];
        const char *text;
        int r;

        if (run->kind != SBX_RUN_AGENT || !json_is_true(json_object_get(loop->request, "auto_context")) ||
            sbx_tools_check(run->parts->tools, CONTEXT_TOOL, SBX_CALLER_MODEL, NULL) < 0)
                return 0;
        arguments = json_pack("{s:s, s:i}", "query", loop->task, "max_tokens", CONTEXT_TOKENS);
        if (arguments == NULL)
                return no_memory(loop);
        r = sbx_key_make(key, loop->problem, first->key, ".context");
        place.key = key;
        if (r == 0)
                r = sbx_run_tool(&place, CONTEXT_TOOL, arguments, SBX_CALLER_MODEL, &result, loop->problem);
        if (r < 0)
                return r;
        text = json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
        if (json_is_true(json_object_get(result, "isError"))) {
                sbx_run_notice(run, "No context was retrieved for the task: %s",
                               text != NULL ? text : "the tool failed");
                return 0;
        }
        *ret_context = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
        return 0;
}

static char *make_prompt(struct loop *loop) {
        const struct sbx_prompt_iteration iteration = {
                .task = loop->task,
                .iteration = loop->iteration,
                .max_iterations = loop->run->limits.max_iterations,
                .tokens_left = sbx_budget_tokens_left(&loop->run->budget),
                .actions = loop->actions,
                .rejected = loop->rejected,
                .check_output = loop->check.output,
        };

        return loop->run->kind == SBX_RUN_AGENT ? sbx_prompt_iteration(&iteration)
                                                : sbx_prompt_again(loop->task, loop->rejected, loop->check.output);
}

/* ---- after an iteration ---- */

static json_t *clipped(const char *text, size_t characters) {
        size_t size = 0, count = 0;

        for (; text[size] != '\0' && (count += ((unsigned char)text[size] & 0xC0) != 0x80) <= characters; size++)
                ;
        return sbx_json_text((struct sbx_bytes){text, size});
}

static int describe_tools(const json_t *names, struct sbx_buffer *out) {
        size_t count = json_array_size(names);
        int r = count > 0 ? sbx_buffer_append_text(out, "called ") : sbx_buffer_append_text(out, "called nothing");

        for (size_t i = 0; i < count && i < ACTION_TOOLS && r == 0; i++)
                r = sbx_buffer_printf(out, "%s%s", i > 0 ? ", " : "", json_string_value(json_array_get(names, i)));
        if (r == 0 && count > ACTION_TOOLS)
                r = sbx_buffer_printf(out, " and %zu more", count - ACTION_TOOLS);
        return r;
}

/* One line for the prompts of later iterations. */
static int add_action(struct loop *loop, const struct sbx_completion *completion) {
        _cleanup_buffer_ struct sbx_buffer line = SBX_BUFFER(64u << 10);
        _cleanup_json_ json_t *text = clipped(completion->text, ACTION_CHARACTERS);
        int r = text != NULL ? sbx_buffer_printf(&line, "iteration %u: ", loop->iteration) : -ENOMEM;

        if (r == 0)
                r = describe_tools(completion->tool_names, &line);
        if (r == 0 && json_string_length(text) > 0)
                r = sbx_buffer_printf(&line, "; said: %s", json_string_value(text));
        if (r == 0 && completion->end != SBX_RUN_OK)
                r = sbx_buffer_printf(&line, " (stopped: %s)", sbx_run_end_name(completion->end));
        if (r < 0)
                return no_memory(loop);
        for (size_t i = 0; i < line.size; i++)
                if (line.data[i] == '\n')
                        line.data[i] = ' ';
        return json_array_append_new(loop->actions, sbx_json_text(sbx_buffer_bytes(&line))) < 0 ? no_memory(loop) : 0;
}

static int add_summary(struct loop *loop, const struct totals *before, const struct sbx_completion *completion) {
        struct totals after = run_totals(loop->run);
        _cleanup_json_ json_t *preview = clipped(completion->text, PREVIEW_CHARACTERS);
        json_t *cost = after.cost_unknown ? json_null() : json_real(after.cost_usd - before->cost_usd);

        return json_array_append_new(loop->summaries,
                                     json_pack("{s:i, s:I, s:o, s:i, s:O}", "iteration", (int)loop->iteration - 1,
                                               "tokens", (json_int_t)(after.tokens - before->tokens), "cost", cost,
                                               "tool_calls", (int)completion->tool_calls, "response_preview",
                                               preview)) < 0
                       ? no_memory(loop)
                       : 0;
}

/* Withdraws an answer: the next FINAL counts again. */
static int withdraw(struct loop *loop, char *answer) {
        struct sbx_run *run = loop->run;

        pthread_mutex_lock(&run->lock);
        run->answer_taken = false;
        pthread_mutex_unlock(&run->lock);
        free(loop->rejected);
        loop->rejected = answer;
        return replace_text(loop, &loop->best, answer);
}

/* Takes `answer`. */
static int take_answer(struct loop *loop, const struct sbx_place *place, char *answer, const char *source) {
        struct sbx_error problem = {0};
        int r;

        if (loop->check_code == NULL) {
                loop->answer = answer;
                loop->source = source;
                end_loop(loop, SBX_RUN_OK);
                return 0;
        }
        sbx_check_clear(&loop->check);
        r = sbx_check_answer(place, loop->check_code, answer, &loop->check, &problem);
        if (r < 0) {
                free(loop->best);
                loop->best = answer;
                *loop->problem = problem;
                sbx_error_wrap(loop->problem, "the answer could not be checked");
                end_loop(loop, end_of_error(r));
                return 0;
        }
        loop->attempts++;
        if (!loop->check.passed)
                return withdraw(loop, answer);
        loop->answer = answer;
        loop->source = source;
        end_loop(loop, SBX_RUN_OK);
        return 0;
}

/* A limit of the completion's own leaves room for the next iteration; one of the run does not. */
static void take_end(struct loop *loop, const struct totals *before, const struct sbx_completion *completion) {
        bool stuck = run_totals(loop->run).tokens == before->tokens || sbx_budget_tokens_left(&loop->run->budget) == 0;
        bool own = completion->end == SBX_RUN_OK || (completion->end == SBX_RUN_TOKEN_BUDGET && !stuck) ||
                   completion->end == SBX_RUN_MAX_DEPTH;

        if (own && loop->run->kind == SBX_RUN_AGENT)
                return;
        *loop->problem = completion->problem;
        end_loop(loop, completion->end);
}

static int digest(struct loop *loop, const struct sbx_place *place, const struct totals *before,
                  const struct sbx_completion *completion) {
        const char *source = NULL;
        char *answer = sbx_run_take_answer(loop->run, &source);
        int r = add_action(loop, completion);

        if (r == 0)
                r = add_summary(loop, before, completion);
        if (r == 0 && completion->text[0] != '\0')
                r = replace_text(loop, &loop->best, completion->text);
        if (r == 0 && answer == NULL && loop->run->kind == SBX_RUN_COMPLETION && completion->end == SBX_RUN_OK) {
                source = "text";
                answer = strdup(completion->text);
                r = answer != NULL ? 0 : no_memory(loop);
                if (completion->finish_reason != NULL && strcmp(completion->finish_reason, "stop") != 0)
                        sbx_run_notice(loop->run, "The answer is not whole: the model stopped because of \"%s\".",
                                       completion->finish_reason);
        }
        if (r < 0) {
                free(answer);
                return r;
        }
        if (answer != NULL)
                return take_answer(loop, place, answer, source);
        take_end(loop, before, completion);
        return 0;
}

/* ---- one iteration ---- */

/* Of an agent's tokens an iteration gets twice its share, so that a long one does not starve those after it. */
static uint64_t token_share(struct sbx_run *run) {
        uint64_t left = sbx_budget_tokens_left(&run->budget);
        uint64_t share = run->limits.token_budget / run->limits.max_iterations * 2;

        return run->kind == SBX_RUN_AGENT && share > 0 && share < left ? share : left;
}

static int complete(struct loop *loop, const struct sbx_place *place) {
        _cleanup_free_ char *context = NULL, *system = NULL, *prompt = NULL;
        struct totals before = run_totals(loop->run);
        struct sbx_completion completion = {0};
        int r = loop->iteration == 1 ? load_context(loop, place, &context) : 0;

        if (r < 0)
                return r;
        system = sbx_prompt_system(loop->run, loop->request, context);
        prompt = make_prompt(loop);
        if (system == NULL || prompt == NULL)
                return no_memory(loop);
        r = sbx_complete(place, system, prompt, true, &completion, loop->problem);
        if (r == 0)
                r = digest(loop, place, &before, &completion);
        sbx_completion_clear(&completion);
        return r;
}

static int iterate(struct loop *loop) {
        struct sbx_run *run = loop->run;
        char key[SBX_JOURNAL_KEY_MAX];
        unsigned sub_calls = 0;
        struct sbx_budget budget;
        struct sbx_place place = {.run = run,
                                  .budget = &budget,
                                  .key = key,
                                  .principal = run->session_principal,
                                  .sub_calls_of_turn = &sub_calls};
        int r;

        loop->iteration++;
        snprintf(key, sizeof(key), "%u", loop->iteration);
        if (run->kind == SBX_RUN_AGENT || loop->iteration > 1)
                sbx_run_tell(run, json_pack("{s:s, s:i, s:i}", "event", "iteration", "iteration", (int)loop->iteration,
                                            "max_iterations", (int)run->limits.max_iterations));
        sbx_budget_init(&budget, &run->budget, token_share(run), UINT_MAX, UINT_MAX, -1);
        r = complete(loop, &place);
        sbx_budget_destroy(&budget);
        if (r == 0 && !loop->done) /* the end of the run syncs too */
                r = sbx_journal_sync(run->journal, loop->problem);
        return r;
}

/* ---- the result ---- */

/* Words for an end whose reason nobody has told more of. */
static void explain(const struct loop *loop) {
        const struct sbx_run_limits *limits = &loop->run->limits;
        static const char hint[] = "The run can go on with a higher limit: resume it.";
        struct sbx_error *problem = loop->problem;

        switch (loop->end) {
        case SBX_RUN_MAX_ITERATIONS:
                sbx_error_set(problem, -ERANGE, SBX_AGENT_ORIGIN, hint,
                              loop->rejected != NULL ? "no answer passed the check within %u iterations"
                                                     : "there was no answer within %u iterations",
                              limits->max_iterations);
                break;
        case SBX_RUN_TOKEN_BUDGET:
                sbx_error_set(problem, -ERANGE, SBX_AGENT_ORIGIN, hint, "the budget of %llu tokens is used up",
                              (unsigned long long)limits->token_budget);
                break;
        case SBX_RUN_TOOL_BUDGET:
                sbx_error_set(problem, -ERANGE, SBX_AGENT_ORIGIN, hint, "the budget of %u tool calls is used up",
                              limits->tool_budget);
                break;
        case SBX_RUN_MAX_SUBCALLS:
                sbx_error_set(problem, -ERANGE, SBX_AGENT_ORIGIN, hint, "the budget of %u model calls is used up",
                              limits->max_subcalls);
                break;
        case SBX_RUN_COST_LIMIT:
                sbx_error_set(problem, -ERANGE, SBX_AGENT_ORIGIN, hint, "the cost limit of $%.2f is reached",
                              limits->cost_usd);
                break;
        case SBX_RUN_TIMEOUT:
                sbx_error_set(problem, -ETIMEDOUT, SBX_AGENT_ORIGIN, hint, "the time limit of %.1f s is reached",
                              (double)limits->timeout_ms / 1000);
                break;
        case SBX_RUN_CANCELLED:
                sbx_error_set(problem, -ECANCELED, SBX_AGENT_ORIGIN, NULL, "the run was cancelled");
                break;
        case SBX_RUN_OK:
                break;
        default:
                sbx_error_set(problem, -EIO, SBX_AGENT_ORIGIN, NULL, "the run failed");
        }
}

static const char *source_of(const struct loop *loop) {
        if (loop->end == SBX_RUN_OK)
                return loop->source;
        return loop->end == SBX_RUN_FAILED || loop->end == SBX_RUN_CANCELLED ? "error" : "forced";
}

static int fill_result(struct loop *loop, json_t *result) {
        const char *answer = loop->answer != NULL ? loop->answer : loop->best != NULL ? loop->best : "";
        bool agent = loop->run->kind == SBX_RUN_AGENT;
        _cleanup_json_ json_t *members = NULL, *text = sbx_json_text((struct sbx_bytes){answer, strlen(answer)});
        json_t *validated = loop->attempts == 0 ? json_null() : json_boolean(loop->check.passed);

        if (text == NULL)
                return no_memory(loop);
        members = json_pack("{s:O, s:s, s:i, s:b, s:o, s:o}", agent ? "answer" : "response", text, "answer_source",
                            source_of(loop), "iterations", (int)loop->iteration, "forced_termination",
                            loop->end != SBX_RUN_OK && loop->end != SBX_RUN_FAILED, "validated", validated, "check",
                            loop->attempts == 0 ? json_null()
                                                : json_pack("{s:s, s:s, s:i}", "end", loop->check.end, "output",
                                                            loop->check.output, "attempts", (int)loop->attempts));
        if (members == NULL || json_object_update(result, members) < 0)
                return no_memory(loop);
        return agent && json_object_set(result, "iteration_summaries", loop->summaries) < 0 ? no_memory(loop) : 0;
}

int sbx_agent_loop(struct sbx_run *run, const json_t *request, json_t *result, enum sbx_run_end *ret_end,
                   struct sbx_error *problem) {
        __attribute__((cleanup(loop_clear))) struct loop loop = {
                .run = run,
                .request = request,
                .task = json_string_value(json_object_get(request, "prompt")),
                .check_code = json_string_value(json_object_get(request, "check")),
                .actions = json_array(),
                .summaries = json_array(),
                .problem = problem,
        };
        int r = loop.actions != NULL && loop.summaries != NULL ? 0 : no_memory(&loop);

        while (r == 0 && !loop.done) {
                enum sbx_run_end end = check_limits(&loop);

                if (end != SBX_RUN_OK)
                        end_loop(&loop, end);
                else
                        r = iterate(&loop);
        }
        if (r == -ENOMEM)
                return r;
        if (r < 0) /* the journal, or the sessions: what was reached so far is the result */
                end_loop(&loop, end_of_error(r));
        explain(&loop);
        r = fill_result(&loop, result);
        if (r == 0)
                *ret_end = loop.end;
        return r;
}
