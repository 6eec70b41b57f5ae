/* SPDX-License-Identifier: Apache-2.0 */
/* Growing JSON text with a maximum; the first failure sticks, so that a row of appends needs one check. One thread. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct mcp_text {
        char *data; /* NULL while empty; not NUL-terminated */
        size_t size, capacity;
        size_t max; /* the most `size` may become */
        int error;  /* 0, -ENOMEM or -EFBIG; nothing is appended once it is set */
};
#define MCP_TEXT(max_bytes)                                                                                            \
        { NULL, 0, 0, (max_bytes), 0 }

void mcp_text_free(struct mcp_text *text); /* leaves it empty and usable */
#define _cleanup_text_ __attribute__((cleanup(mcp_text_free)))

/* Each returns text->error. */
int mcp_text_reserve(struct mcp_text *text, size_t more);
int mcp_text_append(struct mcp_text *text, const void *data, size_t size);
int mcp_text_append_literal(struct mcp_text *text, const char *literal);
int mcp_text_append_int(struct mcp_text *text, int64_t value);
/* A finite number, in the shortest form that reads back the same; independent of the locale. */
int mcp_text_append_number(struct mcp_text *text, double value);
/* A JSON string, quotes included, from bytes of any quality: what is not UTF-8 becomes U+FFFD. */
int mcp_text_append_string(struct mcp_text *text, const void *data, size_t size);

static inline struct sbx_bytes mcp_text_bytes(const struct mcp_text *text) {
        return (struct sbx_bytes){text->data, text->size};
}

/* Bytes of a string literal. */
#define MCP_LITERAL(literal) ((struct sbx_bytes){(literal), sizeof(literal) - 1})
