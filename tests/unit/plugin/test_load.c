/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a good plugin; what is refused is in tests/abi/test_bad_plugins.py. */
#include "scratch.h"

#include <snipara-sandbox/sink.h>

#include "asprintf_fail.h"
#include "plugin/internal.h"

static char plugin_path[1024];

static int setup(void **state) {
        const char *directory = getenv("PLUGINS");

        if (directory == NULL) {
                print_message("PLUGINS is not set: run it with meson test\n");
                return -1;
        }
        snprintf(plugin_path, sizeof(plugin_path), "%s/sink-fixture.so", directory);
        return scratch_setup(state);
}

static void a_good_plugin_is_described(void **state) {
        struct sbx_module *module = NULL;
        struct sbx_error err = {0};

        if (sbx_module_load(plugin_path, &module, &err) < 0)
                fail_msg("%s. %s", err.message, err.hint);
        assert_string_equal(module->plugin.name, "sink-fixture");
        assert_string_equal(module->path, plugin_path);
        assert_int_equal(module->plugin.kind, SBX_PLUGIN_SINK);
        assert_string_equal(module->plugin.options[0].name, "text");
        assert_non_null(((const struct sbx_sink_ops *)module->plugin.ops)->event);
        sbx_module_free(module);
        sbx_module_free(NULL);
}

static void may_be_loaded_twice(void **state) {
        struct sbx_module *one = NULL, *two = NULL;

        assert_int_equal(sbx_module_load(plugin_path, &one, NULL), 0);
        assert_int_equal(sbx_module_load(plugin_path, &two, NULL), 0);
        sbx_module_free(one);
        assert_string_equal(two->plugin.name, "sink-fixture"); /* its strings are in the object, which is still there */
        sbx_module_free(two);
}

static void failures_leave_the_result_alone(void **state) {
        struct sbx_module *module = (struct sbx_module *)plugin_path;

        assert_int_equal(sbx_module_load("/nonexistent/sink-a.so", &module, NULL), -ENOENT);
        assert_ptr_equal(module, plugin_path);
}

/* What dlopen() allocates is not part of the sweep: it happens inside of the C library. */
static int load(void *data) {
        struct sbx_module *module = NULL;
        int r = sbx_module_load(plugin_path, &module, NULL);

        sbx_module_free(module);
        return r;
}

static void survives_failing_allocations(void **state) {
        assert_true(alloc_fail_sweep(load, NULL) > 6);
}

/* Where others can replace a directory on the way, the object is loaded through the descriptor that was checked. */
static void trusts_paths_or_descriptors(void **state) {
        struct sbx_plugin_file file = SBX_PLUGIN_FILE;
        char expected[64];

        assert_int_equal(mkdir(scratch_path("open"), 0755), 0);
        assert_int_equal(mkdir(scratch_path("open/plugins"), 0755), 0);
        scratch_write("open/plugins/sink-a.so", "\177ELF");
        assert_int_equal(sbx_plugin_file_open(scratch_path("open/plugins/sink-a.so"), &file, NULL), 0);
        assert_string_equal(file.load_path, scratch_path("open/plugins/sink-a.so"));
        assert_false(file.needs_fd);
        sbx_plugin_file_close(&file);

        assert_int_equal(chmod(scratch_path("open"), 0777), 0);
        assert_int_equal(sbx_plugin_file_open(scratch_path("open/plugins/sink-a.so"), &file, NULL), 0);
        snprintf(expected, sizeof(expected), "/proc/self/fd/%d", file.fd);
        assert_string_equal(file.load_path, expected);
        assert_true(file.needs_fd);
        sbx_plugin_file_close(&file);
        sbx_plugin_file_close(&file);

        assert_int_equal(chmod(scratch_path("open"), 01777), 0); /* sticky, like /tmp: only owners rename */
        assert_int_equal(sbx_plugin_file_open(scratch_path("open/plugins/sink-a.so"), &file, NULL), 0);
        assert_false(file.needs_fd);
        sbx_plugin_file_close(&file);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_good_plugin_is_described),
                cmocka_unit_test(may_be_loaded_twice),
                cmocka_unit_test(failures_leave_the_result_alone),
                cmocka_unit_test(survives_failing_allocations),
                cmocka_unit_test(trusts_paths_or_descriptors),
        };

        return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
