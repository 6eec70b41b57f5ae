/* SPDX-License-Identifier: Apache-2.0 */
/* The address that is listened on, and the connections that come there. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"

#define BACKLOG 511
#define ACCEPT_AT_ONCE 64                              /* then connections that are open get their turn */
#define ACCEPT_PAUSE_NS (UINT64_C(100) * HS_NS_PER_MS) /* when the process has no descriptor left */

/* Splits "127.0.0.1:8000" and "[::1]:8000". */
static int split(const char *text, char host[HS_ADDRESS_SIZE], unsigned *ret_port) {
        const char *begin = text, *end, *digits;
        unsigned port = 0;

        if (*text == '[') {
                begin = text + 1;
                end = strchr(begin, ']');
                digits = end != NULL && end[1] == ':' ? end + 2 : NULL;
        } else {
                end = strchr(text, ':');
                digits = end != NULL ? end + 1 : NULL;
        }
        if (digits == NULL || *digits == '\0' || end == begin || (size_t)(end - begin) >= HS_ADDRESS_SIZE)
                return -EINVAL;
        for (; *digits != '\0'; digits++) {
                if (*digits < '0' || *digits > '9' || (port = port * 10 + (unsigned)(*digits - '0')) > 65535)
                        return -EINVAL;
        }
        memcpy(host, begin, (size_t)(end - begin));
        host[end - begin] = '\0';
        *ret_port = port;
        return 0;
}

int hs_address_parse(const char *text, struct hs_address *ret, struct sbx_error *err) {
        struct hs_address address = {0};
        struct sockaddr_in *four = (struct sockaddr_in *)(void *)&address.address;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&address.address;
        unsigned port;

        if (text == NULL || split(text, address.host, &port) < 0)
                goto invalid;
        if (strcmp(address.host, "localhost") == 0)
                snprintf(address.host, sizeof(address.host), "127.0.0.1");
        if (text[0] != '[' && inet_pton(AF_INET, address.host, &four->sin_addr) == 1) {
                four->sin_family = AF_INET;
                four->sin_port = htons((uint16_t)port);
                address.size = sizeof(*four);
                address.loopback = (ntohl(four->sin_addr.s_addr) >> 24) == 127;
        } else if (text[0] == '[' && inet_pton(AF_INET6, address.host, &six->sin6_addr) == 1) {
                six->sin6_family = AF_INET6;
                six->sin6_port = htons((uint16_t)port);
                address.size = sizeof(*six);
                address.loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
        } else {
                goto invalid;
        }
        *ret = address;
        return 0;
invalid:
        return sbx_error_set(
                err, -EINVAL, HS_ORIGIN,
                "Give an address and a port: \"127.0.0.1:8000\" or \"[::1]:8000\"; port 0 takes a free one.",
                "\"%s\" is no address to listen on", text != NULL ? text : "");
}

static int report_listen(const struct hs_address *address, int error, struct sbx_error *err) {
        const char *hint = NULL;
        bool six = address->address.ss_family == AF_INET6;
        unsigned port = ntohs(six ? ((const struct sockaddr_in6 *)(const void *)&address->address)->sin6_port
                                  : ((const struct sockaddr_in *)(const void *)&address->address)->sin_port);

        if (error == EADDRINUSE)
                hint = "Another program has this port: choose another, or 0 for a free one.";
        else if (error == EACCES)
                hint = "Ports below 1024 are the system's: choose a higher one.";
        else if (error == EADDRNOTAVAIL)
                hint = "This machine has no such address: see `ip address`.";
        return sbx_error_set(err, -error, HS_ORIGIN, hint, "can't listen on %s%s%s:%u: %s", six ? "[" : "",
                             address->host, six ? "]" : "", port, strerror(error));
}

int hs_listen(const struct hs_address *address, int *ret_fd, struct sbx_error *err) {
        int on = 1, error;
        int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return report_listen(address, errno, err);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (address->address.ss_family == AF_INET6)
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
        if (bind(fd, (const struct sockaddr *)&address->address, address->size) < 0 || listen(fd, BACKLOG) < 0) {
                error = errno;
                close(fd);
                return report_listen(address, error, err);
        }
        *ret_fd = fd;
        return 0;
}

/* For limits an IPv6 client is its network: one has 2^64 addresses to choose from. */
static bool same_client(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
        const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
        const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

        if (a->ss_family != b->ss_family)
                return false;
        if (a->ss_family == AF_INET)
                return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
        if (a->ss_family == AF_INET6)
                return memcmp(&a6->sin6_addr, &b6->sin6_addr, 8) == 0;
        return true;
}

