/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: ready guests, a lazy thread, failures, many takers. Run under TSan too. */
#include "../test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest/pool.h"
#include "plain_backend.h"

static const struct sbx_guest_spec plain_spec = {
        .struct_size = sizeof(plain_spec), .label = "test", .runtime = "python"};

static void wait_for(const atomic_int *counter, int value) {
        for (int i = 0; i < 20000 && atomic_load(counter) < value; i++)
                usleep(1000);
        assert_true(atomic_load(counter) >= value);
}

/* Until `executions` have ended, warm-ups among them, and what follows a warm-up has had its time. */
static void wait_for_warm(struct plain_backend *backend, int executions) {
        wait_for(&backend->measured, 2 * executions);
        usleep(300 * 1000);
}

static const struct sbx_pool_runtime python = {.family = "python"};

static struct sbx_pool *new_pool(struct plain_backend *backend, unsigned size) {
        static const struct sbx_logger silent = {.level = 0};
        struct sbx_pool *pool = NULL;

        plain_backend_init(backend);
        assert_int_equal(sbx_pool_new(&backend->instance, &python, &silent, size, &pool, NULL), 0);
        return pool;
}

static struct sbx_guest_process *take(struct sbx_pool *pool, const struct sbx_guest_spec *spec) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        if (sbx_pool_take(pool, spec, NULL, &guest, &err) < 0)
                fail_msg("%s", err.message);
        return guest;
}

static void check_value(struct sbx_guest_process *guest, const char *code, const char *value) {
        struct sbx_guest_execution execution = {.code = {code, strlen(code)}, .output_max_bytes = 1000};
        struct sbx_result *result = NULL;

        assert_int_equal(sbx_guest_execute(guest, &execution, NULL, &result, NULL), 0);
        assert_int_equal(result->end, SBX_END_OK);
        assert_string_equal(result->value, value);
        sbx_result_free(result);
}

static void without_a_pool(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 0);
        struct sbx_guest_process *guest = take(pool, &plain_spec);

        check_value(guest, "1 + 1", "2");
        usleep(100 * 1000);
        assert_int_equal(atomic_load(&backend.started), 1);
        sbx_guest_free(guest);
        sbx_pool_free(pool);
        sbx_pool_free(NULL);
        assert_int_equal(atomic_load(&backend.closed), 1);
}

static void refills_after_the_first_take(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 2);
        struct sbx_guest_process *guest;

        usleep(100 * 1000);
        assert_int_equal(atomic_load(&backend.started), 0);
        sbx_guest_free(take(pool, &plain_spec));
        wait_for_warm(&backend, 2);
        assert_int_equal(atomic_load(&backend.started), 3);
        guest = take(pool, &plain_spec);
        wait_for(&backend.started, 4); /* only the thread started one more */
        /* The warm-up left no trace. */
        check_value(guest, "sorted(k for k in globals() if not k.startswith('__')), list(context)", "([], [])");
        check_value(guest, "import sys\nsys._getframe().f_code.co_filename", "'<execution 2>'");
        sbx_guest_free(guest);
        sbx_pool_free(pool);
        assert_int_equal(atomic_load(&backend.closed), atomic_load(&backend.started));
}

static void sets_limits(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 1);
        struct sbx_guest_spec spec = plain_spec;

        spec.limits = (struct sbx_limits){.struct_size = sizeof(spec.limits), .memory_bytes = 1 << 28};
        sbx_guest_free(take(pool, &spec));
        assert_int_equal(atomic_load(&backend.limited), 0); /* it was started with them */
        wait_for_warm(&backend, 1);
        sbx_guest_free(take(pool, &spec));
        assert_int_equal(atomic_load(&backend.limited), 1);
        sbx_pool_free(pool);
}

static void other_runtimes_are_started_afresh(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 1);
        struct sbx_guest_spec spec = plain_spec;

        sbx_guest_free(take(pool, &plain_spec));
        wait_for_warm(&backend, 1);
        spec.runtime_version = "3.99";
        sbx_guest_free(take(pool, &spec));
        assert_int_equal(atomic_load(&backend.started), 3);
        usleep(300 * 1000);
        assert_int_equal(atomic_load(&backend.started), 3); /* the one that was ready still is */
        sbx_pool_free(pool);
}

