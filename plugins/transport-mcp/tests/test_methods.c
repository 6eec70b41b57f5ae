/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of both eras that need no call. */
#include "client.h"

/* ---- methods ------------------------------------------------------------------------------------------- */

static void test_methods(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, J "\"id\":\"p\",\"method\":\"ping\",\"params\":{\"_meta\":{}}}");
        client_check_sent(client, J "\"id\":\"p\",\"result\":{}}\n");
        client_receive(client, J "\"id\":1,\"method\":\"subscriptions/list\"}");
        client_check_error(client, "1", -32601, "subscriptions/list");
        client_receive(client, J "\"id\":1,\"method\":\"tools/cal\\\"l\xC3\xA9\"}");
        client_check_error(client, "1", -32601, "tools/cal\"l\xC3\xA9");
        client_receive(client, J "\"id\":1,\"method\":\"notifications/initialized\"}");
        client_check_error(client, "1", -32601, "no such method");

        /* Notifications are never answered, whatever they say. */
        client_receive(client, J "\"method\":\"ping\"}");
        client_receive(client, J "\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}");
        client_receive(client, J "\"method\":\"notifications/unknown\"}");
        client_receive(client, J "\"method\":\"notifications/cancelled\"}");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":[1]}");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1.5}}");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}");
        /* Nor are answers to what nobody asked. */
        client_receive(client, J "\"id\":5,\"result\":{}}");
        client_receive(client, J "\"id\":5,\"error\":{\"code\":1,\"message\":\"\"}}");
        client_check_sent(client, "");
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

/* What the thread sends of changes, in whichever order. */
static void check_news(struct client *client, const char *first, const char *second) {
        for (size_t i = 0; i < 1 + (size_t)(second != NULL); i++) {
                json_t *news = client_take(client);
                const char *method = json_string_value(json_object_get(news, "method"));

                assert_non_null(method);
                assert_true(strcmp(method, first) == 0 || (second != NULL && strcmp(method, second) == 0));
                json_decref(news);
        }
        client_check_silent(client);
}

static void test_tools_list(void **test) {
        struct client *client = *test;
        char expected[1024];

        client_initialize(client, "2025-06-18");
        snprintf(expected, sizeof(expected), J "\"id\":1,\"result\":{\"tools\":%s}}\n", fake_tools);
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        client_check_sent(client, expected);
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{}}");
        client_check_sent(client, expected);
        assert_int_equal(client->fake.list_calls, 1);
        client->fake.tools = "[\n]";
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{}}");
        client_check_sent(client, expected); /* as long as nobody says that it changed */
        fake_host_changed(&client->fake, SBX_CHANGE_PROMPTS, NULL, NULL);
        fake_host_changed(&client->fake, SBX_CHANGE_TOOLS, NULL, NULL);
        check_news(client, "notifications/prompts/list_changed", "notifications/tools/list_changed");
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        client_check_sent(client, J "\"id\":1,\"result\":{\"tools\":[]}}\n");
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}");
        client_check_error(client, "1", -32602, "cursor");
        client->fake.tools = NULL;
        fake_host_changed(&client->fake, SBX_CHANGE_TOOLS, NULL, NULL);
        check_news(client, "notifications/tools/list_changed", NULL);
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        client_check_error(client, "1", -32603, "no list today. Try again.");
        client->fake.tools = "[}";
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        client_check_error(client, "1", -32603, "no list to give");
        client_receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":[]}");
        client_check_error(client, "1", -32602, "by name");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_methods, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_tools_list, client_setup, client_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
