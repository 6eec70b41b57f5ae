/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of single messages: what is taken, what is refused and with which code and id. */
#include "test.h"

#include "jsonrpc.h"
#include "scan.h"
#include "text.h"

/* What came of a text: "request 7 ping", "fault -32600 null", ... */
static void decode(struct sbx_bytes text, char *ret, size_t size) {
        static const char *const kinds[] = {"", "request", "notification", "response"};
        _cleanup_message_ struct mcp_message message = {0};
        _cleanup_id_ struct mcp_id id = {NULL, 0};
        struct mcp_fault fault = {0};
        json_t *root = NULL;

        if (mcp_jsonrpc_parse(text, &root, &id, &fault) < 0) {
                snprintf(ret, size, "fault %d %.*s", fault.code, id.size > 0 ? (int)id.size : 4,
                         id.size > 0 ? id.json : "null");
                assert_true(strlen(fault.message) > 0);
        } else if (mcp_message_decode(root, &message, &fault) < 0) {
                snprintf(ret, size, "fault %d %.*s", fault.code, message.id.size > 0 ? (int)message.id.size : 4,
                         message.id.size > 0 ? message.id.json : "null");
                assert_null(message.root);
                assert_true(strlen(fault.message) > 0);
        } else {
                snprintf(ret, size, "%s %.*s %s", kinds[message.kind], (int)message.id.size,
                         message.id.size > 0 ? message.id.json : "", message.method != NULL ? message.method : "");
        }
}

#define J "{\"jsonrpc\":\"2.0\","

static const struct {
        const char *text, *expected;
} cases[] = {
        {J "\"id\":7,\"method\":\"ping\"}", "request 7 ping"},
        {" " J "\"id\" : \"a\" , \"method\":\"ping\",\"params\":{}} ", "request \"a\" ping"},
        {J "\"method\":\"notifications/initialized\"}", "notification  notifications/initialized"},
        {J "\"id\":7,\"result\":{}}", "response  "},
        {J "\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}", "response  "},
        {J "\"id\":7,\"method\":\"x\",\"params\":[1]}", "request 7 x"},
        {J "\"id\":7,\"method\":\"x\",\"extra\":{\"a\":[{}]}}", "request 7 x"},

        /* Ids: kept exactly, or refused. */
        {J "\"id\":0,\"method\":\"x\"}", "request 0 x"},
        {J "\"id\":-1,\"method\":\"x\"}", "request -1 x"},
        {J "\"id\":9223372036854775807,\"method\":\"x\"}", "request 9223372036854775807 x"},
        {J "\"id\":-9223372036854775808,\"method\":\"x\"}", "request -9223372036854775808 x"},
        {J "\"id\":9007199254740993,\"method\":\"x\"}", "request 9007199254740993 x"},
        {J "\"id\":9223372036854775808,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":\"\",\"method\":\"x\"}", "request \"\" x"},
        {J "\"id\":\"7\",\"method\":\"x\"}", "request \"7\" x"},
        {J "\"id\":\"\\u00e9\\n\\\"\\u0000\",\"method\":\"x\"}", "request \"\xC3\xA9\\n\\\"\\u0000\" x"},
        {J "\"id\":1.0,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":1.5,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":1e2,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":null,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":true,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":[1],\"method\":\"x\"}", "fault -32600 null"},
        {J "\"id\":{},\"method\":\"x\"}", "fault -32600 null"},

        /* Not messages, with the id where it can be read. */
        {"{}", "fault -32600 null"},
        {"{\"id\":7,\"method\":\"x\"}", "fault -32600 7"},
        {"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"x\"}", "fault -32600 7"},
        {"{\"jsonrpc\":2.0,\"id\":7,\"method\":\"x\"}", "fault -32600 7"},
        {J "\"id\":7}", "fault -32600 7"},
        {J "\"id\":7,\"method\":1}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\\u0000y\"}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\",\"params\":null}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\",\"params\":\"y\"}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\",\"result\":{}}", "fault -32600 7"},
        {"[1]", "fault -32600 null"},

        /* JSON that is refused all the same, so the sender can be told which. */
        {J "\"id\":7,\"method\":\"x\",\"method\":\"y\"}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\",\"params\":{\"a\":1,\"a\":2}}", "fault -32600 7"},
        {J "\"id\":7,\"id\":8,\"method\":\"x\"}", "fault -32600 null"},
        {J "\"method\":\"x\",\"params\":{\"id\":9,\"a\":1e999},\"id\":\"k\"}", "fault -32600 \"k\""},
        {J "\"id\":7,\"method\":\"x\",\"params\":{\"a\":99999999999999999999}}", "fault -32600 7"},
        {J "\"id\":7,\"method\":\"x\",\"params\":{\"a\":\"\\ud800\"}}", "fault -32600 7"},
        {J "\"params\":{\"a\":\"\\udc00}\"},\"id\":7,\"method\":\"x\"}", "fault -32600 7"},

        /* Not JSON. */
        {"", "fault -32700 null"},
        {"x", "fault -32700 null"},
        {"7", "fault -32700 null"},
        {"\"ping\"", "fault -32700 null"},
        {"null", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"ping\"", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"ping\"}}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"ping\"}" J "\"id\":8,\"method\":\"ping\"}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"ping\",}", "fault -32700 null"},
        {J "'id':7}", "fault -32700 null"},
        {J "\"id\":07,\"method\":\"ping\"}", "fault -32700 null"},
        {J "\"id\":NaN,\"method\":\"ping\"}", "fault -32700 null"},
        {"\xEF\xBB\xBF" J "\"id\":7,\"method\":\"ping\"}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"\xFF\"}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"\xC0\x80\"}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"\xED\xA0\x80\"}", "fault -32700 null"},
        {J "\"id\":7,\"method\":\"a\tb\"}", "fault -32700 null"},
};

