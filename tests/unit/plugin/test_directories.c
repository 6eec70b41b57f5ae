/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are: the installation, the build tree, and the user's own directories. */
#include "scratch.h"

#include <fcntl.h>

#include "plugin/internal.h"

static int clean_environment(void **state) {
        static const char *const names[] = {"SNIPARA_SANDBOX_BUILD_ROOT", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unsetenv(names[i]);
        return setenv("HOME", scratch_directory, 1);
}

static void installed(void **state) {
        struct sbx_directories found = {0};

        assert_int_equal(sbx_directories_find(&found, NULL), 0);
        assert_false(found.build_tree);
        assert_true(found.plugins[0] == '/' && found.libexec[0] == '/');
        assert_true(found.guests[0] == '/' && found.config[0] == '/');
        assert_contains(found.plugins, "/snipara-sandbox/plugins");
        assert_contains(found.guests, "/snipara-sandbox/guests");
        sbx_directories_free(&found);
        sbx_directories_free(&found); /* is empty by then */
}

static void in_the_build_tree(void **state) {
        struct sbx_directories found = {0};
        struct sbx_error err = {0};

        setenv("SNIPARA_SANDBOX_BUILD_ROOT", scratch_directory, 1);
        assert_int_equal(sbx_directories_find(&found, NULL), 0);
        assert_true(found.build_tree);
        assert_string_equal(found.plugins, scratch_path("plugins"));
        assert_string_equal(found.guests, scratch_path("guests"));
        sbx_directories_free(&found);

        setenv("SNIPARA_SANDBOX_BUILD_ROOT", "/nonexistent", 1);
        assert_int_equal(sbx_directories_find(&found, &err), -ENOENT);
        assert_contains(err.message, "SNIPARA_SANDBOX_BUILD_ROOT");
        assert_contains(err.message, "/nonexistent");
        assert_null(found.plugins);
}

static void the_users_own(void **state) {
        struct sbx_directories found = {0};

        setenv("XDG_STATE_HOME", scratch_directory, 1);
        setenv("XDG_RUNTIME_DIR", scratch_directory, 1);
        assert_int_equal(sbx_directories_find(&found, NULL), 0);
        assert_string_equal(found.state, scratch_path("snipara-sandbox"));
        assert_string_equal(found.runtime, scratch_path("snipara-sandbox"));
        sbx_directories_free(&found);

        setenv("XDG_STATE_HOME", "relative", 1);
        setenv("XDG_RUNTIME_DIR", "", 1);
        assert_int_equal(sbx_directories_find(&found, NULL), 0);
        if (geteuid() == 0) {
                assert_string_equal(found.state, "/var/lib/snipara-sandbox");
                assert_string_equal(found.runtime, "/run/snipara-sandbox");
        } else {
                assert_string_equal(found.state, scratch_path(".local/state/snipara-sandbox"));
                assert_string_equal(found.runtime, scratch_path(".local/state/snipara-sandbox/run"));
        }
        sbx_directories_free(&found);
}

/* As after `sudo -E`: a variable that leads into another user's directory is passed over. */
static void not_anothers(void **state) {
        struct sbx_directories found = {0};

        if (geteuid() != 0) {
                print_message("# not tried: only root can give a directory away\n");
                return;
        }
        assert_int_equal(mkdir(scratch_path("other"), 0755), 0);
        assert_int_equal(chown(scratch_path("other"), 12345, (gid_t)-1), 0);
        setenv("XDG_RUNTIME_DIR", scratch_path("other"), 1);
        assert_int_equal(sbx_directories_find(&found, NULL), 0);
        assert_string_equal(found.runtime, "/run/snipara-sandbox");
        sbx_directories_free(&found);
}

static void are_made_for_the_user_alone(void **state) {
        struct sbx_error err = {0};
        struct stat st;

        assert_int_equal(sbx_directory_create(scratch_path("a/b/c"), &err), 0);
        assert_int_equal(stat(scratch_path("a/b/c"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        assert_int_equal(sbx_directory_create(scratch_path("a/b/c"), &err), 0);

        assert_int_equal(chmod(scratch_path("a/b/c"), 0770), 0);
        assert_int_equal(sbx_directory_create(scratch_path("a/b/c"), &err), -EPERM);
        assert_contains(err.message, scratch_path("a/b/c"));

        err = (struct sbx_error){0};
        scratch_write("file", "");
        assert_int_equal(sbx_directory_create(scratch_path("file"), &err), -EPERM);
        err = (struct sbx_error){0};
        assert_int_equal(sbx_directory_create(scratch_path("file/below"), &err), -ENOTDIR);
        assert_contains(err.hint, "XDG_STATE_HOME");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(installed, clean_environment),
                cmocka_unit_test_setup(in_the_build_tree, clean_environment),
                cmocka_unit_test_setup(the_users_own, clean_environment),
                cmocka_unit_test_setup(not_anothers, clean_environment),
                cmocka_unit_test_setup(are_made_for_the_user_alone, clean_environment),
        };

        return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
