/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sessions, their artifacts, their addresses, and the news of them. */
#include "sessions.h"

#include "session/uri.h"

static int write_file(struct table *table, const char *principal, const char *id, const char *path,
                      const char *content) {
        return sbx_sessions_file_write(table->sessions, principal, id, path,
                                       (struct sbx_bytes){content, strlen(content)}, NULL, &table->err);
}

/* ---- files ---- */

static void test_read_write_list(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        _cleanup_json_ json_t *list = NULL;
        bool truncated = true;
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(write_file(&table, "", NULL, "b.txt", "hello"), 0); /* starts the session */
        assert_int_equal(write_file(&table, "", "default", "a/c.txt", "x"), 0);
        assert_int_equal(fake_guest_counts().started, 1);
        assert_int_equal(sbx_sessions_file_read(table.sessions, "", NULL, "b.txt", 100, NULL, &out, &table.err), 0);
        assert_string_equal(out.data, "hello");
        assert_int_equal(sbx_sessions_file_list(table.sessions, "", NULL, "", NULL, &list, &truncated, NULL), 0);
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "path")), "a/c.txt");
        assert_false(truncated);
        assert_int_equal(sbx_sessions_file_read(table.sessions, "", NULL, "none", 100, NULL, &out, &table.err),
                         -ENOENT);
        assert_contains(table.err.message, "'none'");
        table.err = (struct sbx_error){0};
        assert_int_equal(sbx_sessions_file_read(table.sessions, "", NULL, "b.txt", 4, NULL, &out, &table.err), -EFBIG);
        assert_int_equal(out.size, 5); /* nothing was added */
        sbx_buffer_free(&out);
        table_close(&table);
}

static void test_bad_paths(void **state) {
        static char long_path[5000];
        struct sbx_buffer out = SBX_BUFFER(100);
        struct table table;
        json_t *list = NULL;

        memset(long_path, 'x', sizeof(long_path) - 1);
        table_open(&table, NULL);
        assert_int_equal(write_file(&table, "", NULL, "", "x"), -EINVAL);
        assert_int_equal(write_file(&table, "", NULL, long_path, "x"), -EINVAL);
        assert_int_equal(write_file(&table, "", NULL, "caf\xe9", "x"), -EINVAL);
        assert_int_equal(sbx_sessions_file_read(table.sessions, "", NULL, "", 100, NULL, &out, NULL), -EINVAL);
        assert_int_equal(sbx_sessions_file_list(table.sessions, "", NULL, "\xff", NULL, &list, NULL, NULL), -EINVAL);
        assert_int_equal(fake_guest_counts().started, 0); /* refused before anybody is asked */
        table.err = (struct sbx_error){0};
        assert_int_equal(sbx_sessions_file_write(table.sessions, "", NULL, "big",
                                                 (struct sbx_bytes){long_path, SBX_SESSION_FILE_MAX + 1}, NULL,
                                                 &table.err),
                         -EFBIG);
        assert_contains(table.err.message, "33554433 bytes");
        table_close(&table);
}

static void test_of_others(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(write_file(&table, "alice", "s", "secret", "x"), 0);
        assert_int_equal(sbx_sessions_file_read_running(table.sessions, "bob", "s", "secret", 9, NULL, &out, NULL),
                         -ENOENT);
        assert_int_equal(sbx_sessions_file_read(table.sessions, "bob", "s", "secret", 9, NULL, &out, NULL), -ENOENT);
        assert_int_equal(out.size, 0);
        assert_int_equal(sbx_sessions_file_read_running(table.sessions, "alice", "s", "secret", 9, NULL, &out, NULL),
                         0);
        sbx_buffer_free(&out);
        table_close(&table);
}

/* Who only looks starts nothing, waits for nobody, and keeps nothing alive. */
static void test_looking(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        struct runner runner = {0};
        struct table table;
        json_t *list = NULL;

        table_open(&table, NULL);
        assert_int_equal(sbx_sessions_file_list_idle(table.sessions, "", "s", "", NULL, &list, NULL, NULL), -ENOENT);
        assert_int_equal(sbx_sessions_file_read_running(table.sessions, "", NULL, "f", 9, NULL, &out, NULL), -ENOENT);
        assert_int_equal(fake_guest_counts().started, 0);
        runner_start(&runner, &table, "s", "sleep 300");
        wait_until_busy(&table, "s");
        while (fake_guest_counts().started == 0)
                pause_ms(1);
        pause_ms(20);
        assert_int_equal(sbx_sessions_file_list_idle(table.sessions, "", "s", "", NULL, &list, NULL, NULL), -EAGAIN);
        runner_join(&runner);
        runner_free(&runner);
        assert_int_equal(sbx_sessions_file_list_idle(table.sessions, "", "s", "", NULL, &list, NULL, NULL), 0);
        json_decref(list);
        fake_guest_kill_all();
        assert_int_equal(sbx_sessions_file_read_running(table.sessions, "", "s", "f", 9, NULL, &out, NULL), -ENOENT);
        assert_int_equal(fake_guest_counts().started, 1);
        table_close(&table);
}

