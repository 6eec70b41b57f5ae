/* SPDX-License-Identifier: Apache-2.0 */
/* Does a recorded step again, in this process: code that calls back gets the answers that were recorded. */
#include <stdlib.h>

#include "agent/messages.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/logs_steps.h"
#include "session/session.h"
#include "tools/render.h"

#define ORIGIN "replay"
#define ANSWER_MAX ((size_t)32 << 20)
#define PART_BYTES ((size_t)2 << 20) /* six times that, when all of it is escaped, fits into a frame */
#define CHECK_TIMEOUT_MS 120000u     /* as core/agent gives it */

/* ---- calls that the code makes ---- */

struct answers {
        struct sbx_runtime *runtime;
        const struct sbx_logs_events *events;
        size_t next; /* the next recorded call */
        unsigned count;
        char *difference; /* of the outcome: `calls` */
        size_t difference_size;
};

SBX_PRINTF(2, 3)
static void differs(struct answers *answers, const char *format, ...) {
        va_list args;

        if (answers->difference[0] != '\0')
                return;
        va_start(args, format);
        vsnprintf(answers->difference, answers->difference_size, format, args);
        va_end(args);
        sbx_error_trim_(answers->difference, answers->difference_size);
}

static void skip_others(struct answers *answers) {
        while (answers->next != SBX_LOGS_NONE &&
               !sbx_logs_is(answers->events->items[answers->next].object, "event", "tool_call"))
                answers->next = answers->events->items[answers->next].next;
}

static int list_tools(struct sbx_runtime *runtime, struct sbx_buffer *out, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL, *tools = json_array(), *result = NULL;
        const json_t *tool;
        size_t index;
        int r = sbx_tools_list_for(runtime->tools, SBX_CALLER_CODE, &list, err);

        json_array_foreach (list, index, tool)
                if (r == 0 &&
                    json_array_append_new(tools, json_pack("{s:O, s:O}", "name", json_object_get(tool, "name"),
                                                           "description", json_object_get(tool, "description"))) < 0)
                        r = SBX_NOMEM(err, ORIGIN);
        result = r == 0 ? json_pack("{s:O}", "tools", tools) : NULL;
        if (r == 0 && (result == NULL || sbx_json_encode(result, out) < 0))
                r = SBX_NOMEM(err, ORIGIN);
        return r;
}

static bool is_built_in(const char *name) {
        static const char *const names[] = {"llm_query", "llm_batch", "FINAL", "FINAL_VAR"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* The value that the code got: kept as "result", or to be made of the text that was. */
static int recorded_answer(struct answers *answers, const json_t *event, const char *name, struct sbx_buffer *out,
                           struct sbx_error *err) {
        const json_t *kept = json_object_get(event, "result");
        const json_t *result = json_array_get(json_object_get(event, "tool_results"), 0);
        const char *content = sbx_logs_text(result, "content");
        _cleanup_json_ json_t *made = NULL;
        bool failed = json_is_true(json_object_get(result, "is_error"));
        int r;

        if (json_is_true(json_object_get(event, "result_omitted"))) {
                differs(answers, "the answer to call %u, %s, was too large to be recorded", answers->count, name);
                return sbx_error_set(err, -ENODATA, ORIGIN, NULL, "the answer of %s is not recorded", name);
        }
        if (kept == NULL && is_built_in(name) && failed)
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "%s", content);
        if (kept == NULL && is_built_in(name)) {
                if (sbx_json_parse_any((struct sbx_bytes){content, strlen(content)}, ANSWER_MAX, "answer", &made,
                                       NULL) < 0)
                        differs(answers, "the answer to call %u, %s, is not recorded whole", answers->count, name);
        } else if (kept == NULL) {
                made = json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text", content, "isError",
                                 (int)failed);
        }
        kept = kept != NULL ? kept : made;
        if (kept == NULL)
                return sbx_error_set(err, -ENODATA, ORIGIN, NULL, "the recorded answer of %s is not whole", name);
        r = sbx_json_encode(kept, out);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the recorded answer of %s is too large", name) : 0;
}

static void compare_arguments(struct answers *answers, const char *name, struct sbx_bytes arguments,
                              const json_t *recorded) {
        _cleanup_json_ json_t *parsed = NULL, *brief = NULL;

        if (arguments.size > 0 && sbx_json_parse(arguments, ANSWER_MAX, "arguments", &parsed, NULL) == 0)
                brief = sbx_messages_brief(parsed);
        if (brief != NULL && recorded != NULL && !json_equal(brief, recorded) && !json_equal(parsed, recorded))
                differs(answers, "call %u, %s, has other arguments", answers->count, name);
}

