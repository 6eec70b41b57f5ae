/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of `plugins`: merged by name, and their options against a plugin's table. */
#include "fixture.h"

#define PROJECT "project/snipara-sandbox.cfg"
#define OPTION(option_type, option_name, value)                                                                        \
        .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##option_type, .name = (option_name),             \
        .default_value = (value)

static const struct sbx_option table[] = {
        {OPTION(INT, "pool", "2"), .minimum = 0, .maximum = 64, .help = "Ready guests."},
        {OPTION(STRINGS, "preload", "json, re")},
        {OPTION(SIZE, "memory", "512m"), .minimum = 1 << 20, .maximum = INT64_MAX},
        {OPTION(DURATION, "wait", "1.5s")},
        {OPTION(PATH, "python", NULL)},
        {OPTION(ENUM, "isolation", "strict"), .choices = "strict|landlock|none"},
        {OPTION(STRING, "http.listen", "127.0.0.1:8000")},
        {OPTION(BOOL, "http.cors", "no")},
        {OPTION(STRING, "token", NULL), .flags = SBX_OPTION_SECRET},
        {OPTION(FLOAT, "share", "0.5")},
        {.name = NULL},
};

static const struct sbx_value *get(const struct sbx_settings *settings, const char *name) {
        const struct sbx_value *value = sbx_settings_get(settings, name);

        assert_non_null(value);
        return value;
}

static void settings_or_fail(const struct sbx_config *config, const char *name, struct sbx_settings *ret) {
        struct sbx_error err = {0};

        if (sbx_config_plugin_settings(config, name, table, ret, &err) < 0)
                fail_msg("%s", err.message);
}

static void has_the_defaults_of_the_table(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config = LOAD(f, NULL);
        struct sbx_settings settings = {0};

        settings_or_fail(config, "local", &settings);
        assert_int_equal(get(&settings, "pool")->integer, 2);
        assert_string_equal(get(&settings, "preload")->strings[0], "json");
        assert_string_equal(get(&settings, "preload")->strings[1], "re");
        assert_null(get(&settings, "preload")->strings[2]);
        assert_int_equal(get(&settings, "memory")->integer, 512 << 20);
        assert_int_equal(get(&settings, "wait")->integer, 1500);
        assert_false(get(&settings, "python")->set);
        assert_null(get(&settings, "python")->string);
        assert_string_equal(get(&settings, "pool")->origin, "default");
        assert_true(get(&settings, "share")->real == 0.5);
        sbx_settings_free(&settings);
        sbx_settings_free(&settings);
        assert_int_equal(sbx_config_plugin_settings(config, "absent", table, &settings, NULL), -ENOENT);
        sbx_config_free(config);
}

static void merges_entries_by_name(void **state) {
        struct fixture *f = *state;
        struct sbx_settings settings = {0};
        struct sbx_config *config;
        char path[256];

        WRITE(f, "system/snipara-sandbox.cfg",
              "plugins = (\n { name = \"docker\"; plugin = \"backend-docker\"; pool = 1; memory = \"1g\"; critical = "
              "true; },\n"
              " { name = \"local\"; pool = 5; preload = [ ]; python = \"bin/python\"; http = { listen = \"a\"; cors = "
              "true; }; }\n);");
        WRITE(f, "system/conf.d/x.cfg", "plugins = ( { name = \"docker\"; enabled = false; pool = 9; } );");
        WRITE(f, PROJECT,
              "plugins = (\n\n { name = \"local\"; http = { listen = \"b\"; }; wait = 3; share = 1; isolation = "
              "\"None\"; } );");
        setenv("SNIPARA_SANDBOX_LOCAL_HTTP_CORS", "off", 1);
        setenv("RLM_LOCAL_PRELOAD", "math", 1);
        config = LOAD(f, "local.memory=2g");

        assert_int_equal(sbx_config_plugin_count(config), 9);
        assert_false(sbx_config_plugin_find(config, "docker")->enabled);
        assert_true(sbx_config_plugin_find(config, "docker")->critical);
        assert_false(sbx_config_plugin_find(config, "docker")->built_in);
        assert_false(sbx_config_plugin_find(config, "local")->built_in);
        assert_true(sbx_config_plugin_find(config, "mcp")->built_in);
        assert_string_equal(sbx_config_plugin_find(config, "local")->plugin, "backend-local");
        assert_contains(sbx_config_plugin_find(config, "local")->origin, PROJECT ":3");
        settings_or_fail(config, "docker", &settings);
        assert_int_equal(get(&settings, "pool")->integer, 9);
        assert_int_equal(get(&settings, "memory")->integer, 1 << 30);
        sbx_settings_free(&settings);

        settings_or_fail(config, "local", &settings);
        assert_int_equal(get(&settings, "pool")->integer, 5);
        assert_contains(get(&settings, "pool")->origin, "system/snipara-sandbox.cfg:3");
        assert_string_equal(get(&settings, "preload")->strings[0], "math");
        assert_string_equal(get(&settings, "http.listen")->string, "b");
        assert_false(get(&settings, "http.cors")->boolean);
        assert_string_equal(get(&settings, "http.cors")->origin, "environment SNIPARA_SANDBOX_LOCAL_HTTP_CORS");
        assert_true(get(&settings, "memory")->integer == INT64_C(2) << 30);
        assert_string_equal(get(&settings, "memory")->origin, "flag");
        assert_int_equal(get(&settings, "wait")->integer, 3000);
        assert_true(get(&settings, "share")->real == 1.0);
        assert_string_equal(get(&settings, "isolation")->string, "none");
        snprintf(path, sizeof(path), "%s/bin/python", f->system);
        assert_string_equal(get(&settings, "python")->string, path);
        sbx_config_free(config);
        assert_string_equal(get(&settings, "http.listen")->string, "b"); /* settings stand alone */
        sbx_settings_free(&settings);
}

