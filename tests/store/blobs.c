/* SPDX-License-Identifier: Apache-2.0 */
/* put, get, list, remove. */
#include <sys/eventfd.h>

#include "suite.h"

static void test_sizes(void **state) {
        static const size_t sizes[] = {0,      1, 63, 4096, 8192, 65536, 65537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
                                       5000000};
        const char *in = directory("sizes");

        (void)state;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (unsigned seed = 1; seed <= 2; seed++) {
                        const char *name = name_in(in, seed == 1 ? "random" : "plain");

                        put_contents(name, sizes[i], seed);
                        expect_contents(name, sizes[i], seed);
                }
}

/* All byte values, and what looks like the end of a text. */
static void test_any_bytes(void **state) {
        const char *name = name_in(directory("bytes"), "a");
        _cleanup_free_ char *found = NULL;
        uint8_t bytes[512];
        size_t size = 0;

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)i;
        expect(0, suite.ops->put(suite.state, name, (struct sbx_bytes){bytes, sizeof(bytes)}, NULL, err));
        found = get(name, &size);
        assert_int_equal(size, sizeof(bytes));
        assert_memory_equal(found, bytes, sizeof(bytes));
}

static void test_replace_and_remove(void **state) {
        const char *name = name_in(directory("replace"), "a");

        (void)state;
        expect_text(name, NULL);
        put(name, "one");
        expect_text(name, "one");
        put_contents(name, 300000, 1);
        expect_contents(name, 300000, 1);
        put(name, "three");
        expect_text(name, "three");
        expect(0, suite.ops->remove(suite.state, name, NULL, err));
        expect_text(name, NULL);
        expect(-ENOENT, suite.ops->remove(suite.state, name, NULL, err));
        put(name, "four");
        expect_text(name, "four");
}

static void test_names_that_are_none(void **state) {
        char long_name[257];
        const char *const names[] = {"",      "/",      "/a",   "a/",   "a//b", ".",    "..",
                                     "a/./b", "a/../b", "../a", "a/..", "a b",  "a\nb", "\xc3\xa4",
                                     "a,b",   "a\\b",   "a*",   "~",    "a:b",  "%2e",  long_name};
        struct sbx_output *output = NULL;

        (void)state;
        memset(long_name, 'a', 256);
        long_name[256] = '\0';
        assert_int_equal(sbx_output_new(1000, &output), 0);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const struct sbx_store_change bad = change(names[i], "x");
                struct sbx_store_lease lease = {.struct_size = sizeof(lease)};

                expect(-EINVAL, suite.ops->put(suite.state, names[i], (struct sbx_bytes){"x", 1}, NULL, err));
                expect(-EINVAL, suite.ops->get(suite.state, names[i], NULL, output, err));
                expect(-EINVAL, suite.ops->remove(suite.state, names[i], NULL, err));
                expect(-EINVAL, suite.ops->commit(suite.state, &bad, 1, NULL, 0, 0, NULL, err));
                expect(-EINVAL, suite.ops->lease_take(suite.state, names[i], "me", 1000, 0, NULL, &lease, err));
        }
        sbx_output_free(output);
}

static void test_names_of_every_kind(void **state) {
        char long_name[256];
        const char *in = directory("names");
        const char *const leaves[] = {"a",       "A",   "0",       "_",   "-",     "a.b",
                                      ".hidden", "...", "a-b_c.d", "CON", "index", "new"};
        size_t used = (size_t)snprintf(long_name, sizeof(long_name), "%s/", in);

        (void)state;
        memset(long_name + used, 'x', 255 - used);
        long_name[255] = '\0';
        put(long_name, "long");
        for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
                put(name_in(in, leaves[i]), leaves[i]);
        for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
                expect_text(name_in(in, leaves[i]), leaves[i]);
        expect_text(long_name, "long");
}

/* One name may be a directory of others. */
static void test_name_and_directory(void **state) {
        const char *in = directory("both");

        (void)state;
        put(name_in(in, "a"), "a");
        put(name_in(in, "a/b"), "b");
        put(name_in(in, "a/b/c"), "c");
        expect(0, suite.ops->remove(suite.state, name_in(in, "a/b"), NULL, err));
        expect_text(name_in(in, "a"), "a");
        expect_text(name_in(in, "a/b/c"), "c");
}

