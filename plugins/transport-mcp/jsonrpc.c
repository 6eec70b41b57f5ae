/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC 2.0 decoding (https://www.jsonrpc.org/specification), with MCP's narrowing: ids are strings or integers. */
#include "jsonrpc.h"

#include <stdlib.h>

#include "scan.h"
#include "text.h"

SBX_PRINTF(3, 4)
static int refuse(struct mcp_fault *fault, int code, const char *format, ...) {
        va_list args;

        fault->code = code;
        va_start(args, format);
        if (vsnprintf(fault->message, sizeof(fault->message), format, args) < 0)
                fault->message[0] = '\0';
        va_end(args);
        sbx_error_trim_(fault->message, sizeof(fault->message));
        return -EINVAL;
}

static int out_of_memory(struct mcp_fault *fault) {
        refuse(fault, MCP_INTERNAL_ERROR, "out of memory");
        return -ENOMEM;
}

void mcp_id_free(struct mcp_id *id) {
        free(id->json);
        *id = (struct mcp_id){NULL, 0};
}

int mcp_id_decode(const json_t *value, struct mcp_id *ret) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(8 * MCP_ID_BYTES_MAX);

        if (json_is_integer(value))
                mcp_text_append_int(&text, json_integer_value(value));
        else if (json_is_string(value) && json_string_length(value) <= MCP_ID_BYTES_MAX)
                mcp_text_append_string(&text, json_string_value(value), json_string_length(value));
        else
                return -EINVAL;
        if (text.error != 0)
                return text.error;
        *ret = (struct mcp_id){text.data, text.size};
        text.data = NULL;
        return 0;
}

bool mcp_id_equal(const struct mcp_id *a, const struct mcp_id *b) {
        return a->size == b->size && a->size > 0 && memcmp(a->json, b->json, a->size) == 0;
}

void mcp_message_free(struct mcp_message *message) {
        mcp_id_free(&message->id);
        json_decref(message->root);
        *message = (struct mcp_message){0};
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* The id of a message that is JSON but was refused: its sender waits for an answer that names it. */
static void read_id_of_refused(struct sbx_bytes text, struct mcp_id *ret_id) {
        struct sbx_bytes raw;
        json_t *value;

        if (!mcp_scan_id(text, &raw) || raw.size > 8 * MCP_ID_BYTES_MAX)
                return;
        value = json_loadb(raw.data, raw.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (value == NULL)
                return;
        (void)mcp_id_decode(value, ret_id); /* stays empty if it is none */
        json_decref(value);
}

/* Syntax errors are the client's bug at any id; the rest is JSON that this server does not take. */
static int refuse_text(struct sbx_bytes text, const json_error_t *error, struct mcp_id *ret_id,
                       struct mcp_fault *fault) {
        switch (json_error_code(error)) {
        case json_error_out_of_memory:
                return out_of_memory(fault);
        case json_error_duplicate_key:
        case json_error_numeric_overflow:
                break;
        default:
                /* jansson has no code of its own for an unpaired surrogate, which RFC 8259 lets pass. */
                if (strncmp(error->text, "invalid Unicode", strlen("invalid Unicode")) != 0)
                        return refuse(fault, MCP_PARSE_ERROR, "the message is not JSON: %s (at byte %d)", error->text,
                                      error->position);
        }
        read_id_of_refused(text, ret_id);
        return refuse(fault, MCP_INVALID_REQUEST, "the message can't be taken: %s (at byte %d)", error->text,
                      error->position);
}

int mcp_jsonrpc_parse(struct sbx_bytes text, json_t **ret_document, struct mcp_id *ret_id,
                      struct mcp_fault *ret_fault) {
        json_error_t error;
        json_t *document;

        if (mcp_scan_depth(text, MCP_DEPTH_MAX) > MCP_DEPTH_MAX) {
                read_id_of_refused(text, ret_id);
                return refuse(ret_fault, MCP_INVALID_REQUEST, "the message nests deeper than %d levels", MCP_DEPTH_MAX);
        }
        document = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (document == NULL)
                return refuse_text(text, &error, ret_id, ret_fault);
        *ret_document = document;
        return 0;
}

/* ---- message ------------------------------------------------------------------------------------------- */

static int decode_id(const json_t *root, struct mcp_message *message, struct mcp_fault *fault) {
        const json_t *id = json_object_get(root, "id");
        int r;

        if (id == NULL)
                return 0;
        r = mcp_id_decode(id, &message->id);
        if (r == -ENOMEM)
                return out_of_memory(fault);
        if (r < 0)
                return refuse(fault, MCP_INVALID_REQUEST,
                              "\"id\" must be an integer, or a string of at most %d bytes; null and fractions are not "
                              "ids",
                              MCP_ID_BYTES_MAX);
        return 0;
}

static int decode_envelope(const json_t *root, struct mcp_fault *fault) {
        const json_t *version = json_object_get(root, "jsonrpc");

        if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
                return refuse(fault, MCP_INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
        return 0;
}

static int decode_method(json_t *root, struct mcp_message *message, struct mcp_fault *fault) {
        const json_t *method = json_object_get(root, "method");
        json_t *params = json_object_get(root, "params");

        if (!json_is_string(method) || json_string_length(method) > MCP_METHOD_BYTES_MAX ||
            strlen(json_string_value(method)) != json_string_length(method))
                return refuse(fault, MCP_INVALID_REQUEST, "\"method\" must be a string of at most %d bytes",
                              MCP_METHOD_BYTES_MAX);
        if (json_object_get(root, "result") != NULL || json_object_get(root, "error") != NULL)
                return refuse(fault, MCP_INVALID_REQUEST,
                              "a message has \"method\", or \"result\" or \"error\", not both");
        if (params != NULL && !json_is_object(params) && !json_is_array(params))
                return refuse(fault, MCP_INVALID_REQUEST, "\"params\" must be an object");
        message->method = json_string_value(method);
        message->params = params;
        message->kind = message->id.size > 0 ? MCP_REQUEST : MCP_NOTIFICATION;
        return 0;
}

static int decode_members(json_t *root, struct mcp_message *message, struct mcp_fault *fault) {
        int r;

        if (!json_is_object(root))
                return refuse(fault, MCP_INVALID_REQUEST, "a message must be a JSON object");
        if (json_object_get(root, "method") == NULL &&
            (json_object_get(root, "result") != NULL || json_object_get(root, "error") != NULL)) {
                /* An answer, sound or not, is never answered: two peers could go on about it for ever. */
                message->kind = MCP_RESPONSE;
                return 0;
        }
        r = decode_id(root, message, fault);
        if (r == 0)
                r = decode_envelope(root, fault);
        if (r == 0)
                r = decode_method(root, message, fault);
        return r;
}

int mcp_message_decode(json_t *root, struct mcp_message *ret_message, struct mcp_fault *ret_fault) {
        int r;

        *ret_message = (struct mcp_message){.root = root};
        r = decode_members(root, ret_message, ret_fault);
        if (r < 0) {
                ret_message->root = NULL;
                json_decref(root);
        }
        return r;
}
