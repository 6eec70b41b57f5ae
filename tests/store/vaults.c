/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of several servers on one store: killed in the middle of their work, stopped for longer than their lease
 * lasts, and all after the same session at once. A server is this program again, told by the environment what to do:
 * `vault-servers INSTANCE [NAME=VALUE ...]`. SBX_VAULT_KILLS: how many of them are killed; SBX_VAULT_SEED: when. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "session/vault_internal.h"

#define KILLS_DEFAULT 12
#define SERVERS 3
#define COUNT 8
#define KEPT 5 /* checkpoints_max */
#define SHORT_TTL_MS 300

static struct {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        struct sbx_vaults *vaults;
        char **arguments;
} server;

/* ---- a server ---- */

static int server_start(char **arguments) {
        const char *settings[64] = {"checkpoints_max=5", "store_wait=60s"};
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_error err = {0};
        int r;

        for (size_t i = 0; arguments[2 + i] != NULL && i < 60; i++)
                settings[2 + i] = arguments[2 + i];
        server.arguments = arguments;
        server.logger.level = SBX_LOG_ERROR;
        r = sbx_config_load(&options, &server.logger, &server.config, &err);
        if (r == 0)
                r = sbx_directories_find(&server.directories, &err);
        if (r == 0)
                r = sbx_registry_new(server.config, &server.logger, &server.directories, NULL, &server.registry, &err);
        if (r == 0)
                r = sbx_vaults_new(server.config, server.registry, &server.logger, &server.vaults, &err);
        if (r < 0)
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
        return r;
}

static void server_stop(void) {
        sbx_vaults_free(server.vaults);
        sbx_registry_free(server.registry);
        sbx_directories_free(&server.directories);
        sbx_config_free(server.config);
}

/* Contents that the number alone decides: a part that is always the same, one of its own, and every third time a large
 * one. */
static struct sbx_session_state state_of(uint64_t number) {
        size_t count = number % 3 == 0 ? 3 : 2, size = number % 3 == 0 ? 600000 + number : 0;
        struct sbx_session_state state = {.mechanism = SBX_MECHANISM_PORTABLE, .about = json_object()};

        state.parts = calloc(count, sizeof(*state.parts));
        for (; state.part_count < count; state.part_count++)
                state.parts[state.part_count] = (struct sbx_buffer)SBX_BUFFER(SBX_STATE_BYTES_MAX);
        sbx_buffer_append_text(&state.parts[0], "the same in each");
        sbx_buffer_printf(&state.parts[1], "%llu", (unsigned long long)number);
        for (size_t i = 0; i < size; i++)
                sbx_buffer_append(&state.parts[2], &(char){(char)((number + i * i) >> 3)}, 1);
        return state;
}

static int add(struct sbx_vault *vault, uint64_t number, struct sbx_error *err) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_checkpoint given = {.automatic = true, .executions = number};
        _cleanup_state_ struct sbx_session_state state = state_of(number);

        return sbx_vault_add(vault, &given, &state, number % 2 == 0, NULL, &checkpoint, err);
}

static uint64_t newest(const struct sbx_vault *vault) {
        const struct sbx_tree *tree = sbx_vault_tree(vault);

        return tree->count > 0 ? tree->items[tree->count - 1]->executions : 0;
}

static struct sbx_vault *open_vault(const char *id) {
        struct sbx_vault *vault = NULL;
        struct sbx_error err = {0};

        if (sbx_vault_open(server.vaults, "", id, true, NULL, &vault, &err) < 0)
                fail_msg("session '%s' can't be had: %s", id, err.message);
        if (!sbx_vault_durable(vault))
                fail_msg("no store: %s", sbx_vaults_problem(server.vaults));
        return vault;
}

/* ---- what the other servers do ---- */

static int say(const char *word, uint64_t number) {
        return printf("%s %llu\n", word, (unsigned long long)number) < 0 || fflush(stdout) != 0 ? 1 : 0;
}

/* Adds until it is killed, and says each one that it was told is kept. */
static int work(const char *id) {
        struct sbx_vault *vault = open_vault(id);
        struct sbx_error err = {0};

        for (uint64_t number = newest(vault) + 1;; number++) {
                if (add(vault, number, &err) < 0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 1;
                }
                if (say("kept", number) != 0)
                        return 1;
        }
}

