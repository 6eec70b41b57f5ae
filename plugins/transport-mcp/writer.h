/* SPDX-License-Identifier: Apache-2.0 */
/* Writes messages, one a line, to a descriptor that may be slow: at once when it takes them, else through a bounded
 * queue that an event loop drains. Never blocks in write(2), and never changes the flags of the caller's descriptor. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "text.h"

struct mcp_writer {
        int fd;               /* the caller's */
        int own_fd;           /* the same pipe or terminal, opened anew so that it can be non-blocking; -1: none */
        bool is_socket;       /* sendmsg can be non-blocking each time */
        bool cautious;        /* a pipe or terminal that could not be opened anew: poll before each write */
        int wake_fd;          /* readable when the loop has something new to look at: something was queued, or failed */
        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t room;  /* the queue has room, or there is no hope of it */
        struct mcp_text queue;
        size_t sent; /* bytes of the queue that are written already */
        bool closing;
        int error; /* -errno of a write: the reader is gone */
};

/* -ENOMEM, -EMFILE and what eventfd and fcntl say. `fd` stays the caller's, open until mcp_writer_free. */
int mcp_writer_init(struct mcp_writer *writer, int fd, struct sbx_error *err);
void mcp_writer_free(struct mcp_writer *writer);

/* Sends one message and a newline. Any thread. While the client is behind, a droppable message is dropped, and another
 * waits until there is room (see mcp_writer_flush), but never in the loop's own thread: `may_wait` says whether. */
void mcp_writer_send(struct mcp_writer *writer, const struct sbx_bytes *parts, size_t count, bool droppable,
                     bool may_wait);

/* ---- for the loop ---- */

enum mcp_writer_state {
        MCP_WRITER_IDLE = 0,   /* nothing queued */
        MCP_WRITER_BEHIND = 1, /* queued: call mcp_writer_flush when the descriptor is writable */
        MCP_WRITER_FULL = 2,   /* so much that no new work should be taken on */
        MCP_WRITER_GONE = 3,   /* nobody reads any more */
};
enum mcp_writer_state mcp_writer_state(struct mcp_writer *writer);
/* Writes of the queue what the descriptor takes. */
enum mcp_writer_state mcp_writer_flush(struct mcp_writer *writer);
/* Why it is MCP_WRITER_GONE: -EPIPE or -ECONNRESET when the reader went away, else what went wrong. 0: it is not. */
int mcp_writer_error(struct mcp_writer *writer);
/* Nobody waits for room from now on; what does not fit is dropped. */
void mcp_writer_close(struct mcp_writer *writer);
