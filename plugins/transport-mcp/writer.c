/* SPDX-License-Identifier: Apache-2.0 */
/* Non-blocking writing without O_NONBLOCK on a descriptor that other processes may share. */
#include "writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FULL_BYTES (4u << 20) /* beyond this, results wait and requests are not read */
/* The queue's own maximum: one message may be larger than all that waits. */
#define QUEUE_BYTES_MAX (1024u << 20)
#define PARTS_MAX 8u

/* The same pipe or terminal with a description of its own. -1: not possible (no /proc, not ours to open); then every
 * write asks poll first and stays within what POLLOUT promises. */
static int open_anew(int fd) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int mcp_writer_init(struct mcp_writer *writer, int fd, struct sbx_error *err) {
        struct stat st;

        *writer = (struct mcp_writer){.fd = fd, .own_fd = -1, .wake_fd = -1, .queue = MCP_TEXT(QUEUE_BYTES_MAX)};
        pthread_mutex_init(&writer->lock, NULL);
        pthread_cond_init(&writer->room, NULL);
        if (fstat(fd, &st) < 0) {
                int code = -errno;

                mcp_writer_free(writer);
                return sbx_error_set(err, code, "transport-mcp", "Start the server with an open standard output.",
                                     "the output descriptor %d can't be used: %s", fd, strerror(-code));
        }
        writer->is_socket = S_ISSOCK(st.st_mode);
        if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
                writer->own_fd = open_anew(fd);
                writer->cautious = writer->own_fd < 0;
        }
        writer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (writer->wake_fd < 0) {
                int code = -errno;

                mcp_writer_free(writer);
                return sbx_error_set(err, code, "transport-mcp", NULL, "no descriptor for the writer: %s",
                                     strerror(-code));
        }
        return 0;
}

void mcp_writer_free(struct mcp_writer *writer) {
        if (writer->own_fd >= 0)
                close(writer->own_fd);
        if (writer->wake_fd >= 0)
                close(writer->wake_fd);
        mcp_text_free(&writer->queue);
        pthread_cond_destroy(&writer->room);
        pthread_mutex_destroy(&writer->lock);
}

/* ---- under the lock ------------------------------------------------------------------------------------ */

/* A pipe that poll calls writable takes at least PIPE_BUF bytes without blocking (pipe(7)). */
static ssize_t write_cautiously(struct mcp_writer *writer, const struct iovec *parts, size_t count) {
        struct pollfd poll_fd = {.fd = writer->fd, .events = POLLOUT};
        size_t total = 0;
        int r = poll(&poll_fd, 1, 0);

        if (r < 0)
                return -1;
        if (r == 0) {
                errno = EAGAIN;
                return -1;
        }
        for (size_t i = 0; i < count; i++)
                total += parts[i].iov_len;
        if (total <= PIPE_BUF)
                return writev(writer->fd, parts, (int)count);
        return write(writer->fd, parts[0].iov_base, parts[0].iov_len < PIPE_BUF ? parts[0].iov_len : PIPE_BUF);
}

