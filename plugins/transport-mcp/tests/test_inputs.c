/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that ask their client: the rounds of a modern one, and the requests that a legacy one gets. */
#include "test.h"

#include "talk.h"

#define FORM(name)                                                                                                     \
        "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\","   \
        "\"properties\":{\"" name "\":{\"type\":\"string\"}},\"required\":[\"" name "\"]}}}"
#define ROOTS "{\"method\":\"roots/list\"}"
#define SAMPLING "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[],\"maxTokens\":5}}"
#define ALICE "{\"action\":\"accept\",\"content\":{\"name\":\"Alice\"}}"
#define ASK_NAME "[\"ask\",{\"user\":" FORM("name") "}]"
#define STEPS(steps) "\"name\":\"free\",\"arguments\":{\"steps\":[" steps "]}"
#define ALL "{\"elicitation\":{},\"sampling\":{},\"roots\":{}}"
#define TEXT "result/content/0/text"

#define LEGACY_CALL(id, steps)                                                                                         \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{" STEPS(steps) "}}"

static int setup(void **test) {
        *test = talk_new();
        return 0;
}

static int teardown(void **test) {
        talk_free(*test);
        return 0;
}

/* Takes the state out of an answer that asks for input; the caller frees. */
static char *take_state(struct talk *talk, int id, const char *asked) {
        json_t *answer = talk_answer(talk, id);
        char *state;

        talk_check(answer, "result/resultType", "\"input_required\"");
        talk_check(answer, "result/inputRequests", asked);
        state = strdup(json_string_value(talk_at(answer, "result/requestState")));
        json_decref(answer);
        return state;
}

static void retry_on(struct talk *talk, struct mcp_connection *connection, int id, const char *params,
                     const char *state, const char *responses, const char *capabilities) {
        char text[8192];

        snprintf(text, sizeof(text), "%s,\"requestState\":\"%s\"%s%s", params, state,
                 responses != NULL ? ",\"inputResponses\":" : "", responses != NULL ? responses : "");
        talk_request(talk, connection, id, "tools/call", text, capabilities);
}

static void retry(struct talk *talk, int id, const char *params, const char *state, const char *responses) {
        retry_on(talk, NULL, id, params, state, responses, ALL);
}

/* ---- modern -------------------------------------------------------------------------------------------- */

static void test_rounds(void **test) {
        static const char call[] = STEPS(ASK_NAME ",[\"ask\",{\"color\":" FORM("color") "}]");
        struct talk *talk = *test;
        char *first, *second;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        first = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        retry(talk, 2, call, first, "{\"user\":" ALICE "}");
        second = take_state(talk, 2, "{\"color\":" FORM("color") "}");
        assert_string_not_equal(first, second);
        retry(talk, 3, call, second, "{\"color\":{\"action\":\"accept\",\"content\":{\"color\":\"blue\"}}}");
        talk_check_answer(talk, 3, TEXT,
                          "\"ask=0:{\\\"user\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"name\\\":\\\"Alice"
                          "\\\"}}};ask=0:{\\\"color\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"color\\\":"
                          "\\\"blue\\\"}}};\"");
        assert_int_equal(fake_host_task_count(&talk->fake), 1); /* never run twice */
        free(first);
        free(second);
}

static void test_answers_of_first_request(void **test) {
        static const char call[] = STEPS(ASK_NAME ",[\"ask\",{\"user\":" FORM("name") "}]");
        struct talk *talk = *test;

        talk_request(talk, NULL, 1, "tools/call",
                     STEPS(ASK_NAME) ",\"inputResponses\":{\"user\":" ALICE ",\"beyond\":7,\"other\":{}}", ALL);
        talk_check_answer(talk, 1, "result/resultType", "\"complete\"");
        talk_request(talk, NULL, 2, "tools/call", call, ALL);
        {
                char *state = take_state(talk, 2, "{\"user\":" FORM("name") "}");

                /* What was answered is not asked again. */
                retry(talk, 3, call, state, "{\"user\":" ALICE "}");
                talk_check_answer(talk, 3, "result/resultType", "\"complete\"");
                free(state);
        }
}

