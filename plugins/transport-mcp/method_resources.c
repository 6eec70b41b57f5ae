/* SPDX-License-Identifier: Apache-2.0 */
/* resources/list, resources/templates/list, resources/read, and the legacy resources/subscribe and unsubscribe. */
#include "lists.h"
#include "methods.h"

/* ---- lists --------------------------------------------------------------------------------------------- */

void mcp_method_templates_list(struct mcp_connection *connection, const struct mcp_message *message,
                               const struct mcp_meta *meta, const struct mcp_target *target) {
        mcp_lists_reply(connection, message, MCP_LIST_TEMPLATES, target);
}

static const struct mcp_call_how how_list = {
        .shape = mcp_lists_shape_resources, .cacheable = true, .keeps_params = true};

void mcp_method_resources_list(struct mcp_connection *connection, const struct mcp_message *message,
                               const struct mcp_meta *meta, const struct mcp_target *target) {
        const struct mcp_wish wish = {
                .kind = SBX_REQUEST_RESOURCES, .name = "", .params = message->params, .meta = meta, .how = &how_list};

        if (mcp_lists_check_cursor(connection, message, MCP_LIST_RESOURCES, target))
                mcp_call_start(connection, message, &wish, target);
}

/* ---- read ---------------------------------------------------------------------------------------------- */

static int shape_read(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                      struct sbx_bytes *ret_result) {
        return mcp_json_one_line(result, storage, ret_result);
}

static const struct mcp_call_how how_read = {.shape = shape_read, .may_ask = true, .cacheable = true};

void mcp_method_resources_read(struct mcp_connection *connection, const struct mcp_message *message,
                               const struct mcp_meta *meta, const struct mcp_target *target) {
        const struct mcp_wish wish = {
                .kind = SBX_REQUEST_READ,
                .name = mcp_string_member(message->params, "uri", MCP_URI_BYTES_MAX),
                .params = message->params,
                .meta = meta,
                .how = &how_read,
        };

        if (wish.name == NULL)
                mcp_invalid_params(message, target, "params.uri must be the URI of a resource, a string");
        else
                mcp_call_start(connection, message, &wish, target);
}

/* ---- subscribe ----------------------------------------------------------------------------------------- */

void mcp_method_resources_subscribe(struct mcp_connection *connection, const struct mcp_message *message,
                                    const struct mcp_meta *meta, const struct mcp_target *target) {
        const char *uri = mcp_string_member(message->params, "uri", MCP_URI_BYTES_MAX);
        struct sbx_error err = {0};
        int r;

        if (uri == NULL) {
                mcp_invalid_params(message, target, "params.uri must be the URI of a resource, a string");
                return;
        }
        r = mcp_subscriptions_add(connection, uri, &err);
        if (r < 0)
                mcp_reply_error(target, &message->id, r == -EBUSY ? MCP_BUSY : MCP_INTERNAL_ERROR, err.message,
                                err.hint);
        else
                mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}

void mcp_method_resources_unsubscribe(struct mcp_connection *connection, const struct mcp_message *message,
                                      const struct mcp_meta *meta, const struct mcp_target *target) {
        const char *uri = mcp_string_member(message->params, "uri", MCP_URI_BYTES_MAX);

        if (uri == NULL) {
                mcp_invalid_params(message, target, "params.uri must be the URI of a resource, a string");
                return;
        }
        mcp_subscriptions_remove(connection, uri);
        mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}
