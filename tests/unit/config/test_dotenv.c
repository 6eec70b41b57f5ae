/* SPDX-License-Identifier: Apache-2.0 */
/* The project's .env: its grammar, where it is looked for, and that bad ones are reported and passed over. */
#include "fixture.h"

static const char *value_of(const struct sbx_variables *variables, const char *name) {
        for (size_t i = 0; i < variables->count; i++)
                if (strcmp(variables->items[i].name, name) == 0)
                        return variables->items[i].value;
        return NULL;
}

static void reads_what_people_write(void **state) {
        static const char text[] = "\xEF\xBB\xBF# comment\n"
                                   "A=1\n"
                                   "  export B = two words  # comment\r\n"
                                   "C='single $HOME # \\n'\n"
                                   "D=\"double \\\"q\\\" \\\\ \\n \\$x \\q # not\" # comment\n"
                                   "E=\n"
                                   "F=a#b\n"
                                   "G= # nothing\n"
                                   "H=\"two\nlines\"\n"
                                   "export\tI=tab\n"
                                   "exporter=yes\n"
                                   "_x1=under\n"
                                   "A=again\n"
                                   "URL=https://x/?a=b&c=d#frag\n"
                                   "LAST=end";
        static const char *const expected[][2] = {
                {"A", "again"},
                {"B", "two words"},
                {"C", "single $HOME # \\n"},
                {"D", "double \"q\" \\ \n $x \\q # not"},
                {"E", ""},
                {"F", "a#b"},
                {"G", ""},
                {"H", "two\nlines"},
                {"I", "tab"},
                {"exporter", "yes"},
                {"_x1", "under"},
                {"URL", "https://x/?a=b&c=d#frag"},
                {"LAST", "end"},
        };
        struct fixture *f = *state;
        struct sbx_variables variables = {0};

        assert_int_equal(sbx_dotenv_parse(".env", text, &f->logger, &variables), 0);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
                assert_non_null(value_of(&variables, expected[i][0]));
                assert_string_equal(value_of(&variables, expected[i][0]), expected[i][1]);
        }
        assert_int_equal(variables.count, sizeof(expected) / sizeof(expected[0]));
        assert_int_equal(f->log.size, 0);
        assert_string_equal(sbx_variables_find(&variables, "LAST")->origin, ".env:16 LAST");
        assert_null(sbx_variables_find(&variables, "E")); /* empty counts as unset */
        sbx_variables_free(&variables);
}

static void passes_over_what_it_does_not_know(void **state) {
        struct fixture *f = *state;
        struct sbx_variables variables = {0};

        assert_int_equal(sbx_dotenv_parse(".env",
                                          "just words hunter2\n=x\n1A=x\nA-B=x\nOK=1\nB=\"x\" y\nC='open\nD=2\n",
                                          &f->logger, &variables),
                         0);
        assert_string_equal(value_of(&variables, "OK"), "1");
        assert_string_equal(value_of(&variables, "D"), "2");
        assert_int_equal(variables.count, 2);
        assert_contains(f->log.data, "2 .env:1: not a line of the form NAME=VALUE");
        assert_contains(f->log.data, ".env:6: ");
        assert_contains(f->log.data, ".env:7: ");
        assert_null(strstr(f->log.data, "hunter2")); /* a line may hold a secret */
        sbx_variables_free(&variables);
}

static void is_looked_for_up_to_the_project_root(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;

        WRITE(f, ".env", "RLM_MAX_DEPTH=1\nRLM_LOG_DIR=here\n");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 1);
        assert_contains(sbx_config_string(config, "log_dir"), f->root);
        assert_null(strstr(sbx_config_string(config, "log_dir"), "project"));
        sbx_config_free(config);
        assert_null(getenv("RLM_MAX_DEPTH"));

        WRITE(f, "project/.git/HEAD", "x");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 4);
        sbx_config_free(config);

        WRITE(f, "project/.env", "RLM_MAX_DEPTH=2\n");
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 2);
        sbx_config_free(config);
}

static void is_passed_over_when_it_can_not_be_trusted(void **state) {
        struct fixture *f = *state;
        struct sbx_config *config;
        char path[256];

        WRITE(f, ".env", "RLM_MAX_DEPTH=1\n");
        WRITE(f, "project/.env", "RLM_MAX_DEPTH=2\n");
        snprintf(path, sizeof(path), "%s/project/.env", f->root);
        assert_int_equal(chmod(path, 0666), 0);
        config = LOAD(f, NULL);
        assert_int_equal(sbx_config_int(config, "max_depth"), 4); /* nor the next one up */
        sbx_config_free(config);
        assert_contains(f->log.data, "project/.env can be written by everybody");
        assert_contains(f->log.data, "the file is passed over");
        sbx_buffer_clear(&f->log);
        assert_int_equal(chmod(path, 0644), 0);
        fixture_write(f, "project/.env", "A=\0b", 4);
        sbx_config_free(LOAD(f, NULL));
        assert_contains(f->log.data, "has a NUL byte");
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(reads_what_people_write),
                TEST(passes_over_what_it_does_not_know),
                TEST(is_looked_for_up_to_the_project_root),
                TEST(is_passed_over_when_it_can_not_be_trusted),
        };

        return cmocka_run_group_tests_name("dotenv", tests, NULL, NULL);
}