static void test_looking_keeps_nothing_alive(void **state) {
        static const char *const settings[] = {"session_ttl=300ms", NULL};
        struct table table;
        bool gone = false;

        table_open(&table, settings);
        assert_int_equal(write_file(&table, "", "s", "f", "x"), 0);
        for (unsigned i = 0; i < 2000 && !gone; i++) {
                json_t *list = NULL;

                gone = sbx_sessions_file_list_idle(table.sessions, "", "s", "", NULL, &list, NULL, NULL) == -ENOENT;
                json_decref(list);
                pause_ms(5);
        }
        assert_true(gone);
        assert_int_equal(write_file(&table, "", "s", "f", "x"), -ESTALE); /* as an execution is refused, once */
        assert_contains(table.err.message, "expired");
        assert_int_equal(write_file(&table, "", "s", "f", "x"), 0);
        table_close(&table);
}

static void test_death(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        struct table table;

        table_open(&table, NULL);
        assert_int_equal(write_file(&table, "", NULL, "deadly", "x"), 0);
        assert_int_equal(sbx_sessions_file_read(table.sessions, "", NULL, "deadly", 9, NULL, &out, NULL), -EPROTO);
        assert_int_equal(run(&table, NULL, "ok"), 0);
        assert_contains(table.result->notice, "ended while a file was read");
        table_close(&table);
}

/* ---- artifacts ---- */

static int keep(struct table *table, const char *principal, const char *id, size_t size, char *ret_name) {
        char *bytes = calloc(1, size + 1);
        int r;

        assert_non_null(bytes);
        r = sbx_sessions_artifact_add(table->sessions, principal, id, "plot", ".png", "image/png",
                                      (struct sbx_bytes){bytes, size}, ret_name, &table->err);
        free(bytes);
        return r;
}

static size_t count_artifacts(struct table *table, const char *id) {
        _cleanup_json_ json_t *list = NULL;

        assert_int_equal(sbx_sessions_artifact_list(table->sessions, "", id, &list, NULL), 0);
        return json_array_size(list);
}

static size_t artifact_bytes(struct table *table) {
        struct sbx_session_figures figures;

        sbx_sessions_figures(table->sessions, &figures);
        return figures.artifact_bytes;
}

static void test_artifacts(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        char name[SBX_ARTIFACT_NAME_SIZE], first[SBX_ARTIFACT_NAME_SIZE];
        struct table table;
        char *type = NULL;

        table_open(&table, NULL);
        assert_int_equal(keep(&table, "", "s", 3, name), -ENOENT);
        assert_int_equal(run(&table, "s", "ok"), 0);
        assert_int_equal(keep(&table, "", "s", 3, first), 0);
        assert_string_equal(first, "plot-1.png");
        assert_int_equal(keep(&table, "", "s", 0, name), 0);
        assert_string_equal(name, "plot-2.png");
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "", "s", first, &out, &type, NULL), 0);
        assert_int_equal(out.size, 3);
        assert_string_equal(type, "image/png");
        free(type);
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "", "s", "plot-9.png", &out, &type, NULL), -ENOENT);
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "bob", "s", first, &out, &type, NULL), -ENOENT);
        assert_int_equal(keep(&table, "bob", "s", 3, name), -ENOENT);
        assert_int_equal(keep(&table, "", "s", SBX_ARTIFACT_BYTES_MAX + 1, name), -EFBIG);
        assert_int_equal(sbx_sessions_artifact_add(table.sessions, "", "s", "../x", "", "t", BYTES("x"), name, NULL),
                         -EINVAL);
        assert_int_equal(artifact_bytes(&table), 3);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "s", NULL), 0);
        assert_int_equal(artifact_bytes(&table), 0);
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "", "s", first, &out, &type, NULL), -ENOENT);
        sbx_buffer_free(&out);
        table_close(&table);
}

