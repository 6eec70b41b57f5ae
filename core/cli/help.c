/* SPDX-License-Identifier: Apache-2.0 */
/* `help`, and the help of every command, made from the tables that also parse the command line. */
#include "cli/help.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/options.h"
#include "cli/output.h"

struct help_options {
        bool json;
};

/* Commands of the Python program of this name that are not here, and what does the job meanwhile. */
static const struct {
        const char *name, *instead;
} absent_commands[] = {
        {"visualize", "'snipara-sandbox logs ID' shows a run as a tree, with --json as its events"},
};

static bool has_option(const struct sbx_cli_command *command, const struct sbx_cli_option *shared) {
        for (const struct sbx_cli_option *own = command->options; own != NULL && own->name != NULL; own++)
                if (strcmp(own->name, shared->name) == 0)
                        return true;
        return false;
}

/* The next of the command's own options and the shared ones, which a command may have in a form of its own; NULL past
 * the last. */
static const struct sbx_cli_option *option_at(const struct sbx_cli_command *command, size_t index) {
        const struct sbx_cli_option *tables[] = {
                command->options,
                (command->flags & SBX_CLI_CONFIGURED) != 0 ? sbx_cli_configured_options : NULL,
                sbx_cli_help_options,
        };

        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
                for (const struct sbx_cli_option *option = tables[i]; option != NULL && option->name != NULL; option++)
                        if ((i == 0 || !has_option(command, option)) && index-- == 0)
                                return option;
        return NULL;
}

static struct sbx_cli_table *options_table(const struct sbx_cli_command *command) {
        struct sbx_cli_table *table = sbx_cli_table_new(2);
        const struct sbx_cli_option *option;

        for (size_t i = 0; (option = option_at(command, i)) != NULL; i++) {
                char letter[] = {'-', (char)option->letter, ',', ' ', '\0'};

                sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%s--%s%s%s", option->letter != 0 ? letter : "    ",
                                    option->name, option->metavar != NULL ? " " : "",
                                    option->metavar != NULL ? option->metavar : "");
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, option->help);
        }
        return table;
}

static int show_examples(const struct sbx_cli *cli, const struct sbx_cli_command *command) {
        int r = sbx_cli_print_styled(&cli->out, SBX_CLI_BOLD, "\nExamples\n");

        for (const struct sbx_cli_example *example = command->examples; example->command != NULL && r >= 0; example++)
                r = sbx_cli_print(&cli->out, "  # %s\n  %s %s\n", example->what, cli->program, example->command);
        return r;
}

static int show_command(const struct sbx_cli *cli, const struct sbx_cli_command *command) {
        _cleanup_table_ struct sbx_cli_table *table = options_table(command);
        int r;

        r = sbx_cli_print(&cli->out, "usage: %s %s [options]%s%s\n\n%s.\n", cli->program, command->name,
                          command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary);
        if (r >= 0 && command->description != NULL)
                r = sbx_cli_print(&cli->out, "\n%s\n", command->description);
        if (r >= 0)
                r = sbx_cli_print_styled(&cli->out, SBX_CLI_BOLD, "\nOptions\n");
        if (r >= 0)
                r = sbx_cli_table_show(table, &cli->out, 2);
        if (r >= 0 && command->examples != NULL)
                r = show_examples(cli, command);
        return r;
}

static int show_program(const struct sbx_cli *cli) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(2);
        int r;

        for (size_t i = 0; sbx_cli_commands[i] != NULL; i++) {
                sbx_cli_table_cell(table, SBX_CLI_BOLD, sbx_cli_commands[i]->name);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_commands[i]->summary);
        }
        r = sbx_cli_print(&cli->out,
                          "usage: %s COMMAND [options]\n\n"
                          "Runs Python that is not trusted in a jail, and keeps its variables between calls.\n",
                          cli->program);
        if (r >= 0)
                r = sbx_cli_print_styled(&cli->out, SBX_CLI_BOLD, "\nCommands\n");
        if (r >= 0)
                r = sbx_cli_table_show(table, &cli->out, 2);
        if (r >= 0)
                r = sbx_cli_print(&cli->out,
                                  "\n'%s help COMMAND' tells the options of a command; -V, --version the version.\n"
                                  "First steps: '%s doctor', then '%s exec -c \"print(1 + 1)\"'.\n",
                                  cli->program, cli->program, cli->program);
        return r;
}

int sbx_cli_help_show(const struct sbx_cli *cli, const struct sbx_cli_command *command) {
        return command != NULL ? show_command(cli, command) : show_program(cli);
}

/* ---- finding a command --------------------------------------------------------------------------------- */

/* The number of words of `name` if the line begins with them, else 0. */
static int match_words(const char *name, int count, char **words) {
        const char *blank = strchr(name, ' ');

        if (blank == NULL)
                return count >= 1 && strcmp(words[0], name) == 0 ? 1 : 0;
        return count >= 2 && strncmp(words[0], name, (size_t)(blank - name)) == 0 && words[0][blank - name] == '\0' &&
                               strcmp(words[1], blank + 1) == 0
                       ? 2
                       : 0;
}

