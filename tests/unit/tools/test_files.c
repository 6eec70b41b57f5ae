/* SPDX-License-Identifier: Apache-2.0 */
/* file_read and file_list: results, limits, and every way out of the allowed directory that we know of. */
#include "sessions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/files.h"
#include "tools/tools.h"

#define MIB ((size_t)1 << 20)

struct bench {
        char directory[64]; /* root/ is allowed, the rest is not */
        struct table table;
        struct sbx_tools *tools;
        json_t *result; /* of the last call */
        json_t *report; /* what it says */
        enum sbx_tool_caller caller;
};

static const char *at(const struct bench *bench, const char *path) {
        static char text[4][512];
        static unsigned next;

        next = (next + 1) % 4;
        snprintf(text[next], sizeof(text[next]), "%s/%s", bench->directory, path);
        return text[next];
}

static void put(const struct bench *bench, const char *path, const void *data, size_t size) {
        int fd = open(at(bench, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, data, size), size);
        close(fd);
}

static void put_text(const struct bench *bench, const char *path, const char *text) {
        put(bench, path, text, strlen(text));
}

static void make_directory(const struct bench *bench, const char *path) {
        assert_int_equal(mkdir(at(bench, path), 0700), 0);
}

static void make_link(const struct bench *bench, const char *target, const char *path) {
        assert_int_equal(symlink(target, at(bench, path)), 0);
}

/* `more`: a second entry of allowed_paths, below the directory; NULL: none. */
static void open_tools(struct bench *bench, const char *more) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static const char *const all[] = {"*", NULL};
        char allowed[256];

        if (more != NULL)
                snprintf(allowed, sizeof(allowed), "allowed_paths=%s/root,%s/%s", bench->directory, bench->directory,
                         more);
        else
                snprintf(allowed, sizeof(allowed), "allowed_paths=%s/root", bench->directory);
        table_open(&bench->table, (const char *const[]){allowed, NULL});
        assert_int_equal(sbx_tools_new(&logger, &bench->tools, NULL), 0);
        assert_int_equal(
                sbx_tools_add_builtin(bench->tools, bench->table.sessions, bench->table.config, &bench->table.err), 0);
        for (enum sbx_tool_caller caller = SBX_CALLER_CLIENT; caller <= SBX_CALLER_CODE; caller++)
                assert_int_equal(sbx_tools_allow(bench->tools, caller, all, NULL), 0);
}

static void close_tools(struct bench *bench) {
        sbx_tools_free(bench->tools);
        table_close(&bench->table);
}

static int setup(void **state) {
        struct bench *bench = calloc(1, sizeof(*bench));

        if (bench == NULL)
                return -1;
        snprintf(bench->directory, sizeof(bench->directory), "/tmp/sbx-files-XXXXXX");
        if (mkdtemp(bench->directory) == NULL)
                return -1;
        bench->caller = SBX_CALLER_MODEL;
        make_directory(bench, "root");
        open_tools(bench, NULL);
        *state = bench;
        return 0;
}

static int teardown(void **state) {
        struct bench *bench = *state;
        char command[128];

        json_decref(bench->result);
        json_decref(bench->report);
        close_tools(bench);
        snprintf(command, sizeof(command), "rm -rf %s", bench->directory);
        if (system(command) != 0)
                return -1;
        free(bench);
        return 0;
}

