/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation: handshake, methods, calls that end in every order, progress, cancelling, batches. */
#include "test.h"

#include <jansson.h>

#include "connection.h"
#include "fake_host.h"

/* A client: what was sent to it, one message a line. */
struct client {
        struct sbx_host_state fake;
        struct mcp_settings settings;
        struct mcp_connection *connection;
        struct mcp_channel channel;
        pthread_mutex_t lock; /* protects `sent` */
        struct mcp_text sent;
};

static void record(void *data, const struct sbx_bytes *parts, size_t count, bool droppable) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        for (size_t i = 0; i < count; i++)
                mcp_text_append(&client->sent, parts[i].data, parts[i].size);
        mcp_text_append(&client->sent, "\n", 1);
        pthread_mutex_unlock(&client->lock);
}

static int setup(void **test) {
        struct client *client = calloc(1, sizeof(*client));

        assert_non_null(client);
        fake_host_init(&client->fake);
        client->settings = (struct mcp_settings){&client->fake.services, "somebody", 4};
        client->channel = (struct mcp_channel){client, record};
        client->sent = (struct mcp_text)MCP_TEXT(64 << 20);
        pthread_mutex_init(&client->lock, NULL);
        assert_int_equal(mcp_connection_new(&client->settings, &client->connection, NULL), 0);
        *test = client;
        return 0;
}

static int teardown(void **test) {
        struct client *client = *test;

        mcp_connection_wait(client->connection);
        mcp_connection_free(client->connection);
        fake_host_check(&client->fake);
        fake_host_free(&client->fake);
        mcp_text_free(&client->sent);
        pthread_mutex_destroy(&client->lock);
        free(client);
        return 0;
}

static void receive(struct client *client, const char *text) {
        mcp_connection_receive(client->connection, text_bytes(text), &client->channel);
}

/* What was sent since the last check, all of it. */
static void check_sent(struct client *client, const char *expected) {
        mcp_text_append(&client->sent, "", 1);
        assert_string_equal(client->sent.data, expected);
        mcp_text_free(&client->sent);
}

/* What was sent since the last check: one answer with that id and error code, and a message that has `words`. */
static void check_error(struct client *client, const char *id, int code, const char *words) {
        json_t *answer, *error;
        char *got;

        mcp_text_append(&client->sent, "", 1);
        answer = json_loads(client->sent.data, JSON_REJECT_DUPLICATES, NULL);
        if (answer == NULL)
                fail_msg("not one answer: %s", client->sent.data);
        error = json_object_get(answer, "error");
        got = json_dumps(json_object_get(answer, "id"), JSON_ENCODE_ANY);
        assert_string_equal(got, id);
        assert_string_equal(json_string_value(json_object_get(answer, "jsonrpc")), "2.0");
        if (json_integer_value(json_object_get(error, "code")) != code ||
            strstr(json_string_value(json_object_get(error, "message")), words) == NULL)
                fail_msg("not %d \"%s\": %s", code, words, client->sent.data);
        free(got);
        json_decref(answer);
        mcp_text_free(&client->sent);
}

#define J "{\"jsonrpc\":\"2.0\","
#define CALL(id, more) J "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"" more "}}"

static void initialize(struct client *client, const char *version) {
        char text[256];

        snprintf(text, sizeof(text),
                 J "\"id\":\"init\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}", version);
        receive(client, text);
        receive(client, J "\"method\":\"notifications/initialized\"}");
        mcp_text_append(&client->sent, "", 1);
        assert_non_null(strstr(client->sent.data, version));
        mcp_text_free(&client->sent);
}

/* ---- handshake ----------------------------------------------------------------------------------------- */

static void test_initialize(void **test) {
        struct client *client = *test;
        json_t *answer, *result;

        receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"1999-01-01\","
                          "\"capabilities\":{\"roots\":{}},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
        mcp_text_append(&client->sent, "", 1);
        answer = json_loads(client->sent.data, 0, NULL);
        result = json_object_get(answer, "result");
        assert_string_equal(json_string_value(json_object_get(result, "protocolVersion")), "2025-11-25");
        assert_int_equal(json_object_size(json_object_get(result, "capabilities")), 1);
        assert_true(json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools")));
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "serverInfo"), "name")),
                            "SniparaSandbox");
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "serverInfo"), "version")),
                            "1.2.3");
        assert_true(json_string_length(json_object_get(result, "instructions")) > 100);
        json_decref(answer);
        mcp_text_free(&client->sent);

        receive(client, J "\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}}");
        check_error(client, "2", -32600, "initialized already");
}

