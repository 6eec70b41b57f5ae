/* SPDX-License-Identifier: Apache-2.0 */
/* One tool call of a run, once: from the journal if it is there, else done and recorded; and the event of an execution.
 */
#include "agent/code_calls.h"
#include "agent/messages.h"
#include "agent/subcalls.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define RESULT_MAX ((size_t)64 << 20) /* bytes, as core/tools makes them */

enum effect {
        EFFECT_EXECUTION, /* its session is gone with the process that had it: it can be done again */
        EFFECT_SESSION,   /* looks at, or changes, a session's variables: likewise */
        EFFECT_SUBCALL,   /* what it is made of has records of its own */
        EFFECT_FINAL,     /* nothing but the answer */
        EFFECT_READ,
        EFFECT_ADDITION, /* adds something, or comes to the same when it is done twice: that may happen, and is said */
        EFFECT_OTHER,    /* must not happen twice without being said */
};

static bool is_one_of(const char *name, const char *const *names) {
        for (; *names != NULL; names++)
                if (strcmp(*names, name) == 0)
                        return true;
        return false;
}

static bool changes_session(const char *name) {
        static const char *const names[] = {"set_repl_context", "clear_repl_context", "destroy_session", NULL};

        return is_one_of(name, names);
}

/* What the tool's annotations say. None: it may do anything. */
static enum effect annotated_effect(const struct sbx_place *place, const char *name, enum sbx_tool_caller caller) {
        _cleanup_json_ json_t *list = NULL;
        const json_t *tool, *annotations;
        size_t index;

        if (sbx_tools_list_for(place->run->parts->tools, caller, &list, NULL) < 0)
                return EFFECT_OTHER;
        json_array_foreach (list, index, tool) {
                if (strcmp(json_string_value(json_object_get(tool, "name")), name) != 0)
                        continue;
                annotations = json_object_get(tool, "annotations");
                if (json_is_true(json_object_get(annotations, "readOnlyHint")))
                        return EFFECT_READ;
                return json_is_false(json_object_get(annotations, "destructiveHint")) ||
                                       json_is_true(json_object_get(annotations, "idempotentHint"))
                               ? EFFECT_ADDITION
                               : EFFECT_OTHER;
        }
        return EFFECT_OTHER;
}

static enum effect effect_of(const struct sbx_place *place, const char *name, enum sbx_tool_caller caller) {
        static const char *const readers[] = {"get_repl_context", "list_sessions", NULL};
        const char *language;
        json_t *code;

        if (sbx_tools_code_of(name, NULL, &code, &language))
                return EFFECT_EXECUTION;
        if (changes_session(name) || is_one_of(name, readers))
                return EFFECT_SESSION;
        if (sbx_is_final_tool(name))
                return EFFECT_FINAL;
        if (sbx_is_subcall_tool(name))
                return EFFECT_SUBCALL;
        return annotated_effect(place, name, caller);
}

/* ---- the event of an execution ---- */

static json_t *first_line(const json_t *text) {
        const char *line = json_string_value(text);

        return sbx_json_text((struct sbx_bytes){line, strcspn(line, "\n")});
}

static json_t *repl_result(const json_t *facts, json_t *text, bool is_error) {
        return json_pack("{s:O, s:o, s:I, s:b, s:O*, s:I}", "output", text, "error",
                         is_error ? first_line(text) : json_null(), "execution_time_ms",
                         (json_int_t)json_number_value(json_object_get(facts, "duration_ms")), "truncated",
                         json_integer_value(json_object_get(facts, "dropped_bytes")) > 0, "memory_peak_bytes",
                         json_object_get(facts, "memory_peak_bytes"), "cpu_time_ms",
                         (json_int_t)json_number_value(json_object_get(facts, "cpu_ms")));
}

