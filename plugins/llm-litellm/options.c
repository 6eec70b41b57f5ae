/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and settings out of it and out of the program's own. */
#include "options.h"

#include <locale.h>

#include "util.h"

#define OPTION(option_type, option_name, text, ...)                                                                    \
        {                                                                                                              \
                .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##option_type, .name = option_name,       \
                .help = text, __VA_ARGS__                                                                              \
        }

const struct sbx_option llm_options[] = {
        OPTION(STRING, "api_base",
               "Address that is asked instead of the program's api_base or the model's own provider."),
        OPTION(STRING, "api_key", "API key for this entry; better set in the environment than in a file.",
               .flags = SBX_OPTION_SECRET),
        OPTION(BOOL, "allow_plain_http", "Send a key over http:// to a host that is not this one.",
               .default_value = "false"),
        OPTION(INT, "max_retries",
               "Times that a request is sent again after a rate limit, a fault of the server, or no answer.",
               .default_value = "2", .unit = "times", .minimum = 0, .maximum = 20),
        OPTION(DURATION, "retry_delay",
               "Wait before the first of them, doubled each time, unless the server names a time.",
               .default_value = "500ms", .minimum = 1, .maximum = 60000),
        OPTION(DURATION, "idle_timeout", "A request ends when no byte of the answer has come for so long.",
               .default_value = "5m", .minimum = 1, .maximum = 3600000),
        OPTION(DURATION, "connect_timeout", "Longest wait for a connection.", .default_value = "10s", .minimum = 1,
               .maximum = 600000),
        OPTION(SIZE, "max_response", "Longest answer that is taken.", .default_value = "16m", .minimum = 65536,
               .maximum = 268435456),
        OPTION(PATH, "prices", "File with prices of models, which win over those that are installed."),
        OPTION(STRING, "proxy", "HTTP proxy; \"none\": not even that of the environment (HTTPS_PROXY).",
               .flags = SBX_OPTION_SECRET), /* a password may be in it */
        OPTION(PATH, "ca_file", "Certificates to trust, instead of the system's."),
        {.struct_size = sizeof(struct sbx_option)},
};

static const char *text_or_null(const char *text) {
        return text != NULL && text[0] != '\0' ? text : NULL;
}

static const char *own_or_program(const struct sbx_host *host, const char *name) {
        const char *own = text_or_null(host->option_string(host->self, name));

        return own != NULL ? own : text_or_null(host->setting(host->self, name));
}

/* The program writes numbers with a point, and the process may have another locale. */
static int read_temperature(const char *text, struct llm_settings *settings, struct sbx_error *err) {
        locale_t plain;
        char *end;

        if (text == NULL)
                return 0;
        plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
        if (plain == (locale_t)0)
                return llm_nomem(err);
        settings->temperature = strtod_l(text, &end, plain);
        freelocale(plain);
        if (end == text || *end != '\0' || !(settings->temperature >= 0 && settings->temperature <= 2))
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, "Set temperature to a number from 0 to 2.",
                                     "the temperature is not a number from 0 to 2");
        settings->has_temperature = true;
        return 0;
}

int llm_settings_read(const struct sbx_host *host, struct llm_settings *ret_settings, struct sbx_error *err) {
        struct llm_settings settings = {.host = host};
        int r;

        if (host->struct_size < offsetof(struct sbx_host, environment) + sizeof(host->environment) ||
            host->setting == NULL || host->environment == NULL)
                return sbx_error_set(err, -ENOTSUP, LLM_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host does not hand out settings");
        settings.api_base = own_or_program(host, "api_base");
        settings.api_key = own_or_program(host, "api_key");
        settings.model = text_or_null(host->setting(host->self, "model"));
        settings.allow_plain_http = host->option_bool(host->self, "allow_plain_http") != 0;
        settings.max_retries = (unsigned)host->option_int(host->self, "max_retries");
        settings.retry_delay_ms = (uint64_t)host->option_int(host->self, "retry_delay");
        settings.idle_timeout_ms = (uint64_t)host->option_int(host->self, "idle_timeout");
        settings.connect_timeout_ms = (uint64_t)host->option_int(host->self, "connect_timeout");
        settings.max_response = (size_t)host->option_int(host->self, "max_response");
        settings.prices = text_or_null(host->option_string(host->self, "prices"));
        settings.proxy = text_or_null(host->option_string(host->self, "proxy"));
        settings.ca_file = text_or_null(host->option_string(host->self, "ca_file"));
        if (settings.proxy != NULL && strcmp(settings.proxy, "none") == 0)
                settings.proxy = "";
        r = read_temperature(text_or_null(host->setting(host->self, "temperature")), &settings, err);
        if (r < 0)
                return r;
        *ret_settings = settings;
        return 0;
}

const char *llm_environment(const struct llm_settings *settings, const char *name) {
        return text_or_null(settings->host->environment(settings->host->self, name));
}
