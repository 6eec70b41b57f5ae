/* SPDX-License-Identifier: Apache-2.0 */
/* What clients are asked, and which of their answers fit. */
#include "test.h"

#include <jansson.h>

#include <snipara-sandbox/request.h>

#include "answers.h"

static json_t *parse(const char *text) {
        json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

        assert_non_null(value);
        return value;
}

static bool fits(const char *request, const char *response) {
        json_t *asked = parse(request), *answer = parse(response);
        bool result = mcp_answer_fits(asked, answer);

        json_decref(asked);
        json_decref(answer);
        return result;
}

#define FORM(schema) "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\",\"requestedSchema\":" schema "}}"
#define FIELDS(fields) FORM("{\"type\":\"object\",\"properties\":{" fields "}}")
#define ACCEPT(content) "{\"action\":\"accept\",\"content\":" content "}"

static void test_needs(void **test) {
        static const struct {
                const char *request;
                int status;
                uint32_t bits;
        } cases[] = {
                {"{\"method\":\"roots/list\"}", 0, SBX_CLIENT_ROOTS},
                {"{\"method\":\"roots/list\",\"params\":{}}", 0, SBX_CLIENT_ROOTS},
                {FIELDS(""), 0, SBX_CLIENT_ELICITATION},
                {"{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"url\"}}", 0, SBX_CLIENT_ELICITATION_URL},
                {"{\"method\":\"sampling/createMessage\",\"params\":{}}", 0, SBX_CLIENT_SAMPLING},
                {"{\"method\":\"sampling/createMessage\",\"params\":{\"tools\":[]}}", 0,
                 SBX_CLIENT_SAMPLING | SBX_CLIENT_SAMPLING_TOOLS},
                {"{\"method\":\"tools/call\",\"params\":{}}", -ENOTSUP, 0},
                {"{\"method\":\"roots/list\",\"params\":[]}", -EINVAL, 0},
                {"{\"method\":7}", -EINVAL, 0},
                {"{}", -EINVAL, 0},
                {"7", -EINVAL, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *request = parse(cases[i].request);
                uint32_t bits = 0;

                assert_int_equal(mcp_question_needs(request, &bits), cases[i].status);
                assert_int_equal(bits, cases[i].bits);
                json_decref(request);
        }
}

static void test_sampling(void **test) {
        static const char request[] = "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[]}}";

        assert_true(fits(request, "{\"role\":\"assistant\",\"model\":\"m\",\"content\":{\"type\":\"text\"}}"));
        assert_true(fits(request, "{\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"text\"}]}"));
        assert_false(fits(request, "{\"role\":\"assistant\",\"model\":\"m\",\"content\":\"text\"}"));
        assert_false(fits(request, "{\"role\":\"assistant\",\"model\":\"m\",\"content\":[7]}"));
        assert_false(fits(request, "{\"role\":\"assistant\",\"model\":\"m\"}"));
        assert_false(fits(request, "{\"role\":\"system\",\"model\":\"m\",\"content\":{\"type\":\"text\"}}"));
        assert_false(fits(request, "{\"role\":\"assistant\",\"content\":{\"type\":\"text\"}}"));
        assert_false(fits(request, "[]"));
}

static void test_roots(void **test) {
        static const char request[] = "{\"method\":\"roots/list\"}";

        assert_true(fits(request, "{\"roots\":[]}"));
        assert_true(fits(request, "{\"roots\":[{\"uri\":\"file:///a\",\"name\":\"A\"}]}"));
        assert_false(fits(request, "{\"roots\":[{\"name\":\"A\"}]}"));
        assert_false(fits(request, "{\"roots\":{}}"));
        assert_false(fits(request, "{}"));
        assert_false(fits(request, "12345"));
}

static void test_elicitation(void **test) {
        static const char request[] = FORM("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},"
                                           "\"required\":[\"name\"]}");

        assert_true(fits(request, ACCEPT("{\"name\":\"Alice\"}")));
        assert_true(fits(request, ACCEPT("{\"name\":\"Alice\",\"beyond\":[{}]}")));
        assert_true(fits(request, "{\"action\":\"decline\"}"));
        assert_true(fits(request, "{\"action\":\"cancel\",\"content\":7}"));
        assert_false(fits(request, ACCEPT("{}")));
        assert_false(fits(request, ACCEPT("{\"name\":7}")));
        assert_false(fits(request, ACCEPT("[\"Alice\"]")));
        assert_false(fits(request, "{\"action\":\"accept\"}"));
        assert_false(fits(request, "{\"action\":\"agree\"}"));
        assert_false(fits(request, "{\"content\":{\"name\":\"Alice\"}}"));
        assert_false(fits(request, "12345"));
        assert_true(fits("{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"url\",\"url\":\"https://a\"}}",
                         "{\"action\":\"accept\"}"));
        assert_false(fits("{\"method\":\"unknown\"}", "{\"action\":\"accept\"}"));
}

/* Each line: a field's schema, a value that fits, a value that does not (NULL: everything does). */
static const char *const fields[][3] = {
        {"{\"type\":\"string\"}", "\"\"", "7"},
        {"{\"type\":\"string\",\"minLength\":2}", "\"\xC3\xA4\xC3\xB6\"", "\"\xC3\xA4\""},
        {"{\"type\":\"string\",\"maxLength\":2}", "\"\xC3\xA4\xC3\xB6\"", "\"abc\""},
        {"{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}", "\"b\"", "\"c\""},
        {"{\"type\":\"string\",\"enum\":[\"a\"],\"enumNames\":[\"A\"]}", "\"a\"", "\"A\""},
        {"{\"type\":\"string\",\"oneOf\":[{\"const\":\"a\",\"title\":\"A\"}]}", "\"a\"", "\"A\""},
        {"{\"type\":\"string\",\"format\":\"date\"}", "\"2026-07-28\"", "\"28.7.2026\""},
        {"{\"type\":\"string\",\"format\":\"date\"}", "\"2026-07-28\"", "\"2026-07-28T\""},
        {"{\"type\":\"string\",\"format\":\"date-time\"}", "\"2026-07-28T01:02:03Z\"", "\"2026-07-28T01:02:03\""},
        {"{\"type\":\"string\",\"format\":\"date-time\"}", "\"2026-07-28T01:02:03.5+02:00\"", "\"2026-07-28\""},
        {"{\"type\":\"string\",\"format\":\"date-time\"}", "\"2026-07-28t01:02:03z\"", "\"2026-07-28T01:02:03.\""},
        {"{\"type\":\"string\",\"format\":\"email\"}", "\"a@b\"", "\"a@\""},
        {"{\"type\":\"string\",\"format\":\"email\"}", "\"a@b\"", "\"@b\""},
        {"{\"type\":\"string\",\"format\":\"uri\"}", "\"https://a/b\"", "\"no address\""},
        {"{\"type\":\"string\",\"format\":\"uri\"}", "\"mailto:a@b\"", "\":\""},
        {"{\"type\":\"string\",\"format\":\"unheard-of\"}", "\"x\"", "7"},
        {"{\"type\":\"number\"}", "1.5", "\"1.5\""},
        {"{\"type\":\"number\",\"minimum\":1,\"maximum\":2.5}", "2.5", "2.6"},
        {"{\"type\":\"number\",\"minimum\":1}", "1", "0.99"},
        {"{\"type\":\"integer\"}", "3", "3.5"},
        {"{\"type\":\"integer\"}", "3.0", "1e300"},
        {"{\"type\":\"integer\",\"maximum\":5}", "5", "6"},
        {"{\"type\":\"boolean\"}", "false", "0"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}}", "[\"a\",\"b\"]", "[\"c\"]"},
        {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"a\",\"title\":\"A\"}]}}", "[]", "[\"A\"]"},
        {"{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"}}", "[\"a\"]", "[]"},
        {"{\"type\":\"array\",\"maxItems\":1,\"items\":{\"type\":\"string\"}}", "[\"a\"]", "[\"a\",\"b\"]"},
        {"{\"type\":\"array\"}", "[\"a\"]", "[7]"},
        {"{\"type\":\"unheard-of\"}", "7", NULL},
        {"{}", "null", NULL},
};

