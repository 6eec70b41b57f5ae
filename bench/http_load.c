/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one HTTP request over and over, on several connections at once, one at a time on each, and measures how long
 * the answers take. One thread, epoll: a client that is cheaper than any server, so that the server's time is what is
 * seen.
 *
 *      http_load --address 127.0.0.1:8000 --path /mcp --connections 64 --seconds 5 --body FILE --expect TEXT
 *                [--header 'Name: value'] ... [--rate 3000]
 *
 * Each connection sends its next request when it has the answer to the last; with --rate, no earlier than its share of
 * that many requests a second allows. Then the time of an answer counts from when the request was due, so that a server
 * that keeps a client waiting does not look better for it.
 *
 * "@@" in the body is the number of the connection, in two digits. An answer must have status 200 and hold TEXT. Prints
 * one JSON object; ends with 1 at the first wrong answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 100
#define HEADERS_MAX 16
#define ANSWER_MAX ((size_t)1 << 20)
#define SAMPLES_MAX ((size_t)4 << 20)
#define WARM_SHARE 5 /* the first fifth of the time is not measured */

struct options {
        const char *address, *path, *body_file, *expect;
        const char *headers[HEADERS_MAX];
        unsigned header_count, connections;
        double seconds, rate; /* 0: as fast as it goes */
};

struct connection {
        int fd;
        char *request;
        size_t request_size, sent;
        char *answer; /* NUL-terminated at answer_size */
        size_t answer_size;
        uint64_t begun_ns; /* when the request was sent, or due */
        bool pausing;      /* until `begun_ns` */
};

struct load {
        struct options options;
        struct connection connections[CONNECTIONS_MAX];
        int epoll_fd;
        uint32_t *samples_ns; /* those of the measured time */
        size_t sample_count;
        uint64_t measure_from_ns, end_ns, last_ns;
};

static _Noreturn void fail(const char *what, const char *detail) {
        fprintf(stderr, "error: %s%s%.2000s\n", what, detail != NULL ? ": " : "", detail != NULL ? detail : "");
        exit(1);
}

static uint64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- the request ---- */

static char *read_body(const char *path, size_t *ret_size) {
        FILE *file = fopen(path, "re");
        char *text = malloc(ANSWER_MAX);

        if (file == NULL || text == NULL)
                fail("the body can't be read", path);
        *ret_size = fread(text, 1, ANSWER_MAX, file);
        if (ferror(file) || *ret_size == ANSWER_MAX)
                fail("the body can't be read, or is too large", path);
        fclose(file);
        return text;
}

static void number_body(char *body, size_t size, unsigned number) {
        for (size_t i = 0; i + 1 < size; i++)
                if (body[i] == '@' && body[i + 1] == '@') {
                        body[i] = (char)('0' + number / 10);
                        body[i + 1] = (char)('0' + number % 10);
                }
}

static void make_request(const struct options *options, struct connection *connection, unsigned number) {
        FILE *out = open_memstream(&connection->request, &connection->request_size);
        size_t size;
        char *body = read_body(options->body_file, &size);

        if (out == NULL)
                fail("out of memory", NULL);
        number_body(body, size, number);
        fprintf(out,
                "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n",
                options->path, options->address, size);
        for (unsigned i = 0; i < options->header_count; i++)
                fprintf(out, "%s\r\n", options->headers[i]);
        fputs("\r\n", out);
        fwrite(body, 1, size, out);
        if (fclose(out) != 0)
                fail("out of memory", NULL);
        free(body);
}

/* ---- connections ---- */

