/* SPDX-License-Identifier: Apache-2.0 */
/* Requests into both APIs and answers out of them, as JSON that can be read here. */
#include "test.h"

#include "dialect.h"

static struct llm_route route_to(const char *provider, const char *name) {
        return (struct llm_route){.provider = llm_provider_find(provider, strlen(provider)),
                                  .model = (char *)"p/m",
                                  .name = (char *)name};
}

static json_t *parse(const char *text) {
        json_error_t fault;
        json_t *value = json_loads(text, 0, &fault);

        if (value == NULL)
                fail_msg("%s: %s", text, fault.text);
        return value;
}

static void assert_json(struct llm_text *text, const char *expected) {
        _cleanup_json_ json_t *found = parse(text->data), *wanted = parse(expected);

        if (!json_equal(found, wanted))
                fail_msg("%s\nwas expected, not\n%s", expected, text->data);
}

static void encode(const struct llm_dialect *dialect, const char *provider, const char *name,
                   const struct llm_manner *manner, const char *request, const char *expected) {
        _cleanup_text_ struct llm_text text = LLM_TEXT(1 << 16);
        _cleanup_json_ json_t *parsed = parse(request), *before = json_deep_copy(parsed);
        struct llm_route route = route_to(provider, name);
        struct sbx_error err = {0};

        if (dialect->encode(parsed, &route, manner, &text, &err) < 0)
                fail_msg("%s: %s", request, err.message);
        assert_json(&text, expected);
        assert_true(json_equal(parsed, before));
}

