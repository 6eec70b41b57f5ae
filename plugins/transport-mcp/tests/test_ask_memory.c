/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that ask, and tasks, while each allocation in turn fails: no crash, no leak, nobody waits for ever, and every
 * request has one answer. Linked with wrapped malloc, calloc and realloc; jansson is told to use the same. */
#include "test.h"

#include <poll.h>
#include <stdatomic.h>

#include "failing_alloc.h"
#include "talk.h"

static atomic_long failing = -1; /* how many allocations succeed before one fails; negative: all do */
static atomic_bool failed;

static bool fail_now(void) {
        if (talk_exempt > 0 || atomic_load(&failing) < 0 || atomic_fetch_sub(&failing, 1) != 0)
                return false;
        atomic_store(&failed, true);
        return true;
}

/* The host's own memory is not in question. */
static int (*submit)(struct sbx_host_state *self, const struct sbx_request *request, const struct sbx_client *client,
                     const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err);

static int submit_exempt(struct sbx_host_state *self, const struct sbx_request *request,
                         const struct sbx_client *client, const struct sbx_request_done *done,
                         struct sbx_tool_task **ret_task, struct sbx_error *err) {
        int r;

        talk_exempt++;
        r = submit(self, request, client, done, ret_task, err);
        talk_exempt--;
        return r;
}

#define ROOTS "{\"a\":{\"method\":\"roots/list\"},\"b\":{\"method\":\"roots/list\"}}"
#define ANSWERS "{\"a\":{\"roots\":[]},\"b\":{\"roots\":[]}}"
#define CAN "{\"roots\":{},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"

/* Rounds until there is a result, or an error. */
static void converse_modern(struct talk *talk) {
        static const char call[] = "\"name\":\"free\",\"arguments\":{\"steps\":[[\"ask\"," ROOTS "]]}";
        char params[4096];
        json_t *answer;
        const char *state;

        talk_request(talk, NULL, 1, "tools/call", call, CAN);
        answer = talk_any(talk, 1, NULL);
        for (int id = 2; (state = json_string_value(talk_at(answer, "result/requestState"))) != NULL; id++) {
                assert_in_range(id, 0, 10);
                snprintf(params, sizeof(params), "%s,\"requestState\":\"%s\",\"inputResponses\":" ANSWERS, call, state);
                json_decref(answer);
                talk_request(talk, NULL, id, "tools/call", params, CAN);
                answer = talk_any(talk, id, NULL);
        }
        json_decref(answer);
}

static void converse_task(struct talk *talk) {
        static const char call[] = "\"name\":\"able\",\"arguments\":{\"steps\":[[\"task\"],[\"ask\"," ROOTS "]]}";
        char id[64], params[512];
        json_t *answer;
        const char *status = "";

        talk_request(talk, NULL, 101, "tools/call", call, CAN);
        answer = talk_any(talk, 101, NULL);
        if (talk_at(answer, "result/taskId") == NULL) { /* without memory it did not become one */
                json_decref(answer);
                return;
        }
        snprintf(id, sizeof(id), "%s", json_string_value(talk_at(answer, "result/taskId")));
        for (int i = 102; i < 10000; i += 2) {
                json_decref(answer);
                snprintf(params, sizeof(params), "\"taskId\":\"%s\"", id);
                talk_request(talk, NULL, i, "tasks/get", params, CAN);
                answer = talk_any(talk, i, NULL);
                status = json_string_value(talk_at(answer, "result/status"));
                if (status == NULL || strcmp(status, "working") == 0) {
                        poll(NULL, 0, 1);
                        continue;
                }
                if (strcmp(status, "input_required") != 0)
                        break;
                json_decref(answer);
                snprintf(params, sizeof(params), "\"taskId\":\"%s\",\"inputResponses\":" ANSWERS, id);
                talk_request(talk, NULL, i + 1, "tasks/update", params, CAN);
                answer = talk_any(talk, i + 1, NULL);
        }
        assert_true(strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0);
        json_decref(answer);
}

static void converse_legacy(struct talk *talk) {
        char response[256];
        json_t *message;

        talk_say(talk,
                 "{\"jsonrpc\":\"2.0\",\"id\":200,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                 "\"2025-11-25\",\"capabilities\":{\"roots\":{}},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
        json_decref(talk_any(talk, 200, NULL));
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":201,\"method\":\"tools/call\",\"params\":{\"name\":\"free\","
                       "\"arguments\":{\"steps\":[[\"ask\"," ROOTS "]]}}}");
        for (;;) {
                message = talk_any(talk, 201, "roots/list");
                if (json_object_get(message, "method") == NULL)
                        break;
                snprintf(response, sizeof(response), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"result\":{\"roots\":[]}}",
                         json_string_value(json_object_get(message, "id")));
                json_decref(message);
                talk_say(talk, response);
        }
        json_decref(message);
}

/* Whether an allocation failed. */
static bool converse(void (*talk_about)(struct talk *talk), long allocations) {
        struct talk *talk = talk_new();

        submit = talk->fake.services.request_submit;
        talk->fake.services.request_submit = submit_exempt;
        talk->settings.input_timeout_ms = 100; /* an answer may be lost */
        atomic_store(&failed, false);
        atomic_store(&failing, allocations);
        talk_about(talk);
        atomic_store(&failing, -1);
        talk_free(talk);
        return atomic_load(&failed);
}

static void sweep(void (*talk_about)(struct talk *talk)) {
        long allocations = 0;

        assert_false(converse(talk_about, -1));
        while (converse(talk_about, allocations) && allocations < 10000)
                allocations++;
        assert_in_range(allocations, 50, 9999);
}

static void test_modern(void **test) {
        sweep(converse_modern);
}

static void test_task(void **test) {
        sweep(converse_task);
}

static void test_legacy(void **test) {
        sweep(converse_legacy);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_modern),
                cmocka_unit_test(test_task),
                cmocka_unit_test(test_legacy),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
