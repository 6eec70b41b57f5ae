/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the background, through their tools. */
#include "fake_world.h"

static struct world world;

static int setup(void **state) {
        world = (struct world){.state = scratch_path("state")};
        world_open(&world, NULL);
        return 0;
}

static int teardown(void **state) {
        world_close(&world);
        return nftw(scratch_path("state"), scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0
                                                                                                                   : -1;
}

/* The result object; the caller's. */
static json_t *call_tool(const char *principal, const char *name, json_t *arguments) {
        char *text = json_dumps(arguments, JSON_COMPACT);
        struct sbx_tool_context context = {.principal = principal, .caller = SBX_CALLER_CLIENT, .call = &world.call};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1u << 20);
        struct sbx_error err = {0};
        json_t *result = NULL;

        if (sbx_tools_call(world.tools, name, (struct sbx_bytes){text, strlen(text)}, &context, &out, &err) < 0)
                fail_msg("%s: %s", name, err.message);
        free(text);
        json_decref(arguments);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1u << 20, "result", &result, NULL), 0);
        return result;
}

static const char *first_text(const json_t *result) {
        return json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

/* Begins a run; its id is in `id`. */
static void begin(const char *principal, char id[SBX_RUN_ID_SIZE]) {
        json_t *result = call_tool(principal, "snipara_agent_run",
                                   json_pack("{s:s, s:i}", "task", "Count.", "max_iterations", 3));
        json_t *facts = json_loads(first_text(result), 0, NULL);

        assert_true(json_is_false(json_object_get(result, "isError")));
        assert_string_equal(json_string_value(json_object_get(facts, "status")), "running");
        assert_string_equal(json_string_value(json_object_get(facts, "task")), "Count.");
        assert_int_equal(json_integer_value(json_object_get(json_object_get(facts, "config"), "max_iterations")), 3);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(facts, "config"), "token_budget")), 50000);
        snprintf(id, SBX_RUN_ID_SIZE, "%s", json_string_value(json_object_get(facts, "run_id")));
        json_decref(facts);
        json_decref(result);
}

static json_t *status_of(const char *principal, const char *id) {
        json_t *result = call_tool(principal, "rlm_agent_status", json_pack("{s:s}", "run_id", id));
        json_t *facts = json_incref(json_object_get(result, "structuredContent"));

        json_decref(result);
        return facts;
}

/* Until the run has that status. */
static json_t *wait_for(const char *principal, const char *id, const char *status) {
        for (unsigned i = 0; i < 60000; i++) {
                json_t *facts = status_of(principal, id);

                if (strcmp(json_string_value(json_object_get(facts, "status")), status) == 0)
                        return facts;
                json_decref(facts);
                usleep(1000);
        }
        fail_msg("run %s did not become %s", id, status);
        return NULL;
}

static void runs_in_the_background(void **state) {
        static const char *const script[] = {AS_TEXT("hm"), AS_FINAL("seven"), NULL};
        char id[SBX_RUN_ID_SIZE];
        json_t *facts;

        world_script(script);
        begin("one", id);
        facts = wait_for("one", id, "completed");
        assert_string_equal(json_string_value(json_object_get(json_object_get(facts, "result"), "answer")), "seven");
        assert_string_equal(json_string_value(json_object_get(json_object_get(facts, "result"), "run_id")), id);
        assert_true(json_is_integer(json_object_get(facts, "elapsed_seconds")));
        json_decref(facts);
        id[8] = '\0'; /* a beginning will do */
        facts = status_of("one", id);
        assert_string_equal(json_string_value(json_object_get(facts, "status")), "completed");
        json_decref(facts);
}

static void tells_a_failure(void **state) {
        static const char *const script[] = {"!-13", NULL};
        char id[SBX_RUN_ID_SIZE];
        json_t *facts;

        world_script(script);
        begin("one", id);
        facts = wait_for("one", id, "error");
        assert_contains(json_string_value(json_object_get(facts, "error")), "the provider fails");
        json_decref(facts);
}

static void cancels(void **state) {
        static const char *const script[] = {"block", NULL};
        char id[SBX_RUN_ID_SIZE];
        json_t *result, *facts;

        world_script(script);
        begin("one", id);
        world_wait_blocked(1);
        facts = status_of("one", id);
        assert_string_equal(json_string_value(json_object_get(facts, "status")), "running");
        assert_int_equal(json_integer_value(json_object_get(facts, "iteration")), 1);
        json_decref(facts);
        result = call_tool("one", "snipara_agent_cancel", json_pack("{s:s}", "run_id", id));
        assert_contains(first_text(result), "cancelled");
        json_decref(result);
        facts = wait_for("one", id, "cancelled");
        json_decref(facts);
        result = call_tool("one", "rlm_agent_cancel", json_pack("{s:s}", "run_id", id));
        assert_contains(first_text(result), "had ended already");
        json_decref(result);
}

static void assert_not_found(const char *principal, const char *tool, const char *id) {
        json_t *result = call_tool(principal, tool, json_pack("{s:s}", "run_id", id));

        assert_true(json_is_true(json_object_get(result, "isError")));
        assert_contains(first_text(result), "not found");
        json_decref(result);
}

