/* SPDX-License-Identifier: Apache-2.0 */
/* The list of tools, and one call from arguments to result. */
#include "tools/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_TOOLS_ORIGIN

/* ---- the registry ---- */

int sbx_tools_new(const struct sbx_logger *logger, struct sbx_tools **ret_tools, struct sbx_error *err) {
        struct sbx_tools *tools = calloc(1, sizeof(*tools));

        if (tools == NULL)
                return SBX_NOMEM(err, ORIGIN);
        tools->logger = logger;
        pthread_mutex_init(&tools->lock, NULL);
        pthread_mutex_init(&tools->refresh_lock, NULL);
        if (sbx_beats_init(&tools->beats) < 0 || sbx_tool_threads_init(&tools->threads) < 0) {
                pthread_mutex_destroy(&tools->lock);
                pthread_mutex_destroy(&tools->refresh_lock);
                free(tools);
                return SBX_NOMEM(err, ORIGIN);
        }
        *ret_tools = tools;
        return 0;
}

void sbx_tools_stop(struct sbx_tools *tools) {
        sbx_tool_threads_stop(&tools->threads);
        sbx_beats_stop(&tools->beats);
        sbx_tools_end_refresh(tools);
}

void sbx_tools_free(struct sbx_tools *tools) {
        if (tools == NULL)
                return;
        sbx_tools_stop(tools);
        for (size_t i = 0; i < tools->count; i++)
                sbx_tool_entry_free(tools->entries[i]);
        sbx_tools_free_access(tools);
        sbx_tool_threads_destroy(&tools->threads);
        sbx_beats_destroy(&tools->beats);
        pthread_mutex_destroy(&tools->lock);
        pthread_mutex_destroy(&tools->refresh_lock);
        free(tools);
}

void sbx_tools_observe(struct sbx_tools *tools, const struct sbx_tool_observer *observer) {
        tools->observer = *observer;
}

void sbx_tools_measure(struct sbx_tools *tools, struct sbx_metrics *metrics) {
        tools->metrics = metrics;
}

void sbx_tools_set_code(struct sbx_tools *tools, const struct sbx_tool_code *code) {
        tools->code = *code;
}

struct sbx_tool_entry *sbx_tools_find_locked(const struct sbx_tools *tools, const char *name) {
        for (size_t i = 0; i < tools->count; i++)
                if (strcmp(tools->entries[i]->tool.name, name) == 0)
                        return tools->entries[i];
        for (size_t i = 0; i < tools->alias_count; i++)
                if (strcmp(tools->aliases[i].name, name) == 0)
                        return tools->aliases[i].entry;
        return NULL;
}

int sbx_tools_add(struct sbx_tools *tools, const struct sbx_tool *tool, struct sbx_error *err) {
        _cleanup_tool_entry_ struct sbx_tool_entry *entry = NULL;
        int r = sbx_tool_entry_new(tool, &entry, err);

        if (r < 0)
                return r;
        SBX_LOCKED(&tools->lock);
        if (sbx_tools_find_locked(tools, entry->tool.name) != NULL)
                return sbx_error_set(err, -EEXIST, ORIGIN, NULL, "tool '%s' is registered already", entry->tool.name);
        if (tools->count == SBX_TOOLS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, NULL, "tool '%s': there are %u tools already, the maximum",
                                     entry->tool.name, SBX_TOOLS_MAX);
        entry->tool.free_data = tool->free_data; /* not before: what is refused stays the caller's */
        tools->entries[tools->count++] = steal_pointer(entry);
        return 0;
}

const struct sbx_tool_entry *sbx_tools_find(struct sbx_tools *tools, const char *name) {
        SBX_LOCKED(&tools->lock);
        return sbx_tools_find_locked(tools, name);
}

/* ---- one call ---- */

