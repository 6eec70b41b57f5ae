/* SPDX-License-Identifier: Apache-2.0 */
/* A completion: turns, tools, each of its limits, and what a hostile model can say. */
#include "fake_run.h"

#define OPEN(...)                                                                                                      \
        struct fake_run fake;                                                                                          \
        fake_run_open(&fake, (const char *const[]){__VA_ARGS__, NULL})
#define CLOSE()                                                                                                        \
        sbx_completion_clear(&completion);                                                                             \
        fake_run_close(&fake)

static void test_answer(void **state) {
        struct sbx_completion completion;
        OPEN("token_budget=1000");

        SCRIPT(&fake, TEXT("hello"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_string_equal(completion.text, "hello");
        assert_string_equal(completion.finish_reason, "stop");
        assert_string_equal(fake_run_content(&fake, 0, 0), "system");
        assert_string_equal(fake_run_content(&fake, 0, 1), "question");
        assert_int_equal(fake.run.budget.tokens_in, 10);
        assert_int_equal(fake.run.budget.tokens_out, 5);
        assert_int_equal(fake.run.budget.tokens_reserved, 0);
        assert_string_equal(fake.text.data, "0:tick ");
        assert_int_equal(fake_run_events(&fake, "completion"), 1);
        /* What is left is what the answer may have at most. */
        assert_in_range(json_integer_value(json_object_get(json_array_get(fake.provider.requests, 0), "max_tokens")),
                        900, 1000);
        CLOSE();
}

static void test_tools(void **state) {
        struct sbx_completion completion;
        const json_t *event, *message;
        OPEN("tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "one") "," CALL("b", "image", "") "," CALL("c", "fail", "{}")), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_string_equal(completion.text, "done");
        assert_int_equal(completion.tool_calls, 3);
        assert_string_equal(json_string_value(json_array_get(completion.tool_names, 1)), "image");
        message = json_array_get(json_object_get(json_array_get(fake.provider.requests, 1), "messages"), 2);
        assert_int_equal(json_array_size(json_object_get(message, "tool_calls")), 3);
        assert_string_equal(fake_run_content(&fake, 1, 3), "one");
        assert_contains(fake_run_content(&fake, 1, 4), "image/png");
        assert_null(strstr(fake_run_content(&fake, 1, 4), "AAAA"));
        assert_contains(fake_run_content(&fake, 1, 5), "Error: it broke");
        event = fake_run_event(&fake, "completion", 0);
        assert_int_equal(json_array_size(json_object_get(event, "tool_results")), 3);
        assert_true(
                json_is_true(json_object_get(json_array_get(json_object_get(event, "tool_results"), 2), "is_error")));
        assert_int_equal(fake_run_events(&fake, "tool_begin"), 3);
        assert_int_equal(fake_run_events(&fake, "tool_end"), 3);
        CLOSE();
}

static void test_tool_list(void **state) {
        struct sbx_completion completion;
        OPEN("max_depth=1");
        const json_t *tools, *tool;
        size_t index;

        SCRIPT(&fake, TEXT("x"));
        completion = fake_run_complete(&fake);
        tools = json_object_get(json_array_get(fake.provider.requests, 0), "tools");
        assert_true(json_array_size(tools) > 5);
        json_array_foreach (tools, index, tool) {
                const json_t *function = json_object_get(tool, "function");

                assert_true(json_is_object(json_object_get(function, "parameters")));
                /* Nothing is below a depth of one. */
                assert_string_not_equal(json_string_value(json_object_get(function, "name")), "snipara_sub_complete");
        }
        CLOSE();
}

static void test_truncation(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20", "token_budget=100000");

        SCRIPT(&fake, CALLS(CALL("a", "big", "{}")), TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_in_range(strlen(fake_run_content(&fake, 1, 3)), 20000, 31000);
        CLOSE();
}

static void test_finish_reasons(void **state) {
        static const char *const reasons[] = {"length", "content_filter"};

        for (size_t i = 0; i < 2; i++) {
                struct sbx_completion completion;
                char line[256];
                const char *lines[] = {line};
                OPEN("tool_budget=20");

                snprintf(line, sizeof(line),
                         "{\"choices\":[{\"message\":{\"content\":\"half\"},\"finish_reason\":\"%s\"}]}", reasons[i]);
                fake_run_script(&fake, lines, 1);
                completion = fake_run_complete(&fake);
                assert_int_equal(completion.end, SBX_RUN_OK);
                assert_string_equal(completion.finish_reason, reasons[i]);
                assert_int_equal(json_array_size(fake.run.notices), 1);
                /* No usage was stated: it is estimated, and the price is unknown, not nothing. */
                assert_true(fake.run.budget.tokens_in > 0 && fake.run.budget.cost_unknown);
                CLOSE();
        }
}

/* ---- limits ---- */

static void test_tool_budget(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=1");

        SCRIPT(&fake, CALLS(ECHO("a", "one") "," ECHO("b", "two")), CALLS(ECHO("c", "three")), TEXT("never"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_TOOL_BUDGET);
        assert_int_equal(fake.provider.calls, 2);
        assert_string_equal(fake_run_content(&fake, 1, 3), "one");
        assert_contains(fake_run_content(&fake, 1, 4), "tool budget is used up");
        assert_contains(completion.problem.message, "tool budget");
        CLOSE();
}

static void test_tool_budget_then_answer(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=1");

        SCRIPT(&fake, CALLS(ECHO("a", "one") "," ECHO("b", "two")), TEXT("what I have"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_string_equal(completion.text, "what I have");
        CLOSE();
}

/* FINAL is possible with the budget used up. */
static void test_tool_budget_then_final(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=1");

        SCRIPT(&fake, CALLS(ECHO("a", "one") "," ECHO("b", "two")),
               CALLS(ECHO("c", "three") "," CALL("d", "FINAL", "{\\\"answer\\\":\\\"42\\\"}")));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_true(completion.final);
        assert_string_equal(completion.text, "42");
        CLOSE();
}

static void test_token_budget(void **state) {
        struct sbx_completion completion;
        OPEN("token_budget=60", "tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "the last output")));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_TOKEN_BUDGET);
        assert_string_equal(completion.text, "the last output");
        assert_contains(completion.problem.message, "token budget");
        CLOSE();
}

static void test_max_subcalls(void **state) {
        struct sbx_completion completion;
        OPEN("max_subcalls=3", "tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "again")));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_MAX_SUBCALLS);
        assert_int_equal(fake.provider.calls, 3);
        assert_string_equal(completion.text, "again");
        CLOSE();
}

static void test_cost_limit(void **state) {
        struct sbx_completion completion;
        OPEN("cost_limit=0.02", "tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "again")));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_COST_LIMIT);
        assert_int_equal(fake.provider.calls, 2);
        CLOSE();
}

static void test_timeout(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        fake.call.deadline_ns = 1;
        SCRIPT(&fake, TEXT("x"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_TIMEOUT);
        assert_int_equal(fake.provider.calls, 0);
        assert_string_equal(completion.text, "");
        CLOSE();
}

static void test_cancelled(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        fake_run_cancel(&fake);
        SCRIPT(&fake, TEXT("x"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_CANCELLED);
        assert_int_equal(fake.provider.calls, 0);
        CLOSE();
}

/* Cancelled by what the first tool does: the second is not run any more. */
static void test_cancelled_between(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        fake.cancel_in_write = true;
        SCRIPT(&fake, CALLS(CALL("a", "write", "{}") "," CALL("b", "write", "{}")), TEXT("x"));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_CANCELLED);
        assert_int_equal(fake.writes, 1);
        CLOSE();
}

static void test_provider_fails(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "so far")), "!-13");
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_FAILED);
        assert_int_equal(completion.problem.code, -EACCES);
        assert_string_equal(completion.problem.hint, "Mend it.");
        assert_string_equal(completion.text, "so far");
        assert_int_equal(fake.run.budget.tokens_reserved, 0);
        assert_false(fake.run.budget.cost_unknown);
        assert_string_equal(json_string_value(json_object_get(fake_run_event(&fake, "completion", 1), "error")),
                            "the provider fails");
        CLOSE();
}

/* ---- hostile answers ---- */

static void test_bad_calls(void **state) {
        static const struct {
                const char *call, *expected;
        } table[] = {
                {CALL("a", "ehco", "{}"), "did you mean 'echo'"},
                {CALL("a", "", "{}"), "names no tool"},
                {"{\"id\":\"a\"}", "names no tool"},
                {"7", "names no tool"},
                {CALL("a", "echo", "{\\\"text\\\":"), "can't be read"},
                {CALL("a", "echo", "[1]"), "must be a JSON object"},
                {CALL("a", "echo", "{\\\"text\\\":1}"), "arguments.text"},
                {"{\"id\":\"a\",\"function\":{\"name\":\"echo\",\"arguments\":5}}", "JSON object in a string"},
                {"{\"id\":\"a\",\"function\":{\"name\":\"echo\",\"arguments\":{\"text\":\"as meant\"}}}", "as meant"},
                {"{\"id\":\"\",\"function\":{\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"no id\\\"}\"}}",
                 "no id"},
                {"{\"id\":\"a\\u0000b\",\"function\":{\"name\":\"a\\u0000b\",\"arguments\":\"{}\"}}", "unknown tool"},
                {CALL("a", "bad name; drop", "{}"), "unknown tool"},
        };

        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                struct sbx_completion completion;
                char line[1024];
                const char *lines[] = {line, TEXT("done")};
                const json_t *message, *call;
                const char *name;
                OPEN("tool_budget=20");

                snprintf(line, sizeof(line), CALLS("%s"), table[i].call);
                fake_run_script(&fake, lines, 2);
                completion = fake_run_complete(&fake);
                assert_int_equal(completion.end, SBX_RUN_OK);
                assert_string_equal(completion.text, "done");
                assert_contains(fake_run_content(&fake, 1, 3), table[i].expected);
                /* What goes back to the model is what APIs take. */
                message = json_array_get(json_object_get(json_array_get(fake.provider.requests, 1), "messages"), 2);
                call = json_array_get(json_object_get(message, "tool_calls"), 0);
                name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));
                assert_true(strlen(name) > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
                assert_true(strlen(json_string_value(json_object_get(call, "id"))) > 0);
                CLOSE();
        }
}

static void test_same_id(void **state) {
        struct sbx_completion completion;
        const json_t *messages;
        OPEN("tool_budget=20");

        SCRIPT(&fake, CALLS(ECHO("a", "one") "," ECHO("a", "two")), TEXT("done"));
        completion = fake_run_complete(&fake);
        messages = json_object_get(json_array_get(fake.provider.requests, 1), "messages");
        assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 3), "tool_call_id")), "a");
        assert_string_not_equal(json_string_value(json_object_get(json_array_get(messages, 4), "tool_call_id")), "a");
        assert_string_equal(fake_run_content(&fake, 1, 4), "two");
        CLOSE();
}

static json_t *thousands(struct fake_run *fake, const json_t *request, unsigned number) {
        json_t *calls = json_array();

        if (number > 0) {
                json_decref(calls);
                return json_loads(TEXT("done"), 0, NULL);
        }
        for (unsigned i = 0; i < 1500; i++)
                json_array_append_new(calls, json_loads(ECHO("same", "x"), 0, NULL));
        return json_pack("{s:[{s:{s:o}}]}", "choices", "message", "tool_calls", calls);
}

static void test_a_thousand_calls(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20", "token_budget=1000000");

        fake.provider.answer = thousands;
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_int_equal(completion.tool_calls, SBX_TOOL_CALLS_MAX);
        assert_string_equal(fake_run_content(&fake, 1, 3 + 19), "x");
        assert_contains(fake_run_content(&fake, 1, 3 + 20), "tool budget is used up");
        assert_contains(json_string_value(json_array_get(fake.run.notices, 0)), "476 more tools");
        CLOSE();
}

static void test_unreadable(void **state) {
        static const char *const lines[] = {
                "",
                "<html>Bad gateway</html>",
                "{}",
                "[]",
                "{\"choices\":[]}",
                "{\"choices\":[1]}",
                "{\"choices\":[{\"message\":5}]}",
                "{\"choices\":[{\"message\":{\"content\":5}}]}",
                "{\"choices\":[{\"message\":{\"content\":\"x\",\"tool_calls\":5}}]}",
                "{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}",
                "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"choices\":[]}",
        };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct sbx_completion completion;
                OPEN("tool_budget=20");

                fake_run_script(&fake, lines + i, 1);
                completion = fake_run_complete(&fake);
                assert_int_equal(completion.end, SBX_RUN_FAILED);
                assert_contains(completion.problem.message, "can't be read");
                assert_int_equal(completion.problem.code, -EBADMSG);
                CLOSE();
        }
}

