/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that need no database: globs, ignore lists, sections, queries, paths, UTF-8, and what each does without
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../../tests/unit/alloc_fail.h"

#include "glob.h"
#include "ignore.h"
#include "match.h"
#include "sections.h"
#include "tree.h"
#include "utf8.h"
#include "walk.h"

#define BYTES(literal) ((struct sbx_bytes){(literal), sizeof(literal) - 1})

/* ---- globs and ignore lists (tests/test_ignore_git.py compares them with git) ---- */

static bool globs(const char *pattern, bool pathname, const char *text) {
        struct glob *glob = NULL;
        bool found;

        assert_int_equal(glob_compile(pattern, strlen(pattern), pathname, &glob), 0);
        found = glob_match(glob, text, strlen(text));
        glob_free(glob);
        return found;
}

static void globs_match(void **state) {
        assert_true(globs("a*c", true, "abbc"));
        assert_false(globs("a*c", true, "a/c"));
        assert_true(globs("a*c", false, "a/c"));
        assert_true(globs("**/c", true, "c"));
        assert_true(globs("**/c", true, "a/b/c"));
        assert_false(globs("**/c", true, "a/bc"));
        assert_true(globs("a/**/c", true, "a/c"));
        assert_true(globs("[!a-c]x", true, "dx"));
        assert_false(globs("[!a-c]x", true, "/x"));
        assert_false(globs("[a", true, "a"));
        assert_true(globs("", true, ""));
}

/* A matcher that backtracks would not come back from these. */
static void globs_take_bounded_time(void **state) {
        char pattern[4097], text[4096];

        for (size_t i = 0; i + 1 < sizeof(pattern); i++)
                pattern[i] = i % 2 == 0 ? '*' : 'a';
        pattern[sizeof(pattern) - 1] = '\0';
        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 2] = 'b';
        text[sizeof(text) - 1] = '\0';
        assert_false(globs(pattern, true, text));
        for (size_t i = 0; i + 1 < sizeof(pattern); i++)
                pattern[i] = "**/"[i % 3];
        assert_true(globs(pattern, true, text));
        pattern[sizeof(pattern) - 2] = 'c';
        assert_false(globs(pattern, true, text));
        memset(pattern, '[', sizeof(pattern) - 1);
        assert_false(globs(pattern, true, text));
}

static void deeper_bases(void **state) {
        struct ignore_list *list = NULL;

        assert_int_equal(ignore_parse(BYTES("/x\ny/\n*.o\n!keep.o\nsub/z\n"), "a/b", &list), 0);
        assert_int_equal(ignore_check(list, "a/b/x", false), IGNORE_YES);
        assert_int_equal(ignore_check(list, "a/b/c/x", false), IGNORE_UNDECIDED);
        assert_int_equal(ignore_check(list, "a/b/c/y", false), IGNORE_UNDECIDED);
        assert_int_equal(ignore_check(list, "a/b/c/y", true), IGNORE_YES);
        assert_int_equal(ignore_check(list, "a/b/c/k.o", false), IGNORE_YES);
        assert_int_equal(ignore_check(list, "a/b/keep.o", false), IGNORE_NO);
        assert_int_equal(ignore_check(list, "a/b/sub/z", false), IGNORE_YES);
        assert_int_equal(ignore_check(list, "a/bc/x", false), IGNORE_UNDECIDED);
        ignore_free(list);
        ignore_free(NULL);
}

/* ---- sections ---- */

struct collected {
        size_t count, bytes, last_line, longest;
        char titles[1024], lines[1024];
};

static int collect(void *data, const struct section *section) {
        struct collected *all = data;
        size_t titles = strlen(all->titles), lines = strlen(all->lines);

        snprintf(all->titles + titles, sizeof(all->titles) - titles, "%.*s|", (int)section->title.size,
                 (const char *)section->title.data);
        snprintf(all->lines + lines, sizeof(all->lines) - lines, "%zu-%zu|", section->start_line, section->end_line);
        assert_true(section->start_line >= all->last_line && section->end_line >= section->start_line);
        assert_true(section->title.size <= SECTION_TITLE_MAX);
        assert_true(utf8_is_text(section->text.data, section->text.size, false));
        all->last_line = section->end_line;
        all->bytes += section->text.size;
        all->count++;
        if (section->text.size > all->longest)
                all->longest = section->text.size;
        return 0;
}

static size_t split(struct sbx_bytes text, bool markdown, struct collected *ret) {
        size_t lines = 0;

        *ret = (struct collected){0};
        assert_int_equal(sections_split(text, markdown, collect, ret, &lines), 0);
        assert_true(ret->bytes <= text.size && ret->longest <= SECTION_BYTES_MAX);
        return lines;
}

