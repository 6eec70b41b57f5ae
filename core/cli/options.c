/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: getopt_long driven by a command's option table. */
#include "cli/options.h"

#include <getopt.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/number.h"
#include "cli/help.h"
#include "cli/output.h"
#include "session/session.h"

#define OPTIONS_MAX 64
#define LONG_BASE 256 /* getopt_long values of long options: above every character */

const struct sbx_cli_option sbx_cli_configured_options[] = {
        {"config", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli, config_path), "FILE",
         "read this configuration file instead of searching for one", NULL},
        {"set", 0, SBX_CLI_SETTING, 0, "NAME=VALUE",
         "override a setting, or an option of a plugin entry (local.pool=4); repeatable", NULL},
        {"verbose", 'v', SBX_CLI_FLAG, offsetof(struct sbx_cli, verbose), NULL, "show log messages of all levels",
         NULL},
        {0},
};

const struct sbx_cli_option sbx_cli_help_options[] = {
        {"help", 'h', SBX_CLI_FLAG, offsetof(struct sbx_cli, help), NULL, "show this help", NULL},
        {0},
};

/* The options that one command knows, in getopt's form. */
struct known {
        const struct sbx_cli_option *options[OPTIONS_MAX];
        bool shared[OPTIONS_MAX]; /* stored in struct sbx_cli */
        struct option longs[OPTIONS_MAX + 1];
        char letters[2 * OPTIONS_MAX + 3];
        size_t count, letter_count;
};

static bool known_name(const struct known *known, const char *name) {
        for (size_t i = 0; i < known->count; i++)
                if (strcmp(known->options[i]->name, name) == 0)
                        return true;
        return false;
}

static void known_add(struct known *known, const struct sbx_cli_option *options, bool shared) {
        for (; options != NULL && options->name != NULL && known->count < OPTIONS_MAX; options++) {
                size_t i;

                if (shared && known_name(known, options->name)) /* the command has its own form of it */
                        continue;
                i = known->count++;
                known->options[i] = options;
                known->shared[i] = shared;
                known->longs[i] = (struct option){
                        .name = options->name,
                        .has_arg = options->value == SBX_CLI_FLAG ? no_argument : required_argument,
                        .val = LONG_BASE + (int)i,
                };
                if (options->letter == 0)
                        continue;
                known->letters[known->letter_count++] = (char)options->letter;
                if (options->value != SBX_CLI_FLAG)
                        known->letters[known->letter_count++] = ':';
        }
}

static void known_init(struct known *known, const struct sbx_cli_command *command) {
        *known = (struct known){0};
        /* "-": words come in their place among the options; ":": a missing value is told apart. */
        known->letters[known->letter_count++] = '-';
        known->letters[known->letter_count++] = ':';
        known_add(known, command->options, false);
        if ((command->flags & SBX_CLI_CONFIGURED) != 0)
                known_add(known, sbx_cli_configured_options, true);
        known_add(known, sbx_cli_help_options, true);
}

static size_t known_find(const struct known *known, int code) {
        size_t i = 0;

        if (code >= LONG_BASE)
                return (size_t)(code - LONG_BASE);
        while (i < known->count && known->options[i]->letter != code)
                i++;
        return i;
}

static int arguments_add(struct sbx_cli_arguments *arguments, const struct sbx_cli_option *option, const char *text) {
        struct sbx_cli_argument *items = reallocarray(arguments->items, arguments->count + 1, sizeof(*items));

        if (items == NULL)
                return -ENOMEM;
        items[arguments->count++] = (struct sbx_cli_argument){option, text};
        arguments->items = items;
        return 0;
}

void sbx_cli_arguments_free(struct sbx_cli_arguments *arguments) {
        free(arguments->items);
        *arguments = (struct sbx_cli_arguments){0};
}

SBX_PRINTF(3, 0)
static int settings_insert(struct sbx_cli *cli, size_t at, const char *format, va_list args) {
        char **settings = reallocarray(cli->settings, cli->setting_count + 2, sizeof(*settings));
        char *setting = NULL;

        if (settings == NULL)
                return -ENOMEM;
        cli->settings = settings;
        settings[cli->setting_count] = NULL;
        if (vasprintf(&setting, format, args) < 0)
                return -ENOMEM;
        memmove(settings + at + 1, settings + at, (cli->setting_count - at) * sizeof(*settings));
        settings[at] = setting;
        settings[++cli->setting_count] = NULL;
        return 0;
}

int sbx_cli_setting_default(struct sbx_cli *cli, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        r = settings_insert(cli, 0, format, args);
        va_end(args);
        return r;
}

int sbx_cli_setting_add(struct sbx_cli *cli, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        r = settings_insert(cli, cli->setting_count, format, args);
        va_end(args);
        return r;
}

void sbx_cli_settings_free(struct sbx_cli *cli) {
        for (size_t i = 0; i < cli->setting_count; i++)
                free(cli->settings[i]);
        free(cli->settings);
        cli->settings = NULL;
        cli->setting_count = 0;
}

static int setting_option(struct sbx_cli *cli, const char *text) {
        const char *equals = strchr(text, '=');

        if (equals == NULL || equals == text) {
                sbx_cli_error(cli, "write it as --set NAME=VALUE; 'snipara-sandbox config show' lists the names",
                              "--set %s: there is no '=' after a name", text);
                return SBX_CLI_USAGE;
        }
        return sbx_cli_setting_add(cli, "%s", text) < 0 ? sbx_cli_out_of_memory(cli) : 0;
}

