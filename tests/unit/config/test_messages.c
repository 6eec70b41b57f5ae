/* SPDX-License-Identifier: Apache-2.0 */
/* Bad configuration: what is refused, and that the message says what, where and what next. */
#include "fixture.h"

#define PROJECT "project/snipara-sandbox.cfg"

static void refuses_unknown_settings(void **state) {
        struct fixture *f = *state;

        WRITE(f, PROJECT, "# comment\nmodel = \"x\";\nmax_dept = 3;\n");
        REFUSES(f, PROJECT ":3: unknown setting `max_dept`", "Did you mean `max_depth`?");
        WRITE(f, PROJECT, "plugin = ( );");
        REFUSES(f, PROJECT ":1: unknown setting `plugin`", "Did you mean `plugins`?");
        WRITE(f, PROJECT, "\n\nzzzzzzzz = { a = 1; };");
        REFUSES(f, PROJECT ":3: unknown setting `zzzzzzzz`", "config show");
        WRITE(f, PROJECT, "");
        REFUSES_FLAG(f, "modle=x", "flag: unknown setting `modle`", "Did you mean `model`?");
        REFUSES_FLAG(f, "locl.pool=2", "flag: no plugin entry is named `locl`", "Did you mean `local`?");
        REFUSES_FLAG(f, "model", "flag: model: has no value", "NAME=VALUE");
        REFUSES_FLAG(f, "=x", "flag: unknown setting ``", "config show");
}

static void refuses_wrong_types(void **state) {
        static const char *const cases[][2] = {
                {"max_depth = \"3\";", "`max_depth` must be a whole number, not \"3\""},
                {"max_depth = 3.5;", "`max_depth` must be a whole number, not 3.5"},
                {"max_depth = true;", "`max_depth` must be a whole number, not true"},
                {"max_depth = { a = 1; };", "`max_depth` must be a whole number, not a group"},
                {"model = 7;", "`model` must be a text in double quotes, not 7"},
                {"verbose = \"yes\";", "`verbose` must be true or false, not \"yes\""},
                {"verbose = 1;", "`verbose` must be true or false, not 1"},
                {"temperature = \"hot\";", "`temperature` must be a number, not \"hot\""},
                {"max_output_bytes = \"1 meg\";", "`max_output_bytes` must be a size"},
                {"session_ttl = \"soon\";", "`session_ttl` must be a duration"},
                {"session_ttl = [ 1 ];", "`session_ttl` must be a duration"},
                {"allowed_paths = \"/a\";", "`allowed_paths` must be a list of texts"},
                {"allowed_paths = [ 1, 2 ];", "`allowed_paths` must be a list of texts"},
                {"allowed_paths = ( \"/a\", { b = 1; } );", "not a list of other things"},
                {"log_dir = \"\";", "`log_dir` must be a text in double quotes, not \"\""},
                {"log_level = \"loud\";", "`log_level` must be one of error, warning, info, debug, not \"loud\""},
                {"environment = \"\";", "`environment` must not be empty"},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                WRITE(f, PROJECT, cases[i][0]);
                REFUSES(f, cases[i][1], "");
                REFUSES(f, PROJECT ":1: ", "");
        }
}

static void refuses_values_out_of_range(void **state) {
        static const char *const cases[][2] = {
                {"max_depth = 6;", "`max_depth` must be from 1 to 5 levels, not 6"},
                {"max_depth = 3000000000;", "not 3000000000"},
                {"max_depth = -3000000000;", "not -3000000000"},
                {"max_depth = 0xFFFFFFFF;", "not 4294967295"},
                {"max_depth = 9223372036854775807;", "not 9223372036854775807"},
                {"max_depth = -9223372036854775808;", "not -9223372036854775808"},
                {"timeout_seconds = 601;", "`timeout_seconds` must be from 1 to 600 seconds, not 601"},
                {"timeout_seconds = 0;", "not 0"},
                {"exec_timeout = \"11m\";", "`exec_timeout` must be from \"1ms\" to \"10m\", not \"11m\""},
                {"exec_timeout = 0;", "not 0"},
                {"exec_timeout = 9223372036854775807L;", "not 9223372036854775807"},
                {"sub_calls_max_cost_per_session = 10.5;", "must be from 0 to 10 US dollars, not 10.5"},
                {"temperature = -1;", "must be from 0 to 2, not -1"},
                {"temperature = 1e400;", "not inf"},
                {"max_sessions = 65537;", "must be from 1 to 65536 sessions"},
                {"max_output_bytes = 10;", "must be from \"1k\" to \"64m\", not 10"},
                {"session_ttl = -1;", "must be from 0 to \"30d\", not -1"},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                WRITE(f, PROJECT, cases[i][0]);
                REFUSES(f, cases[i][1], "");
        }
        WRITE(f, PROJECT, "max_depth = 9223372036854775808;");
        REFUSES(f, PROJECT ":1: the number is too large", "");
        WRITE(f, PROJECT, "");
        REFUSES_FLAG(f, "max_depth=six", "flag: `max_depth` must be a whole number, not \"six\"", "completions");
        setenv("RLM_MAX_DEPTH", "8", 1);
        REFUSES(f, "environment RLM_MAX_DEPTH: `max_depth` must be from 1 to 5 levels, not \"8\"", "");
}

