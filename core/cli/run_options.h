/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `agent` have in common: their options, and the way from them to a run and its exit code. */
#pragma once

#include <snipara-sandbox/runtime.h>

#include "cli/cli.h"

/* Options of both commands, as typed; NULL or false: not given. */
struct sbx_cli_run_options {
        const char *model, *provider, *environment, *max_depth, *token_budget, *tool_budget, *timeout, *cost_limit;
        const char *system, *check, *resume, *config;
        const char *max_sub_calls, *max_calls, *max_iterations;
        bool sub_calls, no_sub_calls, auto_context, no_auto_context;
        bool json, show_config, events;
};

/* The rows of the option table that both commands have, to be put into theirs. */
#define SBX_CLI_RUN_OPTION(member) offsetof(struct sbx_cli_run_options, member)
#define SBX_CLI_RUN_COMMON_OPTIONS                                                                                     \
        {"model",      'm',                                                                                            \
         SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(model),                                                                      \
         "MODEL",      "model to ask, as provider/model (default: the setting model)",                                 \
         NULL},                                                                                                        \
                {"backend",    'b',                                                                                    \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(provider),                                                           \
                 "NAME",       "provider: a plugin entry of the configuration (default: the setting backend)",         \
                 NULL},                                                                                                \
                {"env",        'e',                                                                                    \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(environment),                                                        \
                 "NAME",       "where code runs: a backend instance (default: the setting environment)",               \
                 NULL},                                                                                                \
                {"timeout",    0,                                                                                      \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(timeout),                                                            \
                 "TIME",       "for the whole run: seconds, or 30s, 5m; at most 10m",                                  \
                 NULL},                                                                                                \
                {"cost-limit", 0,                                                                                      \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(cost_limit),                                                         \
                 "USD",        "what the run may cost, at most 10 (default: the setting cost_limit)",                  \
                 NULL},                                                                                                \
                {"max-calls",  0,                                                                                      \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(max_calls),                                                          \
                 "N",          "model calls of the run, sub-calls included (default: the setting max_subcalls)",       \
                 NULL},                                                                                                \
                {"check",                                                                                              \
                 0,                                                                                                    \
                 SBX_CLI_TEXT,                                                                                         \
                 SBX_CLI_RUN_OPTION(check),                                                                            \
                 "CODE|FILE",                                                                                          \
                 "Python that validates the answer, in the run's session, where it is the variable `answer`",          \
                 NULL},                                                                                                \
                {"var",                                                                                                \
                 0,                                                                                                    \
                 SBX_CLI_ARGUMENT,                                                                                     \
                 0,                                                                                                    \
                 "NAME=FILE",                                                                                          \
                 "put a file's text into a variable of the session; it does not enter the model's context by itself; " \
                 "repeatable",                                                                                         \
                 NULL},                                                                                                \
                {"resume",     0,                                                                                      \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(resume),                                                             \
                 "RUN_ID",     "go on with a run that was stopped: its id, or the first digits of it",                 \
                 NULL},                                                                                                \
                {"config",     'c',                                                                                    \
                 SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(config),                                                             \
                 "FILE",       "read this configuration file instead of searching for one",                            \
                 NULL},                                                                                                \
                {"show-config", 0,                                                                                     \
                 SBX_CLI_FLAG,  SBX_CLI_RUN_OPTION(show_config),                                                       \
                 NULL,          "print what the run would use, and end",                                               \
                 NULL},                                                                                                \
                {"json",       0,                                                                                      \
                 SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(json),                                                               \
                 NULL,         "print the result as one JSON object, and nothing else on standard output",             \
                 NULL},                                                                                                \
        {                                                                                                              \
                "events", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(events), NULL,                                           \
                        "print what happens, as it happens: one JSON object on each line of standard error", NULL      \
        }

/* Runs the command: `flags` are SBX_RUN_* bits. Returns the exit code. */
int sbx_cli_run_command(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv,
                        uint32_t flags);