int sbx_tools_parse(struct sbx_bytes bytes, json_t **ret_arguments, struct sbx_error *err) {
        _cleanup_json_ json_t *arguments = NULL;
        int r = 0;

        if (bytes.size == 0)
                arguments = json_object();
        else
                r = sbx_json_parse(bytes, SBX_TOOL_ARGUMENTS_MAX, "arguments", &arguments, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (arguments == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (!json_is_object(arguments))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments: must be a JSON object");
        *ret_arguments = steal_pointer(arguments);
        return 0;
}

/* With what code that the call executes may call back to. */
static int run_with_code(const struct sbx_tools *tools, const struct sbx_tool_entry *entry, json_t *arguments,
                         struct sbx_tool_context *context, json_t **ret_result, struct sbx_error *err) {
        const struct sbx_tool_code *code = &tools->code;
        bool asks = (entry->tool.flags & SBX_TOOL_EXECUTES) != 0 && context->caller == SBX_CALLER_CLIENT &&
                    context->code_calls == NULL && code->begin != NULL;
        void *run = NULL;
        int r = asks ? code->begin(code->data, context->principal, context->call, &run, &context->code_calls, err) : 0;

        if (r < 0)
                return r;
        r = entry->tool.run(context, arguments, ret_result, err);
        if (asks)
                code->end(code->data, run);
        return r;
}

/* What a client of today's protocol must be told as an error of the protocol, not as a result that a model reads. */
static bool ends_call(const struct sbx_tool_entry *entry, const struct sbx_tool_context *context, bool refused, int r) {
        if (context->caller != SBX_CALLER_CLIENT)
                return false;
        return (r == -ENOTSUP && refused) || (r == -EPROTO && (entry->tool.flags & SBX_TOOL_PROTOCOL) != 0);
}

/* 0, or what the tool returned; `*ret_result` stays NULL when that ends the call. */
static int run_tool(const struct sbx_tools *tools, const struct sbx_tool_entry *entry, json_t *arguments,
                    const struct sbx_tool_context *context, json_t **ret_result, struct sbx_error *problem) {
        struct sbx_tool_context own = *context;
        struct sbx_tool_client client;
        int r;

        sbx_tool_client_init(&client, tools->logger, context, entry->tool.task_support != NULL);
        own.client = context->client != NULL ? &client.client : NULL;
        own.data = entry->tool.data;
        r = sbx_schema_apply(entry->schema, arguments, problem);
        if (r == 0)
                r = run_with_code(tools, entry, arguments, &own, ret_result, problem);
        if (r < 0) {
                sbx_error_set(problem, r, ORIGIN, NULL, "%s failed: %s", entry->tool.name, SBX_ERRNO_TEXT(r));
                *ret_result = NULL;
                if (!ends_call(entry, context, client.refused, r))
                        *ret_result = sbx_content_error(problem);
        }
        return r;
}

int sbx_tools_run(struct sbx_tools *tools, const struct sbx_tool_entry *entry, json_t *arguments,
                  const struct sbx_tool_context *context, int *ret_status, struct sbx_buffer *out_json,
                  struct sbx_error *err) {
        const struct sbx_tool_observer *observer = &tools->observer;
        /* Calls of a run have events of their own, with their place in it. */
        bool observed = context->run == NULL && observer->called != NULL && observer->active(observer->data);
        _cleanup_json_ json_t *result = NULL, *given = observed ? json_deep_copy(arguments) : NULL;
        uint64_t begin_ns = sbx_clock_ns();
        struct sbx_error problem = {0};
        int status, r;

        status = run_tool(tools, entry, arguments, context, &result, &problem);
        SBX_COUNT(tools->metrics, tool_calls, 1);
        if (status < 0 || json_is_true(json_object_get(result, "isError")))
                SBX_COUNT(tools->metrics, tool_errors, 1);
        if (observed)
                observer->called(
                        observer->data,
                        &(struct sbx_tool_record){.tool = entry->tool.name,
                                                  .principal = context->principal != NULL ? context->principal : "",
                                                  .arguments = given,
                                                  .result = result,
                                                  .status = status,
                                                  .duration_ns = sbx_clock_ns() - begin_ns});
        *ret_status = status;
        if (result == NULL && (status == -EPROTO || status == -ENOTSUP))
                return sbx_error_set(err, status, problem.origin, problem.hint, "%s", problem.message);
        if (result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_json_encode(result, out_json);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the result of %s: %s", entry->tool.name, SBX_ERRNO_TEXT(r))
                     : 0;
}

int sbx_tools_call(struct sbx_tools *tools, const char *name, struct sbx_bytes arguments,
                   const struct sbx_tool_context *context, struct sbx_buffer *out_json, struct sbx_error *err) {
        const struct sbx_tool_entry *entry = NULL;
        _cleanup_json_ json_t *parsed = NULL;
        struct sbx_tool_context watched;
        struct sbx_beat beat;
        int status, r = sbx_tools_resolve(tools, name, context->caller, &entry, err);

        if (r == 0)
                r = sbx_tools_parse(arguments, &parsed, err);
        if (r < 0)
                return r;
        sbx_beat_begin(&tools->beats, &beat, context, (entry->tool.flags & SBX_TOOL_HEARTBEAT) != 0, &watched);
        r = sbx_tools_run(tools, entry, parsed, &watched, &status, out_json, err);
        sbx_beat_end(&beat);
        return r;
}
