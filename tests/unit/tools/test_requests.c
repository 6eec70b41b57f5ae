/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with a client that can be asked back: what goes out to it is checked, what comes back reaches whoever asked,
 * and how requests end. Run under TSan too. */
#include "requests_client.h"

/* ---- asking ---- */

static void test_ask(void **state) {
        struct client client;

        client_open(&client);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", "{}", NULL),
                        "answer {\\\"q\\\":{\\\"action\\\":\\\"accept\\\"}}");
        assert_string_equal(client.asked, ONE);
        client.ask_status = -EACCES; /* the user does not want to: a result that the model reads */
        assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", "{}", NULL), "Error: the client says no");
        client_close(&client);
}

static void test_ask_is_checked(void **state) {
        static const char *const bad[] = {
                "{\"requests\":\"\"}",
                "{\"requests\":\"[]\"}",
                "{\"requests\":\"{}\"}",
                "{\"requests\":\"{\\\"a\\\":1}\"}",
                "{\"requests\":\"{\\\"a\\\":{\\\"method\\\":\\\"x\\\"}}\"}",
                "{\"requests\":\"{\\\"a\\\":{\\\"method\\\":\\\"\\\",\\\"params\\\":{}}}\"}",
                "{\"requests\":\"{\\\"a\\\":{\\\"params\\\":{}}}\"}",
                "{\"requests\":\"{\\\"\\\":{\\\"method\\\":\\\"x\\\",\\\"params\\\":{}}}\"}",
        };
        struct sbx_buffer many = SBX_BUFFER(1 << 16);
        struct client client;

        client_open(&client);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", bad[i], NULL), "\"isError\":true");
                assert_false(client.asking);
        }
        assert_int_equal(sbx_buffer_append_text(&many, "{\"requests\":\"{"), 0);
        for (int i = 0; i < 17; i++)
                assert_int_equal(sbx_buffer_printf(&many, "%s\\\"k%d\\\":{\\\"method\\\":\\\"x\\\",\\\"params\\\":{}}",
                                                   i > 0 ? "," : "", i),
                                 0);
        assert_int_equal(sbx_buffer_append_text(&many, "}\"}"), 0);
        assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", many.data, NULL), "1 to 16 requests at once");
        assert_false(client.asking);
        sbx_buffer_free(&many);
        client_close(&client);
}

static void test_cancel_while_asking(void **state) {
        static const uint32_t kinds[] = {SBX_REQUEST_TOOL, SBX_REQUEST_READ};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                struct client client;

                client_open(&client);
                client.waits = true;
                submit(&client, kinds[i], "ask", "{}");
                pthread_mutex_lock(&client.lock);
                while (!client.asking)
                        pthread_cond_wait(&client.changed, &client.lock);
                pthread_mutex_unlock(&client.lock);
                client.services.cancel(client.services.data, client.task);
                finish(&client);
                assert_int_equal(client.status, -ECANCELED);
                client_close(&client);
        }
}

/* A client that is there when the registry ends. */
static void test_stop_while_asking(void **state) {
        struct client client;

        client_open(&client);
        client.waits = true;
        submit(&client, SBX_REQUEST_TOOL, "ask", "{}");
        pthread_mutex_lock(&client.lock);
        while (!client.asking)
                pthread_cond_wait(&client.changed, &client.lock);
        pthread_mutex_unlock(&client.lock);
        sbx_tools_stop(client.tools);
        assert_true(client.done);
        assert_int_equal(client.status, -ECANCELED);
        finish(&client);
        client_close(&client);
}

/* ---- how requests end ---- */

