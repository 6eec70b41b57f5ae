/* SPDX-License-Identifier: Apache-2.0 */
/* What the options and OpenTelemetry's own environment variables come to. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <snipara-sandbox/plugin.h>

struct otlp_settings {
        char *url;       /* that spans are posted to */
        char *url_shown; /* scheme, host and port: what may stand in a log */
        char **headers;  /* "Name: value", NULL-terminated, with those of every request; secret */
        size_t header_count;
        json_t *resource;    /* attributes, in OTLP's JSON */
        const char *ca_file; /* NULL: the system's */
        bool content;
        size_t content_max, queue_max, batch_max;
        unsigned retries;
        uint64_t timeout_ms, retry_delay_ms;
};

extern const struct sbx_option otlp_options[];

/* -EINVAL: something can't be used (the error never shows a header's value); -ENOMEM. */
int otlp_settings_read(const struct sbx_host *host, struct otlp_settings *ret_settings, struct sbx_error *err);
void otlp_settings_clear(struct otlp_settings *settings); /* headers are overwritten first */