/* "config" alone, or "config foo": names the commands that begin with it. False: it is no such word. */
static bool tell_group(const struct sbx_cli *cli, int count, char **words) {
        _cleanup_buffer_ struct sbx_buffer names = SBX_BUFFER(1024);
        size_t size = strlen(words[0]);

        for (size_t i = 0; sbx_cli_commands[i] != NULL; i++) {
                const char *name = sbx_cli_commands[i]->name;

                if (strncmp(name, words[0], size) == 0 && name[size] == ' ' &&
                    sbx_buffer_printf(&names, "%s'%s %s'", names.size > 0 ? ", " : "try ", cli->program, name) < 0)
                        return false;
        }
        if (names.size == 0)
                return false;
        if (count > 1 && words[1][0] != '-')
                sbx_cli_error(cli, names.data, "%s has no command '%s'", words[0], words[1]);
        else
                sbx_cli_error(cli, names.data, "%s needs a second word", words[0]);
        return true;
}

static void tell_unknown(const struct sbx_cli *cli, const char *word) {
        struct sbx_nearest nearest = SBX_NEAREST(word);
        char hint[SBX_ERROR_HINT_MAX];

        for (size_t i = 0; i < sizeof(absent_commands) / sizeof(absent_commands[0]); i++)
                if (strcmp(word, absent_commands[i].name) == 0) {
                        sbx_cli_error(cli, absent_commands[i].instead, "'%s' is not in this version", word);
                        return;
                }
        for (size_t i = 0; sbx_cli_commands[i] != NULL; i++)
                sbx_nearest_offer(&nearest, sbx_cli_commands[i]->name);
        if (nearest.best != NULL)
                snprintf(hint, sizeof(hint), "did you mean '%s %s'? '%s help' lists the commands", cli->program,
                         nearest.best, cli->program);
        else
                snprintf(hint, sizeof(hint), "'%s help' lists the commands", cli->program);
        sbx_cli_error(cli, hint, "there is no command '%s'", word);
}

const struct sbx_cli_command *sbx_cli_command_find(const struct sbx_cli *cli, int count, char **words, int *ret_used) {
        const struct sbx_cli_command *found = NULL;
        int most = 0;

        /* The longest: "logs verify" before "logs". */
        for (size_t i = 0; sbx_cli_commands[i] != NULL; i++) {
                int used = match_words(sbx_cli_commands[i]->name, count, words);

                if (used > most) {
                        most = used;
                        found = sbx_cli_commands[i];
                }
        }
        if (found != NULL) {
                *ret_used = most;
                return found;
        }
        if (!tell_group(cli, count, words))
                tell_unknown(cli, words[0]);
        return NULL;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static json_t *option_json(const struct sbx_cli_option *option) {
        char letter[] = {(char)option->letter, '\0'};

        return json_pack("{s:s, s:s?, s:s?, s:s?, s:s}", "name", option->name, "letter",
                         option->letter != 0 ? letter : NULL, "metavar", option->metavar, "choices", option->choices,
                         "help", option->help);
}

static json_t *command_json(const struct sbx_cli_command *command) {
        _cleanup_json_ json_t *options = json_array();
        const struct sbx_cli_option *option;

        for (size_t i = 0; (option = option_at(command, i)) != NULL; i++)
                if (json_array_append_new(options, option_json(option)) < 0)
                        return NULL;
        return json_pack("{s:s, s:s, s:s, s:o}", "name", command->name, "arguments", command->arguments, "summary",
                         command->summary, "options", steal_pointer(options));
}

/* The tables themselves, for whoever writes a completion or checks one. */
static int show_json(const struct sbx_cli *cli) {
        _cleanup_json_ json_t *commands = json_array(), *document = NULL;

        for (size_t i = 0; sbx_cli_commands[i] != NULL; i++)
                if (json_array_append_new(commands, command_json(sbx_cli_commands[i])) < 0)
                        return -ENOMEM;
        document = json_pack("{s:s, s:s, s:O}", "program", "snipara-sandbox", "version", SBX_VERSION, "commands",
                             commands);
        return document == NULL ? -ENOMEM : sbx_cli_print_json(&cli->out, document, true);
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        const struct sbx_cli_command *subject = NULL;
        struct help_options options = {0};
        char *words[2] = {NULL, NULL};
        int result, used, count;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        for (count = 0; count < 2 && (size_t)count < arguments.count; count++)
                words[count] = (char *)arguments.items[count].text;
        if (count > 0) {
                subject = sbx_cli_command_find(cli, count, words, &used);
                if (subject == NULL)
                        return SBX_CLI_USAGE;
        }
        return (options.json ? show_json(cli) : sbx_cli_help_show(cli, subject)) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

static const struct sbx_cli_option help_command_options[] = {
        {"json", 0, SBX_CLI_FLAG, offsetof(struct help_options, json), NULL,
         "print all commands and options as JSON, for scripts", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"help exec", "the options of exec, with examples"},
        {0},
};

const struct sbx_cli_command sbx_cli_help = {
        .name = "help",
        .arguments = "[COMMAND]",
        .summary = "Tell how to use the program or one of its commands",
        .options = help_command_options,
        .examples = examples,
        .run = run,
};