/* Bytes written, or -errno; -EAGAIN when the descriptor takes nothing now. */
static ssize_t write_some(struct mcp_writer *writer, struct iovec *parts, size_t count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t written;

        do {
                if (writer->is_socket)
                        written = sendmsg(writer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
                else if (writer->cautious)
                        written = write_cautiously(writer, parts, count);
                else
                        written = writev(writer->own_fd >= 0 ? writer->own_fd : writer->fd, parts, (int)count);
        } while (written < 0 && errno == EINTR);
        if (written < 0)
                return -errno;
        return written > 0 ? written : -EAGAIN;
}

/* Takes `written` bytes off the front, and empty parts; returns how many parts are done. */
static size_t advance(struct iovec *parts, size_t count, size_t written) {
        size_t i = 0;

        while (i < count && written >= parts[i].iov_len)
                written -= parts[i++].iov_len;
        if (i < count) {
                parts[i].iov_base = (char *)parts[i].iov_base + written;
                parts[i].iov_len -= written;
        }
        return i;
}

static void fail(struct mcp_writer *writer, int error) {
        writer->error = error;
        mcp_text_free(&writer->queue);
        writer->sent = 0;
        pthread_cond_broadcast(&writer->room);
}

static void wake_loop(struct mcp_writer *writer) {
        const uint64_t one = 1;

        if (write(writer->wake_fd, &one, sizeof(one)) < 0)
                return; /* only when it is readable already */
}

static size_t queued(const struct mcp_writer *writer) {
        return writer->queue.size - writer->sent;
}

/* Without memory for it the stream ends: a message that is half out or missing would leave the client waiting. */
static void enqueue(struct mcp_writer *writer, const struct iovec *parts, size_t count) {
        if (writer->sent > writer->queue.size / 2) {
                memmove(writer->queue.data, writer->queue.data + writer->sent, queued(writer));
                writer->queue.size -= writer->sent;
                writer->sent = 0;
        }
        for (size_t i = 0; i < count; i++)
                mcp_text_append(&writer->queue, parts[i].iov_base, parts[i].iov_len);
        if (writer->queue.error != 0) {
                fail(writer, writer->queue.error);
                wake_loop(writer);
        }
}

/* Sends what can be sent now, and queues the rest. */
static void send_now(struct mcp_writer *writer, struct iovec *parts, size_t count) {
        ssize_t written = 0;

        for (;;) {
                size_t done = advance(parts, count, (size_t)written);

                parts += done;
                count -= done;
                if (count == 0)
                        return;
                written = write_some(writer, parts, count);
                if (written == -EAGAIN)
                        break;
                if (written < 0) {
                        fail(writer, (int)written);
                        wake_loop(writer);
                        return;
                }
        }
        enqueue(writer, parts, count);
        wake_loop(writer);
}

static enum mcp_writer_state state(const struct mcp_writer *writer) {
        if (writer->error != 0)
                return MCP_WRITER_GONE;
        if (queued(writer) == 0)
                return MCP_WRITER_IDLE;
        return queued(writer) > FULL_BYTES ? MCP_WRITER_FULL : MCP_WRITER_BEHIND;
}

/* ---- any thread ---------------------------------------------------------------------------------------- */

void mcp_writer_send(struct mcp_writer *writer, const struct sbx_bytes *parts, size_t count, bool droppable,
                     bool may_wait) {
        static const char newline[] = "\n";
        struct iovec vector[PARTS_MAX + 1];

        for (size_t i = 0; i < count; i++)
                vector[i] = (struct iovec){(void *)parts[i].data, parts[i].size};
        vector[count] = (struct iovec){(void *)newline, 1};

        pthread_mutex_lock(&writer->lock);
        while (may_wait && !droppable && !writer->closing && state(writer) == MCP_WRITER_FULL)
                pthread_cond_wait(&writer->room, &writer->lock);
        switch (state(writer)) {
        case MCP_WRITER_IDLE:
                send_now(writer, vector, count + 1);
                break;
        case MCP_WRITER_BEHIND:
        case MCP_WRITER_FULL:
                if (!droppable && !(writer->closing && state(writer) == MCP_WRITER_FULL))
                        enqueue(writer, vector, count + 1);
                break;
        case MCP_WRITER_GONE:
                break;
        }
        pthread_mutex_unlock(&writer->lock);
}

enum mcp_writer_state mcp_writer_state(struct mcp_writer *writer) {
        enum mcp_writer_state result;

        pthread_mutex_lock(&writer->lock);
        result = state(writer);
        pthread_mutex_unlock(&writer->lock);
        return result;
}

int mcp_writer_error(struct mcp_writer *writer) {
        int error;

        pthread_mutex_lock(&writer->lock);
        error = writer->error;
        pthread_mutex_unlock(&writer->lock);
        return error;
}

static void flush_locked(struct mcp_writer *writer) {
        while (writer->error == 0 && queued(writer) > 0) {
                struct iovec part = {writer->queue.data + writer->sent, queued(writer)};
                ssize_t written = write_some(writer, &part, 1);

                if (written == -EAGAIN)
                        return;
                if (written < 0) {
                        fail(writer, (int)written);
                        return;
                }
                writer->sent += (size_t)written;
        }
        if (writer->error == 0) {
                mcp_text_free(&writer->queue);
                writer->sent = 0;
        }
}

enum mcp_writer_state mcp_writer_flush(struct mcp_writer *writer) {
        enum mcp_writer_state result;

        pthread_mutex_lock(&writer->lock);
        flush_locked(writer);
        result = state(writer);
        if (result != MCP_WRITER_FULL)
                pthread_cond_broadcast(&writer->room);
        pthread_mutex_unlock(&writer->lock);
        return result;
}

void mcp_writer_close(struct mcp_writer *writer) {
        pthread_mutex_lock(&writer->lock);
        writer->closing = true;
        pthread_cond_broadcast(&writer->room);
        pthread_mutex_unlock(&writer->lock);
}
