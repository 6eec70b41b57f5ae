/* SPDX-License-Identifier: Apache-2.0 */
/* `mcp-serve`: the transport instance "mcp" over standard input and output. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <snipara-sandbox/runtime.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"
#include "cli/signals.h"

#define TRANSPORT "mcp"

/* Takes the streams for the protocol alone: what a library or a child prints goes to standard error, and nobody else
 * reads the client's requests. */
static int take_streams(int *ret_input, int *ret_output, struct sbx_error *err) {
        _cleanup_close_ int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        _cleanup_close_ int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        _cleanup_close_ int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (input < 0 || output < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
            dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
                int code = -errno;

                return sbx_error_set(err, code, "mcp-serve", NULL, "can't set up standard input and output: %s",
                                     SBX_ERRNO_TEXT(code));
        }
        *ret_input = steal_fd(&input);
        *ret_output = steal_fd(&output);
        return 0;
}

static int serve(struct sbx_cli *cli) {
        _cleanup_runtime_ struct sbx_runtime *runtime = NULL;
        _cleanup_signals_ struct sbx_cli_signals signals = {.fd = -1};
        _cleanup_close_ int input = -1, output = -1;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_error err = {0};
        int r;

        r = take_streams(&input, &output, &err);
        if (r >= 0)
                r = sbx_cli_signals_open(&signals, true);
        if (r >= 0)
                r = sbx_cli_runtime_open(cli, &runtime, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        call.cancel_fd = signals.fd;
        r = sbx_runtime_serve(runtime, TRANSPORT, input, output, &call, &err);
        return r < 0 ? sbx_cli_fail(cli, r, &err) : SBX_CLI_OK;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, NULL, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        if (isatty(STDIN_FILENO) != 0)
                (void)sbx_cli_print(&cli->err,
                                    "Waiting for an MCP client on standard input; Ctrl-C ends. "
                                    "Clients start this command themselves: see 'snipara-sandbox init --mcp'.\n");
        return serve(cli);
}

static const struct sbx_cli_example examples[] = {
        {"mcp-serve", "what an MCP client starts: one JSON message a line on standard input and output"},
        {"mcp-serve --set local.pool=4", "with four sessions ready ahead of demand"},
        {0},
};

const struct sbx_cli_command sbx_cli_mcp_serve = {
        .name = "mcp-serve",
        .arguments = "",
        .summary = "Serve an MCP client over standard input and output",
        .description =
                "Ends when the client closes standard input, or with SIGTERM or Ctrl-C; then every session ends\n"
                "with it. Messages and logs go to standard error.",
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
