/* SPDX-License-Identifier: Apache-2.0 */
/* Which container sessions share, and how it comes to be, with an engine that answers what a test says. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "exec.h"
#include "owner_internal.h"
#include "scope.h"

/* ---- the container engine: containers by name */

#define CONTAINERS_MAX 4
#define EXEC_ID "eeee"

static struct {
        struct {
                char name[128], key[64], id[8];
                const char *status; /* NULL: not there */
                const char *host;   /* label; NULL: the right one */
        } containers[CONTAINERS_MAX];
        unsigned created, started, removed;
        int create_code, start_code;
        bool appears;    /* though create fails: somebody else was first */
        int busy_looks;  /* how often "removing" is seen before it is gone */
        int exec_code;   /* of the killer */
        int worker_code; /* what the engine says of the worker */
        int exec_error;  /* of exec_run */
        char arguments[256];
} fake;

static int index_of(const char *name) {
        for (int i = 0; i < CONTAINERS_MAX; i++)
                if (fake.containers[i].status != NULL &&
                    (strcmp(fake.containers[i].name, name) == 0 || strcmp(fake.containers[i].id, name) == 0))
                        return i;
        return -1;
}

static void put(const char *name, const char *key, const char *status, const char *host) {
        for (int i = 0; i < CONTAINERS_MAX; i++)
                if (fake.containers[i].status == NULL) {
                        snprintf(fake.containers[i].name, sizeof(fake.containers[i].name), "%s", name);
                        snprintf(fake.containers[i].key, sizeof(fake.containers[i].key), "%s", key);
                        snprintf(fake.containers[i].id, sizeof(fake.containers[i].id), "c%d", i);
                        fake.containers[i].status = status;
                        fake.containers[i].host = host;
                        return;
                }
        fail_msg("too many containers");
}

struct owner {
        struct locks *locks;
};

static struct owner the_owner;

struct locks *owner_locks(const struct owner *owner) {
        return owner->locks;
}

const char *owner_scope_name(enum docker_scope scope) {
        return scope == DOCKER_SCOPE_AGENT ? "agent" : "shared";
}

int owner_labels(const struct owner *owner, enum docker_scope scope, const char *guest, const char *key,
                 char **ret_labels[], struct sbx_error *err) {
        char **labels = calloc(2, sizeof(*labels));

        labels[0] = strdup(key);
        *ret_labels = labels;
        return 0;
}

void owner_labels_free(char **labels) {
        if (labels != NULL)
                free(labels[0]);
        free(labels);
}

void docker_log(const struct docker *docker, int level, const char *format, ...) {
}

int container_create(struct docker *docker, const struct container_wish *wish, const struct sbx_call *call,
                     char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        fake.created++;
        assert_true(wish->keeper);
        if (fake.create_code < 0) {
                if (fake.appears)
                        put(wish->name, wish->labels[0], "created", NULL);
                return sbx_error_set(err, fake.create_code, "test", "a hint", "no container can be made");
        }
        put(wish->name, wish->labels[0], "created", NULL);
        snprintf(ret_id, CONTAINER_ID_MAX, "%s", fake.containers[index_of(wish->name)].id);
        return 0;
}

int container_start(struct docker *docker, const char *id, const struct sbx_call *call, struct sbx_error *err) {
        fake.started++;
        if (fake.start_code < 0)
                return sbx_error_set(err, fake.start_code, "test", "a hint", "it does not start");
        fake.containers[index_of(id)].status = "running";
        return 0;
}

int container_remove(struct docker *docker, const char *id, struct sbx_error *err) {
        fake.removed++;
        fake.containers[index_of(id)].status = NULL;
        return 0;
}

int container_inspect(struct docker *docker, const char *id, const struct sbx_call *call,
                      struct container_state *ret_state, json_t **ret_all, struct sbx_error *err) {
        int i = index_of(id);

        if (i >= 0 && strcmp(fake.containers[i].status, "removing") == 0 && fake.busy_looks-- == 0) {
                fake.containers[i].status = NULL;
                i = -1;
        }
        *ret_state = (struct container_state){.exists = i >= 0,
                                              .running = i >= 0 && strcmp(fake.containers[i].status, "running") == 0};
        if (ret_all != NULL)
                *ret_all = NULL;
        if (i >= 0 && ret_all != NULL)
                *ret_all = json_pack("{s:s, s:{s:s}, s:{s:{s:s, s:s, s:s}}}", "Id", fake.containers[i].id, "State",
                                     "Status", fake.containers[i].status, "Config", "Labels", "org.snipara.sandbox.key",
                                     fake.containers[i].key, "org.snipara.sandbox.host",
                                     fake.containers[i].host != NULL ? fake.containers[i].host
                                                                     : locks_host(the_owner.locks),
                                     "org.snipara.sandbox.scope", owner_scope_name(docker->options.scope));
        return 0;
}

int exec_create(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call,
                char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        assert_true(wish->input);
        snprintf(fake.arguments, sizeof(fake.arguments), "%s %s %s", wish->variables[0], wish->variables[1],
                 wish->arguments[0]);
        snprintf(ret_id, CONTAINER_ID_MAX, EXEC_ID);
        return 0;
}

