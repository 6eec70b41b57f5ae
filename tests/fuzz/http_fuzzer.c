/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a client of the HTTP server can send: the input goes to a real server over a loopback connection, whole
 * or in two pieces, and whatever reaches a handler must be what the server promises. Each input must end with the
 * connection closed. For libFuzzer (-Dfuzzers=true with clang); replay.c runs it on files. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 4096
#define HEADER_MAX 4096
#define WAIT_S 60 /* that the server lets a connection hang is a failure */

static void require(bool promise) {
        if (!promise)
                abort();
}

static void check_path(const char *path) {
        size_t size = strlen(path);

        require(path[0] == '/' && strstr(path, "//") == NULL && strstr(path, "/../") == NULL);
        require(size == 1 || path[size - 1] != '/');
        require(strpbrk(path, "\r\n\\%?#") == NULL);
}

static void check_header(const char *value) {
        for (; value != NULL && *value != '\0'; value++)
                require((unsigned char)*value >= 0x20 || *value == '\t');
}

static void check_host(const char *host) {
        require(host == NULL || strncasecmp(host, "localhost", 9) == 0 || strncmp(host, "127.", 4) == 0 ||
                strncmp(host, "[::1]", 5) == 0);
}

static void check(struct hs_exchange *exchange) {
        const char *length = hs_header(exchange, "content-length");
        struct sbx_bytes body = hs_body(exchange);

        check_path(hs_path(exchange));
        require(strcmp(hs_method(exchange), "GET") == 0 || strcmp(hs_method(exchange), "POST") == 0);
        check_header(hs_header(exchange, "X-Test"));
        check_header(hs_header(exchange, "Accept"));
        check_host(hs_header(exchange, "Host"));
        require(length == NULL || hs_header(exchange, "Transfer-Encoding") == NULL);
        require(body.size <= BODY_MAX);
        require(strcmp(hs_principal(exchange), "") == 0);
        hs_query(exchange, "q");
}

static void echo(void *data, struct hs_exchange *exchange) {
        static const struct hs_header headers[] = {{"Content-Type", "application/octet-stream"}, {NULL, NULL}};

        check(exchange);
        hs_respond(exchange, 200, headers, hs_body(exchange));
}

static void stream(void *data, struct hs_exchange *exchange) {
        struct sbx_bytes piece = {"piece", 5};

        check(exchange);
        hs_stream(exchange, 200, NULL);
        while (hs_write(exchange, &piece, 1) == 0 && piece.size > 1)
                piece.size--;
        hs_end(exchange);
}

static void forget(void *data, struct hs_exchange *exchange) {
        check(exchange);
}

static const struct hs_route routes[] = {
        {"/", "GET, POST", 0, NULL, echo},
        {"/stream", "GET, POST", 0, NULL, stream},
        {"/forget", "POST", 0, NULL, forget},
        {NULL, NULL, 0, NULL, NULL},
};

static struct hs_server *server;
static struct sockaddr_in address;

static void stop_server(void) {
        hs_server_free(server);
}

static void start_server(void) {
        const struct hs_settings settings = {
                .listen = "127.0.0.1:0",
                .body_max = BODY_MAX,
                .header_max = HEADER_MAX,
                .stream_max = 64,
        };
        const char *colon;
        unsigned port = 0;

        require(hs_server_start(&settings, routes, &server, NULL) == 0);
        colon = strrchr(hs_server_url(server), ':');
        require(colon != NULL);
        for (const char *digit = colon + 1; *digit != '\0'; digit++)
                port = port * 10 + (unsigned)(*digit - '0');
        address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        require(atexit(stop_server) == 0);
}

static void send_all(int fd, const uint8_t *data, size_t size) {
        while (size > 0) {
                ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

                if (sent <= 0)
                        return; /* the server has had enough */
                data += sent;
                size -= (size_t)sent;
        }
}

/* The first byte says where the rest is cut in two: at so many 256ths of it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        const struct timeval wait = {.tv_sec = WAIT_S};
        const struct linger linger = {.l_onoff = 1};
        char buffer[4096];
        ssize_t received;
        size_t cut;
        int fd, on = 1;

        if (size == 0)
                return 0;
        pthread_once(&once, start_server);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        require(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)); /* no port is left waiting */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        cut = (size - 1) * data[0] / 256;
        send_all(fd, data + 1, cut);
        send_all(fd, data + 1 + cut, size - 1 - cut);
        shutdown(fd, SHUT_WR);
        do
                received = recv(fd, buffer, sizeof(buffer), 0);
        while (received > 0);
        require(received == 0 || errno == ECONNRESET);
        close(fd);
        return 0;
}
