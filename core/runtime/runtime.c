/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a runtime, part by part, and takes it down in the order that lets nothing outlive what it needs. */
#include "runtime/runtime.h"

#include <stdlib.h>

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

/* What a plugin file is for stands in its name: "sink-jsonl", or /somewhere/sink-jsonl.so. */
static bool has_prefix(const struct sbx_plugin_entry *entry, const char *prefix) {
        const char *slash = strrchr(entry->plugin, '/'), *name = slash != NULL ? slash + 1 : entry->plugin;

        return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Connects an instance that sbx_registry_start_required has started. One that could not be is disabled, as was logged.
 */
static int connect_entry(struct sbx_runtime *runtime, const struct sbx_plugin_entry *entry, struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        struct sbx_error problem = {0};

        if (entry->enabled && has_prefix(entry, "sink-") &&
            sbx_registry_get(runtime->registry, entry->name, SBX_PLUGIN_SINK, NULL, &instance, &problem) == 0)
                return sbx_trajectory_add_sink(runtime->trajectory, instance, err);
        if (entry->enabled && has_prefix(entry, "context-") &&
            sbx_registry_get(runtime->registry, entry->name, SBX_PLUGIN_CONTEXT, NULL, &instance, &problem) == 0)
                return sbx_tools_add_context(runtime->tools, instance, entry->built_in, err);
        return 0;
}

static int connect_plugins(struct sbx_runtime *runtime, struct sbx_error *err) {
        int r = sbx_registry_start_required(runtime->registry, NULL, err);

        for (size_t i = 0; i < sbx_config_plugin_count(runtime->config) && r == 0; i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(runtime->config, i);
                struct sbx_error problem = {0};

                r = connect_entry(runtime, entry, &problem);
                if (r == 0)
                        continue;
                if (entry->critical) {
                        sbx_error_wrap(&problem, "%s", entry->name);
                        if (err != NULL && err->code == 0)
                                *err = problem;
                        return r;
                }
                sbx_log(&runtime->logger, SBX_LOG_WARNING, "%s: not used, and everything else goes on: %s", entry->name,
                        problem.message);
                r = 0;
        }
        return r;
}

static int open_parts(struct sbx_runtime *runtime, const struct sbx_runtime_options *options, struct sbx_error *err) {
        int r = sbx_config_load(options, &runtime->logger, &runtime->config, err);

        if (r < 0)
                return r;
        set_log_level(runtime);
        r = sbx_directories_find(&runtime->directories, err);
        if (r == 0)
                r = sbx_tools_new(&runtime->logger, &runtime->tools, err);
        if (r < 0)
                return r;
        sbx_tools_services(runtime->tools, &runtime->services);
        r = sbx_registry_new(runtime->config, &runtime->logger, &runtime->directories, &runtime->services,
                             &runtime->registry, err);
        if (r == 0)
                r = sbx_trajectory_new(&runtime->logger, &runtime->trajectory, err);
        if (r == 0)
                r = sbx_sessions_new(runtime->config, runtime->registry, &runtime->logger, &runtime->sessions, err);
        if (r < 0)
                return r;
        sbx_trajectory_watch_tools(runtime->trajectory, runtime->tools);
        r = sbx_tools_add_builtin(runtime->tools, runtime->sessions, runtime->config, err);
        return r < 0 ? r : connect_plugins(runtime, err);
}

int sbx_runtime_open(const struct sbx_runtime_options *given, struct sbx_runtime **ret_runtime, struct sbx_error *err) {
        struct sbx_runtime_options options = copy_options(given);
        struct sbx_runtime *runtime = calloc(1, sizeof(*runtime));
        int r;

        if (runtime == NULL)
                return SBX_NOMEM(err, ORIGIN);
        runtime->logger = (struct sbx_logger){.write = options.log, .data = options.log_data, .level = SBX_LOG_WARNING};
        r = open_parts(runtime, &options, err);
        if (r < 0) {
                sbx_runtime_free(runtime);
                return sbx_error_set(err, r, ORIGIN, NULL, "the runtime can't be opened: %s", SBX_ERRNO_TEXT(r));
        }
        *ret_runtime = runtime;
        return 0;
}

/* Calls end first, since they use everything; then guests, whose backends must still be there; then what calls and
 * guests reported to; then the plugins, which may use the tool services until they are closed. */
void sbx_runtime_free(struct sbx_runtime *runtime) {
        if (runtime == NULL)
                return;
        if (runtime->tools != NULL)
                sbx_tools_stop(runtime->tools);
        sbx_sessions_free(runtime->sessions);
        sbx_trajectory_free(runtime->trajectory);
        sbx_registry_free(runtime->registry);
        sbx_tools_free(runtime->tools);
        sbx_config_free(runtime->config);
        sbx_directories_free(&runtime->directories);
        free(runtime);
}