static void headings(void **state) {
        struct collected all;

        assert_int_equal(
                split(BYTES("# A\ntext\n## B ##\n```\n# no\n```\nC\n===\nx\n# C#\n#no\n####### no\n    # no\n"), true,
                      &all),
                13);
        assert_string_equal(all.titles, "A|B|C|C#|");
        assert_string_equal(all.lines, "1-2|3-6|7-9|10-13|");
        split(BYTES("---\na: b\n---\n\nIntro\n\n---\n\nmore\n"), true, &all);
        assert_string_equal(all.lines, "1-9|");
        split(BYTES("````\n```\n# no\n````\n# yes\n~~~\n# open to the end\n"), true, &all);
        assert_string_equal(all.lines, "1-4|5-7|");
        assert_int_equal(split(BYTES("# A"), true, &all), 1);
        assert_string_equal(all.titles, "A|");
        assert_int_equal(split(BYTES(""), true, &all), 0);
        assert_int_equal(split(BYTES("\n\r\n \t\n"), false, &all), 3);
        assert_int_equal(all.count, 0);
        split(BYTES("==\n"), true, &all);
        split(BYTES("a\n\n==\n"), true, &all);
        assert_string_equal(all.lines, "1-3|");
}

static void blocks(void **state) {
        char text[20000];
        struct collected all;
        size_t size = 0;

        for (unsigned i = 0; i < 30; i++) /* 30 functions of 8 lines */
                size += (size_t)snprintf(
                        text + size, sizeof(text) - size,
                        "int f%u(void) {\n        a();\n\n        b();\n        c();\n        d();\n}\n\n", i);
        assert_int_equal(split((struct sbx_bytes){text, size}, false, &all), 240);
        assert_int_equal(all.bytes, size);
        assert_non_null(strstr(all.titles, "int f0(void) {|int f3(void) {|"));
        memset(text, 'x', sizeof(text)); /* one line, and characters of two bytes at every cut */
        assert_int_equal(split((struct sbx_bytes){text, sizeof(text)}, false, &all), 1);
        assert_int_equal(all.bytes, sizeof(text));
        for (size_t i = 0; i + 1 < sizeof(text); i += 2)
                memcpy(text + i, "\xC3\xA9", 2);
        text[0] = text[1] = 'a';
        memmove(text + 1, text + 2, sizeof(text) - 2);
        assert_int_equal(split((struct sbx_bytes){text, sizeof(text) - 1}, true, &all), 1);
        memset(text, '\n', sizeof(text));
        memset(text, 'x', 10);
        split((struct sbx_bytes){text, sizeof(text)}, false, &all);
        assert_int_equal(all.count, 1);
}

static void random_texts_are_covered(void **state) {
        static const char *const pieces[] = {"# T\n",
                                             "text\n",
                                             "\n",
                                             "```\n",
                                             "~~~~\n",
                                             "===\n",
                                             "---\n",
                                             "  - x\n",
                                             "#",
                                             "\r\n",
                                             "\xC3\xA9",
                                             "}\n",
                                             "long long long long long long long long long long ",
                                             "\t"};
        unsigned seed = 7;

        for (unsigned round = 0; round < 2000; round++) {
                char text[4096];
                struct collected all;
                size_t size = 0, count = round % 97;

                for (size_t i = 0; i < count; i++) {
                        const char *piece = pieces[(seed = seed * 1103515245 + 12345) / 65536 %
                                                   (sizeof(pieces) / sizeof(pieces[0]))];

                        memcpy(text + size, piece, strlen(piece));
                        size += strlen(piece);
                }
                split((struct sbx_bytes){text, size}, round % 2 == 0, &all);
        }
}

/* ---- queries ---- */

static void assert_query(const char *text, const char *expected) {
        struct match_word words[MATCH_WORDS_MAX];
        size_t count = match_words((struct sbx_bytes){text, strlen(text)}, words);
        char *query = match_query(words, count);

        assert_non_null(query);
        assert_string_equal(query, expected);
        free(query);
}

static void queries_are_quoted(void **state) {
        assert_query("How do I open the Session?", "\"open\" OR \"Session\"");
        assert_query("the", "\"the\"");
        assert_query("a\" OR b*", "\"b\"");
        assert_query("x AND y NOT NEAR(z)", "\"x\" OR \"y\" OR \"NOT\" OR \"NEAR\" OR \"z\"");
        assert_query("same Same SAME", "\"same\"");
        assert_query("foo_bar", "\"foo_bar\" OR \"foo\" OR \"bar\"");
        assert_query("__init__ x__y", "\"init\" OR \"x__y\" OR \"x\" OR \"y\"");
        assert_query("caf\xC3\xA9", "\"caf\xC3\xA9\"");
        assert_query("_ \"' ; --", "");
        assert_query("", "");
}