int exec_open(struct engine *engine, const char *id, const struct sbx_call *call, struct engine_stream **ret_stream,
              struct sbx_error *err) {
        *ret_stream = (struct engine_stream *)&fake;
        return 0;
}

int exec_look(struct engine *engine, const char *id, const struct sbx_call *call, int *ret_code,
              struct sbx_error *err) {
        assert_string_equal(id, EXEC_ID);
        *ret_code = fake.worker_code;
        return 0;
}

int exec_run(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call, int *ret_code,
             struct sbx_error *err) {
        assert_true(call->deadline_ns != 0);
        snprintf(fake.arguments, sizeof(fake.arguments), "%s %s", wish->arguments[0], wish->arguments[1]);
        *ret_code = fake.exec_code;
        return fake.exec_error < 0 ? sbx_error_set(err, fake.exec_error, "test", NULL, "no exec") : 0;
}

/* ---- the plugin */

struct world {
        char directory[32];
        struct sbx_host host;
        struct docker docker;
        struct scopes *scopes;
        struct docker_runtime runtime;
        struct payload payload;
        struct sbx_call call;
};

static const char *directory(struct sbx_host_state *self, const char *name) {
        return "/project";
}

static int make_world(void **state) {
        struct world *world = calloc(1, sizeof(*world));
        static const char *const killer[] = {"killer", NULL};

        memset(&fake, 0, sizeof(fake));
        snprintf(world->directory, sizeof(world->directory), "/tmp/sbx-scope-XXXXXX");
        if (mkdtemp(world->directory) == NULL || locks_open(world->directory, &the_owner.locks, NULL) < 0)
                return -1;
        world->host.directory = directory;
        world->docker = (struct docker){.host = &world->host, .owner = &the_owner, .options = {.timeout_ms = 1000}};
        world->docker.options.scope = DOCKER_SCOPE_AGENT;
        world->runtime = (struct docker_runtime){.name = (char *)"python", .family = DOCKER_PYTHON};
        world->payload.killer = world->payload.argv = killer;
        world->call = (struct sbx_call){.struct_size = sizeof(world->call), .cancel_fd = -1};
        *state = world;
        return scopes_new(&world->docker, &world->scopes, NULL);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int remove_world(void **state) {
        struct world *world = *state;
        int r;

        scopes_free(world->scopes);
        locks_free(the_owner.locks);
        r = nftw(world->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(world);
        return r;
}

static int get(struct world *world, const char *owner, char id[CONTAINER_ID_MAX], struct sbx_error *err) {
        return scope_container(world->scopes, &world->runtime, &world->payload, "sha256:1", owner, &world->call, id,
                               err);
}

static void must_get(struct world *world, const char *owner, char id[CONTAINER_ID_MAX]) {
        struct sbx_error err = {0};

        if (get(world, owner, id, &err) < 0)
                fail_msg("%s", err.message);
}

static void test_one_for_each_owner(void **state) {
        struct world *world = *state;
        char first[CONTAINER_ID_MAX], again[CONTAINER_ID_MAX], other[CONTAINER_ID_MAX], nobody[CONTAINER_ID_MAX];

        must_get(world, "alice", first);
        must_get(world, "alice", again);
        must_get(world, "bob", other);
        must_get(world, NULL, nobody);
        assert_string_equal(first, again);
        assert_string_not_equal(first, other);
        assert_string_not_equal(first, nobody);
        assert_int_equal(fake.created, 3);
        assert_int_equal(fake.started, 3);
        /* Nobody learns a name from it. */
        for (int i = 0; i < 3; i++) {
                assert_null(strstr(fake.containers[i].name, "alice"));
                assert_int_equal(strncmp(fake.containers[i].name, "snipara-sandbox-agent-", 22), 0);
        }
}

static void test_one_for_all(void **state) {
        struct world *world = *state;
        char first[CONTAINER_ID_MAX], other[CONTAINER_ID_MAX];

        world->docker.options.scope = DOCKER_SCOPE_SHARED;
        must_get(world, "alice", first);
        must_get(world, "bob", other);
        assert_string_equal(first, other);
        assert_int_equal(fake.created, 1);
}

/* What it is made of decides, not who asks. */
static void test_other_configurations(void **state) {
        struct world *world = *state;
        char id[CONTAINER_ID_MAX];

        must_get(world, "alice", id);
        world->docker.options.memory_bytes = 1;
        must_get(world, "alice", id);
        world->docker.options.workspace = DOCKER_WORKSPACE_RO;
        must_get(world, "alice", id);
        world->runtime.name = (char *)"python3.12";
        must_get(world, "alice", id);
        assert_int_equal(fake.created, 4);
}

/* The name and key that a container must have to be found. */
static void learn(struct world *world, char name[128], char key[64]) {
        char id[CONTAINER_ID_MAX];

        must_get(world, "alice", id);
        memcpy(name, fake.containers[0].name, 128);
        memcpy(key, fake.containers[0].key, 64);
        memset(&fake, 0, sizeof(fake));
}

static void test_states_that_are_found(void **state) {
        struct world *world = *state;
        static const struct {
                const char *status;
                unsigned created, started, removed;
        } cases[] = {
                {"running", 0, 0, 0}, {"created", 0, 1, 0}, {"configured", 0, 1, 0}, {"exited", 1, 1, 1},
                {"dead", 1, 1, 1},    {"stopped", 1, 1, 1}, {"paused", 1, 1, 1},     {"removing", 1, 1, 0},
        };
        char name[128], key[64], id[CONTAINER_ID_MAX];

        learn(world, name, key);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                memset(&fake, 0, sizeof(fake));
                fake.busy_looks = 2;
                put(name, key, cases[i].status, NULL);
                must_get(world, "alice", id);
                assert_int_equal(fake.created, cases[i].created);
                assert_int_equal(fake.started, cases[i].started);
                assert_int_equal(fake.removed, cases[i].removed);
                assert_string_equal(fake.containers[index_of(name)].status, "running");
        }
}

static void test_another_was_first(void **state) {
        struct world *world = *state;
        char id[CONTAINER_ID_MAX];

        fake.create_code = -EBUSY;
        fake.appears = true;
        must_get(world, "alice", id);
        assert_int_equal(fake.created, 1);
        assert_string_equal(fake.containers[0].status, "running");
}

static void test_failures(void **state) {
        struct world *world = *state;
        char name[128], key[64], id[CONTAINER_ID_MAX] = "untouched";
        struct sbx_error err = {0};

        learn(world, name, key);
        fake.create_code = -ENOENT;
        assert_int_equal(get(world, "alice", id, &err), -ENOENT);
        assert_string_equal(err.message, "no container can be made");
        assert_string_equal(err.hint, "a hint");

        memset(&fake, 0, sizeof(fake));
        err = (struct sbx_error){0};
        fake.start_code = -EIO;
        assert_int_equal(get(world, "alice", id, &err), -EIO);
        assert_string_equal(err.message, "it does not start");
        assert_int_equal(fake.removed, 1); /* what does not start does not stay */

        memset(&fake, 0, sizeof(fake));
        err = (struct sbx_error){0};
        put(name, key, "running", "ffffffffffffffffffffffffffffffff");
        assert_int_equal(get(world, "alice", id, &err), -EEXIST);
        assert_contains(err.message, name);
        assert_int_equal(fake.removed, 0);
        assert_string_equal(id, "untouched");

        memset(&fake, 0, sizeof(fake));
        err = (struct sbx_error){0};
        fake.busy_looks = 1000000;
        put(name, key, "removing", NULL);
        world->call.deadline_ns = 1;
        assert_int_equal(get(world, "alice", id, &err), -ETIMEDOUT);
}

static void test_worker(void **state) {
        struct world *world = *state;
        struct engine_stream *stream = NULL;
        char id[CONTAINER_ID_MAX];

        assert_int_equal(scope_worker(world->scopes, "c0", &world->payload, "owner-7", &world->call, &stream, id, NULL),
                         0);
        assert_string_equal(fake.arguments, "SBX_MARK=owner-7 SBX_CONTROL_FD=0,1 SBX_MARK=owner-7");
        assert_string_equal(id, EXEC_ID);
        assert_int_equal(scope_signal(world->scopes, "c0", &world->payload, "owner-7", 2, NULL), 0);
        assert_string_equal(fake.arguments, "2 owner-7");
        fake.exec_code = 1;
        assert_int_equal(scope_signal(world->scopes, "c0", &world->payload, "owner-7", 9, NULL), -EIO);
        assert_string_equal(fake.arguments, "9 owner-7");
}

/* Where nobody can be ended from inside, the container goes. */
static void test_kill(void **state) {
        struct world *world = *state;
        static const struct {
                int exec_error, exec_code, worker_code;
                unsigned removed;
                const char *status;
        } cases[] = {
                {0, 0, 0, 0, "running"},
                {0, 0, INT32_MIN, 1, "running"},
                {0, 1, 0, 1, "running"},
                {-ETIMEDOUT, 0, 0, 1, "running"},
                {-EIO, 0, 0, 1, "running"},
                {-ENOENT, 0, 0, 0, "running"},
                {-EBUSY, 0, INT32_MIN, 0, "exited"},
                {-EBUSY, 0, INT32_MIN, 1, "running"}, /* paused */
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                memset(&fake, 0, sizeof(fake));
                put("shared", "key", cases[i].status, NULL);
                fake.exec_error = cases[i].exec_error;
                fake.exec_code = cases[i].exec_code;
                fake.worker_code = cases[i].worker_code;
                assert_int_equal(scope_kill(world->scopes, "c0", &world->payload, "owner-7", EXEC_ID, NULL), 0);
                assert_int_equal(fake.removed, cases[i].removed);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_one_for_each_owner, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_one_for_all, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_other_configurations, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_states_that_are_found, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_another_was_first, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_failures, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_worker, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_kill, make_world, remove_world),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