/* Neither many nor large ones, nor many sessions, take more than their share; the oldest go first. */
static void test_artifacts_are_bounded(void **state) {
        char name[SBX_ARTIFACT_NAME_SIZE], id[16];
        struct sbx_buffer out = SBX_BUFFER(100);
        struct table table;
        char *type = NULL;

        table_open(&table, NULL);
        assert_int_equal(run(&table, "s", "ok"), 0);
        for (unsigned i = 0; i < SBX_ARTIFACTS_MAX + 6; i++)
                assert_int_equal(keep(&table, "", "s", 1, name), 0);
        assert_string_equal(name, "plot-70.png");
        assert_int_equal(count_artifacts(&table, "s"), SBX_ARTIFACTS_MAX);
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "", "s", "plot-6.png", &out, &type, NULL), -ENOENT);
        assert_int_equal(sbx_sessions_artifact_read(table.sessions, "", "s", "plot-7.png", &out, &type, NULL), 0);
        free(type);
        assert_int_equal(keep(&table, "", "s", SBX_ARTIFACT_BYTES_MAX, name), 0); /* all others go for it */
        assert_int_equal(count_artifacts(&table, "s"), 1);
        for (unsigned i = 0; i < SBX_ARTIFACT_BYTES_OF_ALL / SBX_ARTIFACT_BYTES_MAX; i++) {
                snprintf(id, sizeof(id), "more-%u", i);
                assert_int_equal(run(&table, id, "ok"), 0);
                assert_int_equal(keep(&table, "", id, SBX_ARTIFACT_BYTES_MAX, name),
                                 i + 1 < SBX_ARTIFACT_BYTES_OF_ALL / SBX_ARTIFACT_BYTES_MAX ? 0 : -ENOSPC);
        }
        assert_int_equal(count_artifacts(&table, "s"), 1); /* another session's stay */
        assert_int_equal(artifact_bytes(&table), SBX_ARTIFACT_BYTES_OF_ALL);
        sbx_sessions_destroy_all(table.sessions, "");
        assert_int_equal(artifact_bytes(&table), 0);
        sbx_buffer_free(&out);
        table_close(&table);
}

/* They are the host's: no execution is waited for. */
static void test_artifacts_of_a_busy_session(void **state) {
        char name[SBX_ARTIFACT_NAME_SIZE];
        struct runner runner = {0};
        struct table table;

        table_open(&table, NULL);
        runner_start(&runner, &table, "s", "sleep 30000");
        wait_until_busy(&table, "s");
        assert_int_equal(keep(&table, "", "s", 5, name), 0);
        assert_int_equal(count_artifacts(&table, "s"), 1);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "s", NULL), 0);
        runner_join(&runner);
        assert_int_equal(runner.result->end, SBX_END_CANCELLED);
        runner_free(&runner);
        assert_int_equal(artifact_bytes(&table), 0);
        table_close(&table);
}

/* ---- news ---- */

struct heard {
        unsigned count, lists;
        char last[300], principal[32];
};

static void hear(void *data, const char *principal, const char *uri_prefix, bool list_changed) {
        struct heard *heard = data;

        heard->count++;
        heard->lists += list_changed;
        snprintf(heard->last, sizeof(heard->last), "%s", uri_prefix);
        snprintf(heard->principal, sizeof(heard->principal), "%s", principal);
}

static void test_news(void **state) {
        struct heard heard = {0};
        const struct sbx_session_observer observer = {.data = &heard, .changed = hear};
        struct sbx_execution fresh = execution_of("", "ok");
        struct table table;

        table_open(&table, NULL);
        sbx_sessions_observe(table.sessions, &observer);
        assert_int_equal(run(&table, "a@b", "ok"), 0);
        assert_string_equal(heard.last, "repl://a%40b/");
        assert_string_equal(heard.principal, "");
        assert_int_equal(heard.lists, 0); /* nobody ever looked */
        assert_int_equal(count_artifacts(&table, "a@b"), 0);
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(run(&table, "a@b", "ok"), 0);
        assert_int_equal(heard.count, 6);
        assert_int_equal(heard.lists, 1); /* nobody looked again */
        assert_int_equal(count_artifacts(&table, "a@b"), 0);
        assert_int_equal(write_file(&table, "", "a@b", "f", "x"), 0);
        assert_int_equal(heard.lists, 2);
        assert_int_equal(run_with(&table, &fresh, NULL), 0);
        assert_int_equal(heard.count, 7); /* a fresh session has no resources */
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "a@b", NULL), 0);
        assert_int_equal(heard.count, 8);
        assert_int_equal(heard.lists, 3);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "none", NULL), -ENOENT);
        assert_int_equal(heard.count, 8);
        table_close(&table);
}

/* ---- addresses and paths ---- */

static void test_uri(void **state) {
        static const struct {
                const char *id, *path, *uri;
                enum sbx_session_area area;
        } cases[] = {
                {"default", "a/b.txt", "repl://default/files/a/b.txt", SBX_AREA_FILES},
                {"u:1@x", "a b%#?.txt", "repl://u%3A1%40x/files/a%20b%25%23%3F.txt", SBX_AREA_FILES},
                {"s", "caf\xc3\xa9\n", "repl://s/files/caf%C3%A9%0A", SBX_AREA_FILES},
                {"s", "plot-1.png", "repl://s/artifacts/plot-1.png", SBX_AREA_ARTIFACTS},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_buffer uri = SBX_BUFFER(SBX_SESSION_URI_MAX);
                struct sbx_session_address address = {0};

                assert_int_equal(sbx_session_uri(cases[i].id, cases[i].area, cases[i].path, &uri), 0);
                assert_string_equal(uri.data, cases[i].uri);
                assert_int_equal(sbx_session_uri_parse(uri.data, &address, NULL), 0);
                assert_string_equal(address.id, cases[i].id);
                assert_string_equal(address.path, cases[i].path);
                assert_int_equal(address.area, cases[i].area);
                sbx_buffer_free(&uri);
        }
}