static void versions_have_pools_of_their_own(void **state) {
        static const struct sbx_pool_runtime old = {.family = "python", .version = "3.99"};
        static const struct sbx_logger silent = {.level = 0};
        struct plain_backend backend = {0};
        struct sbx_guest_spec spec = plain_spec;
        struct sbx_pool *pool = NULL;
        struct sbx_metrics metrics = {0};

        plain_backend_init(&backend);
        assert_int_equal(sbx_pool_new(&backend.instance, &old, &silent, 1, &pool, NULL), 0);
        sbx_pool_measure(pool, &metrics);
        sbx_pool_warm(pool);
        wait_for_warm(&backend, 1);
        sbx_guest_free(take(pool, &plain_spec));
        assert_int_equal(metrics.pool_hits, 0);
        spec.runtime_version = "3.99";
        sbx_guest_free(take(pool, &spec));
        assert_int_equal(metrics.pool_hits, 1);
        sbx_pool_free(pool);
}

static void dead_guests_are_not_handed_out(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 1);
        struct sbx_guest_process *guest;
        unsigned ready = 0, size = 0;

        sbx_guest_free(take(pool, &plain_spec));
        wait_for_warm(&backend, 1);
        kill(plain_backend_last_pid(), SIGKILL);
        usleep(50 * 1000);
        guest = take(pool, &plain_spec);
        assert_true(sbx_guest_alive(guest));
        check_value(guest, "1 + 1", "2");
        sbx_guest_free(guest);
        wait_for_warm(&backend, 3);
        sbx_pool_discard(pool);
        sbx_pool_figures(pool, &ready, &size);
        assert_true(ready == 0 || atomic_load(&backend.started) > 3); /* a new one is being made */
        sbx_pool_free(pool);
        assert_int_equal(atomic_load(&backend.closed), atomic_load(&backend.started));
}

static void failures_are_told_and_retried(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 2);
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        atomic_store(&backend.fail, 1);
        assert_int_equal(sbx_pool_take(pool, &plain_spec, NULL, &guest, &err), -EAGAIN);
        assert_string_equal(err.message, "told to fail");
        assert_null(guest);
        sbx_guest_free(take(pool, &plain_spec));
        wait_for_warm(&backend, 2);
        atomic_store(&backend.fail, 1000000);
        sbx_guest_free(take(pool, &plain_spec)); /* one is ready; the refill fails, and waits between its tries */
        usleep(700 * 1000);
        assert_true(atomic_load(&backend.fail) > 1000000 - 10);
        atomic_store(&backend.fail, 0);
        wait_for(&backend.started, 4);
        sbx_pool_free(pool); /* also while the thread waits */
}

static void nothing_is_made_ahead_for_nobody(void **state) {
        struct plain_backend backend = {.needs_owner = true};
        struct sbx_pool *pool = new_pool(&backend, 2);
        struct sbx_guest_spec spec = plain_spec;
        struct sbx_metrics metrics = {0};

        sbx_pool_measure(pool, &metrics);
        spec.owner = "token:ann";
        sbx_pool_warm(pool);
        for (int i = 0; i < 60000 && sbx_pool_ready(pool, NULL) != 0; i++)
                usleep(1000);
        assert_int_equal(sbx_pool_ready(pool, NULL), 0);
        sbx_guest_free(take(pool, &spec));
        usleep(300 * 1000);
        assert_int_equal(atomic_load(&backend.started), 1);
        sbx_pool_free(pool);
        assert_int_equal(metrics.pool_misses, 1);
        assert_int_equal(metrics.guest_failures, 0);
}

/* Until sbx_pool_ready answers that. */
static void wait_until_ready_is(struct sbx_pool *pool, int wanted) {
        for (int i = 0; i < 60000 && sbx_pool_ready(pool, NULL) != wanted; i++)
                usleep(1000);
        assert_int_equal(sbx_pool_ready(pool, NULL), wanted);
}

static void warms_before_the_first_take(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 2);
        struct sbx_metrics metrics = {0};
        unsigned ready = 0, size = 0;

        sbx_pool_measure(pool, &metrics);
        assert_int_equal(sbx_pool_ready(pool, NULL), -EAGAIN);
        sbx_pool_warm(pool);
        wait_until_ready_is(pool, 0);
        for (int i = 0; i < 60000 && ready < 2; i++) {
                sbx_pool_figures(pool, &ready, &size);
                usleep(1000);
        }
        assert_int_equal(ready, 2);
        assert_int_equal(size, 2);
        assert_int_equal(atomic_load(&backend.started), 2);
        sbx_guest_free(take(pool, &plain_spec));
        assert_int_equal(sbx_pool_ready(pool, NULL), 0);
        sbx_pool_free(pool);
        assert_int_equal(metrics.pool_hits, 1);
        assert_int_equal(metrics.pool_misses, 0);
        assert_true(metrics.guests_started >= 2);
        assert_int_equal(metrics.guest_failures, 0);
}