static void test_bad_initialize(void **test) {
        struct client *client = *test;

        receive(client, J "\"id\":1,\"method\":\"initialize\"}");
        check_error(client, "1", -32602, "protocolVersion");
        receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":7}}");
        check_error(client, "1", -32602, "protocolVersion");
        receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
                          "\"capabilities\":[]}}");
        check_error(client, "1", -32602, "capabilities");
        receive(client, J "\"id\":1,\"method\":\"initialize\",\"params\":[\"2025-06-18\"]}");
        check_error(client, "1", -32602, "by name");
        initialize(client, "2025-06-18"); /* none of it counted */
}

static void test_before_initialize(void **test) {
        struct client *client = *test;

        receive(client, J "\"id\":1,\"method\":\"ping\"}");
        check_sent(client, J "\"id\":1,\"result\":{}}\n");
        receive(client, J "\"id\":2,\"method\":\"tools/list\"}");
        check_error(client, "2", -32600, "initialize");
        receive(client, CALL("3", ""));
        check_error(client, "3", -32600, "initialize");
        receive(client, J "\"id\":4,\"method\":\"server/discover\"}");
        check_error(client, "4", -32601, "server/discover");
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}");
        check_sent(client, "");
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

/* ---- methods ------------------------------------------------------------------------------------------- */

static void test_methods(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        receive(client, J "\"id\":\"p\",\"method\":\"ping\",\"params\":{\"_meta\":{}}}");
        check_sent(client, J "\"id\":\"p\",\"result\":{}}\n");
        receive(client, J "\"id\":1,\"method\":\"resources/list\"}");
        check_error(client, "1", -32601, "resources/list");
        receive(client, J "\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"info\"}}");
        check_error(client, "1", -32601, "logging/setLevel");
        receive(client, J "\"id\":1,\"method\":\"tools/cal\\\"l\xC3\xA9\"}");
        check_error(client, "1", -32601, "tools/cal\"l\xC3\xA9");
        receive(client, J "\"id\":1,\"method\":\"notifications/initialized\"}");
        check_error(client, "1", -32601, "no such method");

        /* Notifications are never answered, whatever they say. */
        receive(client, J "\"method\":\"ping\"}");
        receive(client, J "\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}");
        receive(client, J "\"method\":\"notifications/unknown\"}");
        receive(client, J "\"method\":\"notifications/cancelled\"}");
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":[1]}");
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1.5}}");
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}");
        /* Nor are answers to what nobody asked. */
        receive(client, J "\"id\":5,\"result\":{}}");
        receive(client, J "\"id\":5,\"error\":{\"code\":1,\"message\":\"\"}}");
        check_sent(client, "");
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

static void test_tools_list(void **test) {
        struct client *client = *test;
        char expected[1024];

        initialize(client, "2025-06-18");
        snprintf(expected, sizeof(expected), J "\"id\":1,\"result\":{\"tools\":%s}}\n", fake_tools);
        receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        check_sent(client, expected);
        receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{}}");
        check_sent(client, expected);
        client->fake.tools = "[\n]";
        receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        check_sent(client, J "\"id\":1,\"result\":{\"tools\":[]}}\n");
        client->fake.tools = NULL;
        receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        check_error(client, "1", -32603, "no list today. Try again.");
        client->fake.tools = "[}";
        receive(client, J "\"id\":1,\"method\":\"tools/list\"}");
        check_error(client, "1", -32603, "can't be listed");
        receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}");
        check_error(client, "1", -32602, "cursor");
        receive(client, J "\"id\":1,\"method\":\"tools/list\",\"params\":[]}");
        check_error(client, "1", -32602, "by name");
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static void test_call(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        receive(client, CALL("1", ",\"arguments\": { \"a\" : [1, \"\xC3\xA9\\u0000\"] }"));
        check_sent(client, "");
        assert_string_equal(client->fake.tasks[0].name, "echo");
        assert_string_equal(client->fake.tasks[0].arguments, "{\"a\":[1,\"\xC3\xA9\\u0000\"]}");
        assert_string_equal(client->fake.tasks[0].principal, "somebody");
        assert_null(client->fake.tasks[0].events.progress);
        fake_host_end(&client->fake, 0, 0, "{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"isError\":true}");
        check_sent(client,
                   J "\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"isError\":true}}\n");

        receive(client, CALL("\"same\"", "")); /* no arguments */
        assert_string_equal(client->fake.tasks[1].arguments, "{}");
        receive(client, CALL("2", ",\"task\":{\"ttl\":1}")); /* tasks were not offered: an ordinary call */
        fake_host_end(&client->fake, 2, 0, "{\"content\":[]}");
        fake_host_end(&client->fake, 1, 0, "{\n\"content\":[]}");
        check_sent(client,
                   J "\"id\":2,\"result\":{\"content\":[]}}\n" J "\"id\":\"same\",\"result\":{\"content\":[]}}\n");
        client->fake.end_in_submit = true;
        receive(client, CALL("3", ""));
        check_sent(client, J "\"id\":3,\"result\":{\"content\":[]}}\n");
}

