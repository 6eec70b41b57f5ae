/* SPDX-License-Identifier: Apache-2.0 */
/* Clients beside each other: what one has is not there for another, and one can't take the sessions of all. What is
 * counted meanwhile, and the warm-up. */
#include "sessions.h"

#include "base/metrics.h"

static int run_as(struct table *table, const char *principal, const char *id, const char *code) {
        struct sbx_execution execution = execution_of(id, code);

        execution.principal = principal;
        return run_with(table, &execution, NULL);
}

static void test_cap_of_one(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"max_sessions=5", "max_sessions_per_principal=2", NULL});
        assert_int_equal(run_as(&table, "one", "a", "ok"), 0);
        assert_int_equal(run_as(&table, "one", "b", "ok"), 0);
        assert_int_equal(run_as(&table, "one", "c", "ok"), -EBUSY);
        assert_string_equal(table.err.message, "you have 2 sessions, which is the maximum for one client");
        assert_contains(table.err.hint, "destroy_session");
        assert_contains(table.err.hint, "max_sessions_per_principal");
        assert_int_equal(run_as(&table, "one", "", "ok"), -EBUSY); /* nor for one call */
        assert_int_equal(run_as(&table, "one", "a", "ok"), 0);     /* what it has it has */
        assert_int_equal(run_as(&table, "two", "a", "ok"), 0);
        assert_int_equal(run_as(&table, "", "a", "ok"), 0);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "one", "b", NULL), 0);
        assert_int_equal(run_as(&table, "one", "c", "ok"), 0);
        assert_int_equal(run_as(&table, "two", "b", "ok"), 0);
        assert_int_equal(run_as(&table, "three", "a", "ok"), -EBUSY); /* the maximum of all is one as well */
        assert_contains(table.err.message, "5 sessions are active");
        table_close(&table);
}

static void test_no_cap_of_one(void **state) {
        struct table table;
        char id[16];

        table_open(&table, (const char *const[]){"max_sessions=20", NULL});
        for (unsigned i = 0; i < 20; i++) {
                snprintf(id, sizeof(id), "s%u", i);
                assert_int_equal(run_as(&table, "one", id, "ok"), 0);
        }
        sbx_sessions_destroy_all(table.sessions, "one");
        assert_int_equal(run_as(&table, "two", "a", "ok"), 0);
        table_close(&table);
}

/* A session that was refused, or whose guest could not be started, is in no count. */
static void test_cap_counts_what_is(void **state) {
        struct table table;

        table_open(&table, (const char *const[]){"max_sessions_per_principal=1", NULL});
        for (unsigned i = 0; i < 3; i++) {
                fake_guest_fail_starts(-EIO);
                assert_int_equal(run_as(&table, "one", "a", "ok"), -EIO);
                assert_int_equal(run_as(&table, "one", "", "ok"), -EIO);
                fake_guest_fail_starts(0);
                assert_int_equal(run_as(&table, "one", "", "ok"), 0);
        }
        assert_int_equal(run_as(&table, "one", "a", "ok"), 0);
        table_close(&table);
}

/* Every operation that names a session, by another than its owner: as if it did not exist. */
static void test_others_are_not_there(void **state) {
        static const char *const others[] = {"two", "", "one ", "on", "oneone"};
        struct table table;
        char name[SBX_ARTIFACT_NAME_SIZE], *mime_type = NULL;

        table_open(&table, NULL);
        assert_int_equal(run_as(&table, "one", "s", "name secret"), 0);
        assert_int_equal(sbx_sessions_artifact_add(table.sessions, "one", "s", "plot", ".png", "image/png",
                                                   BYTES("png"), name, NULL),
                         0);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1024);
                _cleanup_json_ json_t *list = list_of(&table, others[i]), *artifacts = NULL;

                assert_int_equal(json_array_size(list), 1); /* "default", which everybody has */
                assert_int_equal(sbx_sessions_destroy(table.sessions, others[i], "s", NULL), -ENOENT);
                assert_int_equal(sbx_sessions_artifact_list(table.sessions, others[i], "s", &artifacts, NULL), -ENOENT);
                assert_int_equal(
                        sbx_sessions_artifact_read(table.sessions, others[i], "s", name, &out, &mime_type, NULL),
                        -ENOENT);
                assert_int_equal(sbx_sessions_artifact_add(table.sessions, others[i], "s", "plot", ".png", "image/png",
                                                           BYTES("png"), name, NULL),
                                 -ENOENT);
                sbx_sessions_destroy_all(table.sessions, others[i]);
        }
        /* The same id is another session, without its variables, files and artifacts. */
        {
                _cleanup_json_ json_t *variables = NULL, *artifacts = NULL;

                assert_int_equal(sbx_sessions_get(table.sessions, "two", "s", NULL, &variables, NULL), 0);
                assert_null(json_object_get(variables, "secret"));
                assert_int_equal(sbx_sessions_clear(table.sessions, "two", "s", NULL, NULL), 0);
                if (sbx_sessions_artifact_list(table.sessions, "two", "s", &artifacts, NULL) == 0)
                        assert_int_equal(json_array_size(artifacts), 0);
                assert_int_equal(sbx_sessions_destroy(table.sessions, "two", "s", NULL), 0);
        }
        {
                _cleanup_json_ json_t *list = list_of(&table, "one"), *artifacts = NULL;

                assert_int_equal(json_array_size(list), 2);
                assert_int_equal(sbx_sessions_artifact_list(table.sessions, "one", "s", &artifacts, NULL), 0);
                assert_int_equal(json_array_size(artifacts), 1);
                assert_int_equal(run_as(&table, "one", "s", "ok"), 0);
                assert_string_equal(table.result->value, "2"); /* the same guest as before */
        }
        table_close(&table);
}

