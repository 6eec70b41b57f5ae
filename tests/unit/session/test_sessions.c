/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions one call at a time: what they keep, whose they are, their limits, and what happens when a guest dies. */
#include "sessions.h"

static void test_profiles(void **state) {
        const struct sbx_profile *profile = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_profile_find(NULL, &profile, &err), 0);
        assert_string_equal(profile->name, "default");
        assert_int_equal(profile->timeout_ms, 30000);
        assert_int_equal(profile->memory_bytes, UINT64_C(512) << 20);
        assert_int_equal(sbx_profile_find("extended", &profile, &err), 0);
        assert_int_equal(profile->timeout_ms, 300000);
        assert_int_equal(sbx_profile_find("fast", &profile, &err), -ENOENT);
        assert_contains(err.message, "'fast'");
        assert_contains(err.message, "quick, default, analysis, extended");
        assert_string_equal(sbx_profile_at(0)->name, "quick");
        assert_null(sbx_profile_at(4));
}

static void test_session_is_kept(void **state) {
        struct table table;
        _cleanup_json_ json_t *list = NULL;

        table_open(&table, NULL);
        assert_int_equal(run(&table, NULL, "name x"), 0);
        assert_string_equal(table.result->session_id, "default");
        assert_int_equal(run(&table, "default", "ok"), 0);
        assert_string_equal(table.result->value, "2");
        assert_int_equal(fake_guest_counts().started, 1);
        list = list_of(&table, "");
        assert_int_equal(json_array_size(list), 1);
        assert_string_equal(
                json_string_value(json_array_get(json_object_get(json_array_get(list, 0), "context_keys"), 0)), "x");
        assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "executions")), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "isolation")), "fake");
        table_close(&table);
}

static void test_list_order(void **state) {
        static const char *const ids[] = {"zebra", "default", "apple", "Mango"};
        static const char *const sorted[] = {"default", "Mango", "apple", "zebra"};
        struct table table;
        _cleanup_json_ json_t *list = NULL, *empty = NULL;

        table_open(&table, NULL);
        empty = list_of(&table, "");
        assert_int_equal(json_array_size(empty), 1); /* the default session is there before its first use */
        assert_true(json_is_null(json_object_get(json_array_get(empty, 0), "isolation")));
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(run(&table, ids[i], "ok"), 0);
        list = list_of(&table, "");
        assert_int_equal(json_array_size(list), 4);
        for (size_t i = 0; i < 4; i++)
                assert_string_equal(json_string_value(json_object_get(json_array_get(list, i), "id")), sorted[i]);
        table_close(&table);
}

static void test_principals_are_apart(void **state) {
        struct table table;
        struct sbx_execution execution = execution_of("shared", "name secret");
        _cleanup_json_ json_t *variables = NULL, *list = NULL;

        table_open(&table, NULL);
        execution.principal = "alice";
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "bob", "shared", &table.err), -ENOENT);
        list = list_of(&table, "bob");
        assert_int_equal(json_array_size(list), 1);
        assert_int_equal(sbx_sessions_get(table.sessions, "bob", "shared", NULL, &variables, &table.err), 0);
        assert_int_equal(json_object_size(variables), 0);
        assert_int_equal(fake_guest_counts().started, 2);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "alice", "shared", NULL), 0);
        table_close(&table);
}

static void test_environment_is_bound(void **state) {
        struct table table;
        struct sbx_execution execution = execution_of("s", "ok");

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "ok"), 0);
        execution.environment = "other";
        assert_int_equal(run_with(&table, &execution, NULL), -EINVAL);
        assert_contains(table.err.message, "'local'");
        assert_contains(table.err.message, "'other'");
        execution.environment = "local";
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        execution.session_id = "t";
        execution.environment = "nowhere";
        assert_int_equal(run_with(&table, &execution, NULL), -ENOENT);
        assert_contains(table.err.hint, "local, other");
        table_close(&table);
}

