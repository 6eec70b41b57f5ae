/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the service to results, the text they go through, and what happens without memory. */
#include "test.h"

#include <stdlib.h>

#include <jansson.h>

#include "alloc_fail.h"
#include "answer.h"
#include "text.h"

static struct snipara_credential credential = {.source = SNIPARA_ENVIRONMENT, .secret = "snp-secret", .slug = "mine"};

static struct snipara_question question_of(const char *tool) {
        return (struct snipara_question){snipara_tool_find(tool), &credential, 1000};
}

static struct sbx_http_response response_of(unsigned status, const char *body) {
        struct sbx_http_response response = {.status = status, .body = (char *)body};

        response.body_size = body != NULL ? strlen(body) : 0;
        memcpy(response.content_type, "application/json", sizeof("application/json"));
        return response;
}

/* ---- text ---- */

static void assert_repaired(struct sbx_bytes bytes, const char *wanted) {
        size_t size = 0;
        char *text = snipara_text_repair(bytes, &size);

        assert_non_null(text);
        assert_string_equal(text, wanted);
        assert_int_equal(size, strlen(wanted));
        free(text);
}

static void test_repair(void **state) {
        assert_repaired(BYTES(""), "");
        assert_repaired(BYTES("plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
                        "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
        assert_repaired(BYTES("\xff"), "\xef\xbf\xbd");
        assert_repaired(BYTES("a\xc3"), "a\xef\xbf\xbd");
        assert_repaired(BYTES("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                 /* overlong */
        assert_repaired(BYTES("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
        assert_repaired(BYTES("\xf4\x90\x80\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_cut(void **state) {
        assert_int_equal(snipara_text_cut("abc", 3, 5), 3);
        assert_int_equal(snipara_text_cut("abc", 3, 2), 2);
        assert_int_equal(snipara_text_cut("a\xc3\xa4", 3, 2), 1);
        assert_int_equal(snipara_text_cut("\xf0\x9f\x98\x80", 4, 3), 0);
        assert_int_equal(snipara_text_cut("", 0, 0), 0);
}

static void test_redact(void **state) {
        char text[] = "snp-secret, snp-secrets\0snp-secre";

        snipara_text_redact(text, sizeof(text) - 1, "snp-secret");
        assert_memory_equal(text, "**********, **********s\0snp-secre", sizeof(text));
        snipara_text_redact(text, sizeof(text) - 1, "");
}

static void test_bounds_of_json(void **state) {
        char deep[200];
        json_t *value = NULL;

        memset(deep, '[', 100);
        memset(deep + 100, ']', 100);
        assert_int_equal(snipara_json_parse((struct sbx_bytes){deep, 200}, &value), -EBADMSG);
        assert_int_equal(snipara_json_parse((struct sbx_bytes){deep + 40, 120}, &value), 0);
        json_decref(value);
        assert_int_equal(snipara_json_parse(BYTES("{\"a\":\"[[[[\\\"[[\"}"), &value), 0);
        json_decref(value);
        assert_int_equal(snipara_json_parse(BYTES("{\"a\":1,\"a\":2}"), &value), -EBADMSG);
        assert_int_equal(snipara_json_parse(BYTES("{} x"), &value), -EBADMSG);
        assert_int_equal(snipara_json_parse(BYTES("\"open"), &value), -EBADMSG);
        assert_int_equal(snipara_json_parse((struct sbx_bytes){NULL, 0}, &value), -EBADMSG);
}

/* ---- results ---- */

static void assert_result(const char *body, const char *wanted) {
        const struct snipara_question question = question_of("snipara_search");
        const struct sbx_http_response response = response_of(200, body);
        struct snipara_failure failure = {0};
        json_t *result = NULL;
        char *text;

        if (snipara_answer_read(&question, &response, &result, &failure) != 0)
                fail_msg("%s: %s", body, failure.error.message);
        text = json_dumps(result, JSON_COMPACT);
        assert_string_equal(text, wanted);
        free(text);
        json_decref(result);
}

#define ANSWER(result) "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" result "}"
#define BLOCK(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define RESULT(blocks, error) "{\"content\":[" blocks "],\"isError\":" error "}"

static void test_results(void **state) {
        assert_result(ANSWER("{\"content\":[" BLOCK("one") "]}"), RESULT(BLOCK("one"), "false"));
        assert_result(ANSWER("{\"content\":[" BLOCK("") "]}"), RESULT(BLOCK(""), "false"));
        assert_result(ANSWER("{\"content\":[" BLOCK("no") "],\"isError\":true}"), RESULT(BLOCK("no"), "true"));
        assert_result(ANSWER("{\"content\":[" BLOCK("a\\u0000b") "]}"), RESULT(BLOCK("a\\u0000b"), "false"));
        assert_result(ANSWER("{\"content\":[" BLOCK("{\\\"a\\\": 1}") "]}"),
                      RESULT(BLOCK("{\\\"a\\\": 1}"), "false")); /* as it is */
        assert_result(ANSWER("{\"content\":[" BLOCK("is snp-secret") "]}"), RESULT(BLOCK("is **********"), "false"));
        assert_result(ANSWER("{\"content\":[]}"), RESULT(BLOCK("{\\\"content\\\":[]}"), "false"));
        assert_result(ANSWER("[1,2]"), RESULT(BLOCK("[1,2]"), "false"));
        assert_result(ANSWER("\"words\""), RESULT(BLOCK("\\\"words\\\""), "false"));
        assert_result("{\"error\":null,\"result\":{\"content\":[" BLOCK("x") "]}}", RESULT(BLOCK("x"), "false"));
        /* Nothing but content and isError comes from outside. */
        assert_result(ANSWER("{\"content\":[" BLOCK("x") "],\"isError\":\"yes\",\"_meta\":{\"a\":1}}"),
                      RESULT(BLOCK("x"), "false"));
}

static void test_clipping(void **state) {
        const struct snipara_question question = question_of("snipara_search");
        struct snipara_failure failure = {0};
        struct sbx_http_response response;
        json_t *result = NULL, *content;
        char body[4096], text[601];

        memset(text, 'x', 600);
        text[600] = '\0';
        snprintf(body, sizeof(body), ANSWER("{\"content\":[" BLOCK("%s") "," BLOCK("%s") "," BLOCK("y") "]}"), text,
                 text);
        response = response_of(200, body);
        assert_int_equal(snipara_answer_read(&question, &response, &result, &failure), 0);
        content = json_object_get(result, "content");
        assert_int_equal(json_array_size(content), 3);
        assert_int_equal(json_string_length(json_object_get(json_array_get(content, 0), "text")), 600);
        assert_int_equal(json_string_length(json_object_get(json_array_get(content, 1), "text")), 400);
        assert_contains(json_string_value(json_object_get(json_array_get(content, 2), "text")), "201 bytes more");
        json_decref(result);
}

static void assert_failure(const char *tool, unsigned status, const char *body, const char *kind, const char *says,
                           const char *hint) {
        const struct snipara_question question = question_of(tool);
        const struct sbx_http_response response = response_of(status, body);
        struct snipara_failure failure = {0};
        json_t *result = NULL;

        assert_int_equal(snipara_answer_read(&question, &response, &result, &failure), -EBADMSG);
        assert_string_equal(failure.kind, kind);
        assert_int_equal(failure.status, status);
        assert_contains(failure.error.message, says);
        assert_contains(failure.error.hint, hint);
        assert_null(strstr(failure.error.message, "snp-secret"));
        for (const char *c = failure.error.message; *c != '\0'; c++)
                assert_true((unsigned char)*c >= 0x20);
}

static void test_failures(void **state) {
        assert_failure("snipara_search", 401, "{\"error\":\"bad snp-secret\"}", "unauthorized", "bad **********",
                       "SNIPARA_API_KEY");
        assert_failure("snipara_search", 403, NULL, "forbidden", "'mine'", "SNIPARA_PROJECT_SLUG");
        assert_failure("snipara_search", 404, "{\"detail\":\"\\u001b[31mno\\n\"}", "not_found", ": ",
                       "SNIPARA_BASE_URL");
        assert_failure("snipara_search", 429, "not JSON", "rate_limited", "429", "minute");
        assert_failure("snipara_search", 503, "<html>", "server_error", "503", "later");
        assert_failure("snipara_remember", 500, "", "server_error", "500", "snipara_memories");
        assert_failure("snipara_search", 400, "{\"message\":\"pattern\"}", "refused", "pattern", "arguments");
        assert_failure("snipara_search", 302, "", "invalid_answer", "302", "redirects");
        assert_failure("snipara_search", 200, "", "invalid_answer", "empty", "SNIPARA_BASE_URL");
        assert_failure("snipara_search", 200, "[]", "invalid_answer", "neither", "SNIPARA_BASE_URL");
        assert_failure("snipara_search", 200, "{\"result\":null}", "invalid_answer", "neither", "SNIPARA_BASE_URL");
        assert_failure("snipara_search", 200, "{\"error\":{\"code\":-32601,\"message\":\"snp-secret\"}}", "refused",
                       "-32601", "no such tool");
        assert_failure("snipara_search", 200, "{\"error\":\"words\"}", "refused", "words", "arguments");
        assert_failure("snipara_search", 200, "{\"error\":[]}", "refused", "snipara_search", "arguments");
}

/* ---- without memory ---- */

static int read_answer(void *data) {
        const struct snipara_question question = question_of("snipara_search");
        const struct sbx_http_response *response = data;
        struct snipara_failure failure = {0};
        json_t *result = NULL;
        int r = snipara_answer_read(&question, response, &result, &failure);

        if (r == -EBADMSG)
                result = snipara_failure_result(&failure);
        if (r == -EBADMSG || r == 0)
                r = result != NULL ? 0 : -ENOMEM;
        json_decref(result);
        return r;
}

static int define_tools(void *data) {
        json_t *tools = snipara_tools_define(true);

        json_decref(tools);
        return tools != NULL ? 0 : -ENOMEM;
}

static void test_no_memory(void **state) {
        struct sbx_http_response good = response_of(200, ANSWER("{\"content\":[" BLOCK("one") "," BLOCK("two") "]}"));
        struct sbx_http_response bad = response_of(429, "{\"error\":\"slow\"}");

        assert_true(alloc_fail_sweep(read_answer, &good) > 10);
        assert_true(alloc_fail_sweep(read_answer, &bad) > 5);
        assert_true(alloc_fail_sweep(define_tools, NULL) > 100);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_repair),   cmocka_unit_test(test_cut),
                cmocka_unit_test(test_redact),   cmocka_unit_test(test_bounds_of_json),
                cmocka_unit_test(test_results),  cmocka_unit_test(test_clipping),
                cmocka_unit_test(test_failures), cmocka_unit_test(test_no_memory),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
