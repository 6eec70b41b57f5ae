/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions used by many threads: order, giving up, parallelism, and being destroyed meanwhile. Run under TSan too. */
#include "sessions.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void test_first_come_first_served(void **state) {
        struct table table;
        struct runner first = {0}, others[6] = {0};
        unsigned counter = 0;

        table_open(&table, NULL);
        first.counter = &counter;
        runner_start(&first, &table, "s", "sleep 300");
        wait_until_busy(&table, "s");
        for (size_t i = 0; i < 6; i++) {
                others[i].counter = &counter;
                runner_start(&others[i], &table, "s", "sleep 20");
                pause_ms(30);
        }
        runner_join(&first);
        assert_int_equal(first.order, 1);
        for (size_t i = 0; i < 6; i++) {
                runner_join(&others[i]);
                assert_int_equal(others[i].r, 0);
                assert_int_equal(others[i].order, i + 2);
                runner_free(&others[i]);
        }
        runner_free(&first);
        table_close(&table);
}

static void test_waiting_has_an_end(void **state) {
        struct table table;
        struct runner first = {0}, late = {0}, cancelled = {0}, patient = {0};

        table_open(&table, NULL);
        runner_start(&first, &table, "s", "sleep 400");
        wait_until_busy(&table, "s");
        late.call = (struct sbx_call){
                .struct_size = sizeof(struct sbx_call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(100)};
        runner_start(&late, &table, "s", "ok");
        cancelled.call =
                (struct sbx_call){.struct_size = sizeof(struct sbx_call), .cancel_fd = eventfd(0, EFD_CLOEXEC)};
        runner_start(&cancelled, &table, "s", "ok");
        runner_start(&patient, &table, "s", "ok");
        pause_ms(50);
        assert_int_equal(eventfd_write(cancelled.call.cancel_fd, 1), 0);
        runner_join(&cancelled);
        assert_int_equal(cancelled.r, -ECANCELED);
        assert_contains(cancelled.err.message, "nothing was run");
        runner_join(&late);
        assert_int_equal(late.r, -ETIMEDOUT);
        assert_contains(late.err.message, "busy");
        runner_join(&patient);
        assert_int_equal(patient.r, 0);
        assert_string_equal(patient.result->value, "2");
        runner_join(&first);
        close(cancelled.call.cancel_fd);
        runner_free(&first);
        runner_free(&patient);
        table_close(&table);
}

static void test_sessions_run_in_parallel(void **state) {
        struct table table;
        struct runner runners[8] = {0};
        uint64_t begin = sbx_clock_ns();

        table_open(&table, NULL);
        for (size_t i = 0; i < 8; i++) {
                char id[2] = {(char)('a' + i), '\0'};

                runner_start(&runners[i], &table, strdup(id), "sleep 500");
        }
        for (size_t i = 0; i < 8; i++) {
                runner_join(&runners[i]);
                assert_int_equal(runners[i].r, 0);
                runner_free(&runners[i]);
                free((char *)runners[i].execution.session_id);
        }
        assert_true(sbx_clock_ns() - begin < 3000 * SBX_NS_PER_MS); /* one after another: 4 s */
        table_close(&table);
}

static void test_cancelling_an_execution(void **state) {
        struct table table;
        struct runner runner = {0};

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "name x"), 0);
        runner.call = (struct sbx_call){.struct_size = sizeof(struct sbx_call), .cancel_fd = eventfd(0, EFD_CLOEXEC)};
        runner_start(&runner, &table, "s", "sleep 20000");
        wait_until_busy(&table, "s");
        assert_int_equal(eventfd_write(runner.call.cancel_fd, 1), 0);
        runner_join(&runner);
        assert_int_equal(runner.r, 0);
        assert_int_equal(runner.result->end, SBX_END_CANCELLED);
        assert_int_equal(runner.result->state, SBX_STATE_KEPT);
        close(runner.call.cancel_fd);
        assert_int_equal(run(&table, "s", "ok"), 0); /* the descriptor that was closed is not watched any more */
        assert_string_equal(table.result->value, "3");
        runner_free(&runner);
        table_close(&table);
}