static void test_only_what_is_missing(void **test) {
        static const char call[] =
                STEPS("[\"ask\",{\"user\":" FORM("name") ",\"folders\":" ROOTS ",\"model\":" SAMPLING "}]");
        struct talk *talk = *test;
        char *state;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") ",\"folders\":" ROOTS ",\"model\":" SAMPLING "}");
        retry(talk, 2, call, state, "{\"folders\":{\"roots\":[]},\"user\":12345,\"beyond\":{}}");
        free(state);
        state = take_state(talk, 2, "{\"user\":" FORM("name") ",\"model\":" SAMPLING "}");
        retry(talk, 3, call, state, NULL);
        free(state);
        state = take_state(talk, 3, "{\"user\":" FORM("name") ",\"model\":" SAMPLING "}");
        retry(talk, 4, call, state,
              "{\"user\":{\"action\":\"decline\"},\"folders\":{\"roots\":[{\"uri\":\"file:///late\"}]},\"model\":{\"role\":"
              "\"assistant\",\"model\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"x\"}}}");
        talk_check_answer(talk, 4, TEXT,
                          "\"ask=0:{\\\"user\\\":{\\\"action\\\":\\\"decline\\\"},\\\"folders\\\":{\\\"roots\\\":[]},"
                          "\\\"model\\\":{\\\"role\\\":\\\"assistant\\\",\\\"model\\\":\\\"m\\\",\\\"content\\\":{"
                          "\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"x\\\"}}};\"");
        free(state);
}

static void test_wrong_types(void **test) {
        static const char *const wrong[] = {
                ",\"inputResponses\":null", ",\"inputResponses\":[]",          ",\"inputResponses\":7",
                ",\"requestState\":7",      ",\"requestState\":null",          ",\"requestState\":\"\"",
                ",\"requestState\":\"a\"",  ",\"requestState\":\"a\\u0000b\"",
        };
        struct talk *talk = *test;
        char params[512];

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                snprintf(params, sizeof(params), STEPS("") "%s", wrong[i]);
                talk_request(talk, NULL, (int)i, "tools/call", params, ALL);
                talk_check_answer(talk, (int)i, "error/code", "-32602");
        }
        assert_int_equal(fake_host_task_count(&talk->fake), 0);
}

/* A state is good once, for the same principal, method, name and arguments; and none of this uses it up. */
static void test_states(void **test) {
        static const char call[] = STEPS(ASK_NAME);
        struct talk *talk = *test;
        struct mcp_connection *stranger = talk_connect(talk, "token:b"), *again = talk_connect(talk, NULL);
        char *state, changed[4096];

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        snprintf(changed, sizeof(changed), "%s-TAMPERED", state);
        retry(talk, 2, call, changed, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 2, "error/code", "-32602");
        retry(talk, 3, STEPS(ASK_NAME ",[\"gate\"]"), state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 3, "error/code", "-32602");
        retry(talk, 4, "\"name\":\"able\",\"arguments\":{\"steps\":[" ASK_NAME "]}", state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 4, "error/code", "-32602");
        retry_on(talk, stranger, 5, call, state, "{\"user\":" ALICE "}", ALL);
        talk_check_answer(talk, 5, "error/code", "-32602");
        snprintf(changed, sizeof(changed), "\"name\":\"free\",\"requestState\":\"%s\"", state);
        talk_request(talk, NULL, 6, "prompts/get", changed, ALL);
        talk_check_answer(talk, 6, "error/code", "-32602");
        retry(talk, 7, call, state, "null");
        talk_check_answer(talk, 7, "error/code", "-32602");
        retry_on(talk, again, 8, call, state, "{\"user\":" ALICE "}", ALL); /* another connection, the same principal */
        talk_check_answer(talk, 8, "result/resultType", "\"complete\"");
        retry(talk, 9, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 9, "error/code", "-32602");
        assert_int_equal(fake_host_task_count(&talk->fake), 1);
        talk_disconnect(talk, stranger);
        talk_disconnect(talk, again);
        free(state);
}

