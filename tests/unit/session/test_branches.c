/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a session's states: checkpoints, going back, branches, copies that stand still, and leases that change
 * hands. Run under TSan too. */
#include "fake_store.h"

#include "base/cleanup.h"

static json_t *answer; /* of the last operation on a tree */

static int keep_answer(int r, json_t **given) {
        json_decref(answer);
        answer = given != NULL ? *given : NULL;
        return r;
}

static int checkpoint(struct table *table, const char *id, const char *label) {
        json_t *given = NULL;

        table->err = (struct sbx_error){0};
        return keep_answer(sbx_sessions_checkpoint(table->sessions, NULL, id, label, NULL, &given, &table->err),
                           &given);
}

static int rollback(struct table *table, const char *id, const char *to) {
        json_t *given = NULL;

        table->err = (struct sbx_error){0};
        return keep_answer(sbx_sessions_rollback(table->sessions, NULL, id, to, NULL, &given, &table->err), &given);
}

static int branch(struct table *table, const char *id, const char *from, const char *new_id) {
        json_t *given = NULL;

        table->err = (struct sbx_error){0};
        return keep_answer(sbx_sessions_fork(table->sessions, NULL, id, from, new_id, NULL, &given, &table->err),
                           &given);
}

static size_t checkpoints(struct table *table, const char *id) {
        json_t *given = NULL;

        assert_int_equal(
                keep_answer(sbx_sessions_checkpoints(table->sessions, NULL, id, NULL, &given, &table->err), &given), 0);
        return json_array_size(answer);
}

static const char *told(const char *key) {
        const char *text = json_string_value(json_object_get(answer, key));

        return text != NULL ? text : "(none)";
}

/* How many executions the session's guest has had, this one included. */
static int runs_in(struct table *table, const char *id) {
        assert_int_equal(run(table, id, "ok"), 0);
        return atoi(table->result->value);
}

static void wait_for_copies(unsigned count) {
        uint64_t deadline = sbx_clock_deadline_ms(30000);

        while (fake_guest_counts().forked < count && sbx_clock_ns() < deadline)
                pause_ms(2);
        assert_true(fake_guest_counts().forked >= count);
}

static void finish(struct table *server) {
        server_close(server);
        keep_answer(0, NULL);
        fake_store_close();
}

/* ---- checkpoints and going back ---- */

static void go_back_and_on(const char *id) {
        struct table server;

        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, id), 1);
        assert_int_equal(checkpoint(&server, id, "before it went wrong"), 0);
        assert_string_equal(told("label"), "before it went wrong");
        assert_true(json_is_false(json_object_get(answer, "automatic")));
        assert_int_equal(runs_in(&server, id), 2);
        assert_int_equal(runs_in(&server, id), 3);
        assert_int_equal(rollback(&server, id, "before it went wrong"), 0);
        assert_int_equal(json_array_size(json_object_get(answer, "missing")), 0);
        assert_int_equal(runs_in(&server, id), 2);
        assert_null(server.result->notice);                                 /* who asked for it knows */
        assert_int_equal(rollback(&server, id, "before it went wrong"), 0); /* as often as one likes */
        assert_int_equal(runs_in(&server, id), 2);
        assert_int_equal(rollback(&server, id, "nowhere"), -ENOENT);
        assert_contains(server.err.message, "has no checkpoint 'nowhere'; the newest are c");
        assert_contains(server.err.message, "(\"before it went wrong\")");
        assert_int_equal(runs_in(&server, id), 3); /* nothing has happened to it */
        finish(&server);
}

static void test_portable(void **state) {
        fake_store_open();
        fake_guest_can_tell();
        go_back_and_on("s");
}

static void test_byte_exact(void **state) {
        fake_store_open();
        fake_registry_can_save();
        fake_registry_can_fork();
        go_back_and_on("s");
}

static void test_frozen(void **state) {
        fake_store_open();
        fake_guest_can_tell();
        fake_registry_families();
        go_back_and_on("s");
}

static void test_of_a_session_that_is_not_stored(void **state) {
        fake_store_open();
        fake_guest_can_tell();
        go_back_and_on("default");
        fake_store_open();
        fake_registry_families(); /* whose worker can tell nothing: copies are all that there is */
        go_back_and_on("default");
}

