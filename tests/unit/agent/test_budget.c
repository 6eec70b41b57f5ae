/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: what is used counts at every level, also when many threads use it. Limits: hard ones can't be passed. */
#include <pthread.h>

#include "../test.h"
#include "agent/run.h"
#include "agent/workers.h"
#include "fake_guest.h"

static void test_levels(void **state) {
        struct sbx_budget root, child;
        uint64_t reserved = 0;

        sbx_budget_init(&root, NULL, 1000, 3, 10, 1.0);
        sbx_budget_init(&child, &root, 400, UINT_MAX, UINT_MAX, -1);
        assert_int_equal(sbx_budget_tokens_left(&child), 400);
        assert_int_equal(sbx_budget_begin_call(&child, 100, 5000, &reserved), SBX_RUN_OK);
        assert_int_equal(reserved, 400); /* as much as there was */
        assert_int_equal(sbx_budget_tokens_left(&root), 600);
        assert_int_equal(sbx_budget_begin_call(&child, 1, 1, &reserved), SBX_RUN_TOKEN_BUDGET);
        sbx_budget_settle(&child, 400, 100, 50, 0.25);
        assert_int_equal(sbx_budget_tokens_left(&child), 250);
        assert_int_equal(sbx_budget_tokens_left(&root), 850);
        assert_int_equal(root.calls, 1);
        assert_true(root.cost_usd > 0.24 && root.cost_usd < 0.26);
        assert_false(root.cost_unknown);
        sbx_budget_recall(&child, 10, 10, -1);
        assert_true(root.cost_unknown && child.cost_unknown);
        for (unsigned i = 0; i < 3; i++)
                assert_true(sbx_budget_take_tool(&child));
        assert_false(sbx_budget_take_tool(&child));
        assert_false(sbx_budget_take_tool(&root));
        assert_int_equal(root.tools, 3);
        sbx_budget_destroy(&child);
        sbx_budget_destroy(&root);
}

static void test_ends(void **state) {
        struct sbx_budget root, child;
        uint64_t reserved = 0;

        sbx_budget_init(&root, NULL, UINT64_MAX, UINT_MAX, 2, 0.5);
        sbx_budget_init(&child, &root, UINT64_MAX, UINT_MAX, UINT_MAX, 0.1);
        assert_int_equal(sbx_budget_begin_call(&child, 1, 10, &reserved), SBX_RUN_OK);
        sbx_budget_settle(&child, reserved, 1, 1, 0.1);
        assert_int_equal(sbx_budget_begin_call(&child, 1, 10, &reserved), SBX_RUN_COST_LIMIT);
        assert_int_equal(sbx_budget_begin_call(&root, 1, 10, &reserved), SBX_RUN_OK);
        sbx_budget_settle(&root, reserved, 1, 1, 0);
        assert_int_equal(sbx_budget_begin_call(&root, 1, 10, &reserved), SBX_RUN_MAX_SUBCALLS);
        sbx_budget_settle(&root, 0, UINT64_MAX, UINT64_MAX, 0); /* no overflow */
        assert_int_equal(root.tokens_in, UINT64_MAX);
        sbx_budget_destroy(&root);
}

/* ---- many threads ---- */

enum { WORKERS = 8, ROUNDS = 2000, TOKENS = 10000 };

static void use(void *data, size_t index) {
        struct sbx_budget *root = data, own;

        sbx_budget_init(&own, root, UINT64_MAX, UINT_MAX, UINT_MAX, -1);
        for (unsigned i = 0; i < ROUNDS; i++) {
                uint64_t reserved = 0;

                if (sbx_budget_begin_call(&own, 1, 7, &reserved) != SBX_RUN_OK)
                        continue;
                sbx_budget_settle(&own, reserved, 1, 1, 0.001);
                (void)sbx_budget_take_tool(&own);
                (void)sbx_budget_tokens_left(&own);
        }
        sbx_budget_destroy(&own);
}

static void test_threads(void **state) {
        struct sbx_budget root;

        sbx_budget_init(&root, NULL, TOKENS, 100, UINT_MAX, -1);
        sbx_workers_run(use, &root, WORKERS, WORKERS);
        assert_int_equal(root.tokens_reserved, 0);
        assert_int_equal(root.tokens_in, root.calls);
        assert_int_equal(root.tokens_in + root.tokens_out, TOKENS); /* all of it, and not one more */
        assert_int_equal(root.tools, 100);
        sbx_budget_destroy(&root);
}