static void test_replay_of_round(void **test) {
        static const char call[] = STEPS(ASK_NAME ",[\"ask\",{\"color\":" FORM("color") "}]");
        struct talk *talk = *test;
        char *first, *second;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        first = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        retry(talk, 2, call, first, "{\"user\":" ALICE "}");
        second = take_state(talk, 2, "{\"color\":" FORM("color") "}");
        retry(talk, 3, call, first, "{\"color\":{\"action\":\"decline\"}}");
        talk_check_answer(talk, 3, "error/code", "-32602");
        retry(talk, 4, call, second, "{\"color\":{\"action\":\"decline\"}}");
        talk_check_answer(talk, 4, "result/resultType", "\"complete\"");
        free(first);
        free(second);
}

/* The first answers nothing that fits, so both could be served; but only one has the call. */
static void test_two_retries(void **test) {
        static const char call[] = STEPS(ASK_NAME ",[\"gate\"]");
        struct talk *talk = *test;
        char *state;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        retry(talk, 2, call, state, "{\"user\":" ALICE "}");
        retry(talk, 3, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 3, "error/code", "-32602");
        talk_open_gate(talk);
        talk_check_answer(talk, 2, "result/resultType", "\"complete\"");
        free(state);
}

static void test_survives_connection(void **test) {
        static const char call[] = STEPS(ASK_NAME);
        struct talk *talk = *test;
        struct mcp_connection *connection = talk_connect(talk, NULL);
        char *state;

        talk_request(talk, connection, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        talk_disconnect(talk, connection);
        retry(talk, 2, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 2, "result/resultType", "\"complete\"");
        free(state);
}

static void test_cancelled_retry(void **test) {
        static const char call[] = STEPS(ASK_NAME ",[\"cancelled\"]");
        struct talk *talk = *test;
        struct mcp_connection *connection = talk_connect(talk, NULL);
        char *state;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        retry_on(talk, connection, 2, call, state, "{\"user\":" ALICE "}", ALL);
        talk_disconnect(talk, connection);
        fake_host_await_cancel(&talk->fake, 0);
        assert_int_equal(talk_pending(talk, 2, NULL), 0);
        retry(talk, 3, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 3, "error/code", "-32602");
        free(state);
}

/* Modern clients begin without `initialize`, and their notifications need not say what they are. */
static void test_cancelled(void **test) {
        static const char call[] = STEPS("[\"cancelled\"]," ASK_NAME);
        struct talk *talk = *test;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        fake_host_await_cancel(&talk->fake, 0);
        mcp_connection_cancel(talk->connection);
        mcp_connection_wait(talk->connection);
        assert_int_equal(talk_pending(talk, 1, NULL), 0);
}

static void test_expiry(void **test) {
        static const char call[] = STEPS(ASK_NAME);
        struct talk *talk = *test;
        char *state;

        talk->settings.input_timeout_ms = 20;
        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        fake_host_await_cancel(&talk->fake, 0);
        retry(talk, 2, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 2, "error/code", "-32602");
        free(state);
}

static void test_too_many(void **test) {
        struct talk *talk = *test;
        struct mcp_connection *other = talk_connect(talk, "token:b");
        int id;

        for (id = 1; id <= 4; id++) {
                talk_request(talk, NULL, id, "tools/call", STEPS(ASK_NAME), ALL);
                free(take_state(talk, id, "{\"user\":" FORM("name") "}"));
        }
        talk_request(talk, NULL, id, "tools/call", STEPS(ASK_NAME), ALL);
        talk_check_answer(talk, id, TEXT, "\"ask=-16:too many calls wait for input of this client (at most 4);\"");
        talk_request(talk, other, 20, "tools/call", STEPS(ASK_NAME), ALL);
        free(take_state(talk, 20, "{\"user\":" FORM("name") "}"));
        talk_disconnect(talk, other);
        /* A legacy client's questions count as well: they keep a thread busy as long. */
        talk_initialize(talk, "2025-11-25", ALL);
        talk_say(talk, LEGACY_CALL("30", ASK_NAME));
        talk_check_answer(talk, 30, TEXT, "\"ask=-16:too many calls wait for input of this client (at most 4);\"");
}

static void test_capabilities(void **test) {
        static const char call[] = STEPS("[\"ask\",{\"a\":" ROOTS "}],[\"ask\",{\"b\":" SAMPLING "}]");
        struct talk *talk = *test;
        char *state;

        talk_request(talk, NULL, 1, "tools/call", STEPS(ASK_NAME), "{\"sampling\":{}}");
        talk_check_answer(talk, 1, TEXT,
                          "\"ask=-95:the client has not declared that it can answer \\\"elicitation/create\\\";\"");
        /* Those of the request that is attached last count. */
        talk_request(talk, NULL, 2, "tools/call", call, "{\"roots\":{}}");
        state = take_state(talk, 2, "{\"a\":" ROOTS "}");
        retry_on(talk, NULL, 3, call, state, "{\"a\":{\"roots\":[]}}", "{\"sampling\":{}}");
        free(state);
        state = take_state(talk, 3, "{\"b\":" SAMPLING "}");
        free(state);
}

static void test_missing_capability(void **test) {
        static const char call[] = STEPS("[\"ask\",{\"a\":" SAMPLING ",\"b\":" FORM("name") "}],[\"end\",-95,\"no\"]");
        struct talk *talk = *test;
        json_t *answer;

        talk_request(talk, NULL, 1, "tools/call", call, "{\"roots\":{}}");
        answer = talk_answer(talk, 1);
        talk_check(answer, "error/code", "-32021");
        talk_check(answer, "error/data", "{\"requiredCapabilities\":{\"sampling\":{},\"elicitation\":{}}}");
        json_decref(answer);
        /* Without a question that the client could not answer, it is an error of another kind. */
        talk_request(talk, NULL, 2, "tools/call", STEPS("[\"end\",-95,\"no\"]"), "{}");
        talk_check_answer(talk, 2, "error/code", "-32603");
        talk_initialize(talk, "2025-11-25", "{}");
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{" STEPS(
                               "[\"ask\",{\"a\":" SAMPLING "}],[\"end\",-95,\"no\"]") "}}");
        talk_check_answer(talk, 3, "error/code", "-32602");
}

