/* SPDX-License-Identifier: Apache-2.0 */
/* Executing code in a session: its limits, and what is told of its end. */
#include "session/state.h"

#include "base/error.h"
#include "base/utf8.h"
#include "guest/result.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define FILENAME_MAX_BYTES 1024u
#define MIB (UINT64_C(1) << 20)

struct execute {
        struct sbx_execution execution;
        const struct sbx_profile *profile;
        const struct sbx_code_calls *calls;
        uint64_t timeout_ms;
        struct sbx_result *result;
};

/* Of an execution that states neither a time nor a profile; 0: none is configured. */
static uint64_t configured_timeout_ms(const struct sbx_sessions *sessions, const char *environment) {
        const struct sbx_plugin_entry *entry =
                sbx_config_plugin_find(sessions->config, environment != NULL ? environment : sessions->environment);

        if (sessions->default_timeout_ms == 0 && entry != NULL && strcmp(entry->plugin, "backend-docker") == 0)
                return sessions->docker_timeout_ms;
        return sessions->default_timeout_ms;
}

static int check_execution(const struct sbx_sessions *sessions, const struct sbx_execution *given,
                           struct execute *ret_execute, struct sbx_error *err) {
        struct sbx_execution execution = {0};
        const struct sbx_profile *profile = NULL;
        int r;

        memcpy(&execution, given, given->struct_size < sizeof(execution) ? given->struct_size : sizeof(execution));
        r = sbx_profile_find(execution.profile, &profile, err);
        if (r < 0)
                return r;
        if (execution.code.size > SBX_CODE_MAX_BYTES)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Split it, or put data into files and variables.",
                                     "code: %zu bytes, at most %u are taken", execution.code.size, SBX_CODE_MAX_BYTES);
        if (execution.timeout_ms > SBX_TIMEOUT_MAX_MS)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Give more than 0 and at most 600 seconds.",
                                     "timeout: %.3f seconds is more than the maximum of %u",
                                     (double)execution.timeout_ms / 1000, SBX_TIMEOUT_MAX_MS / 1000);
        if (execution.filename == NULL)
                execution.filename = "<execution>";
        if (strlen(execution.filename) > FILENAME_MAX_BYTES ||
            !sbx_utf8_valid((struct sbx_bytes){execution.filename, strlen(execution.filename)}))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "filename: must be UTF-8 of at most %u bytes",
                                     FILENAME_MAX_BYTES);
        ret_execute->execution = execution;
        ret_execute->profile = profile;
        ret_execute->timeout_ms = execution.timeout_ms;
        if (ret_execute->timeout_ms == 0 && strcmp(profile->name, "default") == 0)
                ret_execute->timeout_ms = configured_timeout_ms(sessions, execution.environment);
        if (ret_execute->timeout_ms == 0)
                ret_execute->timeout_ms = profile->timeout_ms;
        return 0;
}

/* What code may allocate: a little less than the hard limit, so that it meets a MemoryError, which keeps the state,
 * before the kernel kills the guest, which does not. */
static uint64_t soft_memory_limit(const struct sbx_session *session, uint64_t profile_bytes) {
        uint64_t most_bytes = session->backend->memory_max_bytes;
        uint64_t hard_bytes = profile_bytes < most_bytes ? profile_bytes : most_bytes, margin = hard_bytes / 16;

        if (margin < 8 * MIB)
                margin = 8 * MIB;
        if (margin > 64 * MIB)
                margin = 64 * MIB;
        return hard_bytes > 2 * margin ? hard_bytes - margin : hard_bytes / 2;
}

