/* SPDX-License-Identifier: Apache-2.0 */
/* Sub-calls: completions that a completion, or its code, asks for. Each has a part of the budget of whoever asked. */
#include "agent/subcalls.h"

#include "agent/messages.h"
#include "agent/response.h"
#include "agent/workers.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define TIMEOUT_MS UINT64_C(60000) /* as in snipara-sandbox 2.2.7, and the two below */
#define TOOLS_MAX 10u
#define CALLS_MAX 4u
#define CONTEXT_TOKENS_MAX UINT64_C(4000)
#define CONTEXT_TOOL "snipara_context_query"

/* Queries that are being asked. What is refused has a result, and `asked` is false. */
struct batch {
        const struct sbx_place *place;
        const struct sbx_query *queries;
        uint64_t tokens; /* of each */
        double cost_usd; /* of all, what is left for sub-calls */
        json_t **results;
        bool *asked;
        int *codes; /* negative: the run can't go on */
};

/* One of them, while it is asked. */
struct sub {
        const struct sbx_query *query;
        struct sbx_place place;
        struct sbx_budget budget;
        struct sbx_call call;
        struct sbx_sub_answer answer;
        char key[SBX_JOURNAL_KEY_MAX], *principal;
};

bool sbx_subcalls_possible(const struct sbx_place *place) {
        return place->run->sub_calls && place->depth + 1 < place->run->limits.max_depth;
}

/* ---- results ---- */

static json_t *failure(const char *error, enum sbx_run_end end, uint64_t tokens, double cost_usd) {
        return json_pack("{s:n, s:s, s:s, s:I, s:o}", "response", "error", error, "end", sbx_run_end_name(end),
                         "tokens_used", (json_int_t)tokens, "cost", cost_usd >= 0 ? json_real(cost_usd) : json_null());
}

static json_t *outcome(const struct sub *sub, const struct sbx_completion *completion) {
        uint64_t tokens = sub->budget.tokens_in + sub->budget.tokens_out;
        double cost_usd = sub->budget.cost_unknown ? -1 : sub->budget.cost_usd;
        json_t *result;

        if (completion->end == SBX_RUN_OK)
                return json_pack("{s:s, s:I, s:o, s:i, s:s}", "response", completion->text, "tokens_used",
                                 (json_int_t)tokens, "cost", cost_usd >= 0 ? json_real(cost_usd) : json_null(), "calls",
                                 (int)sub->budget.calls, "finish_reason", completion->finish_reason);
        result =
                failure(completion->problem.code != 0 ? completion->problem.message : sbx_run_end_name(completion->end),
                        completion->end, tokens, cost_usd);
        if (result != NULL && completion->text[0] != '\0' &&
            json_object_set_new(result, "partial", json_string(completion->text)) < 0) {
                json_decref(result);
                return NULL;
        }
        return result;
}

/* ---- one query ---- */

