/* SPDX-License-Identifier: Apache-2.0 */
/* What a client hears of a call before its answer: log lines of the levels that it wants, and not too many. */
#include "test.h"

#include "talk.h"

#define STEPS(steps) "\"name\":\"free\",\"arguments\":{\"steps\":[" steps "]}"
#define LEGACY(id, method, params)                                                                                     \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define HEARD "notifications/message"

static int setup(void **test) {
        *test = talk_new();
        return 0;
}

static int teardown(void **test) {
        talk_free(*test);
        return 0;
}

static void check_line(struct talk *talk, const char *level, const char *data) {
        json_t *line = talk_heard(talk, HEARD);

        talk_check(line, "params/level", level);
        talk_check(line, "params/data", data);
        json_decref(line);
}

/* The request of a talk asks for "info". */
static void test_modern_levels(void **test) {
        struct talk *talk = *test;

        talk_request(talk, NULL, 1, "tools/call",
                     STEPS("[\"log\",\"debug\",1],[\"log\",\"unheard-of\",2],[\"log\",\"info\",{\"a\":[3]}],"
                           "[\"log\",\"emergency\",\"line\\nline\"]"),
                     "{}");
        talk_check_answer(talk, 1, "result/resultType", "\"complete\"");
        check_line(talk, "\"info\"", "{\"a\":[3]}");
        check_line(talk, "\"emergency\"", "\"line\\nline\"");
        assert_int_equal(talk_pending(talk, 0, HEARD), 0);
}

static void test_modern_unasked(void **test) {
        struct talk *talk = *test;

        talk_say(
                talk,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" STEPS(
                        "[\"log\",\"emergency\",1]") ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
                                                     "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
        talk_check_answer(talk, 1, "result/resultType", "\"complete\"");
        assert_int_equal(talk_pending(talk, 0, HEARD), 0);
}

/* The level that is set counts for calls that are under way, too. */
static void test_legacy_levels(void **test) {
        struct talk *talk = *test;

        talk_initialize(talk, "2025-11-25", "{}");
        talk_say(talk, LEGACY("1", "tools/call",
                              STEPS("[\"log\",\"debug\",1],[\"log\",\"info\",2],[\"gate\"],[\"log\",\"warning\",3],"
                                    "[\"log\",\"error\",4]")));
        check_line(talk, "\"info\"", "2");
        talk_say(talk, LEGACY("2", "logging/setLevel", "\"level\":\"error\""));
        json_decref(talk_answer(talk, 2));
        talk_open_gate(talk);
        json_decref(talk_answer(talk, 1));
        check_line(talk, "\"error\"", "4");
        assert_int_equal(talk_pending(talk, 0, HEARD), 0);
}

/* The clock stands still, and then goes on by a second. */
static void test_flood(void **test) {
        struct talk *talk = *test;
        struct mcp_text params = MCP_TEXT(1 << 20);

        talk->fake.now_ns = 1000000000;
        mcp_text_append_literal(&params, "\"name\":\"free\",\"arguments\":{\"steps\":[");
        for (int i = 0; i < 300; i++)
                mcp_text_append_literal(&params, "[\"log\",\"info\",0],");
        mcp_text_append_literal(&params, "[\"gate\"],[\"log\",\"info\",1]]}");
        mcp_text_append(&params, "", 1);
        assert_int_equal(params.error, 0);
        talk_request(talk, NULL, 1, "tools/call", params.data, "{}");
        for (int i = 0; i < 200; i++)
                check_line(talk, "\"info\"", "0");
        sem_wait(&talk->at_gate); /* all 300 are behind it */
        assert_int_equal(talk_pending(talk, 0, HEARD), 0);
        talk->fake.now_ns += 1000000000;
        talk_open_gate(talk);
        check_line(talk, "\"warning\"", "\"100 log lines were left out: too many at once, or too large\"");
        check_line(talk, "\"info\"", "1");
        json_decref(talk_answer(talk, 1));
        mcp_text_free(&params);
}

static void test_large_line(void **test) {
        static const char start[] = "\"name\":\"free\",\"arguments\":{\"steps\":[[\"log\",\"info\",\"";
        struct talk *talk = *test;
        size_t size = 2u << 20;
        char *params = malloc(size + 256);

        assert_non_null(params);
        memset(params, 'x', size);
        memcpy(params, start, sizeof(start) - 1);
        snprintf(params + size, 256, "\"],[\"log\",\"info\",1]]}");
        talk_request(talk, NULL, 1, "tools/call", params, "{}");
        check_line(talk, "\"warning\"", "\"1 log lines were left out: too many at once, or too large\"");
        check_line(talk, "\"info\"", "1");
        json_decref(talk_answer(talk, 1));
        free(params);
}

static void test_close_stream(void **test) {
        struct talk *talk = *test;

        talk_request(talk, NULL, 1, "tools/call", STEPS("[\"close\",100]"), "{}");
        json_decref(talk_answer(talk, 1));
        assert_int_equal(talk->closed_streams, 100);
}

#define NEWS_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                NEWS_TEST(test_modern_levels), NEWS_TEST(test_modern_unasked), NEWS_TEST(test_legacy_levels),
                NEWS_TEST(test_flood),         NEWS_TEST(test_large_line),     NEWS_TEST(test_close_stream),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