/* Calls a tool; `report` is what its result says, as a program sees it. */
static bool call(struct bench *bench, const char *tool, json_t *arguments) {
        struct sbx_tool_context context = {.principal = "", .caller = bench->caller};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(64 * MIB), encoded = SBX_BUFFER(MIB);
        struct sbx_error err = {0};
        const char *text;
        json_t *structured;

        json_decref(bench->result);
        json_decref(bench->report);
        bench->result = bench->report = NULL;
        assert_int_equal(sbx_json_encode(arguments, &encoded), 0);
        json_decref(arguments);
        if (sbx_tools_call(bench->tools, tool, sbx_buffer_bytes(&encoded), &context, &out, &err) < 0)
                fail_msg("%s", err.message);
        if (sbx_json_parse(sbx_buffer_bytes(&out), 64 * MIB, "result", &bench->result, &err) < 0)
                fail_msg("%s", err.message);
        structured = json_object_get(bench->result, "structuredContent");
        text = json_string_value(json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
        if (structured != NULL)
                bench->report = json_incref(structured);
        else if (sbx_json_parse((struct sbx_bytes){text, strlen(text)}, 64 * MIB, "report", &bench->report, &err) < 0)
                fail_msg("%s: %s", err.message, text);
        return !json_is_true(json_object_get(bench->result, "isError"));
}

static const char *text_of(const struct bench *bench, const char *member) {
        const char *text = json_string_value(json_object_get(bench->report, member));

        return text != NULL ? text : "(none)";
}

static json_int_t number_of(const struct bench *bench, const char *member) {
        return json_integer_value(json_object_get(bench->report, member));
}

static bool is_true(const struct bench *bench, const char *member) {
        return json_is_true(json_object_get(bench->report, member));
}

static bool read_path(struct bench *bench, const char *path) {
        return call(bench, "file_read", json_pack("{s:s}", "path", path));
}

static void assert_refused(struct bench *bench, const char *path) {
        if (read_path(bench, path))
                fail_msg("%s was read: %s", path, text_of(bench, "content"));
        if (strstr(text_of(bench, "error"), "Access denied") == NULL)
                fail_msg("%s: %s", path, text_of(bench, "error"));
        assert_true(json_is_null(json_object_get(bench->report, "content")));
}

/* ---- reading ---- */

static void test_read(void **state) {
        struct bench *bench = *state;

        put_text(bench, "root/a.txt", "one\ntwo\nthree\nfour");
        assert_true(read_path(bench, at(bench, "root/a.txt")));
        assert_string_equal(text_of(bench, "content"), "one\ntwo\nthree\nfour");
        assert_string_equal(text_of(bench, "path"), at(bench, "root/a.txt"));
        assert_int_equal(number_of(bench, "start_line"), 1);
        assert_int_equal(number_of(bench, "end_line"), 4);
        assert_int_equal(number_of(bench, "total_lines"), 4);
        assert_false(is_true(bench, "truncated"));
        assert_null(json_object_get(bench->report, "line_cut"));
        assert_int_equal(json_object_size(bench->report), 6);
}

static void test_read_lines(void **state) {
        static const struct {
                int start, end, most; /* 0: left out */
                const char *content;
                int first, last;
                bool truncated;
        } cases[] = {
                {2, 3, 0, "2\n3\n", 2, 3, true},  {0, 0, 2, "1\n2\n", 1, 2, true},   {4, 0, 0, "4\n5\n", 4, 5, false},
                {-5, 2, 0, "1\n2\n", 1, 2, true}, {2, 100, 2, "2\n3\n", 2, 3, true}, {9, 0, 0, "", 9, 8, false},
                {4, 2, 0, "", 4, 3, true},        {5, 5, 0, "5\n", 5, 5, false},
        };
        struct bench *bench = *state;

        put_text(bench, "root/n", "1\n2\n3\n4\n5\n");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *arguments = json_pack("{s:s}", "path", at(bench, "root/n"));

                if (cases[i].start != 0)
                        json_object_set_new(arguments, "start_line", json_integer(cases[i].start));
                if (cases[i].end != 0)
                        json_object_set_new(arguments, "end_line", json_integer(cases[i].end));
                if (cases[i].most != 0)
                        json_object_set_new(arguments, "max_lines", json_integer(cases[i].most));
                assert_true(call(bench, "file_read", arguments));
                assert_string_equal(text_of(bench, "content"), cases[i].content);
                assert_int_equal(number_of(bench, "start_line"), cases[i].first);
                assert_int_equal(number_of(bench, "end_line"), cases[i].last);
                assert_int_equal(number_of(bench, "total_lines"), 5);
                assert_int_equal(is_true(bench, "truncated"), cases[i].truncated);
        }
        assert_true(call(bench, "file_read",
                         json_pack("{s:s, s:I, s:I}", "path", at(bench, "root/n"), "start_line", (json_int_t)INT64_MAX,
                                   "end_line", (json_int_t)INT64_MIN)));
}

static void test_read_bytes_of_any_kind(void **state) {
        struct bench *bench = *state;

        put(bench, "root/b",
            "a\xff"
            "b\0c\r\n\xe2\x82\xac\xe2\x82",
            12);
        assert_true(read_path(bench, at(bench, "root/b")));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 15);
        assert_memory_equal(text_of(bench, "content"),
                            "a\xef\xbf\xbd"
                            "b\0c\r\n\xe2\x82\xac\xef\xbf\xbd",
                            15);
        put(bench, "root/empty", "", 0);
        assert_true(read_path(bench, at(bench, "root/empty")));
        assert_int_equal(number_of(bench, "total_lines"), 0);
        assert_int_equal(number_of(bench, "end_line"), 0);
        assert_false(is_true(bench, "truncated"));
}

