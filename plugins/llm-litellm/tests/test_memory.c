/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation in turn fails, from the name of a model to the encoded response: -ENOMEM, no crash, no leak. */
#include "test.h"

#include "alloc_fail.h"
#include "errors.h"
#include "receive.h"

static const char request[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"x\\\":[1]}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"r\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\"}}],\"stop\":[\"x\"],"
        "\"max_tokens\":5,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":"
        "\"object\"}}}}";

static const char openai_stream[] =
        "data: {\"id\":\"i\",\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{}\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,"
        "\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

static const char anthropic_stream[] =
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"i\",\"model\":\"m\",\"usage\":{\"input_tokens\":1,"
        "\"output_tokens\":1}}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\","
        "\"name\":\"f\"}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":"
        "\"{}\"}}\n\n"
        "data: "
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\n"
        "data: {\"type\":\"message_stop\"}\n\n";

struct subject {
        const char *model, *stream;
        const struct llm_dialect *dialect;
        size_t chunks;
};

static void count_delta(void *data, struct sbx_bytes chunk) {
        (*(size_t *)data)++;
}

static int receive(struct subject *subject, const struct llm_route *route, struct llm_text *out) {
        struct sbx_provider_events events = {
                .struct_size = sizeof(events), .data = &subject->chunks, .delta = count_delta};
        _cleanup_receiver_ struct llm_receiver receiver;
        int r = llm_receiver_init(&receiver, subject->dialect, route, &events, true, 1 << 20);

        if (r == 0)
                r = llm_receiver_piece(&receiver, (struct sbx_bytes){subject->stream, strlen(subject->stream)});
        if (r == 0)
                r = llm_receiver_finish(&receiver);
        return r < 0 ? r : llm_answer_encode(receiver.stream.answer, "m", false, 0.5, out);
}

static int run(void *data) {
        static const char *const values[] = {"OPENAI_API_KEY=sk-0123456789abcdef",
                                             "ANTHROPIC_API_KEY=sk-0123456789abcdef", "temperature=0.5", NULL};
        static const struct llm_manner manner = {.stream = true, .has_temperature = true};
        struct subject *subject = data;
        _cleanup_text_ struct llm_text body = LLM_TEXT(1 << 20), response = LLM_TEXT(1 << 20);
        _cleanup_headers_ struct llm_headers headers = {{NULL}};
        _cleanup_route_ struct llm_route route = {0};
        _cleanup_json_ json_t *parsed = NULL;
        struct llm_settings settings;
        struct sbx_host_state state;
        struct sbx_host host;
        int r;

        fake_host_init(&host, &state, values);
        r = llm_settings_read(&host, &settings, NULL);
        if (r == 0)
                r = llm_route_find(&settings, subject->model, &route, NULL);
        if (r == 0)
                r = llm_headers_make(&route, "x", &headers);
        if (r == 0)
                r = llm_json_parse((struct sbx_bytes){request, strlen(request)}, &parsed, NULL);
        if (r == 0)
                r = subject->dialect->encode(parsed, &route, &manner, &body, NULL);
        return r < 0 ? r : receive(subject, &route, &response);
}

static void test_completions(void **state) {
        struct subject openai = {"openai/gpt-4o", openai_stream, &llm_openai, 0},
                       anthropic = {"anthropic/claude-x", anthropic_stream, &llm_anthropic, 0};

        assert_true(alloc_fail_sweep(run, &openai) > 50);
        assert_true(openai.chunks > 3);
        assert_true(alloc_fail_sweep(run, &anthropic) > 100);
        assert_true(anthropic.chunks > 3);
}

static int report(void *data) {
        static const char body[] = "{\"error\":{\"message\":\"no such thing\"}}";
        struct llm_route route = {.provider = llm_provider_find("openai", 6),
                                  .model = (char *)"openai/m",
                                  .name = (char *)"m",
                                  .place = (char *)"https://x",
                                  .key_variable = "OPENAI_API_KEY"};
        struct llm_refusal refusal = {.status = 404,
                                      .content_type = "application/json",
                                      .request_id = "",
                                      .body = {body, sizeof(body) - 1},
                                      .attempts = 1};
        struct sbx_error err = {0};
        int r = llm_refusal_report(&route, &refusal, &err);

        assert_true(err.code == r && err.message[0] != '\0');
        return r == -ENOENT ? 0 : r; /* without memory to read the words, the status alone says it */
}

static void test_errors(void **state) {
        assert_true(alloc_fail_sweep(report, NULL) > 1);
}

static int read_prices(void *data) {
        struct llm_prices prices;
        int r = llm_prices_read(NULL, PRICES_FILE, &prices, NULL);

        if (r == 0)
                llm_prices_free(&prices);
        return r;
}

static void test_prices(void **state) {
        assert_true(alloc_fail_sweep(read_prices, NULL) > 50);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_completions),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_prices),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
