/* SPDX-License-Identifier: Apache-2.0 */
/* The core's own settings. Names, defaults and meanings as in snipara-sandbox 2.2.7 where it had them. */
#include "config/internal.h"

#define COMMON(option_type, option_name, option_default, option_unit, option_help)                                     \
        .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##option_type, .name = (option_name),             \
        .default_value = (option_default), .unit = (option_unit), .help = (option_help)
#define SETTING(type, name, value, help)                                                                               \
        { COMMON(type, name, value, NULL, help) }
#define SECRET(name, help)                                                                                             \
        { COMMON(STRING, name, NULL, NULL, help), .flags = SBX_OPTION_SECRET }
#define CHOICE(name, value, words, help)                                                                               \
        { COMMON(ENUM, name, value, NULL, help), .choices = (words) }
#define RANGE(type, name, value, unit, low, high, help)                                                                \
        { COMMON(type, name, value, unit, help), .minimum = (low), .maximum = (high) }

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define HARD_TIMEOUT_MS (SBX_HARD_TIMEOUT_MAX_S * SECOND)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

const struct sbx_option sbx_core_options[] = {
        /* where code runs */
        SETTING(STRING, "environment", "local",
                "Plugin entry (a backend) that runs code unless a caller names another."),
        CHOICE("trust_level", "sandboxed", "sandboxed|docker|local",
               "How far code is trusted: sandboxed is any jail, docker demands a container; local (no jail) is "
               "refused."),
        RANGE(DURATION, "exec_timeout", NULL, NULL, 1, HARD_TIMEOUT_MS,
              "Wall-clock limit of an execution that states none; unset: what its profile says."),
        RANGE(DURATION, "interrupt_grace", "2s", NULL, 0, 60 * SECOND,
              "How long interrupted code may take to come back before its guest is killed."),
        RANGE(DURATION, "cpu_time_limit", "0", NULL, 0, HOUR,
              "CPU time of one execution, over all its threads; 0: no limit."),
        RANGE(SIZE, "max_output_bytes", "1m", "bytes", KIB, 64 * MIB,
              "How much of each of stdout and stderr an execution's result keeps; the rest is counted and dropped."),
        RANGE(SIZE, "max_display_bytes", "16m", "bytes", 0, 256 * MIB,
              "How much rich output (figures, HTML) an execution's result keeps."),
        SETTING(STRINGS, "allowed_paths", "",
                "Directories that file tools may use; empty: the project directory alone."),

        /* sessions */
        RANGE(INT, "max_sessions", "64", "sessions", 1, 65536, "Sessions that may exist at one time."),
        RANGE(INT, "max_sessions_per_principal", "0", "sessions", 0, 4096,
              "Sessions that one client may have of them; 0: all."),
        RANGE(DURATION, "session_ttl", "30m", NULL, 0, 30 * 24 * HOUR,
              "A session that was idle for so long is ended, one that is stored goes on when it is asked for; 0: never."),
        SETTING(STRING, "store", "store",
                "Plugin entry (a store) that keeps named sessions; empty: they end with the server."),
        RANGE(DURATION, "store_wait", "2s", NULL, 0, 10 * MINUTE,
              "How long to wait for a session that another server has, before it is refused."),
        RANGE(DURATION, "session_retention", "30d", NULL, 0, 3650 * 24 * HOUR,
              "A stored session that nobody used for so long is removed; 0: never."),
        RANGE(INT, "checkpoints_max", "32", "checkpoints", 1, 1024,
              "Checkpoints of one session; beyond that the oldest automatic ones are removed."),
        RANGE(SIZE, "checkpoint_memory", "256m", "bytes", 0, 64 * GIB,
              "Memory for checkpoints of sessions that are not stored."),

        /* the model */
        SETTING(STRING, "backend", "litellm", "Provider of chat completions."),
        SETTING(STRING, "model", "openai/gpt-4o-mini", "Model that the provider is asked for, as provider/model."),
        RANGE(FLOAT, "temperature", "0.0", NULL, 0, 2, "Sampling temperature."),
        SECRET("api_key", "API key of the provider; better set in the environment than in a file."),
        SETTING(STRING, "api_base", NULL,
                "Address of an OpenAI-compatible API or a LiteLLM proxy that is asked instead of the model's own."),

        /* limits of a run */
        RANGE(INT, "max_depth", "4", "levels", 1, SBX_HARD_DEPTH_MAX, "How deep completions may call completions."),
        RANGE(INT, "max_subcalls", "12", "calls", 0, 10000, "Model calls of one run, sub-calls included."),
        RANGE(INT, "token_budget", "8000", "tokens", 1, 100000000, "Tokens of one completion."),
        RANGE(INT, "tool_budget", "20", "calls", 0, 10000, "Tool calls of one completion."),
        RANGE(INT, "timeout_seconds", "300", "seconds", 1, SBX_HARD_TIMEOUT_MAX_S,
              "Wall-clock limit of one completion."),
        SETTING(BOOL, "parallel_tools", "false", "Run the tool calls of one model answer side by side."),
        RANGE(INT, "max_parallel", "5", "calls", 1, 256, "Tool calls that may run side by side."),
        SETTING(BOOL, "sub_calls_enabled", "true", "Let code in a session ask the model."),
        RANGE(INT, "sub_calls_max_per_turn", "5", "calls", 0, 10000, "Sub-calls of one turn."),
        RANGE(FLOAT, "sub_calls_budget_inheritance", "0.5", NULL, 0, 1,
              "Part of the remaining token budget that a sub-call gets."),
        RANGE(FLOAT, "sub_calls_max_cost_per_session", "1.0", "US dollars", 0, SBX_HARD_COST_MAX_USD,
              "What the sub-calls of a session may cost."),
        RANGE(FLOAT, "cost_limit", "2.0", "US dollars", 0, SBX_HARD_COST_MAX_USD, "What one run may cost."),
        RANGE(INT, "max_runs_per_principal", "0", "runs", 0, 16,
              "Agent runs that one client may have under way, of 16 in all; 0: all."),
        CHOICE("code_mode", "runs", "off|runs|always",
               "When code in a session may call tools and the model: never, in runs, or in every execution."),
        SETTING(STRINGS, "code_tools", "*",
                "Tools that code in a session may call: names, or the beginning of names and a *."),
        SETTING(STRINGS, "model_tools", "*", "Tools that the model of a run may call, as in code_tools."),
        SETTING(STRINGS, "client_tools", "",
                "Tools that look at files of this host, and that clients of a transport may call all the same."),

        /* logs */
        SETTING(PATH, "log_dir", "./logs", "Directory of trajectory logs."),
        SETTING(BOOL, "verbose", "false", "Tell more of what is going on."),
        CHOICE("log_level", "warning", "error|warning|info|debug", "The least important log lines that are written."),

        /* Snipara */
        SECRET("snipara_api_key", "API key of Snipara; better set in the environment than in a file."),
        SETTING(STRING, "snipara_project_slug", NULL, "Project at Snipara."),
        SETTING(STRING, "snipara_base_url", "https://api.snipara.com/mcp", "Address of Snipara's MCP endpoint."),
        SETTING(BOOL, "memory_enabled", "false", "Offer Snipara's memory tools."),

        /* Docker, as 2.2.7 named it; a plugin entry of backend-docker says more */
        SETTING(STRING, "docker_image", "python:3.11-slim", "Image of containers."),
        RANGE(FLOAT, "docker_cpus", "1.0", "CPUs", 0, 1024, "CPUs of a container."),
        RANGE(SIZE, "docker_memory", "512m", "bytes", 6 * MIB, 1024 * GIB, "Memory of a container."),
        SETTING(BOOL, "docker_network_disabled", "true", "Give containers no network."),
        SETTING(BOOL, "docker_mount_workspace", "true", "Let containers read the workspace, at /workspace."),
        SETTING(PATH, "docker_workspace_path", NULL, "Directory that is the workspace; unset: the project."),
        CHOICE("docker_workspace_setup", "none", "none|package|tests-only|dev",
               "Image that containers get: as it is, or built once with the project's package, with pytest alone, or with "
               "all that its development needs."),
        SETTING(STRING, "docker_workspace_install_command", NULL,
                "Command that installs into that image, instead of what docker_workspace_setup means."),
        SETTING(STRINGS, "docker_workspace_install_extras", "",
                "Requirements that are installed into that image as well, as pip takes them."),
        RANGE(INT, "docker_timeout", "30", "seconds", 1, SBX_HARD_TIMEOUT_MAX_S,
              "Wall-clock limit of code in a container."),
        {.name = NULL},
};