static void test_bad_calls(void **test) {
        struct client *client = *test;
        static const char *const cases[][2] = {
                {J "\"id\":1,\"method\":\"tools/call\"}", "params.name"},
                {J "\"id\":1,\"method\":\"tools/call\",\"params\":{}}", "params.name"},
                {J "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":7}}", "params.name"},
                {J "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\"}}", "params.name"},
                {J "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\\u0000b\"}}", "params.name"},
                {CALL("1", ",\"arguments\":null"), "params.arguments"},
                {CALL("1", ",\"arguments\":[]"), "params.arguments"},
                {CALL("1", ",\"arguments\":\"{}\""), "params.arguments"},
                {CALL("1", ",\"_meta\":[]"), "params._meta"},
                {CALL("1", ",\"_meta\":{\"progressToken\":1.5}"), "progressToken"},
                {CALL("1", ",\"_meta\":{\"progressToken\":null}"), "progressToken"},
        };

        initialize(client, "2025-06-18");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                receive(client, cases[i][0]);
                check_error(client, "1", -32602, cases[i][1]);
        }
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

static void test_failures(void **test) {
        static const struct {
                int status, code;
        } cases[] = {{-ENOENT, -32602}, {-EINVAL, -32602}, {-EBUSY, -32010},     {-EAGAIN, -32010},
                     {-EIO, -32603},    {-ENOMEM, -32603}, {-ECANCELED, -32603}, {-EFBIG, -32602}};
        struct client *client = *test;

        initialize(client, "2025-06-18");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                receive(client, CALL("1", ""));
                fake_host_end(&client->fake, i, cases[i].status, "for a reason");
                check_error(client, "1", cases[i].code, "for a reason");
        }
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client->fake.submit_status = cases[i].status;
                receive(client, CALL("2", ""));
                check_error(client, "2", cases[i].code, "not submitted");
        }
        client->fake.submit_status = 0;
        receive(client, CALL("3", ""));
        fake_host_end(&client->fake, sizeof(cases) / sizeof(cases[0]), 0, "rubbish");
        check_error(client, "3", -32603, "not a JSON object");
}

static void test_too_many_calls(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        receive(client, CALL("1", ""));
        receive(client, CALL("2", ""));
        receive(client, CALL("3", ""));
        receive(client, CALL("2", ""));
        check_error(client, "2", -32600, "under way already");
        receive(client, CALL("4", ""));
        check_sent(client, "");
        receive(client, CALL("5", ""));
        check_error(client, "5", -32010, "at most 4");
        receive(client, J "\"id\":6,\"method\":\"ping\"}"); /* still served */
        check_sent(client, J "\"id\":6,\"result\":{}}\n");
        fake_host_end(&client->fake, 1, 0, "{}");
        check_sent(client, J "\"id\":2,\"result\":{}}\n");
        receive(client, CALL("2", "")); /* room again, and the id is free */
        check_sent(client, "");
        for (size_t i = 0; i < 5; i++)
                if (i != 1)
                        fake_host_end(&client->fake, i, 0, "{}");
        check_sent(client, J "\"id\":1,\"result\":{}}\n" J "\"id\":3,\"result\":{}}\n" J "\"id\":4,\"result\":{}}\n" J
                             "\"id\":2,\"result\":{}}\n");
}

/* ---- cancelling ---------------------------------------------------------------------------------------- */

