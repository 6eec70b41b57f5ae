/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation: handshake, eras, batches. */
#include "client.h"

/* ---- handshake ----------------------------------------------------------------------------------------- */

static void test_initialize(void **test) {
        struct client *client = *test;
        json_t *answer, *result;

        client_receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"1999-01-01\","
                                 "\"capabilities\":{\"roots\":{}},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
        answer = client_take(client);
        result = json_object_get(answer, "result");
        assert_string_equal(json_string_value(json_object_get(result, "protocolVersion")), "2025-11-25");
        assert_int_equal(json_object_size(json_object_get(result, "capabilities")), 5);
        assert_true(json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools")));
        assert_null(json_object_get(json_object_get(result, "capabilities"), "extensions"));
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "serverInfo"), "name")),
                            "SniparaSandbox");
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "serverInfo"), "version")),
                            SBX_VERSION);
        assert_true(json_string_length(json_object_get(result, "instructions")) > 100);
        json_decref(answer);

        client_receive(client, J "\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}}");
        client_check_error(client, "2", -32600, "initialized already");
}

static void test_bad_initialize(void **test) {
        struct client *client = *test;

        client_receive(client, J "\"id\":1,\"method\":\"initialize\"}");
        client_check_error(client, "1", -32602, "protocolVersion");
        client_receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":7}}");
        client_check_error(client, "1", -32602, "protocolVersion");
        client_receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
                                 "\"capabilities\":[]}}");
        client_check_error(client, "1", -32602, "capabilities");
        client_receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":[\"2025-06-18\"]}");
        client_check_error(client, "1", -32602, "by name");
        client_initialize(client, "2025-06-18"); /* none of it counted */
}

static void test_before_initialize(void **test) {
        struct client *client = *test;

        client_receive(client, J "\"id\":1,\"method\":\"ping\"}");
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n");
        client_receive(client, J "\"id\":2,\"method\":\"tools/list\"}");
        client_check_error(client, "2", -32600, "initialize");
        client_receive(client, CALL("3", ""));
        client_check_error(client, "3", -32600, "initialize");
        client_receive(client, J "\"id\":4,\"method\":\"server/discover\"}"); /* modern by its name, but says nothing */
        client_check_error(client, "4", -32602, "params._meta");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}");
        client_check_sent(client, "");
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

#define PROGRESS(token, rest)                                                                                          \
        J "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":" token "," rest "}}\n"

/* ---- batches ------------------------------------------------------------------------------------------- */

static void test_batch(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-03-26");
        client_receive(
                client,
                "[" J "\"id\":1,\"method\":\"ping\"}," CALL(
                        "2", ",\"_meta\":{\"progressToken\":1}") ","
                                                                 "7," J
                                                                 "\"method\":\"notifications/initialized\"}," CALL(
                                                                         "3", "") "," CALL("4", "") "]");
        client_check_sent(client, "");
        fake_host_progress(&client->fake, 0, 1, 0, NULL); /* not part of the answer: at once */
        client_check_sent(client, PROGRESS("1", "\"progress\":1"));
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}");
        fake_host_end(&client->fake, 2, 0, "{\"a\":4}");
        fake_host_end(&client->fake, 1, -ECANCELED, "cancelled");
        client_check_sent(client, "");
        fake_host_end(&client->fake, 0, 0, "{\"a\":2}");
        client_check_sent(client,
                          "[" J "\"id\":1,\"result\":{}}," J "\"id\":null,\"error\":{\"code\":-32600,\"message\":\"a "
                          "message must be a JSON object\"}}," J "\"id\":4,\"result\":{\"a\":4}}," J
                          "\"id\":2,\"result\":{\"a\":2}}]\n");

        client_receive(client, "[" J "\"method\":\"notifications/initialized\"}," J "\"id\":1,\"result\":{}}]");
        client_check_sent(client, "");
        client_receive(client, "[]");
        client_check_error(client, "null", -32600, "empty");
        client->fake.end_on_cancel = true;
        client_receive(client, "[" CALL("5", "") "]");
        client_receive(client, "[" J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}]");
        client_check_sent(client, "");
}

