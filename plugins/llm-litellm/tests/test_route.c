/* SPDX-License-Identifier: Apache-2.0 */
/* Which API, address and key a model's name leads to. */
#include "test.h"

struct expected {
        const char *model;
        const char *values[6];
        const char *url, *name, *key;
};

static int find_route(const char *const *values, const char *model, struct llm_route *ret_route,
                      struct sbx_error *err) {
        struct llm_settings settings;
        struct sbx_host_state state;
        struct sbx_host host;
        int r;

        fake_host_init(&host, &state, values);
        r = llm_settings_read(&host, &settings, err);
        return r < 0 ? r : llm_route_find(&settings, model, ret_route, err);
}

static void check(const struct expected *expected) {
        _cleanup_route_ struct llm_route route = {0};
        struct sbx_error err = {0};

        if (find_route(expected->values, expected->model, &route, &err) < 0)
                fail_msg("%s: %s", expected->model, err.message);
        assert_string_equal(route.url, expected->url);
        assert_string_equal(route.name, expected->name);
        if (expected->key == NULL)
                assert_null(route.key);
        else
                assert_string_equal(route.key, expected->key);
}

static void test_providers(void **state) {
        static const struct expected cases[] = {
                {"openai/gpt-4o", {"OPENAI_API_KEY=k"}, "https://api.openai.com/v1/chat/completions", "gpt-4o", "k"},
                {"OpenAI/gpt-4o", {"OPENAI_API_KEY=k"}, "https://api.openai.com/v1/chat/completions", "gpt-4o", "k"},
                {"gpt-4o", {"OPENAI_API_KEY=k"}, "https://api.openai.com/v1/chat/completions", "gpt-4o", "k"},
                {"o3-mini", {"OPENAI_API_KEY=k"}, "https://api.openai.com/v1/chat/completions", "o3-mini", "k"},
                {"anthropic/claude-x",
                 {"ANTHROPIC_API_KEY=k"},
                 "https://api.anthropic.com/v1/messages",
                 "claude-x",
                 "k"},
                {"claude-x", {"ANTHROPIC_API_KEY=k"}, "https://api.anthropic.com/v1/messages", "claude-x", "k"},
                {"openrouter/openai/gpt-4o",
                 {"OPENROUTER_API_KEY=k"},
                 "https://openrouter.ai/api/v1/chat/completions",
                 "openai/gpt-4o",
                 "k"},
                {"groq/llama", {"GROQ_API_KEY=k"}, "https://api.groq.com/openai/v1/chat/completions", "llama", "k"},
                {"mistral/m", {"MISTRAL_API_KEY=k"}, "https://api.mistral.ai/v1/chat/completions", "m", "k"},
                {"deepseek/d", {"DEEPSEEK_API_KEY=k"}, "https://api.deepseek.com/v1/chat/completions", "d", "k"},
                {"together/a/b", {"TOGETHER_API_KEY=k"}, "https://api.together.xyz/v1/chat/completions", "a/b", "k"},
                {"together_ai/a/b",
                 {"TOGETHERAI_API_KEY=k"},
                 "https://api.together.xyz/v1/chat/completions",
                 "a/b",
                 "k"},
                {"xai/grok-4", {"XAI_API_KEY=k"}, "https://api.x.ai/v1/chat/completions", "grok-4", "k"},
                {"gemini/g",
                 {"GOOGLE_API_KEY=k"},
                 "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
                 "g",
                 "k"},
                {"ollama/llama3.2", {NULL}, "http://localhost:11434/v1/chat/completions", "llama3.2", NULL},
                {"ollama/llama3.2",
                 {"OLLAMA_API_BASE=http://gpu.lan:11434/"},
                 "http://gpu.lan:11434/v1/chat/completions",
                 "llama3.2",
                 NULL},
                {"hosted_vllm/a/b",
                 {"HOSTED_VLLM_API_BASE=http://127.0.0.1:9/v1"},
                 "http://127.0.0.1:9/v1/chat/completions",
                 "a/b",
                 NULL},
                {"lm_studio/m", {"LM_STUDIO_API_KEY=k"}, "http://localhost:1234/v1/chat/completions", "m", "k"},
                {"azure/mine",
                 {"AZURE_API_KEY=k", "AZURE_API_BASE=https://x.openai.azure.com", "AZURE_API_VERSION=2024-06-01"},
                 "https://x.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-06-01",
                 "mine",
                 "k"},
                {"azure/mine",
                 {"AZURE_API_KEY=k", "AZURE_API_BASE=https://x.openai.azure.com/openai/v1/"},
                 "https://x.openai.azure.com/openai/v1/chat/completions",
                 "mine",
                 "k"},
                {"litellm_proxy/m",
                 {"LITELLM_PROXY_API_BASE=https://p", "LITELLM_PROXY_API_KEY=k"},
                 "https://p/chat/completions",
                 "m",
                 "k"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                check(&cases[i]);
}

static void test_configured_addresses(void **state) {
        static const struct expected cases[] = {
                {"openai/gpt-4o",
                 {"OPENAI_API_KEY=k", "OPENAI_BASE_URL=https://a/v1"},
                 "https://a/v1/chat/completions",
                 "gpt-4o",
                 "k"},
                {"openai/gpt-4o",
                 {"OPENAI_API_KEY=k", "OPENAI_API_BASE=https://a/v1/"},
                 "https://a/v1/chat/completions",
                 "gpt-4o",
                 "k"},
                {"openai/m",
                 {"OPENAI_API_KEY=k", "api_base=https://b/chat/completions"},
                 "https://b/chat/completions",
                 "m",
                 "k"},
                {"openai/m",
                 {"OPENAI_API_KEY=k", "api_base=https://b", "api_key=own"},
                 "https://b/chat/completions",
                 "m",
                 "own"},
                {"anthropic/m", {"ANTHROPIC_API_KEY=k", "api_base=https://b/v1"}, "https://b/v1/messages", "m", "k"},
                {"anthropic/m",
                 {"ANTHROPIC_API_KEY=k", "api_base=https://b/v1/messages"},
                 "https://b/v1/messages",
                 "m",
                 "k"},
                {"who/knows",
                 {"OPENAI_API_KEY=k", "api_base=http://127.0.0.1:1/v1"},
                 "http://127.0.0.1:1/v1/chat/completions",
                 "who/knows",
                 NULL},
                {"m",
                 {"option.api_base=https://c/v1", "api_base=https://b/v1", "option.api_key=own"},
                 "https://c/v1/chat/completions",
                 "m",
                 "own"},
                /* The proxy gets what nobody else here can answer, under its whole name. */
                {"openai/gpt-4o",
                 {"LITELLM_PROXY_API_BASE=https://p", "LITELLM_PROXY_API_KEY=k"},
                 "https://p/chat/completions",
                 "openai/gpt-4o",
                 "k"},
                {"openai/gpt-4o",
                 {"LITELLM_PROXY_API_BASE=https://p", "LITELLM_PROXY_API_KEY=p", "OPENAI_API_KEY=k"},
                 "https://api.openai.com/v1/chat/completions",
                 "gpt-4o",
                 "k"},
                {"openai/gpt-4o",
                 {"LITELLM_PROXY_API_BASE=https://p", "LITELLM_PROXY_API_KEY=p", "OPENAI_API_KEY=k",
                  "USE_LITELLM_PROXY=true"},
                 "https://p/chat/completions",
                 "openai/gpt-4o",
                 "p"},
                {"team-model",
                 {"LITELLM_PROXY_API_BASE=https://p", "LITELLM_PROXY_API_KEY=k"},
                 "https://p/chat/completions",
                 "team-model",
                 "k"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                check(&cases[i]);
}

static void test_loopback(void **state) {
        static const char *const near[] = {"http://localhost:1/v1", "http://127.0.0.1/v1", "http://127.9.9.9:1",
                                           "http://[::1]:8/v1", "http://a.localhost/v1"};
        static const char *const far[] = {"http://localhost.example.org/v1", "http://127.0.0.1.example.org/v1",
                                          "http://10.0.0.1/v1", "http://[::2]/v1", "http://notlocalhost/v1"};

        for (size_t i = 0; i < 5; i++) {
                char base[128];
                const char *values[] = {base, "api_key=secret-key", NULL};
                _cleanup_route_ struct llm_route one = {0}, two = {0};
                struct sbx_error err = {0};

                snprintf(base, sizeof(base), "api_base=%s", near[i]);
                assert_int_equal(find_route(values, "m", &one, NULL), 0);
                snprintf(base, sizeof(base), "api_base=%s", far[i]);
                if (find_route(values, "m", &two, &err) != -EINVAL)
                        fail_msg("%s was taken for this host", far[i]);
                assert_contains(err.message, "plain HTTP");
                assert_null(strstr(err.message, "secret-key"));
        }
}

static void refuse(int code, const char *model, const char *const *values, const char *part) {
        _cleanup_route_ struct llm_route route = {0};
        struct sbx_error err = {0};

        assert_int_equal(find_route(values, model, &route, &err), code);
        assert_null(route.url);
        if (strstr(err.message, part) == NULL && strstr(err.hint, part) == NULL)
                fail_msg("\"%s\" was expected in \"%s\" or \"%s\"", part, err.message, err.hint);
}

static void test_refusals(void **state) {
        static const char *const nothing[] = {NULL};
        static const char *const odd[] = {"api_base=ftp://x", "api_key=k", NULL};
        static const char *const query[] = {"api_base=https://x/?a=b", "api_key=k", NULL};
        static const char *const bad_key[] = {"OPENAI_API_KEY=a b", NULL};
        static const char *const plain[] = {"api_base=http://far.example.org", "api_key=k",
                                            "option.allow_plain_http=true", NULL};
        _cleanup_route_ struct llm_route route = {0};

        refuse(-EACCES, "openai/gpt-4o", nothing, "OPENAI_API_KEY");
        refuse(-EACCES, "claude-x", nothing, "ANTHROPIC_API_KEY");
        refuse(-EINVAL, "azure/x", nothing, "AZURE_API_BASE");
        refuse(-EINVAL, "litellm_proxy/x", nothing, "LITELLM_PROXY_API_BASE");
        refuse(-EINVAL, "who/knows", nothing, "no provider");
        refuse(-EINVAL, "", nothing, "name of the model");
        refuse(-EINVAL, "openai/", nothing, "no provider");
        refuse(-EINVAL, "openai/a b", nothing, "name of the model");
        refuse(-EINVAL, "azure/../../x", nothing, "name of the model");
        refuse(-EINVAL, "openai/x?y", nothing, "name of the model");
        refuse(-EINVAL, "openai/x", odd, "http or https");
        refuse(-EINVAL, "openai/x", query, "http or https");
        refuse(-EACCES, "openai/x", bad_key, "OPENAI_API_KEY");
        assert_int_equal(find_route(plain, "openai/x", &route, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_providers),
                cmocka_unit_test(test_configured_addresses),
                cmocka_unit_test(test_loopback),
                cmocka_unit_test(test_refusals),
        };

        return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
