/* SPDX-License-Identifier: Apache-2.0 */
/* Whole messages with descriptors over SOCK_SEQPACKET. */
#include <sys/socket.h>

#include "messages.h"
#include "util.h"

int helper_send(int socket, const void *message, size_t size, int fd) {
        struct iovec iov = {(void *)message, size};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (fd >= 0) {
                msg.msg_control = &control;
                msg.msg_controllen = sizeof(control);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
        }
        do
                n = sendmsg(socket, &msg, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

static void take_fds(struct msghdr *msg, struct received_fds *ret_fds) {
        ret_fds->count = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len && ret_fds->count < HELPER_FDS_MAX;
                     i++)
                        memcpy(&ret_fds->fds[ret_fds->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        }
}

int helper_receive(int socket, void *message, size_t size, struct received_fds *ret_fds) {
        struct iovec iov = {message, size};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * HELPER_FDS_MAX)];
        } control;
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n;

        do
                n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET ? -EPIPE : -errno;
        take_fds(&msg, ret_fds);
        if (n == 0)
                return -EPIPE;
        if ((size_t)n != size || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
                received_fds_close(ret_fds);
                return -EBADMSG;
        }
        return 0;
}

void received_fds_close(struct received_fds *fds) {
        for (int i = 0; i < fds->count; i++)
                if (fds->fds[i] >= 0)
                        close(fds->fds[i]);
        fds->count = 0;
}
