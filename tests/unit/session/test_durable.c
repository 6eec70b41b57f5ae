/* SPDX-License-Identifier: Apache-2.0 */
/* Durable sessions: what one server leaves another goes on with, whatever ended it; and what is told of that. Run under
 * TSan too. */
#include "fake_store.h"

#include "base/cleanup.h"

static const char *text_of(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));

        return text != NULL ? text : "(none)";
}

static void test_kept_after_each_execution(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        for (unsigned i = 1; i <= 3; i++) {
                _cleanup_json_ json_t *kept = NULL;
                char id[8];

                assert_int_equal(run(&server, "s", "ok"), 0);
                snprintf(id, sizeof(id), "c%u", i);
                kept = kept_by(&server);
                assert_string_equal(text_of(kept, "id"), id);
                assert_string_equal(text_of(kept, "mechanism"), "portable");
                assert_true(json_is_true(json_object_get(kept, "durable")));
                assert_null(server.result->notice);
                assert_null(server.result->notice_kind);
        }
        assert_int_equal(run(&server, NULL, "ok"), 0);
        assert_null(server.result->checkpoint); /* "default" is this server's alone */
        assert_int_equal(run(&server, "", "ok"), 0);
        assert_null(server.result->checkpoint);
        server_close(&server);
        fake_store_close();
}

static void go_on_with(bool exact) {
        struct table server;

        fake_store_open();
        if (exact)
                fake_registry_can_save();
        else
                fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "name x"), 0);
        assert_int_equal(run(&server, "s", "ok"), 0);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "3");
        assert_string_equal(server.result->notice_kind, "resumed");
        assert_contains(server.result->notice, "Session 's' goes on from its checkpoint c2");
        assert_contains(server.result->notice, "the state after its execution 2");
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_null(server.result->notice);
        assert_int_equal(fake_guest_counts().restored, 1);
        server_close(&server);
        fake_store_close();
}

static void test_another_server_goes_on(void **state) {
        go_on_with(false);
}

static void test_another_server_goes_on_exactly(void **state) {
        go_on_with(true);
}

static void test_what_could_not_be_saved(void **state) {
        _cleanup_json_ json_t *first = NULL, *second = NULL;
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "name gen1"), 0);
        first = kept_by(&server);
        assert_true(json_is_true(json_object_get(json_array_get(json_object_get(first, "unsaved"), 0), "new")));
        assert_int_equal(run(&server, "s", "ok"), 0);
        second = kept_by(&server);
        assert_int_equal(json_array_size(json_object_get(second, "unsaved")), 1);
        assert_null(json_object_get(json_array_get(json_object_get(second, "unsaved"), 0), "new"));
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_contains(server.result->notice, "Not there any more: gen1 (generator: it runs).");
        server_close(&server);
        fake_store_close();
}

static void test_rolled_back_after_a_crash(void **state) {
        _cleanup_json_ json_t *kept = NULL;
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_int_equal(run(&server, "s", "crash"), 0);
        assert_int_equal(server.result->state, SBX_STATE_ROLLED_BACK);
        kept = kept_by(&server);
        assert_string_equal(text_of(kept, "id"), "c1"); /* what it goes on from */
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "2");
        assert_string_equal(server.result->notice_kind, "rolled_back");
        assert_contains(server.result->notice, "checkpoint c1 (portable), the state after its execution 1: an earlier "
                                               "execution ended as 'killed'");
        server_close(&server);
        fake_store_close();
}

static void test_crash_at_once(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "crash"), 0);
        assert_int_equal(server.result->state, SBX_STATE_LOST);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "1");
        assert_string_equal(server.result->notice_kind, "restarted");
        server_close(&server);
        fake_store_close();
}

static void test_damaged_checkpoints(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(run(&server, "s", "ok"), 0);
        server_close(&server);
        fake_store_damage("/c3.");
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "3"); /* two, and this one */
        assert_contains(server.result->notice, "goes on from its checkpoint c2");
        assert_contains(server.result->notice, "Checkpoint c3 could not be used: ");
        server_close(&server);
        fake_store_damage("/c");
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "1");
        assert_string_equal(server.result->notice_kind, "restarted");
        assert_contains(server.result->notice, "Checkpoint c1 could not be used: ");
        server_close(&server);
        fake_store_close();
}