static int option_store(struct sbx_cli *cli, const struct known *known, size_t index, const char *text, void *values,
                        struct sbx_cli_arguments *arguments) {
        const struct sbx_cli_option *option = known->options[index];
        char *base = known->shared[index] ? (char *)cli : values;

        switch (option->value) {
        case SBX_CLI_FLAG:
                *(bool *)(void *)(base + option->offset) = true;
                return 0;
        case SBX_CLI_TEXT:
                *(const char **)(void *)(base + option->offset) = text;
                return 0;
        case SBX_CLI_ARGUMENT:
                return arguments_add(arguments, option, text) < 0 ? sbx_cli_out_of_memory(cli) : 0;
        case SBX_CLI_SETTING:
                return setting_option(cli, text);
        }
        return SBX_CLI_USAGE;
}

/* What getopt could not make sense of. */
static int tell_mistake(const struct sbx_cli *cli, const struct sbx_cli_command *command, const struct known *known,
                        int code, char **argv) {
        char hint[SBX_ERROR_HINT_MAX];
        const char *word = argv[optind - 1];
        size_t i = optopt != 0 ? known_find(known, optopt) : known->count;

        snprintf(hint, sizeof(hint), "see '%s help %s'", cli->program, command->name);
        if (code == ':' && i < known->count) {
                sbx_cli_error(cli, hint, "--%s needs a value: %s", known->options[i]->name, known->options[i]->metavar);
        } else if (i < known->count) {
                sbx_cli_error(cli, hint, "--%s takes no value", known->options[i]->name);
        } else if (optopt != 0) {
                sbx_cli_error(cli, hint, "%s has no option -%c", command->name, optopt);
        } else {
                _cleanup_free_ char *name = strndup(word + 2, strcspn(word + 2, "="));
                struct sbx_nearest nearest = SBX_NEAREST(name != NULL ? name : "");

                for (i = 0; i < known->count; i++)
                        sbx_nearest_offer(&nearest, known->options[i]->name);
                if (nearest.best != NULL)
                        snprintf(hint, sizeof(hint), "did you mean --%s? See '%s help %s'", nearest.best, cli->program,
                                 command->name);
                sbx_cli_error(cli, hint, "%s has no option --%s", command->name, name != NULL ? name : word + 2);
        }
        return SBX_CLI_USAGE;
}

static int parse_words(struct sbx_cli *cli, const struct sbx_cli_command *command, const struct known *known, int argc,
                       char **argv, void *values, struct sbx_cli_arguments *arguments) {
        size_t index;
        int code, r;

        optind = 0; /* GNU: start afresh */
        opterr = 0;
        while ((code = getopt_long(argc, argv, known->letters, known->longs, NULL)) != -1) {
                if (code == '?' || code == ':')
                        return tell_mistake(cli, command, known, code, argv);
                if (code == 1) {
                        if (arguments_add(arguments, NULL, optarg) < 0)
                                return sbx_cli_out_of_memory(cli);
                        continue;
                }
                index = known_find(known, code);
                if (index >= known->count)
                        return SBX_CLI_USAGE; /* getopt yields only what the tables hold */
                r = option_store(cli, known, index, optarg, values, arguments);
                if (r != 0)
                        return r;
                if (cli->help)
                        return 0;
        }
        for (int i = optind; i < argc; i++) /* behind "--" */
                if (arguments_add(arguments, NULL, argv[i]) < 0)
                        return sbx_cli_out_of_memory(cli);
        return 0;
}

bool sbx_cli_parse(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv, void *values,
                   struct sbx_cli_arguments *ret_arguments, int *ret_exit) {
        struct known known;

        known_init(&known, command);
        *ret_exit = parse_words(cli, command, &known, argc, argv, values, ret_arguments);
        if (*ret_exit != 0)
                return false;
        if (cli->help) {
                *ret_exit = sbx_cli_help_show(cli, command) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
                return false;
        }
        return true;
}

int sbx_cli_no_arguments(const struct sbx_cli *cli, const struct sbx_cli_command *command,
                         const struct sbx_cli_arguments *arguments) {
        if (arguments->count == 0)
                return 0;
        sbx_cli_error(cli, NULL, "%s takes no argument: %s", command->name, arguments->items[0].text);
        return SBX_CLI_USAGE;
}

int sbx_cli_timeout(const struct sbx_cli *cli, const char *text, uint64_t *ret_ms) {
        static const char hint[] = "give seconds (30) or a unit (250ms, 30s, 5m); the hard limit is 10m";
        int64_t ms = 0;
        int r = sbx_number_duration(text, &ms);

        if (r == -EINVAL)
                sbx_cli_error(cli, hint, "--timeout %s is no duration", text);
        else if (r < 0 || ms > (int64_t)SBX_TIMEOUT_MAX_MS)
                sbx_cli_error(cli, hint, "--timeout %s is more than the hard limit of %u seconds", text,
                              SBX_TIMEOUT_MAX_MS / 1000);
        else if (ms <= 0)
                sbx_cli_error(cli, hint, "--timeout %s leaves the code no time", text);
        else {
                *ret_ms = (uint64_t)ms;
                return 0;
        }
        return SBX_CLI_USAGE;
}