static void test_trust_level_docker(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"trust_level=docker", NULL});
        assert_int_equal(run(&table, NULL, "ok"), -EINVAL);
        assert_contains(table.err.message, "trust_level");
        fake_registry_plugin("backend-docker");
        assert_int_equal(run(&table, NULL, "ok"), 0);
        table_close(&table);
}

static void test_fresh_sessions(void **state) {
        struct table table;
        _cleanup_json_ json_t *list = NULL;

        table_open(&table, (const char *const[]){"max_sessions=2", NULL});
        for (unsigned i = 0; i < 50; i++) {
                assert_int_equal(run(&table, "", "ok"), 0);
                assert_string_equal(table.result->value, "1");
        }
        assert_int_equal(fake_guest_counts().started, 50);
        list = list_of(&table, "");
        assert_int_equal(json_array_size(list), 1);
        table_close(&table);
}

static void test_cap(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"max_sessions=2", NULL});
        assert_int_equal(run(&table, "a", "ok"), 0);
        assert_int_equal(run(&table, "b", "ok"), 0);
        assert_int_equal(run(&table, "c", "ok"), -EBUSY);
        assert_contains(table.err.message, "2 sessions");
        assert_contains(table.err.hint, "max_sessions");
        assert_int_equal(run(&table, "", "ok"), -EBUSY);
        assert_int_equal(run(&table, "a", "ok"), 0);
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, "b", NULL), 0);
        assert_int_equal(run(&table, "c", "ok"), 0);
        table_close(&table);
}

static void test_bad_arguments(void **state) {
        struct table table;
        struct sbx_execution execution = execution_of(NULL, "ok");
        char long_id[SBX_SESSION_ID_MAX + 2];

        table_open(&table, NULL);
        memset(long_id, 'a', sizeof(long_id) - 1);
        long_id[sizeof(long_id) - 1] = '\0';
        assert_int_equal(run(&table, long_id, "ok"), -EINVAL);
        assert_int_equal(run(&table, "a b", "ok"), -EINVAL);
        assert_contains(table.err.message, "character 2");
        assert_int_equal(run(&table, "../x", "ok"), -EINVAL);
        execution.timeout_ms = 600001;
        assert_int_equal(run_with(&table, &execution, NULL), -EINVAL);
        assert_contains(table.err.hint, "600");
        execution.timeout_ms = 0;
        execution.profile = "huge";
        assert_int_equal(run_with(&table, &execution, NULL), -ENOENT);
        execution.profile = NULL;
        execution.code.size = SBX_CODE_MAX_BYTES + 1;
        assert_int_equal(run_with(&table, &execution, NULL), -EINVAL);
        execution = execution_of(NULL, "ok");
        execution.filename = "\xff";
        assert_int_equal(run_with(&table, &execution, NULL), -EINVAL);
        assert_int_equal(fake_guest_counts().started, 0);
        table_close(&table);
}

static void test_timeouts(void **state) {
        struct table table;
        struct sbx_execution execution = execution_of(NULL, "ok");

        table_open(&table, NULL);
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(fake_guest_counts().last_timeout_ms, 30000);
        execution.profile = "quick";
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(fake_guest_counts().last_timeout_ms, 5000);
        execution.timeout_ms = 600000;
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(fake_guest_counts().last_timeout_ms, 600000);
        table_close(&table);

        table_open(&table, (const char *const[]){"exec_timeout=7s", NULL});
        execution = execution_of(NULL, "ok");
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(fake_guest_counts().last_timeout_ms, 7000);
        execution.profile = "analysis";
        assert_int_equal(run_with(&table, &execution, NULL), 0);
        assert_int_equal(fake_guest_counts().last_timeout_ms, 120000);
        table_close(&table);
}

static int run_profile(struct table *table, const char *profile, const char *code) {
        struct sbx_execution execution = execution_of(NULL, code);

        execution.profile = profile;
        return run_with(table, &execution, NULL);
}

