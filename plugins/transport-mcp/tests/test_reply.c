/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes: what a modern result gets around it, errors, batches, notifications; and the looks at text behind them. */
#include "client.h"

#include "repair.h"
#include "scan.h"

struct sent {
        struct mcp_text text;
        int error;
        enum mcp_outgoing_kind kind;
};

static void record(void *data, const struct mcp_outgoing *message) {
        struct sent *sent = data;

        for (size_t i = 0; i < message->count; i++)
                mcp_text_append(&sent->text, message->parts[i].data, message->parts[i].size);
        sent->error = message->error;
        sent->kind = message->kind;
}

static void check_reply(enum mcp_revision revision, const char *result, const struct mcp_caching *caching,
                        const char *expected) {
        struct sent sent = {.text = MCP_TEXT(65536)};
        struct mcp_channel channel = {.data = &sent, .send = record};
        const struct mcp_target target = {&channel, NULL, revision};
        struct mcp_id id = {(char *)"7", 1};

        mcp_reply_cacheable(&target, &id, text_bytes(result), caching);
        mcp_text_append(&sent.text, "", 1);
        assert_string_equal(sent.text.data, expected);
        assert_int_equal(sent.kind, MCP_OUT_RESPONSE);
        assert_int_equal(sent.error, 0);
        mcp_text_free(&sent.text);
}

#define RESULT(members) J "\"id\":7,\"result\":{" members "}}"

static void test_legacy_results(void **test) {
        static const struct mcp_caching caching = {5, true, false};

        check_reply(MCP_2025_11_25, "{\"a\":1}", &caching, RESULT("\"a\":1"));
        check_reply(MCP_REVISION_NONE, "{}", NULL, RESULT(""));
}

static void test_modern_results(void **test) {
        static const struct mcp_caching kept = {60000, true, false}, own = {0, false, false};

        check_reply(MCP_2026_07_28, "{}", NULL, RESULT(COMPLETE "\"_meta\":{" SERVER "}"));
        check_reply(MCP_2026_07_28, "{ }", NULL, RESULT(COMPLETE "\"_meta\":{" SERVER "} "));
        check_reply(MCP_2026_07_28, "{\"a\":[{\"_meta\":1}]}", &kept,
                    RESULT(COMPLETE "\"ttlMs\":60000,\"cacheScope\":\"public\",\"_meta\":{" SERVER
                                    "},\"a\":[{\"_meta\":1}]"));
        check_reply(MCP_2026_07_28, "{\"a\":\"\\\"_meta\\\":{\"}", &own,
                    RESULT(COMPLETE "\"ttlMs\":0,\"cacheScope\":\"private\",\"_meta\":{" SERVER
                                    "},\"a\":\"\\\"_meta\\\":{\""));
}