/* ---- workers ---- */

static void count_job(void *data, size_t index) {
        unsigned *seen = data;

        __atomic_add_fetch(&seen[index], 1, __ATOMIC_RELAXED);
}

static void test_workers(void **state) {
        static const unsigned parallel[] = {0, 1, 2, 7, 100000};

        for (size_t i = 0; i < sizeof(parallel) / sizeof(parallel[0]); i++) {
                unsigned seen[300] = {0};

                sbx_workers_run(count_job, seen, 300, parallel[i]);
                for (size_t j = 0; j < 300; j++)
                        assert_int_equal(seen[j], 1);
                sbx_workers_run(count_job, seen, 0, parallel[i]);
        }
}

/* ---- limits ---- */

static void test_defaults(void **state) {
        static const char *const settings[] = {"tool_budget=7", "cost_limit=0.5", "timeout_seconds=11", NULL};
        const struct sbx_run_limits asked = SBX_RUN_LIMITS_CONFIGURED;
        struct sbx_config *config = fake_config(settings);
        struct sbx_run_limits limits = {0};
        struct sbx_error err = {0};

        assert_int_equal(sbx_run_limits_settle(config, SBX_RUN_COMPLETION, &asked, &limits, &err), 0);
        assert_int_equal(limits.max_depth, 4);
        assert_int_equal(limits.max_subcalls, 12);
        assert_int_equal(limits.token_budget, 8000);
        assert_int_equal(limits.tool_budget, 7);
        assert_int_equal(limits.timeout_ms, 11000);
        assert_int_equal(limits.sub_calls_per_turn, 5);
        assert_true(limits.cost_usd > 0.49 && limits.cost_usd < 0.51);
        assert_int_equal(sbx_run_limits_settle(config, SBX_RUN_AGENT, &asked, &limits, &err), 0);
        assert_int_equal(limits.max_depth, 3);
        assert_int_equal(limits.max_iterations, 10);
        assert_int_equal(limits.token_budget, 50000);
        assert_int_equal(limits.tool_budget, 50);
        assert_true(limits.cost_usd < 0.51); /* what the operator allows holds for agents too */
        sbx_config_free(config);
}

static void test_hard_limits(void **state) {
        static const char *const none[] = {NULL};
        struct sbx_config *config = fake_config(none);
        const struct sbx_run_limits fine = {
                .max_depth = 5, .max_iterations = 50, .timeout_ms = 600000, .cost_usd = 10, .sub_call_cost_usd = 10};
        struct sbx_run_limits table[] = {fine, fine, fine, fine, fine, fine, fine, fine, fine}, limits = {0};
        struct sbx_error err = {0};

        assert_int_equal(sbx_run_limits_settle(config, SBX_RUN_AGENT, &fine, &limits, &err), 0);
        assert_int_equal(limits.max_iterations, 50);
        table[0].max_depth = 6;
        table[1].max_iterations = 51;
        table[2].timeout_ms = 600001;
        table[3].cost_usd = 10.01;
        table[4].sub_call_cost_usd = 1e300;
        table[5].cost_usd = __builtin_nan("");
        table[6].token_budget = UINT64_MAX;
        table[7].tool_budget = UINT_MAX;
        table[8].max_subcalls = 10001;
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                err.code = 0;
                assert_int_equal(sbx_run_limits_settle(config, SBX_RUN_AGENT, &table[i], &limits, &err), -EINVAL);
                assert_contains(err.message, "hard limit");
        }
        assert_int_equal(limits.max_iterations, 50); /* untouched */
        sbx_config_free(config);
}

static void test_names(void **state) {
        assert_string_equal(sbx_run_end_name(SBX_RUN_OK), "ok");
        assert_string_equal(sbx_run_end_name(SBX_RUN_TOOL_BUDGET), "tool_budget");
        assert_string_equal(sbx_run_end_name(SBX_RUN_FAILED), "error");
        assert_string_equal(sbx_run_end_name((enum sbx_run_end)99), "error");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_levels),  cmocka_unit_test(test_ends),     cmocka_unit_test(test_threads),
                cmocka_unit_test(test_workers), cmocka_unit_test(test_defaults), cmocka_unit_test(test_hard_limits),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
