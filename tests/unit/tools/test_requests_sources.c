/* SPDX-License-Identifier: Apache-2.0 */
/* Listings, and requests to context sources whose tools come and go. */
#include "requests_client.h"

/* ---- listings, and context sources of today's ABI ---- */

static void test_listing(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1 << 16);
        struct sbx_tool bad[] = {
                {.name = "x", .description = "d", .input_schema = ANY, .run = run_fail, .icons = "{}"},
                {.name = "x",
                 .description = "d",
                 .input_schema = ANY,
                 .run = run_fail,
                 .icons = "[{\"src\":\"http:x\"}]"},
                {.name = "x", .description = "d", .input_schema = ANY, .run = run_fail, .meta = "[]"},
                {.name = "x", .description = "d", .input_schema = ANY, .run = run_fail, .task_support = "sometimes"},
        };
        struct client client;

        client_open(&client);
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_contains(out.data,
                        "\"annotations\":{},\"icons\":[{\"src\":\"https://example.com/i.png\"}],\"execution\":{"
                        "\"taskSupport\":\"optional\"},\"_meta\":{\"example.com/x\":1}}");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_true(sbx_tools_add(client.tools, &bad[i], NULL) < 0);
        sbx_buffer_free(&out);
        client_close(&client);
}

struct source {
        const char *tools; /* atomic */
        unsigned asked;    /* atomic: for its tools */
        int status;
        struct sbx_tools *nervous; /* it says each time that they changed */
        struct sbx_instance instance;
};

static int source_tools(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        struct source *source = instance;
        const char *tools = __atomic_load_n(&source->tools, __ATOMIC_ACQUIRE);

        __atomic_add_fetch(&source->asked, 1, __ATOMIC_RELAXED);
        if (source->nervous != NULL)
                sbx_tools_source_changed(source->nervous, "docs");
        return sbx_output_append(ret_json, tools, strlen(tools));
}

static int source_request(void *instance, const struct sbx_request *request, const struct sbx_client *client,
                          const struct sbx_call *call, struct sbx_output *ret_result, struct sbx_error *err) {
        const struct source *source = instance;
        char text[512];

        assert_non_null(call);
        client->progress(client->data, 1, 0, NULL);
        if (source->status < 0)
                return sbx_error_set(err, source->status, "source", NULL, "no");
        snprintf(text, sizeof(text),
                 "{\"content\":[{\"type\":\"text\",\"text\":\"%u %s %s %zu task %d\"}],\"_meta\":{}}", request->kind,
                 request->name, request->principal, request->arguments.size, client->become_task(client->data));
        return sbx_output_append(ret_result, text, strlen(text));
}

#define TOOL(name, more) "{\"name\":\"" name "\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}" more "}"

static void add_source(struct client *client, struct source *source) {
        static const struct sbx_context_ops ops = {
                .struct_size = sizeof(ops), .tools = source_tools, .request = source_request};
        struct sbx_error err = {0};

        source->instance = (struct sbx_instance){.name = "docs", .state = source, .ops = &ops};
        if (sbx_tools_add_context(client->tools, &source->instance, false, &err) < 0)
                fail_msg("%s", err.message);
}

#define ONE_TOOL                                                                                                       \
        TOOL("one", ",\"execution\":{\"taskSupport\":\"required\"},\"icons\":[{\"src\":\"data:,x\"}],\"_meta\":{"      \
                    "\"snipara-sandbox/aliases\":[\"uno\"],\"a/b\":1}")
#define TWO_TOOL TOOL("two", ",\"execution\":{\"taskSupport\":\"forbidden\"}")

static void test_source(void **state) {
        struct source source = {.tools = "[" ONE_TOOL "," TWO_TOOL "]"};
        struct sbx_tool_context context = {.principal = "x"};
        struct sbx_buffer out = SBX_BUFFER(1 << 16);
        struct client client;
        int status = 0;

        client_open(&client);
        client.task_answer = 1;
        add_source(&client, &source);
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_contains(out.data,
                        "\"icons\":[{\"src\":\"data:,x\"}],\"execution\":{\"taskSupport\":\"required\"},\"_meta\":{"
                        "\"a/b\":1}},");
        assert_null(strstr(out.data, "snipara-sandbox/"));
        assert_null(strstr(out.data, "forbidden"));
        sbx_buffer_clear(&out);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "uno", "{}", NULL), "1 one token:me 2 task 1");
        assert_contains(client.text, "\"isError\":false");
        assert_int_equal(client.progresses, 1);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "two", "{}", NULL), "1 two token:me 2 task 0");
        source.status = -EPROTO;
        assert_string_equal(request(&client, SBX_REQUEST_TOOL, "one", "{}", &status), "no");
        assert_int_equal(status, -EPROTO);
        /* Without a client there is still one for the source: it can't be asked. */
        source.status = 0;
        assert_int_equal(sbx_tools_call(client.tools, "one", BYTES("{}"), &context, &out, NULL), 0);
        assert_contains(out.data, "1 one x 2 task 0");
        sbx_buffer_free(&out);
        client_close(&client);
}

