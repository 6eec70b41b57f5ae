/* SPDX-License-Identifier: Apache-2.0 */
/* What is read in the text of a model that has no tools, and what is not. */
#include <stdlib.h>

#include "../test.h"

#include "agent/sampling_text.h"

#define BOTH (SBX_TEXT_CAN_CODE | SBX_TEXT_CAN_FINAL)

static void reads(void **state) {
        static const struct {
                const char *answer;
                enum sbx_text_action_kind kind;
                const char *before, *body;
        } cases[] = {
                {"```python\nprint(1)\n```", SBX_TEXT_CODE, "", "print(1)\n"},
                {"I compute.\n\n```python\na = 1\n\na\n```\nThen I say it.\nFINAL: 1", SBX_TEXT_CODE, "I compute.",
                 "a = 1\n\na\n"},
                {"```python  \r\nprint(1)\r\n``` \r\n", SBX_TEXT_CODE, "", "print(1)\r\n"},
                {"```python\none\n```\n```python\ntwo\n```\n", SBX_TEXT_CODE, "", "one\n"},
                {"```python\n```", SBX_TEXT_CODE, "", ""},
                {"FINAL: 42", SBX_TEXT_FINAL, "", "42"},
                {"It is plain.\nFINAL:   42\nand more\n\n", SBX_TEXT_FINAL, "It is plain.", "42\nand more"},
                {"FINAL: look\n```python\nx\n```", SBX_TEXT_FINAL, "", "look\n```python\nx\n```"},
                /* Quoted, and not meant. */
                {"```text\nFINAL: no\n```\nFINAL: yes", SBX_TEXT_FINAL, "```text\nFINAL: no\n```", "yes"},
                {"```\n```python\nx\n```\nno more", SBX_TEXT_ONLY, NULL, ""},
                {"```\n```python\nx\n```\n```python\ny\n```", SBX_TEXT_CODE, "```\n```python\nx\n```", "y\n"},
                /* Neither form, or not whole. */
                {"", SBX_TEXT_ONLY, NULL, ""},
                {"The answer is 42.", SBX_TEXT_ONLY, NULL, ""},
                {"FINAL:", SBX_TEXT_ONLY, NULL, ""},
                {"FINAL:  \n \n", SBX_TEXT_ONLY, NULL, ""},
                {" FINAL: 42", SBX_TEXT_ONLY, NULL, ""},
                {"Final: 42", SBX_TEXT_ONLY, NULL, ""},
                {"So FINAL: 42", SBX_TEXT_ONLY, NULL, ""},
                {"```python\nprint(1)", SBX_TEXT_ONLY, NULL, ""},
                {"```python\nprint(1)\nFINAL: 2", SBX_TEXT_ONLY, NULL, ""},
                {"```python print(1)```", SBX_TEXT_ONLY, NULL, ""},
                {"```Python\nprint(1)\n```", SBX_TEXT_ONLY, NULL, ""},
                {"```py\nprint(1)\n```", SBX_TEXT_ONLY, NULL, ""},
                {"  ```python\nprint(1)\n```", SBX_TEXT_ONLY, NULL, ""},
                {"````python\nprint(1)\n````", SBX_TEXT_ONLY, NULL, ""},
                {"```bash\nrm -rf /\n```", SBX_TEXT_ONLY, NULL, ""},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_bytes answer = {cases[i].answer, strlen(cases[i].answer)};
                const char *before = cases[i].before != NULL ? cases[i].before : cases[i].answer;
                struct sbx_text_action action = {0};

                sbx_text_action_find(answer, BOTH, &action);
                if (action.kind != cases[i].kind || action.before.size != strlen(before) ||
                    memcmp(action.before.data, before, action.before.size) != 0 ||
                    action.body.size != strlen(cases[i].body) ||
                    (action.body.size > 0 && memcmp(action.body.data, cases[i].body, action.body.size) != 0))
                        fail_msg("case %zu (%s): kind %d, before '%.*s', body '%.*s'", i, cases[i].answer,
                                 (int)action.kind, (int)action.before.size, (const char *)action.before.data,
                                 (int)action.body.size, (const char *)action.body.data);
        }
}

