/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: which file, variable or flag wins, and that each value knows where it came from. */
#include "fixture.h"
#include "../alloc_fail.h"

static void works_without_any_file(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config = LOAD(f, NULL);
        const struct sbx_plugin_entry *entry;
        char logs[256];

        assert_string_equal(sbx_config_string(config, "environment"), "local");
        assert_string_equal(sbx_config_string(config, "model"), "openai/gpt-4o-mini");
        assert_int_equal(sbx_config_int(config, "session_ttl"), 30 * 60 * 1000);
        assert_int_equal(sbx_config_int(config, "max_output_bytes"), 1 << 20);
        assert_false(sbx_config_bool(config, "parallel_tools"));
        assert_null(sbx_config_string(config, "api_key"));
        assert_false(sbx_settings_get(sbx_config_core(config), "exec_timeout")->set);
        assert_string_equal(origin_of(config, "model"), "default");
        assert_null(sbx_settings_get(sbx_config_core(config), "no_such"));
        snprintf(logs, sizeof(logs), "%s/logs", f->project);
        assert_string_equal(sbx_config_string(config, "log_dir"), logs);
        assert_int_equal(sbx_config_plugin_count(config), 9);
        entry = sbx_config_plugin_find(config, "local");
        assert_string_equal(entry->plugin, "backend-local");
        assert_true(entry->enabled && entry->built_in && !entry->critical);
        assert_string_equal(sbx_config_plugin(config, 1)->name, "mcp");
        assert_string_equal(sbx_config_plugin(config, 3)->plugin, "sink-jsonl");
        assert_null(sbx_config_plugin(config, 9));
        assert_null(sbx_config_files(config)[0]);
        assert_int_equal(f->log.size, 0);
        sbx_config_free(config);
}

static void higher_layers_win(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;
        char origin[256];

        WRITE(f, "system/snipara-sandbox.cfg",
              "max_depth = 1;\nmax_subcalls = 1;\ntool_budget = 1;\nmax_parallel = 1;\n"
              "token_budget = 1;\nmax_sessions = 1;\ntimeout_seconds = 1;");
        WRITE(f, "system/conf.d/20-b.cfg", "max_subcalls = 3;");
        WRITE(f, "system/conf.d/10-a.cfg",
              "\n\nmax_subcalls = 2; tool_budget = 2; max_parallel = 2; token_budget = 2;"
              "max_sessions = 2; timeout_seconds = 2;");
        WRITE(f, "user/snipara-sandbox/snipara-sandbox.cfg",
              "tool_budget = 3; max_parallel = 3; token_budget = 3; "
              "max_sessions = 3; timeout_seconds = 3;");
        WRITE(f, "project/snipara-sandbox.cfg",
              "max_parallel = 4; token_budget = 4; max_sessions = 4; timeout_seconds = 4;");
        WRITE(f, "project/.env", "RLM_TOKEN_BUDGET=5\nSNIPARA_SANDBOX_MAX_SESSIONS=5\nRLM_TIMEOUT_SECONDS=5\n");
        setenv("RLM_MAX_SESSIONS", "6", 1);
        setenv("SNIPARA_SANDBOX_TIMEOUT_SECONDS", "6", 1);
        config = LOAD(f, "timeout_seconds=7");

        assert_int_equal(sbx_config_int(config, "max_depth"), 1);
        assert_int_equal(sbx_config_int(config, "max_subcalls"), 3);
        assert_int_equal(sbx_config_int(config, "tool_budget"), 3);
        assert_int_equal(sbx_config_int(config, "max_parallel"), 4);
        assert_int_equal(sbx_config_int(config, "token_budget"), 5);
        assert_int_equal(sbx_config_int(config, "max_sessions"), 6);
        assert_int_equal(sbx_config_int(config, "timeout_seconds"), 7);
        snprintf(origin, sizeof(origin), "%s/system/snipara-sandbox.cfg:1", f->root);
        assert_string_equal(origin_of(config, "max_depth"), origin);
        snprintf(origin, sizeof(origin), "%s/system/conf.d/20-b.cfg:1", f->root);
        assert_string_equal(origin_of(config, "max_subcalls"), origin);
        snprintf(origin, sizeof(origin), "%s/project/.env:1 RLM_TOKEN_BUDGET", f->root);
        assert_string_equal(origin_of(config, "token_budget"), origin);
        assert_string_equal(origin_of(config, "max_sessions"), "environment RLM_MAX_SESSIONS");
        assert_string_equal(origin_of(config, "timeout_seconds"), "flag");
        for (int i = 0; i < 6; i++)
                assert_non_null(sbx_config_files(config)[i]);
        assert_contains(sbx_config_files(config)[5], "/project/.env");
        assert_null(sbx_config_files(config)[6]);
        assert_contains(sbx_config_files(config)[1], "10-a.cfg");
        sbx_config_free(config);
}

