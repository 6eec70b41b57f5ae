/* SPDX-License-Identifier: Apache-2.0 */
/* What a run may use: from the request, the configuration and the defaults of agents; and the names of its ends. */
#include "agent/run.h"
#include "base/error.h"

/* Of an agent: those of snipara-sandbox 2.2.7. It stated no number of model calls, but each of its iterations was
 * bounded by that of a completion, 12. */
#define AGENT_ITERATIONS 10u
#define AGENT_DEPTH 3u
#define AGENT_TOKENS UINT64_C(50000)
#define AGENT_TOOLS 50u
#define AGENT_CALLS 120u

/* The ranges of the settings (core/config). */
#define CALLS_MAX 10000u
#define TOKENS_MAX UINT64_C(100000000)

const char *sbx_run_end_name(enum sbx_run_end end) {
        static const char *const names[] = {
                [SBX_RUN_OK] = "ok",
                [SBX_RUN_MAX_DEPTH] = "max_depth",
                [SBX_RUN_MAX_SUBCALLS] = "max_subcalls",
                [SBX_RUN_TOKEN_BUDGET] = "token_budget",
                [SBX_RUN_TOOL_BUDGET] = "tool_budget",
                [SBX_RUN_COST_LIMIT] = "cost_limit",
                [SBX_RUN_TIMEOUT] = "timeout",
                [SBX_RUN_MAX_ITERATIONS] = "max_iterations",
                [SBX_RUN_CANCELLED] = "cancelled",
                [SBX_RUN_FAILED] = "error",
        };

        return (size_t)end < sizeof(names) / sizeof(names[0]) ? names[end] : "error";
}

static int check_count(const char *name, uint64_t value, uint64_t maximum, struct sbx_error *err) {
        if (value <= maximum)
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, "Ask for less: this limit can't be raised.",
                             "%s: %llu is above the hard limit of %llu", name, (unsigned long long)value,
                             (unsigned long long)maximum);
}

static int check_cost(const char *name, double value, struct sbx_error *err) {
        if (value <= SBX_HARD_COST_MAX_USD) /* a NaN is not */
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, "Ask for less: this limit can't be raised.",
                             "%s: $%.2f is above the hard limit of $%d", name, value, SBX_HARD_COST_MAX_USD);
}

static int check(const struct sbx_run_limits *limits, struct sbx_error *err) {
        int r = check_count("max_depth", limits->max_depth, SBX_HARD_DEPTH_MAX, err);

        if (r == 0)
                r = check_count("max_iterations", limits->max_iterations, SBX_HARD_AGENT_ITERATIONS_MAX, err);
        if (r == 0)
                r = check_count("max_subcalls", limits->max_subcalls, CALLS_MAX, err);
        if (r == 0)
                r = check_count("tool_budget", limits->tool_budget, CALLS_MAX, err);
        if (r == 0)
                r = check_count("sub_calls_max_per_turn", limits->sub_calls_per_turn, CALLS_MAX, err);
        if (r == 0)
                r = check_count("token_budget", limits->token_budget, TOKENS_MAX, err);
        if (r == 0)
                r = check_count("timeout (ms)", limits->timeout_ms, SBX_HARD_TIMEOUT_MAX_S * UINT64_C(1000), err);
        if (r == 0)
                r = check_cost("cost_limit", limits->cost_usd, err);
        return r < 0 ? r : check_cost("sub_calls_max_cost_per_session", limits->sub_call_cost_usd, err);
}

static unsigned configured(const struct sbx_config *config, const char *name) {
        return (unsigned)sbx_config_int(config, name); /* its range is that of the setting */
}

static double configured_cost(const struct sbx_config *config, const char *name) {
        return sbx_settings_get(sbx_config_core(config), name)->real;
}

int sbx_run_limits_settle(const struct sbx_config *config, enum sbx_run_kind kind, const struct sbx_run_limits *asked,
                          struct sbx_run_limits *ret_limits, struct sbx_error *err) {
        struct sbx_run_limits limits = *asked;
        bool agent = kind == SBX_RUN_AGENT;
        int r = check(&limits, err);

        if (r < 0)
                return r;
        if (limits.max_depth == 0)
                limits.max_depth = agent ? AGENT_DEPTH : configured(config, "max_depth");
        if (limits.max_subcalls == 0)
                limits.max_subcalls = agent ? AGENT_CALLS : configured(config, "max_subcalls");
        if (limits.tool_budget == 0)
                limits.tool_budget = agent ? AGENT_TOOLS : configured(config, "tool_budget");
        if (limits.token_budget == 0)
                limits.token_budget = agent ? AGENT_TOKENS : configured(config, "token_budget");
        if (limits.max_iterations == 0)
                limits.max_iterations = agent ? AGENT_ITERATIONS : 1;
        if (limits.sub_calls_per_turn == 0)
                limits.sub_calls_per_turn = configured(config, "sub_calls_max_per_turn");
        if (limits.timeout_ms == 0)
                limits.timeout_ms = configured(config, "timeout_seconds") * UINT64_C(1000);
        if (limits.cost_usd < 0)
                limits.cost_usd = configured_cost(config, "cost_limit");
        if (limits.sub_call_cost_usd < 0)
                limits.sub_call_cost_usd = configured_cost(config, "sub_calls_max_cost_per_session");
        *ret_limits = limits;
        return 0;
}
