/* SPDX-License-Identifier: Apache-2.0 */
/* Revisions, and results as each revision may see them. */
#include "test.h"

#include <jansson.h>

#include "protocol.h"

static void test_negotiation(void **test) {
        static const struct {
                const char *asked, *answered;
        } cases[] = {
                {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
                {"2025-11-25", "2025-11-25"}, {"2024-10-07", "2025-11-25"}, {"2026-07-28", "2025-11-25"},
                {"", "2025-11-25"},           {"none", "2025-11-25"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(mcp_revision_name(mcp_revision_negotiate(cases[i].asked)), cases[i].answered);
}

static void check_result(const char *result, enum mcp_revision revision, const char *expected) {
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(4096);
        struct sbx_bytes prepared = {NULL, 0};

        assert_int_equal(mcp_result_prepare(text_bytes(result), revision, &storage, &prepared), 0);
        assert_int_equal(prepared.size, strlen(expected));
        assert_memory_equal(prepared.data, expected, prepared.size);
}

static void test_results_pass_unchanged(void **test) {
        static const char result[] = "{\"content\":[{\"type\":\"text\",\"text\":\"a \\\"resource_link\\\" \\n\"},"
                                     "{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}],"
                                     "\"isError\":true,\"_meta\":{\"x\":[1.50]}}";
        struct mcp_text storage = MCP_TEXT(4096);
        struct sbx_bytes prepared;

        for (enum mcp_revision revision = MCP_2024_11_05; revision <= MCP_2026_07_28; revision++) {
                assert_int_equal(mcp_result_prepare(BYTES(result), revision, &storage, &prepared), 0);
                assert_ptr_equal(prepared.data, result); /* the very bytes */
                assert_int_equal(prepared.size, sizeof(result) - 1);
                assert_null(storage.data);
        }
}

static void test_results_of_several_lines(void **test) {
        check_result("{\n\t\"content\": [ ],\r\n \"isError\": false }\n", MCP_2025_11_25,
                     "{\"content\":[],\"isError\":false}");
}

static void test_older_clients(void **test) {
        static const char link[] = "{\"content\":[{\"type\":\"resource_link\",\"uri\":\"repl://a/files/x.csv\","
                                   "\"name\":\"x.csv\",\"mimeType\":\"text/csv\"},{\"type\":\"text\",\"text\":\"t\"}]}";
        static const char link_text[] = "{\"content\":[{\"type\":\"text\",\"text\":\"x.csv: repl://a/files/x.csv "
                                        "(text/csv)\"},{\"type\":\"text\",\"text\":\"t\"}]}";
        static const char audio[] = "{\"content\":[{\"type\":\"audio\",\"data\":\"AA==\",\"mimeType\":\"audio/wav\"}]}";
        static const char audio_text[] =
                "{\"content\":[{\"type\":\"text\",\"text\":\"[audio/wav left out: this client's "
                "protocol revision has no audio]\"}]}";

        check_result(link, MCP_2025_11_25, link);
        check_result(link, MCP_2025_06_18, link);
        check_result(link, MCP_2025_03_26, link_text);
        check_result(link, MCP_2024_11_05, link_text);
        check_result(audio, MCP_2025_03_26, audio);
        check_result(audio, MCP_2024_11_05, audio_text);
        /* The words elsewhere than in a block's type change nothing. */
        check_result("{\"content\":[],\"_meta\":{\"audio\":1}}", MCP_2024_11_05,
                     "{\"content\":[],\"_meta\":{\"audio\":1}}");
        check_result("{\"audio\":7}", MCP_2024_11_05, "{\"audio\":7}");
}

static void test_names(void **test) {
        assert_int_equal(mcp_revision_find("2026-07-28"), MCP_2026_07_28);
        assert_int_equal(mcp_revision_find("2024-11-05"), MCP_2024_11_05);
        assert_int_equal(mcp_revision_find("none"), MCP_REVISION_NONE);
        assert_int_equal(mcp_revision_find(""), MCP_REVISION_NONE);
}

static void test_prompts_of_older_clients(void **test) {
        check_result("{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"resource_link\",\"uri\":\"a:b\"}},7]}",
                     MCP_2025_03_26,
                     "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":"
                     "\"resource: a:b (application/octet-stream)\"}},7]}");
}

static void test_repaired_results(void **test) {
        check_result("{\"content\":[{\"type\":\"text\",\"text\":\"\\ud800 \\u0000 \xFF\"}]}", MCP_2025_11_25,
                     "{\"content\":[{\"type\":\"text\",\"text\":\"\xEF\xBF\xBD \xEF\xBF\xBD \xEF\xBF\xBD\"}]}");
        check_result(
                "{\"content\":[{\"type\":\"audio\",\"mimeType\":\"\\ud800\"}]}", MCP_2024_11_05,
                "{\"content\":[{\"type\":\"text\",\"text\":\"[\xEF\xBF\xBD left out: this client's protocol revision "
                "has no audio]\"}]}");
        check_result("{\n\"a\":\"\\u0000\"}", MCP_2026_07_28, "{\"a\":\"\xEF\xBF\xBD\"}");
}

static void test_results_that_are_none(void **test) {
        static const char *const cases[] = {"", "{", "[]", "7", "null", "{]", "{\n", "[\n]", "\"resource_link\""};
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(4096);
        struct sbx_bytes prepared;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(mcp_result_prepare(text_bytes(cases[i]), MCP_2024_11_05, &storage, &prepared),
                                 -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_negotiation),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_prompts_of_older_clients),
                cmocka_unit_test(test_repaired_results),
                cmocka_unit_test(test_results_pass_unchanged),
                cmocka_unit_test(test_results_of_several_lines),
                cmocka_unit_test(test_older_clients),
                cmocka_unit_test(test_results_that_are_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
