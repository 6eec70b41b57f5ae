/* SPDX-License-Identifier: Apache-2.0 */
/* What comes at the same moment: requests that bring the same state, cancels, ends, expiries, disconnects. Whoever
 * wins, each request has one answer or was cancelled, and nothing is run twice. */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "talk.h"

#define ROUNDS 60
#define ROOTS "{\"a\":{\"method\":\"roots/list\"}}"
#define ANSWERS "{\"a\":{\"roots\":[]}}"
#define CAN "{\"roots\":{},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define STEPS(tool, steps) "\"name\":\"" tool "\",\"arguments\":{\"steps\":[" steps "]}"

/* ---- actors -------------------------------------------------------------------------------------------- */

struct actor {
        struct talk *talk;
        struct mcp_connection *connection;
        pthread_barrier_t *barrier;
        int id;
        const char *method, *params; /* a modern request; `method` NULL: `text` as it is; both NULL: disconnects */
        const char *text;
        pthread_t thread;
};

static void *act(void *data) {
        struct actor *actor = data;

        pthread_barrier_wait(actor->barrier);
        if (actor->method != NULL)
                talk_request(actor->talk, actor->connection, actor->id, actor->method, actor->params, CAN);
        else if (actor->text != NULL)
                talk_say_on(actor->talk, actor->connection, actor->text);
        else
                mcp_connection_cancel(actor->connection);
        return NULL;
}

static void act_together(struct talk *talk, struct actor *actors, unsigned count) {
        pthread_barrier_t barrier;

        pthread_barrier_init(&barrier, NULL, count);
        for (unsigned i = 0; i < count; i++) {
                actors[i].talk = talk;
                actors[i].barrier = &barrier;
                if (actors[i].connection == NULL)
                        actors[i].connection = talk->connection;
                assert_int_equal(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
        }
        for (unsigned i = 0; i < count; i++)
                pthread_join(actors[i].thread, NULL);
        pthread_barrier_destroy(&barrier);
}

static bool is_complete(const json_t *answer) {
        return talk_at(answer, "result/content") != NULL;
}

/* A request that brings the input of the call that `id` began; the caller frees. */
static char *begin(struct talk *talk, struct mcp_connection *connection, int id, const char *call) {
        json_t *answer;
        char *params = malloc(4096);

        assert_non_null(params);
        talk_request(talk, connection, id, "tools/call", call, CAN);
        answer = talk_answer(talk, id);
        snprintf(params, 4096, "%s,\"inputResponses\":" ANSWERS ",\"requestState\":\"%s\"", call,
                 json_string_value(talk_at(answer, "result/requestState")));
        json_decref(answer);
        return params;
}

/* ---- one state, several requests ------------------------------------------------------------------------ */

static void test_retries(void **test) {
        static const char call[] = STEPS("free", "[\"ask\"," ROOTS "]");
        struct talk *talk = talk_new();

        for (int round = 0; round < ROUNDS; round++) {
                int id = 10 * round, complete = 0;
                char *params = begin(talk, NULL, id, call);
                struct actor actors[] = {
                        {.id = id + 1, .method = "tools/call", .params = params},
                        {.id = id + 2, .method = "tools/call", .params = params},
                        {.id = id + 3, .method = "tools/call", .params = params},
                };

                act_together(talk, actors, 3);
                for (int i = 1; i <= 3; i++) {
                        json_t *answer = talk_answer(talk, id + i);

                        complete += is_complete(answer);
                        if (!is_complete(answer))
                                talk_check(answer, "error/code", "-32602");
                        json_decref(answer);
                }
                assert_int_equal(complete, 1);
                assert_int_equal(fake_host_task_count(&talk->fake), round + 1);
                free(params);
        }
        talk_free(talk);
}

/* The wait is over at about the time at which the input comes. */
static void test_retry_and_expiry(void **test) {
        static const char call[] = STEPS("free", "[\"ask\"," ROOTS "]");
        struct talk *talk = talk_new();

        talk->settings.input_timeout_ms = 3;
        for (int round = 0; round < ROUNDS; round++) {
                char *params = begin(talk, NULL, 10 * round, call);
                json_t *answer;

                usleep(2000 + (useconds_t)(round % 10) * 200);
                talk_request(talk, NULL, 10 * round + 1, "tools/call", params, CAN);
                answer = talk_answer(talk, 10 * round + 1);
                if (!is_complete(answer))
                        talk_check(answer, "error/code", "-32602");
                json_decref(answer);
                free(params);
        }
        talk_free(talk);
}

/* The client is gone as its request comes: that is answered or not, and the other is. */
static void test_retry_and_disconnect(void **test) {
        static const char call[] = STEPS("free", "[\"ask\"," ROOTS "]");
        struct talk *talk = talk_new();

        for (int round = 0; round < ROUNDS; round++) {
                struct mcp_connection *leaving = talk_connect(talk, NULL);
                char *params = begin(talk, leaving, 10 * round, call);
                struct actor actors[] = {
                        {.id = 10 * round + 1, .connection = leaving, .method = "tools/call", .params = params},
                        {.connection = leaving},
                        {.id = 10 * round + 2, .method = "tools/call", .params = params},
                };
                json_t *answer;

                act_together(talk, actors, 3);
                answer = talk_answer(talk, 10 * round + 2);
                if (!is_complete(answer))
                        talk_check(answer, "error/code", "-32602");
                json_decref(answer);
                talk_disconnect(talk, leaving);
                assert_in_range(talk_pending(talk, 10 * round + 1, NULL), 0, 1);
                free(params);
        }
        talk_free(talk);
}

/* ---- ends and cancels ----------------------------------------------------------------------------------- */

static void test_end_and_cancel(void **test) {
        struct talk *talk = talk_new();
        char cancel[128];

        for (int round = 0; round < ROUNDS; round++) {
                struct actor actors[] = {
                        {.id = round, .method = "tools/call", .params = STEPS("free", "")},
                        {.text = cancel},
                        {.text = cancel},
                };

                snprintf(cancel, sizeof(cancel),
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}",
                         round);
                act_together(talk, actors, 3);
                mcp_connection_wait(talk->connection);
                assert_in_range(talk_pending(talk, round, NULL), 0, 1);
        }
        talk_free(talk);
}

