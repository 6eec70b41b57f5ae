/* SPDX-License-Identifier: Apache-2.0 */
/* What is removed and what is not, with an engine that answers what a test says. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "engine.h"
#include "sweep.h"

#define OWN "00000000000000000000000000000001"
#define ALIVE "00000000000000000000000000000002"
#define DEAD "00000000000000000000000000000003"
#define FORGOTTEN "00000000000000000000000000000004"
#define STRANGER "ffffffffffffffffffffffffffffffff"

#define EXEC_ID "eeeeeeeeeeeeeeee"

/* ---- the engine */

static struct {
        json_t *containers;
        char requests[16][640]; /* those after the list */
        size_t count;
        int list_code, delete_code, exec_exit;
        json_t *execs; /* of every container, by id: what the engine shows of them */
} fake;

static json_t *exec_ids(void) {
        json_t *ids = json_array();
        const char *id;
        json_t *value;

        json_object_foreach (fake.execs, id, value)
                json_array_append_new(ids, json_string(id));
        return ids;
}

int engine_ask(struct engine *engine, const struct engine_request *request, const struct sbx_call *call,
               json_t **ret_answer, struct sbx_error *err) {
        json_t *answer = NULL;
        int code = 0;

        assert_true(call->deadline_ns != 0);
        if (strncmp(request->path, "/containers/json?", 17) == 0) {
                assert_non_null(strstr(request->path, "all=1"));
                assert_non_null(strstr(request->path, "org.snipara.sandbox.host%3D"));
                if (fake.list_code == 0)
                        *ret_answer = json_incref(fake.containers);
                return fake.list_code;
        }
        assert_true(fake.count < sizeof(fake.requests) / sizeof(fake.requests[0]));
        snprintf(fake.requests[fake.count], sizeof(fake.requests[0]), "%s %s", request->method, request->path);
        if (strcmp(request->method, "DELETE") == 0)
                code = fake.delete_code;
        else if (strcmp(request->method, "POST") == 0) {
                const json_t *cmd = json_object_get(request->json, "Cmd");
                size_t size = json_array_size(cmd);

                for (size_t i = size - 2; i < size; i++) {
                        strcat(fake.requests[fake.count], " ");
                        strcat(fake.requests[fake.count], json_string_value(json_array_get(cmd, i)));
                }
                answer = json_pack("{s:s}", "Id", EXEC_ID);
        } else {
                fake.count--; /* looks are not worth noting */
                if (strncmp(request->path, "/containers/", 12) == 0)
                        answer = json_pack("{s:o}", "ExecIDs", exec_ids());
                else if (strcmp(request->path, "/exec/" EXEC_ID "/json") == 0)
                        answer = json_pack("{s:b, s:i}", "Running", 0, "ExitCode", fake.exec_exit);
                else
                        answer = json_incref(json_object_get(fake.execs, "ab"));
        }
        fake.count++;
        if (ret_answer != NULL)
                *ret_answer = answer;
        else
                json_decref(answer);
        return code < 0 ? sbx_error_set(err, code, "test", NULL, "as the test wants") : 0;
}

int engine_escape(char *text, size_t size, const char *part) {
        size_t length = strlen(text);

        for (; *part != '\0'; part++) {
                int n = snprintf(text + length, size - length, *part == '=' ? "%%3D" : "%c", *part);

                if (n < 0 || (size_t)n >= size - length)
                        return -ENAMETOOLONG;
                length += (size_t)n;
        }
        return 0;
}

int engine_stream_open(struct engine *engine, const char *method, const char *path, const json_t *body,
                       const struct sbx_call *call, struct engine_stream **ret_stream, struct sbx_error *err) {
        assert_string_equal(path, "/exec/" EXEC_ID "/start");
        *ret_stream = (struct engine_stream *)&fake;
        return 0;
}

void engine_stream_free(struct engine_stream *stream) {
}

int engine_stream_fd(const struct engine_stream *stream) {
        return -1;
}

ssize_t engine_stream_receive(struct engine_stream *stream, void *data, size_t size) {
        return 0;
}

/* ---- the world: one owner of each kind */

struct world {
        char directory[32];
        struct locks *locks;
        int held[2];
        struct sweep sweep;
        struct sbx_call call;
};

static int lock_of(struct world *world, const char *id) {
        int fd = -1;

        assert_int_equal(locks_hold(world->locks, id, &fd, NULL), 0);
        return fd;
}

