/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin gets from its host since ABI 1.2: requests, lists, news, figures. */
#include "../test.h"

#include "base/cleanup.h"
#include "plugin/internal.h"

static struct {
        struct sbx_request request;
        struct sbx_client client;
        bool has_client;
        char text[256], log[1024];
        unsigned submitted, changes, unwatched;
} seen;

static void keep_log(void *data, int level, const char *message) {
        snprintf(seen.log, sizeof(seen.log), "%s", message);
}

/* ---- the other side ---- */

static int list_tools(void *data, struct sbx_output *ret_json, struct sbx_error *err) {
        return sbx_output_append(ret_json, "[\"tools\"]", 9);
}

static int submit(void *data, const struct sbx_request *request, const struct sbx_client *client,
                  const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err) {
        seen.submitted++;
        seen.request = *request;
        seen.has_client = client != NULL;
        if (client != NULL)
                seen.client = *client;
        *ret_task = (struct sbx_tool_task *)&seen;
        return 0;
}

static int list(void *data, int which, struct sbx_output *ret_json, struct sbx_error *err) {
        snprintf(seen.text, sizeof(seen.text), "[%d]", which);
        return sbx_output_append(ret_json, seen.text, strlen(seen.text));
}

static void changed(void *data, const char *instance, const struct sbx_change *change) {
        seen.changes++;
        assert_int_equal(change->struct_size, sizeof(*change));
        snprintf(seen.text, sizeof(seen.text), "%s %u %s", instance, change->kind,
                 change->uri != NULL ? change->uri : "-");
}

static int watch(void *data, void (*told)(void *watcher, const struct sbx_change *change), void *watcher,
                 struct sbx_watch **ret_watch, struct sbx_error *err) {
        *ret_watch = (struct sbx_watch *)&seen;
        return 0;
}

static void unwatch(void *data, struct sbx_watch *watch) {
        seen.unwatched++;
}

static int metrics(void *data, struct sbx_output *ret_text, struct sbx_error *err) {
        return sbx_output_append(ret_text, "up 1\n", 5);
}

static int ready(void *data, struct sbx_error *err) {
        return sbx_error_set(err, -EAGAIN, "test", NULL, "soon");
}

static const struct sbx_tool_services everything = {
        .list = list_tools,
        .submit = submit,
        .runtime = {.list = list,
                    .changed = changed,
                    .watch = watch,
                    .unwatch = unwatch,
                    .metrics = metrics,
                    .ready = ready},
};

/* ---- a plugin's side ---- */

struct fixture {
        struct sbx_tool_services tools;
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_settings settings;
        struct sbx_host_state *state;
        const struct sbx_host *host;
        struct sbx_output *output;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));
        struct sbx_host_setup how;

        memset(&seen, 0, sizeof(seen));
        f->logger = (struct sbx_logger){.write = keep_log, .level = SBX_LOG_DEBUG};
        f->directories = (struct sbx_directories){.libexec = "/x", .data = "/x"};
        how = (struct sbx_host_setup){.instance_name = "docs",
                                      .plugin_name = "context-docs",
                                      .kind = SBX_PLUGIN_CONTEXT,
                                      .settings = &f->settings,
                                      .logger = &f->logger,
                                      .directories = &f->directories,
                                      .tools = &f->tools};
        f->tools = everything;
        f->state = sbx_host_new(&how);
        assert_non_null(f->state);
        f->host = sbx_host_services(f->state);
        assert_int_equal(f->host->output_new(f->host->self, 64, &f->output), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        f->host->output_free(f->host->self, f->output);
        sbx_host_free(f->state);
        free(f);
        return 0;
}

static void on_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
}

static void on_change(void *data, const struct sbx_change *change) {
}

static const struct sbx_request_done done = {NULL, on_done};

static int ask(const struct fixture *f, const struct sbx_request *request, const struct sbx_client *client) {
        struct sbx_tool_task *task = NULL;
        struct sbx_error err = {0};
        int r = f->host->request_submit(f->host->self, request, client, &done, &task, &err);

        assert_int_equal(err.code, r);
        assert_int_equal(task != NULL, r == 0);
        return r;
}

