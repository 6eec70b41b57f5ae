/* SPDX-License-Identifier: Apache-2.0 */
/* `logs replay`: does again what a recorded run executed, in fresh sessions, and tells what comes out otherwise. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/logs_steps.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"
#include "cli/signals.h"

#define VARIABLE_MAX ((size_t)16 << 20)
#define LINE_SHOWN 160u

struct replay_options {
        const char *directory, *environment;
        bool json;
};

struct replay {
        struct sbx_cli *cli;
        struct replay_options options;
        const struct sbx_cli_arguments *arguments;
        struct sbx_logs_directory directory;
        char id[SBX_LOGS_ID_MAX + 1];
        json_t *lines;
        struct sbx_logs_events events;
        struct sbx_logs_steps steps;
        struct sbx_cli_signals signals;
        struct sbx_runtime *runtime;
        const char *environment; /* NULL: the configured one */
        char *run_principal;     /* whose sessions were the run's own */
        char *session_principal; /* and whose they are now */
        json_t *results;         /* for the JSON */
        size_t same, different, left_out;
};

static void replay_free(struct replay *replay) {
        sbx_runtime_free(replay->runtime);
        sbx_cli_signals_close(&replay->signals);
        sbx_logs_steps_free(&replay->steps);
        sbx_logs_events_free(&replay->events);
        json_decref(replay->lines);
        json_decref(replay->results);
        sbx_logs_directory_close(&replay->directory);
        free(replay->run_principal);
        free(replay->session_principal);
}

/* ---- comparing ---- */

static const char *recorded_text(const json_t *event) {
        const json_t *repl = json_array_get(json_object_get(event, "repl_results"), 0);
        const json_t *response = json_object_get(event, "response");

        return json_is_string(response) ? json_string_value(response) : sbx_logs_text(repl, "output");
}

static bool is_same_text(const json_t *event, const char *text) {
        const char *digest = sbx_logs_text(event, "output_sha256");
        char own[SBX_SHA256_TEXT_SIZE];

        if (digest[0] == '\0')
                return strcmp(recorded_text(event), text) == 0;
        sbx_sha256_text((struct sbx_bytes){text, strlen(text)}, own);
        return strcmp(digest, own) == 0;
}

/* The first line in which two texts differ, from 1; where it begins in each. */
static size_t first_difference(const char **one, const char **other) {
        size_t number = 1;

        for (;;) {
                size_t size = strcspn(*one, "\n");

                if (size != strcspn(*other, "\n") || memcmp(*one, *other, size) != 0 || (*one)[size] == '\0' ||
                    (*other)[size] == '\0')
                        return number;
                *one += size + 1;
                *other += size + 1;
                number++;
        }
}

static void show_line(const struct replay *replay, const char *mark, const char *line) {
        size_t size = strcspn(line, "\n"), cut = sbx_utf8_cut((struct sbx_bytes){line, size}, LINE_SHOWN);

        (void)sbx_cli_print(&replay->cli->out, "    %s %.*s%s\n", mark, (int)cut, line, cut < size ? " ..." : "");
}

/* ---- telling ---- */

struct verdict {
        bool same, same_end, same_text;
        const struct sbx_logs_outcome *outcome;
        const json_t *event;
};

static void show_people(const struct replay *replay, size_t number, const char *kind, const struct verdict *verdict) {
        const char *was = recorded_text(verdict->event), *now = verdict->outcome->text;
        const char *word = verdict->outcome->obstacle != NULL ? "not repeated" : verdict->same ? "same" : "different";
        enum sbx_cli_style style = verdict->outcome->obstacle != NULL ? SBX_CLI_YELLOW
                                   : verdict->same                    ? SBX_CLI_GREEN
                                                                      : SBX_CLI_RED;
        const struct sbx_cli_stream *out = &replay->cli->out;
        size_t line;

        (void)sbx_cli_print(out, "%zu  %s  %s  ", number, kind, sbx_logs_text(verdict->event, "session_id"));
        (void)sbx_cli_print_styled(out, style, "%s", word);
        if (verdict->outcome->obstacle != NULL)
                (void)sbx_cli_print(out, ": %s", verdict->outcome->obstacle);
        (void)sbx_cli_print(out, "\n");
        if (verdict->same || verdict->outcome->obstacle != NULL)
                return;
        if (!verdict->same_end)
                (void)sbx_cli_print(out, "    ended %s, and %s in the recorded run\n", verdict->outcome->end,
                                    sbx_logs_text(verdict->event, "end"));
        if (verdict->outcome->calls[0] != '\0')
                (void)sbx_cli_print(out, "    %s\n", verdict->outcome->calls);
        if (verdict->same_text)
                return;
        line = first_difference(&was, &now);
        (void)sbx_cli_print(out, "    output differs from line %zu on:\n", line);
        show_line(replay, "-", was);
        show_line(replay, "+", now);
}

