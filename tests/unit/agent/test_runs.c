/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: iterations, endings, checks, and going on after an interruption at any moment. */
#include "resumes.h"

/* What the model was told in that call: 0 is the system text, 1 the prompt. */
static void assert_told(unsigned call, size_t message, const char *part, bool there) {
        json_t *messages = world_request(call);
        const char *text = text_in(json_array_get(messages, message), "content");

        if ((strstr(text, part) != NULL) != there)
                fail_msg("\"%s\" was %sexpected in \"%s\"", part, there ? "" : "not ", text);
        json_decref(messages);
}

/* ---- the two kinds ---- */

static void completion_answers(void **state) {
        static const char *const script[] = {AS_TEXT("Seven."), NULL};
        struct sbx_run_request request = completion("How many elephants?");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.system = "Answer like a zoo.";
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "response"), "Seven.");
        assert_string_equal(text_in(result, "end"), "ok");
        assert_string_equal(text_in(result, "trajectory_id"), ID);
        assert_string_equal(text_in(result, "answer_source"), "text");
        assert_true(json_is_true(json_object_get(result, "success")));
        assert_true(json_is_null(json_object_get(result, "error")));
        assert_true(json_is_null(json_object_get(result, "validated")));
        assert_int_equal(number_in(result, "total_calls"), 1);
        assert_int_equal(number_in(result, "total_tokens"), 100);
        assert_int_equal(number_in(result, "total_input_tokens"), 80);
        assert_int_equal(number_in(result, "total_output_tokens"), 20);
        assert_true(json_real_value(json_object_get(result, "total_cost_usd")) > 0.009);
        assert_true(json_is_array(json_object_get(result, "events")));
        assert_told(0, 0, "Answer like a zoo.", true);
        assert_told(0, 1, "How many elephants?", true);
        assert_int_equal(world_told(&world, "run_started"), 1);
        assert_int_equal(world_told(&world, "run_ended"), 1);
        json_decref(result);
        world_close(&world);
}

static void completion_may_call_final(void **state) {
        static const char *const script[] = {AS_CODE("add 3; add 4; show"), AS_CODE("final"), NULL};
        struct sbx_run_request request = completion("Add.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.with_events = true;
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "response"), "7");
        assert_string_equal(text_in(result, "answer_source"), "final");
        assert_int_equal(number_in(result, "total_tool_calls"), 2);
        assert_true(json_array_size(json_object_get(result, "events")) >= 4);
        json_decref(result);
        world_close(&world);
}

static void agent_goes_on_until_final(void **state) {
        static const char *const script[] = {AS_CODE("add 3; show"), AS_TEXT("I have three so far."), AS_CODE("add 4"),
                                             AS_FINAL("seven"), NULL};
        struct sbx_run_request request = agent("Count the elephants.");
        const json_t *summary;
        json_t *result;

        world.with_context = true;
        world_open(&world, NULL);
        world_script(script);
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "answer"), "seven");
        assert_string_equal(text_in(result, "answer_source"), "final");
        assert_string_equal(text_in(result, "run_id"), ID);
        assert_int_equal(number_in(result, "iterations"), 2);
        assert_true(json_is_false(json_object_get(result, "forced_termination")));
        assert_true(json_is_true(json_object_get(result, "success")));
        assert_int_equal(json_array_size(json_object_get(result, "iteration_summaries")), 2);
        summary = json_array_get(json_object_get(result, "iteration_summaries"), 0);
        assert_int_equal(number_in(summary, "iteration"), 0);
        assert_int_equal(number_in(summary, "tokens"), 200);
        assert_int_equal(number_in(summary, "tool_calls"), 1);
        assert_string_equal(text_in(summary, "response_preview"), "I have three so far.");
        assert_int_equal(world_told(&world, "iteration"), 2);
        assert_told(0, 0, "The elephants are in file seven.", true);
        assert_told(2, 0, "The elephants are in file seven.", false);
        assert_told(0, 1, "Iteration 1 of 10", true);
        assert_told(2, 1, "Iteration 2 of 10", true);
        assert_told(2, 1, "called execute_python; said: I have three so far.", true);
        json_decref(result);
        world_close(&world);
}

