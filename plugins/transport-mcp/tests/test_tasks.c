/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: how they begin, what a client sees of them and does with them, and what is left of them when a server ends. */
#include "test.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"

#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define TASKS_AND_FORMS "{\"elicitation\":{},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define STEPS(tool, steps) "\"name\":\"" tool "\",\"arguments\":{\"steps\":[" steps "]}"
#define FORM                                                                                                           \
        "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\","   \
        "\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}}}"
#define OK "{\"action\":\"accept\",\"content\":{\"ok\":true}}"

static int setup(void **test) {
        *test = talk_new();
        return 0;
}

static int teardown(void **test) {
        talk_free(*test);
        return 0;
}

/* Its id. */
struct id {
        char text[64];
};

static struct id take_id(struct talk *talk, int id) {
        json_t *answer = talk_answer(talk, id);
        struct id task;

        talk_check(answer, "result/resultType", "\"task\"");
        snprintf(task.text, sizeof(task.text), "%s", json_string_value(talk_at(answer, "result/taskId")));
        json_decref(answer);
        return task;
}

static struct id begin(struct talk *talk, int id, const char *steps) {
        char params[2048];

        snprintf(params, sizeof(params), STEPS("able", "[\"task\"]%s%s"), steps[0] != '\0' ? "," : "", steps);
        talk_request(talk, NULL, id, "tools/call", params, TASKS_AND_FORMS);
        return take_id(talk, id);
}

static json_t *ask_of(struct talk *talk, struct mcp_connection *connection, const char *method, struct id task,
                      const char *more) {
        static int id = 1000;
        char params[2048];

        snprintf(params, sizeof(params), "\"taskId\":\"%s\"%s", task.text, more);
        talk_request(talk, connection, ++id, method, params, TASKS_AND_FORMS);
        return talk_answer(talk, id);
}

static json_t *get(struct talk *talk, struct id task) {
        return ask_of(talk, NULL, "tasks/get", task, "");
}

/* Asks until it has this state. */
static json_t *await_status(struct talk *talk, struct id task, const char *status) {
        for (int i = 0; i < 10000; i++) {
                json_t *answer = get(talk, task);
                const char *got = json_string_value(talk_at(answer, "result/status"));

                if (got != NULL && strcmp(got, status) == 0)
                        return answer;
                json_decref(answer);
                poll(NULL, 0, 1);
        }
        fail_msg("the task never was %s", status);
        return NULL;
}

static void check_status(struct talk *talk, struct id task, const char *status, const char *path,
                         const char *expected) {
        json_t *answer = await_status(talk, task, status);

        talk_check(answer, path, expected);
        json_decref(answer);
}

static void check_of(struct talk *talk, struct mcp_connection *connection, const char *method, struct id task,
                     const char *more, const char *path, const char *expected) {
        json_t *answer = ask_of(talk, connection, method, task, more);

        talk_check(answer, path, expected);
        json_decref(answer);
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static void test_life(void **test) {
        struct talk *talk = *test;
        struct id task;
        json_t *answer, *result;

        talk_request(talk, NULL, 1, "tools/call", STEPS("able", "[\"task\"],[\"gate\"]"), TASKS);
        answer = talk_answer(talk, 1);
        result = talk_at(answer, "result");
        assert_int_equal(test_directory_count(&talk->state, "mcp-tasks", ".json"), 1); /* before the answer */
        talk_check(answer, "result/resultType", "\"task\"");
        talk_check(answer, "result/status", "\"working\"");
        talk_check(answer, "result/ttlMs", "600000");
        talk_check(answer, "result/pollIntervalMs", "500");
        assert_int_equal(strlen(json_string_value(json_object_get(result, "createdAt"))), 24);
        assert_true(json_equal(json_object_get(result, "createdAt"), json_object_get(result, "lastUpdatedAt")));
        assert_int_equal(json_object_size(result), 8); /* and _meta */
        snprintf(task.text, sizeof(task.text), "%s", json_string_value(json_object_get(result, "taskId")));
        json_decref(answer);
        answer = get(talk, task);
        talk_check(answer, "result/status", "\"working\"");
        talk_check(answer, "result/resultType", "\"complete\"");
        talk_check(answer, "result/result", "(nothing)");
        json_decref(answer);
        talk_open_gate(talk);
        answer = await_status(talk, task, "completed");
        talk_check(answer, "result/resultType", "\"complete\"");
        talk_check(answer, "result/result",
                   "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"task=1;\"}]}");
        talk_check(answer, "result/inputRequests", "(nothing)");
        talk_check(answer, "result/requestState", "(nothing)");
        json_decref(answer);
        talk_request(talk, NULL, 2, "tools/call", STEPS("able", "[\"task\"]"), "{}");
        talk_check_answer(talk, 2, "result/content/0/text", "\"task=0;\"");
}

static void test_ends(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"result\",{\"content\":[],\"isError\":true}]");

        check_status(talk, task, "completed", "result/result",
                     "{\"resultType\":\"complete\",\"content\":[],\"isError\":true}");
        task = begin(talk, 2, "[\"end\",-71,\"it panicked\"]");
        check_status(talk, task, "failed", "result/error", "{\"code\":-32603,\"message\":\"it panicked\"}");
        check_status(talk, task, "failed", "result/result", "(nothing)");
        task = begin(talk, 3, "[\"end\",-125,\"ended from inside\"]");
        check_status(talk, task, "failed", "result/error/message", "\"ended from inside\"");
        task = begin(talk, 4, "[\"result\",[7]]");
        check_status(talk, task, "failed", "result/error/code", "-32603");
}