static int add_json(struct replay *replay, size_t number, const char *kind, const struct verdict *verdict) {
        const struct sbx_logs_outcome *outcome = verdict->outcome;
        bool done = outcome->obstacle == NULL;
        json_t *entry =
                json_pack("{s:I, s:s, s:s, s:s, s:s, s:s?, s:s, s:s?, s:s, s:s?, s:s?}", "step", (json_int_t)number,
                          "kind", kind, "call_id", sbx_logs_text(verdict->event, "call_id"), "session_id",
                          sbx_logs_text(verdict->event, "session_id"), "outcome",
                          !done           ? "not_repeated"
                          : verdict->same ? "same"
                                          : "different",
                          "reason", outcome->obstacle, "recorded_end", sbx_logs_text(verdict->event, "end"), "end",
                          done ? outcome->end : NULL, "recorded_output", recorded_text(verdict->event), "output",
                          outcome->text, "calls_differ", outcome->calls[0] != '\0' ? outcome->calls : NULL);

        return json_array_append_new(replay->results, entry) < 0 ? -ENOMEM : 0;
}

/* ---- doing ---- */

static int repeat_step(struct replay *replay, size_t number, const struct sbx_logs_step *step,
                       const struct sbx_call *call, struct sbx_error *err) {
        __attribute__((cleanup(sbx_logs_outcome_free))) struct sbx_logs_outcome outcome = {0};
        const json_t *event = replay->events.items[step->event].object;
        struct verdict verdict = {.event = event, .outcome = &outcome};
        const char *kind = step->kind == SBX_LOGS_CHECK ? "check" : "execution";
        int r = sbx_logs_step_repeat(replay->runtime, &replay->events, step, replay->environment, call, &outcome, err);

        if (r < 0 || step->kind == SBX_LOGS_TOOL)
                return r;
        verdict.same_end = sbx_logs_is(event, "end", outcome.end);
        verdict.same_text = outcome.text != NULL && is_same_text(event, outcome.text);
        verdict.same = outcome.obstacle == NULL && verdict.same_end && verdict.same_text && outcome.calls[0] == '\0';
        if (outcome.obstacle != NULL)
                replay->left_out++;
        else if (verdict.same)
                replay->same++;
        else
                replay->different++;
        if (replay->options.json)
                return add_json(replay, number, kind, &verdict) < 0 ? SBX_NOMEM(err, "cli") : 0;
        show_people(replay, number, kind, &verdict);
        return 0;
}

static int repeat_all(struct replay *replay) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = replay->signals.fd};
        struct sbx_error err = {0};
        size_t number = 0;

        for (size_t i = 0; i < replay->steps.count; i++) {
                const struct sbx_logs_step *step = &replay->steps.items[i];
                int r, signal_number;

                number += step->kind != SBX_LOGS_TOOL;
                r = repeat_step(replay, number, step, &call, &err);
                signal_number = sbx_cli_signals_take(&replay->signals);
                if (signal_number != 0)
                        return signal_number == SIGINT ? SBX_CLI_INTERRUPTED : 128 + signal_number;
                if (r < 0)
                        return sbx_cli_fail(replay->cli, r, &err);
        }
        return SBX_CLI_OK;
}

static int show_summary(struct replay *replay) {
        bool good = replay->different == 0 && replay->left_out == 0;
        _cleanup_json_ json_t *document = NULL;
        int r;

        if (replay->options.json) {
                document = json_pack("{s:s, s:b, s:I, s:I, s:I, s:O}", "id", replay->id, "ok", (int)good, "same",
                                     (json_int_t)replay->same, "different", (json_int_t)replay->different,
                                     "not_repeated", (json_int_t)replay->left_out, "executions", replay->results);
                r = document != NULL ? sbx_cli_print_json(&replay->cli->out, document, true) : -ENOMEM;
        } else {
                r = sbx_cli_print_styled(&replay->cli->out, good ? SBX_CLI_GREEN : SBX_CLI_RED,
                                         "%zu executions: %zu the same, %zu different, %zu not repeated\n",
                                         replay->same + replay->different + replay->left_out, replay->same,
                                         replay->different, replay->left_out);
        }
        return r < 0 || !good ? SBX_CLI_FAILED : SBX_CLI_OK;
}