static void test_odd_usage(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        SCRIPT(&fake, "{\"choices\":[{\"message\":{\"content\":\"a\\u0000b\"},\"finish_reason\":7}],\"usage\":{"
                      "\"prompt_tokens\":-5,\"completion_tokens\":99999999999999999,\"cost_usd\":-1}}");
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_string_equal(completion.text, "a\xe2\x90\x80"
                                             "b");
        assert_int_equal(fake.run.budget.tokens_out, 1000000000);
        assert_true(fake.run.budget.cost_unknown);
        CLOSE();
}

/* ---- FINAL ---- */

static void test_final(void **state) {
        struct sbx_completion completion;
        _cleanup_free_ char *answer = NULL;
        const char *source = NULL;
        OPEN("tool_budget=20");

        SCRIPT(&fake, CALLS(CALL("a", "FINAL", "{\\\"answer\\\":\\\"42\\\"}") "," ECHO("b", "late") "," CALL(
                              "c", "FINAL", "{\\\"answer\\\":\\\"43\\\"}")));
        completion = fake_run_complete(&fake);
        assert_int_equal(completion.end, SBX_RUN_OK);
        assert_true(completion.final);
        assert_int_equal(fake.provider.calls, 1);
        answer = sbx_run_take_answer(&fake.run, &source);
        assert_string_equal(answer, "42");
        assert_string_equal(source, "final");
        assert_false(sbx_run_has_answer(&fake.run));
        CLOSE();
}

