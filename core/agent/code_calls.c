/* SPDX-License-Identifier: Apache-2.0 */
/* What code in a session calls back: llm_query, llm_batch, FINAL, FINAL_VAR, and tools (docs/code-mode.md). Answered on
 * the thread that executes, one at a time, each under a key of its own. All that comes from the code is hostile. */
#include "agent/code_calls.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "agent/messages.h"
#include "agent/subcalls.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define ARGUMENTS_MAX ((size_t)20 << 20) /* bytes of JSON: 16 MiB, escaped */
#define KEPT_MAX ((size_t)1 << 20)       /* of a result, in its event */
#define QUERIES_MAX 10000u               /* of one batch; the budget ends it before */
#define ANSWER_TOKENS_MAX 100000000

/* One call back. */
struct code_call {
        const struct sbx_place *place; /* its own: the key is the call's, the call_id that of its event */
        const char *name;
        json_t *arguments;
        uint64_t begin_ns;
        char began_at[SBX_TIMESTAMP_SIZE];
};

/* ---- the answer ---- */

static int give_answer(const struct code_call *call, const char *member, const char *source, json_t **ret_result,
                       struct sbx_error *err) {
        const json_t *value = json_object_get(call->arguments, member);
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(2 * ARGUMENTS_MAX);
        int r;

        if (value == NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "%s: an argument is missing", call->name);
        if (json_is_string(value))
                r = sbx_buffer_append(&text, json_string_value(value), json_string_length(value));
        else
                r = sbx_json_encode(value, &text);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "%s: the answer is too large", call->name);
        r = sbx_place_set_answer(call->place, text.size > 0 ? text.data : "", source, err);
        if (r == 0)
                *ret_result = json_true();
        return r;
}

/* ---- queries ---- */

static int no_sub_calls(struct sbx_error *err) {
        return sbx_error_set(err, -EPERM, ORIGIN, "Set sub_calls_enabled, or raise max_depth.",
                             "the model can't be asked from here: sub-calls are switched off, or the limit of depth is "
                             "reached");
}

static int read_options(const json_t *arguments, struct sbx_query *query, struct sbx_error *err) {
        int64_t max_tokens = 0;
        int r = sbx_json_get_string(arguments, "", "system", 0, &query->system, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "", "context_query", 0, &query->context_query, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "", "max_tokens", 0, 1, ANSWER_TOKENS_MAX, &max_tokens, err);
        query->max_tokens = (uint64_t)max_tokens;
        return r;
}

static int ask_one(const struct code_call *call, json_t **ret_result, struct sbx_error *err) {
        struct sbx_query query = {.type = "llm_query"};
        _cleanup_json_ json_t *results = json_array();
        const json_t *result;
        int r = sbx_json_get_string(call->arguments, "", "prompt", SBX_JSON_REQUIRED, &query.prompt, err);

        if (r == 0)
                r = read_options(call->arguments, &query, err);
        if (r < 0)
                return r;
        if (results == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_queries_ask(call->place, &query, 1, 1, 0, results, err);
        if (r < 0)
                return r;
        result = json_array_get(results, 0);
        if (json_is_null(json_object_get(result, "response")))
                return sbx_error_set(err, -EREMOTEIO, ORIGIN, NULL, "%s",
                                     json_string_value(json_object_get(result, "error")));
        *ret_result = json_incref((json_t *)result);
        return 0;
}

static int read_queries(const struct code_call *call, struct sbx_query **ret_queries, size_t *ret_count,
                        struct sbx_error *err) {
        json_t *list = json_object_get(call->arguments, "queries"), *item;
        _cleanup_free_ struct sbx_query *queries = NULL;
        struct sbx_query common = {.type = "llm_batch"};
        size_t index;
        int r = read_options(call->arguments, &common, err);

        if (r < 0)
                return r;
        if (!json_is_array(list) || json_array_size(list) > QUERIES_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "queries: must be an array of at most %u",
                                     QUERIES_MAX);
        queries = calloc(json_array_size(list) + 1, sizeof(*queries));
        if (queries == NULL)
                return SBX_NOMEM(err, ORIGIN);
        json_array_foreach (list, index, item) {
                queries[index] = common;
                if (!json_is_object(item))
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "queries[%zu]: must be an object", index);
                r = sbx_json_get_string(item, "queries", "query", SBX_JSON_REQUIRED, &queries[index].prompt, err);
                if (r == 0)
                        r = sbx_json_get_string(item, "queries", "system", 0, &queries[index].system, err);
                if (r < 0)
                        return r;
        }
        *ret_queries = steal_pointer(queries);
        *ret_count = json_array_size(list);
        return 0;
}