static void test_cancel(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        client->fake.end_on_cancel = true;
        receive(client, CALL("1", ""));
        receive(client, CALL("\"1\"", ""));
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"1\",\"reason\":\"no\"}}");
        assert_int_equal(client->fake.tasks[0].cancelled, 0); /* 1 and "1" are two */
        assert_int_equal(client->fake.tasks[1].cancelled, 1);
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"1\"}}");
        assert_int_equal(client->fake.tasks[1].cancelled, 1);
        check_sent(client, "");
        fake_host_end(&client->fake, 0, 0, "{}");
        check_sent(client, J "\"id\":1,\"result\":{}}\n");
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}"); /* too late */
        check_sent(client, "");
}

/* A tool that ends, well or not, after it was cancelled: the client hears nothing, and the id is free at once. */
static void test_end_after_cancel(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        receive(client, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        receive(client, CALL("1", ""));
        fake_host_progress(&client->fake, 0, 1, 0, NULL);
        fake_host_end(&client->fake, 0, 0, "{}");
        check_sent(client, "");
        fake_host_end(&client->fake, 1, 0, "{\"content\":[]}");
        check_sent(client, J "\"id\":1,\"result\":{\"content\":[]}}\n");
}

static void test_close(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        client->fake.end_on_cancel = true;
        receive(client, CALL("1", ""));
        receive(client, CALL("2", ""));
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        assert_true(client->fake.tasks[0].released && client->fake.tasks[1].released);
        check_sent(client, "");
        receive(client, CALL("3", ""));
        check_error(client, "3", -32603, "closing");
}

/* ---- progress ------------------------------------------------------------------------------------------ */

#define PROGRESS(token, rest)                                                                                          \
        J "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":" token "," rest "}}\n"

static void test_progress(void **test) {
        struct client *client = *test;

        initialize(client, "2025-06-18");
        receive(client, CALL("1", ",\"_meta\":{\"progressToken\":\"t\\u00e9\"}"));
        fake_host_progress(&client->fake, 0, 0, 0, NULL);
        check_sent(client, PROGRESS("\"t\xC3\xA9\"", "\"progress\":0"));
        fake_host_progress(&client->fake, 0, 0.5, 10, "half \"way\" \xFF");
        check_sent(client, PROGRESS("\"t\xC3\xA9\"",
                                    "\"progress\":0.5,\"total\":10,\"message\":\"half \\\"way\\\" \xEF\xBF\xBD\""));
        fake_host_progress(&client->fake, 0, 0.5, 10, NULL); /* does not grow */
        fake_host_progress(&client->fake, 0, 0.25, 10, NULL);
        fake_host_progress(&client->fake, 0, -1, 10, NULL);
        fake_host_progress(&client->fake, 0, 0.0 / 0.0, 10, NULL);
        fake_host_progress(&client->fake, 0, 1e308 * 10, 10, NULL);
        check_sent(client, "");
        fake_host_progress(&client->fake, 0, 7, 1e308 * 10, NULL);
        check_sent(client, PROGRESS("\"t\xC3\xA9\"", "\"progress\":7"));
        fake_host_end(&client->fake, 0, 0, "{}");
        check_sent(client, J "\"id\":1,\"result\":{}}\n");

        receive(client, CALL("2", ",\"_meta\":{\"progressToken\":0}"));
        fake_host_progress(&client->fake, 1, 3, 0, "");
        check_sent(client, PROGRESS("0", "\"progress\":3,\"message\":\"\""));
        fake_host_end(&client->fake, 1, 0, "{}");
        check_sent(client, J "\"id\":2,\"result\":{}}\n");
}

