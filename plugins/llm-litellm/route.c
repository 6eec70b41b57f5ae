/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the provider, the address and the key, so that no key goes where it does not belong. */
#include "route.h"

#include <curl/curl.h>

#include "text.h"
#include "util.h"

#define MODEL_NAME_MAX 256
#define ADDRESS_MAX 2048
#define AZURE_VERSION "2024-10-21"

void llm_route_clear(struct llm_route *route) {
        free(route->model);
        free(route->name);
        free(route->url);
        free(route->check_url);
        free(route->place);
        *route = (struct llm_route){0};
}

/* ---- addresses ---- */

struct address {
        char *scheme, *host, *path;
};

static void free_address(struct address *address) {
        curl_free(address->scheme);
        curl_free(address->host);
        curl_free(address->path);
}

static int parse_address(const char *url, struct address *ret_address) {
        CURLU *parts = curl_url();
        int r = -EINVAL;

        if (parts == NULL)
                return -ENOMEM;
        if (strlen(url) <= ADDRESS_MAX &&
            curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_SCHEME, &ret_address->scheme, 0) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_HOST, &ret_address->host, 0) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_PATH, &ret_address->path, 0) == CURLUE_OK &&
            (strcmp(ret_address->scheme, "https") == 0 || strcmp(ret_address->scheme, "http") == 0) &&
            strpbrk(url, "?#") == NULL)
                r = 0;
        curl_url_cleanup(parts);
        return r;
}

static bool is_loopback(const char *host) {
        size_t size = strlen(host);

        if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
                return true;
        if (size > 10 && strcasecmp(host + size - 10, ".localhost") == 0)
                return true;
        /* curl has made a dotted quad of every way to write an IPv4 address. */
        return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == size;
}

static bool ends_with(const char *text, size_t size, const char *end) {
        size_t length = strlen(end);

        return size >= length && memcmp(text + size - length, end, length) == 0;
}

static char *finish(struct llm_text *text) {
        return text->error == 0 ? steal_pointer(text->data) : NULL;
}

/* An address that already leads to the very function is taken as it is. */
static int make_urls(const struct llm_settings *settings, const char *base, const char *path, struct llm_route *route) {
        _cleanup_text_ struct llm_text url = LLM_TEXT(2 * ADDRESS_MAX), check = LLM_TEXT(2 * ADDRESS_MAX);
        const struct llm_provider *provider = route->provider;
        const char *version;
        size_t size = strlen(base);

        while (size > 0 && base[size - 1] == '/')
                size--;
        switch (provider->api) {
        case LLM_API_AZURE:
                version = llm_environment(settings, "AZURE_API_VERSION");
                llm_text_append(&url, base, size);
                if (ends_with(base, size, "/openai/v1"))
                        llm_text_literal(&url, "/chat/completions");
                else
                        llm_text_printf(&url, "/openai/deployments/%s/chat/completions?api-version=%s", route->name,
                                        version != NULL ? version : AZURE_VERSION);
                break;
        case LLM_API_ANTHROPIC:
                if (ends_with(base, size, "/v1/messages"))
                        size -= strlen("/v1/messages");
                else if (ends_with(base, size, "/v1"))
                        size -= strlen("/v1");
                llm_text_append(&url, base, size);
                llm_text_literal(&url, "/v1/messages");
                break;
        default:
                if (ends_with(base, size, "/chat/completions"))
                        size -= strlen("/chat/completions");
                llm_text_append(&url, base, size);
                if ((provider->traits & LLM_VERSIONED) != 0 && strcmp(path, "/") == 0)
                        llm_text_literal(&url, "/v1");
                llm_text_append(&check, url.data, url.size);
                llm_text_literal(&url, "/chat/completions");
        }
        if (provider->key_check != NULL) {
                if (provider->api == LLM_API_ANTHROPIC)
                        llm_text_append(&check, base, size);
                llm_text_literal(&check, provider->key_check);
                route->check_url = finish(&check);
                if (route->check_url == NULL)
                        return -ENOMEM;
        }
        route->url = finish(&url);
        return route->url != NULL ? 0 : -ENOMEM;
}

/* ---- who ---- */

static const char *first_variable(const struct llm_settings *settings, const char *const *names, size_t count) {
        for (size_t i = 0; i < count && names[i] != NULL; i++) {
                const char *value = llm_environment(settings, names[i]);

                if (value != NULL)
                        return value;
        }
        return NULL;
}
#define FIRST_VARIABLE(settings, names) first_variable((settings), (names), sizeof(names) / sizeof((names)[0]))

static const char *own_base(const struct llm_settings *settings, const struct llm_provider *provider) {
        const char *base = FIRST_VARIABLE(settings, provider->base_variables);

        return base != NULL ? base : provider->base;
}

