/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: one holder at a time, and tokens that only grow. */
#include <pthread.h>

#include "suite.h"

static int take_code(const char *lease, const char *holder, uint32_t ttl_ms, uint64_t replace,
                     struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        *ret_lease = (struct sbx_store_lease){.struct_size = sizeof(*ret_lease)};
        return suite.ops->lease_take(suite.state, lease, holder, ttl_ms, replace, NULL, ret_lease, err);
}

static int renew(const char *lease, uint64_t token, uint32_t ttl_ms, struct sbx_error *err) {
        return suite.ops->lease_renew(suite.state, lease, token, ttl_ms, NULL, err);
}

static int release(const char *lease, uint64_t token, struct sbx_error *err) {
        return suite.ops->lease_release(suite.state, lease, token, NULL, err);
}

static int look(const char *lease, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        *ret_lease = (struct sbx_store_lease){.struct_size = sizeof(*ret_lease)};
        return suite.ops->lease_look(suite.state, lease, NULL, ret_lease, err);
}

static void test_one_holder(void **state) {
        const char *lease = directory("holder");
        struct sbx_store_lease mine, other;

        (void)state;
        expect(-ENOENT, look(lease, &other, err));
        expect(0, take_code(lease, "me on here", 60000, 0, &mine, err));
        assert_true(mine.token > 0);
        assert_true(mine.remaining_ms > 30000 && mine.remaining_ms <= 60000);
        expect(-EBUSY, take_code(lease, "you", 60000, 0, &other, err));
        assert_string_equal(other.holder, "me on here");
        assert_int_equal(other.token, mine.token);
        assert_true(other.remaining_ms > 30000 && other.remaining_ms <= 60000);
        expect(0, look(lease, &other, err));
        assert_string_equal(other.holder, "me on here");
        assert_int_equal(other.token, mine.token);
        expect(-EBUSY, take_code(lease, "me on here", 60000, 0, &other, err)); /* a name proves nothing */
        expect(0, release(lease, mine.token, err));
        expect(-ENOENT, look(lease, &other, err));
        expect(0, take_code(lease, "you", 60000, 0, &other, err));
        assert_true(other.token > mine.token);
}

static void test_tokens_grow(void **state) {
        const char *lease = directory("grow");
        uint64_t last = 0;

        (void)state;
        for (int i = 0; i < 50; i++) {
                uint64_t token = take(lease, "me", 60000);

                assert_true(token > last);
                last = token;
                expect(0, release(lease, token, err));
        }
}

static void test_end_and_renewal(void **state) {
        const char *lease = directory("end");
        struct sbx_store_lease mine, other;

        (void)state;
        expect(0, take_code(lease, "me", 1, 0, &mine, err));
        sleep_ms(5);
        expect(0, look(lease, &other, err));
        assert_int_equal(other.remaining_ms, 0);
        assert_int_equal(other.token, mine.token);
        expect(0, renew(lease, mine.token, 60000, err)); /* ended, but nobody took it */
        expect(-EBUSY, take_code(lease, "you", 60000, 0, &other, err));
        assert_true(other.remaining_ms > 30000);
        expect(0, renew(lease, mine.token, 1, err));
        sleep_ms(5);
        expect(0, take_code(lease, "you", 60000, 0, &other, err));
        assert_true(other.token > mine.token);
        expect(-ESTALE, renew(lease, mine.token, 60000, err));
        expect(0, release(lease, mine.token, err)); /* another's: left alone */
        expect(-EBUSY, take_code(lease, "me", 60000, 0, &mine, err));
        assert_int_equal(mine.token, other.token);
        expect(0, release(lease, other.token, err));
        expect(-ESTALE, renew(lease, other.token, 60000, err)); /* given back */
}

static void test_replacement(void **state) {
        const char *lease = directory("replace");
        struct sbx_store_lease dead, mine, other;

        (void)state;
        expect(0, take_code(lease, "dead", 60000, 0, &dead, err));
        expect(-EBUSY, take_code(lease, "me", 60000, dead.token + 1, &mine, err));
        expect(0, take_code(lease, "me", 60000, dead.token, &mine, err));
        assert_true(mine.token > dead.token);
        expect(-EBUSY, take_code(lease, "you", 60000, dead.token, &other, err));
        assert_string_equal(other.holder, "me");
        expect(-ESTALE, renew(lease, dead.token, 60000, err));
}

