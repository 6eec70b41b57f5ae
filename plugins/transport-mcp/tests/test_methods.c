/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of both eras: what they take, what they hand on, what they answer. */
#include "client.h"

/* ---- methods ------------------------------------------------------------------------------------------- */

static void test_methods(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, J "\"id\":\"p\",\"method\":\"ping\",\"params\":{\"_meta\":{}}}");
        client_check_sent(client, J "\"id\":\"p\",\"result\":{}}\n");
        client_receive(client, J "\"id\":1,\"method\":\"subscriptions/list\"}");
        client_check_error(client, "1", -32601, "subscriptions/list");
        client_receive(client,
                       J "\"id\":1,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"x\"}}"); /* of 2025-11-25 */
        client_check_error(client, "1", -32601, "tasks/get");
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

/* ---- requests of the host ------------------------------------------------------------------------------ */

static void check_request(struct client *client, const char *text, uint32_t kind, const char *name,
                          const char *arguments) {
        size_t task = fake_host_task_count(&client->fake);

        client_receive(client, text);
        client_check_silent(client);
        assert_int_equal(fake_host_task_count(&client->fake), task + 1);
        assert_int_equal(client->fake.tasks[task].kind, kind);
        assert_string_equal(client->fake.tasks[task].name, name);
        assert_string_equal(client->fake.tasks[task].arguments, arguments);
        assert_string_equal(client->fake.tasks[task].principal, "somebody");
        fake_host_end(&client->fake, task, 0, "{\"a\":1}");
}

#define ANSWER(id) J "\"id\":" id ",\"result\":{\"a\":1}}\n"
#define MODERN_ANSWER(id, caching) J "\"id\":" id ",\"result\":{" COMPLETE caching "\"_meta\":{" SERVER "},\"a\":1}}\n"
#define UNCACHED "\"ttlMs\":0,\"cacheScope\":\"private\","
#define REFERENCE "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\",\"value\":\"b\"}"

static void test_requests(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-11-25");
        check_request(client, REQUEST("1", "resources/read", "\"uri\":\"a:b\""), SBX_REQUEST_READ, "a:b", "{}");
        client_check_sent(client, ANSWER("1"));
        check_request(client, REQUEST("2", "prompts/get", "\"name\":\"p\",\"arguments\":{\"x\":\"y\"}"),
                      SBX_REQUEST_PROMPT, "p", "{\"x\":\"y\"}");
        client_check_sent(client, ANSWER("2"));
        check_request(client, REQUEST("3", "completion/complete", REFERENCE ",\"_meta\":{},\"more\":1"),
                      SBX_REQUEST_COMPLETION, "", "{" REFERENCE "}");
        client_check_sent(client, ANSWER("3"));
        check_request(client, MODERN("4", "resources/read", ",\"uri\":\"a:b\""), SBX_REQUEST_READ, "a:b", "{}");
        client_check_sent(client, MODERN_ANSWER("4", UNCACHED));
        check_request(client, MODERN("5", "prompts/get", ",\"name\":\"p\""), SBX_REQUEST_PROMPT, "p", "{}");
        client_check_sent(client, MODERN_ANSWER("5", ""));
        check_request(client, MODERN("6", "completion/complete", "," REFERENCE ",\"context\":{\"arguments\":{}}"),
                      SBX_REQUEST_COMPLETION, "", "{" REFERENCE ",\"context\":{\"arguments\":{}}}");
        client_check_sent(client, MODERN_ANSWER("6", ""));
}

static void test_bad_requests(void **test) {
        static const char *const cases[][2] = {
                {REQUEST("1", "resources/read", ""), "params.uri"},
                {REQUEST("1", "resources/read", "\"uri\":7"), "params.uri"},
                {REQUEST("1", "resources/read", "\"uri\":\"\""), "params.uri"},
                {REQUEST("1", "resources/read", "\"uri\":\"a\\u0000\""), "params.uri"},
                {REQUEST("1", "prompts/get", ""), "params.name"},
                {REQUEST("1", "prompts/get", "\"name\":[]"), "params.name"},
                {REQUEST("1", "prompts/get", "\"name\":\"p\",\"arguments\":[]"), "params.arguments"},
                {REQUEST("1", "prompts/get", "\"name\":\"p\",\"arguments\":{\"x\":1}"), "params.arguments"},
                {REQUEST("1", "completion/complete", ""), "params.ref"},
                {REQUEST("1", "completion/complete", "\"ref\":{\"type\":\"ref/other\"}"), "params.ref.type"},
                {REQUEST("1", "completion/complete", "\"ref\":{\"type\":\"ref/prompt\"}"), "params.ref.name"},
                {REQUEST("1", "completion/complete", "\"ref\":{\"type\":\"ref/resource\",\"name\":\"x\"}"),
                 "params.ref.uri"},
                {REQUEST("1", "completion/complete", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"}"),
                 "params.argument"},
                {REQUEST("1", "completion/complete", REFERENCE ",\"context\":7"), "params.context"},
                {REQUEST("1", "completion/complete", REFERENCE ",\"context\":{\"arguments\":[]}"), "params.context"},
                {REQUEST("1", "logging/setLevel", ""), "params.level"},
                {REQUEST("1", "logging/setLevel", "\"level\":\"loud\""), "params.level"},
                {REQUEST("1", "logging/setLevel", "\"level\":3"), "params.level"},
        };
        struct client *client = *test;

        client_initialize(client, "2025-11-25");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, cases[i][0]);
                client_check_error(client, "1", -32602, cases[i][1]);
        }
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