/* What the context sources know of the query's subject; nothing when they can't say. */
static int add_context(const struct sub *sub, char **ret_system, struct sbx_error *err) {
        const char *system = sub->query->system != NULL ? sub->query->system : "";
        uint64_t tokens = sbx_budget_tokens_left((struct sbx_budget *)&sub->budget) / 2;
        _cleanup_json_ json_t *arguments = NULL, *result = NULL, *text = NULL;
        struct sbx_place place = sub->place;
        char key[SBX_JOURNAL_KEY_MAX];
        bool is_error = false;
        int r = sbx_key_make(key, err, sub->key, ".context");

        if (r < 0)
                return r;
        place.key = key;
        if (sbx_tools_check(sub->place.run->parts->tools, CONTEXT_TOOL, SBX_CALLER_MODEL, NULL) < 0) {
                sbx_run_notice(sub->place.run, "A context_query was not asked: no context source offers %s.",
                               CONTEXT_TOOL);
                *ret_system = strdup(system);
                return *ret_system != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
        }
        if (tokens > CONTEXT_TOKENS_MAX)
                tokens = CONTEXT_TOKENS_MAX;
        arguments = json_pack("{s:s, s:I}", "query", sub->query->context_query, "max_tokens",
                              (json_int_t)(tokens > 100 ? tokens : 100));
        if (arguments == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_run_tool(&place, CONTEXT_TOOL, arguments, SBX_CALLER_MODEL, &result, err);
        if (r < 0)
                return r;
        text = sbx_messages_result_text(result, &is_error);
        if (text == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (is_error) {
                sbx_run_notice(sub->place.run, "A context_query failed: %.300s", json_string_value(text));
                *ret_system = strdup(system);
        } else if (asprintf(ret_system, "%s%sRelevant context:\n%s", system, system[0] != '\0' ? "\n\n" : "",
                            json_string_value(text)) < 0) {
                *ret_system = NULL;
        }
        return *ret_system != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static void bound_call(struct sub *sub, const struct sbx_call *outer) {
        uint64_t deadline_ns = sbx_clock_deadline_ms(TIMEOUT_MS);

        sub->call = (struct sbx_call){.struct_size = sizeof(sub->call),
                                      .cancel_fd = outer != NULL ? outer->cancel_fd : -1,
                                      .deadline_ns = deadline_ns};
        if (outer != NULL && outer->deadline_ns != 0 && outer->deadline_ns < deadline_ns)
                sub->call.deadline_ns = outer->deadline_ns;
}

static int open_sub(const struct batch *batch, size_t index, struct sub *sub, struct sbx_error *err) {
        const struct sbx_place *place = batch->place;
        const struct sbx_run_limits *limits = &place->run->limits;
        uint64_t tokens = batch->tokens;
        int r;

        *sub = (struct sub){.query = &batch->queries[index], .place = *place};
        r = sbx_key_make(sub->key, err, place->key, ".q%zu", index);
        if (r < 0)
                return r;
        /* Of a completion with tools it bounds all that it uses, as in 2.2.7; of a plain query, its answer. */
        if (sub->query->with_tools && sub->query->max_tokens > 0 && sub->query->max_tokens < tokens)
                tokens = sub->query->max_tokens;
        if (sub->query->own_sessions &&
            asprintf(&sub->principal, "%s/%s", place->run->session_principal, sub->key) < 0) {
                sub->principal = NULL;
                return SBX_NOMEM(err, ORIGIN);
        }
        bound_call(sub, sbx_place_call(place));
        sbx_budget_init(&sub->budget, place->budget, tokens,
                        limits->tool_budget < TOOLS_MAX ? limits->tool_budget : TOOLS_MAX,
                        limits->max_subcalls < CALLS_MAX ? limits->max_subcalls : CALLS_MAX, batch->cost_usd);
        sub->place.budget = &sub->budget;
        sub->place.key = sub->key;
        sub->place.depth = place->depth + 1;
        sub->place.call = &sub->call;
        sub->place.sub_call_type = sub->query->type;
        sub->place.answer = &sub->answer;
        sub->place.answer_tokens = sub->query->with_tools ? 0 : sub->query->max_tokens;
        if (sub->principal != NULL)
                sub->place.principal = sub->principal;
        return 0;
}

static void close_sub(struct sub *sub) {
        if (sub->principal != NULL)
                sbx_sessions_destroy_all(sub->place.run->parts->sessions, sub->principal);
        free(sub->principal);
        free(sub->answer.text);
        if (sub->place.budget == &sub->budget)
                sbx_budget_destroy(&sub->budget);
}

/* What sub-calls cost the run. What is below one of them is in its own cost already. */
static void count_cost(const struct sbx_place *asker, const struct sub *sub) {
        if (asker->depth > 0)
                return;
        SBX_LOCKED(&asker->run->lock);
        asker->run->sub_call_cost_usd += sub->budget.cost_usd;
}

static int ask(const struct batch *batch, size_t index, json_t **ret_result, struct sbx_error *err) {
        __attribute__((cleanup(sbx_completion_clear))) struct sbx_completion completion = {0};
        __attribute__((cleanup(close_sub))) struct sub sub = {0};
        _cleanup_free_ char *system = NULL;
        const struct sbx_query *query = &batch->queries[index];
        int r = open_sub(batch, index, &sub, err);

        if (r == 0 && query->context_query != NULL && query->context_query[0] != '\0')
                r = add_context(&sub, &system, err);
        if (r == 0)
                r = sbx_complete(&sub.place, system != NULL ? system : query->system, query->prompt, query->with_tools,
                                 &completion, err);
        if (r < 0)
                return r;
        count_cost(batch->place, &sub);
        *ret_result = outcome(&sub, &completion);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static void ask_job(void *data, size_t index) {
        struct batch *batch = data;
        struct sbx_error problem = {0};

        if (!batch->asked[index])
                return;
        batch->codes[index] = ask(batch, index, &batch->results[index], &problem);
        if (batch->codes[index] < 0 && batch->codes[index] != -ENOMEM) {
                /* A journal that can't be written, a key that is too long: the query's own failure. The run itself will
                 * meet it again. */
                batch->results[index] = failure(problem.message, SBX_RUN_FAILED, 0, -1);
                batch->codes[index] = batch->results[index] != NULL ? 0 : -ENOMEM;
        }
}

/* ---- limits ---- */

static double cost_left(struct sbx_run *run) {
        double left;

        SBX_LOCKED(&run->lock);
        left = run->limits.sub_call_cost_usd - run->sub_call_cost_usd;
        return left > 0 ? left : 0;
}

static bool take_sub_call(const struct sbx_place *place) {
        SBX_LOCKED(&place->run->lock);
        if (place->sub_calls_of_turn == NULL)
                return true;
        if (*place->sub_calls_of_turn >= place->run->limits.sub_calls_per_turn)
                return false;
        ++*place->sub_calls_of_turn;
        return true;
}

/* In the order of the queries, so that it is the same in each life of the run. NULL result: it may be asked. */
static json_t *refusal(const struct batch *batch) {
        const struct sbx_run_limits *limits = &batch->place->run->limits;
        char text[128];

        if (!sbx_subcalls_possible(batch->place))
                return failure("sub-calls are switched off, or the limit of depth (max_depth) is reached",
                               SBX_RUN_MAX_DEPTH, 0, 0);
        if (batch->cost_usd <= 0)
                return failure("the cost limit of sub-calls (sub_calls_max_cost_per_session) is reached",
                               SBX_RUN_COST_LIMIT, 0, 0);
        if (!take_sub_call(batch->place)) {
                snprintf(text, sizeof(text), "the limit of %u sub-calls a turn (sub_calls_max_per_turn) is reached",
                         limits->sub_calls_per_turn);
                return failure(text, SBX_RUN_MAX_SUBCALLS, 0, 0);
        }
        return NULL;
}

static uint64_t inherited(const struct sbx_place *place, uint64_t total_tokens) {
        double part =
                sbx_settings_get(sbx_config_core(place->run->parts->config), "sub_calls_budget_inheritance")->real;
        uint64_t left = sbx_budget_tokens_left(place->budget), tokens = (uint64_t)((double)left * part);

        return total_tokens > 0 && total_tokens < tokens ? total_tokens : tokens;
}

static int admit(struct batch *batch, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (batch->place->replay) { /* what was not asked then has no record, and comes to nothing */
                        batch->asked[i] = true;
                        continue;
                }
                batch->results[i] = refusal(batch);
                batch->asked[i] = batch->results[i] == NULL;
        }
        return 0;
}

static int collect(const struct batch *batch, size_t count, json_t *ret_results) {
        for (size_t i = 0; i < count; i++)
                if (batch->codes[i] < 0 || batch->results[i] == NULL ||
                    json_array_append(ret_results, batch->results[i]) < 0)
                        return -ENOMEM;
        return 0;
}

int sbx_queries_ask(const struct sbx_place *place, const struct sbx_query *queries, size_t count, unsigned max_parallel,
                    uint64_t total_tokens, json_t *ret_results, struct sbx_error *err) {
        _cleanup_free_ json_t **results = calloc(count + 1, sizeof(json_t *));
        _cleanup_free_ bool *asked = calloc(count + 1, sizeof(bool));
        _cleanup_free_ int *codes = calloc(count + 1, sizeof(int));
        struct batch batch = {.place = place, .queries = queries, .results = results, .asked = asked, .codes = codes};
        int r;

        if (results == NULL || asked == NULL || codes == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (count == 0)
                return 0;
        batch.tokens = inherited(place, total_tokens) / count;
        batch.cost_usd = cost_left(place->run);
        admit(&batch, count);
        sbx_workers_run(ask_job, &batch, count, max_parallel > 0 ? max_parallel : 1);
        r = collect(&batch, count, ret_results);
        for (size_t i = 0; i < count; i++)
                json_decref(results[i]);
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}
