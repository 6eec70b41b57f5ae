/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted calls: parallel ones, lanes, cancelling, limits, progress, the end. Run under TSan too. */
#include "../test.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "tools/content.h"
#include "tools/tools.h"

/* ---- tools ---- */

static unsigned running, most_running, order;

/* Sleeps for "ms", or until it is cancelled. */
static int nap(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err) {
        struct pollfd cancel = {.fd = context->call->cancel_fd, .events = POLLIN};
        unsigned now = __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST),
                 most = __atomic_load_n(&most_running, __ATOMIC_SEQ_CST);
        int r;

        while (now > most &&
               !__atomic_compare_exchange_n(&most_running, &most, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                ;
        r = poll(&cancel, 1, (int)json_integer_value(json_object_get(arguments, "ms")));
        __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
        if (r > 0)
                return sbx_error_set(err, -ECANCELED, "test", NULL, "woken");
        *ret_result = sbx_content_text(false, "slept");
        return 0;
}

static int count_up(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                    struct sbx_error *err) {
        static const double steps[] = {0, 1, 1, 0.5, 2, 100};

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
                context->progress(context->progress_data, steps[i], 100, "counting");
        *ret_result = sbx_content_text(false, "counted");
        return 0;
}

/* Tells one step, and then nothing more until it is cancelled. */
static int step_and_nap(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        context->progress(context->progress_data, 1, 3, "step one");
        return nap(context, arguments, ret_result, err);
}

#define NAP_SCHEMA                                                                                                     \
        "{\"type\":\"object\",\"properties\":{\"ms\":{\"type\":\"integer\"},\"lane\":{\"type\":\"string\","            \
        "\"default\":\"main\"}},"                                                                                      \
        "\"additionalProperties\":false}"

static const struct sbx_tool test_tools[] = {
        {.name = "nap", .description = "d", .input_schema = NAP_SCHEMA, .run = nap},
        {.name = "nap_in_lane", .description = "d", .input_schema = NAP_SCHEMA, .run = nap, .lane = "lane"},
        {.name = "nap_quickly", .description = "d", .input_schema = NAP_SCHEMA, .run = nap, .flags = SBX_TOOL_QUICK},
        {.name = "nap_aloud", .description = "d", .input_schema = NAP_SCHEMA, .run = nap, .flags = SBX_TOOL_HEARTBEAT},
        {.name = "nap_aloud_in_lane",
         .description = "d",
         .input_schema = NAP_SCHEMA,
         .run = nap,
         .lane = "lane",
         .flags = SBX_TOOL_HEARTBEAT},
        {.name = "step_aloud",
         .description = "d",
         .input_schema = NAP_SCHEMA,
         .run = step_and_nap,
         .flags = SBX_TOOL_HEARTBEAT},
        {.name = "count", .description = "d", .input_schema = NAP_SCHEMA, .run = count_up},
};

/* ---- a client ---- */

struct client {
        struct sbx_tools *tools;
        struct sbx_tool_services services;
};

struct reply {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        int status;
        unsigned order, progresses;
        double last_progress, last_total;
        char last_message[64];
        bool progress_fell, progress_after_done;
        char text[256];
        struct sbx_tool_task *task;
};

static void on_progress(void *data, double progress, double total, const char *message) {
        struct reply *reply = data;

        pthread_mutex_lock(&reply->lock);
        if (reply->progresses++ > 0 && progress <= reply->last_progress)
                reply->progress_fell = true;
        if (reply->done)
                reply->progress_after_done = true;
        reply->last_progress = progress;
        reply->last_total = total;
        snprintf(reply->last_message, sizeof(reply->last_message), "%s", message != NULL ? message : "");
        pthread_cond_broadcast(&reply->changed);
        pthread_mutex_unlock(&reply->lock);
}

static void on_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
        struct reply *reply = data;

        pthread_mutex_lock(&reply->lock);
        assert_false(reply->done);
        reply->done = true;
        reply->status = status;
        reply->order = __atomic_add_fetch(&order, 1, __ATOMIC_SEQ_CST);
        snprintf(reply->text, sizeof(reply->text), "%.*s", status == 0 ? (int)result.size : 200,
                 status == 0 ? (const char *)result.data : err->message);
        pthread_cond_broadcast(&reply->changed);
        pthread_mutex_unlock(&reply->lock);
}

static void client_open(struct client *client) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_error err = {0};

        running = most_running = order = 0;
        assert_int_equal(sbx_tools_new(&logger, &client->tools, &err), 0);
        for (size_t i = 0; i < sizeof(test_tools) / sizeof(test_tools[0]); i++)
                assert_int_equal(sbx_tools_add(client->tools, &test_tools[i], &err), 0);
        sbx_tools_services(client->tools, &client->services);
}