static void test_where_nothing_can(void **state) {
        struct table server;

        fake_store_open();
        server_open(&server, NULL);
        assert_int_equal(checkpoint(&server, "s", NULL), -ENOENT); /* there is no such session, and none is made */
        assert_int_equal(checkpoint(&server, "default", NULL), -ENOENT);
        assert_int_equal(fake_guest_counts().started, 0);
        assert_int_equal(runs_in(&server, "s"), 1);
        assert_int_equal(checkpoint(&server, "s", NULL), -ENOTSUP);
        assert_int_equal(rollback(&server, "s", NULL), -ENOENT);
        assert_contains(server.err.message, "session 's' has no checkpoint");
        assert_int_equal(checkpoint(&server, "s", "c7"), -EINVAL);
        assert_int_equal(runs_in(&server, "s"), 2);
        finish(&server);
}

static void test_list(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        for (int i = 1; i <= 4; i++)
                assert_int_equal(runs_in(&server, "s"), i);
        assert_int_equal(rollback(&server, "s", "c2"), 0);
        assert_int_equal(runs_in(&server, "s"), 3);
        server_close(&server);
        server_open(&server, NULL); /* it need not run to be listed */
        assert_int_equal(checkpoints(&server, "s"), 5);
        assert_int_equal(fake_guest_counts().alive, 0);
        assert_string_equal(json_string_value(json_object_get(json_array_get(answer, 4), "parent")), "c2");
        assert_true(json_is_true(json_object_get(json_array_get(answer, 4), "head")));
        assert_int_equal(rollback(&server, "s", "c4"), 0); /* nor to be brought back */
        assert_int_equal(runs_in(&server, "s"), 5);
        assert_null(server.result->notice);
        finish(&server);
}

/* What was gone back to is where another server goes on. */
static void test_going_back_is_kept(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        for (int i = 1; i <= 3; i++)
                assert_int_equal(runs_in(&server, "s"), i);
        assert_int_equal(rollback(&server, "s", "c1"), 0);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 2);
        assert_contains(server.result->notice, "goes on from its checkpoint c1");
        finish(&server);
}

static void test_damage_while_going_back(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        for (int i = 1; i <= 3; i++)
                assert_int_equal(runs_in(&server, "s"), i);
        fake_store_damage("/c1.");
        assert_int_equal(rollback(&server, "s", "c1"), -EBADMSG);
        assert_int_equal(runs_in(&server, "s"), 4); /* as if nobody had asked */
        assert_int_equal(rollback(&server, "s", "c2"), 0);
        assert_int_equal(runs_in(&server, "s"), 3);
        finish(&server);
}

/* ---- copies ---- */

static void test_copies_are_few(void **state) {
        struct table server;

        fake_store_open();
        fake_registry_families();
        fake_registry_copies(2);
        server_open(&server, NULL);
        for (int i = 1; i <= 5; i++) {
                assert_int_equal(runs_in(&server, "default"), i);
                wait_for_copies((unsigned)i);
        }
        assert_int_equal(checkpoints(&server, "default"), 2);
        assert_int_equal(checkpoint(&server, "default", "a"), 0);
        assert_int_equal(checkpoint(&server, "default", "b"), 0);
        assert_int_equal(checkpoint(&server, "default", "c"), -ENOSPC); /* what was asked for is not pushed out */
        assert_contains(server.err.hint, "checkpoint_copies");
        assert_int_equal(checkpoints(&server, "default"), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(answer, 0), "mechanism")),
                            "frozen process");
        assert_int_equal(rollback(&server, "default", "a"), 0);
        assert_int_equal(runs_in(&server, "default"), 6);
        finish(&server);
}

/* A copy has what parts can't hold; it is what a crash goes back to. */
static void test_a_copy_is_better_than_parts(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        fake_registry_families();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "name gen"), 0);
        wait_for_copies(1);
        assert_int_equal(run(&server, "s", "crash"), 0);
        assert_int_equal(server.result->state, SBX_STATE_ROLLED_BACK);
        assert_int_equal(runs_in(&server, "s"), 2);
        assert_contains(server.result->notice, "rolled back to its checkpoint c1 (frozen process)");
        assert_null(strstr(server.result->notice, "Not there any more"));
        assert_int_equal(fake_guest_counts().restored, 0);
        finish(&server);
}

/* ---- branches ---- */