static void test_memory_limits(void **state) {
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(run_profile(&table, "default", "ok"), 0);
        assert_int_equal(fake_guest_counts().last_start_memory_bytes, UINT64_C(512) << 20);
        assert_int_equal(fake_guest_counts().last_soft_bytes, UINT64_C(480) << 20);
        assert_int_equal(fake_guest_counts().limits_set, 0);
        assert_int_equal(run_profile(&table, "analysis", "peak 100"), 0);
        assert_int_equal(fake_guest_counts().limits_set, 1);
        assert_int_equal(fake_guest_counts().last_limit_bytes, UINT64_C(2) << 30);
        /* It never held more than 100 MiB: 512 can't hurt, 128 might. */
        assert_int_equal(run_profile(&table, "default", "ok"), 0);
        assert_int_equal(fake_guest_counts().last_limit_bytes, UINT64_C(512) << 20);
        assert_int_equal(run_profile(&table, "quick", "ok"), 0);
        assert_int_equal(fake_guest_counts().limits_set, 2);
        assert_int_equal(fake_guest_counts().last_soft_bytes, UINT64_C(120) << 20);
        fake_guest_limit_answer(-ENOTSUP);
        assert_int_equal(run_profile(&table, "extended", "ok"), 0);
        fake_guest_limit_answer(-EIO);
        assert_int_equal(run_profile(&table, "extended", "ok"), -EIO);
        table_close(&table);
}

static void test_memory_of_the_backend(void **state) {
        struct table table;

        table_open(&table, NULL);
        fake_registry_memory_max(INT64_C(256) << 20);
        assert_int_equal(run_profile(&table, "extended", "ok"), 0);
        assert_int_equal(fake_guest_counts().last_soft_bytes, UINT64_C(240) << 20);
        assert_int_equal(run_profile(&table, "quick", "ok"), 0);
        assert_int_equal(fake_guest_counts().last_soft_bytes, UINT64_C(120) << 20);
        table_close(&table);
}

static void test_death_is_told_once(void **state) {
        struct table table;
        _cleanup_json_ json_t *list = NULL;

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "name x"), 0);
        assert_int_equal(run(&table, "s", "crash"), 0);
        assert_int_equal(table.result->end, SBX_END_KILLED);
        assert_int_equal(table.result->state, SBX_STATE_LOST);
        assert_null(table.result->notice);
        list = list_of(&table, "");
        assert_int_equal(json_array_size(json_object_get(json_array_get(list, 1), "context_keys")), 0);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "1");
        assert_contains(table.result->notice, "'s' was restarted");
        assert_contains(table.result->notice, "killed");
        assert_contains(table.result->notice, "variables are gone");
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_null(table.result->notice);
        table_close(&table);
}

static void test_death_while_idle(void **state) {
        struct table table;
        _cleanup_json_ json_t *variables = NULL;

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "die-after"), 0);
        assert_int_equal(table.result->state, SBX_STATE_LOST);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_non_null(table.result->notice);
        fake_guest_kill_all();
        /* Reading variables starts a clean guest; the notice waits for the next result. */
        assert_int_equal(sbx_sessions_get(table.sessions, NULL, "s", NULL, &variables, &table.err), 0);
        assert_int_equal(json_object_size(variables), 0);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_contains(table.result->notice, "while nothing was executed");
        table_close(&table);
}

static void test_vanished_guest(void **state) {
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "vanish"), 0);
        assert_int_equal(fake_guest_counts().started, 2);
        assert_string_equal(table.result->value, "1");
        assert_non_null(table.result->notice);
        table_close(&table);
}

static void test_start_that_fails(void **state) {
        struct table table;
        _cleanup_json_ json_t *list = NULL;

        table_open(&table, (const char *const[]){"max_sessions=1", NULL});
        fake_guest_fail_starts(-ENOTSUP);
        assert_int_equal(run(&table, "s", "ok"), -ENOTSUP);
        assert_contains(table.err.message, "environment 'local'");
        assert_contains(table.err.message, "can't start");
        assert_string_equal(table.err.hint, "Mend it.");
        list = list_of(&table, "");
        assert_int_equal(json_array_size(list), 1); /* nothing but the default, which is always there */
        fake_guest_fail_starts(0);
        assert_int_equal(run(&table, "t", "ok"), 0);
        table_close(&table);
}