static void test_source_grows(void **state) {
        struct source source = {.tools = "[" TOOL("one", "") "]"};
        struct sbx_buffer out = SBX_BUFFER(1 << 16);
        struct client client;
        int status = 0;

        client_open(&client);
        add_source(&client, &source);
        source.tools = "[" TOOL("one", "") "," TOOL("fail", "") "," TOOL("b c", "") "," TOOL("new", "") "]";
        (void)request(&client, SBX_REQUEST_TOOL, "new", "{}", &status);
        assert_int_equal(status, -ENOENT);
        sbx_tools_source_changed(client.tools, "other");
        (void)request(&client, SBX_REQUEST_TOOL, "new", "{}", &status);
        assert_int_equal(source.asked, 1);
        /* Asked when the tool is wanted, or the list; tools of others, and bad ones, are not taken. */
        sbx_tools_source_changed(client.tools, "docs");
        sbx_tools_source_changed(client.tools, "docs");
        assert_int_equal(source.asked, 1);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "new", "{}", NULL), "1 new token:me");
        assert_int_equal(source.asked, 2);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "fail", "{\"code\":-5}", NULL), "it fails");
        sbx_tools_source_changed(client.tools, "docs");
        source.tools = "nonsense";
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_int_equal(source.asked, 3);
        assert_contains(out.data, "\"new\"");
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_int_equal(source.asked, 3);
        /* One that changes whenever it is asked is not asked for ever; and none is when they may be closed. */
        source.nervous = client.tools;
        sbx_tools_source_changed(client.tools, "docs");
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_int_equal(source.asked, 4);
        sbx_tools_stop(client.tools);
        source.asked = 0;
        assert_int_equal(sbx_tools_list(client.tools, &out, NULL), 0);
        assert_int_equal(source.asked, 0);
        sbx_buffer_free(&out);
        client_close(&client);
}

/* ---- with threads ---- */

struct crowd {
        struct client *client;
        struct source *source;
};

static void *list_often(void *data) {
        struct crowd *crowd = data;

        for (int i = 0; i < 100; i++) {
                struct sbx_buffer out = SBX_BUFFER(1 << 20);

                assert_int_equal(sbx_tools_list(crowd->client->tools, &out, NULL), 0);
                sbx_buffer_free(&out);
        }
        return NULL;
}

static void *change_often(void *data) {
        struct crowd *crowd = data;

        for (int i = 0; i < 100; i++) {
                __atomic_store_n(&crowd->source->tools,
                                 i % 2 == 0 ? "[" TOOL("even", "") "]" : "[" TOOL("odd", "") "," TOOL("one", "") "]",
                                 __ATOMIC_RELEASE);
                sbx_tools_source_changed(crowd->client->tools, "docs");
                (void)sbx_tools_check(crowd->client->tools, "nothing", SBX_CALLER_CLIENT, NULL);
        }
        return NULL;
}

static void test_crowd(void **state) {
        static void *(*const runs[])(void *) = {list_often, list_often, change_often, change_often};
        struct source source = {.tools = "[]"};
        struct client client;
        struct crowd crowd = {&client, &source};
        pthread_t threads[sizeof(runs) / sizeof(runs[0])];

        client_open(&client);
        add_source(&client, &source);
        for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, runs[i], &crowd), 0);
        for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
                pthread_join(threads[i], NULL);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "one", "{}", NULL), "1 one token:me");
        assert_contains(request(&client, SBX_REQUEST_TOOL, "even", "{}", NULL), "1 even token:me");
        client_close(&client);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_listing),
                cmocka_unit_test(test_source),
                cmocka_unit_test(test_source_grows),
                cmocka_unit_test(test_crowd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
