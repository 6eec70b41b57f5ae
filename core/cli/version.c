/* SPDX-License-Identifier: Apache-2.0 */
/* `version`. */
#include <snipara-sandbox/runtime.h>

#include "cli/options.h"
#include "cli/output.h"

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, NULL, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        return sbx_cli_print(&cli->out, "snipara-sandbox %s\n", sbx_version()) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

const struct sbx_cli_command sbx_cli_version = {
        .name = "version",
        .arguments = "",
        .summary = "Print the version",
        .run = run,
};