static void queries_are_bounded(void **state) {
        struct match_word words[MATCH_WORDS_MAX];
        char text[8000];
        char *query;
        size_t size = 0, count;

        for (unsigned i = 0; i < 400; i++) /* each with as many parts as can be */
                size += (size_t)snprintf(text + size, sizeof(text) - size, "a_b_c_d_e_f_%u ", i);
        count = match_words((struct sbx_bytes){text, size}, words);
        assert_int_equal(count, MATCH_WORDS_MAX);
        query = match_query(words, count);
        assert_non_null(query);
        free(query);
        memset(text, 'x', sizeof(text));
        assert_int_equal(match_words((struct sbx_bytes){text, sizeof(text)}, words), 0);
}

/* ---- UTF-8 and paths ---- */

static void texts_are_repaired(void **state) {
        static const char *const bad[] = {"\xFF", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "a\x80z"};
        char *text;
        size_t size;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_false(utf8_is_text(bad[i], strlen(bad[i]), false));
                text = utf8_repair(bad[i], strlen(bad[i]), &size);
                assert_non_null(text);
                assert_true(utf8_is_text(text, size, false));
                free(text);
        }
        assert_false(utf8_is_text("a\0b", 3, false));
        assert_true(utf8_is_text("caf\xC3", 4, true));
        assert_false(utf8_is_text("caf\xC3", 4, false));
        assert_false(utf8_is_text("caf\xC3(", 5, true));
        assert_int_equal(utf8_cut("caf\xC3\xA9!", 6, 4), 3);
        assert_int_equal(utf8_cut("abc", 3, 9), 3);
}

static void paths_are_checked(void **state) {
        static const char *const good[] = {"a", "a/b.c", "...", ".a/..b", "a b/\xC3\xA9"};
        static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "\xFF"};
        char deep[2 * TREE_DEPTH_MAX + 2];

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_true(tree_path_valid(good[i], strlen(good[i])));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(tree_path_valid(bad[i], strlen(bad[i])));
        assert_false(tree_path_valid("a\0b", 3));
        for (size_t i = 0; i < sizeof(deep); i++)
                deep[i] = i % 2 == 0 ? 'a' : '/';
        assert_true(tree_path_valid(deep, 2 * TREE_DEPTH_MAX - 1));
        assert_false(tree_path_valid(deep, 2 * TREE_DEPTH_MAX + 1));
}

/* ---- the walk ---- */

static struct {
        char path[64];
        int fd;
} project;

static int make_project(void **state) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd, server;

        strcpy(project.path, "/tmp/context-files-XXXXXX");
        if (mkdtemp(project.path) == NULL)
                return -1;
        project.fd = open(project.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        mkdirat(project.fd, "d", 0700);
        mkdirat(project.fd, "d/e", 0700);
        for (const char *const *name = (const char *const[]){"a.txt", "d/b.txt", "d/e/c.txt", "d/x.log", ".env", NULL};
             *name != NULL; name++) {
                fd = openat(project.fd, *name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                if (fd < 0 || write(fd, "x", 1) != 1)
                        return -1;
                close(fd);
        }
        fd = openat(project.fd, "d/.gitignore", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, "*.log\n", 6) != 6)
                return -1;
        close(fd);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", project.path);
        server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(server, (struct sockaddr *)&address, sizeof(address)) < 0)
                return -1;
        close(server);
        return mkfifoat(project.fd, "fifo", 0600) < 0 || symlinkat(".", project.fd, "d/loop") < 0 ||
                               symlinkat("/etc/passwd", project.fd, "link") < 0
                       ? -1
                       : 0;
}