/* What a model gets is whole JSON, whatever is in the file. */
static void test_read_within_the_text(void **state) {
        static const char *const units[] = {"x", "\"", "\n", "\x01", "\xe2\x82\xac", "\xff", "aaa\n"};
        struct bench *bench = *state;

        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
                size_t size = strlen(units[i]), count = 300000 / size;
                char *data = malloc(count * size);
                const char *text;

                assert_non_null(data);
                for (size_t j = 0; j < count; j++)
                        memcpy(data + j * size, units[i], size);
                put(bench, "root/big", data, count * size);
                free(data);
                assert_true(call(bench, "file_read",
                                 json_pack("{s:s, s:i}", "path", at(bench, "root/big"), "max_lines", 1000000)));
                assert_true(is_true(bench, "truncated"));
                assert_true(json_string_length(json_object_get(bench->report, "content")) > 4000);
                text = json_string_value(
                        json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
                assert_null(strstr(text, "[cut:"));
                /* A line that does not fit whole is there in part only if it is the first one. */
                assert_int_equal(is_true(bench, "line_cut"), strchr(units[i], '\n') == NULL);
        }
        bench->caller = SBX_CALLER_CODE;
        assert_true(
                call(bench, "file_read", json_pack("{s:s, s:i}", "path", at(bench, "root/big"), "max_lines", 1000000)));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 300000);
        assert_false(is_true(bench, "truncated"));
}

/* Code takes a whole data file: 10 MB of lines in one result, and a larger one in pieces. */
static void test_read_for_code(void **state) {
        struct bench *bench = *state;
        size_t size = 24 * MIB, seen = 0;
        char *data = malloc(size);
        json_int_t line = 1;

        assert_non_null(data);
        for (size_t i = 0; i < size; i++)
                data[i] = i % 64 == 63 ? '\n' : i % 64 == 5 ? '"' : 'a';
        put(bench, "root/data.csv", data, 10 * MIB);
        bench->caller = SBX_CALLER_CODE;
        assert_true(call(bench, "file_read",
                         json_pack("{s:s, s:i}", "path", at(bench, "root/data.csv"), "max_lines", 1000000)));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 10 * MIB);
        assert_memory_equal(text_of(bench, "content"), data, 10 * MIB);
        assert_string_equal(json_string_value(json_object_get(
                                    json_array_get(json_object_get(bench->result, "content"), 0), "text")),
                            "lines 1 to 163840 of 163840");
        put(bench, "root/data.csv", data, size);
        do {
                size_t length;

                assert_true(call(bench, "file_read",
                                 json_pack("{s:s, s:i, s:I}", "path", at(bench, "root/data.csv"), "max_lines", 1000000,
                                           "start_line", line)));
                length = json_string_length(json_object_get(bench->report, "content"));
                assert_true(length <= 16 * MIB && length > 0);
                assert_memory_equal(text_of(bench, "content"), data + seen, length);
                seen += length;
                line = number_of(bench, "end_line") + 1;
        } while (is_true(bench, "truncated"));
        assert_int_equal(seen, size);
        free(data);
}