static void test_cancel(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"cancelled\"]"), ended = begin(talk, 2, "");

        check_of(talk, NULL, "tasks/cancel", task, "", "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/get", task, "", "result/status", "\"cancelled\"");
        fake_host_await_cancel(&talk->fake, 0);
        check_of(talk, NULL, "tasks/cancel", task, "", "result/resultType", "\"complete\"");
        check_status(talk, task, "cancelled", "result/result", "(nothing)");
        json_decref(await_status(talk, ended, "completed"));
        check_of(talk, NULL, "tasks/cancel", ended, "", "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/get", ended, "", "result/status", "\"completed\"");
        check_of(talk, NULL, "tasks/cancel", (struct id){"unknown"}, "", "error/code", "-32602");
}

static void test_who_may(void **test) {
        static const char *const methods[] = {"tasks/get", "tasks/update", "tasks/cancel"};
        static const char required[] =
                "{\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}";
        struct talk *talk = *test;
        struct mcp_connection *stranger = talk_connect(talk, "token:b");
        struct id task = begin(talk, 1, "[\"gate\"]");
        char params[256];

        for (int i = 0; i < 3; i++) {
                json_t *answer;

                snprintf(params, sizeof(params), "\"taskId\":\"%s\",\"inputResponses\":{}", task.text);
                talk_request(talk, NULL, 10 + i, methods[i], params, "{\"elicitation\":{}}");
                answer = talk_answer(talk, 10 + i);
                talk_check(answer, "error/code", "-32021");
                talk_check(answer, "error/data", required);
                json_decref(answer);
                /* Another's is answered exactly as one that does not exist. */
                answer = ask_of(talk, stranger, methods[i], task, ",\"inputResponses\":{}");
                talk_check(answer, "error", "{\"code\":-32602,\"message\":\"there is no such task\"}");
                json_decref(answer);
                check_of(talk, NULL, methods[i], (struct id){"00000000000000000000000000000000"},
                         ",\"inputResponses\":{}", "error", "{\"code\":-32602,\"message\":\"there is no such task\"}");
                check_of(talk, NULL, methods[i], (struct id){"../../../../../../etc/passwd....."},
                         ",\"inputResponses\":{}", "error/code", "-32602");
                talk_request(talk, NULL, 20 + i, methods[i], "\"taskId\":7,\"inputResponses\":{}", TASKS);
                talk_check_answer(talk, 20 + i, "error/code", "-32602");
                talk_request(talk, NULL, 30 + i, methods[i], "\"inputResponses\":{}", TASKS);
                talk_check_answer(talk, 30 + i, "error/code", "-32602");
        }
        check_of(talk, NULL, "tasks/get", task, "", "result/status", "\"working\"");
        check_of(talk, NULL, "tasks/update", task, "", "error/code", "-32602");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":[]", "error/code", "-32602");
        talk_open_gate(talk);
        talk_disconnect(talk, stranger);
}