static void test_requests(void **state) {
        struct fixture *f = *state;
        /* As of a later version: longer than this host knows. */
        struct {
                struct sbx_request known;
                uint64_t later[2];
        } request = {{.struct_size = sizeof(request), .kind = SBX_REQUEST_PROMPT, .name = "p"}, {1, 2}};
        struct {
                struct sbx_client known;
                uint64_t later[2];
        } client = {{.struct_size = sizeof(client), .capabilities = SBX_CLIENT_ROOTS, .data = f}, {1, 2}};

        assert_int_equal(ask(f, &request.known, &client.known), 0);
        assert_int_equal(seen.request.struct_size, sizeof(seen.request));
        assert_string_equal(seen.request.principal, "");
        assert_int_equal(seen.client.struct_size, sizeof(seen.client));
        assert_int_equal(seen.client.capabilities, SBX_CLIENT_ROOTS);
        assert_ptr_equal(seen.client.data, f);
        assert_int_equal(ask(f, &request.known, NULL), 0);
        assert_false(seen.has_client);
        request.known.kind = SBX_REQUEST_RESOURCES;
        request.known.name = NULL;
        assert_int_equal(ask(f, &request.known, NULL), 0);
        request.known.kind = SBX_REQUEST_COMPLETION;
        assert_int_equal(ask(f, &request.known, NULL), 0);
        assert_int_equal(seen.submitted, 4);
}

static void test_bad_requests(void **state) {
        static const struct sbx_request bad[] = {
                {.struct_size = 8, .kind = SBX_REQUEST_READ, .name = "x:a"},
                {.struct_size = 1u << 24, .kind = SBX_REQUEST_READ, .name = "x:a"},
                {.struct_size = sizeof(bad[0]), .kind = 0, .name = "x"},
                {.struct_size = sizeof(bad[0]), .kind = 6, .name = "x"},
                {.struct_size = sizeof(bad[0]), .kind = SBX_REQUEST_TOOL},
                {.struct_size = sizeof(bad[0]), .kind = SBX_REQUEST_READ},
                {.struct_size = sizeof(bad[0]), .kind = SBX_REQUEST_PROMPT},
                {.struct_size = sizeof(bad[0]), .kind = SBX_REQUEST_PROMPT, .name = "x", .arguments = {NULL, 5}},
        };
        const struct sbx_request good = {.struct_size = sizeof(good), .kind = SBX_REQUEST_READ, .name = "x:a"};
        const struct sbx_client small = {.struct_size = 8};
        const struct sbx_request_done silent = {0};
        struct fixture *f = *state;
        const struct sbx_host *host = f->host;
        struct sbx_tool_task *task = NULL;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(ask(f, &bad[i], NULL), -EINVAL);
        assert_int_equal(ask(f, NULL, NULL), -EINVAL);
        assert_int_equal(ask(f, &good, &small), -EINVAL);
        assert_int_equal(host->request_submit(host->self, &good, NULL, &silent, &task, NULL), -EINVAL);
        assert_int_equal(host->request_submit(host->self, &good, NULL, NULL, &task, NULL), -EINVAL);
        assert_int_equal(host->request_submit(host->self, &good, NULL, &done, NULL, NULL), -EINVAL);
        assert_int_equal(seen.submitted, 0);
}

static void test_lists(void **state) {
        struct fixture *f = *state;
        const struct sbx_host *host = f->host;

        assert_int_equal(host->list(host->self, SBX_LIST_TOOLS, f->output, NULL), 0);
        assert_int_equal(host->list(host->self, SBX_LIST_PROMPTS, f->output, NULL), 0);
        assert_int_equal(host->list(host->self, SBX_LIST_TEMPLATES, f->output, NULL), 0);
        assert_memory_equal(sbx_output_bytes(f->output).data, "[\"tools\"][2][3]", 15);
        assert_int_equal(host->list(host->self, 0, f->output, NULL), -EINVAL);
        assert_int_equal(host->list(host->self, 4, f->output, NULL), -EINVAL);
}

