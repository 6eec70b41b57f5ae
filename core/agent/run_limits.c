/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a run as they stand in its journal, and how a resume replaces them. */
#include "agent/runs.h"

json_t *sbx_limits_encode(const struct sbx_run_limits *limits) {
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "max_depth", (json_int_t)limits->max_depth,
                         "max_subcalls", (json_int_t)limits->max_subcalls, "tool_budget",
                         (json_int_t)limits->tool_budget, "max_iterations", (json_int_t)limits->max_iterations,
                         "sub_calls_per_turn", (json_int_t)limits->sub_calls_per_turn, "token_budget",
                         (json_int_t)limits->token_budget, "timeout_ms", (json_int_t)limits->timeout_ms, "cost_usd",
                         limits->cost_usd, "sub_call_cost_usd", limits->sub_call_cost_usd);
}

static uint64_t count_in(const json_t *object, const char *name, uint64_t maximum) {
        json_int_t value = json_integer_value(json_object_get(object, name));

        return value < 0 ? 0 : (uint64_t)value > maximum ? maximum : (uint64_t)value;
}

static double cost_in(const json_t *object, const char *name) {
        const json_t *value = json_object_get(object, name);

        return json_is_number(value) ? json_number_value(value) : -1;
}

void sbx_limits_decode(const json_t *object, struct sbx_run_limits *ret_limits) {
        *ret_limits = (struct sbx_run_limits){
                .max_depth = (unsigned)count_in(object, "max_depth", UINT_MAX),
                .max_subcalls = (unsigned)count_in(object, "max_subcalls", UINT_MAX),
                .tool_budget = (unsigned)count_in(object, "tool_budget", UINT_MAX),
                .max_iterations = (unsigned)count_in(object, "max_iterations", UINT_MAX),
                .sub_calls_per_turn = (unsigned)count_in(object, "sub_calls_per_turn", UINT_MAX),
                .token_budget = count_in(object, "token_budget", UINT64_MAX),
                .timeout_ms = count_in(object, "timeout_ms", UINT64_MAX),
                .cost_usd = cost_in(object, "cost_usd"),
                .sub_call_cost_usd = cost_in(object, "sub_call_cost_usd"),
        };
}

#define REPLACE(member)                                                                                                \
        do {                                                                                                           \
                if (asked->member > 0) {                                                                               \
                        limits->member = asked->member;                                                                \
                        stated = true;                                                                                 \
                }                                                                                                      \
        } while (0)

bool sbx_limits_replace(struct sbx_run_limits *limits, const struct sbx_run_limits *asked) {
        bool stated = false;

        REPLACE(max_depth);
        REPLACE(max_subcalls);
        REPLACE(tool_budget);
        REPLACE(max_iterations);
        REPLACE(sub_calls_per_turn);
        REPLACE(token_budget);
        REPLACE(timeout_ms);
        if (asked->cost_usd >= 0) {
                limits->cost_usd = asked->cost_usd;
                stated = true;
        }
        if (asked->sub_call_cost_usd >= 0) {
                limits->sub_call_cost_usd = asked->sub_call_cost_usd;
                stated = true;
        }
        return stated;
}
