/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that go on with a copy of their guest when it is ended. Run under TSan too. */
#include "sessions.h"

/* A copy is made by another thread, once the session is quiet. */
static void wait_for_copies(unsigned count) {
        uint64_t deadline = sbx_clock_deadline_ms(30000);

        while (fake_guest_counts().forked < count && sbx_clock_ns() < deadline)
                pause_ms(5);
        assert_true(fake_guest_counts().forked >= count);
}

static void open_with_copies(struct table *table) {
        table_open(table, NULL);
        fake_registry_can_fork();
}

static void test_goes_on_after_a_crash(void **state) {
        struct table table;

        open_with_copies(&table);
        assert_int_equal(run(&table, "s", "name x"), 0);
        wait_for_copies(1);
        assert_int_equal(run(&table, "s", "crash"), 0);
        assert_int_equal(table.result->end, SBX_END_KILLED);
        assert_int_equal(table.result->state, SBX_STATE_ROLLED_BACK);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "2"); /* the copy had one, and the crash was the other guest's */
        assert_contains(table.result->notice, "Session 's' was rolled back to its checkpoint c1 (frozen process), the state after its "
                                              "execution 1: an earlier execution ended as 'killed'");
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_null(table.result->notice);
        table_close(&table);
}

static void test_goes_on_after_a_death_between(void **state) {
        struct table table;

        open_with_copies(&table);
        assert_int_equal(run(&table, "s", "ok"), 0);
        wait_for_copies(1);
        assert_int_equal(run(&table, "s", "die-after"), 0);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_contains(table.result->notice, "rolled back to its checkpoint c1 (frozen process), the state after its execution 1");
        assert_string_equal(table.result->value, "2");
        table_close(&table);
}

static void test_again_and_again(void **state) {
        struct table table;

        open_with_copies(&table);
        for (unsigned i = 0; i < 5; i++) {
                assert_int_equal(run(&table, "s", "ok"), 0);
                wait_for_copies(2 * i + 1);
                assert_int_equal(run(&table, "s", "crash"), 0);
                assert_int_equal(table.result->state, SBX_STATE_ROLLED_BACK);
                wait_for_copies(2 * i + 2); /* what it goes on with gets a checkpoint, too */
        }
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "6");
        table_close(&table);
}

static void test_lost_with_its_checkpoint(void **state) {
        struct table table;

        open_with_copies(&table);
        assert_int_equal(run(&table, "s", "name x"), 0);
        wait_for_copies(1);
        fake_guest_kill_all();
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "1");
        assert_contains(table.result->notice, "All its variables are gone");
        table_close(&table);
}

static void test_none_where_it_can_not_be(void **state) {
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "ok"), 0);
        pause_ms(100);
        assert_int_equal(run(&table, "s", "crash"), 0);
        assert_int_equal(table.result->state, SBX_STATE_LOST);
        assert_int_equal(fake_guest_counts().forked, 0);
        table_close(&table);
}

static void test_none_of_fresh_sessions(void **state) {
        struct table table;

        open_with_copies(&table);
        assert_int_equal(run(&table, "", "ok"), 0);
        assert_int_equal(run(&table, "s", "ok"), 0);
        wait_for_copies(1);
        assert_int_equal(fake_guest_counts().forked, 1);
        table_close(&table);
}

static void test_destroyed_with_its_checkpoint(void **state) {
        struct table table;

        open_with_copies(&table);
        assert_int_equal(run(&table, "s", "ok"), 0);
        wait_for_copies(1);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "s", &table.err), 0);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_string_equal(table.result->value, "1");
        table_close(&table);
}

/* The keeper takes turns among executions that leave it no quiet moment, and holds none of them up for long. */
static void test_while_many_execute(void **state) {
        struct table table;
        struct runner runners[8];

        open_with_copies(&table);
        for (unsigned round = 0; round < 20; round++) {
                memset(runners, 0, sizeof(runners));
                for (size_t i = 0; i < 8; i++)
                        runner_start(&runners[i], &table, i % 2 == 0 ? "a" : "b", i == 7 ? "crash" : "sleep 10");
                for (size_t i = 0; i < 8; i++) {
                        runner_join(&runners[i]);
                        assert_int_equal(runners[i].r, 0);
                        runner_free(&runners[i]);
                }
        }
        wait_for_copies(1);
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_goes_on_after_a_crash),
                cmocka_unit_test(test_goes_on_after_a_death_between),
                cmocka_unit_test(test_again_and_again),
                cmocka_unit_test(test_lost_with_its_checkpoint),
                cmocka_unit_test(test_none_where_it_can_not_be),
                cmocka_unit_test(test_none_of_fresh_sessions),
                cmocka_unit_test(test_destroyed_with_its_checkpoint),
                cmocka_unit_test(test_while_many_execute),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
