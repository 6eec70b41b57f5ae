/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on sessions: each takes the session's turn, sees to a living guest, does its work, and lets go. */
#include "session/state.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/utf8.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define VARIABLES_TIMEOUT_MS UINT64_C(10000) /* reading and writing variables; a __repr__ may hang */
#define FILENAME_MAX_BYTES 1024u
#define MIB (UINT64_C(1) << 20)

/* ---- the table ---- */

static int64_t setting(const struct sbx_config *config, const char *name, int64_t fallback) {
        const struct sbx_value *value = sbx_settings_get(sbx_config_core(config), name);

        return value != NULL && value->set ? value->integer : fallback;
}

int sbx_sessions_new(const struct sbx_config *config, struct sbx_registry *registry, const struct sbx_logger *logger,
                     struct sbx_sessions **ret_sessions, struct sbx_error *err) {
        struct sbx_sessions *sessions = calloc(1, sizeof(*sessions));
        const char *environment = sbx_config_string(config, "environment");
        int r;

        if (sessions == NULL)
                return SBX_NOMEM(err, ORIGIN);
        sessions->registry = registry;
        sessions->config = config;
        sessions->logger = logger;
        sessions->environment = environment != NULL ? environment : "local";
        sessions->ttl_ns = (uint64_t)setting(config, "session_ttl", 30 * 60 * 1000) * SBX_NS_PER_MS;
        sessions->sessions_max = (unsigned)setting(config, "max_sessions", 64);
        sessions->principal_max = (unsigned)setting(config, "max_sessions_per_principal", 0);
        sessions->output_max_bytes = (size_t)setting(config, "max_output_bytes", (int64_t)MIB);
        sessions->display_max_bytes = (size_t)setting(config, "max_display_bytes", (int64_t)(16 * MIB));
        sessions->grace_ns = (uint64_t)setting(config, "interrupt_grace", 2000) * SBX_NS_PER_MS;
        sessions->default_timeout_ms = (uint64_t)setting(config, "exec_timeout", 0);
        sessions->docker_timeout_ms = (uint64_t)setting(config, "docker_timeout", 0) * 1000;
        sessions->cpu_limit_ns = (uint64_t)setting(config, "cpu_time_limit", 0) * SBX_NS_PER_MS;
        sessions->warm_stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (sessions->warm_stop_fd < 0) {
                r = sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                  "can't make an eventfd: %s", SBX_ERRNO_TEXT(-errno));
                free(sessions);
                return r;
        }
        pthread_mutex_init(&sessions->lock, NULL);
        r = sbx_cond_init(&sessions->reaper_wake);
        if (r == 0) {
                r = sbx_cond_init(&sessions->keeper_wake);
                if (r < 0)
                        pthread_cond_destroy(&sessions->reaper_wake);
        }
        if (r < 0) {
                pthread_mutex_destroy(&sessions->lock);
                close(sessions->warm_stop_fd);
                free(sessions);
                return SBX_NOMEM(err, ORIGIN);
        }
        *ret_sessions = sessions;
        return 0;
}

void sbx_sessions_free(struct sbx_sessions *sessions) {
        if (sessions == NULL)
                return;
        sbx_warm_stop(sessions);
        sbx_keeper_stop(sessions);
        sbx_reaper_stop(sessions);
        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                while (sessions->buckets[i] != NULL) {
                        struct sbx_session *session = sessions->buckets[i];

                        sessions->buckets[i] = session->next;
                        sbx_session_free(session);
                }
        sbx_backends_free(sessions);
        for (size_t i = 0; i < SBX_SESSION_EXPIRED_MAX; i++) {
                free(sessions->expired[i].principal);
                free(sessions->expired[i].id);
        }
        sbx_principals_free(sessions);
        pthread_cond_destroy(&sessions->keeper_wake);
        pthread_cond_destroy(&sessions->reaper_wake);
        pthread_mutex_destroy(&sessions->lock);
        close(sessions->warm_stop_fd);
        free(sessions);
}

