/* SPDX-License-Identifier: Apache-2.0 */
/* What all commands share: the program's state, a command's description, exit codes. One thread, except where said. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* Documented in snipara-sandbox(1); scripts rely on them. */
enum sbx_cli_exit {
        SBX_CLI_OK = 0,
        SBX_CLI_FAILED = 1,  /* the code ended with an exception; doctor or a check found a problem */
        SBX_CLI_USAGE = 2,   /* command line or configuration */
        SBX_CLI_SANDBOX = 3, /* the sandbox could not be set up */
        SBX_CLI_TIMEOUT = 4,
        SBX_CLI_MEMORY = 5,
        SBX_CLI_KILLED = 6, /* a signal, or lost */
        SBX_CLI_INTERRUPTED = 130,
        SBX_CLI_NO_READER = 141, /* standard output was closed, as by `| head` */
        SBX_CLI_TERMINATED = 143,
};

/* Standard output or standard error. */
struct sbx_cli_stream {
        int fd;
        bool terminal;
        bool colour;
};

struct sbx_cli {
        const char *program; /* as typed, without directories: "snipara-sandbox" or "rlm" */
        struct sbx_cli_stream out, err;
        /* Options that every command with SBX_CLI_CONFIGURED takes. */
        const char *config_path;
        char **settings; /* "name=value", NULL-terminated; NULL: none */
        size_t setting_count;
        bool verbose;
        bool help;
};

/* How an option's value is stored, at `offset` of the command's own struct; of struct sbx_cli for the shared ones. */
enum sbx_cli_value {
        SBX_CLI_FLAG = 1,     /* bool */
        SBX_CLI_TEXT = 2,     /* const char *, borrowed from argv; the last one given wins */
        SBX_CLI_ARGUMENT = 3, /* joins the arguments, in the order given */
        SBX_CLI_SETTING = 4,  /* joins sbx_cli.settings */
};

struct sbx_cli_option {
        const char *name; /* long form; NULL ends the table */
        int letter;       /* short form; 0: none */
        enum sbx_cli_value value;
        size_t offset;
        const char *metavar; /* what stands for the value in the help; NULL for a flag */
        const char *help;
        const char *choices; /* words for completion and help, separated by '|'; may be NULL */
};

struct sbx_cli_example {
        const char *command; /* without the program's name; NULL ends the table */
        const char *what;
};

/* One word of the command line that is no option, or an option of kind SBX_CLI_ARGUMENT. */
struct sbx_cli_argument {
        const struct sbx_cli_option *option; /* NULL: a plain word */
        const char *text;
};

struct sbx_cli_arguments {
        struct sbx_cli_argument *items;
        size_t count;
};

#define SBX_CLI_CONFIGURED (1u << 0) /* takes --config, --set and --verbose */

struct sbx_cli_command {
        const char *name;      /* one word, or two: "config show" */
        const char *arguments; /* "[FILE | -]..."; "" for none */
        const char *summary;   /* one line, no full stop */
        const char *description;
        const struct sbx_cli_option *options;
        const struct sbx_cli_example *examples;
        unsigned flags;
        /* argv[0] is the command's last word; returns an exit code. */
        int (*run)(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv);
};

/* Every command, in the order of the help; ends with NULL. */
extern const struct sbx_cli_command *const sbx_cli_commands[];

extern const struct sbx_cli_command sbx_cli_run, sbx_cli_agent, sbx_cli_exec, sbx_cli_repl, sbx_cli_init,
        sbx_cli_doctor, sbx_cli_config_show, sbx_cli_plugins_list, sbx_cli_plugins_info, sbx_cli_plugins_check,
        sbx_cli_mcp_serve, sbx_cli_version, sbx_cli_help, sbx_cli_snipara_status, sbx_cli_image_list,
        sbx_cli_image_build, sbx_cli_image_prune;

/* Options of every command (--help) and of those with SBX_CLI_CONFIGURED. */
extern const struct sbx_cli_option sbx_cli_help_options[], sbx_cli_configured_options[];
