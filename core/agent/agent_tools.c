/* SPDX-License-Identifier: Apache-2.0 */
/* The tools by which clients have agents: snipara_agent_run begins one, snipara_agent_status tells how it stands,
 * snipara_agent_cancel ends it. A run goes on when its client goes, unless a call waits for it. */
#include "agent/runs.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define LINE_SIZE 160

/* ---- tool results ---- */

/* The JSON text, as 2.2.7 had it, and the same as structured content. Takes the reference. */
static int json_result(bool is_error, json_t *given, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *value = given, *result = NULL;
        _cleanup_free_ char *text = value != NULL ? json_dumps(value, JSON_INDENT(2)) : NULL;

        result = text != NULL ? sbx_content_text(is_error, text) : NULL;
        if (result == NULL || json_object_set(result, "structuredContent", value) < 0)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

static int text_result(bool is_error, const char *text, json_t **ret_result, struct sbx_error *err) {
        *ret_result = sbx_content_text(is_error, text);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, SBX_AGENT_ORIGIN);
}

static int not_found(const char *id, json_t **ret_result, struct sbx_error *err) {
        char line[LINE_SIZE];

        snprintf(line, sizeof(line), "Error: Run '%.64s' not found", id);
        return text_result(true, line, ret_result, err);
}

static const char *principal_of(const struct sbx_tool_context *context) {
        return context->principal != NULL ? context->principal : "";
}

/* ---- snipara_agent_run ---- */

static int read_limits(const struct sbx_runs *runs, const json_t *arguments, struct sbx_run_limits *ret_limits,
                       struct sbx_error *err) {
        struct sbx_run_limits limits = SBX_RUN_LIMITS_CONFIGURED;
        const json_t *cost = json_object_get(arguments, "cost_limit");

        limits.max_iterations = (unsigned)json_integer_value(json_object_get(arguments, "max_iterations"));
        limits.token_budget = (uint64_t)json_integer_value(json_object_get(arguments, "token_budget"));
        if (json_is_number(cost))
                limits.cost_usd = json_number_value(cost);
        return sbx_run_limits_settle(runs->parts.config, SBX_RUN_AGENT, &limits, ret_limits, err);
}

/* What would fail at once is told at once. Without a provider or a key the client's own model answers, if the client
 * offers it; anything else that is wrong with the provider is told, and not passed over. */
static int choose_model(const struct sbx_runs *runs, const struct sbx_tool_context *context, bool *ret_sampling,
                        struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r = sbx_model_available(&runs->parts, context->call, &problem);

        *ret_sampling = (r == -ENOENT || r == -EACCES) && sbx_sampling_possible(context->client);
        if (r == 0 || *ret_sampling)
                return 0;
        if (err != NULL && err->code == 0)
                *err = problem;
        return r;
}

static bool become_task(const struct sbx_client *client) {
        return client != NULL && client->become_task != NULL && client->become_task(client->data) == 1;
}

