/* SPDX-License-Identifier: Apache-2.0 */
/* When the repl asks for another line: what Python's own reader does, case by case. */
#include "../test.h"

#include "cli/source.h"

static const struct {
        const char *text;
        bool incomplete;
} cases[] = {
        {"", false},
        {"\n", false},
        {"  \n", false},
        {"# comment (\n", false},
        {"x = 1\n", false},
        {"print('hello')\n", false},
        /* brackets */
        {"f(1,\n", true},
        {"f(1,\n2)\n", false},
        {"f(1,\n\n", true},
        {"x = [\n  # ] not here\n", true},
        {"x = {'a': (1, [2\n", true},
        {"x = {'a': (1, [2\n])}\n", false},
        {"x = {'a':\n", true},
        {")\n", false},
        {"x[1:]\n", false},
        /* strings */
        {"s = '('\n", false},
        {"s = \"it's (\"\n", false},
        {"s = 'open\n", false}, /* a syntax error, for Python to tell */
        {"s = '''a\n", true},
        {"s = '''a\nb'''\n", false},
        {"s = \"\"\"a ''' b\n", true},
        {"s = \"\"\"a ''' b\"\"\"\n", false},
        {"s = '''a\\'''\n", true},
        {"s = '\\'('\n", false},
        {"s = 'a\\\nb'\n", false},
        {"s = 'a\\\n", true},
        {"s = '' + ''\n", false},
        {"s = ''''''\n", false},
        {"s = rb'''(\n", true},
        /* backslash */
        {"x = 1 + \\\n", true},
        {"x = 1 + \\\n2\n", false},
        /* compound statements end with an empty line */
        {"if x:\n", true},
        {"if x:\n  y()\n", true},
        {"if x:\n  y()\n\n", false},
        {"if x:\n  y()\nelse:\n  z()\n", true},
        {"if x:\n  y()\nelse:\n  z()\n\n", false},
        {"if x:  # why\n", true},
        {"for i in x: print(i)\n", true},
        {"for i in x: print(i)\n\n", false},
        {"while 1:\n  pass\n   \n", false},
        {"def f(a,\n  b):\n", true},
        {"def f(a,\n  b):\n  return (a,\n  b)\n", true},
        {"def f(a,\n  b):\n  return (a,\n  b)\n\n", false},
        {"def f():\n  '''doc\n\n", true},
        {"def f():\n  '''doc\n\n'''\n", true},
        {"def f():\n  '''doc\n\n'''\n\n", false},
        {"@decorator\n", true},
        {"@decorator\ndef f(): pass\n\n", false},
        {"async def f(): pass\n", true},
        {"class A: pass\n", true},
        {"try:\n", true},
        {"with open(f) as g:\n", true},
        {"match x:\n", true},
        /* words that only begin like keywords */
        {"format(1)\n", false},
        {"ifx = 1\n", false},
        {"classes = 2\n", false},
        {"match = 1\n", false},
        {"x = [i for i in y if i]\n", false},
        {"x: int = 1\n", false},
        {"f = lambda: 0\n", false},
        {"x = 1 if y else 2\n", false},
};

static void asks_for_more_as_python_does(void **state) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_bytes text = {cases[i].text, strlen(cases[i].text)};

                if (sbx_cli_source_incomplete(text) != cases[i].incomplete)
                        fail_msg("wrong about: %s", cases[i].text);
        }
}

/* Any bytes: no read beyond the end (the sanitizers watch), no endless loop. */
static void takes_anything(void **state) {
        static const char alphabet[] = "\"'\\\n([{)]}:#@ a\0\xC3\xFF";
        uint32_t random = 1;

        for (unsigned round = 0; round < 20000; round++) {
                size_t size = round % 24;
                char *text = test_malloc(size + 1);

                for (size_t i = 0; i < size; i++) {
                        random = random * 1664525u + 1013904223u;
                        text[i] = alphabet[(random >> 16) % (sizeof(alphabet) - 1)];
                }
                (void)sbx_cli_source_incomplete((struct sbx_bytes){text, size});
                test_free(text);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(asks_for_more_as_python_does),
                cmocka_unit_test(takes_anything),
        };

        return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
