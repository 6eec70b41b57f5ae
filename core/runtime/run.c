/* SPDX-License-Identifier: Apache-2.0 */
/* Runs through the embedding API: its structs to those of core/agent, and results and events to JSON text. */
#include "runtime/runtime.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN "runtime"
#define RESULT_MAX_BYTES ((size_t)256 << 20) /* a whole trajectory may be in it */

struct watched {
        struct sbx_run_events events;
};

static void watch_text(void *data, unsigned depth, struct sbx_bytes text) {
        const struct watched *watched = data;

        watched->events.text(watched->events.data, depth, text);
}

static void watch_event(void *data, const json_t *event) {
        const struct watched *watched = data;
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(RESULT_MAX_BYTES);

        if (sbx_json_encode(event, &json) == 0) /* out of memory: who looks on misses one */
                watched->events.event(watched->events.data, sbx_buffer_bytes(&json));
}

static void fill_request(const struct sbx_run_options *options, const struct sbx_run_variable *variables,
                         struct sbx_run_request *ret) {
        *ret = (struct sbx_run_request){
                .kind = (options->flags & SBX_RUN_AUTONOMOUS) != 0 ? SBX_RUN_AGENT : SBX_RUN_COMPLETION,
                .prompt = options->prompt,
                .system = options->system,
                .provider = options->provider,
                .model = options->model,
                .environment = options->environment,
                .principal = options->principal,
                .check = options->check,
                .response_format = options->response_format,
                .variables = variables,
                .variable_count = options->text_count,
                .no_sub_calls = (options->flags & SBX_RUN_NO_SUB_CALLS) != 0,
                .no_auto_context = (options->flags & SBX_RUN_NO_AUTO_CONTEXT) != 0,
                .with_events = (options->flags & SBX_RUN_WITH_EVENTS) != 0,
                .resume_id = options->resume_id,
                .limits = {.max_depth = options->max_depth,
                           .max_subcalls = options->max_subcalls,
                           .tool_budget = options->tool_budget,
                           .max_iterations = options->max_iterations,
                           .sub_calls_per_turn = options->sub_calls_per_turn,
                           .token_budget = options->token_budget,
                           .timeout_ms = options->timeout_ms,
                           .cost_usd = options->cost_limit_usd > 0 ? options->cost_limit_usd : -1,
                           .sub_call_cost_usd = -1},
        };
}

static int copy_variables(const struct sbx_run_options *options, struct sbx_run_variable **ret, struct sbx_error *err) {
        struct sbx_run_variable *variables = calloc(options->text_count + 1, sizeof(*variables));

        if (variables == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < options->text_count; i++)
                variables[i] = (struct sbx_run_variable){options->texts[i].name, options->texts[i].text};
        *ret = variables;
        return 0;
}

int sbx_runtime_run(struct sbx_runtime *runtime, const struct sbx_run_options *given, const struct sbx_call *call,
                    struct sbx_bytes *ret_json, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(RESULT_MAX_BYTES);
        _cleanup_free_ struct sbx_run_variable *variables = NULL;
        _cleanup_json_ json_t *result = NULL;
        struct sbx_run_options options = {0};
        struct sbx_run_request request;
        struct watched watched = {0};
        struct sbx_run_watch watch = {.data = &watched};
        struct sbx_call own;
        int r, encoded;

        memcpy(&options, given, given->struct_size < sizeof(options) ? given->struct_size : sizeof(options));
        if (options.events != NULL)
                memcpy(&watched.events, options.events,
                       options.events->struct_size < sizeof(watched.events) ? options.events->struct_size
                                                                            : sizeof(watched.events));
        watch.text = watched.events.text != NULL ? watch_text : NULL;
        watch.event = watched.events.event != NULL ? watch_event : NULL;
        r = copy_variables(&options, &variables, err);
        if (r < 0)
                return r;
        fill_request(&options, variables, &request);
        sbx_runtime_connect_sources(runtime);
        sbx_runtime_connect_sinks(runtime);
        r = sbx_runs_run(runtime->runs, &request, &watch, sbx_runtime_call(call, &own), &result, err);
        if (r < 0 && (r != -EALREADY || result == NULL))
                return r;
        encoded = sbx_json_encode(result, &json);
        if (encoded < 0)
                return sbx_error_set(err, encoded, ORIGIN, NULL, "the result of the run: %s", SBX_ERRNO_TEXT(encoded));
        encoded = sbx_runtime_steal_bytes(&json, ret_json, err);
        return encoded < 0 ? encoded : r;
}
