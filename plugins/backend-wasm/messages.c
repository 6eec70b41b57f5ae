/* SPDX-License-Identifier: Apache-2.0 */
/* Sending and receiving messages with descriptors. */
#include "messages.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "backend.h"
#include "helper/protocol.h"
#include "util.h"

int message_send(int socket, const void *message, size_t size, const int *fds, size_t fd_count) {
        struct iovec iov = {(void *)message, size};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * HELPER_FDS_MAX)];
        } control = {0};
        struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (fd_count > HELPER_FDS_MAX)
                return -EINVAL;
        if (fd_count > 0) {
                header.msg_control = &control;
                header.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * fd_count);
        }
        do
                n = sendmsg(socket, &header, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
        return 0;
}

/* The one descriptor of a message; of more, none. */
static int take_descriptor(struct msghdr *header, int *ret_fd) {
        struct cmsghdr *control = CMSG_FIRSTHDR(header);

        *ret_fd = -1;
        if (control == NULL)
                return 0;
        if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
            control->cmsg_len == CMSG_LEN(sizeof(int)))
                memcpy(ret_fd, CMSG_DATA(control), sizeof(int));
        return *ret_fd >= 0 && (header->msg_flags & MSG_CTRUNC) == 0 ? 0 : -EBADMSG;
}

int message_receive(int socket, void *message, size_t size, const struct sbx_call *call, int limit_ms, int *ret_fd) {
        struct iovec iov = {message, size};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        /* Without the padding at its end there is no room for a second descriptor: the kernel closes it. */
        struct msghdr header = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
        ssize_t n;
        int r = wait_fd(socket, POLLIN, call, limit_ms);

        if (r < 0)
                return r;
        do
                n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
                return -EPIPE;
        if (n < 0)
                return -errno;
        r = take_descriptor(&header, ret_fd);
        if (r == 0 && ((size_t)n != size || (header.msg_flags & MSG_TRUNC) != 0))
                r = -EBADMSG;
        if (r < 0)
                close_fd(ret_fd);
        return r;
}