static void test_branches_of_copies(void **state) {
        struct table server;
        unsigned commits;

        fake_store_open();
        fake_registry_can_save();
        fake_registry_can_fork();
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 1);
        assert_int_equal(runs_in(&server, "s"), 2);
        commits = fake_store_commits();
        assert_int_equal(branch(&server, "s", NULL, "t"), 0);
        assert_string_equal(told("session_id"), "t");
        assert_string_equal(told("mechanism"), "byte-exact");
        assert_int_equal(branch(&server, "s", NULL, "t"), -EEXIST);
        while (fake_store_commits() == commits) /* nobody waits for it, and it is stored all the same */
                pause_ms(2);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(branch(&server, "s", NULL, "t"), -EEXIST); /* stored ones count, too */
        assert_int_equal(runs_in(&server, "t"), 3);
        assert_int_equal(runs_in(&server, "t"), 4);
        assert_int_equal(runs_in(&server, "s"), 3);
        finish(&server);
}

static void test_branches_of_parts(void **state) {
        char made_up[SBX_SESSION_ID_MAX + 1];
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        fake_registry_families();
        server_open(&server, NULL);
        assert_int_equal(run(&server, "s", "name gen"), 0);
        assert_int_equal(runs_in(&server, "s"), 2);
        assert_int_equal(branch(&server, "s", NULL, NULL), 0);
        snprintf(made_up, sizeof(made_up), "%s", told("session_id"));
        assert_int_equal(strncmp(made_up, "s-", 2), 0);
        assert_string_equal(told("mechanism"), "portable");
        assert_int_equal(json_array_size(json_object_get(answer, "missing")), 1);
        assert_true(json_is_true(json_object_get(answer, "durable")));
        assert_int_equal(branch(&server, "s", "c1", "u"), 0);
        assert_string_equal(told("checkpoint"), "c1");
        assert_int_equal(runs_in(&server, "u"), 2);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, made_up), 3);
        assert_int_equal(runs_in(&server, "u"), 3);
        assert_int_equal(runs_in(&server, "s"), 3);
        assert_int_equal(branch(&server, "none", NULL, NULL), -ENOENT);
        assert_int_equal(branch(&server, "s", NULL, "b/ad"), -EINVAL);
        assert_int_equal(branch(&server, "s", NULL, ""), -EINVAL);
        finish(&server);
}

static void test_branches_are_sessions(void **state) {
        static const char *const settings[] = {"max_sessions=2", NULL};
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, settings);
        assert_int_equal(runs_in(&server, "s"), 1);
        assert_int_equal(branch(&server, "s", NULL, "t"), 0);
        assert_int_equal(branch(&server, "s", NULL, "u"), -EBUSY);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "t", &server.err), 0);
        assert_int_equal(branch(&server, "s", NULL, "u"), 0);
        finish(&server);
}

/* ---- the end of stored ones ---- */

static void test_destroying_stored_ones(void **state) {
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 1);
        assert_int_equal(runs_in(&server, "t"), 1);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "s", &server.err), 0);
        assert_int_equal(runs_in(&server, "s"), 1);
        server_close(&server);
        server_open(&server, NULL);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "s", &server.err), 0);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "s", &server.err), -ENOENT);
        assert_int_equal(runs_in(&server, "s"), 1);
        sbx_sessions_suspend_all(server.sessions, NULL);
        assert_int_equal(runs_in(&server, "s"), 2);
        sbx_sessions_destroy_all(server.sessions, NULL); /* "t", too, which did not run here */
        assert_int_equal(fake_store_blobs(), 0);
        finish(&server);
}

static size_t count_stored(struct table *server) {
        _cleanup_json_ json_t *list = NULL;

        assert_int_equal(sbx_sessions_stored(server->sessions, NULL, NULL, &list, &server->err), 0);
        return json_array_size(list);
}

static void *release_soon(void *data) {
        pause_ms(50);
        fake_store_hold_commits(false);
        return data;
}

