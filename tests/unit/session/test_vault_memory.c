/* SPDX-License-Identifier: Apache-2.0 */
/* Vaults when memory is short: every allocation fails once, nothing leaks, and nothing that is stored is lost. */
#include "vaults.h"

#include <sys/mman.h>

#include "../alloc_fail.h"

static int add_one(struct sbx_vault *vault, const char *text, bool automatic) {
        const struct sbx_checkpoint given = {.automatic = automatic, .label = (char *)(automatic ? NULL : "named")};
        const struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_buffer part = {.data = (char *)text, .size = strlen(text), .max = SIZE_MAX};
        struct sbx_session_state state = {.mechanism = SBX_MECHANISM_PORTABLE, .parts = &part, .part_count = 1};

        return sbx_vault_add(vault, &given, &state, automatic, NULL, &checkpoint, NULL);
}

static int use_vault(struct sbx_vault *vault) {
        const struct sbx_checkpoint *frozen = NULL;
        struct sbx_session_state state = {0};
        int r = add_one(vault, "one", false);

        if (r == 0)
                r = add_one(vault, "two", true);
        if (r == 0)
                r = sbx_vault_add_frozen(vault, &(struct sbx_checkpoint){.mechanism = SBX_MECHANISM_FROZEN}, &frozen,
                                         NULL);
        if (r == 0)
                r = sbx_vault_move(vault, "named", NULL, NULL);
        if (r == 0)
                r = sbx_vault_read(vault, "named", NULL, &state, NULL);
        if (r == 0)
                assert_true(state.part_count == 1 && strcmp(state.parts[0].data, "one") == 0);
        sbx_state_clear(&state);
        return r == 0 ? sbx_vault_remove(vault, sbx_vault_tree(vault)->items[1]->id, NULL, NULL) : r;
}

static int carry_over(struct sbx_vaults *vaults, struct sbx_vault *vault) {
        _cleanup_close_ int fd = memfd_create("session", MFD_CLOEXEC);
        struct sbx_vault *copy = NULL;
        int r = sbx_vault_export(vault, NULL, fd, NULL, NULL);

        if (r == 0)
                r = sbx_vault_open(vaults, "", "copy", true, NULL, &copy, NULL);
        if (r < 0)
                return r;
        lseek(fd, 0, SEEK_SET);
        r = sbx_vault_import(copy, fd, NULL, NULL);
        if (r == 0)
                return sbx_vault_destroy(copy, NULL, NULL);
        sbx_vault_close(copy);
        return r;
}

static int look_around(struct sbx_vaults *vaults) {
        struct sbx_tree tree = {0};
        json_t *list = NULL, *told = NULL;
        int r = sbx_vaults_list(vaults, NULL, NULL, &list, NULL);

        json_decref(list);
        if (r == 0)
                r = sbx_vaults_look(vaults, "", "work", NULL, &tree, NULL);
        sbx_tree_clear(&tree);
        if (r == 0)
                r = sbx_vaults_collect(vaults, NULL, 3600000, NULL, &told, NULL);
        json_decref(told);
        return r;
}

/* Each round begins with an empty store: else there would be more to do in each than in the one before. */
static void forget(struct desk *desk, const char *id) {
        char key[SBX_VAULT_KEY_SIZE], directory[SBX_VAULT_LEASE_SIZE];

        sbx_vault_key("", id, key);
        snprintf(directory, sizeof(directory), "sessions/%s", key);
        sbx_memory_store_forget(desk->store.memory, directory);
}

static int use(void *data) {
        struct desk *desk = data;
        struct sbx_vaults *vaults = NULL;
        struct sbx_vault *vault = NULL;
        int r = sbx_vaults_new(desk->config, &desk->registry, &desk->logger, &vaults, NULL);

        desk->log[0] = '\0';
        forget(desk, "work");
        forget(desk, "copy");
        if (r == 0)
                r = sbx_vault_open(vaults, "", "work", true, NULL, &vault, NULL);
        if (r == 0)
                r = use_vault(vault);
        if (r == 0)
                r = carry_over(vaults, vault);
        sbx_vault_close(vault);
        if (r == 0)
                r = look_around(vaults);
        if (r == 0)
                r = sbx_vaults_destroy(vaults, "", "work", NULL, NULL);
        sbx_vaults_free(vaults);
        return r;
}

static void test_short_of_memory(void **state) {
        static struct desk desk;
        unsigned rounds;

        desk_open(&desk, NULL);
        rounds = alloc_fail_sweep(use, &desk);
        print_message("# %u rounds\n", rounds);
        assert_true(rounds > 100);
        assert_int_equal(gated_store_count(&desk.store), 0);
        desk_close(&desk);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_of_memory)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
