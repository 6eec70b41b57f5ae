/* SPDX-License-Identifier: Apache-2.0 */
/* `agent`: a model that works on a task by itself, iteration after iteration, until it has the answer. */
#include "cli/run_options.h"

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        return sbx_cli_run_command(cli, command, argc, argv, SBX_RUN_AUTONOMOUS);
}

static const struct sbx_cli_option agent_command_options[] = {
        SBX_CLI_RUN_COMMON_OPTIONS,
        {"max-iterations", 'i', SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(max_iterations), "N",
         "iterations, at most 50 (default: 10)", NULL},
        {"budget", 0, SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(token_budget), "N", "tokens of the run (default: 50000)", NULL},
        {"tool-budget", 0, SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(tool_budget), "N", "tool calls of the run (default: 50)",
         NULL},
        {"auto-context", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(auto_context), NULL,
         "give the first iteration context that was retrieved for the task (the default)", NULL},
        {"no-auto-context", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(no_auto_context), NULL, "do not", NULL},
        {"no-sub-calls", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(no_sub_calls), NULL,
         "neither tools nor code may ask the model", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"agent \"Which of the files in ./data is inconsistent, and why?\"", "work on a task until it is done"},
        {"agent --check check.py --cost-limit 0.5 \"...\"", "with a check of the answer, for half a dollar at most"},
        {"agent --resume 3f2a9c1e", "go on with a run that was stopped or killed"},
        {0},
};

const struct sbx_cli_command sbx_cli_agent = {
        .name = "agent",
        .arguments = "TASK | -",
        .summary = "Work on a task autonomously, under hard limits",
        .description = "Observes, thinks, acts, and ends when the model calls FINAL or FINAL_VAR; at a limit it is "
                       "made to end\n"
                       "with the best that it has. With --check, an answer that does not pass goes back to the model. "
                       "The run is\n"
                       "on disk after every step: --resume goes on after a kill, without repeating or paying again for "
                       "a step\n"
                       "that was finished.\n"
                       "\n"
                       "Hard limits, which no option passes: 50 iterations, 10 US dollars, 600 seconds, depth 5.\n"
                       "Exit codes are those of 'run'.",
        .options = agent_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
