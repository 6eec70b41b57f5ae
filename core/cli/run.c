/* SPDX-License-Identifier: Apache-2.0 */
/* `run`: one prompt, answered by a model that can call tools and execute code in a session. */
#include "cli/run_options.h"

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        return sbx_cli_run_command(cli, command, argc, argv, 0);
}

static const struct sbx_cli_option run_command_options[] = {
        SBX_CLI_RUN_COMMON_OPTIONS,
        {"max-depth", 'd', SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(max_depth), "N",
         "how deep completions may call completions, at most 5", NULL},
        {"token-budget", 't', SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(token_budget), "N",
         "tokens of the run (default: the setting token_budget)", NULL},
        {"tool-budget", 0, SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(tool_budget), "N",
         "tool calls of the run (default: the setting tool_budget)", NULL},
        {"system", 's', SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(system), "TEXT", "system message, after the program's own",
         NULL},
        {"sub-calls", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(sub_calls), NULL,
         "let tools and code ask the model (the default)", NULL},
        {"no-sub-calls", 0, SBX_CLI_FLAG, SBX_CLI_RUN_OPTION(no_sub_calls), NULL,
         "neither tools nor code may ask the model", NULL},
        {"max-sub-calls", 0, SBX_CLI_TEXT, SBX_CLI_RUN_OPTION(max_sub_calls), "N",
         "sub-calls of one turn (default: the setting sub_calls_max_per_turn)", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"run \"Find the data quality issues in ./data and validate the findings\"", "plan, execute, answer"},
        {"run --check 'assert answer.strip().isdigit()' \"How many primes are below 10,000?\"",
         "an answer that has to pass a check"},
        {"run --var document=report.txt --max-sub-calls 40 \"Summarise the text in `document`\"",
         "a text that is too long for the model's context"},
        {"run --json \"...\" | jq .total_cost_usd", "the result for a script"},
        {0},
};

const struct sbx_cli_command sbx_cli_run = {
        .name = "run",
        .arguments = "PROMPT | -",
        .summary = "Answer a prompt with a model, tools and code in the sandbox",
        .description =
                "The model plans, calls tools and executes Python in a session of its own; the answer goes to "
                "standard\n"
                "output, progress to standard error when that is a terminal. Limits bound tokens, cost, calls and "
                "time;\n"
                "when one is reached, the run ends with what it has, and says so. Each step is in the trajectory\n"
                "('logs ID'), and a run that was stopped goes on with --resume.\n"
                "\n"
                "The provider's key is read from its usual variable (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...), the\n"
                "environment or .env. Clients of 'mcp-serve' need no key: they bring their own model.\n"
                "\n"
                "Exit code: 0 answered (and validated, with --check), 1 not, 2 usage or configuration, 3 the sandbox\n"
                "could not be set up, 4 time-out, 130 interrupted with Ctrl-C.",
        .options = run_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
