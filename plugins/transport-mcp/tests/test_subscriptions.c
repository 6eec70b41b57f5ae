/* SPDX-License-Identifier: Apache-2.0 */
/* Who hears of what: listening streams of modern clients, legacy connections, tasks; ends in every order. */
#include "client.h"

#include "subscriptions.h"

#define TAG(id) "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":" id "}"
#define LISTEN(id, filter) MODERN(id, "subscriptions/listen", ",\"notifications\":{" filter "}")
#define ACK(id, filter)                                                                                                \
        J "\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{" TAG(id) ",\"notifications\":{" filter \
                                                                                         "}}}\n"
#define END(id)                                                                                                        \
        J "\"id\":" id ",\"result\":{" COMPLETE "\"_meta\":{" SERVER ",\"io.modelcontextprotocol/subscriptionId\":" id \
          "}}}\n"

/* The next message is that notification, with these params. */
static void check_news(struct client *client, const char *method, const char *params) {
        json_t *news = client_take(client), *expected = json_loads(params, 0, NULL);
        char *got = json_dumps(news, JSON_COMPACT);

        assert_non_null(expected);
        if (strcmp(json_string_value(json_object_get(news, "method")), method) != 0 ||
            !json_equal(json_object_get(news, "params"), expected))
                fail_msg("not %s %s: %s", method, params, got);
        free(got);
        json_decref(expected);
        json_decref(news);
}

static void changed(struct client *client, uint32_t kind, const char *uri) {
        fake_host_changed(&client->fake, kind, uri, NULL);
}

/* ---- modern -------------------------------------------------------------------------------------------- */

static void test_only_what_was_asked_for(void **test) {
        struct client *client = *test;

        client_receive(client,
                       LISTEN("\"s\"", "\"toolsListChanged\":true,\"promptsListChanged\":false,\"future\":[1]"));
        client_check_sent(client, ACK("\"s\"", "\"toolsListChanged\":true"));
        changed(client, SBX_CHANGE_PROMPTS, NULL);
        changed(client, SBX_CHANGE_RESOURCES, NULL);
        changed(client, SBX_CHANGE_RESOURCE, "a:b");
        changed(client, SBX_CHANGE_TOOLS, NULL);
        check_news(client, "notifications/tools/list_changed", "{" TAG("\"s\"") "}");
        client_check_silent(client);
}

static void test_everything(void **test) {
        struct client *client = *test;

        client_receive(client,
                       LISTEN("7", "\"toolsListChanged\":true,\"promptsListChanged\":true,"
                                   "\"resourcesListChanged\":true,\"resourceSubscriptions\":[\"a:b\",\"a:b\"]"));
        client_check_sent(client, ACK("7", "\"toolsListChanged\":true,\"promptsListChanged\":true,"
                                           "\"resourcesListChanged\":true,\"resourceSubscriptions\":[\"a:b\"]"));
        changed(client, SBX_CHANGE_RESOURCES, NULL);
        check_news(client, "notifications/resources/list_changed", "{" TAG("7") "}");
        changed(client, SBX_CHANGE_RESOURCE, "a:b");
        check_news(client, "notifications/resources/updated", "{" TAG("7") ",\"uri\":\"a:b\"}");
        changed(client, SBX_CHANGE_PROMPTS, NULL);
        check_news(client, "notifications/prompts/list_changed", "{" TAG("7") "}");
        client_check_silent(client);
}

static void test_resources_by_prefix(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN("1", "\"resourceSubscriptions\":[\"repl://s/files/d/x\",\"repl://s2/files/y\"]"));
        client_check_sent(client, ACK("1", "\"resourceSubscriptions\":[\"repl://s/files/d/x\",\"repl://s2/files/y\"]"));
        changed(client, SBX_CHANGE_RESOURCE, "repl://s");       /* not a beginning: it has no '/' at its end */
        changed(client, SBX_CHANGE_RESOURCE, "repl://s/files"); /* nor this */
        changed(client, SBX_CHANGE_RESOURCE, "");
        changed(client, SBX_CHANGE_RESOURCE, "repl://s/files/d/x/");
        changed(client, SBX_CHANGE_RESOURCE, "repl://s/files/");
        check_news(client, "notifications/resources/updated", "{" TAG("1") ",\"uri\":\"repl://s/files/d/x\"}");
        changed(client, SBX_CHANGE_RESOURCE, "repl://s2/files/y");
        check_news(client, "notifications/resources/updated", "{" TAG("1") ",\"uri\":\"repl://s2/files/y\"}");
        client_check_silent(client);
}

static void test_principals(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN("1", "\"resourceSubscriptions\":[\"a:b\"],\"toolsListChanged\":true"));
        client_check_sent(client, ACK("1", "\"toolsListChanged\":true,\"resourceSubscriptions\":[\"a:b\"]"));
        fake_host_changed(&client->fake, SBX_CHANGE_RESOURCE, "a:b", "else");
        fake_host_changed(&client->fake, SBX_CHANGE_TOOLS, NULL, "");
        fake_host_changed(&client->fake, SBX_CHANGE_RESOURCE, "a:b", "somebody");
        check_news(client, "notifications/resources/updated", "{" TAG("1") ",\"uri\":\"a:b\"}");
        client_check_silent(client);
}