/* The keeper is storing it just then: what is stored goes before the call returns. */
static void test_destroying_one_that_is_kept(void **state) {
        struct table server;
        pthread_t thread;

        fake_store_open();
        fake_guest_can_tell();
        fake_registry_checkpoint_wait(0);
        server_open(&server, NULL);
        fake_guest_state_bytes(5u << 20);
        assert_int_equal(runs_in(&server, "s"), 1);
        fake_store_hold_commits(true);
        assert_int_equal(runs_in(&server, "s"), 2); /* put off */
        while (fake_store_held() == 0)
                pause_ms(1);
        assert_int_equal(pthread_create(&thread, NULL, release_soon, NULL), 0);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "s", &server.err), 0);
        assert_int_equal(count_stored(&server), 0);
        assert_int_equal(fake_store_blobs(), 0);
        pthread_join(thread, NULL);
        finish(&server);
}

/* Its name can be used at once; who does so waits until the old one has let go of what is stored, and starts clean. */
static void test_destroying_a_busy_one(void **state) {
        struct runner busy = {0};
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 1);
        runner_start(&busy, &server, "s", "sleep 20000");
        wait_until_busy(&server, "s");
        fake_store_slow_commits(50);
        assert_int_equal(sbx_sessions_destroy(server.sessions, NULL, "s", &server.err), 0);
        assert_int_equal(count_stored(&server), 0);
        assert_int_equal(runs_in(&server, "s"), 1);
        assert_null(server.result->notice);
        runner_join(&busy);
        assert_int_equal(busy.result->end, SBX_END_CANCELLED);
        runner_free(&busy);
        finish(&server);
}

/* ---- leases ---- */

static void test_two_servers(void **state) {
        struct table first, second;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&first, NULL);
        server_open(&second, NULL);
        assert_int_equal(runs_in(&first, "s"), 1);
        assert_int_equal(run(&second, "s", "ok"), -EBUSY);
        assert_contains(second.err.message, "belongs to another server");
        assert_int_equal(fake_guest_counts().started, 1); /* nothing was begun for it */
        server_close(&first);
        assert_int_equal(runs_in(&second, "s"), 2);
        finish(&second);
}

static void test_a_lease_is_lost(void **state) {
        _cleanup_json_ json_t *kept = NULL;
        struct table server;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 1);
        fake_store_steal();
        assert_int_equal(runs_in(&server, "s"), 2); /* it finds out when it wants to keep that */
        kept = kept_by(&server);
        assert_true(json_is_null(json_object_get(kept, "id")));
        assert_false(json_is_true(json_object_get(kept, "durable")));
        assert_int_equal(run(&server, "s", "ok"), -EBUSY);
        assert_int_equal(fake_guest_counts().alive, 0);
        fake_store_give_back();
        assert_int_equal(runs_in(&server, "s"), 2); /* from what the other left */
        assert_string_equal(server.result->notice_kind, "resumed");
        fake_store_steal();
        assert_int_equal(rollback(&server, "s", "c1"), -ESTALE);
        fake_store_give_back();
        assert_int_equal(runs_in(&server, "s"), 3);
        fake_store_steal();
        assert_int_equal(checkpoint(&server, "s", NULL), -ESTALE);
        fake_store_give_back();
        assert_int_equal(runs_in(&server, "s"), 4);
        finish(&server);
}

/* Nobody waits for a session's store but who has that session. */
static void test_a_slow_store_holds_up_nobody(void **state) {
        struct runner slow = {0};
        struct table server;
        unsigned ended = 0;

        fake_store_open();
        fake_guest_can_tell();
        server_open(&server, NULL);
        assert_int_equal(runs_in(&server, "s"), 1);
        fake_store_hold_commits(true);
        slow.counter = &ended;
        runner_start(&slow, &server, "s", "ok");
        while (fake_store_held() == 0)
                pause_ms(1);
        for (int i = 0; i < 20; i++) {
                json_decref(list_of(&server, ""));
                assert_int_equal(runs_in(&server, "default"), i + 1);
        }
        assert_int_equal(__atomic_load_n(&ended, __ATOMIC_SEQ_CST), 0);
        fake_store_hold_commits(false);
        runner_join(&slow);
        assert_int_equal(slow.r, 0);
        runner_free(&slow);
        finish(&server);
}

/* ---- everything at once ---- */

#define HAMMERS 6
#define BLOWS 400

struct hammer {
        struct table *table;
        pthread_t thread;
        unsigned seed;
        int unexpected;
};