/* Takes the session, counts, gives it back: again and again. */
static int count(const char *id) {
        for (unsigned i = 0; i < COUNT; i++) {
                struct sbx_vault *vault = open_vault(id);
                struct sbx_error err = {0};
                int r = add(vault, newest(vault) + 1, &err);

                sbx_vault_close(vault);
                if (r < 0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 1;
                }
        }
        return 0;
}

/* Adds one, stops itself, and after it was woken tries to add another one. */
static int sleep_long(const char *id) {
        struct sbx_vault *vault;
        struct sbx_error err = {0};
        bool lost;
        int r;

        server.vaults->ttl_ms = SHORT_TTL_MS;
        server.vaults->renew_ms = SHORT_TTL_MS / 3;
        vault = open_vault(id);
        r = add(vault, 1, &err);
        if (r < 0 || say("kept", 1) != 0)
                return 1;
        raise(SIGSTOP);
        lost = sbx_vault_lost(vault);
        r = add(vault, 100, &err);
        say(r == -ESTALE ? "stale" : "added", lost);
        sbx_vault_close(vault);
        return 0;
}

static int child_main(const char *task) {
        const char *id = getenv("SBX_VAULT_SESSION");

        if (strcmp(task, "work") == 0)
                return work(id);
        return strcmp(task, "count") == 0 ? count(id) : sleep_long(id);
}

/* ---- their processes ---- */

struct child {
        pid_t pid;
        FILE *says;
};

static struct child start_child(const char *task, const char *id) {
        struct child child;
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        setenv("SBX_VAULT_TASK", task, 1);
        setenv("SBX_VAULT_SESSION", id, 1);
        child.pid = fork();
        if (child.pid == 0) {
                dup2(fds[1], STDOUT_FILENO);
                execv("/proc/self/exe", server.arguments);
                _exit(127);
        }
        unsetenv("SBX_VAULT_TASK");
        assert_true(child.pid > 0);
        close(fds[1]);
        child.says = fdopen(fds[0], "r");
        assert_non_null(child.says);
        return child;
}

/* The number behind the word; 0: it says nothing more. */
static uint64_t listen_for(const struct child *child, const char *word) {
        char line[64], *space;
        int64_t number = 0;

        if (fgets(line, sizeof(line), child->says) == NULL)
                return 0;
        line[strcspn(line, "\n")] = '\0';
        space = strchr(line, ' ');
        assert_non_null(space);
        *space = '\0';
        assert_string_equal(line, word);
        assert_int_equal(sbx_number_int(space + 1, &number), 0);
        return (uint64_t)number;
}

static unsigned setting(const char *name, unsigned otherwise) {
        const char *text = getenv(name);
        int64_t number = 0;

        return text != NULL && sbx_number_int(text, &number) == 0 && number > 0 ? (unsigned)number : otherwise;
}

/* ---- tests ---- */

/* Each checkpoint is whole, and what its number says. */
static void assert_whole(struct sbx_vault *vault) {
        const struct sbx_tree *tree = sbx_vault_tree(vault);

        for (size_t i = 0; i < tree->count; i++) {
                _cleanup_state_ struct sbx_session_state found = {0}, wanted = state_of(tree->items[i]->executions);
                struct sbx_error err = {0};

                if (sbx_vault_read(vault, tree->items[i]->id, NULL, &found, &err) < 0)
                        fail_msg("%s", err.message);
                assert_int_equal(found.part_count, wanted.part_count);
                for (size_t j = 0; j < found.part_count; j++) {
                        assert_int_equal(found.parts[j].size, wanted.parts[j].size);
                        assert_memory_equal(found.parts[j].data, wanted.parts[j].data, wanted.parts[j].size);
                }
                assert_int_equal(tree->items[i]->executions, tree->items[0]->executions + i);
        }
        assert_true(tree->count <= KEPT);
}