static void test_arguments(void **state) {
        const char *lease = directory("arguments");
        struct sbx_store_lease taken;
        char holder[300];

        (void)state;
        memset(holder, 'h', sizeof(holder));
        holder[256] = '\0';
        expect(-EINVAL, take_code(lease, holder, 1000, 0, &taken, err));
        holder[255] = '\0';
        expect(-EINVAL, take_code(lease, "", 1000, 0, &taken, err));
        expect(-EINVAL, take_code(lease, "me", 0, 0, &taken, err));
        expect(-EINVAL, take_code(lease, "me", 3600001, 0, &taken, err));
        expect(0, take_code(lease, holder, 3600000, 0, &taken, err));
        assert_string_equal(taken.holder, holder);
        expect(-EINVAL, renew(lease, taken.token, 0, err));
        expect(-EINVAL, renew(lease, taken.token, 3600001, err));
        expect(-ESTALE, renew(name_in(lease, "nobody"), 1, 1000, err));
        expect(0, release(name_in(lease, "nobody"), 1, err));
}

/* A caller that was compiled when the struct was shorter: nothing behind what he knows is written. */
static void test_older_caller(void **state) {
        const char *lease = directory("older");
        struct sbx_store_lease taken;

        (void)state;
        memset(&taken, 0x55, sizeof(taken));
        taken.struct_size = offsetof(struct sbx_store_lease, holder);
        expect(0, suite.ops->lease_take(suite.state, lease, "me", 60000, 0, NULL, &taken, err));
        assert_true(taken.token > 0 && taken.token != UINT64_C(0x5555555555555555));
        for (size_t i = 0; i < sizeof(taken.holder); i++)
                assert_int_equal(taken.holder[i], 0x55);
}

/* Names of leases and of blobs are apart. */
static void test_lease_beside_blob(void **state) {
        const char *name = directory("beside");
        uint64_t token = take(name, "me", 60000);
        _cleanup_free_ char *listed = NULL;

        (void)state;
        expect_text(name, NULL);
        listed = list(name);
        assert_string_equal(listed, "");
        put(name, "blob");
        expect(0, suite.ops->remove(suite.state, name, NULL, err));
        expect(0, renew(name, token, 60000, err));
}

#define RACERS 8
#define ROUNDS 30

static struct race {
        const char *lease;
        pthread_barrier_t start;
        uint64_t tokens[RACERS]; /* 0: was refused */
} race;

static void *race_for_it(void *data) {
        struct sbx_store_lease taken;
        uint64_t *token = data;

        for (int i = 0; i < ROUNDS; i++) {
                pthread_barrier_wait(&race.start);
                *token = take_code(race.lease, "racer", 60000, 0, &taken, NULL) == 0 ? taken.token : 0;
                pthread_barrier_wait(&race.start); /* the one who looks on counts */
                pthread_barrier_wait(&race.start);
        }
        return NULL;
}

static void test_race(void **state) {
        char lease[128];
        pthread_t threads[RACERS];

        (void)state;
        snprintf(lease, sizeof(lease), "%s", directory("race"));
        race.lease = lease;
        pthread_barrier_init(&race.start, NULL, RACERS + 1);
        for (int i = 0; i < RACERS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, race_for_it, &race.tokens[i]), 0);
        for (int i = 0; i < ROUNDS; i++) {
                int winners = 0;

                pthread_barrier_wait(&race.start);
                pthread_barrier_wait(&race.start);
                for (int j = 0; j < RACERS; j++)
                        if (race.tokens[j] != 0) {
                                winners++;
                                expect(0, release(lease, race.tokens[j], err));
                        }
                assert_int_equal(winners, 1);
                pthread_barrier_wait(&race.start);
        }
        for (int i = 0; i < RACERS; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&race.start);
}

struct group leases_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_holder),        cmocka_unit_test(test_tokens_grow),
                cmocka_unit_test(test_end_and_renewal),   cmocka_unit_test(test_replacement),
                cmocka_unit_test(test_arguments),         cmocka_unit_test(test_older_caller),
                cmocka_unit_test(test_lease_beside_blob), cmocka_unit_test(test_race),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
