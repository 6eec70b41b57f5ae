/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options. What OpenTelemetry has a variable for has no default here, so that the variable counts. */
#include "settings.h"

const struct sbx_option otlp_options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRING,
                .name = "endpoint",
                .help = "The collector; /v1/traces is added. Unset: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, "
                        "OTEL_EXPORTER_OTLP_ENDPOINT, else http://127.0.0.1:4318.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRINGS,
                .flags = SBX_OPTION_SECRET,
                .name = "headers",
                .help = "\"Name: value\" for every request. Unset: OTEL_EXPORTER_OTLP_TRACES_HEADERS, "
                        "OTEL_EXPORTER_OTLP_HEADERS.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRING,
                .name = "service_name",
                .help = "The resource's service.name. Unset: OTEL_SERVICE_NAME, else snipara-sandbox.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRINGS,
                .name = "resource_attributes",
                .help = "\"key=value\" that every span's resource has, besides OTEL_RESOURCE_ATTRIBUTES.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "ca_file",
                .help = "Certificates (PEM) that the collector's is checked against. Unset: "
                        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE, OTEL_EXPORTER_OTLP_CERTIFICATE, else the system's.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_ENUM,
                .name = "content",
                .default_value = "off",
                .choices = "off|on",
                .help = "Whether prompts, code, answers and results are exported too.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "content_max",
                .default_value = "32k",
                .help = "A longer text of content is cut; a span holds four times as much at most.",
                .minimum = 256,
                .maximum = 262144,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_DURATION,
                .name = "timeout",
                .help = "Longest wait for the collector's answer to one request. Unset: "
                        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT (milliseconds), else 10s.",
                .minimum = 10,
                .maximum = 300000,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "retries",
                .default_value = "4",
                .help = "How often a batch is sent again when the collector is not there, or busy.",
                .minimum = 0,
                .maximum = 20,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_DURATION,
                .name = "retry_delay",
                .default_value = "1s",
                .help = "Wait before the first retry, doubled for each one after, unless the collector says when.",
                .minimum = 1,
                .maximum = 60000,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "queue_size",
                .default_value = "2048",
                .unit = "spans",
                .help = "Spans that wait to be sent; beyond it the oldest are dropped.",
                .minimum = 16,
                .maximum = 65536,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "batch_size",
                .default_value = "512",
                .unit = "spans",
                .help = "Spans in one request, at most; so many are sent without waiting for a flush.",
                .minimum = 1,
                .maximum = 4096,
        },
        {.struct_size = sizeof(struct sbx_option)},
};
