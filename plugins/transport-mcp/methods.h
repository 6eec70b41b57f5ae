/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of MCP, one function each, grouped into files by subject; methods.c has the table and calls them. */
#pragma once

#include "connection_private.h"

/* `meta` is the request's, or the connection's; of a notification, the latter without a token. `message->params` is an
 * object or NULL. A request is answered on `target`, a notification never. */
typedef void mcp_method_fn(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_meta *meta, const struct mcp_target *target);

/* method_initialize.c */
mcp_method_fn mcp_method_initialize, mcp_method_discover, mcp_method_ping, mcp_method_set_level, mcp_method_cancelled,
        mcp_method_passed_over;
/* method_tools.c */
mcp_method_fn mcp_method_tools_list, mcp_method_tools_call;
/* method_resources.c */
mcp_method_fn mcp_method_resources_list, mcp_method_templates_list, mcp_method_resources_read,
        mcp_method_resources_subscribe, mcp_method_resources_unsubscribe;
/* method_prompts.c */
mcp_method_fn mcp_method_prompts_list, mcp_method_prompts_get, mcp_method_complete;

/* ---- for the methods ---- */

void mcp_invalid_params(const struct mcp_message *message, const struct mcp_target *target, const char *problem);
/* A string member of `object` without NULs, of 1 to `max` bytes; NULL: it is none. */
const char *mcp_string_member(const json_t *object, const char *key, size_t max);
#define MCP_URI_BYTES_MAX 8192u