static void test_progress_is_limited(void **test) {
        struct client *client = *test;
        size_t lines = 0;

        initialize(client, "2025-06-18");
        receive(client, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
        for (int i = 0; i < 1000; i++) {
                client->fake.now_ns = 1000000000 + (uint64_t)i * 1000000; /* a thousand in one second */
                fake_host_progress(&client->fake, 0, i, 0, NULL);
        }
        for (size_t i = 0; i < client->sent.size; i++)
                lines += client->sent.data[i] == '\n';
        assert_in_range(lines, 28, 31);
        mcp_text_free(&client->sent);
        client->fake.now_ns = 10000000000;
        fake_host_progress(&client->fake, 0, 1000, 0, NULL);
        check_sent(client, PROGRESS("1", "\"progress\":1000"));
        fake_host_end(&client->fake, 0, 0, "{}");
}

/* ---- batches ------------------------------------------------------------------------------------------- */

static void test_batch(void **test) {
        struct client *client = *test;

        initialize(client, "2025-03-26");
        receive(client,
                "[" J "\"id\":1,\"method\":\"ping\"}," CALL(
                        "2", ",\"_meta\":{\"progressToken\":1}") ","
                                                                 "7," J
                                                                 "\"method\":\"notifications/initialized\"}," CALL(
                                                                         "3", "") "," CALL("4", "") "]");
        check_sent(client, "");
        fake_host_progress(&client->fake, 0, 1, 0, NULL); /* not part of the answer: at once */
        check_sent(client, PROGRESS("1", "\"progress\":1"));
        receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}");
        fake_host_end(&client->fake, 2, 0, "{\"a\":4}");
        fake_host_end(&client->fake, 1, -ECANCELED, "cancelled");
        check_sent(client, "");
        fake_host_end(&client->fake, 0, 0, "{\"a\":2}");
        check_sent(client, "[" J "\"id\":1,\"result\":{}}," J "\"id\":null,\"error\":{\"code\":-32600,\"message\":\"a "
                           "message must be a JSON object\"}}," J "\"id\":4,\"result\":{\"a\":4}}," J
                           "\"id\":2,\"result\":{\"a\":2}}]\n");

        receive(client, "[" J "\"method\":\"notifications/initialized\"}," J "\"id\":1,\"result\":{}}]");
        check_sent(client, "");
        receive(client, "[]");
        check_error(client, "null", -32600, "empty");
        client->fake.end_on_cancel = true;
        receive(client, "[" CALL("5", "") "]");
        receive(client, "[" J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}]");
        check_sent(client, "");
}

static void test_large_batch(void **test) {
        struct client *client = *test;
        struct mcp_text text = MCP_TEXT(1 << 20);

        initialize(client, "2025-03-26");
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
        check_error(client, "null", -32600, "at most 1000");
        mcp_text_free(&text);
}

static void test_no_batch(void **test) {
        static const char *const others[] = {"2024-11-05", "2025-06-18", "2025-11-25"};

        for (size_t i = 0; i < 3; i++) {
                struct client *client;

                setup(test);
                client = *test;
                receive(client, "[" J "\"id\":1,\"method\":\"ping\"}]"); /* nor before the handshake */
                check_error(client, "null", -32600, "2025-03-26");
                initialize(client, others[i]);
                receive(client, "[" J "\"id\":1,\"method\":\"ping\"}]");
                check_error(client, "null", -32600, "2025-03-26");
                teardown(test);
        }
}

/* ---- threads ------------------------------------------------------------------------------------------- */

#define RACES 40

/* Ends every task as soon as it appears, while the client cancels half of them. */
static void *end_tasks(void *data) {
        struct client *client = data;

        for (size_t i = 0; i < RACES; i++) {
                while (fake_host_task_count(&client->fake) <= i)
                        ;
                fake_host_end(&client->fake, i, i % 3 == 0 ? -ECANCELED : 0, "{}");
        }
        return NULL;
}

static void test_races(void **test) {
        struct client *client = *test;
        pthread_t thread;
        char text[256];

        initialize(client, "2025-06-18");
        client->settings.calls_max = RACES;
        assert_int_equal(pthread_create(&thread, NULL, end_tasks, client), 0);
        for (int i = 0; i < RACES; i++) {
                snprintf(text, sizeof(text), CALL("%d", ",\"_meta\":{\"progressToken\":1}"), i);
                receive(client, text);
                if (i % 2 == 0) {
                        snprintf(text, sizeof(text),
                                 J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}", i);
                        receive(client, text);
                }
        }
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        pthread_join(thread, NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_initialize, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_initialize, setup, teardown),
                cmocka_unit_test_setup_teardown(test_before_initialize, setup, teardown),
                cmocka_unit_test_setup_teardown(test_methods, setup, teardown),
                cmocka_unit_test_setup_teardown(test_tools_list, setup, teardown),
                cmocka_unit_test_setup_teardown(test_call, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_calls, setup, teardown),
                cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
                cmocka_unit_test_setup_teardown(test_too_many_calls, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
                cmocka_unit_test_setup_teardown(test_end_after_cancel, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close, setup, teardown),
                cmocka_unit_test_setup_teardown(test_progress, setup, teardown),
                cmocka_unit_test_setup_teardown(test_progress_is_limited, setup, teardown),
                cmocka_unit_test_setup_teardown(test_batch, setup, teardown),
                cmocka_unit_test_setup_teardown(test_large_batch, setup, teardown),
                cmocka_unit_test(test_no_batch),
                cmocka_unit_test_setup_teardown(test_races, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
