/* SPDX-License-Identifier: Apache-2.0 */
/* The providers: names and variables as LiteLLM has them, addresses as the providers document them. */
#include <strings.h>

#include "route.h"

static const struct llm_provider providers[] = {
        {.name = "openai",
         .others = {"text-completion-openai"},
         .traits = LLM_REASONING_NAMES,
         .base = "https://api.openai.com/v1",
         .base_variables = {"OPENAI_BASE_URL", "OPENAI_API_BASE"},
         .key_variables = {"OPENAI_API_KEY"},
         .key_check = "/models"},
        {.name = "anthropic",
         .api = LLM_API_ANTHROPIC,
         .base = "https://api.anthropic.com",
         .base_variables = {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"},
         .key_variables = {"ANTHROPIC_API_KEY"},
         .key_check = "/v1/models"},
        {.name = "azure",
         .api = LLM_API_AZURE,
         .traits = LLM_REASONING_NAMES,
         .base_variables = {"AZURE_API_BASE"},
         .key_variables = {"AZURE_API_KEY"}},
        {.name = "openrouter",
         .traits = LLM_ASK_COST,
         .base = "https://openrouter.ai/api/v1",
         .base_variables = {"OPENROUTER_API_BASE"},
         .key_variables = {"OPENROUTER_API_KEY"},
         .key_check = "/key"},
        {.name = "groq",
         .base = "https://api.groq.com/openai/v1",
         .base_variables = {"GROQ_API_BASE"},
         .key_variables = {"GROQ_API_KEY"},
         .key_check = "/models"},
        {.name = "mistral",
         .traits = LLM_NO_STREAM_OPTIONS,
         .base = "https://api.mistral.ai/v1",
         .base_variables = {"MISTRAL_API_BASE"},
         .key_variables = {"MISTRAL_API_KEY"},
         .key_check = "/models"},
        {.name = "deepseek",
         .base = "https://api.deepseek.com/v1",
         .base_variables = {"DEEPSEEK_API_BASE"},
         .key_variables = {"DEEPSEEK_API_KEY"},
         .key_check = "/models"},
        {.name = "together_ai",
         .others = {"together"},
         .base = "https://api.together.xyz/v1",
         .base_variables = {"TOGETHER_AI_API_BASE"},
         .key_variables = {"TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"},
         .key_check = "/models"},
        {.name = "xai",
         .base = "https://api.x.ai/v1",
         .base_variables = {"XAI_API_BASE"},
         .key_variables = {"XAI_API_KEY"},
         .key_check = "/models"},
        {.name = "gemini",
         .base = "https://generativelanguage.googleapis.com/v1beta/openai",
         .base_variables = {"GEMINI_API_BASE"},
         .key_variables = {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
         .key_check = "/models"},
        {.name = "ollama",
         .others = {"ollama_chat"},
         .traits = LLM_KEYLESS | LLM_VERSIONED,
         .base = "http://localhost:11434",
         .base_variables = {"OLLAMA_API_BASE"},
         .key_variables = {"OLLAMA_API_KEY"},
         .key_check = "/models"},
        {.name = "hosted_vllm",
         .others = {"vllm"},
         .traits = LLM_KEYLESS | LLM_VERSIONED,
         .base = "http://localhost:8000",
         .base_variables = {"HOSTED_VLLM_API_BASE", "VLLM_API_BASE"},
         .key_variables = {"HOSTED_VLLM_API_KEY", "VLLM_API_KEY"},
         .key_check = "/models"},
        {.name = "lm_studio",
         .others = {"lm-studio"},
         .traits = LLM_KEYLESS | LLM_VERSIONED,
         .base = "http://localhost:1234",
         .base_variables = {"LM_STUDIO_API_BASE"},
         .key_variables = {"LM_STUDIO_API_KEY"},
         .key_check = "/models"},
        {.name = "litellm_proxy",
         .base_variables = {"LITELLM_PROXY_API_BASE"},
         .key_variables = {"LITELLM_PROXY_API_KEY"},
         .key_check = "/models"},
};
#define PROVIDER_COUNT (sizeof(providers) / sizeof(providers[0]))

const struct llm_provider *const llm_provider_proxy = &providers[PROVIDER_COUNT - 1];

const struct llm_provider llm_provider_custom = {.name = "api_base", .key_check = "/models"};

static bool is_name(const char *known, const char *name, size_t size) {
        return known != NULL && strlen(known) == size && strncasecmp(known, name, size) == 0;
}

const struct llm_provider *llm_provider_find(const char *name, size_t size) {
        for (size_t i = 0; i < PROVIDER_COUNT; i++) {
                if (is_name(providers[i].name, name, size))
                        return &providers[i];
                for (size_t j = 0; j < sizeof(providers[i].others) / sizeof(providers[i].others[0]); j++)
                        if (is_name(providers[i].others[j], name, size))
                                return &providers[i];
        }
        return NULL;
}

const struct llm_provider *llm_provider_guess(const char *model) {
        static const struct {
                const char *prefix, *provider;
        } guesses[] = {{"gpt-", "openai"},       {"chatgpt-", "openai"}, {"o1", "openai"},
                       {"o3", "openai"},         {"o4-", "openai"},      {"ft:gpt-", "openai"},
                       {"claude-", "anthropic"}, {"gemini-", "gemini"},  {"deepseek-", "deepseek"},
                       {"mistral-", "mistral"},  {"grok-", "xai"}};

        for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++)
                if (strncmp(model, guesses[i].prefix, strlen(guesses[i].prefix)) == 0)
                        return llm_provider_find(guesses[i].provider, strlen(guesses[i].provider));
        return NULL;
}
