/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC 2.0: decodes what a client sent, strictly, into messages; knows nothing of MCP or of where it came from. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include <snipara-sandbox/types.h>

#define MCP_PARSE_ERROR (-32700)
#define MCP_INVALID_REQUEST (-32600)
#define MCP_METHOD_NOT_FOUND (-32601)
#define MCP_INVALID_PARAMS (-32602)
#define MCP_INTERNAL_ERROR (-32603)
/* The server's own: -32000 and -32001 mean a closed connection and a time-out to the SDKs, and MCP reserves -32002 and
 * from -32020 on. */
#define MCP_BUSY (-32010)
#define MCP_RESOURCE_NOT_FOUND (-32002) /* legacy clients alone */
/* Modern clients alone: legacy ones take them for the sign of a modern server. */
#define MCP_HEADER_MISMATCH (-32020)
#define MCP_MISSING_CAPABILITY (-32021)
#define MCP_UNSUPPORTED_VERSION (-32022)

#define MCP_DEPTH_MAX 64         /* nesting of a message */
#define MCP_ID_BYTES_MAX 1024    /* of an id or progress token that is a string */
#define MCP_BATCH_MAX 1000       /* messages in a batch */
#define MCP_METHOD_BYTES_MAX 256 /* of a method's or tool's name */

/* A request id or progress token: a string or an int64, kept as its canonical JSON text, so that two are the same when
 * their texts are, and that it goes back exactly as it came. Empty: absent. */
struct mcp_id {
        char *json; /* owned; not NUL-terminated */
        size_t size;
};
void mcp_id_free(struct mcp_id *id);
#define _cleanup_id_ __attribute__((cleanup(mcp_id_free)))
/* -EINVAL: neither a string of at most MCP_ID_BYTES_MAX nor an int64; -ENOMEM. `ret` is empty before. */
int mcp_id_decode(const json_t *value, struct mcp_id *ret);
bool mcp_id_equal(const struct mcp_id *a, const struct mcp_id *b);

/* Why something was refused: what the client is answered. */
struct mcp_fault {
        int code;
        char message[256];
};

enum mcp_kind { MCP_REQUEST = 1, MCP_NOTIFICATION = 2, MCP_RESPONSE = 3 };

struct mcp_message {
        enum mcp_kind kind;
        struct mcp_id id;   /* of a request; of a refused message as far as it could be read */
        const char *method; /* request and notification: borrowed from `root`, no NUL in it */
        json_t *params;     /* object or array, borrowed from `root`; NULL: absent */
        json_t *root;       /* owned */
};
void mcp_message_free(struct mcp_message *message);
#define _cleanup_message_ __attribute__((cleanup(mcp_message_free)))

/* Parses one text from the client: an object (one message) or an array (a batch). Refused: what is not JSON, nesting
 * beyond MCP_DEPTH_MAX, duplicate keys, numbers beyond int64 or double. `ret_id` gets the id of a refused message if
 * it can be read. -EINVAL, -ENOMEM, both with `ret_fault` set. */
int mcp_jsonrpc_parse(struct sbx_bytes text, json_t **ret_document, struct mcp_id *ret_id, struct mcp_fault *ret_fault);

/* Decodes one message; takes the reference `root` whatever comes of it. On failure `ret_message` holds the id only, and
 * is to be freed all the same. -EINVAL, -ENOMEM, both with `ret_fault` set. */
int mcp_message_decode(json_t *root, struct mcp_message *ret_message, struct mcp_fault *ret_fault);