static int answer(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                  struct sbx_buffer *ret_result, struct sbx_error *err) {
        struct answers *answers = data;
        const json_t *event, *recorded;

        (void)call;
        if (strcmp(name, "__list__") == 0)
                return list_tools(answers->runtime, ret_result, err);
        answers->count++;
        skip_others(answers);
        if (answers->next == SBX_LOGS_NONE) {
                differs(answers, "call %u, %.64s, was not made in the recorded run", answers->count, name);
                return sbx_error_set(err, -ENODATA, ORIGIN, NULL, "%.64s was not called here in the recorded run",
                                     name);
        }
        event = answers->events->items[answers->next].object;
        recorded = json_array_get(json_object_get(event, "tool_calls"), 0);
        if (!sbx_logs_is(recorded, "name", name)) {
                differs(answers, "call %u is of %.64s, and was of %.64s", answers->count, name,
                        sbx_logs_text(recorded, "name"));
                return sbx_error_set(err, -ENODATA, ORIGIN, NULL, "%.64s was not called here in the recorded run",
                                     name);
        }
        answers->next = answers->events->items[answers->next].next;
        compare_arguments(answers, name, arguments, json_object_get(recorded, "arguments"));
        return recorded_answer(answers, event, name, ret_result, err);
}

/* ---- executions ---- */

char *sbx_logs_principal(const char *recorded) {
        char *principal = NULL;

        return asprintf(&principal, "replay:%s", recorded) > 0 ? principal : NULL;
}

static json_t *arguments_of(const json_t *object, const char *tool) {
        static const char *const members[] = {"session_id", "profile", "timeout"};
        const char *language = sbx_logs_text(object, "language");
        bool bash = strcmp(tool, "execute_bash") == 0;
        json_t *arguments = json_pack("{s:O}", bash ? "command" : "code", json_object_get(object, "prompt"));

        if (!bash && language[0] != '\0' && json_object_set_new(arguments, "language", json_string(language)) < 0) {
                json_decref(arguments);
                return NULL;
        }
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && strcmp(tool, "execute") != 0; i++) {
                json_t *value = json_object_get(object, members[i]);

                if (value != NULL && !json_is_null(value) && json_object_set(arguments, members[i], value) < 0) {
                        json_decref(arguments);
                        return NULL;
                }
        }
        return arguments;
}

static int call_tool(struct sbx_runtime *runtime, const char *name, const json_t *arguments,
                     const struct sbx_tool_context *context, json_t **ret_result, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER((size_t)64 << 20), result = SBX_BUFFER((size_t)64 << 20);
        int r = arguments != NULL ? sbx_json_encode(arguments, &json) : -ENOMEM;

        if (r == 0)
                r = sbx_tools_call(runtime->tools, name, sbx_buffer_bytes(&json), context, &result, err);
        if (r == 0)
                r = sbx_json_parse(sbx_buffer_bytes(&result), (size_t)64 << 20, "tool result", ret_result, err);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "%s can't be called: %s", name, SBX_ERRNO_TEXT(r)) : 0;
}

static int take_result(const json_t *result, struct sbx_logs_outcome *outcome, struct sbx_error *err) {
        const json_t *facts = json_object_get(json_object_get(result, "_meta"), "snipara-sandbox/execution");
        _cleanup_json_ json_t *text = NULL;
        bool is_error = false;

        text = sbx_messages_result_text(result, &is_error);
        outcome->text = text != NULL ? strdup(json_string_value(text)) : NULL;
        if (outcome->text == NULL)
                return SBX_NOMEM(err, ORIGIN);
        snprintf(outcome->end, sizeof(outcome->end), "%s", sbx_logs_text(facts, "end"));
        if (outcome->end[0] == '\0') /* refused before it began */
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "the execution could not begin: %s", outcome->text);
        return 0;
}

static int execute_tool(struct sbx_runtime *runtime, const json_t *object, const struct sbx_tool_context *context,
                        struct sbx_logs_outcome *outcome, struct sbx_error *err) {
        const char *recorded = sbx_logs_text(object, "tool");
        const char *tool = recorded[0] != '\0' ? recorded : "execute_python";
        _cleanup_json_ json_t *arguments = arguments_of(object, tool), *result = NULL;
        int r = call_tool(runtime, tool, arguments, context, &result, err);

        return r < 0 ? r : take_result(result, outcome, err);
}

/* As core/agent does it: the answer in a variable, and no calls back. */
static int execute_check(struct sbx_runtime *runtime, const json_t *object, const struct sbx_tool_context *context,
                         struct sbx_logs_outcome *outcome, struct sbx_error *err) {
        const json_t *code = json_object_get(object, "prompt"), *checked = json_object_get(object, "answer");
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .code = {json_string_value(code), json_string_length(code)},
                                          .environment = context->environment,
                                          .principal = context->principal,
                                          .filename = "<check>",
                                          .timeout_ms = CHECK_TIMEOUT_MS};
        _cleanup_json_ json_t *rendered = NULL;
        struct sbx_result *result = NULL;
        int r = sbx_logs_variable_set(runtime, context->principal, context->environment, "answer",
                                      (struct sbx_bytes){json_string_value(checked), json_string_length(checked)},
                                      context->call, err);

        if (r == 0)
                r = sbx_sessions_execute(runtime->sessions, &execution, context->call, &result, err);
        if (r < 0)
                return r;
        r = sbx_render_result(result, false, false, &rendered, err);
        if (r == 0)
                r = take_result(rendered, outcome, err);
        sbx_result_free(result);
        return r;
}