static void test_large_batch(void **test) {
        struct client *client = *test;
        struct mcp_text text = MCP_TEXT(1 << 20);

        client_initialize(client, "2025-03-26");
        mcp_text_append_literal(&text, "[1");
        for (int i = 1; i < MCP_BATCH_MAX; i++)
                mcp_text_append_literal(&text, ",1");
        mcp_text_append_literal(&text, "]");
        mcp_connection_receive(client->connection, mcp_text_bytes(&text), &client->channel);
        assert_true(client->sent.size > 1000 * 50);
        mcp_text_free(&client->sent);
        text.size--;
        mcp_text_append_literal(&text, ",1]");
        mcp_connection_receive(client->connection, mcp_text_bytes(&text), &client->channel);
        client_check_error(client, "null", -32600, "at most 1000");
        mcp_text_free(&text);
}

static void test_no_batch(void **test) {
        static const char *const others[] = {"2024-11-05", "2025-06-18", "2025-11-25"};

        for (size_t i = 0; i < 3; i++) {
                struct client *client;

                client_setup(test);
                client = *test;
                client_receive(client, "[" J "\"id\":1,\"method\":\"ping\"}]"); /* nor before the handshake */
                client_check_error(client, "null", -32600, "2025-03-26");
                client_initialize(client, others[i]);
                client_receive(client, "[" J "\"id\":1,\"method\":\"ping\"}]");
                client_check_error(client, "null", -32600, "2025-03-26");
                client_teardown(test);
        }
}

/* ---- eras ---------------------------------------------------------------------------------------------- */

static void check_tools(struct client *client, const char *id, bool modern) {
        char expected[2048];

        snprintf(expected, sizeof(expected), J "\"id\":%s,\"result\":{%s\"tools\":%s}}\n", id,
                 modern ? COMPLETE "\"ttlMs\":60000,\"cacheScope\":\"public\",\"_meta\":{" SERVER "}," : "",
                 fake_tools);
        client_check_sent(client, expected);
}

/* Clients that try what the server speaks, on one pipe: any order, and neither era disturbs the other. */
static void test_both_eras(void **test) {
        struct client *client = *test;

        client_receive(client, MODERN("1", "tools/list", ""));
        check_tools(client, "1", true);
        client_receive(client, REQUEST("2", "tools/list", ""));
        client_check_error(client, "2", -32600, "initialize");
        client_initialize(client, "2025-06-18");
        client_receive(client, REQUEST("3", "tools/list", ""));
        check_tools(client, "3", false);
        client_receive(client, MODERN("4", "tools/list", ""));
        check_tools(client, "4", true);
        client_receive(client, CALL("5", ""));
        client_receive(client, MODERN("6", "tools/call", ",\"name\":\"echo\""));
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":6}}");
        fake_host_end(&client->fake, 1, -ECANCELED, "cancelled");
        client_check_silent(client);
        fake_host_end(&client->fake, 0, 0, "{}");
        client_check_sent(client, J "\"id\":5,\"result\":{}}\n");
}

static void test_modern_in_a_batch(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-03-26");
        client_receive(client, "[" MODERN("1", "tools/list", "") "]");
        client_check_sent(client,
                          "[" J "\"id\":1,\"error\":{\"code\":-32600,\"message\":\"tools/list: this revision of the "
                          "protocol has no batches\"}}]\n");
}

/* A modern HTTP request is modern whatever it says; an HTTP session is legacy whatever a message says. */
static void test_other_kinds(void **test) {
        struct client *request = client_make(), *session = client_make();

        client_open(request, MCP_CONNECTION_REQUEST);
        client_receive(request, REQUEST("1", "tools/list", ""));
        client_check_error(request, "1", -32602, "params._meta");
        client_receive(request, REQUEST("2", "initialize", "\"protocolVersion\":\"2025-11-25\""));
        client_check_error(request, "2", -32601, "no such method");
        client_receive(request, "[" MODERN("1", "tools/list", "") "]");
        client_check_error(request, "null", -32600, "batches");
        client_receive(request, MODERN("3", "tools/list", ""));
        check_tools(request, "3", true);
        client_close(request);

        client_open(session, MCP_CONNECTION_SESSION);
        client_receive(session, MODERN("1", "server/discover", ""));
        client_check_error(session, "1", -32601, "no such method");
        client_initialize(session, "2025-11-25");
        client_receive(session, MODERN("3", "tools/list", ""));
        check_tools(session, "3", false);
        client_close(session);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_initialize, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_bad_initialize, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_before_initialize, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_batch, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_large_batch, client_setup, client_teardown),
                cmocka_unit_test(test_no_batch),
                cmocka_unit_test_setup_teardown(test_both_eras, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_modern_in_a_batch, client_setup, client_teardown),
                cmocka_unit_test(test_other_kinds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
