/* SPDX-License-Identifier: Apache-2.0 */
/* transport-mcp: the descriptor and the lifecycle of an instance. */
#include <stdlib.h>

#include <snipara-sandbox/transport.h>

#include "options.h"
#include "serve_stdio.h"

struct instance {
        struct mcp_options options;
};

/* Every service that the transport uses must be there: the ABI lets a host be older than the plugin. */
static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, ready) + sizeof(host->ready) || host->list == NULL ||
            host->request_submit == NULL || host->tool_cancel == NULL || host->tool_release == NULL ||
            host->output_new == NULL || host->output_bytes == NULL || host->output_free == NULL ||
            host->watch == NULL || host->unwatch == NULL || host->metrics == NULL || host->ready == NULL)
                return sbx_error_set(err, -ENOTSUP, "transport-mcp",
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host offers no requests to serve");
        return 0;
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct instance *instance;
        int r = check_host(host, err);

        if (r < 0)
                return r;
        instance = calloc(1, sizeof(*instance));
        if (instance == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for an instance");
        r = mcp_options_read(host, &instance->options, err);
        if (r < 0) {
                free(instance);
                return r;
        }
        *ret_instance = instance;
        return 0;
}

static void instance_close(void *data) {
        struct instance *instance = data;

        mcp_options_free(&instance->options);
        free(instance);
}

#ifdef HAVE_HTTP_SERVER
static int serve_http(const struct instance *instance, struct mcp_server *server, int output_fd,
                      const struct sbx_call *call, struct sbx_error *err) {
        return mcp_http_serve(server, &instance->options.http, output_fd, call, err);
}
#else
static int serve_http(const struct instance *instance, struct mcp_server *server, int output_fd,
                      const struct sbx_call *call, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, "transport-mcp",
                             "Build with -Dhttp-server=enabled (libmicrohttpd, GnuTLS), or serve over standard input "
                             "and output.",
                             "this transport-mcp was built without HTTP");
}
#endif

/* The server lives as long as it serves: nothing of an instance runs before or after. */
static int instance_serve(void *data, int input_fd, int output_fd, const struct sbx_call *call, struct sbx_error *err) {
        const struct instance *instance = data;
        struct mcp_server *server = NULL;
        int r;

        if (input_fd >= 0 && output_fd < 0)
                return sbx_error_set(err, -EINVAL, "transport-mcp",
                                     "Run `snipara-sandbox mcp-serve` from an MCP client, which connects both.",
                                     "there is an input to read from, and nowhere to answer");
        r = mcp_server_new(&instance->options.settings, &server, err);
        if (r < 0)
                return r;
        if (input_fd >= 0)
                r = mcp_stdio_serve(server, instance->options.message_max, input_fd, output_fd, call, err);
        else
                r = serve_http(instance, server, output_fd, call, err);
        mcp_server_stop(server);
        mcp_server_free(server);
        return r;
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
        .summary = "Model Context Protocol server over standard input and output, and over HTTP",
        .license = "Apache-2.0",
        .options = mcp_option_table,
        .ops = &ops,
        .open = instance_open,
        .close = instance_close,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
