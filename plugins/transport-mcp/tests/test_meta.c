/* SPDX-License-Identifier: Apache-2.0 */
/* What requests say of their clients, in both eras. */
#include "client.h"

#include "connection_private.h"
#include "identity.h"

#define VERSION(value) "\"io.modelcontextprotocol/protocolVersion\":" value
#define CAPABILITIES(value) "\"io.modelcontextprotocol/clientCapabilities\":" value
#define GOOD VERSION("\"2026-07-28\"") "," CAPABILITIES("{}")

static void decode(const char *params, struct mcp_message *ret) {
        struct mcp_fault fault;
        char text[1024];

        snprintf(text, sizeof(text), J "\"id\":1,\"method\":\"tools/list\",\"params\":%s}", params);
        assert_int_equal(mcp_message_decode(json_loads(text, JSON_ALLOW_NUL, NULL), ret, &fault), 0);
}

static void check_refused(const char *params, int code, const char *words, const char *data) {
        _cleanup_message_ struct mcp_message message = {0};
        _cleanup_text_ struct mcp_text got = MCP_TEXT(4096);
        struct mcp_fault fault = {0};
        struct mcp_meta meta;

        decode(params, &message);
        assert_int_equal(mcp_meta_decode(&message, &meta, &fault, &got), -EINVAL);
        assert_int_equal(fault.code, code);
        if (strstr(fault.message, words) == NULL)
                fail_msg("\"%s\" is not in \"%s\"", words, fault.message);
        mcp_text_append(&got, "", 1);
        assert_string_equal(got.data, data);
}

static void test_refused(void **test) {
        check_refused("{}", -32602, "params._meta", "");
        check_refused("[]", -32602, "params._meta", "");
        check_refused("{\"_meta\":7}", -32602, "params._meta", "");
        check_refused("{\"_meta\":{" CAPABILITIES("{}") "}}", -32602, "protocolVersion", "");
        check_refused("{\"_meta\":{" VERSION("1") "," CAPABILITIES("{}") "}}", -32602, "protocolVersion", "");
        check_refused("{\"_meta\":{" VERSION("\"2026-07-28\"") "}}", -32602, "clientCapabilities", "");
        check_refused("{\"_meta\":{" VERSION("\"2026-07-28\"") "," CAPABILITIES("[]") "}}", -32602,
                      "clientCapabilities", "");
        check_refused("{\"_meta\":{" GOOD ",\"io.modelcontextprotocol/clientInfo\":1}}", -32602, "clientInfo", "");
        check_refused("{\"_meta\":{" GOOD ",\"io.modelcontextprotocol/logLevel\":\"loud\"}}", -32602, "logLevel", "");
        check_refused("{\"_meta\":{" VERSION("\"2025-11-25\"") "," CAPABILITIES("{}") "}}", -32022, "revision",
                      "{\"supported\":[\"2026-07-28\"],\"requested\":\"2025-11-25\"}");
        check_refused("{\"_meta\":{" VERSION("\"v999\\\"\"") "," CAPABILITIES("{}") "}}", -32022, "revision",
                      "{\"supported\":[\"2026-07-28\"],\"requested\":\"v999\\\"\"}");
        check_refused("{\"_meta\":{" VERSION("\"2026-07-28\\u0000\"") "," CAPABILITIES("{}") "}}", -32022, "revision",
                      "{\"supported\":[\"2026-07-28\"],\"requested\":\"2026-07-28\\u0000\"}");
        check_refused(
                "{\"_meta\":{" VERSION("\"123456789 123456789 123456789 123456789 123456789 123456789 12345\"") "}}",
                -32602, "protocolVersion", "");
}

static void check_taken(const char *more, int log_level, bool token) {
        _cleanup_message_ struct mcp_message message = {0};
        _cleanup_text_ struct mcp_text data = MCP_TEXT(4096);
        struct mcp_fault fault;
        struct mcp_meta meta;
        char params[512];

        snprintf(params, sizeof(params), "{\"_meta\":{" GOOD "%s}}", more);
        decode(params, &message);
        assert_true(mcp_meta_is_modern(&message));
        assert_int_equal(mcp_meta_decode(&message, &meta, &fault, &data), 0);
        assert_int_equal(meta.revision, MCP_2026_07_28);
        assert_int_equal(meta.log_level, log_level);
        assert_int_equal(meta.token != NULL, token);
}

static void test_taken(void **test) {
        check_taken("", -1, false);
        check_taken(",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\"}", -1, false);
        check_taken(",\"io.modelcontextprotocol/logLevel\":\"debug\",\"progressToken\":1", 0, true);
        check_taken(",\"io.modelcontextprotocol/logLevel\":\"emergency\"", 7, false);
}

static void test_capabilities(void **test) {
        static const struct {
                const char *text;
                uint32_t legacy, modern;
        } cases[] = {
                {"{}", 0, 0},
                {"{\"sampling\":{}}", SBX_CLIENT_SAMPLING, SBX_CLIENT_SAMPLING},
                {"{\"sampling\":{\"tools\":{}},\"roots\":{\"listChanged\":true}}",
                 SBX_CLIENT_SAMPLING | SBX_CLIENT_SAMPLING_TOOLS | SBX_CLIENT_ROOTS,
                 SBX_CLIENT_SAMPLING | SBX_CLIENT_SAMPLING_TOOLS | SBX_CLIENT_ROOTS},
                {"{\"elicitation\":{}}", SBX_CLIENT_ELICITATION, SBX_CLIENT_ELICITATION},
                {"{\"elicitation\":{\"form\":{}}}", SBX_CLIENT_ELICITATION, SBX_CLIENT_ELICITATION},
                {"{\"elicitation\":{\"url\":{}}}", SBX_CLIENT_ELICITATION_URL, SBX_CLIENT_ELICITATION_URL},
                {"{\"elicitation\":{\"form\":{},\"url\":{}}}", SBX_CLIENT_ELICITATION | SBX_CLIENT_ELICITATION_URL,
                 SBX_CLIENT_ELICITATION | SBX_CLIENT_ELICITATION_URL},
                {"{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}", 0, SBX_CLIENT_TASKS},
                {"{\"sampling\":true,\"roots\":[],\"elicitation\":1,\"extensions\":[]}", 0, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *capabilities = json_loads(cases[i].text, 0, NULL);

                assert_int_equal(mcp_capabilities_decode(capabilities, false), cases[i].legacy);
                assert_int_equal(mcp_capabilities_decode(capabilities, true), cases[i].modern);
                json_decref(capabilities);
        }
        assert_int_equal(mcp_capabilities_decode(NULL, true), 0);
}

static void test_names_of_the_server(void **test) {
        for (enum mcp_revision revision = MCP_2024_11_05; revision <= MCP_2026_07_28; revision++) {
                _cleanup_text_ struct mcp_text text = MCP_TEXT(16384);
                json_t *server;

                mcp_identity_server(revision, &text);
                server = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
                assert_non_null(server);
                assert_int_equal(json_object_get(server, "title") != NULL, revision >= MCP_2025_06_18);
                assert_int_equal(json_object_get(server, "icons") != NULL, revision >= MCP_2025_11_25);
                assert_int_equal(json_object_get(server, "websiteUrl") != NULL, revision >= MCP_2025_11_25);
                assert_string_equal(json_string_value(json_object_get(server, "version")), SBX_VERSION);
                json_decref(server);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_taken),
                cmocka_unit_test(test_capabilities),
                cmocka_unit_test(test_names_of_the_server),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
