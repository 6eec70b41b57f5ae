/* SPDX-License-Identifier: Apache-2.0 */
/* A run's second life: what the journal has is not done again, and what may have happened is said. */
#include "fake_run.h"

#define Q "\\\\\\\""

static void open_run(struct fake_run *fake) {
        static const char *const settings[] = {"tool_budget=100", "token_budget=10000000",       "max_subcalls=1000",
                                               "cost_limit=10",   "sub_calls_max_per_turn=1000", NULL};

        fake_run_open(fake, settings);
        fake_run_on_disk(fake);
}

static void test_nothing_twice(void **state) {
        struct sbx_completion first, second;
        struct sbx_budget used;
        unsigned events, calls_made;
        _cleanup_free_ char *id = NULL;
        struct fake_run fake;

        open_run(&fake);
        SCRIPT(&fake,
               CALLS(CALL("a", "write", "{}") "," CODE("b", "call llm_query {" Q "prompt" Q ":" Q "p" Q
                                                            "}\\\\ncall echo {" Q "text" Q ":" Q "hi" Q "}")),
               TEXT("below"), CALLS(CALL("c", "snipara_sub_complete", "{\\\"query\\\":\\\"q\\\"}")),
               CALLS(ECHO("d", "x")), TEXT("sub"), TEXT("done"));
        first = fake_run_complete(&fake);
        assert_string_equal(first.text, "done");
        assert_int_equal(fake.provider.calls, 6);
        used = fake.run.budget;
        calls_made = fake.run.calls_made;
        events = fake_run_events(&fake, "completion") + fake_run_events(&fake, "tool_call") +
                 fake_run_events(&fake, "execution");
        id = strdup(json_string_value(json_object_get(fake_run_event(&fake, "tool_call", 1), "call_id")));

        fake_run_again(&fake);
        second = fake_run_complete(&fake);
        assert_string_equal(second.text, "done");
        assert_int_equal(second.tool_calls, first.tool_calls);
        assert_int_equal(fake.provider.calls, 6); /* not one more */
        assert_int_equal(fake.writes, 1);
        /* The bill is the same, and so is what the trajectory is told. */
        assert_int_equal(fake.run.budget.tokens_in, used.tokens_in);
        assert_int_equal(fake.run.budget.tokens_out, used.tokens_out);
        assert_int_equal(fake.run.budget.calls, used.calls);
        assert_int_equal(fake.run.calls_made, calls_made);
        assert_true(fake.run.budget.cost_usd > used.cost_usd - 1e-9 && fake.run.budget.cost_usd < used.cost_usd + 1e-9);
        assert_int_equal(fake_run_events(&fake, "completion") + fake_run_events(&fake, "tool_call") +
                                 fake_run_events(&fake, "execution"),
                         events);
        assert_string_equal(json_string_value(json_object_get(fake_run_event(&fake, "tool_call", 1), "call_id")), id);
        assert_int_equal(json_array_size(fake.run.notices), 0);
        sbx_completion_clear(&first);
        sbx_completion_clear(&second);
        fake_run_close(&fake);
}

/* Killed while a tool that changes something was at work: it is not called again, and all are told. */
static void test_maybe_happened(void **state) {
        struct sbx_completion first, second;
        struct fake_run fake;

        open_run(&fake);
        fake.cancel_in_write = true;
        SCRIPT(&fake, CALLS(CALL("a", "write", "{}")), TEXT("done"));
        first = fake_run_complete(&fake);
        assert_int_equal(first.end, SBX_RUN_CANCELLED);
        assert_int_equal(fake.writes, 1);

        fake_run_again(&fake);
        second = fake_run_complete(&fake);
        assert_string_equal(second.text, "done");
        assert_int_equal(fake.writes, 1);
        assert_contains(fake_run_content(&fake, 1, 3), "may or may not have happened");
        assert_contains(json_string_value(json_array_get(fake.run.notices, 0)), "was not called again");
        sbx_completion_clear(&first);
        sbx_completion_clear(&second);

        /* That is an answer like others: a third life says the same without asking again. */
        fake_run_again(&fake);
        second = fake_run_complete(&fake);
        assert_string_equal(second.text, "done");
        assert_int_equal(fake.provider.calls, 2);
        sbx_completion_clear(&second);
        fake_run_close(&fake);
}

/* The second of two calls of the model failed: the run goes on from there. */
static void test_goes_on(void **state) {
        struct sbx_completion first, second;
        struct fake_run fake;

        open_run(&fake);
        SCRIPT(&fake, CALLS(ECHO("a", "x")), "!-104", TEXT("done"));
        first = fake_run_complete(&fake);
        assert_int_equal(first.end, SBX_RUN_FAILED);
        assert_true(fake.run.budget.cost_unknown); /* it broke off: nobody knows what it cost */

        fake_run_again(&fake);
        second = fake_run_complete(&fake);
        assert_int_equal(second.end, SBX_RUN_OK);
        assert_string_equal(second.text, "done");
        assert_int_equal(fake.provider.calls, 3);
        sbx_completion_clear(&first);
        sbx_completion_clear(&second);
        fake_run_close(&fake);
}

/* The answer that code gave is given again. */
static void test_final_again(void **state) {
        struct sbx_completion first, second;
        struct fake_run fake;

        open_run(&fake);
        SCRIPT(&fake, CALLS(CODE("a", "call FINAL {" Q "answer" Q ":" Q "42" Q "}")));
        first = fake_run_complete(&fake);
        assert_true(first.final);
        fake_run_again(&fake);
        second = fake_run_complete(&fake);
        assert_true(second.final);
        assert_string_equal(second.text, "42");
        assert_int_equal(fake.provider.calls, 1);
        sbx_completion_clear(&first);
        sbx_completion_clear(&second);
        fake_run_close(&fake);
}

/* Limits of this life are not in the way of what an earlier one did. */
static void test_lower_limits(void **state) {
        struct sbx_completion first, second;
        struct fake_run fake;

        open_run(&fake);
        SCRIPT(&fake, CALLS(ECHO("a", "x")), TEXT("done"));
        first = fake_run_complete(&fake);
        fake_run_again(&fake);
        fake.run.budget.token_limit = 1;
        fake.run.budget.call_limit = 1;
        second = fake_run_complete(&fake);
        assert_string_equal(second.text, "done");
        sbx_completion_clear(&first);
        sbx_completion_clear(&second);
        fake_run_close(&fake);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_twice), cmocka_unit_test(test_maybe_happened),
                cmocka_unit_test(test_goes_on),       cmocka_unit_test(test_final_again),
                cmocka_unit_test(test_lower_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
