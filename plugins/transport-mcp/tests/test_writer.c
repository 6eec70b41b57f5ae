/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: pipes, sockets and files; readers that are slow, silent or gone. */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "writer.h"

static void send_text(struct mcp_writer *writer, const char *text, bool droppable) {
        struct sbx_bytes parts[] = {
                {NULL, 0}, {text, strlen(text) / 2}, {text + strlen(text) / 2, strlen(text) - strlen(text) / 2}};

        mcp_writer_send(writer, parts, 3, droppable, false);
}

static void check_read(int fd, const char *expected) {
        char got[4096];
        ssize_t count = read(fd, got, sizeof(got) - 1);

        assert_true(count >= 0);
        got[count] = '\0';
        assert_string_equal(got, expected);
}

/* Everything up to the end, counted; -1 where a line is not what send_lines wrote. */
static long read_lines(int fd, size_t length) {
        char *line = malloc(length + 1);
        long count = 0;
        size_t used = 0;
        ssize_t got;

        assert_non_null(line);
        while ((got = read(fd, line + used, length + 1 - used)) > 0) {
                used += (size_t)got;
                if (used < length + 1)
                        continue;
                if (line[length] != '\n' || memchr(line, '\n', length) != NULL) {
                        count = -1;
                        break;
                }
                used = 0;
                count++;
        }
        free(line);
        return used == 0 ? count : -1;
}

static void make_pair(bool use_socket, int *ret_read, int *ret_write) {
        int fds[2];

        if (use_socket)
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        else
                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        *ret_read = fds[0];
        *ret_write = fds[1];
}

static void check_small(bool use_socket) {
        struct mcp_writer writer;
        int reader, fd;

        make_pair(use_socket, &reader, &fd);
        assert_int_equal(mcp_writer_init(&writer, fd, NULL), 0);
        send_text(&writer, "{\"a\":1}", false);
        check_read(reader, "{\"a\":1}\n");
        assert_int_equal(mcp_writer_state(&writer), MCP_WRITER_IDLE);
        assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0); /* others may share the description */
        mcp_writer_free(&writer);
        close(fd);
        close(reader);
}

static void test_small(void **test) {
        check_small(false);
        check_small(true);
}

#define LINE_BYTES 30000u

/* A reader that reads nothing: nobody blocks, what is droppable is dropped, and afterwards all the rest is there. */
static void check_behind(bool use_socket, bool cautious) {
        struct mcp_writer writer;
        char *line = malloc(LINE_BYTES + 1);
        long sent = 0;
        int reader, fd;

        assert_non_null(line);
        memset(line, 'x', LINE_BYTES);
        line[LINE_BYTES] = '\0';
        make_pair(use_socket, &reader, &fd);
        assert_int_equal(mcp_writer_init(&writer, fd, NULL), 0);
        if (cautious) { /* as when /proc is not there */
                close(writer.own_fd);
                writer.own_fd = -1;
                writer.cautious = true;
        }
        while (mcp_writer_state(&writer) < MCP_WRITER_FULL) {
                send_text(&writer, line, false);
                sent++;
                if (mcp_writer_state(&writer) != MCP_WRITER_IDLE)
                        send_text(&writer, "dropped", true);
        }
        assert_true(sent > 4 * 1000 * 1000 / (long)LINE_BYTES);
        assert_int_equal(mcp_writer_flush(&writer), MCP_WRITER_FULL);

        assert_int_equal(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
        while (mcp_writer_state(&writer) != MCP_WRITER_IDLE) {
                struct pollfd wait = {.fd = fd, .events = POLLOUT};
                char got[5000];
                ssize_t count = 0;
                long newlines = 0;

                while ((count = read(reader, got, sizeof(got))) > 0)
                        for (ssize_t i = 0; i < count; i++) {
                                assert_true(got[i] == 'x' || got[i] == '\n');
                                newlines += got[i] == '\n';
                        }
                sent -= newlines;
                assert_true(poll(&wait, 1, 1000) == 1);
                (void)mcp_writer_flush(&writer);
        }
        assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
        mcp_writer_free(&writer);
        close(fd);
        {
                char got[5000];
                ssize_t count;

                while ((count = read(reader, got, sizeof(got))) > 0)
                        for (ssize_t i = 0; i < count; i++)
                                sent -= got[i] == '\n';
        }
        assert_int_equal(sent, 0);
        close(reader);
        free(line);
}

static void test_behind(void **test) {
        check_behind(false, false);
        check_behind(true, false);
        check_behind(false, true);
}

/* Many threads, a loop that drains, a slow reader: every line whole. */
struct crowd {
        struct mcp_writer writer;
        const char *line;
};

#define CROWD_THREADS 4
#define CROWD_LINES 100

static void *send_crowd(void *data) {
        struct crowd *crowd = data;
        struct sbx_bytes part = {crowd->line, LINE_BYTES};

        for (int i = 0; i < CROWD_LINES; i++)
                mcp_writer_send(&crowd->writer, &part, 1, false, true);
        return NULL;
}

struct reading {
        int fd;
        long lines;
};

static void *read_slowly(void *data) {
        struct reading *reading = data;

        usleep(50000);
        reading->lines = read_lines(reading->fd, LINE_BYTES);
        return NULL;
}

static void check_crowd(bool use_socket) {
        struct crowd crowd;
        struct reading reading = {-1, 0};
        pthread_t threads[CROWD_THREADS], reader;
        char *line = malloc(LINE_BYTES + 1);
        int fd;

        assert_non_null(line);
        memset(line, 'y', LINE_BYTES);
        crowd.line = line;
        make_pair(use_socket, &reading.fd, &fd);
        assert_int_equal(mcp_writer_init(&crowd.writer, fd, NULL), 0);
        assert_int_equal(pthread_create(&reader, NULL, read_slowly, &reading), 0);
        for (int i = 0; i < CROWD_THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, send_crowd, &crowd), 0);
        for (int i = 0; i < CROWD_THREADS; i++) {
                /* The loop's part, until that thread is through. */
                while (pthread_tryjoin_np(threads[i], NULL) == EBUSY) {
                        struct pollfd wait = {.fd = fd, .events = POLLOUT};

                        (void)poll(&wait, 1, 1);
                        (void)mcp_writer_flush(&crowd.writer);
                }
        }
        while (mcp_writer_flush(&crowd.writer) != MCP_WRITER_IDLE)
                usleep(1000);
        mcp_writer_free(&crowd.writer);
        close(fd);
        pthread_join(reader, NULL);
        close(reading.fd);
        assert_int_equal(reading.lines, CROWD_THREADS * CROWD_LINES);
        free(line);
}

