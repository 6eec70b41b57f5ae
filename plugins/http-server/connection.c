/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: what each does, until when, and whether its client is still there. libmicrohttpd does not look at a
 * connection that waits for an answer, so the loop watches every socket itself, beside it. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* struct tcp_info of the C library lacks tcpi_bytes_acked */
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

/* For a request that its client ended in the middle: what has arrived is read by then. */
#define CLOSED_MS 20u
#define CLOSED_LOOKS 50u

#define LINGER_NS (UINT64_C(2000) * HS_NS_PER_MS)

static uint64_t time_limit(const struct hs_limits *limits, enum hs_phase phase) {
        switch (phase) {
        case HS_IDLE:
                return limits->idle_ns;
        case HS_RECEIVING:
                return limits->request_ns;
        case HS_WAITING:
        case HS_WRITING:
                return limits->write_ns;
        case HS_LINGERING:
                return LINGER_NS;
        case HS_DOOMED:
                break;
        }
        return 0;
}

/* Whether the client has taken something since the last look, or need not have: then it has time until the next. */
static bool makes_progress(struct hs_connection *connection) {
        enum hs_phase phase = connection->phase;
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);
        int unsent = 0;
        bool progress;

        if (phase == HS_WAITING && (ioctl(connection->fd, SIOCOUTQ, &unsent) < 0 || unsent == 0)) {
                hs_connection_phase(connection, phase);
                return true;
        }
        if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
                return false;
        progress = info.tcpi_bytes_acked != connection->acknowledged;
        hs_connection_phase(connection, phase);
        connection->acknowledged = info.tcpi_bytes_acked;
        return progress;
}

void hs_connection_phase(struct hs_connection *connection, enum hs_phase phase) {
        struct hs_server *server = connection->server;
        uint64_t limit = time_limit(&server->limits, phase);

        if (connection->phase == HS_DOOMED)
                return;
        /* libmicrohttpd misses an end that comes together with the last bytes. */
        if (connection->peer_closed && (phase == HS_IDLE || phase == HS_RECEIVING))
                limit = CLOSED_MS * HS_NS_PER_MS;
        connection->phase = phase;
        connection->deadline_ns = limit > 0 ? server->now_ns + limit : UINT64_MAX;
        connection->acknowledged = 0;
        if (connection->deadline_ns < server->look_next_ns)
                server->look_next_ns = connection->deadline_ns;
}

static void forget(struct hs_connection *connection) {
        struct hs_server *server = connection->server;

        if (connection->previous != NULL)
                connection->previous->next = connection->next;
        else
                server->connections = connection->next;
        if (connection->next != NULL)
                connection->next->previous = connection->previous;
        server->open--;
        free(connection);
}

/* libmicrohttpd closes it when it next looks; one that waits is made to, one that lingers is freed. */
void hs_connection_doom(struct hs_connection *connection) {
        struct hs_exchange *exchange = connection->exchange;

        if (connection->phase == HS_LINGERING) {
                close(connection->fd);
                forget(connection);
                return;
        }
        hs_connection_phase(connection, HS_DOOMED);
        shutdown(connection->fd, SHUT_RDWR);
        if (exchange == NULL)
                return;
        hs_exchange_gone(exchange);
        pthread_mutex_lock(&exchange->lock);
        exchange->abort = true;
        if (exchange->suspended)
                hs_post(exchange);
        pthread_mutex_unlock(&exchange->lock);
}

