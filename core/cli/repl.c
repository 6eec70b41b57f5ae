/* SPDX-License-Identifier: Apache-2.0 */
/* `repl`: an interactive Python whose interpreter is in the sandbox. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <snipara-sandbox/runtime.h>

#include "base/cleanup.h"
#include "cli/line.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/repl.h"
#include "cli/result.h"
#include "cli/source.h"

struct repl_options {
        const char *environment, *profile, *timeout, *session;
        uint64_t timeout_ms;
};

static void repl_free(struct sbx_cli_repl *repl) {
        sbx_cli_line_free(repl->line);
        sbx_runtime_free(repl->runtime);
        sbx_cli_signals_close(&repl->signals);
        free(repl->session);
        sbx_buffer_free(&repl->prompt);
}
#define _cleanup_repl_ __attribute__((cleanup(repl_free)))

/* What a signal means at the prompt or after an execution: Ctrl-C nothing more, the others the end. */
static void note_signal(struct sbx_cli_repl *repl) {
        int number = sbx_cli_signals_take(&repl->signals);

        if (number == SIGTERM || number == SIGHUP) {
                repl->leave = true;
                repl->exit = 128 + number;
        } else if (number == SIGPIPE) {
                repl->leave = true;
                repl->exit = SBX_CLI_NO_READER;
        }
}

static void execute(struct sbx_cli_repl *repl, struct sbx_bytes code) {
        struct sbx_cli_live live = {.cli = repl->cli, .signals = &repl->signals};
        struct sbx_output_events events = sbx_cli_live_events(&live);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = repl->signals.fd};
        _cleanup_result_ struct sbx_result *result = NULL;
        struct sbx_error err = {0};
        struct sbx_execution execution = {
                .struct_size = sizeof(execution),
                .code = code,
                .session_id = repl->session,
                .profile = repl->profile,
                .filename = "<stdin>",
                .timeout_ms = repl->timeout_ms,
                .events = &events,
        };
        int r = sbx_runtime_execute(repl->runtime, &execution, &call, &result, &err);

        if (r < 0)
                (void)sbx_cli_fail(repl->cli, r, &err);
        else
                sbx_cli_result_show(&live, result, SBX_CLI_NORMAL);
        note_signal(repl);
}

/* One line of what is being typed. 1: go on; 0: nothing more comes; -EINTR: it has been dropped. */
static int read_line(struct sbx_cli_repl *repl, const char *prompt, struct sbx_buffer *code) {
        int r = sbx_cli_line_read(repl->line, prompt, code);

        if (r == -EINTR) {
                note_signal(repl);
                if (repl->cli->out.terminal)
                        (void)sbx_cli_print(&repl->cli->out, "\n");
        } else if (r == -EFBIG) {
                sbx_cli_error(repl->cli, "put it into a file: 'snipara-sandbox exec FILE'",
                              "too much code for one statement: the limit is 16 MiB");
        } else if (r < 0) {
                sbx_cli_error(repl->cli, NULL, "can't read the next line: %s", strerror(-r));
                repl->exit = SBX_CLI_FAILED;
                repl->leave = true;
        }
        return r;
}

/* A whole statement. 1: it is in `code`; 0: the end; negative: start again. */
static int read_statement(struct sbx_cli_repl *repl, struct sbx_buffer *code) {
        const char *prompt = repl->prompt.data != NULL ? repl->prompt.data : ">>> ";
        int r;

        do {
                r = read_line(repl, prompt, code);
                /* The last line of a file may have no newline; the scanner wants whole lines. */
                if (r > 0 && code->size > 0 && code->data[code->size - 1] != '\n' &&
                    sbx_buffer_append_text(code, "\n") < 0)
                        return -ENOMEM;
                prompt = "... ";
        } while (r > 0 && code->data[0] != '%' && sbx_cli_source_incomplete(sbx_buffer_bytes(code)));
        if (r == 0 && code->size > 0) {
                repl->leave = true; /* what was typed before the end still counts */
                return 1;
        }
        return r;
}

static bool is_farewell(struct sbx_bytes code) {
        static const char *const words[] = {"exit", "quit", "exit()", "quit()"};
        size_t size = code.size;
        const char *text = code.data;

        while (size > 0 && strchr(" \t\r\n", text[size - 1]) != NULL)
                size--;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0)
                        return true;
        return false;
}

static bool is_blank(struct sbx_bytes code) {
        for (size_t i = 0; i < code.size; i++)
                if (strchr(" \t\r\n", ((const char *)code.data)[i]) == NULL)
                        return false;
        return true;
}

static void loop(struct sbx_cli_repl *repl) {
        _cleanup_buffer_ struct sbx_buffer code = SBX_BUFFER(SBX_CODE_MAX_BYTES);

        while (!repl->leave) {
                int r;

                sbx_buffer_clear(&code);
                r = read_statement(repl, &code);
                if (r == 0)
                        break;
                if (r < 0 || is_blank(sbx_buffer_bytes(&code)))
                        continue;
                if (is_farewell(sbx_buffer_bytes(&code)))
                        return;
                if (code.data[0] == '%')
                        sbx_cli_repl_meta(repl, code.data);
                else
                        execute(repl, sbx_buffer_bytes(&code));
        }
        if (repl->cli->out.terminal)
                (void)sbx_cli_print(&repl->cli->out, "\n");
}