/* Becoming a task, being cancelled, and the client's leaving. */
static void test_task_and_cancel(void **test) {
        struct talk *talk = talk_new();

        for (int round = 0; round < ROUNDS; round++) {
                struct mcp_connection *leaving = talk_connect(talk, NULL);
                struct actor actors[] = {
                        {.id = round,
                         .connection = leaving,
                         .method = "tools/call",
                         .params = STEPS("able", "[\"task\"],[\"progress\",1,\"m\"]")},
                        {.connection = leaving},
                };

                act_together(talk, actors, 2);
                talk_disconnect(talk, leaving);
                assert_in_range(talk_pending(talk, round, NULL), 0, 1);
        }
        talk_free(talk);
}

/* A task ends, is cancelled, looked at, and given input, all at once; its end stays what it is. */
static void test_task_and_all(void **test) {
        struct talk *talk = talk_new();

        for (int round = 0; round < ROUNDS; round++) {
                char params[256];
                int id = 10 * round;
                json_t *answer, *again;
                struct actor actors[] = {
                        {.id = id + 1, .method = "tasks/update", .params = params},
                        {.id = id + 2, .method = round % 2 == 0 ? "tasks/cancel" : "tasks/get", .params = params},
                        {.id = id + 3, .method = "tasks/get", .params = params},
                        {.id = id + 4, .method = "tasks/cancel", .params = params},
                };

                talk_request(talk, NULL, id, "tools/call", STEPS("able", "[\"task\"],[\"ask\"," ROOTS "]"), CAN);
                answer = talk_answer(talk, id);
                snprintf(params, sizeof(params), "\"taskId\":\"%s\",\"inputResponses\":" ANSWERS,
                         json_string_value(talk_at(answer, "result/taskId")));
                json_decref(answer);
                act_together(talk, actors, 4);
                for (int i = 1; i <= 4; i++)
                        talk_check_answer(talk, id + i, "result/resultType", "\"complete\"");
                talk_request(talk, NULL, id + 5, "tasks/get", params, CAN);
                talk_request(talk, NULL, id + 6, "tasks/get", params, CAN);
                answer = talk_answer(talk, id + 5);
                again = talk_answer(talk, id + 6);
                assert_true(json_equal(talk_at(answer, "result/status"), talk_at(again, "result/status")));
                assert_string_not_equal(json_string_value(talk_at(answer, "result/status")), "working");
                assert_string_not_equal(json_string_value(talk_at(answer, "result/status")), "input_required");
                json_decref(answer);
                json_decref(again);
        }
        talk_free(talk);
}

static void await_release(struct talk *talk, size_t task) {
        for (int i = 0; i < 10000; i++) {
                bool released;

                pthread_mutex_lock(&talk->fake.lock);
                released = talk->fake.tasks[task].released;
                pthread_mutex_unlock(&talk->fake.lock);
                if (released)
                        return;
                poll(NULL, 0, 1);
        }
        fail_msg("the call is still under way");
}

/* A legacy client answers and cancels, as the wait ends. */
static void test_legacy(void **test) {
        struct talk *talk = talk_new();
        char call[512], response[128], cancel[128];

        talk->settings.input_timeout_ms = 20;
        talk_initialize(talk, "2025-11-25", "{\"roots\":{}}");
        for (int round = 0; round < ROUNDS; round++) {
                struct actor actors[] = {{.text = response}, {.text = cancel}, {.text = response}};
                json_t *question;

                snprintf(call, sizeof(call),
                         "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{" STEPS(
                                 "free", "[\"ask\"," ROOTS "]") "}}",
                         round);
                talk_say(talk, call);
                question = talk_heard(talk, "roots/list");
                snprintf(response, sizeof(response), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"result\":{\"roots\":[]}}",
                         json_string_value(json_object_get(question, "id")));
                snprintf(cancel, sizeof(cancel),
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}",
                         round);
                json_decref(question);
                act_together(talk, actors, 3);
                await_release(talk, (size_t)round);
                assert_in_range(talk_pending(talk, round, NULL), 0, 1);
        }
        talk_free(talk);
}

/* The server ends while calls wait, ask, and are at work as tasks. */
static void test_stop(void **test) {
        for (int round = 0; round < 10; round++) {
                struct talk *talk = talk_new();
                struct mcp_connection *other = talk_connect(talk, "token:b");

                for (int id = 1; id <= 3; id++) {
                        talk_request(talk, NULL, id, "tools/call", STEPS("free", "[\"ask\"," ROOTS "]"), CAN);
                        talk_request(talk, other, 10 + id, "tools/call",
                                     STEPS("able", "[\"task\"],[\"ask\"," ROOTS "],[\"cancelled\"]"), CAN);
                        talk_request(talk, other, 20 + id, "tools/call", STEPS("able", "[\"cancelled\"]"), CAN);
                }
                talk_disconnect(talk, other);
                talk_free(talk);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_retries),
                cmocka_unit_test(test_retry_and_expiry),
                cmocka_unit_test(test_retry_and_disconnect),
                cmocka_unit_test(test_end_and_cancel),
                cmocka_unit_test(test_task_and_cancel),
                cmocka_unit_test(test_task_and_all),
                cmocka_unit_test(test_legacy),
                cmocka_unit_test(test_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
