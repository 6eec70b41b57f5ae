/* SPDX-License-Identifier: Apache-2.0 */
/* Labels, and the life of the lock and of the reaper, which is a script here. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "alloc_fail.h"
#include "owner_internal.h"

#define ID "0123456789abcdef0123456789abcdef"

/* ---- the plugin around it */

static struct engine_info info = {.place = {.address = "unix:///nowhere/engine.sock"}};
static unsigned warnings;

const struct engine_info *engine_info(const struct engine *engine) {
        return &info;
}

void docker_log(const struct docker *docker, int level, const char *format, ...) {
        if (level == SBX_LOG_WARNING)
                warnings++;
}

struct sbx_host_state {
        char state[128], libexec[128];
        bool no_state;
};

static const char *directory(struct sbx_host_state *self, const char *name) {
        if (strcmp(name, "libexec") == 0)
                return self->libexec;
        return strcmp(name, self->no_state ? "runtime" : "state") == 0 ? self->state : NULL;
}

static const char *environment(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "DOCKER_CERT_PATH") == 0 ? "/certificates" : NULL;
}

struct world {
        char directory[32];
        struct sbx_host_state self;
        struct sbx_host host;
        struct docker docker;
};

static int make_world(void **state) {
        struct world *world = calloc(1, sizeof(*world));

        warnings = 0;
        snprintf(world->directory, sizeof(world->directory), "/tmp/sbx-owner-XXXXXX");
        if (mkdtemp(world->directory) == NULL)
                return -1;
        snprintf(world->self.state, sizeof(world->self.state), "%s/state", world->directory);
        snprintf(world->self.libexec, sizeof(world->self.libexec), "%s/libexec", world->directory);
        world->host = (struct sbx_host){.self = &world->self, .directory = directory, .environment = environment};
        world->docker =
                (struct docker){.host = &world->host, .id = ID, .options = {.timeout_ms = 20000, .tls_ca = "/ca.pem"}};
        *state = world;
        return mkdir(world->self.state, 0700) + mkdir(world->self.libexec, 0700);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int remove_world(void **state) {
        struct world *world = *state;
        int r = nftw(world->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(world);
        return r;
}

/* Its words go to the file "told"; the first message that it gets is in "message". */
static void put_reaper(const struct world *world, const char *script) {
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/sbx-docker-reaper", world->self.libexec);
        file = fopen(path, "we");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\ncd %s\nexec >told.new 2>&1\n%s\n", world->directory, script);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0700), 0);
}

static void read_file(const struct world *world, const char *name, char *text, size_t size) {
        char path[256];
        ssize_t n = -1;
        int fd = -1;

        snprintf(path, sizeof(path), "%s/%s", world->directory, name);
        for (int i = 0; i < 3000 && fd < 0; i++) {
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        usleep(10000);
        }
        assert_true(fd >= 0);
        n = read(fd, text, size - 1);
        assert_true(n >= 0);
        text[n] = '\0';
        close(fd);
}

static unsigned open_descriptors(void) {
        DIR *directory_stream = opendir("/proc/self/fd");
        unsigned count = 0;

        while (readdir(directory_stream) != NULL)
                count++;
        closedir(directory_stream);
        return count;
}

static enum lock_state lock_of(const struct world *world) {
        struct locks *locks = NULL;
        enum lock_state state;

        assert_int_equal(locks_open(world->self.state, &locks, NULL), 0);
        state = locks_look(locks, ID);
        locks_free(locks);
        return state;
}

static struct owner *start(struct world *world) {
        struct owner *owner = NULL;
        struct sbx_error err = {0};

        if (owner_new(&world->docker, NULL, &owner, &err) < 0)
                fail_msg("%s", err.message);
        return owner;
}

#define UNTIL_MESSAGE "dd bs=256 count=1 <&3 >message 2>/dev/null\n"

static void test_what_the_reaper_gets(void **state) {
        struct world *world = *state;
        unsigned before = open_descriptors();
        struct owner *owner;
        char text[4096];

        put_reaper(world, "env; ls -l /proc/self/fd; cat <&4; ps -o sid=,pid= -p $$; mv told.new told\n" UNTIL_MESSAGE);
        assert_int_equal(setenv("SBX_SECRET", "of the server", 1), 0);
        owner = start(world);
        assert_int_equal(lock_of(world), LOCK_HELD);
        read_file(world, "told", text, sizeof(text));
        assert_contains(text, "\"owner\":\"" ID "\"");
        assert_contains(text, "\"engine\":\"unix:///nowhere/engine.sock\"");
        assert_contains(text, "\"timeout_ms\":20000");
        assert_contains(text, "\"tls_ca\":\"/ca.pem\"");
        assert_contains(text, world->self.state);
        assert_contains(text, "DOCKER_CERT_PATH=/certificates");
        assert_contains(text, "3 -> socket:");
        assert_contains(text, "0 -> /dev/null");
        assert_null(strstr(text, "SBX_SECRET"));
        assert_null(strstr(text, "tls_key"));
        owner_free(owner);
        read_file(world, "message", text, sizeof(text));
        assert_string_equal(text, "e");
        assert_int_equal(lock_of(world), LOCK_MISSING);
        assert_int_equal(open_descriptors(), before);
        assert_int_equal(warnings, 0);
}

static void test_forsaken(void **state) {
        struct world *world = *state;
        struct owner *owner;
        char text[256], too_long[512];

        put_reaper(world, UNTIL_MESSAGE "mv message name; " UNTIL_MESSAGE);
        owner = start(world);
        memset(too_long, 'x', sizeof(too_long) - 1);
        too_long[sizeof(too_long) - 1] = '\0';
        owner_forsake(owner, too_long); /* can't be a container's name */
        owner_forsake(owner, "snipara-sandbox-1");
        read_file(world, "name", text, sizeof(text));
        assert_string_equal(text, "fsnipara-sandbox-1");
        owner_free(owner);
        assert_int_equal(lock_of(world), LOCK_MISSING);
}

/* What it could not remove is found by the next start, by the file. */
static void test_reaper_that_fails(void **state) {
        struct world *world = *state;
        static const char *const scripts[] = {UNTIL_MESSAGE "exit 1", "exit 0", "kill -9 $$"};

        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
                bool waits = i == 0;

                put_reaper(world, scripts[i]);
                warnings = 0;
                owner_free(start(world));
                if (waits)
                        assert_int_equal(lock_of(world), LOCK_FREE);
                assert_int_equal(warnings > 0, lock_of(world) == LOCK_FREE);
        }
}

/* A child of it looks on: no reason to worry anybody, and the file is that child's. */
static void test_reaper_that_goes_on(void **state) {
        struct world *world = *state;

        put_reaper(world, UNTIL_MESSAGE "exit 3");
        owner_free(start(world));
        assert_int_equal(warnings, 0);
        assert_int_equal(lock_of(world), LOCK_FREE);
}

/* A program that waits for all of its children takes the reaper's end from us. */
static void test_children_that_nobody_waits_for(void **state) {
        struct world *world = *state;

        put_reaper(world, UNTIL_MESSAGE);
        signal(SIGCHLD, SIG_IGN);
        owner_free(start(world));
        signal(SIGCHLD, SIG_DFL);
        assert_int_equal(lock_of(world), LOCK_FREE); /* its exit code is unknown: better look again */
}

static void test_failures(void **state) {
        struct world *world = *state;
        struct owner *owner = NULL;
        struct sbx_error err = {0};
        unsigned before = open_descriptors();

        assert_int_equal(owner_new(&world->docker, NULL, &owner, &err), -ENOENT);
        assert_contains(err.message, "sbx-docker-reaper");
        assert_contains(err.hint, "reinstall");
        assert_null(owner);
        assert_int_equal(lock_of(world), LOCK_MISSING);
        assert_int_equal(open_descriptors(), before);

        err = (struct sbx_error){0};
        snprintf(world->self.state, sizeof(world->self.state), "/nonexistent");
        assert_true(owner_new(&world->docker, NULL, &owner, &err) < 0);
        assert_contains(err.message, "/nonexistent");
        assert_true(err.hint[0] != '\0');
}

static void test_without_a_home(void **state) {
        struct world *world = *state;

        world->self.no_state = true;
        put_reaper(world, UNTIL_MESSAGE);
        owner_free(start(world));
        assert_int_equal(lock_of(world), LOCK_MISSING);
        assert_int_equal(warnings, 0);
}

static void test_labels(void **state) {
        struct world *world = *state;
        struct owner *owner;
        char **labels = NULL, host[64];

        put_reaper(world, UNTIL_MESSAGE);
        owner = start(world);
        snprintf(host, sizeof(host), "org.snipara.sandbox.host=%s", locks_host(owner_locks(owner)));
        assert_int_equal(owner_labels(owner, DOCKER_SCOPE_SESSION, "s-1", NULL, &labels, NULL), 0);
        assert_string_equal(labels[0], "org.snipara.sandbox.owner=" ID);
        assert_string_equal(labels[1], host);
        assert_string_equal(labels[2], "org.snipara.sandbox.scope=session");
        assert_string_equal(labels[3], "org.snipara.sandbox.guest=s-1");
        assert_null(labels[4]);
        owner_labels_free(labels);
        assert_int_equal(owner_labels(owner, DOCKER_SCOPE_SHARED, "bash", "a key", &labels, NULL), 0);
        assert_string_equal(labels[2], "org.snipara.sandbox.scope=shared");
        assert_string_equal(labels[4], "org.snipara.sandbox.key=a key");
        assert_null(labels[5]);
        owner_labels_free(labels);
        owner_labels_free(NULL);
        owner_free(owner);
        owner_free(NULL);
}

static int sweep_body(void *data) {
        struct world *world = data;
        struct owner *owner = NULL;
        char **labels = NULL;
        int r = owner_new(&world->docker, NULL, &owner, NULL);

        if (r == 0)
                r = owner_labels(owner, DOCKER_SCOPE_AGENT, "python", "key", &labels, NULL);
        owner_labels_free(labels);
        owner_free(owner);
        return r;
}

static void test_no_memory(void **state) {
        put_reaper(*state, UNTIL_MESSAGE);
        assert_true(alloc_fail_sweep(sweep_body, *state) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_the_reaper_gets, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_forsaken, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_reaper_that_fails, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_reaper_that_goes_on, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_children_that_nobody_waits_for, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_failures, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_without_a_home, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_labels, make_world, remove_world),
                cmocka_unit_test_setup_teardown(test_no_memory, make_world, remove_world),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
