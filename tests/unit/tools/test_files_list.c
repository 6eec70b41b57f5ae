/* SPDX-License-Identifier: Apache-2.0 */
/* file_list: results, patterns, limits. */
#include "files_bench.h"

#include <sys/stat.h>
#include <unistd.h>

static void make_tree(struct bench *bench) {
        static const char *const directories[] = {"root/src", "root/src/deep", "root/src/deep/er", "root/empty",
                                                  "root/.git"};
        static const char *const files[] = {"root/b.py",        "root/a.md",          "root/.hidden",
                                            "root/src/x.py",    "root/src/deep/y.py", "root/src/deep/er/z.py",
                                            "root/.git/HEAD.py"};

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
                make_directory(bench, directories[i]);
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                put_text(bench, files[i], "12345");
}

/* Names of the files, in order, with spaces between them. */
static const char *listed(struct bench *bench, const char *path, const char *pattern, bool recursive) {
        static char text[512];
        json_t *file;
        size_t index, skip = strlen(bench->directory) + strlen("/root/");

        assert_true(call(bench, "file_list",
                         json_pack("{s:s, s:s, s:b}", "path", at(bench, path), "pattern", pattern, "recursive",
                                   (int)recursive)));
        text[0] = '\0';
        json_array_foreach (json_object_get(bench->report, "files"), index, file) {
                size_t size = strlen(text);
                const char *whole = json_string_value(json_object_get(file, "path")), *slash = strrchr(whole, '/');

                assert_string_equal(slash + 1, json_string_value(json_object_get(file, "name")));
                snprintf(text + size, sizeof(text) - size, "%s%s", size > 0 ? " " : "", whole + skip);
        }
        return text;
}

static void test_list(void **state) {
        struct bench *bench = *state;
        const json_t *file;

        make_tree(bench);
        assert_string_equal(listed(bench, "root", "*", false), ".git .hidden a.md b.py empty src");
        assert_string_equal(text_of(bench, "directory"), at(bench, "root"));
        assert_false(is_true(bench, "truncated"));
        assert_int_equal(number_of(bench, "count"), 6);
        file = json_array_get(json_object_get(bench->report, "files"), 2);
        assert_int_equal(json_integer_value(json_object_get(file, "size")), 5);
        assert_true(json_is_false(json_object_get(file, "is_dir")));
        file = json_array_get(json_object_get(bench->report, "files"), 5);
        assert_true(json_is_null(json_object_get(file, "size")));
        assert_true(json_is_true(json_object_get(file, "is_dir")));
        assert_string_equal(listed(bench, "root", "*.py", false), "b.py");
        assert_string_equal(listed(bench, "root", "*.py", true), "b.py src/deep/er/z.py src/deep/y.py src/x.py");
        assert_string_equal(listed(bench, "root", "src/*.py", false), "src/x.py");
        assert_string_equal(listed(bench, "root", "./src//*.py", false), "src/x.py");
        assert_string_equal(listed(bench, "root", "**/z.py", false), "src/deep/er/z.py");
        assert_string_equal(listed(bench, "root", "src/**/*.py", false), "src/deep/er/z.py src/deep/y.py src/x.py");
        assert_string_equal(listed(bench, "root", "**", false), ".git empty src src/deep src/deep/er");
        assert_string_equal(listed(bench, "root", "deep/*", true), "src/deep/er src/deep/y.py");
        assert_string_equal(listed(bench, "root/src", "?.py", false), "src/x.py");
        assert_string_equal(listed(bench, "root", "none*", true), "");
        assert_string_equal(listed(bench, "root/empty", "*", true), "");
        assert_true(call(bench, "file_list", json_pack("{s:s, s:i}", "path", at(bench, "root"), "max_results", 2)));
        assert_int_equal(number_of(bench, "count"), 2);
        assert_true(is_true(bench, "truncated"));
}