static void test_fields(void **test) {
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                char request[512], response[512];

                snprintf(request, sizeof(request), FIELDS("\"f\":%s"), fields[i][0]);
                snprintf(response, sizeof(response), ACCEPT("{\"f\":%s}"), fields[i][1]);
                if (!fits(request, response))
                        fail_msg("%s should take %s", fields[i][0], fields[i][1]);
                if (fields[i][2] == NULL)
                        continue;
                snprintf(response, sizeof(response), ACCEPT("{\"f\":%s}"), fields[i][2]);
                if (fits(request, response))
                        fail_msg("%s should not take %s", fields[i][0], fields[i][2]);
        }
}

static void test_too_many(void **test) {
        json_t *responses = json_object();
        char key[32];

        assert_false(mcp_answers_too_many(NULL));
        assert_false(mcp_answers_too_many(responses));
        for (unsigned i = 0; i <= MCP_ANSWERS_MAX; i++) {
                assert_false(mcp_answers_too_many(responses));
                snprintf(key, sizeof(key), "%u", i);
                json_object_set_new(responses, key, json_true());
        }
        assert_true(mcp_answers_too_many(responses));
        json_decref(responses);
}

static void test_too_large(void **test) {
        size_t size = MCP_ANSWERS_BYTES_MAX;
        char *large = malloc(size);
        json_t *responses;

        assert_non_null(large);
        memset(large, 'x', size);
        responses = json_pack("{s:s#}", "key", large, (int)size);
        free(large);
        assert_non_null(responses);
        assert_true(mcp_answers_too_many(responses));
        json_decref(responses);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_needs),       cmocka_unit_test(test_sampling), cmocka_unit_test(test_roots),
                cmocka_unit_test(test_elicitation), cmocka_unit_test(test_fields),   cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_too_large),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