static int make_world(void **state) {
        struct world *world = calloc(1, sizeof(*world));

        memset(&fake, 0, sizeof(fake));
        fake.containers = json_array();
        snprintf(world->directory, sizeof(world->directory), "/tmp/sbx-sweep-XXXXXX");
        if (mkdtemp(world->directory) == NULL || locks_open(world->directory, &world->locks, NULL) < 0)
                return -1;
        world->held[0] = lock_of(world, OWN);
        world->held[1] = lock_of(world, ALIVE);
        close(lock_of(world, DEAD));
        world->call = (struct sbx_call){.struct_size = sizeof(world->call), .cancel_fd = -1};
        world->sweep = (struct sweep){
                .locks = world->locks, .own = OWN, .visit = true, .call = &world->call, .timeout_ms = 1000};
        *state = world;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int remove_world(void **state) {
        struct world *world = *state;
        int r;

        close(world->held[0]);
        close(world->held[1]);
        locks_free(world->locks);
        r = nftw(world->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        json_decref(fake.containers);
        json_decref(fake.execs);
        free(world);
        return r;
}

/* The id tells which one it is. */
static void add(const struct world *world, const char *id, const char *owner, const char *scope, const char *status) {
        json_array_append_new(fake.containers,
                              json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:s}}", "Id", id, "State", status, "Labels",
                                        "org.snipara.sandbox.owner", owner, "org.snipara.sandbox.host",
                                        locks_host(world->locks), "org.snipara.sandbox.scope", scope,
                                        "org.snipara.sandbox.guest", "python"));
}

static struct sweep_result sweep(struct world *world) {
        struct sweep_result result = {0};
        struct sbx_error err = {0};

        fake.count = 0;
        if (sweep_round(&world->sweep, &result, &err) < 0)
                fail_msg("%s", err.message);
        return result;
}

static void assert_requests(const char *const *expected, size_t count) {
        assert_int_equal(fake.count, count);
        for (size_t i = 0; i < count; i++)
                assert_string_equal(fake.requests[i], expected[i]);
}

#define REMOVED(id) "DELETE /containers/" id "?force=1&v=1"

static void test_sessions(void **state) {
        struct world *world = *state;
        const char *const expected[] = {REMOVED("aaaaaaaaaaa3"), REMOVED("aaaaaaaaaaa4"), REMOVED("aaaaaaaaaaa6")};
        struct sweep_result result;

        add(world, "aaaaaaaaaaa1", OWN, "session", "running");
        add(world, "aaaaaaaaaaa2", ALIVE, "session", "running");
        add(world, "aaaaaaaaaaa3", DEAD, "session", "running");
        add(world, "aaaaaaaaaaa4", DEAD, "session", "created");
        add(world, "aaaaaaaaaaa5", FORGOTTEN, "session", "running"); /* its lock is unknown: hands off what runs */
        add(world, "aaaaaaaaaaa6", FORGOTTEN, "session", "exited");
        add(world, "aaaaaaaaaaa7", ALIVE, "session", "exited"); /* its server will look why */
        result = sweep(world);
        assert_requests(expected, 3);
        assert_int_equal(result.removed, 3);
        assert_int_equal(result.left, 0);
}

static void test_own_at_the_end(void **state) {
        struct world *world = *state;
        const char *const expected[] = {REMOVED("aaaaaaaaaaa1"), REMOVED("aaaaaaaaaaa3")};

        world->sweep.own_ended = true;
        world->sweep.visit = false;
        add(world, "aaaaaaaaaaa1", OWN, "session", "running");
        add(world, "aaaaaaaaaaa2", OWN, "agent", "running");
        add(world, "aaaaaaaaaaa3", OWN, "shared", "created");
        add(world, "aaaaaaaaaaa4", ALIVE, "session", "running");
        sweep(world);
        assert_requests(expected, 2);
}

/* Containers that others go on with: the workers of the dead are ended in them, nothing else. */
static void test_shared(void **state) {
        struct world *world = *state;
        const char *const expected[] = {
                "POST /containers/aaaaaaaaaaa1/exec 9 " DEAD "-*",
                "POST /containers/aaaaaaaaaaa2/exec 9 " DEAD "-*",
                REMOVED("aaaaaaaaaaa3"),
                REMOVED("aaaaaaaaaaa5"),
        };

        add(world, "aaaaaaaaaaa1", DEAD, "agent", "running");
        add(world, "aaaaaaaaaaa2", ALIVE, "shared", "running");
        add(world, "aaaaaaaaaaa3", DEAD, "agent", "exited");
        add(world, "aaaaaaaaaaa4", ALIVE, "shared", "created"); /* about to be started */
        add(world, "aaaaaaaaaaa5", FORGOTTEN, "shared", "dead");
        sweep(world);
        assert_requests(expected, 4);
}