const struct sbx_config *sbx_sessions_config(const struct sbx_sessions *sessions) {
        return sessions->config;
}

/* ---- one operation in a session ---- */

static int still_running(struct sbx_session *session, struct sbx_error *err) {
        sbx_session_settle(session, "its interpreter ended while nothing was executed");
        return session->guest != NULL ? 0
                                      : sbx_error_set(err, -ENOENT, ORIGIN, NULL,
                                                      "the interpreter of session '%s' does not run", session->id);
}

static int attempt(struct sbx_session *session, const struct sbx_operation *operation, const struct sbx_call *call,
                   struct sbx_error *err) {
        struct sbx_call merged = {0};
        char reason[128];
        int r;

        r = sbx_session_call_begin(session, call, operation->limit_ms, &merged, err);
        if (r < 0)
                return r;
        r = operation->on != SBX_ON_ANY ? still_running(session, err)
                                        : sbx_session_ready(session, operation->memory_bytes, &merged, err);
        if (r == 0)
                r = operation->run(session, operation->data, &merged, err);
        if (r == 0 || session->guest == NULL)
                snprintf(reason, sizeof(reason), "its interpreter ended");
        else if (r == -ESRCH)
                snprintf(reason, sizeof(reason), "its interpreter ended while nothing was executed");
        else
                snprintf(reason, sizeof(reason), "its interpreter ended while %s", operation->what);
        sbx_session_settle(session, reason);
        if (operation->on != SBX_ON_IDLE)
                sbx_checkpoint_mark(session);
        sbx_session_call_end(session, call);
        return r;
}

int sbx_session_operate(struct sbx_sessions *sessions, const struct sbx_operation *operation,
                        const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_session_wish wish = {operation->principal, operation->id, operation->environment,
                                        operation->runtime};
        _cleanup_turn_ struct sbx_session *session = NULL;
        struct sbx_error problem = {0};
        int r;

        if (operation->on == SBX_ON_ANY)
                r = sbx_session_take(sessions, &wish, call, &session, err);
        else
                r = sbx_session_take_running(sessions, operation->principal, operation->id,
                                             operation->on == SBX_ON_IDLE, call, &session, err);
        if (r < 0)
                return r;
        /* A guest can die between the look at it and the request. The request never reached it, so this is no second
         * run of anything. */
        r = attempt(session, operation, call, &problem);
        if (r == -ESRCH) {
                if (session->executions == 0) /* it was new: an engine has been restarted, say */
                        sbx_pool_discard(session->backend->pool);
                problem.code = 0;
                r = attempt(session, operation, call, &problem);
        }
        if (r == -ESRCH)
                sbx_error_set(&problem, r, ORIGIN, "Look at the log of the backend, and run `snipara-sandbox doctor`.",
                              "the interpreter of session '%s' ends as soon as it is started", session->id);
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        return r;
}

/* ---- executing ---- */

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
        if (session->guest != NULL)
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
        free(steal_pointer(session->notice)); /* delivered */
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
        struct sbx_operation operation = {.what = "code was sent to it", .run = run_execution, .data = &execute};
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
        if (r == 0)
                *ret_result = execute.result;
        sbx_session_tell(sessions, operation.principal, operation.id);
        return r;
}

/* ---- variables and the report ---- */

struct variables {
        const char *name;
        const json_t *value;
        json_t *all;
        char *repr;
};

static int run_get(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct variables *variables = data;

        return sbx_guest_get(session->guest, NULL, call, &variables->all, err);
}

static int run_set(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct variables *variables = data;

        return sbx_guest_set(session->guest, variables->name, variables->value, call, &variables->repr, err);
}

static int run_clear(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        return sbx_guest_clear(session->guest, call, err);
}