static json_t *execution_event(const struct sbx_place *place, const json_t *record) {
        const json_t *result = json_object_get(record, "result"), *arguments = json_object_get(record, "arguments");
        const json_t *facts = json_object_get(json_object_get(result, "_meta"), "snipara-sandbox/execution");
        json_t *code = NULL, *profile = json_object_get(arguments, "profile");
        const char *language = NULL;
        char id[SBX_RUN_ID_SIZE], digest[SBX_SHA256_TEXT_SIZE];
        _cleanup_json_ json_t *text = NULL, *repl = NULL;
        bool is_error = false;

        text = sbx_messages_result_text(result, &is_error);
        repl = text != NULL ? repl_result(facts, text, is_error) : NULL;
        if (repl == NULL)
                return NULL;
        sbx_event_id(place->run, place->key, id);
        (void)sbx_tools_code_of(json_string_value(json_object_get(record, "name")), arguments, &code, &language);
        sbx_sha256_text((struct sbx_bytes){json_string_value(text), json_string_length(text)}, digest);
        return json_pack("{s:s, s:s?, s:i, s:O*, s:O, s:[O], s:O*, s:O*, s:O, s:s, s:s, s:O*, s:O*, s:O*, s:O*, s:O*, "
                         "s:O, s:O*, s:O*, s:s*}",
                         "call_id", id, "parent_call_id", place->call_id, "depth", (int)place->depth, "prompt", code,
                         "response", text, "repl_results", repl, "duration_ms", json_object_get(record, "duration_ms"),
                         "timestamp", json_object_get(record, "timestamp"), "error", json_object_get(repl, "error"),
                         "key", place->key, "output_sha256", digest, "session_id",
                         json_object_get(record, "session_id"), "end", json_object_get(record, "end"), "state",
                         json_object_get(record, "state"), "isolation", json_object_get(facts, "isolation"), "profile",
                         profile, "tool", json_object_get(record, "name"), "principal",
                         json_object_get(record, "principal"), "timeout", json_object_get(arguments, "timeout"),
                         "language", language);
}

static void emit_execution(const struct sbx_place *place, const json_t *record) {
        if (sbx_run_observed(place->run))
                sbx_run_emit(place->run, "execution", execution_event(place, record));
}

/* ---- doing ---- */

/* The parts of a call that is being done. */
struct effort {
        const struct sbx_place *place;
        const char *name;
        json_t *arguments;
        enum sbx_tool_caller caller;
        enum effect effect;
        uint64_t begin_ns;
        char timestamp[SBX_TIMESTAMP_SIZE];
        unsigned calls; /* that code made */
};