/* Whatever the engine's filter lets through. */
static void test_foreign(void **state) {
        struct world *world = *state;
        static const char *const strange[] = {
                "{\"Id\":\"aaaaaaaaaaaa\",\"State\":\"exited\",\"Labels\":{}}",
                "{\"Id\":\"aaaaaaaaaaaa\",\"State\":\"exited\",\"Labels\":null}",
                "{\"Id\":\"aaaaaaaaaaaa\",\"State\":\"exited\"}",
                "{\"Id\":\"aaaaaaaaaaaa\",\"State\":\"exited\",\"Labels\":{\"org.snipara.sandbox.host\":\"" STRANGER
                "\",\"org.snipara.sandbox.owner\":\"" DEAD "\",\"org.snipara.sandbox.scope\":\"session\"}}",
                "[]",
                "null",
                "17",
        };

        for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
                json_array_append_new(fake.containers, json_loads(strange[i], JSON_DECODE_ANY, NULL));
        add(world, "../secrets", DEAD, "session", "exited");
        add(world, "", DEAD, "session", "exited");
        add(world, "aaaaaaaaaaaa", "../" DEAD, "session", "exited");
        add(world, "aaaaaaaaaaab", "", "session", "exited");
        add(world, "aaaaaaaaaaac", DEAD, "agent", "of a kind that is not known");
        sweep(world);
        assert_requests(NULL, 0);
}

/* The file of a dead owner goes only when nothing was there any more. */
static void test_files(void **state) {
        struct world *world = *state;

        add(world, "aaaaaaaaaaa3", DEAD, "session", "running");
        fake.delete_code = -EBUSY;
        assert_int_equal(sweep(world).left, 1);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_FREE);
        fake.delete_code = -ENOENT; /* somebody else removed it */
        assert_int_equal(sweep(world).removed, 1);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_FREE);
        json_array_clear(fake.containers);
        sweep(world);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_MISSING);
        assert_int_equal(locks_look(world->locks, OWN), LOCK_HELD);
        assert_int_equal(locks_look(world->locks, ALIVE), LOCK_HELD);
}

static void test_workers_that_stay(void **state) {
        struct world *world = *state;

        add(world, "aaaaaaaaaaa1", ALIVE, "agent", "running");
        fake.exec_exit = 1;
        assert_int_equal(sweep(world).left, 1);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_FREE);
        fake.exec_exit = 0;
        assert_int_equal(sweep(world).left, 0);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_MISSING);
}

/* What the engine says of a worker decides, whatever the killer says: a container in which one hides is removed, unless
 * the living are in it too. */
static void test_workers_that_hide(void **state) {
        struct world *world = *state;
        static const struct {
                const char *mark;
                int exec_exit;
                bool runs;
                unsigned removed, left;
        } cases[] = {
                {"SBX_MARK=" DEAD "-4", 1, true, 1, 0},
                {"SBX_MARK=" DEAD "-4", 0, true, 1, 0},
                {"SBX_MARK=" DEAD "-4", 1, false, 0, 1},
                {"SBX_MARK=" DEAD "-4", 0, false, 0, 0},
                {"SBX_MARK=" ALIVE "-4", 1, true, 0, 1},
                {"SBX_MARK=" ALIVE "-4", 0, true, 0, 0},
                {DEAD "-*", 0, true, 0, 0}, /* somebody else's killer */
                {"SBX_MARK=", 0, true, 0, 0},
        };

        add(world, "aaaaaaaaaaa1", ALIVE, "agent", "running");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sweep_result result;

                close(lock_of(world, DEAD));
                json_decref(fake.execs);
                fake.execs = json_pack("{s:{s:b, s:{s:[s, s]}}}", "ab", "Running", (int)cases[i].runs, "ProcessConfig",
                                       "arguments", "-c", cases[i].mark);
                fake.exec_exit = cases[i].exec_exit;
                result = sweep(world);
                assert_int_equal(result.removed, cases[i].removed);
                assert_int_equal(result.left, cases[i].left);
                assert_int_equal(fake.count, 1 + cases[i].removed); /* an exec, and what is removed */
        }
}

static void test_engine_without_answer(void **state) {
        struct world *world = *state;
        struct sweep_result result = {7, 7};

        fake.list_code = -ECONNREFUSED;
        assert_int_equal(sweep_round(&world->sweep, &result, NULL), -ECONNREFUSED);
        assert_int_equal(result.removed, 7);
        fake.list_code = 0;
        json_decref(fake.containers);
        fake.containers = json_object();
        assert_int_equal(sweep_round(&world->sweep, &result, NULL), -EPROTO);
        assert_int_equal(locks_look(world->locks, DEAD), LOCK_FREE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_sessions, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_own_at_the_end, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_shared, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_foreign, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_files, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_workers_that_stay, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_workers_that_hide, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_engine_without_answer, make_world, remove_world),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
