/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: pages and cursors, what older revisions see, and how long they are kept. */
#include "client.h"

static const char five_prompts[] =
        "[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"},{\"name\":\"e\"}]";

/* The next page; `cursor` is the one before's and is replaced. The names, joined. */
static void check_page(struct client *client, const char *method, const char *member, const char *key, char **cursor,
                       const char *expected) {
        char text[4096], names[256] = "";
        json_t *answer, *result, *item;
        size_t index;

        snprintf(text, sizeof(text), J "\"id\":1,\"method\":\"%s\",\"params\":{%s%s%s}}", method,
                 *cursor != NULL ? "\"cursor\":\"" : "", *cursor != NULL ? *cursor : "", *cursor != NULL ? "\"" : "");
        client_receive(client, text);
        if (strcmp(method, "resources/list") == 0)
                fake_host_end(&client->fake, fake_host_task_count(&client->fake) - 1, 0, client->fake.submit_result);
        answer = client_take(client);
        result = json_object_get(answer, "result");
        json_array_foreach (json_object_get(result, member), index, item) {
                size_t size = strlen(names);

                snprintf(names + size, sizeof(names) - size, "%s", json_string_value(json_object_get(item, key)));
        }
        assert_string_equal(names, expected);
        free(*cursor);
        *cursor = json_is_string(json_object_get(result, "nextCursor"))
                          ? strdup(json_string_value(json_object_get(result, "nextCursor")))
                          : NULL;
        json_decref(answer);
        client_check_silent(client);
}

static void test_pages(void **test) {
        struct client *client = *test;
        char *cursor = NULL;

        client->fake.prompts = five_prompts;
        client_initialize(client, "2025-11-25");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "ab");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "cd");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "e");
        assert_null(cursor);
        assert_int_equal(client->fake.list_calls, 1);
}

static void test_page_that_ends_with_the_list(void **test) {
        struct client *client = *test;
        char *cursor = NULL;

        client->fake.prompts = "[{\"name\":\"a\"},{\"name\":\"b\"}]";
        client_initialize(client, "2025-11-25");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "ab");
        assert_null(cursor);
}

static void refuse_cursor(struct client *client, const char *method, const char *cursor) {
        char text[4096];

        snprintf(text, sizeof(text), J "\"id\":1,\"method\":\"%s\",\"params\":{\"cursor\":%s}}", method, cursor);
        client_receive(client, text);
        client_check_error(client, "1", -32602, "params.cursor");
}

static void test_bad_cursors(void **test) {
        static const char *const cases[] = {"\"\"", "\"x\"", "7", "null", "[]", "\"AAAA\\u0000\"", "\"\\u00e9\""};
        struct client *client = *test;
        char *cursor = NULL, quoted[2048];

        client->fake.prompts = five_prompts;
        client_initialize(client, "2025-11-25");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                refuse_cursor(client, "prompts/list", cases[i]);
                refuse_cursor(client, "resources/list", cases[i]);
        }
        check_page(client, "prompts/list", "prompts", "name", &cursor, "ab");
        snprintf(quoted, sizeof(quoted), "\"%s\"", cursor);
        refuse_cursor(client, "tools/list", quoted); /* of another list */
        refuse_cursor(client, "resources/list", quoted);
        refuse_cursor(client, "resources/templates/list", quoted);
        quoted[5] = quoted[5] == 'A' ? 'B' : 'A';
        refuse_cursor(client, "prompts/list", quoted);
        free(cursor);
        assert_int_equal(fake_host_task_count(&client->fake), 0); /* the host was not asked for resources */
}

static void test_cursor_of_another_principal(void **test) {
        struct client *client = *test;
        struct mcp_connection *other = NULL;
        char *cursor = NULL, text[2048];

        client->fake.prompts = five_prompts;
        client_initialize(client, "2025-11-25");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "ab");
        assert_int_equal(mcp_connection_new(client->server, MCP_CONNECTION_REQUEST, "else", &other, NULL), 0);
        snprintf(text, sizeof(text), MODERN("2", "prompts/list", ",\"cursor\":\"%s\""), cursor);
        mcp_connection_receive(other, text_bytes(text), &client->channel);
        client_check_error(client, "2", -32602, "params.cursor");
        mcp_connection_free(other);
        free(cursor);
}

