/* SPDX-License-Identifier: Apache-2.0 */
/* Sub-calls, of the model and of code: their budgets, their limits, two hundred at once, and what code may call. */
#include "fake_run.h"

#define OPEN(...)                                                                                                      \
        struct fake_run fake;                                                                                          \
        fake_run_open(&fake, (const char *const[]){__VA_ARGS__, NULL})
#define CLOSE()                                                                                                        \
        sbx_completion_clear(&completion);                                                                             \
        fake_run_close(&fake)
#define SUB(id, query) CALL(id, "snipara_sub_complete", "{\\\"query\\\":\\\"" query "\\\"}")

#define PLENTY                                                                                                         \
        "tool_budget=100", "token_budget=10000000", "max_subcalls=1000", "cost_limit=10",                              \
                "sub_calls_max_per_turn=1000", "sub_calls_max_cost_per_session=10"

static const json_t *result_of(struct fake_run *fake, const char *content) {
        const json_t *parsed = json_loads(content, 0, NULL);

        if (parsed == NULL)
                fail_msg("no JSON: %s", content);
        return parsed;
}

static void test_sub_complete(void **state) {
        struct sbx_completion completion;
        const json_t *result, *event;
        OPEN("token_budget=1000", "max_depth=2");

        SCRIPT(&fake, CALLS(SUB("a", "part")), TEXT("the part"), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_string_equal(completion.text, "done");
        assert_string_equal(fake_run_content(&fake, 1, 0), "part");
        result = result_of(&fake, fake_run_content(&fake, 2, 3));
        assert_string_equal(json_string_value(json_object_get(result, "response")), "the part");
        assert_int_equal(json_integer_value(json_object_get(result, "tokens_used")), 15);
        assert_int_equal(json_integer_value(json_object_get(result, "calls")), 1);
        json_decref((json_t *)result);
        /* What it used counts in the run; half of what was left was its own. */
        assert_int_equal(fake.run.budget.calls, 3);
        assert_int_equal(fake.run.budget.tokens_in, 30);
        assert_in_range(json_integer_value(json_object_get(json_array_get(fake.provider.requests, 1), "max_tokens")),
                        400, 500);
        assert_true(fake.run.sub_call_cost_usd > 0.009 && fake.run.sub_call_cost_usd < 0.011);
        event = fake_run_event(&fake, "completion", 0); /* the sub-completion's comes first: it ends first */
        assert_string_equal(json_string_value(json_object_get(event, "sub_call_type")), "sub_complete");
        assert_int_equal(json_integer_value(json_object_get(event, "depth")), 1);
        assert_string_equal(json_string_value(json_object_get(event, "parent_call_id")),
                            json_string_value(json_object_get(fake_run_event(&fake, "completion", 1), "call_id")));
        CLOSE();
}

static void test_sub_has_tools(void **state) {
        struct sbx_completion completion;
        const json_t *result;
        OPEN("token_budget=100000", "max_depth=2");

        SCRIPT(&fake, CALLS(SUB("a", "part")), CALLS(ECHO("b", "deep")),
               CALLS(CALL("c", "FINAL", "{\\\"answer\\\":\\\"from below\\\"}")), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_string_equal(completion.text, "done");
        assert_string_equal(fake_run_content(&fake, 2, 2), "deep");
        result = result_of(&fake, fake_run_content(&fake, 3, 3));
        assert_string_equal(json_string_value(json_object_get(result, "response")), "from below");
        json_decref((json_t *)result);
        assert_false(sbx_run_has_answer(&fake.run)); /* it was the sub-completion's */
        assert_false(completion.final);
        CLOSE();
}

static void test_sub_limits(void **state) {
        static const struct {
                const char *setting, *end;
        } table[] = {
                {"sub_calls_max_per_turn=0", "max_subcalls"},
                {"sub_calls_max_cost_per_session=0", "cost_limit"},
                {"sub_calls_budget_inheritance=0", "token_budget"},
                {"max_subcalls=1", "max_subcalls"},
        };

        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                struct sbx_completion completion;
                const json_t *event, *result;
                OPEN(table[i].setting, "token_budget=100000");

                SCRIPT(&fake, CALLS(SUB("a", "part")), TEXT("done"));
                completion = fake_run_complete(&fake);
                event = fake_run_event(&fake, "tool_end", 0);
                assert_true(json_is_true(json_object_get(event, "is_error")));
                result = result_of(&fake, json_string_value(json_object_get(event, "text")));
                assert_string_equal(json_string_value(json_object_get(result, "end")), table[i].end);
                assert_true(json_is_null(json_object_get(result, "response")));
                json_decref((json_t *)result);
                CLOSE();
        }
}

static void test_switched_off(void **state) {
        struct sbx_completion completion;
        OPEN("sub_calls_enabled=false");

        SCRIPT(&fake,
               CALLS(SUB("a", "part") "," CODE("b", "call llm_query {\\\\\\\"prompt\\\\\\\":\\\\\\\"x\\\\\\\"}")),
               TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_contains(fake_run_content(&fake, 1, 3), "switched off");
        assert_contains(fake_run_content(&fake, 1, 4), "switched off");
        assert_int_equal(fake.provider.calls, 2);
        CLOSE();
}

/* The model asks for more than five in one turn, and for the rest in the next one. */
static void test_per_turn(void **state) {
        struct sbx_completion completion;
        OPEN("token_budget=10000000", "max_subcalls=100", "sub_calls_max_per_turn=2");

        SCRIPT(&fake, CALLS(SUB("a", "1") "," SUB("b", "2") "," SUB("c", "3")), TEXT("one"), TEXT("two"),
               CALLS(SUB("d", "4")), TEXT("four"), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_string_equal(completion.text, "done");
        assert_contains(fake_run_content(&fake, 3, 5), "limit of 2 sub-calls a turn");
        assert_contains(fake_run_content(&fake, 5, 7), "four");
        CLOSE();
}

static void test_context(void **state) {
        struct sbx_completion completion;
        OPEN("token_budget=100000");

        SCRIPT(&fake,
               CALLS(CALL("a", "snipara_sub_complete",
                          "{\\\"query\\\":\\\"q\\\",\\\"system\\\":\\\"be brief\\\",\\\"context_query\\\":\\\"c\\\"}")),
               TEXT("one"), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_string_equal(fake_run_content(&fake, 1, 0), "be brief\n\nRelevant context:\nthe facts");
        CLOSE();
}

static void test_batch(void **state) {
        struct sbx_completion completion;
        const json_t *results, *whole;
        OPEN(PLENTY);

        fake.provider.meet = 0;
        SCRIPT(&fake,
               CALLS(CALL("a", "rlm_batch_complete",
                          "{\\\"queries\\\":[{\\\"query\\\":\\\"x\\\"},{\\\"query\\\":\\\"y\\\",\\\"system\\\":"
                          "\\\"s\\\"}],"
                          "\\\"max_parallel\\\":1}")),
               TEXT("one"), TEXT("two"), TEXT("done"));
        completion = fake_run_complete(&fake);
        whole = result_of(&fake, fake_run_content(&fake, 3, 3));
        results = json_object_get(whole, "results");
        assert_int_equal(json_array_size(results), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(results, 0), "query")), "x");
        assert_string_equal(json_string_value(json_object_get(json_array_get(results, 1), "response")), "two");
        json_decref((json_t *)whole);
        CLOSE();
}

/* ---- two hundred at once ---- */

static void test_two_hundred(void **state) {
        enum { COUNT = 200 };
        struct sbx_query queries[COUNT];
        json_t *results = json_array();
        const json_t *result;
        size_t index;
        OPEN(PLENTY);

        fake.provider.meet = COUNT; /* none is answered before all are asked */
        SCRIPT(&fake, TEXT("one of many"));
        for (size_t i = 0; i < COUNT; i++)
                queries[i] = (struct sbx_query){.prompt = "q", .type = "llm_batch"};
        assert_int_equal(sbx_queries_ask(&fake.place, queries, COUNT, COUNT, 0, results, &fake.err), 0);
        assert_int_equal(fake.provider.most, COUNT);
        assert_int_equal(json_array_size(results), COUNT);
        json_array_foreach (results, index, result)
                assert_string_equal(json_string_value(json_object_get(result, "response")), "one of many");
        assert_int_equal(fake.run.budget.calls, COUNT);
        assert_int_equal(fake.run.budget.tokens_out, 5 * COUNT);
        assert_int_equal(fake.run.budget.tokens_reserved, 0);
        json_decref(results);
        fake_run_close(&fake);
}

/* ---- code ---- */

#define Q "\\\\\\\""

static void test_llm_query(void **state) {
        struct sbx_completion completion;
        const json_t *execution, *call, *sub;
        OPEN(PLENTY);

        SCRIPT(&fake, CALLS(CODE("a", "call llm_query {" Q "prompt" Q ":" Q "p" Q "," Q "max_tokens" Q ":100}")),
               TEXT("from below"), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_contains(fake_run_content(&fake, 2, 3), "\"response\":\"from below\"");
        /* No tools, and an answer as short as was asked for. */
        assert_null(json_object_get(json_array_get(fake.provider.requests, 1), "tools"));
        assert_int_equal(json_integer_value(json_object_get(json_array_get(fake.provider.requests, 1), "max_tokens")),
                         100);
        execution = fake_run_event(&fake, "execution", 0);
        call = fake_run_event(&fake, "tool_call", 0);
        sub = fake_run_event(&fake, "completion", 0);
        assert_string_equal(json_string_value(json_object_get(call, "parent_call_id")),
                            json_string_value(json_object_get(execution, "call_id")));
        assert_string_equal(json_string_value(json_object_get(sub, "parent_call_id")),
                            json_string_value(json_object_get(call, "call_id")));
        assert_string_equal(json_string_value(json_object_get(execution, "parent_call_id")),
                            json_string_value(json_object_get(fake_run_event(&fake, "completion", 1), "call_id")));
        assert_string_equal(json_string_value(json_object_get(sub, "sub_call_type")), "llm_query");
        CLOSE();
}

static void test_llm_batch(void **state) {
        struct sbx_completion completion;
        OPEN(PLENTY);

        fake.provider.meet = 0;
        SCRIPT(&fake,
               CALLS(CODE("a", "call llm_batch {" Q "queries" Q ":[{" Q "query" Q ":" Q "x" Q "},{" Q "query" Q ":" Q
                               "y" Q "}]," Q "max_parallel" Q ":1}")),
               TEXT("one"), "!-13", TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_contains(fake_run_content(&fake, 3, 3), "\"response\":\"one\"");
        assert_contains(fake_run_content(&fake, 3, 3), "\"response\":null");
        assert_contains(fake_run_content(&fake, 3, 3), "the provider fails");
        CLOSE();
}

static void test_code_tools(void **state) {
        struct sbx_completion completion;
        OPEN(PLENTY);

        SCRIPT(&fake,
               CALLS(CODE("a", "call __list__ {}\\\\ncall echo {" Q "text" Q ":" Q "hi" Q "}\\\\ncall execute_python {}"
                               "\\\\ncall nothing {}\\\\ncall echo [1]\\\\ncall echo {\\\\ncall llm_query {}")),
               TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_contains(fake_run_content(&fake, 1, 3), "{\"tools\":[");
        assert_contains(fake_run_content(&fake, 1, 3), "\"text\":\"hi\"");
        assert_contains(fake_run_content(&fake, 1, 3), "execute_python is not for");
        assert_contains(fake_run_content(&fake, 1, 3), "unknown tool 'nothing'");
        assert_contains(fake_run_content(&fake, 1, 3), "arguments: must be a JSON object");
        assert_contains(fake_run_content(&fake, 1, 3), "not valid JSON");
        assert_contains(fake_run_content(&fake, 1, 3), "prompt");
        assert_null(strstr(fake_run_content(&fake, 1, 3), "\"name\":\"FINAL\""));
        CLOSE();
}

static void test_code_final(void **state) {
        struct sbx_completion completion;
        const char *source = NULL;
        _cleanup_free_ char *answer = NULL;
        OPEN(PLENTY);

        SCRIPT(&fake,
               CALLS(CODE("a", "call FINAL {" Q "answer" Q ":{" Q "n" Q ":1}}\\\\ncall FINAL {" Q "answer" Q ":2}")));
        completion = fake_run_complete(&fake);
        assert_true(completion.final);
        assert_string_equal(completion.text, "{\"n\":1}");
        answer = sbx_run_take_answer(&fake.run, &source);
        assert_string_equal(source, "final");
        assert_contains(json_string_value(json_object_get(fake_run_event(&fake, "execution", 0), "response")),
                        "the first one counts");
        CLOSE();
}

static void test_code_off(void **state) {
        struct sbx_completion completion;
        OPEN(PLENTY, "code_mode=off");

        SCRIPT(&fake, CALLS(CODE("a", "call echo {}")),
               CALLS(CALL("b", "FINAL_VAR", "{\\\"variable_name\\\":\\\"v\\\"}")));
        completion = fake_run_complete(&fake);
        assert_contains(fake_run_content(&fake, 1, 3), "code_mode is off");
        assert_string_equal(completion.text, "whole");
        CLOSE();
}

static void test_flood(void **state) {
        struct sbx_completion completion;
        const json_t *execution;
        OPEN(PLENTY);

        SCRIPT(&fake, CALLS(CODE("a", "flood __list__ 1000000")), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_string_equal(completion.text, "done"); /* the execution was cancelled, the run was not */
        execution = fake_run_event(&fake, "execution", 0);
        assert_string_equal(json_string_value(json_object_get(execution, "end")), "cancelled");
        assert_contains(json_string_value(json_array_get(fake.run.notices, 0)), "called back more than 1000 times");
        CLOSE();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sub_complete), cmocka_unit_test(test_sub_has_tools),
                cmocka_unit_test(test_sub_limits),   cmocka_unit_test(test_switched_off),
                cmocka_unit_test(test_per_turn),     cmocka_unit_test(test_context),
                cmocka_unit_test(test_batch),        cmocka_unit_test(test_two_hundred),
                cmocka_unit_test(test_llm_query),    cmocka_unit_test(test_llm_batch),
                cmocka_unit_test(test_code_tools),   cmocka_unit_test(test_code_final),
                cmocka_unit_test(test_code_off),     cmocka_unit_test(test_flood),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
