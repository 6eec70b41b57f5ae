/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog when memory is short: every allocation fails once, nothing leaks, nothing breaks, and no list or answer
 * is half of what it should be. */
#include "../test.h"

#include <snipara-sandbox/context.h>

#include "../alloc_fail.h"
#include "base/json.h"
#include "catalog/catalog.h"

static int put(const char *text, struct sbx_output *output) {
        return sbx_output_append(output, text, strlen(text));
}

static int source_tools(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put("[]", ret_json);
}

static int source_prompts(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put("[{\"name\":\"p\",\"icons\":[{\"src\":\"data:,\"}],\"arguments\":[{\"name\":\"a\"}]}]", ret_json);
}

static int source_templates(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put("[{\"uriTemplate\":\"x:{a}\",\"name\":\"x\"}]", ret_json);
}

static int source_request(void *instance, const struct sbx_request *request, const struct sbx_client *client,
                          const struct sbx_call *call, struct sbx_output *ret_result, struct sbx_error *err) {
        static const char *const answers[] = {
                [SBX_REQUEST_RESOURCES] =
                        "{\"resources\":[{\"uri\":\"x:b\",\"name\":\"b\"},{\"uri\":\"x:a\",\"name\":\"a\"}]}",
                [SBX_REQUEST_READ] = "{\"contents\":[{\"uri\":\"x:a\",\"text\":\"a\"}]}",
                [SBX_REQUEST_PROMPT] =
                        "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"a\"}}]}",
                [SBX_REQUEST_COMPLETION] = "{\"completion\":{\"values\":[\"a\"]}}",
        };

        return put(answers[request->kind], ret_result);
}

static const struct sbx_context_ops ops = {.struct_size = sizeof(ops),
                                           .tools = source_tools,
                                           .prompts = source_prompts,
                                           .templates = source_templates,
                                           .request = source_request};

static void on_change(void *data, const struct sbx_change *change) {
}

static int ask(struct sbx_catalog *catalog, uint32_t kind, const char *name, const char *arguments,
               const char *expected) {
        static const struct sbx_client client = {.struct_size = sizeof(client)};
        static const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        const struct sbx_request request = {sizeof(request), kind, name, {arguments, strlen(arguments)}, ""};
        struct sbx_buffer json = SBX_BUFFER(1 << 20);
        int r = sbx_catalog_request(catalog, &request, &client, &call, &json, NULL);

        if (r == 0)
                assert_string_equal(json.data, expected);
        sbx_buffer_free(&json);
        return r;
}

static int list(struct sbx_catalog *catalog, int which, const char *expected) {
        struct sbx_buffer json = SBX_BUFFER(1 << 20);
        int r = sbx_catalog_list(catalog, which, &json, NULL);

        if (r == 0)
                assert_contains(json.data, expected);
        sbx_buffer_free(&json);
        return r;
}

static int use(struct sbx_catalog *catalog) {
        int r = list(catalog, SBX_LIST_PROMPTS, "\"p\"");

        if (r == 0)
                r = list(catalog, SBX_LIST_TEMPLATES, "\"x:{a}\"");
        if (r == 0)
                r = ask(catalog, SBX_REQUEST_RESOURCES, NULL, "",
                        "{\"resources\":[{\"uri\":\"x:a\",\"name\":\"a\"},{\"uri\":\"x:b\",\"name\":\"b\"}]}");
        if (r == 0)
                r = ask(catalog, SBX_REQUEST_READ, "x:a", "", "{\"contents\":[{\"uri\":\"x:a\",\"text\":\"a\"}]}");
        if (r == 0)
                r = ask(catalog, SBX_REQUEST_PROMPT, "p", "{\"a\":\"b\"}",
                        "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"a\"}}]}");
        if (r == 0)
                r = ask(catalog, SBX_REQUEST_COMPLETION, NULL,
                        "{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},"
                        "\"argument\":{\"name\":\"a\",\"value\":\"\"}}",
                        "{\"completion\":{\"values\":[\"a\"],\"total\":1,\"hasMore\":false}}");
        if (r == 0)
                r = ask(catalog, SBX_REQUEST_COMPLETION, NULL,
                        "{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"q\"},"
                        "\"argument\":{\"name\":\"a\",\"value\":\"\"}}",
                        "{\"completion\":{\"values\":[],\"total\":0,\"hasMore\":false}}");
        return r;
}

static int body(void *data) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        const struct sbx_instance source = {.name = "docs", .ops = &ops};
        struct sbx_catalog *catalog = NULL;
        struct sbx_watch *watch = NULL;
        int r = sbx_catalog_new(&logger, &catalog, NULL);

        if (r == 0)
                r = sbx_catalog_add_context(catalog, &source, NULL);
        if (r == 0)
                r = sbx_catalog_watch(catalog, on_change, NULL, &watch, NULL);
        if (r == 0)
                r = use(catalog);
        sbx_catalog_unwatch(watch);
        sbx_catalog_free(catalog);
        return r;
}

static void test_allocation_failures(void **state) {
        assert_true(alloc_fail_sweep(body, NULL) > 30);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocation_failures)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