static void test_own_members_stay(void **test) {
        check_reply(MCP_2026_07_28, "{\"resultType\":\"task\",\"a\":1}", NULL,
                    RESULT("\"_meta\":{" SERVER "},\"resultType\":\"task\",\"a\":1"));
        check_reply(MCP_2026_07_28, "{\"a\":1,\"_meta\":{},\"b\":2}", NULL,
                    RESULT(COMPLETE "\"a\":1,\"_meta\":{" SERVER "},\"b\":2"));
        check_reply(MCP_2026_07_28, "{\"_meta\": {\"x\":{\"y\":\"}\"}}, \"resultType\" : \"complete\"}", NULL,
                    RESULT("\"_meta\": {" SERVER ",\"x\":{\"y\":\"}\"}}, \"resultType\" : \"complete\""));
        /* A name that is there already is not there twice. */
        check_reply(MCP_2026_07_28, "{\"_meta\":{\"io.modelcontextprotocol/serverInfo\":1}}", NULL,
                    RESULT(COMPLETE "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":1}"));
        check_reply(MCP_2026_07_28, "{\"_meta\":null}", NULL, RESULT(COMPLETE "\"_meta\":null"));
}

static void test_errors(void **test) {
        struct sent sent = {.text = MCP_TEXT(65536)};
        struct mcp_channel channel = {.data = &sent, .send = record};
        const struct mcp_target target = {&channel, NULL, MCP_2026_07_28};

        mcp_reply_error_data(&target, NULL, MCP_MISSING_CAPABILITY, "say \"it\" \xFF", "Then go",
                             BYTES("{\"requiredCapabilities\":{}}"));
        mcp_text_append(&sent.text, "", 1);
        assert_string_equal(sent.text.data,
                            J "\"id\":null,\"error\":{\"code\":-32021,\"message\":\"say \\\"it\\\" \xEF\xBF\xBD. Then "
                              "go\",\"data\":{\"requiredCapabilities\":{}}}}");
        assert_int_equal(sent.error, MCP_MISSING_CAPABILITY);
        mcp_text_free(&sent.text);
}

static void test_notifications(void **test) {
        struct sent sent = {.text = MCP_TEXT(65536)};
        struct mcp_channel channel = {.data = &sent, .send = record};
        const struct mcp_target oldest = {&channel, NULL, MCP_2024_11_05};
        struct mcp_id token = {(char *)"\"t\"", 3};

        mcp_send_notification(&channel, MCP_2025_11_25, "notifications/x", BYTES("{\"a\":1}"));
        mcp_text_append(&sent.text, "", 1);
        assert_string_equal(sent.text.data, J "\"method\":\"notifications/x\",\"params\":{\"a\":1}}");
        assert_int_equal(sent.kind, MCP_OUT_NOTIFICATION);
        mcp_text_free(&sent.text);
        mcp_send_progress(&oldest, &token, 1, 2, "words that this revision has not");
        mcp_text_append(&sent.text, "", 1);
        assert_string_equal(sent.text.data,
                            J "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\","
                              "\"progress\":1,\"total\":2}}");
        assert_int_equal(sent.kind, MCP_OUT_PROGRESS);
        mcp_text_free(&sent.text);
}

/* ---- looks at text ------------------------------------------------------------------------------------- */

static void check_members(const char *text, size_t found, const char *a, const char *b) {
        struct mcp_scan_member members[] = {{"\"a\"", {NULL, 0}}, {"\"b\"", {NULL, 0}}};
        const char *expected[] = {a, b};

        assert_int_equal(mcp_scan_members(text_bytes(text), members, 2), found);
        for (size_t i = 0; i < 2; i++) {
                if (expected[i] == NULL) {
                        assert_null(members[i].value.data);
                } else {
                        assert_int_equal(members[i].value.size, strlen(expected[i]));
                        assert_memory_equal(members[i].value.data, expected[i], strlen(expected[i]));
                }
        }
}

static void test_scan_members(void **test) {
        check_members("{}", 0, NULL, NULL);
        check_members(" { \"b\" : [1,{\"a\":2}] , \"a\":\"x,}\\\"\"}", 2, "\"x,}\\\"\"", "[1,{\"a\":2}] ");
        check_members("{\"c\":\"\\\\\",\"a\":1}", 1, "1", NULL);
        check_members("{\"a\":1,\"a\":2}", 2, "2", NULL);
        check_members("{\"\\u0061\":1}", 0, NULL, NULL);
        check_members("{\"a\":1", SIZE_MAX, "1", NULL);
        check_members("{\"a\":\"\\", SIZE_MAX, "\"\\", NULL);
        check_members("{\"a\"", SIZE_MAX, NULL, NULL);
        check_members("[]", 0, NULL, NULL);
        check_members("", 0, NULL, NULL);
}

static void check_repair(const char *text, const char *expected) {
        _cleanup_text_ struct mcp_text repaired = MCP_TEXT(4096);

        assert_int_equal(mcp_json_is_clean(text_bytes(text)), strcmp(text, expected) == 0);
        assert_int_equal(mcp_json_repair(text_bytes(text), &repaired), 0);
        mcp_text_append(&repaired, "", 1);
        assert_string_equal(repaired.data, expected);
}

#define R "\xEF\xBF\xBD"

static void test_repair(void **test) {
        check_repair("", "");
        check_repair("{\"a\":\"\\n\\\\ \xC3\xA9 \xF0\x9F\x98\x80 \\u00e9 \\u0001\"}",
                     "{\"a\":\"\\n\\\\ \xC3\xA9 \xF0\x9F\x98\x80 \\u00e9 \\u0001\"}");
        check_repair("\"\xFF \xC3( \xED\xA0\x80 \xF0\x9F\x98\"", "\"" R " " R "( " R R R " " R R R "\"");
        check_repair("\"\\u0000 \\ud800 \\uDFFF \\ud83dx \\ud83d\\u0041 \\ud83d",
                     "\"" R " " R " " R " " R "x " R "\\u0041 " R);
        check_repair("\"\\\\\\u0000\"", "\"\\\\" R "\"");
        check_repair("\"\\\xFF\"", "\"\\" R "\"");
        check_repair("\"\\u12", "\"\\u12");
        check_repair("\"\\", "\"\\");
}

/* What the repair lets pass although a glance says that it may not: pairs, and backslashes that are text. */
static void test_repair_keeps(void **test) {
        static const char *const texts[] = {"\"\\ud83d\\ude00\"", "\"\\\\u0000 \\\\ud800\""};

        for (size_t i = 0; i < 2; i++) {
                _cleanup_text_ struct mcp_text repaired = MCP_TEXT(4096);

                assert_int_equal(mcp_json_repair(text_bytes(texts[i]), &repaired), 0);
                mcp_text_append(&repaired, "", 1);
                assert_string_equal(repaired.data, texts[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_legacy_results),   cmocka_unit_test(test_modern_results),
                cmocka_unit_test(test_own_members_stay), cmocka_unit_test(test_errors),
                cmocka_unit_test(test_notifications),    cmocka_unit_test(test_scan_members),
                cmocka_unit_test(test_repair),           cmocka_unit_test(test_repair_keeps),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
