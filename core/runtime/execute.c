/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the embedding API that run code and tools. */
#include "runtime/runtime.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN "runtime"
#define TOOL_RESULT_MAX ((size_t)64 << 20)

const struct sbx_call *sbx_runtime_call(const struct sbx_call *call, struct sbx_call *copy) {
        if (call == NULL)
                return NULL;
        *copy = (struct sbx_call){.cancel_fd = -1};
        memcpy(copy, call, call->struct_size < sizeof(*copy) ? call->struct_size : sizeof(*copy));
        copy->struct_size = sizeof(*copy);
        return copy;
}

int sbx_runtime_steal_bytes(struct sbx_buffer *buffer, struct sbx_bytes *ret_bytes, struct sbx_error *err) {
        size_t size = buffer->size;
        char *data = sbx_buffer_steal(buffer);

        if (data == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret_bytes = (struct sbx_bytes){data, size};
        return 0;
}

/* ---- code ---- */

static void emit_execution(struct sbx_runtime *runtime, const struct sbx_execution *execution,
                           const struct sbx_result *result) {
        char digest[SBX_SHA256_TEXT_SIZE];
        json_t *event;

        if (!sbx_trajectory_active(runtime->trajectory))
                return;
        sbx_sha256_text(execution->code, digest);
        event = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:f, s:f, s:I, s:s?, s:s?}", "principal",
                          execution->principal != NULL ? execution->principal : "", "session_id",
                          result->session_id != NULL ? result->session_id : "", "code_sha256", digest, "code_bytes",
                          (json_int_t)execution->code.size, "end", sbx_end_name(result->end), "state",
                          sbx_state_name(result->state), "duration_ms", (double)(result->duration_ns / 1000) / 1000,
                          "cpu_ms", (double)(result->cpu_ns / 1000) / 1000, "memory_peak_bytes",
                          (json_int_t)result->memory_peak_bytes, "isolation", result->isolation, "error_type",
                          result->error_type);
        (void)sbx_trajectory_emit(runtime->trajectory, NULL, "execution", event); /* a lost event is counted there */
}

int sbx_runtime_execute(struct sbx_runtime *runtime, const struct sbx_execution *execution, const struct sbx_call *call,
                        struct sbx_result **ret_result, struct sbx_error *err) {
        struct sbx_execution copy = {0};
        const struct sbx_call *limits;
        struct sbx_code_run *code_run = NULL;
        struct sbx_result *result = NULL;
        struct sbx_call own;
        int r;

        memcpy(&copy, execution, execution->struct_size < sizeof(copy) ? execution->struct_size : sizeof(copy));
        copy.struct_size = sizeof(copy);
        limits = sbx_runtime_call(call, &own);
        r = sbx_code_run_new(runtime->runs, copy.principal, limits, &code_run, err);
        if (r < 0)
                return r;
        if (code_run != NULL) { /* code_mode = "always" */
                sbx_runtime_connect_sources(runtime);
                sbx_runtime_connect_sinks(runtime);
        }
        r = sbx_sessions_execute_with(runtime->sessions, &copy, sbx_code_run_calls(code_run), limits, &result, err);
        sbx_code_run_free(code_run);
        if (r < 0)
                return r;
        emit_execution(runtime, &copy, result);
        *ret_result = result;
        return 0;
}

int sbx_runtime_report(struct sbx_runtime *runtime, const char *session_id, const struct sbx_call *call,
                       struct sbx_bytes *ret_json, struct sbx_error *err) {
        struct sbx_call own;

        return sbx_sessions_report(runtime->sessions, NULL, session_id, sbx_runtime_call(call, &own), ret_json, err);
}

/* ---- tools ---- */

int sbx_runtime_tool_call(struct sbx_runtime *runtime, const char *name, struct sbx_bytes arguments,
                          const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(TOOL_RESULT_MAX);
        struct sbx_call own = {0};
        struct sbx_tool_context context = {.principal = "", .call = sbx_runtime_call(call, &own)};
        int r;

        sbx_runtime_connect_sources(runtime);
        sbx_runtime_connect_sinks(runtime); /* the call may begin a run */
        r = sbx_tools_call(runtime->tools, name, arguments, &context, &json, err);
        return r < 0 ? r : sbx_runtime_steal_bytes(&json, ret_json, err);
}

int sbx_runtime_tool_list(struct sbx_runtime *runtime, struct sbx_bytes *ret_json, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(TOOL_RESULT_MAX);
        int r;

        sbx_runtime_connect_sources(runtime);
        r = sbx_tools_list(runtime->tools, &json, err);
        return r < 0 ? r : sbx_runtime_steal_bytes(&json, ret_json, err);
}
