/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy calls: that end in every order, progress, cancelling, threads. */
#include "client.h"

/* ---- calls --------------------------------------------------------------------------------------------- */

static void test_call(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, CALL("1", ",\"arguments\": { \"a\" : [1, \"\xC3\xA9\\u0000\"] }"));
        client_check_sent(client, "");
        assert_string_equal(client->fake.tasks[0].name, "echo");
        assert_string_equal(client->fake.tasks[0].arguments, "{\"a\":[1,\"\xC3\xA9\\u0000\"]}");
        assert_string_equal(client->fake.tasks[0].principal, "somebody");
        assert_int_equal(client->fake.tasks[0].kind, SBX_REQUEST_TOOL);
        fake_host_progress(&client->fake, 0, 1, 0, NULL); /* nobody asked for it */
        fake_host_end(&client->fake, 0, 0, "{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"isError\":true}");
        client_check_sent(
                client,
                J "\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"isError\":true}}\n");

        client_receive(client, CALL("\"same\"", "")); /* no arguments */
        assert_string_equal(client->fake.tasks[1].arguments, "{}");
        client_receive(client, CALL("2", ",\"task\":{\"ttl\":1}")); /* tasks were not offered: an ordinary call */
        fake_host_end(&client->fake, 2, 0, "{\"content\":[]}");
        fake_host_end(&client->fake, 1, 0, "{\n\"content\":[]}");
        client_check_sent(client, J "\"id\":2,\"result\":{\"content\":[]}}\n" J
                                    "\"id\":\"same\",\"result\":{\"content\":[]}}\n");
        client->fake.end_in_submit = true;
        client_receive(client, CALL("3", ""));
        client_check_sent(client, J "\"id\":3,\"result\":{\"content\":[]}}\n");
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

        client_initialize(client, "2025-06-18");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, cases[i][0]);
                client_check_error(client, "1", -32602, cases[i][1]);
        }
        assert_int_equal(fake_host_task_count(&client->fake), 0);
}

static void test_failures(void **test) {
        static const struct {
                int status, code;
        } cases[] = {{-ENOENT, -32602}, {-EINVAL, -32602}, {-EBUSY, -32010},    {-EAGAIN, -32010},
                     {-EIO, -32603},    {-ENOMEM, -32603}, {-ECANCELED, -32603}};
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client_receive(client, CALL("1", ""));
                fake_host_end(&client->fake, i, cases[i].status, "for a reason");
                client_check_error(client, "1", cases[i].code, "for a reason");
        }
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                client->fake.submit_status = cases[i].status;
                client_receive(client, CALL("2", ""));
                client_check_error(client, "2", cases[i].code, "not submitted");
        }
        client->fake.submit_status = 0;
        client_receive(client, CALL("3", ""));
        fake_host_end(&client->fake, sizeof(cases) / sizeof(cases[0]), 0, "rubbish");
        client_check_error(client, "3", -32603, "not a JSON object");
}

static void test_too_many_calls(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, CALL("1", ""));
        client_receive(client, CALL("2", ""));
        client_receive(client, CALL("3", ""));
        client_receive(client, CALL("2", ""));
        client_check_error(client, "2", -32600, "under way already");
        client_receive(client, CALL("4", ""));
        client_check_sent(client, "");
        client_receive(client, CALL("5", ""));
        client_check_error(client, "5", -32010, "at most 4");
        client_receive(client, J "\"id\":6,\"method\":\"ping\"}"); /* still served */
        client_check_sent(client, J "\"id\":6,\"result\":{}}\n");
        fake_host_end(&client->fake, 1, 0, "{}");
        client_check_sent(client, J "\"id\":2,\"result\":{}}\n");
        client_receive(client, CALL("2", "")); /* room again, and the id is free */
        client_check_sent(client, "");
        for (size_t i = 0; i < 5; i++)
                if (i != 1)
                        fake_host_end(&client->fake, i, 0, "{}");
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n" J "\"id\":3,\"result\":{}}\n" J
                                    "\"id\":4,\"result\":{}}\n" J "\"id\":2,\"result\":{}}\n");
}

/* ---- cancelling ---------------------------------------------------------------------------------------- */

