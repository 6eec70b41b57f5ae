/* SPDX-License-Identifier: Apache-2.0 */
/* A completion: turns of the model and its tools, until it asks for no more tools, gave its answer, or met a limit. */
#include "agent/messages.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define TURNS_MAX 100000u /* far beyond every budget of model calls: a loop that has an end */

/* The state of one completion. */
struct turns {
        const struct sbx_place *place;
        json_t *messages, *tools;
        struct sbx_completion *completion;
        char *last_text;     /* of the model */
        json_t *last_output; /* of a tool; a string */
        unsigned sub_calls;  /* of the turn */
        bool exhausted;      /* the model was told that the tool budget is used up, and may answer once more */
        bool done;
};

void sbx_completion_clear(struct sbx_completion *completion) {
        free(completion->text);
        json_decref(completion->tool_names);
        *completion = (struct sbx_completion){0};
}

/* ---- the event of a turn ---- */

static json_t *prompt_of(const json_t *messages) {
        return json_incref(json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content"));
}

static void emit_turn(const struct sbx_place *turn, const struct sbx_answer *answer, json_t *prompt,
                      json_t *tool_results) {
        char key[SBX_JOURNAL_KEY_MAX], id[SBX_RUN_ID_SIZE];
        json_t *event;

        if (!sbx_run_observed(turn->run) || sbx_key_make(key, NULL, turn->key, ".model") < 0)
                return;
        sbx_event_id(turn->run, key, id);
        event = json_pack("{s:s, s:s?, s:i, s:O, s:s?, s:O, s:O, s:I, s:I, s:I, s:s*, s:s, s:s?, s:s, s:s*}", "call_id",
                          id, "parent_call_id", turn->call_id, "depth", (int)turn->depth, "prompt", prompt, "response",
                          answer->text, "tool_calls", answer->tool_calls, "tool_results", tool_results, "input_tokens",
                          (json_int_t)answer->tokens_in, "output_tokens", (json_int_t)answer->tokens_out, "duration_ms",
                          (json_int_t)answer->duration_ms, "timestamp", answer->timestamp, "finish_reason",
                          answer->finish_reason, "model", answer->model, "key", key, "sub_call_type",
                          turn->sub_call_type);
        if (event != NULL &&
            json_object_set_new(event, "estimated_cost_usd",
                                answer->cost_usd >= 0 ? json_real(answer->cost_usd) : json_null()) < 0) {
                json_decref(event);
                event = NULL;
        }
        sbx_run_emit(turn->run, "completion", event);
}

/* A call that came to nothing has an id of its own: its place may be taken by one that succeeds, when the run is
 * resumed.
 */
static void emit_failure(const struct sbx_place *turn, json_t *prompt, enum sbx_run_end end,
                         const struct sbx_error *problem) {
        char key[SBX_JOURNAL_KEY_MAX], id[SBX_RUN_ID_SIZE];

        if (!sbx_run_observed(turn->run) || turn->replay || sbx_key_make(key, NULL, turn->key, ".model.failed") < 0)
                return;
        sbx_event_id(turn->run, key, id);
        sbx_run_emit(turn->run, "completion",
                     json_pack("{s:s, s:s?, s:i, s:O, s:s, s:s, s:s, s:s*}", "call_id", id, "parent_call_id",
                               turn->call_id, "depth", (int)turn->depth, "prompt", prompt, "error",
                               problem->code != 0 ? problem->message : sbx_run_end_name(end), "end",
                               sbx_run_end_name(end), "key", key, "sub_call_type", turn->sub_call_type));
}

/* ---- ends ---- */

/* The text of the completion: what the model said last, or else what its last tool did. */
static int set_reached(struct turns *turns, struct sbx_error *err) {
        struct sbx_completion *completion = turns->completion;

        if (turns->last_text != NULL)
                completion->text = steal_pointer(turns->last_text);
        else if (turns->last_output != NULL)
                completion->text = sbx_messages_shorten(json_string_value(turns->last_output));
        else
                completion->text = strdup("");
        return completion->text != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static void end_with(struct turns *turns, enum sbx_run_end end) {
        turns->completion->end = end;
        turns->done = true;
}

/* The model answered without asking for a tool. */
static void end_answered(struct turns *turns, const struct sbx_answer *answer) {
        end_with(turns, SBX_RUN_OK);
        if (strcmp(answer->finish_reason, "length") == 0)
                sbx_run_notice(turns->place->run, "The model's answer was cut at its limit of tokens (%s).",
                               turns->place->key);
        else if (strcmp(answer->finish_reason, "content_filter") == 0)
                sbx_run_notice(turns->place->run, "The provider's content filter cut the model's answer (%s).",
                               turns->place->key);
}

static void end_tool_budget(struct turns *turns) {
        sbx_error_set(&turns->completion->problem, -EDQUOT, ORIGIN, "Raise tool_budget, or ask for less at a time.",
                      "the tool budget is used up, and the model asked for more tools instead of answering");
        end_with(turns, SBX_RUN_TOOL_BUDGET);
}

static int end_final(struct turns *turns, struct sbx_error *err) {
        struct sbx_run *run = turns->place->run;
        struct sbx_sub_answer *own = turns->place->answer;
        const char *text;

        pthread_mutex_lock(&run->lock);
        text = own != NULL ? own->text : run->answer;
        turns->completion->text = strdup(text != NULL ? text : "");
        pthread_mutex_unlock(&run->lock);
        turns->completion->final = own == NULL;
        end_with(turns, SBX_RUN_OK);
        return turns->completion->text != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

/* ---- turns ---- */

static int note_answer(struct turns *turns, const struct sbx_answer *answer) {
        json_t *call;
        size_t index;

        turns->completion->finish_reason = answer->finish_reason;
        turns->completion->tool_calls += (unsigned)json_array_size(answer->tool_calls);
        json_array_foreach (answer->tool_calls, index, call)
                if (json_array_append(turns->completion->tool_names, json_object_get(call, "name")) < 0)
                        return -ENOMEM;
        if (answer->text != NULL && answer->text[0] != '\0') {
                free(turns->last_text);
                turns->last_text = strdup(answer->text);
                if (turns->last_text == NULL)
                        return -ENOMEM;
        }
        return json_array_append(turns->messages, answer->message);
}

static void note_results(struct turns *turns, const json_t *tool_results) {
        json_t *last = json_object_get(json_array_get(tool_results, json_array_size(tool_results) - 1), "content");

        if (last == NULL)
                return;
        json_decref(turns->last_output);
        turns->last_output = json_incref(last);
}

static int run_tools(struct turns *turns, const struct sbx_place *turn, const struct sbx_answer *answer, json_t *prompt,
                     struct sbx_error *err) {
        _cleanup_json_ json_t *results = json_array();
        char key[SBX_JOURNAL_KEY_MAX], id[SBX_RUN_ID_SIZE];
        struct sbx_place tools = *turn;
        unsigned refused = 0;
        int r = sbx_key_make(key, err, turn->key, ".model");

        if (r < 0)
                return r;
        if (results == NULL)
                return SBX_NOMEM(err, ORIGIN);
        sbx_event_id(turn->run, key, id);
        tools.call_id = id; /* what tools do stands below the answer that asked for them */
        if (json_array_size(answer->tool_calls) > 0)
                r = sbx_tool_calls_run(&tools, answer, turns->messages, results, &refused, err);
        emit_turn(turn, answer, prompt, results);
        if (r < 0)
                return r;
        note_results(turns, results);
        if (sbx_place_has_answer(turn))
                return end_final(turns, err);
        if (json_array_size(answer->tool_calls) == 0)
                end_answered(turns, answer);
        else if (turns->exhausted)
                end_tool_budget(turns);
        turns->exhausted = turns->exhausted || refused > 0;
        return 0;
}

static int run_turn(struct turns *turns, unsigned number, struct sbx_error *err) {
        const struct sbx_place *place = turns->place;
        __attribute__((cleanup(sbx_answer_clear))) struct sbx_answer answer = {0};
        _cleanup_json_ json_t *prompt = prompt_of(turns->messages);
        struct sbx_error problem = {0};
        struct sbx_place turn = *place;
        char key[SBX_JOURNAL_KEY_MAX];
        enum sbx_run_end end = SBX_RUN_OK;
        int r = sbx_key_make(key, err, place->key, ".%u", number);

        if (r < 0)
                return r;
        turn.key = key;
        if (place->depth == 0) { /* sub-calls are counted by the turns of the run itself */
                turns->sub_calls = 0;
                turn.sub_calls_of_turn = &turns->sub_calls;
        }
        r = sbx_model_ask(&turn, turns->messages, turns->tools, &answer, &end, &problem);
        if (r < 0) {
                if (err != NULL && err->code == 0)
                        *err = problem;
                return r;
        }
        if (end != SBX_RUN_OK) {
                emit_failure(&turn, prompt, end, &problem);
                turns->completion->problem = problem;
                end_with(turns, end);
                return 0;
        }
        if (note_answer(turns, &answer) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return run_tools(turns, &turn, &answer, prompt, err);
}

static int prepare(struct turns *turns, const char *system, const char *prompt, bool with_tools,
                   struct sbx_error *err) {
        turns->messages = sbx_messages_new(system, prompt);
        turns->completion->tool_names = json_array();
        if (turns->messages == NULL || turns->completion->tool_names == NULL)
                return SBX_NOMEM(err, ORIGIN);
        return with_tools ? sbx_messages_tools(turns->place, &turns->tools, err) : 0;
}

int sbx_complete(const struct sbx_place *place, const char *system, const char *prompt, bool with_tools,
                 struct sbx_completion *ret_completion, struct sbx_error *err) {
        struct sbx_completion completion = {.finish_reason = "stop"};
        struct turns turns = {.place = place, .completion = &completion};
        int r = prepare(&turns, system, prompt, with_tools, err);

        for (unsigned number = 1; r == 0 && !turns.done; number++) {
                r = run_turn(&turns, number, err);
                if (r == 0 && !turns.done && number == TURNS_MAX)
                        end_with(&turns, SBX_RUN_MAX_SUBCALLS);
        }
        if (r == 0 && completion.text == NULL)
                r = set_reached(&turns, err);
        json_decref(turns.messages);
        json_decref(turns.tools);
        json_decref(turns.last_output);
        free(turns.last_text);
        if (r < 0) {
                sbx_completion_clear(&completion);
                return r;
        }
        *ret_completion = completion;
        return 0;
}
