/* SPDX-License-Identifier: Apache-2.0 */
/* `exec`: pieces of code, one after another in one session, with their output as it comes. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <snipara-sandbox/runtime.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/result.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "runtime/runtime.h"
#include "session/session.h"

struct exec_options {
        const char *environment, *language, *profile, *timeout, *session;
        bool json, report, quiet;
        uint64_t timeout_ms;
};

/* One piece of code and the name that its tracebacks show. */
struct piece {
        struct sbx_buffer text;
        const char *filename;
};

struct exec {
        struct sbx_cli *cli;
        const struct exec_options *options;
        struct piece *pieces;
        size_t piece_count;
        struct sbx_runtime *runtime;
        struct sbx_cli_signals signals;
};

static void exec_free(struct exec *exec) {
        for (size_t i = 0; i < exec->piece_count; i++)
                sbx_buffer_free(&exec->pieces[i].text);
        free(exec->pieces);
        sbx_runtime_free(exec->runtime);
        sbx_cli_signals_close(&exec->signals);
}
#define _cleanup_exec_ __attribute__((cleanup(exec_free)))

static int piece_read(struct piece *piece, const struct sbx_cli_argument *argument, struct sbx_error *err) {
        piece->text.max = SBX_CODE_MAX_BYTES + 1;
        if (argument->option == NULL) {
                piece->filename = strcmp(argument->text, "-") == 0 ? "<stdin>" : argument->text;
                return sbx_cli_source_read(argument->text, &piece->text, err);
        }
        piece->filename = "<string>";
        if (sbx_buffer_append_text(&piece->text, argument->text) < 0)
                return sbx_error_set(err, -ENOMEM, "cli", NULL, "out of memory");
        return 0;
}

/* Everything is read before anything runs: a mistyped second file must not leave half of the work done. */
static int read_pieces(struct exec *exec, const struct sbx_cli_arguments *arguments) {
        static const struct sbx_cli_argument standard_input = {.text = "-"};
        size_t count = arguments->count > 0 ? arguments->count : 1;
        struct sbx_error err = {0};

        if (arguments->count == 0 && isatty(STDIN_FILENO) != 0) {
                sbx_cli_error(exec->cli,
                              "give -c CODE, files, or '-' to type it in; for a prompt: 'snipara-sandbox repl'",
                              "no code to run");
                return SBX_CLI_USAGE;
        }
        exec->pieces = calloc(count, sizeof(*exec->pieces));
        if (exec->pieces == NULL)
                return sbx_cli_out_of_memory(exec->cli);
        exec->piece_count = count;
        for (size_t i = 0; i < count; i++) {
                int r = piece_read(&exec->pieces[i], arguments->count > 0 ? &arguments->items[i] : &standard_input,
                                   &err);

                if (r < 0)
                        return sbx_cli_fail(exec->cli, r, &err);
        }
        return SBX_CLI_OK;
}

/* A session that was stored has an environment of its own; `list` keeps the answer. */
static const char *environment_of(const struct exec *exec, const struct sbx_result *result, json_t **list) {
        json_t *session;
        size_t index;

        if (result->session_id != NULL && sbx_sessions_list(exec->runtime->sessions, "", list, NULL) >= 0)
                json_array_foreach (*list, index, session) {
                        const char *id = json_string_value(json_object_get(session, "id"));

                        if (id != NULL && strcmp(id, result->session_id) == 0)
                                return json_string_value(json_object_get(session, "environment"));
                }
        return sbx_config_string(exec->runtime->config, "environment");
}

static int show_json(const struct exec *exec, const struct sbx_result *result) {
        const char *environment = exec->options->environment;
        _cleanup_json_ json_t *document = NULL, *list = NULL;

        if (environment == NULL)
                environment = environment_of(exec, result, &list);
        document = sbx_cli_result_json(result, environment);
        return document == NULL ? -ENOMEM : sbx_cli_print_json(&exec->cli->out, document, false);
}

