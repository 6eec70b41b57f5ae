/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one instance: every reader sees whole states, no writer's work is lost. */
#include <pthread.h>
#include <stdatomic.h>

#include "suite.h"

#define WRITERS 4
#define ROUNDS 25

static struct shared {
        char in[128];
        atomic_int writing; /* writers that go on */
        atomic_int reads;
        atomic_int failures;
        char why[512];
} shared;

SBX_PRINTF(1, 2)
static void failed(const char *format, ...) {
        va_list args;

        if (atomic_fetch_add(&shared.failures, 1) > 0)
                return;
        va_start(args, format);
        vsnprintf(shared.why, sizeof(shared.why), format, args);
        va_end(args);
}

static void start(const char *test) {
        snprintf(shared.in, sizeof(shared.in), "%s", directory(test));
        atomic_store(&shared.writing, 0);
        atomic_store(&shared.reads, 0);
        atomic_store(&shared.failures, 0);
}

static void run(void *(*const work[])(void *data), size_t count) {
        pthread_t threads[16];
        int numbers[16];

        for (size_t i = 0; i < count; i++) {
                numbers[i] = (int)i;
                assert_int_equal(pthread_create(&threads[i], NULL, work[i], &numbers[i]), 0);
        }
        for (size_t i = 0; i < count; i++)
                pthread_join(threads[i], NULL);
        if (atomic_load(&shared.failures) > 0)
                fail_msg("%d failures; the first: %s", atomic_load(&shared.failures), shared.why);
}

/* ---- each his own names, of one directory ---- */

static void *write_own(void *data) {
        const int *number = data;

        for (unsigned i = 0; i < ROUNDS; i++) {
                size_t size = i % 5 == 0 ? 200000 + i : 50 + i;
                _cleanup_free_ uint8_t *bytes = contents(size, (unsigned)*number * 1000 + i);
                struct sbx_error err = {0};
                char leaf[32];

                snprintf(leaf, sizeof(leaf), "%d-%u", *number, i);
                if (suite.ops->put(suite.state, name_in(shared.in, leaf), (struct sbx_bytes){bytes, size}, NULL, &err) <
                    0)
                        failed("put: %s", err.message);
        }
        return NULL;
}

static void test_writers_of_one_directory(void **state) {
        void *(*const work[WRITERS])(void *) = {write_own, write_own, write_own, write_own};

        (void)state;
        start("writers");
        run(work, WRITERS);
        for (int number = 0; number < WRITERS; number++)
                for (unsigned i = 0; i < ROUNDS; i++) {
                        char leaf[32];

                        snprintf(leaf, sizeof(leaf), "%d-%u", number, i);
                        expect_contents(name_in(shared.in, leaf), i % 5 == 0 ? 200000 + i : 50 + i,
                                        (unsigned)number * 1000 + i);
                }
}

/* ---- the same names, while others read, list and collect ---- */

/* Sizes and seeds of a state's two blobs: one small, one large. */
static size_t size_of(unsigned round) {
        return 150000 + round % 7 * 1000;
}

static void *write_same(void *data) {
        const int *number = data;

        atomic_fetch_add(&shared.writing, 1);
        for (unsigned i = 0; i < ROUNDS; i++) {
                unsigned round = i * WRITERS + (unsigned)*number;
                _cleanup_free_ uint8_t *large = contents(size_of(round), round);
                char text[32];
                const struct sbx_store_change changes[2] = {
                        change(name_in(shared.in, "small"), text),
                        {name_in(shared.in, "large"), {large, size_of(round)}},
                };
                struct sbx_store_change now[2] = {changes[0], changes[1]};
                struct sbx_error err = {0};

                snprintf(text, sizeof(text), "%u", round);
                now[0].blob.size = strlen(text);
                if (suite.ops->commit(suite.state, now, 2, NULL, 0, SBX_STORE_SOON, NULL, &err) < 0)
                        failed("commit: %s", err.message);
        }
        atomic_fetch_sub(&shared.writing, 1);
        return NULL;
}

static bool is_whole(struct sbx_bytes blob) {
        for (unsigned round = 0; round < ROUNDS * WRITERS; round++) {
                _cleanup_free_ uint8_t *bytes = NULL;

                if (size_of(round) != blob.size)
                        continue;
                bytes = contents(blob.size, round);
                if (memcmp(bytes, blob.data, blob.size) == 0)
                        return true;
        }
        return false;
}

static void *read_same(void *data) {
        (void)data;
        do {
                struct sbx_output *output = NULL;
                struct sbx_error err = {0};
                int r;

                if (sbx_output_new(1 << 20, &output) < 0)
                        return NULL;
                r = suite.ops->get(suite.state, name_in(shared.in, "large"), NULL, output, &err);
                if (r < 0 && r != -ENOENT)
                        failed("get: %s", err.message);
                if (r == 0 && !is_whole(sbx_output_bytes(output)))
                        failed("get: half of one and half of another");
                atomic_fetch_add(&shared.reads, r == 0);
                sbx_output_free(output);
        } while (atomic_load(&shared.writing) > 0 || atomic_load(&shared.reads) == 0);
        return NULL;
}

static int count_item(void *data, const char *name, uint64_t size) {
        (void)name;
        (void)size;
        ++*(int *)data;
        return 0;
}

static void *list_same(void *data) {
        struct sbx_store_events events = {.struct_size = sizeof(events), .item = count_item};

        (void)data;
        do {
                struct sbx_error err = {0};
                int count = 0;

                events.data = &count;
                if (suite.ops->list(suite.state, name_in(shared.in, ""), &events, NULL, &err) < 0)
                        failed("list: %s", err.message);
                if (count != 0 && count != 2)
                        failed("list: %d names", count);
        } while (atomic_load(&shared.writing) > 0);
        return NULL;
}

static void *collect_same(void *data) {
        (void)data;
        do {
                struct sbx_output *output = NULL;
                struct sbx_error err = {0};

                if (sbx_output_new(1 << 20, &output) < 0)
                        return NULL;
                if (suite.ops->collect(suite.state, NULL, output, &err) < 0)
                        failed("collect: %s", err.message);
                else if (memmem(sbx_output_bytes(output).data, sbx_output_bytes(output).size, shared.in,
                                strlen(shared.in)) != NULL)
                        failed("collect says that something is damaged");
                sbx_output_free(output);
        } while (atomic_load(&shared.writing) > 0);
        return NULL;
}

static void test_readers_beside_writers(void **state) {
        void *(*const work[])(void *) = {write_same, write_same, write_same, write_same,
                                         read_same,  read_same,  list_same,  collect_same};
        _cleanup_free_ char *small = NULL;
        size_t size = 0;
        unsigned round;

        (void)state;
        start("readers");
        run(work, sizeof(work) / sizeof(work[0]));
        small = get(name_in(shared.in, "small"), &size);
        assert_non_null(small);
        round = (unsigned)strtoul(small, NULL, 10);
        expect_contents(name_in(shared.in, "large"), size_of(round), round); /* the two of one commit */
}

struct group threads_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_writers_of_one_directory),
                cmocka_unit_test(test_readers_beside_writers),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
