/* SPDX-License-Identifier: Apache-2.0 */
/* Gets a delegated scope from systemd, as `systemd-run --scope -p Delegate=yes` does: one method call,
 * org.freedesktop.systemd1.Manager.StartTransientUnit, on the manager's private socket. The message is laid out here
 * (D-Bus specification, "Message Protocol"), because a library for one fixed message would cost every start of the
 * program more than the call. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define MESSAGE_MAX 2048
#define REPLY_MAX 65536
#define WAIT_MS 3000

struct message {
        unsigned char data[MESSAGE_MAX];
        size_t size;
        bool overflow;
};

static void put(struct message *m, const void *data, size_t size) {
        if (size > sizeof(m->data) - m->size) {
                m->overflow = true;
                return;
        }
        memcpy(m->data + m->size, data, size);
        m->size += size;
}

static void put_byte(struct message *m, unsigned char value) {
        put(m, &value, 1);
}

static void align(struct message *m, size_t boundary) {
        while (m->size % boundary != 0 && !m->overflow)
                put_byte(m, 0);
}

static void put_u32(struct message *m, uint32_t value) {
        unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
                                  (unsigned char)(value >> 24)};

        align(m, 4);
        put(m, bytes, sizeof(bytes));
}

static void put_string(struct message *m, const char *text) {
        put_u32(m, (uint32_t)strlen(text));
        put(m, text, strlen(text) + 1);
}

static void put_signature(struct message *m, const char *text) {
        put_byte(m, (unsigned char)strlen(text));
        put(m, text, strlen(text) + 1);
}

/* Fills in the length of an array whose u32 stands at `length_at` and whose first element begins at `start`. */
static void end_array(struct message *m, size_t length_at, size_t start) {
        uint32_t length = (uint32_t)(m->size - start);

        for (int i = 0; i < 4 && !m->overflow; i++)
                m->data[length_at + (size_t)i] = (unsigned char)(length >> (8 * i));
}

/* A member of the header's a(yv). */
static void put_field(struct message *m, unsigned char code, const char *type, const char *text) {
        align(m, 8);
        put_byte(m, code);
        put_signature(m, type);
        if (*type == 'g')
                put_signature(m, text);
        else
                put_string(m, text);
}

/* A unit property of a(sv): its name and the type of its value, which the caller puts next. */
static void put_property(struct message *m, const char *name, const char *type) {
        align(m, 8);
        put_string(m, name);
        put_signature(m, type);
}

/* Signature "ssa(sv)a(sa(sv))": name, mode, properties, auxiliary units. */
static void put_body(struct message *m, const char *unit) {
        size_t length_at, start;

        put_string(m, unit);
        put_string(m, "fail");
        align(m, 4);
        length_at = m->size;
        put_u32(m, 0);
        align(m, 8);
        start = m->size;
        put_property(m, "Description", "s");
        put_string(m, "snipara-sandbox and its guests");
        put_property(m, "Delegate", "b");
        put_u32(m, 1);
        put_property(m, "CollectMode", "s");
        put_string(m, "inactive-or-failed");
        put_property(m, "PIDs", "au");
        put_u32(m, sizeof(uint32_t));
        put_u32(m, (uint32_t)getpid());
        end_array(m, length_at, start);
        put_u32(m, 0);
        align(m, 8);
}

static void put_header(struct message *m, uint32_t body_size) {
        size_t length_at, start;

        put(m, "l\1\0\1", 4); /* little endian, method call, no flags, protocol 1 */
        put_u32(m, body_size);
        put_u32(m, 1); /* serial */
        length_at = m->size;
        put_u32(m, 0);
        start = m->size;
        put_field(m, 1, "o", "/org/freedesktop/systemd1");
        put_field(m, 2, "s", "org.freedesktop.systemd1.Manager");
        put_field(m, 3, "s", "StartTransientUnit");
        put_field(m, 6, "s", "org.freedesktop.systemd1");
        put_field(m, 8, "g", "ssa(sv)a(sa(sv))");
        end_array(m, length_at, start);
        align(m, 8);
}