static void agent_without_context(void **state) {
        static const char *const script[] = {AS_FINAL("x"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world.with_context = true;
        world_open(&world, NULL);
        world_script(script);
        request.no_auto_context = true;
        result = world_run(&world, &request);
        assert_told(0, 0, "file seven", false);
        json_decref(result);
        world_close(&world);
}

/* ---- endings ---- */

/* Ends `end` with what was reached; `source` says so. */
static void ends_at_iterations(void **state) {
        static const char *const script[] = {AS_TEXT("one"), AS_TEXT("two"), AS_TEXT("three"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.max_iterations = 3;
        result = assert_ends(&request, "max_iterations", "forced");
        assert_string_equal(text_in(result, "answer"), "three");
        assert_true(json_is_true(json_object_get(result, "forced_termination")));
        assert_int_equal(number_in(result, "iterations"), 3);
        assert_told(1, 1, "last iteration", false);
        assert_told(2, 1, "last iteration", true);
        json_decref(result);
        world_close(&world);
}

static void ends_at_tokens(void **state) {
        static const char *const script[] = {"{\"content\": \"one\", \"usage\": {\"prompt_tokens\": 9000, "
                                             "\"completion_tokens\": 2000, \"cost_usd\": 0}}",
                                             "{\"content\": \"two\", \"usage\": {\"prompt_tokens\": 9000, "
                                             "\"completion_tokens\": 2000, \"cost_usd\": 0}}",
                                             NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.token_budget = 20000;
        result = assert_ends(&request, "token_budget", "forced");
        assert_string_equal(text_in(result, "answer"), "two");
        assert_int_equal(world_calls(), 2);
        json_decref(result);
        world_close(&world);
}

static void ends_at_tools(void **state) {
        static const char *const script[] = {AS_CODE("add 1"),
                                             AS_CODE("add 1"),
                                             AS_CODE("add 1"),
                                             AS_CODE("add 1"),
                                             AS_TEXT("stopped"),
                                             AS_TEXT("stopped"),
                                             NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.tool_budget = 2;
        result = assert_ends(&request, "tool_budget", "forced");
        assert_int_equal(number_in(result, "total_tool_calls"), 2);
        json_decref(result);
        world_close(&world);
}

static void ends_at_model_calls(void **state) {
        static const char *const script[] = {AS_TEXT("one"), AS_TEXT("two"), AS_TEXT("three"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.max_subcalls = 2;
        result = assert_ends(&request, "max_subcalls", "forced");
        assert_string_equal(text_in(result, "answer"), "two");
        assert_int_equal(world_calls(), 2);
        json_decref(result);
        world_close(&world);
}

static void ends_at_cost(void **state) {
        static const char *const script[] = {AS_TEXT("one"), AS_TEXT("two"), AS_TEXT("three"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.cost_usd = 0.015;
        result = assert_ends(&request, "cost_limit", "forced");
        assert_string_equal(text_in(result, "answer"), "two");
        assert_int_equal(world_calls(), 2);
        json_decref(result);
        world_close(&world);
}

static void ends_at_time(void **state) {
        static const char *const script[] = {AS_TEXT("one"), "block", NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.limits.timeout_ms = 100;
        result = assert_ends(&request, "timeout", "forced");
        json_decref(result);
        world_close(&world);
}

static void *cancel_later(void *data) {
        world_wait_blocked(1);
        assert_int_equal(write(world.cancel[1], "x", 1), 1);
        return NULL;
}

static void ends_when_cancelled_and_goes_on(void **state) {
        static const char *const script[] = {AS_CODE("add 5"), AS_TEXT("one"), "block", AS_CODE("final"), NULL};
        struct sbx_run_request request = agent("Count.");
        pthread_t thread;
        json_t *result;
        char byte;

        world_open(&world, NULL);
        world_script(script);
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, NULL), 0);
        result = assert_ends(&request, "cancelled", "error");
        pthread_join(thread, NULL);
        assert_string_equal(text_in(result, "answer"), "one");
        assert_true(json_is_true(json_object_get(result, "resumable")));
        json_decref(result);
        assert_int_equal(read(world.cancel[0], &byte, 1), 1);
        request = (struct sbx_run_request){.resume_id = "1b4e", .limits = SBX_RUN_LIMITS_CONFIGURED};
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "answer"), "5");
        assert_true(json_array_size(json_object_get(result, "notices")) > 0);
        assert_int_equal(number_in(result, "total_tokens"), 300);
        json_decref(result);
        world_close(&world);
}

static void ends_when_the_provider_fails(void **state) {
        static const char *const script[] = {AS_TEXT("one"), "!-13", AS_FINAL("two"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        result = assert_ends(&request, "error", "error");
        assert_contains(text_in(result, "error"), "the provider fails");
        assert_string_equal(text_in(result, "hint"), "Mend it.");
        assert_true(json_is_true(json_object_get(result, "resumable")));
        json_decref(result);
        request = (struct sbx_run_request){.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "answer"), "two");
        assert_int_equal(json_array_size(json_object_get(result, "notices")), 0); /* nothing was paid for twice */
        json_decref(result);
        world_close(&world);
}

/* ---- checks ---- */

static void check_fails_then_passes(void **state) {
        static const char *const script[] = {AS_FINAL("six"), AS_FINAL("seven"), NULL};
        struct sbx_run_request request = agent("Count.");
        const json_t *check;
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.check = "expect seven";
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "answer"), "seven");
        assert_true(json_is_true(json_object_get(result, "validated")));
        assert_true(json_is_true(json_object_get(result, "success")));
        check = json_object_get(result, "check");
        assert_string_equal(text_in(check, "end"), "ok");
        assert_int_equal(number_in(check, "attempts"), 2);
        assert_int_equal(world_told(&world, "check"), 2);
        assert_told(1, 1, "six", true);
        assert_told(1, 1, "not as expected", true);
        json_decref(result);
        world_close(&world);
}

static void check_never_passes(void **state) {
        static const char *const script[] = {AS_FINAL("six"), AS_FINAL("five"), NULL};
        struct sbx_run_request request = agent("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.check = "expect seven";
        request.limits.max_iterations = 2;
        result = assert_ends(&request, "max_iterations", "forced");
        assert_string_equal(text_in(result, "answer"), "five");
        assert_true(json_is_false(json_object_get(result, "validated")));
        assert_contains(text_in(result, "error"), "passed the check");
        json_decref(result);
        world_close(&world);
}

static void check_of_a_completion(void **state) {
        static const char *const script[] = {AS_TEXT("six"), AS_TEXT("seven"), NULL};
        struct sbx_run_request request = completion("Count.");
        json_t *result;

        world_open(&world, NULL);
        world_script(script);
        request.check = "expect seven";
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "response"), "seven");
        assert_true(json_is_true(json_object_get(result, "validated")));
        assert_told(1, 1, "did not pass", true);
        json_decref(result);
        world_close(&world);
}

/* ---- variables ---- */

static void variables_are_in_the_session(void **state) {
        static const char *const script[] = {AS_CODE("length document"), AS_TEXT("read"), NULL};
        const struct sbx_run_variable variable = {"document", {"elephants and more elephants", 28}};
        struct sbx_run_request request = completion("Read.");
        json_t *result, *messages;

        world_open(&world, NULL);
        world_script(script);
        request.variables = &variable;
        request.variable_count = 1;
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "response"), "read");
        assert_told(0, 0, "document: 28 characters", true);
        assert_told(0, 0, "elephants and more", false);
        messages = world_request(1);
        assert_contains(text_in(json_array_get(messages, json_array_size(messages) - 1), "content"), "28");
        json_decref(messages);
        json_decref(result);
        world_close(&world);
}

static void assert_refused(const struct sbx_run_request *request, int code, const char *part) {
        struct sbx_error err = {0};
        json_t *result = NULL;

        assert_int_equal(sbx_runs_run(world.runs, request, NULL, &world.call, &result, &err), code);
        assert_contains(err.message, part);
        assert_null(result);
}

static void refuses_bad_requests(void **state) {
        const struct sbx_run_variable bad = {"1st", {"x", 1}}, twice[] = {{"a", {"x", 1}}, {"a", {"y", 1}}};
        struct sbx_run_request request = completion(" \n");
        json_t *list = NULL;

        world_open(&world, NULL);
        assert_refused(&request, -EINVAL, "empty");
        request = completion("x");
        request.response_format = "[]";
        assert_refused(&request, -EINVAL, "response_format");
        request = completion("x");
        request.variables = &bad;
        request.variable_count = 1;
        assert_refused(&request, -EINVAL, "1st");
        request.variables = twice;
        request.variable_count = 2;
        assert_refused(&request, -EINVAL, "two texts");
        request = completion("x");
        request.limits.cost_usd = 11;
        assert_refused(&request, -EINVAL, "hard limit");
        request = agent("x");
        request.limits.max_iterations = 51;
        assert_refused(&request, -EINVAL, "hard limit");
        request = agent("x");
        request.provider = "nobody";
        assert_refused(&request, -ENOENT, "nobody");
        request = (struct sbx_run_request){.resume_id = "ffff", .limits = SBX_RUN_LIMITS_CONFIGURED};
        assert_refused(&request, -ENOENT, "ffff");
        request.resume_id = "../x";
        assert_refused(&request, -EINVAL, "id");
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_int_equal(json_array_size(list), 0); /* what could not begin left nothing behind */
        json_decref(list);
        world_close(&world);
}

/* ---- going on ---- */

static void an_ended_run_answers_its_result(void **state) {
        static const char *const script[] = {AS_TEXT("one"), AS_TEXT("two"), AS_FINAL("three"), NULL};
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        json_t *result, *same = NULL, *list = NULL;

        world_open(&world, NULL);
        world_script(script);
        request.limits.max_iterations = 2;
        result = world_run(&world, &request);
        assert_int_equal(sbx_runs_run(world.runs, &again, NULL, &world.call, &same, &world.err), -EALREADY);
        assert_true(json_equal(result, same));
        json_decref(same);
        json_decref(result);
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_string_equal(text_in(json_array_get(list, 0), "state"), "ended");
        assert_string_equal(text_in(json_array_get(list, 0), "end"), "max_iterations");
        assert_string_equal(text_in(json_array_get(list, 0), "kind"), "agent");
        assert_string_equal(text_in(json_array_get(list, 0), "prompt"), "Count.");
        json_decref(list);
        /* With a higher limit it goes on, and what was done is not done again. */
        again.limits.max_iterations = 5;
        result = world_run(&world, &again);
        assert_string_equal(text_in(result, "answer"), "three");
        assert_int_equal(number_in(result, "iterations"), 3);
        assert_int_equal(world_calls(), 3);
        json_decref(result);
        world_close(&world);
}

static const char *const long_script[] = {
        AS_CODE("add 3; show"),
        AS_TOOL("touch", "{}"),
        AS_TEXT("three so far"),
        AS_CODE("call llm_query {\\\"prompt\\\": \\\"how many more?\\\"}; add 4; show"),
        AS_TEXT("four more"), /* the query's */
        AS_FINAL("six"),
        AS_CODE("expect-n 7; length document; final"),
        NULL};

static void goes_on_after_a_kill_at_any_record(void **state) {
        const struct sbx_run_variable variable = {"document", {"elephants", 9}};
        struct sbx_run_request request = agent("Count.");

        world.with_context = true;
        request.check = "expect 7";
        request.variables = &variable;
        request.variable_count = 1;
        assert_resumes(&request, long_script, "7", 7 + 6); /* answers of the model, tool calls */
}

static void goes_on_after_a_session_was_lost(void **state) {
        static const char *const script[] = {AS_CODE("add 3; drift"),
                                             AS_CODE("add 2; crash"),
                                             AS_CODE("add 4; show"),
                                             AS_TOOL("set_repl_context", "{\"key\": \"n\", \"value\": \"6\"}"),
                                             AS_CODE("add 1; expect-n 7"),
                                             AS_CODE("final"),
                                             NULL};
        struct sbx_run_request request = agent("Count.");

        assert_resumes(&request, script, "7", 12);
}

static void goes_on_with_sub_completions(void **state) {
        static const char *const script[] = {
                AS_CODE("add 3"),        AS_TOOL("snipara_sub_complete", "{\"query\": \"How many more?\"}"),
                AS_CODE("add 1; show"), /* of the sub-completion, in the same session */
                AS_TEXT("three"),       /* its answer */
                AS_CODE("add 3; final"), NULL};
        struct sbx_run_request request = agent("Count.");

        assert_resumes(&request, script, "7", 8);
}

static void tells_what_ended_otherwise(void **state) {
        static const char *const script[] = {AS_CODE("drift"), "!-13", AS_CODE("final"), NULL};
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        json_t *result;
        char *notices;

        world_open(&world, NULL);
        world_script(script);
        json_decref(assert_ends(&request, "error", "error"));
        result = world_run(&world, &again);
        assert_string_equal(text_in(result, "answer"), "0");
        notices = json_dumps(json_object_get(result, "notices"), 0);
        assert_contains(notices, "Step 1.1.t0 was run again");
        assert_contains(notices, "with other output");
        free(notices);
        json_decref(result);
        world_close(&world);
}

/* A kill right after the tool was begun: how often it is called then, and what is said. */
static void assert_uncertain(const char *const *script, unsigned calls, const char *said) {
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        char *bytes, *begun, *notices;
        json_t *result;
        size_t size;

        world_open(&world, NULL);
        world_script(script);
        json_decref(world_run(&world, &request));
        world_close(&world);
        bytes = read_journal(&size);
        begun = strstr(bytes, "\"begun\":\"1.1.t0\"");
        assert_non_null(begun);
        write_journal(bytes, (size_t)(strchr(begun, '\n') + 1 - bytes));
        free(bytes);
        world_open(&world, NULL);
        world_script(script);
        world_answered(1);
        world.side_effects = 0;
        result = world_run(&world, &again);
        assert_int_equal(world.side_effects, calls);
        notices = json_dumps(json_object_get(result, "notices"), 0);
        assert_contains(notices, said);
        free(notices);
        json_decref(result);
        world_close(&world);
}

static void says_what_may_have_happened_twice(void **state) {
        static const char *const changes[] = {AS_TOOL("touch", "{}"), AS_FINAL("x"), NULL};
        static const char *const adds[] = {AS_TOOL("note", "{}"), AS_FINAL("x"), NULL};

        assert_uncertain(changes, 0, "not called again");
        assert_int_equal(resumes_teardown(state), 0);
        assert_uncertain(adds, 1, "called again now");
}

static void belongs_to_one_at_a_time(void **state) {
        static const char *const script[] = {AS_TEXT("one"), NULL};
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        struct sbx_journal *journal = NULL;
        json_t *list = NULL;
        char path[600];

        world_open(&world, NULL);
        world_script(script);
        json_decref(assert_ends(&request, "error", "error")); /* the script was too short */
        snprintf(path, sizeof(path), "%s/runs", world.state);
        assert_int_equal(sbx_journal_open(path, ID, &world.logger, &journal, NULL), 0);
        assert_refused(&again, -EBUSY, ID);
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_string_equal(text_in(json_array_get(list, 0), "state"), "running");
        json_decref(list);
        sbx_journal_free(journal);
        again.principal = "somebody else";
        assert_refused(&again, -ENOENT, "of this client");
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_string_equal(text_in(json_array_get(list, 0), "state"), "stopped");
        json_decref(list);
        world_close(&world);
}

static void works_without_a_directory(void **state) {
        static const char *const script[] = {AS_FINAL("one"), NULL};
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        json_t *result, *list = NULL;

        world.state = NULL;
        world_open(&world, NULL);
        world_script(script);
        result = world_run(&world, &request);
        assert_string_equal(text_in(result, "answer"), "one");
        assert_true(json_is_false(json_object_get(result, "resumable")));
        json_decref(result);
        assert_refused(&again, -ENOENT, "journal");
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_int_equal(json_array_size(list), 0);
        json_decref(list);
        world_close(&world);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(completion_answers, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(completion_may_call_final, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(agent_goes_on_until_final, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(agent_without_context, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_iterations, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_tokens, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_tools, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_model_calls, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_cost, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_at_time, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_when_cancelled_and_goes_on, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(ends_when_the_provider_fails, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(check_fails_then_passes, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(check_never_passes, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(check_of_a_completion, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(variables_are_in_the_session, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(refuses_bad_requests, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(an_ended_run_answers_its_result, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(goes_on_after_a_kill_at_any_record, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(goes_on_after_a_session_was_lost, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(goes_on_with_sub_completions, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(tells_what_ended_otherwise, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(says_what_may_have_happened_twice, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(belongs_to_one_at_a_time, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(works_without_a_directory, resumes_setup, resumes_teardown),
        };

        return cmocka_run_group_tests_name("runs", tests, scratch_setup, scratch_teardown);
}