static void test_survives_connection(void **test) {
        struct talk *talk = *test;
        struct mcp_connection *connection = talk_connect(talk, NULL);
        struct id task;

        talk_request(talk, connection, 1, "tools/call", STEPS("able", "[\"task\"],[\"gate\"]"), TASKS);
        task = take_id(talk, 1);
        talk_disconnect(talk, connection);
        check_of(talk, NULL, "tasks/get", task, "", "result/status", "\"working\"");
        assert_int_equal(talk->fake.tasks[0].cancelled, 0);
        talk_open_gate(talk);
        json_decref(await_status(talk, task, "completed"));
}

static void test_message(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"progress\",1,\"half \\\"way\\\"\\n\"],[\"gate\"]");

        for (int i = 0; i < 10000; i++) {
                json_t *answer = get(talk, task);
                bool told = talk_at(answer, "result/statusMessage") != NULL;

                if (told)
                        talk_check(answer, "result/statusMessage", "\"half \\\"way\\\"\\n\"");
                json_decref(answer);
                if (told)
                        break;
                assert_int_not_equal(i, 9999);
        }
        talk_open_gate(talk);
        check_status(talk, task, "completed", "result/statusMessage", "\"half \\\"way\\\"\\n\"");
        assert_int_equal(talk_pending(talk, 0, "notifications/progress"), 0); /* the request was answered before */
}

/* ---- input --------------------------------------------------------------------------------------------- */

static void test_input(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"ask\",{\"a\":" FORM ",\"b\":" FORM "}]");

        check_status(talk, task, "input_required", "result/inputRequests", "{\"a\":" FORM ",\"b\":" FORM "}");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"beyond\":{\"ignored\":true}}",
                 "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"a\":7,\"b\":{\"action\":\"accept\"}}",
                 "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/get", task, "", "result/inputRequests", "{\"a\":" FORM ",\"b\":" FORM "}");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"b\":" OK "}", "result/resultType",
                 "\"complete\"");
        check_of(talk, NULL, "tasks/get", task, "", "result/inputRequests", "{\"a\":" FORM "}");
        check_of(talk, NULL, "tasks/get", task, "", "result/status", "\"input_required\"");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"a\":" OK "}", "result/status", "(nothing)");
        check_status(talk, task, "completed", "result/result/content/0/text",
                     "\"task=1;ask=0:{\\\"a\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"ok\\\":true}},"
                     "\\\"b\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"ok\\\":true}}};\"");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"a\":" OK "}", "result/resultType",
                 "\"complete\"");
}

static void test_input_cancelled(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"ask\",{\"a\":" FORM "}]");

        json_decref(await_status(talk, task, "input_required"));
        check_of(talk, NULL, "tasks/cancel", task, "", "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/get", task, "", "result/status", "\"cancelled\"");
        check_of(talk, NULL, "tasks/get", task, "", "result/inputRequests", "(nothing)");
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"a\":" OK "}", "result/resultType",
                 "\"complete\"");
}

/* Whoever asked learns that nobody answers, and its result can still be had. */
static void test_input_timeout(void **test) {
        struct talk *talk = *test;
        struct id task;

        talk->settings.input_timeout_ms = 20;
        task = begin(talk, 1, "[\"ask\",{\"a\":" FORM "}]");
        check_status(talk, task, "completed", "result/result/content/0/text",
                     "\"task=1;ask=-110:the client did not answer in time;\"");
}

static void test_input_before_task(void **test) {
        static const char call[] = STEPS("needy", "[\"ask\",{\"a\":" FORM "}],[\"task\"]");
        struct talk *talk = *test;
        struct id task;
        json_t *answer;
        char params[2048];

        talk_request(talk, NULL, 1, "tools/call", call, TASKS_AND_FORMS);
        answer = talk_answer(talk, 1);
        talk_check(answer, "result/resultType", "\"input_required\"");
        talk_check(answer, "result/taskId", "(nothing)");
        snprintf(params, sizeof(params), "%s,\"inputResponses\":{\"a\":" OK "},\"requestState\":\"%s\"", call,
                 json_string_value(talk_at(answer, "result/requestState")));
        json_decref(answer);
        talk_request(talk, NULL, 2, "tools/call", params, TASKS_AND_FORMS);
        task = take_id(talk, 2);
        check_status(talk, task, "completed", "result/result/content/0/text",
                     "\"ask=0:{\\\"a\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"ok\\\":true}}};task=1;\"");
        assert_int_equal(fake_host_task_count(&talk->fake), 1);
}

