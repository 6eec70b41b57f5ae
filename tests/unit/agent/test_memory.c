/* SPDX-License-Identifier: Apache-2.0 */
/* A completion when memory is short: every allocation fails once, nothing leaks, nothing is lost without being said. */
#include "fake_run.h"

#include "../alloc_fail.h"

/* What the fakes allocate fails too; what they can't answer is a failed provider or tool. */
static int body(void *data) {
        struct fake_run *fake = data;
        struct sbx_completion completion = {0};
        struct sbx_error err = {0};
        int r = sbx_complete(&fake->place, "system", "question", true, &completion, &err);

        if (r == 0 && completion.text == NULL)
                r = -EINVAL;
        sbx_completion_clear(&completion);
        return r;
}

/* Each round is a run of its own, so that no journal answers for it. */
static void sweep(const char *const *script, unsigned lines, unsigned fewest) {
        unsigned rounds = 0;
        bool failed = true;

        while (failed) {
                static const char *const settings[] = {"tool_budget=100", "token_budget=1000000", NULL};
                struct fake_run fake;
                int r;

                fake_run_open(&fake, settings);
                fake_run_script(&fake, script, lines);
                alloc_fail.failed = false;
                alloc_fail.left = rounds++;
                alloc_fail.armed = true;
                r = body(&fake);
                alloc_fail.armed = false;
                failed = alloc_fail.failed;
                if (r != 0 && !(failed && r == -ENOMEM))
                        fail_msg("allocation %u failed: the answer was %d", rounds - 1, r);
                assert_int_equal(fake.run.budget.tokens_reserved, 0);
                fake_run_close(&fake);
                assert_true(rounds < 20000);
        }
        assert_true(rounds > fewest);
}

static void test_tools(void **state) {
        static const char *const script[] = {
                CALLS(ECHO("a", "one") "," CALL("b", "nothing", "[")),
                CALLS(CALL("c", "FINAL", "{\\\"answer\\\":\\\"42\\\"}")),
        };

        sweep(script, 2, 100);
}

static void test_sub_calls(void **state) {
        static const char *const script[] = {
                CALLS(CALL("a", "snipara_sub_complete", "{\\\"query\\\":\\\"q\\\",\\\"context_query\\\":\\\"c\\\"}")),
                TEXT("below"),
                TEXT("done"),
        };

        sweep(script, 3, 100);
}

static void test_code(void **state) {
        static const char *const script[] = {
                CALLS(CODE("a", "call llm_query {\\\\\\\"prompt\\\\\\\":\\\\\\\"p\\\\\\\"}\\\\ncall echo {}")),
                TEXT("below"),
                TEXT("done"),
        };

        sweep(script, 3, 100);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_sub_calls),
                cmocka_unit_test(test_code),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
