/* SPDX-License-Identifier: Apache-2.0 */
#include "requests_client.h"

#include <math.h>
#include <poll.h>

/* ---- a client that notes what it hears ---- */

void client_progress(void *data, double progress, double total, const char *message) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        client->fell = client->fell || client->done || !isfinite(progress) || !isfinite(total) ||
                       (client->progresses > 0 && progress <= client->last_progress);
        client->progresses++;
        client->last_progress = progress;
        pthread_mutex_unlock(&client->lock);
}

void client_log(void *data, const char *level, const char *logger, struct sbx_bytes value) {
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

int run_fail(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err) {
        return sbx_error_set(err, (int)json_integer_value(json_object_get(arguments, "code")), "test", "Mend it.",
                             "it fails");
}

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

void client_open(struct client *client) {
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

void client_close(struct client *client) {
        sbx_tools_free(client->tools);
        pthread_cond_destroy(&client->changed);
        pthread_mutex_destroy(&client->lock);
}

void submit(struct client *client, uint32_t kind, const char *name, const char *arguments) {
        const struct sbx_request request = {sizeof(request), kind, name, {arguments, strlen(arguments)}, "token:me"};
        const struct sbx_request_done done = {client, client_done};
        struct sbx_error err = {0};

        client->done = client->asking = client->fell = false;
        client->progresses = client->tasks = client->closes = 0;
        client->asked[0] = client->logged[0] = '\0';
        if (client->services.submit(client->services.data, &request, &client->way, &done, &client->task, &err) < 0)
                fail_msg("%s", err.message);
}

void finish(struct client *client) {
        pthread_mutex_lock(&client->lock);
        while (!client->done)
                pthread_cond_wait(&client->changed, &client->lock);
        pthread_mutex_unlock(&client->lock);
        client->services.release(client->services.data, client->task);
}

const char *request(struct client *client, uint32_t kind, const char *name, const char *arguments, int *ret_status) {
        submit(client, kind, name, arguments);
        finish(client);
        if (ret_status != NULL)
                *ret_status = client->status;
        else
                assert_int_equal(client->status, 0);
        return client->text;
}