static void test_to_openai(void **state) {
        static const struct llm_manner plain = {0}, warm = {.has_temperature = true, .temperature = 0.5},
                                       streamed = {.stream = true},
                                       taught = {.has_temperature = true,
                                                 .no_temperature = true,
                                                 .completion_tokens = true};

        encode(&llm_openai, "openai", "gpt-4o", &plain, "{\"model\":\"openai/gpt-4o\",\"messages\":[],\"seed\":1}",
               "{\"model\":\"gpt-4o\",\"messages\":[],\"seed\":1}");
        encode(&llm_openai, "openai", "gpt-4o", &warm, "{\"messages\":[],\"max_tokens\":9}",
               "{\"model\":\"gpt-4o\",\"messages\":[],\"max_tokens\":9,\"temperature\":0.5}");
        encode(&llm_openai, "openai", "gpt-4o", &warm, "{\"messages\":[],\"temperature\":1}",
               "{\"model\":\"gpt-4o\",\"messages\":[],\"temperature\":1}");
        encode(&llm_openai, "openai", "o3-mini", &warm, "{\"messages\":[],\"max_tokens\":9}",
               "{\"model\":\"o3-mini\",\"messages\":[],\"max_completion_tokens\":9}");
        encode(&llm_openai, "groq", "o3-mini", &warm, "{\"messages\":[],\"max_tokens\":9}",
               "{\"model\":\"o3-mini\",\"messages\":[],\"max_tokens\":9,\"temperature\":0.5}");
        encode(&llm_openai, "openai", "gpt-4o", &taught, "{\"messages\":[],\"max_tokens\":9}",
               "{\"model\":\"gpt-4o\",\"messages\":[],\"max_completion_tokens\":9}");
        encode(&llm_openai, "openai", "m", &streamed, "{\"messages\":[],\"stream\":false}",
               "{\"model\":\"m\",\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
        encode(&llm_openai, "mistral", "m", &streamed, "{\"messages\":[]}",
               "{\"model\":\"m\",\"messages\":[],\"stream\":true}");
        encode(&llm_openai, "openrouter", "a/b", &plain, "{\"messages\":[]}",
               "{\"model\":\"a/b\",\"messages\":[],\"usage\":{\"include\":true}}");
}

static void test_to_anthropic(void **state) {
        static const struct llm_manner plain = {0}, hot = {.has_temperature = true, .temperature = 1.5, .stream = true};

        encode(&llm_anthropic, "anthropic", "c", &plain,
               "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"hi\"},"
               "{\"role\":\"developer\",\"content\":\"b\"}],\"stop\":\"END\",\"max_tokens\":7}",
               "{\"model\":\"c\",\"system\":\"a\\n\\nb\",\"max_tokens\":7,\"stop_sequences\":[\"END\"],"
               "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}");
        encode(&llm_anthropic, "anthropic", "c", &hot,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"stop\":[\"a\",\"b\"]}",
               "{\"model\":\"c\",\"max_tokens\":4096,\"stream\":true,\"temperature\":1.0,\"stop_sequences\":[\"a\","
               "\"b\"],"
               "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"(no content)\"}]}]}");
        /* Calls and results: roles take turns, ids are cleaned alike, broken arguments are kept. */
        encode(&llm_anthropic, "anthropic", "c", &plain,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\",\"content\":null,\"tool_"
               "calls\":["
               "{\"id\":\"a.1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},"
               "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{oops\"}}]},"
               "{\"role\":\"tool\",\"tool_call_id\":\"a.1\",\"content\":\"one\"},"
               "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"and?\"}]}",
               "{\"model\":\"c\",\"max_tokens\":4096,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
               "\"text\":\"go\"}]},"
               "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a_1\",\"name\":\"f\",\"input\":{"
               "\"x\":1}},"
               "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\",\"input\":{\"unreadable_arguments\":\"{oops\"}}]},"
               "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a_1\",\"content\":[{"
               "\"type\":\"text\","
               "\"text\":\"one\"}]},{\"type\":\"tool_result\",\"tool_use_id\":\"b\"},{\"type\":\"text\",\"text\":\"and?"
               "\"}]}]}");
}

static void test_anthropic_tools(void **state) {
        static const struct llm_manner plain = {0};
        static const char tool[] = "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\"}}";
        static const struct {
                const char *more, *choice;
        } cases[] = {
                {"", "{\"type\":\"auto\"}"},
                {",\"tool_choice\":\"required\"", "{\"type\":\"any\"}"},
                {",\"tool_choice\":\"none\"", "{\"type\":\"none\"}"},
                {",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                 "{\"type\":\"tool\",\"name\":\"f\"}"},
                {",\"parallel_tool_calls\":false", "{\"type\":\"auto\",\"disable_parallel_tool_use\":true}"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char request[512], expected[512];

                snprintf(request, sizeof(request),
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[%s]%s}", tool,
                         cases[i].more);
                snprintf(expected, sizeof(expected),
                         "{\"model\":\"c\",\"max_tokens\":4096,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                         "\"text\","
                         "\"text\":\"x\"}]}],\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{"
                         "\"type\":\"object\","
                         "\"properties\":{}}}],\"tool_choice\":%s}",
                         cases[i].choice);
                encode(&llm_anthropic, "anthropic", "c", &plain, request, expected);
        }
        encode(&llm_anthropic, "anthropic", "c", &plain,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"json_schema\","
               "\"json_schema\":"
               "{\"name\":\"n\",\"schema\":{\"type\":\"object\"}}}}",
               "{\"model\":\"c\",\"max_tokens\":4096,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
               "\"text\":\"x\"}]}],"
               "\"tools\":[{\"name\":\"answer_in_json\",\"description\":\"Gives the final answer. Call it once, when "
               "the answer is "
               "complete.\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"tool\",\"name\":"
               "\"answer_in_json\"}}");
}

static void test_anthropic_refusals(void **state) {
        static const char *const requests[] = {
                "{}",
                "{\"messages\":[]}",
                "{\"messages\":[1]}",
                "{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}",
                "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"video\"}]}]}",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]}",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"json_schema\"}}",
                ("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                 "\"image_url\":{\"url\":\"data:x\"}}]}]}"),
        };
        static const struct llm_manner plain = {0};

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                _cleanup_text_ struct llm_text text = LLM_TEXT(1 << 16);
                _cleanup_json_ json_t *parsed = parse(requests[i]);
                struct llm_route route = route_to("anthropic", "c");
                struct sbx_error err = {0};

                if (llm_anthropic.encode(parsed, &route, &plain, &text, &err) != -EINVAL)
                        fail_msg("%s was taken", requests[i]);
                assert_true(err.message[0] != '\0');
        }
}

