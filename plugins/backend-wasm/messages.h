/* SPDX-License-Identifier: Apache-2.0 */
/* Whole messages with descriptors over SOCK_SEQPACKET; helper/protocol.h has the messages. */
#pragma once

#include <stddef.h>

#include <snipara-sandbox/types.h>

/* -EPIPE: nobody is at the other end any more. */
int message_send(int socket, const void *message, size_t size, const int *fds, size_t fd_count);
/* One message of exactly `size` bytes, and its descriptor: -1 if none. -EPIPE, -EBADMSG (of another size, or with more
 * than one descriptor), -ETIMEDOUT, -ECANCELED. */
int message_receive(int socket, void *message, size_t size, const struct sbx_call *call, int limit_ms, int *ret_fd);
