/* SPDX-License-Identifier: Apache-2.0 */
/* sink-otlp: the descriptor and the lifecycle of an instance. */
#include <snipara-sandbox/sink.h>

#include "convert.h"
#include "exporter.h"
#include "util.h"

struct instance {
        const struct sbx_host *host;
        struct otlp_settings settings;
        struct otlp_converter converter;
        struct otlp_exporter *exporter; /* NULL: not started */
};

static void emit_span(void *data, char *json) {
        struct instance *instance = data;

        otlp_exporter_add(instance->exporter, json);
}

/* The ABI lets a host be older than the plugin. */
static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, environment) + sizeof(host->environment) ||
            host->environment == NULL)
                return sbx_error_set(err, -ENOTSUP, OTLP_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host does not tell variables of the environment");
        return 0;
}

static void instance_close(void *data) {
        struct instance *instance = data;

        otlp_exporter_stop(instance->exporter);
        otlp_memory_free(instance->converter.memory);
        otlp_settings_clear(&instance->settings);
        free(instance);
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct instance *instance;
        int r = check_host(host, err);

        if (r < 0)
                return r;
        instance = calloc(1, sizeof(*instance));
        if (instance == NULL)
                return sbx_error_set(err, -ENOMEM, OTLP_ORIGIN, NULL, "no memory for an instance");
        instance->host = host;
        r = otlp_settings_read(host, &instance->settings, err);
        if (r < 0) {
                instance_close(instance);
                return r;
        }
        instance->converter = (struct otlp_converter){.content = instance->settings.content,
                                                      .content_max = instance->settings.content_max,
                                                      .memory = otlp_memory_new(),
                                                      .data = instance,
                                                      .emit = emit_span};
        if (instance->converter.memory == NULL) {
                instance_close(instance);
                return sbx_error_set(err, -ENOMEM, OTLP_ORIGIN, NULL, "no memory for the runs that go on");
        }
        *ret_instance = instance;
        return 0;
}

/* A collector that is not there yet is no reason not to start: it may come. */
static int instance_start(void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct instance *instance = data;

        return otlp_exporter_start(instance->host, &instance->settings, &instance->exporter, err);
}

static void instance_stop(void *data) {
        struct instance *instance = data;

        otlp_exporter_stop(instance->exporter);
        instance->exporter = NULL;
}

static int instance_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct instance *instance = data;
        struct sbx_error err = {0};
        char detail[SBX_ERROR_MESSAGE_MAX];
        int r = otlp_exporter_try(instance->host, &instance->settings, call, &err);

        if (r < 0) {
                events->report(events->data, SBX_PROBE_FAILED, "collector", err.message,
                               err.hint[0] != '\0' ? err.hint
                                                   : "Start the collector, or set `endpoint` to where it is.");
                return r;
        }
        snprintf(detail, sizeof(detail), "%s takes spans", instance->settings.url_shown);
        events->report(events->data, SBX_PROBE_OK, "collector", detail, NULL);
        return 0;
}

static int instance_event(void *data, struct sbx_bytes json, struct sbx_error *err) {
        struct instance *instance = data;

        return otlp_convert(&instance->converter, json, err);
}

static int instance_flush(void *data, struct sbx_error *err) {
        struct instance *instance = data;

        return otlp_exporter_flush(instance->exporter, err);
}

static const struct sbx_sink_ops ops = {
        .struct_size = sizeof(ops),
        .event = instance_event,
        .flush = instance_flush,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_SINK,
        .name = "sink-otlp",
        .version = SBX_VERSION,
        .summary = "Exports runs as OpenTelemetry spans, over OTLP/HTTP with JSON",
        .license = "Apache-2.0",
        .options = otlp_options,
        .ops = &ops,
        .open = instance_open,
        .start = instance_start,
        .stop = instance_stop,
        .close = instance_close,
        .probe = instance_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
