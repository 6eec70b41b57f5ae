/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions when memory is short: every allocation fails once, nothing leaks, nothing breaks. */
#include "sessions.h"

#include "../alloc_fail.h"

struct scene {
        struct sbx_config *config;
        struct sbx_logger logger;
};

static int use(struct sbx_sessions *sessions) {
        struct sbx_execution named = execution_of("s", "name x"), fresh = execution_of("", "ok");
        struct sbx_execution dying = execution_of("s", "crash");
        struct sbx_result *result = NULL;
        json_t *list = NULL;
        int r;

        r = sbx_sessions_execute(sessions, &named, NULL, &result, NULL);
        sbx_result_free(result);
        result = NULL;
        if (r == 0)
                r = sbx_sessions_execute(sessions, &fresh, NULL, &result, NULL);
        sbx_result_free(result);
        result = NULL;
        if (r == 0)
                r = sbx_sessions_execute(sessions, &dying, NULL, &result, NULL);
        sbx_result_free(result);
        result = NULL;
        if (r == 0)
                r = sbx_sessions_execute(sessions, &named, NULL, &result, NULL);
        sbx_result_free(result);
        if (r == 0)
                r = sbx_sessions_list(sessions, NULL, &list, NULL);
        json_decref(list);
        return r;
}

static int use_files(struct sbx_sessions *sessions) {
        struct sbx_buffer out = SBX_BUFFER(100);
        char name[SBX_ARTIFACT_NAME_SIZE];
        json_t *list = NULL;
        char *type = NULL;
        int r = sbx_sessions_file_write(sessions, NULL, "f", "path", BYTES("x"), NULL, NULL);

        if (r == 0)
                r = sbx_sessions_file_list(sessions, NULL, "f", "", NULL, &list, NULL, NULL);
        json_decref(list);
        list = NULL;
        if (r == 0)
                r = sbx_sessions_file_read(sessions, NULL, "f", "path", 9, NULL, &out, NULL);
        if (r == 0)
                r = sbx_sessions_artifact_add(sessions, NULL, "f", "x", ".txt", "text/plain", BYTES("x"), name, NULL);
        if (r == 0)
                r = sbx_sessions_artifact_list(sessions, NULL, "f", &list, NULL);
        json_decref(list);
        if (r == 0)
                r = sbx_sessions_artifact_read(sessions, NULL, "f", name, &out, &type, NULL);
        free(type);
        sbx_buffer_free(&out);
        return r;
}

static int body(void *data) {
        struct scene *scene = data;
        struct sbx_sessions *sessions = NULL;
        int r = sbx_sessions_new(scene->config, NULL, &scene->logger, &sessions, NULL);

        if (r == 0)
                r = use(sessions);
        if (r == 0)
                r = use_files(sessions);
        sbx_sessions_free(sessions);
        return r;
}

static void test_allocation_failures(void **state) {
        struct scene scene = {.logger = {.level = SBX_LOG_ERROR}};
        struct fake_guest_counts counts;

        fake_guest_reset();
        scene.config = fake_config((const char *const[]){NULL});
        assert_true(alloc_fail_sweep(body, &scene) > 10);
        counts = fake_guest_counts();
        assert_int_equal(counts.started, counts.freed);
        sbx_config_free(scene.config);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocation_failures)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
