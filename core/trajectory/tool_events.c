/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls as events: what was called, by whom, how it ended. Never the arguments or the result themselves, which may
 * hold what nobody wants in a log; a digest and a size say which they were. */
#include "trajectory/trajectory.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

static bool is_active(void *data) {
        return sbx_trajectory_active(data);
}

/* The digest is of the arguments as compact JSON with sorted keys, so that anybody can compute it again. */
static int add_arguments(json_t *event, const json_t *arguments) {
        _cleanup_free_ char *text = json_dumps(arguments, JSON_COMPACT | JSON_SORT_KEYS);
        const char *session_id = json_string_value(json_object_get(arguments, "session_id"));
        char digest[SBX_SHA256_TEXT_SIZE];

        if (text == NULL)
                return -ENOMEM;
        sbx_sha256_text((struct sbx_bytes){text, strlen(text)}, digest);
        if (session_id != NULL && json_object_set_new(event, "session_id", json_string(session_id)) < 0)
                return -ENOMEM;
        return json_object_set_new(event, "arguments_sha256", json_string(digest)) < 0 ||
                               json_object_set_new(event, "arguments_bytes", json_integer((json_int_t)strlen(text))) < 0
                       ? -ENOMEM
                       : 0;
}

/* What an execution's result says of itself: "end", "state", times, memory, isolation. A copy: another thread frees it.
 */
static int add_execution(json_t *event, const json_t *result) {
        const json_t *facts = json_object_get(json_object_get(result, "_meta"), "snipara-sandbox/execution");
        _cleanup_json_ json_t *copy = NULL;

        if (facts == NULL)
                return 0;
        copy = json_deep_copy(facts);
        return copy != NULL ? json_object_update_missing(event, copy) : -ENOMEM;
}

static void on_call(void *data, const struct sbx_tool_record *record) {
        bool is_error = record->status < 0 || json_is_true(json_object_get(record->result, "isError"));
        _cleanup_json_ json_t *event =
                json_pack("{s:s, s:s, s:b, s:f}", "tool", record->tool, "principal", record->principal, "is_error",
                          (int)is_error, "call_ms", (double)(record->duration_ns / 1000) / 1000);

        if (event == NULL || record->arguments == NULL || add_arguments(event, record->arguments) < 0 ||
            add_execution(event, record->result) < 0)
                return; /* out of memory: the call itself will meet it too */
        if (record->status < 0 && json_object_get(event, "error") == NULL)
                json_object_set_new(event, "error", json_string(strerrorname_np(-record->status)));
        (void)sbx_trajectory_emit(data, NULL, "tool_call", steal_pointer(event));
}

void sbx_trajectory_watch_tools(struct sbx_trajectory *trajectory, struct sbx_tools *tools) {
        sbx_tools_observe(tools,
                          &(struct sbx_tool_observer){.data = trajectory, .active = is_active, .called = on_call});
}
