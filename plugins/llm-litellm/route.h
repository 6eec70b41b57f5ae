/* SPDX-License-Identifier: Apache-2.0 */
/* From the name of a model to who is asked for it: which API, at which address, with which key. */
#pragma once

#include "options.h"

enum llm_api { LLM_API_OPENAI, LLM_API_AZURE, LLM_API_ANTHROPIC };

/* What a provider's API wants otherwise than OpenAI's. */
#define LLM_KEYLESS (1u << 0)           /* runs on one's own machines: no key is needed */
#define LLM_NO_STREAM_OPTIONS (1u << 1) /* refuses stream_options, and tells the usage without */
#define LLM_ASK_COST (1u << 2)          /* tells the cost when asked */
#define LLM_VERSIONED (1u << 3)         /* the address may be given without the /v1 that belongs to it */
#define LLM_REASONING_NAMES (1u << 4)   /* some model names mean: max_completion_tokens, and no temperature */

struct llm_provider {
        const char *name;      /* as in "name/model" */
        const char *others[3]; /* more names for it */
        enum llm_api api;
        unsigned traits;
        const char *base; /* NULL: it must be configured */
        const char *base_variables[3], *key_variables[4];
        const char *key_check; /* path below the base of a request that costs nothing and needs the key */
};
/* By one of its names; NULL: unknown. */
const struct llm_provider *llm_provider_find(const char *name, size_t size);
/* Of a bare model name ("gpt-4o", "claude-..."), as LiteLLM guesses it; NULL: nothing is known. */
const struct llm_provider *llm_provider_guess(const char *model);
/* For an address that was configured for a model of nobody in the table. */
extern const struct llm_provider llm_provider_custom;
extern const struct llm_provider *const llm_provider_proxy; /* litellm_proxy */

struct llm_route {
        const struct llm_provider *provider;
        char *model;              /* as it was asked for: "openai/gpt-4o" */
        char *name;               /* as the API knows it: "gpt-4o" */
        char *url;                /* of completions */
        char *check_url;          /* of a request that costs nothing; NULL: there is none */
        char *place;              /* scheme and host, to be shown */
        const char *key;          /* NULL: none is sent. Borrowed from the settings. */
        const char *key_variable; /* what to set, for errors: "OPENAI_API_KEY" */
        bool loopback;
};
/* The key is looked for where the address comes from: a configured address gets the configured key or that of the
 * provider which the model's name says. -EINVAL: no usable name or address, or a key would go over plain HTTP; -EACCES:
 * a key is needed and there is none. */
int llm_route_find(const struct llm_settings *settings, const char *model, struct llm_route *ret_route,
                   struct sbx_error *err);
void llm_route_clear(struct llm_route *route);
#define _cleanup_route_ __attribute__((cleanup(llm_route_clear)))