static void test_cancel(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client->fake.end_on_cancel = true;
        client_receive(client, CALL("1", ""));
        client_receive(client, CALL("\"1\"", ""));
        client_receive(client,
                       J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"1\",\"reason\":\"no\"}}");
        assert_int_equal(client->fake.tasks[0].cancelled, 0); /* 1 and "1" are two */
        assert_int_equal(client->fake.tasks[1].cancelled, 1);
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"1\"}}");
        assert_int_equal(client->fake.tasks[1].cancelled, 1);
        client_check_sent(client, "");
        fake_host_end(&client->fake, 0, 0, "{}");
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n");
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}"); /* too late */
        client_check_sent(client, "");
}

/* A tool that ends, well or not, after it was cancelled: the client hears nothing, and the id is free at once. */
static void test_end_after_cancel(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
        client_receive(client, J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        client_receive(client, CALL("1", ""));
        fake_host_progress(&client->fake, 0, 1, 0, NULL);
        fake_host_end(&client->fake, 0, 0, "{}");
        client_check_sent(client, "");
        fake_host_end(&client->fake, 1, 0, "{\"content\":[]}");
        client_check_sent(client, J "\"id\":1,\"result\":{\"content\":[]}}\n");
}

static void test_close(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client->fake.end_on_cancel = true;
        client_receive(client, CALL("1", ""));
        client_receive(client, CALL("2", ""));
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        assert_true(client->fake.tasks[0].released && client->fake.tasks[1].released);
        client_check_sent(client, "");
        client_receive(client, CALL("3", ""));
        client_check_error(client, "3", -32603, "closing");
}

/* ---- progress ------------------------------------------------------------------------------------------ */

#define PROGRESS(token, rest)                                                                                          \
        J "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":" token "," rest "}}\n"

static void test_progress(void **test) {
        struct client *client = *test;

        client_initialize(client, "2025-06-18");
        client_receive(client, CALL("1", ",\"_meta\":{\"progressToken\":\"t\\u00e9\"}"));
        fake_host_progress(&client->fake, 0, 0, 0, NULL);
        client_check_sent(client, PROGRESS("\"t\xC3\xA9\"", "\"progress\":0"));
        fake_host_progress(&client->fake, 0, 0.5, 10, "half \"way\" \xFF");
        client_check_sent(client,
                          PROGRESS("\"t\xC3\xA9\"",
                                   "\"progress\":0.5,\"total\":10,\"message\":\"half \\\"way\\\" \xEF\xBF\xBD\""));
        fake_host_progress(&client->fake, 0, 0.5, 10, NULL); /* does not grow */
        fake_host_progress(&client->fake, 0, 0.25, 10, NULL);
        fake_host_progress(&client->fake, 0, -1, 10, NULL);
        fake_host_progress(&client->fake, 0, 0.0 / 0.0, 10, NULL);
        fake_host_progress(&client->fake, 0, 1e308 * 10, 10, NULL);
        client_check_sent(client, "");
        fake_host_progress(&client->fake, 0, 7, 1e308 * 10, NULL);
        client_check_sent(client, PROGRESS("\"t\xC3\xA9\"", "\"progress\":7"));
        fake_host_end(&client->fake, 0, 0, "{}");
        client_check_sent(client, J "\"id\":1,\"result\":{}}\n");

        client_receive(client, CALL("2", ",\"_meta\":{\"progressToken\":0}"));
        fake_host_progress(&client->fake, 1, 3, 0, "");
        client_check_sent(client, PROGRESS("0", "\"progress\":3,\"message\":\"\""));
        fake_host_end(&client->fake, 1, 0, "{}");
        client_check_sent(client, J "\"id\":2,\"result\":{}}\n");
}

static void test_progress_is_limited(void **test) {
        struct client *client = *test;
        size_t lines = 0;

        client_initialize(client, "2025-06-18");
        client_receive(client, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
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
        client_check_sent(client, PROGRESS("1", "\"progress\":1000"));
        fake_host_end(&client->fake, 0, 0, "{}");
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

        client_initialize(client, "2025-06-18");
        client->settings.calls_max = RACES;
        assert_int_equal(pthread_create(&thread, NULL, end_tasks, client), 0);
        for (int i = 0; i < RACES; i++) {
                snprintf(text, sizeof(text), CALL("%d", ",\"_meta\":{\"progressToken\":1}"), i);
                client_receive(client, text);
                if (i % 2 == 0) {
                        snprintf(text, sizeof(text),
                                 J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}", i);
                        client_receive(client, text);
                }
        }
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        pthread_join(thread, NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_call, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_bad_calls, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_failures, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_too_many_calls, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_cancel, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_end_after_cancel, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_close, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_progress, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_progress_is_limited, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_races, client_setup, client_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