static void test_destroying_a_busy_session(void **state) {
        struct table table;
        struct runner busy = {0}, waiting = {0};
        uint64_t begin;

        table_open(&table, NULL);
        busy.call = (struct sbx_call){.struct_size = sizeof(struct sbx_call), .cancel_fd = eventfd(0, EFD_CLOEXEC)};
        runner_start(&busy, &table, "s", "sleep 20000");
        wait_until_busy(&table, "s");
        runner_start(&waiting, &table, "s", "ok");
        pause_ms(50);
        begin = sbx_clock_ns();
        assert_int_equal(sbx_sessions_destroy(table.sessions, NULL, "s", &table.err), 0);
        assert_true(sbx_clock_ns() - begin < 1000 * SBX_NS_PER_MS);
        assert_int_equal(run(&table, "s", "ok"), 0); /* a clean one at once */
        assert_string_equal(table.result->value, "1");
        runner_join(&busy);
        assert_int_equal(busy.r, 0);
        assert_int_equal(busy.result->end, SBX_END_CANCELLED);
        runner_join(&waiting);
        assert_int_equal(waiting.r, -ECANCELED);
        assert_contains(waiting.err.message, "destroyed");
        close(busy.call.cancel_fd);
        runner_free(&busy);
        table_close(&table);
}

static void test_listing_does_not_wait(void **state) {
        struct table table;
        struct runner busy = {0};
        uint64_t begin;

        table_open(&table, NULL);
        runner_start(&busy, &table, "s", "sleep 700");
        wait_until_busy(&table, "s");
        begin = sbx_clock_ns();
        for (unsigned i = 0; i < 100; i++)
                json_decref(list_of(&table, ""));
        assert_true(sbx_clock_ns() - begin < 600 * SBX_NS_PER_MS);
        runner_join(&busy);
        runner_free(&busy);
        table_close(&table);
}

/* ---- everything at once ---- */

#define HAMMERS 8
#define BLOWS 400

struct hammer {
        struct table *table;
        pthread_t thread;
        unsigned seed;
        bool unexpected;
};

static int strike(struct hammer *hammer) {
        static const char *const ids[] = {"a", "b", "c", ""};
        static const char *const codes[] = {"ok", "ok", "name x", "crash", "die-after", "sleep 1"};
        struct sbx_sessions *sessions = hammer->table->sessions;
        const char *id = ids[rand_r(&hammer->seed) % 4];
        struct sbx_execution execution = execution_of(id, codes[rand_r(&hammer->seed) % 6]);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_result *result = NULL;
        json_t *json = NULL;
        int r;

        switch (rand_r(&hammer->seed) % 8) {
        case 0:
                return sbx_sessions_destroy(sessions, NULL, id, NULL);
        case 1:
                r = sbx_sessions_list(sessions, NULL, &json, NULL);
                json_decref(json);
                return r;
        case 2:
                r = sbx_sessions_get(sessions, NULL, id, NULL, &json, NULL);
                json_decref(json);
                return r;
        case 3:
                call.deadline_ns = sbx_clock_ns() + 100000;
                r = sbx_sessions_execute(sessions, &execution, &call, &result, NULL);
                break;
        default:
                r = sbx_sessions_execute(sessions, &execution, NULL, &result, NULL);
                break;
        }
        sbx_result_free(result);
        return r;
}

static void *hammer_run(void *data) {
        struct hammer *hammer = data;

        for (unsigned i = 0; i < BLOWS; i++) {
                int r = strike(hammer);

                if (r != 0 && r != -ENOENT && r != -ECANCELED && r != -ETIMEDOUT && r != -ESTALE && r != -EBUSY)
                        hammer->unexpected = true;
        }
        return NULL;
}

static void test_hammer(void **state) {
        struct table table;
        struct hammer hammers[HAMMERS] = {0};

        table_open(&table, (const char *const[]){"session_ttl=2ms", NULL});
        for (unsigned i = 0; i < HAMMERS; i++) {
                hammers[i] = (struct hammer){.table = &table, .seed = i + 1};
                assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]), 0);
        }
        for (unsigned i = 0; i < HAMMERS; i++) {
                assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
                assert_false(hammers[i].unexpected);
        }
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_come_first_served),
                cmocka_unit_test(test_waiting_has_an_end),
                cmocka_unit_test(test_sessions_run_in_parallel),
                cmocka_unit_test(test_cancelling_an_execution),
                cmocka_unit_test(test_destroying_a_busy_session),
                cmocka_unit_test(test_listing_does_not_wait),
                cmocka_unit_test(test_hammer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