static void test_crowd(void **test) {
        check_crowd(false);
        check_crowd(true);
}

static void *send_one(void *data) {
        struct mcp_writer *writer = data;
        struct sbx_bytes part = BYTES("late");

        mcp_writer_send(writer, &part, 1, false, true);
        return NULL;
}

/* A thread that waits for room goes on when the transport closes. */
static void test_close_frees_waiters(void **test) {
        struct mcp_writer writer;
        char *line = malloc(LINE_BYTES + 1);
        pthread_t thread;
        int reader, fd;

        assert_non_null(line);
        memset(line, 'x', LINE_BYTES);
        line[LINE_BYTES] = '\0';
        make_pair(false, &reader, &fd);
        assert_int_equal(mcp_writer_init(&writer, fd, NULL), 0);
        while (mcp_writer_state(&writer) < MCP_WRITER_FULL)
                send_text(&writer, line, false);
        assert_int_equal(pthread_create(&thread, NULL, send_one, &writer), 0);
        usleep(20000);
        assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
        mcp_writer_close(&writer);
        pthread_join(thread, NULL);
        mcp_writer_free(&writer);
        close(fd);
        close(reader);
        free(line);
}

static void check_gone(bool use_socket) {
        struct mcp_writer writer;
        int reader, fd;

        make_pair(use_socket, &reader, &fd);
        assert_int_equal(mcp_writer_init(&writer, fd, NULL), 0);
        close(reader);
        send_text(&writer, "hello", false);
        assert_int_equal(mcp_writer_state(&writer), MCP_WRITER_GONE);
        send_text(&writer, "hello", false);
        assert_int_equal(mcp_writer_flush(&writer), MCP_WRITER_GONE);
        mcp_writer_free(&writer);
        close(fd);
}

static void test_gone(void **test) {
        check_gone(false);
        check_gone(true);
}

static void test_file(void **test) {
        char path[] = "/tmp/sbx-writer-XXXXXX", *line = malloc(200001);
        struct mcp_writer writer;
        int fd = mkostemp(path, O_CLOEXEC);

        assert_true(fd >= 0);
        assert_non_null(line);
        memset(line, 'z', 200000);
        line[200000] = '\0';
        assert_int_equal(mcp_writer_init(&writer, fd, NULL), 0);
        send_text(&writer, line, false);
        assert_int_equal(mcp_writer_state(&writer), MCP_WRITER_IDLE);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 200001);
        mcp_writer_free(&writer);
        close(fd);
        unlink(path);
        free(line);
}

static void test_bad_descriptor(void **test) {
        struct mcp_writer writer;
        struct sbx_error err = {0};

        assert_int_equal(mcp_writer_init(&writer, -1, &err), -EBADF);
        assert_true(strlen(err.message) > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_small),          cmocka_unit_test(test_behind),
                cmocka_unit_test(test_crowd),          cmocka_unit_test(test_close_frees_waiters),
                cmocka_unit_test(test_gone),           cmocka_unit_test(test_file),
                cmocka_unit_test(test_bad_descriptor),
        };

        signal(SIGPIPE, SIG_IGN); /* as the program does */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