static int strike(struct hammer *hammer) {
        static const char *const ids[] = {"a", "b", "c", "default"};
        static const char *const codes[] = {"ok", "ok", "name x", "crash", "die-after", "sleep 1"};
        struct sbx_sessions *sessions = hammer->table->sessions;
        const char *id = ids[rand_r(&hammer->seed) % 4];
        struct sbx_execution execution = execution_of(id, codes[rand_r(&hammer->seed) % 6]);
        _cleanup_json_ json_t *json = NULL;
        struct sbx_result *result = NULL;
        int r;

        switch (rand_r(&hammer->seed) % 12) {
        case 0:
                return sbx_sessions_destroy(sessions, NULL, id, NULL);
        case 1:
                return sbx_sessions_checkpoint(sessions, NULL, id, "label", NULL, &json, NULL);
        case 2:
                return sbx_sessions_rollback(sessions, NULL, id, rand_r(&hammer->seed) % 2 ? "label" : NULL, NULL,
                                             &json, NULL);
        case 3:
                return sbx_sessions_fork(sessions, NULL, id, NULL, ids[rand_r(&hammer->seed) % 3], NULL, &json, NULL);
        case 4:
                return sbx_sessions_checkpoints(sessions, NULL, id, NULL, &json, NULL);
        case 5:
                fake_store_fail_commits(rand_r(&hammer->seed) % 4 == 0 ? -ENOSPC : 0);
                return sbx_sessions_stored(sessions, NULL, NULL, &json, NULL);
        default:
                r = sbx_sessions_execute(sessions, &execution, NULL, &result, NULL);
                sbx_result_free(result);
                return r;
        }
}

static void *hammer_run(void *data) {
        static const int expected[] = {0, -ENOENT, -ECANCELED, -ESTALE, -EBUSY, -EEXIST, -ENOSPC, -ESRCH};
        struct hammer *hammer = data;

        for (unsigned i = 0; i < BLOWS; i++) {
                int r = strike(hammer);
                bool known = false;

                for (size_t at = 0; at < sizeof(expected) / sizeof(expected[0]); at++)
                        known = known || r == expected[at];
                if (!known)
                        hammer->unexpected = r;
        }
        return NULL;
}

static void hammer_all(void) {
        struct hammer hammers[HAMMERS] = {0};
        struct table table;

        server_open(&table, (const char *const[]){"session_ttl=5ms", "checkpoints_max=4", NULL});
        table.logger.level = 0;
        for (unsigned i = 0; i < HAMMERS; i++) {
                hammers[i] = (struct hammer){.table = &table, .seed = i + 1};
                assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]), 0);
        }
        for (unsigned i = 0; i < HAMMERS; i++) {
                assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
                assert_int_equal(hammers[i].unexpected, 0);
        }
        finish(&table);
}

static void test_hammer_portable(void **state) {
        fake_store_open();
        fake_guest_can_tell();
        hammer_all();
}

static void test_hammer_copies(void **state) {
        fake_store_open();
        fake_registry_can_save();
        fake_registry_can_fork();
        hammer_all();
}

static void test_hammer_frozen(void **state) {
        fake_store_open();
        fake_guest_can_tell();
        fake_registry_families();
        hammer_all();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_portable),
                cmocka_unit_test(test_byte_exact),
                cmocka_unit_test(test_frozen),
                cmocka_unit_test(test_of_a_session_that_is_not_stored),
                cmocka_unit_test(test_where_nothing_can),
                cmocka_unit_test(test_list),
                cmocka_unit_test(test_going_back_is_kept),
                cmocka_unit_test(test_damage_while_going_back),
                cmocka_unit_test(test_copies_are_few),
                cmocka_unit_test(test_a_copy_is_better_than_parts),
                cmocka_unit_test(test_branches_of_copies),
                cmocka_unit_test(test_branches_of_parts),
                cmocka_unit_test(test_branches_are_sessions),
                cmocka_unit_test(test_destroying_stored_ones),
                cmocka_unit_test(test_destroying_a_busy_one),
                cmocka_unit_test(test_destroying_one_that_is_kept),
                cmocka_unit_test(test_two_servers),
                cmocka_unit_test(test_a_lease_is_lost),
                cmocka_unit_test(test_a_slow_store_holds_up_nobody),
                cmocka_unit_test(test_hammer_portable),
                cmocka_unit_test(test_hammer_copies),
                cmocka_unit_test(test_hammer_frozen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