static int submit(struct client *client, const char *name, const char *arguments, struct reply *reply) {
        const struct sbx_request request = {.struct_size = sizeof(request),
                                            .kind = SBX_REQUEST_TOOL,
                                            .name = name,
                                            .arguments = {arguments, strlen(arguments)},
                                            .principal = "me"};
        const struct sbx_client who = {.struct_size = sizeof(who), .data = reply, .progress = on_progress};
        const struct sbx_request_done done = {reply, on_done};
        struct sbx_error err = {0};

        *reply = (struct reply){0};
        pthread_mutex_init(&reply->lock, NULL);
        pthread_cond_init(&reply->changed, NULL);
        return client->services.submit(client->services.data, &request, &who, &done, &reply->task, &err);
}

static void wait_reply(struct client *client, struct reply *reply) {
        pthread_mutex_lock(&reply->lock);
        while (!reply->done)
                pthread_cond_wait(&reply->changed, &reply->lock);
        pthread_mutex_unlock(&reply->lock);
        client->services.release(client->services.data, reply->task);
}

static void cancel(struct client *client, struct reply *reply) {
        client->services.cancel(client->services.data, reply->task);
}

/* ---- tests ---- */

static void test_parallel(void **state) {
        struct client client;
        struct reply replies[10];
        uint64_t begin = sbx_clock_ns();

        client_open(&client);
        for (size_t i = 0; i < 10; i++)
                assert_int_equal(submit(&client, "nap", "{\"ms\":300}", &replies[i]), 0);
        for (size_t i = 0; i < 10; i++) {
                wait_reply(&client, &replies[i]);
                assert_int_equal(replies[i].status, 0);
                assert_contains(replies[i].text, "slept");
        }
        assert_true(sbx_clock_ns() - begin < 2000 * SBX_NS_PER_MS);
        assert_true(most_running > 5);
        sbx_tools_free(client.tools);
}

static void test_lanes(void **state) {
        struct client client;
        struct reply same[6], other;

        client_open(&client);
        for (size_t i = 0; i < 6; i++) /* "main" is what is meant when it is left out */
                assert_int_equal(submit(&client, "nap_in_lane", i % 2 ? "{\"ms\":50}" : "{\"ms\":50,\"lane\":\"main\"}",
                                        &same[i]),
                                 0);
        assert_int_equal(submit(&client, "nap_in_lane", "{\"ms\":1,\"lane\":\"other\"}", &other), 0);
        wait_reply(&client, &other);
        for (size_t i = 0; i < 6; i++)
                wait_reply(&client, &same[i]);
        assert_true(most_running <= 2);
        assert_true(other.order <= 2);
        for (size_t i = 1; i < 6; i++)
                assert_true(same[i].order > same[i - 1].order);
        sbx_tools_free(client.tools);
}

static void test_cancelling(void **state) {
        struct client client;
        struct reply first, second, third;
        uint64_t begin = sbx_clock_ns();

        client_open(&client);
        assert_int_equal(submit(&client, "nap_in_lane", "{\"ms\":20000}", &first), 0);
        assert_int_equal(submit(&client, "nap_in_lane", "{\"ms\":20000}", &second), 0);
        assert_int_equal(submit(&client, "nap_in_lane", "{\"ms\":1}", &third), 0);
        cancel(&client, &second); /* in the queue, behind the first: its end does not wait for that */
        wait_reply(&client, &second);
        assert_int_equal(second.status, -ECANCELED);
        assert_contains(second.text, "before it began");
        cancel(&client, &first);
        wait_reply(&client, &first);
        assert_int_equal(first.status, -ECANCELED);
        wait_reply(&client, &third);
        assert_int_equal(third.status, 0);
        assert_true(sbx_clock_ns() - begin < 5000 * SBX_NS_PER_MS);
        sbx_tools_free(client.tools);
}

static void test_refusals_come_as_done(void **state) {
        struct client client;
        struct reply reply;

        client_open(&client);
        assert_int_equal(submit(&client, "nope", "{}", &reply), 0);
        wait_reply(&client, &reply);
        assert_int_equal(reply.status, -ENOENT);
        assert_int_equal(submit(&client, "nap", "[]", &reply), 0);
        wait_reply(&client, &reply);
        assert_int_equal(reply.status, -EINVAL);
        assert_int_equal(submit(&client, "nap", "{\"ms\":\"x\"}", &reply), 0);
        wait_reply(&client, &reply);
        assert_int_equal(reply.status, 0);
        assert_contains(reply.text, "\"isError\":true");
        sbx_tools_free(client.tools);
}

