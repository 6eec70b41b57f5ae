/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: whole transfers on every kind, deadlines, cancelling, whole files. */
#include "../test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define BIG (3u << 20) /* more than any pipe or socket holds */

static struct sbx_call call_for_ms(uint64_t ms, int cancel_fd) {
        return (struct sbx_call){.struct_size = sizeof(struct sbx_call),
                                 .cancel_fd = cancel_fd,
                                 .deadline_ns = ms > 0 ? sbx_clock_deadline_ms(ms) : 0};
}

static void close_both(const int fds[2]) {
        close(fds[0]);
        close(fds[1]);
}

static void makes_descriptors_that_do_not_leak(void **state) {
        int pipe_fds[2], socket_fds[2];

        assert_int_equal(sbx_fd_pipe(pipe_fds), 0);
        assert_int_equal(sbx_fd_socketpair(SOCK_SEQPACKET, socket_fds), 0);
        for (int i = 0; i < 2; i++) {
                assert_true((fcntl(pipe_fds[i], F_GETFD) & FD_CLOEXEC) != 0);
                assert_true((fcntl(socket_fds[i], F_GETFD) & FD_CLOEXEC) != 0);
        }
        assert_int_equal(sbx_fd_set_nonblocking(pipe_fds[0], true), 0);
        assert_true((fcntl(pipe_fds[0], F_GETFL) & O_NONBLOCK) != 0);
        assert_int_equal(sbx_fd_set_nonblocking(pipe_fds[0], false), 0);
        assert_true((fcntl(pipe_fds[0], F_GETFL) & O_NONBLOCK) == 0);
        assert_int_equal(sbx_fd_set_nonblocking(-1, true), -EBADF);
        close_both(pipe_fds);
        close_both(socket_fds);
}

static void waits_no_longer_than_it_should(void **state) {
        struct sbx_call call = call_for_ms(50, -1);
        int fds[2], cancel[2];
        uint64_t start = sbx_clock_ns();

        assert_int_equal(sbx_fd_pipe(fds), 0);
        assert_int_equal(sbx_fd_pipe(cancel), 0);
        assert_int_equal(sbx_fd_wait(fds[0], POLLIN, &call), -ETIMEDOUT);
        assert_true(sbx_clock_ns() - start >= 50 * SBX_NS_PER_MS);
        assert_int_equal(sbx_fd_wait(fds[0], POLLIN, &call), -ETIMEDOUT); /* a deadline that has passed */
        assert_int_equal(sbx_fd_wait(fds[1], POLLOUT, &call), 0);         /* what is ready is ready all the same */
        assert_int_equal(write(cancel[1], "x", 1), 1);
        call = call_for_ms(0, cancel[0]);
        assert_int_equal(sbx_fd_wait(fds[0], POLLIN, &call), -ECANCELED);
        close(fds[1]);
        assert_int_equal(sbx_fd_wait(fds[0], POLLIN, NULL), 0); /* a hang-up wakes the reader */
        close(fds[0]);
        assert_int_equal(sbx_fd_wait(fds[0], POLLIN, NULL), -EBADF);
        close_both(cancel);
}

struct reader {
        int fd;
        size_t size;
        int result;
        char *data;
};

static void *read_slowly(void *data) {
        struct reader *reader = data;
        size_t part = reader->size / 3;

        usleep(20000);
        reader->result = sbx_fd_read_all(reader->fd, reader->data, part, NULL);
        usleep(20000);
        if (reader->result == 0)
                reader->result = sbx_fd_read_all(reader->fd, reader->data + part, reader->size - part, NULL);
        return NULL;
}

static void transfer_whole(const int fds[2], bool nonblocking, const struct sbx_call *call) {
        char *sent = malloc(BIG), *received = calloc(1, BIG);
        struct reader reader = {.fd = fds[0], .size = BIG, .result = -1, .data = received};
        pthread_t thread;

        for (size_t i = 0; i < BIG; i++)
                sent[i] = (char)(i * 31 + i / 997);
        assert_int_equal(sbx_fd_set_nonblocking(fds[0], nonblocking), 0);
        assert_int_equal(sbx_fd_set_nonblocking(fds[1], nonblocking), 0);
        assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
        assert_int_equal(sbx_fd_write_all(fds[1], (struct sbx_bytes){sent, BIG}, call), 0);
        pthread_join(thread, NULL);
        assert_int_equal(reader.result, 0);
        assert_memory_equal(sent, received, BIG);
        free(sent);
        free(received);
}

static void transfers_all_on_every_kind(void **state) {
        for (unsigned kind = 0; kind < 8; kind++) {
                struct sbx_call call = call_for_ms(20000, -1);
                int fds[2];

                assert_int_equal(kind & 1 ? sbx_fd_pipe(fds) : sbx_fd_socketpair(SOCK_STREAM, fds), 0);
                transfer_whole(fds, (kind & 2) != 0, kind & 4 ? &call : NULL);
                close_both(fds);
        }
}