static uint64_t now_ms(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int send_all(int fd, const void *data, size_t size) {
        const char *p = data;

        while (size > 0) {
                ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

static int receive(int fd, void *data, size_t size, uint64_t deadline_ms) {
        char *p = data;

        while (size > 0) {
                uint64_t now = now_ms();
                struct pollfd pfd = {.fd = fd, .events = POLLIN};
                ssize_t n;

                if (now >= deadline_ms || poll(&pfd, 1, (int)(deadline_ms - now)) == 0)
                        return -ETIMEDOUT;
                n = recv(fd, p, size, MSG_DONTWAIT);
                if (n < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ECONNRESET;
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

static int connect_manager(void) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        int fd, n;

        if (geteuid() == 0)
                n = snprintf(address.sun_path, sizeof(address.sun_path), "/run/systemd/private");
        else if (runtime != NULL && *runtime == '/')
                n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/systemd/private", runtime);
        else
                n = snprintf(address.sun_path, sizeof(address.sun_path), "/run/user/%u/systemd/private", geteuid());
        if (n < 0 || (size_t)n >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                close(fd);
                return -ENOTSUP;
        }
        return fd;
}

/* SASL EXTERNAL: the uid, its decimal digits as hexadecimal; the socket proves it. */
static int authenticate(int fd, uint64_t deadline_ms) {
        char uid[16], line[64] = "AUTH EXTERNAL ", answer[128];
        size_t size = strlen(line), got = 0;
        int r;

        snprintf(uid, sizeof(uid), "%u", geteuid());
        for (const char *p = uid; *p != '\0'; p++)
                size += (size_t)snprintf(line + size, sizeof(line) - size, "%02x", (unsigned char)*p);
        size += (size_t)snprintf(line + size, sizeof(line) - size, "\r\n");
        r = send_all(fd, "", 1); /* the credentials byte, NUL */
        if (r == 0)
                r = send_all(fd, line, size);
        while (r == 0 && (got == 0 || answer[got - 1] != '\n')) {
                if (got == sizeof(answer))
                        return -EPROTO;
                r = receive(fd, answer + got, 1, deadline_ms);
                got++;
        }
        if (r < 0)
                return r;
        if (got < 3 || memcmp(answer, "OK ", 3) != 0)
                return -EPROTO;
        return send_all(fd, "BEGIN\r\n", 7);
}

static uint32_t get_u32(const unsigned char *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Reads messages until the answer to our call: 0 for a return, -EPROTO for an error. Signals may come before it. */
static int await_answer(int fd, uint64_t deadline_ms) {
        for (;;) {
                unsigned char head[16], *rest;
                uint32_t body, fields;
                size_t size;
                int r = receive(fd, head, sizeof(head), deadline_ms);

                if (r < 0)
                        return r;
                body = get_u32(head + 4);
                fields = get_u32(head + 12);
                if (head[0] != 'l' || body > REPLY_MAX || fields > REPLY_MAX)
                        return -EPROTO;
                size = ((size_t)fields + 7) / 8 * 8 + body;
                rest = malloc(size + 1);
                if (rest == NULL)
                        return -ENOMEM;
                r = receive(fd, rest, size, deadline_ms);
                free(rest);
                if (r < 0)
                        return r;
                if (head[1] == 2 || head[1] == 3)
                        return head[1] == 2 ? 0 : -EPROTO;
        }
}

/* The call only queues a job: waits until this process is in the unit. */
static int await_move(const char *unit, uint64_t deadline_ms) {
        for (;;) {
                char *path = NULL, *last;
                bool there;

                if (cgroup_own_directory(NULL, &path) == 0) {
                        last = strrchr(path, '/');
                        there = last != NULL && strcmp(last + 1, unit) == 0;
                        free(path);
                        if (there)
                                return 0;
                }
                if (now_ms() >= deadline_ms)
                        return -EPROTO;
                usleep(2000);
        }
}

int cgroup_enter_scope(const char *unit) {
        struct message header = {.size = 0}, body = {.size = 0};
        uint64_t deadline_ms = now_ms() + WAIT_MS;
        int fd, r;

        put_body(&body, unit);
        put_header(&header, (uint32_t)body.size);
        if (body.overflow || header.overflow)
                return -ENAMETOOLONG;
        fd = connect_manager();
        if (fd < 0)
                return fd;
        r = authenticate(fd, deadline_ms);
        if (r == 0)
                r = send_all(fd, header.data, header.size);
        if (r == 0)
                r = send_all(fd, body.data, body.size);
        if (r == 0)
                r = await_answer(fd, deadline_ms);
        close(fd);
        if (r == 0)
                r = await_move(unit, deadline_ms);
        return r;
}
