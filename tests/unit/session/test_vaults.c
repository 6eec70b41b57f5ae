/* SPDX-License-Identifier: Apache-2.0 */
/* Vaults: what they keep, and that nothing is lost where the store fails. */
#include "vaults.h"

static void test_which_are_durable(void **state) {
        static const char *const without[] = {"store=", NULL};
        struct desk desk;
        struct sbx_vaults *none;
        struct sbx_config *config;

        desk_open(&desk, NULL);
        assert_true(sbx_vaults_durable(desk.vaults, "", "analysis"));
        assert_true(sbx_vaults_durable(desk.vaults, "", "defaults"));
        assert_false(sbx_vaults_durable(desk.vaults, "", ""));
        assert_false(sbx_vaults_durable(desk.vaults, "", "default"));
        assert_false(sbx_vaults_durable(desk.vaults, "", "default-bash"));
        assert_true(sbx_vaults_durable(desk.vaults, "run:17", "default"));
        assert_true(sbx_vaults_durable(desk.vaults, "run:17", "default-node"));
        assert_false(sbx_vaults_durable(desk.vaults, "run:17", ""));
        assert_false(sbx_vaults_durable(desk.vaults, "run:17/2", "named"));
        config = desk_config(without);
        assert_int_equal(sbx_vaults_new(config, &desk.registry, &desk.logger, &none, NULL), 0);
        assert_false(sbx_vaults_durable(none, "", "analysis"));
        sbx_vaults_free(none);
        sbx_config_free(config);
        assert_int_equal(desk.registry.asked, 0); /* nobody needed the store */
        desk_close(&desk);
}

