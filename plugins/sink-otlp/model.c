/* SPDX-License-Identifier: Apache-2.0 */
/* The span of a model call, and the conventions' names of providers. */
#include <stdio.h>
#include <string.h>

#include "convert.h"

/* Prefixes of LiteLLM's model names, and the well-known values of gen_ai.provider.name. What is not here is passed on
 * as it is: the conventions allow names of one's own. */
static const struct {
        const char *prefix, *provider;
} providers[] = {
        {"azure", "azure.ai.openai"},  {"azure_ai", "azure.ai.inference"},
        {"bedrock", "aws.bedrock"},    {"gemini", "gcp.gemini"},
        {"mistral", "mistral_ai"},     {"vertex_ai", "gcp.vertex_ai"},
        {"watsonx", "ibm.watsonx.ai"}, {"xai", "x_ai"},
};

/* Models that LiteLLM takes without a prefix. */
static const struct {
        const char *begin, *provider;
} families[] = {
        {"claude-", "anthropic"}, {"chatgpt-", "openai"}, {"gpt-", "openai"},        {"o1", "openai"},
        {"o3", "openai"},         {"o4", "openai"},       {"gemini-", "gcp.gemini"},
};

static const char *provider_of_model(const char *model) {
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
                if (strncmp(model, families[i].begin, strlen(families[i].begin)) == 0)
                        return families[i].provider;
        return NULL;
}

void otlp_split_model(const char *name, const char *fallback, char ret_provider[OTLP_PROVIDER_SIZE],
                      const char **ret_model) {
        const char *slash = name != NULL ? strchr(name, '/') : NULL;
        const char *provider = fallback;

        *ret_model = name;
        if (slash != NULL && slash > name && slash - name < OTLP_PROVIDER_SIZE) {
                snprintf(ret_provider, OTLP_PROVIDER_SIZE, "%.*s", (int)(slash - name), name);
                *ret_model = slash + 1;
                for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
                        if (strcmp(providers[i].prefix, ret_provider) == 0)
                                snprintf(ret_provider, OTLP_PROVIDER_SIZE, "%s", providers[i].provider);
                return;
        }
        if (name != NULL && provider_of_model(name) != NULL)
                provider = provider_of_model(name);
        if (provider != NULL && strlen(provider) >= OTLP_PROVIDER_SIZE)
                provider = NULL;
        snprintf(ret_provider, OTLP_PROVIDER_SIZE, "%s", provider != NULL ? provider : "_OTHER");
}

/* "model" is what answered; what was asked for is the run's. */
int otlp_convert_completion(const struct otlp_event *event) {
        const char *answered = json_string_value(json_object_get(event->object, "model"));
        const char *asked = event->run != NULL && event->run->model != NULL ? event->run->model : answered;
        const char *finish = json_string_value(json_object_get(event->object, "finish_reason"));
        const char *end = json_string_value(json_object_get(event->object, "end"));
        const json_t *error = json_object_get(event->object, "error");
        char provider[OTLP_PROVIDER_SIZE], unused[OTLP_PROVIDER_SIZE];
        const char *model;
        struct otlp_span span;
        int r;

        otlp_split_model(asked, event->run != NULL ? event->run->provider : NULL, provider, &model);
        otlp_split_model(answered, NULL, unused, &answered);
        otlp_event_span(event, "chat", model, OTLP_KIND_CLIENT, &span);
        otlp_add_name(&span.attributes, "gen_ai.operation.name", "chat");
        otlp_add_name(&span.attributes, "gen_ai.provider.name", provider);
        otlp_add_name(&span.attributes, "gen_ai.request.model", model);
        otlp_add_name(&span.attributes, "gen_ai.response.model", answered);
        otlp_copy_int(&span.attributes, "gen_ai.usage.input_tokens", event->object, "input_tokens");
        otlp_copy_int(&span.attributes, "gen_ai.usage.output_tokens", event->object, "output_tokens");
        if (finish != NULL)
                otlp_add_one_text(&span.attributes, "gen_ai.response.finish_reasons", finish);
        otlp_copy_double(&span.attributes, "snipara_sandbox.cost_usd", event->object, "estimated_cost_usd");
        otlp_copy_name(&span.attributes, "snipara_sandbox.sub_call_type", event->object, "sub_call_type");
        if (error != NULL && !json_is_null(error))
                otlp_span_fail(&span, end);
        otlp_add_messages(event, &span);
        r = otlp_event_emit(event, &span);
        return r < 0 ? r : otlp_convert_calls_of_turn(event);
}
