/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line of `run` and `agent` to a run, and from its result to the exit code. */
#include "cli/run_options.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/number.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/run_watch.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "config/config.h"
#include "session/session.h"

#define TEXT_MAX_BYTES ((size_t)16 << 20)
#define TEXTS_MAX 64u
#define RESULT_MAX ((size_t)256 << 20)

/* A command on its way: everything that the run borrows. */
struct start {
        struct sbx_cli *cli;
        const struct sbx_cli_command *command;
        struct sbx_cli_run_options options;
        struct sbx_run_options run;
        struct sbx_buffer prompt, check;
        struct sbx_run_text texts[TEXTS_MAX];
        struct sbx_buffer text_bytes[TEXTS_MAX];
        char *text_names[TEXTS_MAX];
        struct sbx_cli_signals signals;
        struct sbx_runtime *runtime;
};

static void start_free(struct start *start) {
        sbx_buffer_free(&start->prompt);
        sbx_buffer_free(&start->check);
        for (size_t i = 0; i < TEXTS_MAX; i++) {
                sbx_buffer_free(&start->text_bytes[i]);
                free(start->text_names[i]);
        }
        sbx_runtime_free(start->runtime);
        sbx_cli_signals_close(&start->signals);
}
#define _cleanup_start_ __attribute__((cleanup(start_free)))

/* ---- numbers ---- */

/* A whole number from 1 on. Beyond `maximum`, a limit that nothing passes, the limit is taken, and told. */
static int take_count(const struct start *start, const char *option, const char *text, int64_t maximum, uint64_t *ret) {
        int64_t value = 0;

        if (text == NULL)
                return SBX_CLI_OK;
        if (sbx_number_int(text, &value) < 0 || value < 1) {
                sbx_cli_error(start->cli, NULL, "--%s %s: must be a whole number from 1 on", option, text);
                return SBX_CLI_USAGE;
        }
        if (value > maximum) {
                sbx_cli_warning(start->cli, NULL, "--%s %s is beyond the hard limit: it is %lld", option, text,
                                (long long)maximum);
                value = maximum;
        }
        *ret = (uint64_t)value;
        return SBX_CLI_OK;
}

static int take_cost(struct start *start) {
        const char *text = start->options.cost_limit;
        double value = 0;

        if (text == NULL)
                return SBX_CLI_OK;
        if (sbx_number_float(text, &value) < 0 || value <= 0) {
                sbx_cli_error(start->cli, NULL, "--cost-limit %s: must be a number of US dollars above 0", text);
                return SBX_CLI_USAGE;
        }
        if (value > SBX_HARD_COST_MAX_USD) {
                sbx_cli_warning(start->cli, NULL, "--cost-limit %s is beyond the hard limit: it is %d", text,
                                SBX_HARD_COST_MAX_USD);
                value = SBX_HARD_COST_MAX_USD;
        }
        start->run.cost_limit_usd = value;
        return SBX_CLI_OK;
}

static int take_timeout(struct start *start) {
        const char *text = start->options.timeout;
        int64_t ms = 0;

        if (text == NULL)
                return SBX_CLI_OK;
        if (sbx_number_duration(text, &ms) >= 0 && ms > (int64_t)SBX_TIMEOUT_MAX_MS) {
                sbx_cli_warning(start->cli, NULL, "--timeout %s is beyond the hard limit: it is %u s", text,
                                SBX_TIMEOUT_MAX_MS / 1000);
                start->run.timeout_ms = SBX_TIMEOUT_MAX_MS;
                return SBX_CLI_OK;
        }
        return sbx_cli_timeout(start->cli, text, &start->run.timeout_ms) != 0 ? SBX_CLI_USAGE : SBX_CLI_OK;
}

