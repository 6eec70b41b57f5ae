/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that go on with what was stored of their sessions: nothing is executed twice, and nothing is taken that the
 * journal does not know of. */
#include "resumes.h"

static bool marked; /* the store as the whole run left it */

/* Runs the script with a store that is ahead of the journal wherever it is cut: it has all that came after. */
static void assert_resumes_with(void (*before)(void), const char *const *script, const char *answer,
                                unsigned cuts_min) {
        struct sbx_run_request request = agent("Count.");

        world_states_on(true);
        marked = false;
        before_resume = before;
        assert_resumes(&request, script, answer, cuts_min);
        before_resume = NULL;
        world_states_off();
}

static void back(void) {
        if (!marked)
                world_states_mark();
        marked = true;
        world_states_back();
        assert_true(world_states() > 0);
}

static void back_and_damaged(void) {
        back();
        world_states_damage(2);
}

static const char *const counting[] = {
        AS_CODE("add 3; drift"),       AS_TOOL("set_repl_context", "{\"key\": \"n\", \"value\": \"10\"}"),
        AS_CODE("add 4; drift"),       AS_CODE("add 5; drift"),
        AS_CODE("expect-n 19; final"), NULL};

static void goes_on_with_what_was_stored(void **state) {
        assert_resumes_with(back, counting, "19", 10);
}

static void goes_on_where_states_are_damaged(void **state) {
        assert_resumes_with(back_and_damaged, counting, "19", 10);
}

static void goes_on_where_states_are_lost(void **state) {
        assert_resumes_with(world_states_lose, counting, "19", 10);
}

/* Cuts the journal behind the n-th record that has `part` in it. */
static size_t cut_behind(const char *bytes, const char *part, unsigned n) {
        const char *at = bytes;

        while (n-- > 0) {
                at = strstr(at, part);
                assert_non_null(at);
                at = strchr(at, '\n') + 1;
        }
        return (size_t)(at - bytes);
}

static json_t *resume_at(const char *const *settings, const char *const *script, const char *bytes, size_t size,
                         char **ret_notices) {
        struct sbx_run_request again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        json_t *result;

        write_journal(bytes, size);
        world_open(&world, settings);
        world_script(script);
        world_answered(count_in(bytes, size, "\"type\":\"model\""));
        (void)world_executions();
        (void)world_rollbacks();
        result = world_run(&world, &again);
        *ret_notices = json_dumps(json_object_get(result, "notices"), 0);
        world_close(&world);
        return result;
}

/* Nothing that has a record is executed again, and what came after the last record is not taken from the store. */
static void executes_nothing_again(void **state) {
        struct sbx_run_request request = agent("Count.");
        char *bytes, *notices;
        json_t *result;
        size_t size;

        world_states_on(true);
        world_open(&world, NULL);
        world_script(counting);
        json_decref(world_run(&world, &request));
        world_close(&world);
        bytes = read_journal(&size);
        result = resume_at(NULL, counting, bytes, cut_behind(bytes, "\"type\":\"execution\"", 2), &notices);
        assert_string_equal(text_in(result, "answer"), "19");
        assert_int_equal(world_executions(), 2); /* the last two of the script */
        assert_int_equal(world_rollbacks(), 1);
        assert_contains(notices, "checkpoint c2");
        assert_contains(notices, "rows (generator)");
        assert_null(strstr(notices, "run again"));
        free(notices);
        json_decref(result);
        free(bytes);
        world_states_off();
}

/* Of tools that ran side by side, one's state may hold another's work, which has no record: it is not taken. */
static void looks_at_the_whole_turn(void **state) {
        static const char *const script[] = {"{\"tools\": [[\"execute_python\", {\"code\": \"add 1\"}], "
                                             "[\"execute_python\", {\"code\": \"add 2\"}]]}",
                                             AS_CODE("expect-n 3; final"), NULL};
        static const char *const parallel[] = {"parallel_tools=true", NULL};
        struct sbx_run_request request = agent("Count.");
        char *bytes, *notices;
        size_t size, cut;

        world_states_on(true);
        world_open(&world, NULL);
        world_script(script);
        json_decref(world_run(&world, &request));
        world_close(&world);
        world_states_mark();
        bytes = read_journal(&size);
        cut = cut_behind(bytes, "\"type\":\"execution\"", 1); /* the turn's second has no record */
        for (unsigned i = 0; i < 2; i++) {
                json_t *result;

                world_states_back();
                result = resume_at(i == 0 ? NULL : parallel, script, bytes, cut, &notices);
                assert_string_equal(text_in(result, "answer"), "3");
                assert_int_equal(world_rollbacks(), i == 0 ? 1 : 0);
                assert_int_equal(world_executions(), i == 0 ? 2 : 3);
                free(notices);
                json_decref(result);
        }
        free(bytes);
        world_states_off();
}

/* States that were lost and made anew have the ids of other ones: none is taken for what it is not. */
static void tells_new_states_from_lost_ones(void **state) {
        static const char *const first[] = {AS_CODE("add 9"), AS_CODE("crash"), AS_CODE("add 1"),
                                            AS_CODE("add 2"), "!-13",           NULL};
        static const char *const second[] = {"", "", "", "", AS_CODE("add 4; expect-n 7"), "!-13", NULL};
        static const char *const third[] = {"", "", "", "", "", AS_CODE("expect-n 7; final"), NULL};
        struct sbx_run_request request = agent("Count.");
        char *bytes, *notices;
        json_t *result;
        size_t size;

        world_states_on(true);
        world_open(&world, NULL);
        world_script(first);
        json_decref(world_run(&world, &request)); /* until the provider's error; n is 3 at c3 */
        world_close(&world);
        bytes = read_journal(&size);
        world_states_lose();
        json_decref(resume_at(NULL, second, bytes, size, &notices)); /* n was 3 at c2, and is 7 at c3 */
        assert_contains(notices, "no state of session 'default'");
        free(notices);
        free(bytes);
        bytes = read_journal(&size);
        result = resume_at(NULL, third, bytes, cut_behind(bytes, "\"type\":\"restoring\"", 1), &notices);
        assert_string_equal(text_in(result, "answer"), "7");
        free(notices);
        json_decref(result);
        free(bytes);
        world_states_off();
}

/* A run that can be resumed leaves its sessions in the store, one that has its answer does not. */
static void stores_what_can_be_resumed(void **state) {
        static const char *const script[] = {AS_CODE("add 3"), "!-13", AS_CODE("final"), NULL};
        struct sbx_run_request request = agent("Count."),
                               again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        json_t *result;

        world_states_on(false);
        world_open(&world, NULL);
        world_script(script);
        json_decref(assert_ends(&request, "error", "error"));
        assert_int_equal(world_sessions(), 0);
        assert_int_equal(world_states(), 1);
        result = world_run(&world, &again);
        assert_string_equal(text_in(result, "answer"), "3");
        json_decref(result);
        assert_int_equal(world_states(), 0);
        world_close(&world);
        world_states_off();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(goes_on_with_what_was_stored, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(goes_on_where_states_are_damaged, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(goes_on_where_states_are_lost, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(executes_nothing_again, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(looks_at_the_whole_turn, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(tells_new_states_from_lost_ones, resumes_setup, resumes_teardown),
                cmocka_unit_test_setup_teardown(stores_what_can_be_resumed, resumes_setup, resumes_teardown),
        };

        return cmocka_run_group_tests_name("stored runs", tests, NULL, NULL);
}
