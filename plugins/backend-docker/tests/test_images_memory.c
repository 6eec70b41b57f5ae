/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials and contexts when memory runs out at any point: an error, and nothing is left. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "alloc_fail.h"
#include "prepare_internal.h"

static int setup(void **state) {
        char path[] = "/tmp/sbx-memory-XXXXXX";

        *state = mkdtemp(path) != NULL ? strdup(path) : NULL;
        return *state == NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int teardown(void **state) {
        int r = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(*state);
        return r;
}

static void add(const char *directory, const char *name, const char *text) {
        char path[4096];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static int make_context(void *directory) {
        struct sbx_error err = {0};
        struct context context;
        int r = context_make(directory, CONTEXT_WHOLE, BYTES("FROM x\n"), true, NULL, &context, &err);

        if (r < 0)
                return err.message[0] != '\0' ? r : -EINVAL;
        assert_int_equal(context.files, 2);
        context_clear(&context);
        return 0;
}

static void test_context(void **state) {
        char path[4096];

        add(*state, "setup.py", "x");
        snprintf(path, sizeof(path), "%s/package", (const char *)*state);
        assert_int_equal(mkdir(path, 0700), 0);
        add(*state, "package/__init__.py", "y");
        assert_true(alloc_fail_sweep(make_context, *state) > 3);
}

static int look(void *directory) {
        struct project_facts facts;
        int r = project_look(directory, &facts, NULL);

        /* Without memory for a file it is as if the file did not say it. */
        return r < 0 ? r : facts.dev_extra ? 0 : -ENOMEM;
}

static void test_facts(void **state) {
        add(*state, "setup.cfg", "[options.extras_require]\ndev = pytest\n");
        assert_true(alloc_fail_sweep(look, *state) > 0);
}

static const char *fake_environment(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "DOCKER_CONFIG") == 0 ? (const char *)self : NULL;
}

static int find_credentials(void *directory) {
        struct sbx_host host = {.self = directory, .environment = fake_environment};
        struct docker docker = {.host = &host};
        char *header = NULL;
        int r = credentials_for(&docker, "python", &header, NULL);

        if (r == 0)
                assert_true(strlen(header) > 20);
        else
                assert_null(header);
        free(header);
        return r;
}

static void test_credentials(void **state) {
        add(*state, "config.json", "{\"auths\": {\"https://index.docker.io/v1/\": {\"auth\": \"dTpw\"}}}");
        assert_true(alloc_fail_sweep(find_credentials, *state) > 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_context, setup, teardown),
                cmocka_unit_test_setup_teardown(test_facts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_credentials, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