const struct sbx_option *sbx_option_find(const struct sbx_option *table, const char *name) {
        for (; table->name != NULL; table++)
                if (strcmp(table->name, name) == 0)
                        return table;
        return NULL;
}

const struct sbx_option_alias *sbx_core_alias(const char *option) {
        static const struct sbx_option_alias aliases[] = {
                {"api_key", "SNIPARA_SANDBOX_LLM_API_KEY", NULL},
                {"snipara_api_key", "SNIPARA_API_KEY", NULL},
                {"snipara_project_slug", "SNIPARA_PROJECT_SLUG", "SNIPARA_PROJECT_ID"},
                {"snipara_base_url", "SNIPARA_BASE_URL", NULL},
                {"memory_enabled", "SNIPARA_MEMORY_ENABLED", NULL},
        };

        for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
                if (strcmp(aliases[i].option, option) == 0)
                        return &aliases[i];
        return NULL;
}

int sbx_core_check(const struct sbx_settings *core, struct sbx_error *err) {
        const struct sbx_value *trust = sbx_settings_get(core, "trust_level");
        const struct sbx_value *environment = sbx_settings_get(core, "environment");

        if (strcmp(trust->string, "local") == 0)
                return sbx_error_set(
                        err, -EINVAL, SBX_CONFIG_ORIGIN,
                        "Remove the setting. To run code without a jail by choice, set isolation = \"none\" in "
                        "the backend's plugin entry; every result will say so.",
                        "%s: `trust_level` is \"local\", which would run code without a sandbox", trust->origin);
        if (environment->string[0] == '\0')
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN,
                                     "Name a backend's entry of `plugins`, such as \"local\".",
                                     "%s: `environment` must not be empty", environment->origin);
        return 0;
}