static int connect_to(const char *address) {
        struct sockaddr_in to = {.sin_family = AF_INET};
        const char *colon = strrchr(address, ':');
        char host[INET_ADDRSTRLEN];
        int fd, one = 1;

        if (colon == NULL || (size_t)(colon - address) >= sizeof(host))
                fail("not HOST:PORT", address);
        memcpy(host, address, (size_t)(colon - address));
        host[colon - address] = '\0';
        to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (void *)&to, sizeof(to)) < 0)
                fail(address, strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

/* Requests are small enough for the socket's buffer: a write never waits. */
static void send_request(struct connection *connection) {
        connection->answer_size = 0;
        connection->pausing = false;
        if (write(connection->fd, connection->request, connection->request_size) != (ssize_t)connection->request_size)
                fail("a request could not be sent", strerror(errno));
}

static void begin_next(const struct load *load, struct connection *connection) {
        uint64_t now = now_ns();

        if (load->options.rate <= 0)
                connection->begun_ns = now;
        else
                connection->begun_ns += (uint64_t)(load->options.connections / load->options.rate * 1e9);
        connection->pausing = connection->begun_ns > now;
        if (!connection->pausing)
                send_request(connection);
}

/* Sends what is due, and says how long nothing else is. */
static struct timespec send_due(struct load *load) {
        uint64_t now = now_ns(), next = now + UINT64_C(30000000000);

        for (unsigned i = 0; i < load->options.connections; i++) {
                struct connection *connection = &load->connections[i];

                if (connection->pausing && connection->begun_ns <= now)
                        send_request(connection);
                else if (connection->pausing && connection->begun_ns < next)
                        next = connection->begun_ns;
        }
        return (struct timespec){.tv_sec = (time_t)((next - now) / UINT64_C(1000000000)),
                                 .tv_nsec = (long)((next - now) % UINT64_C(1000000000))};
}

static void open_connection(struct load *load, unsigned number) {
        struct connection *connection = &load->connections[number];
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

        connection->fd = connect_to(load->options.address);
        connection->answer = malloc(ANSWER_MAX + 1);
        if (connection->answer == NULL)
                fail("out of memory", NULL);
        make_request(&load->options, connection, number);
        if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
                fail("epoll", strerror(errno));
        /* The connections take turns. */
        connection->begun_ns = now_ns();
        if (load->options.rate > 0)
                connection->begun_ns += (uint64_t)(number / load->options.rate * 1e9);
        connection->pausing = load->options.rate > 0;
        if (!connection->pausing)
                send_request(connection);
}

/* ---- answers ---- */

/* Whether the whole answer is there: as long as its head says, or its last chunk has come. */
static bool is_complete(const struct connection *connection) {
        const char *body = strstr(connection->answer, "\r\n\r\n"), *length;
        size_t head;

        if (body == NULL)
                return false;
        head = (size_t)(body - connection->answer) + 4;
        length = strcasestr(connection->answer, "\r\ncontent-length:");
        if (length != NULL && length < body)
                return connection->answer_size >= head + strtoul(length + 17, NULL, 10);
        return connection->answer_size >= head + 5 &&
               memcmp(connection->answer + connection->answer_size - 5, "0\r\n\r\n", 5) == 0;
}

static void check_answer(const struct load *load, const struct connection *connection) {
        if (strncmp(connection->answer, "HTTP/1.1 200", 12) != 0 ||
            strstr(connection->answer, load->options.expect) == NULL)
                fail("a wrong answer", connection->answer);
}

static void take_sample(struct load *load, const struct connection *connection) {
        uint64_t now = now_ns();

        if (connection->begun_ns < load->measure_from_ns || load->sample_count == SAMPLES_MAX)
                return;
        load->samples_ns[load->sample_count++] = (uint32_t)(now - connection->begun_ns);
        load->last_ns = now;
}

/* False: the connection has no more to do. */
static bool read_answer(struct load *load, struct connection *connection) {
        ssize_t count = read(connection->fd, connection->answer + connection->answer_size,
                             ANSWER_MAX - connection->answer_size);

        if (count <= 0)
                fail("the server closed a connection", count < 0 ? strerror(errno) : NULL);
        connection->answer_size += (size_t)count;
        connection->answer[connection->answer_size] = '\0';
        if (!is_complete(connection))
                return true;
        check_answer(load, connection);
        take_sample(load, connection);
        if (now_ns() >= load->end_ns)
                return false;
        begin_next(load, connection);
        return true;
}

static void run(struct load *load) {
        unsigned live = load->options.connections;
        struct epoll_event events[CONNECTIONS_MAX];

        while (live > 0) {
                struct timespec timeout = send_due(load);
                int count = epoll_pwait2(load->epoll_fd, events, CONNECTIONS_MAX, &timeout, NULL);

                if (count == 0 && timeout.tv_sec >= 30)
                        fail("the server does not answer", NULL);
                for (int i = 0; i < count; i++) {
                        struct connection *connection = &load->connections[events[i].data.u32];

                        if (!read_answer(load, connection)) {
                                close(connection->fd);
                                live--;
                        }
                }
        }
}

/* ---- the program ---- */

static int compare(const void *left, const void *right) {
        uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

        return (a > b) - (a < b);
}

static double percentile_us(const struct load *load, double share) {
        return load->samples_ns[(size_t)((double)(load->sample_count - 1) * share)] / 1000.0;
}

static void report(struct load *load) {
        double seconds = (double)(load->last_ns - load->measure_from_ns) / 1e9;

        if (load->sample_count == 0)
                fail("nothing was measured: give it more time", NULL);
        qsort(load->samples_ns, load->sample_count, sizeof(*load->samples_ns), compare);
        printf("{\"connections\": %u, \"requests\": %zu, \"per_second\": %.0f, \"median_us\": %.1f, \"p99_us\": %.1f, "
               "\"max_us\": %.1f}\n",
               load->options.connections, load->sample_count, (double)load->sample_count / seconds,
               percentile_us(load, 0.5), percentile_us(load, 0.99), percentile_us(load, 1));
}

static bool read_option(struct options *options, const char *name, const char *value) {
        if (strcmp(name, "--address") == 0)
                options->address = value;
        else if (strcmp(name, "--path") == 0)
                options->path = value;
        else if (strcmp(name, "--body") == 0)
                options->body_file = value;
        else if (strcmp(name, "--expect") == 0)
                options->expect = value;
        else if (strcmp(name, "--connections") == 0)
                options->connections = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(name, "--seconds") == 0)
                options->seconds = strtod(value, NULL);
        else if (strcmp(name, "--rate") == 0)
                options->rate = strtod(value, NULL);
        else if (strcmp(name, "--header") == 0 && options->header_count < HEADERS_MAX)
                options->headers[options->header_count++] = value;
        else
                return false;
        return true;
}

int main(int argc, char **argv) {
        static struct load load = {.options = {.path = "/mcp", .expect = "", .connections = 1, .seconds = 5}};
        uint64_t begun;

        for (int i = 1; i < argc; i += 2)
                if (i + 1 >= argc || !read_option(&load.options, argv[i], argv[i + 1]))
                        fail("not an option, or its value is missing", argv[i]);
        if (load.options.address == NULL || load.options.body_file == NULL || load.options.connections == 0 ||
            load.options.connections > CONNECTIONS_MAX || load.options.seconds <= 0)
                fail("give --address, --body, and sensible --connections (to 100) and --seconds", NULL);
        load.samples_ns = malloc(SAMPLES_MAX * sizeof(*load.samples_ns));
        load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (load.samples_ns == NULL || load.epoll_fd < 0)
                fail("out of memory", NULL);
        begun = now_ns();
        load.measure_from_ns = begun + (uint64_t)(load.options.seconds * 1e9 / WARM_SHARE);
        load.end_ns = begun + (uint64_t)(load.options.seconds * 1e9);
        for (unsigned i = 0; i < load.options.connections; i++)
                open_connection(&load, i);
        run(&load);
        report(&load);
        return 0;
}
