/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that mean something in a run only: snipara_sub_complete, snipara_batch_complete, FINAL, FINAL_VAR. */
#include "agent/subcalls.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define BATCH_PARALLEL 3
#define BATCH_MAX 256

#define RUN_TOOL(name)                                                                                                 \
        static int name(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,                \
                        struct sbx_error *err)

static const char sub_complete_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"query\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The sub-problem to solve\"},"
        "\"max_tokens\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000000,"
        "\"description\":\"Token budget of the sub-call; at most what it inherits\"},"
        "\"system\":{\"type\":\"string\",\"description\":\"System prompt of the sub-call\"},"
        "\"context_query\":{\"type\":\"string\","
        "\"description\":\"Question to the context sources; what they find goes into the system prompt\"}},"
        "\"required\":[\"query\"],\"additionalProperties\":false}";

static const char batch_complete_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"queries\":{\"type\":\"array\",\"description\":\"Sub-problems to solve side by side, at most 256\","
        "\"items\":{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\",\"minLength\":1},"
        "\"system\":{\"type\":\"string\"}},\"required\":[\"query\"]}},"
        "\"max_parallel\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":256,\"default\":3,"
        "\"description\":\"Sub-calls at one time (default: 3)\"},"
        "\"total_budget\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000000,"
        "\"description\":\"Token budget that all share in equal parts\"}},"
        "\"required\":[\"queries\"],\"additionalProperties\":false}";

static const char final_schema[] = "{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"string\","
                                   "\"description\":\"The final answer to the task\"}},\"required\":[\"answer\"]}";

static const char final_var_schema[] =
        "{\"type\":\"object\",\"properties\":{\"variable_name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":"
        "1024,"
        "\"description\":\"Name of the session's variable\"}},\"required\":[\"variable_name\"]}";