static int run_within(struct sbx_background_run *entry, const char *id, const struct sbx_tool_context *context,
                      bool sampling, json_t **ret_result, struct sbx_error *err) {
        json_t *status = NULL;
        const char *state;
        int r = sbx_background_run_within(entry, context, sampling, &status, err);

        if (r < 0)
                return r;
        state = json_string_value(json_object_get(status, "status"));
        r = json_result(strcmp(state, "error") == 0, status, ret_result, err);
        if (r == 0 && json_object_set_new(*ret_result, "_meta", json_pack("{s:s}", "run_id", id)) < 0) {
                json_decref(*ret_result);
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        return r;
}

static json_t *describe_begun(const char *id, const char *task, const struct sbx_run_limits *limits) {
        return json_pack("{s:s, s:s, s:o, s:{s:I, s:I, s:f}}", "run_id", id, "status", "running", "task",
                         sbx_background_shown_task(task), "config", "max_iterations",
                         (json_int_t)limits->max_iterations, "token_budget", (json_int_t)limits->token_budget,
                         "cost_limit", limits->cost_usd);
}

static int agent_run(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                     struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        const char *task = json_string_value(json_object_get(arguments, "task"));
        struct sbx_background_request request = {.principal = context->principal, .task = task};
        struct sbx_background_run *entry = NULL;
        char id[SBX_RUN_ID_SIZE];
        bool sampling = false;
        int r;

        if (task == NULL || task[strspn(task, " \t\r\n")] == '\0')
                return text_result(true, "Error: No task provided", ret_result, err);
        r = read_limits(runs, arguments, &request.limits, err);
        if (r == 0)
                r = choose_model(runs, context, &sampling, err);
        if (r == 0)
                r = sbx_background_enter(runs, &request, &entry, err);
        if (r < 0)
                return r;
        snprintf(id, sizeof(id), "%s", sbx_background_id(entry));
        /* The client's model can only be asked while its call lasts, whether or not that is a task. */
        if (become_task(context->client) || sampling)
                return run_within(entry, id, context, sampling, ret_result, err);
        r = sbx_background_begin(entry, err);
        return r < 0 ? r : json_result(false, describe_begun(id, task, &request.limits), ret_result, err);
}

/* ---- snipara_agent_status, snipara_agent_cancel ---- */

static const char *id_of(const json_t *arguments) {
        const char *id = json_string_value(json_object_get(arguments, "run_id"));

        return id != NULL ? id : "";
}

static int agent_status(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        const char *id = id_of(arguments);
        json_t *status = NULL;
        int r = sbx_background_status(&runs->background, principal_of(context), id, &status, NULL);

        if (r == -ENOENT)
                return not_found(id, ret_result, err);
        return r < 0 ? SBX_NOMEM(err, SBX_AGENT_ORIGIN) : json_result(false, status, ret_result, err);
}

static int agent_cancel(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        const char *id = id_of(arguments);
        bool ended = false;
        char line[LINE_SIZE];

        if (sbx_background_cancel(&runs->background, principal_of(context), id, &ended, NULL) < 0)
                return not_found(id, ret_result, err);
        snprintf(line, sizeof(line), "Agent run '%.64s' %s", id, ended ? "had ended already" : "cancelled");
        return text_result(false, line, ret_result, err);
}

/* ---- the tools ---- */

#define ID_SCHEMA(text)                                                                                                \
        "{\"type\": \"object\", \"properties\": {\"run_id\": {\"type\": \"string\", \"minLength\": 1, "                \
        "\"description\": \"" text "\"}}, \"required\": [\"run_id\"]}"

static const struct sbx_tool agent_tools[] = {
        {.name = "snipara_agent_run",
         .title = "Start an agent",
         .description =
                 "Starts an autonomous agent that works on a task in iterations: it looks at what is known, acts with "
                 "tools (code in a sandboxed session, context, sub-calls), and ends when it has the answer or a limit "
                 "is reached. Returns a run_id at once; ask snipara_agent_status for the result. Called as a task, or "
                 "where the client's own model does the work (sampling), it returns the result when the run has ended.",
         .input_schema = "{\"type\": \"object\", \"properties\": {"
                         "\"task\": {\"type\": \"string\", \"description\": \"What the agent is to do\"}, "
                         "\"max_iterations\": {\"type\": \"integer\", \"description\": \"Iterations at most (default "
                         "10, hard limit "
                         "50)\", \"default\": 10, \"minimum\": 1, \"maximum\": 50}, "
                         "\"token_budget\": {\"type\": \"integer\", \"description\": \"Tokens at most (default "
                         "50000)\", \"default\": "
                         "50000, \"minimum\": 1, \"maximum\": 100000000}, "
                         "\"cost_limit\": {\"type\": \"number\", \"description\": \"US dollars at most (default 2.0, "
                         "hard limit "
                         "10.0)\", \"default\": 2.0, \"minimum\": 0, \"maximum\": 10}}, "
                         "\"required\": [\"task\"]}",
         .annotations = "{\"readOnlyHint\": false, \"openWorldHint\": true}",
         .run = agent_run,
         .task_support = "optional",
         .flags = SBX_TOOL_CLIENT | SBX_TOOL_HEARTBEAT},
        {.name = "snipara_agent_status",
         .title = "Status of an agent",
         .description =
                 "How an agent run of yours stands: running, completed, cancelled or error, and its result when it has "
                 "ended. Ended runs are kept for an hour.",
         .input_schema = ID_SCHEMA("The run_id that snipara_agent_run returned"),
         .annotations = "{\"readOnlyHint\": true}",
         .run = agent_status,
         .flags = SBX_TOOL_CLIENT | SBX_TOOL_QUICK},
        {.name = "snipara_agent_cancel",
         .title = "Cancel an agent",
         .description = "Ends an agent run of yours. What it has reached so far is its result.",
         .input_schema = ID_SCHEMA("The run_id of the run to end"),
         .annotations = "{\"readOnlyHint\": false, \"idempotentHint\": true}",
         .run = agent_cancel,
         .flags = SBX_TOOL_CLIENT | SBX_TOOL_QUICK},
};

int sbx_agent_tools_add(struct sbx_runs *runs, struct sbx_error *err) {
        static const char *const aliases[] = {"rlm_agent_run", "rlm_agent_status", "rlm_agent_cancel"};

        for (size_t i = 0; i < sizeof(agent_tools) / sizeof(agent_tools[0]); i++) {
                struct sbx_tool tool = agent_tools[i];
                int r;

                tool.data = runs;
                r = sbx_tools_add(runs->parts.tools, &tool, err);
                if (r == 0)
                        r = sbx_tools_alias(runs->parts.tools, aliases[i], tool.name, err);
                if (r < 0)
                        return r;
        }
        return 0;
}