static void test_cases(void **test) {
        char got[256];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                decode(text_bytes(cases[i].text), got, sizeof(got));
                if (strcmp(got, cases[i].expected) != 0)
                        fail_msg("%s: got \"%s\", expected \"%s\"", cases[i].text, got, cases[i].expected);
        }
}

static void test_nul_bytes(void **test) {
        char got[256];

        decode(BYTES("{\"jsonrpc\":\"2.0\",\0\"id\":7}"), got, sizeof(got));
        assert_string_equal(got, "fault -32700 null");
        decode(BYTES("\0"), got, sizeof(got));
        assert_string_equal(got, "fault -32700 null");
}

static char *nested(size_t depth, const char *before, const char *after) {
        size_t size = strlen(before) + strlen(after) + 2 * depth + 1, used;
        char *text = malloc(size);

        assert_non_null(text);
        used = (size_t)snprintf(text, size, "%s", before);
        memset(text + used, '[', depth);
        memset(text + used + depth, ']', depth);
        snprintf(text + used + 2 * depth, size - used - 2 * depth, "%s", after);
        return text;
}

static void test_depth(void **test) {
        char got[256];
        char *text = nested(MCP_DEPTH_MAX - 2, J "\"id\":7,\"method\":\"x\",\"params\":{\"a\":", "}}");

        decode(text_bytes(text), got, sizeof(got));
        assert_string_equal(got, "request 7 x");
        free(text);

        text = nested(MCP_DEPTH_MAX - 1, J "\"params\":{\"a\":", "},\"id\":7,\"method\":\"x\"}");
        decode(text_bytes(text), got, sizeof(got));
        assert_string_equal(got, "fault -32600 7");
        free(text);

        text = nested(1000000, "", "");
        decode(text_bytes(text), got, sizeof(got));
        assert_string_equal(got, "fault -32600 null");
        decode((struct sbx_bytes){text, 1000000}, got, sizeof(got)); /* brackets that never close */
        assert_string_equal(got, "fault -32600 null");
        free(text);

        /* Brackets inside strings do not nest. */
        text = nested(500, J "\"id\":7,\"method\":\"x\",\"params\":{\"a\":\"\\\"", "\"}}");
        decode(text_bytes(text), got, sizeof(got));
        assert_string_equal(got, "request 7 x");
        free(text);
}

static void test_id_size(void **test) {
        char id[MCP_ID_BYTES_MAX + 2], text[MCP_ID_BYTES_MAX + 128], got[MCP_ID_BYTES_MAX + 128];

        memset(id, 'x', sizeof(id));
        id[MCP_ID_BYTES_MAX] = '\0';
        snprintf(text, sizeof(text), J "\"id\":\"%s\",\"method\":\"x\"}", id);
        decode(text_bytes(text), got, sizeof(got));
        assert_true(strncmp(got, "request \"xxx", 12) == 0);

        id[MCP_ID_BYTES_MAX] = 'x';
        id[MCP_ID_BYTES_MAX + 1] = '\0';
        snprintf(text, sizeof(text), J "\"id\":\"%s\",\"method\":\"x\"}", id);
        decode(text_bytes(text), got, sizeof(got));
        assert_string_equal(got, "fault -32600 null");
}