/* ---- tools that require it ------------------------------------------------------------------------------ */

static void test_required(void **test) {
        static const char call[] = STEPS("needy", "[\"task\"]");
        struct talk *talk = *test;
        json_t *answer;

        talk_request(talk, NULL, 1, "tools/call", call, "{}");
        answer = talk_answer(talk, 1);
        talk_check(answer, "error/code", "-32021");
        talk_check(answer, "error/data",
                   "{\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}");
        json_decref(answer);
        assert_int_equal(fake_host_task_count(&talk->fake), 0);
        talk_request(talk, NULL, 2, "tools/call", call, TASKS);
        (void)take_id(talk, 2);
        /* The list is asked for once, until it changes. */
        assert_int_equal(talk->fake.list_calls, 1);
        talk->fake.tools = "[{\"name\":\"needy\"}]";
        fake_host_changed(&talk->fake, SBX_CHANGE_TOOLS, NULL, NULL);
        talk_request(talk, NULL, 3, "tools/call", call, "{}");
        talk_check_answer(talk, 3, "result/content/0/text", "\"task=0;\"");
        assert_int_equal(talk->fake.list_calls, 2);
        talk->fake.tools = NULL;
        fake_host_changed(&talk->fake, SBX_CHANGE_TOOLS, NULL, NULL);
        talk_request(talk, NULL, 4, "tools/call", call, "{}");
        talk_check_answer(talk, 4, "result/content/0/text", "\"task=0;\"");
}

/* Who knows nothing of tasks waits for the result. */
static void test_legacy(void **test) {
        struct talk *talk = *test;

        talk_initialize(talk, "2025-11-25", TASKS);
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" STEPS(
                               "needy", "[\"task\"]") ",\"task\":{\"ttl\":1}}}");
        talk_check_answer(talk, 1, "result/content/0/text", "\"task=0;\"");
}

/* ---- bounds -------------------------------------------------------------------------------------------- */

static void test_bounds(void **test) {
        struct talk *talk = *test;
        struct mcp_connection *other = talk_connect(talk, "token:b");
        struct id tasks[5];
        int ended;

        for (int i = 0; i < 4; i++)
                tasks[i] = begin(talk, i, i < 2 ? "" : "[\"gate\"]");
        for (int i = 0; i < 2; i++)
                json_decref(await_status(talk, tasks[i], "completed"));
        /* The oldest of those that have ended goes. Its call may not be gone yet when it is seen as completed. */
        tasks[4] = begin(talk, 10, "[\"gate\"]");
        ended = 0;
        for (int i = 0; i < 2; i++) {
                json_t *answer = get(talk, tasks[i]);

                ended += talk_at(answer, "error") != NULL;
                json_decref(answer);
        }
        assert_int_equal(ended, 1);
        (void)begin(talk, 11, "[\"gate\"]");
        /* Now all are at work. */
        talk_request(talk, NULL, 12, "tools/call", STEPS("able", "[\"task\"]"), TASKS);
        talk_check_answer(talk, 12, "result/content/0/text", "\"task=0;\"");
        talk_request(talk, NULL, 13, "tools/call", STEPS("needy", "[\"task\"]"), TASKS);
        talk_check_answer(talk, 13, "error/code", "-32010");
        talk_request(talk, other, 14, "tools/call", STEPS("able", "[\"task\"]"), TASKS);
        (void)take_id(talk, 14);
        for (int i = 0; i < 4; i++)
                talk_open_gate(talk);
        talk_disconnect(talk, other);
}

static void test_expiry(void **test) {
        struct talk *talk = *test;
        struct id working, ended;
        json_t *answer;

        talk->settings.task_ttl_ms = 1;
        working = begin(talk, 1, "[\"gate\"]");
        ended = begin(talk, 2, "");
        do {
                poll(NULL, 0, 1);
                answer = get(talk, ended);
                json_decref(answer);
        } while (test_directory_count(&talk->state, "mcp-tasks", ".json") > 1);
        check_of(talk, NULL, "tasks/get", ended, "", "error/code", "-32602");
        /* What is at work is kept. */
        check_of(talk, NULL, "tasks/get", working, "", "result/status", "\"working\"");
        talk_open_gate(talk);
}

