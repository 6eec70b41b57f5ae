/* SPDX-License-Identifier: Apache-2.0 */
/* The example configuration and the reference tell of every setting, and what they tell is so. */
#include "fixture.h"

#include "base/fd.h"

static const char *source_root; /* set by main() */

static void read_document(const char *name, struct sbx_buffer *out) {
        struct sbx_error err = {0};
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", source_root, name);
        if (sbx_file_read(AT_FDCWD, path, out->max, out, &err) < 0)
                fail_msg("%s", err.message);
}

/* A setting's default as the documents write it. */
static void show_default(const struct sbx_config *config, const struct sbx_option *option, struct sbx_buffer *out) {
        const struct sbx_value *value = sbx_settings_get(sbx_config_core(config), option->name);

        if (option->type == SBX_OPTION_PATH)
                assert_int_equal(sbx_buffer_printf(out, "\"%s\"", option->default_value), 0);
        else
                assert_int_equal(sbx_value_show(option, value, out), 0);
}

static void tell_every_default(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config = LOAD(f, NULL);
        struct sbx_buffer example = SBX_BUFFER(1u << 20), reference = SBX_BUFFER(1u << 20);

        read_document("conf/snipara-sandbox.cfg", &example);
        read_document("docs/configuration.md", &reference);
        for (const struct sbx_option *option = sbx_core_options; option->name != NULL; option++) {
                bool set = sbx_settings_get(sbx_config_core(config), option->name)->set;
                struct sbx_buffer value = SBX_BUFFER(1000), line = SBX_BUFFER(1000);

                show_default(config, option, &value);
                assert_int_equal(sbx_buffer_printf(&line, "\n# %s = %s%s", option->name, set ? value.data : "\"",
                                                   set ? ";\n" : ""),
                                 0);
                assert_contains(example.data, line.data);
                sbx_buffer_clear(&line);
                assert_int_equal(sbx_buffer_printf(&line, "\n| `%s` | %s%s%s |", option->name, set ? "`" : "",
                                                   set ? value.data : "unset", set ? "`" : ""),
                                 0);
                assert_contains(reference.data, line.data);
                assert_contains(reference.data, option->help);
                sbx_buffer_free(&value);
                sbx_buffer_free(&line);
        }
        sbx_buffer_free(&example);
        sbx_buffer_free(&reference);
        sbx_config_free(config);
}

/* Takes the mark of a comment from lines of the form "# name = value;" and of the list of plugins. */
static void uncomment(const struct sbx_buffer *text, struct sbx_buffer *out) {
        bool in_plugins = false;

        for (const char *line = text->data; *line != '\0';) {
                size_t size = strcspn(line, "\n") + 1,
                       name = size > 2 ? strspn(line + 2, "abcdefghijklmnopqrstuvwxyz_") : 0;
                bool setting = name > 0 && strncmp(line + 2 + name, " = ", 3) == 0;

                in_plugins = in_plugins || strncmp(line, "# plugins = (", 13) == 0;
                if (setting || in_plugins)
                        assert_int_equal(sbx_buffer_append(out, line + 2, size - 2), 0);
                in_plugins = in_plugins && strncmp(line, "# );", 4) != 0;
                line += size;
        }
}

static void example_is_taken_as_it_stands_and_uncommented(void **state) {
        struct fixture *f = *state;
        struct sbx_buffer text = SBX_BUFFER(1u << 20), live = SBX_BUFFER(1u << 20);
        struct sbx_config *defaults, *config;
        size_t count = 0;

        read_document("conf/snipara-sandbox.cfg", &text);
        fixture_write(f, "project/snipara-sandbox.cfg", text.data, text.size);
        defaults = LOAD(f, NULL);
        uncomment(&text, &live);
        fixture_write(f, "project/snipara-sandbox.cfg", live.data, live.size);
        config = LOAD(f, NULL);
        for (const struct sbx_option *option = sbx_core_options; option->name != NULL; option++, count++) {
                const struct sbx_value *before = sbx_settings_get(sbx_config_core(defaults), option->name);
                const struct sbx_value *after = sbx_settings_get(sbx_config_core(config), option->name);
                struct sbx_buffer a = SBX_BUFFER(1000), b = SBX_BUFFER(1000);

                assert_string_equal(before->origin, "default");
                assert_contains(after->origin, "project/snipara-sandbox.cfg:");
                assert_int_equal(sbx_value_show(option, before, &a), 0);
                assert_int_equal(sbx_value_show(option, after, &b), 0);
                if (before->set)
                        assert_string_equal(a.data, b.data);
                sbx_buffer_free(&a);
                sbx_buffer_free(&b);
        }
        assert_int_equal(count, sbx_config_core(config)->count);
        assert_int_equal(sbx_config_plugin_count(config), 9);
        assert_false(sbx_config_plugin_find(config, "mcp")->built_in);
        sbx_config_free(config);
        sbx_config_free(defaults);
        sbx_buffer_free(&text);
        sbx_buffer_free(&live);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(tell_every_default, fixture_setup, fixture_teardown),
                cmocka_unit_test_setup_teardown(example_is_taken_as_it_stands_and_uncommented, fixture_setup,
                                                fixture_teardown),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s SOURCE-ROOT\n", argv[0]);
                return 2;
        }
        source_root = argv[1];
        return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}
