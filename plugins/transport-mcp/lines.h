/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a stream into lines of bounded length; a longer one is skipped while it passes, never kept. One thread. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct mcp_lines {
        char *data;
        size_t capacity;
        size_t start;   /* first byte that was not handed out */
        size_t scanned; /* no newline before this one */
        size_t size;    /* bytes in `data` */
        size_t max;     /* longest line, without its newline */
        bool skipping;  /* inside a line that was too long */
};
#define MCP_LINES(max_bytes)                                                                                           \
        { NULL, 0, 0, 0, 0, (max_bytes), false }

void mcp_lines_free(struct mcp_lines *lines);

/* One read(2) of `fd`: 1, 0 at the end of the stream, or -errno (-EINTR and -EAGAIN among them, -ENOMEM). */
int mcp_lines_read(struct mcp_lines *lines, int fd);

enum mcp_line {
        MCP_LINE_NONE = 0,     /* read more */
        MCP_LINE_WHOLE = 1,    /* `ret_line` is one, without its newline, valid until the next call */
        MCP_LINE_TOO_LONG = 2, /* told once for each line beyond the maximum, as soon as it is known */
};
enum mcp_line mcp_lines_next(struct mcp_lines *lines, struct sbx_bytes *ret_line);
/* At the end of the stream: what stands after the last newline, if anything does. */
enum mcp_line mcp_lines_rest(struct mcp_lines *lines, struct sbx_bytes *ret_line);