static int take_limits(struct start *start) {
        const struct sbx_cli_run_options *options = &start->options;
        uint64_t depth = 0, calls = 0, tools = 0, iterations = 0, sub_calls = 0;
        int r = take_count(start, "max-depth", options->max_depth, SBX_HARD_DEPTH_MAX, &depth);

        if (r == SBX_CLI_OK)
                r = take_count(start, "max-calls", options->max_calls, 10000, &calls);
        if (r == SBX_CLI_OK)
                r = take_count(start, "tool-budget", options->tool_budget, 10000, &tools);
        if (r == SBX_CLI_OK)
                r = take_count(start, "max-iterations", options->max_iterations, SBX_HARD_AGENT_ITERATIONS_MAX,
                               &iterations);
        if (r == SBX_CLI_OK)
                r = take_count(start, "max-sub-calls", options->max_sub_calls, 10000, &sub_calls);
        if (r == SBX_CLI_OK)
                r = take_count(start, "token-budget", options->token_budget, 100000000, &start->run.token_budget);
        if (r == SBX_CLI_OK)
                r = take_timeout(start);
        if (r == SBX_CLI_OK)
                r = take_cost(start);
        start->run.max_depth = (uint32_t)depth;
        start->run.max_subcalls = (uint32_t)calls;
        start->run.tool_budget = (uint32_t)tools;
        start->run.max_iterations = (uint32_t)iterations;
        start->run.sub_calls_per_turn = (uint32_t)sub_calls;
        return r;
}

/* ---- texts ---- */

static int take_prompt(struct start *start, const char *word) {
        struct sbx_error err = {0};
        int r;

        start->prompt.max = TEXT_MAX_BYTES;
        if (strcmp(word, "-") == 0)
                r = sbx_cli_source_read("-", &start->prompt, &err);
        else
                r = sbx_buffer_append_text(&start->prompt, word);
        if (r < 0 && err.code == 0)
                return sbx_cli_out_of_memory(start->cli);
        if (r < 0)
                return sbx_cli_fail(start->cli, r, &err);
        if (start->prompt.size == 0 || strspn(start->prompt.data, " \t\r\n") == start->prompt.size) {
                sbx_cli_error(start->cli, NULL, "the prompt is empty");
                return SBX_CLI_USAGE;
        }
        start->run.prompt = start->prompt.data;
        return SBX_CLI_OK;
}

static int take_variable(struct start *start, const char *text) {
        static const char hint[] = "write --var NAME=FILE, as in --var document=report.txt";
        const char *equals = strchr(text, '=');
        size_t index = start->run.text_count;
        struct sbx_error err = {0};
        int r;

        if (equals == NULL || equals == text || equals[1] == '\0') {
                sbx_cli_error(start->cli, hint, "--var %s is not of the form NAME=FILE", text);
                return SBX_CLI_USAGE;
        }
        if (index == TEXTS_MAX) {
                sbx_cli_error(start->cli, NULL, "more than %u times --var", TEXTS_MAX);
                return SBX_CLI_USAGE;
        }
        start->text_names[index] = strndup(text, (size_t)(equals - text));
        start->text_bytes[index].max = TEXT_MAX_BYTES;
        if (start->text_names[index] == NULL)
                return sbx_cli_out_of_memory(start->cli);
        r = sbx_file_read(AT_FDCWD, equals + 1, TEXT_MAX_BYTES, &start->text_bytes[index], &err);
        if (r < 0)
                return sbx_cli_fail(start->cli, r, &err);
        start->texts[index] =
                (struct sbx_run_text){start->text_names[index], sbx_buffer_bytes(&start->text_bytes[index])};
        start->run.text_count++;
        return SBX_CLI_OK;
}

/* A file of that name, else the text itself is the code. */
static int take_check(struct start *start) {
        const char *text = start->options.check;
        size_t length = text != NULL ? strlen(text) : 0;
        struct sbx_error err = {0};
        struct stat st;
        int r;

        if (text == NULL)
                return SBX_CLI_OK;
        start->check.max = SBX_CODE_MAX_BYTES;
        if (stat(text, &st) == 0)
                r = sbx_file_read(AT_FDCWD, text, SBX_CODE_MAX_BYTES, &start->check, &err);
        else if (length > 3 && strcmp(text + length - 3, ".py") == 0 && strpbrk(text, " \n(") == NULL)
                r = sbx_error_set(&err, -ENOENT, "cli", "Give a file that exists, or the code itself.",
                                  "--check %s: there is no such file", text);
        else
                r = sbx_buffer_append_text(&start->check, text) < 0
                            ? sbx_error_set(&err, -ENOMEM, "cli", NULL, "out of memory")
                            : 0;
        if (r < 0)
                return sbx_cli_fail(start->cli, r, &err);
        start->run.check = start->check.data != NULL ? start->check.data : "";
        return SBX_CLI_OK;
}