/* The retry's own token and level; and nothing of a call that waits. */
static void test_news_of_retry(void **test) {
        static const char call[] =
                STEPS("[\"progress\",5,\"a\"]," ASK_NAME ",[\"progress\",1,\"b\"],[\"log\",\"info\",{\"x\":1}]");
        struct talk *talk = *test;
        json_t *message;
        char *state;

        talk_request(talk, NULL, 1, "tools/call", call, ALL);
        state = take_state(talk, 1, "{\"user\":" FORM("name") "}");
        retry(talk, 2, call, state, "{\"user\":" ALICE "}");
        talk_check_answer(talk, 2, "result/resultType", "\"complete\"");
        message = talk_heard(talk, "notifications/progress");
        talk_check(message, "params", "{\"progressToken\":\"p1\",\"progress\":5,\"message\":\"a\"}");
        json_decref(message);
        message = talk_heard(talk, "notifications/progress");
        talk_check(message, "params", "{\"progressToken\":\"p2\",\"progress\":1,\"message\":\"b\"}");
        json_decref(message);
        message = talk_heard(talk, "notifications/message");
        talk_check(message, "params/data", "{\"x\":1}");
        json_decref(message);
        free(state);
}

/* A client that never says anything that makes sense is given up on in the end. */
static void test_nonsense(void **test) {
        static const char call[] = STEPS(ASK_NAME);
        struct talk *talk = *test;
        json_t *answer;
        int id = 1;

        talk_request(talk, NULL, id, "tools/call", call, ALL);
        for (;;) {
                char *state;

                answer = talk_answer(talk, id);
                if (talk_at(answer, "result/requestState") == NULL)
                        break;
                state = strdup(json_string_value(talk_at(answer, "result/requestState")));
                json_decref(answer);
                retry(talk, ++id, call, state, "{\"user\":[]}");
                free(state);
                assert_in_range(id, 1, 100);
        }
        talk_check(answer, TEXT, "\"ask=-13:the client's answers make no sense, again and again;\"");
        json_decref(answer);
}

static void test_stop(void **test) {
        struct talk *talk = *test;

        talk_request(talk, NULL, 1, "tools/call", STEPS(ASK_NAME), ALL);
        free(take_state(talk, 1, "{\"user\":" FORM("name") "}"));
        talk_restart(talk);
        assert_int_equal(talk->fake.tasks[0].cancelled, 1);
        assert_int_equal(talk_pending(talk, 1, NULL), 0);
}

