/* SPDX-License-Identifier: Apache-2.0 */
/* execute_python: code in a session that stays. execute: a script in a session of its own. */
#include "tools/builtin.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "session/runtimes.h"
#include "tools/render.h"

#define ORIGIN "tools"
#define PROGRESS_INTERVAL_NS (100 * SBX_NS_PER_MS) /* between two notes of output */
#define PROGRESS_LINE_MAX 160u                     /* bytes of output in one */

/* snekbox's wall-clock limit. Its 70 MB of memory are too few for an interpreter with preloaded modules, which the
 * cgroup counts here: 128 MB, the profile "quick". */
#define SCRIPT_TIMEOUT_MS UINT64_C(6000)
#define SCRIPT_PROFILE "quick"

static void result_cleanup(struct sbx_result **result) {
        sbx_result_free(*result);
}
#define _cleanup_result_ __attribute__((cleanup(result_cleanup)))

/* ---- which tools execute what ---- */

bool sbx_tools_code_of(const char *name, const json_t *arguments, json_t **ret_code, const char **ret_language) {
        bool bash = strcmp(name, "execute_bash") == 0, any = strcmp(name, "execute_code") == 0;

        if (!bash && !any && strcmp(name, "execute_python") != 0 && strcmp(name, "execute") != 0)
                return false;
        *ret_code = json_object_get(arguments, bash ? "command" : "code");
        *ret_language = bash ? "bash" : any ? json_string_value(json_object_get(arguments, "language")) : NULL;
        return true;
}

/* ---- progress on output ---- */

struct progress {
        const struct sbx_tool_context *context;
        uint64_t last_ns;
};

static bool is_blank(char c) {
        return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

/* The last line of what was written that has anything on it. */
static struct sbx_bytes last_line(struct sbx_bytes output) {
        const char *bytes = output.data;
        size_t end = output.size, begin;

        while (end > 0 && is_blank(bytes[end - 1]))
                end--;
        for (begin = end; begin > 0 && bytes[begin - 1] != '\n';)
                begin--;
        return (struct sbx_bytes){bytes + begin, end - begin};
}

static void report_output(void *data, int fd, struct sbx_bytes bytes) {
        struct progress *progress = data;
        _cleanup_buffer_ struct sbx_buffer message = SBX_BUFFER(4 * PROGRESS_LINE_MAX);
        uint64_t now_ns = sbx_clock_ns();
        struct sbx_bytes line;

        if (progress->last_ns != 0 && now_ns - progress->last_ns < PROGRESS_INTERVAL_NS)
                return;
        progress->last_ns = now_ns;
        line = last_line(bytes);
        line.size = sbx_utf8_cut(line, PROGRESS_LINE_MAX);
        if (sbx_utf8_repair(line, true, &message) < 0)
                return;
        progress->context->progress(progress->context->progress_data, SBX_PROGRESS_ELAPSED, 0, message.data);
}

/* ---- running ---- */

static int get_code(json_t *arguments, const char *member, struct sbx_bytes *ret_code, struct sbx_error *err) {
        struct sbx_bytes code = {0};
        const char *bytes;
        int r = sbx_json_get_text(arguments, "arguments", member, SBX_JSON_REQUIRED, &code, err);

        if (r < 0)
                return r;
        bytes = code.data;
        for (size_t i = 0; i < code.size; i++)
                if (!is_blank(bytes[i])) {
                        *ret_code = code;
                        return 0;
                }
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "No code provided");
}

/* What goes on before the code runs: an image is pulled, say. */
static void report_start(void *data, const char *message) {
        const struct progress *progress = data;

        progress->context->progress(progress->context->progress_data, SBX_PROGRESS_ELAPSED, 0, message);
}