/* Whoever has been silent for longest between two requests makes room, so that keeping connections open does not keep
 * others out. */
static bool make_room(struct hs_server *server) {
        struct hs_connection *oldest = NULL;

        for (struct hs_connection *c = server->connections; c != NULL; c = c->next)
                if (c->phase == HS_IDLE && (oldest == NULL || c->deadline_ns < oldest->deadline_ns))
                        oldest = c;
        if (oldest == NULL)
                return false;
        hs_connection_doom(oldest); /* closed before the loop waits again */
        return true;
}

static bool has_room(struct hs_server *server, const struct sockaddr_storage *peer) {
        unsigned same = 0;

        if (server->limits.per_address_max < server->limits.connections_max)
                for (const struct hs_connection *c = server->connections; c != NULL; c = c->next)
                        if (same_client(&c->peer, peer))
                                same++;
        if (same >= server->limits.per_address_max)
                return false;
        return server->open < server->limits.connections_max || make_room(server);
}

/* Says why, as far as that goes without waiting, and closes. */
static void turn_away(struct hs_server *server, int fd) {
        char drop[4096];

        hs_count_refusal(server, HS_REFUSED_CONNECTIONS);
        if (!server->tls) {
                hs_last_words(fd, "503 Service Unavailable", "too many connections",
                              "Close one that is idle, or come again later.");
                (void)!recv(fd, drop, sizeof(drop), MSG_DONTWAIT); /* what is unread would reset the connection */
        }
        close(fd);
}

/* A client whose machine has gone says nothing: after two minutes the kernel asks. */
static void set_socket_options(int fd) {
        int on = 1, idle_s = 60, interval_s = 15, probes = 4;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void format_address(const struct sockaddr_storage *peer, char address[HS_ADDRESS_SIZE]) {
        const struct sockaddr_in *four = (const void *)peer;
        const struct sockaddr_in6 *six = (const void *)peer;

        address[0] = '\0';
        if (peer->ss_family == AF_INET)
                inet_ntop(AF_INET, &four->sin_addr, address, HS_ADDRESS_SIZE);
        else if (peer->ss_family == AF_INET6)
                inet_ntop(AF_INET6, &six->sin6_addr, address, HS_ADDRESS_SIZE);
}

void hs_rate_key(const struct sockaddr_storage *peer, char key[HS_ADDRESS_SIZE]) {
        struct sockaddr_storage network = *peer;

        if (network.ss_family == AF_INET6)
                memset((uint8_t *)&((struct sockaddr_in6 *)(void *)&network)->sin6_addr + 8, 0, 8);
        format_address(&network, key);
}

int hs_adopt(struct hs_server *server, int fd, const struct sockaddr_storage *peer, socklen_t peer_size) {
        struct hs_connection *connection = calloc(1, sizeof(*connection));

        if (connection == NULL) {
                close(fd);
                return -ENOMEM;
        }
        connection->server = server;
        connection->fd = fd;
        connection->peer = *peer;
        format_address(peer, connection->address);
        set_socket_options(fd);
        /* hs_connection_notify takes it from `adding` when libmicrohttpd has taken the socket. */
        server->adding = connection;
        if (MHD_add_connection(server->daemon, fd, (const struct sockaddr *)peer, peer_size) != MHD_YES) {
                free(server->adding);
                server->adding = NULL;
                return -ENOMEM;
        }
        return 0;
}

static void pause_accepting(struct hs_server *server) {
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
        server->accept_again_ns = server->now_ns + ACCEPT_PAUSE_NS;
        if (server->look_next_ns > server->accept_again_ns)
                server->look_next_ns = server->accept_again_ns;
        if (!server->accept_fails)
                hs_log(server, SBX_LOG_WARNING, "no new connection can be taken for want of descriptors or memory");
        server->accept_fails = true;
}

void hs_accept(struct hs_server *server) {
        for (unsigned i = 0; i < ACCEPT_AT_ONCE; i++) {
                struct sockaddr_storage peer = {0};
                socklen_t size = sizeof(peer);
                int fd = accept4(server->listen_fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                        continue;
                if (fd < 0) {
                        if (errno != EAGAIN)
                                pause_accepting(server);
                        return;
                }
                server->accept_fails = false;
                hs_count(server, HS_COUNT_CONNECTIONS, 1);
                if (has_room(server, &peer))
                        hs_adopt(server, fd, &peer, size);
                else
                        turn_away(server, fd);
        }
}
