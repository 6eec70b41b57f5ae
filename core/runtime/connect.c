/* SPDX-License-Identifier: Apache-2.0 */
/* Connects sinks to the trajectory and context sources to the tools and the catalog. What the configuration mentions is
 * connected when the runtime is opened; the built-in ones when they are first needed, so that who only executes code pays
 * nothing for them. */
#include "runtime/runtime.h"

#include "base/error.h"

/* What a plugin file is for stands in its name: "sink-jsonl", or /somewhere/sink-jsonl.so. */
static bool has_prefix(const struct sbx_plugin_entry *entry, const char *prefix) {
        const char *slash = strrchr(entry->plugin, '/'), *name = slash != NULL ? slash + 1 : entry->plugin;

        return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* 0, or why the instance can't be had. */
static int connect_entry(struct sbx_runtime *runtime, const struct sbx_plugin_entry *entry, struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        bool sink = has_prefix(entry, "sink-");
        int r = sbx_registry_get(runtime->registry, entry->name, sink ? SBX_PLUGIN_SINK : SBX_PLUGIN_CONTEXT, NULL,
                                 &instance, err);

        if (r < 0)
                return r;
        if (sink)
                return sbx_trajectory_add_sink(runtime->trajectory, instance, err);
        r = sbx_tools_add_context(runtime->tools, instance, entry->built_in, err);
        return r < 0 ? r : sbx_catalog_add_context(runtime->catalog, instance, err);
}

/* One that could not be started is disabled, which sbx_registry_start_required has told already. */
static int connect_configured(struct sbx_runtime *runtime, const struct sbx_plugin_entry *entry,
                              struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        struct sbx_error problem = {0};
        int r;

        if (sbx_registry_get(runtime->registry, entry->name,
                             has_prefix(entry, "sink-") ? SBX_PLUGIN_SINK : SBX_PLUGIN_CONTEXT, NULL, &instance,
                             &problem) < 0)
                return 0;
        r = connect_entry(runtime, entry, &problem);
        if (r < 0 && entry->critical) {
                sbx_error_wrap(&problem, "%s", entry->name);
                if (err != NULL && err->code == 0)
                        *err = problem;
                return r;
        }
        if (r < 0)
                sbx_log(&runtime->logger, SBX_LOG_WARNING, "%s: not used, and everything else goes on: %s", entry->name,
                        problem.message);
        return 0;
}

int sbx_runtime_connect_configured(struct sbx_runtime *runtime, struct sbx_error *err) {
        int r = sbx_registry_start_required(runtime->registry, NULL, err);

        for (size_t i = 0; i < sbx_config_plugin_count(runtime->config) && r == 0; i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(runtime->config, i);

                if (entry->enabled && !entry->built_in && (has_prefix(entry, "sink-") || has_prefix(entry, "context-")))
                        r = connect_configured(runtime, entry, err);
        }
        return r;
}

static void connect_built_in(struct sbx_runtime *runtime, const char *prefix, bool *done) {
        SBX_LOCKED(&runtime->connected.lock);
        if (*done)
                return;
        *done = true;
        for (size_t i = 0; i < sbx_config_plugin_count(runtime->config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(runtime->config, i);
                struct sbx_error problem = {0};
                int r;

                if (!entry->enabled || !entry->built_in || !has_prefix(entry, prefix))
                        continue;
                r = connect_entry(runtime, entry, &problem);
                /* Its package may not be installed. */
                if (r < 0)
                        sbx_log(&runtime->logger, r == -ENOENT ? SBX_LOG_INFO : SBX_LOG_WARNING,
                                "%s: not used, and everything else goes on: %s", entry->name, problem.message);
        }
}

void sbx_runtime_connect_sources(struct sbx_runtime *runtime) {
        connect_built_in(runtime, "context-", &runtime->connected.sources);
}

void sbx_runtime_connect_sinks(struct sbx_runtime *runtime) {
        connect_built_in(runtime, "sink-", &runtime->connected.sinks);
}