void hs_last_words(int fd, const char *status, const char *message, const char *hint) {
        char text[512];
        int size = snprintf(text, sizeof(text),
                            "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                            "Connection: close\r\n\r\n{\"error\":{\"message\":\"%s\",\"hint\":\"%s\"}}",
                            status, strlen("{'error':{'message':'','hint':''}}") + strlen(message) + strlen(hint),
                            message, hint);

        if (size > 0 && (size_t)size < sizeof(text) && send(fd, text, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                shutdown(fd, SHUT_WR);
}

static void too_slow(struct hs_connection *connection) {
        bool said_something = connection->exchange != NULL || !connection->used;

        hs_count_refusal(connection->server, HS_REFUSED_SLOW);
        /* Nothing of a response has been written yet, and libmicrohttpd won't: it sees the end of the connection. */
        if (!connection->server->tls && said_something)
                hs_last_words(connection->fd, "408 Request Timeout", "the request did not arrive in time",
                              "Send it at once, or on a faster connection.");
        hs_connection_doom(connection);
}

/* The event may be about bytes that libmicrohttpd has read already. */
static bool has_input(const struct hs_connection *connection) {
        int bytes = 0;

        return ioctl(connection->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

static void check_deadline(struct hs_connection *connection) {
        switch (connection->phase) {
        case HS_RECEIVING:
                if (!connection->peer_closed)
                        too_slow(connection);
                else if (has_input(connection) && !connection->dead && connection->closed_looks++ < CLOSED_LOOKS)
                        hs_connection_phase(connection, HS_RECEIVING);
                else
                        hs_connection_doom(connection);
                break;
        case HS_WAITING:
        case HS_WRITING:
                if (makes_progress(connection))
                        break;
                hs_count_refusal(connection->server, HS_REFUSED_SLOW);
                hs_connection_doom(connection);
                break;
        case HS_IDLE:
        case HS_DOOMED:
        case HS_LINGERING:
                hs_connection_doom(connection);
                break;
        }
}

void hs_connections_look(struct hs_server *server) {
        struct hs_connection *next;

        for (struct hs_connection *c = server->connections; c != NULL; c = next) {
                next = c->next;
                if (c->deadline_ns <= server->now_ns)
                        check_deadline(c);
                else if (c->deadline_ns < server->look_next_ns)
                        server->look_next_ns = c->deadline_ns;
        }
}

/* Closing with bytes unread would reset the connection, and the client would not see why it was refused. */
static void discard(struct hs_connection *connection) {
        char bytes[65536];
        ssize_t n = recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        connection->discarded += n > 0 ? (size_t)n : 0;
        if (n <= 0 || connection->discarded / 2 > connection->server->limits.body_max)
                hs_connection_doom(connection);
}

void hs_connection_event(struct hs_connection *connection, uint32_t events) {
        struct hs_exchange *exchange = connection->exchange;

        if (connection->phase == HS_LINGERING) {
                discard(connection);
                return;
        }
        if ((events & (EPOLLHUP | EPOLLERR)) != 0)
                connection->dead = connection->peer_closed = true;
        if ((events & EPOLLRDHUP) != 0)
                connection->peer_closed = true;
        if (connection->phase != HS_RECEIVING && has_input(connection)) {
                if (connection->phase == HS_IDLE)
                        hs_connection_phase(connection, HS_RECEIVING);
                else
                        connection->more_input = true;
        }
        if (connection->peer_closed && (connection->phase == HS_IDLE || connection->phase == HS_RECEIVING))
                hs_connection_phase(connection, connection->phase);
        if (!connection->peer_closed || exchange == NULL || connection->phase == HS_RECEIVING)
                return;
        if (connection->dead)
                hs_connection_doom(connection);
        else
                hs_exchange_gone(exchange);
}

static void begin(struct hs_server *server, struct MHD_Connection *mhd, void **context) {
        struct hs_connection *connection = server->adding;
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = connection};

        server->adding = NULL;
        *context = connection;
        connection->mhd = mhd;
        connection->next = server->connections;
        if (connection->next != NULL)
                connection->next->previous = connection;
        server->connections = connection;
        server->open++;
        hs_connection_phase(connection, HS_RECEIVING);
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
                hs_connection_doom(connection); /* nobody would see it go */
}

/* Keeps the socket when libmicrohttpd closes its descriptor, which it does after this. */
static bool keep_open(struct hs_server *server, struct hs_connection *connection) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        int fd = fcntl(connection->fd, F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
                return false;
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                close(fd);
                return false;
        }
        connection->fd = fd;
        connection->mhd = NULL;
        hs_connection_phase(connection, HS_LINGERING);
        return true;
}

static void end(struct hs_server *server, struct hs_connection *connection) {
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
        if (!connection->linger || connection->peer_closed || connection->phase == HS_DOOMED ||
            !keep_open(server, connection))
                forget(connection);
}

void hs_connection_notify(void *data, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code) {
        if (code == MHD_CONNECTION_NOTIFY_STARTED)
                begin(data, mhd, context);
        else if (*context != NULL)
                end(data, *context);
}
