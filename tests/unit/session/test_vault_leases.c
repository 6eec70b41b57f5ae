/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a session is: two servers, dead ones, one that slept, and leases that are renewed. */
#include "vaults.h"

#include <sys/wait.h>

static void test_two_servers(void **state) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vaults *other;
        struct sbx_vault *vault, *second = NULL;

        desk_open(&desk, NULL);
        other = desk_server(&desk);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        assert_int_equal(sbx_vault_open(other, "", "work", true, NULL, &second, &desk.err), -EBUSY);
        assert_contains(desk.err.message, "'work' belongs to another server");
        assert_contains(desk.err.message, "(process ");
        assert_contains(desk.err.hint, "seconds");
        sbx_vault_close(vault);
        desk.err = (struct sbx_error){0};
        assert_int_equal(sbx_vault_open(other, "", "work", true, NULL, &second, &desk.err), 0);
        assert_holds(&desk, second, "c1", "one");
        sbx_vault_close(second);
        sbx_vaults_free(other);
        assert_int_equal(add_with(&desk, vault = open_vault(&desk, "work"), "two", NULL, true, &checkpoint), 0);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void take_over(struct desk *desk, const char *holder) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        char name[SBX_VAULT_LEASE_SIZE], key[SBX_VAULT_KEY_SIZE];

        sbx_vault_key("", "work", key);
        snprintf(name, sizeof(name), "sessions/%s", key);
        if (sbx_memory_store_ops.lease_take(desk->store.memory, name, holder, 60000, 0, NULL, &lease, NULL) == -EBUSY)
                assert_int_equal(sbx_memory_store_ops.lease_take(desk->store.memory, name, holder, 60000, lease.token,
                                                                 NULL, &lease, NULL),
                                 0);
}