static void takes_values_at_their_limits(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        WRITE(f, PROJECT,
              "max_depth = 5; max_output_bytes = \"64m\"; timeout_seconds = 600; exec_timeout = 600.0;"
              "temperature = 2; session_ttl = \"30d\"; docker_memory = 4294967296; sub_calls_max_cost_per_session = "
              "10;");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 5);
        assert_int_equal(sbx_config_int(config, "exec_timeout"), 600000);
        assert_true(sbx_config_int(config, "docker_memory") == INT64_C(4294967296));
        sbx_config_free(config);
}

static void refuses_to_run_without_a_jail(void **state) {
        struct fixture *f = *state;

        setenv("RLM_TRUST_LEVEL", "local", 1);
        REFUSES(f, "environment RLM_TRUST_LEVEL: `trust_level` is \"local\", which would run code without a sandbox",
                "isolation = \"none\"");
        setenv("RLM_TRUST_LEVEL", "Docker", 1);
        sbx_config_free(LOAD(f, NULL));
}

static void never_shows_a_secret(void **state) {
        static const struct sbx_option secret = {.struct_size = sizeof(secret),
                                                 .type = SBX_OPTION_ENUM,
                                                 .name = "key",
                                                 .flags = SBX_OPTION_SECRET,
                                                 .choices = "a|b",
                                                 .help = "A key."};
        struct sbx_raw raw = {.type = SBX_RAW_TEXT, .text = (char *)"hunter2", .origin = (char *)"flag"};
        struct fixture *f = *state;
        struct sbx_buffer out = SBX_BUFFER(100);
        struct sbx_config *config;
        struct sbx_value value = {0};
        struct sbx_error err = {0};

        WRITE(f, PROJECT, "api_key = [ \"hunter2\" ];");
        REFUSES(f, "`api_key` must be a text in double quotes, not what it is", "");
        assert_int_equal(sbx_value_parse(NULL, &secret, &raw, &value, &err), -EINVAL);
        assert_null(strstr(err.message, "hunter2"));
        WRITE(f, PROJECT, "api_key = \"hunter2\";");
        config = LOAD(f, NULL);
        assert_string_equal(sbx_config_string(config, "api_key"), "hunter2");
        assert_int_equal(sbx_value_show(sbx_option_find(sbx_core_options, "api_key"),
                                        sbx_settings_get(sbx_config_core(config), "api_key"), &out),
                         0);
        assert_string_equal(out.data, "\"********\"");
        sbx_buffer_free(&out);
        sbx_config_free(config);
}

