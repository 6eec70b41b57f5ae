/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of MCP that this server has, one function each, and the table that finds them. */
#include "connection_private.h"

#include <stdlib.h>

#define TOOL_LIST_BYTES_MAX (16u << 20)

/* Read by the model at the start of a conversation; what each tool does is in its own description. */
static const char instructions[] =
        "Runs Python in an isolated sandbox. execute_python keeps variables, imports and files "
        "between calls of the same session_id (\"default\" when it is left out), so build up state step by step; "
        "execute starts from nothing each time. Print what you want to see, or end with an expression; assign "
        "`result` to return a value. A call that runs too long is interrupted and its session keeps its variables. "
        "Sessions that are not used for a while end; list_sessions shows which are alive.";

struct method {
        const char *name;
        enum mcp_kind kind;
        bool before_initialize; /* may come before `initialize` */
        void (*run)(struct mcp_connection *connection, const struct mcp_message *message,
                    const struct mcp_target *target);
};

static void invalid_params(const struct mcp_message *message, const struct mcp_target *target, const char *problem) {
        mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, problem, NULL);
}

/* ---- initialize, ping ---------------------------------------------------------------------------------- */

static const char *check_initialize(const json_t *params) {
        const json_t *version = json_object_get(params, "protocolVersion");
        const json_t *capabilities = json_object_get(params, "capabilities");
        const json_t *client = json_object_get(params, "clientInfo");

        if (!json_is_string(version))
                return "params.protocolVersion must be a string such as \"2025-11-25\"";
        if (capabilities != NULL && !json_is_object(capabilities))
                return "params.capabilities must be an object";
        if (client != NULL && !json_is_object(client))
                return "params.clientInfo must be an object";
        return NULL;
}

/* False: it was done before. */
static bool negotiate(struct mcp_connection *connection, enum mcp_revision revision) {
        bool first;

        pthread_mutex_lock(&connection->lock);
        first = connection->revision == MCP_REVISION_NONE;
        if (first)
                connection->revision = revision;
        pthread_mutex_unlock(&connection->lock);
        return first;
}

static void run_initialize(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_target *target) {
        _cleanup_text_ struct mcp_text result = MCP_TEXT(16384);
        const char *problem = check_initialize(message->params);
        const char *version = connection->settings->host->version;
        enum mcp_revision revision;

        if (problem != NULL) {
                invalid_params(message, target, problem);
                return;
        }
        revision = mcp_revision_negotiate(json_string_value(json_object_get(message->params, "protocolVersion")));
        mcp_text_append_literal(&result, "{\"protocolVersion\":\"");
        mcp_text_append_literal(&result, mcp_revision_name(revision));
        mcp_text_append_literal(&result,
                                "\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"SniparaSandbox\","
                                "\"title\":\"Snipara Sandbox\",\"version\":");
        mcp_text_append_string(&result, version, strlen(version));
        mcp_text_append_literal(&result, "},\"instructions\":");
        mcp_text_append_string(&result, instructions, strlen(instructions));
        mcp_text_append_literal(&result, "}");
        if (result.error != 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        else if (!negotiate(connection, revision))
                mcp_reply_error(target, &message->id, MCP_INVALID_REQUEST, "this connection is initialized already",
                                NULL);
        else
                mcp_reply_result(target, &message->id, mcp_text_bytes(&result));
}

static void run_ping(struct mcp_connection *connection, const struct mcp_message *message,
                     const struct mcp_target *target) {
        mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}

/* ---- tools --------------------------------------------------------------------------------------------- */

static int list_tools(const struct sbx_host *host, struct mcp_text *result, struct sbx_error *err) {
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(TOOL_LIST_BYTES_MAX);
        struct sbx_output *output = NULL;
        struct sbx_bytes tools;
        int r = host->output_new(host->self, TOOL_LIST_BYTES_MAX, &output);

        if (r < 0)
                return sbx_error_set(err, r, "transport-mcp", NULL, "no memory for the list of tools");
        r = host->tool_list(host->self, output, err);
        if (r == 0)
                r = mcp_json_one_line(host->output_bytes(host->self, output), &storage, &tools);
        if (r == 0) {
                mcp_text_append_literal(result, "{\"tools\":");
                mcp_text_append(result, tools.data, tools.size);
                r = mcp_text_append_literal(result, "}");
        }
        host->output_free(host->self, output);
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "the tools can't be listed") : 0;
}

static void run_tools_list(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_target *target) {
        _cleanup_text_ struct mcp_text result = MCP_TEXT(TOOL_LIST_BYTES_MAX + 64);
        struct sbx_error err = {0};

        /* All tools fit one page, so this server never gave a cursor out. */
        if (json_object_get(message->params, "cursor") != NULL)
                invalid_params(message, target, "params.cursor is none that this server gave");
        else if (list_tools(connection->settings->host, &result, &err) < 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, err.message, err.hint);
        else
                mcp_reply_result(target, &message->id, mcp_text_bytes(&result));
}

static void run_tools_call(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_target *target) {
        mcp_call_start(connection, message, message->params, target);
}

/* ---- notifications ------------------------------------------------------------------------------------- */

static void run_initialized(struct mcp_connection *connection, const struct mcp_message *message,
                            const struct mcp_target *target) {
        /* Nothing waits for it: what the server may send is the answer to something that the client asked. */
}

static void run_cancelled(struct mcp_connection *connection, const struct mcp_message *message,
                          const struct mcp_target *target) {
        _cleanup_id_ struct mcp_id id = {NULL, 0};

        /* A notification has no answer, so one that makes no sense is passed over, as MCP asks. */
        if (mcp_id_decode(json_object_get(message->params, "requestId"), &id) == 0)
                mcp_call_cancel(connection, &id);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static const struct method methods[] = {
        {"tools/call", MCP_REQUEST, false, run_tools_call},
        {"ping", MCP_REQUEST, true, run_ping},
        {"tools/list", MCP_REQUEST, false, run_tools_list},
        {"initialize", MCP_REQUEST, true, run_initialize},
        {"notifications/cancelled", MCP_NOTIFICATION, false, run_cancelled},
        {"notifications/initialized", MCP_NOTIFICATION, false, run_initialized},
};

static const struct method *find_method(const struct mcp_message *message) {
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (methods[i].kind == message->kind && strcmp(methods[i].name, message->method) == 0)
                        return &methods[i];
        return NULL;
}

static void refuse_request(const struct mcp_message *message, const struct mcp_target *target, int code,
                           const char *problem) {
        char text[MCP_METHOD_BYTES_MAX + 128];

        snprintf(text, sizeof(text), "%s: %s", message->method, problem);
        mcp_reply_error(target, &message->id, code, text, NULL);
}

void mcp_dispatch(struct mcp_connection *connection, const struct mcp_message *message,
                  const struct mcp_target *target) {
        const struct method *method = find_method(message);
        bool request = message->kind == MCP_REQUEST;

        if (method == NULL) {
                if (request)
                        refuse_request(message, target, MCP_METHOD_NOT_FOUND, "this server has no such method");
        } else if (!method->before_initialize && mcp_connection_revision(connection) == MCP_REVISION_NONE) {
                if (request)
                        refuse_request(message, target, MCP_INVALID_REQUEST,
                                       "not before the connection is initialized; send \"initialize\" first");
        } else if (message->params != NULL && !json_is_object(message->params)) {
                if (request)
                        refuse_request(message, target, MCP_INVALID_PARAMS,
                                       "\"params\" must be an object, with parameters by name");
        } else {
                method->run(connection, message, target);
        }
}
