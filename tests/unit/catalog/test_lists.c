/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the catalog: put together, checked, kept until a change is told. */
#include "fake_part.h"

static void test_merged(void **state) {
        struct fake_part first = {.name = "first",
                                  .prompts = "[{'name':'b','arguments':[]},{'name':'d'}]",
                                  .templates = "[{'uriTemplate':'x://{a}','name':'x'}]"},
                         second = {.name = "second", .prompts = "[{'name':'c','title':'C'},{'name':'b','title':'no'}]"},
                         none = {.name = "none"};
        struct sbx_catalog *catalog = fake_catalog();
        struct sbx_error err = {0};
        struct sbx_buffer out = SBX_BUFFER(100);

        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[]");
        fake_add(catalog, &first);
        fake_add(catalog, &none);
        fake_add(catalog, &second);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS),
                            "[{'name':'b','arguments':[]},{'name':'c','title':'C'},{'name':'d'}]");
        assert_contains(fake_log.lines, "second: 'b' of its prompts is not used: first has it already");
        assert_string_equal(fake_listed(catalog, SBX_LIST_TEMPLATES), "[{'uriTemplate':'x://{a}','name':'x'}]");
        assert_int_equal(sbx_catalog_list(catalog, SBX_LIST_TOOLS, &out, &err), -EINVAL);
        sbx_catalog_free(catalog);
}

static void test_bad_items(void **state) {
        static const struct {
                int list;
                const char *items, *told;
        } bad[] = {
                {SBX_LIST_PROMPTS, "[1]", "name must be a text"},
                {SBX_LIST_PROMPTS, "[{'title':'x'}]", "name must be a text"},
                {SBX_LIST_PROMPTS, "[{'name':''}]", "has 0 bytes"},
                {SBX_LIST_PROMPTS, "[{'name':'a\\nb'}]", "control characters"},
                {SBX_LIST_PROMPTS, "[{'name':'a\\u0000b'}]", "NUL"},
                {SBX_LIST_PROMPTS, "[{'name':'a','title':5}]", "title must be a text"},
                {SBX_LIST_PROMPTS, "[{'name':'a','arguments':{}}]", "must be an array"},
                {SBX_LIST_PROMPTS, "[{'name':'a','arguments':[{}]}]", "name must be a text"},
                {SBX_LIST_PROMPTS, "[{'name':'a','arguments':[{'name':'x','required':'yes'}]}]", "true or false"},
                {SBX_LIST_PROMPTS, "[{'name':'a','icons':{}}]", "icons must be an array"},
                {SBX_LIST_PROMPTS, "[{'name':'a','icons':[{'src':'javascript:x'}]}]", "neither an https:"},
                {SBX_LIST_TEMPLATES, "[{'name':'a'}]", "uriTemplate must be a text"},
                {SBX_LIST_TEMPLATES, "[{'uriTemplate':'x://y'}]", "name must be a text"},
                {SBX_LIST_TEMPLATES, "[{'uriTemplate':'/etc/{path}','name':'a'}]", "is no URI"},
                {SBX_LIST_TEMPLATES, "[{'uriTemplate':'x: y','name':'a'}]", "is no URI"},
                {SBX_LIST_TEMPLATES, "[{'uriTemplate':'x://y','name':'a','mimeType':[]}]", "mimeType must be a text"},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct fake_part wrong = {.name = "wrong", .prompts = bad[i].items, .templates = bad[i].items},
                                 right = {.name = "right",
                                          .prompts = "[{'name':'z'}]",
                                          .templates = "[{'uriTemplate':'z:z','name':'z'}]"};
                struct sbx_catalog *catalog = fake_catalog();

                fake_add(catalog, &wrong);
                fake_add(catalog, &right);
                assert_contains(fake_listed(catalog, bad[i].list), "'name':'z'}]");
                assert_contains(fake_log.lines, bad[i].told);
                assert_int_equal(fake_log.count, 1);
                sbx_catalog_free(catalog);
        }
}

