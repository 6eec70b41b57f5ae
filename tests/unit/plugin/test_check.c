/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that a descriptor and its options are held to. */
#include "../test.h"

#include <snipara-sandbox/backend.h>
#include <snipara-sandbox/sink.h>

#include "plugin/internal.h"

static int test_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        return -ENOSYS;
}
static void test_close(void *instance) {
}
static int test_event(void *instance, struct sbx_bytes json, struct sbx_error *err) {
        return 0;
}

static const struct sbx_sink_ops sink_ops = {.struct_size = sizeof(sink_ops), .event = test_event};
static const struct sbx_option no_options[] = {{.name = NULL}};

static struct sbx_module sink_module(void) {
        return (struct sbx_module){
                .path = (char *)"/opt/sink-test.so",
                .plugin = {.struct_size = sizeof(struct sbx_plugin),
                           .abi_major = SBX_ABI_MAJOR,
                           .kind = SBX_PLUGIN_SINK,
                           .name = "sink-test",
                           .version = "1",
                           .summary = "A test",
                           .license = "Apache-2.0",
                           .options = no_options,
                           .ops = &sink_ops,
                           .open = test_open,
                           .close = test_close},
        };
}

static void assert_refused(const struct sbx_module *module, const char *words) {
        struct sbx_error err = {0};

        assert_int_equal(sbx_module_check(module, sbx_kind_find(module->plugin.kind), &err), -EINVAL);
        assert_contains(err.message, words);
        assert_contains(err.message, "/opt/sink-test.so");
        assert_true(err.hint[0] != '\0');
}

static void names_of_plugins(void **state) {
        static const char *const good[] = {"sink-jsonl", "a", "backend-local2",
                                           "a23456789012345678901234567890123456789012345678901234567890123"};
        static const char *const bad[] = {
                "",    "-a",  "2a",       "Sink",
                "a_b", "a.b", "../a",     "a/b",
                "a b", "a\n", "\xc3\xa4", "a234567890123456789012345678901234567890123456789012345678901234"};

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_true(sbx_plugin_name_valid(good[i]));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(sbx_plugin_name_valid(bad[i]));
}

static void kinds_are_known_by_number_and_by_name(void **state) {
        for (uint32_t kind = SBX_PLUGIN_BACKEND; kind <= SBX_PLUGIN_STORE; kind++) {
                assert_non_null(sbx_kind_find(kind));
                assert_ptr_equal(sbx_kind_of_plugin(sbx_kind_find(kind)->prefix), sbx_kind_find(kind));
                assert_non_null(sbx_plugin_core_options(kind));
        }
        assert_null(sbx_kind_find(0));
        assert_null(sbx_kind_find(SBX_PLUGIN_STORE + 1));
        assert_string_equal(sbx_plugin_kind_name(SBX_PLUGIN_TRANSPORT), "transport");
        assert_string_equal(sbx_plugin_kind_name(99), "unknown");
        assert_int_equal(sbx_kind_of_plugin("/backend-x/sink-jsonl.so")->kind, SBX_PLUGIN_SINK);
        assert_null(sbx_kind_of_plugin("jsonl"));
        assert_string_equal(sbx_plugin_core_options(SBX_PLUGIN_BACKEND)[0].name, "pool");
        assert_string_equal(sbx_plugin_core_options(SBX_PLUGIN_SINK)[0].name, "events");
        assert_null(sbx_plugin_core_options(SBX_PLUGIN_STORE)[0].name);
        assert_null(sbx_plugin_core_options(99)[0].name);
}

static void another_major_is_refused_a_newer_minor_is_fine(void **state) {
        struct sbx_plugin plugin = {.struct_size = sizeof(plugin), .abi_major = SBX_ABI_MAJOR, .abi_minor = 99};
        struct sbx_error err = {0};

        assert_int_equal(sbx_descriptor_check_abi(&plugin, "/p.so", &err), 0);
        plugin.abi_major++;
        assert_int_equal(sbx_descriptor_check_abi(&plugin, "/p.so", &err), -EPROTO);
        assert_contains(err.message, "/p.so");
        assert_contains(err.hint, "newer snipara-sandbox");
}