static bool is_true(const char *text) {
        return text != NULL && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

/* Could be asked directly, as far as the settings go. */
static bool is_usable(const struct llm_settings *settings, const struct llm_provider *provider) {
        return (provider->traits & LLM_KEYLESS) != 0 || settings->api_key != NULL ||
               FIRST_VARIABLE(settings, provider->key_variables) != NULL ||
               FIRST_VARIABLE(settings, provider->base_variables) != NULL;
}

/* A proxy in the environment serves what nobody else here can. */
static bool goes_to_proxy(const struct llm_settings *settings, const struct llm_provider *provider) {
        if (settings->api_base != NULL || FIRST_VARIABLE(settings, llm_provider_proxy->base_variables) == NULL)
                return false;
        return provider == NULL || provider == llm_provider_proxy ||
               is_true(llm_environment(settings, "USE_LITELLM_PROXY")) || !is_usable(settings, provider);
}

static int unknown_provider(const char *model, struct sbx_error *err) {
        return sbx_error_set(
                err, -EINVAL, LLM_ORIGIN,
                "Name it as provider/model (openai/gpt-4o-mini, anthropic/claude-sonnet-4-5, ollama/llama3.2), "
                "or set api_base to the address of an OpenAI-compatible API or a LiteLLM proxy.",
                "no provider is known for the model \"%s\"", model);
}

static int choose_provider(const struct llm_settings *settings, const char *model,
                           const struct llm_provider **ret_provider, const char **ret_name, struct sbx_error *err) {
        const char *slash = strchr(model, '/');
        const struct llm_provider *provider =
                slash != NULL ? llm_provider_find(model, (size_t)(slash - model)) : llm_provider_guess(model);
        const char *name = provider != NULL && slash != NULL ? slash + 1 : model;

        if (goes_to_proxy(settings, provider)) {
                if (provider != llm_provider_proxy)
                        name = model; /* it has names of its own, and those with a provider are among them */
                provider = llm_provider_proxy;
        } else if (provider == NULL) {
                if (settings->api_base == NULL)
                        return unknown_provider(model, err);
                provider = &llm_provider_custom;
        }
        if (name[0] == '\0')
                return unknown_provider(model, err);
        *ret_provider = provider;
        *ret_name = name;
        return 0;
}

/* What ends up in a URL, an error and a trajectory. */
static int check_model_name(const char *model, struct sbx_error *err) {
        size_t size = strlen(model);
        bool fine = size > 0 && size <= MODEL_NAME_MAX;

        for (size_t i = 0; fine && i < size; i++)
                fine = (unsigned char)model[i] > 0x20 && (unsigned char)model[i] < 0x7F &&
                       strchr("\"\\<>?#%{}", model[i]) == NULL;
        if (fine && strstr(model, "..") == NULL)
                return 0;
        return sbx_error_set(err, -EINVAL, LLM_ORIGIN, "Name it as provider/model, as in openai/gpt-4o-mini.",
                             "the name of the model is empty, too long, or has characters that no model's name has");
}

/* ---- key ---- */

static int missing_key(const struct llm_route *route, struct sbx_error *err) {
        char hint[SBX_ERROR_HINT_MAX];

        snprintf(hint, sizeof(hint),
                 "Set %s in the environment or in the project's .env. The MCP tools (snipara-sandbox mcp-serve) need "
                 "no key.",
                 route->key_variable);
        return sbx_error_set(err, -EACCES, LLM_ORIGIN, hint, "%s: no API key for %s", route->model,
                             route->provider == &llm_provider_custom ? route->place : route->provider->name);
}

static int choose_key(const struct llm_settings *settings, const struct address *address, struct llm_route *route,
                      struct sbx_error *err) {
        const char *own = FIRST_VARIABLE(settings, route->provider->key_variables);

        route->key = settings->api_key != NULL ? settings->api_key : own;
        route->key_variable = route->provider->key_variables[0] != NULL ? route->provider->key_variables[0]
                                                                        : "SNIPARA_SANDBOX_LLM_API_KEY";
        if (settings->api_key != NULL)
                route->key_variable = "api_key";
        route->loopback = is_loopback(address->host);
        if (route->key == NULL)
                return route->loopback || (route->provider->traits & LLM_KEYLESS) != 0 ? 0 : missing_key(route, err);
        for (const char *c = route->key; *c != '\0'; c++)
                if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7F)
                        return sbx_error_set(err, -EACCES, LLM_ORIGIN, "Copy the key again, without blanks and quotes.",
                                             "the key in %s has characters that no key has", route->key_variable);
        if (strcmp(address->scheme, "http") == 0 && !route->loopback && !settings->allow_plain_http)
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN,
                                     "Use https://, or allow_plain_http = true if the network between is trusted.",
                                     "%s: the API key would go over plain HTTP to %s", route->model, route->place);
        return 0;
}

/* ---- all of it ---- */

static int resolve(const struct llm_settings *settings, const char *model, struct llm_route *route,
                   struct sbx_error *err) {
        __attribute__((cleanup(free_address))) struct address address = {0};
        const char *name = NULL, *base;
        int r = choose_provider(settings, model, &route->provider, &name, err);

        if (r < 0)
                return r;
        base = settings->api_base != NULL ? settings->api_base : own_base(settings, route->provider);
        if (base == NULL) {
                char hint[160];

                snprintf(hint, sizeof(hint), "Set %s, or api_base.", route->provider->base_variables[0]);
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, hint, "%s: the address of %s is not known", model,
                                     route->provider->name);
        }
        r = parse_address(base, &address);
        if (r == -EINVAL)
                return sbx_error_set(err, r, LLM_ORIGIN, "An address looks like https://host/v1.",
                                     "%s: the address of %s is not a plain http or https URL", model,
                                     route->provider->name);
        route->model = strdup(model);
        route->name = strdup(name);
        if (asprintf(&route->place, "%s://%s", address.scheme, address.host) < 0)
                route->place = NULL;
        if (r < 0 || route->model == NULL || route->name == NULL || route->place == NULL)
                return llm_nomem(err);
        r = choose_key(settings, &address, route, err);
        if (r < 0)
                return r;
        return make_urls(settings, base, address.path, route) < 0 ? llm_nomem(err) : 0;
}

int llm_route_find(const struct llm_settings *settings, const char *model, struct llm_route *ret_route,
                   struct sbx_error *err) {
        _cleanup_route_ struct llm_route route = {0};
        int r = check_model_name(model, err);

        if (r == 0)
                r = resolve(settings, model, &route, err);
        if (r < 0)
                return r;
        *ret_route = route;
        route = (struct llm_route){0};
        return 0;
}
