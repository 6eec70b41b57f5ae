/* SPDX-License-Identifier: Apache-2.0 */
/* Whole responses that no connection makes: refusals, and what operators read. */
#include "http_private.h"

#define HEADERS_MAX 6u

/* `type` and the further headers; as many as fit. */
static void collect_headers(const char *type, const struct hs_header *more, struct hs_header headers[HEADERS_MAX]) {
        size_t count = 0;

        headers[count++] = (struct hs_header){"Content-Type", type};
        for (; more != NULL && more->name != NULL && count < HEADERS_MAX - 1; more++)
                headers[count++] = *more;
        headers[count] = (struct hs_header){NULL, NULL};
}

void http_answer(struct hs_exchange *hs, unsigned status, const char *type, struct sbx_bytes body) {
        struct hs_header headers[HEADERS_MAX];

        collect_headers(type, NULL, headers);
        hs_respond(hs, status, headers, body);
}

void http_refuse(struct hs_exchange *hs, unsigned status, int code, const struct mcp_id *id, const char *message,
                 const char *hint, struct sbx_bytes data, const struct hs_header *more) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(65536);
        struct hs_header headers[HEADERS_MAX];
        char joined[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX + 4];

        snprintf(joined, sizeof(joined), "%s%s%s", message, hint != NULL ? ". " : "", hint != NULL ? hint : "");
        mcp_text_append_literal(&text, "{\"jsonrpc\":\"2.0\",\"id\":");
        if (id != NULL && id->size > 0)
                mcp_text_append(&text, id->json, id->size);
        else
                mcp_text_append_literal(&text, "null");
        mcp_text_append_literal(&text, ",\"error\":{\"code\":");
        mcp_text_append_int(&text, code);
        mcp_text_append_literal(&text, ",\"message\":");
        mcp_text_append_string(&text, joined, strlen(joined));
        if (data.size > 0) {
                mcp_text_append_literal(&text, ",\"data\":");
                mcp_text_append(&text, data.data, data.size);
        }
        mcp_text_append_literal(&text, "}}");
        collect_headers("application/json", more, headers);
        hs_respond(hs, status, headers,
                   text.error == 0 ? mcp_text_bytes(&text)
                                   : MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,"
                                                 "\"message\":\"out of memory\"}}"));
}
