/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: tokens, calls and dollars that may still be used. What is used at one level counts at all above it. */
#include "agent/run.h"

void sbx_budget_init(struct sbx_budget *budget, struct sbx_budget *parent, uint64_t token_limit, unsigned tool_limit,
                     unsigned call_limit, double cost_limit_usd) {
        *budget = (struct sbx_budget){.parent = parent,
                                      .token_limit = token_limit,
                                      .tool_limit = tool_limit,
                                      .call_limit = call_limit,
                                      .cost_limit_usd = cost_limit_usd};
        if (parent == NULL)
                pthread_mutex_init(&budget->lock, NULL);
}

void sbx_budget_destroy(struct sbx_budget *budget) {
        if (budget->parent == NULL)
                pthread_mutex_destroy(&budget->lock);
}

static pthread_mutex_t *root_lock(struct sbx_budget *budget) {
        while (budget->parent != NULL)
                budget = budget->parent;
        return &budget->lock;
}

/* Never overflows: what a provider says of its usage is bounded (model.c), but there is no bound on how often. */
static uint64_t add(uint64_t a, uint64_t b) {
        return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t left_locked(const struct sbx_budget *budget) {
        uint64_t left = UINT64_MAX;

        for (; budget != NULL; budget = budget->parent) {
                uint64_t used = add(add(budget->tokens_in, budget->tokens_out), budget->tokens_reserved);
                uint64_t own = used < budget->token_limit ? budget->token_limit - used : 0;

                if (budget->token_limit != UINT64_MAX && own < left)
                        left = own;
        }
        return left;
}

uint64_t sbx_budget_tokens_left(struct sbx_budget *budget) {
        SBX_LOCKED(root_lock(budget));
        return left_locked(budget);
}

static enum sbx_run_end check_locked(const struct sbx_budget *budget) {
        for (; budget != NULL; budget = budget->parent) {
                if (budget->call_limit != UINT_MAX && budget->calls >= budget->call_limit)
                        return SBX_RUN_MAX_SUBCALLS;
                if (budget->cost_limit_usd >= 0 && budget->cost_usd >= budget->cost_limit_usd)
                        return SBX_RUN_COST_LIMIT;
        }
        return SBX_RUN_OK;
}

enum sbx_run_end sbx_budget_begin_call(struct sbx_budget *budget, uint64_t needed, uint64_t wanted,
                                       uint64_t *ret_reserved) {
        enum sbx_run_end end;
        uint64_t left, reserved;

        SBX_LOCKED(root_lock(budget));
        end = check_locked(budget);
        if (end != SBX_RUN_OK)
                return end;
        left = left_locked(budget);
        if (left == 0 || left < needed)
                return SBX_RUN_TOKEN_BUDGET;
        reserved = wanted < left ? wanted : left;
        for (struct sbx_budget *b = budget; b != NULL; b = b->parent) {
                b->tokens_reserved = add(b->tokens_reserved, reserved);
                b->calls++;
        }
        *ret_reserved = reserved;
        return SBX_RUN_OK;
}

static void count_locked(struct sbx_budget *budget, uint64_t tokens_in, uint64_t tokens_out, double cost_usd) {
        budget->tokens_in = add(budget->tokens_in, tokens_in);
        budget->tokens_out = add(budget->tokens_out, tokens_out);
        if (cost_usd >= 0)
                budget->cost_usd += cost_usd;
        else
                budget->cost_unknown = true;
}

void sbx_budget_settle(struct sbx_budget *budget, uint64_t reserved, uint64_t tokens_in, uint64_t tokens_out,
                       double cost_usd) {
        SBX_LOCKED(root_lock(budget));
        for (; budget != NULL; budget = budget->parent) {
                budget->tokens_reserved -= reserved;
                count_locked(budget, tokens_in, tokens_out, cost_usd);
        }
}

void sbx_budget_recall(struct sbx_budget *budget, uint64_t tokens_in, uint64_t tokens_out, double cost_usd) {
        SBX_LOCKED(root_lock(budget));
        for (; budget != NULL; budget = budget->parent) {
                budget->calls++;
                count_locked(budget, tokens_in, tokens_out, cost_usd);
        }
}

bool sbx_budget_take_tool(struct sbx_budget *budget) {
        SBX_LOCKED(root_lock(budget));
        for (const struct sbx_budget *b = budget; b != NULL; b = b->parent)
                if (b->tool_limit != UINT_MAX && b->tools >= b->tool_limit)
                        return false;
        for (; budget != NULL; budget = budget->parent)
                budget->tools++;
        return true;
}
