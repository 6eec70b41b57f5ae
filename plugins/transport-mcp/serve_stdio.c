/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of the stdio transport: one thread that reads and dispatches; results are written by the threads that
 * have them, and by the loop when the client was too slow for that. */
#include "serve_stdio.h"

#include <poll.h>
#include <unistd.h>

#include "lines.h"
#include "subscriptions.h"
#include "writer.h"

/* How long the last answers may take to reach a client that has closed its side. */
#define LINGER_NS UINT64_C(1000000000)

struct stdio {
        struct mcp_server *server;
        const struct sbx_call *call;
        int input_fd;
        pthread_t thread; /* the loop's */
        struct mcp_connection *connection;
        struct mcp_lines lines;
        struct mcp_writer writer;
        struct mcp_channel channel;
};

enum { POLL_INPUT, POLL_CANCEL, POLL_WAKE, POLL_OUTPUT, POLL_COUNT };

static void channel_send(void *data, const struct mcp_outgoing *message) {
        struct stdio *stdio = data;

        mcp_writer_send(&stdio->writer, message->parts, message->count, message->kind == MCP_OUT_PROGRESS,
                        !pthread_equal(pthread_self(), stdio->thread));
}

static uint64_t now_ns(const struct stdio *stdio) {
        const struct sbx_host *host = mcp_server_settings(stdio->server)->host;

        return host->clock_ns(host->self);
}

/* Milliseconds until `deadline_ns` (0: none), for poll. */
static int poll_timeout(const struct stdio *stdio, uint64_t deadline_ns) {
        uint64_t now, left;

        if (deadline_ns == 0)
                return -1;
        now = now_ns(stdio);
        if (deadline_ns <= now)
                return 0;
        left = (deadline_ns - now + 999999) / 1000000;
        return left > 3600000 ? 3600000 : (int)left;
}

static void refuse_long_line(struct stdio *stdio) {
        const struct mcp_target target = {&stdio->channel, NULL, mcp_connection_revision(stdio->connection)};
        char message[128];

        snprintf(message, sizeof(message), "a message of more than %zu bytes was skipped", stdio->lines.max);
        mcp_reply_error(&target, NULL, MCP_INVALID_REQUEST, message, "Send less at once, or raise max_message");
}

static bool is_blank(struct sbx_bytes line) {
        const char *bytes = line.data;

        for (size_t i = 0; i < line.size; i++)
                if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\r')
                        return false;
        return true;
}

static void take_line(struct stdio *stdio, enum mcp_line kind, struct sbx_bytes line) {
        if (kind == MCP_LINE_TOO_LONG)
                refuse_long_line(stdio);
        else if (kind == MCP_LINE_WHOLE && !is_blank(line))
                mcp_connection_receive(stdio->connection, line, &stdio->channel);
}

/* Handles the lines that are here, until the client falls behind with reading the answers. True: some are left. */
static bool take_lines(struct stdio *stdio) {
        struct sbx_bytes line = {NULL, 0};
        enum mcp_line kind;

        while (mcp_writer_state(&stdio->writer) < MCP_WRITER_FULL) {
                kind = mcp_lines_next(&stdio->lines, &line);
                if (kind == MCP_LINE_NONE)
                        return false;
                take_line(stdio, kind, line);
        }
        return true;
}

/* 1: go on; 0: the stream has ended; -errno. */
static int read_input(struct stdio *stdio, struct sbx_error *err) {
        struct sbx_bytes line = {NULL, 0};
        int r = mcp_lines_read(&stdio->lines, stdio->input_fd);

        if (r > 0) {
                (void)take_lines(stdio);
                return 1;
        }
        if (r == -EINTR || r == -EAGAIN)
                return 1;
        if (r == 0 || r == -ECONNRESET || r == -EIO) { /* EIO: the terminal hung up */
                take_line(stdio, mcp_lines_rest(&stdio->lines, &line), line);
                return 0;
        }
        return sbx_error_set(err, r, "transport-mcp", NULL, "standard input can't be read: %s", strerror(-r));
}

static void clear_wake(struct stdio *stdio) {
        uint64_t count;

        if (read(stdio->writer.wake_fd, &count, sizeof(count)) < 0)
                return; /* nothing was pending */
}