static void test_read_failures(void **state) {
        struct bench *bench = *state;
        int fd;

        assert_false(read_path(bench, at(bench, "root/none")));
        assert_contains(text_of(bench, "error"), "File not found");
        assert_true(json_is_null(json_object_get(bench->report, "content")));
        make_directory(bench, "root/d");
        assert_false(read_path(bench, at(bench, "root/d")));
        assert_contains(text_of(bench, "error"), "Not a file");
        put_text(bench, "root/f", "x");
        assert_false(read_path(bench, at(bench, "root/f/g")));
        assert_contains(text_of(bench, "error"), "not found");
        fd = open(at(bench, "root/huge"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(fd, ((off_t)1 << 30) + 1), 0); /* a hole: no space, all zeroes */
        close(fd);
        assert_false(read_path(bench, at(bench, "root/huge")));
        assert_contains(text_of(bench, "error"), "too large");
        /* Opening one of these would wait, or have effects. */
        assert_int_equal(mkfifo(at(bench, "root/fifo"), 0600), 0);
        assert_false(read_path(bench, at(bench, "root/fifo")));
        assert_contains(text_of(bench, "error"), "Not a file");
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        {
                struct sockaddr_un address = {.sun_family = AF_UNIX};

                snprintf(address.sun_path, sizeof(address.sun_path), "%s", at(bench, "root/socket"));
                assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        }
        assert_false(read_path(bench, at(bench, "root/socket")));
        close(fd);
}

static void test_a_cancelled_read(void **state) {
        struct bench *bench = *state;
        struct sbx_call call_that_ended = {.struct_size = sizeof(call_that_ended), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_tool_context context = {.principal = "", .caller = SBX_CALLER_MODEL, .call = &call_that_ended};
        struct sbx_buffer out = SBX_BUFFER(MIB);
        char arguments[256];

        put_text(bench, "root/a", "x\n");
        snprintf(arguments, sizeof(arguments), "{\"path\":\"%s\"}", at(bench, "root/a"));
        assert_int_equal(sbx_tools_call(bench->tools, "file_read", (struct sbx_bytes){arguments, strlen(arguments)},
                                        &context, &out, NULL),
                         0);
        assert_contains(out.data, "longer than it may");
        sbx_buffer_free(&out);
}

/* ---- escapes ---- */

static void test_paths_that_lead_out(void **state) {
        static const char *const paths[] = {
                "root/../outside",
                "root/../../../../../../etc/passwd",
                "root/d/../../outside",
                "root/./../outside",
                "rootling/x",
                "root/..",
                "root/../root/../outside",
                "outside",
        };
        struct bench *bench = *state;

        put_text(bench, "outside", "secret");
        make_directory(bench, "rootling"); /* begins like the allowed one */
        put_text(bench, "rootling/x", "secret");
        make_directory(bench, "root/d");
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                assert_refused(bench, at(bench, paths[i]));
        assert_refused(bench, "/etc/passwd");
        assert_refused(bench, "/");
        assert_refused(bench, "..");
        assert_refused(bench, "etc/passwd"); /* relative to the project, which is elsewhere */
        assert_refused(bench, "/proc/self/environ");
        assert_refused(bench, "~/x");
        put_text(bench, "root/in", "fine");
        assert_true(read_path(bench, at(bench, "root/d/../in")));
        assert_true(read_path(bench, at(bench, "root//d/.././in")));
}

static void test_links_that_lead_out(void **state) {
        struct bench *bench = *state;
        char target[256];

        put_text(bench, "outside", "secret");
        make_directory(bench, "elsewhere");
        put_text(bench, "elsewhere/x", "secret");
        make_directory(bench, "root/d");
        put_text(bench, "root/d/inside", "fine");
        make_link(bench, at(bench, "outside"), "root/absolute");
        make_link(bench, "../outside", "root/relative");
        make_link(bench, "../../outside", "root/d/deeper");
        make_link(bench, "../elsewhere", "root/directory");
        make_link(bench, "relative", "root/twice");
        make_link(bench, "loop2", "root/loop1");
        make_link(bench, "loop1", "root/loop2");
        make_link(bench, "/proc/self/root", "root/magic");
        make_link(bench, "/proc/self/cwd", "root/cwd");
        make_link(bench, at(bench, "root/d/inside"), "root/absolute_inside");
        make_link(bench, "..", "root/d/up");
        assert_refused(bench, at(bench, "root/absolute"));
        assert_refused(bench, at(bench, "root/relative"));
        assert_refused(bench, at(bench, "root/d/deeper"));
        assert_refused(bench, at(bench, "root/directory/x"));
        assert_refused(bench, at(bench, "root/twice"));
        assert_refused(bench, at(bench, "root/loop1"));
        assert_refused(bench, at(bench, "root/magic/etc/passwd"));
        assert_refused(bench, at(bench, "root/cwd/etc/passwd"));
        assert_refused(bench, at(bench, "root/absolute_inside")); /* absolute ones begin outside, wherever they end */
        snprintf(target, sizeof(target), "%s", "root/d/up/d/up/d/inside");
        assert_true(read_path(bench, at(bench, target)));
        make_link(bench, "d/inside", "root/good");
        assert_true(read_path(bench, at(bench, "root/good")));
        assert_string_equal(text_of(bench, "content"), "fine");
        assert_true(call(bench, "file_list",
                         json_pack("{s:s, s:s, s:b}", "path", at(bench, "root"), "pattern", "*", "recursive", 1)));
        assert_int_equal(number_of(bench, "count"), 14);
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", at(bench, "root/directory"))));
        assert_contains(text_of(bench, "error"), "Access denied");
        assert_int_equal(json_array_size(json_object_get(bench->report, "files")), 0);
        assert_true(json_is_array(json_object_get(bench->report, "files")));
}

/* Where the kernel has no openat2, nothing but a plain path is opened. */
static void test_without_openat2(void **state) {
        static const char *const bad[] = {"link", "d/link", "linked/f", "d/../f", "..",    ".",
                                          "d//f", "/f",     "",         "d/",     "link/f"};
        struct bench *bench = *state;
        int root, fd;

        make_directory(bench, "root/d");
        put_text(bench, "root/d/f", "fine");
        make_link(bench, "d/f", "root/link");
        make_link(bench, "f", "root/d/link");
        make_link(bench, "d", "root/linked");
        root = open(at(bench, "root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd = sbx_files_walk_beneath(root, "d/f", O_RDONLY);
        assert_true(fd >= 0);
        close(fd);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_true(sbx_files_walk_beneath(root, bad[i], O_RDONLY) < 0);
        close(root);
}

static void test_secrets(void **state) {
        static const char *const secret[] = {
                ".env",
                ".ENV",
                ".env.local",
                "prod.env",
                "server.pem",
                "tls.key",
                "id_rsa",
                ".netrc",
                ".npmrc",
                ".git/config",
                ".ssh/known_hosts",
                ".aws/config",
                "credentials.json",
                "a/.env",
                "a/.ssh/x",
                "terraform.tfstate",
                "snipara-sandbox.cfg",
                ".snipara/tokens.json",
        };
        static const char *const fine[] = {
                "env",        ".env.example", "environment.py",          "key", "monkey.txt", ".gitignore",
                "id_rsa.pub", "a/b.md",       ".github/workflows/x.yml", "pem", "tokens.py"};
        struct bench *bench = *state;

        for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
                if (!sbx_files_is_secret(secret[i]))
                        fail_msg("%s", secret[i]);
        for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
                if (sbx_files_is_secret(fine[i]))
                        fail_msg("%s", fine[i]);
        put_text(bench, "root/.env", "KEY=1");
        make_directory(bench, "root/.ssh");
        put_text(bench, "root/.ssh/config", "x");
        make_link(bench, ".env", "root/notes.txt");
        make_link(bench, ".ssh", "root/docs");
        assert_refused(bench, at(bench, "root/.env"));
        assert_contains(text_of(bench, "error"), "keys or passwords");
        assert_refused(bench, at(bench, "root/notes.txt"));
        assert_refused(bench, at(bench, "root/docs/config"));
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", at(bench, "root/.ssh"))));
        assert_true(call(bench, "file_list", json_pack("{s:s, s:b}", "path", at(bench, "root"), "recursive", 1)));
        assert_int_equal(number_of(bench, "count"), 4); /* they show, and what is in .ssh does not */
        close_tools(bench);
        open_tools(bench, "root/.env"); /* named itself */
        assert_true(read_path(bench, at(bench, "root/.env")));
        assert_string_equal(text_of(bench, "content"), "KEY=1");
        assert_refused(bench, at(bench, "root/notes.txt"));
}

/* Whatever they are called, and by whatever name they are reached. */
static void test_configuration_files(void **state) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static const char *const all[] = {"*", NULL};
        struct bench *bench = *state;
        char path[128], directory[128];
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = directory};
        struct sbx_config *config = NULL;
        struct sbx_tools *tools = NULL, *before = bench->tools;

        snprintf(path, sizeof(path), "%s/root/my.conf", bench->directory);
        snprintf(directory, sizeof(directory), "%s/root", bench->directory);
        put_text(bench, "root/my.conf", "max_sessions = 4;\n");
        put_text(bench, "root/other.conf", "max_sessions = 4;\n");
        assert_int_equal(link(at(bench, "root/my.conf"), at(bench, "root/innocent.txt")), 0);
        make_link(bench, "my.conf", "root/link.txt");
        assert_int_equal(sbx_config_load(&options, &logger, &config, NULL), 0);
        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        assert_int_equal(sbx_tools_add_builtin(tools, bench->table.sessions, config, NULL), 0);
        assert_int_equal(sbx_tools_allow(tools, SBX_CALLER_MODEL, all, NULL), 0);
        bench->tools = tools;
        assert_refused(bench, at(bench, "root/my.conf"));
        assert_refused(bench, "my.conf");
        assert_refused(bench, "innocent.txt");
        assert_refused(bench, "link.txt");
        assert_true(
                read_path(bench, "other.conf")); /* relative to the project, which is allowed when nothing is said */
        bench->tools = before;
        sbx_tools_free(tools);
        sbx_config_free(config);
}

/* A registry over a configuration with these settings, for models. */
static struct sbx_tools *use_settings(struct bench *bench, const char *const *settings,
                                      struct sbx_config **ret_config) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static const char *const all[] = {"*", NULL};
        char path[128], directory[128];
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = directory,
                                              .settings = settings};
        struct sbx_tools *tools = NULL;

        snprintf(path, sizeof(path), "%s/my.conf", bench->directory);
        snprintf(directory, sizeof(directory), "%s/root", bench->directory);
        put_text(bench, "my.conf", "");
        assert_int_equal(sbx_config_load(&options, &logger, ret_config, NULL), 0);
        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        assert_int_equal(sbx_tools_add_builtin(tools, bench->table.sessions, *ret_config, NULL), 0);
        assert_int_equal(sbx_tools_allow(tools, SBX_CALLER_MODEL, all, NULL), 0);
        return tools;
}