/* ---- variables that the run began with ---- */

static const json_t *recorded_variable(const struct replay *replay, const char *name) {
        const json_t *list = json_object_get(sbx_logs_header(replay->lines), "variables"), *variable;
        size_t index;

        json_array_foreach (list, index, variable)
                if (sbx_logs_is(variable, "name", name))
                        return variable;
        return NULL;
}

static bool is_given(const struct replay *replay, const char *name) {
        size_t size = strlen(name);

        for (size_t i = 0; i < replay->arguments->count; i++) {
                const struct sbx_cli_argument *argument = &replay->arguments->items[i];

                if (argument->option != NULL && strncmp(argument->text, name, size) == 0 && argument->text[size] == '=')
                        return true;
        }
        return false;
}

static int check_variables(const struct replay *replay) {
        const json_t *list = json_object_get(sbx_logs_header(replay->lines), "variables"), *variable;
        size_t index;

        json_array_foreach (list, index, variable) {
                const char *name = sbx_logs_text(variable, "name");

                if (!is_given(replay, name)) {
                        sbx_cli_error(replay->cli, "give its file again, as in --var document=report.txt",
                                      "the run began with a text in the variable %s, which is not in the trajectory",
                                      name);
                        return SBX_CLI_USAGE;
                }
        }
        return SBX_CLI_OK;
}

static bool is_identifier(const char *name, size_t size) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return size > 0 && size <= 64 && (name[0] < '0' || name[0] > '9') && strspn(name, letters) >= size;
}

static int load_variable(const struct replay *replay, const char *text, const struct sbx_call *call) {
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(VARIABLE_MAX), repaired = SBX_BUFFER(4 * VARIABLE_MAX);
        const char *equals = strchr(text, '=');
        _cleanup_free_ char *name = equals != NULL ? strndup(text, (size_t)(equals - text)) : NULL;
        const json_t *recorded;
        char digest[SBX_SHA256_TEXT_SIZE];
        struct sbx_error err = {0};
        int r;

        if (equals == NULL || !is_identifier(text, (size_t)(equals - text)) || equals[1] == '\0') {
                sbx_cli_error(replay->cli, "write --var NAME=FILE, as in --var document=report.txt",
                              "--var %s is not of the form NAME=FILE", text);
                return SBX_CLI_USAGE;
        }
        r = name == NULL ? SBX_NOMEM(&err, "cli") : sbx_file_read(AT_FDCWD, equals + 1, VARIABLE_MAX, &file, &err);
        if (r < 0)
                return sbx_cli_fail(replay->cli, r, &err);
        sbx_sha256_text(sbx_buffer_bytes(&file), digest);
        recorded = recorded_variable(replay, name);
        if (recorded != NULL && !sbx_logs_is(recorded, "sha256", digest))
                sbx_cli_warning(replay->cli, NULL, "%s is not the text that the run had in %s", equals + 1, name);
        r = sbx_utf8_repair(sbx_buffer_bytes(&file), false, &repaired);
        if (r == 0)
                r = sbx_logs_variable_set(replay->runtime, replay->session_principal, replay->environment, name,
                                          sbx_buffer_bytes(&repaired), call, &err);
        return r < 0 ? sbx_cli_fail(replay->cli, r, &err) : SBX_CLI_OK;
}

static int load_variables(const struct replay *replay) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = replay->signals.fd};

        for (size_t i = 0; i < replay->arguments->count; i++) {
                const struct sbx_cli_argument *argument = &replay->arguments->items[i];
                int r = argument->option != NULL ? load_variable(replay, argument->text, &call) : SBX_CLI_OK;

                if (r != SBX_CLI_OK)
                        return r;
        }
        return SBX_CLI_OK;
}

/* ---- the command ---- */

