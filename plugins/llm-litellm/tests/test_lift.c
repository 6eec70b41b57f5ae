/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a request that are taken out and put back as they stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../lift.h"

static struct sbx_bytes bytes(const char *text) {
        return (struct sbx_bytes){text, strlen(text)};
}

static void test_out_and_in(void **state) {
        static const struct {
                const char *request, *shell;
        } cases[] = {
                {"{\"messages\":[{\"content\":\"]}\\\"[\"},[1]],\"model\":\"m\"}", "{\"messages\":[],\"model\":\"m\"}"},
                {" { \"tools\" : [1,{\"a\":[]}] , \"n\" : -1.5e3 , \"messages\" : [ ] } ",
                 " { \"tools\" : [] , \"n\" : -1.5e3 , \"messages\" : [] } "},
                {"{\"a\":{\"messages\":[1]},\"b\":\"messages\",\"messages\":[2]}",
                 "{\"a\":{\"messages\":[1]},\"b\":\"messages\",\"messages\":[]}"},
                {"{\"messages\":7,\"tools\":null}", "{\"messages\":7,\"tools\":null}"},
                {"{}", "{}"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                _cleanup_text_ struct llm_text shell = LLM_TEXT(1000), whole = LLM_TEXT(1000);
                struct llm_lifted lifted = {0};

                assert_true(llm_lift_out(bytes(cases[i].request), &lifted, &shell));
                assert_string_equal(shell.data, cases[i].shell);
                assert_true(llm_lift_in(llm_text_bytes(&shell), &lifted, &whole));
                assert_string_equal(whole.data, cases[i].request);
        }
}

/* Into a body that has changed: other members, another order. */
static void test_into_another_body(void **state) {
        _cleanup_text_ struct llm_text shell = LLM_TEXT(1000), whole = LLM_TEXT(1000);
        struct llm_lifted lifted = {0};

        assert_true(llm_lift_out(bytes("{\"messages\":[\"x\"],\"tools\":[\"y\"]}"), &lifted, &shell));
        assert_true(
                llm_lift_in(bytes("{\"stream\":true,\"tools\":[],\"messages\":[],\"model\":\"m\"}"), &lifted, &whole));
        assert_string_equal(whole.data, "{\"stream\":true,\"tools\":[\"y\"],\"messages\":[\"x\"],\"model\":\"m\"}");
}

static void test_other_forms(void **state) {
        static const char *const requests[] = {
                "",
                "  ",
                "[]",
                "{",
                "{\"a\"}",
                "{\"a\":",
                "{\"a\":1",
                "{\"a\":\"x",
                "{\"messages\":[",
                "{\"messages\":[\"]}",
                "{\"messages\":[1],\"messages\":[2]}",
                "{a:1}",
                "{\"a\\",
                "{\"a\":\"\\",
        };

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                _cleanup_text_ struct llm_text shell = LLM_TEXT(1000);
                struct llm_lifted lifted = {0};

                if (llm_lift_out(bytes(requests[i]), &lifted, &shell))
                        fail_msg("%s", requests[i]);
                assert_int_equal(lifted.values[0].size, 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_out_and_in),
                cmocka_unit_test(test_into_another_body),
                cmocka_unit_test(test_other_forms),
        };

        return cmocka_run_group_tests_name("lift", tests, NULL, NULL);
}