static void refuses_broken_syntax(void **state) {
        static const char *const cases[][2] = {
                {"model = \"x\";\nverbose = ;\n", ":2: a value was expected, not ';'"},
                {"model = x;", ":1: a value was expected; text stands in double quotes, not a word"},
                {"model \"x\";", ":1: = was expected after the name of a setting, not a text"},
                {"model = \"x\" 7;", ":1: ; was expected after a value, not a number"},
                {"model = \"x\";;", ":1: the name of a setting was expected, not ';'"},
                {"model = \"x\"; }", ":1: the name of a setting was expected, not '}'"},
                {"\nmodel =", ":2: a value was expected, not the end of the file"},
                {"plugins = (\n{ name = \"a\"; )", ":2: the name of a setting or } was expected, not ')'"},
                {"plugins = ( { name = \"a\"", ":1: the name of a setting or } was expected, not the end"},
                {"plugins = ( { } { } );", ":1: a comma or the closing bracket was expected after a value, not '{'"},
                {"plugins = [ { } ];", ":1: a [ ] list holds plain values alone; use ( )"},
                {"allowed_paths = [ , ];", ":1: a value was expected, not ','"},
                {"model = \"x\";\n\nmodel = \"never ends;\n\n", ":3: a text begins here that has no closing quote"},
                {"\n/* never ends", ":2: a comment begins here that has no end */"},
                {"max_output_bytes = 64m;", ":1: a number was begun that is none; a size like 512m"},
                {"max_depth = 0x;", ":1: a number was begun that is none"},
                {"max_depth = 1e;", ":1: a number was begun that is none"},
                {"max_depth = 3Lx;", ":1: a number was begun that is none"},
                {"_model = 1;", ":1: a character stands here that has no meaning"},
                {"a = ( ( ( ( ( ( ( ( (", ":1: brackets are nested too deep"},
                {"true = 1;", ":1: the name of a setting was expected, not a word"},
                {"model = \"x\";\nmodel = \"y\";\n", ":2: duplicate setting name"},
                {"allowed_paths = [ \"a\", 1 ];", ":1: mismatched element type in array"},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                WRITE(f, PROJECT, cases[i][0]);
                REFUSES(f, cases[i][1], "docs/configuration.md");
                REFUSES(f, PROJECT ":", "");
        }
        WRITE(f, PROJECT, "api_key = sk-hunter2;");
        REFUSES(f, "not a word", "");
}

static void takes_all_of_the_syntax(void **state) {
        static const char text[] =
                "\xEF\xBB\xBF# comment\r\nmodel : \"a\" /* and */ \"b\"\n\t\"c\" // joined\nverbose = TRUE, max_depth "
                "= 2\n"
                "temperature = .5 token_budget = 0xFfL; max_sessions = +7; max_parallel = 8LL;\n"
                "sub_calls_budget_inheritance = 1e-1; allowed_paths = [ \"x\" \"y\", \"[,]\\\"\", ];\n"
                "plugins = ( { name = \"m\"; plugin = \"p\"; g = { }; e = (); f = [ ]; }, );";
        struct fixture *f = *state;
        struct sbx_config *config;

        WRITE(f, PROJECT, text);
        config = LOAD(f, NULL);
        assert_string_equal(sbx_config_string(config, "model"), "abc");
        assert_true(sbx_config_bool(config, "verbose"));
        assert_int_equal(sbx_config_int(config, "max_depth"), 2);
        assert_true(sbx_settings_get(sbx_config_core(config), "temperature")->real == 0.5);
        assert_int_equal(sbx_config_int(config, "token_budget"), 255);
        assert_int_equal(sbx_config_int(config, "max_sessions"), 7);
        assert_int_equal(sbx_config_int(config, "max_parallel"), 8);
        assert_string_equal(sbx_settings_get(sbx_config_core(config), "allowed_paths")->strings[0], "xy");
        assert_string_equal(sbx_settings_get(sbx_config_core(config), "allowed_paths")->strings[1], "[,]\"");
        assert_non_null(sbx_config_plugin_find(config, "m"));
        sbx_config_free(config);
}

static void refuses_broken_files(void **state) {
        struct fixture *f = *state;
        struct sbx_buffer text = SBX_BUFFER(4u << 20);

        fixture_write(f, PROJECT, "model = \"x\";\n\0", 14);
        REFUSES(f, PROJECT ":2: has a NUL byte in it", "");
        WRITE(f, PROJECT, "model = \"x\";\n# caf\xE9\n");
        REFUSES(f, PROJECT ":2: is not UTF-8 text", "UTF-8");
        for (unsigned i = 0; i < (1u << 20) / 8 + 1; i++)
                assert_int_equal(sbx_buffer_append_text(&text, "# long \n"), 0);
        fixture_write(f, PROJECT, text.data, text.size);
        fixture_refuses(f, &(struct load){0}, -EFBIG, "is larger than 1048576 bytes", "");
        sbx_buffer_free(&text);
}