static int take_words(struct start *start, const struct sbx_cli_arguments *arguments) {
        const char *word = NULL;

        for (size_t i = 0; i < arguments->count; i++) {
                const struct sbx_cli_argument *argument = &arguments->items[i];
                int r = SBX_CLI_OK;

                if (argument->option != NULL)
                        r = take_variable(start, argument->text);
                else if (word != NULL) {
                        sbx_cli_error(start->cli, "put the prompt into quotes", "one word too many: %s",
                                      argument->text);
                        r = SBX_CLI_USAGE;
                } else
                        word = argument->text;
                if (r != SBX_CLI_OK)
                        return r;
        }
        if (word != NULL && start->options.resume != NULL) {
                sbx_cli_error(start->cli, NULL, "a resumed run has its prompt already: %s is too much", word);
                return SBX_CLI_USAGE;
        }
        if (word == NULL && start->options.resume == NULL && !start->options.show_config) {
                sbx_cli_error(start->cli, "say what is to be done, in quotes; '-' reads it from standard input",
                              "no prompt");
                return SBX_CLI_USAGE;
        }
        return word != NULL ? take_prompt(start, word) : SBX_CLI_OK;
}

static int take_options(struct start *start, uint32_t flags) {
        const struct sbx_cli_run_options *options = &start->options;

        start->run.struct_size = sizeof(start->run);
        start->run.flags = flags | (options->no_sub_calls ? SBX_RUN_NO_SUB_CALLS : 0u) |
                           (options->no_auto_context ? SBX_RUN_NO_AUTO_CONTEXT : 0u) |
                           (options->json && start->cli->verbose ? SBX_RUN_WITH_EVENTS : 0u);
        start->run.model = options->model;
        start->run.provider = options->provider;
        start->run.environment = options->environment;
        start->run.system = options->system;
        start->run.resume_id = options->resume;
        start->run.texts = start->texts;
        if (options->config != NULL)
                start->cli->config_path = options->config;
        return take_limits(start);
}

/* ---- --show-config ---- */

static void show_row(struct sbx_cli_table *table, const char *name, const char *given, const struct sbx_option *option,
                     const struct sbx_value *value) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);

        sbx_cli_table_cell(table, SBX_CLI_DIM, name);
        if (given == NULL && sbx_value_show(option, value, &text) < 0)
                given = "?";
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, given != NULL ? given : text.data);
        sbx_cli_table_cell(table, SBX_CLI_DIM, given != NULL ? "command line" : value->origin);
}

static int show_config(struct start *start) {
        const struct sbx_cli_run_options *options = &start->options;
        const struct {
                const char *setting, *given;
        } rows[] = {
                {"model", options->model},
                {"backend", options->provider},
                {"environment", options->environment},
                {"max_depth", options->max_depth},
                {"max_subcalls", options->max_calls},
                {"token_budget", options->token_budget},
                {"tool_budget", options->tool_budget},
                {"timeout_seconds", options->timeout},
                {"cost_limit", options->cost_limit},
                {"sub_calls_enabled", options->no_sub_calls ? "false" : NULL},
                {"sub_calls_max_per_turn", options->max_sub_calls},
                {"code_mode", NULL},
                {"log_dir", NULL},
        };
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        _cleanup_parts_ struct sbx_cli_parts parts = {0};
        struct sbx_error err = {0};
        int r = sbx_cli_parts_open(start->cli, &parts, &err);

        if (r < 0)
                return sbx_cli_fail(start->cli, r, &err);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct sbx_settings *core = sbx_config_core(parts.config);
                const struct sbx_value *value = sbx_settings_get(core, rows[i].setting);

                show_row(table, rows[i].setting, rows[i].given, &core->table[value - core->values], value);
        }
        return sbx_cli_table_show(table, &start->cli->out, 0) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

/* ---- the run ---- */

