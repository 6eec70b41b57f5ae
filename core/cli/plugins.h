/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a plugin file, for people and for scripts. */
#pragma once

#include "cli/cli.h"
#include "plugin/registry.h"

/* Each prints to standard output: 0 or -errno. */
int sbx_cli_plugin_show(const struct sbx_cli *cli, const struct sbx_module *module);
int sbx_cli_plugin_json(const struct sbx_cli *cli, const struct sbx_module *module);
int sbx_cli_plugin_problem_json(const struct sbx_cli *cli, const char *path, const struct sbx_error *problem);