/* 0 and a result, whatever it says; -ENOMEM. */
static int call_registry(struct effort *effort, const struct sbx_code_calls *calls, const struct sbx_call *call,
                         json_t **ret_result, struct sbx_error *err) {
        const struct sbx_place *place = effort->place;
        struct sbx_tool_context context = {.principal = place->principal,
                                           .caller = effort->caller,
                                           .run = (void *)place,
                                           .code_calls = calls,
                                           .call = call,
                                           .environment = place->run->environment};
        _cleanup_buffer_ struct sbx_buffer arguments = SBX_BUFFER(RESULT_MAX), result = SBX_BUFFER(RESULT_MAX);
        struct sbx_error problem = {0};
        int r = effort->arguments != NULL ? sbx_json_encode(effort->arguments, &arguments) : 0;

        if (r == 0)
                r = sbx_tools_call(place->run->parts->tools, effort->name, sbx_buffer_bytes(&arguments), &context,
                                   &result, &problem);
        if (r == 0)
                r = sbx_json_parse(sbx_buffer_bytes(&result), RESULT_MAX, "tool result", ret_result, &problem);
        if (r == -ENOMEM)
                return SBX_NOMEM(err, ORIGIN);
        if (r == 0)
                return 0;
        sbx_error_set(&problem, r, ORIGIN, NULL, "%s can't be called: %s", effort->name, SBX_ERRNO_TEXT(r));
        *ret_result = sbx_content_error(&problem);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int execute(struct effort *effort, json_t **ret_result, struct sbx_error *err) {
        struct sbx_place place = *effort->place;
        struct sbx_code_context context;
        char id[SBX_RUN_ID_SIZE];
        int r;

        sbx_event_id(place.run, place.key, id);
        place.call_id = id;
        r = sbx_code_context_init(&context, &place, err);
        if (r < 0)
                return r;
        r = call_registry(effort, &context.calls, &context.call, ret_result, err);
        effort->calls = context.count;
        if (context.flooded)
                sbx_run_notice(place.run, "Code was stopped: it called back more than %u times (%s).",
                               SBX_CODE_CALLS_MAX, place.key);
        sbx_code_context_destroy(&context);
        return r;
}

int sbx_record_checkpoint(json_t *record, const json_t *checkpoint) {
        json_t *id = json_object_get(checkpoint, "id");

        return json_is_string(id) && json_is_true(json_object_get(checkpoint, "durable"))
                       ? json_object_set(record, "checkpoint", id)
                       : 0;
}

static json_t *make_record(const struct effort *effort, json_t *result) {
        const json_t *facts = json_object_get(json_object_get(result, "_meta"), "snipara-sandbox/execution");
        bool execution = effort->effect == EFFECT_EXECUTION;
        json_t *record = json_pack("{s:s, s:s, s:O*, s:O, s:s, s:s, s:I}", "type", execution ? "execution" : "tool",
                                   "name", effort->name, "arguments", effort->arguments, "result", result, "principal",
                                   effort->place->principal, "timestamp", effort->timestamp, "duration_ms",
                                   (json_int_t)((sbx_clock_ns() - effort->begin_ns) / SBX_NS_PER_MS));
        int r = record != NULL ? 0 : -1;

        if (r == 0 && execution)
                r = json_object_set_new(record, "calls", json_integer(effort->calls));
        for (size_t i = 0; r == 0 && execution && i < 3; i++) {
                static const char *const members[] = {"session_id", "end", "state"};
                json_t *member = json_object_get(facts, members[i]);

                if (member != NULL)
                        r = json_object_set(record, members[i], member);
        }
        if (r == 0 && execution)
                r = sbx_record_checkpoint(record, json_object_get(facts, "checkpoint"));
        if (r == 0 && changes_session(effort->name))
                r = json_object_set_new(record, "session", json_true());
        if (r < 0) {
                json_decref(record);
                return NULL;
        }
        return record;
}

/* It was begun in an earlier life, and not heard of since. */
static int give_up(const struct effort *effort, json_t **ret_result, struct sbx_error *err) {
        sbx_run_notice(
                effort->place->run,
                "The tool %s was called when the run was interrupted. Whether it did its work is not known; it was "
                "not called again (%s).",
                effort->name, effort->place->key);
        *ret_result = sbx_content_text(true, "Error: the run was interrupted during this call. It may or may not have "
                                             "happened, and was not made again. Check before you repeat it.");
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int perform(struct effort *effort, json_t **ret_result, struct sbx_error *err) {
        const struct sbx_place *place = effort->place;
        struct sbx_journal *journal = place->run->journal;
        int r = 0;

        if (effort->effect == EFFECT_EXECUTION)
                return execute(effort, ret_result, err);
        if (effort->effect == EFFECT_OTHER && sbx_journal_was_begun(journal, place->key))
                return give_up(effort, ret_result, err);
        if (effort->effect == EFFECT_ADDITION && sbx_journal_was_begun(journal, place->key))
                sbx_run_notice(
                        place->run,
                        "The tool %s was called when the run was interrupted, and was called again now: what it adds "
                        "may be there twice (%s).",
                        effort->name, place->key);
        if (effort->effect == EFFECT_OTHER || effort->effect == EFFECT_ADDITION)
                r = sbx_journal_begin(journal, place->key, err);
        return r < 0 ? r : call_registry(effort, NULL, sbx_place_call(place), ret_result, err);
}

static int perform_and_record(struct effort *effort, json_t **ret_result, struct sbx_error *err) {
        struct sbx_place place = *effort->place;
        _cleanup_json_ json_t *result = NULL, *record = NULL;
        char cut_key[SBX_JOURNAL_KEY_MAX];
        int r = perform(effort, &result, err);

        if (r < 0)
                return r;
        record = make_record(effort, result);
        if (record == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (sbx_place_ended(&place) == 0 || !json_is_true(json_object_get(result, "isError"))) {
                r = sbx_journal_add(place.run->journal, place.key, record, err);
        } else { /* what the end of the run cut short is done anew when the run is resumed, and is another event then */
                r = sbx_key_make(cut_key, err, place.key, ".cut");
                place.key = cut_key;
        }
        if (r < 0)
                return r;
        if (effort->effect == EFFECT_EXECUTION)
                emit_execution(&place, record);
        *ret_result = steal_pointer(result);
        return 0;
}

/* ---- an earlier life of the run did it ---- */

/* What is below the call is counted and told again. */
static int walk(struct effort *effort, const json_t *record, struct sbx_error *err) {
        struct sbx_place place = *effort->place;
        _cleanup_json_ json_t *ignored = NULL;
        char id[SBX_RUN_ID_SIZE];
        int r = 0;

        place.replay = true;
        if (effort->effect == EFFECT_EXECUTION) {
                sbx_event_id(place.run, place.key, id);
                place.call_id = id;
                r = sbx_code_calls_recall(&place, (unsigned)json_integer_value(json_object_get(record, "calls")), err);
                emit_execution(effort->place, record);
        } else if (effort->effect == EFFECT_SUBCALL) {
                effort->place = &place;
                r = call_registry(effort, NULL, sbx_place_call(&place), &ignored, err);
        }
        return r;
}

static int recall(struct effort *effort, const json_t *record, json_t **ret_result, struct sbx_error *err) {
        json_t *result = json_object_get(record, "result");
        const char *name = json_string_value(json_object_get(record, "name"));
        int r;

        if (!json_is_object(result) || name == NULL || strcmp(name, effort->name) != 0)
                return sbx_error_set(err, -EBADMSG, ORIGIN, NULL,
                                     "the journal's record %s is not that of a call of %.64s", effort->place->key,
                                     effort->name);
        r = walk(effort, record, err);
        if (r == 0)
                *ret_result = json_incref(result);
        return r;
}

int sbx_run_tool(const struct sbx_place *place, const char *name, json_t *arguments, enum sbx_tool_caller caller,
                 json_t **ret_result, struct sbx_error *err) {
        struct effort effort = {.place = place,
                                .name = name,
                                .arguments = arguments,
                                .caller = caller,
                                .effect = effect_of(place, name, caller),
                                .begin_ns = sbx_clock_ns()};
        _cleanup_json_ json_t *record = NULL;
        int r = 0;

        sbx_clock_timestamp(effort.timestamp);
        if (effort.effect == EFFECT_FINAL) /* has no effect but the answer, which a resumed run needs again */
                return call_registry(&effort, NULL, sbx_place_call(place), ret_result, err);
        record = sbx_journal_find(place->run->journal, place->key);
        if (record != NULL)
                return recall(&effort, record, ret_result, err);
        if (place->replay) {
                *ret_result = sbx_content_text(true, "Error: not done in an earlier life of the run.");
                return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
        }
        if (sbx_journal_resumed(place->run->journal) &&
            (effort.effect == EFFECT_EXECUTION || effort.effect == EFFECT_SESSION))
                r = sbx_run_restore_sessions(place->run, err);
        return r < 0 ? r : perform_and_record(&effort, ret_result, err);
}
