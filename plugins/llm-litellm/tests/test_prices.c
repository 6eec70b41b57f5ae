/* SPDX-License-Identifier: Apache-2.0 */
/* The installed prices, files of users, and what a model costs by them. */
#include "test.h"

#include <unistd.h>

#include "prices.h"

/* Removed when the test ends. */
static void write_file(char path[static 64], const char *text) {
        int fd;

        snprintf(path, 64, "/tmp/sbx-prices-XXXXXX");
        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void assert_cost(const struct llm_prices *prices, const char *model, const char *provider, const char *answered,
                        double per_million_in, double per_million_out) {
        const struct llm_usage usage = {.known = true, .prompt = 1000000, .completion = 2000000};
        double cost = llm_prices_cost(prices, model, provider, answered, &usage);
        double expected = per_million_in < 0 ? -1 : per_million_in + 2 * per_million_out;

        if (cost < expected - 1e-9 || cost > expected + 1e-9)
                fail_msg("%s costs %f, not %f", model, cost, expected);
}

static void test_installed(void **state) {
        struct llm_prices prices;
        struct sbx_error err = {0};
        const struct llm_usage cached = {.known = true, .prompt = 1000000, .cached = 400000};

        if (llm_prices_read(NULL, PRICES_FILE, &prices, &err) < 0)
                fail_msg("%s", err.message);
        assert_cost(&prices, "openai/gpt-4o-mini", "openai", NULL, .15, .6);
        assert_cost(&prices, "gpt-4o-mini", "openai", NULL, .15, .6);
        assert_cost(&prices, "openai/gpt-4o-mini-2024-07-18", "openai", NULL, .15, .6);
        assert_cost(&prices, "openai/gpt-4o-2024-05-13", "openai", NULL, 5,
                    15); /* the whole name before its beginning */
        assert_cost(&prices, "openai/gpt-4-0613", "openai", NULL, 30, 60);
        assert_cost(&prices, "openai/gpt-4-1106-preview", "openai", NULL, 10, 30);
        assert_cost(&prices, "claude-3-5-sonnet-20241022", "anthropic", NULL, 3, 15);
        assert_cost(&prices, "anthropic/claude-3-5-haiku-latest", "anthropic", NULL, .8, 4);
        assert_cost(&prices, "anthropic/claude-opus-4-20250514", "anthropic", NULL, 15, 75);
        assert_cost(&prices, "anthropic/claude-opus-4-5@20251101", "anthropic", NULL, 5, 25);
        assert_cost(&prices, "openrouter/openai/gpt-4o", "openrouter", NULL, 2.5, 10);
        assert_cost(&prices, "azure/our-deployment", "azure", "gpt-4o-2024-08-06", 2.5, 10);
        assert_cost(&prices, "gemini/gemini-1.5-pro-002", "gemini", NULL, 1.25, 5);
        /* Not versions of what is known: other models. */
        assert_cost(&prices, "openai/gpt-4o-mini-realtime", "openai", NULL, -1, 0);
        assert_cost(&prices, "openai/gpt-4-turbulent", "openai", NULL, -1, 0);
        assert_cost(&prices, "anthropic/claude-opus-4-9", "anthropic", NULL, -1, 0);
        assert_cost(&prices, "ollama/llama3.2", "ollama", NULL, -1, 0);
        assert_cost(&prices, "groq/gpt-4o", "groq", NULL, -1, 0);
        assert_float_equal(llm_prices_cost(&prices, "openai/gpt-4o", "openai", NULL, &cached), .6 * 2.5 + .4 * 1.25,
                           1e-9);
        llm_prices_free(&prices);
}

static void test_own_file_wins(void **state) {
        char path[64];
        struct llm_prices prices;
        struct sbx_error err = {0};

        write_file(path, "{\"models\": {\"openai/gpt-4o\": {\"input_per_million\": 1, \"output_per_million\": 2},"
                         " \"ollama/llama3.2\": {\"input_per_million\": 0, \"output_per_million\": 0}}}");
        if (llm_prices_read(path, PRICES_FILE, &prices, &err) < 0)
                fail_msg("%s", err.message);
        assert_cost(&prices, "openai/gpt-4o", "openai", NULL, 1, 2);
        assert_cost(&prices, "openai/gpt-4o-2024-08-06", "openai", NULL, 1, 2);
        assert_cost(&prices, "openai/gpt-4o-mini", "openai", NULL, .15, .6);
        assert_cost(&prices, "ollama/llama3.2", "ollama", NULL, 0, 0); /* said to be free, not unknown */
        llm_prices_free(&prices);
        unlink(path);
}

static void test_bad_files(void **state) {
        static const char *const texts[] = {
                "",
                "[]",
                "{",
                "{}",
                "{\"models\": []}",
                "{\"models\": {\"x\": 1}}",
                "{\"models\": {\"x\": {}}}",
                "{\"models\": {\"x\": {\"input_per_million\": \"1\", \"output_per_million\": 1}}}",
                "{\"models\": {\"x\": {\"input_per_million\": -1, \"output_per_million\": 1}}}",
                "{\"models\": {\"x\": {\"input_per_million\": 1e30, \"output_per_million\": 1}}}",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                char path[64];
                struct llm_prices prices = {{NULL, NULL}};
                struct sbx_error err = {0};

                write_file(path, texts[i]);
                if (llm_prices_read(path, PRICES_FILE, &prices, &err) != -EINVAL)
                        fail_msg("%s was taken", texts[i]);
                assert_contains(err.message, path);
                assert_null(prices.files[0]);
                unlink(path);
        }
}

static void test_no_files(void **state) {
        struct llm_prices prices = {{NULL, NULL}};
        struct sbx_error err = {0};

        assert_int_equal(llm_prices_read("/nonexistent/prices", PRICES_FILE, &prices, &err), -ENOENT);
        assert_contains(err.message, "/nonexistent/prices");
        assert_int_equal(llm_prices_read("/tmp", PRICES_FILE, &prices, NULL), -EINVAL);
        assert_int_equal(llm_prices_read(NULL, "/nonexistent/prices", &prices, NULL), -ENOENT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_installed),
                cmocka_unit_test(test_own_file_wins),
                cmocka_unit_test(test_bad_files),
                cmocka_unit_test(test_no_files),
        };

        return cmocka_run_group_tests_name("prices", tests, NULL, NULL);
}