/* A part that fails, or answers something else than a list, takes nothing from the others, and is asked again. */
static void test_failing_part(void **state) {
        struct fake_part broken = {.name = "broken", .list_status = -EIO},
                         right = {.name = "right", .prompts = "[{'name':'z'}]"},
                         odd = {.name = "odd", .prompts = "{'prompts':[]}"};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &broken);
        fake_add(catalog, &odd);
        fake_add(catalog, &right);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[{'name':'z'}]");
        assert_contains(fake_log.lines, "broken: what it lists is left out: the fake part is out of order");
        assert_contains(fake_log.lines, "odd: what it lists is left out");
        broken.list_status = 0;
        broken.prompts = "[{'name':'back'}]";
        odd.prompts = NULL;
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[{'name':'back'},{'name':'z'}]");
        sbx_catalog_free(catalog);
}

static void tell(struct sbx_catalog *catalog, uint32_t kind, const char *principal) {
        sbx_catalog_changed(catalog, &(struct sbx_change){sizeof(struct sbx_change), kind, "x:y", principal});
}

/* Asked once, until something is told that concerns the list. */
static void test_kept(void **state) {
        struct fake_part part = {.name = "part", .prompts = "[{'name':'a'}]"}, more = {.name = "more"};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &part);
        for (int i = 0; i < 3; i++)
                fake_listed(catalog, SBX_LIST_PROMPTS);
        assert_int_equal(part.listed, 1);
        tell(catalog, SBX_CHANGE_TOOLS, NULL);
        tell(catalog, SBX_CHANGE_RESOURCE, NULL);
        tell(catalog, SBX_CHANGE_RESOURCES, NULL);
        tell(catalog, SBX_CHANGE_PROMPTS, "token:one"); /* what all see can't have changed for one alone */
        fake_listed(catalog, SBX_LIST_PROMPTS);
        assert_int_equal(part.listed, 1);
        part.prompts = "[{'name':'b'}]";
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[{'name':'a'}]");
        tell(catalog, SBX_CHANGE_PROMPTS, NULL);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[{'name':'b'}]");
        assert_int_equal(part.listed, 2);
        fake_add(catalog, &more);
        fake_listed(catalog, SBX_LIST_PROMPTS);
        assert_int_equal(part.listed, 3);
        sbx_catalog_free(catalog);
}

static void tell_prompts(void *data) {
        tell(data, SBX_CHANGE_PROMPTS, NULL);
}

/* A change that is told while the list is asked may not be in it: it is not kept. */
static void test_change_meanwhile(void **state) {
        struct fake_part part = {.name = "part", .prompts = "[{'name':'a'}]"};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &part);
        part.in_list = tell_prompts;
        part.in_list_data = catalog;
        fake_listed(catalog, SBX_LIST_PROMPTS);
        part.in_list = NULL;
        fake_listed(catalog, SBX_LIST_PROMPTS);
        fake_listed(catalog, SBX_LIST_PROMPTS);
        assert_int_equal(part.listed, 2);
        sbx_catalog_free(catalog);
}

static void test_bounds(void **state) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);
        struct fake_part part = {.name = "part"};
        struct sbx_catalog *catalog = fake_catalog();
        const struct sbx_catalog_part same = {"same", &part, fake_prompts, fake_templates, fake_request};
        struct sbx_error err = {0};
        unsigned count = 1;

        assert_int_equal(sbx_buffer_append_text(&text, "["), 0);
        for (int i = 0; i < 10001; i++)
                assert_int_equal(sbx_buffer_printf(&text, "%s{'name':'%d'}", i > 0 ? "," : "", i), 0);
        assert_int_equal(sbx_buffer_append_text(&text, "]"), 0);
        part.prompts = text.data;
        fake_add(catalog, &part);
        assert_string_equal(fake_listed(catalog, SBX_LIST_PROMPTS), "[]");
        assert_contains(fake_log.lines, "at most 10000");
        while (sbx_catalog_add(catalog, &same, &err) == 0)
                count++;
        assert_int_equal(count, 64);
        assert_int_equal(err.code, -ENOSPC);
        sbx_catalog_free(catalog);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_merged),           cmocka_unit_test(test_bad_items),
                cmocka_unit_test(test_failing_part),     cmocka_unit_test(test_kept),
                cmocka_unit_test(test_change_meanwhile), cmocka_unit_test(test_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