static void decode(const struct llm_dialect *dialect, bool wants_json, const char *body, const char *expected) {
        _cleanup_text_ struct llm_text text = LLM_TEXT(1 << 16);
        _cleanup_json_ json_t *parsed = parse(body), *response = NULL;
        struct llm_answer *answer = NULL;

        assert_int_equal(llm_answer_new(1 << 16, &answer), 0);
        assert_int_equal(dialect->decode(parsed, wants_json, answer), 0);
        assert_int_equal(llm_answer_encode(answer, "m", !answer->usage.known, -1, &text), 0);
        response = parse(text.data);
        llm_text_clear(&text);
        llm_json_encode(json_array_get(json_object_get(response, "choices"), 0), &text);
        assert_json(&text, expected);
        llm_answer_free(answer);
}

static void test_from_openai(void **state) {
        decode(&llm_openai, false, "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}");
        decode(&llm_openai, false,
               "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"},3]},"
               "\"finish_reason\":null}]}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ab\"},\"finish_reason\":\"stop\"}");
        decode(&llm_openai, false,
               "{\"choices\":[{\"message\":{\"content\":null,\"refusal\":\"no\"},\"finish_reason\":\"odd\"}]}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"no\"},\"finish_reason\":\"stop\"}");
        decode(&llm_openai, false,
               "{\"choices\":[{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
               "\"arguments\":{\"x\":1}}}]},"
               "\"finish_reason\":\"stop\"}]}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_0\","
               "\"type\":"
               "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},\"finish_reason\":\"tool_"
               "calls\"}");
        decode(&llm_openai, false, "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"MAX_TOKENS\"}]}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"length\"}");
}

static void test_from_anthropic(void **state) {
        decode(&llm_anthropic, false,
               "{\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
               "\"tool_use\","
               "\"id\":\"t\",\"name\":\"f\",\"input\":{}}],\"stop_reason\":\"tool_use\"}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{\"id\":\"t\","
               "\"type\":\"function\","
               "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}");
        decode(&llm_anthropic, true,
               "{\"content\":[{\"type\":\"text\",\"text\":\"so\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":"
               "\"answer_in_json\","
               "\"input\":{\"a\":1}}],\"stop_reason\":\"tool_use\"}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"{\\\"a\\\":1}\"},\"finish_reason\":"
               "\"stop\"}");
        decode(&llm_anthropic, false, "{\"content\":[],\"stop_reason\":\"refusal\"}",
               "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":\"content_"
               "filter\"}");
}

static void test_json_bounds(void **state) {
        json_t *value = NULL;
        bool repaired = true;

        assert_int_equal(llm_json_parse(BYTES("{\"a\":\"\\ud83e\\udd8a\"}"), &value, &repaired), 0);
        assert_false(repaired);
        assert_string_equal(llm_json_string(value, "a"), "\xF0\x9F\xA6\x8A");
        json_decref(value);
        assert_int_equal(llm_json_parse(BYTES("{\"a\":\"\\ud83e\"}"), &value, &repaired), 0);
        assert_true(repaired);
        assert_string_equal(llm_json_string(value, "a"), "\xEF\xBF\xBD");
        json_decref(value);
        assert_int_equal(llm_json_parse(BYTES("{\"a\":\"\\\\ud83e\"}"), &value, &repaired), 0);
        assert_string_equal(llm_json_string(value, "a"), "\\ud83e");
        json_decref(value);
        value = NULL;
        assert_int_equal(llm_json_parse(BYTES("{\"a\":1,\"a\":2}"), &value, NULL), -EBADMSG);
        assert_int_equal(llm_json_parse(BYTES("{\"a\":\"x"), &value, NULL), -EBADMSG);
        assert_int_equal(llm_json_parse(BYTES("]"), &value, NULL), -EBADMSG);
        assert_int_equal(llm_json_parse(BYTES(""), &value, NULL), -EBADMSG);
        assert_null(value);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_to_openai),       cmocka_unit_test(test_to_anthropic),
                cmocka_unit_test(test_anthropic_tools), cmocka_unit_test(test_anthropic_refusals),
                cmocka_unit_test(test_from_openai),     cmocka_unit_test(test_from_anthropic),
                cmocka_unit_test(test_json_bounds),
        };

        return cmocka_run_group_tests_name("convert", tests, NULL, NULL);
}
