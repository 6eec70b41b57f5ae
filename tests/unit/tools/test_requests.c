/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with a client that can be asked back: what goes out to it is checked, what comes back reaches whoever asked,
 * and how requests end. Run under TSan too. */
#include "../test.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include <snipara-sandbox/context.h>

#include "base/json.h"
#include "tools/content.h"
#include "tools/tools.h"

/* ---- a client that notes what it hears ---- */

struct client {
        struct sbx_tools *tools;
        struct sbx_tool_services services;
        struct sbx_client way;
        struct sbx_tool_task *task;
        const char *answer; /* of ask */
        int ask_status;
        int task_answer;
        bool waits; /* ask waits until it is cancelled */

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t changed;
        bool asking, done;
        int status;
        unsigned progresses, tasks, closes;
        double last_progress;
        bool fell;
        char asked[256], logged[256], text[512];
};

static void client_progress(void *data, double progress, double total, const char *message) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        client->fell = client->fell || client->done || !isfinite(progress) || !isfinite(total) ||
                       (client->progresses > 0 && progress <= client->last_progress);
        client->progresses++;
        client->last_progress = progress;
        pthread_mutex_unlock(&client->lock);
}

static void client_log(void *data, const char *level, const char *logger, struct sbx_bytes value) {
        struct client *client = data;
        size_t used;

        pthread_mutex_lock(&client->lock);
        used = strlen(client->logged);
        snprintf(client->logged + used, sizeof(client->logged) - used, "%s %s %.*s;", level,
                 logger != NULL ? logger : "-", (int)value.size, (const char *)value.data);
        pthread_mutex_unlock(&client->lock);
}

static int client_ask(void *data, struct sbx_bytes requests, const struct sbx_call *call,
                      struct sbx_output *ret_responses, struct sbx_error *err) {
        struct client *client = data;
        struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};

        pthread_mutex_lock(&client->lock);
        client->asking = true;
        snprintf(client->asked, sizeof(client->asked), "%.*s", (int)requests.size, (const char *)requests.data);
        pthread_cond_broadcast(&client->changed);
        pthread_mutex_unlock(&client->lock);
        if (client->waits && poll(&cancel, 1, -1) > 0)
                return sbx_error_set(err, -ECANCELED, "client", NULL, "cancelled while it was asked");
        if (client->ask_status < 0)
                return sbx_error_set(err, client->ask_status, "client", NULL, "the client says no");
        return sbx_output_append(ret_responses, client->answer, strlen(client->answer));
}

static int client_become_task(void *data) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        client->tasks++;
        pthread_mutex_unlock(&client->lock);
        return client->task_answer;
}

static void client_close_stream(void *data, uint32_t retry_ms) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        client->closes += retry_ms;
        pthread_mutex_unlock(&client->lock);
}

static void client_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        assert_false(client->done);
        client->done = true;
        client->status = status;
        snprintf(client->text, sizeof(client->text), "%.*s", status == 0 ? (int)result.size : 400,
                 status == 0 ? (const char *)result.data : err->message);
        pthread_cond_broadcast(&client->changed);
        pthread_mutex_unlock(&client->lock);
}

/* ---- tools that talk to it ---- */

#define ONE "{\"q\":{\"method\":\"elicitation/create\",\"params\":{}}}"

/* What the tools do, by name: each gets the client and returns what it returns. */
static int ask_once(const struct sbx_tool_context *context, const char *requests, json_t **ret_result,
                    struct sbx_error *err) {
        struct sbx_output *output = NULL;
        int r = sbx_output_new(1 << 20, &output);

        if (r == 0)
                r = context->client->ask(context->client->data, (struct sbx_bytes){requests, strlen(requests)}, NULL,
                                         output, err);
        if (r == 0) {
                struct sbx_bytes bytes = sbx_output_bytes(output);
                char text[256];

                snprintf(text, sizeof(text), "answer %.*s", (int)bytes.size, (const char *)bytes.data);
                *ret_result = sbx_content_text(false, text);
        }
        sbx_output_free(output);
        return r;
}

static int run_ask(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                   struct sbx_error *err) {
        const char *requests = json_string_value(json_object_get(arguments, "requests"));

        if (context->client == NULL) {
                *ret_result = sbx_content_text(false, "nobody");
                return 0;
        }
        return ask_once(context, requests != NULL ? requests : ONE, ret_result, err);
}

static int run_talk(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                    struct sbx_error *err) {
        static const double steps[] = {1, 2, INFINITY, NAN, 2, -INFINITY, 1, 3, 100};
        const struct sbx_client *client = context->client;
        char text[64];
        int first, second;

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                client->progress(client->data, steps[i], NAN, NULL);
                context->progress(context->progress_data, steps[i], 100, NULL);
        }
        client->log(client->data, "info", "talk", BYTES("{\"a\":1}"));
        client->log(client->data, "loud", "talk", BYTES("1"));
        client->log(client->data, "info", NULL, BYTES("{"));
        client->close_stream(client->data, 7);
        first = client->become_task(client->data);
        second = client->become_task(client->data);
        snprintf(text, sizeof(text), "task %d %d, can 0x%x", first, second, client->capabilities);
        *ret_result = sbx_content_text(false, text);
        return 0;
}

