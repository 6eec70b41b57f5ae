/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher and the zygote answer the server. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "protocol.h"
#include "util.h"

void zygote_reply_send(const struct zygote_reply *reply, int fd) {
        struct iovec iov = {(void *)reply, sizeof(*reply)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

        if (fd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        }
        while (sendmsg(ZYGOTE_SOCKET_FD, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
                ;
}

void zygote_reply_failure(uint64_t id, const struct sbx_error *err) {
        struct zygote_reply reply = {.type = ZYGOTE_FAILED, .code = err->code != 0 ? err->code : -EIO, .id = id};

        snprintf(reply.text, sizeof(reply.text), "%s",
                 err->message[0] != '\0' ? err->message : "a helper of the jail failed");
        snprintf(reply.hint, sizeof(reply.hint), "%s", err->hint);
        zygote_reply_send(&reply, -1);
}