static void conf_d_takes_only_cfg_files(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        WRITE(f, "system/conf.d/README", "this is not libconfig {{{");
        WRITE(f, "system/conf.d/.hidden.cfg", "neither {{{");
        WRITE(f, "system/conf.d/old.cfg.dpkg-old", "nor {{{");
        WRITE(f, "system/conf.d/only.cfg", "max_depth = 2;");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 2);
        sbx_config_free(config);
}

static void a_named_file_replaces_the_search(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;
        char path[256];

        WRITE(f, "system/snipara-sandbox.cfg", "max_depth = 1;");
        WRITE(f, "project/snipara-sandbox.cfg", "max_subcalls = 1;");
        WRITE(f, "mine.cfg", "tool_budget = 1; log_dir = \"sub/logs\";");
        snprintf(path, sizeof(path), "%s/mine.cfg", f->root);
        config = fixture_load_or_fail(f, &(struct load){.config_path = path});
        assert_int_equal(sbx_config_int(config, "max_depth"), 4);
        assert_int_equal(sbx_config_int(config, "max_subcalls"), 12);
        assert_int_equal(sbx_config_int(config, "tool_budget"), 1);
        snprintf(path, sizeof(path), "%s/sub/logs", f->root);
        assert_string_equal(sbx_config_string(config, "log_dir"), path);
        sbx_config_free(config);

        snprintf(path, sizeof(path), "%s/mine.cfg", f->root);
        setenv("SNIPARA_SANDBOX_CONFIG", path, 1);
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "tool_budget"), 1);
        assert_int_equal(sbx_config_int(config, "max_depth"), 4);
        sbx_config_free(config);

        unsetenv("SNIPARA_SANDBOX_CONFIG");
        WRITE(f, "project/.env", "SNIPARA_SANDBOX_CONFIG=../mine.cfg");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "tool_budget"), 1);
        sbx_config_free(config);

        fixture_refuses(f, &(struct load){.config_path = "/nonexistent/x.cfg"}, -ENOENT,
                        "no configuration file /nonexistent/x.cfg", "init");
}

static void names_of_variables_are_as_before(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        setenv("RLM_MODEL", "legacy", 1);
        setenv("SNIPARA_API_KEY", "key-1", 1);
        setenv("RLM_SNIPARA_API_KEY", "key-2", 1);
        setenv("SNIPARA_SANDBOX_LLM_API_KEY", "llm", 1);
        setenv("SNIPARA_PROJECT_ID", "slug", 1);
        setenv("SNIPARA_MEMORY_ENABLED", "yes", 1);
        setenv("RLM_LOG_LEVEL", "INFO", 1);
        setenv("RLM_ALLOWED_PATHS", "[\"/a\", \"/b,c\"]", 1);
        setenv("SNIPARA_SANDBOX_TEMPERATURE", "", 1); /* empty is unset */
        setenv("RLM_TEMPERATURE", "0.7", 1);
        config = LOAD(f, NULL);
        assert_string_equal(sbx_config_string(config, "model"), "legacy");
        assert_string_equal(sbx_config_string(config, "snipara_api_key"), "key-1");
        assert_string_equal(sbx_config_string(config, "api_key"), "llm");
        assert_string_equal(sbx_config_string(config, "snipara_project_slug"), "slug");
        assert_true(sbx_config_bool(config, "memory_enabled"));
        assert_string_equal(sbx_config_string(config, "log_level"), "info");
        assert_string_equal(sbx_settings_get(sbx_config_core(config), "allowed_paths")->strings[1], "/b,c");
        assert_true(sbx_settings_get(sbx_config_core(config), "temperature")->real == 0.7);
        assert_string_equal(origin_of(config, "temperature"), "environment RLM_TEMPERATURE");
        sbx_config_free(config);

        setenv("SNIPARA_SANDBOX_MODEL", "ours", 1);
        config = LOAD(f, NULL);
        assert_string_equal(sbx_config_string(config, "model"), "ours");
        sbx_config_free(config);
}