/* ---- legacy -------------------------------------------------------------------------------------------- */

static void respond(struct talk *talk, const json_t *request, const char *members) {
        char text[1024];

        snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",%s}",
                 json_string_value(json_object_get(request, "id")), members);
        talk_say(talk, text);
}

static void test_legacy(void **test) {
        struct talk *talk = *test;
        json_t *question, *other;

        talk_initialize(talk, "2025-11-25", ALL);
        talk_say(talk, LEGACY_CALL("1", "[\"ask\",{\"user\":" FORM("name") ",\"folders\":" ROOTS "}]"));
        question = talk_heard(talk, "elicitation/create");
        other = talk_heard(talk, "roots/list");
        talk_check(question, "params/message", "\"?\"");
        talk_check(other, "jsonrpc", "\"2.0\"");
        respond(talk, other, "\"result\":{\"roots\":[]}");
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":\"snipara-sandbox/999\",\"result\":{}}");
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"result\":{}}");
        assert_int_equal(talk_pending(talk, 1, NULL), 0);
        respond(talk, question, "\"result\":" ALICE);
        respond(talk, question, "\"result\":" ALICE);
        talk_check_answer(talk, 1, TEXT,
                          "\"ask=0:{\\\"user\\\":{\\\"action\\\":\\\"accept\\\",\\\"content\\\":{\\\"name\\\":\\\"Alice"
                          "\\\"}},\\\"folders\\\":{\\\"roots\\\":[]}};\"");
        assert_int_equal(talk_pending(talk, 0, "notifications/cancelled"), 0);
        json_decref(question);
        json_decref(other);
}

static void test_legacy_refused(void **test) {
        struct talk *talk = *test;
        json_t *question;

        talk_initialize(talk, "2025-11-25", ALL);
        talk_say(talk, LEGACY_CALL("1", "[\"ask\",{\"user\":" FORM("name") "}]"));
        question = talk_heard(talk, "elicitation/create");
        respond(talk, question, "\"error\":{\"code\":-1,\"message\":\"not today\"}");
        json_decref(question);
        talk_check_answer(talk, 1, TEXT,
                          "\"ask=-13:the client refused \\\"elicitation/create\\\": not today (code -1);\"");
        talk_say(talk, LEGACY_CALL("2", "[\"ask\",{\"user\":" FORM("name") "}]"));
        question = talk_heard(talk, "elicitation/create");
        respond(talk, question, "\"result\":{\"action\":\"accept\"}");
        json_decref(question);
        talk_check_answer(talk, 2, TEXT,
                          "\"ask=-13:the client's answer to \\\"elicitation/create\\\" makes no sense;\"");
        talk_say(talk, LEGACY_CALL("3", "[\"ask\",{\"user\":{\"method\":\"elicitation/create\",\"params\":{\"mode\":"
                                        "\"url\"}}}]"));
        talk_check_answer(talk, 3, TEXT,
                          "\"ask=-95:the client has not declared that it can answer \\\"elicitation/create\\\";\"");
}

/* What the client has not answered when the call ends is taken back. */
static void test_legacy_cancelled(void **test) {
        struct talk *talk = *test;
        json_t *question, *taken_back;

        talk_initialize(talk, "2025-11-25", ALL);
        talk_say(talk, LEGACY_CALL("1", ASK_NAME));
        question = talk_heard(talk, "elicitation/create");
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        taken_back = talk_heard(talk, "notifications/cancelled");
        assert_true(json_equal(json_object_get(question, "id"), talk_at(taken_back, "params/requestId")));
        respond(talk, question, "\"result\":" ALICE);
        json_decref(question);
        json_decref(taken_back);
        mcp_connection_cancel(talk->connection);
        mcp_connection_wait(talk->connection);
        assert_int_equal(talk_pending(talk, 1, NULL), 0);
}

static void test_legacy_timeout(void **test) {
        struct talk *talk = *test;

        talk->settings.input_timeout_ms = 20;
        talk_initialize(talk, "2025-06-18", ALL);
        talk_say(talk, LEGACY_CALL("1", ASK_NAME));
        json_decref(talk_heard(talk, "elicitation/create"));
        json_decref(talk_heard(talk, "notifications/cancelled"));
        talk_check_answer(talk, 1, TEXT, "\"ask=-110:the client did not answer in time;\"");
}