static int execute(const struct sbx_tool_context *context, struct sbx_execution *execution, bool script,
                   json_t **ret_result, struct sbx_error *err) {
        _cleanup_result_ struct sbx_result *result = NULL;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct progress progress = {.context = context};
        struct sbx_output_events events = {.struct_size = sizeof(events), .data = &progress, .output = report_output};
        struct sbx_keep keep = {
                .sessions = context->data, .principal = context->principal, .session_id = execution->session_id};
        bool keeps;
        int r;

        execution->principal = context->principal;
        execution->environment = context->environment;
        if (context->call != NULL)
                call = *context->call;
        if (context->progress != NULL) {
                execution->events = &events;
                call.progress = report_start;
                call.progress_data = &progress;
        }
        r = sbx_sessions_execute_with(context->data, execution, context->code_calls, &call, &result, err);
        if (r < 0)
                return r;
        /* Models and code have no way to read a resource; a fresh session is gone with its call. */
        keeps = context->caller == SBX_CALLER_CLIENT && execution->session_id[0] != '\0';
        return sbx_render_kept(result, execution->session_id[0] == '\0', script, keeps ? &keep : NULL, ret_result, err);
}

/* An execution in a session that stays: the code is the argument `member`, the session has been seen to. */
static int execute_in_session(const struct sbx_tool_context *context, json_t *arguments, const char *member,
                              struct sbx_execution *execution, json_t **ret_result, struct sbx_error *err) {
        int64_t timeout_s = 0;
        int r = get_code(arguments, member, &execution->code, err);

        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "timeout", 0, 1, SBX_BUILTIN_TIMEOUT_MAX_S, &timeout_s,
                                     err);
        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "profile", SBX_JSON_REQUIRED, &execution->profile, err);
        if (r < 0)
                return r;
        execution->timeout_ms = (uint64_t)timeout_s * 1000;
        return execute(context, execution, false, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_execute_python) {
        struct sbx_execution execution = {.struct_size = sizeof(execution), .runtime = SBX_RUNTIME_DEFAULT};
        int r = sbx_builtin_session_id(arguments, &execution.session_id, err);

        return r < 0 ? r : execute_in_session(context, arguments, "code", &execution, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_execute_bash) {
        struct sbx_execution execution = {.struct_size = sizeof(execution), .runtime = "bash"};
        int r = sbx_json_get_string(arguments, "arguments", "session_id", SBX_JSON_REQUIRED, &execution.session_id,
                                    err);

        if (r < 0)
                return r;
        if (execution.session_id[0] == '\0')
                execution.session_id = SBX_SESSION_DEFAULT "-bash";
        return execute_in_session(context, arguments, "command", &execution, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_execute_code) {
        struct sbx_execution execution = {.struct_size = sizeof(execution)};
        char own_id[sizeof(SBX_SESSION_DEFAULT) + SBX_RUNTIME_NAME_SIZE];
        struct sbx_runtime_name name;
        int r = sbx_json_get_string(arguments, "arguments", "language", SBX_JSON_REQUIRED, &execution.runtime, err);

        if (r == 0)
                r = sbx_runtime_name_parse(execution.runtime, &name, err);
        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "session_id", 0, &execution.session_id, err);
        if (r < 0)
                return r;
        if (execution.session_id == NULL || execution.session_id[0] == '\0') {
                if (strcmp(name.text, SBX_RUNTIME_DEFAULT) == 0)
                        snprintf(own_id, sizeof(own_id), "%s", SBX_SESSION_DEFAULT);
                else
                        snprintf(own_id, sizeof(own_id), "%s-%s", SBX_SESSION_DEFAULT, name.text);
                execution.session_id = own_id;
        }
        return execute_in_session(context, arguments, "code", &execution, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_execute) {
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .session_id = "",
                                          .runtime = SBX_RUNTIME_DEFAULT,
                                          .profile = SCRIPT_PROFILE,
                                          .timeout_ms = SCRIPT_TIMEOUT_MS,
                                          .filename = "main.py"};
        int r = get_code(arguments, "code", &execution.code, err);

        return r < 0 ? r : execute(context, &execution, true, ret_result, err);
}
