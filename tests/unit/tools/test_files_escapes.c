/* SPDX-License-Identifier: Apache-2.0 */
/* Every way out of the allowed directory that we know of, and what may not be read in it. */
#include "files_bench.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_paths_that_lead_out, setup, teardown),
                cmocka_unit_test_setup_teardown(test_links_that_lead_out, setup, teardown),
                cmocka_unit_test_setup_teardown(test_without_openat2, setup, teardown),
                cmocka_unit_test_setup_teardown(test_secrets, setup, teardown),
                cmocka_unit_test_setup_teardown(test_configuration_files, setup, teardown),
                cmocka_unit_test_setup_teardown(test_logs, setup, teardown),
                cmocka_unit_test_setup_teardown(test_hidden_from_clients, setup, teardown),
        };

        return cmocka_run_group_tests_name("files_escapes", tests, NULL, NULL);
}
