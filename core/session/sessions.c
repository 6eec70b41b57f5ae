/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on sessions: each takes the session's turn, sees to a living guest, does its work, and lets go. */
#include "session/state.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define VARIABLES_TIMEOUT_MS UINT64_C(10000) /* reading and writing variables; a __repr__ may hang */
#define MIB (UINT64_C(1) << 20)
#define ATTEMPTS_MAX 3u /* at an operation whose guest turns out to be dead: its own, a copy, and then a new one */

/* ---- the table ---- */

static int64_t setting(const struct sbx_config *config, const char *name, int64_t fallback) {
        const struct sbx_value *value = sbx_settings_get(sbx_config_core(config), name);

        return value != NULL && value->set ? value->integer : fallback;
}

static int init_conditions(struct sbx_sessions *sessions) {
        int r = sbx_cond_init(&sessions->reaper_wake);

        if (r < 0)
                return r;
        r = sbx_cond_init(&sessions->keeper_wake);
        if (r == 0) {
                r = sbx_cond_init(&sessions->retention_wake);
                if (r < 0)
                        pthread_cond_destroy(&sessions->keeper_wake);
        }
        if (r < 0)
                pthread_cond_destroy(&sessions->reaper_wake);
        else
                pthread_mutex_init(&sessions->lock, NULL);
        return r;
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
        sessions->retention_ns = (uint64_t)setting(config, "session_retention", 0) * SBX_NS_PER_MS;
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
        r = init_conditions(sessions);
        if (r < 0) {
                close(sessions->warm_stop_fd);
                free(sessions);
                return SBX_NOMEM(err, ORIGIN);
        }
        r = sbx_vaults_new(config, registry, logger, &sessions->vaults, err);
        if (r < 0) {
                sbx_sessions_free(sessions);
                return r;
        }
        *ret_sessions = sessions;
        return 0;
}

void sbx_sessions_free(struct sbx_sessions *sessions) {
        if (sessions == NULL)
                return;
        sbx_warm_stop(sessions);
        sbx_retention_stop(sessions);
        sbx_keeper_stop(sessions);
        sbx_reaper_stop(sessions);
        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                while (sessions->buckets[i] != NULL) {
                        struct sbx_session *session = sessions->buckets[i];

                        sessions->buckets[i] = session->next;
                        sbx_session_free(session);
                }
        sbx_vaults_free(sessions->vaults);
        sbx_backends_free(sessions);
        for (size_t i = 0; i < SBX_SESSION_EXPIRED_MAX; i++) {
                free(sessions->expired[i].principal);
                free(sessions->expired[i].id);
        }
        sbx_principals_free(sessions);
        pthread_cond_destroy(&sessions->retention_wake);
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
        if (session->vault != NULL && sbx_vault_lost(session->vault))
                sbx_session_give_up(session);
        sbx_session_settle(session, "its interpreter ended while nothing was executed");
        return session->guest != NULL ? 0
                                      : sbx_error_set(err, -ENOENT, ORIGIN, NULL,
                                                      "the interpreter of session '%s' does not run", session->id);
}

/* The session as the operation needs it. */
static int make_ready(struct sbx_session *session, const struct sbx_operation *operation, const struct sbx_call *call,
                      struct sbx_error *err) {
        int r;

        if (operation->on == SBX_ON_RUNNING || operation->on == SBX_ON_IDLE)
                return still_running(session, err);
        r = sbx_session_begin(session, operation->on == SBX_ON_ANY, operation->environment, operation->runtime, call,
                              err);
        return r == 0 && operation->on == SBX_ON_ANY ? sbx_session_ready(session, operation->memory_bytes, call, err)
                                                     : r;
}

/* After the operation: what it left behind. */
static void look_after(struct sbx_session *session, const struct sbx_operation *operation, int code) {
        char reason[128];

        if (code == 0 || session->guest == NULL)
                snprintf(reason, sizeof(reason), "its interpreter ended");
        else if (code == -ESRCH)
                snprintf(reason, sizeof(reason), "its interpreter ended while nothing was executed");
        else
                snprintf(reason, sizeof(reason), "its interpreter ended while %s", operation->what);
        sbx_session_settle(session, reason);
        if (code == 0)
                session->untried = false;
        if (code == 0 && operation->changes)
                sbx_session_autosave(session, operation->ret_kept);
        if (operation->on != SBX_ON_IDLE)
                sbx_keeper_mark(session);
}