static void note_end(struct sbx_session *session, struct sbx_result *result) {
        size_t length = result->error_message != NULL ? strlen(result->error_message) : 0;
        char reason[512];

        if (result->memory_peak_bytes > session->memory_peak_bytes)
                session->memory_peak_bytes = result->memory_peak_bytes;
        pthread_mutex_lock(&session->owner->lock);
        session->executions++;
        pthread_mutex_unlock(&session->owner->lock);
        if (sbx_guest_alive(session->guest))
                return;
        result->state = SBX_STATE_LOST;
        snprintf(reason, sizeof(reason), "an earlier execution ended as '%s'%s%.*s%s", sbx_end_name(result->end),
                 length > 0 ? " (" : "", (int)sbx_utf8_cut((struct sbx_bytes){result->error_message, length}, 300),
                 length > 0 ? result->error_message : "", length > 0 ? ")" : "");
        sbx_session_settle(session, reason);
        if (session->guest != NULL || sbx_session_revivable(session))
                result->state = SBX_STATE_ROLLED_BACK;
}

static void measure(struct sbx_metrics *metrics, const struct sbx_result *result) {
        if (metrics == NULL)
                return;
        if ((unsigned)result->end < SBX_METRIC_ENDS)
                sbx_metric_add(&metrics->executions[result->end], 1);
        sbx_histogram_add(&metrics->execution_seconds, result->duration_ns);
        sbx_metric_add(&metrics->output_bytes, result->stdout_text.size + result->stderr_text.size);
        sbx_metric_add(&metrics->output_dropped_bytes, result->stdout_dropped_bytes + result->stderr_dropped_bytes);
}

static int run_execution(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct execute *execute = data;
        const struct sbx_sessions *sessions = session->owner;
        struct sbx_guest_execution request = {
                .code = execute->execution.code,
                .filename = execute->execution.filename,
                .deadline_ns = sbx_clock_deadline_ms(execute->timeout_ms),
                .cpu_limit_ns = sessions->cpu_limit_ns,
                .memory_bytes = soft_memory_limit(session, execute->profile->memory_bytes),
                .grace_ns = sessions->grace_ns,
                .output_max_bytes = sessions->output_max_bytes,
                .display_max_bytes = sessions->display_max_bytes,
                .events = execute->execution.events,
                .session_id = session->id,
                .notice = session->notice,
                .code_calls = execute->calls,
        };
        int r = sbx_guest_execute(session->guest, &request, call, &execute->result, err);

        if (r < 0)
                return r;
        if (session->notice_kind != NULL &&
            sbx_result_set(&execute->result->notice_kind,
                           (struct sbx_bytes){session->notice_kind, strlen(session->notice_kind)}) < 0)
                sbx_log(sessions->logger, SBX_LOG_WARNING, "out of memory: a notice's kind is not told");
        sbx_notice_clear(session); /* delivered */
        note_end(session, execute->result);
        measure(sessions->metrics, execute->result);
        return 0;
}

int sbx_sessions_execute(struct sbx_sessions *sessions, const struct sbx_execution *execution,
                         const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err) {
        return sbx_sessions_execute_with(sessions, execution, NULL, call, ret_result, err);
}

int sbx_sessions_execute_with(struct sbx_sessions *sessions, const struct sbx_execution *execution,
                              const struct sbx_code_calls *calls, const struct sbx_call *call,
                              struct sbx_result **ret_result, struct sbx_error *err) {
        struct execute execute = {.calls = calls};
        char *kept = NULL;
        struct sbx_operation operation = {.what = "code was sent to it",
                                          .changes = true,
                                          .run = run_execution,
                                          .data = &execute,
                                          .ret_kept = &kept};
        int r;

        r = check_execution(sessions, execution, &execute, err);
        if (r < 0)
                return r;
        operation.principal = execute.execution.principal;
        operation.id = execute.execution.session_id;
        operation.environment = execute.execution.environment;
        operation.runtime = execute.execution.runtime;
        operation.memory_bytes = execute.profile->memory_bytes;
        r = sbx_session_operate(sessions, &operation, call, err);
        if (r == 0) {
                execute.result->checkpoint = kept;
                *ret_result = execute.result;
        }
        sbx_session_tell(sessions, operation.principal, operation.id);
        return r;
}