static void test_bad_uris(void **state) {
        static const struct {
                const char *uri;
                int r;
        } cases[] = {
                {"", -ENOENT},
                {"repl://", -ENOENT},
                {"repl://s", -ENOENT},
                {"repl://s/", -ENOENT},
                {"repl://s/other/x", -ENOENT},
                {"REPL://s/files/x", -ENOENT},
                {"file:///etc/passwd", -ENOENT},
                {"repl:///files/x", -EINVAL},
                {"repl://s/files/", -EINVAL},
                {"repl://s/files/.", -EINVAL},
                {"repl://s/files//etc/passwd", -EINVAL},
                {"repl://s/files/%2fetc/passwd", -EINVAL},
                {"repl://s/files/../x", -EINVAL},
                {"repl://s/files/a/%2e%2e/%2E%2E/x", -EINVAL},
                {"repl://s/files/a%2f..%2f..%2fx", -EINVAL},
                {"repl://s/files/x%00y", -EINVAL},
                {"repl://s/files/x%", -EINVAL},
                {"repl://s/files/x%4", -EINVAL},
                {"repl://s/files/x%4g", -EINVAL},
                {"repl://s/files/%ff", -EINVAL},
                {"repl://s%00/files/x", -EINVAL},
                {"repl://s/artifacts/", -EINVAL},
                {"repl://s/artifacts/a/b", -EINVAL},
                {"repl://s/artifacts/a%2Fb", -EINVAL},
                {"repl://s/artifacts/..", -EINVAL},
        };
        struct sbx_session_address address = {0};
        static char long_uri[9000] = "repl://s/files/";

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (sbx_session_uri_parse(cases[i].uri, &address, NULL) != cases[i].r)
                        fail_msg("%s", cases[i].uri);
        memset(long_uri + 15, 'x', sizeof(long_uri) - 16);
        assert_int_equal(sbx_session_uri_parse(long_uri, &address, NULL), -EINVAL);
        memcpy(long_uri + 4000, "/files/", 7);
        memset(long_uri + 7, 's', 3993);
        assert_int_equal(sbx_session_uri_parse(long_uri, &address, NULL), -EINVAL);
        assert_string_equal(address.path, ""); /* untouched */
}

static void test_paths(void **state) {
        char path[SBX_SESSION_PATH_MAX + 1] = "";
        static char long_path[SBX_SESSION_PATH_MAX + 2];

        assert_int_equal(sbx_session_path("./a//b/./c/", false, path, NULL), 0);
        assert_string_equal(path, "a/b/c");
        assert_int_equal(sbx_session_path("..a/b..", false, path, NULL), 0);
        assert_string_equal(path, "..a/b..");
        assert_int_equal(sbx_session_path(".", true, path, NULL), 0);
        assert_string_equal(path, "");
        assert_int_equal(sbx_session_path(".", false, path, NULL), -EINVAL);
        assert_int_equal(sbx_session_path("", false, path, NULL), -EINVAL);
        assert_int_equal(sbx_session_path("/a", true, path, NULL), -EINVAL);
        assert_int_equal(sbx_session_path("a/../b", true, path, NULL), -EINVAL);
        assert_int_equal(sbx_session_path("..", true, path, NULL), -EINVAL);
        assert_int_equal(sbx_session_path("\xc0\x80", true, path, NULL), -EINVAL);
        memset(long_path, 'x', SBX_SESSION_PATH_MAX);
        assert_int_equal(sbx_session_path(long_path, false, path, NULL), 0);
        long_path[SBX_SESSION_PATH_MAX] = 'x';
        assert_int_equal(sbx_session_path(long_path, false, path, NULL), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read_write_list),
                cmocka_unit_test(test_bad_paths),
                cmocka_unit_test(test_of_others),
                cmocka_unit_test(test_looking),
                cmocka_unit_test(test_looking_keeps_nothing_alive),
                cmocka_unit_test(test_death),
                cmocka_unit_test(test_artifacts),
                cmocka_unit_test(test_artifacts_are_bounded),
                cmocka_unit_test(test_artifacts_of_a_busy_session),
                cmocka_unit_test(test_news),
                cmocka_unit_test(test_uri),
                cmocka_unit_test(test_bad_uris),
                cmocka_unit_test(test_paths),
        };

        return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