static const char *obstacle_of(const struct sbx_logs_step *step, const json_t *object) {
        if (step->kind == SBX_LOGS_TOOL)
                return NULL;
        if (json_is_true(json_object_get(object, "too_large")) || !json_is_string(json_object_get(object, "prompt")))
                return "its code was too large to be recorded";
        if (json_is_true(json_object_get(object, "code_truncated")))
                return "its code was not recorded whole";
        if (sbx_logs_is(object, "end", "cancelled"))
                return "it was cancelled then";
        if (step->kind == SBX_LOGS_CHECK && !json_is_string(json_object_get(object, "answer")))
                return "the answer that it checked is not recorded";
        return NULL;
}

static int repeat(struct sbx_runtime *runtime, const struct sbx_logs_events *events, const struct sbx_logs_step *step,
                  struct sbx_tool_context *context, struct sbx_logs_outcome *outcome, struct sbx_error *err) {
        const struct sbx_logs_event *event = &events->items[step->event];
        struct answers answers = {.runtime = runtime,
                                  .events = events,
                                  .next = event->first_child,
                                  .difference = outcome->calls,
                                  .difference_size = sizeof(outcome->calls)};
        struct sbx_code_calls calls = {.data = &answers, .answer = answer};
        _cleanup_json_ json_t *ignored = NULL;
        int r;

        if (step->kind == SBX_LOGS_TOOL)
                return call_tool(runtime, sbx_logs_text(step->call, "name"), json_object_get(step->call, "arguments"),
                                 context, &ignored, err);
        if (step->kind == SBX_LOGS_CHECK)
                return execute_check(runtime, event->object, context, outcome, err);
        context->code_calls = &calls;
        r = execute_tool(runtime, event->object, context, outcome, err);
        skip_others(&answers);
        if (r == 0 && answers.next != SBX_LOGS_NONE)
                differs(&answers, "the code made %u calls, and more in the recorded run", answers.count);
        return r;
}

int sbx_logs_step_repeat(struct sbx_runtime *runtime, const struct sbx_logs_events *events,
                         const struct sbx_logs_step *step, const char *environment, const struct sbx_call *call,
                         struct sbx_logs_outcome *ret_outcome, struct sbx_error *err) {
        _cleanup_free_ char *principal = sbx_logs_principal(step->principal);
        struct sbx_tool_context context = {
                .principal = principal, .caller = SBX_CALLER_CLIENT, .environment = environment, .call = call};

        if (principal == NULL)
                return SBX_NOMEM(err, ORIGIN);
        ret_outcome->obstacle = obstacle_of(step, events->items[step->event].object);
        return ret_outcome->obstacle != NULL ? 0 : repeat(runtime, events, step, &context, ret_outcome, err);
}

/* ---- variables ---- */

static int execute_code(struct sbx_runtime *runtime, const char *principal, const char *environment, const char *code,
                        const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .code = {code, strlen(code)},
                                          .environment = environment,
                                          .principal = principal};
        struct sbx_result *result = NULL;
        int r = sbx_sessions_execute(runtime->sessions, &execution, call, &result, err);

        if (r == 0 && result->end != SBX_END_OK)
                r = sbx_error_set(err, -EIO, ORIGIN, NULL, "the session can't be prepared: %s",
                                  result->error_message != NULL ? result->error_message : sbx_end_name(result->end));
        sbx_result_free(result);
        return r;
}

static int set_text(struct sbx_runtime *runtime, const char *principal, const char *name, struct sbx_bytes text,
                    const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_json_ json_t *value = sbx_json_text(text);
        _cleanup_free_ char *repr = NULL;

        if (value == NULL)
                return SBX_NOMEM(err, ORIGIN);
        return sbx_sessions_set(runtime->sessions, principal, NULL, name, value, call, &repr, err);
}

/* Piece by piece: a text with many characters that JSON escapes does not fit into one frame. */
int sbx_logs_variable_set(struct sbx_runtime *runtime, const char *principal, const char *environment, const char *name,
                          struct sbx_bytes text, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_free_ char *code = NULL;
        const char *bytes = text.data;
        int r = environment != NULL ? execute_code(runtime, principal, environment, "pass", call, err) : 0;

        if (asprintf(&code, "%s += _sbx_part\ndel _sbx_part\n", name) < 0) {
                code = NULL;
                return SBX_NOMEM(err, ORIGIN);
        }
        if (r == 0 && text.size == 0)
                r = set_text(runtime, principal, name, text, call, err);
        for (size_t at = 0, size; at < text.size && r == 0; at += size) {
                struct sbx_bytes rest = {bytes + at, text.size - at};

                size = rest.size > PART_BYTES ? sbx_utf8_cut(rest, PART_BYTES) : rest.size;
                r = set_text(runtime, principal, at == 0 ? name : "_sbx_part", (struct sbx_bytes){bytes + at, size},
                             call, err);
                if (r == 0 && at > 0)
                        r = execute_code(runtime, principal, NULL, code, call, err);
        }
        return r;
}
