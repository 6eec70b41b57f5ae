/* SPDX-License-Identifier: Apache-2.0 */
/* prompts/list, prompts/get and completion/complete. */
#include "lists.h"
#include "methods.h"

#define PROMPT_NAME_BYTES_MAX 1024u

void mcp_method_prompts_list(struct mcp_connection *connection, const struct mcp_message *message,
                             const struct mcp_meta *meta, const struct mcp_target *target) {
        mcp_lists_reply(connection, message, MCP_LIST_PROMPTS, target);
}

/* ---- prompts/get --------------------------------------------------------------------------------------- */

static int shape_prompt(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                        struct sbx_bytes *ret_result) {
        return mcp_result_prepare(result, end->revision, storage, ret_result);
}

static const struct mcp_call_how how_prompt = {.shape = shape_prompt, .may_ask = true};

static bool are_strings(json_t *arguments) {
        const char *key;
        json_t *value;

        json_object_foreach (arguments, key, value) {
                if (!json_is_string(value))
                        return false;
        }
        return true;
}

void mcp_method_prompts_get(struct mcp_connection *connection, const struct mcp_message *message,
                            const struct mcp_meta *meta, const struct mcp_target *target) {
        json_t *arguments = json_object_get(message->params, "arguments");
        const struct mcp_wish wish = {
                .kind = SBX_REQUEST_PROMPT,
                .name = mcp_string_member(message->params, "name", PROMPT_NAME_BYTES_MAX),
                .arguments = arguments,
                .params = message->params,
                .meta = meta,
                .how = &how_prompt,
        };

        if (wish.name == NULL)
                mcp_invalid_params(message, target, "params.name must be the name of a prompt, a string");
        else if (arguments != NULL && (!json_is_object(arguments) || !are_strings(arguments)))
                mcp_invalid_params(message, target, "params.arguments must be an object of strings");
        else
                mcp_call_start(connection, message, &wish, target);
}

/* ---- completion/complete ------------------------------------------------------------------------------- */

static const struct mcp_call_how how_completion = {0};

static const char *check_reference(const json_t *reference) {
        const char *type = mcp_string_member(reference, "type", 64);

        if (type != NULL && strcmp(type, "ref/prompt") == 0)
                return mcp_string_member(reference, "name", PROMPT_NAME_BYTES_MAX) != NULL
                               ? NULL
                               : "params.ref.name must be the name of a prompt";
        if (type != NULL && strcmp(type, "ref/resource") == 0)
                return mcp_string_member(reference, "uri", MCP_URI_BYTES_MAX) != NULL
                               ? NULL
                               : "params.ref.uri must be the URI of a resource, or its template";
        return "params.ref.type must be \"ref/prompt\" or \"ref/resource\"";
}

static const char *check_completion(const json_t *params) {
        const json_t *argument = json_object_get(params, "argument"), *context = json_object_get(params, "context");
        const json_t *known = json_object_get(context, "arguments");
        const char *problem = check_reference(json_object_get(params, "ref"));

        if (problem != NULL)
                return problem;
        if (!json_is_object(argument) || !json_is_string(json_object_get(argument, "name")) ||
            !json_is_string(json_object_get(argument, "value")))
                return "params.argument must be an object with the strings \"name\" and \"value\"";
        if (context != NULL && (!json_is_object(context) || (known != NULL && !json_is_object(known))))
                return "params.context must be an object, and its \"arguments\" too";
        return NULL;
}

void mcp_method_complete(struct mcp_connection *connection, const struct mcp_message *message,
                         const struct mcp_meta *meta, const struct mcp_target *target) {
        const char *problem = check_completion(message->params);
        json_t *arguments;

        if (problem != NULL) {
                mcp_invalid_params(message, target, problem);
                return;
        }
        arguments = json_pack("{s:O, s:O, s:O*}", "ref", json_object_get(message->params, "ref"), "argument",
                              json_object_get(message->params, "argument"), "context",
                              json_object_get(message->params, "context"));
        if (arguments == NULL) {
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        } else {
                const struct mcp_wish wish = {.kind = SBX_REQUEST_COMPLETION,
                                              .name = "",
                                              .arguments = arguments,
                                              .params = message->params,
                                              .meta = meta,
                                              .how = &how_completion};

                mcp_call_start(connection, message, &wish, target);
        }
        json_decref(arguments);
}