static void test_refused(void **test) {
        static const char *const cases[][2] = {
                {MODERN("1", "subscriptions/listen", ""), "params.notifications"},
                {MODERN("1", "subscriptions/listen", ",\"notifications\":[]"), "params.notifications"},
                {LISTEN("1", "\"toolsListChanged\":1"), "true or false"},
                {LISTEN("1", "\"resourcesListChanged\":null"), "true or false"},
                {LISTEN("1", "\"resourceSubscriptions\":\"a:b\""), "array of strings"},
                {LISTEN("1", "\"resourceSubscriptions\":[7]"), "must be a string"},
                {LISTEN("1", "\"resourceSubscriptions\":[\"\"]"), "must be a string"},
                {LISTEN("1", "\"resourceSubscriptions\":[\"a\\u0000\"]"), "must be a string"},
        };
        struct client *client = *test;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, cases[i][0]);
                client_check_error(client, "1", -32602, cases[i][1]);
        }
        client_receive(client, J "\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{}}}");
        client_check_error(client, "1", -32602, "params._meta");
}

static void test_too_much(void **test) {
        struct client *client = *test;
        struct mcp_text request = MCP_TEXT(1 << 20);

        mcp_text_append_literal(&request, J "\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{" META(
                                                  "") ",\"notifications\":{\"resourceSubscriptions\":[\"u\"");
        for (int i = 1; i < 257; i++) {
                mcp_text_append_literal(&request, ",\"u:");
                mcp_text_append_int(&request, i);
                mcp_text_append_literal(&request, "\"");
        }
        mcp_text_append_literal(&request, "]}}}");
        mcp_connection_receive(client->connection, mcp_text_bytes(&request), &client->channel);
        client_check_error(client, "1", -32602, "at most 256");
        mcp_text_free(&request);
}

static void test_same_id(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN("1", ""));
        client_check_sent(client, ACK("1", ""));
        client_receive(client, LISTEN("1", ""));
        client_check_error(client, "1", -32600, "under way already");
        client_receive(client, LISTEN("\"1\"", "")); /* another */
        client_check_sent(client, ACK("\"1\"", ""));
}

static void test_cancel(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN("1", "\"toolsListChanged\":true"));
        client_receive(client, LISTEN("2", "\"toolsListChanged\":true"));
        client_check_sent(client, ACK("1", "\"toolsListChanged\":true") ACK("2", "\"toolsListChanged\":true"));
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        client_check_silent(client); /* what is cancelled has no answer */
        changed(client, SBX_CHANGE_TOOLS, NULL);
        check_news(client, "notifications/tools/list_changed", "{" TAG("2") "}");
        client_check_silent(client);
        client_receive(client, LISTEN("1", "")); /* the id is free */
        client_check_sent(client, ACK("1", ""));
}

static void test_graceful_end(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN("\"s\"", ""));
        client_check_sent(client, ACK("\"s\"", ""));
        mcp_subscriptions_stop(mcp_server_subscriptions(client->server));
        client_check_sent(client, END("\"s\""));
        client_receive(client, LISTEN("2", ""));
        client_check_error(client, "2", -32603, "about to end");
        changed(client, SBX_CHANGE_TOOLS, NULL);
        client_check_silent(client);
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

#define LISTEN_TASKS(capabilities)                                                                                     \
        J "\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{" META(                                            \
                capabilities) ",\"notifications\":{"                                                                   \
                              "\"taskIds\":[\"t1\",\"t2\"]}}}"
#define WITH_TASKS "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}"

static void test_tasks(void **test) {
        struct client *client = *test;
        struct mcp_subscriptions *subscriptions = mcp_server_subscriptions(client->server);

        client_receive(client, LISTEN_TASKS(WITH_TASKS));
        client_check_sent(client, ACK("1", "\"taskIds\":[\"t1\",\"t2\"]"));
        mcp_subscriptions_task(subscriptions, "else", "t1", BYTES("{\"taskId\":\"t1\"}"));
        mcp_subscriptions_task(subscriptions, "somebody", "t3", BYTES("{\"taskId\":\"t3\"}"));
        changed(client, SBX_CHANGE_RESOURCE, "t1"); /* not a resource */
        mcp_subscriptions_task(subscriptions, "somebody", "t2", BYTES("{\"taskId\":\"t2\",\"status\":\"working\"}"));
        check_news(client, "notifications/tasks", "{" TAG("1") ",\"taskId\":\"t2\",\"status\":\"working\"}");
        client_check_silent(client);
}

static void test_tasks_without_the_extension(void **test) {
        struct client *client = *test;

        client_receive(client, LISTEN_TASKS(""));
        client_check_sent(client, ACK("1", ""));
}

/* ---- legacy -------------------------------------------------------------------------------------------- */