static void test_ends(void **state) {
        static const struct {
                const char *tool, *arguments;
                int ask_status, status;
                const char *text;
        } rows[] = {
                /* What the client can't do is for the transport to say; that a tool can't is a result. */
                {"ask", "{}", -ENOTSUP, -ENOTSUP, "the client says no"},
                {"fail", "{\"code\":-95}", 0, 0, "Error: it fails\\nMend it."},
                /* An error of the protocol is one only where the tool answers requests itself. */
                {"fail", "{\"code\":-71}", 0, 0, "Error: it fails"},
                {"fail_as_source", "{\"code\":-71}", 0, -EPROTO, "it fails"},
                {"fail_as_source", "{\"code\":-5}", 0, 0, "Error: it fails"},
                {"fail", "{\"code\":-125}", 0, 0, "Error: it fails"}, /* nobody cancelled it */
                {"nothing", "{}", 0, -ENOENT, "unknown tool 'nothing'"},
                {"fail", "[]", 0, -EINVAL, "must be a JSON object"},
        };
        struct client client;

        client_open(&client);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int status = 0;
                const char *text;

                client.ask_status = rows[i].ask_status;
                text = request(&client, SBX_REQUEST_TOOL, rows[i].tool, rows[i].arguments, &status);
                assert_int_equal(status, rows[i].status);
                assert_contains(text, rows[i].text);
        }
        client_close(&client);
}

/* The embedding API and models get a result, whatever it was. */
static void test_other_callers(void **state) {
        struct sbx_tool_context context = {.principal = "", .caller = SBX_CALLER_MODEL};
        struct sbx_buffer out = SBX_BUFFER(1 << 16);
        struct client client;
        struct sbx_error err = {0};

        client_open(&client);
        client.ask_status = -ENOTSUP;
        assert_int_equal(sbx_tools_allow(client.tools, SBX_CALLER_MODEL, (const char *const[]){"*", NULL}, NULL), 0);
        assert_int_equal(sbx_tools_call(client.tools, "fail_as_source", BYTES("{\"code\":-71}"), &context, &out, &err),
                         0);
        assert_contains(out.data, "Error: it fails");
        sbx_buffer_clear(&out);
        context.client = &client.way;
        assert_int_equal(sbx_tools_call(client.tools, "ask", BYTES("{}"), &context, &out, &err), 0);
        assert_contains(out.data, "Error: the client says no");
        sbx_buffer_clear(&out);
        context.caller = SBX_CALLER_CLIENT;
        assert_int_equal(sbx_tools_call(client.tools, "fail_as_source", BYTES("{\"code\":-71}"), &context, &out, &err),
                         -EPROTO);
        assert_string_equal(err.message, "it fails");
        context.client = NULL;
        assert_int_equal(sbx_tools_call(client.tools, "ask", BYTES("{}"), &context, &out, NULL), 0);
        assert_contains(out.data, "nobody");
        sbx_buffer_free(&out);
        client_close(&client);
}

/* ---- telling ---- */

static void test_talk(void **state) {
        struct client client;

        client_open(&client);
        client.task_answer = 1;
        /* 1, 2, 3, 100: whether the client's own function is called or the context's. */
        assert_contains(request(&client, SBX_REQUEST_TOOL, "talk", "{}", NULL), "task 0 0, can 0x4\"");
        assert_int_equal(client.progresses, 4);
        assert_false(client.fell);
        assert_string_equal(client.logged, "info talk {\"a\":1};");
        assert_int_equal(client.closes, 7);
        assert_int_equal(client.tasks, 0);
        /* A tool that may become a task does so once. */
        assert_contains(request(&client, SBX_REQUEST_TOOL, "talk_long", "{}", NULL), "task 1 1, can 0x24\"");
        assert_int_equal(client.tasks, 1);
        client.task_answer = 0;
        assert_contains(request(&client, SBX_REQUEST_TOOL, "talk_long", "{}", NULL), "task 0 0");
        assert_int_equal(client.tasks, 1);
        client_close(&client);
}

/* A client that takes no part in anything is no reason to fail. */
static void test_silent_client(void **state) {
        struct client client;

        client_open(&client);
        client.way = (struct sbx_client){.struct_size = sizeof(client.way),
                                         .capabilities = SBX_CLIENT_ELICITATION | SBX_CLIENT_TASKS,
                                         .data = &client};
        assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", "{}", NULL), "nobody");
        client.way.log = client_log;
        client.way.progress = client_progress;
        assert_contains(request(&client, SBX_REQUEST_TOOL, "talk_long", "{}", NULL), "task 0 0, can 0x0\"");
        {
                int status = 0;

                assert_contains(request(&client, SBX_REQUEST_TOOL, "ask", "{}", &status), "can't be asked");
                assert_int_equal(status, -ENOTSUP);
        }
        client_close(&client);
}