static void test_list(void **state) {
        const char *in = directory("list");
        static const char *const leaves[] = {"b/2", "a", "b", "b-1", "b/10", "b.x/1", "c/d/e", "B"};
        char wanted[2048] = "";
        /* In order of their bytes. */
        static const char *const sorted[] = {"B", "a", "b", "b-1", "b.x/1", "b/10", "b/2", "c/d/e"};
        _cleanup_free_ char *all = NULL, *some = NULL, *none = NULL, *inner = NULL;
        size_t used = 0;

        (void)state;
        for (size_t i = 0; i < 8; i++)
                put(name_in(in, leaves[i]), "x");
        for (size_t i = 0; i < 8; i++)
                used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s\n", name_in(in, sorted[i]));
        all = list(name_in(in, ""));
        assert_string_equal(all, wanted);
        used = 0;
        for (size_t i = 5; i < 7; i++)
                used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s\n", name_in(in, sorted[i]));
        some = list(name_in(in, "b/"));
        assert_string_equal(some, wanted);
        snprintf(wanted, sizeof(wanted), "%s\n", name_in(in, "b/10"));
        inner = list(name_in(in, "b/1"));
        assert_string_equal(inner, wanted);
        none = list(name_in(in, "b/1/"));
        assert_string_equal(none, "");
}

static int stop_listing(void *data, const char *name, uint64_t size) {
        (void)name;
        if (size != 3)
                return -EIO;
        return ++*(int *)data == 2 ? -ECHILD : 0;
}

static void test_list_ends_when_told(void **state) {
        const char *in = directory("stop");
        struct sbx_store_events events = {.struct_size = sizeof(events), .item = stop_listing};
        int calls = 0;

        (void)state;
        events.data = &calls;
        for (int i = 0; i < 4; i++) {
                char leaf[8];

                snprintf(leaf, sizeof(leaf), "%d", i);
                put(name_in(in, leaf), "abc");
        }
        assert_int_equal(suite.ops->list(suite.state, in, &events, NULL, NULL), -ECHILD);
        assert_int_equal(calls, 2);
}

static void test_more_than_the_output_takes(void **state) {
        const char *in = directory("large");
        struct sbx_output *output = NULL;

        (void)state;
        put_contents(name_in(in, "small"), 1001, 1);
        put_contents(name_in(in, "large"), 3000000, 1);
        assert_int_equal(sbx_output_new(1000, &output), 0);
        expect(-EFBIG, suite.ops->get(suite.state, name_in(in, "small"), NULL, output, err));
        sbx_output_free(output);
        assert_int_equal(sbx_output_new(2000000, &output), 0);
        expect(-EFBIG, suite.ops->get(suite.state, name_in(in, "large"), NULL, output, err));
        sbx_output_free(output);
}

/* Who has given up is not kept waiting, and nothing has changed. */
static void test_calls_that_are_over(void **state) {
        const char *name = name_in(directory("over"), "a");
        _cleanup_free_ uint8_t *bytes = contents(3000000, 1);
        struct sbx_call cancelled = {.struct_size = sizeof(cancelled), .cancel_fd = eventfd(1, EFD_CLOEXEC)};
        struct sbx_call late = {.struct_size = sizeof(late), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_output *output = NULL;

        (void)state;
        put(name, "before");
        assert_int_equal(sbx_output_new(4000000, &output), 0);
        expect(-ECANCELED, suite.ops->put(suite.state, name, (struct sbx_bytes){bytes, 3000000}, &cancelled, err));
        expect(-ETIMEDOUT, suite.ops->put(suite.state, name, (struct sbx_bytes){bytes, 3000000}, &late, err));
        expect(-ECANCELED, suite.ops->get(suite.state, name, &cancelled, output, err));
        expect(-ETIMEDOUT, suite.ops->get(suite.state, name, &late, output, err));
        expect_text(name, "before");
        sbx_output_free(output);
        close(cancelled.cancel_fd);
}

struct group blobs_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_any_bytes),
                cmocka_unit_test(test_replace_and_remove),
                cmocka_unit_test(test_names_that_are_none),
                cmocka_unit_test(test_names_of_every_kind),
                cmocka_unit_test(test_name_and_directory),
                cmocka_unit_test(test_list),
                cmocka_unit_test(test_list_ends_when_told),
                cmocka_unit_test(test_more_than_the_output_takes),
                cmocka_unit_test(test_calls_that_are_over),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
