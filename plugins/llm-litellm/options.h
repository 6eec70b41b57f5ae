/* SPDX-License-Identifier: Apache-2.0 */
/* What a user can set, as this plugin needs it. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/provider.h>

extern const struct sbx_option llm_options[];

/* Borrowed from the host: lives until the instance is closed. */
struct llm_settings {
        const struct sbx_host *host;
        const char *api_base, *api_key; /* of this entry, else of the program; NULL: the model's own provider's */
        const char *model;              /* for a request that names none; NULL: none */
        bool has_temperature;
        double temperature; /* for a request that names none */
        bool allow_plain_http;
        unsigned max_retries;
        uint64_t retry_delay_ms, idle_timeout_ms, connect_timeout_ms;
        size_t max_response;
        const char *prices, *proxy, *ca_file; /* NULL: unset */
};
/* -ENOTSUP: the host is too old. -EINVAL: the program's temperature is no number. */
int llm_settings_read(const struct sbx_host *host, struct llm_settings *ret_settings, struct sbx_error *err);

/* A variable of the environment or the project's .env; NULL: unset or empty. */
const char *llm_environment(const struct llm_settings *settings, const char *name);
