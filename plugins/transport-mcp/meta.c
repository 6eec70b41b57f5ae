/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says of its client. */
#include "meta.h"

#define VERSION_BYTES_MAX 64u /* it goes back to the client when it is none of ours */

static const json_t *member_meta(const struct mcp_message *message) {
        return json_object_get(message->params, "_meta");
}

bool mcp_meta_is_modern(const struct mcp_message *message) {
        static const char *const methods[] = {"server/discover", "subscriptions/listen"};

        if (json_object_get(member_meta(message), MCP_META_VERSION) != NULL)
                return true;
        for (size_t i = 0; message->kind == MCP_REQUEST && i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(message->method, methods[i]) == 0)
                        return true;
        return false;
}

static int refuse(struct mcp_fault *fault, int code, const char *message) {
        fault->code = code;
        snprintf(fault->message, sizeof(fault->message), "%s", message);
        return -EINVAL;
}

static int refuse_version(const json_t *version, struct mcp_fault *fault, struct mcp_text *data) {
        mcp_text_append_literal(data, "{\"supported\":[\"");
        mcp_text_append_literal(data, mcp_revision_name(MCP_2026_07_28));
        mcp_text_append_literal(data, "\"],\"requested\":");
        mcp_text_append_json(data, version);
        mcp_text_append_literal(data, "}");
        return refuse(fault, MCP_UNSUPPORTED_VERSION,
                      "this server does not speak that revision of the protocol without initialize");
}

static const char *check_meta(const json_t *meta) {
        const json_t *version = json_object_get(meta, MCP_META_VERSION);
        const json_t *client = json_object_get(meta, MCP_META_CLIENT);
        const json_t *level = json_object_get(meta, MCP_META_LOG_LEVEL);

        if (!json_is_object(meta))
                return "params._meta must be an object: every request of this revision has one";
        if (!json_is_string(version) || json_string_length(version) > VERSION_BYTES_MAX)
                return "params._meta[\"" MCP_META_VERSION "\"] must be a string such as \"2026-07-28\"";
        if (!json_is_object(json_object_get(meta, MCP_META_CAPABILITIES)))
                return "params._meta[\"" MCP_META_CAPABILITIES "\"] must be an object";
        if (client != NULL && !json_is_object(client))
                return "params._meta[\"" MCP_META_CLIENT "\"] must be an object";
        if (level != NULL && (!json_is_string(level) || mcp_log_level(json_string_value(level)) < 0))
                return "params._meta[\"" MCP_META_LOG_LEVEL "\"] must be a level from \"debug\" to \"emergency\"";
        return NULL;
}

int mcp_meta_decode(const struct mcp_message *message, struct mcp_meta *ret_meta, struct mcp_fault *ret_fault,
                    struct mcp_text *ret_data) {
        const json_t *meta = member_meta(message), *version = json_object_get(meta, MCP_META_VERSION);
        const char *problem = check_meta(meta), *level;
        enum mcp_revision revision;

        if (problem != NULL)
                return refuse(ret_fault, MCP_INVALID_PARAMS, problem);
        /* A text with a NUL in it is none of the names. */
        revision = json_string_length(version) == strlen(json_string_value(version))
                           ? mcp_revision_find(json_string_value(version))
                           : MCP_REVISION_NONE;
        if (!mcp_is_modern(revision))
                return refuse_version(version, ret_fault, ret_data);
        level = json_string_value(json_object_get(meta, MCP_META_LOG_LEVEL));
        *ret_meta = (struct mcp_meta){
                .revision = revision,
                .capabilities = mcp_capabilities_decode(json_object_get(meta, MCP_META_CAPABILITIES), true),
                .log_level = level != NULL ? mcp_log_level(level) : -1,
                .token = json_object_get(meta, "progressToken"),
        };
        return 0;
}

/* An elicitation capability without members means forms, as it did before there was anything else. */
static uint32_t decode_elicitation(const json_t *elicitation) {
        uint32_t bits = 0;

        if (!json_is_object(elicitation))
                return 0;
        if (json_is_object(json_object_get(elicitation, "url")))
                bits |= SBX_CLIENT_ELICITATION_URL;
        if (bits == 0 || json_is_object(json_object_get(elicitation, "form")))
                bits |= SBX_CLIENT_ELICITATION;
        return bits;
}

uint32_t mcp_capabilities_decode(const json_t *capabilities, bool modern) {
        const json_t *sampling = json_object_get(capabilities, "sampling");
        const json_t *extensions = json_object_get(capabilities, "extensions");
        uint32_t bits = decode_elicitation(json_object_get(capabilities, "elicitation"));

        if (json_is_object(sampling))
                bits |= SBX_CLIENT_SAMPLING;
        if (json_is_object(json_object_get(sampling, "tools")))
                bits |= SBX_CLIENT_SAMPLING_TOOLS;
        if (json_is_object(json_object_get(capabilities, "roots")))
                bits |= SBX_CLIENT_ROOTS;
        if (modern && json_is_object(json_object_get(extensions, MCP_EXTENSION_TASKS)))
                bits |= SBX_CLIENT_TASKS;
        return bits;
}

int mcp_log_level(const char *name) {
        static const char *const names[] = {"debug", "info",     "notice", "warning",
                                            "error", "critical", "alert",  "emergency"};

        for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
                if (strcmp(name, names[i]) == 0)
                        return i;
        return -1;
}