static void does_not_include_other_files(void **state) {
        static const char *const refused[] = {"@include \"other.cfg\"\n",      "  \t@include \"/etc/passwd\"\n",
                                              "model = \"x\";\n@include\"x\"", "verbose = true; @include \"x\"",
                                              "# c\n@include \"x\"",           "/* c\n*/\n@include \"x\""};
        static const char *const taken[] = {"# @include \"other.cfg\"\n", "// @include \"x\"\n",
                                            "/*\n@include \"x\"\n*/", "model = \"\n@include \\\"x\\\"\n\";",
                                            "model = \"\\\\\"; # \"\n"};
        struct fixture *f = *state;

        WRITE(f, "project/other.cfg", "max_depth = 1;");
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                WRITE(f, PROJECT, refused[i]);
                REFUSES(f, "@include is not supported", "conf.d");
        }
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
                WRITE(f, PROJECT, taken[i]);
                sbx_config_free(LOAD(f, NULL));
        }
}

static void refuses_files_that_others_wrote(void **state) {
        struct fixture *f = *state;
        char path[256];

        WRITE(f, PROJECT, "max_depth = 2;");
        snprintf(path, sizeof(path), "%s/" PROJECT, f->root);
        assert_int_equal(chmod(path, 0666), 0);
        fixture_refuses(f, &(struct load){0}, -EPERM, "snipara-sandbox.cfg can be written by everybody", "chmod o-w");
        fixture_refuses(f, &(struct load){.config_path = path}, -EPERM, "can be written by everybody", "chmod o-w");
        assert_int_equal(chmod(path, 0660), 0);
        sbx_config_free(LOAD(f, NULL));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0755), 0);
        fixture_refuses(f, &(struct load){0}, -EINVAL, "snipara-sandbox.cfg is not a regular file", "regular");
        assert_int_equal(rmdir(path), 0);
        WRITE(f, PROJECT, "max_depth = 2;");
        if (geteuid() != 0) {
                assert_int_equal(chmod(path, 0), 0);
                fixture_refuses(f, &(struct load){0}, -EACCES, "can't read", "readable");
                print_message("# not root: a file of another user could not be made\n");
                return;
        }
        assert_int_equal(chown(path, 12345, 12345), 0);
        fixture_refuses(f, &(struct load){0}, -EPERM, "belongs to user 12345", "--config");
        sbx_config_free(fixture_load_or_fail(f, &(struct load){.config_path = path}));
        assert_int_equal(chown(f->project, 12345, 12345), 0); /* the whole project is that user's */
        sbx_config_free(LOAD(f, NULL));
}

/* Files with bytes changed, dropped and doubled are taken or refused, and nothing worse. */
static void stands_broken_text(void **state) {
        static const char seed_text[] =
                "# c\nmodel = \"x\\\"y\"; max_depth = 3; temperature = 0.5; /* c */ verbose = true;\n"
                "allowed_paths = [ \"/a\", \"/b\" ]; max_sessions = 0x10; token_budget = 3000000000;\n"
                "plugins = ( { name = \"local\"; pool = 4L; http = { a = \"b\"; }; }, { name = \"m\"; "
                "plugin = \"transport-m\"; } );\n";
        struct fixture *f = *state;
        uint32_t random = 4711;
        unsigned taken = 0;

        for (unsigned round = 0; round < 20000; round++) {
                char text[2 * sizeof(seed_text)];
                size_t size = sizeof(seed_text) - 1;
                struct sbx_config config = {0};
                struct sbx_error err = {0};

                memcpy(text, seed_text, size);
                for (unsigned change = 0; change < 1 + round % 3; change++) {
                        size_t at;

                        random = random * 1664525u + 1013904223u;
                        at = (random >> 8) % size;
                        if (random % 3 == 0)
                                text[at] = (char)(random >> 24);
                        else if (random % 3 == 1)
                                memmove(text + at, text + at + 1, --size - at);
                        else
                                memmove(text + at + 1, text + at, size++ - at);
                }
                if (sbx_config_merge(&config, "broken", f->root, (struct sbx_bytes){text, size}, &err) == 0)
                        taken++;
                else
                        assert_true(err.code < 0 && err.message[0] != '\0');
                sbx_raws_free(&config.core);
                sbx_entries_free(&config);
        }
        assert_in_range(taken, 100, 19900);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(refuses_unknown_settings),
                TEST(refuses_wrong_types),
                TEST(refuses_values_out_of_range),
                TEST(takes_values_at_their_limits),
                TEST(refuses_to_run_without_a_jail),
                TEST(never_shows_a_secret),
                TEST(refuses_broken_syntax),
                TEST(takes_all_of_the_syntax),
                TEST(refuses_broken_files),
                TEST(does_not_include_other_files),
                TEST(refuses_files_that_others_wrote),
                TEST(stands_broken_text),
        };

        return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