/* A store that can't be read for now is no reason to take an older state, or none. */
static void test_unreadable_store(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        server_close(&server);
        fake_store_fail_gets(-EIO);
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), -EIO);
        fake_store_fail_gets(0);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "2");
        server_close(&server);
        fake_store_close();
}

static void test_full_store(void **state) {
        _cleanup_json_ json_t *first = NULL, *second = NULL, *third = NULL;
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        fake_store_fail_commits(-ENOSPC);
        server.logger.level = SBX_LOG_ERROR;
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_int_equal(server.result->end, SBX_END_OK);
        first = kept_by(&server);
        assert_true(json_is_null(json_object_get(first, "id")));
        assert_false(json_is_true(json_object_get(first, "durable")));
        assert_string_equal(text_of(first, "reason"), "the store failed");
        assert_true(json_is_true(json_object_get(first, "reason_new")));
        assert_int_equal(run(&server, "s", "ok"), 0);
        second = kept_by(&server);
        assert_false(json_is_true(json_object_get(second, "reason_new")));
        fake_store_fail_commits(0);
        assert_int_equal(run(&server, "s", "ok"), 0);
        third = kept_by(&server);
        assert_true(json_is_true(json_object_get(third, "durable")));
        server_close(&server);
        fake_store_close();
}

static void test_policies(void **state) {
        static const char *const off[] = {NULL};
        _cleanup_json_ json_t *kept = NULL;
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        fake_registry_checkpoint("off");
        server_open(&server, off);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_null(server.result->checkpoint);
        assert_int_equal(fake_guest_counts().saved, 0);
        fake_registry_checkpoint("changed");
        assert_int_equal(run(&server, "s", "name x"), 0);
        assert_int_equal(run(&server, "s", "ok"), 0); /* the same variables: c1 is the state still */
        kept = kept_by(&server);
        assert_string_equal(text_of(kept, "id"), "c1");
        assert_int_equal(fake_store_commits(), 1);
        server_close(&server);
        fake_store_close();
}

/* A large state that took longer than executions are to wait: the keeper takes it, or whoever ends the session. */
static void test_large_ones_are_put_off(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        fake_registry_checkpoint_wait(0);
        server_open(&server, NULL);
        fake_guest_state_bytes(5u << 20);
        for (int i = 0; i < 3; i++) {
                _cleanup_json_ json_t *kept = NULL;

                assert_int_equal(run(&server, "s", "ok"), 0);
                kept = kept_by(&server);
                if (i == 0) { /* nobody knows what it takes */
                        assert_string_equal(text_of(kept, "id"), "c1");
                        continue;
                }
                assert_true(json_is_null(json_object_get(kept, "id")));
                assert_true(json_is_true(json_object_get(kept, "pending")));
                assert_contains(text_of(kept, "reason"), "kept once the session is quiet");
        }
        while (fake_store_commits() < 2) /* the keeper's */
                pause_ms(5);
        assert_int_equal(run(&server, "s", "ok"), 0);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "5");
        server_close(&server);
        fake_store_close();
}

static void test_no_store(void **state) {
        _cleanup_json_ json_t *kept = NULL;
        struct table table;

        table_open(&table, NULL);
        fake_guest_can_tell();
        assert_int_equal(run(&table, "s", "ok"), 0);
        kept = kept_by(&table);
        assert_true(json_is_null(json_object_get(kept, "id")));
        assert_false(json_is_true(json_object_get(kept, "durable")));
        assert_contains(text_of(kept, "reason"), "there is no store");
        assert_int_equal(fake_guest_counts().saved, 0);
        table_close(&table);
}