static void a_whole_descriptor_is_accepted(void **state) {
        struct sbx_module module = sink_module();

        assert_int_equal(sbx_module_check(&module, sbx_kind_find(SBX_PLUGIN_SINK), NULL), 0);
}

static void what_is_missing_is_named(void **state) {
        static const struct sbx_sink_ops empty = {.struct_size = sizeof(empty)};
        struct sbx_module module = sink_module();

        module.plugin.name = NULL;
        assert_refused(&module, "not a plugin name");
        module = sink_module();
        module.plugin.name = "sink-other";
        assert_refused(&module, "\"sink-test\"");
        module = sink_module();
        module.plugin.version = NULL;
        assert_refused(&module, ".version");
        module = sink_module();
        module.plugin.summary = "two\nlines";
        assert_refused(&module, ".summary");
        module = sink_module();
        module.plugin.license = "";
        assert_refused(&module, ".license");
        module = sink_module();
        module.plugin.close = NULL;
        assert_refused(&module, "close()");
        module = sink_module();
        module.plugin.ops = &empty;
        assert_refused(&module, "event()");
}

static void a_feature_needs_its_operations(void **state) {
        const struct sbx_kind *kind = sbx_kind_find(SBX_PLUGIN_BACKEND);
        struct sbx_backend_ops ops = {.struct_size = sizeof(ops)};
        struct sbx_module module = sink_module();
        struct sbx_error err = {0};

        /* Any function does: none is called. */
        ops.guest_start = (int (*)(void *, const struct sbx_guest_spec *, const struct sbx_call *, struct sbx_guest *,
                                   struct sbx_error *))(void (*)(void))test_close;
        ops.guest_interrupt = (int (*)(void *, void *, struct sbx_error *))(void (*)(void))test_close;
        ops.guest_kill = ops.guest_close = (void (*)(void *, void *))(void (*)(void))test_close;
        ops.guest_usage =
                (int (*)(void *, void *, struct sbx_guest_usage *, struct sbx_error *))(void (*)(void))test_close;
        module.path = (char *)"/opt/backend-test.so";
        module.plugin.kind = SBX_PLUGIN_BACKEND;
        module.plugin.name = "backend-test";
        module.plugin.ops = &ops;
        assert_int_equal(sbx_module_check(&module, kind, &err), 0);
        ops.features = SBX_BACKEND_NETWORK | SBX_BACKEND_THREADS | 1u << 31; /* no operations belong to these */
        assert_int_equal(sbx_module_check(&module, kind, &err), 0);
        ops.features = SBX_BACKEND_SAVE;
        assert_int_equal(sbx_module_check(&module, kind, &err), -EINVAL);
        assert_contains(err.message, "guest_save()");
}

/* ---- options --------------------------------------------------------------------------------------------- */

#define BASE .struct_size = sizeof(struct sbx_option), .help = "Help."

static int check_option(struct sbx_option option, uint32_t kind, struct sbx_error *err) {
        const struct sbx_option table[] = {option, {.name = NULL}};
        struct sbx_module module = sink_module();

        module.plugin.options = table;
        return sbx_options_check(&module, sbx_kind_find(kind), err);
}

static void good_options_are_accepted(void **state) {
        const struct sbx_option good[] = {
                {BASE, .type = SBX_OPTION_BOOL, .name = "a", .default_value = "true"},
                {BASE, .type = SBX_OPTION_INT, .name = "a_1", .default_value = "-3", .minimum = -3, .maximum = 3},
                {BASE, .type = SBX_OPTION_SIZE, .name = "a", .default_value = "1k", .minimum = 1024, .maximum = 1024},
                {BASE, .type = SBX_OPTION_DURATION, .name = "a", .default_value = "3s", .minimum = 1, .maximum = 3000},
                {BASE, .type = SBX_OPTION_FLOAT, .name = "a", .default_value = "0.5", .minimum = 0, .maximum = 1},
                {BASE, .type = SBX_OPTION_STRING, .name = "http.listen.v6", .flags = SBX_OPTION_SECRET},
                {BASE, .type = SBX_OPTION_ENUM, .name = "a", .choices = "none|ro|rw", .default_value = "ro"},
                {BASE, .type = SBX_OPTION_STRINGS, .name = "a", .default_value = "x,y"},
                {BASE, .type = SBX_OPTION_PATH, .name = "a", .flags = SBX_OPTION_REQUIRED},
                {BASE, .type = SBX_OPTION_INT, .name = "unbounded", .default_value = "123456789"},
                {BASE, .type = SBX_OPTION_INT, .name = "pools"},
        };

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                struct sbx_error err = {0};

                if (check_option(good[i], SBX_PLUGIN_BACKEND, &err) != 0)
                        fail_msg("option %zu: %s", i, err.message);
        }
}