static void test_lost_lease(void **state) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        take_over(&desk, "somebody else");
        assert_false(sbx_vault_lost(vault)); /* nobody has told us yet */
        assert_int_equal(add_with(&desk, vault, "two", NULL, true, &checkpoint), -ESTALE);
        assert_contains(desk.err.message, "another server has taken session 'work'");
        assert_true(sbx_vault_lost(vault));
        assert_int_equal(sbx_vault_tree(vault)->count, 1);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_lease_after_sleep(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        atomic_store(&vault->renewed_ns, sbx_boottime_ns() - (SBX_LEASE_TTL_MS + 1) * SBX_NS_PER_MS);
        assert_false(sbx_vault_lost(vault)); /* nobody took it while the machine slept */
        assert_int_equal(gated_store_calls(&desk.store, GATE_RENEW), 1);
        assert_false(sbx_vault_lost(vault));
        assert_int_equal(gated_store_calls(&desk.store, GATE_RENEW), 1);
        take_over(&desk, "somebody else");
        atomic_store(&vault->renewed_ns, sbx_boottime_ns() - (SBX_LEASE_TTL_MS + 1) * SBX_NS_PER_MS);
        assert_true(sbx_vault_lost(vault));
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* Polls what another thread brings about; the test's own limit ends it if that never comes. */
static void wait_until(bool (*holds)(struct desk *desk, struct sbx_vault *vault), struct desk *desk,
                       struct sbx_vault *vault) {
        while (!holds(desk, vault))
                usleep(1000);
}

static bool was_renewed_twice(struct desk *desk, struct sbx_vault *vault) {
        return gated_store_calls(&desk->store, GATE_RENEW) >= 2;
}

static bool is_lost(struct desk *desk, struct sbx_vault *vault) {
        return sbx_vault_lost(vault);
}

static void test_renewal(void **state) {
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        desk.vaults->renew_ms = desk.vaults->again_ms = 1;
        vault = open_vault(&desk, "work");
        wait_until(was_renewed_twice, &desk, vault);
        assert_false(sbx_vault_lost(vault));
        gated_store_fail(&desk.store, GATE_RENEW, 0, -EIO); /* a store that is away takes no session */
        wait_until(was_renewed_twice, &desk, vault);
        assert_false(sbx_vault_lost(vault));
        gated_store_heal(&desk.store);
        take_over(&desk, "somebody else");
        wait_until(is_lost, &desk, vault);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void *close_vault(void *data) {
        sbx_vault_close(data);
        return NULL;
}

/* Who closes a vault waits for the thread that renews its lease just then, and gives it back behind it. */
static void test_closed_while_renewed(void **state) {
        struct desk desk;
        struct sbx_vault *vault;
        pthread_t closer;

        desk_open(&desk, NULL);
        desk.vaults->renew_ms = desk.vaults->again_ms = 1;
        gated_store_hold(&desk.store, GATE_RENEW);
        vault = open_vault(&desk, "work");
        gated_store_wait_held(&desk.store, GATE_RENEW, 1);
        assert_int_equal(pthread_create(&closer, NULL, close_vault, vault), 0);
        usleep(2000);
        assert_int_equal(gated_store_calls(&desk.store, GATE_RELEASE), 0);
        gated_store_let_go(&desk.store, GATE_RENEW);
        assert_int_equal(pthread_join(closer, NULL), 0);
        assert_int_equal(gated_store_calls(&desk.store, GATE_RELEASE), 1);
        assert_string_equal(desk.log, "");
        desk_close(&desk);
}

static void test_dead_holder(void **state) {
        char holder[SBX_LEASE_HOLDER_SIZE] = "";
        int pipe_fds[2], status;
        struct desk desk;
        struct sbx_vault *vault = NULL;
        pid_t pid;

        desk_open(&desk, NULL);
        assert_int_equal(pipe(pipe_fds), 0);
        pid = fork();
        if (pid == 0) {
                sbx_lease_holder(holder);
                if (write(pipe_fds[1], holder, sizeof(holder)) < 0)
                        _exit(1);
                pause();
        }
        assert_true(pid > 0);
        assert_int_equal(read(pipe_fds[0], holder, sizeof(holder)), sizeof(holder));
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        take_over(&desk, holder);
        assert_false(sbx_lease_holder_gone(holder));
        assert_int_equal(sbx_vault_open(desk.vaults, "", "work", true, NULL, &vault, &desk.err), -EBUSY);
        kill(pid, SIGKILL);
        assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
        assert_true(sbx_lease_holder_gone(holder)); /* a zombie runs no more */
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(sbx_lease_holder_gone(holder));
        vault = open_vault(&desk, "work");
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_holders(void **state) {
        static const char *const others[] = {"",
                                             "/",
                                             "x",
                                             "boot.1/2/3.4 name",
                                             "a/b/c.d e on f",
                                             "boot.1/-1/3.4 x on y",
                                             "boot.1/99999999999999999999/3.4 x on y"};
        char mine[SBX_LEASE_HOLDER_SIZE], text[SBX_LEASE_HOLDER_SIZE], *slash;

        sbx_lease_holder(mine);
        assert_false(sbx_lease_holder_gone(mine));
        sbx_lease_holder_show(mine, text, sizeof(text));
        assert_contains(text, "test_session_vault_leases (process ");
        assert_contains(text, ") on ");
        slash = strrchr(mine, '.'); /* "START.NUMBER": another start is another process */
        assert_non_null(slash);
        slash[-1] = slash[-1] == '1' ? '2' : '1';
        assert_true(sbx_lease_holder_gone(mine));
        mine[0] = mine[0] == 'a' ? 'b' : 'a'; /* of another boot, or machine: who knows */
        assert_false(sbx_lease_holder_gone(mine));
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                assert_false(sbx_lease_holder_gone(others[i]));
        sbx_lease_holder_show("a\x1b[2Jb", text, sizeof(text));
        assert_string_equal(text, "a?[2Jb");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_servers),
                cmocka_unit_test(test_lost_lease),
                cmocka_unit_test(test_lease_after_sleep),
                cmocka_unit_test(test_renewal),
                cmocka_unit_test(test_closed_while_renewed),
                cmocka_unit_test(test_dead_holder),
                cmocka_unit_test(test_holders),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
