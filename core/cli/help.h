/* SPDX-License-Identifier: Apache-2.0 */
/* Help texts, made from the commands' tables. */
#pragma once

#include "cli/cli.h"

/* How to use one command, or (NULL) the program. 0 or -errno. */
int sbx_cli_help_show(const struct sbx_cli *cli, const struct sbx_cli_command *command);

/* Finds the command that `words` begin with ("config", "show", ...); `*ret_used` tells how many words it took. NULL:
 * none, and what is wrong has been told. */
const struct sbx_cli_command *sbx_cli_command_find(const struct sbx_cli *cli, int count, char **words, int *ret_used);
