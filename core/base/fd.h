/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: whole reads and writes that honour a call's deadline and cancel fd, pipes, waiting. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

int sbx_fd_set_nonblocking(int fd, bool nonblocking);
int sbx_fd_pipe(int ret_fds[2]);                 /* O_CLOEXEC */
int sbx_fd_socketpair(int type, int ret_fds[2]); /* AF_UNIX, SOCK_CLOEXEC | type */
/* Waits for `events` (poll bits) on `fd`. 0: ready; -ETIMEDOUT, -ECANCELED, -errno. `call` may be NULL. */
int sbx_fd_wait(int fd, short events, const struct sbx_call *call);
/* All of it or an error; works on blocking and non-blocking descriptors; never raises SIGPIPE on a socket. */
int sbx_fd_write_all(int fd, struct sbx_bytes bytes, const struct sbx_call *call);
int sbx_fd_read_all(int fd, void *data, size_t size, const struct sbx_call *call); /* -EPIPE on early end of file */
/* A whole file, up to max bytes (-EFBIG), regular files only (-EINVAL); symlinks are followed. */
int sbx_file_read(int dir_fd, const char *path, size_t max, struct sbx_buffer *out, struct sbx_error *err);
/* The same of a descriptor that is open already, from its position on; `path` is for errors. */
int sbx_fd_read_file(int fd, const char *path, size_t max, struct sbx_buffer *out, struct sbx_error *err);
