/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and lifecycle of sink-example: appends every trajectory event as a line to one file.
 *
 *      plugins = ( { name = "events"; plugin = "sink-example"; file = "/var/log/events.jsonl"; max_size = "64m"; } );
 */
#include <stdlib.h>
#include <unistd.h>

#include <snipara-sandbox/sink.h>

#include "file.h"

/* All state of an instance hangs off this; nothing here is global, so two instances work side by side. */
struct example {
        const struct sbx_host *host;
        struct event_file file;
};

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .flags = SBX_OPTION_REQUIRED,
                .name = "file",
                .help = "The file that events are appended to; made with mode 0600 if it is not there.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "max_size",
                .default_value = "64m",
                .help = "Events that would make the file larger than this are refused.",
                .minimum = 1024,
                .maximum = INT64_C(1) << 40,
        },
        {.name = NULL},
};

/* Reads options and allocates. The configuration is valid by now: the host checked it against the table above. */
static int example_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct example *self = calloc(1, sizeof(*self));

        if (self == NULL)
                return sbx_error_set(err, -ENOMEM, "sink-example", NULL, "out of memory");
        self->host = host;
        /* The string lives until close(), as long as this struct. */
        event_file_init(&self->file, host->option_string(host->self, "file"),
                        (uint64_t)host->option_int(host->self, "max_size"));
        *ret_instance = self;
        return 0;
}

static int example_start(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct example *self = instance;
        char line[128];
        int r = event_file_open(&self->file, err);

        (void)call; /* nothing here waits: a call that does, heeds call->deadline_ns and call->cancel_fd */
        if (r < 0)
                return r;
        snprintf(line, sizeof(line), "appending events, %llu bytes are there already",
                 (unsigned long long)self->file.size);
        self->host->log(self->host->self, SBX_LOG_DEBUG, line);
        return 0;
}

static void example_stop(void *instance) {
        struct example *self = instance;
        struct sbx_error err = {0};

        /* stop() can't fail, so what went wrong goes to the log. */
        if (event_file_flush(&self->file, &err) < 0)
                self->host->log(self->host->self, SBX_LOG_ERROR, err.message);
        event_file_close(&self->file);
}

static void example_close(void *instance) {
        struct example *self = instance;

        event_file_close(&self->file);
        free(self);
}

static int example_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct example *self = instance;
        struct sbx_error err = {0};
        int was_there = access(self->file.path, F_OK) == 0;
        int r = event_file_open(&self->file, &err);

        (void)call;
        event_file_close(&self->file);
        if (r == 0 && !was_there) /* a look leaves nothing behind */
                unlink(self->file.path);
        if (r < 0)
                events->report(events->data, SBX_PROBE_FAILED, "event file", err.message, err.hint);
        else
                events->report(events->data, SBX_PROBE_OK, "event file", "can be opened for appending", NULL);
        return r;
}

static int example_event(void *instance, struct sbx_bytes json, struct sbx_error *err) {
        struct example *self = instance;

        return event_file_append(&self->file, json, err);
}

static int example_flush(void *instance, struct sbx_error *err) {
        struct example *self = instance;

        return event_file_flush(&self->file, err);
}

static const struct sbx_sink_ops ops = {
        .struct_size = sizeof(ops),
        .event = example_event,
        .flush = example_flush,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_SINK,
        .name = "sink-example",
        .version = PLUGIN_VERSION,
        .summary = "Appends trajectory events to a file, one JSON object on each line",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = example_open,
        .start = example_start,
        .stop = example_stop,
        .close = example_close,
        .probe = example_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