/* ---- figures ---- */

static void test_figures(void **state) {
        struct sbx_session_figures figures;
        struct runner runner = {0};
        struct table table;

        table_open(&table, NULL);
        sbx_sessions_figures(table.sessions, &figures);
        assert_int_equal(figures.sessions + figures.busy + figures.principals + figures.pool_size, 0);
        assert_int_equal(run_as(&table, "one", "a", "ok"), 0);
        assert_int_equal(run_as(&table, "one", "b", "ok"), 0);
        runner_start(&runner, &table, "c", "sleep 60000");
        wait_until_busy(&table, "c");
        sbx_sessions_figures(table.sessions, &figures);
        assert_int_equal(figures.sessions, 3);
        assert_int_equal(figures.busy, 1);
        assert_int_equal(figures.principals, 2);
        assert_int_equal(figures.pool_size, 2);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "c", NULL), 0);
        runner_join(&runner);
        runner_free(&runner);
        sbx_sessions_destroy_all(table.sessions, "one");
        sbx_sessions_figures(table.sessions, &figures);
        assert_int_equal(figures.sessions, 0);
        assert_int_equal(figures.principals, 0);
        table_close(&table);
}

static uint64_t observed(const struct sbx_histogram *histogram) {
        uint64_t count = 0;

        for (size_t i = 0; i <= SBX_METRIC_BUCKETS; i++)
                count += histogram->buckets[i];
        return count;
}

static void test_measures(void **state) {
        struct sbx_metrics metrics = {0};
        struct table table;

        table_open(&table, (const char *const[]){"max_sessions=1", NULL});
        sbx_sessions_measure(table.sessions, &metrics);
        assert_int_equal(run(&table, "a", "ok"), 0);
        assert_int_equal(run(&table, "a", "crash"), 0);
        assert_int_equal(run(&table, "a", "ok"), 0); /* a new guest, and the same session */
        assert_int_equal(run(&table, "b", "ok"), -EBUSY);
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, "a", NULL), 0);
        assert_int_equal(run(&table, "", "ok"), 0);
        assert_int_equal(metrics.executions[SBX_END_OK], 3);
        assert_int_equal(metrics.executions[SBX_END_KILLED], 1);
        assert_int_equal(observed(&metrics.execution_seconds), 4);
        assert_int_equal(metrics.sessions_started, 2);
        assert_int_equal(metrics.sessions_ended, 2);
        assert_int_equal(metrics.sessions_refused, 1);
        assert_int_equal(observed(&metrics.session_seconds), 2);
        table_close(&table);
}

/* ---- the warm-up ---- */

static void test_warm(void **state) {
        struct table table;

        for (unsigned i = 0; i < 50; i++) {
                struct sbx_error err = {0};

                table_open(&table, NULL);
                assert_int_equal(sbx_sessions_ready(table.sessions, &err), -EAGAIN);
                assert_contains(err.message, "not started yet");
                sbx_sessions_warm(table.sessions);
                sbx_sessions_warm(table.sessions);
                for (unsigned ms = 0; i % 2 == 0 && sbx_sessions_ready(table.sessions, NULL) != 0; ms++) {
                        assert_true(ms < 60000);
                        pause_ms(1);
                }
                if (i % 5 == 0)
                        assert_int_equal(run(&table, NULL, "ok"), 0); /* beside it, or after it */
                table_close(&table);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cap_of_one),
                cmocka_unit_test(test_no_cap_of_one),
                cmocka_unit_test(test_cap_counts_what_is),
                cmocka_unit_test(test_others_are_not_there),
                cmocka_unit_test(test_figures),
                cmocka_unit_test(test_measures),
                cmocka_unit_test(test_warm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
