/* SPDX-License-Identifier: Apache-2.0 */
/* Whole messages with descriptors over SOCK_SEQPACKET, on the helper's side; protocol.h has the messages. */
#pragma once

#include <stddef.h>

#include "protocol.h"

struct received_fds {
        int fds[HELPER_FDS_MAX];
        int count;
};

/* 0, or a negative errno. `fd`: -1 for none; it stays the caller's. */
int helper_send(int socket, const void *message, size_t size, int fd);
/* One message of exactly `size` bytes; its descriptors are the caller's. -EPIPE: nobody is at the other end any more.
 * -EBADMSG: of another size, or with too many descriptors; none of them stays open. */
int helper_receive(int socket, void *message, size_t size, struct received_fds *ret_fds);
void received_fds_close(struct received_fds *fds);