static void bad_options_are_refused(void **state) {
        static const struct {
                struct sbx_option option;
                const char *words;
        } bad[] = {
                {{BASE, .type = SBX_OPTION_INT, .name = ""}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "A"}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "1a"}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a-b"}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a..b"}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a."}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = ".a"}, "bad name"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a._b"}, "bad name"},
                {{BASE, .type = 0, .name = "a"}, "type"},
                {{BASE, .type = SBX_OPTION_PATH + 1, .name = "a"}, "type"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .flags = 1u << 9}, "flags"},
                {{.struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_INT, .name = "a"}, "help"},
                {{BASE, .type = SBX_OPTION_ENUM, .name = "a"}, "choices"},
                {{BASE, .type = SBX_OPTION_ENUM, .name = "a", .choices = "a||b"}, "choices"},
                {{BASE, .type = SBX_OPTION_ENUM, .name = "a", .choices = "a|b|"}, "choices"},
                {{BASE, .type = SBX_OPTION_ENUM, .name = "a", .choices = "a b"}, "choices"},
                {{BASE, .type = SBX_OPTION_ENUM, .name = "a", .choices = "ab|c", .default_value = "a"}, "choices"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .choices = "a|b"}, "not an enum"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .minimum = 2, .maximum = 1}, "minimum"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .default_value = "3", .maximum = 2}, "outside"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .default_value = "three"}, "of its type"},
                {{BASE, .type = SBX_OPTION_BOOL, .name = "a", .default_value = "maybe"}, "of its type"},
                {{BASE, .type = SBX_OPTION_SIZE, .name = "a", .default_value = "12q"}, "of its type"},
                {{BASE, .type = SBX_OPTION_DURATION, .name = "a", .default_value = "5 parsecs"}, "of its type"},
                {{BASE, .type = SBX_OPTION_FLOAT, .name = "a", .default_value = "nan"}, "of its type"},
                {{BASE, .type = SBX_OPTION_FLOAT, .name = "a", .default_value = "1.5", .maximum = 1}, "outside"},
                {{BASE, .type = SBX_OPTION_INT, .name = "a", .default_value = "1", .flags = SBX_OPTION_REQUIRED},
                 "required"},
                {{BASE, .type = SBX_OPTION_INT, .name = "enabled"}, "core"},
                {{BASE, .type = SBX_OPTION_INT, .name = "path.x"}, "core"},
                {{BASE, .type = SBX_OPTION_INT, .name = "pool"}, "core"},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct sbx_error err = {0};

                if (check_option(bad[i].option, SBX_PLUGIN_BACKEND, &err) != -EINVAL)
                        fail_msg("option %zu was accepted", i);
                assert_contains(err.message, bad[i].words);
                assert_contains(err.message, "/opt/sink-test.so");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_of_plugins),
                cmocka_unit_test(kinds_are_known_by_number_and_by_name),
                cmocka_unit_test(another_major_is_refused_a_newer_minor_is_fine),
                cmocka_unit_test(a_whole_descriptor_is_accepted),
                cmocka_unit_test(what_is_missing_is_named),
                cmocka_unit_test(a_feature_needs_its_operations),
                cmocka_unit_test(good_options_are_accepted),
                cmocka_unit_test(bad_options_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