/* ---- records ------------------------------------------------------------------------------------------- */

static void test_restart(void **test) {
        struct talk *talk = *test;
        struct id ended = begin(talk, 1, ""), working = begin(talk, 2, "[\"cancelled\"],[\"end\",-125,\"x\"]"),
                  asking = begin(talk, 3, "[\"ask\",{\"a\":" FORM "}],[\"end\",-125,\"x\"]");

        json_decref(await_status(talk, ended, "completed"));
        json_decref(await_status(talk, asking, "input_required"));
        talk_restart(talk);
        check_of(talk, NULL, "tasks/get", ended, "", "result/result/content/0/text", "\"task=1;\"");
        check_of(talk, NULL, "tasks/get", working, "", "result/status", "\"failed\"");
        check_of(talk, NULL, "tasks/get", working, "", "result/error/message",
                 "\"the server ended while the task was at work; call the tool again\"");
        check_of(talk, NULL, "tasks/get", asking, "", "result/status", "\"failed\"");
        check_of(talk, NULL, "tasks/cancel", working, "", "result/resultType", "\"complete\"");
        check_of(talk, NULL, "tasks/get", working, "", "result/status", "\"failed\"");
}

static void write_record(struct talk *talk, const char *id, const char *server, const char *status,
                         const char *payload) {
        char name[128], text[1024];

        snprintf(name, sizeof(name), "mcp-tasks/%s.json", id);
        snprintf(text, sizeof(text),
                 "{\"version\":1,\"taskId\":\"%s\",\"server\":\"%s\",\"principal\":\"token:a\",\"status\":\"%s\","
                 "\"createdMs\":1795000000000,\"updatedMs\":1795000000000,\"ttlMs\":9000000000000}\n%s",
                 id, server, status, payload);
        test_directory_write(&talk->state, name, text, strlen(text));
}

#define ONE "11111111111111111111111111111111"
#define TWO "22222222222222222222222222222222"
#define GONE "99999999999999999999999999999999"

/* What a server left that was killed: its lock is not held. */
static void test_killed(void **test) {
        struct talk *talk = *test;
        struct id known = begin(talk, 1, "[\"gate\"]");

        write_record(talk, ONE, GONE, "working", "");
        write_record(talk, TWO, GONE, "completed", "{\"content\":[0.1]}\n");
        /* This server looked for records before these came. */
        check_of(talk, NULL, "tasks/get", (struct id){ONE}, "", "result/status", "\"failed\"");
        check_of(talk, NULL, "tasks/get", (struct id){TWO}, "", "result/status", "\"completed\"");
        check_of(talk, NULL, "tasks/cancel", (struct id){ONE}, "", "result/resultType", "\"complete\"");
        talk_open_gate(talk);
        json_decref(await_status(talk, known, "completed"));
        talk_restart(talk);
        check_of(talk, NULL, "tasks/get", (struct id){ONE}, "", "result/status", "\"failed\"");
        check_of(talk, NULL, "tasks/get", (struct id){TWO}, "", "result/status", "\"completed\"");
}

/* What is no record is no task, whatever it says; and it is cleared away when a server begins. */
static void test_hostile(void **test) {
        static const char *const payloads[] = {"rubbish\n", "{}", "{}\n{}\n", "[]\n", "{\"a\":1},\"b\":{\"c\":1}\n"};
        struct talk *talk = *test;

        (void)begin(talk, 1, "");
        for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
                write_record(talk, TWO, GONE, "completed", payloads[i]);
                check_of(talk, NULL, "tasks/get", (struct id){TWO}, "", "error/code", "-32602");
        }
        test_directory_write(&talk->state, "mcp-tasks/" ONE ".json", "rubbish", 7);
        talk_restart(talk);
        check_of(talk, NULL, "tasks/get", (struct id){ONE}, "", "error/code", "-32602");
        assert_false(test_directory_has(&talk->state, "mcp-tasks/" ONE ".json"));
}

