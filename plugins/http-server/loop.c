/* SPDX-License-Identifier: Apache-2.0 */
/* The server's thread: waits for sockets, for exchanges that have something to send, and for deadlines. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define EVENTS_AT_ONCE 128
#define RUNS_AT_ONCE 4    /* of libmicrohttpd, while it has more to do, before anybody else gets a turn */
#define RUNS_TO_CLOSE 100 /* of libmicrohttpd, until all connections are closed */

static int watch(const struct hs_server *server, int fd, const void *what) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what};

        return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int hs_loop_open(struct hs_server *server, struct sbx_error *err) {
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        int r = 0;

        server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (server->epoll_fd < 0 || server->wake_fd < 0 || info == NULL)
                r = info == NULL ? -ENOTSUP : -errno;
        if (r == 0)
                r = watch(server, server->wake_fd, &server->wake_fd);
        if (r == 0)
                r = watch(server, info->epoll_fd, &server->daemon);
        if (r == 0)
                r = watch(server, server->listen_fd, &server->listen_fd);
        if (r < 0)
                return sbx_error_set(err, r, HS_ORIGIN, NULL, "the server's descriptors can't be watched: %s",
                                     strerror(-r));
        return 0;
}

void hs_loop_wake(struct hs_server *server) {
        const uint64_t one = 1;

        (void)!write(server->wake_fd, &one, sizeof(one)); /* it can only be full, and then it wakes as well */
}

void hs_post(struct hs_exchange *exchange) {
        struct hs_server *server = exchange->server;
        bool first;

        if (exchange->posted || exchange->connection == NULL)
                return;
        exchange->posted = true;
        exchange->references++;
        exchange->next_ready = NULL;
        pthread_mutex_lock(&server->lock);
        first = server->ready == NULL;
        *server->ready_end = exchange;
        server->ready_end = &exchange->next_ready;
        pthread_mutex_unlock(&server->lock);
        if (first)
                hs_loop_wake(server);
}

/* Goes on with a connection that libmicrohttpd was told to leave alone. */
static void serve(struct hs_exchange *exchange) {
        bool gone_due;

        pthread_mutex_lock(&exchange->lock);
        exchange->posted = false;
        gone_due = exchange->gone_due;
        exchange->gone_due = false;
        if (exchange->connection != NULL && exchange->suspended &&
            (exchange->abort || exchange->response != NULL || exchange->streaming)) {
                exchange->suspended = false;
                hs_connection_phase(exchange->connection, HS_WRITING);
                MHD_resume_connection(exchange->connection->mhd);
        }
        pthread_mutex_unlock(&exchange->lock);
        if (gone_due)
                hs_exchange_gone(exchange);
}

static void serve_ready(struct hs_server *server) {
        struct hs_exchange *exchange, *next;

        pthread_mutex_lock(&server->lock);
        exchange = server->ready;
        server->ready = NULL;
        server->ready_end = &server->ready;
        pthread_mutex_unlock(&server->lock);
        for (; exchange != NULL; exchange = next) {
                next = exchange->next_ready;
                serve(exchange);
                hs_exchange_free_part(exchange);
        }
}

/* True: it has more to do at once. */
static bool run_library(struct hs_server *server) {
        MHD_UNSIGNED_LONG_LONG wait;

        for (unsigned i = 0; i < RUNS_AT_ONCE; i++) {
                MHD_run(server->daemon);
                if (MHD_get_timeout(server->daemon, &wait) != MHD_YES || wait > 0)
                        return false;
        }
        return true;
}

static int wait_ms(const struct hs_server *server, bool busy) {
        uint64_t now = hs_now_ns();

        if (busy || server->look_next_ns <= now)
                return 0;
        if (server->look_next_ns == UINT64_MAX)
                return -1;
        if (server->look_next_ns - now > UINT64_C(60000) * HS_NS_PER_MS)
                return 60000;
        return (int)((server->look_next_ns - now) / HS_NS_PER_MS) + 1;
}

static void look_at_deadlines(struct hs_server *server) {
        server->look_next_ns = UINT64_MAX;
        if (server->accept_again_ns != 0) {
                if (server->accept_again_ns > server->now_ns)
                        server->look_next_ns = server->accept_again_ns;
                else if (watch(server, server->listen_fd, &server->listen_fd) == 0)
                        server->accept_again_ns = 0;
                else
                        server->look_next_ns = server->accept_again_ns = server->now_ns + HS_NS_PER_MS;
        }
        hs_connections_look(server);
}

static bool handle_events(struct hs_server *server, const struct epoll_event *events, int count) {
        bool accept = false;
        uint64_t ignored;

        for (int i = 0; i < count; i++) {
                const void *what = events[i].data.ptr;

                if (what == &server->listen_fd)
                        accept = true;
                else if (what == &server->wake_fd)
                        (void)!read(server->wake_fd, &ignored, sizeof(ignored));
                else if (what != &server->daemon)
                        hs_connection_event(events[i].data.ptr, events[i].events);
        }
        return accept;
}

/* Tells everybody, and leaves no connection that libmicrohttpd would find waiting when it is stopped. */
static void close_all(struct hs_server *server) {
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
        close(server->listen_fd);
        server->listen_fd = -1;
        for (unsigned i = 0; i < RUNS_TO_CLOSE && server->connections != NULL; i++) {
                for (struct hs_connection *c = server->connections, *next; c != NULL; c = next) {
                        next = c->next;
                        c->linger = false;
                        if (c->phase != HS_DOOMED)
                                hs_connection_doom(c);
                }
                serve_ready(server);
                MHD_run(server->daemon);
        }
        /* The rest, if any, had not said what it wants. */
        MHD_stop_daemon(server->daemon);
        server->daemon = NULL;
        serve_ready(server);
}

static bool is_stopping(struct hs_server *server) {
        bool stopping;

        pthread_mutex_lock(&server->lock);
        stopping = server->stopping;
        pthread_mutex_unlock(&server->lock);
        return stopping;
}

void *hs_loop_run(void *data) {
        struct hs_server *server = data;
        struct epoll_event events[EVENTS_AT_ONCE];
        bool busy = false;

        pthread_setname_np(pthread_self(), "http-server");
        server->look_next_ns = UINT64_MAX;
        while (!is_stopping(server)) {
                int count = epoll_wait(server->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(server, busy));
                bool accept;

                server->now_ns = hs_now_ns();
                accept = handle_events(server, events, count);
                serve_ready(server);
                if (server->look_next_ns <= server->now_ns)
                        look_at_deadlines(server);
                if (accept) /* last: it may have connections closed that `events` name */
                        hs_accept(server);
                busy = run_library(server);
        }
        close_all(server);
        return NULL;
}