static void tells_why_it_is_not_ready(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 1);
        struct sbx_metrics metrics = {0};
        struct sbx_error err = {0};

        sbx_pool_measure(pool, &metrics);
        atomic_store(&backend.fail, 1);
        sbx_pool_warm(pool);
        for (int i = 0; i < 60000 && sbx_metric_get(&metrics.guest_failures) == 0; i++)
                usleep(1000);
        assert_int_equal(sbx_metric_get(&metrics.guest_failures), 1);
        wait_until_ready_is(pool, 0); /* it tries again, and the failure is forgotten */
        sbx_pool_free(pool);

        backend = (struct plain_backend){0};
        pool = new_pool(&backend, 1);
        atomic_store(&backend.fail, 1000000);
        sbx_pool_warm(pool);
        for (int i = 0; i < 60000 && err.code == 0; i++) {
                if (sbx_pool_ready(pool, &err) == -EAGAIN && strcmp(err.message, "told to fail") != 0)
                        err = (struct sbx_error){0};
                usleep(1000);
        }
        assert_string_equal(err.message, "told to fail");
        sbx_pool_free(pool);
}

/* Without a pool each session starts a guest: there is nothing to wait for. */
static void is_ready_without_a_pool(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 0);

        sbx_pool_warm(pool);
        assert_int_equal(sbx_pool_ready(pool, NULL), 0);
        sbx_pool_free(pool);
        assert_int_equal(atomic_load(&backend.started), 0);
}

static void ends_while_it_refills(void **state) {
        for (int i = 0; i < 10; i++) {
                struct plain_backend backend = {0};
                struct sbx_pool *pool = new_pool(&backend, 8);

                sbx_guest_free(take(pool, &plain_spec));
                usleep((unsigned)i * 10000);
                sbx_pool_free(pool);
                assert_int_equal(atomic_load(&backend.closed), atomic_load(&backend.started));
        }
}

struct taker {
        struct sbx_pool *pool;
        int good; /* cmocka's assertions are for the main thread alone */
};

static void *take_many(void *data) {
        struct taker *taker = data;
        struct sbx_guest_execution execution = {.code = BYTES("6 * 7"), .output_max_bytes = 1000};

        for (int i = 0; i < 5; i++) {
                struct sbx_guest_process *guest = NULL;
                struct sbx_result *result = NULL;

                if (sbx_pool_take(taker->pool, &plain_spec, NULL, &guest, NULL) == 0 &&
                    sbx_guest_execute(guest, &execution, NULL, &result, NULL) == 0 && result->value != NULL &&
                    strcmp(result->value, "42") == 0)
                        taker->good++;
                sbx_result_free(result);
                sbx_guest_free(guest);
        }
        return NULL;
}

static void many_takers(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = new_pool(&backend, 3);
        struct taker takers[4];
        pthread_t threads[4];

        for (int i = 0; i < 4; i++) {
                takers[i] = (struct taker){.pool = pool};
                assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(takers[i].good, 5);
        }
        sbx_pool_free(pool);
        assert_int_equal(atomic_load(&backend.closed), atomic_load(&backend.started));
}

static void size_is_checked(void **state) {
        struct plain_backend backend = {0};
        struct sbx_pool *pool = NULL;

        plain_backend_init(&backend);
        assert_int_equal(sbx_pool_new(&backend.instance, &python, NULL, 65, &pool, NULL), -EINVAL);
        assert_null(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(without_a_pool),
                cmocka_unit_test(refills_after_the_first_take),
                cmocka_unit_test(sets_limits),
                cmocka_unit_test(other_runtimes_are_started_afresh),
                cmocka_unit_test(versions_have_pools_of_their_own),
                cmocka_unit_test(dead_guests_are_not_handed_out),
                cmocka_unit_test(failures_are_told_and_retried),
                cmocka_unit_test(nothing_is_made_ahead_for_nobody),
                cmocka_unit_test(warms_before_the_first_take),
                cmocka_unit_test(tells_why_it_is_not_ready),
                cmocka_unit_test(is_ready_without_a_pool),
                cmocka_unit_test(ends_while_it_refills),
                cmocka_unit_test(many_takers),
                cmocka_unit_test(size_is_checked),
        };

        return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