static int run_fail(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                    struct sbx_error *err) {
        return sbx_error_set(err, (int)json_integer_value(json_object_get(arguments, "code")), "test", "Mend it.",
                             "it fails");
}

#define ANY "{\"type\":\"object\"}"
static const struct sbx_tool test_tools[] = {
        {.name = "ask", .description = "d", .input_schema = ANY, .run = run_ask},
        {.name = "talk", .description = "d", .input_schema = ANY, .run = run_talk},
        {.name = "talk_long",
         .description = "d",
         .input_schema = ANY,
         .run = run_talk,
         .flags = SBX_TOOL_HEARTBEAT,
         .task_support = "optional",
         .icons = "[{\"src\":\"https://example.com/i.png\"}]",
         .meta = "{\"example.com/x\":1}"},
        {.name = "fail", .description = "d", .input_schema = ANY, .run = run_fail},
        {.name = "fail_as_source",
         .description = "d",
         .input_schema = ANY,
         .run = run_fail,
         .flags = SBX_TOOL_PROTOCOL},
};

/* Requests that are no tool calls. */
static int answer(void *data, const struct sbx_request *request, const struct sbx_client *client,
                  const struct sbx_call *call, struct sbx_buffer *out_json, struct sbx_error *err) {
        struct sbx_tool_context context = {.client = client, .call = call};
        json_t *result = NULL;
        int r = 0;

        if (strcmp(request->name, "ask") == 0 || strcmp(request->name, "repl://default/files/wait") == 0)
                r = ask_once(&context, ONE, &result, err);
        json_decref(result);
        if (r < 0)
                return r;
        if (strcmp(request->name, "none") == 0)
                return -ENOENT;
        client->progress(client->data, 1, 0, "x");
        client->progress(client->data, 1, 0, "x");
        return sbx_buffer_printf(out_json, "{\"is\":\"%u %s %s %.*s %d\"}", request->kind, request->name,
                                 request->principal, (int)request->arguments.size,
                                 (const char *)request->arguments.data, client->become_task(client->data));
}

static void client_open(struct client *client) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_error err = {0};

        *client = (struct client){.answer = "{\"q\":{\"action\":\"accept\"}}"};
        client->way = (struct sbx_client){.struct_size = sizeof(client->way),
                                          .capabilities = SBX_CLIENT_ELICITATION | SBX_CLIENT_TASKS,
                                          .data = client,
                                          .progress = client_progress,
                                          .log = client_log,
                                          .ask = client_ask,
                                          .become_task = client_become_task,
                                          .close_stream = client_close_stream};
        pthread_mutex_init(&client->lock, NULL);
        pthread_cond_init(&client->changed, NULL);
        assert_int_equal(sbx_tools_new(&logger, &client->tools, &err), 0);
        for (size_t i = 0; i < sizeof(test_tools) / sizeof(test_tools[0]); i++)
                assert_int_equal(sbx_tools_add(client->tools, &test_tools[i], &err), 0);
        sbx_tools_set_requests(client->tools, &(struct sbx_tool_requests){NULL, answer});
        sbx_tools_services(client->tools, &client->services);
}

static void client_close(struct client *client) {
        sbx_tools_free(client->tools);
        pthread_cond_destroy(&client->changed);
        pthread_mutex_destroy(&client->lock);
}

static void submit(struct client *client, uint32_t kind, const char *name, const char *arguments) {
        const struct sbx_request request = {sizeof(request), kind, name, {arguments, strlen(arguments)}, "token:me"};
        const struct sbx_request_done done = {client, client_done};
        struct sbx_error err = {0};

        client->done = client->asking = client->fell = false;
        client->progresses = client->tasks = client->closes = 0;
        client->asked[0] = client->logged[0] = '\0';
        if (client->services.submit(client->services.data, &request, &client->way, &done, &client->task, &err) < 0)
                fail_msg("%s", err.message);
}

static void finish(struct client *client) {
        pthread_mutex_lock(&client->lock);
        while (!client->done)
                pthread_cond_wait(&client->changed, &client->lock);
        pthread_mutex_unlock(&client->lock);
        client->services.release(client->services.data, client->task);
}

/* The text of the result, or of the error; `*ret_status` may be NULL: then it must be 0. */
static const char *request(struct client *client, uint32_t kind, const char *name, const char *arguments,
                           int *ret_status) {
        submit(client, kind, name, arguments);
        finish(client);
        if (ret_status != NULL)
                *ret_status = client->status;
        else
                assert_int_equal(client->status, 0);
        return client->text;
}

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
                cmocka_unit_test(test_listing),
                cmocka_unit_test(test_source),
                cmocka_unit_test(test_source_grows),
                cmocka_unit_test(test_crowd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