/* The client goes on behind the item that it saw last; without it, it begins anew. */
static void test_list_that_changes_between_pages(void **test) {
        struct client *client = *test;
        char *cursor = NULL, quoted[2048];
        json_t *news;

        client->fake.prompts = five_prompts;
        client_initialize(client, "2025-11-25");
        check_page(client, "prompts/list", "prompts", "name", &cursor, "ab");
        client->fake.prompts = "[{\"name\":\"0\"},{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"x\"}]";
        fake_host_changed(&client->fake, SBX_CHANGE_PROMPTS, NULL, NULL);
        news = client_take(client);
        json_decref(news);
        snprintf(quoted, sizeof(quoted), "\"%s\"", cursor);
        check_page(client, "prompts/list", "prompts", "name", &cursor, "x");
        client->fake.prompts = "[{\"name\":\"0\"},{\"name\":\"a\"},{\"name\":\"x\"}]";
        fake_host_changed(&client->fake, SBX_CHANGE_PROMPTS, NULL, NULL);
        news = client_take(client);
        json_decref(news);
        refuse_cursor(client, "prompts/list", quoted);
}

static void test_resources(void **test) {
        struct client *client = *test;
        char *cursor = NULL;

        client_initialize(client, "2025-11-25");
        client->fake.submit_result = "{\"resources\":[{\"uri\":\"a\"},{\"uri\":\"c\"},{\"uri\":\"e\"}]}";
        check_page(client, "resources/list", "resources", "uri", &cursor, "ac");
        /* Sorted lists go on where the last one would stand. */
        client->fake.submit_result =
                "{\"resources\":[{\"uri\":\"b\"},{\"uri\":\"d\"},{\"uri\":\"e\"},{\"uri\":\"f\"}]}";
        check_page(client, "resources/list", "resources", "uri", &cursor, "de");
        client->fake.submit_result = "{\"resources\":[]}";
        check_page(client, "resources/list", "resources", "uri", &cursor, "");
        assert_null(cursor);
        assert_string_equal(client->fake.tasks[0].principal, "somebody");
        assert_int_equal(client->fake.tasks[0].kind, SBX_REQUEST_RESOURCES);
}

static void test_resources_that_are_none(void **test) {
        static const char *const cases[] = {"{}", "[]", "rubbish", "{\"resources\":[7]}", "{\"resources\":[{}]}"};
        struct client *client = *test;

        client_initialize(client, "2025-11-25");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, REQUEST("1", "resources/list", ""));
                fake_host_end(&client->fake, i, 0, cases[i]);
                client_check_error(client, "1", -32603, "");
        }
}

static void test_long_names(void **test) {
        struct client *client = *test;
        char *cursor = NULL, *list = malloc(20000);

        assert_non_null(list);
        snprintf(list, 20000, "[{\"name\":\"%0*d\"},{\"name\":\"%0*d\"},{\"name\":\"last\"}]", 5000, 1, 5000, 2);
        client->fake.prompts = list;
        client_initialize(client, "2025-11-25");
        client_receive(client, REQUEST("1", "prompts/list", ""));
        {
                json_t *answer = client_take(client);

                cursor = strdup(json_string_value(json_object_get(json_object_get(answer, "result"), "nextCursor")));
                json_decref(answer);
        }
        check_page(client, "prompts/list", "prompts", "name", &cursor, "last");
        free(list);
}

#define TOOL_FULL                                                                                                      \
        "{\"name\":\"t\",\"title\":\"T\",\"description\":\"d\",\"inputSchema\":{\"title\":\"kept\"},\"annotations\":{" \
        "\"title\":\"kept\"},\"icons\":[],\"execution\":{\"taskSupport\":\"optional\"},\"_meta\":{}}"
#define PROMPT_FULL                                                                                                    \
        "{\"name\":\"p\",\"title\":\"P\",\"arguments\":[{\"name\":\"a\",\"title\":\"A\"}],\"icons\":[],\"_meta\":{}}"