int sbx_cli_repl_session(struct sbx_cli_repl *repl, const char *name) {
        char *copy = strdup(name);

        if (copy == NULL)
                return -ENOMEM;
        free(repl->session);
        repl->session = copy;
        sbx_buffer_clear(&repl->prompt);
        if (strcmp(name, SBX_SESSION_DEFAULT) == 0)
                return sbx_buffer_append_text(&repl->prompt, ">>> ");
        return sbx_buffer_printf(&repl->prompt, "%s >>> ", name);
}

/* Runs without a history when there is no place for it. */
static int open_line(struct sbx_cli_repl *repl, struct sbx_error *err) {
        const char *state = repl->runtime->directories.state;
        _cleanup_free_ char *path = NULL;
        struct sbx_error problem = {0};

        if (isatty(STDIN_FILENO) != 0 && state != NULL) {
                if (sbx_directory_create(state, &problem) < 0)
                        sbx_cli_warning(repl->cli, problem.hint, "no history: %s", problem.message);
                else if (asprintf(&path, "%s/history", state) < 0)
                        path = NULL;
        }
        return sbx_cli_line_open(repl->cli, path, &repl->signals, &repl->line, err);
}

static void greet(const struct sbx_cli_repl *repl) {
        if (isatty(STDIN_FILENO) == 0)
                return;
        (void)sbx_cli_print(&repl->cli->out,
                            "snipara-sandbox %s: Python in the sandbox (environment %s)\n"
                            "%%help lists what begins with %%; Ctrl-C interrupts; Ctrl-D leaves.\n",
                            sbx_version(), sbx_config_string(repl->runtime->config, "environment"));
#if !SBX_HAVE_LIBEDIT
        (void)sbx_cli_print(&repl->cli->out, "No line editing and no history: this build is without libedit.\n");
#endif
}

static int start(struct sbx_cli_repl *repl, const struct repl_options *options) {
        struct sbx_error err = {0};
        int r;

        r = sbx_cli_repl_session(repl, options->session != NULL ? options->session : SBX_SESSION_DEFAULT);
        /* By the setting, so that % commands that start a session start it there too. */
        if (r >= 0 && options->environment != NULL)
                r = sbx_cli_setting_add(repl->cli, "environment=%s", options->environment);
        if (r < 0)
                return sbx_cli_out_of_memory(repl->cli);
        r = sbx_cli_one_shot(repl->cli, NULL, &err);
        if (r >= 0)
                r = sbx_profile_find(options->profile, &(const struct sbx_profile *){NULL}, &err);
        if (r >= 0)
                r = sbx_cli_signals_open(&repl->signals, false);
        if (r >= 0)
                r = sbx_cli_runtime_open(repl->cli, &repl->runtime, &err);
        if (r >= 0)
                r = open_line(repl, &err);
        if (r < 0)
                return sbx_cli_fail(repl->cli, r, &err);
        greet(repl);
        loop(repl);
        return repl->exit;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct repl_options options = {0};
        _cleanup_repl_ struct sbx_cli_repl repl = {.cli = cli, .signals = {.fd = -1}, .prompt = SBX_BUFFER(256)};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        if (options.timeout != NULL && sbx_cli_timeout(cli, options.timeout, &options.timeout_ms) != 0)
                return SBX_CLI_USAGE;
        repl.profile = options.profile;
        repl.timeout_ms = options.timeout_ms;
        return start(&repl, &options);
}

static const struct sbx_cli_option repl_command_options[] = {
        {"env", 'e', SBX_CLI_TEXT, offsetof(struct repl_options, environment), "NAME",
         "where to run: a backend instance of the configuration (default: the setting environment)", NULL},
        {"profile", 'p', SBX_CLI_TEXT, offsetof(struct repl_options, profile), "NAME",
         "limits of each statement: quick, default, analysis or extended", "quick|default|analysis|extended"},
        {"timeout", 't', SBX_CLI_TEXT, offsetof(struct repl_options, timeout), "TIME",
         "for each statement: seconds, or 250ms, 30s, 5m; at most 10m (default: the profile's)", NULL},
        {"session", 's', SBX_CLI_TEXT, offsetof(struct repl_options, session), "NAME",
         "begin in the session of this name, which is kept between commands (default: one that ends with this one)",
         NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"repl", "type Python; %help lists the commands that begin with %"},
        {"repl --session work", "go on where 'exec --session work', or an earlier repl, ended"},
        {"repl --profile analysis", "with two minutes and 2 GB for each statement"},
        {0},
};

const struct sbx_cli_command sbx_cli_repl = {
        .name = "repl",
        .arguments = "",
        .summary = "Type Python, run in the sandbox",
        .description = "Ctrl-C interrupts the code and keeps the variables; Ctrl-D, exit or quit leaves. A line that\n"
                       "begins with % is a command: %vars, %clear, %session NAME, %report, %help. The history is kept\n"
                       "in the user's state directory.",
        .options = repl_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