/* What runs were asked, and what came of it, stands there for every client of the server. */
static void test_logs(void **state) {
        struct bench *bench = *state;
        struct sbx_tools *before = bench->tools;
        struct sbx_config *config = NULL;
        char allowed[160], log_dir[160], *report;

        make_directory(bench, "root/logs");
        make_directory(bench, "root/logs/old");
        make_directory(bench, "root/logsearch");
        put_text(bench, "root/logs/run.jsonl", "secret");
        put_text(bench, "root/logs/old/run.jsonl", "secret");
        put_text(bench, "root/logsearch/x.txt", "plain");
        make_link(bench, "logs/run.jsonl", "root/link.txt");
        make_link(bench, "logs", "root/link");
        snprintf(log_dir, sizeof(log_dir), "log_dir=%s/root/logs", bench->directory);
        snprintf(allowed, sizeof(allowed), "allowed_paths=%s/root/logs", bench->directory);

        bench->tools = use_settings(bench, (const char *const[]){log_dir, NULL}, &config);
        assert_refused(bench, "logs/run.jsonl");
        assert_refused(bench, "logs/old/run.jsonl");
        assert_refused(bench, "./logsearch/../logs/run.jsonl");
        assert_refused(bench, "link.txt");
        assert_refused(bench, "link/run.jsonl");
        assert_true(read_path(bench, "logsearch/x.txt"));
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", "logs")));
        assert_false(call(bench, "file_list", json_pack("{s:s}", "path", "logs/old")));
        assert_true(call(bench, "file_list", json_pack("{s:s, s:b}", "path", ".", "recursive", 1)));
        report = json_dumps(bench->report, 0);
        assert_null(strstr(report, "run.jsonl"));
        assert_non_null(strstr(report, "x.txt"));
        free(report);
        sbx_tools_free(bench->tools);
        sbx_config_free(config);

        /* Who names it means it. */
        bench->tools = use_settings(bench, (const char *const[]){log_dir, allowed, NULL}, &config);
        assert_true(read_path(bench, at(bench, "root/logs/run.jsonl")));
        sbx_tools_free(bench->tools);
        sbx_config_free(config);
        bench->tools = before;
}