static int load(struct replay *replay, const char *text) {
        _cleanup_close_ int fd = -1;
        struct sbx_error err = {0};
        size_t bad = 0;
        int r = sbx_logs_directory_open(replay->cli, replay->options.directory, &replay->directory);

        if (r == SBX_CLI_OK)
                r = sbx_logs_find(replay->cli, &replay->directory, text, replay->id, &fd);
        if (r != SBX_CLI_OK)
                return r;
        r = sbx_logs_load(fd, &replay->lines, &bad, &err);
        if (r < 0)
                return sbx_cli_fail(replay->cli, r, &err);
        if (asprintf(&replay->run_principal, "run:%s", replay->id) < 0)
                replay->run_principal = NULL;
        replay->session_principal = replay->run_principal != NULL ? sbx_logs_principal(replay->run_principal) : NULL;
        if (replay->session_principal == NULL || sbx_logs_events_make(replay->lines, &replay->events) < 0 ||
            sbx_logs_steps_make(&replay->events, replay->run_principal, &replay->steps) < 0)
                return sbx_cli_out_of_memory(replay->cli);
        if (replay->steps.count == 0) {
                sbx_cli_error(replay->cli, "only runs that executed code can be repeated",
                              "the trajectory %s has no executions", replay->id);
                return SBX_CLI_FAILED;
        }
        if (bad > 0)
                sbx_cli_warning(replay->cli, "'logs verify' tells which", "%zu line%s of the file can't be read", bad,
                                bad > 1 ? "s" : "");
        return check_variables(replay);
}

static int open_runtime(struct replay *replay) {
        const char *recorded = sbx_logs_text(sbx_logs_header(replay->lines), "environment");
        struct sbx_error err = {0};
        int r;

        replay->environment = replay->options.environment;
        if (replay->environment == NULL && recorded[0] != '\0')
                replay->environment = recorded;
        r = sbx_cli_signals_open(&replay->signals, true);
        if (r >= 0)
                r = sbx_cli_one_shot(replay->cli, replay->environment, &err);
        if (r >= 0)
                r = sbx_cli_runtime_open(replay->cli, &replay->runtime, &err);
        return r < 0 ? sbx_cli_fail(replay->cli, r, &err) : SBX_CLI_OK;
}

static int run_replay(struct replay *replay, const char *text) {
        int r = load(replay, text);

        if (r == SBX_CLI_OK)
                r = open_runtime(replay);
        if (r == SBX_CLI_OK)
                r = load_variables(replay);
        if (r == SBX_CLI_OK)
                r = repeat_all(replay);
        return r == SBX_CLI_OK ? show_summary(replay) : r;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        __attribute__((cleanup(replay_free))) struct replay replay = {
                .cli = cli, .arguments = &arguments, .directory = {.fd = -1}, .signals = {.fd = -1}};
        const char *id = NULL;
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &replay.options, &arguments, &result))
                return result;
        for (size_t i = 0; i < arguments.count; i++) {
                if (arguments.items[i].option != NULL)
                        continue;
                if (id != NULL) {
                        sbx_cli_error(cli, "give one id", "%s is too many", arguments.items[i].text);
                        return SBX_CLI_USAGE;
                }
                id = arguments.items[i].text;
        }
        if (id == NULL) {
                sbx_cli_error(cli, "as in 'logs replay 3f2a'; 'logs' lists them", "give the id of one trajectory");
                return SBX_CLI_USAGE;
        }
        replay.results = json_array();
        return replay.results != NULL ? run_replay(&replay, id) : sbx_cli_out_of_memory(cli);
}

static const struct sbx_cli_option replay_command_options[] = {
        {"dir", 'd', SBX_CLI_TEXT, offsetof(struct replay_options, directory), "DIRECTORY",
         "where the trajectories are (default: the setting log_dir)", NULL},
        {"env", 'e', SBX_CLI_TEXT, offsetof(struct replay_options, environment), "NAME",
         "where to run: a backend instance of the configuration (default: the recorded one)", NULL},
        {"var", 0, SBX_CLI_ARGUMENT, 0, "NAME=FILE",
         "a text that the run began with, which the trajectory does not hold; repeatable", NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct replay_options, json), NULL,
         "print JSON: ok, same, different, not_repeated, executions", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"logs replay 3f2a", "whether the code of a run does the same again"},
        {"logs replay 3f2a --env docker", "and elsewhere"},
        {0},
};

const struct sbx_cli_command sbx_cli_logs_replay = {
        .name = "logs replay",
        .arguments = "ID",
        .summary = "Run the recorded code of a trajectory again and compare",
        .description =
                "Every execution of the run, in order, in fresh sessions of the same names, with the recorded "
                "profiles.\n"
                "No model is asked and no tool is called: code that calls back gets the recorded answers. How it ends\n"
                "and what the model would see of its output is compared. Exit code 1: something differs, or could not\n"
                "be repeated.",
        .options = replay_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