static int run_report(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_bytes report = sbx_guest_report(session->guest), *ret_copy = data;
        char *copy = malloc(report.size + 1);

        if (copy == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (report.size > 0)
                memcpy(copy, report.data, report.size);
        copy[report.size] = '\0';
        *ret_copy = (struct sbx_bytes){copy, report.size};
        return 0;
}

static int operate_on_variables(struct sbx_sessions *sessions, const char *principal, const char *id, const char *what,
                                int (*run)(struct sbx_session *, void *, const struct sbx_call *, struct sbx_error *),
                                void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_operation operation = {.principal = principal,
                                      .id = id,
                                      .limit_ms = VARIABLES_TIMEOUT_MS,
                                      .what = what,
                                      .run = run,
                                      .data = data};

        return sbx_session_operate(sessions, &operation, call, err);
}

int sbx_sessions_get(struct sbx_sessions *sessions, const char *principal, const char *id, const struct sbx_call *call,
                     json_t **ret_variables, struct sbx_error *err) {
        struct variables variables = {0};
        int r = operate_on_variables(sessions, principal, id, "its variables were read", run_get, &variables, call,
                                     err);

        if (r == 0)
                *ret_variables = variables.all;
        return r;
}

int sbx_sessions_set(struct sbx_sessions *sessions, const char *principal, const char *id, const char *name,
                     const json_t *value, const struct sbx_call *call, char **ret_repr, struct sbx_error *err) {
        struct variables variables = {.name = name, .value = value};
        int r = operate_on_variables(sessions, principal, id, "a variable was set", run_set, &variables, call, err);

        if (r == 0)
                *ret_repr = variables.repr;
        return r;
}

int sbx_sessions_clear(struct sbx_sessions *sessions, const char *principal, const char *id,
                       const struct sbx_call *call, struct sbx_error *err) {
        return operate_on_variables(sessions, principal, id, "its variables were cleared", run_clear, NULL, call, err);
}

int sbx_sessions_report(struct sbx_sessions *sessions, const char *principal, const char *id,
                        const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err) {
        return operate_on_variables(sessions, principal, id, "its report was read", run_report, ret_json, call, err);
}

int sbx_sessions_destroy(struct sbx_sessions *sessions, const char *principal, const char *id, struct sbx_error *err) {
        struct sbx_session *session, *unneeded = NULL;
        bool known;

        principal = principal != NULL ? principal : "";
        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal, id);
        known = session != NULL;
        sbx_expired_remove_locked(sessions, principal, id);
        if (known && sbx_session_end_locked(session))
                unneeded = session;
        pthread_mutex_unlock(&sessions->lock);
        if (unneeded != NULL)
                sbx_session_free(unneeded);
        if (known)
                sbx_session_tell(sessions, principal, id);
        if (known || strcmp(id, SBX_SESSION_DEFAULT) == 0)
                return 0;
        return sbx_error_set(err, -ENOENT, ORIGIN, "list_sessions shows those that exist.", "session '%.*s' not found",
                             SBX_SESSION_ID_MAX, id);
}

void sbx_sessions_destroy_all(struct sbx_sessions *sessions, const char *principal) {
        struct sbx_session *unneeded = NULL, *next;

        principal = principal != NULL ? principal : "";
        pthread_mutex_lock(&sessions->lock);
        sbx_expired_forget_locked(sessions, principal);
        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                for (struct sbx_session *at = sessions->buckets[i]; at != NULL; at = next) {
                        next = at->next;
                        if (strcmp(at->principal, principal) != 0 || !sbx_session_end_locked(at))
                                continue;
                        at->next = unneeded; /* it is in no bucket any more */
                        unneeded = at;
                }
        pthread_mutex_unlock(&sessions->lock);
        for (; unneeded != NULL; unneeded = next) {
                next = unneeded->next;
                sbx_session_tell(sessions, principal, unneeded->id); /* those that execute are told of as they end */
                sbx_session_free(unneeded);
        }
}
