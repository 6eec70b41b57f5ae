/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a runtime, part by part, and takes it down in the order that lets nothing outlive what it needs. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN "runtime"

const char *sbx_version(void) {
        return SBX_VERSION;
}

void sbx_bytes_free(struct sbx_bytes *bytes) {
        if (bytes == NULL)
                return;
        free((void *)bytes->data);
        *bytes = (struct sbx_bytes){0};
}

/* ---- opening ---- */

static struct sbx_runtime_options copy_options(const struct sbx_runtime_options *given) {
        struct sbx_runtime_options options = {0};

        if (given != NULL)
                memcpy(&options, given, given->struct_size < sizeof(options) ? given->struct_size : sizeof(options));
        options.struct_size = sizeof(options);
        return options;
}

static void set_log_level(struct sbx_runtime *runtime) {
        const char *name = sbx_config_string(runtime->config, "log_level");
        int level = SBX_LOG_WARNING;

        if (name != NULL)
                (void)sbx_log_level_from_name(name, &level); /* the configuration has checked it */
        if (sbx_config_bool(runtime->config, "verbose") && level < SBX_LOG_INFO)
                level = SBX_LOG_INFO;
        runtime->logger.level = level;
}

static int allow_tools(struct sbx_runtime *runtime, enum sbx_tool_caller caller, const char *setting,
                       struct sbx_error *err) {
        const struct sbx_value *value = sbx_settings_get(sbx_config_core(runtime->config), setting);

        return sbx_tools_allow(runtime->tools, caller, (const char *const *)value->strings, err);
}

/* ---- code of clients ---- */

static int code_begin(void *data, const char *principal, const struct sbx_call *call, void **ret_run,
                      const struct sbx_code_calls **ret_calls, struct sbx_error *err) {
        struct sbx_runtime *runtime = data;
        struct sbx_code_run *run = NULL;
        int r = sbx_code_run_new(runtime->runs, principal, call, &run, err);

        if (r < 0)
                return r;
        *ret_run = run;
        *ret_calls = sbx_code_run_calls(run);
        return 0;
}

static void code_end(void *data, void *run) {
        sbx_code_run_free(run);
}

static int open_tools(struct sbx_runtime *runtime, struct sbx_error *err) {
        const struct sbx_tool_code code = {.data = runtime, .begin = code_begin, .end = code_end};
        const struct sbx_runs_parts parts = {
                .config = runtime->config,
                .registry = runtime->registry,
                .tools = runtime->tools,
                .sessions = runtime->sessions,
                .trajectory = runtime->trajectory,
                .logger = &runtime->logger,
                .state_directory = runtime->directories.state,
        };
        int r = allow_tools(runtime, SBX_CALLER_CLIENT, "client_tools", err);

        if (r == 0)
                r = allow_tools(runtime, SBX_CALLER_MODEL, "model_tools", err);
        if (r == 0)
                r = allow_tools(runtime, SBX_CALLER_CODE, "code_tools", err);
        if (r == 0)
                r = sbx_tools_add_builtin(runtime->tools, runtime->sessions, runtime->config, err);
        if (r < 0)
                return r;
        sbx_tools_set_code(runtime->tools, &code);
        return sbx_runs_new(&parts, &runtime->runs, err);
}

static int open_parts(struct sbx_runtime *runtime, const struct sbx_runtime_options *options, struct sbx_error *err) {
        int r = sbx_config_load(options, &runtime->logger, &runtime->config, err);

        if (r < 0)
                return r;
        set_log_level(runtime);
        r = sbx_directories_find(&runtime->directories, err);
        if (r == 0)
                r = sbx_tools_new(&runtime->logger, &runtime->tools, err);
        if (r == 0)
                r = sbx_catalog_new(&runtime->logger, &runtime->catalog, err);
        if (r < 0)
                return r;
        sbx_runtime_fill_services(runtime);
        r = sbx_registry_new(runtime->config, &runtime->logger, &runtime->directories, &runtime->services,
                             &runtime->registry, err);
        if (r == 0)
                r = sbx_trajectory_new(&runtime->logger, &runtime->trajectory, err);
        if (r == 0)
                r = sbx_sessions_new(runtime->config, runtime->registry, &runtime->logger, &runtime->sessions, err);
        if (r < 0)
                return r;
        sbx_sessions_measure(runtime->sessions, &runtime->metrics);
        sbx_tools_measure(runtime->tools, &runtime->metrics);
        sbx_trajectory_watch_tools(runtime->trajectory, runtime->tools);
        r = open_tools(runtime, err);
        if (r == 0)
                r = sbx_runtime_open_catalog(runtime, err);
        return r < 0 ? r : sbx_runtime_connect_configured(runtime, err);
}

int sbx_runtime_open(const struct sbx_runtime_options *given, struct sbx_runtime **ret_runtime, struct sbx_error *err) {
        struct sbx_runtime_options options = copy_options(given);
        struct sbx_runtime *runtime = calloc(1, sizeof(*runtime));
        int r;

        if (runtime == NULL)
                return SBX_NOMEM(err, ORIGIN);
        pthread_mutex_init(&runtime->connected.lock, NULL);
        pthread_rwlock_init(&runtime->gate.lock, NULL);
        runtime->opened_at_s = (uint64_t)time(NULL);
        runtime->logger = (struct sbx_logger){.write = options.log, .data = options.log_data, .level = SBX_LOG_WARNING};
        r = open_parts(runtime, &options, err);
        if (r < 0) {
                sbx_runtime_free(runtime);
                return sbx_error_set(err, r, ORIGIN, NULL, "the runtime can't be opened: %s", SBX_ERRNO_TEXT(r));
        }
        *ret_runtime = runtime;
        return 0;
}

/* Runs and calls end first, since they use everything; then guests, whose backends must still be there; then what calls
 * and guests reported to; then the plugins, which may use the services until they are closed: tools, news and lists are there for them. */
void sbx_runtime_free(struct sbx_runtime *runtime) {
        if (runtime == NULL)
                return;
        if (runtime->runs != NULL)
                sbx_runs_stop(runtime->runs);
        if (runtime->tools != NULL)
                sbx_tools_stop(runtime->tools);
        sbx_runtime_close_services(runtime);
        sbx_runs_free(runtime->runs);
        sbx_sessions_free(runtime->sessions);
        sbx_trajectory_free(runtime->trajectory);
        sbx_registry_free(runtime->registry);
        sbx_tools_free(runtime->tools);
        sbx_catalog_free(runtime->catalog);
        sbx_config_free(runtime->config);
        sbx_directories_free(&runtime->directories);
        pthread_mutex_destroy(&runtime->connected.lock);
        pthread_rwlock_destroy(&runtime->gate.lock);
        free(runtime);
}