static void test_set_clear_and_files_are_kept(void **state) {
        _cleanup_json_ json_t *value = json_integer(1), *variables = NULL;
        _cleanup_free_ char *repr = NULL;
        struct sbx_buffer text = SBX_BUFFER(100);
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(sbx_sessions_set(server.sessions, NULL, "s", "y", value, NULL, &repr, &server.err), 0);
        assert_int_equal(sbx_sessions_file_write(server.sessions, NULL, "s", "f", (struct sbx_bytes){"abc", 3}, NULL,
                                                 &server.err),
                         0);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(sbx_sessions_get(server.sessions, NULL, "s", NULL, &variables, &server.err), 0);
        assert_non_null(json_object_get(variables, "y"));
        assert_int_equal(sbx_sessions_file_read(server.sessions, NULL, "s", "f", 100, NULL, &text, &server.err), 0);
        assert_string_equal(text.data, "abc");
        sbx_buffer_free(&text);
        assert_int_equal(sbx_sessions_clear(server.sessions, NULL, "s", NULL, &server.err), 0);
        server_close(&server);
        server_open(&server, NULL);
        json_decref(variables);
        variables = NULL;
        assert_int_equal(sbx_sessions_get(server.sessions, NULL, "s", NULL, &variables, &server.err), 0);
        assert_int_equal(json_object_size(variables), 0);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->notice_kind, "resumed"); /* told with the first result, whenever that is */
        server_close(&server);
        fake_store_close();
}

static void test_idle_ones_are_resumed(void **state) {
        static const char *const settings[] = {"session_ttl=30ms", NULL};
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, settings);
        assert_int_equal(run(&server, "s", "ok"), 0);
        while (fake_guest_counts().alive > 0)
                pause_ms(5);
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "2");
        assert_string_equal(server.result->notice_kind, "resumed");
        /* What is not stored is gone, and the first call says so instead of running something. */
        fake_store_fail_commits(-ENOSPC);
        assert_int_equal(run(&server, "s", "ok"), 0);
        while (fake_guest_counts().alive > 0)
                pause_ms(5);
        fake_store_fail_commits(0);
        assert_int_equal(run(&server, "s", "ok"), -ESTALE);
        assert_contains(server.err.message, "since its newest checkpoint");
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "3");
        server_close(&server);
        fake_store_close();
}

static void test_environment_is_kept(void **state) {
        struct sbx_execution other = execution_of("s", "ok"), language = execution_of("s", "ok");
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        other.environment = "other";
        other.runtime = "python3.12";
        assert_int_equal(run_with(&server, &other, NULL), 0);
        server_close(&server);
        server_open(&server, NULL);
        language.runtime = "bash";
        assert_int_equal(run_with(&server, &language, NULL), -EINVAL);
        assert_contains(server.err.message, "one of python3.12");
        language.runtime = NULL;
        language.environment = "local";
        assert_int_equal(run_with(&server, &language, NULL), -EINVAL);
        assert_contains(server.err.message, "of environment 'other'");
        assert_int_equal(run(&server, "s", "ok"), 0);
        assert_string_equal(server.result->value, "2");
        assert_string_equal(fake_guest_counts().last_runtime, "python 3.12");
        server_close(&server);
        fake_store_close();
}

static void test_unused_ones_are_removed(void **state) {
        static const char *const settings[] = {"session_retention=1s", NULL};
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, settings);
        assert_int_equal(run(&server, "old", "ok"), 0);
        assert_int_equal(run(&server, "used", "ok"), 0);
        sbx_sessions_suspend_all(server.sessions, NULL);
        assert_int_equal(fake_store_blobs(), 4); /* a manifest and a part each */
        assert_int_equal(run(&server, "used", "ok"), 0);
        sbx_sessions_warm(server.sessions);
        while (fake_store_blobs() > 3)
                pause_ms(20);
        assert_int_equal(run(&server, "used", "ok"), 0); /* one that somebody has stays */
        assert_string_equal(server.result->value, "3");
        assert_int_equal(run(&server, "old", "ok"), 0);
        assert_string_equal(server.result->value, "1");
        server_close(&server);
        fake_store_close();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kept_after_each_execution),
                cmocka_unit_test(test_another_server_goes_on),
                cmocka_unit_test(test_another_server_goes_on_exactly),
                cmocka_unit_test(test_what_could_not_be_saved),
                cmocka_unit_test(test_rolled_back_after_a_crash),
                cmocka_unit_test(test_crash_at_once),
                cmocka_unit_test(test_damaged_checkpoints),
                cmocka_unit_test(test_unreadable_store),
                cmocka_unit_test(test_full_store),
                cmocka_unit_test(test_policies),
                cmocka_unit_test(test_large_ones_are_put_off),
                cmocka_unit_test(test_no_store),
                cmocka_unit_test(test_set_clear_and_files_are_kept),
                cmocka_unit_test(test_idle_ones_are_resumed),
                cmocka_unit_test(test_environment_is_kept),
                cmocka_unit_test(test_unused_ones_are_removed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
