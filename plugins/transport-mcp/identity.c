/* SPDX-License-Identifier: Apache-2.0 */
/* The server's name card and its capabilities. */
#include "identity.h"

#define WEBSITE "https://snipara.com"
#define SUMMARY "Sandboxed Python for agents: sessions that keep their variables, files and figures."

/* A prompt in a rounded box: 64 x 64, no script, nothing loaded from elsewhere.
 *   <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="14" fill="#1b2a41"/>
 *   <path d="M16 20l14 12-14 12M34 46h16" fill="none" stroke="#5bc0be" stroke-width="6" stroke-linecap="round"/></svg>
 */
#define ICON                                                                                                           \
        "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMC"             \
        "A2NCA2NCI+PHJlY3Qgd2lkdGg9IjY0IiBoZWlnaHQ9IjY0IiByeD0iMTQiIGZpbGw9IiMxYjJhNDEiLz48cGF0aCBkPSJNMT"             \
        "YgMjBsMTQgMTItMTQgMTJNMzQgNDZoMTYiIGZpbGw9Im5vbmUiIHN0cm9rZT0iIzViYzBiZSIgc3Ryb2tlLXdpZHRoPSI2Ii"             \
        "BzdHJva2UtbGluZWNhcD0icm91bmQiLz48L3N2Zz4="

/* Read by the model at the start of a conversation; what each tool does is in its own description. */
static const char instructions[] =
        "Runs Python in an isolated sandbox. execute_python keeps variables, imports and files "
        "between calls of the same session_id (\"default\" when it is left out), so build up state step by step; "
        "execute starts from nothing each time. Print what you want to see, or end with an expression; assign "
        "`result` to return a value. A call that runs too long is interrupted and its session keeps its variables. "
        "Sessions that are not used for a while end; list_sessions shows which are alive.";

static void append_member(struct mcp_text *text, const char *key, const char *value) {
        mcp_text_append_literal(text, ",\"");
        mcp_text_append_literal(text, key);
        mcp_text_append_literal(text, "\":");
        mcp_text_append_string(text, value, strlen(value));
}

void mcp_identity_server(enum mcp_revision revision, struct mcp_text *text) {
        mcp_text_append_literal(text, "{\"name\":\"" MCP_SERVER_NAME "\",\"version\":\"" SBX_VERSION "\"");
        if (revision >= MCP_2025_06_18)
                append_member(text, "title", "Snipara Sandbox");
        if (revision >= MCP_2025_11_25) {
                append_member(text, "description", SUMMARY);
                append_member(text, "websiteUrl", WEBSITE);
                mcp_text_append_literal(text, ",\"icons\":[{\"src\":\"" ICON
                                              "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]");
        }
        mcp_text_append_literal(text, "}");
}

void mcp_identity_capabilities(enum mcp_revision revision, struct mcp_text *text) {
        mcp_text_append_literal(text, "{\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true},"
                                      "\"resources\":{\"listChanged\":true,\"subscribe\":true}");
        if (revision >= MCP_2025_03_26)
                mcp_text_append_literal(text, ",\"completions\":{}");
        mcp_text_append_literal(text, ",\"logging\":{}");
        if (mcp_is_modern(revision))
                mcp_text_append_literal(text, ",\"extensions\":{\"" MCP_EXTENSION_TASKS "\":{}}");
        mcp_text_append_literal(text, "}");
}

void mcp_identity_instructions(struct mcp_text *text) {
        mcp_text_append_string(text, instructions, sizeof(instructions) - 1);
}