static void test_killed_servers(void **state) {
        unsigned kills = setting("SBX_VAULT_KILLS", KILLS_DEFAULT), seed = setting("SBX_VAULT_SEED", 1), unheard = 0;
        uint64_t before = 0;

        srandom(seed);
        for (unsigned round = 0; round < kills; round++) {
                struct child child = start_child("work", "killed");
                unsigned heard = 1 + (unsigned)random() % 6;
                uint64_t told = before, more;
                struct sbx_vault *vault;

                for (unsigned i = 0; i < heard; i++) {
                        told = listen_for(&child, "kept");
                        assert_true(told > before);
                }
                usleep((useconds_t)random() % 3000);
                kill(child.pid, SIGKILL);
                while ((more = listen_for(&child, "kept")) > 0)
                        told = more;
                fclose(child.says);
                vault = open_vault("killed"); /* nobody waits for a dead server, be it a zombie */
                assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
                assert_true(newest(vault) == told || newest(vault) == told + 1); /* killed before it could tell */
                unheard += newest(vault) > told;
                assert_whole(vault);
                before = newest(vault);
                sbx_vault_close(vault);
        }
        print_message("# %u servers killed, %llu checkpoints told of, %u kept that nobody was told of\n", kills,
                      (unsigned long long)before, unheard);
}

static void test_all_want_it(void **state) {
        struct child children[SERVERS];
        struct sbx_vault *vault;

        for (size_t i = 0; i < SERVERS; i++)
                children[i] = start_child("count", "wanted");
        for (size_t i = 0; i < SERVERS; i++) {
                int status = 0;

                assert_int_equal(waitpid(children[i].pid, &status, 0), children[i].pid);
                fclose(children[i].says);
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        vault = open_vault("wanted");
        assert_int_equal(newest(vault), SERVERS * COUNT); /* each went on from where the one before it was */
        assert_whole(vault);
        sbx_vault_close(vault);
}

static void test_sleeper_is_fenced(void **state) {
        struct child child = start_child("sleep", "slept");
        struct sbx_vault *vault;
        struct sbx_error err = {0};
        int status = 0;

        assert_int_equal(listen_for(&child, "kept"), 1);
        assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
        assert_true(WIFSTOPPED(status));
        vault = open_vault("slept"); /* once its lease has ended */
        assert_int_equal(newest(vault), 1);
        assert_int_equal(add(vault, 2, &err), 0);
        kill(child.pid, SIGCONT);
        assert_int_equal(listen_for(&child, "stale"), 1);
        fclose(child.says);
        assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
        assert_int_equal(add(vault, 3, &err), 0); /* what the sleeper gave back was not ours */
        sbx_vault_close(vault);
        vault = open_vault("slept");
        assert_int_equal(newest(vault), 3);
        assert_whole(vault);
        sbx_vault_close(vault);
}

static void test_list_and_collect(void **state) {
        struct sbx_vault *vault = open_vault("listed");
        struct sbx_error err = {0};
        json_t *list = NULL, *told = NULL;
        bool seen = false;

        assert_int_equal(add(vault, 1, &err), 0);
        assert_int_equal(sbx_vaults_list(server.vaults, "", NULL, &list, &err), 0);
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *entry = json_array_get(list, i);

                if (strcmp(json_string_value(json_object_get(entry, "id")), "listed") != 0)
                        continue;
                seen = true;
                assert_true(json_is_string(json_object_get(entry, "server")));
                assert_int_equal(json_integer_value(json_object_get(entry, "checkpoints")), 1);
        }
        assert_true(seen);
        json_decref(list);
        if (sbx_vaults_collect(server.vaults, "", 0, NULL, &told, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(json_array_size(json_object_get(json_object_get(told, "store"), "damaged")), 0);
        json_decref(told);
        assert_whole(vault);
        assert_int_equal(sbx_vault_destroy(vault, NULL, &err), 0);
        assert_int_equal(sbx_vaults_destroy(server.vaults, "", "listed", NULL, NULL), -ENOENT);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_killed_servers),
                cmocka_unit_test(test_all_want_it),
                cmocka_unit_test(test_sleeper_is_fenced),
                cmocka_unit_test(test_list_and_collect),
        };
        const char *task = getenv("SBX_VAULT_TASK");
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: vault-servers INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        if (server_start(argv) < 0)
                return 1;
        r = task != NULL ? child_main(task) : cmocka_run_group_tests(tests, NULL, NULL);
        server_stop();
        return r;
}