static void another_plugin_starts_anew(void **state) {
        struct fixture *f = *state;
        struct sbx_settings settings = {0};
        struct sbx_config *config;

        WRITE(f, "system/snipara-sandbox.cfg", "plugins = ( { name = \"local\"; pool = 5; former = 1; } );");
        WRITE(f, PROJECT, "plugins = ( { name = \"local\"; share = 0; plugin = \"backend-other\"; } );");
        config = LOAD(f, NULL);
        settings_or_fail(config, "local", &settings);
        assert_int_equal(get(&settings, "pool")->integer, 2);
        assert_true(get(&settings, "share")->real == 0);
        sbx_settings_free(&settings);
        sbx_config_free(config);
}

static void own_keys_come_from_every_layer(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        WRITE(f, PROJECT, "plugins = ( { name = \"x\"; path = \"/opt/x/sink-x.so\"; } );");
        WRITE(f, "project/.env", "RLM_MCP_ENABLED=no\nRLM_X_CRITICAL=yes\n");
        setenv("SNIPARA_SANDBOX_X_ENABLED", "0", 1);
        config = LOAD(f, "x.enabled=yes", "new.plugin=sink-new", "local.path=/tmp/backend-local.so");
        assert_string_equal(sbx_config_plugin_find(config, "x")->plugin, "/opt/x/sink-x.so");
        assert_true(sbx_config_plugin_find(config, "x")->enabled);
        assert_true(sbx_config_plugin_find(config, "x")->critical);
        assert_false(sbx_config_plugin_find(config, "mcp")->enabled);
        assert_true(sbx_config_plugin_find(config, "mcp")->built_in);
        assert_string_equal(sbx_config_plugin_find(config, "new")->plugin, "sink-new");
        assert_string_equal(sbx_config_plugin_find(config, "local")->plugin, "/tmp/backend-local.so");
        sbx_config_free(config);
}

static void refuses_bad_entries(void **state) {
        static const char *const cases[][3] = {
                {"plugins = { a = 1; };", ":1: `plugins` must be a list of groups", "plugins = ("},
                {"plugins = [ \"a\" ];", ":1: `plugins` must be a list of groups", "plugins = ("},
                {"plugins = (\n \"a\" );", "an entry of `plugins` must be a group", "name ="},
                {"plugins = (\n { plugin = \"a\"; } );", ":2: an entry of `plugins` needs a `name`", "name ="},
                {"plugins = ( { name = 7; } );", ":1: an entry of `plugins` needs a `name`", "name ="},
                {"plugins = ( { name = \"a.b\"; } );", "\"a.b\" can't be the name of a plugin entry", "letters"},
                {"plugins = ( { name = \"\"; } );", "\"\" can't be the name of a plugin entry", "letters"},
                {"plugins = (\n\n{ name = \"a\"; } );", ":3: plugin entry `a` does not say which plugin it is",
                 "plugin ="},
                {"plugins = ( { name = \"a\"; plugin = 3; } );", "`plugin` must be a plugin's name", "plugins list"},
                {"plugins = ( { name = \"a\"; plugin = \"../x.so\"; } );",
                 "`plugin` must be a plugin's name or an absolute path", ""},
                {"plugins = ( { name = \"a\"; path = \"x.so\"; } );", "`path` must be the absolute path of a .so file",
                 ""},
                {"plugins = ( { name = \"local\"; enabled = \"yes\"; } );", "`enabled` must be true or false", ""},
                {"plugins = ( { name = \"local\"; critical = { a = 1; }; } );", "", ""},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i + 1 < sizeof(cases) / sizeof(cases[0]); i++) {
                WRITE(f, PROJECT, cases[i][0]);
                REFUSES(f, cases[i][1], cases[i][2]);
                REFUSES(f, PROJECT ":", "");
        }
        WRITE(f, PROJECT, "");
        REFUSES_FLAG(f, "local.enabled=perhaps", "flag: plugin entry `local`: `enabled` must be true or false", "");
        REFUSES_FLAG(f, "local.name=x", "`name` must be left as it is", "");
        REFUSES_FLAG(f, "a b.plugin=x", "\"a b\" can't be the name of a plugin entry", "");
}

