/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: getopt_long driven by a command's option table. */
#pragma once

#include "cli/cli.h"

/* Stores the options of `argv` into `values` (the command's own struct; NULL if it has none) and `cli`, and the other
 * words, in order, into `*ret_arguments` (free with sbx_cli_arguments_free). False: the command is over with
 * `*ret_exit`, because --help has been answered or because the mistake has been told. */
bool sbx_cli_parse(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv, void *values,
                   struct sbx_cli_arguments *ret_arguments, int *ret_exit);
void sbx_cli_arguments_free(struct sbx_cli_arguments *arguments);
#define _cleanup_arguments_ __attribute__((cleanup(sbx_cli_arguments_free)))

/* For commands that take no words: tells the first one that is too many. 0 or SBX_CLI_USAGE. */
int sbx_cli_no_arguments(const struct sbx_cli *cli, const struct sbx_cli_command *command,
                         const struct sbx_cli_arguments *arguments);

/* "--timeout": a duration above 0 and at most the hard limit, in milliseconds. 0 or SBX_CLI_USAGE, told. */
int sbx_cli_timeout(const struct sbx_cli *cli, const char *text, uint64_t *ret_ms);

/* Puts "name=value" before those of the command line, which win; or after them. 0 or -ENOMEM. */
int sbx_cli_setting_default(struct sbx_cli *cli, const char *format, ...) SBX_PRINTF(2, 3);
int sbx_cli_setting_add(struct sbx_cli *cli, const char *format, ...) SBX_PRINTF(2, 3);
void sbx_cli_settings_free(struct sbx_cli *cli);