static void test_kept_over_servers(void **state) {
        struct sbx_vault_identity identity = {.environment = "local",
                                              .backend = "backend-local",
                                              .runtime = "python",
                                              .created_at = "2026-01-01T00:00:00.000Z",
                                              .memory_limit_bytes = 77};
        struct sbx_vault_identity found = {0};
        const struct sbx_tree *tree;
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        assert_true(sbx_vault_durable(vault));
        assert_false(sbx_vault_identity(vault, &found));
        assert_int_equal(gated_store_count(&desk.store), 0); /* nothing is stored before the first checkpoint */
        sbx_vault_identify(vault, &identity);
        add_automatic(&desk, vault, "one");
        add(&desk, vault, "two");
        sbx_vault_close(vault);
        sbx_vaults_free(desk.vaults);
        desk.vaults = desk_server(&desk);
        vault = open_vault(&desk, "work");
        tree = sbx_vault_tree(vault);
        assert_int_equal(tree->count, 2);
        assert_string_equal(tree->head, "c2");
        assert_string_equal(tree->items[1]->parent, "c1");
        assert_true(tree->items[0]->automatic);
        assert_false(tree->items[1]->automatic);
        assert_int_equal(tree->items[1]->mechanism, SBX_MECHANISM_PORTABLE);
        assert_int_equal(tree->items[1]->bytes, strlen("two") + strlen("shared"));
        assert_true(sbx_vault_identity(vault, &found));
        assert_memory_equal(&found, &identity, sizeof(found));
        assert_holds(&desk, vault, "c1", "one");
        assert_holds(&desk, vault, "c2", "two");
        assert_string_equal(add(&desk, vault, "three"), "c3");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_not_created(void **state) {
        struct desk desk;
        struct sbx_vault *vault = NULL;

        desk_open(&desk, NULL);
        assert_int_equal(sbx_vault_open(desk.vaults, "", "none", false, NULL, &vault, &desk.err), -ENOENT);
        assert_contains(desk.err.message, "'none'");
        assert_null(vault);
        assert_null(desk.vaults->open); /* and its lease was given back */
        vault = open_vault(&desk, "none");
        sbx_vault_close(vault);
        assert_int_equal(gated_store_count(&desk.store), 0);
        desk_close(&desk);
}

static void test_in_memory(void **state) {
        static const char *const settings[] = {"checkpoint_memory=6000", NULL};
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vault *one, *two;
        char *large = calloc(1, 6001);

        desk_open(&desk, settings);
        one = open_vault(&desk, "default");
        two = open_vault(&desk, "default"); /* they share a name alone */
        assert_false(sbx_vault_durable(one));
        add(&desk, one, "one");
        add(&desk, two, "two");
        assert_holds(&desk, one, "c1", "one");
        assert_holds(&desk, two, "c1", "two");
        memset(large, 'x', 6000);
        assert_int_equal(add_with(&desk, two, large, NULL, false, &checkpoint), -ENOSPC);
        assert_contains(desk.err.hint, "checkpoint_memory");
        assert_int_equal(sbx_vault_tree(two)->count, 1);
        assert_holds(&desk, two, "c1", "two");
        sbx_vault_close(one);
        sbx_vault_close(two);
        one = open_vault(&desk, "default"); /* all of it is free again */
        large[4000] = '\0';
        add(&desk, one, large);
        sbx_vault_close(one);
        assert_int_equal(gated_store_count(&desk.store), 0);
        free(large);
        desk_close(&desk);
}

static void test_store_cannot_be_had(void **state) {
        struct desk desk;
        struct sbx_vault *vault;
        json_t *list = NULL;

        desk_open(&desk, NULL);
        assert_null(sbx_vaults_problem(desk.vaults));
        desk.registry.error = -EACCES;
        vault = open_vault(&desk, "work");
        assert_false(sbx_vault_durable(vault));
        assert_contains(sbx_vaults_problem(desk.vaults), "does not start");
        assert_contains(desk.log, "does not start");
        assert_contains(sbx_vault_problem(vault), "does not start");
        add(&desk, vault, "one");
        assert_holds(&desk, vault, "c1", "one");
        sbx_vault_close(vault);
        desk.log[0] = '\0';
        sbx_vault_close(open_vault(&desk, "other"));
        assert_string_equal(desk.log, ""); /* said once */
        assert_int_equal(sbx_vaults_list(desk.vaults, NULL, NULL, &list, &desk.err), -EACCES);
        desk_close(&desk);
}

static void test_old_plugin(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        desk.store.ops.commit = NULL;
        vault = open_vault(&desk, "work");
        assert_false(sbx_vault_durable(vault));
        assert_contains(sbx_vaults_problem(desk.vaults), "too old");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_surplus(void **state) {
        static const char *const settings[] = {"checkpoints_max=3", NULL};
        const struct sbx_checkpoint *frozen = NULL;
        const struct sbx_tree *tree;
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, settings);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "kept");
        for (unsigned i = 0; i < 10; i++)
                add_automatic(&desk, vault, (const char[]){(char)('a' + (char)i), '\0'});
        assert_int_equal(sbx_vault_add_frozen(vault, &(struct sbx_checkpoint){.mechanism = SBX_MECHANISM_FROZEN},
                                              &frozen, &desk.err),
                         0);
        add_automatic(&desk, vault, "last");
        tree = sbx_vault_tree(vault);
        assert_int_equal(tree->count, 4);
        assert_string_equal(tree->items[0]->id, "c1"); /* somebody asked for it */
        assert_string_equal(tree->items[1]->id, "c11");
        assert_string_equal(tree->items[1]->parent, "c1");
        assert_string_equal(tree->items[2]->id, "c12"); /* the copy is not the vault's */
        assert_string_equal(tree->items[3]->id, "c13");
        assert_holds(&desk, vault, "c1", "kept");
        assert_holds(&desk, vault, "c11", "j");
        assert_int_equal(gated_store_count(&desk.store), 5); /* three parts, the shared one, the manifest */
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_lowered_maximum(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        for (unsigned i = 0; i < 20; i++)
                add_automatic(&desk, vault, (const char[]){(char)('a' + (char)i), '\0'});
        assert_int_equal(sbx_vault_tree(vault)->count, 20);
        desk.vaults->checkpoints_max = 2;
        add_automatic(&desk, vault, "then");
        assert_int_equal(sbx_vault_tree(vault)->count, 13); /* not all in one commit */
        for (unsigned i = 0; i < 4; i++)
                add_automatic(&desk, vault, "now");
        assert_int_equal(sbx_vault_tree(vault)->count, 2);
        assert_int_equal(gated_store_count(&desk.store), 3);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_equal_parts_are_one(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        assert_int_equal(gated_store_count(&desk.store), 3);
        add(&desk, vault, "two");
        add(&desk, vault, "one");
        add(&desk, vault, "shared");
        assert_int_equal(gated_store_count(&desk.store), 4);
        assert_int_equal(sbx_vault_remove(vault, "c1", NULL, &desk.err), 0); /* which brought what the others have */
        assert_int_equal(sbx_vault_remove(vault, "c2", NULL, &desk.err), 0);
        assert_int_equal(gated_store_count(&desk.store), 3);
        sbx_vault_close(vault);
        vault = open_vault(&desk, "work");
        assert_holds(&desk, vault, "c3", "one");
        assert_holds(&desk, vault, "c4", "shared");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_moving(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        add(&desk, vault, "two");
        assert_int_equal(sbx_vault_move(vault, "c1", NULL, &desk.err), 0);
        assert_string_equal(sbx_vault_tree(vault)->head, "c1");
        add(&desk, vault, "three");
        assert_string_equal(sbx_vault_tree(vault)->items[2]->parent, "c1");
        assert_int_equal(sbx_vault_move(vault, "", NULL, &desk.err), 0);
        sbx_vault_close(vault);
        vault = open_vault(&desk, "work");
        assert_string_equal(sbx_vault_tree(vault)->head, "");
        add(&desk, vault, "four");
        assert_string_equal(sbx_vault_tree(vault)->items[3]->parent, "");
        assert_int_equal(sbx_vault_move(vault, "c9", NULL, &desk.err), -ENOENT);
        assert_int_equal(sbx_vault_remove(vault, "c9", NULL, NULL), -ENOENT);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_labels(void **state) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        assert_int_equal(add_with(&desk, vault, "one", "before the loop", false, &checkpoint), 0);
        assert_int_equal(add_with(&desk, vault, "two", "before the loop", false, &checkpoint), 0);
        assert_int_equal(add_with(&desk, vault, "three", "c1", false, &checkpoint), -EINVAL);
        assert_int_equal(add_with(&desk, vault, "three", "a\x1b[2J", false, &checkpoint), -EINVAL);
        assert_int_equal(add_with(&desk, vault, "three", "", false, &checkpoint), -EINVAL);
        assert_int_equal(sbx_vault_tree(vault)->count, 2);
        sbx_vault_close(vault);
        vault = open_vault(&desk, "work");
        assert_holds(&desk, vault, "before the loop", "two"); /* the newest */
        assert_string_equal(sbx_vault_tree(vault)->items[0]->label, "before the loop");
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* Ids of copies are nobody else's after a restart. */
static void test_ids_of_copies(void **state) {
        const struct sbx_checkpoint *frozen = NULL;
        struct desk desk;
        struct sbx_vault *vault;
        uint64_t number = 0;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        assert_int_equal(sbx_vault_add_frozen(vault, &(struct sbx_checkpoint){.mechanism = SBX_MECHANISM_FROZEN},
                                              &frozen, &desk.err),
                         0);
        assert_string_equal(frozen->id, "c2");
        assert_int_equal(sbx_vault_read(vault, "c2", NULL, &(struct sbx_session_state){0}, NULL), -ENOENT);
        add(&desk, vault, "three");
        assert_string_equal(sbx_vault_tree(vault)->items[2]->parent, "c2");
        assert_int_equal(gated_store_calls(&desk.store, GATE_COMMIT), 2);
        assert_int_equal(sbx_vault_move(vault, "c2", NULL, &desk.err), 0);
        assert_int_equal(sbx_vault_remove(vault, "c2", NULL, &desk.err), 0);
        assert_int_equal(gated_store_calls(&desk.store, GATE_COMMIT), 2); /* a copy is not the store's business */
        assert_string_equal(sbx_vault_tree(vault)->head, "c1");
        gated_store_fail(&desk.store, GATE_COMMIT, 0, -EIO); /* as if the server had been killed here */
        sbx_vault_close(vault);
        gated_store_heal(&desk.store);
        vault = open_vault(&desk, "work");
        assert_int_equal(sbx_vault_tree(vault)->count, 2);
        assert_string_equal(sbx_vault_tree(vault)->items[1]->parent, "c1");
        assert_true(sbx_checkpoint_id_number(add(&desk, vault, "four"), &number));
        assert_true(number > 3);
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* ---- a store that fails ---- */

static void test_failed_commits(void **state) {
        static const int errors[] = {-ENOSPC, -EIO, -EFBIG, -ETIMEDOUT, -ECANCELED};
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
                gated_store_fail(&desk.store, GATE_COMMIT, 0, errors[i]);
                assert_int_equal(add_with(&desk, vault, "two", NULL, true, &checkpoint), errors[i]);
                assert_contains(desk.err.message, "told to fail");
                assert_int_equal(sbx_vault_move(vault, "", NULL, NULL), errors[i]);
                assert_int_equal(sbx_vault_remove(vault, "c1", NULL, NULL), errors[i]);
                assert_null(checkpoint);
                assert_int_equal(sbx_vault_tree(vault)->count, 1);
                assert_string_equal(sbx_vault_tree(vault)->head, "c1");
                assert_false(sbx_vault_lost(vault));
        }
        gated_store_heal(&desk.store);
        assert_holds(&desk, vault, "c1", "one");
        assert_string_equal(add(&desk, vault, "two"), "c2");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_lost_answer(void **state) {
        const char *const texts[] = {"a", "b", "c", NULL};
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vault *vault;
        _cleanup_state_ struct sbx_session_state large = state_of(texts);
        json_t *told = NULL;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        gated_store_lose_answer(&desk.store, GATE_COMMIT, -EIO); /* it is done, and nobody knows */
        assert_int_equal(sbx_vault_add(vault, &(struct sbx_checkpoint){0}, &large, false, NULL, &checkpoint, NULL),
                         -EIO);
        gated_store_heal(&desk.store);
        assert_int_equal(sbx_vault_tree(vault)->count, 1);
        assert_string_equal(add(&desk, vault, "two"), "c2"); /* takes the place of what nobody was told of */
        sbx_vault_close(vault);
        vault = open_vault(&desk, "work");
        assert_holds(&desk, vault, "c1", "one");
        assert_holds(&desk, vault, "c2", "two");
        sbx_vault_close(vault);
        assert_true(gated_store_count(&desk.store) > 4); /* what the lost one left */
        assert_int_equal(sbx_vaults_collect(desk.vaults, NULL, 0, NULL, &told, &desk.err), 0);
        json_decref(told);
        assert_int_equal(gated_store_count(&desk.store), 4);
        vault = open_vault(&desk, "work");
        assert_holds(&desk, vault, "c1", "one");
        assert_holds(&desk, vault, "c2", "two");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_lost_answer_to_a_lease(void **state) {
        struct desk desk;
        struct sbx_vault *vault = NULL;

        desk_open(&desk, NULL);
        gated_store_lose_answer(&desk.store, GATE_TAKE, -EIO);
        assert_int_equal(sbx_vault_open(desk.vaults, "", "work", true, NULL, &vault, &desk.err), -EIO);
        gated_store_heal(&desk.store);
        sbx_vault_close(open_vault(&desk, "work")); /* this server itself has it: it need not wait */
        gated_store_fail(&desk.store, GATE_RELEASE, 0, -EIO);
        sbx_vault_close(open_vault(&desk, "work"));
        assert_contains(desk.log, "can't be given back");
        gated_store_heal(&desk.store);
        sbx_vault_close(open_vault(&desk, "work"));
        desk_close(&desk);
}

/* A full store: what it knows goes on, what it does not know is not stored, and says so. */
static void test_full_store(void **state) {
        struct desk desk;
        struct sbx_vault *vault = NULL;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "known");
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        gated_store_fail(&desk.store, GATE_TAKE, 0, -ENOSPC);
        assert_int_equal(sbx_vault_open(desk.vaults, "", "known", true, NULL, &vault, &desk.err), -ENOSPC);
        vault = open_vault(&desk, "new");
        assert_false(sbx_vault_durable(vault));
        assert_contains(sbx_vault_problem(vault), "told to fail");
        assert_contains(desk.log, "'new' is not stored");
        assert_null(sbx_vaults_problem(desk.vaults));
        add(&desk, vault, "one");
        assert_holds(&desk, vault, "c1", "one");
        sbx_vault_close(vault);
        gated_store_fail(&desk.store, GATE_GET, 0, -EIO); /* who knows what it has */
        assert_int_equal(sbx_vault_open(desk.vaults, "", "new", true, NULL, &vault, NULL), -ENOSPC);
        gated_store_heal(&desk.store);
        vault = open_vault(&desk, "new");
        assert_true(sbx_vault_durable(vault));
        assert_null(sbx_vault_problem(vault));
        assert_int_equal(sbx_vault_tree(vault)->count, 0);
        sbx_vault_close(vault);
        desk_close(&desk);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_are_durable),
                cmocka_unit_test(test_kept_over_servers),
                cmocka_unit_test(test_not_created),
                cmocka_unit_test(test_in_memory),
                cmocka_unit_test(test_store_cannot_be_had),
                cmocka_unit_test(test_old_plugin),
                cmocka_unit_test(test_surplus),
                cmocka_unit_test(test_lowered_maximum),
                cmocka_unit_test(test_equal_parts_are_one),
                cmocka_unit_test(test_moving),
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_ids_of_copies),
                cmocka_unit_test(test_failed_commits),
                cmocka_unit_test(test_lost_answer),
                cmocka_unit_test(test_lost_answer_to_a_lease),
                cmocka_unit_test(test_full_store),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