static int remove_project(void **state) {
        static const char *const names[] = {"d/e/c.txt", "d/loop", "d/.gitignore", "d/x.log", "d/b.txt",
                                            "a.txt",     ".env",   "fifo",         "socket",  "link"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unlinkat(project.fd, names[i], 0);
        unlinkat(project.fd, "d/e", AT_REMOVEDIR);
        unlinkat(project.fd, "d", AT_REMOVEDIR);
        close(project.fd);
        return rmdir(project.path);
}

struct seen {
        size_t count, stop_after;
        unsigned found; /* bits of the names that are expected */
};

static int on_file(void *data, int directory_fd, const char *name, const char *path, const struct stat *st) {
        static const char *const expected[] = {"a.txt", "d/b.txt", "d/e/c.txt", "d/.gitignore"};
        struct seen *seen = data;
        struct stat again;
        int fd;

        assert_int_equal(tree_open_file(directory_fd, name, &fd, &again), 0);
        close(fd);
        assert_true(again.st_ino == st->st_ino);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                if (strcmp(path, expected[i]) == 0)
                        seen->found |= 1u << i;
        seen->count++;
        return 0;
}

static int on_stop(void *data) {
        const struct seen *seen = data;

        return seen->count >= seen->stop_after ? -ECANCELED : 0;
}

static int walk_with(struct seen *seen, size_t entries_max, struct walk_result *ret_result) {
        struct walk_limits limits = {entries_max};
        struct walk_events events = {.data = seen, .file = on_file, .stop = on_stop};
        struct rules *rules = NULL;
        int r = rules_new(project.path, NULL, 0, &rules);

        if (r == 0)
                r = walk(project.fd, rules, &limits, &events, ret_result);
        rules_free(rules);
        return r;
}

static void the_walk_finds_files_alone(void **state) {
        struct seen seen = {.stop_after = 100};
        struct walk_result result;

        assert_int_equal(walk_with(&seen, 100, &result), 0);
        assert_int_equal(seen.count, 4);
        assert_int_equal(seen.found, 15);
        assert_int_equal(result.excluded, 2);
        assert_false(result.cut);
}

static void the_walk_ends_when_told(void **state) {
        struct seen seen = {.stop_after = 1};
        struct walk_result result;

        assert_int_equal(walk_with(&seen, 100, &result), -ECANCELED);
        assert_int_equal(seen.count, 1);
        seen = (struct seen){.stop_after = 100};
        assert_int_equal(walk_with(&seen, 3, &result), 0);
        assert_true(result.cut);
        assert_true(seen.count <= 3);
}

static void what_is_no_file_is_not_opened(void **state) {
        static const char *const names[] = {"fifo", "socket", "d", "link", "none"};
        static const int answers[] = {-EINVAL, -EINVAL, -EINVAL, -EINVAL, -ENOENT};
        struct stat st;
        int fd = -7;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                assert_int_equal(tree_open_file(project.fd, names[i], &fd, &st), answers[i]);
        assert_int_equal(tree_open_directory(project.fd, "d/loop", &fd, &st), -ENOTDIR);
        assert_int_equal(tree_open_directory(project.fd, "fifo", &fd, &st), -ENOTDIR);
        assert_int_equal(fd, -7);
}

/* ---- without memory ---- */

static int walk_body(void *data) {
        struct seen seen = {.stop_after = 100};
        struct walk_result result;
        static const char *const exclude[] = {"*.bak", "!x"};
        struct walk_limits limits = {100};
        struct walk_events events = {.data = &seen, .file = on_file, .stop = on_stop};
        struct rules *rules = NULL;
        int r = rules_new(project.path, exclude, 2, &rules);

        if (r == 0)
                r = walk(project.fd, rules, &limits, &events, &result);
        rules_free(rules);
        return r;
}

static int parts_body(void *data) {
        struct match_word words[MATCH_WORDS_MAX];
        struct ignore_list *list = NULL;
        char *query, *text;
        size_t size;
        int r = ignore_parse(BYTES("a\n*.b\n[a-c]/**/x\n!y\n"), "base", &list);

        ignore_free(list);
        if (r < 0)
                return r;
        query = match_query(words, match_words(BYTES("some words"), words));
        text = utf8_repair("\xFF", 1, &size);
        r = query == NULL || text == NULL ? -ENOMEM : 0;
        free(query);
        free(text);
        return r;
}

static void failing_allocations(void **state) {
        assert_true(alloc_fail_sweep(parts_body, NULL) > 10);
        assert_true(alloc_fail_sweep(walk_body, NULL) > 10);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(globs_match),
                cmocka_unit_test(globs_take_bounded_time),
                cmocka_unit_test(deeper_bases),
                cmocka_unit_test(headings),
                cmocka_unit_test(blocks),
                cmocka_unit_test(random_texts_are_covered),
                cmocka_unit_test(queries_are_quoted),
                cmocka_unit_test(queries_are_bounded),
                cmocka_unit_test(texts_are_repaired),
                cmocka_unit_test(paths_are_checked),
                cmocka_unit_test(the_walk_finds_files_alone),
                cmocka_unit_test(the_walk_ends_when_told),
                cmocka_unit_test(what_is_no_file_is_not_opened),
                cmocka_unit_test(failing_allocations),
        };

        return cmocka_run_group_tests(tests, make_project, remove_project);
}