static void belongs_to_its_principal(void **state) {
        static const char *const script[] = {"block", NULL};
        char id[SBX_RUN_ID_SIZE];
        json_t *facts;

        world_script(script);
        begin("one", id);
        world_wait_blocked(1);
        assert_not_found("two", "snipara_agent_status", id);
        assert_not_found("two", "snipara_agent_cancel", id);
        assert_not_found("", "snipara_agent_status", id);
        assert_not_found("one", "snipara_agent_status", "ffffffff");
        assert_not_found("one", "snipara_agent_status", "f");
        facts = status_of("one", id);
        assert_string_equal(json_string_value(json_object_get(facts, "status")), "running");
        json_decref(facts);
}

static void has_a_maximum(void **state) {
        static const char *const script[] = {"block", "block", "block", "block", "block", "block",
                                             "block", "block", "block", "block", "block", "block",
                                             "block", "block", "block", "block", NULL};
        char id[SBX_RUN_ID_SIZE];
        json_t *result;

        world_script(script);
        for (unsigned i = 0; i < SBX_BACKGROUND_RUNNING_MAX; i++)
                begin("one", id);
        result = call_tool("two", "snipara_agent_run", json_pack("{s:s}", "task", "One more."));
        assert_true(json_is_true(json_object_get(result, "isError")));
        assert_contains(first_text(result), "16 runs");
        json_decref(result);
        world_wait_blocked(SBX_BACKGROUND_RUNNING_MAX);
        sbx_runs_stop(world.runs); /* waits for all, and they are gone */
        assert_not_found("one", "snipara_agent_status", id);
        result = call_tool("one", "snipara_agent_run", json_pack("{s:s}", "task", "Too late."));
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
}

static void keeps_the_last_ended(void **state) {
        static const char *script[SBX_BACKGROUND_ENDED_MAX + 4];
        char first[SBX_RUN_ID_SIZE], id[SBX_RUN_ID_SIZE];

        for (unsigned i = 0; i < SBX_BACKGROUND_ENDED_MAX + 3; i++)
                script[i] = AS_FINAL("x");
        world_script(script);
        for (unsigned i = 0; i < SBX_BACKGROUND_ENDED_MAX + 3; i++) {
                begin("one", id);
                if (i == 0)
                        memcpy(first, id, sizeof(first));
                json_decref(wait_for("one", id, "completed"));
        }
        assert_not_found("one", "snipara_agent_status", first);
        json_decref(wait_for("one", id, "completed"));
}

static void refuses_bad_arguments(void **state) {
        struct sbx_tool_context context = {.principal = "one", .caller = SBX_CALLER_MODEL, .call = &world.call};
        json_t *result = call_tool("one", "snipara_agent_run", json_pack("{s:s}", "task", "  \n"));

        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
        result = call_tool("one", "snipara_agent_run", json_pack("{s:s, s:i}", "task", "x", "max_iterations", 51));
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
        result = call_tool("one", "snipara_agent_run", json_pack("{s:s, s:f}", "task", "x", "cost_limit", 10.5));
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
        /* A run does not begin others. */
        assert_int_equal(sbx_tools_call(world.tools, "snipara_agent_run", BYTES("{\"task\": \"x\"}"), &context,
                                        &(struct sbx_buffer)SBX_BUFFER(1024), NULL),
                         -EACCES);
}

/* Many clients at once, for the thread sanitizer. */
static void *client(void *data) {
        const char *principal = data;
        char id[SBX_RUN_ID_SIZE];

        for (unsigned i = 0; i < 5; i++) {
                begin(principal, id);
                json_decref(status_of(principal, id));
                json_decref(call_tool(principal, "snipara_agent_cancel", json_pack("{s:s}", "run_id", id)));
        }
        return NULL;
}

static void serves_clients_side_by_side(void **state) {
        static const char *const script[] = {AS_TEXT("a"), AS_TEXT("b"), AS_FINAL("c"), AS_TEXT("d"), NULL};
        static char one[] = "one", two[] = "two", three[] = "three";
        char *const principals[] = {one, two, three};
        pthread_t threads[3];

        world_script(script);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, client, principals[i]), 0);
        for (unsigned i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
        sbx_runs_stop(world.runs);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(runs_in_the_background, setup, teardown),
                cmocka_unit_test_setup_teardown(tells_a_failure, setup, teardown),
                cmocka_unit_test_setup_teardown(cancels, setup, teardown),
                cmocka_unit_test_setup_teardown(belongs_to_its_principal, setup, teardown),
                cmocka_unit_test_setup_teardown(has_a_maximum, setup, teardown),
                cmocka_unit_test_setup_teardown(keeps_the_last_ended, setup, teardown),
                cmocka_unit_test_setup_teardown(refuses_bad_arguments, setup, teardown),
                cmocka_unit_test_setup_teardown(serves_clients_side_by_side, setup, teardown),
        };

        return cmocka_run_group_tests_name("background", tests, scratch_setup, scratch_teardown);
}