/* With every ordinary thread taken, quick tools still run; with the queue full, the next call is refused. */
static void test_limits(void **state) {
        enum { RUNNING = 60, QUEUED = 1024 };
        struct client client;
        struct reply *replies = calloc(RUNNING + QUEUED, sizeof(*replies)), quick, refused;

        client_open(&client);
        for (size_t i = 0; i < RUNNING; i++)
                assert_int_equal(submit(&client, "nap", "{\"ms\":60000}", &replies[i]), 0);
        while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) < RUNNING)
                usleep(1000);
        assert_int_equal(submit(&client, "nap_quickly", "{\"ms\":1}", &quick), 0);
        wait_reply(&client, &quick);
        assert_int_equal(quick.status, 0);
        for (size_t i = RUNNING; i < RUNNING + QUEUED; i++)
                assert_int_equal(submit(&client, "nap", "{\"ms\":60000}", &replies[i]), 0);
        assert_int_equal(submit(&client, "nap", "{\"ms\":1}", &refused), -EBUSY);
        sbx_tools_stop(client.tools); /* cancels them all */
        for (size_t i = 0; i < RUNNING + QUEUED; i++) {
                wait_reply(&client, &replies[i]);
                assert_int_equal(replies[i].status, -ECANCELED);
        }
        assert_int_equal(submit(&client, "nap", "{\"ms\":1}", &refused), -ESHUTDOWN);
        assert_int_equal(most_running, RUNNING + 1);
        sbx_tools_free(client.tools);
        free(replies);
}

static void test_progress_rises(void **state) {
        struct client client;
        struct reply reply;

        client_open(&client);
        assert_int_equal(submit(&client, "count", "{}", &reply), 0);
        wait_reply(&client, &reply);
        assert_int_equal(reply.progresses, 4);
        assert_true(reply.last_progress == 100);
        assert_false(reply.progress_fell);
        sbx_tools_free(client.tools);
}

static void test_heartbeat(void **state) {
        struct client client;
        struct reply loud, quiet, before, waiting;

        client_open(&client);
        assert_int_equal(submit(&client, "nap_aloud", "{\"ms\":4600}", &loud), 0);
        assert_int_equal(submit(&client, "nap", "{\"ms\":4600}", &quiet), 0);
        assert_int_equal(submit(&client, "nap_in_lane", "{\"ms\":2600}", &before), 0);
        assert_int_equal(submit(&client, "nap_aloud_in_lane", "{\"ms\":10}", &waiting), 0);
        wait_reply(&client, &loud);
        wait_reply(&client, &quiet);
        wait_reply(&client, &before);
        wait_reply(&client, &waiting);
        assert_int_equal(loud.progresses, 2);
        assert_false(loud.progress_fell);
        assert_false(loud.progress_after_done);
        assert_int_equal(quiet.progresses, 0);
        assert_int_equal(waiting.progresses, 1); /* it waited for its turn, which is no reason to be silent */
        sbx_tools_free(client.tools);
}

/* Between two steps that a tool counts, it shows signs of life that lead to none of them. */
static void test_heartbeat_between_steps(void **state) {
        struct client client;
        struct reply reply;

        client_open(&client);
        assert_int_equal(submit(&client, "step_aloud", "{\"ms\":600000}", &reply), 0);
        pthread_mutex_lock(&reply.lock);
        while (reply.progresses < 3)
                pthread_cond_wait(&reply.changed, &reply.lock);
        assert_true(reply.last_progress > 1 && reply.last_progress < 1.01);
        assert_true(reply.last_total == 3);
        assert_contains(reply.last_message, "step one (");
        assert_false(reply.progress_fell);
        pthread_mutex_unlock(&reply.lock);
        cancel(&client, &reply);
        wait_reply(&client, &reply);
        assert_int_equal(reply.status, -ECANCELED);
        sbx_tools_free(client.tools);
}

static void test_many(void **state) {
        struct client client;
        enum { COUNT = 2000 };
        struct reply *replies = calloc(COUNT, sizeof(*replies));
        char arguments[64];

        client_open(&client);
        for (unsigned i = 0; i < COUNT; i++) {
                snprintf(arguments, sizeof(arguments), "{\"ms\":0,\"lane\":\"%u\"}", i % 7);
                while (submit(&client, i % 3 ? "nap_in_lane" : "nap", arguments, &replies[i]) == -EBUSY)
                        usleep(100);
                if (i % 5 == 0)
                        cancel(&client, &replies[i]);
        }
        for (unsigned i = 0; i < COUNT; i++) {
                wait_reply(&client, &replies[i]);
                assert_true(replies[i].status == 0 || replies[i].status == -ECANCELED);
        }
        sbx_tools_free(client.tools);
        free(replies);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parallel),   cmocka_unit_test(test_lanes),
                cmocka_unit_test(test_cancelling), cmocka_unit_test(test_refusals_come_as_done),
                cmocka_unit_test(test_limits),     cmocka_unit_test(test_progress_rises),
                cmocka_unit_test(test_heartbeat),  cmocka_unit_test(test_heartbeat_between_steps),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
