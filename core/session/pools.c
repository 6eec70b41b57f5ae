/* SPDX-License-Identifier: Apache-2.0 */
/* The backends in use and their pools of ready guests, made at the first session that needs them. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_SESSION_ORIGIN

static unsigned pool_size(const struct sbx_instance *instance) {
        const struct sbx_value *value =
                instance->core_settings != NULL ? sbx_settings_get(instance->core_settings, "pool") : NULL;

        return value != NULL && value->set && value->integer > 0 ? (unsigned)value->integer : 0;
}

/* A backend that caps the memory of guests has the option `memory_max` (docs/plugin-abi.md). Whoever executes must
 * know, or code would meet the kernel's wall, which costs it its state, before the soft limit. */
static uint64_t memory_max(const struct sbx_instance *instance) {
        const struct sbx_value *value =
                instance->settings != NULL ? sbx_settings_get(instance->settings, "memory_max") : NULL;

        return value != NULL && value->set && value->type == SBX_OPTION_SIZE && value->integer > 0
                       ? (uint64_t)value->integer
                       : UINT64_MAX;
}

/* NULL: none is named. */
static char *const *pool_languages(const struct sbx_instance *instance) {
        const struct sbx_value *value =
                instance->core_settings != NULL ? sbx_settings_get(instance->core_settings, "pool_languages") : NULL;

        return value != NULL && value->set ? value->strings : NULL;
}

static bool is_pooled(const struct sbx_instance *instance, const struct sbx_runtime_name *runtime) {
        char *const *languages = pool_languages(instance);
        struct sbx_runtime_name name;

        if (languages == NULL)
                return strcmp(runtime->text, SBX_RUNTIME_DEFAULT) == 0;
        for (; *languages != NULL; languages++)
                if (sbx_runtime_name_parse(*languages, &name, NULL) == 0 && strcmp(name.text, runtime->text) == 0)
                        return true;
        return false;
}

static struct sbx_backend_pool *find_locked(const struct sbx_sessions *sessions, const struct sbx_instance *instance,
                                            const struct sbx_runtime_name *runtime) {
        for (struct sbx_backend_pool *at = sessions->backends; at != NULL; at = at->next)
                if (at->instance == instance && strcmp(at->runtime.text, runtime->text) == 0)
                        return at;
        return NULL;
}

/* Making a pool costs no more than a thread, so the lock is kept meanwhile. */
static int find_or_add_locked(struct sbx_sessions *sessions, const struct sbx_instance *instance,
                              const struct sbx_runtime_name *runtime, struct sbx_backend_pool **ret_backend,
                              struct sbx_error *err) {
        struct sbx_backend_pool *backend = find_locked(sessions, instance, runtime);
        struct sbx_pool_runtime guests = {runtime->family, runtime->version[0] != '\0' ? runtime->version : NULL};
        int r;

        if (backend == NULL) {
                backend = calloc(1, sizeof(*backend));
                if (backend == NULL)
                        return SBX_NOMEM(err, ORIGIN);
                r = sbx_pool_new(instance, &guests, sessions->logger,
                                 is_pooled(instance, runtime) ? pool_size(instance) : 0, &backend->pool, err);
                if (r < 0) {
                        free(backend);
                        return r;
                }
                sbx_pool_measure(backend->pool, sessions->metrics);
                backend->instance = instance;
                backend->runtime = *runtime;
                backend->memory_max_bytes = memory_max(instance);
                backend->next = sessions->backends;
                sessions->backends = backend;
        }
        *ret_backend = backend;
        return 0;
}

/* Names come from clients: only those of the configuration get a pool. */
static int find_or_add(struct sbx_sessions *sessions, const struct sbx_instance *instance, const char *language,
                       struct sbx_backend_pool **ret_backend, struct sbx_error *err) {
        struct sbx_runtime_name runtime;
        int r = sbx_runtime_name_parse(language, &runtime, err);

        if (r == 0 && !is_pooled(instance, &runtime))
                r = sbx_runtime_name_parse(NULL, &runtime, err);
        if (r < 0)
                return r;
        SBX_LOCKED(&sessions->lock);
        return find_or_add_locked(sessions, instance, &runtime, ret_backend, err);
}

void sbx_backend_warm(struct sbx_sessions *sessions, const struct sbx_instance *instance) {
        static char python[] = SBX_RUNTIME_DEFAULT, *const usual[] = {python, NULL};
        char *const *languages = pool_languages(instance);
        struct sbx_backend_pool *backend = NULL;

        for (languages = languages != NULL ? languages : usual; *languages != NULL; languages++)
                if (find_or_add(sessions, instance, *languages, &backend, NULL) == 0)
                        sbx_pool_warm(backend->pool);
}

/* trust_level = "docker" is a promise that nothing runs in less than a container. */
static int check_trust(const struct sbx_sessions *sessions, const struct sbx_instance *instance,
                       struct sbx_error *err) {
        const char *trust_level = sbx_config_string(sessions->config, "trust_level");

        if (trust_level == NULL || strcmp(trust_level, "docker") != 0 ||
            strcmp(instance->module->plugin.name, "backend-docker") == 0)
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN,
                             "Name an entry of backend-docker as the environment, or set trust_level = "
                             "\"sandboxed\".",
                             "trust_level is \"docker\", and environment '%s' is %s", instance->name,
                             instance->module->plugin.name);
}

int sbx_backend_find(struct sbx_sessions *sessions, const char *environment, const char *runtime,
                     const struct sbx_call *call, struct sbx_backend_pool **ret_backend, struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        int r;

        /* Outside the lock: the first request starts the backend, and others may go on meanwhile. */
        r = sbx_registry_get(sessions->registry, environment != NULL ? environment : sessions->environment,
                             SBX_PLUGIN_BACKEND, call, &instance, err);
        if (r == 0)
                r = check_trust(sessions, instance, err);
        return r < 0 ? r : find_or_add(sessions, instance, runtime, ret_backend, err);
}

struct sbx_backend_pool *sbx_backend_configured_locked(const struct sbx_sessions *sessions) {
        for (struct sbx_backend_pool *at = sessions->backends; at != NULL; at = at->next)
                if (strcmp(at->instance->name, sessions->environment) == 0 &&
                    strcmp(at->runtime.text, SBX_RUNTIME_DEFAULT) == 0)
                        return at;
        return NULL;
}

void sbx_backends_free(struct sbx_sessions *sessions) {
        while (sessions->backends != NULL) {
                struct sbx_backend_pool *backend = sessions->backends;

                sessions->backends = backend->next;
                sbx_pool_free(backend->pool);
                free(backend);
        }
}