/* ---- the log level ------------------------------------------------------------------------------------- */

static void check_log(struct client *client, size_t task, const char *level, bool heard) {
        fake_host_log(&client->fake, task, level, "l", "\"line\"");
        if (heard) {
                json_t *news = client_take(client), *params = json_object_get(news, "params");

                assert_string_equal(json_string_value(json_object_get(news, "method")), "notifications/message");
                assert_string_equal(json_string_value(json_object_get(params, "level")), level);
                json_decref(news);
        }
        client_check_silent(client);
}

static void test_log_level(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-11-25");
        client_receive(client, CALL("1", ""));
        check_log(client, 0, "debug", false);
        check_log(client, 0, "info", true);
        fake_host_end(&client->fake, 0, 0, "{}");
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n");
        client_receive(client, REQUEST("2", "logging/setLevel", "\"level\":\"error\""));
        client_check_sent(client, J "\"id\":2,\"result\":{}}\n");
        client_receive(client, CALL("3", ""));
        check_log(client, 1, "warning", false);
        check_log(client, 1, "critical", true);
        fake_host_end(&client->fake, 1, 0, "{}");
        client_check_sent(client, J "\"id\":3,\"result\":{}}\n");
        client_receive(client, MODERN("4", "tools/call", ",\"name\":\"echo\"")); /* which asked for no log */
        check_log(client, 2, "emergency", false);
        fake_host_end(&client->fake, 2, 0, "{\"a\":1}");
        client_check_sent(client, MODERN_ANSWER("4", ""));
}

/* ---- the modern era ------------------------------------------------------------------------------------ */

static void test_discover(void **test) {
        struct client *client = *test;
        json_t *answer, *result, *capabilities;

        client_receive(client, MODERN("\"d\"", "server/discover", ""));
        answer = client_take(client);
        result = json_object_get(answer, "result");
        capabilities = json_object_get(result, "capabilities");
        assert_string_equal(json_string_value(json_object_get(result, "resultType")), "complete");
        assert_int_equal(json_array_size(json_object_get(result, "supportedVersions")), 1);
        assert_true(json_integer_value(json_object_get(result, "ttlMs")) > 0);
        assert_string_equal(json_string_value(json_object_get(result, "cacheScope")), "public");
        assert_true(json_string_length(json_object_get(result, "instructions")) > 100);
        assert_non_null(json_object_get(json_object_get(result, "_meta"), "io.modelcontextprotocol/serverInfo"));
        assert_non_null(json_object_get(json_object_get(capabilities, "extensions"), "io.modelcontextprotocol/tasks"));
        json_decref(answer);
}

static void test_removed_methods(void **test) {
        static const char *const cases[] = {
                MODERN("1", "initialize", ",\"protocolVersion\":\"2026-07-28\""),
                MODERN("1", "ping", ""),
                MODERN("1", "logging/setLevel", ",\"level\":\"info\""),
                MODERN("1", "resources/subscribe", ",\"uri\":\"a:b\""),
                MODERN("1", "resources/unsubscribe", ",\"uri\":\"a:b\""),
                MODERN("1", "unknown/method", ""),
        };
        struct client *client = *test;

        for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, cases[i / 2]);
                client_check_error(client, "1", -32601, "no such method");
                if (i == 0)
                        client_initialize(client, "2025-11-25"); /* which changes nothing for modern requests */
        }
}

static void test_unknown_version(void **test) {
        struct client *client = *test;
        json_t *answer, *error;

        client_receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                                 "\"io.modelcontextprotocol/protocolVersion\":\"v999.0.0\","
                                 "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
        answer = client_take(client);
        error = json_object_get(answer, "error");
        assert_int_equal(json_integer_value(json_object_get(error, "code")), -32022);
        assert_string_equal(json_string_value(json_object_get(json_object_get(error, "data"), "requested")),
                            "v999.0.0");
        json_decref(answer);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_methods, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_tools_list, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_requests, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_bad_requests, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_log_level, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_discover, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_removed_methods, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_unknown_version, client_setup, client_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