static int exit_of(struct start *start, const json_t *result) {
        const char *end = json_string_value(json_object_get(result, "end"));
        int number = sbx_cli_signals_take(&start->signals);

        if (number == SIGPIPE)
                return SBX_CLI_NO_READER;
        if (number == SIGTERM || number == SIGHUP)
                return 128 + number;
        if (json_is_true(json_object_get(result, "success")))
                return SBX_CLI_OK;
        if (end != NULL && strcmp(end, "cancelled") == 0)
                return SBX_CLI_INTERRUPTED;
        return end != NULL && strcmp(end, "timeout") == 0 ? SBX_CLI_TIMEOUT : SBX_CLI_FAILED;
}

/* What went wrong, and how to go on. */
static void show_failure(const struct start *start, const json_t *result) {
        const char *error = json_string_value(json_object_get(result, "error"));
        const char *hint = json_string_value(json_object_get(result, "hint"));
        const char *id = json_string_value(json_object_get(result, "trajectory_id"));
        const char *end = json_string_value(json_object_get(result, "end"));

        if (json_is_true(json_object_get(result, "success")))
                return;
        /* The end stands before the reason when it says more than that there is one. */
        if (error == NULL)
                sbx_cli_error(start->cli, hint, "the answer did not pass the check");
        else if (end == NULL || strcmp(end, "error") == 0 || strcmp(end, error) == 0)
                sbx_cli_error(start->cli, hint, "%s", error);
        else
                sbx_cli_error(start->cli, hint, "%s: %s", end, error);
        if (id != NULL && json_is_true(json_object_get(result, "resumable")))
                (void)sbx_cli_print(&start->cli->err, "To go on: %s %s --resume %.8s\n", start->cli->program,
                                    start->command->name, id);
}

/* The run could not begin. */
static int fail_run(const struct start *start, int code, const struct sbx_error *err) {
        _cleanup_json_ json_t *document = NULL;

        if (start->options.json) {
                document = json_pack("{s:b, s:s, s:s}", "success", 0, "error", err->message, "hint", err->hint);
                if (document != NULL)
                        (void)sbx_cli_print_json(&start->cli->out, document, true);
        }
        return sbx_cli_fail(start->cli, code, err);
}

static int run_it(struct start *start) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = start->signals.fd};
        _cleanup_(sbx_cli_watch_free) struct sbx_cli_watch watch;
        _cleanup_json_ json_t *result = NULL;
        struct sbx_bytes json = {0};
        struct sbx_run_events events;
        struct sbx_error err = {0};
        int r;

        sbx_cli_watch_init(&watch, start->cli, &start->signals, start->options.json, start->options.events);
        events = sbx_cli_watch_events(&watch);
        start->run.events = &events;
        r = sbx_runtime_run(start->runtime, &start->run, &call, &json, &err);
        if (r < 0 && r != -EALREADY)
                return fail_run(start, r, &err);
        if (r == -EALREADY)
                sbx_cli_warning(start->cli, NULL, "%s", err.message);
        r = sbx_json_parse(json, RESULT_MAX, "result", &result, &err);
        sbx_bytes_free(&json);
        if (r < 0)
                return sbx_cli_fail(start->cli, r, &err);
        if (start->options.json)
                (void)sbx_cli_print_json(&start->cli->out, result, true);
        else
                sbx_cli_watch_result(&watch, result);
        show_failure(start, result);
        return exit_of(start, result);
}

int sbx_cli_run_command(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv,
                        uint32_t flags) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        _cleanup_start_ struct start start = {.cli = cli, .command = command, .signals = {.fd = -1}};
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &start.options, &arguments, &result))
                return result;
        result = take_options(&start, flags);
        if (result == SBX_CLI_OK)
                result = take_words(&start, &arguments);
        if (result == SBX_CLI_OK)
                result = take_check(&start);
        if (result != SBX_CLI_OK)
                return result;
        if (start.options.show_config)
                return show_config(&start);
        r = sbx_cli_signals_open(&start.signals, true);
        if (r >= 0)
                r = sbx_cli_one_shot(cli, start.options.environment, &err);
        if (r >= 0)
                r = sbx_cli_runtime_open(cli, &start.runtime, &err);
        return r < 0 ? fail_run(&start, r, &err) : run_it(&start);
}