/* What was not offered is text like any other. */
static void reads_what_is_possible(void **state) {
        static const char code[] = "```python\nx\n```", final[] = "FINAL: y", both[] = "```python\nx\n```\nFINAL: y";
        struct sbx_text_action action = {0};

        sbx_text_action_find((struct sbx_bytes){code, sizeof(code) - 1}, SBX_TEXT_CAN_FINAL, &action);
        assert_int_equal(action.kind, SBX_TEXT_ONLY);
        sbx_text_action_find((struct sbx_bytes){final, sizeof(final) - 1}, SBX_TEXT_CAN_CODE, &action);
        assert_int_equal(action.kind, SBX_TEXT_ONLY);
        sbx_text_action_find((struct sbx_bytes){both, sizeof(both) - 1}, SBX_TEXT_CAN_FINAL, &action);
        assert_int_equal(action.kind, SBX_TEXT_FINAL);
        sbx_text_action_find((struct sbx_bytes){both, sizeof(both) - 1}, 0, &action);
        assert_int_equal(action.kind, SBX_TEXT_ONLY);
}

/* Every beginning of a text, each in memory of just its size: nothing beyond it is read. */
static void reads_no_further(void **state) {
        static const char text[] = "a\n```x\nFINAL: no\n```\n```python\nprint(1)\n```\nFINAL: b\n";

        for (size_t size = 0; size < sizeof(text); size++) {
                char *copy = malloc(size > 0 ? size : 1);
                struct sbx_text_action action = {0};

                memcpy(copy, text, size);
                sbx_text_action_find((struct sbx_bytes){copy, size}, BOTH, &action);
                assert_true(action.before.size <= size && action.body.size <= size);
                free(copy);
        }
}

/* What the rules say is what is read. */
static void tells_the_rules(void **state) {
        _cleanup_buffer_ struct sbx_buffer rules = SBX_BUFFER(1u << 16), nothing = SBX_BUFFER(1u << 16);
        struct sbx_text_action action = {0};

        assert_int_equal(sbx_text_rules(BOTH, &rules), 0);
        sbx_text_action_find(sbx_buffer_bytes(&rules), BOTH, &action);
        assert_int_equal(action.kind, SBX_TEXT_CODE);
        assert_non_null(strstr(rules.data, "FINAL:"));
        assert_int_equal(sbx_text_rules(0, &nothing), 0);
        assert_int_equal(nothing.size, 0);
        assert_int_equal(sbx_text_rules(SBX_TEXT_CAN_FINAL, &nothing), 0);
        assert_null(strstr(nothing.data, "```python"));
}

static void writes_what_it_reads(void **state) {
        static const char *const codes[] = {"x = 1\n", "x = 1", ""};
        static const char answer[] = "seven\nor eight";

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1u << 16);
                struct sbx_text_action action = {0};

                assert_int_equal(sbx_text_code((struct sbx_bytes){codes[i], strlen(codes[i])}, &text), 0);
                sbx_text_action_find(sbx_buffer_bytes(&text), BOTH, &action);
                assert_int_equal(action.kind, SBX_TEXT_CODE);
                assert_true(action.body.size >= strlen(codes[i]));
                assert_memory_equal(action.body.data, codes[i], strlen(codes[i]));
        }
        {
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1u << 16);
                struct sbx_text_action action = {0};

                assert_int_equal(sbx_text_final((struct sbx_bytes){answer, strlen(answer)}, &text), 0);
                sbx_text_action_find(sbx_buffer_bytes(&text), BOTH, &action);
                assert_int_equal(action.kind, SBX_TEXT_FINAL);
                assert_int_equal(action.body.size, strlen(answer));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads),
                cmocka_unit_test(reads_what_is_possible),
                cmocka_unit_test(reads_no_further),
                cmocka_unit_test(tells_the_rules),
                cmocka_unit_test(writes_what_it_reads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
