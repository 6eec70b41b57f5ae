/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods, and what is checked of every message before one is run. */
#include "methods.h"

#include <stdlib.h>

enum era { LEGACY = 1, MODERN = 2, BOTH = 3 };

struct method {
        const char *name;
        enum mcp_kind kind;
        enum era eras;
        bool before_initialize; /* may come before `initialize` */
        mcp_method_fn *run;
};

static const struct method methods[] = {
        {"tools/call", MCP_REQUEST, BOTH, false, mcp_method_tools_call},
        {"tools/list", MCP_REQUEST, BOTH, false, mcp_method_tools_list},
        {"ping", MCP_REQUEST, LEGACY, true, mcp_method_ping},
        {"resources/read", MCP_REQUEST, BOTH, false, mcp_method_resources_read},
        {"resources/list", MCP_REQUEST, BOTH, false, mcp_method_resources_list},
        {"resources/templates/list", MCP_REQUEST, BOTH, false, mcp_method_templates_list},
        {"resources/subscribe", MCP_REQUEST, LEGACY, false, mcp_method_resources_subscribe},
        {"resources/unsubscribe", MCP_REQUEST, LEGACY, false, mcp_method_resources_unsubscribe},
        {"prompts/list", MCP_REQUEST, BOTH, false, mcp_method_prompts_list},
        {"prompts/get", MCP_REQUEST, BOTH, false, mcp_method_prompts_get},
        {"completion/complete", MCP_REQUEST, BOTH, false, mcp_method_complete},
        {"logging/setLevel", MCP_REQUEST, LEGACY, false, mcp_method_set_level},
        {"tasks/get", MCP_REQUEST, MODERN, false, mcp_tasks_get},
        {"tasks/update", MCP_REQUEST, MODERN, false, mcp_tasks_update},
        {"tasks/cancel", MCP_REQUEST, MODERN, false, mcp_tasks_cancel},
        {"subscriptions/listen", MCP_REQUEST, MODERN, false, mcp_subscriptions_listen},
        {"server/discover", MCP_REQUEST, MODERN, false, mcp_method_discover},
        {"initialize", MCP_REQUEST, LEGACY, true, mcp_method_initialize},
        {"notifications/cancelled", MCP_NOTIFICATION, BOTH, true, mcp_method_cancelled},
        {"notifications/initialized", MCP_NOTIFICATION, LEGACY, false, mcp_method_passed_over},
        {"notifications/roots/list_changed", MCP_NOTIFICATION, LEGACY, false, mcp_method_passed_over},
};

static const struct method *find_method(const struct mcp_message *message, enum era era) {
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (methods[i].kind == message->kind && (methods[i].eras & era) != 0 &&
                    strcmp(methods[i].name, message->method) == 0)
                        return &methods[i];
        return NULL;
}

void mcp_invalid_params(const struct mcp_message *message, const struct mcp_target *target, const char *problem) {
        mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, problem, NULL);
}

const char *mcp_string_member(const json_t *object, const char *key, size_t max) {
        const json_t *value = json_object_get(object, key);
        size_t length = json_string_length(value);

        if (length == 0 || length > max || strlen(json_string_value(value)) != length)
                return NULL;
        return json_string_value(value);
}

/* Nothing is said to a notification, whatever is wrong with it. */
static void refuse(const struct mcp_message *message, const struct mcp_target *target, int code, const char *problem) {
        char text[MCP_METHOD_BYTES_MAX + 128];

        if (message->kind != MCP_REQUEST)
                return;
        snprintf(text, sizeof(text), "%s: %s", message->method, problem);
        mcp_reply_error(target, &message->id, code, text, NULL);
}

static bool is_early(struct mcp_connection *connection, const struct method *method, enum era era) {
        return era == LEGACY && !method->before_initialize && mcp_connection_revision(connection) == MCP_REVISION_NONE;
}

/* With what the message says of its client. */
static void run(const struct method *method, struct mcp_connection *connection, const struct mcp_message *message,
                struct mcp_target target) {
        _cleanup_text_ struct mcp_text data = MCP_TEXT(4096);
        struct mcp_fault fault = {0};
        struct mcp_meta meta = {0};

        if (message->kind == MCP_REQUEST && mcp_connection_meta(connection, message, &meta, &fault, &data) < 0) {
                mcp_reply_error_data(&target, &message->id, fault.code, fault.message, NULL, mcp_text_bytes(&data));
                return;
        }
        if (message->kind == MCP_REQUEST)
                target.revision = meta.revision;
        method->run(connection, message, &meta, &target);
}

void mcp_dispatch(struct mcp_connection *connection, const struct mcp_message *message,
                  const struct mcp_target *target) {
        enum era era = mcp_is_modern(target->revision) ? MODERN : LEGACY;
        const struct method *method = find_method(message, era);

        if (method == NULL)
                refuse(message, target, MCP_METHOD_NOT_FOUND, "this server has no such method");
        else if (era == MODERN && target->batch != NULL)
                refuse(message, target, MCP_INVALID_REQUEST, "this revision of the protocol has no batches");
        else if (is_early(connection, method, era))
                refuse(message, target, MCP_INVALID_REQUEST,
                       "not before the connection is initialized; send \"initialize\" first");
        else if (message->params != NULL && !json_is_object(message->params))
                refuse(message, target, MCP_INVALID_PARAMS, "\"params\" must be an object, with parameters by name");
        else
                run(method, connection, message, *target);
}
