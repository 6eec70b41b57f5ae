/* SPDX-License-Identifier: Apache-2.0 */
/* What came of an execution, as the JSON object that `exec --json` prints. */
#include "base/json.h"
#include "cli/result.h"

#define RESULT_JSON_MAX (64u << 20)

static json_t *text_or_null(const char *text) {
        return text != NULL ? sbx_json_text((struct sbx_bytes){text, strlen(text)}) : json_null();
}

/* `result` of the code, parsed. It comes from a guest: what is not good JSON is null, as if it could not be encoded. */
static json_t *parsed_or_null(const char *text) {
        json_t *value = NULL;

        if (text == NULL ||
            sbx_json_parse_any((struct sbx_bytes){text, strlen(text)}, RESULT_JSON_MAX, "result", &value, NULL) < 0)
                return json_null();
        return value;
}

static json_t *error_json(const struct sbx_result *result) {
        if (result->end == SBX_END_OK)
                return json_null();
        return json_pack("{s:o, s:o, s:o}", "type", text_or_null(result->error_type), "message",
                         text_or_null(result->error_message), "traceback", text_or_null(result->traceback));
}

static json_t *displays_json(const struct sbx_result *result) {
        json_t *displays = json_array();

        for (uint32_t i = 0; i < result->display_count; i++) {
                const struct sbx_display *display = &result->displays[i];

                if (json_array_append_new(displays, json_pack("{s:o, s:o}", "mime", text_or_null(display->mime_type),
                                                              "data", sbx_json_text(display->data))) < 0) {
                        json_decref(displays);
                        return NULL;
                }
        }
        return displays;
}

/* Milliseconds with the microseconds behind the point. */
static json_t *milliseconds(uint64_t ns) {
        return json_real((double)(ns / 1000) / 1000.0);
}

json_t *sbx_cli_result_json(const struct sbx_result *result, const char *environment) {
        return json_pack("{s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                         "s:I, s:I, s:I, s:I}",
                         "session", text_or_null(result->session_id), "environment", text_or_null(environment),
                         "isolation", text_or_null(result->isolation), "end", sbx_end_name(result->end), "state",
                         sbx_state_name(result->state), "stdout", sbx_json_text(result->stdout_text), "stderr",
                         sbx_json_text(result->stderr_text), "value", text_or_null(result->value), "result",
                         text_or_null(result->result), "result_json", parsed_or_null(result->result_json), "error",
                         error_json(result), "notice", text_or_null(result->notice), "notice_kind",
                         text_or_null(result->notice_kind), "checkpoint", parsed_or_null(result->checkpoint),
                         "displays", displays_json(result), "duration_ms", milliseconds(result->duration_ns), "cpu_ms",
                         milliseconds(result->cpu_ns), "memory_peak_bytes", (json_int_t)result->memory_peak_bytes,
                         "stdout_dropped_bytes", (json_int_t)result->stdout_dropped_bytes, "stderr_dropped_bytes",
                         (json_int_t)result->stderr_dropped_bytes, "display_dropped_count",
                         (json_int_t)result->display_dropped_count);
}