static void test_legacy(void **test) {
        struct client *client = *test;

        changed(client, SBX_CHANGE_TOOLS, NULL); /* nobody there yet */
        client_initialize(client, "2025-06-18");
        changed(client, SBX_CHANGE_TOOLS, NULL);
        check_news(client, "notifications/tools/list_changed", "{}");
        changed(client, SBX_CHANGE_RESOURCE, "a:b");
        client_receive(client, REQUEST("1", "resources/subscribe", "\"uri\":\"a:b\""));
        client_receive(client, REQUEST("2", "resources/subscribe", "\"uri\":\"a:c\""));
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n" J "\"id\":2,\"result\":{}}\n");
        changed(client, SBX_CHANGE_RESOURCE, "a:b");
        check_news(client, "notifications/resources/updated", "{\"uri\":\"a:b\"}");
        client_receive(client, REQUEST("3", "resources/unsubscribe", "\"uri\":\"a:b\""));
        client_receive(client, REQUEST("4", "resources/unsubscribe", "\"uri\":\"never\""));
        client_check_sent(client, J "\"id\":3,\"result\":{}}\n" J "\"id\":4,\"result\":{}}\n");
        changed(client, SBX_CHANGE_RESOURCE, "a:b");
        changed(client, SBX_CHANGE_RESOURCE, "a:c");
        check_news(client, "notifications/resources/updated", "{\"uri\":\"a:c\"}");
        client_receive(client, REQUEST("5", "resources/subscribe", ""));
        client_check_error(client, "5", -32602, "params.uri");
        mcp_connection_set_channel(client->connection, NULL); /* nothing to be told through: not an error */
        changed(client, SBX_CHANGE_TOOLS, NULL);
        client_receive(client, REQUEST("6", "ping", ""));
        client_check_sent(client, J "\"id\":6,\"result\":{}}\n");
}

static void test_legacy_too_many(void **test) {
        struct client *client = *test;
        char text[256];

        client_initialize(client, "2025-06-18");
        for (int i = 0; i < 256; i++) {
                snprintf(text, sizeof(text), REQUEST("1", "resources/subscribe", "\"uri\":\"u:%d\""), i);
                client_receive(client, text);
                client_check_sent(client, J "\"id\":1,\"result\":{}}\n");
        }
        client_receive(client, REQUEST("2", "resources/subscribe", "\"uri\":\"one more\""));
        client_check_error(client, "2", -32010, "at most 256");
        client_receive(client, REQUEST("3", "resources/subscribe", "\"uri\":\"u:7\"")); /* that one is there */
        client_check_sent(client, J "\"id\":3,\"result\":{}}\n");
}

/* ---- limits and threads -------------------------------------------------------------------------------- */

static void test_too_many_listeners(void **test) {
        struct client *client = *test;
        char text[512];

        for (unsigned i = 0; i < MCP_LISTENERS_OF_PRINCIPAL_MAX; i++) {
                snprintf(text, sizeof(text), LISTEN("%u", ""), i);
                client_receive(client, text);
        }
        mcp_text_free(&client->sent);
        client_receive(client, LISTEN("\"more\"", ""));
        client_check_error(client, "\"more\"", -32010, "too many subscriptions");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}");
        client_receive(client, LISTEN("\"more\"", ""));
        client_check_sent(client, ACK("\"more\"", ""));
}

static void *change_on(void *data) {
        struct client *client = data;

        for (int i = 0; i < 2000; i++)
                fake_host_changed(&client->fake, (uint32_t)(1 + i % 4), "a:b/", NULL);
        return NULL;
}

/* The acknowledgement is the first message of each subscription, and nothing comes after it was cancelled. */
static void test_races(void **test) {
        struct client *client = *test;
        bool known[40] = {false};
        pthread_t thread;
        char text[512];

        assert_int_equal(pthread_create(&thread, NULL, change_on, client), 0);
        for (int i = 0; i < 40; i++) {
                snprintf(text, sizeof(text),
                         LISTEN("%d", "\"toolsListChanged\":true,\"resourceSubscriptions\":[\"a:b/c\"]"), i);
                client_receive(client, text);
                if (i % 2 == 0) {
                        snprintf(text, sizeof(text),
                                 J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}", i);
                        client_receive(client, text);
                }
        }
        pthread_join(thread, NULL);
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        client_receive(client, REQUEST("\"last\"", "ping", ""));
        for (;;) {
                json_t *message = client_take(client), *params = json_object_get(message, "params");
                const json_t *id =
                        json_object_get(json_object_get(params, "_meta"), "io.modelcontextprotocol/subscriptionId");
                const char *method = json_string_value(json_object_get(message, "method"));

                if (method == NULL) {
                        json_decref(message);
                        break;
                }
                assert_in_range(json_integer_value(id), 0, 39);
                assert_true(known[json_integer_value(id)] ==
                            (strcmp(method, "notifications/subscriptions/acknowledged") != 0));
                known[json_integer_value(id)] = true;
                json_decref(message);
        }
        for (int i = 0; i < 40; i++)
                assert_true(known[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_only_what_was_asked_for, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_everything, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_resources_by_prefix, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_principals, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_refused, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_too_much, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_same_id, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_cancel, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_graceful_end, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_tasks, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_tasks_without_the_extension, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_legacy, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_legacy_too_many, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_too_many_listeners, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_races, client_setup, client_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
