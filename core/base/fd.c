/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: whole reads and writes that honour a call's deadline and cancel fd, pipes, waiting, whole files. */
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"

#define FILE_CHUNK 4096

int sbx_fd_set_nonblocking(int fd, bool nonblocking) {
        int flags = fcntl(fd, F_GETFL), wanted;

        if (flags < 0)
                return -errno;
        wanted = nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
        if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
                return -errno;
        return 0;
}

int sbx_fd_pipe(int ret_fds[2]) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        ret_fds[0] = fds[0];
        ret_fds[1] = fds[1];
        return 0;
}

int sbx_fd_socketpair(int type, int ret_fds[2]) {
        int fds[2];

        if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;
        ret_fds[0] = fds[0];
        ret_fds[1] = fds[1];
        return 0;
}

int sbx_fd_wait(int fd, short events, const struct sbx_call *call) {
        struct pollfd fds[2] = {{.fd = fd, .events = events},
                                {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN}};

        for (;;) {
                int timeout_ms = call != NULL ? sbx_clock_poll_ms(call->deadline_ns) : -1;
                int r = poll(fds, 2, timeout_ms); /* poll() passes over a negative descriptor */

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (fds[1].revents != 0)
                        return -ECANCELED;
                if ((fds[0].revents & POLLNVAL) != 0)
                        return -EBADF;
                if (fds[0].revents != 0)
                        return 0; /* an error or a hang-up is told by the read or write that follows */
                if (timeout_ms >= 0 && sbx_clock_ns() >= call->deadline_ns)
                        return -ETIMEDOUT;
        }
}

/* How a descriptor is used so that one call on it never blocks beyond the deadline. */
enum mode {
        MODE_SOCKET,      /* MSG_DONTWAIT */
        MODE_NONBLOCKING, /* as it is */
        MODE_BLOCKING,    /* wait for it first; a write is then at most PIPE_BUF bytes */
        MODE_UNBOUND,     /* no deadline and nothing to cancel: let it block */
};

static enum mode mode_without_socket(int fd, const struct sbx_call *call) {
        int flags = fcntl(fd, F_GETFL);

        if (flags >= 0 && (flags & O_NONBLOCK) != 0)
                return MODE_NONBLOCKING;
        return call != NULL && (call->deadline_ns != 0 || call->cancel_fd >= 0) ? MODE_BLOCKING : MODE_UNBOUND;
}

static ssize_t transfer(int fd, enum mode mode, char *data, size_t size, bool writing) {
        if (mode == MODE_SOCKET)
                return writing ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, data, size, MSG_DONTWAIT);
        /* A pipe that polls writable takes PIPE_BUF bytes without blocking: pipe(7). */
        if (writing && mode == MODE_BLOCKING && size > PIPE_BUF)
                size = PIPE_BUF;
        return writing ? write(fd, data, size) : read(fd, data, size);
}

static int transfer_all(int fd, char *data, size_t size, bool writing, const struct sbx_call *call) {
        short events = writing ? POLLOUT : POLLIN;
        enum mode mode = MODE_SOCKET; /* the common case here; ENOTSOCK corrects it */

        while (size > 0) {
                ssize_t n;
                int r = mode == MODE_BLOCKING ? sbx_fd_wait(fd, events, call) : 0;

                if (r < 0)
                        return r;
                n = transfer(fd, mode, data, size, writing);
                if (n > 0) {
                        data += n;
                        size -= (size_t)n;
                } else if (n == 0) {
                        return writing ? -EIO : -EPIPE;
                } else if (errno == ENOTSOCK && mode == MODE_SOCKET) {
                        mode = mode_without_socket(fd, call);
                } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                        r = sbx_fd_wait(fd, events, call);
                        if (r < 0)
                                return r;
                } else if (errno != EINTR) {
                        return -errno;
                }
        }
        return 0;
}

int sbx_fd_write_all(int fd, struct sbx_bytes bytes, const struct sbx_call *call) {
        return transfer_all(fd, (char *)bytes.data, bytes.size, true, call);
}

int sbx_fd_read_all(int fd, void *data, size_t size, const struct sbx_call *call) {
        return transfer_all(fd, data, size, false, call);
}

/* Reads to the end of the file, trusting its stated size for nothing but the first reservation. */
static int read_to_end(int fd, size_t hint, size_t max, struct sbx_buffer *out) {
        size_t total = 0, room = hint < max ? hint + 1 : max;

        for (;;) {
                char probe;
                ssize_t n;
                int r;

                if (room < FILE_CHUNK && room < max - total)
                        room = max - total < FILE_CHUNK ? max - total : FILE_CHUNK;
                r = sbx_buffer_reserve(out, room);
                if (r < 0)
                        return r;
                n = room > 0 ? read(fd, out->data + out->size, room) : read(fd, &probe, 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return 0;
                if (room == 0)
                        return -EFBIG;
                total += (size_t)n;
                out->size += (size_t)n;
                out->data[out->size] = '\0';
                room = max - total < room ? max - total : room;
        }
}

int sbx_fd_read_file(int fd, const char *path, size_t max, struct sbx_buffer *out, struct sbx_error *err) {
        size_t before = out->size;
        struct stat st;
        int r;

        if (max > out->max - out->size)
                max = out->max - out->size;
        if (fstat(fd, &st) < 0)
                r = -errno;
        else if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, "file", "Give the path of a regular file.",
                                     "%s is not a regular file", path);
        else if (st.st_size > 0 && (uintmax_t)st.st_size > max)
                r = -EFBIG;
        else
                r = read_to_end(fd, st.st_size > 0 ? (size_t)st.st_size : 0, max, out);
        if (r == 0)
                return 0;
        out->size = before;
        if (out->data != NULL)
                out->data[before] = '\0';
        if (r == -EFBIG)
                return sbx_error_set(err, r, "file", NULL, "%s is larger than %zu bytes", path, max);
        return sbx_error_set(err, r, "file", NULL, "can't read %s: %s", path, SBX_ERRNO_TEXT(r));
}

int sbx_file_read(int dir_fd, const char *path, size_t max, struct sbx_buffer *out, struct sbx_error *err) {
        /* Without O_NONBLOCK, opening a FIFO that somebody put there would wait for ever. */
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        int r = fd < 0 ? -errno : 0;

        if (r < 0)
                return sbx_error_set(err, r, "file", NULL, "can't open %s: %s", path, SBX_ERRNO_TEXT(r));
        return sbx_fd_read_file(fd, path, max, out, err);
}
