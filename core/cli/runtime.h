/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what the commands work with, as the command line's shared options say. */
#pragma once

#include <snipara-sandbox/runtime.h>

#include "cli/cli.h"
#include "plugin/registry.h"

/* A whole runtime. */
int sbx_cli_runtime_open(struct sbx_cli *cli, struct sbx_runtime **ret_runtime, struct sbx_error *err);
static inline void sbx_cleanup_runtime(struct sbx_runtime **runtime) {
        sbx_runtime_free(*runtime);
}
#define _cleanup_runtime_ __attribute__((cleanup(sbx_cleanup_runtime)))

/* Settings for one session that ends with the command: no guests made ready ahead of demand, no modules imported ahead
 * of their use. `environment` may be NULL: the configured one. What the command line says wins. */
int sbx_cli_one_shot(struct sbx_cli *cli, const char *environment, struct sbx_error *err);

/* Configuration and plugins alone, for commands that look at them: no sessions, no threads. */
struct sbx_cli_parts {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        struct sbx_tool_services tools;
};
int sbx_cli_parts_open(struct sbx_cli *cli, struct sbx_cli_parts *ret_parts, struct sbx_error *err);
void sbx_cli_parts_free(struct sbx_cli_parts *parts);
#define _cleanup_parts_ __attribute__((cleanup(sbx_cli_parts_free)))
