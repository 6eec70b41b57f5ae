/* SPDX-License-Identifier: Apache-2.0 */
/* The program snipara-sandbox: finds the command and runs it. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/help.h"
#include "cli/logs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sessions.h"

#define FILES_WANTED 65536u

const struct sbx_cli_command *const sbx_cli_commands[] = {
        &sbx_cli_run,
        &sbx_cli_agent,
        &sbx_cli_logs,
        &sbx_cli_logs_verify,
        &sbx_cli_logs_replay,
        &sbx_cli_exec,
        &sbx_cli_repl,
        &sbx_cli_sessions_list,
        &sbx_cli_sessions_show,
        &sbx_cli_sessions_checkpoint,
        &sbx_cli_sessions_rollback,
        &sbx_cli_sessions_fork,
        &sbx_cli_sessions_export,
        &sbx_cli_sessions_import,
        &sbx_cli_sessions_delete,
        &sbx_cli_sessions_gc,
        &sbx_cli_mcp_serve,
        &sbx_cli_init,
        &sbx_cli_doctor,
        &sbx_cli_snipara_status,
        &sbx_cli_config_show,
        &sbx_cli_plugins_list,
        &sbx_cli_plugins_info,
        &sbx_cli_plugins_check,
        &sbx_cli_image_list,
        &sbx_cli_image_build,
        &sbx_cli_image_prune,
        &sbx_cli_version,
        &sbx_cli_help,
        NULL,
};

/* A program started with one of the standard descriptors closed would open something else under its number and then
 * write messages into it. */
static int open_standard_descriptors(void) {
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        return -EBADF;
        return 0;
}

/* A session takes some five descriptors, a request to a model three: with a thousand, which many systems begin with, a
 * server or two hundred sub-calls come near the end. Guests have a limit of their own. */
static void raise_file_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_WANTED)
                return;
        limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what it is will do for a start */
}

static int run_program(struct sbx_cli *cli, int argc, char **argv) {
        const struct sbx_cli_command *command;
        int used;

        if (argc < 2) {
                (void)sbx_cli_help_show(cli, NULL);
                return SBX_CLI_USAGE;
        }
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
                return sbx_cli_help_show(cli, NULL) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
        if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
                return sbx_cli_version.run(cli, &sbx_cli_version, 1, argv + 1);
        if (argv[1][0] == '-') {
                sbx_cli_error(cli, "options come after the command, as in 'snipara-sandbox exec --json FILE'",
                              "%s is not an option of the program itself", argv[1]);
                return SBX_CLI_USAGE;
        }
        command = sbx_cli_command_find(cli, argc - 1, argv + 1, &used);
        return command != NULL ? command->run(cli, command, argc - used, argv + used) : SBX_CLI_USAGE;
}

int main(int argc, char **argv) {
        struct sbx_cli cli = {.program = "snipara-sandbox"};
        int result;

        if (open_standard_descriptors() < 0)
                return SBX_CLI_SANDBOX;
        if (argc > 0 && argv[0][0] != '\0')
                cli.program = basename(argv[0]);
        sbx_cli_output_init(&cli);
        raise_file_limit();
        result = run_program(&cli, argc, argv);
        sbx_cli_settings_free(&cli);
        return result;
}
