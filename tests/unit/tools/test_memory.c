/* SPDX-License-Identifier: Apache-2.0 */
/* Tools when memory is short: every allocation fails once, nothing leaks, nothing breaks. */
#include "sessions.h"

#include "../alloc_fail.h"
#include "tools/tools.h"

struct scene {
        struct sbx_config *config;
        struct sbx_logger logger;
        struct sbx_sessions *sessions;
};

static int call(struct sbx_tools *tools, const char *name, const char *arguments) {
        struct sbx_tool_context context = {.principal = ""};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        int r = sbx_tools_call(tools, name, (struct sbx_bytes){arguments, strlen(arguments)}, &context, &out, NULL);

        /* A tool that ran out of memory says so in its result. */
        if (r == 0 && strstr(out.data, "out of memory") != NULL)
                r = -ENOMEM;
        sbx_buffer_free(&out);
        return r;
}

static int use(struct sbx_tools *tools) {
        static const char *const calls[][2] = {
                {"destroy_session", "{\"session_id\":\"default\"}"}, /* with the checkpoints that were made before */
                {"destroy_session", "{\"session_id\":\"branch\"}"},
                {"execute_python", "{\"code\":\"name x\"}"},
                {"get_repl_context", "{}"},
                {"set_repl_context", "{\"key\":\"k\",\"value\":\"[1]\"}"},
                {"list_sessions", "{}"},
                {"execute_python", "{\"code\":\"crash\",\"timeout\":\"x\"}"},
                {"destroy_session", "{\"session_id\":\"none\"}"},
                {"checkpoint_session", "{\"session_id\":\"default\",\"label\":\"here\"}"},
                {"list_checkpoints", "{\"session_id\":\"default\"}"},
                {"fork_session", "{\"session_id\":\"default\",\"new_session_id\":\"branch\"}"},
                {"rollback_session", "{\"session_id\":\"default\",\"checkpoint\":\"here\"}"},
                {"execute", "{\"code\":\"ok\"}"},
                {"files", "{\"path\":\"/proc/self/status\"}"},
                {"file_list", "{\"path\":\"/proc/self/net\",\"pattern\":\"a*\"}"},
                {"upload_file", "{\"path\":\"a/b\",\"content_base64\":\"AAAA\"}"},
                {"upload_file", "{\"path\":\"c\",\"content\":\"text\"}"},
                {"download_file", "{\"path\":\"a/b\"}"},
                {"download_file", "{\"path\":\"c\"}"},
                {"list_files", "{}"},
                {"execute_python", "{\"code\":\"print 40000\"}"},
                {"execute_python", "{\"code\":\"plot 5\"}"},
        };
        static const char *const files[] = {"file_list", "files", NULL};
        int r = sbx_tools_alias(tools, "files", "file_read", NULL);

        if (r == 0)
                r = sbx_tools_allow(tools, SBX_CALLER_CLIENT, files, NULL);
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && r == 0; i++)
                r = call(tools, calls[i][0], calls[i][1]);
        return r;
}

static int body(void *data) {
        struct scene *scene = data;
        struct sbx_tools *tools = NULL;
        int r = sbx_tools_new(&scene->logger, &tools, NULL);

        if (r == 0)
                r = sbx_tools_add_builtin(tools, scene->sessions, scene->config, NULL);
        if (r == 0)
                r = use(tools);
        sbx_tools_free(tools);
        return r;
}

static void test_allocation_failures(void **state) {
        struct scene scene = {.logger = {.level = SBX_LOG_ERROR}};
        struct table table;

        table_open(&table, NULL);
        fake_guest_can_tell(); /* its state, for checkpoints */
        scene.config = table.config;
        scene.sessions = table.sessions;
        assert_true(alloc_fail_sweep(body, &scene) > 10);
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocation_failures)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