static void test_variables(void **state) {
        struct table table;
        _cleanup_json_ json_t *variables = NULL, *value = json_integer(5);
        struct sbx_bytes report = {0};
        char *repr = NULL;

        table_open(&table, NULL);
        assert_int_equal(sbx_sessions_set(table.sessions, NULL, NULL, "x", value, NULL, &repr, &table.err), 0);
        assert_string_equal(repr, "5");
        assert_int_equal(fake_guest_counts().last_start_memory_bytes, UINT64_C(512) << 20);
        assert_int_equal(sbx_sessions_get(table.sessions, NULL, NULL, NULL, &variables, &table.err), 0);
        assert_non_null(json_object_get(variables, "x"));
        assert_int_equal(sbx_sessions_clear(table.sessions, NULL, NULL, NULL, &table.err), 0);
        assert_int_equal(sbx_sessions_report(table.sessions, NULL, NULL, NULL, &report, &table.err), 0);
        assert_contains((const char *)report.data, "fake");
        assert_int_equal(fake_guest_counts().limits_set, 0);
        free(repr);
        free((void *)report.data);
        table_close(&table);
}

static void test_destroy(void **state) {
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, "none", &table.err), -ENOENT);
        assert_contains(table.err.message, "'none' not found");
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, NULL, NULL), 0);
        assert_int_equal(run(&table, NULL, "ok"), 0);
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, "default", NULL), 0);
        assert_int_equal(fake_guest_counts().alive, 0);
        assert_int_equal(run(&table, NULL, "ok"), 0);
        assert_string_equal(table.result->value, "1");
        assert_null(table.result->notice);
        table_close(&table);
}

static void test_destroy_all(void **state) {
        struct table table;
        struct runner runner = {0};

        table_open(&table, (const char *const[]){"session_ttl=150ms", NULL});
        for (unsigned i = 0; i < 20; i++) {
                struct sbx_execution execution = execution_of(NULL, "ok");
                char id[16];

                snprintf(id, sizeof(id), "s%u", i / 2);
                execution.session_id = i < 2 ? NULL : id;
                execution.principal = i % 2 == 0 ? "run:1" : "run:1/2";
                assert_int_equal(run_with(&table, &execution, NULL), 0);
        }
        assert_int_equal(fake_guest_counts().alive, 20);
        sbx_sessions_destroy_all(table.sessions, "run:1");
        assert_true(fake_guest_counts().alive <= 10);
        for (unsigned i = 0; i < 200 && fake_guest_counts().alive > 1; i++)
                pause_ms(10);
        assert_int_equal(fake_guest_counts().alive, 1);      /* the other's default session: the rest has expired */
        sbx_sessions_destroy_all(table.sessions, "run:1/2"); /* and so are the memories of it */
        assert_int_equal(fake_guest_counts().alive, 0);
        {
                struct sbx_execution execution = execution_of("s2", "ok");

                execution.principal = "run:1/2";
                assert_int_equal(run_with(&table, &execution, NULL), 0);
        }
        sbx_sessions_destroy_all(table.sessions, "run:1/2");
        sbx_sessions_destroy_all(table.sessions, "nobody");
        runner_start(&runner, &table, "busy", "sleep 60000");
        wait_until_busy(&table, "busy");
        sbx_sessions_destroy_all(table.sessions, NULL);
        runner_join(&runner);
        assert_int_equal(runner.r, 0);
        assert_int_equal(runner.result->end, SBX_END_CANCELLED);
        runner_free(&runner);
        table_close(&table);
}

struct answers {
        struct table *table;
        unsigned count;
        int r; /* of a call into another session */
};

