/* SPDX-License-Identifier: Apache-2.0 */
/* A line buffer that grows with the line, up to the maximum, and shrinks again when the line has gone. */
#include "lines.h"

#include <stdlib.h>
#include <unistd.h>

#define CHUNK_BYTES 65536u
#define KEEP_BYTES (1u << 20) /* a larger buffer is given back once it is empty */

void mcp_lines_free(struct mcp_lines *lines) {
        free(lines->data);
        *lines = (struct mcp_lines)MCP_LINES(lines->max);
}

static void drop_front(struct mcp_lines *lines) {
        if (lines->start == 0)
                return;
        memmove(lines->data, lines->data + lines->start, lines->size - lines->start);
        lines->size -= lines->start;
        lines->scanned -= lines->start;
        lines->start = 0;
}

/* Room for at least one byte. What is kept is at most one unfinished line, so the capacity ends at max + CHUNK. */
static int make_room(struct mcp_lines *lines) {
        size_t capacity = lines->capacity;
        char *data;

        drop_front(lines);
        if (lines->size == 0 && capacity > KEEP_BYTES) {
                free(lines->data);
                lines->data = NULL;
                lines->capacity = capacity = 0;
        }
        if (lines->size < capacity)
                return 0;
        capacity = capacity == 0 ? CHUNK_BYTES : capacity * 2;
        if (capacity > lines->max + CHUNK_BYTES)
                capacity = lines->max + CHUNK_BYTES;
        data = realloc(lines->data, capacity);
        if (data == NULL)
                return -ENOMEM;
        lines->data = data;
        lines->capacity = capacity;
        return 0;
}

int mcp_lines_read(struct mcp_lines *lines, int fd) {
        ssize_t count;
        int r = make_room(lines);

        if (r < 0)
                return r;
        count = read(fd, lines->data + lines->size, lines->capacity - lines->size);
        if (count < 0)
                return -errno;
        lines->size += (size_t)count;
        return count > 0;
}

/* Forgets the unfinished part of a line that is too long. */
static enum mcp_line begin_skipping(struct mcp_lines *lines) {
        lines->start = lines->scanned = lines->size = 0;
        lines->skipping = true;
        return MCP_LINE_TOO_LONG;
}

enum mcp_line mcp_lines_next(struct mcp_lines *lines, struct sbx_bytes *ret_line) {
        while (lines->scanned < lines->size) {
                const char *from = lines->data + lines->scanned;
                const char *newline = memchr(from, '\n', lines->size - lines->scanned);
                size_t end, start = lines->start;
                bool skipped = lines->skipping;

                if (newline == NULL)
                        break;
                end = (size_t)(newline - lines->data);
                lines->start = lines->scanned = end + 1;
                lines->skipping = false;
                if (skipped)
                        continue;
                if (end - start > lines->max)
                        return MCP_LINE_TOO_LONG;
                *ret_line = (struct sbx_bytes){lines->data + start, end - start};
                return MCP_LINE_WHOLE;
        }
        lines->scanned = lines->size;
        if (lines->skipping)
                lines->start = lines->scanned = lines->size = 0;
        else if (lines->size - lines->start > lines->max)
                return begin_skipping(lines);
        return MCP_LINE_NONE;
}

enum mcp_line mcp_lines_rest(struct mcp_lines *lines, struct sbx_bytes *ret_line) {
        size_t start = lines->start;

        if (lines->skipping || lines->size == start)
                return MCP_LINE_NONE;
        lines->start = lines->scanned = lines->size;
        *ret_line = (struct sbx_bytes){lines->data + start, lines->size - start};
        return MCP_LINE_WHOLE;
}
