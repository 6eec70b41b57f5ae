/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of the plugin fails once: the operation says so or succeeds, nothing is lost and nothing changed. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../tests/plugin_host.h"

#include <snipara-sandbox/store.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__real_reallocarray(void *pointer, size_t count, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_reallocarray(void *pointer, size_t count, size_t size);
char *__wrap_strdup(const char *text);

static long fail_in = -1; /* allocations until one fails; -1: none does. One thread does everything here */
static bool fails(void) {
        if (fail_in < 0 || fail_in-- > 0)
                return false;
        errno = ENOMEM;
        return true;
}
void *__wrap_malloc(size_t size) {
        return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
        return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *pointer, size_t size) {
        return fails() ? NULL : __real_realloc(pointer, size);
}
void *__wrap_reallocarray(void *pointer, size_t count, size_t size) {
        return fails() ? NULL : __real_reallocarray(pointer, count, size);
}
char *__wrap_strdup(const char *text) {
        return fails() ? NULL : __real_strdup(text);
}

static struct sbx_host_state host;
static const struct sbx_store_ops *ops;
static void *store;
static char top[] = "/tmp/sbx-store-memory-XXXXXX";
static char large[100000];

static int set_up(void **state) {
        static char option[64];
        static char *arguments[] = {"test", option};

        (void)state;
        assert_non_null(mkdtemp(top));
        snprintf(option, sizeof(option), "--directory=%s/store", top);
        host = (struct sbx_host_state){.argc = 2, .argv = arguments, .plugin = sbx_plugin_entry_v1()};
        plugin_host_services(&host);
        ops = host.plugin->ops;
        for (size_t i = 0; i < sizeof(large); i++)
                large[i] = (char)(i * i >> 3);
        return host.plugin->open(&host.services, &store, NULL); /* not started: what is stored soon is synced at once */
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk) {
        (void)st;
        (void)kind;
        (void)walk;
        return remove(path);
}

static int tear_down(void **state) {
        (void)state;
        host.plugin->close(store);
        return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* What is stored as "s/manifest". */
static long manifest(void) {
        struct sbx_output output = {.max = 1000};
        long number = 0;

        if (ops->get(store, "s/manifest", NULL, &output, NULL) == 0)
                number = strtol(output.data, NULL, 10);
        free(output.data);
        return number;
}

static int commit(long number, struct sbx_error *err) {
        char text[32];
        const struct sbx_store_change changes[] = {
                {"s/manifest", {text, (size_t)snprintf(text, sizeof(text), "%ld", number)}},
                {"s/large", {large, sizeof(large) - (size_t)number}},
                {"s/gone", {NULL, 0}},
        };

        return ops->commit(store, changes, 3, NULL, 0, SBX_STORE_SOON, NULL, err);
}

static void test_commit(void **state) {
        long number = 1, failures = 0;

        (void)state;
        assert_int_equal(commit(number, NULL), 0);
        for (long i = 0;; i++) {
                struct sbx_error err = {0};
                long before = manifest();
                bool was_hit;
                int r;

                fail_in = i;
                r = commit(++number, &err);
                was_hit = fail_in < 0;
                fail_in = -1;
                if (r < 0) {
                        failures++;
                        assert_int_equal(err.code, r);
                        assert_true(r == -ENOMEM);
                }
                /* It may have happened, and only not be on the disk yet: then the state is the new one, and whole. */
                assert_true(manifest() == number || (r < 0 && manifest() == before));
                if (!was_hit)
                        break;
        }
        assert_true(failures > 10);
}

static int count_name(void *data, const char *name, uint64_t size) {
        (void)name;
        (void)size;
        ++*(int *)data;
        return 0;
}

static int read_all(int which, struct sbx_error *err) {
        struct sbx_output output = {.max = 1 << 20};
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        int count = 0, r = 0;
        const struct sbx_store_events events = {.struct_size = sizeof(events), .data = &count, .item = count_name};

        if (which == 0)
                r = ops->get(store, "s/large", NULL, &output, err);
        else if (which == 1)
                r = ops->get(store, "s/manifest", NULL, &output, err);
        else if (which == 2)
                r = ops->list(store, "", &events, NULL, err);
        else if (which == 3)
                r = ops->collect(store, NULL, &output, err);
        else
                r = ops->lease_take(store, "lease", "me", 1, 0, NULL, &lease, err);
        assert_true(r < 0 || which != 0 || output.size > 90000);
        assert_true(r < 0 || which != 2 || count == 2);
        free(output.data);
        return r;
}

static void test_reading(void **state) {
        (void)state;
        assert_int_equal(commit(5, NULL), 0);
        for (int which = 0; which < 5; which++)
                for (long i = 0;; i++) {
                        struct sbx_error err = {0};
                        bool was_hit;
                        int r;

                        fail_in = i;
                        r = read_all(which, &err);
                        was_hit = fail_in < 0;
                        fail_in = -1;
                        if (r < 0 && r != -EBUSY) {
                                assert_int_equal(r, -ENOMEM);
                                assert_int_equal(err.code, r);
                        }
                        if (!was_hit)
                                break;
                }
        assert_int_equal(read_all(0, NULL), 0);
        assert_int_equal(manifest(), 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_commit),
                cmocka_unit_test(test_reading),
        };

        return cmocka_run_group_tests_name("memory", tests, set_up, tear_down);
}
