/* SPDX-License-Identifier: Apache-2.0 */
/* tools/list and tools/call. */
#include "lists.h"
#include "methods.h"

void mcp_method_tools_list(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_meta *meta, const struct mcp_target *target) {
        mcp_lists_reply(connection, message, MCP_LIST_TOOLS, target);
}

static int shape_result(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                        struct sbx_bytes *ret_result) {
        return mcp_result_prepare(result, end->revision, storage, ret_result);
}

static const struct mcp_call_how how_tool = {.shape = shape_result, .may_ask = true, .may_task = true};

void mcp_method_tools_call(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_meta *meta, const struct mcp_target *target) {
        const json_t *arguments = json_object_get(message->params, "arguments");
        const struct mcp_wish wish = {
                .kind = SBX_REQUEST_TOOL,
                .name = mcp_string_member(message->params, "name", MCP_METHOD_BYTES_MAX),
                .arguments = arguments,
                .params = message->params,
                .meta = meta,
                .how = &how_tool,
        };

        if (wish.name == NULL)
                mcp_invalid_params(message, target, "params.name must be the name of a tool, a string");
        else if (arguments != NULL && !json_is_object(arguments))
                mcp_invalid_params(message, target, "params.arguments must be an object");
        else
                mcp_call_start(connection, message, &wish, target);
}
