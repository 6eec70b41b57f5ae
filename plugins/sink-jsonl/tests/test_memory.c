/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the plugin and of jansson fails once: the sink says so, and the file stays whole. */
#include "test.h"

static struct {
        bool armed, failed;
        unsigned left; /* allocations that still succeed */
} fault;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);

/* Only this one fails: what comes after it shows what the failure left behind. */
static bool fails(void) {
        if (!fault.armed || fault.failed)
                return false;
        if (fault.left-- > 0)
                return false;
        fault.failed = true;
        errno = ENOMEM;
        return true;
}

void *__wrap_malloc(size_t size) {
        return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
        return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
        return fails() ? NULL : __real_realloc(memory, size);
}
char *__wrap_strdup(const char *text) {
        return fails() ? NULL : __real_strdup(text);
}

static void *json_malloc(size_t size) {
        return __wrap_malloc(size);
}

/* A run that goes on in a second life of the process. Negative if one of the events was refused. */
static int work(struct fixture *fixture) {
        static const char *const events[] = {
                "{\"trajectory_id\":\"" RUN "\",\"event\":\"run_started\",\"timestamp\":\"t\"}",
                "{\"trajectory_id\":\"" RUN "\",\"event\":\"completion\",\"call_id\":\"a\",\"timestamp\":\"t\"}",
                "{\"trajectory_id\":\"" RUN "\",\n\"event\":\"completion\",\"call_id\":\"b\"}",
                "{\"trajectory_id\":\"" RUN "\",\"event\":\"run_ended\",\"timestamp\":\"t\"}",
        };
        void *instance = NULL;
        int r = 0;

        for (unsigned life = 1; life <= 2; life++) {
                int opened = fixture->plugin->open(&fixture->host, &instance, NULL);

                if (opened < 0)
                        return opened;
                for (size_t i = 0; i < 2 * life; i++) {
                        int emitted =
                                fixture->ops->event(instance, (struct sbx_bytes){events[i], strlen(events[i])}, NULL);

                        r = emitted < 0 ? emitted : r;
                }
                fixture->plugin->stop(instance);
                fixture->plugin->close(instance);
        }
        return r;
}

static void test_allocations(void **state) {
        struct fixture *fixture = *state;
        char *path = path_of(fixture, RUN);
        unsigned round = 0, refused = 0;

        json_set_alloc_funcs(json_malloc, free);
        do {
                int r;

                (void)unlink(path);
                fault.left = round++;
                fault.failed = false;
                fault.armed = true;
                r = work(fixture);
                fault.armed = false;
                /* jansson takes a string that it has no memory for to be a syntax error. */
                assert_true(r == 0 || ((r == -ENOMEM || r == -EINVAL) && fault.failed));
                refused += r < 0;
                if (access(path, F_OK) == 0)
                        json_decref(read_chained(fixture, RUN));
        } while (fault.failed && round < 10000);
        assert_false(fault.failed);
        assert_true(refused > 20);
        free(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_allocations, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