static void can_ignore_the_environment(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        setenv("RLM_MAX_DEPTH", "2", 1);
        setenv("SNIPARA_SANDBOX_CONFIG", "/nonexistent", 1);
        WRITE(f, "project/.env", "RLM_MAX_SUBCALLS=2");
        WRITE(f, "user/snipara-sandbox/snipara-sandbox.cfg", "tool_budget = 2;");
        WRITE(f, "project/snipara-sandbox.cfg", "max_parallel = 2;");
        config = fixture_load_or_fail(f, &(struct load){.flags = SBX_RUNTIME_NO_ENVIRONMENT});
        assert_int_equal(sbx_config_int(config, "max_depth"), 4);
        assert_int_equal(sbx_config_int(config, "max_subcalls"), 12);
        assert_int_equal(sbx_config_int(config, "tool_budget"), 20);
        assert_int_equal(sbx_config_int(config, "max_parallel"), 2);
        sbx_config_free(config);
}

static void reports_what_was_probably_meant(void **state) {
        struct fixture *f = *state;

        setenv("SNIPARA_SANDBOX_MAX_DEPHT", "2", 1);
        setenv("SNIPARA_SANDBOX_SOMETHING_ELSE", "2", 1);
        sbx_config_free(LOAD(f, NULL));
        assert_contains(f->log.data, "2 environment SNIPARA_SANDBOX_MAX_DEPHT is not a setting; did you mean "
                                     "SNIPARA_SANDBOX_MAX_DEPTH?");
        assert_null(strstr(f->log.data, "SOMETHING"));
}

static void reports_the_former_format(void **state) {
        struct fixture *f = *state;

        WRITE(f, "project/rlm.toml", "[rlm]\nmax_depth = 2\n");
        sbx_config_free(LOAD(f, NULL));
        assert_contains(f->log.data, "project/rlm.toml is of the former format");
        assert_contains(f->log.data, "snipara-sandbox init");
        sbx_buffer_clear(&f->log);
        WRITE(f, "project/snipara-sandbox.cfg", "");
        sbx_config_free(LOAD(f, NULL));
        assert_int_equal(f->log.size, 0);
}

/* ---- allocation failures ---- */

static void ignore_log(void *data, int level, const char *message) {
}

static int load_all(void *data) {
        static const struct sbx_option table[] = {
                {.struct_size = sizeof(table[0]), .type = SBX_OPTION_INT, .name = "pool", .default_value = "2"},
                {.struct_size = sizeof(table[0]),
                 .type = SBX_OPTION_STRINGS,
                 .name = "preload",
                 .default_value = "a,b"},
                {.struct_size = sizeof(table[0]), .type = SBX_OPTION_PATH, .name = "http.root", .default_value = "./x"},
                {.name = NULL},
        };
        static const char *const settings[] = {"max_depth=2", "local.pool=3", "extra.plugin=backend-x", NULL};
        const struct fixture *f = data;
        const struct sbx_logger logger = {ignore_log, NULL, SBX_LOG_DEBUG};
        struct sbx_runtime_options options = {
                .struct_size = sizeof(options), .directory = f->project, .settings = settings};
        struct sbx_settings plugin = {0};
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int r = sbx_config_load_from(f->system, &options, &logger, &config, &err);

        if (r == 0)
                r = sbx_config_plugin_settings(config, "local", table, &plugin, &err);
        if (r < 0)
                assert_int_equal(err.code, r);
        if (r < 0 && err.code != -ENOMEM)
                print_message("# %s\n", err.message);
        sbx_settings_free(&plugin);
        sbx_config_free(config);
        return r;
}

static void survives_every_allocation_failure(void **state) {
        struct fixture *f = *state;

        WRITE(f, "system/snipara-sandbox.cfg", "max_subcalls = 3; log_dir = \"x\"; allowed_paths = [ \"/a\", \"b\" ];");
        WRITE(f, "system/conf.d/a.cfg",
              "plugins = ( { name = \"docker\"; plugin = \"backend-docker\"; critical = true; } );");
        WRITE(f, "project/snipara-sandbox.cfg",
              "plugins = ( { name = \"local\"; preload = [ \"re\" ]; http = { root = \"y\"; }; } );");
        WRITE(f, "project/.env", "export RLM_MODEL='x' # y\nSNIPARA_SANDBOX_DOCKER_ENABLED=no\n");
        setenv("SNIPARA_SANDBOX_LOCAL_POOL", "7", 1);
        setenv("SNIPARA_SANDBOX_MODLE", "7", 1);
        assert_true(alloc_fail_sweep(load_all, f) > 100);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(works_without_any_file),
                TEST(higher_layers_win),
                TEST(conf_d_takes_only_cfg_files),
                TEST(a_named_file_replaces_the_search),
                TEST(names_of_variables_are_as_before),
                TEST(can_ignore_the_environment),
                TEST(reports_what_was_probably_meant),
                TEST(reports_the_former_format),
                TEST(survives_every_allocation_failure),
        };

        return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
