/* SPDX-License-Identifier: Apache-2.0 */
/* `logs`: recent runs, or one of them. */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "cli/logs.h"
#include "cli/options.h"
#include "cli/output.h"

#define TAIL_DEFAULT 10
#define TAIL_MAX 1000000

struct logs_options {
        const char *directory, *tail;
        bool json, full;
};

/* ---- one run ---- */

/* 2.2.7 prints calls alone; --full adds the lines of metadata. */
static int show_json(const struct sbx_cli *cli, const json_t *lines, bool full) {
        _cleanup_json_ json_t *events = json_array();
        size_t index;
        json_t *line;

        json_array_foreach (lines, index, line)
                if ((full || !sbx_logs_is_metadata(line)) && json_array_append(events, line) < 0)
                        return -ENOMEM;
        return sbx_cli_print_json(&cli->out, events, true);
}

static int show_one(const struct sbx_cli *cli, const struct sbx_logs_directory *directory, const char *text,
                    const struct logs_options *options) {
        _cleanup_json_ json_t *lines = NULL;
        _cleanup_close_ int fd = -1;
        char id[SBX_LOGS_ID_MAX + 1];
        struct sbx_error err = {0};
        size_t bad = 0;
        int r = sbx_logs_find(cli, directory, text, id, &fd);

        if (r != SBX_CLI_OK)
                return r;
        r = sbx_logs_load(fd, &lines, &bad, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        r = options->json ? show_json(cli, lines, options->full) : sbx_logs_tree_show(cli, id, lines, options->full);
        if (r < 0) {
                sbx_cli_error(cli, NULL, "can't show %s: %s", id, SBX_ERRNO_TEXT(r));
                return SBX_CLI_FAILED;
        }
        if (bad > 0)
                sbx_cli_warning(cli, "'logs verify' tells which", "%zu line%s of the file can't be read", bad,
                                bad > 1 ? "s" : "");
        return SBX_CLI_OK;
}

/* ---- the command ---- */

static int take_tail(const struct sbx_cli *cli, const char *text, size_t *ret_count) {
        int64_t count = TAIL_DEFAULT;

        if (text != NULL && (sbx_number_int(text, &count) < 0 || count < 0 || count > TAIL_MAX)) {
                sbx_cli_error(cli, NULL, "--tail %s: must be a whole number, 0 for all", text);
                return SBX_CLI_USAGE;
        }
        *ret_count = (size_t)count;
        return SBX_CLI_OK;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_logs_directory_ struct sbx_logs_directory directory = {.fd = -1};
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct logs_options options = {0};
        size_t count = 0;
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (arguments.count > 1) {
                sbx_cli_error(cli, "give one id, or none to list recent runs", "%s is too many",
                              arguments.items[1].text);
                return SBX_CLI_USAGE;
        }
        result = take_tail(cli, options.tail, &count);
        if (result == SBX_CLI_OK)
                result = sbx_logs_directory_open(cli, options.directory, &directory);
        if (result != SBX_CLI_OK)
                return result;
        return arguments.count == 1 ? show_one(cli, &directory, arguments.items[0].text, &options)
                                    : sbx_logs_list(cli, &directory, count, options.json);
}

static const struct sbx_cli_option logs_command_options[] = {
        {"dir", 'd', SBX_CLI_TEXT, offsetof(struct logs_options, directory), "DIRECTORY",
         "where the trajectories are (default: the setting log_dir)", NULL},
        {"tail", 'n', SBX_CLI_TEXT, offsetof(struct logs_options, tail), "COUNT",
         "how many recent runs to list (default: 10); 0 for all", NULL},
        {"full", 0, SBX_CLI_FLAG, offsetof(struct logs_options, full), NULL,
         "show texts whole; with --json, the lines of metadata too", NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct logs_options, json), NULL,
         "print JSON: an array of the runs, or of the events of one", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"logs", "the ten runs that were written to last"},
        {"logs 3f2a", "one of them, by the beginning of its id"},
        {"logs 3f2a --full | less -R", "with everything that was said"},
        {0},
};

const struct sbx_cli_command sbx_cli_logs = {
        .name = "logs",
        .arguments = "[ID]",
        .summary = "List recent runs, or show what happened in one",
        .description =
                "Without ID: a table of recent runs, newest first. With ID (its beginning is enough, 4 characters at\n"
                "least): the run as a tree. Below each answer of the model stand the executions and tool calls that "
                "it\n"
                "asked for, below an execution the calls that its code made; code is marked with |, output with >.\n"
                "Files of snipara-sandbox 2.2.7 are read too.",
        .options = logs_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
