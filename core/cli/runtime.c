/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what the commands work with, as the command line's shared options say. */
#include "cli/runtime.h"

#include "cli/options.h"
#include "cli/output.h"

static struct sbx_runtime_options options_of(struct sbx_cli *cli) {
        return (struct sbx_runtime_options){
                .struct_size = sizeof(struct sbx_runtime_options),
                .config_path = cli->config_path,
                .settings = (const char *const *)cli->settings,
                .log = sbx_cli_log,
                .log_data = cli,
        };
}

static int add_settings(struct sbx_cli *cli) {
        if (!cli->verbose)
                return 0;
        return sbx_cli_setting_default(cli, "log_level=debug");
}

int sbx_cli_runtime_open(struct sbx_cli *cli, struct sbx_runtime **ret_runtime, struct sbx_error *err) {
        struct sbx_runtime_options options;
        int r = add_settings(cli);

        if (r < 0)
                return sbx_error_set(err, r, "cli", NULL, "out of memory");
        options = options_of(cli);
        return sbx_runtime_open(&options, ret_runtime, err);
}

static void ignore_log(void *data, int level, const char *message) {
}

int sbx_cli_one_shot(struct sbx_cli *cli, const char *environment, struct sbx_error *err) {
        struct sbx_runtime_options options = options_of(cli);
        struct sbx_logger silent = {.write = ignore_log}; /* the runtime reads it all again, and tells */
        const struct sbx_plugin_entry *entry;
        struct sbx_config *config = NULL;
        int r = sbx_config_load(&options, &silent, &config, err);

        if (r < 0)
                return r;
        entry = sbx_config_plugin_find(config,
                                       environment != NULL ? environment : sbx_config_string(config, "environment"));
        if (entry != NULL && strcmp(entry->plugin, "backend-local") == 0) {
                r = sbx_cli_setting_default(cli, "%s.pool=0", entry->name);
                if (r >= 0)
                        r = sbx_cli_setting_default(cli, "%s.preload=", entry->name);
        }
        sbx_config_free(config);
        return r < 0 ? sbx_error_set(err, r, "cli", NULL, "out of memory") : 0;
}

int sbx_cli_parts_open(struct sbx_cli *cli, struct sbx_cli_parts *ret_parts, struct sbx_error *err) {
        struct sbx_cli_parts *parts = ret_parts;
        struct sbx_runtime_options options;
        int r = add_settings(cli);

        if (r < 0)
                return sbx_error_set(err, r, "cli", NULL, "out of memory");
        options = options_of(cli);
        *parts = (struct sbx_cli_parts){0};
        parts->logger.write = sbx_cli_log;
        parts->logger.data = cli;
        parts->logger.level = cli->verbose ? SBX_LOG_DEBUG : SBX_LOG_WARNING;
        r = sbx_directories_find(&parts->directories, err);
        if (r >= 0)
                r = sbx_config_load(&options, &parts->logger, &parts->config, err);
        if (r >= 0)
                r = sbx_registry_new(parts->config, &parts->logger, &parts->directories, &parts->tools,
                                     &parts->registry, err);
        if (r < 0) {
                sbx_cli_parts_free(parts);
                return r;
        }
        return 0;
}

void sbx_cli_parts_free(struct sbx_cli_parts *parts) {
        sbx_registry_free(parts->registry);
        parts->registry = NULL;
        sbx_config_free(parts->config);
        parts->config = NULL;
        sbx_directories_free(&parts->directories);
        parts->directories = (struct sbx_directories){0};
}
