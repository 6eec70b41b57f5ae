/* SPDX-License-Identifier: Apache-2.0 */
/* llm-litellm: the descriptor and the lifecycle of an instance. */
#include "complete.h"
#include "util.h"

#define PRICES_FILE "/llm-litellm-prices.json"

static void instance_close(void *data) {
        struct llm_instance *instance = data;

        sbx_http_free(instance->http);
        llm_prices_free(&instance->prices);
        free(instance);
}

static int read_prices(struct llm_instance *instance, struct sbx_error *err) {
        const struct sbx_host *host = instance->settings.host;
        const char *directory = host->directory(host->self, "data");
        _cleanup_free_ char *path = NULL;

        if (directory == NULL)
                return sbx_error_set(err, -ENOENT, LLM_ORIGIN, "Install the package again.",
                                     "the installation has no directory for data");
        if (asprintf(&path, "%s" PRICES_FILE, directory) < 0) {
                path = NULL;
                return llm_nomem(err);
        }
        return llm_prices_read(instance->settings.prices, path, &instance->prices, err);
}

static int make_client(struct llm_instance *instance, struct sbx_error *err) {
        const struct llm_settings *settings = &instance->settings;
        char agent[96];
        const struct sbx_http_options options = {.origin = LLM_ORIGIN,
                                                 .user_agent = agent,
                                                 .proxy = settings->proxy,
                                                 .ca_file = settings->ca_file,
                                                 .connect_timeout_ms = settings->connect_timeout_ms,
                                                 .idle_timeout_ms = settings->idle_timeout_ms};

        snprintf(agent, sizeof(agent), "snipara-sandbox/%.64s", settings->host->version);
        return sbx_http_new(&options, &instance->http, err);
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct llm_instance *instance = calloc(1, sizeof(*instance));
        int r;

        if (instance == NULL)
                return llm_nomem(err);
        r = llm_settings_read(host, &instance->settings, err);
        if (r == 0)
                r = read_prices(instance, err);
        if (r == 0)
                r = make_client(instance, err);
        if (r < 0) {
                instance_close(instance);
                return r;
        }
        *ret_instance = instance;
        return 0;
}

static const struct sbx_provider_ops ops = {
        .struct_size = sizeof(ops),
        .complete = llm_complete,
        .available = llm_available,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_PROVIDER,
        .name = "llm-litellm",
        .version = SBX_VERSION,
        .summary = "Models by LiteLLM's names: OpenAI-compatible APIs, LiteLLM proxies, Anthropic",
        .license = "Apache-2.0",
        .options = llm_options,
        .ops = &ops,
        .open = instance_open,
        .close = instance_close,
        .probe = llm_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