static int attempt(struct sbx_session *session, const struct sbx_operation *operation, const struct sbx_call *call,
                   struct sbx_error *err) {
        struct sbx_call merged = {0};
        int r;

        r = sbx_session_call_begin(session, call, operation->limit_ms, &merged, err);
        if (r < 0)
                return r;
        r = make_ready(session, operation, &merged, err);
        if (r == 0) {
                if (operation->changes)
                        session->current[0] = '\0';
                r = operation->run(session, operation->data, &merged, err);
        }
        look_after(session, operation, r);
        sbx_session_call_end(session, call);
        return r;
}

static int take(struct sbx_sessions *sessions, const struct sbx_operation *operation, const struct sbx_call *call,
                struct sbx_session **ret_session, struct sbx_error *err) {
        const struct sbx_session_wish wish = {operation->principal, operation->id, operation->environment,
                                              operation->runtime};

        switch (operation->on) {
        case SBX_ON_ANY:
                return sbx_session_take(sessions, &wish, call, ret_session, err);
        case SBX_ON_STORED:
                return sbx_session_take_stored(sessions, operation->principal, operation->id, call, ret_session, err);
        default:
                return sbx_session_take_running(sessions, operation->principal, operation->id,
                                                operation->on == SBX_ON_IDLE, call, ret_session, err);
        }
}

/* What the next attempt is not to use again: guests that were made ahead and copies may have ended with what ended this
 * one, each of them a moment later, so that they look alive. */
static void distrust(struct sbx_session *session, unsigned attempts) {
        if (session->backend != NULL && (session->untried || session->guest == NULL))
                sbx_pool_discard(session->backend->pool);
        if (attempts < 2)
                return;
        if (session->guest != NULL)
                sbx_guest_end(session->guest);
        sbx_copies_clear(session);
        sbx_copies_prune(session);
}

int sbx_session_operate(struct sbx_sessions *sessions, const struct sbx_operation *operation,
                        const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_turn_ struct sbx_session *session = NULL;
        struct sbx_error problem = {0};
        unsigned attempts = 0;
        int r = take(sessions, operation, call, &session, err);

        if (r < 0)
                return r;
        /* A guest can die between the look at it and the request. The request never reached it, so this is no second
         * run of anything. */
        do {
                problem = (struct sbx_error){0};
                r = attempt(session, operation, call, &problem);
                if (r == -ESRCH)
                        distrust(session, ++attempts);
        } while (r == -ESRCH && attempts < ATTEMPTS_MAX);
        if (r == -ESRCH) {
                problem = (struct sbx_error){0};
                sbx_error_set(&problem, r, ORIGIN, "Look at the log of the backend, and run `snipara-sandbox doctor`.",
                              "the interpreter of session '%s' ends as soon as it is started", session->id);
        }
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
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
                                bool changes,
                                int (*run)(struct sbx_session *, void *, const struct sbx_call *, struct sbx_error *),
                                void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .limit_ms = VARIABLES_TIMEOUT_MS,
                                          .changes = changes,
                                          .what = what,
                                          .run = run,
                                          .data = data};

        return sbx_session_operate(sessions, &operation, call, err);
}

int sbx_sessions_get(struct sbx_sessions *sessions, const char *principal, const char *id, const struct sbx_call *call,
                     json_t **ret_variables, struct sbx_error *err) {
        struct variables variables = {0};
        int r = operate_on_variables(sessions, principal, id, "its variables were read", false, run_get, &variables,
                                     call, err);

        if (r == 0)
                *ret_variables = variables.all;
        return r;
}

int sbx_sessions_set(struct sbx_sessions *sessions, const char *principal, const char *id, const char *name,
                     const json_t *value, const struct sbx_call *call, char **ret_repr, struct sbx_error *err) {
        struct variables variables = {.name = name, .value = value};
        int r = operate_on_variables(sessions, principal, id, "a variable was set", true, run_set, &variables, call,
                                     err);

        if (r == 0)
                *ret_repr = variables.repr;
        return r;
}

int sbx_sessions_clear(struct sbx_sessions *sessions, const char *principal, const char *id,
                       const struct sbx_call *call, struct sbx_error *err) {
        return operate_on_variables(sessions, principal, id, "its variables were cleared", true, run_clear, NULL, call,
                                    err);
}

int sbx_sessions_report(struct sbx_sessions *sessions, const char *principal, const char *id,
                        const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err) {
        return operate_on_variables(sessions, principal, id, "its report was read", false, run_report, ret_json, call,
                                    err);
}
