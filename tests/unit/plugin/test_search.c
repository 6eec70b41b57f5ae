/* SPDX-License-Identifier: Apache-2.0 */
/* From names to files, and the list of the plugin directory. */
#include "scratch.h"

#include "asprintf_fail.h"
#include "plugin/internal.h"

static void names_become_paths(void **state) {
        struct sbx_directories directories = {.plugins = (char *)"/lib/plugins"};
        char *path = NULL;

        assert_int_equal(sbx_plugin_path(&directories, "sink-a", &path, NULL), 0);
        assert_string_equal(path, "/lib/plugins/sink-a.so");
        free(path);
        directories.build_tree = true;
        assert_int_equal(sbx_plugin_path(&directories, "sink-a", &path, NULL), 0);
        assert_string_equal(path, "/lib/plugins/sink-a/sink-a.so");
        free(path);
        assert_int_equal(sbx_plugin_path(&directories, "/opt/x.so", &path, NULL), 0);
        assert_string_equal(path, "/opt/x.so");
        free(path);
}

static void what_is_neither_name_nor_absolute_path_is_refused(void **state) {
        static const char *const bad[] = {"", "../x", "x/y.so", "./x.so", "x.so", "~/x.so", "X"};
        const struct sbx_directories directories = {.plugins = (char *)"/lib/plugins"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct sbx_error err = {0};
                char *path = NULL;

                assert_int_equal(sbx_plugin_path(&directories, bad[i], &path, &err), -EINVAL);
                assert_contains(err.message, bad[i]);
                assert_contains(err.hint, "plugins list");
                assert_null(path);
        }
}

static void names_of_files(void **state) {
        static const char *const pairs[][2] = {{"/a/b.so", "b"}, {"b.so", "b"}, {"/a.so/b", "b"}, {"/a/.so", ".so"}};

        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
                char *name = sbx_plugin_file_name(pairs[i][0]);

                assert_string_equal(name, pairs[i][1]);
                free(name);
        }
}

static void assert_list(const struct sbx_directories *directories, const char *const *expected) {
        char **paths = NULL;
        size_t i;

        assert_int_equal(sbx_plugin_list(directories, &paths, NULL), 0);
        for (i = 0; expected[i] != NULL; i++) {
                assert_non_null(paths[i]);
                assert_string_equal(paths[i], scratch_path(expected[i]));
        }
        assert_null(paths[i]);
        sbx_plugin_list_free(paths);
}

static void make_plugins(void) {
        static const char *const directories[] = {"p", "p/sink-c", "p/sink-d"};
        static const char *const files[] = {"p/sink-b.so", "p/sink-a.so", "p/README", "p/.so", "p/.hidden.so",
                                            "p/sink-c/sink-c.so", "p/sink-d/other.so"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
                mkdir(scratch_path(directories[i]), 0755);
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                scratch_write(files[i], "");
}

static void the_list_is_sorted(void **state) {
        struct sbx_directories directories = {0};

        make_plugins();
        directories.plugins = (char *)scratch_path("p");
        assert_list(&directories, (const char *const[]){"p/sink-a.so", "p/sink-b.so", NULL});
        directories.build_tree = true;
        assert_list(&directories, (const char *const[]){"p/sink-c/sink-c.so", NULL});
        directories.plugins = (char *)"/nonexistent/plugins";
        assert_list(&directories, (const char *const[]){NULL});
}

static int list_plugins(void *data) {
        const struct sbx_directories *directories = data;
        char **paths = NULL, *path = NULL;
        int r = sbx_plugin_list(directories, &paths, NULL);

        sbx_plugin_list_free(paths);
        if (r == 0)
                r = sbx_plugin_path(directories, "sink-a", &path, NULL);
        free(path);
        return r;
}

static void survives_failing_allocations(void **state) {
        struct sbx_directories directories = {0};

        make_plugins();
        directories.plugins = (char *)scratch_path("p");
        assert_true(alloc_fail_sweep(list_plugins, &directories) > 5);
        directories.build_tree = true;
        assert_true(alloc_fail_sweep(list_plugins, &directories) > 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_become_paths),
                cmocka_unit_test(what_is_neither_name_nor_absolute_path_is_refused),
                cmocka_unit_test(names_of_files),
                cmocka_unit_test(the_list_is_sorted),
                cmocka_unit_test(survives_failing_allocations),
        };

        return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