static int ask_many(const struct code_call *call, json_t **ret_result, struct sbx_error *err) {
        int64_t parallel = sbx_config_int(call->place->run->parts->config, "max_parallel");
        _cleanup_free_ struct sbx_query *queries = NULL;
        _cleanup_json_ json_t *results = json_array();
        size_t count = 0;
        int r = sbx_json_get_int(call->arguments, "", "max_parallel", 0, 1, INT64_MAX, &parallel, err);

        if (r == 0)
                r = read_queries(call, &queries, &count, err);
        if (r < 0)
                return r;
        if (results == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_queries_ask(call->place, queries, count, parallel < UINT_MAX ? (unsigned)parallel : UINT_MAX, 0,
                            results, err);
        if (r == 0 && (*ret_result = json_pack("{s:O}", "results", results)) == NULL)
                r = SBX_NOMEM(err, ORIGIN);
        return r;
}

/* ---- one call ---- */

static bool is_list(const char *name) {
        return strcmp(name, "__list__") == 0;
}

static bool is_built_in(const char *name) {
        return is_list(name) || strcmp(name, "llm_query") == 0 || strcmp(name, "llm_batch") == 0 ||
               sbx_is_final_tool(name);
}

static int list_tools(const struct sbx_place *place, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL, *tools = json_array();
        const json_t *tool;
        size_t index;
        int r = sbx_tools_list_for(place->run->parts->tools, SBX_CALLER_CODE, &list, err);

        if (r < 0)
                return r;
        json_array_foreach (list, index, tool)
                if (!is_built_in(json_string_value(json_object_get(tool, "name"))) &&
                    json_array_append_new(tools, json_pack("{s:O, s:O}", "name", json_object_get(tool, "name"),
                                                           "description", json_object_get(tool, "description"))) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        *ret_result = json_pack("{s:O}", "tools", tools);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int perform_built_in(const struct code_call *call, json_t **ret_result, struct sbx_error *err) {
        bool query = strcmp(call->name, "llm_query") == 0;

        if (is_list(call->name))
                return list_tools(call->place, ret_result, err);
        if (strcmp(call->name, "FINAL") == 0)
                return give_answer(call, "answer", "final", ret_result, err);
        if (strcmp(call->name, "FINAL_VAR") == 0)
                return give_answer(call, "value", "final_var", ret_result, err);
        if (!call->place->replay && !sbx_subcalls_possible(call->place))
                return no_sub_calls(err);
        return query ? ask_one(call, ret_result, err) : ask_many(call, ret_result, err);
}

/* The record of a call that is not a tool's. A failure is kept as well: the code may have gone on because of it. */
static json_t *make_record(const struct code_call *call, json_t *result, int r, const struct sbx_error *problem) {
        json_t *outcome = r == 0 ? json_pack("{s:O}", "result", result)
                                 : json_pack("{s:{s:i, s:s}}", "error", "code", r, "message", problem->message);

        if (outcome == NULL ||
            json_object_update_new(outcome,
                                   json_pack("{s:s, s:s, s:O, s:s, s:I}", "type", "call", "name", call->name,
                                             "arguments", call->arguments, "timestamp", call->began_at, "duration_ms",
                                             (json_int_t)((sbx_clock_ns() - call->begin_ns) / SBX_NS_PER_MS))) < 0) {
                json_decref(outcome);
                return NULL;
        }
        return outcome;
}

/* What the code got, as text for the trajectory. */
static json_t *outcome_text(const char *name, const json_t *record, bool *ret_is_error) {
        const json_t *result = json_object_get(record, "result"), *error = json_object_get(record, "error");
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(2 * ARGUMENTS_MAX),
                                           clipped = SBX_BUFFER(2 * ARGUMENTS_MAX);

        if (!is_built_in(name))
                return sbx_messages_result_text(result, ret_is_error);
        *ret_is_error = error != NULL;
        if (error != NULL)
                return json_incref(json_object_get(error, "message"));
        if (sbx_json_encode(result, &text) < 0 ||
            sbx_text_clip(sbx_buffer_bytes(&text), SBX_CONTENT_TEXT_MAX, &clipped) < 0)
                return NULL;
        return sbx_json_text(sbx_buffer_bytes(&clipped));
}

/* The value itself, for doing the execution again, where the text does not hold all of it. */
static void keep_result(json_t *event, const char *name, const json_t *record, const json_t *text) {
        json_t *result = json_object_get(record, "result");
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(KEPT_MAX);

        if (event == NULL || result == NULL)
                return;
        if (sbx_json_encode(result, &json) < 0)
                json_object_set_new(event, "result_omitted", json_true());
        else if (!is_built_in(name) || json.size != json_string_length(text))
                json_object_set(event, "result", result);
}

static void emit_call(const struct sbx_place *execution, const struct sbx_place *place, const json_t *record) {
        const char *name = json_string_value(json_object_get(record, "name"));
        _cleanup_json_ json_t *arguments = NULL, *text = NULL;
        bool is_error = false;
        json_t *event;

        if (!sbx_run_observed(place->run) || name == NULL || is_list(name))
                return;
        arguments = sbx_messages_brief(json_object_get(record, "arguments"));
        text = outcome_text(name, record, &is_error);
        if (arguments == NULL || text == NULL)
                return;
        event = json_pack("{s:s, s:s?, s:i, s:s, s:O, s:[{s:s, s:s, s:O}], s:[{s:s, s:O, s:b}], s:O*, s:O*, s:s, s:O?}",
                          "call_id", place->call_id, "parent_call_id", execution->call_id, "depth", (int)place->depth,
                          "prompt", name, "response", text, "tool_calls", "id", place->call_id, "name", name,
                          "arguments", arguments, "tool_results", "tool_call_id", place->call_id, "content", text,
                          "is_error", (int)is_error, "duration_ms", json_object_get(record, "duration_ms"), "timestamp",
                          json_object_get(record, "timestamp"), "key", place->key, "error", is_error ? text : NULL);
        keep_result(event, name, record, text);
        sbx_run_emit(place->run, "tool_call", event);
}

/* ---- earlier lives ---- */

static int recall_built_in(const struct code_call *call, const json_t *record, json_t **ret_result,
                           struct sbx_error *err) {
        json_t *result = json_object_get(record, "result"), *error = json_object_get(record, "error");
        const char *message = json_string_value(json_object_get(error, "message"));
        struct sbx_place place = *call->place;
        struct code_call again = *call;
        _cleanup_json_ json_t *ignored = NULL;
        struct sbx_error problem = {0};
        int r;

        place.replay = true;
        again.place = &place;
        /* Counts what it used, tells its events, and gives its answer, if it was one, again. */
        r = perform_built_in(&again, &ignored, &problem);
        if (r == -ENOMEM)
                return SBX_NOMEM(err, ORIGIN);
        if (error != NULL) {
                json_int_t code = json_integer_value(json_object_get(error, "code"));

                return sbx_error_set(err, code < 0 && code > -4096 ? (int)code : -EIO, ORIGIN, NULL, "%s",
                                     message != NULL ? message : "failed");
        }
        if (result == NULL)
                return sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "the journal's record %s is damaged",
                                     call->place->key);
        *ret_result = json_incref(result);
        return 0;
}

static bool is_record_of(const json_t *record, const struct code_call *call) {
        const char *name = json_string_value(json_object_get(record, "name"));

        return name != NULL && strcmp(name, call->name) == 0 &&
               json_equal(json_object_get(record, "arguments"), call->arguments);
}

/* The key of the call: key.cN. Code that is executed again because its end was not recorded may take another way than
 * it did before; what is under the key then is not this call's, and the next free key.cN~M is. */
static int find_key(const struct sbx_place *execution, unsigned number, const struct code_call *call,
                    char ret_key[SBX_JOURNAL_KEY_MAX], json_t **ret_record, struct sbx_error *err) {
        int r = sbx_key_make(ret_key, err, execution->key, ".c%u", number);

        for (unsigned variant = 1; r == 0; variant++) {
                json_t *record = sbx_journal_find(execution->run->journal, ret_key);

                if (record == NULL || is_record_of(record, call)) {
                        *ret_record = record;
                        return 0;
                }
                json_decref(record);
                if (variant == 1 && !execution->replay)
                        sbx_run_notice(execution->run,
                                       "Code that was executed again made other calls than before (%s); those were "
                                       "made anew.",
                                       ret_key);
                r = sbx_key_make(ret_key, err, execution->key, ".c%u~%u", number, variant);
        }
        return r;
}

/* ---- answering ---- */

static int answer_built_in(const struct code_call *call, json_t *found, json_t **ret_record, json_t **ret_result,
                           struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r, added;

        if (found != NULL) {
                *ret_record = json_incref(found);
                return recall_built_in(call, found, ret_result, err);
        }
        r = perform_built_in(call, ret_result, &problem);
        if (r < 0)
                sbx_error_set(&problem, r, ORIGIN, NULL, "%s failed: %s", call->name, SBX_ERRNO_TEXT(r));
        *ret_record = r != -ENOMEM ? make_record(call, *ret_result, r, &problem) : NULL;
        if (*ret_record == NULL)
                return SBX_NOMEM(err, ORIGIN);
        /* What the end of the run cut short is asked anew when the run is resumed. */
        if (r == 0 || sbx_place_ended(call->place) == 0) {
                added = sbx_journal_add(call->place->run->journal, call->place->key, *ret_record, err);
                if (added < 0)
                        return added;
        }
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        return r;
}

static int answer_tool(const struct code_call *call, json_t **ret_record, json_t **ret_result, struct sbx_error *err) {
        int r = sbx_run_tool(call->place, call->name, call->arguments, SBX_CALLER_CODE, ret_result, err);

        if (r < 0)
                return r;
        *ret_record = json_pack("{s:s, s:O, s:O, s:s, s:I}", "name", call->name, "arguments", call->arguments, "result",
                                *ret_result, "timestamp", call->began_at, "duration_ms",
                                (json_int_t)((sbx_clock_ns() - call->begin_ns) / SBX_NS_PER_MS));
        return *ret_record != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int answer_call(const struct sbx_place *execution, unsigned number, struct code_call *call,
                       const struct sbx_call *bounds, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *found = NULL, *record = NULL;
        struct sbx_place place = *execution;
        char key[SBX_JOURNAL_KEY_MAX], id[SBX_RUN_ID_SIZE];
        int r = find_key(execution, number, call, key, &found, err);

        if (r < 0)
                return r;
        sbx_event_id(place.run, key, id);
        place.key = key;
        place.call_id = id;
        if (bounds != NULL)
                place.call = bounds;
        call->place = &place;
        call->begin_ns = sbx_clock_ns();
        sbx_clock_timestamp(call->began_at);
        if (is_built_in(call->name))
                r = answer_built_in(call, found, &record, ret_result, err);
        else
                r = answer_tool(call, &record, ret_result, err);
        if (record != NULL)
                emit_call(execution, &place, record);
        return r;
}

static int check_allowed(const struct sbx_place *place, const char *name, struct sbx_error *err) {
        const char *mode = sbx_config_string(place->run->parts->config, "code_mode");

        /* With it off, code can still say which value is the answer: the model's FINAL_VAR is such code. */
        if (mode != NULL && strcmp(mode, "off") == 0 && !sbx_is_final_tool(name))
                return sbx_error_set(err, -EPERM, ORIGIN, "Set code_mode = \"runs\".",
                                     "code may not call back: code_mode is off");
        return 0;
}

/* Every call counts, whatever comes of it. */
static int check_flood(struct sbx_code_context *context, struct sbx_error *err) {
        uint64_t one = 1;

        if (context->count < SBX_CODE_CALLS_MAX) {
                context->count++;
                return 0;
        }
        if (++context->refused >= SBX_CODE_CALLS_REFUSED_MAX && !context->flooded) {
                context->flooded = true;
                if (context->flood_fd >= 0 && write(context->flood_fd, &one, sizeof(one)) < 0)
                        return sbx_error_set(err, -errno, ORIGIN, NULL, "the execution can't be stopped");
        }
        return sbx_error_set(err, -EDQUOT, ORIGIN, "Ask for more in one call (llm_batch), or in another execution.",
                             "this execution called back %u times, which is the limit", SBX_CODE_CALLS_MAX);
}

static int answer(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *bounds,
                  struct sbx_buffer *ret_result, struct sbx_error *err) {
        struct sbx_code_context *context = data;
        struct code_call call = {.name = name};
        _cleanup_json_ json_t *parsed = NULL, *result = NULL;
        int r = check_flood(context, err);

        if (r == 0)
                r = check_allowed(&context->place, name, err);
        if (r == 0)
                r = arguments.size > 0 ? sbx_json_parse(arguments, ARGUMENTS_MAX, "arguments", &parsed, err) : 0;
        if (r < 0)
                return r;
        call.arguments = parsed != NULL ? parsed : (parsed = json_object());
        if (!json_is_object(parsed))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments: must be a JSON object");
        r = answer_call(&context->place, context->count - 1, &call, bounds, &result, err);
        if (r == 0)
                r = sbx_json_encode(result, ret_result);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, "Ask for less at a time.", "the result of %s is too large: %s",
                                     name, SBX_ERRNO_TEXT(r))
                     : 0;
}

int sbx_code_calls_recall(const struct sbx_place *place, unsigned count, struct sbx_error *err) {
        for (unsigned number = 0; number < count && number < SBX_CODE_CALLS_MAX; number++) {
                char key[SBX_JOURNAL_KEY_MAX];
                int r = sbx_key_make(key, err, place->key, ".c%u", number);

                for (unsigned variant = 1; r == 0; variant++) {
                        _cleanup_json_ json_t *record = sbx_journal_find(place->run->journal, key), *result = NULL;
                        struct code_call call = {.name = json_string_value(json_object_get(record, "name")),
                                                 .arguments = json_object_get(record, "arguments")};
                        struct sbx_error problem = {0};

                        if (record == NULL || call.name == NULL)
                                break;
                        if (answer_call(place, number, &call, NULL, &result, &problem) == -ENOMEM)
                                return SBX_NOMEM(err, ORIGIN);
                        r = sbx_key_make(key, err, place->key, ".c%u~%u", number, variant);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the context of an execution ---- */

/* A descriptor that is readable when the place's call is cancelled, or when the code floods the host with calls. */
static int watch_both(struct sbx_code_context *context, int cancel_fd) {
        struct epoll_event in = {.events = EPOLLIN};

        context->flood_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        context->call.cancel_fd = epoll_create1(EPOLL_CLOEXEC);
        if (context->flood_fd < 0 || context->call.cancel_fd < 0 ||
            epoll_ctl(context->call.cancel_fd, EPOLL_CTL_ADD, context->flood_fd, &in) < 0 ||
            (cancel_fd >= 0 && epoll_ctl(context->call.cancel_fd, EPOLL_CTL_ADD, cancel_fd, &in) < 0))
                return -errno;
        return 0;
}

int sbx_code_context_init(struct sbx_code_context *context, const struct sbx_place *place, struct sbx_error *err) {
        const struct sbx_call *call = sbx_place_call(place);
        int r;

        *context = (struct sbx_code_context){
                .place = *place,
                .call = {.struct_size = sizeof(context->call),
                         .cancel_fd = -1,
                         .deadline_ns = call != NULL ? call->deadline_ns : 0},
                .flood_fd = -1,
        };
        context->calls = (struct sbx_code_calls){.data = context, .answer = answer};
        r = watch_both(context, call != NULL ? call->cancel_fd : -1);
        if (r < 0) {
                sbx_code_context_destroy(context);
                return sbx_error_set(err, r, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't watch over calls of code: %s", SBX_ERRNO_TEXT(r));
        }
        return 0;
}

void sbx_code_context_destroy(struct sbx_code_context *context) {
        if (context->flood_fd >= 0)
                close(context->flood_fd);
        if (context->call.cancel_fd >= 0)
                close(context->call.cancel_fd);
        context->flood_fd = context->call.cancel_fd = -1;
}