static void refuses_bad_options(void **state) {
        static const char *const cases[][3] = {
                {"\n pol = 3;", ":2: unknown option `pol` of plugin entry `local`",
                 "Did you mean `pool`? `snipara-sandbox plugins info backend-local`"},
                {"http = { lissten = \"x\"; };", "unknown option `http.lissten`", "Did you mean `http.listen`?"},
                {"critical = { a = 1; };", "unknown option `critical.a`", "plugins info"},
                {"pool = 65;", "`local.pool` must be from 0 to 64, not 65", "Ready guests."},
                {"pool = \"many\";", "`local.pool` must be a whole number, not \"many\"", "Ready guests."},
                {"memory = 1;", "`local.memory` must be from \"1m\" to ", ""},
                {"isolation = \"strct\";", "`local.isolation` must be one of strict, landlock, none, not \"strct\"",
                 ""},
                {"http = ( { listen = \"x\"; } );", "unknown option `http`", ""},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_settings settings = {0};
                struct sbx_error err = {0};
                struct sbx_config *config;
                char text[256];

                snprintf(text, sizeof(text), "plugins = ( { name = \"local\"; %s } );", cases[i][0]);
                WRITE(f, PROJECT, text);
                config = LOAD(f, NULL);
                assert_int_equal(sbx_config_plugin_settings(config, "local", table, &settings, &err), -EINVAL);
                assert_contains(err.message, cases[i][1]);
                assert_contains(err.message, PROJECT ":");
                assert_contains(err.hint, cases[i][2]);
                assert_null(settings.values);
                sbx_config_free(config);
        }
}

static void wants_what_is_required(void **state) {
        static const struct sbx_option required[] = {
                {OPTION(STRING, "image", NULL), .flags = SBX_OPTION_REQUIRED, .help = "The image."}, {.name = NULL}};
        static const struct sbx_option broken[] = {{.type = 99, .name = "odd", .default_value = "1"}, {.name = NULL}};
        struct fixture *f = *state;
        struct sbx_config *config = LOAD(f, NULL);
        struct sbx_settings settings = {0};
        struct sbx_error err = {0};

        assert_int_equal(sbx_config_plugin_settings(config, "local", required, &settings, &err), -EINVAL);
        assert_string_equal(err.message, "`local.image` must be set");
        assert_string_equal(err.hint, "The image.");
        err.code = 0;
        assert_int_equal(sbx_config_plugin_settings(config, "local", broken, &settings, &err), -EINVAL);
        assert_contains(err.message, "unknown type 99");
        assert_int_equal(sbx_config_plugin_settings(config, "local", NULL, &settings, &err), 0);
        sbx_settings_free(&settings);
        sbx_config_free(config);
}

static void shows_values_as_they_are_written(void **state) {
        static const char *const expected[][2] = {
                {"pool", "2"},           {"preload", "[ \"a\", \"b\\\"c\" ]"},
                {"memory", "\"1536m\""}, {"wait", "\"90s\""},
                {"python", "(unset)"},   {"isolation", "\"strict\""},
                {"http.cors", "true"},   {"token", "\"********\""},
                {"share", "0.25"},
        };
        struct fixture *f = *state;
        struct sbx_settings settings = {0};
        struct sbx_config *config;

        WRITE(f, PROJECT,
              "plugins = ( { name = \"local\"; preload = ( \"a\", \"b\\\"c\" ); memory = \"1.5g\"; wait = 90; token = "
              "\"t\";"
              "share = 0.25; http = { cors = true; }; } );");
        config = LOAD(f, NULL);
        settings_or_fail(config, "local", &settings);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(1000);

                assert_int_equal(
                        sbx_value_show(sbx_option_find(table, expected[i][0]), get(&settings, expected[i][0]), &out),
                        0);
                assert_string_equal(out.data, expected[i][1]);
                sbx_buffer_free(&out);
        }
        sbx_settings_free(&settings);
        sbx_config_free(config);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(has_the_defaults_of_the_table), TEST(merges_entries_by_name),
                TEST(another_plugin_starts_anew),    TEST(own_keys_come_from_every_layer),
                TEST(refuses_bad_entries),           TEST(refuses_bad_options),
                TEST(wants_what_is_required),        TEST(shows_values_as_they_are_written),
        };

        return cmocka_run_group_tests_name("plugins", tests, NULL, NULL);
}
