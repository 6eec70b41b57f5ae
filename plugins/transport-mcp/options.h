/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's options, and the settings that they make. */
#pragma once

#include "serve_http.h"
#include "server.h"

extern const struct sbx_option mcp_option_table[];

struct mcp_options {
        struct mcp_settings settings;
        size_t message_max;
        struct mcp_http_settings http;
};

/* Reads them from the host; strings live as long as its instance. -ENOMEM. */
int mcp_options_read(const struct sbx_host *host, struct mcp_options *ret_options, struct sbx_error *err);
void mcp_options_free(struct mcp_options *options);
