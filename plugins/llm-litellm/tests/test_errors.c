/* SPDX-License-Identifier: Apache-2.0 */
/* What refusals mean, and that no key is in what is told; waits between attempts. */
#include "test.h"

#include <unistd.h>

#include "errors.h"
#include "retry.h"

#define KEY "sk-proj-0123456789abcdef"

static int report(unsigned status, const char *type, const char *body, struct sbx_error *err) {
        struct llm_route route = {.provider = llm_provider_find("openai", 6),
                                  .model = (char *)"openai/m",
                                  .name = (char *)"m",
                                  .place = (char *)"https://api.openai.com",
                                  .key = KEY,
                                  .key_variable = "OPENAI_API_KEY"};
        struct llm_refusal refusal = {.status = status,
                                      .content_type = type,
                                      .request_id = "req-1",
                                      .body = {body, strlen(body)},
                                      .attempts = 1};

        return llm_refusal_report(&route, &refusal, err);
}

static void test_codes(void **state) {
        static const struct {
                unsigned status;
                const char *body;
                int code;
        } cases[] = {
                {401, "{\"error\":{\"message\":\"no\"}}", -EACCES},
                {403, "{\"message\":\"no\"}", -EACCES},
                {402, "{}", -EDQUOT},
                {404, "{\"detail\":\"Not Found\"}", -ENOENT},
                {400, "{\"error\":{\"code\":\"model_not_found\"}}", -ENOENT},
                {400, "{\"error\":{\"message\":\"x is not a valid model ID\"}}", -ENOENT},
                {400, "{\"error\":{\"code\":\"context_length_exceeded\"}}", -E2BIG},
                {400, "{\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}", -E2BIG},
                {413, "", -E2BIG},
                {400, "{\"error\":{\"message\":\"Your credit balance is too low\"}}", -EDQUOT},
                {400, "[{\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\"}}]",
                 -EACCES},
                {400, "{\"error\":{\"message\":\"odd\"}}", -EINVAL},
                {422, "{\"detail\":[{\"msg\":\"field required\"}]}", -EINVAL},
                {429, "{\"error\":{\"message\":\"slow\"}}", -EAGAIN},
                {429, "{\"error\":{\"code\":\"insufficient_quota\"}}", -EDQUOT},
                {408, "", -EREMOTEIO},
                {500, "boom", -EREMOTEIO},
                {529, "{\"error\":{\"type\":\"overloaded_error\"}}", -EREMOTEIO},
                {301, "", -EBADMSG},
                {0, "{\"error\":{\"type\":\"rate_limit_error\"}}", -EAGAIN},
                {0, "{\"error\":{\"code\":404}}", -ENOENT},
                {0, "{\"error\":\"something\"}", -EREMOTEIO},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_error err = {0};

                if (report(cases[i].status, "application/json", cases[i].body, &err) != cases[i].code)
                        fail_msg("%u %s: %s", cases[i].status, cases[i].body, err.message);
                assert_int_equal(err.code, cases[i].code);
                assert_contains(err.message, "openai/m");
                assert_contains(err.message, "https://api.openai.com");
                assert_contains(err.message, "req-1");
                assert_true(err.hint[0] != '\0');
        }
}

static void test_words(void **state) {
        struct sbx_error err = {0}, page = {0}, wide = {0};
        char body[4096];

        report(400, "application/json", "{\"error\":{\"message\":\"a\\nb\\u001b[31m \\u0000c\"}}", &err);
        assert_null(strpbrk(err.message, "\n\x1b"));
        report(502, "text/html", "<html><h1>Bad gateway</h1></html>", &page);
        assert_contains(page.message, "web page");
        assert_null(strstr(page.message, "<h1>"));
        memset(body, 0, sizeof(body));
        for (size_t i = 0; i + 2 < sizeof(body); i += 2)
                memcpy(body + i, "\xC3\xA4", 2);
        report(500, "text/plain", body, &wide);
        assert_true(strlen(wide.message) < 500);
        assert_true(llm_utf8_valid(wide.message, strlen(wide.message)));
}

static void test_keys_are_redacted(void **state) {
        static const char *const texts[] = {
                KEY, "Bearer " KEY, "x" KEY "x" KEY, "sk-proj*********cdef", "tail 6789abcdef", "middle 56789abc"};

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                char text[128];

                snprintf(text, sizeof(text), "%s", texts[i]);
                llm_redact(text, strlen(text), KEY);
                for (size_t from = 0; from + 8 <= strlen(KEY); from++) {
                        char part[9];

                        snprintf(part, sizeof(part), "%.8s", &KEY[from]);
                        if (strstr(text, part) != NULL)
                                fail_msg("%s is left in %s", part, text);
                }
                assert_int_equal(strlen(text), strlen(texts[i]));
                assert_null(strstr(text, "sk-proj"));
        }
}

static void test_masked_keys(void **state) {
        char text[] = "{\"a\":\"" KEY "\",\"b\":\"" KEY KEY "\"}", plain[] = "short stays";

        llm_mask_key(text, strlen(text), KEY);
        assert_null(strstr(text, KEY));
        assert_contains(text, "{\"a\":\"****");
        assert_contains(text, "*\"}");
        llm_mask_key(plain, strlen(plain), "short");
        assert_string_equal(plain, "short stays");
        llm_mask_key(plain, strlen(plain), NULL);
        llm_redact(plain, strlen(plain), NULL);
        assert_string_equal(plain, "short stays");
}

static void test_delays(void **state) {
        assert_int_equal(llm_retry_delay_ms(0, 500, 0, 0), 250);
        assert_int_equal(llm_retry_delay_ms(0, 500, 0, 1), 500);
        assert_int_equal(llm_retry_delay_ms(2, 500, 0, 1), 2000);
        assert_int_equal(llm_retry_delay_ms(60, 500, 0, 1), 60000);
        assert_int_equal(llm_retry_delay_ms(3, 500, 7, 1), 7);
}

static void test_waits(void **state) {
        int fds[2];
        struct sbx_call call = {sizeof(call), -1, 0};

        assert_int_equal(llm_retry_wait(&call, 0, 1, 0), 1);
        assert_int_equal(llm_retry_wait(&call, 0, 1, 3600000),
                         0);  /* nobody waits an hour without a deadline that says so */
        call.deadline_ns = 1; /* long past */
        assert_int_equal(llm_retry_wait(&call, 0, 1, 0), 0);
        assert_int_equal(pipe(fds), 0);
        call = (struct sbx_call){sizeof(call), fds[0], 0};
        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_int_equal(llm_retry_wait(&call, 0, 60000, 0), -ECANCELED);
        close(fds[0]);
        close(fds[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_codes),
                cmocka_unit_test(test_words),
                cmocka_unit_test(test_keys_are_redacted),
                cmocka_unit_test(test_masked_keys),
                cmocka_unit_test(test_delays),
                cmocka_unit_test(test_waits),
        };

        return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