static void test_downgrades(void **test) {
        static const struct {
                const char *revision, *tool, *prompt;
        } cases[] = {
                {"2024-11-05", "{\"name\":\"t\",\"description\":\"d\",\"inputSchema\":{\"title\":\"kept\"}}",
                 "{\"name\":\"p\",\"arguments\":[{\"name\":\"a\"}]}"},
                {"2025-03-26",
                 "{\"name\":\"t\",\"description\":\"d\",\"inputSchema\":{\"title\":\"kept\"},\"annotations\":{"
                 "\"title\":\"kept\"}}",
                 "{\"name\":\"p\",\"arguments\":[{\"name\":\"a\"}]}"},
                {"2025-06-18",
                 "{\"name\":\"t\",\"title\":\"T\",\"description\":\"d\",\"inputSchema\":{\"title\":\"kept\"},"
                 "\"annotations\":{\"title\":\"kept\"},\"_meta\":{}}",
                 "{\"name\":\"p\",\"title\":\"P\",\"arguments\":[{\"name\":\"a\",\"title\":\"A\"}],\"_meta\":{}}"},
                {"2025-11-25",
                 "{\"name\":\"t\",\"title\":\"T\",\"description\":\"d\",\"inputSchema\":{\"title\":\"kept\"},"
                 "\"annotations\":{\"title\":\"kept\"},\"icons\":[],\"_meta\":{}}",
                 PROMPT_FULL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct client *client;
                char expected[1024];

                client_setup(test);
                client = *test;
                client->fake.tools = "[" TOOL_FULL "]";
                client->fake.prompts = "[" PROMPT_FULL "]";
                client_initialize(client, cases[i].revision);
                client_receive(client, REQUEST("1", "tools/list", ""));
                snprintf(expected, sizeof(expected), J "\"id\":1,\"result\":{\"tools\":[%s]}}\n", cases[i].tool);
                client_check_sent(client, expected);
                client_receive(client, REQUEST("1", "prompts/list", ""));
                snprintf(expected, sizeof(expected), J "\"id\":1,\"result\":{\"prompts\":[%s]}}\n", cases[i].prompt);
                client_check_sent(client, expected);
                client_receive(client, MODERN("2", "tools/list", "")); /* the other era on the same connection */
                client_check_sent(client, J "\"id\":2,\"result\":{" COMPLETE
                                            "\"ttlMs\":60000,\"cacheScope\":\"public\",\"_meta\":{" SERVER
                                            "},\"tools\":[" TOOL_FULL "]}}\n");
                client_teardown(test);
        }
}

static int (*list_of_fake)(struct sbx_host_state *self, int list, struct sbx_output *ret_json, struct sbx_error *err);

/* The host gives a list, and tells that it changed before the one who asked has it. */
static int list_that_changes(struct sbx_host_state *self, int list, struct sbx_output *ret_json,
                             struct sbx_error *err) {
        int r = list_of_fake(self, list, ret_json, err);

        self->prompts = "[{\"name\":\"new\"}]";
        fake_host_changed(self, SBX_CHANGE_PROMPTS, NULL, NULL);
        return r;
}

static void test_change_while_it_is_asked_for(void **test) {
        struct client *client = *test;

        client->fake.prompts = "[{\"name\":\"old\"}]";
        list_of_fake = client->fake.services.list;
        client->fake.services.list = list_that_changes;
        client_receive(client, MODERN("1", "prompts/list", ""));
        client->fake.services.list = list_of_fake;
        mcp_text_append(&client->sent, "", 1);
        assert_non_null(strstr(client->sent.data, "\"old\""));
        mcp_text_free(&client->sent);
        client_receive(client, MODERN("2", "prompts/list", "")); /* what was old before it was kept is not kept */
        mcp_text_append(&client->sent, "", 1);
        assert_non_null(strstr(client->sent.data, "\"new\""));
        mcp_text_free(&client->sent);
        client_receive(client, MODERN("3", "prompts/list", ""));
        mcp_text_free(&client->sent);
        assert_int_equal(client->fake.list_calls, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_pages, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_page_that_ends_with_the_list, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_bad_cursors, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_cursor_of_another_principal, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_list_that_changes_between_pages, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_resources, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_resources_that_are_none, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_long_names, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_change_while_it_is_asked_for, client_setup, client_teardown),
                cmocka_unit_test(test_downgrades),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