static void test_id_equal(void **test) {
        static const struct {
                const char *a, *b;
                bool equal;
        } pairs[] = {
                {"1", "1", true},           {"1", "\"1\"", false},     {"\"a\"", "\"\\u0061\"", true},
                {"\"/\"", "\"\\/\"", true}, {"\"a\"", "\"b\"", false}, {"-0", "0", true},
        };

        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
                _cleanup_id_ struct mcp_id a = {NULL, 0}, b = {NULL, 0};
                json_t *left = json_loads(pairs[i].a, JSON_DECODE_ANY, NULL);
                json_t *right = json_loads(pairs[i].b, JSON_DECODE_ANY, NULL);

                assert_int_equal(mcp_id_decode(left, &a), 0);
                assert_int_equal(mcp_id_decode(right, &b), 0);
                assert_int_equal(mcp_id_equal(&a, &b), pairs[i].equal);
                json_decref(left);
                json_decref(right);
        }
        assert_false(mcp_id_equal(&(struct mcp_id){NULL, 0}, &(struct mcp_id){NULL, 0}));
}

/* Every prefix of a text, and the text with any one byte changed, must be survivable. */
static void test_scan_any_bytes(void **test) {
        static const char sample[] = J "\"a\":\"x\\\"\",\"id\":\"k\",\"params\":{\"b\":[1,{\"c\":\"]\"}]}}";
        struct sbx_bytes found;

        for (size_t size = 0; size <= sizeof(sample) - 1; size++) {
                char *copy = malloc(size > 0 ? size : 1);

                assert_non_null(copy);
                memcpy(copy, sample, size);
                assert_int_equal(mcp_scan_id((struct sbx_bytes){copy, size}, &found), size == sizeof(sample) - 1);
                (void)mcp_scan_depth((struct sbx_bytes){copy, size}, 2);
                for (size_t i = 0; i < size; i++) {
                        char kept = copy[i];

                        for (const char *c = "\"\\{}[],:x"; *c != '\0'; c++) {
                                copy[i] = *c;
                                (void)mcp_scan_id((struct sbx_bytes){copy, size}, &found);
                                (void)mcp_scan_depth((struct sbx_bytes){copy, size}, 64);
                        }
                        copy[i] = kept;
                }
                free(copy);
        }
}

static void test_text(void **test) {
        static const struct {
                struct sbx_bytes from;
                const char *to;
        } strings[] = {
                {BYTES(""), "\"\""},
                {BYTES("a\"b\\c\n\t\0\x1F\x7F"), "\"a\\\"b\\\\c\\n\\u0009\\u0000\\u001f\x7F\""},
                {BYTES("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
                {BYTES("\xFFz\xC3"), "\"\xEF\xBF\xBDz\xEF\xBF\xBD\""},
                {BYTES("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
                {BYTES("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
                {BYTES("\xF4\x90\x80\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        };
        static const struct {
                double from;
                const char *to;
        } numbers[] = {{0, "0"},
                       {3, "3"},
                       {-2, "-2"},
                       {0.5, "0.5"},
                       {0.1, "0.1"},
                       {1e300, "1e+300"},
                       {1.0 / 3, "0.3333333333333333"},
                       {9007199254740992.0, "9007199254740992"}};

        for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
                _cleanup_text_ struct mcp_text text = MCP_TEXT(100);

                assert_int_equal(mcp_text_append_string(&text, strings[i].from.data, strings[i].from.size), 0);
                assert_int_equal(text.size, strlen(strings[i].to));
                assert_memory_equal(text.data, strings[i].to, text.size);
        }
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                _cleanup_text_ struct mcp_text text = MCP_TEXT(100);

                assert_int_equal(mcp_text_append_number(&text, numbers[i].from), 0);
                assert_int_equal(text.size, strlen(numbers[i].to));
                assert_memory_equal(text.data, numbers[i].to, text.size);
        }
}

static void test_text_maximum(void **test) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(5);

        assert_int_equal(mcp_text_append_literal(&text, "12345"), 0);
        assert_int_equal(mcp_text_append_literal(&text, ""), 0);
        assert_int_equal(mcp_text_append_literal(&text, "6"), -EFBIG);
        assert_int_equal(mcp_text_append_literal(&text, ""), -EFBIG); /* it sticks */
        assert_int_equal(text.size, 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cases),    cmocka_unit_test(test_nul_bytes),
                cmocka_unit_test(test_depth),    cmocka_unit_test(test_id_size),
                cmocka_unit_test(test_id_equal), cmocka_unit_test(test_scan_any_bytes),
                cmocka_unit_test(test_text),     cmocka_unit_test(test_text_maximum),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