static void test_final_var(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20");

        SCRIPT(&fake, CALLS(CALL("a", "FINAL_VAR", "{\\\"variable_name\\\":\\\"v\\\"}")));
        completion = fake_run_complete(&fake);
        assert_true(completion.final);
        assert_string_equal(completion.text, "whole");
        assert_string_equal(json_string_value(json_object_get(fake_run_event(&fake, "execution", 0), "prompt")),
                            "FINAL_VAR(\"v\")");
        CLOSE();
}

/* A model that may not execute code is not offered it, and is refused when it asks all the same. The value of a variable
 * it may still give as its answer: that is the program's own code. */
static void test_code_is_not_allowed(void **state) {
        static const char *const some[] = {"echo", NULL};
        static const char *const offered[] = {"echo", "FINAL", "FINAL_VAR"};
        struct sbx_completion completion;
        const json_t *tools;
        OPEN("tool_budget=20");

        assert_int_equal(sbx_tools_allow(fake.tools, SBX_CALLER_MODEL, some, NULL), 0);
        SCRIPT(&fake, CALLS(CALL("a", "execute_python", "{\\\"code\\\":\\\"1\\\"}")),
               CALLS(CALL("b", "FINAL_VAR", "{\\\"variable_name\\\":\\\"v\\\"}")));
        completion = fake_run_complete(&fake);
        tools = json_object_get(json_array_get(fake.provider.requests, 0), "tools");
        assert_int_equal(json_array_size(tools), sizeof(offered) / sizeof(offered[0]));
        for (size_t i = 0; i < json_array_size(tools); i++)
                assert_string_equal(json_string_value(json_object_get(
                                            json_object_get(json_array_get(tools, i), "function"), "name")),
                                    offered[i]);
        assert_contains(fake_run_content(&fake, 1, 3), "execute_python is not for models");
        assert_true(completion.final);
        assert_string_equal(completion.text, "whole");
        assert_int_equal(fake_run_events(&fake, "execution"), 1);
        CLOSE();
}