static void test_list_failures(void **state) {
        static const char *const bad[] = {"../*", "/etc/*", "a/../../*", "**/..", "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q"};
        struct bench *bench = *state;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_false(call(bench, "file_list",
                                  json_pack("{s:s, s:s}", "path", at(bench, "root"), "pattern", bad[i])));
                assert_contains(text_of(bench, "error"), "pattern");
        }
        put_text(bench, "root/f", "x");
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", at(bench, "root/f"))));
        assert_contains(text_of(bench, "error"), "Not a directory");
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", at(bench, "root/none"))));
        assert_false(call(bench, "file_list", json_pack("{}"))); /* the project, which is not allowed here */
        assert_contains(text_of(bench, "error"), "Access denied");
}

static void test_list_limits(void **state) {
        struct bench *bench = *state;
        char path[400] = "root";
        const char *text;

        /* Loops of links, and deeper than we go. */
        make_link(bench, ".", "root/self");
        for (unsigned i = 0; i < 40; i++) {
                snprintf(path + strlen(path), sizeof(path) - strlen(path), "/d");
                make_directory(bench, path);
        }
        assert_true(call(bench, "file_list",
                         json_pack("{s:s, s:b, s:i}", "path", at(bench, "root"), "recursive", 1, "max_results", 1000)));
        assert_true(is_true(bench, "truncated"));
        assert_int_equal(number_of(bench, "count"), 34); /* `self`, and 33 levels */
        /* A list that does not fit is shorter, and whole. */
        make_directory(bench, "root/many");
        for (unsigned i = 0; i < 600; i++) {
                snprintf(path, sizeof(path), "root/many/%0100u", i);
                put_text(bench, path, "");
        }
        assert_true(call(bench, "file_list",
                         json_pack("{s:s, s:i}", "path", at(bench, "root/many"), "max_results", 10000)));
        assert_true(is_true(bench, "truncated"));
        assert_true(number_of(bench, "count") > 50 && number_of(bench, "count") < 600);
        text = json_string_value(json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
        assert_null(strstr(text, "[cut:"));
        bench->caller = SBX_CALLER_CODE;
        assert_true(call(bench, "file_list",
                         json_pack("{s:s, s:i}", "path", at(bench, "root/many"), "max_results", 10000)));
        assert_int_equal(number_of(bench, "count"), 600);
}

static bool matches(const char *pattern, const char *name) {
        return sbx_files_match(pattern, strlen(pattern), name);
}

static void test_patterns(void **state) {
        static const struct {
                const char *pattern, *name;
                bool matches;
        } cases[] = {
                {"*", "", true},
                {"*", "abc", true},
                {"", "", true},
                {"", "a", false},
                {"a*c", "abc", true},
                {"a*c", "abcd", false},
                {"a*c*e", "abcde", true},
                {"*.py", ".py", true},
                {"?", "\xe2\x82\xac", true},
                {"??", "\xe2\x82\xac", false},
                {"[a-c]x", "bx", true},
                {"[a-c]x", "dx", false},
                {"[!a-c]x", "dx", true},
                {"[!a-c]x", "ax", false},
                {"[]]", "]", true},
                {"[", "[", true},
                {"[a", "[a", true},
                {"a[", "a", false},
                {"[\xe2\x82\xac]", "\xe2\x82\xac", true},
                {"[a-]", "-", true},
                {"**a", "bca", true},
                {"a?", "a", false},
                {"\\*", "\\x", true},
                {"\xff*",
                 "\xff"
                 "a",
                 true},
                {"?", "\x80", true},
                {"[!", "[!", true},
                {"[]", "[]", true},
                {"*[b]", "ab", true},
        };
        char hard[256], name[256];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (matches(cases[i].pattern, cases[i].name) != cases[i].matches)
                        fail_msg("%s against %s", cases[i].pattern, cases[i].name);
        /* It would never end if each star tried every place for all that follow. */
        for (unsigned i = 0; i < sizeof(hard) - 1; i += 2)
                memcpy(hard + i, "*a", 2);
        hard[253] = 'b';
        hard[254] = '\0';
        memset(name, 'a', sizeof(name) - 1);
        name[255] = '\0';
        assert_false(matches(hard, name));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_list, setup, teardown),
                cmocka_unit_test_setup_teardown(test_list_failures, setup, teardown),
                cmocka_unit_test_setup_teardown(test_list_limits, setup, teardown),
                cmocka_unit_test(test_patterns),
        };

        return cmocka_run_group_tests_name("files_list", tests, NULL, NULL);
}