/* The exit code of an execution that is over. What ended it from outside counts more than how the code took it. */
static int exit_of(struct exec *exec, const struct sbx_result *result, int problem) {
        int number = sbx_cli_signals_take(&exec->signals);

        if (problem == -EPIPE || number == SIGPIPE)
                return SBX_CLI_NO_READER;
        if (number == SIGTERM || number == SIGHUP)
                return 128 + number;
        if (problem < 0) {
                sbx_cli_error(exec->cli, NULL, "can't write standard output: %s", strerror(-problem));
                return SBX_CLI_FAILED;
        }
        return sbx_cli_result_exit(result);
}

static int run_piece(struct exec *exec, const struct piece *piece) {
        const struct exec_options *options = exec->options;
        struct sbx_cli_progress progress;
        struct sbx_cli_live live = {.cli = exec->cli, .signals = &exec->signals, .progress = &progress};
        struct sbx_output_events events = sbx_cli_live_events(&live);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = exec->signals.fd};
        _cleanup_result_ struct sbx_result *result = NULL;
        struct sbx_error err = {0};
        struct sbx_execution execution = {
                .struct_size = sizeof(execution),
                .code = sbx_buffer_bytes(&piece->text),
                .session_id = options->session,
                .environment = options->environment,
                .runtime = options->language,
                .profile = options->profile,
                .filename = piece->filename,
                .timeout_ms = options->timeout_ms,
                .events = options->json ? NULL : &events,
        };
        int r;

        sbx_cli_progress_init(&progress, exec->cli);
        sbx_cli_progress_of(&progress, &call);
        r = sbx_runtime_execute(exec->runtime, &execution, &call, &result, &err);
        sbx_cli_progress_clear(&progress);
        if (r < 0)
                return sbx_cli_fail(exec->cli, r, &err);
        if (options->json)
                r = show_json(exec, result);
        else
                sbx_cli_result_show(&live, result, options->quiet ? SBX_CLI_QUIET : SBX_CLI_NORMAL);
        return exit_of(exec, result, r < 0 ? r : live.problem);
}

/* After the code, whatever became of it. With --json it is one more line: {"report": {...}}. */
static int show_report(struct exec *exec) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = exec->signals.fd};
        _cleanup_json_ json_t *document = NULL;
        struct sbx_bytes report = {0};
        struct sbx_error err = {0};
        int r = sbx_runtime_report(exec->runtime, exec->options->session, &call, &report, &err);

        if (r < 0)
                return sbx_cli_fail(exec->cli, r, &err);
        if (!exec->options->json) {
                r = sbx_cli_report_show(exec->cli, &exec->cli->err, report);
        } else {
                json_t *value = NULL;

                r = sbx_json_parse(report, report.size, "isolation report", &value, &err);
                document = r < 0 ? NULL : json_pack("{s:o}", "report", value);
                if (r >= 0)
                        r = document == NULL ? -ENOMEM : sbx_cli_print_json(&exec->cli->out, document, false);
        }
        sbx_bytes_free(&report);
        return r < 0 ? SBX_CLI_SANDBOX : SBX_CLI_OK;
}

static int run_pieces(struct exec *exec) {
        struct sbx_error err = {0};
        int result = SBX_CLI_OK, r;

        r = sbx_cli_signals_open(&exec->signals, true);
        if (r >= 0)
                r = sbx_cli_one_shot(exec->cli, exec->options->environment, &err);
        if (r >= 0)
                r = sbx_cli_runtime_open(exec->cli, &exec->runtime, &err);
        if (r < 0)
                return sbx_cli_fail(exec->cli, r, &err);
        for (size_t i = 0; i < exec->piece_count && result == SBX_CLI_OK; i++)
                result = run_piece(exec, &exec->pieces[i]);
        if (exec->options->report && result != SBX_CLI_NO_READER && result != SBX_CLI_SANDBOX &&
            result != SBX_CLI_USAGE) {
                r = show_report(exec);
                if (result == SBX_CLI_OK)
                        result = r;
        }
        return result;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct exec_options options = {0};
        _cleanup_exec_ struct exec exec = {.cli = cli, .options = &options, .signals = {.fd = -1}};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (options.timeout != NULL && sbx_cli_timeout(cli, options.timeout, &options.timeout_ms) != 0)
                return SBX_CLI_USAGE;
        result = read_pieces(&exec, &arguments);
        return result != SBX_CLI_OK ? result : run_pieces(&exec);
}