/* Another server of the same user works on it: it is seen, but not to be had. */
static void test_two_servers(void **test) {
        struct talk *talk = *test, *other = talk_new();
        struct test_directory own = other->state;
        struct id task;

        other->fake.state_directory = talk->state.path;
        other->state = talk->state;
        task = begin(talk, 1, "[\"gate\"]");
        check_of(other, NULL, "tasks/get", task, "", "result/status", "\"working\"");
        check_of(other, NULL, "tasks/cancel", task, "", "error/code", "-32603");
        check_of(other, NULL, "tasks/update", task, ",\"inputResponses\":{}", "error/code", "-32603");
        talk_open_gate(talk);
        json_decref(await_status(talk, task, "completed"));
        json_decref(await_status(other, task, "completed"));
        check_of(other, NULL, "tasks/cancel", task, "", "result/resultType", "\"complete\"");
        other->state = own;
        talk_free(other);
        assert_int_equal(test_directory_count(&talk->state, "mcp-tasks", ".lock"), 1);
}

static void test_no_directory(void **test) {
        struct talk *talk = *test;

        talk->fake.state_directory = NULL;
        talk_request(talk, NULL, 1, "tools/call", STEPS("able", "[\"task\"]"), TASKS);
        talk_check_answer(talk, 1, "result/content/0/text", "\"task=0;\"");
        check_of(talk, NULL, "tasks/get", (struct id){ONE}, "", "error/code", "-32602");
        check_of(talk, NULL, "tasks/cancel", (struct id){ONE}, "", "error/code", "-32602");
}

/* An end that can't be written is told all the same. */
static void test_end_without_directory(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"gate\"]");

        test_directory_remove_inner(&talk->state, "mcp-tasks");
        talk_open_gate(talk);
        check_status(talk, task, "completed", "result/result/content/0/text", "\"task=1;\"");
        talk_request(talk, NULL, 2, "tools/call", STEPS("able", "[\"task\"]"), TASKS);
        talk_check_answer(talk, 2, "result/content/0/text", "\"task=0;\"");
}

/* ---- news ---------------------------------------------------------------------------------------------- */

static void test_subscription(void **test) {
        struct talk *talk = *test;
        struct id task = begin(talk, 1, "[\"gate\"],[\"ask\",{\"a\":" FORM "}]");
        char params[256];
        json_t *news;

        snprintf(params, sizeof(params), "\"notifications\":{\"taskIds\":[\"%s\"]}", task.text);
        talk_request(talk, NULL, 2, "subscriptions/listen", params, TASKS);
        json_decref(talk_heard(talk, "notifications/subscriptions/acknowledged"));
        talk_open_gate(talk);
        news = talk_heard(talk, "notifications/tasks");
        talk_check(news, "params/status", "\"input_required\"");
        talk_check(news, "params/inputRequests", "{\"a\":" FORM "}");
        json_decref(news);
        check_of(talk, NULL, "tasks/update", task, ",\"inputResponses\":{\"a\":" OK "}", "result/resultType",
                 "\"complete\"");
        do {
                news = talk_heard(talk, "notifications/tasks");
                talk_check(news, "params/requestState", "(nothing)");
                if (strcmp(json_string_value(talk_at(news, "params/status")), "completed") == 0)
                        break;
                json_decref(news);
        } while (true);
        talk_check(news, "params/result/resultType", "\"complete\"");
        json_decref(news);
}

#define TASK_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TASK_TEST(test_life),
                TASK_TEST(test_ends),
                TASK_TEST(test_cancel),
                TASK_TEST(test_who_may),
                TASK_TEST(test_survives_connection),
                TASK_TEST(test_message),
                TASK_TEST(test_input),
                TASK_TEST(test_input_cancelled),
                TASK_TEST(test_input_timeout),
                TASK_TEST(test_input_before_task),
                TASK_TEST(test_required),
                TASK_TEST(test_legacy),
                TASK_TEST(test_bounds),
                TASK_TEST(test_expiry),
                TASK_TEST(test_restart),
                TASK_TEST(test_killed),
                TASK_TEST(test_hostile),
                TASK_TEST(test_two_servers),
                TASK_TEST(test_no_directory),
                TASK_TEST(test_end_without_directory),
                TASK_TEST(test_subscription),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