/* One refusal takes the others back; and there is a bound. */
static void test_legacy_bounds(void **test) {
        static const char several[] =
                "[\"ask\",{\"a\":" ROOTS ",\"b\":" ROOTS ",\"c\":" ROOTS ",\"d\":" ROOTS ",\"e\":" ROOTS ",\"f\":" ROOTS
                ",\"g\":" ROOTS ",\"h\":" ROOTS ",\"i\":" ROOTS ",\"j\":" ROOTS "}]";
        struct talk *talk = *test;
        char text[4096];

        talk->settings.waiting_max = 32;
        talk_initialize(talk, "2025-11-25", ALL);
        for (int id = 1; id <= 6; id++) {
                snprintf(text, sizeof(text),
                         "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{" STEPS("%s") "}}", id,
                         several);
                talk_say(talk, text);
                for (int i = 0; i < 10; i++)
                        json_decref(talk_heard(talk, "roots/list"));
        }
        snprintf(text, sizeof(text),
                 "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{" STEPS("%s") "}}", several);
        talk_say(talk, text);
        talk_check_answer(talk, 7, TEXT, "\"ask=-16:the client has too many questions to answer (at most 64);\"");
}

/* inputResponses mean nothing in a legacy request. */
static void test_legacy_keeps_to_its_own(void **test) {
        struct talk *talk = *test;
        json_t *question;

        talk_initialize(talk, "2025-11-25", ALL);
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" STEPS(
                               ASK_NAME) ",\"requestState\":\"x\",\"inputResponses\":{\"user\":" ALICE "}}}");
        question = talk_heard(talk, "elicitation/create");
        respond(talk, question, "\"result\":{\"action\":\"decline\"}");
        talk_check_answer(talk, 1, TEXT, "\"ask=0:{\\\"user\\\":{\\\"action\\\":\\\"decline\\\"}};\"");
        json_decref(question);
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void test_bad_questions(void **test) {
        static const char *const bad[] = {"{}", "[]", "7", "{\"a\":7}",
                                          "{\"a\":{\"method\":\"roots/list\",\"params\":7}}"};
        struct talk *talk = *test;
        char params[512];
        json_t *answer;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(params, sizeof(params), STEPS("[\"ask\",%s]"), bad[i]);
                talk_request(talk, NULL, (int)i, "tools/call", params, ALL);
                answer = talk_answer(talk, (int)i);
                assert_memory_equal(json_string_value(talk_at(answer, TEXT)), "ask=-22:", 8);
                json_decref(answer);
        }
        talk_request(talk, NULL, 50, "tools/call", STEPS("[\"ask\",{\"a\":{\"method\":\"unheard/of\"}}]"), ALL);
        answer = talk_answer(talk, 50);
        assert_memory_equal(json_string_value(talk_at(answer, TEXT)), "ask=-95:", 8);
        json_decref(answer);
}

#define INPUT_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                INPUT_TEST(test_rounds),
                INPUT_TEST(test_answers_of_first_request),
                INPUT_TEST(test_only_what_is_missing),
                INPUT_TEST(test_wrong_types),
                INPUT_TEST(test_states),
                INPUT_TEST(test_replay_of_round),
                INPUT_TEST(test_two_retries),
                INPUT_TEST(test_survives_connection),
                INPUT_TEST(test_cancelled_retry),
                INPUT_TEST(test_cancelled),
                INPUT_TEST(test_expiry),
                INPUT_TEST(test_too_many),
                INPUT_TEST(test_capabilities),
                INPUT_TEST(test_missing_capability),
                INPUT_TEST(test_news_of_retry),
                INPUT_TEST(test_nonsense),
                INPUT_TEST(test_stop),
                INPUT_TEST(test_legacy),
                INPUT_TEST(test_legacy_refused),
                INPUT_TEST(test_legacy_cancelled),
                INPUT_TEST(test_legacy_timeout),
                INPUT_TEST(test_legacy_bounds),
                INPUT_TEST(test_legacy_keeps_to_its_own),
                INPUT_TEST(test_bad_questions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