static const struct sbx_cli_option exec_command_options[] = {
        {"code", 'c', SBX_CLI_ARGUMENT, 0, "CODE", "run this code; may be repeated and mixed with files", NULL},
        {"env", 'e', SBX_CLI_TEXT, offsetof(struct exec_options, environment), "NAME",
         "where to run: a backend instance of the configuration (default: the setting environment)", NULL},
        {"language", 'l', SBX_CLI_TEXT, offsetof(struct exec_options, language), "NAME",
         "of the code: python, node or bash, with a version (python3.12), or a runtime of the configuration "
         "(default: python)",
         "python|node|bash"},
        {"profile", 'p', SBX_CLI_TEXT, offsetof(struct exec_options, profile), "NAME",
         "limits: quick (5 s, 128 MB), default (30 s, 512 MB), analysis (2 min, 2 GB), extended (5 min, 4 GB)",
         "quick|default|analysis|extended"},
        {"timeout", 't', SBX_CLI_TEXT, offsetof(struct exec_options, timeout), "TIME",
         "for each piece of code: seconds, or 250ms, 30s, 5m; at most 10m (default: the profile's)", NULL},
        {"session", 's', SBX_CLI_TEXT, offsetof(struct exec_options, session), "NAME",
         "go on in the session of this name, which is kept between commands (default: one that ends with this one)",
         NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct exec_options, json), NULL,
         "print one JSON object on one line for each piece of code, instead of its output", NULL},
        {"report", 0, SBX_CLI_FLAG, offsetof(struct exec_options, report), NULL,
         "print afterwards, on standard error, what isolation was applied", NULL},
        {"quiet", 'q', SBX_CLI_FLAG, offsetof(struct exec_options, quiet), NULL,
         "print the code's own output only, not the value of its last expression", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"exec -c 'print(1 + 1)'", "run code from the command line"},
        {"exec prepare.py -c 'data' report.py", "two files and an expression, one after another in one session"},
        {"exec --session work -c 'x = 41'", "the variable x is there in the next 'exec --session work'"},
        {"exec --json - < job.py", "code from standard input, the result as JSON"},
        {"exec --env docker --language bash -c 'uname -a'", "Bash, in a container"},
        {"exec --profile analysis --timeout 10m job.py", "2 GB of memory and ten minutes"},
        {0},
};

const struct sbx_cli_command sbx_cli_exec = {
        .name = "exec",
        .arguments = "[FILE | -]...",
        .summary = "Run Python, JavaScript or Bash in the sandbox",
        .description =
                "Runs files, -c CODE and standard input ('-', or when nothing is given) in the order in which they\n"
                "stand, in one session, and stops at the first that does not end well. The value of a last expression\n"
                "is printed as an interactive Python does. Ctrl-C interrupts the code; a second one quits at once.\n"
                "\n"
                "With --session NAME, variables, functions, imports and files are there again the next time that the\n"
                "name is used, by this command, by repl or by a server; what can't be kept is told by name.\n"
                "\n"
                "Exit code: 0 ok, 1 the code raised an exception, 2 usage or configuration, 3 the sandbox could not\n"
                "be set up, 4 time-out, 5 out of memory, 6 killed or lost, 130 interrupted with Ctrl-C.",
        .options = exec_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