static void gives_up_at_the_deadline(void **state) {
        char *data = calloc(1, BIG);

        for (unsigned kind = 0; kind < 4; kind++) {
                struct sbx_call call = call_for_ms(60, -1);
                uint64_t start = sbx_clock_ns();
                int fds[2];

                assert_int_equal(kind & 1 ? sbx_fd_pipe(fds) : sbx_fd_socketpair(SOCK_STREAM, fds), 0);
                assert_int_equal(sbx_fd_set_nonblocking(fds[1], (kind & 2) != 0), 0);
                assert_int_equal(sbx_fd_write_all(fds[1], (struct sbx_bytes){data, BIG}, &call), -ETIMEDOUT);
                assert_true(sbx_clock_ns() - start < 5 * SBX_NS_PER_S);
                close_both(fds);
        }
        free(data);
}

static void tells_the_end(void **state) {
        char data[4];
        int fds[2];

        signal(SIGPIPE, SIG_DFL);
        assert_int_equal(sbx_fd_socketpair(SOCK_STREAM, fds), 0);
        assert_int_equal(sbx_fd_write_all(fds[1], BYTES("ab"), NULL), 0);
        close(fds[1]);
        assert_int_equal(sbx_fd_read_all(fds[0], data, 4, NULL), -EPIPE);
        assert_int_equal(sbx_fd_write_all(fds[0], BYTES("x"), NULL), -EPIPE); /* and no SIGPIPE */
        assert_int_equal(sbx_fd_read_all(fds[0], data, 0, NULL), 0);
        close(fds[0]);
        assert_int_equal(sbx_fd_pipe(fds), 0);
        close(fds[1]);
        assert_int_equal(sbx_fd_read_all(fds[0], data, 1, NULL), -EPIPE);
        close(fds[0]);
        assert_int_equal(sbx_fd_read_all(fds[0], data, 1, NULL), -EBADF);
}

/* ---- files ---- */

static char directory[] = "/tmp/sbx-fd-XXXXXX";
static int dir_fd;

static int setup(void **state) {
        if (mkdtemp(directory) == NULL)
                return -1;
        dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return dir_fd < 0 ? -1 : 0;
}

static int teardown(void **state) {
        unlinkat(dir_fd, "file", 0);
        unlinkat(dir_fd, "fifo", 0);
        close(dir_fd);
        return rmdir(directory);
}

static void write_file(size_t size) {
        int fd = openat(dir_fd, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        for (size_t i = 0; i < size; i++)
                assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
}

static void reads_files_up_to_their_maximum(void **state) {
        static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 9000};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct sbx_buffer out = SBX_BUFFER(sizes[i] + 3);
                struct sbx_error err = {0};

                write_file(sizes[i]);
                assert_int_equal(sbx_buffer_append_text(&out, "in:"), 0);
                assert_int_equal(sbx_file_read(dir_fd, "file", sizes[i], &out, &err), 0);
                assert_int_equal(out.size, sizes[i] + 3);
                assert_int_equal(strlen(out.data), out.size);
                if (sizes[i] > 0) {
                        assert_int_equal(sbx_file_read(dir_fd, "file", sizes[i] - 1, &out, &err), -EFBIG);
                        assert_contains(err.message, "file is larger than");
                        assert_int_equal(out.size, sizes[i] + 3);
                }
                sbx_buffer_free(&out);
        }
}

static void reads_files_that_lie_about_their_size(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1u << 20);
        struct sbx_error err = {0};

        assert_int_equal(sbx_file_read(AT_FDCWD, "/proc/self/status", 1u << 20, &out, &err), 0);
        assert_contains(out.data, "Threads:");
        assert_int_equal(sbx_file_read(AT_FDCWD, "/proc/self/status", 10, &out, &err), -EFBIG);
        sbx_buffer_free(&out);
}

static void refuses_what_is_no_file(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100);
        struct sbx_error err = {0};

        assert_int_equal(sbx_file_read(dir_fd, "absent", 100, &out, &err), -ENOENT);
        assert_string_equal(err.message, "can't open absent: No such file or directory");
        assert_int_equal(sbx_file_read(dir_fd, ".", 100, &out, NULL), -EINVAL);
        assert_int_equal(mkfifoat(dir_fd, "fifo", 0600), 0);
        assert_int_equal(sbx_file_read(dir_fd, "fifo", 100, &out, NULL), -EINVAL); /* and does not wait for a writer */
        assert_int_equal(sbx_file_read(AT_FDCWD, "/dev/zero", 100, &out, NULL), -EINVAL);
        sbx_buffer_free(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(makes_descriptors_that_do_not_leak),
                cmocka_unit_test(waits_no_longer_than_it_should),
                cmocka_unit_test(transfers_all_on_every_kind),
                cmocka_unit_test(gives_up_at_the_deadline),
                cmocka_unit_test(tells_the_end),
                cmocka_unit_test(reads_files_up_to_their_maximum),
                cmocka_unit_test(reads_files_that_lie_about_their_size),
                cmocka_unit_test(refuses_what_is_no_file),
        };

        return cmocka_run_group_tests_name("fd", tests, setup, teardown);
}
