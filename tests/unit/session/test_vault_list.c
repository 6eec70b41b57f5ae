/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored: listed, removed, collected. */
#include "vaults.h"

static void test_destroy(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        assert_int_equal(sbx_vault_destroy(vault, NULL, &desk.err), 0);
        assert_int_equal(gated_store_count(&desk.store), 0);
        vault = open_vault(&desk, "work");
        assert_int_equal(sbx_vault_tree(vault)->count, 0);
        add(&desk, vault, "two");
        sbx_vault_close(vault);
        assert_int_equal(sbx_vaults_destroy(desk.vaults, "alice", "work", NULL, NULL), -ENOENT);
        assert_int_equal(sbx_vaults_destroy(desk.vaults, "", "work", NULL, &desk.err), 0);
        assert_int_equal(gated_store_count(&desk.store), 0);
        assert_int_equal(sbx_vaults_destroy(desk.vaults, "", "work", NULL, NULL), -ENOENT);
        assert_int_equal(sbx_vaults_destroy(desk.vaults, "", "default", NULL, NULL), -ENOENT);
        desk_close(&desk);
}

static void test_destroy_fails(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        gated_store_fail(&desk.store, GATE_COMMIT, 0, -EIO);
        assert_int_equal(sbx_vault_destroy(vault, NULL, &desk.err), -EIO);
        assert_contains(desk.err.message, "'work'");
        gated_store_heal(&desk.store);
        vault = open_vault(&desk, "work"); /* closed nevertheless */
        assert_holds(&desk, vault, "c1", "one");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static const json_t *entry_of(const json_t *list, size_t index, const char *key) {
        return json_object_get(json_array_get(list, index), key);
}

static void test_list(void **state) {
        struct sbx_vault_identity identity = {.environment = "local", .runtime = "python"};
        struct sbx_tree tree = {0};
        struct sbx_vault *vault, *other = NULL;
        struct desk desk;
        json_t *list = NULL;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "zebra");
        sbx_vault_identify(vault, &identity);
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        vault = open_vault(&desk, "apple");
        add(&desk, vault, "one");
        assert_int_equal(sbx_vault_open(desk.vaults, "bob", "other", true, NULL, &other, &desk.err), 0);
        add(&desk, other, "one");
        sbx_vault_close(other);
        gated_store_write(&desk.store, "sessions/stranger", BYTES("x")); /* what others keep is not listed */
        gated_store_write(&desk.store, "sessions/not-a-key/manifest", BYTES("x"));
        assert_int_equal(sbx_vaults_list(desk.vaults, "", NULL, &list, &desk.err), 0);
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(entry_of(list, 0, "id")), "apple");
        assert_contains(json_string_value(entry_of(list, 0, "server")), "(process ");
        assert_true(json_is_null(entry_of(list, 0, "environment")));
        assert_string_equal(json_string_value(entry_of(list, 1, "id")), "zebra");
        assert_true(json_is_null(entry_of(list, 1, "server")));
        assert_string_equal(json_string_value(entry_of(list, 1, "environment")), "local");
        assert_int_equal(json_integer_value(entry_of(list, 1, "checkpoints")), 1);
        assert_string_equal(json_string_value(entry_of(list, 1, "head")), "c1");
        assert_true(json_is_null(entry_of(list, 1, "damaged")));
        json_decref(list);
        assert_int_equal(sbx_vaults_list(desk.vaults, NULL, NULL, &list, &desk.err), 0);
        assert_int_equal(json_array_size(list), 3);
        json_decref(list);
        assert_int_equal(sbx_vaults_look(desk.vaults, "", "apple", NULL, &tree, &desk.err), 0); /* though it is open */
        assert_int_equal(tree.count, 1);
        sbx_tree_clear(&tree);
        assert_int_equal(sbx_vaults_look(desk.vaults, "", "other", NULL, &tree, NULL), -ENOENT);
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* What a store has lost keeps nobody from seeing the rest. */
static void test_list_with_losses(void **state) {
        struct sbx_vault *vault;
        struct desk desk;
        json_t *list = NULL, *told = NULL;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        gated_store_lose_answer(&desk.store, GATE_LIST, -EBADMSG); /* behind those that can be read */
        assert_int_equal(sbx_vaults_list(desk.vaults, "", NULL, &list, &desk.err), 0);
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(entry_of(list, 0, "id")), "?");
        assert_contains(json_string_value(entry_of(list, 0, "damaged")), "lost");
        assert_string_equal(json_string_value(entry_of(list, 1, "id")), "work");
        json_decref(list);
        assert_int_equal(sbx_vaults_collect(desk.vaults, "", 3600000, NULL, &told, &desk.err), 0);
        json_decref(told);
        gated_store_heal(&desk.store);
        gated_store_fail(&desk.store, GATE_LIST, 0, -EIO);
        assert_int_equal(sbx_vaults_list(desk.vaults, "", NULL, &list, &desk.err), -EIO);
        desk_close(&desk);
}

static void test_collect(void **state) {
        struct desk desk;
        struct sbx_vault *used, *vault;
        json_t *told = NULL;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "old");
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        used = open_vault(&desk, "used");
        add(&desk, used, "one");
        usleep(3000);
        assert_int_equal(sbx_vaults_collect(desk.vaults, "bob", 1, NULL, &told, &desk.err), 0);
        assert_int_equal(json_array_size(json_object_get(told, "removed")), 0);
        json_decref(told);
        assert_int_equal(sbx_vaults_collect(desk.vaults, "", 3600000, NULL, &told, &desk.err), 0);
        assert_int_equal(json_array_size(json_object_get(told, "removed")), 0);
        json_decref(told);
        assert_int_equal(sbx_vaults_collect(desk.vaults, "", 1, NULL, &told, &desk.err), 0);
        assert_int_equal(json_array_size(json_object_get(told, "removed")), 1); /* the other one is in use */
        assert_string_equal(json_string_value(json_array_get(json_object_get(told, "removed"), 0)), "old");
        assert_contains(json_string_value(json_object_get(json_object_get(told, "store"), "location")), "memory");
        json_decref(told);
        assert_holds(&desk, used, "c1", "one");
        add(&desk, used, "two"); /* its lease is still its own */
        sbx_vault_close(used);
        desk_close(&desk);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_destroy), cmocka_unit_test(test_destroy_fails),
                cmocka_unit_test(test_list),    cmocka_unit_test(test_list_with_losses),
                cmocka_unit_test(test_collect),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