/* One turn of the loop. 1: go on; 0: the client is gone or `call` was cancelled; -errno. */
static int turn(struct stdio *stdio, struct sbx_error *err) {
        enum mcp_writer_state state = mcp_writer_state(&stdio->writer);
        bool full = state == MCP_WRITER_FULL;
        struct pollfd fds[POLL_COUNT] = {
                /* While input is not read, its hang-up is still seen. */
                [POLL_INPUT] = {.fd = stdio->input_fd, .events = full ? POLLRDHUP : POLLIN},
                [POLL_CANCEL] = {.fd = stdio->call != NULL ? stdio->call->cancel_fd : -1, .events = POLLIN},
                [POLL_WAKE] = {.fd = stdio->writer.wake_fd, .events = POLLIN},
                [POLL_OUTPUT] = {.fd = stdio->writer.fd, .events = state == MCP_WRITER_IDLE ? 0 : POLLOUT},
        };
        uint64_t deadline_ns = stdio->call != NULL ? stdio->call->deadline_ns : 0;

        if (state == MCP_WRITER_GONE)
                return 0;
        if (poll(fds, POLL_COUNT, poll_timeout(stdio, deadline_ns)) < 0) {
                if (errno == EINTR)
                        return 1;
                return sbx_error_set(err, -errno, "transport-mcp", NULL, "poll: %s", strerror(errno));
        }
        if (fds[POLL_CANCEL].revents != 0)
                return 0;
        if (deadline_ns != 0 && now_ns(stdio) >= deadline_ns)
                return sbx_error_set(err, -ETIMEDOUT, "transport-mcp", NULL, "the time to serve is over");
        if (fds[POLL_WAKE].revents != 0)
                clear_wake(stdio);
        if ((fds[POLL_OUTPUT].revents & (POLLERR | POLLNVAL)) != 0)
                return 0;
        if (fds[POLL_OUTPUT].revents != 0 && mcp_writer_flush(&stdio->writer) < MCP_WRITER_FULL && full)
                (void)take_lines(stdio);
        if (full)
                return (fds[POLL_INPUT].revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0 ? 0 : 1;
        return fds[POLL_INPUT].revents != 0 ? read_input(stdio, err) : 1;
}

/* Gives the answers that are queued a last chance. */
static void linger(struct stdio *stdio) {
        uint64_t deadline_ns = now_ns(stdio) + LINGER_NS;

        while (mcp_writer_flush(&stdio->writer) != MCP_WRITER_IDLE &&
               mcp_writer_state(&stdio->writer) < MCP_WRITER_GONE) {
                struct pollfd fd = {.fd = stdio->writer.fd, .events = POLLOUT};
                int timeout = poll_timeout(stdio, deadline_ns);

                if (timeout == 0 || (poll(&fd, 1, timeout) < 0 && errno != EINTR))
                        return;
        }
}

/* A reader that went away is an end like any other. */
static int check_output(struct stdio *stdio, struct sbx_error *err) {
        int error = mcp_writer_error(&stdio->writer);

        if (error == 0 || error == -EPIPE || error == -ECONNRESET)
                return 0;
        return sbx_error_set(err, error, "transport-mcp", NULL, "standard output can't be written: %s",
                             strerror(-error));
}

static int serve(struct stdio *stdio, struct sbx_error *err) {
        int r;

        do
                r = turn(stdio, err);
        while (r > 0);
        mcp_writer_close(&stdio->writer);
        mcp_subscriptions_stop(mcp_server_subscriptions(stdio->server)); /* their streams end with a word */
        mcp_connection_cancel(stdio->connection);
        mcp_connection_wait(stdio->connection);
        mcp_connection_set_channel(stdio->connection, NULL);
        linger(stdio);
        return r < 0 ? r : check_output(stdio, err);
}

int mcp_stdio_serve(struct mcp_server *server, size_t message_max, int input_fd, int output_fd,
                    const struct sbx_call *call, struct sbx_error *err) {
        struct stdio stdio = {
                .server = server,
                .call = call,
                .input_fd = input_fd,
                .thread = pthread_self(),
                .lines = MCP_LINES(message_max),
                .channel = {.data = &stdio, .send = channel_send},
        };
        int r = mcp_writer_init(&stdio.writer, output_fd, err);

        if (r < 0)
                return r;
        r = mcp_connection_new(server, MCP_CONNECTION_STREAM, "", &stdio.connection, err);
        if (r == 0) {
                mcp_connection_set_channel(stdio.connection, &stdio.channel);
                r = serve(&stdio, err);
        }
        mcp_connection_free(stdio.connection);
        mcp_lines_free(&stdio.lines);
        mcp_writer_free(&stdio.writer);
        return r;
}
