/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a conversation in both eras, and what keeps one going: ping, cancelling, the log level. */
#include "identity.h"
#include "methods.h"

#define DISCOVERY_TTL_MS 3600000u

static const char *check_initialize(const json_t *params) {
        const json_t *capabilities = json_object_get(params, "capabilities");
        const json_t *client = json_object_get(params, "clientInfo");

        if (!json_is_string(json_object_get(params, "protocolVersion")))
                return "params.protocolVersion must be a string such as \"2025-11-25\"";
        if (capabilities != NULL && !json_is_object(capabilities))
                return "params.capabilities must be an object";
        if (client != NULL && !json_is_object(client))
                return "params.clientInfo must be an object";
        return NULL;
}

/* False: it was done before. */
static bool negotiate(struct mcp_connection *connection, enum mcp_revision revision, uint32_t capabilities) {
        bool first;

        pthread_mutex_lock(&connection->lock);
        first = connection->revision == MCP_REVISION_NONE;
        if (first) {
                connection->revision = revision;
                connection->capabilities = capabilities;
        }
        pthread_mutex_unlock(&connection->lock);
        return first;
}

static void encode_initialize(enum mcp_revision revision, struct mcp_text *text) {
        mcp_text_append_literal(text, "{\"protocolVersion\":\"");
        mcp_text_append_literal(text, mcp_revision_name(revision));
        mcp_text_append_literal(text, "\",\"capabilities\":");
        mcp_identity_capabilities(revision, text);
        mcp_text_append_literal(text, ",\"serverInfo\":");
        mcp_identity_server(revision, text);
        mcp_text_append_literal(text, ",\"instructions\":");
        mcp_identity_instructions(text);
        mcp_text_append_literal(text, "}");
}

void mcp_method_initialize(struct mcp_connection *connection, const struct mcp_message *message,
                           const struct mcp_meta *meta, const struct mcp_target *target) {
        _cleanup_text_ struct mcp_text result = MCP_TEXT(16384);
        const char *problem = check_initialize(message->params);
        enum mcp_revision revision;

        if (problem != NULL) {
                mcp_invalid_params(message, target, problem);
                return;
        }
        revision = mcp_revision_negotiate(json_string_value(json_object_get(message->params, "protocolVersion")));
        encode_initialize(revision, &result);
        if (result.error != 0) {
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        } else if (!negotiate(connection, revision,
                              mcp_capabilities_decode(json_object_get(message->params, "capabilities"), false))) {
                mcp_reply_error(target, &message->id, MCP_INVALID_REQUEST, "this connection is initialized already",
                                NULL);
        } else {
                mcp_reply_result(target, &message->id, mcp_text_bytes(&result));
                mcp_subscriptions_join(connection);
        }
}

void mcp_method_discover(struct mcp_connection *connection, const struct mcp_message *message,
                         const struct mcp_meta *meta, const struct mcp_target *target) {
        static const struct mcp_caching caching = {DISCOVERY_TTL_MS, true};
        _cleanup_text_ struct mcp_text result = MCP_TEXT(16384);

        mcp_text_append_literal(&result, "{\"supportedVersions\":[\"");
        mcp_text_append_literal(&result, mcp_revision_name(MCP_2026_07_28));
        mcp_text_append_literal(&result, "\"],\"capabilities\":");
        mcp_identity_capabilities(meta->revision, &result);
        mcp_text_append_literal(&result, ",\"_meta\":{" MCP_SERVER_KEY ":");
        mcp_identity_server(meta->revision, &result);
        mcp_text_append_literal(&result, "},\"instructions\":");
        mcp_identity_instructions(&result);
        mcp_text_append_literal(&result, "}");
        if (result.error != 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        else
                mcp_reply_cacheable(target, &message->id, mcp_text_bytes(&result), &caching);
}

void mcp_method_ping(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                     const struct mcp_target *target) {
        mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}

void mcp_method_set_level(struct mcp_connection *connection, const struct mcp_message *message,
                          const struct mcp_meta *meta, const struct mcp_target *target) {
        const char *name = mcp_string_member(message->params, "level", 16);
        int level = name != NULL ? mcp_log_level(name) : -1;

        if (level < 0) {
                mcp_invalid_params(message, target, "params.level must be a level from \"debug\" to \"emergency\"");
                return;
        }
        pthread_mutex_lock(&connection->lock);
        connection->log_level = level;
        pthread_mutex_unlock(&connection->lock);
        mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}

void mcp_method_cancelled(struct mcp_connection *connection, const struct mcp_message *message,
                          const struct mcp_meta *meta, const struct mcp_target *target) {
        _cleanup_id_ struct mcp_id id = {NULL, 0};

        /* A notification has no answer, so one that makes no sense is passed over, as MCP asks. */
        if (mcp_id_decode(json_object_get(message->params, "requestId"), &id) == 0 &&
            !mcp_subscriptions_cancel(connection, &id))
                mcp_call_cancel(connection, &id);
}

void mcp_method_passed_over(struct mcp_connection *connection, const struct mcp_message *message,
                            const struct mcp_meta *meta, const struct mcp_target *target) {
        /* initialized: nothing waits for it. roots/list_changed: roots are asked for whenever they are needed. */
}
