/* SPDX-License-Identifier: Apache-2.0 */
/* Context sources in the catalog: those of today's ABI, and those that know nothing of it. */
#include "fake_part.h"

#include <snipara-sandbox/context.h>

#include "plugin/registry.h"

struct source {
        const char *prompts, *templates, *answer; /* JSON texts */
        int status;
        char asked[256];
        struct sbx_instance instance;
};

static int put(const char *text, struct sbx_output *output) {
        return sbx_output_append(output, text, strlen(text));
}

static int source_tools(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put("[]", ret_json);
}

static int source_call(void *instance, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
                       struct sbx_output *ret_result, struct sbx_error *err) {
        return sbx_error_set(err, -ENOSYS, "source", NULL, "not called");
}

static int source_prompts(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put(((struct source *)instance)->prompts, ret_json);
}

static int source_templates(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        return put(((struct source *)instance)->templates, ret_json);
}

static int source_request(void *instance, const struct sbx_request *request, const struct sbx_client *client,
                          const struct sbx_call *call, struct sbx_output *ret_result, struct sbx_error *err) {
        struct source *source = instance;

        assert_non_null(client);
        assert_non_null(call);
        assert_int_equal(request->struct_size, sizeof(*request));
        snprintf(source->asked, sizeof(source->asked), "%u %s %s %.*s", request->kind,
                 request->name != NULL ? request->name : "-", request->principal, (int)request->arguments.size,
                 (const char *)request->arguments.data);
        if (source->status < 0)
                return sbx_error_set(err, source->status, "source", "Ask again.", "the source says no");
        return put(source->answer, ret_result);
}

static const struct sbx_context_ops ops = {.struct_size = sizeof(ops),
                                           .tools = source_tools,
                                           .prompts = source_prompts,
                                           .templates = source_templates,
                                           .request = source_request};

static void add(struct sbx_catalog *catalog, struct source *source, const struct sbx_context_ops *how) {
        struct sbx_error err = {0};

        source->instance = (struct sbx_instance){.name = "docs", .state = source, .ops = how};
        assert_int_equal(sbx_catalog_add_context(catalog, &source->instance, &err), 0);
}

static void test_asked(void **state) {
        struct source source = {.prompts = "[{\"name\":\"p\"}]",
                                .templates = "[{\"uriTemplate\":\"d://{x}\",\"name\":\"d\"}]",
                                .answer = "{\"contents\":[{\"uri\":\"d://1\",\"blob\":\"AA==\"}]}"};
        struct sbx_catalog *catalog = fake_catalog();

        add(catalog, &source, &ops);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[{'name':'p'}]");
        assert_string_equal(fake_listed(catalog, SBX_LIST_TEMPLATES), "[{'uriTemplate':'d://{x}','name':'d'}]");
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "d://1", NULL),
                            "{'contents':[{'uri':'d://1','blob':'AA=='}]}");
        assert_string_equal(source.asked, "3 d://1 token:me {}");
        source.answer = "{\"messages\":[]}";
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_PROMPT, "p", "{ }"), "{'messages':[]}");
        assert_string_equal(source.asked, "4 p token:me { }");
        source.answer = "{\"resources\":[]}";
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, NULL), "{'resources':[]}");
        assert_string_equal(source.asked, "2 - token:me {}");
        source.status = -EPROTO;
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "d://1", NULL), "-71: the source says no");
        sbx_catalog_free(catalog);
}

static void test_nonsense(void **state) {
        static const char *const answers[] = {"", "{", "[]", "5", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}"};
        struct source source = {.prompts = "{", .templates = "nonsense"};
        struct sbx_catalog *catalog = fake_catalog();

        add(catalog, &source, &ops);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[]");
        assert_contains(fake_log.lines, "docs: what it lists is left out");
        assert_string_equal(fake_listed(catalog, SBX_LIST_TEMPLATES), "[]");
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                source.answer = answers[i];
                assert_contains(fake_ask(catalog, SBX_REQUEST_READ, "d://1", NULL), "-74: docs");
                assert_string_equal(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, NULL), "{'resources':[]}");
        }
        sbx_catalog_free(catalog);
}

/* A source of ABI 1.1: the host's copy of its operations is zero where they end. */
static void test_older(void **state) {
        static const struct sbx_context_ops older = {
                .struct_size = sizeof(older), .tools = source_tools, .call = source_call};
        static const struct sbx_context_ops silent = {
                .struct_size = sizeof(silent), .tools = source_tools, .request = source_request};
        struct source first = {0}, second = {.status = -ENOENT};
        struct sbx_catalog *catalog = fake_catalog();

        add(catalog, &first, &older);
        add(catalog, &second, &silent);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[]");
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, NULL), "{'resources':[]}");
        assert_contains(fake_ask(catalog, SBX_REQUEST_READ, "d://1", NULL), "-2: ");
        assert_string_equal(first.asked, "");
        assert_int_equal(fake_log.count, 0);
        sbx_catalog_free(catalog);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_asked),
                cmocka_unit_test(test_nonsense),
                cmocka_unit_test(test_older),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