static void test_news(void **state) {
        struct fixture *f = *state;
        const struct sbx_host *host = f->host;
        struct {
                struct sbx_change known;
                uint64_t later;
        } change = {{.struct_size = sizeof(change), .kind = SBX_CHANGE_TOOLS}, 1};
        struct sbx_watch *watched = NULL;

        host->changed(host->self, &change.known);
        assert_string_equal(seen.text, "docs 1 -");
        change.known.kind = SBX_CHANGE_RESOURCE;
        change.known.uri = "x:a";
        host->changed(host->self, &change.known);
        assert_string_equal(seen.text, "docs 4 x:a");
        assert_int_equal(seen.changes, 2);
        /* What makes no sense is for the log. */
        change.known.uri = NULL;
        host->changed(host->self, &change.known);
        assert_contains(seen.log, "docs: news of the unknown kind 4, or without their URI");
        change.known.kind = 5;
        host->changed(host->self, &change.known);
        assert_contains(seen.log, "unknown kind 5");
        change.known.struct_size = 8;
        host->changed(host->self, &change.known);
        assert_contains(seen.log, "struct sbx_change");
        host->changed(host->self, NULL);
        assert_contains(seen.log, "none are given");
        assert_int_equal(seen.changes, 2);

        assert_int_equal(host->watch(host->self, on_change, f, &watched, NULL), 0);
        assert_int_equal(host->watch(host->self, NULL, f, &watched, NULL), -EINVAL);
        assert_int_equal(host->watch(host->self, on_change, f, NULL, NULL), -EINVAL);
        host->unwatch(host->self, NULL);
        host->unwatch(host->self, watched);
        assert_int_equal(seen.unwatched, 1);
}

static void test_figures(void **state) {
        struct fixture *f = *state;
        const struct sbx_host *host = f->host;
        struct sbx_error err = {0};

        assert_int_equal(host->metrics(host->self, f->output, &err), 0);
        assert_memory_equal(sbx_output_bytes(f->output).data, "up 1\n", 5);
        assert_int_equal(host->ready(host->self, &err), -EAGAIN);
        assert_string_equal(err.message, "soon");
}

/* `doctor` and `plugins info` open instances too. */
static void test_without_a_runtime(void **state) {
        struct fixture *f = *state;
        const struct sbx_host *host = f->host;
        const struct sbx_request request = {.struct_size = sizeof(request), .kind = SBX_REQUEST_READ, .name = "x:a"};
        const struct sbx_change change = {.struct_size = sizeof(change), .kind = SBX_CHANGE_TOOLS};
        struct sbx_watch *watched = NULL;
        struct sbx_error err = {0};

        f->tools = (struct sbx_tool_services){0};
        assert_int_equal(ask(f, &request, NULL), -ENOTSUP);
        assert_int_equal(host->list(host->self, SBX_LIST_TOOLS, f->output, NULL), -ENOTSUP);
        assert_int_equal(host->list(host->self, SBX_LIST_PROMPTS, f->output, &err), -ENOTSUP);
        assert_contains(err.message, "docs: there are no lists");
        assert_int_equal(host->watch(host->self, on_change, f, &watched, NULL), -ENOTSUP);
        assert_int_equal(host->metrics(host->self, f->output, NULL), -ENOTSUP);
        assert_int_equal(host->ready(host->self, NULL), -ENOTSUP);
        host->changed(host->self, &change);
        host->unwatch(host->self, watched);
        assert_int_equal(seen.changes, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_requests, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
                cmocka_unit_test_setup_teardown(test_news, setup, teardown),
                cmocka_unit_test_setup_teardown(test_figures, setup, teardown),
                cmocka_unit_test_setup_teardown(test_without_a_runtime, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
