/* SPDX-License-Identifier: Apache-2.0 */
/* transport-mcp: the descriptor, the options and the lifecycle of an instance. */
#include <stdlib.h>

#include <snipara-sandbox/transport.h>

#include "serve_stdio.h"

struct instance {
        struct mcp_settings settings;
        size_t message_max;
};

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "max_message",
                .default_value = "32m",
                .help = "Longest message taken from a client; a longer one is skipped and answered with an error.",
                .minimum = 65536,
                .maximum = 268435456,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "max_calls",
                .default_value = "64",
                .unit = "calls",
                .help = "Most tool calls under way at once for one client; one more is answered with an error.",
                .minimum = 1,
                .maximum = 1024,
        },
        {.struct_size = sizeof(struct sbx_option)},
};

/* Every service that the transport uses must be there: the ABI lets a host be older than the plugin. */
static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, output_free) + sizeof(host->output_free) ||
            host->tool_list == NULL || host->tool_submit == NULL || host->tool_cancel == NULL ||
            host->tool_release == NULL || host->output_new == NULL || host->output_bytes == NULL ||
            host->output_free == NULL)
                return sbx_error_set(err, -ENOTSUP, "transport-mcp",
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host offers no tools to serve");
        return 0;
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct instance *instance;
        int r = check_host(host, err);

        if (r < 0)
                return r;
        instance = malloc(sizeof(*instance));
        if (instance == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for an instance");
        *instance = (struct instance){
                .settings = {.host = host,
                             .principal = "",
                             .calls_max = (size_t)host->option_int(host->self, "max_calls")},
                .message_max = (size_t)host->option_int(host->self, "max_message"),
        };
        *ret_instance = instance;
        return 0;
}

static void instance_close(void *instance) {
        free(instance);
}

static int instance_serve(void *data, int input_fd, int output_fd, const struct sbx_call *call, struct sbx_error *err) {
        const struct instance *instance = data;

        if (input_fd < 0 || output_fd < 0)
                return sbx_error_set(err, -EINVAL, "transport-mcp",
                                     "Run `snipara-sandbox mcp-serve` from an MCP client, which connects both.",
                                     "the transport speaks over standard input and output, and was given none");
        return mcp_stdio_serve(&instance->settings, instance->message_max, input_fd, output_fd, call, err);
}

static const struct sbx_transport_ops ops = {
        .struct_size = sizeof(ops),
        .serve = instance_serve,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_TRANSPORT,
        .name = "transport-mcp",
        .version = SBX_VERSION,
        .summary = "Model Context Protocol server over standard input and output",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = instance_open,
        .close = instance_close,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