static int answer(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                  struct sbx_buffer *result, struct sbx_error *err) {
        struct answers *answers = data;

        answers->count++;
        if (strcmp(name, "other") == 0) { /* what a sub-completion does: sessions of a principal of its own */
                struct sbx_execution execution = execution_of(NULL, "ok");
                struct sbx_result *inner = NULL;

                execution.principal = "run:1/c1";
                answers->r = sbx_sessions_execute(answers->table->sessions, &execution, call, &inner, err);
                sbx_result_free(inner);
        } else if (strcmp(name, "own") == 0) { /* whose turn is taken: it waits until it is cancelled */
                struct sbx_execution execution = execution_of("s", "ok");
                struct sbx_result *inner = NULL;

                answers->r = sbx_sessions_execute(answers->table->sessions, &execution, call, &inner, err);
                return answers->r;
        }
        return sbx_buffer_append_text(result, "5");
}

static void test_calls_back(void **state) {
        struct table table;
        struct answers answers = {.table = &table};
        const struct sbx_code_calls calls = {.data = &answers, .answer = answer};
        struct sbx_execution execution = execution_of("s", "call x");
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};

        table_open(&table, NULL);
        assert_int_equal(sbx_sessions_execute_with(table.sessions, &execution, &calls, NULL, &table.result, &table.err),
                         0);
        assert_string_equal(table.result->result, "5");
        assert_int_equal(run(&table, "s", "call x"), 0); /* not asked for: not there */
        assert_int_equal(table.result->end, SBX_END_ERROR);
        assert_int_equal(answers.count, 1);
        execution.code = BYTES("call other");
        sbx_result_free(table.result);
        table.result = NULL;
        assert_int_equal(sbx_sessions_execute_with(table.sessions, &execution, &calls, NULL, &table.result, &table.err),
                         0);
        assert_int_equal(answers.r, 0);
        execution.code = BYTES("call own");
        call.deadline_ns = sbx_clock_deadline_ms(100);
        sbx_result_free(table.result);
        table.result = NULL;
        assert_int_equal(
                sbx_sessions_execute_with(table.sessions, &execution, &calls, &call, &table.result, &table.err), 0);
        assert_int_equal(answers.r, -ETIMEDOUT);
        table_close(&table);
}

static void test_expiry(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"session_ttl=150ms", NULL});
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_int_equal(run(&table, NULL, "ok"), 0);
        for (unsigned i = 0; i < 200 && fake_guest_counts().alive > 1; i++)
                pause_ms(10);
        assert_int_equal(fake_guest_counts().alive, 1); /* the default session never expires */
        assert_int_equal(run(&table, "s", "ok"), -ESTALE);
        assert_contains(table.err.message, "expired");
        assert_contains(table.err.message, "nothing was run");
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "1");
        assert_int_equal(run(&table, NULL, "ok"), 0);
        assert_string_equal(table.result->value, "2");
        table_close(&table);
}

static void test_use_keeps_alive(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"session_ttl=300ms", NULL});
        for (unsigned i = 0; i < 6; i++) {
                assert_int_equal(run(&table, "s", "ok"), 0);
                pause_ms(100);
        }
        assert_int_equal(run(&table, "s", "sleep 600"), 0); /* nor does a busy one expire */
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "8");
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_profiles),
                cmocka_unit_test(test_session_is_kept),
                cmocka_unit_test(test_list_order),
                cmocka_unit_test(test_principals_are_apart),
                cmocka_unit_test(test_environment_is_bound),
                cmocka_unit_test(test_trust_level_docker),
                cmocka_unit_test(test_fresh_sessions),
                cmocka_unit_test(test_cap),
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_timeouts),
                cmocka_unit_test(test_memory_limits),
                cmocka_unit_test(test_memory_of_the_backend),
                cmocka_unit_test(test_death_is_told_once),
                cmocka_unit_test(test_death_while_idle),
                cmocka_unit_test(test_vanished_guest),
                cmocka_unit_test(test_start_that_fails),
                cmocka_unit_test(test_variables),
                cmocka_unit_test(test_destroy),
                cmocka_unit_test(test_destroy_all),
                cmocka_unit_test(test_calls_back),
                cmocka_unit_test(test_expiry),
                cmocka_unit_test(test_use_keeps_alive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