static void test_hidden_from_clients(void **state) {
        struct bench *bench = *state;
        static const char *const none[] = {NULL};
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(MIB);
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_allow(bench->tools, SBX_CALLER_CLIENT, none, NULL), 0);
        assert_int_equal(sbx_tools_call(bench->tools, "file_read", BYTES("{\"path\":\"x\"}"), &context, &out, &err),
                         -EACCES);
        assert_contains(err.hint, "client_tools");
        assert_int_equal(sbx_tools_list(bench->tools, &out, NULL), 0);
        assert_null(strstr(out.data, "file_read"));
        sbx_buffer_free(&out);
}

/* ---- listing ---- */

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
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(test_read),
                TEST(test_read_lines),
                TEST(test_read_bytes_of_any_kind),
                TEST(test_read_within_the_text),
                TEST(test_read_for_code),
                TEST(test_read_failures),
                TEST(test_a_cancelled_read),
                TEST(test_paths_that_lead_out),
                TEST(test_links_that_lead_out),
                TEST(test_without_openat2),
                TEST(test_secrets),
                TEST(test_configuration_files),
                TEST(test_logs),
                TEST(test_hidden_from_clients),
                TEST(test_list),
                TEST(test_list_failures),
                TEST(test_list_limits),
                cmocka_unit_test(test_patterns),
        };

        return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