/* ---- side by side ---- */

static void test_parallel(void **state) {
        struct sbx_completion completion;
        OPEN("tool_budget=20", "parallel_tools=true", "max_parallel=2");

        SCRIPT(&fake,
               CALLS(CALL("a", "meet", "{\\\"text\\\":\\\"one\\\"}") "," CALL(
                       "b", "meet", "{\\\"text\\\":\\\"two\\\"}") "," ECHO("c", "three")),
               TEXT("done"));
        completion = fake_run_complete(&fake);
        assert_true(fake.met);
        assert_string_equal(fake_run_content(&fake, 1, 3), "one");
        assert_string_equal(fake_run_content(&fake, 1, 4), "two");
        assert_string_equal(fake_run_content(&fake, 1, 5), "three");
        CLOSE();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answer),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_tool_list),
                cmocka_unit_test(test_truncation),
                cmocka_unit_test(test_finish_reasons),
                cmocka_unit_test(test_tool_budget),
                cmocka_unit_test(test_tool_budget_then_answer),
                cmocka_unit_test(test_tool_budget_then_final),
                cmocka_unit_test(test_token_budget),
                cmocka_unit_test(test_max_subcalls),
                cmocka_unit_test(test_cost_limit),
                cmocka_unit_test(test_timeout),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_cancelled_between),
                cmocka_unit_test(test_provider_fails),
                cmocka_unit_test(test_bad_calls),
                cmocka_unit_test(test_same_id),
                cmocka_unit_test(test_a_thousand_calls),
                cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_odd_usage),
                cmocka_unit_test(test_final),
                cmocka_unit_test(test_final_var),
                cmocka_unit_test(test_code_is_not_allowed),
                cmocka_unit_test(test_parallel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