/* ---- other kinds ---- */

static void test_other_kinds(void **state) {
        struct client client;
        int status = 0;

        client_open(&client);
        client.task_answer = 1;
        assert_string_equal(request(&client, SBX_REQUEST_PROMPT, "greet", "{\"a\":1}", NULL),
                            "{\"is\":\"4 greet token:me {\"a\":1} 0\"}");
        assert_int_equal(client.progresses, 1);
        assert_int_equal(client.tasks, 0); /* tools alone */
        assert_contains(request(&client, SBX_REQUEST_READ, "ask", "", NULL), "3 ask token:me  0");
        assert_string_equal(client.asked, ONE);
        (void)request(&client, SBX_REQUEST_READ, "none", "", &status);
        assert_int_equal(status, -ENOENT);
        client.ask_status = -ENOTSUP;
        (void)request(&client, SBX_REQUEST_READ, "ask", "", &status);
        assert_int_equal(status, -ENOTSUP);
        client_close(&client);
}

/* Who reads a file waits for the turn of its session without a thread: more readers than there are threads keep nobody
 * else from being answered. */
static void test_lanes(void **state) {
        enum { READERS = 80 };
        static struct client readers[READERS];
        struct client client;

        client_open(&client);
        for (int i = 0; i < READERS; i++) {
                readers[i] = client;
                pthread_mutex_init(&readers[i].lock, NULL);
                pthread_cond_init(&readers[i].changed, NULL);
                readers[i].way.data = &readers[i];
                readers[i].waits = true;
                submit(&readers[i], SBX_REQUEST_READ, "repl://default/files/wait", "");
        }
        pthread_mutex_lock(&readers[0].lock);
        while (!readers[0].asking)
                pthread_cond_wait(&readers[0].changed, &readers[0].lock);
        pthread_mutex_unlock(&readers[0].lock);
        assert_contains(request(&client, SBX_REQUEST_READ, "repl://other/files/a", "", NULL), "3 repl://other/files/a");
        assert_contains(request(&client, SBX_REQUEST_READ, "repl://default/artifacts/a", "", NULL), "artifacts");
        assert_contains(request(&client, SBX_REQUEST_PROMPT, "p", "", NULL), "4 p");
        for (int i = 1; i < READERS; i++) {
                pthread_mutex_lock(&readers[i].lock);
                assert_false(readers[i].asking);
                pthread_mutex_unlock(&readers[i].lock);
        }
        for (int i = 0; i < READERS; i++) {
                client.services.cancel(client.services.data, readers[i].task);
                finish(&readers[i]);
                assert_int_equal(readers[i].status, -ECANCELED);
        }
        client_close(&client);
}

static void test_refused_kinds(void **state) {
        struct sbx_tool_requests nothing = {0};
        struct client client;
        int status = 0;
        char *long_text;

        client_open(&client);
        long_text = malloc(2 << 20);
        memset(long_text, ' ', 2 << 20);
        long_text[(2 << 20) - 1] = '\0';
        assert_contains(request(&client, SBX_REQUEST_PROMPT, "greet", long_text, &status), "bytes; at most");
        assert_int_equal(status, -EINVAL);
        free(long_text);
        sbx_tools_set_requests(client.tools, &nothing);
        (void)request(&client, SBX_REQUEST_PROMPT, "greet", "{}", &status);
        assert_int_equal(status, -ENOENT);
        client_close(&client);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ask),
                cmocka_unit_test(test_ask_is_checked),
                cmocka_unit_test(test_cancel_while_asking),
                cmocka_unit_test(test_stop_while_asking),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_other_callers),
                cmocka_unit_test(test_talk),
                cmocka_unit_test(test_silent_client),
                cmocka_unit_test(test_other_kinds),
                cmocka_unit_test(test_lanes),
                cmocka_unit_test(test_refused_kinds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