bool sbx_is_subcall_tool(const char *name) {
        static const char *const names[] = {"snipara_sub_complete", "snipara_batch_complete", "rlm_sub_complete",
                                            "rlm_batch_complete"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

bool sbx_is_final_tool(const char *name) {
        return strcmp(name, "FINAL") == 0 || strcmp(name, "FINAL_VAR") == 0;
}

static int get_place(const struct sbx_tool_context *context, const struct sbx_place **ret_place,
                     struct sbx_error *err) {
        *ret_place = context->run;
        return context->run != NULL
                       ? 0
                       : sbx_error_set(err, -EPERM, ORIGIN, NULL, "this tool means something in a run only");
}

/* A result whose text is JSON. */
static int json_result(const json_t *value, bool is_error, json_t **ret_result, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER((size_t)64 << 20);
        json_t *result;

        if (sbx_json_encode(value, &text) < 0)
                return SBX_NOMEM(err, ORIGIN);
        result = sbx_content_text(is_error, text.data);
        if (result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        /* For code and programs, which need no cut. */
        if (json_object_set(result, "structuredContent", (json_t *)value) < 0) {
                json_decref(result);
                return SBX_NOMEM(err, ORIGIN);
        }
        *ret_result = result;
        return 0;
}

/* ---- sub-completions ---- */

RUN_TOOL(sub_complete) {
        const struct sbx_place *place = NULL;
        struct sbx_query query = {.with_tools = true, .type = "sub_complete"};
        _cleanup_json_ json_t *results = json_array();
        const json_t *result;
        int64_t max_tokens = 0;
        int r = get_place(context, &place, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "query", SBX_JSON_REQUIRED, &query.prompt, err);
        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "system", 0, &query.system, err);
        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "context_query", 0, &query.context_query, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "max_tokens", 0, 1, INT64_MAX, &max_tokens, err);
        if (r < 0)
                return r;
        if (results == NULL)
                return SBX_NOMEM(err, ORIGIN);
        query.max_tokens = (uint64_t)max_tokens;
        query.own_sessions = context->caller == SBX_CALLER_CODE;
        r = sbx_queries_ask(place, &query, 1, 1, 0, results, err);
        if (r < 0)
                return r;
        result = json_array_get(results, 0);
        return json_result(result, json_is_null(json_object_get(result, "response")), ret_result, err);
}

static int read_queries(const struct sbx_tool_context *context, json_t *list, struct sbx_query *queries,
                        struct sbx_error *err) {
        json_t *item;
        size_t index;

        json_array_foreach (list, index, item) {
                struct sbx_query *query = &queries[index];
                int r;

                *query = (struct sbx_query){.with_tools = true,
                                            .type = "batch_complete",
                                            .own_sessions = context->caller == SBX_CALLER_CODE};
                r = sbx_json_get_string(item, "arguments.queries", "query", SBX_JSON_REQUIRED, &query->prompt, err);
                if (r == 0)
                        r = sbx_json_get_string(item, "arguments.queries", "system", 0, &query->system, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int name_queries(json_t *results, const struct sbx_query *queries) {
        json_t *result;
        size_t index;

        json_array_foreach (results, index, result)
                if (json_object_set_new(result, "query", json_string(queries[index].prompt)) < 0)
                        return -ENOMEM;
        return 0;
}

RUN_TOOL(batch_complete) {
        const struct sbx_place *place = NULL;
        json_t *list = json_object_get(arguments, "queries");
        _cleanup_free_ struct sbx_query *queries = calloc(json_array_size(list) + 1, sizeof(*queries));
        _cleanup_json_ json_t *results = json_array(), *whole = NULL;
        int64_t parallel = BATCH_PARALLEL, total = 0;
        int r = get_place(context, &place, err);

        if (r < 0)
                return r;
        if (queries == NULL || results == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (json_array_size(list) > BATCH_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Ask them in several batches.",
                                     "arguments.queries: has %zu items, at most %d are taken", json_array_size(list),
                                     BATCH_MAX);
        r = read_queries(context, list, queries, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "max_parallel", 0, 1, BATCH_MAX, &parallel, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "total_budget", 0, 1, INT64_MAX, &total, err);
        if (r == 0)
                r = sbx_queries_ask(place, queries, json_array_size(list), (unsigned)parallel, (uint64_t)total, results,
                                    err);
        if (r < 0)
                return r;
        whole = json_pack("{s:O}", "results", results);
        if (whole == NULL || name_queries(results, queries) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return json_result(whole, false, ret_result, err);
}

/* ---- the answer ---- */

static int taken(json_t **ret_result, struct sbx_error *err) {
        *ret_result = sbx_content_text(false, "The answer was taken.");
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

RUN_TOOL(final) {
        const struct sbx_place *place = NULL;
        const char *answer = NULL;
        int r = get_place(context, &place, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "answer", SBX_JSON_REQUIRED, &answer, err);
        if (r == 0)
                r = sbx_place_set_answer(place, answer, "final", err);
        return r < 0 ? r : taken(ret_result, err);
}

/* FINAL_VAR("name") in the session, where the value is: so it comes whole, whatever its length. The name is a string
 * literal there, and nothing else. */
static int final_var_code(const json_t *name, json_t **ret_arguments, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer code = SBX_BUFFER(16u << 10);
        int r = sbx_buffer_append_text(&code, "FINAL_VAR(");

        if (r == 0)
                r = sbx_json_encode(name, &code);
        if (r == 0)
                r = sbx_buffer_append_text(&code, ")");
        *ret_arguments = r == 0 ? json_pack("{s:s}", "code", code.data) : NULL;
        return *ret_arguments != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

RUN_TOOL(final_var) {
        const struct sbx_place *place = NULL;
        _cleanup_json_ json_t *code = NULL, *result = NULL;
        char key[SBX_JOURNAL_KEY_MAX];
        struct sbx_place execution;
        int r = get_place(context, &place, err);

        if (r == 0)
                r = final_var_code(json_object_get(arguments, "variable_name"), &code, err);
        if (r == 0)
                r = sbx_key_make(key, err, place->key, ".v");
        if (r < 0)
                return r;
        execution = *place;
        execution.key = key;
        /* The program's own code: it needs no leave for the model to execute any. */
        r = sbx_run_tool(&execution, "execute_python", code, SBX_CALLER_RUN, &result, err);
        if (r < 0)
                return r;
        if (!json_is_true(json_object_get(result, "isError")) && sbx_place_has_answer(place))
                return taken(ret_result, err);
        *ret_result = steal_pointer(result);
        return 0;
}

/* ---- the registry ---- */

static const struct sbx_tool run_tools[] = {
        {.name = "snipara_sub_complete",
         .title = "Ask a sub-completion",
         .description =
                 "Delegate a focused sub-problem to a fresh model call with a context window and a budget of its "
                 "own, and the same tools. Use it for parts of the task that stand alone. Returns JSON: "
                 "response, tokens_used, cost, calls.",
         .input_schema = sub_complete_schema,
         .run = sub_complete,
         .flags = SBX_TOOL_RUN},
        {.name = "snipara_batch_complete",
         .title = "Ask sub-completions side by side",
         .description =
                 "Solve independent sub-problems side by side, each by a model call of its own with an equal part "
                 "of the budget. Returns JSON: results, in the order of the queries.",
         .input_schema = batch_complete_schema,
         .run = batch_complete,
         .flags = SBX_TOOL_RUN},
        {.name = "FINAL",
         .title = "Give the answer",
         .description = "Give the final answer, as text, and end. Call it once, when the task is solved.",
         .input_schema = final_schema,
         .run = final,
         .flags = SBX_TOOL_RUN | SBX_TOOL_ALWAYS},
        {.name = "FINAL_VAR",
         .title = "Give a variable as the answer",
         .description =
                 "Give the value of a variable of the Python session as the final answer, whole, and end. Use it "
                 "when the answer was computed.",
         .input_schema = final_var_schema,
         .run = final_var,
         .flags = SBX_TOOL_RUN | SBX_TOOL_ALWAYS},
};

int sbx_subcall_tools_add(struct sbx_tools *tools, struct sbx_error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(run_tools) / sizeof(run_tools[0]); i++)
                r = sbx_tools_add(tools, &run_tools[i], err);
        if (r == 0)
                r = sbx_tools_alias(tools, "rlm_sub_complete", "snipara_sub_complete", err);
        return r < 0 ? r : sbx_tools_alias(tools, "rlm_batch_complete", "snipara_batch_complete", err);
}
