/* SPDX-License-Identifier: Apache-2.0 */
/* `mcp-serve`: the transport instance "mcp" over standard input and output, or over HTTP. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <snipara-sandbox/runtime.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
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

struct serve_options {
        bool http;
        const char *listen, *path, *token_file, *tls_certificate, *tls_key;
};

/* ---- over HTTP: telling where ---- */

#define ADDRESS_MAX 1024u

struct announcement {
        struct sbx_cli *cli;
        const struct serve_options *options;
        int from_fd; /* the transport writes its address there, one line, when it listens */
        int output_fd;
};

/* The address alone on standard output, for programs; what to do with it on standard error, for people. */
static void announce(const struct announcement *announcement, const char *address, size_t size) {
        const struct sbx_cli_stream *err = &announcement->cli->err;
        const bool token = announcement->options->token_file != NULL;

        (void)sbx_cli_print(err, "Listening on ");
        (void)sbx_cli_print_styled(err, SBX_CLI_CYAN, "%.*s", (int)size - 1, address);
        (void)sbx_cli_print(err, "\n");
        (void)sbx_cli_print_styled(err, SBX_CLI_DIM,
                                   "  connect: claude mcp add --transport http snipara-sandbox %.*s%s\n", (int)size - 1,
                                   address, token ? " --header \"Authorization: Bearer TOKEN\"" : "");
        (void)sbx_cli_print_styled(err, SBX_CLI_DIM,
                                   "  other clients: snipara-sandbox init --client NAME --url %.*s%s\n", (int)size - 1,
                                   address, token ? " --token-variable VARIABLE" : "");
        (void)sbx_cli_print_styled(err, SBX_CLI_DIM, "  Ctrl-C or SIGTERM ends: what is under way may finish first.\n");
        if (!announcement->cli->out.terminal) /* who looks at it has just been told */
                (void)sbx_fd_write_all(announcement->output_fd, (struct sbx_bytes){address, size}, NULL);
}

static void *await_address(void *data) {
        const struct announcement *announcement = data;
        char address[ADDRESS_MAX];
        size_t size = 0;

        while (size < sizeof(address) && memchr(address, '\n', size) == NULL) {
                ssize_t n = read(announcement->from_fd, address + size, sizeof(address) - size);

                if (n > 0)
                        size += (size_t)n;
                else if (n == 0 || errno != EINTR)
                        break;
        }
        if (size > 0 && address[size - 1] == '\n')
                announce(announcement, address, size);
        return NULL;
}

static int serve_http(struct sbx_cli *cli, const struct serve_options *options, struct sbx_runtime *runtime,
                      int output_fd, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_close_ int from = -1, to = -1;
        struct announcement announcement = {.cli = cli, .options = options, .output_fd = output_fd};
        pthread_t thread;
        int ends[2], r;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return sbx_error_set(err, -errno, "mcp-serve", NULL, "pipe: %s", strerror(errno));
        from = ends[0];
        to = ends[1];
        announcement.from_fd = from;
        r = pthread_create(&thread, NULL, await_address, &announcement);
        if (r != 0)
                return sbx_error_set(err, -r, "mcp-serve", NULL, "can't start a thread: %s", strerror(r));
        r = sbx_runtime_serve(runtime, TRANSPORT, -1, to, call, err);
        close(to);
        to = -1;
        pthread_join(thread, NULL);
        return r;
}

/* ---- serving ---- */

static int serve(struct sbx_cli *cli, const struct serve_options *options) {
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
        r = options->http ? serve_http(cli, options, runtime, output, &call, &err)
                          : sbx_runtime_serve(runtime, TRANSPORT, input, output, &call, &err);
        return r < 0 ? sbx_cli_fail(cli, r, &err) : SBX_CLI_OK;
}

/* Each flag stands for a setting of the instance, and wins over the same one of --set and of files. */
static int apply_options(struct sbx_cli *cli, const struct serve_options *options) {
        const struct {
                const char *flag, *setting, *value;
        } aliases[] = {
                {"--listen", "http.listen", options->listen},
                {"--path", "http.path", options->path},
                {"--token-file", "http.token_file", options->token_file},
                {"--tls-certificate", "http.tls_certificate", options->tls_certificate},
                {"--tls-key", "http.tls_key", options->tls_key},
        };

        for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
                if (aliases[i].value == NULL)
                        continue;
                if (!options->http) {
                        sbx_cli_error(cli, "add --http to serve clients over the network",
                                      "%s is for serving over HTTP", aliases[i].flag);
                        return SBX_CLI_USAGE;
                }
                if (sbx_cli_setting_add(cli, TRANSPORT ".%s=%s", aliases[i].setting, aliases[i].value) < 0)
                        return sbx_cli_out_of_memory(cli);
        }
        return 0;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct serve_options options = {0};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result == 0)
                result = apply_options(cli, &options);
        if (result != 0)
                return result;
        if (!options.http && isatty(STDIN_FILENO) != 0)
                (void)sbx_cli_print(&cli->err,
                                    "Waiting for an MCP client on standard input; Ctrl-C ends. "
                                    "Clients start this command themselves: see 'snipara-sandbox init --client'.\n");
        return serve(cli, &options);
}

static const struct sbx_cli_option options[] = {
        {"http", 0, SBX_CLI_FLAG, offsetof(struct serve_options, http), NULL,
         "serve many clients over HTTP, instead of one over standard input and output", NULL},
        {"listen", 0, SBX_CLI_TEXT, offsetof(struct serve_options, listen), "ADDRESS",
         "with --http: where to listen (default: 127.0.0.1:8000); port 0 takes a free one", NULL},
        {"path", 0, SBX_CLI_TEXT, offsetof(struct serve_options, path), "PATH",
         "with --http: what the address ends with (default: /mcp)", NULL},
        {"token-file", 0, SBX_CLI_TEXT, offsetof(struct serve_options, token_file), "FILE",
         "with --http: bearer tokens that clients must have, a line for each: NAME TOKEN, or NAME sha256:HEX", NULL},
        {"tls-certificate", 0, SBX_CLI_TEXT, offsetof(struct serve_options, tls_certificate), "FILE",
         "with --http: serve HTTPS with this certificate and its chain (PEM)", NULL},
        {"tls-key", 0, SBX_CLI_TEXT, offsetof(struct serve_options, tls_key), "FILE",
         "with --http: the certificate's key (PEM)", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"mcp-serve", "what an MCP client starts: one JSON message a line on standard input and output"},
        {"mcp-serve --set local.pool=4", "with four sessions ready ahead of demand"},
        {"mcp-serve --http", "clients of this machine connect to http://127.0.0.1:8000/mcp"},
        {"mcp-serve --http --listen 0.0.0.0:8443 --token-file tokens --tls-certificate cert.pem --tls-key key.pem",
         "clients of other machines, with tokens, over HTTPS"},
        {0},
};

const struct sbx_cli_command sbx_cli_mcp_serve = {
        .name = "mcp-serve",
        .arguments = "",
        .summary = "Serve MCP clients over standard input and output, or over HTTP",
        .description =
                "Over standard streams it ends when the client closes standard input, over HTTP with SIGTERM or Ctrl-C;\n"
                "then every session ends with it. Messages and logs go to standard error. Over HTTP, standard output\n"
                "gets one line: the address.",
        .options = options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
